/* ranges.c -- see ranges.h. */
#include "device/cuda/ranges.h"

#include "base/alloc.h"
#include "base/common.h"
#include "device/cuda/per_thread.h"

#include <pthread.h>

#define DEPTH_MAX 128 /* of a thread; deeper ones are not recorded */

struct range {
    opm_span span;
    const void *key;
    bool closed;
};

struct stack {
    int depth;
    int beyond; /* that found no room */
    struct range range[DEPTH_MAX];
};

static PER_THREAD struct stack *stack;
static pthread_key_t stack_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

static void free_stack(void *p)
{
    stack = NULL;
    mem_free(p);
}

static void make_key(void)
{
    pthread_key_create(&stack_key, free_stack);
}

__attribute__((noinline, cold)) static struct stack *make_stack(void)
{
    stack = mem_calloc(1, sizeof(*stack));
    pthread_once(&stack_once, make_key);
    pthread_setspecific(stack_key, stack);
    return stack;
}

int ranges_depth(void)
{
    return stack ? stack->depth + stack->beyond : 0;
}

opm_span *ranges_open(const void *key)
{
    struct stack *s = LIKELY(stack) ? stack : make_stack();
    struct range *r;

    if (UNLIKELY(!s))
        return NULL;
    if (UNLIKELY(s->depth == DEPTH_MAX)) {
        s->beyond++;
        return NULL;
    }
    r = &s->range[s->depth++];
    *r = (struct range){ opm_span_none(), key, false };
    return &r->span;
}

/* The innermost of a key, counted from 1; 0: there is none. */
static int find(const struct stack *s, const void *key)
{
    int at = s->depth;

    while (at > 0 && (s->range[at - 1].key != key || s->range[at - 1].closed))
        at--;
    return at;
}

static void end_closed(struct stack *s)
{
    while (s->depth > 0 && s->range[s->depth - 1].closed)
        opm_end(s->range[--s->depth].span);
}

int ranges_close(const void *key)
{
    struct stack *s = stack;
    int at;

    if (!s)
        return -1;
    if (s->beyond)
        return s->depth + --s->beyond;
    at = find(s, key);
    if (at == 0)
        return -1;
    s->range[at - 1].closed = true;
    end_closed(s);
    return at - 1;
}

void ranges_close_through(const void *key)
{
    struct stack *s = stack;
    int at;

    if (UNLIKELY(!s))
        return;
    if (UNLIKELY(s->beyond)) {
        s->beyond--;
        return;
    }
    at = s->depth;
    if (LIKELY(at && s->range[at - 1].key == key && !s->range[at - 1].closed)) {
        s->depth--;
        opm_end(s->range[at - 1].span);
        if (UNLIKELY(at > 1 && s->range[at - 2].closed))
            end_closed(s);
        return;
    }
    at = find(s, key);
    for (int i = at; at && i <= s->depth; i++)
        s->range[i - 1].closed = true;
    end_closed(s);
}
