/* correlated.c -- see correlated.h. */
#include "store/correlated.h"

#include "base/alloc.h"
#include "base/runsort.h"

#include <string.h>

static int by_number(const void *va, const void *vb)
{
    const struct correlated_span *a = va, *b = vb;

    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->span < b->span ? -1 : a->span > b->span;
}

int correlated_find(struct correlated *c, const struct store *st, enum correlated_side side,
                    enum correlated_which which)
{
    str_id hardware = strpool_find(store_strings(st), "hardware", strlen("hardware"));
    size_t nsite, nspan = store_nrow(st, TABLE_span), cap = 0, n = 0;
    const struct site *sites = store_sites(st, &nsite);
    const uint32_t *site = store_span_site(st);
    const int64_t *number;
    const void *col;
    int rc = store_column(st, TABLE_span, span_col_correlation, &col);

    *c = (struct correlated){ 0 };
    number = col;
    for (size_t i = 0; number && i < nspan && !rc; i++) {
        if (number[i] == OPM_NULL_I64 ||
            (hardware && sites[site[i]].layer == hardware) != (side == CORRELATED_HARDWARE))
            continue;
        if (GROW(c->of, cap, n + 1))
            c->of[n++] = (struct correlated_span){ number[i], (uint32_t)i };
        else
            rc = OPM_ENOMEM;
    }
    if (!rc)
        rc = runsort(c->of, n, sizeof(*c->of), by_number);
    for (size_t i = 0; i < n && !rc; i++) {
        bool again = c->n && c->of[c->n - 1].number == c->of[i].number;

        if (again && which == CORRELATED_FIRST)
            continue;
        c->of[c->n - again] = c->of[i];
        c->n += !again;
    }
    return rc;
}

void correlated_release(struct correlated *c)
{
    mem_free(c->of);
    *c = (struct correlated){ 0 };
}

uint32_t correlated_get(struct correlated *c, int64_t number)
{
    const struct correlated_span *of = c->of;
    size_t lo = c->last, hi = c->last, step = 1;

    if (number == OPM_NULL_I64 || !c->n)
        return OPM_NULL_ID;
    /* Away from the last one, twice as far each time, until it lies in [lo, hi). */
    while (lo && of[lo].number > number) {
        hi = lo;
        lo -= MIN(step, lo);
        step *= 2;
    }
    for (hi = MAX(hi, lo + 1); hi < c->n && of[hi].number <= number; step *= 2) {
        lo = hi;
        hi += MIN(step, c->n - hi);
    }
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;

        if (of[mid].number <= number)
            lo = mid;
        else
            hi = mid;
    }
    c->last = lo;
    return of[lo].number == number ? of[lo].span : OPM_NULL_ID;
}
