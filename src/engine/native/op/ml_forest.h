/* ml_forest.h -- decision trees in a form that is walked fast.
 *
 * Nodes of a tree lie together, and the two branches of a node side by side. Where every test can
 * be written as x <= split, several walks go through the trees side by side without a branch, so
 * that the processor has something to do while it waits for memory: a leaf is a node whose test
 * always holds and leads to itself. NaN takes the careful way, and so do trees with tests for
 * equality. */
#ifndef NATIVE_ML_FOREST_H
#define NATIVE_ML_FOREST_H

#include "engine/native/op/ml.h"

enum forest_test {
    TEST_LEQ,
    TEST_LT,
    TEST_GTE,
    TEST_GT,
    TEST_EQ,
    TEST_NEQ,
    TEST_MEMBER,
    TEST_LEAF
};

enum forest_sum { FOREST_AVERAGE, FOREST_SUM, FOREST_MIN, FOREST_MAX };

/* x <= split leads to `yes`, which counts from the root, else to the one behind it. The small form
 * is for trees that fit. */
struct forest_step {
    float split;
    uint16_t feature, yes;
};
struct forest_step_wide {
    float split;
    uint32_t feature, yes;
};

struct forest_node {
    double split;
    uint32_t feature;
    uint32_t yes, no;
    uint8_t test;      /* enum forest_test */
    bool nan_yes;      /* where what is missing goes, whatever the test */
    uint32_t first, n; /* TEST_LEAF: weights; TEST_MEMBER: members */
};

struct forest_weight {
    uint32_t target;
    double weight;
};

struct forest {
    struct forest_node *node;
    struct forest_step *step;      /* NULL: not all trees fit */
    struct forest_step_wide *wide; /* NULL: there are small ones, or not all tests fit */
    float *value;                  /* of leaves, if each has one weight and there is one target */
    uint32_t nnode;
    uint32_t *root, *depth;
    uint32_t ntree;
    struct forest_weight *weight;
    uint32_t nweight;
    double *member;
    uint32_t nmember;
    uint32_t features; /* one more than the greatest that a test asks for */
    int64_t targets;
    enum forest_sum sum;
    bool all_positive; /* weights */
};

/* From the attributes of TreeEnsemble, -Classifier or -Regressor; prefix is "target" or "class" for
 * the latter two, else NULL. OPM_EINVAL, with why, or OPM_ENOMEM. */
int forest_build(struct forest *f, const struct node *n, const char *prefix, int64_t targets,
                 char *why, size_t size);
void forest_release(struct forest *f);

/* Trees [from, to) for rows of floats at x, `stride` apart, without any NaN, where forest_fast().
 * Sums go to acc, targets of them for each row. */
void forest_walk(const struct forest *f, const float *x, int64_t stride, int64_t rows,
                 uint32_t from, uint32_t to, double *acc);
static inline bool forest_fast(const struct forest *f)
{
    return f->step || f->wide;
}
/* The same for one row of anything. */
void forest_walk_one(const struct forest *f, const double *x, uint32_t from, uint32_t to,
                     double *acc);
/* What acc is before the first tree, and how a leaf's weight and other accumulated values join. */
double forest_zero(const struct forest *f);
static inline double forest_join(enum forest_sum sum, double a, double b)
{
    return sum == FOREST_MIN ? MIN(a, b) : sum == FOREST_MAX ? MAX(a, b) : a + b;
}
/* After the last. */
double forest_end(const struct forest *f, double a);

#endif
