/* align.c -- see align.h. */
#include "compare/align.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_read.h"
#include "base/strpool.h"
#include "base/u64map.h"

#include <math.h>
#include <string.h>

#define NAMES_MAX 3           /* of a group, in its name */
#define TABLE_MAX (16u << 20) /* cells of the table of common sequences */
#define SEVERAL (UINT64_MAX)  /* more than one operator has the name */

enum side { A, B, SIDES, NEITHER = 0, ONLY_A = 1, ONLY_B = 2, BOTH = 3 };

struct aligning {
    const struct align_op *op;
    size_t n;
    size_t *parent;    /* of a forest whose trees are the groups */
    unsigned char *on; /* by root: sides of its tree; 0: on neither side, it takes no part */
    struct strpool words;
    struct u64map types; /* words that are types */
    struct u64map at;    /* word -> operator */
};

static unsigned sides_of(const struct align_op *op)
{
    return (isnan(op->ns[A]) ? 0 : ONLY_A) | (isnan(op->ns[B]) ? 0 : ONLY_B);
}

static size_t root_of(struct aligning *x, size_t i)
{
    while (x->parent[i] != i) {
        x->parent[i] = x->parent[x->parent[i]];
        i = x->parent[i];
    }
    return i;
}

/* The earlier root stays, so that groups come in the order of their first operators. */
static void join(struct aligning *x, size_t i, size_t k)
{
    size_t a = root_of(x, i), b = root_of(x, k);

    x->parent[MAX(a, b)] = MIN(a, b);
    x->on[MIN(a, b)] |= x->on[MAX(a, b)];
}

static int word_of(struct aligning *x, char space, const char *a, const char *b, str_id *out)
{
    struct buf key = { 0 };
    int rc = OPM_ENOMEM;

    buf_addc(&key, space);
    buf_adds(&key, a);
    if (b) {
        buf_addc(&key, '\0');
        buf_adds(&key, b);
    }
    if (!key.failed)
        rc = strpool_intern(&x->words, key.data, key.len, out);
    buf_release(&key);
    return rc;
}

/* Operators of the same word are one group. */
static int join_by(struct aligning *x, char space, const char *a, const char *b, size_t i)
{
    str_id word = 0;
    int rc = word_of(x, space, a, b, &word);
    const uint64_t *at = rc == 0 ? u64map_get(&x->at, word) : NULL;

    if (rc < 0)
        return rc;
    if (!at)
        return u64map_put(&x->at, word, i);
    join(x, i, (size_t)*at);
    return 0;
}

/* -- nodes, then name and type -- */

/* A node without a name is listed by its type, which says nothing. */
static int join_by_nodes(struct aligning *x, size_t i)
{
    const char *nodes = x->op[i].nodes;
    struct json_reader r = json_read_of(nodes, strlen(nodes));
    struct buf name = { 0 };
    int rc = 0;

    if (json_read_next(&r) != JSON_ARRAY)
        return 0;
    while (rc == 0 && json_read_next(&r) == JSON_STRING) {
        str_id type = 0;

        buf_clear(&name);
        json_read_text(&r, &name);
        rc = name.failed ? OPM_ENOMEM : word_of(x, 't', buf_str(&name), NULL, &type);
        if (rc == 0 && name.len && !u64map_get(&x->types, type))
            rc = join_by(x, 'n', buf_str(&name), NULL, i);
    }
    buf_release(&name);
    return rc;
}

static int join_nodes(struct aligning *x)
{
    int rc = 0;

    for (size_t i = 0; i < x->n && rc == 0; i++) {
        str_id type = 0;

        rc = word_of(x, 't', x->op[i].type, NULL, &type);
        if (rc == 0)
            rc = u64map_put(&x->types, type, 1);
    }
    for (size_t i = 0; i < x->n && rc == 0; i++)
        if (x->on[i] && x->op[i].nodes[0])
            rc = join_by_nodes(x, i);
    /* One of which no nodes are known is the node of its name, if another covers such a one. */
    for (size_t i = 0; i < x->n && rc == 0; i++) {
        const uint64_t *at;
        str_id word = 0;

        if (!x->on[i] || x->op[i].nodes[0])
            continue;
        rc = word_of(x, 'n', x->op[i].name, NULL, &word);
        at = rc == 0 ? u64map_get(&x->at, word) : NULL;
        if (at)
            join(x, i, (size_t)*at);
    }
    return rc;
}

static int join_named(struct aligning *x)
{
    int rc = 0;

    for (size_t i = 0; i < x->n && rc == 0; i++)
        if (x->on[i] && (x->op[i].name[0] || !x->op[i].nodes[0]))
            rc = join_by(x, 'x', x->op[i].name, x->op[i].type, i);
    return rc;
}

/* -- the name alone -- */

static int join_by_name(struct aligning *x)
{
    static const char space[] = { 'a', 'b' };
    int rc = 0;

    for (size_t i = 0; i < x->n && rc == 0; i++) {
        size_t root = root_of(x, i);
        unsigned on = x->on[root];
        const uint64_t *at;
        str_id word = 0;

        if ((on != ONLY_A && on != ONLY_B) || !x->op[i].name[0])
            continue;
        rc = word_of(x, space[on == ONLY_B], x->op[i].name, NULL, &word);
        at = rc == 0 ? u64map_get(&x->at, word) : NULL;
        if (rc == 0 && (!at || *at != root))
            rc = u64map_put(&x->at, word, at ? SEVERAL : root);
    }
    for (size_t i = 0; i < x->n && rc == 0; i++) {
        const uint64_t *at[SIDES];

        if (x->on[root_of(x, i)] != ONLY_A || !x->op[i].name[0])
            continue;
        for (int s = A; s < SIDES && rc == 0; s++) {
            str_id word = 0;

            rc = word_of(x, space[s], x->op[i].name, NULL, &word);
            at[s] = rc == 0 ? u64map_get(&x->at, word) : NULL;
        }
        if (rc == 0 && at[A] && at[B] && *at[A] != SEVERAL && *at[B] != SEVERAL)
            join(x, (size_t)*at[A], (size_t)*at[B]);
    }
    return rc;
}

/* -- renamed: the longest common sequence of what is left -- */

struct left {
    size_t *op[SIDES];
    uint32_t *is[SIDES]; /* what each is, as a word */
    size_t n[SIDES];
};

static bool pair_sequences(struct aligning *x, const struct left *l, size_t first, size_t na,
                           size_t nb)
{
    const uint32_t *a = l->is[A] + first, *b = l->is[B] + first;
    size_t wide = nb + 1;
    uint16_t *best;

    if (!na || !nb || na > UINT16_MAX || (na + 1) * wide > TABLE_MAX)
        return true;
    best = mem_calloc((na + 1) * wide, sizeof(*best));
    if (!best)
        return false;
    for (size_t i = na; i-- > 0;)
        for (size_t k = nb; k-- > 0;)
            best[i * wide + k] = a[i] == b[k]
                                     ? (uint16_t)(best[(i + 1) * wide + k + 1] + 1)
                                     : MAX(best[(i + 1) * wide + k], best[i * wide + k + 1]);
    for (size_t i = 0, k = 0; i < na && k < nb;) {
        if (a[i] == b[k]) {
            join(x, l->op[A][first + i], l->op[B][first + k]);
            i++;
            k++;
        } else if (best[(i + 1) * wide + k] >= best[i * wide + k + 1]) {
            i++;
        } else {
            k++;
        }
    }
    mem_free(best);
    return true;
}

static bool pair_left(struct aligning *x, const struct left *l)
{
    size_t first = 0, na = l->n[A], nb = l->n[B];

    for (; first < na && first < nb && l->is[A][first] == l->is[B][first]; first++)
        join(x, l->op[A][first], l->op[B][first]);
    for (; na > first && nb > first && l->is[A][na - 1] == l->is[B][nb - 1]; na--, nb--)
        join(x, l->op[A][na - 1], l->op[B][nb - 1]);
    return pair_sequences(x, l, first, na - first, nb - first);
}

static bool same_throughout(const struct left *l)
{
    return l->n[A] == l->n[B] && memcmp(l->is[A], l->is[B], l->n[A] * sizeof(*l->is[A])) == 0;
}

static int join_renamed(struct aligning *x)
{
    struct left l = { 0 };
    bool any = false, work = true, ok = true;
    int rc = 0;

    for (int s = A; s < SIDES; s++) {
        l.op[s] = mem_calloc(x->n + 1, sizeof(*l.op[s]));
        l.is[s] = mem_calloc(x->n + 1, sizeof(*l.is[s]));
        ok &= l.op[s] && l.is[s];
    }
    for (size_t i = 0; i < x->n && ok && rc == 0; i++) {
        const struct align_op *op = &x->op[i];
        unsigned on = x->on[root_of(x, i)];
        int s = on == ONLY_B;
        str_id is = 0;

        any |= on == BOTH;
        if ((on != ONLY_A && on != ONLY_B) || !op->type[0])
            continue;
        rc = word_of(x, 'w', op->type, op->work, &is);
        work &= op->work[0] != '\0';
        l.op[s][l.n[s]] = i;
        l.is[s][l.n[s]++] = is;
    }
    /* Types alone are too little to go by, unless it is all of them. */
    if (ok && rc == 0 && (work || (!any && same_throughout(&l))))
        ok = pair_left(x, &l);
    for (int s = A; s < SIDES; s++) {
        mem_free(l.op[s]);
        mem_free(l.is[s]);
    }
    return ok ? rc : OPM_ENOMEM;
}

/* -- groups and their names -- */

/* The group's operators of a side by distinct names, in order. */
static void add_names(struct buf *b, const struct align *a, const struct aligning *x, size_t group,
                      unsigned side)
{
    size_t more = 0, n = 0;
    const char *last = NULL;

    for (size_t i = 0; i < x->n; i++) {
        const char *name = x->op[i].name;

        if (a->group_of[i] != group || !(sides_of(&x->op[i]) & side) ||
            (last && strcmp(last, name) == 0))
            continue;
        last = name;
        if (n < NAMES_MAX)
            buf_addf(b, "%s%s", n ? " + " : "", name);
        else
            more++;
        n++;
    }
    if (more)
        buf_addf(b, " + %zu more", more);
}

static bool covers(const char *nodes, const char *node)
{
    struct json_reader r = json_read_of(nodes, strlen(nodes));
    bool found = false;

    if (json_read_next(&r) == JSON_ARRAY)
        while (!found && json_read_next(&r) == JSON_STRING)
            found = json_read_is(&r, node);
    return found;
}

/* What to call one operator of each side: if a name is that of a node which both cover, that. */
static void add_pair(struct buf *b, const struct align_op *a, const struct align_op *other)
{
    if (strcmp(a->name, other->name) == 0 || covers(other->nodes, a->name))
        buf_adds(b, a->name);
    else if (covers(a->nodes, other->name))
        buf_adds(b, other->name);
    else
        buf_addf(b, "%s → %s", a->name, other->name);
}

static bool name_group(struct align *a, const struct aligning *x, size_t group, const size_t *first)
{
    struct align_group *g = &a->group[group];
    struct buf name = { 0 };
    bool on_a = first[A] != ALIGN_NONE, on_b = first[B] != ALIGN_NONE;

    if (g->n[A] > 1 || g->n[B] > 1) /* those of the side that has more of them */
        add_names(&name, a, x, group, g->n[A] >= g->n[B] ? ONLY_A : ONLY_B);
    else if (on_a && on_b)
        add_pair(&name, &x->op[first[A]], &x->op[first[B]]);
    else
        buf_adds(&name, x->op[first[on_a ? A : B]].name);
    g->name = name.failed ? NULL : arena_strndup(&a->text, buf_str(&name), name.len);
    buf_release(&name);
    return g->name;
}

static int make_groups(struct align *a, struct aligning *x)
{
    size_t(*first)[SIDES] = mem_calloc(x->n + 1, sizeof(*first));
    double *longest = mem_calloc(x->n + 1, sizeof(*longest));
    bool ok = first && longest;

    for (size_t i = 0; i < x->n && ok; i++) {
        const struct align_op *op = &x->op[i];
        unsigned on = sides_of(op);
        size_t root = root_of(x, i), g;
        struct align_group *group;

        a->group_of[i] = ALIGN_NONE;
        if (!on)
            continue;
        if (root == i) {
            ok = GROW(a->group, a->cap, a->n + 1);
            if (!ok)
                break;
            a->group[a->n] = (struct align_group){ .type = "" };
            first[a->n][A] = first[a->n][B] = ALIGN_NONE;
            a->group_of[root] = a->n++;
        }
        g = a->group_of[i] = a->group_of[root];
        group = &a->group[g];
        for (int s = A; s < SIDES; s++) {
            if (isnan(op->ns[s]))
                continue;
            if (first[g][s] == ALIGN_NONE)
                first[g][s] = i;
            group->n[s]++;
            if (!group->type[0] || op->ns[s] > longest[g]) {
                group->type = op->type;
                longest[g] = op->ns[s];
            }
        }
    }
    for (size_t g = 0; g < a->n && ok; g++) {
        struct align_group *group = &a->group[g];

        group->type = arena_strndup(&a->text, group->type, strlen(group->type));
        ok = group->type && name_group(a, x, g, first[g]);
    }
    mem_free(first);
    mem_free(longest);
    return ok ? 0 : OPM_ENOMEM;
}

static int align(struct align *a, const struct align_op *op, size_t n, bool names)
{
    struct aligning x = { .op = op, .n = n };
    int rc = 0;

    x.parent = mem_calloc(n + 1, sizeof(*x.parent));
    x.on = mem_calloc(n + 1, sizeof(*x.on));
    a->group_of = mem_calloc(n + 1, sizeof(*a->group_of));
    if (!x.parent || !x.on || !a->group_of)
        rc = OPM_ENOMEM;
    for (size_t i = 0; i < n && rc == 0; i++) {
        x.parent[i] = i;
        x.on[i] = (unsigned char)sides_of(&op[i]);
    }
    if (rc == 0 && !names)
        rc = join_nodes(&x);
    if (rc == 0)
        rc = join_named(&x);
    if (rc == 0)
        rc = join_by_name(&x);
    if (rc == 0 && !names)
        rc = join_renamed(&x);
    if (rc == 0)
        rc = make_groups(a, &x);
    strpool_release(&x.words);
    u64map_release(&x.types);
    u64map_release(&x.at);
    mem_free(x.parent);
    mem_free(x.on);
    return rc;
}

int align_ops(struct align *a, const struct align_op *op, size_t n)
{
    return align(a, op, n, false);
}

int align_names(struct align *a, const struct align_op *op, size_t n)
{
    return align(a, op, n, true);
}

int align_by_type(struct align *a, size_t nops)
{
    size_t *into = mem_calloc(a->n + 1, sizeof(*into)), n = 0;
    struct strpool types = { 0 };
    int rc = into ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < a->n && rc == 0; i++) {
        const struct align_group g = a->group[i];
        str_id id = 0;

        rc = strpool_intern(&types, g.type, strlen(g.type), &id);
        if (rc < 0)
            break;
        into[i] = id - 1;
        if (into[i] == n)
            a->group[n++] = (struct align_group){ .name = g.type, .type = g.type };
        for (int s = A; s < SIDES; s++)
            a->group[into[i]].n[s] += g.n[s];
    }
    for (size_t i = 0; i < nops && rc == 0; i++)
        if (a->group_of[i] != ALIGN_NONE)
            a->group_of[i] = into[a->group_of[i]];
    if (rc == 0)
        a->n = n;
    strpool_release(&types);
    mem_free(into);
    return rc;
}

void align_release(struct align *a)
{
    arena_release(&a->text);
    mem_free(a->group);
    mem_free(a->group_of);
    *a = (struct align){ 0 };
}
