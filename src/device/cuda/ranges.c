/* ranges.c -- see ranges.h. */
#include "device/cuda/ranges.h"

#include <stdbool.h>
#include <stddef.h>

#define DEPTH_MAX 128 /* of a thread; deeper ones are not recorded */

struct range {
    opm_span span;
    const void *key;
    bool closed;
};

static __thread struct {
    struct range range[DEPTH_MAX];
    int depth;
    int beyond; /* that found no room */
} stack;

int ranges_depth(void)
{
    return stack.depth + stack.beyond;
}

opm_span *ranges_open(const void *key)
{
    struct range *r;

    if (stack.depth == DEPTH_MAX) {
        stack.beyond++;
        return NULL;
    }
    r = &stack.range[stack.depth++];
    *r = (struct range){ opm_span_none(), key, false };
    return &r->span;
}

/* The innermost of a key, counted from 1; 0: there is none. */
static int find(const void *key)
{
    int at = stack.depth;

    while (at > 0 && (stack.range[at - 1].key != key || stack.range[at - 1].closed))
        at--;
    return at;
}

static void end_closed(void)
{
    while (stack.depth > 0 && stack.range[stack.depth - 1].closed)
        opm_end(stack.range[--stack.depth].span);
}

int ranges_close(const void *key)
{
    int at;

    if (stack.beyond)
        return stack.depth + --stack.beyond;
    at = find(key);
    if (at == 0)
        return -1;
    stack.range[at - 1].closed = true;
    end_closed();
    return at - 1;
}

void ranges_close_through(const void *key)
{
    int at;

    if (stack.beyond) {
        stack.beyond--;
        return;
    }
    at = find(key);
    for (int i = at; at && i <= stack.depth; i++)
        stack.range[i - 1].closed = true;
    end_closed();
}
