/* intervals.h -- disjoint stretches of time, ascending. */
#ifndef ANALYZE_INTERVALS_H
#define ANALYZE_INTERVALS_H

#include "base/alloc.h"
#include <stdbool.h>
#include <stdint.h>

struct interval {
    int64_t from_ns, to_ns; /* from < to */
};

struct intervals {
    struct interval *at;
    size_t n, cap;
};

/* Unite with [from, to), which must not start before the last one added did. Empty ones are left
 * out. False when out of memory. */
static inline bool intervals_add(struct intervals *s, int64_t from_ns, int64_t to_ns)
{
    if (to_ns <= from_ns)
        return true;
    if (s->n && from_ns <= s->at[s->n - 1].to_ns) {
        if (to_ns > s->at[s->n - 1].to_ns)
            s->at[s->n - 1].to_ns = to_ns;
        return true;
    }
    if (!GROW(s->at, s->cap, s->n + 1))
        return false;
    s->at[s->n++] = (struct interval){ from_ns, to_ns };
    return true;
}

static inline void intervals_release(struct intervals *s)
{
    mem_free(s->at);
    *s = (struct intervals){ 0 };
}

#endif
