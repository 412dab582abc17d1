/* ml_tree.c -- TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble. */
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "engine/native/op/ml_forest.h"

#include <math.h>
#include <string.h>

#define CHUNK_NODES 4096 /* trees that are walked for all rows before the next: 32 KiB of steps */
#define BLOCK_ROWS 64
#define FEW_ROWS 8 /* so many or fewer are shared out by trees instead */
#define TYPES_TREE (TYPES_FLOAT | TYPE_BIT(TENSOR_I64) | TYPE_BIT(TENSOR_I32))

struct trees {
    struct forest f;
    bool built;
    struct ml_labels label;
    struct ml_list base;
    enum ml_post post;
    bool pair;       /* two classes, of which one alone has weights: the score is that of class 1 */
    uint32_t *chunk; /* first trees of chunks, and behind the last */
    uint32_t nchunk;
    int64_t rows, cols;
};

static void trees_release(void *state)
{
    struct trees *s = state;

    forest_release(&s->f);
    mem_free(s->chunk);
}

static enum forest_sum sum_of(const struct node *n)
{
    const char *name = node_attr_str(n, "aggregate_function", "");
    int64_t number = node_attr_int(n, "aggregate_function", FOREST_SUM);

    if (strcmp(name, "AVERAGE") == 0)
        return FOREST_AVERAGE;
    if (strcmp(name, "MIN") == 0)
        return FOREST_MIN;
    if (strcmp(name, "MAX") == 0)
        return FOREST_MAX;
    return number >= FOREST_AVERAGE && number <= FOREST_MAX ? (enum forest_sum)number : FOREST_SUM;
}

static bool one_target(const struct forest *f)
{
    for (uint32_t i = 1; i < f->nweight; i++)
        if (f->weight[i].target != f->weight[0].target)
            return false;
    return true;
}

static int cut(struct op *op, struct trees *s, opm_error *err)
{
    const struct forest *f = &s->f;

    s->chunk = mem_calloc((size_t)f->ntree + 2, sizeof(*s->chunk));
    if (!s->chunk)
        return kernel_nomem(op, err);
    for (uint32_t t = 1; t < f->ntree; t++)
        if (f->root[t] - f->root[s->chunk[s->nchunk]] >= CHUNK_NODES)
            s->chunk[++s->nchunk] = t;
    s->chunk[++s->nchunk] = f->ntree;
    return 0;
}

static int build(struct op *op, struct trees *s, opm_error *err)
{
    bool classes = op->kernel->arg == TREE_CLASSIFIER;
    const char *prefix = classes ? "class" : op->kernel->arg == TREE_REGRESSOR ? "target" : NULL;
    int64_t targets = node_attr_int(op->node, "n_targets", 1);
    char why[120] = "";
    int rc;

    if (classes) {
        s->label = ml_labels_of(op->node);
        targets = s->label.n;
    }
    if (targets < 1 || targets > INT32_MAX)
        return kernel_fail(op, OPM_EINVAL, err, "has %lld targets or classes", (long long)targets);
    rc = forest_build(&s->f, op->node, prefix, targets, why, sizeof(why));
    if (rc == OPM_ENOMEM)
        return kernel_nomem(op, err);
    if (rc)
        return kernel_fail(op, rc, err, "%s", why);
    s->f.sum = classes ? FOREST_SUM : sum_of(op->node);
    s->post = ml_post_of(op->node);
    s->base = ml_list_of(op->node, "base_values");
    s->pair = classes && targets == 2 && one_target(&s->f);
    if (s->base.n > (size_t)targets)
        return kernel_fail(op, OPM_EINVAL, err, "has more base values than targets");
    rc = cut(op, s, err);
    s->built = !rc;
    return rc;
}

int trees_prepare(struct op *op, opm_error *err)
{
    struct trees *s = op->state ? op->state : kernel_new_state(op, sizeof(*s));
    int64_t groups;
    int rc = s ? kernel_want(op, 0, TYPES_TREE, err) : kernel_nomem(op, err);

    if (rc)
        return rc;
    op->release = trees_release;
    if (!s->built) {
        trees_release(s);
        *s = (struct trees){ 0 };
        rc = build(op, s, err);
        if (rc)
            return rc;
    }
    if (!ml_matrix(kernel_in(op, 0), &s->rows, &s->cols) ||
        s->cols < MAX((int64_t)s->f.features, 1))
        return kernel_fail(op, OPM_EINVAL, err, "a test asks for feature %u, and there are %lld",
                           s->f.features - 1, (long long)s->cols);
    /* Sums of each chunk where trees are shared out, else of a block of rows for each thread. */
    groups = s->rows <= FEW_ROWS ? s->nchunk * s->rows
                                 : (int64_t)pool_threads(kernel_pool(op)) * BLOCK_ROWS;
    op->scratch_bytes = (size_t)(groups * s->f.targets) * sizeof(double) +
                        (size_t)pool_threads(kernel_pool(op)) * (size_t)s->cols * sizeof(double);
    op->algorithm = forest_fast(&s->f) ? "walks side by side" : "one walk at a time";
    return kernel_infer(op, err);
}

struct tree_job {
    struct op *op;
    const struct trees *s;
    const struct nt *x;
    double *acc, *row; /* row: room for each thread */
};

static bool has_nan(const float *x, int64_t n)
{
    int nan = 0;

    for (int64_t i = 0; i < n; i++)
        nan |= x[i] != x[i];
    return nan;
}

/* Trees [from, to) for rows [row, row + n), added to acc. */
static void walk(const struct tree_job *j, int64_t row, int64_t n, uint32_t from, uint32_t to,
                 double *acc, int thread)
{
    const struct trees *s = j->s;
    double *room = j->row + thread * s->cols;
    bool fast = forest_fast(&s->f) && j->x->type == TENSOR_F32;

    if (fast && !has_nan((const float *)j->x->data + row * s->cols, n * s->cols)) {
        forest_walk(&s->f, (const float *)j->x->data + row * s->cols, s->cols, n, from, to, acc);
        return;
    }
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < s->cols; c++)
            room[c] = nt_float(j->x, (row + r) * s->cols + c);
        forest_walk_one(&s->f, room, from, to, acc + r * s->f.targets);
    }
}

static void put_score(struct nt *out, int64_t i, double v)
{
    if (!out)
        return;
    if (out->type == TENSOR_F64)
        ((double *)out->data)[i] = v;
    else
        ((float *)out->data)[i] = (float)v;
}

/* Scores of a row's classes, and the label of the one that wins. */
static void finish_classes(const struct tree_job *j, int64_t row, double *acc)
{
    const struct trees *s = j->s;
    int64_t n = s->f.targets, best = 0;
    struct nt *label = kernel_out(j->op, 0), *out = kernel_out(j->op, 1);

    for (int64_t i = 0; i < n; i++) {
        acc[i] += (size_t)i < s->base.n ? ml_list_at(&s->base, (size_t)i) : 0;
        best = acc[i] > acc[best] ? i : best;
    }
    if (s->pair) { /* base values are of the score, of which there is one */
        float score[2] = { (float)acc[s->f.weight[0].target] };
        enum ml_pair how = s->f.all_positive ? ML_PAIR_PROBABILITY : ML_PAIR_SIGNED;

        best = score[0] > (s->f.all_positive ? 0.5f : 0);
        if (s->post == ML_PROBIT)
            ml_post(s->post, score, 1);
        ml_post_pair(s->post, how, score);
        acc[0] = (double)score[0];
        acc[1] = (double)score[1];
    }
    ml_label_put(&s->label, label, row, best);
    for (int64_t i = 0; i < n; i++)
        put_score(out, row * n + i, acc[i]);
    if (!s->pair && out)
        ml_post(s->post, (float *)out->data + row * n, n);
}

static void finish(const struct tree_job *j, int64_t row, double *acc)
{
    const struct trees *s = j->s;
    int64_t n = s->f.targets;
    struct nt *out = kernel_out(j->op, 0);

    if (j->op->kernel->arg == TREE_CLASSIFIER) {
        finish_classes(j, row, acc);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        put_score(out, row * n + i,
                  forest_end(&s->f, acc[i]) +
                      ((size_t)i < s->base.n ? ml_list_at(&s->base, (size_t)i) : 0));
    if (s->post != ML_NONE && out->type == TENSOR_F32)
        ml_post(s->post, (float *)out->data + row * n, n);
}

static void row_blocks(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct tree_job *j = arg;
    const struct trees *s = j->s;
    double *acc = j->acc + thread * BLOCK_ROWS * s->f.targets;

    for (int64_t b = begin; b < end; b++) {
        int64_t row = b * BLOCK_ROWS, n = MIN((int64_t)BLOCK_ROWS, s->rows - row);

        for (int64_t i = 0; i < n * s->f.targets; i++)
            acc[i] = forest_zero(&s->f);
        for (uint32_t c = 0; c < s->nchunk; c++)
            walk(j, row, n, s->chunk[c], s->chunk[c + 1], acc, thread);
        for (int64_t r = 0; r < n; r++)
            finish(j, row + r, acc + r * s->f.targets);
    }
}

static void tree_chunks(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct tree_job *j = arg;
    const struct trees *s = j->s;

    for (int64_t c = begin; c < end; c++) {
        double *acc = j->acc + c * s->rows * s->f.targets;

        for (int64_t i = 0; i < s->rows * s->f.targets; i++)
            acc[i] = forest_zero(&s->f);
        walk(j, 0, s->rows, s->chunk[c], s->chunk[c + 1], acc, thread);
    }
}

int trees_run(struct op *op, opm_error *err)
{
    const struct trees *s = op->state;
    struct tree_job j = { op, s, kernel_in(op, 0), NULL, NULL };
    int64_t n = s->rows * s->f.targets, threads = pool_threads(kernel_pool(op));

    (void)err;
    if (s->rows == 0)
        return 0;
    j.row = op->scratch;
    j.acc = j.row + threads * s->cols;
    if (s->rows > FEW_ROWS) {
        pool_for(kernel_pool(op), (s->rows + BLOCK_ROWS - 1) / BLOCK_ROWS, 1, row_blocks, &j);
        return 0;
    }
    pool_for(kernel_pool(op), s->nchunk, 1, tree_chunks, &j);
    for (uint32_t c = 1; c < s->nchunk; c++)
        for (int64_t i = 0; i < n; i++)
            j.acc[i] = forest_join(s->f.sum, j.acc[i], j.acc[c * n + i]);
    for (int64_t r = 0; r < s->rows; r++)
        finish(&j, r, j.acc + r * s->f.targets);
    return 0;
}
