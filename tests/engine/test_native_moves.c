/* test_native_moves.c -- operators that move, pick or sum up elements, over random shapes, against
 * loops over indices. */
#include "run_rig.h"

static const struct engine_options defaults = ENGINE_OPTIONS_INIT;

struct grid {
    int64_t dim[4];
    int rank;
};

static int64_t count(const struct grid *g)
{
    int64_t n = 1;

    for (int i = 0; i < g->rank; i++)
        n *= g->dim[i];
    return n;
}

static void unravel(const struct grid *g, int64_t at, int64_t *index)
{
    for (int i = g->rank - 1; i >= 0; i--) {
        index[i] = at % g->dim[i];
        at /= g->dim[i];
    }
}

static int64_t ravel(const struct grid *g, const int64_t *index)
{
    int64_t at = 0;

    for (int i = 0; i < g->rank; i++)
        at = at * g->dim[i] + index[i];
    return at;
}

static struct grid random_grid(void)
{
    struct grid g = { .rank = 2 + (int)rnd(3) };

    for (int i = 0; i < g.rank; i++)
        g.dim[i] = 1 + rnd(g.rank == 2 ? 90 : g.rank == 3 ? 30 : 14);
    return g;
}

static void run_one(const char *type, const char *attrs, int opset, const struct grid *g, float *x,
                    const double *want, double tol)
{
    struct make mk = { 0 };
    struct engine_tensor in = rig_tensor(TENSOR_F32, x, g->dim, g->rank);
    struct rig_want judge = { want, tol };

    make_node(&mk, type, "x", "y", attrs);
    make_value(&mk, false, "x", TENSOR_F32, g->dim, g->rank);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    rig_run(&mk, opset, &defaults, &in, 1, rig_near, &judge);
    make_free(&mk);
}

static void transpose(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct grid g = random_grid(), to = { .rank = g.rank };
        int64_t perm[4] = { 0, 1, 2, 3 }, n = count(&g);
        float *x = random_floats(n);
        double *want = malloc((size_t)n * sizeof(double));
        char attrs[80];
        int len = snprintf(attrs, sizeof(attrs), "perm=");

        for (int i = g.rank - 1; i > 0; i--) {
            int k = (int)rnd((uint32_t)i + 1);
            int64_t t = perm[i];

            perm[i] = perm[k];
            perm[k] = t;
        }
        for (int i = 0; i < g.rank; i++) {
            to.dim[i] = g.dim[perm[i]];
            len += snprintf(attrs + len, sizeof(attrs) - (size_t)len, "%s%d", i ? "," : "",
                            (int)perm[i]);
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t from[4], at[4];

            unravel(&to, i, at);
            for (int k = 0; k < g.rank; k++)
                from[perm[k]] = at[k];
            want[i] = (double)x[ravel(&g, from)];
        }
        run_one("Transpose", attrs, 13, &g, x, want, 0);
        free(x);
        free(want);
    }
}

struct reduction {
    const char *type;
    double start;
    double (*step)(double acc, double x);
    double (*end)(double acc, double n);
};

static double add(double acc, double x)
{
    return acc + x;
}

static double add_square(double acc, double x)
{
    return acc + x * x;
}

static double add_abs(double acc, double x)
{
    return acc + fabs(x);
}

static double as_is(double acc, double n)
{
    (void)n;
    return acc;
}

static double divided(double acc, double n)
{
    return acc / n;
}

static double root(double acc, double n)
{
    (void)n;
    return sqrt(acc);
}

static const struct reduction reductions[] = {
    { "ReduceSum", 0, add, as_is },
    { "ReduceMean", 0, add, divided },
    { "ReduceL1", 0, add_abs, as_is },
    { "ReduceL2", 0, add_square, root },
    { "ReduceMax", -INFINITY, fmax, as_is },
    { "ReduceMin", INFINITY, fmin, as_is },
    { "ReduceSumSquare", 0, add_square, as_is },
};

/* One axis, or that and the next. */
static void one_reduction(const struct reduction *r, const struct grid *g, int axis, bool two)
{
    struct grid to = *g;
    int64_t n = count(g), reduced;
    float *x = random_floats(n);
    double *want;
    char attrs[40];

    two = two && axis + 1 < g->rank;
    to.dim[axis] = 1;
    if (two)
        to.dim[axis + 1] = 1;
    reduced = n / count(&to);
    want = malloc((size_t)count(&to) * sizeof(double));
    for (int64_t i = 0; i < count(&to); i++)
        want[i] = r->start;
    for (int64_t i = 0; i < n; i++) {
        int64_t at[4], o;

        unravel(g, i, at);
        at[axis] = 0;
        if (two)
            at[axis + 1] = 0;
        o = ravel(&to, at);
        want[o] = r->step(want[o], (double)x[i]);
    }
    for (int64_t i = 0; i < count(&to); i++)
        want[i] = r->end(want[i], (double)reduced);
    if (two)
        snprintf(attrs, sizeof(attrs), "axes=%d,%d", axis, axis + 1);
    else
        snprintf(attrs, sizeof(attrs), "axes=%d,", axis);
    run_one(r->type, attrs, 11, g, x, want, 1e-5);
    free(x);
    free(want);
}

static void reduce(void **state)
{
    static const struct grid tall = { { 9000, 5 }, 2 }, wide = { { 3, 9000 }, 2 };

    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(reductions); k++) {
        for (int round = 0; round < 6; round++) {
            struct grid g = random_grid();

            one_reduction(&reductions[k], &g, (int)rnd((uint32_t)g.rank), round % 2);
        }
        one_reduction(&reductions[k], &tall, 0, false);
        one_reduction(&reductions[k], &wide, 1, false);
    }
}

/* Along any dimension. */
static void softmax(void **state)
{
    (void)state;
    for (int round = 0; round < 15; round++) {
        struct grid g = random_grid(), to;
        int axis = (int)rnd((uint32_t)g.rank);
        int64_t n = count(&g);
        float *x = random_floats(n);
        double *want = malloc((size_t)n * sizeof(double)), *sum = calloc((size_t)n, sizeof(double));
        char attrs[20];

        to = g;
        to.dim[axis] = 1;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t i = 0; i < n; i++) {
                int64_t at[4];

                unravel(&g, i, at);
                at[axis] = 0;
                if (pass)
                    want[i] = exp((double)x[i]) / sum[ravel(&to, at)];
                else
                    sum[ravel(&to, at)] += exp((double)x[i]);
            }
        snprintf(attrs, sizeof(attrs), "axis=%d", axis);
        run_one("Softmax", attrs, 13, &g, x, want, 1e-6);
        free(x);
        free(want);
        free(sum);
    }
}

/* Same shapes, and a scalar on one side. */
static void where(void **state)
{
    (void)state;
    for (int round = 0; round < 8; round++) {
        struct grid g = random_grid();
        int64_t n = count(&g), one = 1;
        float *a = random_floats(n), *b = random_floats(n);
        uint8_t *c = rig_alloc((size_t)n);
        double *want = malloc((size_t)n * sizeof(double));
        struct engine_tensor in[3] = {
            rig_tensor(TENSOR_BOOL, c, g.dim, g.rank), rig_tensor(TENSOR_F32, a, g.dim, g.rank),
            rig_tensor(TENSOR_F32, b, round % 2 ? &one : g.dim, round % 2 ? 1 : g.rank)
        };
        struct rig_want judge = { want, 0 };
        struct make mk = { 0 };

        for (int64_t i = 0; i < n; i++) {
            c[i] = (uint8_t)rnd(2);
            want[i] = (double)(c[i] ? a[i] : b[round % 2 ? 0 : i]);
        }
        make_node(&mk, "Where", "c,a,b", "y", "");
        make_value(&mk, false, "c", TENSOR_BOOL, g.dim, g.rank);
        make_value(&mk, false, "a", TENSOR_F32, g.dim, g.rank);
        make_value(&mk, false, "b", TENSOR_F32, in[2].shape.dim, in[2].shape.rank);
        make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
        rig_run(&mk, 16, &defaults, in, 3, rig_near, &judge);
        make_free(&mk);
        free(a);
        free(b);
        free(c);
        free(want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transpose),
        cmocka_unit_test(reduce),
        cmocka_unit_test(softmax),
        cmocka_unit_test(where),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
