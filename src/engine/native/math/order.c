/* order.c -- see order.h.
 *
 * An element is turned into a key, by which less is earlier, with its place behind: no two are
 * equal. Keys that may be among the first are collected; when there are a few times k, all but
 * the first k are dropped, and what is not before the last of those need not be looked at: little
 * more than n comparisons where the order is by chance, and n log k at worst. */
#include "engine/native/math/order.h"
#include "engine/native/isa/loops_isa.h"

#include <math.h>
#include <string.h>

#define TIMES 4  /* keys that are collected, of k */
#define LEAST 64 /* and at least */
#define TRIES 24 /* halves of which half were good ones */
#define FEW 16   /* of so few, each is put where it belongs */
#define RUN 12   /* elements that are sorted one by one */

struct wide {
    uint64_t key, at;
};

static int64_t capacity(int64_t n, int64_t k)
{
    return MIN(n, MAX(k * TIMES, (int64_t)LEAST));
}

int64_t order_room(int64_t n, int64_t k)
{
    if (n > INT64_MAX / (2 * TIMES * (int64_t)sizeof(struct wide)))
        return -1;
    return 2 * capacity(n, k) * (int64_t)sizeof(struct wide);
}

/* Merge sort of E, for which BEFORE(a, b) is an order; tmp has room for n. */
#define SORT(name, E, BEFORE)                                                   \
    static void name(E *x, E *tmp, int64_t n)                                   \
    {                                                                           \
        E *from = x, *to = tmp;                                                 \
        for (int64_t s = 0; s < n; s += RUN)                                    \
            for (int64_t i = s + 1; i < MIN(s + RUN, n); i++) {                 \
                E e = x[i];                                                     \
                int64_t j = i;                                                  \
                for (; j > s && BEFORE(e, x[j - 1]); j--)                       \
                    x[j] = x[j - 1];                                            \
                x[j] = e;                                                       \
            }                                                                   \
        for (int64_t len = RUN; len < n; len *= 2) {                            \
            E *swap = from;                                                     \
            for (int64_t s = 0; s < n; s += 2 * len) {                          \
                int64_t a = s, m = MIN(s + len, n), b = m, e = MIN(m + len, n); \
                for (int64_t i = s; i < e; i++) {                               \
                    bool left = b >= e || (a < m && BEFORE(from[a], from[b]));  \
                    to[i] = from[left ? a : b];                                 \
                    a += left;                                                  \
                    b += !left;                                                 \
                }                                                               \
            }                                                                   \
            from = to;                                                          \
            to = swap;                                                          \
        }                                                                       \
        if (from != x)                                                          \
            memcpy(x, from, (size_t)n * sizeof(*x));                            \
    }

/* The k first ones of n to the front, in any order; by halves, and by sorting them where these are
 * bad ones again and again. */
#define SELECT(name, sort, E, BEFORE)                                 \
    static void name(E *x, E *tmp, int64_t n, int64_t k)              \
    {                                                                 \
        int64_t lo = 0, hi = n;                                       \
        for (int tries = 0; hi - lo > RUN; tries++) {                 \
            E a = x[lo], b = x[lo + (hi - lo) / 2], c = x[hi - 1], p; \
            int64_t i = lo, j = hi - 1;                               \
            if (tries > TRIES)                                        \
                break;                                                \
            p = BEFORE(a, b) ? (BEFORE(b, c)   ? b                    \
                                : BEFORE(a, c) ? c                    \
                                               : a)                   \
                             : (BEFORE(a, c)   ? a                    \
                                : BEFORE(b, c) ? c                    \
                                               : b);                  \
            while (i <= j) {                                          \
                while (BEFORE(x[i], p))                               \
                    i++;                                              \
                while (BEFORE(p, x[j]))                               \
                    j--;                                              \
                if (i <= j) {                                         \
                    E e = x[i];                                       \
                    x[i++] = x[j];                                    \
                    x[j--] = e;                                       \
                }                                                     \
            }                                                         \
            if (k <= j)                                               \
                hi = j + 1;                                           \
            else if (k >= i)                                          \
                lo = i;                                               \
            else                                                      \
                return;                                               \
        }                                                             \
        sort(x + lo, tmp, hi - lo);                                   \
    }

/* One more into the have < k (or k) first ones, which are sorted. */
#define INSERT(E, BEFORE, x, have, k, e)                  \
    do {                                                  \
        int64_t at_ = (have) < (k) ? (have)++ : (k)-1;    \
        for (; at_ > 0 && BEFORE(e, (x)[at_ - 1]); at_--) \
            (x)[at_] = (x)[at_ - 1];                      \
        (x)[at_] = e;                                     \
    } while (0)

#define BEFORE_NARROW(a, b) ((a) < (b))
#define BEFORE_WIDE(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).at < (b).at))
SORT(sort_narrow, uint64_t, BEFORE_NARROW)
SORT(sort_wide, struct wide, BEFORE_WIDE)
SELECT(select_narrow, sort_narrow, uint64_t, BEFORE_NARROW)
SELECT(select_wide, sort_wide, struct wide, BEFORE_WIDE)

/* Bits of a number in ascending order. */
static inline uint32_t key_float(float f)
{
    uint32_t u;

    if (isnan(f))
        return UINT32_MAX;
    f += 0.0f; /* one zero */
    memcpy(&u, &f, sizeof(u));
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

static inline uint64_t key_double(double f)
{
    uint64_t u;

    if (isnan(f))
        return UINT64_MAX;
    f += 0.0;
    memcpy(&u, &f, sizeof(u));
    return u >> 63 ? ~u : u | (uint64_t)1 << 63;
}

static inline uint32_t key_narrow(enum tensor_type type, const void *x, int64_t i)
{
    switch (type) {
    case TENSOR_F32:
        return key_float(((const float *)x)[i]);
    case TENSOR_I8:
        return (uint32_t)((const int8_t *)x)[i] ^ 0x80000000u;
    case TENSOR_I16:
        return (uint32_t)((const int16_t *)x)[i] ^ 0x80000000u;
    case TENSOR_I32:
        return (uint32_t)((const int32_t *)x)[i] ^ 0x80000000u;
    case TENSOR_U8:
    case TENSOR_BOOL:
        return ((const uint8_t *)x)[i];
    case TENSOR_U16:
        return ((const uint16_t *)x)[i];
    default:
        return ((const uint32_t *)x)[i];
    }
}

static inline uint64_t key_wide(enum tensor_type type, const void *x, int64_t i)
{
    if (type == TENSOR_F64)
        return key_double(((const double *)x)[i]);
    if (type == TENSOR_I64)
        return (uint64_t)((const int64_t *)x)[i] ^ (uint64_t)1 << 63;
    return ((const uint64_t *)x)[i];
}

static void first_narrow(const struct isa *isa, enum tensor_type type, const void *x, int64_t step,
                         int64_t n, int64_t k, bool greatest, int64_t *at, uint64_t *room)
{
    int64_t cap = capacity(n, k), have = 0;
    uint64_t last = UINT64_MAX;
    bool skip = type == TENSOR_F32 && step == 1;
    float edge = 0;

    for (int64_t i = 0; i < n; i++) {
        uint64_t e;

        if (skip && last != UINT64_MAX)
            i = isa->loops->beyond((const float *)x, i, n, edge, greatest);
        if (i >= n)
            break;
        e = key_narrow(type, x, i * step);
        e = (greatest ? ~e & UINT32_MAX : e) << 32 | (uint64_t)i;
        if (e >= last)
            continue;
        if (k <= FEW) {
            INSERT(uint64_t, BEFORE_NARROW, room, have, k, e);
            if (have < k)
                continue;
            last = room[k - 1];
        } else {
            room[have++] = e;
            if (have < cap || i + 1 == n)
                continue;
            select_narrow(room, room + cap, have, k);
            have = k;
            last = room[0];
            for (int64_t q = 1; q < k; q++)
                last = MAX(last, room[q]);
        }
        if (skip)
            edge = ((const float *)x)[last & UINT32_MAX];
    }
    if (have > 2 * k)
        select_narrow(room, room + cap, have, k);
    sort_narrow(room, room + cap, have > 2 * k ? k : have);
    for (int64_t i = 0; i < k; i++)
        at[i] = (int64_t)(room[i] & UINT32_MAX);
}

static void first_wide(enum tensor_type type, const void *x, int64_t step, int64_t n, int64_t k,
                       bool greatest, int64_t *at, struct wide *room)
{
    int64_t cap = capacity(n, k), have = 0;
    struct wide last = { UINT64_MAX, UINT64_MAX };

    for (int64_t i = 0; i < n; i++) {
        uint64_t key = key_wide(type, x, i * step);
        struct wide e = { greatest ? ~key : key, (uint64_t)i };

        if (!BEFORE_WIDE(e, last))
            continue;
        if (k <= FEW) {
            INSERT(struct wide, BEFORE_WIDE, room, have, k, e);
            if (have == k)
                last = room[k - 1];
            continue;
        }
        room[have++] = e;
        if (have < cap || i + 1 == n)
            continue;
        select_wide(room, room + cap, have, k);
        have = k;
        last = room[0];
        for (int64_t q = 1; q < k; q++)
            last = BEFORE_WIDE(last, room[q]) ? room[q] : last;
    }
    if (have > 2 * k)
        select_wide(room, room + cap, have, k);
    sort_wide(room, room + cap, have > 2 * k ? k : have);
    for (int64_t i = 0; i < k; i++)
        at[i] = (int64_t)room[i].at;
}

void order_first(const struct isa *isa, enum tensor_type type, const void *x, int64_t step,
                 int64_t n, int64_t k, bool greatest, int64_t *at, void *room)
{
    if (k == 0)
        return;
    if (nt_width(type) == 8)
        first_wide(type, x, step, n, k, greatest, at, room);
    else
        first_narrow(isa, type, x, step, n, k, greatest, at, room);
}
