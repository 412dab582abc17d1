/* linalg.c -- com.microsoft's Inverse, CDist and RelativePositionBias. */
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

int inverse_prepare(struct op *op, opm_error *err)
{
    const struct shape *s;
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (rc)
        return rc;
    s = &kernel_in(op, 0)->shape;
    if (s->rank < 2 || s->dim[s->rank - 1] != s->dim[s->rank - 2])
        return kernel_fail(op, OPM_EINVAL, err, "wants square matrices");
    if (s->dim[s->rank - 1] > 1 << 20)
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    op->scratch_bytes =
        sizeof(double) * (size_t)s->dim[s->rank - 1] * (size_t)(s->dim[s->rank - 1] + 1);
    return kernel_infer(op, err);
}

/* a, n x n, becomes its inverse: where a column has become one of the unit matrix, that of the
 * inverse stands. Rows are exchanged, and in the end columns the other way. False if there is none.
 */
static bool invert(const struct isa *isa, double *a, int64_t *from, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        double *row = a + c * n, f;
        int64_t best = c;

        for (int64_t r = c + 1; r < n; r++)
            if (fabs(a[r * n + c]) > fabs(a[best * n + c]))
                best = r;
        f = a[best * n + c];
        if (!(fabs(f) > 0))
            return false;
        from[c] = best;
        for (int64_t k = 0; k < n; k++) {
            double t = row[k];

            row[k] = a[best * n + k] / f;
            if (best != c)
                a[best * n + k] = t;
        }
        row[c] = 1 / f;
        isa->rows->real->invert(a, n, c);
    }
    for (int64_t c = n - 1; c >= 0; c--)
        for (int64_t r = 0; r < n && from[c] != c; r++) {
            double t = a[r * n + c];

            a[r * n + c] = a[r * n + from[c]];
            a[r * n + from[c]] = t;
        }
    return true;
}

int inverse_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    const struct isa *isa = kernel_isa(op);
    int64_t n = x->shape.dim[x->shape.rank - 1], size = n * n;
    size_t w = nt_width(x->type);
    double *a = op->scratch;

    for (int64_t first = 0; first < x->count; first += size) {
        isa->rows->cast[x->type][TENSOR_F64](a, (const char *)x->data + (size_t)first * w, size);
        if (!invert(isa, a, (int64_t *)(a + size), n))
            return kernel_fail(op, OPM_EINVAL, err, "matrix %lld has no inverse",
                               (long long)(first / size));
        isa->rows->cast[TENSOR_F64][x->type]((char *)out->data + (size_t)first * w, a, size);
    }
    return 0;
}

/* A row of distances from all of B, and B's rows side by side as columns. */
static size_t row_bytes(const struct nt *b)
{
    return (size_t)((b->shape.dim[0] + ROWS_DISTANCES - 1) / ROWS_DISTANCES * ROWS_DISTANCES) *
           nt_width(b->type);
}

static size_t columns_bytes(const struct op *op)
{
    const struct nt *b = kernel_in(op, 1);

    return row_bytes(b) * (size_t)b->shape.dim[1];
}

/* Distances of the rows of A from those of B. */
int cdist_prepare(struct op *op, opm_error *err)
{
    const char *metric = node_attr_str(op->node, "metric", "sqeuclidean");
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(kernel_in(op, 0)->type), err);
    if (!rc && strcmp(metric, "sqeuclidean") != 0 && strcmp(metric, "euclidean") != 0)
        rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for the metric '%.40s'", metric);
    if (!rc)
        rc = kernel_infer(op, err);
    if (!rc)
        op->scratch_bytes =
            columns_bytes(op) + (size_t)pool_threads(kernel_pool(op)) * row_bytes(kernel_in(op, 1));
    return rc;
}

static void cdist_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct nt *a = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    size_t w = nt_width(a->type), row = row_bytes(kernel_in(op, 1));
    int64_t n = out->shape.dim[1], k = a->shape.dim[1], wide = (int64_t)(row / w);
    bool root = node_attr_is(op->node, "metric", "euclidean", "sqeuclidean");
    const struct rows_isa *rows = kernel_isa(op)->rows;
    char *room = (char *)op->scratch + columns_bytes(op) + (size_t)thread * row;

    for (int64_t i = begin; i < end; i++) {
        char *to = (char *)out->data + (size_t)(i * n) * w;

        rows->distance[a->type](room, (const char *)a->data + (size_t)(i * k) * w, op->scratch, k,
                                wide);
        if (root)
            rows->one[ROWS_SQRT][a->type](to, room, n, 0, 0);
        else
            memcpy(to, room, (size_t)n * w);
    }
}

int cdist_run(struct op *op, opm_error *err)
{
    const struct nt *b = kernel_in(op, 1);
    int64_t n = b->shape.dim[0], k = b->shape.dim[1], wide;

    (void)err;
    if (!kernel_out(op, 0)->count)
        return 0;
    wide = (int64_t)(row_bytes(b) / nt_width(b->type));
    memset(op->scratch, 0, columns_bytes(op));
    if (b->type == TENSOR_F64)
        for (int64_t j = 0; j < n; j++)
            for (int64_t c = 0; c < k; c++)
                ((double *)op->scratch)[c * wide + j] = ((const double *)b->data)[j * k + c];
    else
        for (int64_t j = 0; j < n; j++)
            for (int64_t c = 0; c < k; c++)
                ((float *)op->scratch)[c * wide + j] = ((const float *)b->data)[j * k + c];
    pool_for(kernel_pool(op), kernel_in(op, 0)->shape.dim[0],
             MAX(8192 / MAX(n * k, (int64_t)1), (int64_t)1), cdist_part, op);
    return 0;
}

/* A table [buckets, heads], then how many queries and keys: T5's bias by their distance. */
int relativebias_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    for (uint32_t i = 1; i < 3 && !rc; i++) {
        rc = kernel_want(op, i, TYPES_INDEX, err);
        if (!rc && kernel_in(op, i)->count != 1)
            rc = kernel_fail(op, OPM_EINVAL, err, "input %u must be one number", i);
        if (!rc && !kernel_data(op, i))
            rc = NEED_DATA;
    }
    if (!rc && (kernel_in(op, 0)->shape.rank != 2 || kernel_in(op, 0)->shape.dim[0] < 4 ||
                kernel_in(op, 0)->shape.dim[0] > INT32_MAX ||
                node_attr_int(op->node, "max_distance", 0) < 1))
        rc = kernel_fail(op, OPM_EINVAL, err, "table or max_distance does not fit");
    return rc ? rc : kernel_infer(op, err);
}

/* Half of the buckets are for one distance each, the others grow with its logarithm. Both ways:
 * half for keys behind the query. */
static int64_t bucket(int64_t distance, int64_t buckets, int64_t farthest, bool both)
{
    int64_t first = 0, n = -distance, exact;
    float far;

    if (both) {
        buckets /= 2;
        first = n < 0 ? buckets : 0;
        n = n < 0 ? -n : n;
    } else
        n = MAX(n, (int64_t)0);
    exact = buckets / 2;
    if (n < exact)
        return first + n;
    far = logf((float)n / (float)exact) / logf((float)farthest / (float)exact) *
          (float)(buckets - exact);
    if (!(far >= 0 && far < (float)(buckets - exact))) /* not a number, too */
        return first + buckets - 1;
    return first + exact + (int64_t)far;
}

int relativebias_run(struct op *op, opm_error *err)
{
    const struct nt *table = kernel_in(op, 0);
    const int64_t *d = kernel_out(op, 0)->shape.dim;
    float *out = kernel_out(op, 0)->data;
    int64_t farthest = node_attr_int(op->node, "max_distance", 128);
    bool both = node_attr_int(op->node, "is_bidirectional", 0) != 0;

    (void)err;
    for (int64_t h = 0; h < d[1]; h++)
        for (int64_t i = 0; i < d[2]; i++)
            for (int64_t j = 0; j < d[3]; j++)
                *out++ =
                    ((const float *)table
                         ->data)[bucket(j - i, table->shape.dim[0], farthest, both) * d[1] + h];
    return 0;
}
