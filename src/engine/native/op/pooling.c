/* pooling.c -- MaxPool, AveragePool, LpPool, their global forms, and MaxUnpool; 1 to 3 spatial
 * dimensions. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/math/window.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

struct pooling {
    struct window w;
    int64_t planes, c;
    bool include_pad;
    double p;
    bool rows;                      /* by rows_part(); the following are for it */
    bool table;                     /* of inverse divisors */
    int64_t lines, pitch;           /* at a time; of their pad */
    size_t shared_bytes, pad_bytes; /* of scratch: of all threads, of each */
};

static void plan_rows(struct op *op, struct pooling *q);

int pooling_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct pooling *q = kernel_new_state(op, sizeof(*q));
    int what = op->kernel->arg & POOL_WHAT;
    uint64_t types =
        what == POOL_MAX ? TYPES_FLOAT | TYPE_BIT(TENSOR_I8) | TYPE_BIT(TENSOR_U8) : TYPES_FLOAT;
    struct shape s;
    int rc = kernel_want(op, 0, types, err);

    if (!q)
        return kernel_nomem(op, err);
    if (rc)
        return rc;
    if (!(op->kernel->arg & POOL_GLOBAL))
        rc = window_pool(&q->w, op, &in->shape, &s, err);
    else if (in->shape.rank < 3 || in->shape.rank > 5)
        rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for %d dimensions", in->shape.rank);
    else
        window_global(&q->w, &in->shape, &s);
    if (rc)
        return rc;
    q->c = in->shape.dim[1];
    q->planes = in->shape.dim[0] * q->c;
    q->include_pad = node_attr_int(op->node, "count_include_pad", 0);
    q->p = node_attr(op->node, "p") && node_attr(op->node, "p")->type == ATTR_FLOAT
               ? (double)node_attr_float(op->node, "p", 2)
               : (double)node_attr_int(op->node, "p", 2);
    rc = kernel_set(op, 0, in->type, &s, err);
    if (!rc)
        rc = kernel_set(op, 1, TENSOR_I64, &s, err);
    if (!rc)
        plan_rows(op, q);
    return rc;
}

struct pooling_job {
    const struct op *op;
    const struct pooling *q;
};

/* Taps [*lo, *hi) of dimension d that lie inside for an output at o. */
static void inside(const struct window *w, int d, int64_t o, int64_t *start, int64_t *lo,
                   int64_t *hi)
{
    int64_t s = o * w->stride[d] - w->before[d], dl = w->dilation[d];

    *start = s;
    *lo = 0;
    *hi = w->kernel[d];
    if (s >= 0 && s + (*hi - 1) * dl < w->in[d])
        return;
    *lo = s < 0 ? MIN((-s + dl - 1) / dl, w->kernel[d]) : 0;
    *hi = s >= w->in[d] ? *lo : MIN((w->in[d] - 1 - s) / dl + 1, w->kernel[d]);
    *hi = MAX(*hi, *lo);
}

/* Taps that count for an average with padding: those within the padded input. */
static int64_t padded_taps(const struct window *w, int d, int64_t o)
{
    int64_t s = o * w->stride[d], end = w->in[d] + w->before[d] + w->after[d];

    return s >= end ? 0 : MIN((end - 1 - s) / w->dilation[d] + 1, w->kernel[d]);
}

/* One output of one plane: where its window begins, and the taps of it that are inside. */
struct tap_range {
    int64_t s[3], lo[3], hi[3], taps; /* taps: that an average with padding is divided by */
};

#define EACH_TAP(T, do_it)                                                                   \
    for (int64_t a = r->lo[0]; a < r->hi[0]; a++)                                            \
        for (int64_t b = r->lo[1]; b < r->hi[1]; b++) {                                      \
            int64_t first =                                                                  \
                ((r->s[0] + a * w->dilation[0]) * w->in[1] + r->s[1] + b * w->dilation[1]) * \
                    w->in[2] +                                                               \
                r->s[2];                                                                     \
            for (int64_t c = r->lo[2]; c < r->hi[2]; c++) {                                  \
                const int64_t k = first + c * w->dilation[2];                                \
                const T x = in[k];                                                           \
                do_it                                                                        \
            }                                                                                \
        }

/* The largest, and where it is; -1 if there is none. */
#define POOL_LARGEST(T, name)                                                                   \
    static int64_t name(const struct window *w, const struct tap_range *r, const T *in, T *out) \
    {                                                                                           \
        int64_t at = -1;                                                                        \
        T best = 0;                                                                             \
        EACH_TAP(                                                                               \
            T, if (at < 0 || x > best || x != x) {                                              \
                best = x;                                                                       \
                at = k;                                                                         \
            })                                                                                  \
        *out = best;                                                                            \
        return at;                                                                              \
    }                                                                                           \
    /* n windows that are whole, in two dimensions, from where the first one begins. */         \
    static void name##_row(const struct window *w, const T *in, int64_t n, T *out, int64_t *at) \
    {                                                                                           \
        const int64_t step = w->stride[2], dy = w->dilation[1] * w->in[2], dx = w->dilation[2], \
                      ky = w->kernel[1], kx = w->kernel[2];                                     \
        for (int64_t i = 0; i < n; i++, in += step) {                                           \
            int64_t place = 0;                                                                  \
            T best = *in;                                                                       \
            for (int64_t b = 0; b < ky; b++)                                                    \
                for (int64_t c = 0; c < kx; c++) {                                              \
                    const T x = in[b * dy + c * dx];                                            \
                    const bool more = (x > best) | (x != x);                                    \
                    best = more ? x : best;                                                     \
                    place = more ? b * dy + c * dx : place;                                     \
                }                                                                               \
            out[i] = best;                                                                      \
            at[i] = place + i * step;                                                           \
        }                                                                                       \
    }
POOL_LARGEST(float, largest_f32)
POOL_LARGEST(double, largest_f64)
POOL_LARGEST(int8_t, largest_i8)
POOL_LARGEST(uint8_t, largest_u8)

#define POOL_MEAN(T, name)                                                                    \
    static void name(const struct pooling *q, const struct tap_range *r, const T *in, T *out, \
                     bool average)                                                            \
    {                                                                                         \
        const struct window *w = &q->w;                                                       \
        int64_t count = 0;                                                                    \
        double sum = 0;                                                                       \
        EACH_TAP(T, sum += average ? (double)x : pow(fabs((double)x), q->p); count++;)        \
        *out = (T)(average ? sum / (double)MAX(q->include_pad ? r->taps : count, (int64_t)1)  \
                           : pow(sum, 1 / q->p));                                             \
    }
POOL_MEAN(float, mean_f32)
POOL_MEAN(double, mean_f64)

#define WHOLE_ROW 64 /* windows at a time */

/* Its index in the tensor, which counts columns first if asked to. */
static int64_t index_of(const struct window *w, int64_t plane, int64_t at, bool column)
{
    int64_t area = w->in[1] * w->in[2];

    at = MAX(at, (int64_t)0);
    if (column)
        at = at / area * area + at % w->in[2] * w->in[1] + at / w->in[2] % w->in[1];
    return plane * window_in(w) + at;
}

static void pool_one(const struct pooling_job *j, const struct tap_range *r, int64_t plane,
                     int64_t pos, int64_t *index, bool column)
{
    const struct window *w = &j->q->w;
    int what = j->op->kernel->arg & POOL_WHAT;
    int64_t from = plane * window_in(w), to = plane * window_out(w) + pos, at = -1;
    const void *in = kernel_in(j->op, 0)->data;
    void *out = kernel_out(j->op, 0)->data;

    switch (kernel_in(j->op, 0)->type) {
    case TENSOR_F32:
        if (what == POOL_MAX)
            at = largest_f32(w, r, (const float *)in + from, (float *)out + to);
        else
            mean_f32(j->q, r, (const float *)in + from, (float *)out + to, what == POOL_AVERAGE);
        break;
    case TENSOR_F64:
        if (what == POOL_MAX)
            at = largest_f64(w, r, (const double *)in + from, (double *)out + to);
        else
            mean_f64(j->q, r, (const double *)in + from, (double *)out + to, what == POOL_AVERAGE);
        break;
    case TENSOR_I8:
        at = largest_i8(w, r, (const int8_t *)in + from, (int8_t *)out + to);
        break;
    default:
        at = largest_u8(w, r, (const uint8_t *)in + from, (uint8_t *)out + to);
    }
    if (index)
        index[to] = index_of(w, plane, at, column);
}

#define LARGEST_ROW(T, name)                                      \
    name##_row(w, (const T *)kernel_in(j->op, 0)->data + from, n, \
               (T *)kernel_out(j->op, 0)->data + plane * window_out(w) + pos, at)

/* Windows of a row from x on that are whole, in two dimensions, and their greatest; how many. */
static int64_t largest_row(const struct pooling_job *j, const struct tap_range *r, int64_t plane,
                           int64_t pos, int64_t x, int64_t *index, bool column)
{
    const struct window *w = &j->q->w;
    int64_t start = x * w->stride[2] - w->before[2], reach = (w->kernel[2] - 1) * w->dilation[2],
            at[WHOLE_ROW], n, from;

    if ((j->op->kernel->arg & POOL_WHAT) != POOL_MAX || w->kernel[0] != 1 || r->hi[0] != 1 ||
        r->lo[1] || r->hi[1] != w->kernel[1] || start < 0 || start + reach >= w->in[2])
        return 0;
    n = MIN((w->in[2] - 1 - reach - start) / w->stride[2] + 1, w->out[2] - x);
    n = MIN(n, (int64_t)WHOLE_ROW);
    start += (r->s[0] * w->in[1] + r->s[1]) * w->in[2];
    from = plane * window_in(w) + start;
    switch (kernel_in(j->op, 0)->type) {
    case TENSOR_F32:
        LARGEST_ROW(float, largest_f32);
        break;
    case TENSOR_F64:
        LARGEST_ROW(double, largest_f64);
        break;
    case TENSOR_I8:
        LARGEST_ROW(int8_t, largest_i8);
        break;
    default:
        LARGEST_ROW(uint8_t, largest_u8);
    }
    for (int64_t i = 0; i < n && index; i++)
        index[plane * window_out(w) + pos + i] = index_of(w, plane, start + at[i], column);
    return n;
}

static void pooling_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pooling_job *j = arg;
    const struct window *w = &j->q->w;
    int64_t *index = kernel_out(j->op, 1) ? kernel_out(j->op, 1)->data : NULL;
    bool column = node_attr_int(j->op->node, "storage_order", 0);
    struct tap_range r;

    (void)thread;
    for (int64_t plane = begin; plane < end; plane++) {
        int64_t pos = 0;

        for (int64_t z = 0; z < w->out[0]; z++)
            for (int64_t y = 0; y < w->out[1]; y++) {
                int64_t taps = padded_taps(w, 0, z) * padded_taps(w, 1, y);

                inside(w, 0, z, &r.s[0], &r.lo[0], &r.hi[0]);
                inside(w, 1, y, &r.s[1], &r.lo[1], &r.hi[1]);
                for (int64_t x = 0, n; x < w->out[2]; x += n, pos += n) {
                    n = largest_row(j, &r, plane, pos, x, index, column);
                    if (n)
                        continue;
                    n = 1;
                    inside(w, 2, x, &r.s[2], &r.lo[2], &r.hi[2]);
                    r.taps = j->q->include_pad ? taps * padded_taps(w, 2, x) : 0;
                    pool_one(j, &r, plane, pos, index, column);
                }
            }
    }
}

/* Number of taps in dimension d that an average is divided by, for an output at o. */
static int64_t divisor(const struct pooling *q, int d, int64_t o)
{
    int64_t s, lo, hi;

    if (q->include_pad)
        return padded_taps(&q->w, d, o);
    inside(&q->w, d, o, &s, &lo, &hi);
    return hi - lo;
}

static size_t round_up(int64_t floats)
{
    return ((size_t)floats * sizeof(float) + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN;
}

/* The window is all there is. */
static bool whole(const struct window *w)
{
    for (int d = 0; d < 3; d++)
        if (w->out[d] != 1 || w->kernel[d] != w->in[d] || w->before[d] || w->after[d] ||
            (w->dilation[d] != 1 && w->kernel[d] != 1))
            return false;
    return true;
}

static void whole_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pooling_job *j = arg;
    const struct isa *isa = kernel_isa(j->op);
    int what = j->op->kernel->arg & POOL_WHAT;
    int64_t n = window_in(&j->q->w);
    enum isa_reduce f = what == POOL_MAX       ? R_MAX
                        : what == POOL_AVERAGE ? R_SUM
                        : j->q->p == 2         ? R_SQUARES
                                               : R_ABS;

    (void)thread;
    if (f == R_MAX) {
        float *out = (float *)kernel_out(j->op, 0)->data + begin;

        for (int64_t i = 0; i < end - begin; i++)
            out[i] = -INFINITY;
        isa->rows->folds->rows[FOLD_MAX][TENSOR_F32](
            out, (const float *)kernel_in(j->op, 0)->data + begin * n, n, n, end - begin);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        float r = isa->reduce(f, (const float *)kernel_in(j->op, 0)->data + i * n, n);

        ((float *)kernel_out(j->op, 0)->data)[i] = f == R_SUM       ? r / (float)n
                                                   : f == R_SQUARES ? sqrtf(r)
                                                                    : r;
    }
}

#define ROWS_MAX 64       /* that are put together at a time */
#define POINTERS_MAX 1024 /* to rows: of all lines at a time */
#define BAND_FLOATS 8192  /* that lines at a time take, which stay in the first-level cache */
#define TABLE_MAX 65536   /* outputs of a plane whose divisors are kept for all planes */

/* Of floats: a row of what there is beyond the input, divisors along x, and if there is a table the
 * inverse divisors of a plane. */
static float *shared_room(const struct pooling_job *j)
{
    return j->op->scratch;
}

/* A row, sums, pad. */
static float *own_room(const struct pooling_job *j, int thread)
{
    return (float *)(void *)((char *)j->op->scratch + j->q->shared_bytes +
                             j->q->pad_bytes * (size_t)thread);
}

/* Lines i .. i + p->lines of all planes: n windows each, of which rows from k0 on are taken. */
static void point_rows(const struct pooling_job *j, struct loops_pool *p, const float **row,
                       int64_t i, int64_t k0)
{
    const struct window *w = &j->q->w;
    const float *beyond = shared_room(j);
    int64_t y = i % w->out[1], z = i / w->out[1] % w->out[0], a0 = k0 / w->kernel[1],
            b0 = k0 % w->kernel[1];
    const float *in =
        (const float *)kernel_in(j->op, 0)->data + i / (w->out[0] * w->out[1]) * window_in(w);

    for (int64_t l = 0; l < p->lines && w->kernel[0] == 1; l++) {
        int64_t at = y * w->stride[1] - w->before[1] + b0 * w->dilation[1];
        const float *plane = in + (z * w->stride[0] - w->before[0]) * w->in[1] * w->in[2];
        bool none = (uint64_t)(z * w->stride[0] - w->before[0]) >= (uint64_t)w->in[0];

        for (int k = 0; k < p->rows; k++, at += w->dilation[1])
            *row++ = none || (uint64_t)at >= (uint64_t)w->in[1] ? beyond : plane + at * w->in[2];
        if (++y < w->out[1])
            continue;
        y = 0;
        if (++z < w->out[0])
            continue;
        z = 0;
        in += window_in(w);
    }
    for (int64_t l = 0; l < p->lines && w->kernel[0] > 1; l++) {
        int64_t az = z * w->stride[0] - w->before[0] + a0 * w->dilation[0],
                by = y * w->stride[1] - w->before[1], b = b0;

        for (int k = 0; k < p->rows; k++) {
            int64_t at = by + b * w->dilation[1];

            *row++ = az < 0 || at < 0 || az >= w->in[0] || at >= w->in[1]
                         ? beyond
                         : in + (az * w->in[1] + at) * w->in[2];
            if (++b == w->kernel[1]) {
                b = 0;
                az += w->dilation[0];
            }
        }
        if (++y < w->out[1])
            continue;
        y = 0;
        if (++z < w->out[0])
            continue;
        z = 0;
        in += window_in(w);
    }
}

/* Sums of lines i .. i + lines to averages, where no table has factors. */
static void divide(const struct pooling_job *j, float *out, int64_t i, int64_t lines, float *shared)
{
    const struct pooling *q = j->q;
    const struct window *w = &q->w;
    const struct isa *isa = kernel_isa(j->op);
    const float *counts = shared_room(j) + w->in[2];
    int64_t n = w->out[2];

    for (int64_t l = 0; l < lines; l++) {
        int64_t y = (i + l) % w->out[1], z = (i + l) / w->out[1] % w->out[0];

        isa->unary(U_AFFINE, shared, counts, n, (float)(divisor(q, 0, z) * divisor(q, 1, y)), 0);
        isa->binary(B_DIV, out + l * n, out + l * n, 1, shared, 1, n);
    }
}

/* Floats, by vectors along x, some lines of the output at a time. Every window has at least one
 * element. */
static void rows_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pooling_job *j = arg;
    const struct pooling *q = j->q;
    const struct window *w = &q->w;
    const struct isa *isa = kernel_isa(j->op);
    int what = j->op->kernel->arg & POOL_WHAT;
    float *shared = own_room(j, thread), *sums = shared + w->out[2];
    int64_t all = w->kernel[0] * w->kernel[1], last = end * w->out[0] * w->out[1];
    const float *row[POINTERS_MAX];
    struct loops_pool p = { .row = row,
                            .width = w->in[2],
                            .before = w->before[2],
                            .after = w->after[2],
                            .fill = what == POOL_MAX ? -INFINITY : 0,
                            .pad = sums + q->lines * w->out[2],
                            .pitch = q->pitch,
                            .n = w->out[2],
                            .taps = (int)w->kernel[2],
                            .stride = w->stride[2],
                            .dilation = w->dilation[2],
                            .max = what == POOL_MAX,
                            .factor = q->table ? shared_room(j) + w->in[2] + w->out[2] : NULL,
                            .period = w->out[0] * w->out[1],
                            .pre = what != POOL_LP ? PRE_NONE
                                   : q->p == 2     ? PRE_SQUARE
                                                   : PRE_ABS };

    for (int64_t l = 0; l < q->lines; l++)
        for (int64_t i = 0; i < p.before; i++)
            p.pad[l * p.pitch + i] = p.fill;
    for (int64_t i = begin * w->out[0] * w->out[1]; i < last; i += p.lines) {
        float *out = (float *)kernel_out(j->op, 0)->data + i * p.n;

        p.lines = MIN(q->lines, last - i);
        p.first = i % p.period;
        for (int64_t k = 0; k < all; k += p.rows) {
            p.rows = (int)MIN((int64_t)ROWS_MAX, all - k);
            point_rows(j, &p, row, i, k);
            p.out = k ? sums : out;
            isa->loops->pool(&p);
            if (k)
                isa->binary(p.max ? B_MAX : B_ADD, out, out, 1, sums, 1, p.lines * p.n);
        }
        if (what == POOL_AVERAGE && !q->table)
            divide(j, out, i, p.lines, shared);
        else if (p.pre == PRE_SQUARE)
            isa->unary(U_SQRT, out, out, p.lines * p.n, 0, 0);
    }
}

/* Whether rows_part() can do it, and its scratch memory. */
static void plan_rows(struct op *op, struct pooling *q)
{
    const struct window *w = &q->w;
    int what = op->kernel->arg & POOL_WHAT;
    int64_t reach = w->kernel[2] * w->dilation[2] + w->out[2] * w->stride[2];

    q->rows = kernel_in(op, 0)->type == TENSOR_F32 && !kernel_out(op, 1) &&
              (what != POOL_LP || q->p == 2 || q->p == 1) && q->planes && window_out(w) &&
              reach < 1 << 24 && w->in[2] < 1 << 24 && w->before[2] < 1 << 24 &&
              w->after[2] < 1 << 24 && w->kernel[2] < 1 << 20 && w->kernel[0] < 1 << 20 &&
              w->kernel[1] < 1 << 20;
    for (int d = 0; d < 3 && q->rows; d++)
        for (int64_t o = 0; o < w->out[d] && q->rows; o++) {
            int64_t s, lo, hi;

            inside(w, d, o, &s, &lo, &hi);
            q->rows = lo < hi;
        }
    if (!q->rows)
        return;
    q->pitch = LOOPS_PAD(w->in[2], w->before[2], w->after[2], reach);
    q->lines = MIN(POINTERS_MAX / MIN(w->kernel[0] * w->kernel[1], (int64_t)ROWS_MAX),
                   MAX(BAND_FLOATS / q->pitch, (int64_t)1));
    q->table = what == POOL_AVERAGE && window_out(w) <= TABLE_MAX;
    q->shared_bytes = round_up((w->in[2] + w->out[2] + (q->table ? window_out(w) : 0)));
    q->pad_bytes = round_up(w->out[2] + q->lines * (q->pitch + w->out[2]));
    op->scratch_bytes = q->shared_bytes + q->pad_bytes * (size_t)pool_threads(kernel_pool(op));
}

/* What all threads of rows_part() read. */
static void begin_rows(const struct pooling_job *j)
{
    const struct pooling *q = j->q;
    const struct window *w = &q->w;
    float *beyond = shared_room(j), *counts = beyond + w->in[2], *table = counts + w->out[2];
    bool max = (j->op->kernel->arg & POOL_WHAT) == POOL_MAX;

    for (int64_t x = 0; x < w->in[2]; x++)
        beyond[x] = max ? -INFINITY : 0;
    for (int64_t x = 0; x < w->out[2]; x++)
        counts[x] = (float)divisor(q, 2, x);
    for (int64_t i = 0; i < w->out[0] * w->out[1] && q->table; i++) {
        float by = (float)(divisor(q, 0, i / w->out[1]) * divisor(q, 1, i % w->out[1]));

        for (int64_t x = 0; x < w->out[2]; x++)
            *table++ = 1 / (counts[x] * by);
    }
}

int pooling_run(struct op *op, opm_error *err)
{
    struct pooling_job j = { op, op->state };
    const struct window *w = &j.q->w;

    (void)err;
    if (j.q->rows && op->scratch && !whole(w))
        begin_rows(&j);
    pool_for(kernel_pool(op), window_out(w) ? j.q->planes : 0,
             pool_grain((double)(window_out(w) * window_kernel(w)) / 8),
             !j.q->rows    ? pooling_part
             : whole(w)    ? whole_part
             : op->scratch ? rows_part
                           : pooling_part,
             &j);
    return 0;
}

int maxpool_prepare(struct op *op, opm_error *err)
{
    return pooling_prepare(op, err);
}

int maxpool_run(struct op *op, opm_error *err)
{
    return pooling_run(op, err);
}

static void global_avg_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct nt *in = kernel_in(op, 0);
    int64_t n = nt_span(&in->shape, 2, in->shape.rank);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        double sum = 0;

        if (in->type == TENSOR_F32 && n > 0) {
            ((float *)kernel_out(op, 0)->data)[i] =
                kernel_isa(op)->reduce(R_SUM, (const float *)in->data + i * n, n) / (float)n;
            continue;
        }
        for (int64_t k = 0; k < n; k++)
            sum += in->type == TENSOR_F32 ? (double)((const float *)in->data)[i * n + k]
                                          : ((const double *)in->data)[i * n + k];
        sum /= (double)MAX(n, (int64_t)1);
        if (in->type == TENSOR_F32)
            ((float *)kernel_out(op, 0)->data)[i] = (float)sum;
        else
            ((double *)kernel_out(op, 0)->data)[i] = sum;
    }
}

int globalavg_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    return rc ? rc : kernel_infer(op, err);
}

int globalavg_run(struct op *op, opm_error *err)
{
    (void)err;
    pool_for(kernel_pool(op), kernel_out(op, 0)->count, 4, global_avg_part, op);
    return 0;
}

int maxunpool_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_I64), err);
    if (!rc && !shape_equal(&kernel_in(op, 0)->shape, &kernel_in(op, 1)->shape))
        rc = kernel_fail(op, OPM_EINVAL, err, "indices do not fit the input");
    return rc ? rc : kernel_infer(op, err);
}

/* Indices count over the output that the strides give, whatever output shape is asked for. */
int maxunpool_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *index = kernel_in(op, 1);
    struct nt *out = kernel_out(op, 0);
    size_t wd = nt_width(in->type);
    struct shape from = out->shape;
    struct sliding w;
    struct view v;
    bool same;
    int rc;

    view_begin(&v, op, err);
    rc = sliding_read(&v.base, from.rank - 2, NULL, &w);
    if (!rc)
        rc = sliding_transposed(&v.base, &w, in->shape.dim + 2);
    view_end(&v);
    if (rc)
        return rc;
    for (int i = 0; i < w.n; i++)
        from.dim[2 + i] = w.out[i];
    same = shape_equal(&from, &out->shape);
    memset(out->data, 0, out->bytes);
    for (int64_t i = 0; i < in->count && same; i++) {
        int64_t at = ((const int64_t *)index->data)[i];

        if (at < 0 || at >= out->count)
            return kernel_fail(op, OPM_EINVAL, err, "an index is out of range");
        if (wd == sizeof(float))
            ((uint32_t *)out->data)[at] = ((const uint32_t *)in->data)[i];
        else
            ((uint64_t *)out->data)[at] = ((const uint64_t *)in->data)[i];
    }
    for (int64_t i = 0; i < in->count && !same; i++) {
        int64_t rest = ((const int64_t *)index->data)[i], at = 0, step = 1;
        bool ok = rest >= 0;

        for (int32_t d = from.rank - 1; d >= 0 && ok; d--) {
            int64_t x = d ? rest % MAX(from.dim[d], (int64_t)1) : rest;

            rest /= MAX(from.dim[d], (int64_t)1);
            ok = x < out->shape.dim[d];
            at += x * step;
            step *= out->shape.dim[d];
        }
        if (!ok)
            return kernel_fail(op, OPM_EINVAL, err, "an index is out of range");
        memcpy((char *)out->data + (size_t)at * wd, (const char *)in->data + (size_t)i * wd, wd);
    }
    return 0;
}
