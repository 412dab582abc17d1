/* linalg.c -- com.microsoft's Inverse, CDist and RelativePositionBias. */
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
        2 * sizeof(double) * (size_t)s->dim[s->rank - 1] * (size_t)s->dim[s->rank - 1];
    return kernel_infer(op, err);
}

/* a, n x n, to the unit matrix, and with the same steps b, the unit matrix, to the inverse of a.
 * False if there is none. */
static bool eliminate(double *a, double *b, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        int64_t best = c;
        double f;

        for (int64_t r = c + 1; r < n; r++)
            if (fabs(a[r * n + c]) > fabs(a[best * n + c]))
                best = r;
        f = a[best * n + c];
        if (!(fabs(f) > 0))
            return false;
        for (int64_t k = 0; k < n; k++) {
            double t = a[c * n + k], u = b[c * n + k];

            a[c * n + k] = a[best * n + k] / f;
            b[c * n + k] = b[best * n + k] / f;
            if (best != c) {
                a[best * n + k] = t;
                b[best * n + k] = u;
            }
        }
        for (int64_t r = 0; r < n; r++) {
            f = a[r * n + c];
            for (int64_t k = 0; k < n && r != c && f != 0; k++) {
                a[r * n + k] -= f * a[c * n + k];
                b[r * n + k] -= f * b[c * n + k];
            }
        }
    }
    return true;
}

int inverse_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int64_t n = x->shape.dim[x->shape.rank - 1], size = n * n;
    double *a = op->scratch, *b = a + size;

    for (int64_t first = 0; first < x->count; first += size) {
        for (int64_t i = 0; i < size; i++) {
            a[i] = nt_float(x, first + i);
            b[i] = i % (n + 1) == 0;
        }
        if (!eliminate(a, b, n))
            return kernel_fail(op, OPM_EINVAL, err, "matrix %lld has no inverse",
                               (long long)(first / size));
        for (int64_t i = 0; i < size; i++)
            if (out->type == TENSOR_F64)
                ((double *)out->data)[first + i] = b[i];
            else
                ((float *)out->data)[first + i] = (float)b[i];
    }
    return 0;
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
    return rc ? rc : kernel_infer(op, err);
}

static void cdist_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct nt *a = kernel_in(op, 0), *b = kernel_in(op, 1);
    struct nt *out = kernel_out(op, 0);
    int64_t n = b->shape.dim[0], k = a->shape.dim[1];
    bool root = node_attr_is(op->node, "metric", "euclidean", "sqeuclidean");

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;

            for (int64_t p = 0; p < k; p++) {
                double d = nt_float(a, i * k + p) - nt_float(b, j * k + p);

                sum += d * d;
            }
            sum = root ? sqrt(sum) : sum;
            if (out->type == TENSOR_F64)
                ((double *)out->data)[i * n + j] = sum;
            else
                ((float *)out->data)[i * n + j] = (float)sum;
        }
}

int cdist_run(struct op *op, opm_error *err)
{
    (void)err;
    if (kernel_out(op, 0)->count)
        pool_for(kernel_pool(op), kernel_in(op, 0)->shape.dim[0], 1, cdist_part, op);
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
