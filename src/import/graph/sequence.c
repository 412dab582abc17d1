/* sequence.c -- see sequence.h. */
#include "import/graph/sequence.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"

#include <string.h>

/* So many elements may be in one of both only before order is given up: memory is of the square. */
#define EDITS_MAX 1500
#define OUTSIDE (INT32_MIN / 2) /* a place that no edit leads to */

struct middle {
    const uint32_t *a, *b;
    int32_t na, nb;
    int32_t *reach; /* of every number of edits d its diagonals -d .. d: how far a came */
};

static size_t row_of(int32_t d)
{
    return (size_t)d * (size_t)d; /* rows before it have 1, 3, 5, ... diagonals */
}

static int32_t *reach_at(const struct middle *m, int32_t d, int32_t diagonal)
{
    return &m->reach[row_of(d) + (size_t)(diagonal + d)];
}

/* From the row before: whether diagonal k is reached by leaving out an element of b. */
static bool from_b(const struct middle *m, int32_t d, int32_t k)
{
    if (k == -d)
        return true;
    if (k == d)
        return false;
    return *reach_at(m, d - 1, k - 1) < *reach_at(m, d - 1, k + 1);
}

static int32_t step_to(const struct middle *m, int32_t d, int32_t k)
{
    int32_t x = d == 0            ? 0
                : from_b(m, d, k) ? *reach_at(m, d - 1, k + 1)
                                  : *reach_at(m, d - 1, k - 1) + 1;

    return x < 0 || x > m->na || x - k < 0 || x - k > m->nb ? OUTSIDE : x;
}

/* The least number of edits, or -1: more than EDITS_MAX. Rows of m->reach are filled up to it. A
 * diagonal is a's place minus b's. */
static int32_t edits(struct middle *m, int32_t most)
{
    for (int32_t d = 0; d <= most; d++) {
        for (int32_t k = -d; k <= d; k++) {
            int32_t x = (k - d) % 2 ? OUTSIDE : step_to(m, d, k);

            while (x >= 0 && x < m->na && x - k < m->nb && m->a[x] == m->b[x - k])
                x++;
            *reach_at(m, d, k) = x;
            if (x == m->na && x - k == m->nb)
                return d;
        }
    }
    return -1;
}

static void trace_back(const struct middle *m, int32_t d, size_t first, uint32_t *to,
                       size_t *ordered)
{
    int32_t k = m->na - m->nb;

    for (; d >= 0; d--) {
        int32_t x = *reach_at(m, d, k), start = step_to(m, d, k);

        for (; x > start; ++*ordered) {
            x--;
            to[x] = (uint32_t)(first + (size_t)(x - k));
        }
        if (d > 0)
            k = from_b(m, d, k) ? k + 1 : k - 1;
    }
}

/* In order, between what both begin and end with. */
static int align_middle(const uint32_t *a, size_t na, const uint32_t *b, size_t nb, size_t first,
                        uint32_t *to, size_t *ordered)
{
    struct middle m = { .a = a, .b = b, .na = (int32_t)na, .nb = (int32_t)nb };
    int32_t most = (int32_t)MIN(na + nb, (size_t)EDITS_MAX), d;

    if (!na || !nb || na > INT32_MAX / 4 || nb > INT32_MAX / 4)
        return 0;
    m.reach = mem_alloc(row_of(most + 1) * sizeof(*m.reach));
    if (!m.reach)
        return OPM_ENOMEM;
    d = edits(&m, most);
    if (d >= 0)
        trace_back(&m, d, first, to, ordered);
    mem_free(m.reach);
    return 0;
}

/* By name alone, each the next that is free. */
static int align_rest(const uint32_t *a, size_t na, const uint32_t *b, size_t nb, uint32_t *to,
                      size_t *matched)
{
    uint32_t *next = mem_alloc((nb + 1) * sizeof(*next)); /* of the same name that is free */
    uint8_t *taken = mem_calloc(nb + 1, 1);
    struct u64map head = { 0 };
    int rc = next && taken ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < na && rc == 0; i++)
        if (to[i] != SEQUENCE_NONE)
            taken[to[i]] = 1;
    for (size_t i = nb; i-- > 0 && rc == 0;) {
        const uint64_t *at = taken[i] ? NULL : u64map_get(&head, b[i]);

        if (taken[i])
            continue;
        next[i] = at ? (uint32_t)*at : SEQUENCE_NONE;
        rc = u64map_put(&head, b[i], i);
    }
    for (size_t i = 0; i < na && rc == 0; i++) {
        uint64_t *at = to[i] == SEQUENCE_NONE ? u64map_get(&head, a[i]) : NULL;

        if (!at || *at == SEQUENCE_NONE)
            continue;
        to[i] = (uint32_t)*at;
        *at = next[to[i]];
        ++*matched;
    }
    u64map_release(&head);
    mem_free(next);
    mem_free(taken);
    return rc;
}

int sequence_align(const uint32_t *a, size_t na, const uint32_t *b, size_t nb, uint32_t *to,
                   size_t *matched, size_t *ordered)
{
    size_t head = 0, tail = 0;
    int rc;

    while (head < na && head < nb && a[head] == b[head])
        head++;
    while (tail < na - head && tail < nb - head && a[na - 1 - tail] == b[nb - 1 - tail])
        tail++;
    for (size_t i = 0; i < na; i++)
        to[i] = i < head ? (uint32_t)i : i >= na - tail ? (uint32_t)(nb - (na - i)) : SEQUENCE_NONE;
    *ordered = head + tail;
    rc = align_middle(a + head, na - head - tail, b + head, nb - head - tail, head, to + head,
                      ordered);
    *matched = *ordered;
    if (rc == 0 && *matched < na && *matched < nb)
        rc = align_rest(a, na, b, nb, to, matched);
    return rc;
}

/* Names in a row by which a sequence is looked for in a longer one. */
#define SEED_NAMES 8
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15) /* odd, so that no element is lost */

size_t sequence_find(const uint32_t *a, size_t na, const uint32_t *b, size_t nb)
{
    uint64_t want = 0, have = 0, oldest = 1;

    if (!na || na > nb)
        return SIZE_MAX;
    for (size_t i = 0; i < na; i++) {
        want = want * HASH_FACTOR + a[i];
        have = have * HASH_FACTOR + b[i];
        oldest *= i ? HASH_FACTOR : 1;
    }
    for (size_t i = 0;; i++) {
        if (want == have && memcmp(a, b + i, na * sizeof(*a)) == 0)
            return i;
        if (i + na >= nb)
            return SIZE_MAX;
        have = (have - b[i] * oldest) * HASH_FACTOR + b[i + na];
    }
}

size_t sequence_seed(const uint32_t *a, size_t na, const uint32_t *b, size_t nb, size_t *offset)
{
    size_t seed = MIN(na, (size_t)SEED_NAMES);

    for (*offset = 0; *offset + seed <= na; *offset += seed) {
        size_t at = sequence_find(a + *offset, seed, b, nb);

        if (at != SIZE_MAX)
            return at;
    }
    return SIZE_MAX;
}
