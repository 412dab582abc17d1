/* colpack.c -- see colpack.h. */
#include "format/colpack.h"

#include <string.h>

#define SAMPLE 2048 /* values by which the form is chosen */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t t = a % b;

        a = b;
        b = t;
    }
    return a;
}

/* Division by a number that stays the same, of multiples of it: by its inverse modulo 2^64, as one
 * at a time would take longer than all the rest. */
struct divisor {
    uint64_t step, below, inverse, most; /* below: bits under the lowest that is set; of odd part */
    unsigned shift;
};

static struct divisor divisor_of(uint64_t step)
{
    struct divisor d = { .step = step, .shift = (unsigned)__builtin_ctzll(step) };
    uint64_t odd = step >> d.shift;

    d.below = (step & -step) - 1;
    d.most = UINT64_MAX / odd;
    d.inverse = 3 * odd ^ 2; /* right in 5 bits; each round doubles them */
    for (int i = 0; i < 4; i++)
        d.inverse *= 2 - odd * d.inverse;
    return d;
}

static inline bool divides(const struct divisor *d, uint64_t v)
{
    return !(v & d->below) && (v >> d->shift) * d->inverse <= d->most;
}

/* The greatest number that divides all; 1 if all are 0. */
static struct divisor common_step(const uint64_t *v, size_t n)
{
    struct divisor d = divisor_of(1);
    size_t i = 0;

    while (i < n && !v[i])
        i++;
    if (i == n)
        return d;
    d = divisor_of(v[i]);
    for (; i < n && d.step > 1; i++)
        if (!divides(&d, v[i]))
            d = divisor_of(gcd(d.step, v[i]));
    return d;
}

static void divide(uint64_t *v, size_t n, const struct divisor *d)
{
    for (size_t i = 0; d->step > 1 && i < n; i++)
        v[i] = (v[i] >> d->shift) * d->inverse;
}

static uint8_t *put_width(uint8_t *out, const uint64_t *v, size_t n, uint64_t *scratch)
{
    uint64_t base = v[0];
    struct divisor d;

    for (size_t i = 1; i < n; i++)
        base = v[i] < base ? v[i] : base;
    for (size_t i = 0; i < n; i++)
        scratch[i] = v[i] - base;
    d = common_step(scratch, n);
    divide(scratch, n, &d);
    *out++ = COLPACK_WIDTH;
    out = varint_put(out, base);
    out = varint_put(out, d.step);
    return bits_put(out, scratch, n);
}

/* The differences are zigzag numbers unless none is negative; then they are even and step says so.
 */
static uint8_t *put_delta(uint8_t *out, const uint64_t *v, size_t n, uint64_t *scratch)
{
    struct divisor d;

    scratch[0] = 0;
    for (size_t i = 1; i < n; i++)
        scratch[i] = zigzag((int64_t)(v[i] - v[i - 1]));
    d = common_step(scratch, n);
    divide(scratch, n, &d);
    *out++ = COLPACK_DELTA;
    out = varint_put(out, v[0]);
    out = varint_put(out, d.step);
    return bits_put(out, scratch, n);
}

static inline uint32_t context(uint64_t last)
{
    return pack_context((uint32_t)last);
}

/* Inlined into the two below: without `by` there is but one last value, and columns may be short.
 */
static inline __attribute__((always_inline)) uint8_t *
put_guesses(uint8_t *out, const uint64_t *v, const uint32_t *by, uint64_t *last_of, size_t n)
{
    uint64_t follows[PACK_CONTEXTS] = { 0 };
    size_t run = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t *last = &last_of[by ? pack_context(by[i]) : 0];
        uint64_t *guess = &follows[context(*last)];

        *last = v[i];
        if (*guess == v[i]) {
            run++;
            continue;
        }
        *guess = v[i];
        out = varint_put(out, run);
        out = varint_put(out, v[i]);
        run = 0;
    }
    return varint_put(out, run);
}

static uint8_t *put_guess(uint8_t *out, const uint64_t *v, size_t n)
{
    uint64_t last = 0;

    *out++ = COLPACK_GUESS;
    return put_guesses(out, v, NULL, &last, n);
}

static uint8_t *put_guess_by(uint8_t *out, const uint64_t *v, const uint32_t *by, size_t n)
{
    uint64_t last_of[PACK_CONTEXTS] = { 0 };

    *out++ = COLPACK_GUESS_BY;
    return put_guesses(out, v, by, last_of, n);
}

static uint8_t *put_form(enum colpack_form form, uint8_t *out, const uint64_t *v,
                         const uint32_t *by, size_t n, uint64_t *scratch)
{
    switch (form) {
    case COLPACK_SAME:
        *out++ = COLPACK_SAME;
        return varint_put(out, v[0]);
    case COLPACK_WIDTH:
        return put_width(out, v, n, scratch);
    case COLPACK_DELTA:
        return put_delta(out, v, n, scratch);
    case COLPACK_GUESS:
        return put_guess(out, v, n);
    case COLPACK_GUESS_BY:
        break;
    }
    return put_guess_by(out, v, by, n);
}

uint8_t *colpack_put(uint8_t *out, const uint64_t *v, const uint32_t *by, size_t n,
                     uint64_t *scratch)
{
    size_t sample = n < SAMPLE ? n : SAMPLE, best_size = SIZE_MAX, same = 1;
    enum colpack_form best = COLPACK_WIDTH;

    if (!n)
        return out;
    while (same < n && v[same] == v[0])
        same++;
    if (same == n)
        return put_form(COLPACK_SAME, out, v, by, n, scratch);
    for (int form = COLPACK_WIDTH; form <= (by ? COLPACK_GUESS_BY : COLPACK_GUESS); form++) {
        size_t size =
            (size_t)(put_form((enum colpack_form)form, out, v, by, sample, scratch) - out);

        if (size < best_size) {
            best_size = size;
            best = (enum colpack_form)form;
        }
    }
    return put_form(best, out, v, by, n, scratch);
}

static const uint8_t *get_guess(const uint8_t *p, const uint8_t *end, uint64_t *v,
                                const uint32_t *by, size_t n)
{
    uint64_t follows[PACK_CONTEXTS] = { 0 }, last_of[PACK_CONTEXTS] = { 0 }, run;
    size_t i = 0;

    for (;;) {
        uint64_t *last;

        p = varint_get(p, end, &run);
        if (!p || run > n - i)
            return NULL;
        for (; run; run--, i++) {
            last = &last_of[by ? pack_context(by[i]) : 0];
            v[i] = *last = follows[context(*last)];
        }
        if (i == n)
            return p;
        last = &last_of[by ? pack_context(by[i]) : 0];
        p = varint_get(p, end, &v[i]);
        if (!p)
            return NULL;
        follows[context(*last)] = v[i];
        *last = v[i++];
    }
}

static const uint8_t *get_bits(const uint8_t *p, const uint8_t *end, uint64_t *v, size_t n,
                               bool delta)
{
    uint64_t base, step, x;

    p = varint_get(p, end, &base);
    p = varint_get(p, end, &step);
    p = p ? bits_get(p, end, v, n) : NULL;
    if (!p)
        return NULL;
    if (!delta) {
        for (size_t i = 0; i < n; i++)
            v[i] = base + v[i] * step;
        return p;
    }
    x = base;
    for (size_t i = 0; i < n; i++)
        v[i] = x += (uint64_t)unzigzag(v[i] * step);
    return p;
}

const uint8_t *colpack_get(const uint8_t *p, const uint8_t *end, uint64_t *v, const uint32_t *by,
                           size_t n)
{
    uint64_t same;

    if (!n)
        return p;
    if (p == end)
        return NULL;
    switch (*p++) {
    case COLPACK_SAME:
        p = varint_get(p, end, &same);
        for (size_t i = 0; p && i < n; i++)
            v[i] = same;
        return p;
    case COLPACK_WIDTH:
        return get_bits(p, end, v, n, false);
    case COLPACK_DELTA:
        return get_bits(p, end, v, n, true);
    case COLPACK_GUESS:
        return get_guess(p, end, v, NULL, n);
    case COLPACK_GUESS_BY:
        return by ? get_guess(p, end, v, by, n) : NULL;
    default:
        return NULL;
    }
}

static const uint8_t *skip_guess(const uint8_t *p, const uint8_t *end, size_t n)
{
    uint64_t run, value;

    for (;;) {
        p = varint_get(p, end, &run);
        if (!p || run > n)
            return NULL;
        n -= run;
        if (!n)
            return p;
        p = varint_get(p, end, &value);
        if (!p)
            return NULL;
        n--;
    }
}

const uint8_t *colpack_skip(const uint8_t *p, const uint8_t *end, size_t n)
{
    uint64_t value;

    if (!n)
        return p;
    if (p == end)
        return NULL;
    switch (*p++) {
    case COLPACK_SAME:
        return varint_get(p, end, &value);
    case COLPACK_WIDTH:
    case COLPACK_DELTA:
        p = varint_get(p, end, &value);
        p = varint_get(p, end, &value);
        return p ? bits_skip(p, end, n) : NULL;
    case COLPACK_GUESS:
        return skip_guess(p, end, n);
    default:
        return NULL;
    }
}
