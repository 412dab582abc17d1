/* broadcast.c -- see broadcast.h. */
#include "engine/native/math/broadcast.h"
#include "engine/native/math/turn.h"

#include <string.h>

bool broadcast_join(struct shape *out, const struct shape *s)
{
    int32_t rank = MAX(out->rank, s->rank);
    struct shape r = { .rank = rank };

    for (int32_t i = 0; i < rank; i++) {
        int64_t a = i < rank - out->rank ? 1 : out->dim[i - (rank - out->rank)];
        int64_t b = i < rank - s->rank ? 1 : s->dim[i - (rank - s->rank)];

        if (a != b && a != 1 && b != 1)
            return false;
        r.dim[i] = a == 1 ? b : a;
    }
    *out = r;
    return true;
}

/* Merge dimensions that are contiguous for every operand, and drop those of size 1. */
static void merge(struct broadcast *b)
{
    int r = 0;

    for (int i = 0; i < b->rank; i++) {
        bool join = r > 0;

        if (b->dim[i] == 1 && b->rank > 1)
            continue;
        for (int k = 0; k < b->n && join; k++)
            join = b->stride[k][r - 1] == b->stride[k][i] * b->dim[i];
        if (!join)
            r++;
        b->dim[r - 1] = join ? b->dim[r - 1] * b->dim[i] : b->dim[i];
        for (int k = 0; k < b->n; k++)
            b->stride[k][r - 1] = b->stride[k][i];
    }
    if (r == 0) {
        b->dim[0] = 1;
        for (int k = 0; k < b->n; k++)
            b->stride[k][0] = 0;
        r = 1;
    }
    b->rank = r;
}

void broadcast_init(struct broadcast *b, const struct shape *out, const struct nt *const *in, int n)
{
    b->rank = MAX(out->rank, 1);
    b->n = n;
    b->dim[0] = 1;
    b->total = shape_count(out);
    for (int32_t i = 0; i < out->rank; i++)
        b->dim[i] = out->dim[i];
    for (int k = 0; k < n; k++) {
        int32_t rank = in[k]->shape.rank;
        int64_t step = 1;

        for (int i = 0; i < b->rank; i++)
            b->stride[k][i] = 0;
        for (int32_t i = rank - 1; i >= 0; i--) {
            int64_t d = in[k]->shape.dim[i];

            b->stride[k][b->rank - rank + i] = d == 1 ? 0 : step;
            step *= d;
        }
    }
    merge(b);
}

void broadcast_each(const struct broadcast *b, int64_t begin, int64_t end, broadcast_run *fn,
                    void *arg)
{
    int64_t idx[SHAPE_RANK_MAX + 1], off[BROADCAST_MAX] = { 0 }, stride[BROADCAST_MAX] = { 0 },
                                     rest = begin;
    int last = b->rank - 1;

    for (int i = last; i >= 0; i--) {
        idx[i] = rest % b->dim[i];
        rest /= b->dim[i];
        for (int k = 0; k < b->n; k++)
            off[k] += idx[i] * b->stride[k][i];
    }
    for (int k = 0; k < b->n; k++)
        stride[k] = b->stride[k][last];
    while (begin < end) {
        int64_t n = MIN(b->dim[last] - idx[last], end - begin);
        int i = last - 1;

        fn(arg, begin, off, stride, n);
        begin += n;
        for (int k = 0; k < b->n; k++)
            off[k] -= idx[last] * stride[k];
        idx[last] = 0;
        for (; i >= 0; i--) {
            idx[i]++;
            for (int k = 0; k < b->n; k++)
                off[k] += b->stride[k][i];
            if (idx[i] < b->dim[i])
                break;
            for (int k = 0; k < b->n; k++)
                off[k] -= idx[i] * b->stride[k][i];
            idx[i] = 0;
        }
    }
}

struct copy {
    struct broadcast b;
    char *out;
    const char *in;
    size_t width;
};

#define FILL_BYTES 4096 /* that are copied at a time; they stay in the cache */

void fill_with(void *out, const void *value, size_t width, int64_t n)
{
    char *to = out;
    size_t bytes = (size_t)n * width, most = MAX(FILL_BYTES / width * width, width), done = width;

    if (n <= 0)
        return;
    memcpy(to, value, width);
    if (width <= 1 || (to[0] == to[width - 1] && memcmp(to, to + 1, width - 1) == 0)) {
        memset(to, to[0], bytes);
        return;
    }
    while (done < bytes) {
        size_t len = MIN(MIN(done, most), bytes - done);

        memcpy(to + done, to, len);
        done += len;
    }
}

#define COPY_LOOP(T)                                  \
    do {                                              \
        T *to_ = (T *)(void *)out;                    \
        const T *from_ = (const T *)(const void *)in; \
        if (s == 2)                                   \
            for (int64_t i = 0; i < n; i++)           \
                to_[i] = from_[2 * i];                \
        else                                          \
            for (int64_t i = 0; i < n; i++)           \
                to_[i] = from_[i * s];                \
    } while (0)

static void copy_run(void *arg, int64_t at, const int64_t *off, const int64_t *stride, int64_t n)
{
    const struct copy *c = arg;
    char *out = c->out + at * (int64_t)c->width;
    const char *in = c->in + off[0] * (int64_t)c->width;
    int64_t s = stride[0];

    if (s == 1) {
        memcpy(out, in, (size_t)n * c->width);
        return;
    }
    if (s == 0) {
        fill_with(out, in, c->width, n);
        return;
    }
    switch (c->width) {
    case 1:
        COPY_LOOP(uint8_t);
        break;
    case 2:
        COPY_LOOP(uint16_t);
        break;
    case 4:
        COPY_LOOP(uint32_t);
        break;
    case 8:
        COPY_LOOP(uint64_t);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(out + i * (int64_t)c->width, in + i * s * (int64_t)c->width, c->width);
    }
}

static void copy_part(void *arg, int64_t begin, int64_t end, int thread)
{
    struct copy *c = arg;

    (void)thread;
    broadcast_each(&c->b, begin, end, copy_run, c);
}

#define TURN_NS 0.3  /* for an element, about */
#define TURN_ROWS 16 /* rows of the result that are written together: whole lines of the source */
#define TURN_FEW 256 /* the same where rows have two or three elements */

/* Elements whose neighbours in the result lie apart in the source, while another dimension's lie
 * side by side: blocks of a few by a few. */
struct turned {
    const struct broadcast *b;
    int along; /* the dimension with stride 1 */
    int64_t out_stride[SHAPE_RANK_MAX + 1];
    int64_t rows, strips; /* along it: of a strip, and strips */
    size_t width;
    const char *in;
    char *out;
};

static inline void turn4_u32(uint32_t *to, int64_t width, const uint32_t *from, int64_t step)
{
    turn4((float *)(void *)to, width, (const char *)from, step * (int64_t)sizeof(*from));
}

/* rows of n elements: out[j * os + i] = in[i * step + j]. */
#define TURN_STRIP(T, side, tile)                                                                 \
    static void strip_##T(T *out, int64_t os, const T *in, int64_t step, int64_t n, int64_t rows) \
    {                                                                                             \
        int64_t i = 0;                                                                            \
        if (n == 2 && os == 2) {                                                                  \
            for (int64_t j = 0; j < rows; j++) {                                                  \
                out[2 * j] = in[j];                                                               \
                out[2 * j + 1] = in[step + j];                                                    \
            }                                                                                     \
            return;                                                                               \
        }                                                                                         \
        if (n == 3 && os == 3) {                                                                  \
            for (int64_t j = 0; j < rows; j++) {                                                  \
                out[3 * j] = in[j];                                                               \
                out[3 * j + 1] = in[step + j];                                                    \
                out[3 * j + 2] = in[2 * step + j];                                                \
            }                                                                                     \
            return;                                                                               \
        }                                                                                         \
        for (; i + side <= n; i += side) {                                                        \
            int64_t j = 0;                                                                        \
            for (; j + side <= rows; j += side)                                                   \
                tile(out + j * os + i, os, in + i * step + j, step);                              \
            for (; j < rows; j++)                                                                 \
                for (int64_t q = 0; q < side; q++)                                                \
                    out[j * os + i + q] = in[(i + q) * step + j];                                 \
        }                                                                                         \
        for (; i < n; i++)                                                                        \
            for (int64_t j = 0; j < rows; j++)                                                    \
                out[j * os + i] = in[i * step + j];                                               \
    }
TURN_STRIP(uint8_t, 16, turn16_u8)
TURN_STRIP(uint16_t, 8, turn8_u16)
TURN_STRIP(uint32_t, 4, turn4_u32)
TURN_STRIP(uint64_t, 2, turn2_u64)

#define TURN_CASE(T)                                                                \
    case sizeof(T):                                                                 \
        strip_##T((T *)(void *)t->out + to, t->out_stride[t->along],                \
                  (const T *)(const void *)t->in + from, b->stride[0][b->rank - 1], \
                  b->dim[b->rank - 1], rows);                                       \
        break;

static void turn_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct turned *t = arg;
    const struct broadcast *b = t->b;

    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t j0 = item % t->strips * t->rows, rest = item / t->strips, from = j0,
                to = j0 * t->out_stride[t->along], rows = MIN(t->rows, b->dim[t->along] - j0);

        for (int d = b->rank - 2; d >= 0; d--) {
            if (d == t->along)
                continue;
            from += rest % b->dim[d] * b->stride[0][d];
            to += rest % b->dim[d] * t->out_stride[d];
            rest /= b->dim[d];
        }
        switch (t->width) {
            TURN_CASE(uint8_t)
            TURN_CASE(uint16_t)
            TURN_CASE(uint32_t)
            TURN_CASE(uint64_t)
        }
    }
}

/* False: it is not of that kind. */
static bool turned_copy(struct pool *pool, const struct copy *c)
{
    const struct broadcast *b = &c->b;
    struct turned t = { .b = b, .along = -1, .width = c->width, .in = c->in, .out = c->out };
    int64_t step = 1, n = b->dim[b->rank - 1];

    for (int d = b->rank - 1; d >= 0; d--) {
        t.out_stride[d] = step;
        step *= b->dim[d];
        if (d < b->rank - 1 && b->stride[0][d] == 1)
            t.along = d;
    }
    if ((c->width != 1 && c->width != 2 && c->width != 4 && c->width != 8) || t.along < 0 ||
        b->stride[0][b->rank - 1] < 4 || b->dim[t.along] < 4 ||
        (n < 4 && t.out_stride[t.along] != n))
        return false;
    t.rows = n < 4 ? TURN_FEW : TURN_ROWS;
    t.strips = (b->dim[t.along] + t.rows - 1) / t.rows;
    pool_for(pool, b->total / n / b->dim[t.along] * t.strips,
             pool_grain((double)(n * t.rows) * TURN_NS), turn_part, &t);
    return true;
}

void strided_copy(struct pool *pool, void *out, const void *in, size_t width, int rank,
                  const int64_t *dim, const int64_t *stride)
{
    struct copy c = { .out = out, .in = in, .width = width };

    c.b.n = 1;
    c.b.rank = MAX(rank, 1);
    c.b.dim[0] = 1;
    c.b.total = 1;
    for (int i = 0; i < rank; i++) {
        c.b.dim[i] = dim[i];
        c.b.stride[0][i] = dim[i] == 1 ? 0 : stride[i];
        c.b.total *= dim[i];
    }
    if (c.b.total == 0)
        return;
    merge(&c.b);
    if (!turned_copy(pool, &c))
        pool_for(pool, c.b.total, 16384, copy_part, &c);
}
