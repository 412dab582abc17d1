/* runsort.c -- see runsort.h. */
#include "base/runsort.h"

#include "base/alloc.h"
#include "base/common.h"

#include <opmeter/opmeter_error.h>
#include <string.h>

#define RUN_MIN 8 /* shorter runs are lengthened by insertion */

struct order {
    size_t size;
    int (*compare)(const void *, const void *);
};

/* Put the item at i into its place among those from `first` on; spare has room for one. */
static void insert(const struct order *o, char *items, size_t first, size_t i, char *spare)
{
    size_t at = i;

    while (at > first && o->compare(items + (at - 1) * o->size, items + i * o->size) > 0)
        at--;
    if (at == i)
        return;
    memcpy(spare, items + i * o->size, o->size);
    memmove(items + (at + 1) * o->size, items + at * o->size, (i - at) * o->size);
    memcpy(items + at * o->size, spare, o->size);
}

/* Where the ordered run ends that begins at `first`; with spare, a short one is lengthened. */
static size_t run_end(const struct order *o, char *items, size_t first, size_t n, char *spare)
{
    size_t i = first + 1;

    while (i < n && o->compare(items + (i - 1) * o->size, items + i * o->size) <= 0)
        i++;
    for (; spare && i < n && i - first < RUN_MIN; i++)
        insert(o, items, first, i, spare);
    return i;
}

static void merge(const struct order *o, char *to, const char *a, size_t na, const char *b,
                  size_t nb)
{
    while (na && nb) {
        if (o->compare(b, a) < 0) {
            memcpy(to, b, o->size);
            b += o->size;
            nb--;
        } else {
            memcpy(to, a, o->size);
            a += o->size;
            na--;
        }
        to += o->size;
    }
    if (na)
        memcpy(to, a, na * o->size);
    if (nb)
        memcpy(to + na * o->size, b, nb * o->size);
}

/* start[]: where the nrun runs begin, and n. Returns where the ordered items are. */
static char *merge_runs(const struct order *o, char *items, char *other, size_t *start, size_t nrun)
{
    size_t n = start[nrun];

    while (nrun > 1) {
        char *swap = items;
        size_t out = 0;

        for (size_t i = 0; i < nrun; i += 2) {
            size_t a = start[i], b = start[i + 1], c = i + 1 < nrun ? start[i + 2] : b;

            merge(o, other + a * o->size, items + a * o->size, b - a, items + b * o->size, c - b);
            start[out++] = a;
        }
        start[out] = n;
        nrun = out;
        items = other;
        other = swap;
    }
    return items;
}

int runsort(void *items, size_t n, size_t size, int (*compare)(const void *, const void *))
{
    struct order o = { size, compare };
    size_t *start = NULL, nrun = 0, cap = 0, end;
    char *other, *spare, *sorted;
    int rc = 0;

    if (n < 2 || run_end(&o, items, 0, n, NULL) == n)
        return 0;
    other = mem_alloc(n * size);
    spare = mem_alloc(size);
    if (!other || !spare)
        rc = OPM_ENOMEM;
    for (size_t i = 0; !rc && i < n; i = end) {
        if (!GROW(start, cap, nrun + 2)) {
            rc = OPM_ENOMEM;
            break;
        }
        end = run_end(&o, items, i, n, spare);
        start[nrun++] = i;
    }
    if (!rc) {
        start[nrun] = n;
        sorted = merge_runs(&o, items, other, start, nrun);
        if (sorted != items)
            memcpy(items, sorted, n * size);
    }
    mem_free(start);
    mem_free(spare);
    mem_free(other);
    return rc;
}
