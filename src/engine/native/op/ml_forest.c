/* ml_forest.c -- see ml_forest.h. */
#include "engine/native/op/ml_forest.h"
#include "base/u64map.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A node as the model has it. */
struct raw {
    const int64_t *tree, *id, *feature, *yes, *no, *nan_yes;
    const int64_t *yes_leaf, *no_leaf; /* TreeEnsemble: the branch is a leaf */
    size_t n, nnan;
    struct ml_list split;
    const struct attr *modes;      /* names */
    const struct tensor *mode_ids; /* or numbers */
};

struct builder {
    struct forest *f;
    struct raw raw;
    const struct node *n;
    struct u64map place; /* tree and node to its index */
    struct pending {
        size_t raw;
        bool leaf;
        uint32_t at; /* its place */
        uint32_t depth;
    } * stack;
    size_t nstack, cap;
    size_t room; /* nodes there may be at most */
    char *why;
    size_t size;
    uint32_t *first, *count; /* weights of raw nodes */
    const int64_t *leaf_target;
    struct ml_list leaf_weight;
};

static int bad(struct builder *b, const char *why)
{
    snprintf(b->why, b->size, "%s", why);
    return OPM_EINVAL;
}

static uint64_t key_of(int64_t tree, int64_t node)
{
    return (uint64_t)tree << 32 ^ (uint64_t)node;
}

static int test_of(const struct raw *r, size_t i)
{
    static const char *const names[] = { "BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                         "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF" };

    if (r->mode_ids) {
        int64_t m = tensor_int(r->mode_ids, (int64_t)i);

        return m >= 0 && m < TEST_LEAF ? (int)m : -1;
    }
    for (int k = 0; k < (int)ARRAY_SIZE(names); k++)
        if (r->modes->string[i].len == strlen(names[k]) &&
            memcmp(r->modes->string[i].s, names[k], strlen(names[k])) == 0)
            return k;
    return -1;
}

static const int64_t *ints(struct builder *b, const char *name, size_t n, const char **missing)
{
    size_t len;
    const int64_t *v = node_attr_ints(b->n, name, &len);

    if (len != n && !*missing)
        *missing = name;
    return v;
}

static int read_raw(struct builder *b, bool apart)
{
    struct raw *r = &b->raw;
    const char *missing = NULL;

    r->feature = node_attr_ints(b->n, "nodes_featureids", &r->n);
    r->yes = ints(b, "nodes_truenodeids", r->n, &missing);
    r->no = ints(b, "nodes_falsenodeids", r->n, &missing);
    r->nan_yes = node_attr_ints(b->n, "nodes_missing_value_tracks_true", &r->nnan);
    r->modes = node_attr(b->n, "nodes_modes");
    if (apart) {
        r->yes_leaf = ints(b, "nodes_trueleafs", r->n, &missing);
        r->no_leaf = ints(b, "nodes_falseleafs", r->n, &missing);
        r->mode_ids = node_attr_tensor(b->n, "nodes_modes");
        r->split = ml_list_of(b->n, "nodes_splits");
    } else {
        r->tree = ints(b, "nodes_treeids", r->n, &missing);
        r->id = ints(b, "nodes_nodeids", r->n, &missing);
        r->split = ml_list_of(b->n, "nodes_values");
    }
    if (!missing && r->split.n != r->n)
        missing = apart ? "nodes_splits" : "nodes_values";
    if (!missing && (apart ? !r->mode_ids || (size_t)r->mode_ids->count != r->n
                           : !r->modes || r->modes->type != ATTR_STRINGS || r->modes->n != r->n))
        missing = "nodes_modes";
    if (missing) {
        snprintf(b->why, b->size, "attribute '%s' is missing or too short", missing);
        return OPM_EINVAL;
    }
    return r->n && r->n < UINT32_MAX / 4 ? 0 : bad(b, "there are no nodes, or too many");
}

/* Weights of leaves that are nodes, gathered by node. */
static int read_weights(struct builder *b, const char *prefix)
{
    struct forest *f = b->f;
    char name[60];
    size_t n, len;
    const int64_t *tree, *node, *id;
    struct ml_list weight;
    uint32_t at = 0;

    snprintf(name, sizeof(name), "%s_treeids", prefix);
    tree = node_attr_ints(b->n, name, &n);
    snprintf(name, sizeof(name), "%s_nodeids", prefix);
    node = node_attr_ints(b->n, name, &len);
    if (len != n)
        return bad(b, "lists of weights differ in length");
    snprintf(name, sizeof(name), "%s_ids", prefix);
    id = node_attr_ints(b->n, name, &len);
    snprintf(name, sizeof(name), "%s_weights", prefix);
    weight = ml_list_of(b->n, name);
    if (len != n || weight.n != n || n > UINT32_MAX / 4)
        return bad(b, "lists of weights differ in length");
    f->weight = mem_calloc(n + 1, sizeof(*f->weight));
    b->first = mem_calloc(b->raw.n + 1, sizeof(*b->first));
    b->count = mem_calloc(b->raw.n + 1, sizeof(*b->count));
    if (!f->weight || !b->first || !b->count)
        return OPM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        uint64_t *place = u64map_get(&b->place, key_of(tree[i], node[i]));

        if (!place || id[i] < 0 || id[i] >= f->targets)
            return bad(b, "a weight is of no node, or for no target");
        b->count[*place]++;
    }
    for (size_t i = 0; i < b->raw.n; i++) {
        b->first[i] = at;
        at += b->count[i];
        b->count[i] = 0;
    }
    for (size_t i = 0; i < n; i++) {
        size_t place = (size_t)*u64map_get(&b->place, key_of(tree[i], node[i]));

        f->weight[b->first[place] + b->count[place]++] =
            (struct forest_weight){ (uint32_t)id[i], ml_list_at(&weight, i) };
    }
    f->nweight = (uint32_t)n;
    return 0;
}

/* Weights of leaves that are a list of their own: one each. */
static int read_leaves(struct builder *b)
{
    struct forest *f = b->f;
    size_t n;
    const int64_t *target = node_attr_ints(b->n, "leaf_targetids", &n);
    struct ml_list weight = ml_list_of(b->n, "leaf_weights");

    if (!n || weight.n != n || n > UINT32_MAX / 4)
        return bad(b, "leaves have no targets, or no weights");
    f->weight = mem_calloc(n, sizeof(*f->weight));
    if (!f->weight)
        return OPM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (target[i] < 0 || target[i] >= f->targets)
            return bad(b, "a leaf is for no target");
        f->weight[i] = (struct forest_weight){ (uint32_t)target[i], ml_list_at(&weight, i) };
    }
    f->nweight = (uint32_t)n;
    return 0;
}

static int push(struct builder *b, struct pending p)
{
    if (!GROW(b->stack, b->cap, b->nstack + 1))
        return OPM_ENOMEM;
    b->stack[b->nstack++] = p;
    return 0;
}

/* The index of a branch: of a node, or of a leaf if *leaf. */
static int branch_of(struct builder *b, size_t at, bool no, size_t *out, bool *leaf)
{
    const struct raw *r = &b->raw;
    int64_t to = no ? r->no[at] : r->yes[at];
    uint64_t *place;

    *leaf = r->yes_leaf && (no ? r->no_leaf[at] : r->yes_leaf[at]);
    if (r->yes_leaf) {
        *out = (size_t)to;
        return to >= 0 && (size_t)to < (*leaf ? b->f->nweight : r->n)
                   ? 0
                   : bad(b, "a branch leads nowhere");
    }
    place = u64map_get(&b->place, key_of(r->tree[at], to));
    *out = place ? (size_t)*place : 0;
    return place ? 0 : bad(b, "a branch leads nowhere");
}

/* The members of the next MEMBER test: numbers up to a NaN. */
static int read_members(struct builder *b)
{
    struct ml_list all = ml_list_of(b->n, "membership_values");
    struct forest *f = b->f;
    size_t at = 0;

    f->member = mem_calloc(all.n + 1, sizeof(*f->member));
    if (!f->member || all.n > UINT32_MAX / 4)
        return OPM_ENOMEM;
    for (; at < all.n; at++)
        f->member[at] = ml_list_at(&all, at);
    f->nmember = (uint32_t)all.n;
    return 0;
}

static int place_node(struct builder *b, const struct pending *p, uint32_t *members)
{
    struct forest *f = b->f;
    uint32_t at = p->at;
    struct forest_node *node = &f->node[at];
    int test = p->leaf ? TEST_LEAF : test_of(&b->raw, p->raw);
    size_t to;
    bool leaf;
    int rc = 0;

    f->depth[f->ntree - 1] = MAX(f->depth[f->ntree - 1], p->depth);
    *node = (struct forest_node){ .yes = at, .no = at, .test = (uint8_t)test };
    if (test == TEST_LEAF) {
        node->first = p->leaf ? (uint32_t)p->raw : b->first[p->raw];
        node->n = p->leaf ? 1 : b->count[p->raw];
        return 0;
    }
    if (test < 0 || b->raw.feature[p->raw] < 0 || b->raw.feature[p->raw] > UINT32_MAX / 2)
        return bad(b, "a test is unknown, or asks for a feature below 0");
    node->split = ml_list_at(&b->raw.split, p->raw);
    node->feature = (uint32_t)b->raw.feature[p->raw];
    node->nan_yes = p->raw < b->raw.nnan && b->raw.nan_yes[p->raw];
    f->features = MAX(f->features, node->feature + 1);
    if (test == TEST_MEMBER) {
        uint32_t k = 0;

        /* Lists are in the order of the nodes in the model. */
        node->first = members[p->raw];
        while (node->first + k < f->nmember && !isnan(f->member[node->first + k]))
            k++;
        node->n = k;
    }
    if (b->room - f->nnode < 2)
        return bad(b, "branches meet, or lead back");
    /* Where x <= split, or x < split, leads comes first. */
    node->yes = f->nnode + (test == TEST_GT || test == TEST_GTE);
    node->no = f->nnode + (test != TEST_GT && test != TEST_GTE);
    f->nnode += 2;
    rc = branch_of(b, p->raw, true, &to, &leaf);
    if (!rc)
        rc = push(b, (struct pending){ to, leaf, node->no, p->depth + 1 });
    if (!rc)
        rc = branch_of(b, p->raw, false, &to, &leaf);
    return rc ? rc : push(b, (struct pending){ to, leaf, node->yes, p->depth + 1 });
}

static int place_tree(struct builder *b, size_t root, uint32_t *members)
{
    struct forest *f = b->f;
    int rc;

    if (f->nnode == b->room)
        return bad(b, "branches meet, or lead back");
    f->root[f->ntree] = f->nnode++;
    f->depth[f->ntree] = 0;
    f->ntree++;
    b->nstack = 0;
    rc = push(b, (struct pending){ root, false, f->nnode - 1, 0 });
    while (!rc && b->nstack) {
        struct pending p = b->stack[--b->nstack];

        rc = place_node(b, &p, members);
    }
    return rc;
}

/* Where each MEMBER test's list begins. */
static uint32_t *member_lists(struct builder *b)
{
    uint32_t *at = mem_calloc(b->raw.n + 1, sizeof(*at)), k = 0;

    for (size_t i = 0; at && i < b->raw.n; i++) {
        at[i] = k;
        if (test_of(&b->raw, i) != TEST_MEMBER)
            continue;
        while (k < b->f->nmember && !isnan(b->f->member[k]))
            k++;
        k++;
    }
    return at;
}

static int place_trees(struct builder *b, bool apart)
{
    struct forest *f = b->f;
    size_t nroot = 0;
    const int64_t *roots = node_attr_ints(b->n, "tree_roots", &nroot);
    uint32_t *members = NULL;
    uint8_t *led = NULL;
    int rc = read_members(b);

    if (rc)
        return rc;
    members = member_lists(b);
    led = mem_calloc(b->raw.n + 1, 1);
    b->room = apart ? 3 * b->raw.n + 1 : b->raw.n;
    f->node = mem_calloc(b->room, sizeof(*f->node));
    f->root = mem_calloc(b->raw.n + nroot + 1, sizeof(*f->root));
    f->depth = mem_calloc(b->raw.n + nroot + 1, sizeof(*f->depth));
    if (!members || !led || !f->node || !f->root || !f->depth)
        rc = OPM_ENOMEM;
    for (size_t i = 0; i < nroot && apart && !rc; i++)
        rc = roots[i] >= 0 && (size_t)roots[i] < b->raw.n ? place_tree(b, (size_t)roots[i], members)
                                                          : bad(b, "a root is no node");
    for (size_t i = 0; i < b->raw.n && !apart && !rc; i++) {
        size_t to;
        bool leaf;

        for (int no = 0; no < 2 && !rc && test_of(&b->raw, i) != TEST_LEAF; no++) {
            rc = branch_of(b, i, no, &to, &leaf);
            if (!rc)
                led[to] = 1;
        }
    }
    for (size_t i = 0; i < b->raw.n && !apart && !rc; i++)
        if (!led[i])
            rc = place_tree(b, i, members);
    if (!rc && f->ntree == 0)
        rc = bad(b, "no tree has a root");
    mem_free(members);
    mem_free(led);
    return rc;
}

/* The greatest float that a test x <= split, or x < split, holds for. */
static float float_split(double split, bool less)
{
    float s = (float)split;

    if ((double)s > split || (less && (double)s >= split))
        s = nextafterf(s, -INFINITY);
    return s;
}

/* A leaf's test holds for everything and leads to itself. */
static float step_split(const struct forest_node *n)
{
    return n->test == TEST_LEAF ? INFINITY
                                : float_split(n->split, n->test == TEST_LT || n->test == TEST_GTE);
}

/* Can every test be written as x <= split? *small: with numbers of 16 bits; *single: leaves are one
 * number. */
static bool steps_fit(const struct forest *f, bool *small, bool *single)
{
    *single = f->targets == 1;
    *small = f->features <= UINT16_MAX;
    for (uint32_t i = 0; i < f->nnode; i++) {
        const struct forest_node *n = &f->node[i];

        if (n->test == TEST_EQ || n->test == TEST_NEQ || n->test == TEST_MEMBER ||
            (n->test != TEST_LEAF && isnan(n->split)))
            return false;
        *single = *single && (n->test != TEST_LEAF || n->n == 1);
    }
    for (uint32_t t = 0; t < f->ntree; t++)
        *small =
            *small && (t + 1 < f->ntree ? f->root[t + 1] : f->nnode) - f->root[t] <= UINT16_MAX;
    return true;
}

static int make_steps(struct forest *f)
{
    bool small, single;
    uint32_t tree = 0;

    if (!steps_fit(f, &small, &single))
        return 0;
    f->step = small ? mem_calloc(f->nnode, sizeof(*f->step)) : NULL;
    f->wide = small ? NULL : mem_calloc(f->nnode, sizeof(*f->wide));
    f->value = single ? mem_calloc(f->nnode, sizeof(*f->value)) : NULL;
    if (!(small ? (void *)f->step : (void *)f->wide) || (single && !f->value))
        return OPM_ENOMEM;
    for (uint32_t i = 0; i < f->nnode; i++) {
        const struct forest_node *n = &f->node[i];
        uint32_t yes;

        while (tree + 1 < f->ntree && f->root[tree + 1] <= i)
            tree++;
        yes = (n->test == TEST_LEAF ? i : MIN(n->yes, n->no)) - f->root[tree];
        if (single && n->test == TEST_LEAF)
            f->value[i] = (float)f->weight[n->first].weight;
        if (small)
            f->step[i] = (struct forest_step){ step_split(n), (uint16_t)n->feature, (uint16_t)yes };
        else
            f->wide[i] = (struct forest_step_wide){ step_split(n), n->feature, yes };
    }
    return 0;
}

int forest_build(struct forest *f, const struct node *n, const char *prefix, int64_t targets,
                 char *why, size_t size)
{
    struct builder b = { .f = f, .n = n, .why = why, .size = size };
    int rc;

    *f = (struct forest){ .targets = targets, .all_positive = true };
    rc = read_raw(&b, !prefix);
    for (size_t i = 0; i < b.raw.n && prefix && !rc; i++) {
        uint64_t key = key_of(b.raw.tree[i], b.raw.id[i]);

        if (b.raw.tree[i] < 0 || b.raw.id[i] < 0 || b.raw.id[i] > UINT32_MAX ||
            b.raw.tree[i] > INT32_MAX || u64map_get(&b.place, key))
            rc = bad(&b, "nodes of a tree have the same number, or one below 0");
        else
            rc = u64map_put(&b.place, key, i);
    }
    if (!rc)
        rc = prefix ? read_weights(&b, prefix) : read_leaves(&b);
    if (!rc)
        rc = place_trees(&b, !prefix);
    for (uint32_t i = 0; i < f->nweight && !rc; i++)
        f->all_positive = f->all_positive && f->weight[i].weight >= 0;
    if (!rc)
        rc = make_steps(f);
    u64map_release(&b.place);
    mem_free(b.stack);
    mem_free(b.first);
    mem_free(b.count);
    if (rc)
        forest_release(f);
    return rc;
}

void forest_release(struct forest *f)
{
    mem_free(f->node);
    mem_free(f->step);
    mem_free(f->wide);
    mem_free(f->value);
    mem_free(f->root);
    mem_free(f->depth);
    mem_free(f->weight);
    mem_free(f->member);
    *f = (struct forest){ 0 };
}

double forest_zero(const struct forest *f)
{
    return f->sum == FOREST_MIN ? (double)INFINITY : f->sum == FOREST_MAX ? (double)-INFINITY : 0;
}

double forest_end(const struct forest *f, double a)
{
    if (f->sum == FOREST_AVERAGE)
        return a / f->ntree;
    return (f->sum == FOREST_MIN || f->sum == FOREST_MAX) && isinf(a) ? 0 : a;
}

static inline void add_leaf(const struct forest *f, uint32_t leaf, double *acc)
{
    const struct forest_node *n = &f->node[leaf];

    for (uint32_t i = 0; i < n->n; i++) {
        const struct forest_weight *w = &f->weight[n->first + i];

        acc[w->target] = forest_join(f->sum, acc[w->target], w->weight);
    }
}

#define ROWS 8       /* walks through one tree side by side */
#define TREES 16     /* walks of one row side by side: more, as nodes are far from each other */
#define LOOK_EVERY 2 /* steps between looks whether all walks have ended */

/* LANES walks, each from its own root through its own row, to their leaves. */
#define WALK(NAME, STEP, LANES)                                                                    \
    static inline void NAME(const struct STEP *const *root, const float *const *x, uint32_t depth, \
                            uint32_t *at)                                                          \
    {                                                                                              \
        for (uint32_t d = 0; d < depth; d += LOOK_EVERY) {                                         \
            uint32_t moved = 0;                                                                    \
                                                                                                   \
            for (int k = 0; k < LANES; k++) {                                                      \
                uint32_t before = 0;                                                               \
                                                                                                   \
                for (int e = 0; e < LOOK_EVERY; e++) {                                             \
                    const struct STEP *s = &root[k][at[k]];                                        \
                                                                                                   \
                    before = at[k];                                                                \
                    at[k] = (uint32_t)s->yes + (uint32_t) !(x[k][s->feature] <= s->split);         \
                }                                                                                  \
                moved |= before ^ at[k];                                                           \
            }                                                                                      \
            if (!moved)                                                                            \
                return;                                                                            \
        }                                                                                          \
    }
WALK(walk_rows, forest_step, ROWS)
WALK(walk_rows_wide, forest_step_wide, ROWS)
WALK(walk_trees, forest_step, TREES)
WALK(walk_trees_wide, forest_step_wide, TREES)

/* Rows side by side, one tree after the other. */
static void walk_block(const struct forest *f, const float *x, int64_t stride, uint32_t from,
                       uint32_t to, double *acc)
{
    const float *row[ROWS];

    for (int k = 0; k < ROWS; k++)
        row[k] = x + k * stride;
    for (uint32_t t = from; t < to; t++) {
        const struct forest_step *root[ROWS];
        const struct forest_step_wide *wide[ROWS];
        uint32_t at[ROWS] = { 0 }, first = f->root[t];

        for (int k = 0; k < ROWS; k++) {
            root[k] = f->step ? f->step + first : NULL;
            wide[k] = f->wide ? f->wide + first : NULL;
        }
        if (f->step)
            walk_rows(root, row, f->depth[t], at);
        else
            walk_rows_wide(wide, row, f->depth[t], at);
        for (int k = 0; k < ROWS; k++)
            if (f->value && f->sum <= FOREST_SUM)
                acc[k] += (double)f->value[first + at[k]];
            else
                add_leaf(f, first + at[k], acc + k * f->targets);
    }
}

/* Trees side by side for one row. */
static void walk_row(const struct forest *f, const float *x, uint32_t from, uint32_t to,
                     double *acc)
{
    const float *row[TREES];

    for (int k = 0; k < TREES; k++)
        row[k] = x;
    for (uint32_t t = from; t < to; t += TREES) {
        const struct forest_step *root[TREES];
        const struct forest_step_wide *wide[TREES];
        uint32_t at[TREES] = { 0 }, first[TREES], depth = 0;

        for (uint32_t k = 0; k < TREES; k++) {
            uint32_t tree = MIN(t + k, to - 1);

            first[k] = f->root[tree];
            root[k] = f->step ? f->step + first[k] : NULL;
            wide[k] = f->wide ? f->wide + first[k] : NULL;
            depth = MAX(depth, f->depth[tree]);
        }
        if (f->step)
            walk_trees(root, row, depth, at);
        else
            walk_trees_wide(wide, row, depth, at);
        for (uint32_t k = 0; k < TREES && t + k < to; k++)
            if (f->value && f->sum <= FOREST_SUM)
                acc[0] += (double)f->value[first[k] + at[k]];
            else
                add_leaf(f, first[k] + at[k], acc);
    }
}

void forest_walk(const struct forest *f, const float *x, int64_t stride, int64_t rows,
                 uint32_t from, uint32_t to, double *acc)
{
    int64_t r = 0;

    for (; r + ROWS <= rows; r += ROWS)
        walk_block(f, x + r * stride, stride, from, to, acc + r * f->targets);
    for (; r < rows; r++)
        walk_row(f, x + r * stride, from, to, acc + r * f->targets);
}

static bool is_member(const struct forest *f, const struct forest_node *n, double x)
{
    for (uint32_t i = 0; i < n->n; i++)
        if (f->member[n->first + i] == x)
            return true;
    return false;
}

static bool holds(const struct forest *f, const struct forest_node *n, double x)
{
    if (isnan(x))
        return n->nan_yes || n->test == TEST_NEQ;
    switch (n->test) {
    case TEST_LEQ:
        return x <= n->split;
    case TEST_LT:
        return x < n->split;
    case TEST_GTE:
        return x >= n->split;
    case TEST_GT:
        return x > n->split;
    case TEST_EQ:
        return x == n->split;
    case TEST_NEQ:
        return x != n->split;
    default:
        return is_member(f, n, x);
    }
}

void forest_walk_one(const struct forest *f, const double *x, uint32_t from, uint32_t to,
                     double *acc)
{
    for (uint32_t t = from; t < to; t++) {
        uint32_t at = f->root[t];

        while (f->node[at].test != TEST_LEAF)
            at = holds(f, &f->node[at], x[f->node[at].feature]) ? f->node[at].yes : f->node[at].no;
        add_leaf(f, at, acc);
    }
}
