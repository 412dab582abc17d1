/* totals.c -- see totals.h. */
#include "store/totals.h"

#include "store/store_int.h"

#include "base/alloc.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 4096                 /* spans that are skipped, or counted, together */
#define BLOCK_SUMS_MAX (BLOCK / 8) /* with more names it is as good to look at each span */

/* What the spans of a block add to one group: of each its time to its own, and less it to that of
 * the span around, so that it holds wherever that one is cut. */
struct block_sum {
    uint32_t group, count;
    int64_t total_ns, self_ns;
};

struct totals {
    const struct store *st;
    const int64_t *ts, *dur;
    const uint32_t *parent; /* NULL: nothing is inside anything */
    const uint32_t *site;
    uint32_t *group; /* per site */
    struct total *name;
    size_t ngroup, nspan;
    int64_t *reach_ns; /* per block: the latest end */
    struct block_sum *sum;
    size_t *first_sum; /* [blocks + 1] into sum; none: look at the spans */
    size_t nsum, sum_cap;
};

/* What a site is counted under. */
struct key {
    struct total total;
    uint32_t site;
};

static int order(uint32_t a, uint32_t b)
{
    return a < b ? -1 : a > b;
}

static int same_key(const struct total *x, const struct total *y)
{
    int by = order(x->name, y->name);

    if (by == 0)
        by = order(x->cat, y->cat);
    return by ? by : order(x->layer, y->layer);
}

static int by_key(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    return same_key(&x->total, &y->total);
}

static int by_self(const void *a, const void *b)
{
    const struct total *x = a, *y = b;

    if (x->self_ns != y->self_ns)
        return x->self_ns < y->self_ns ? 1 : -1;
    return same_key(x, y);
}

static int number_groups(struct totals *t)
{
    size_t nsite;
    const struct site *sites = store_sites(t->st, &nsite);
    struct key *key = mem_calloc(nsite + 1, sizeof(*key));

    t->group = mem_calloc(nsite + 1, sizeof(*t->group));
    t->name = mem_calloc(nsite + 1, sizeof(*t->name));
    if (!key || !t->group || !t->name) {
        mem_free(key);
        return OPM_ENOMEM;
    }
    for (uint32_t i = 0; i < nsite; i++)
        key[i] =
            (struct key){ { .name = sites[i].name, .cat = sites[i].cat, .layer = sites[i].layer },
                          i };
    qsort(key, nsite, sizeof(*key), by_key);
    for (size_t i = 0; i < nsite; i++) {
        if (i == 0 || same_key(&key[i - 1].total, &key[i].total) != 0)
            t->name[t->ngroup++] = key[i].total;
        t->group[key[i].site] = (uint32_t)(t->ngroup - 1);
    }
    mem_free(key);
    return 0;
}

static int64_t end_of(const struct totals *t, size_t span)
{
    return t->dur[span] < 0 ? INT64_MAX : span_end(t->ts[span], t->dur[span]);
}

static int find_reach(struct totals *t)
{
    t->reach_ns = mem_alloc((t->nspan / BLOCK + 1) * sizeof(*t->reach_ns));
    if (!t->reach_ns)
        return OPM_ENOMEM;
    for (size_t b = 0; b <= t->nspan / BLOCK; b++) {
        int64_t reach = INT64_MIN;

        for (size_t i = b * BLOCK; i < MIN((b + 1) * BLOCK, t->nspan); i++)
            reach = MAX(reach, end_of(t, i));
        t->reach_ns[b] = reach;
    }
    return 0;
}

static int64_t sum_ns(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

/* What encloses a span that touches the range touches it, too, so that what is taken from its self
 * time was put there. */
static void add_span(const struct totals *t, size_t i, int64_t from_ns, int64_t to_ns,
                     struct total *sum)
{
    int64_t ns = MIN(end_of(t, i), to_ns) - MAX(t->ts[i], from_ns);
    struct total *own = &sum[t->group[t->site[i]]];

    own->count++;
    own->total_ns = sum_ns(own->total_ns, ns);
    own->self_ns = sum_ns(own->self_ns, ns);
    if (t->parent && t->parent[i] != OPM_NULL_ID) {
        struct total *around = &sum[t->group[t->site[t->parent[i]]]];

        around->self_ns = sum_ns(around->self_ns, -ns);
    }
}

/* The sums of block b, from `all`, which is zero and is so again afterwards. */
static int sum_block(struct totals *t, size_t b, struct total *all, uint32_t *touched)
{
    size_t n = 0, start = t->nsum;

    for (size_t i = b * BLOCK; i < MIN((b + 1) * BLOCK, t->nspan); i++) {
        uint32_t of[2] = { t->group[t->site[i]], OPM_NULL_ID };

        if (t->parent && t->parent[i] != OPM_NULL_ID)
            of[1] = t->group[t->site[t->parent[i]]];
        for (int k = 0; k < 2; k++) {
            if (of[k] == OPM_NULL_ID || all[of[k]].name)
                continue;
            all[of[k]].name = 1; /* touched */
            touched[n++] = of[k];
        }
        add_span(t, i, INT64_MIN / 2, INT64_MAX, all);
    }
    for (size_t i = 0; i < n; i++) {
        const struct total *from = &all[touched[i]];

        if (n <= BLOCK_SUMS_MAX) {
            if (!GROW(t->sum, t->sum_cap, t->nsum + 1)) {
                t->nsum = start;
                return OPM_ENOMEM;
            }
            t->sum[t->nsum++] = (struct block_sum){ touched[i], (uint32_t)from->count,
                                                    from->total_ns, from->self_ns };
        }
        all[touched[i]] = (struct total){ 0 };
    }
    return 0;
}

static int sum_blocks(struct totals *t)
{
    size_t nblock = t->nspan / BLOCK;
    struct total *all = mem_calloc(t->ngroup + 1, sizeof(*all));
    uint32_t *touched = mem_alloc((2 * BLOCK + 1) * sizeof(*touched));
    int rc = all && touched ? 0 : OPM_ENOMEM;

    t->first_sum = mem_calloc(nblock + 2, sizeof(*t->first_sum));
    if (!t->first_sum)
        rc = OPM_ENOMEM;
    for (size_t b = 0; rc == 0 && b < nblock; b++) {
        t->first_sum[b] = t->nsum;
        /* One that never ended lasts as long as the range: there is no sum of it. */
        if (t->reach_ns[b] != INT64_MAX)
            rc = sum_block(t, b, all, touched);
        t->first_sum[b + 1] = t->nsum;
    }
    mem_free(all);
    mem_free(touched);
    return rc;
}

int totals_new(const struct store *st, struct totals **out)
{
    struct totals *t = mem_calloc(1, sizeof(*t));
    const void *ts, *dur, *parent;

    if (!t || store_column(st, TABLE_span, span_col_ts, &ts) ||
        store_column(st, TABLE_span, span_col_dur, &dur) ||
        store_column(st, TABLE_span, span_col_parent, &parent)) {
        mem_free(t);
        return OPM_ENOMEM;
    }
    *t = (struct totals){ .st = st,
                          .ts = ts,
                          .dur = dur,
                          .parent = parent,
                          .site = store_span_site(st),
                          .nspan = store_nrow(st, TABLE_span) };
    if (number_groups(t) || find_reach(t) || sum_blocks(t)) {
        totals_free(t);
        return OPM_ENOMEM;
    }
    *out = t;
    return 0;
}

void totals_free(struct totals *t)
{
    if (!t)
        return;
    mem_free(t->group);
    mem_free(t->name);
    mem_free(t->reach_ns);
    mem_free(t->sum);
    mem_free(t->first_sum);
    mem_free(t);
}

/* The next span from i on that starts before the range, which begins with span `first`, and reaches
 * into it; `first` if there is none. */
static size_t next_reaching(const struct totals *t, size_t i, size_t first, int64_t from_ns)
{
    while (i < first) {
        if (i % BLOCK == 0 && t->reach_ns[i / BLOCK] <= from_ns) {
            i += BLOCK;
            continue;
        }
        if (end_of(t, i) > from_ns)
            return i;
        i++;
    }
    return first;
}

/* Whether a block begins with span i, all of it starts before span `end` and ends by then, and its
 * sums are known. */
static bool whole_block(const struct totals *t, size_t i, size_t end, int64_t to_ns)
{
    size_t b = i / BLOCK;

    return i % BLOCK == 0 && i + BLOCK <= end && t->reach_ns[b] <= to_ns &&
           t->first_sum[b] < t->first_sum[b + 1];
}

static void add_block(const struct totals *t, size_t b, struct total *sum)
{
    for (size_t k = t->first_sum[b]; k < t->first_sum[b + 1]; k++) {
        struct total *of = &sum[t->sum[k].group];

        of->count += t->sum[k].count;
        of->total_ns = sum_ns(of->total_ns, t->sum[k].total_ns);
        of->self_ns = sum_ns(of->self_ns, t->sum[k].self_ns);
    }
}

int totals_query(const struct totals *t, int64_t from_ns, int64_t to_ns, struct total **out,
                 size_t *n)
{
    struct total *sum = mem_alloc((t->ngroup + 1) * sizeof(*sum));
    size_t first, end, kept = 0;

    if (!sum)
        return OPM_ENOMEM;
    memcpy(sum, t->name, t->ngroup * sizeof(*sum));
    store_span_range(t->st, from_ns, MAX(from_ns, to_ns), &first, &end);
    for (size_t i = next_reaching(t, 0, first, from_ns); i < first;
         i = next_reaching(t, i + 1, first, from_ns))
        add_span(t, i, from_ns, to_ns, sum);
    for (size_t i = first; i < end;) {
        if (whole_block(t, i, end, to_ns)) {
            add_block(t, i / BLOCK, sum);
            i += BLOCK;
        } else {
            add_span(t, i++, from_ns, to_ns, sum);
        }
    }
    for (size_t g = 0; g < t->ngroup; g++)
        if (sum[g].count)
            sum[kept++] = sum[g];
    qsort(sum, kept, sizeof(*sum), by_self);
    *out = sum;
    *n = kept;
    return 0;
}

struct flame {
    const struct totals *t;
    int64_t from_ns, to_ns;
    uint32_t track; /* OPM_NULL_ID: all */
    struct flame_node *node;
    size_t n, cap;
    uint32_t *top;        /* node of every track; OPM_NULL_ID: none yet */
    struct u64map below;  /* parent and name -> node */
    struct u64map before; /* span that starts before the range -> node */
    uint32_t *node_of;    /* of those in it, from `first` on */
    size_t first;
};

static uint32_t flame_add(struct flame *f, uint32_t parent, str_id name)
{
    if (!GROW(f->node, f->cap, f->n + 1))
        return OPM_NULL_ID;
    f->node[f->n] = (struct flame_node){ .parent = parent, .name = name };
    return (uint32_t)f->n++;
}

static uint32_t flame_top(struct flame *f, uint32_t track)
{
    const struct store *st = f->t->st;

    if (f->top[track] == OPM_NULL_ID)
        f->top[track] = flame_add(f, OPM_NULL_ID,
                                  track < store_nrow(st, TABLE_track)
                                      ? store_cell(st, TABLE_track, track, track_col_name).str
                                      : 0);
    return f->top[track];
}

static uint32_t flame_child(struct flame *f, uint32_t parent, str_id name)
{
    uint64_t key = (uint64_t)parent << 32 | name;
    const uint64_t *known = u64map_get(&f->below, key);
    uint32_t node = known ? (uint32_t)*known : flame_add(f, parent, name);

    if (!known && node != OPM_NULL_ID && u64map_put(&f->below, key, node))
        return OPM_NULL_ID;
    return node;
}

/* The node that a span of the range got; OPM_NULL_ID: none. */
static uint32_t flame_of(const struct flame *f, uint32_t span)
{
    const uint64_t *known;

    if (span >= f->first)
        return f->node_of[span - f->first];
    known = u64map_get(&f->before, span);
    return known ? (uint32_t)*known : OPM_NULL_ID;
}

static int flame_span(struct flame *f, size_t i)
{
    const struct totals *t = f->t;
    uint32_t track = packed_get(&t->st->span_track, i), parent = OPM_NULL_ID, node;
    size_t nsite;
    int64_t ns = MIN(end_of(t, i), f->to_ns) - MAX(t->ts[i], f->from_ns);
    bool is_top;

    if (f->track != OPM_NULL_ID && f->track != track) {
        if (i >= f->first)
            f->node_of[i - f->first] = OPM_NULL_ID;
        return 0;
    }
    if (t->parent && t->parent[i] != OPM_NULL_ID)
        parent = flame_of(f, t->parent[i]);
    is_top = parent == OPM_NULL_ID;
    if (is_top)
        parent = flame_top(f, track);
    if (parent == OPM_NULL_ID)
        return OPM_ENOMEM;
    node = flame_child(f, parent, store_sites(t->st, &nsite)[t->site[i]].name);
    if (node == OPM_NULL_ID)
        return OPM_ENOMEM;
    f->node[node].count++;
    f->node[node].total_ns = sum_ns(f->node[node].total_ns, ns);
    if (is_top) {
        f->node[parent].count++;
        f->node[parent].total_ns = sum_ns(f->node[parent].total_ns, ns);
    }
    if (i >= f->first)
        f->node_of[i - f->first] = node;
    else if (u64map_put(&f->before, i, node))
        return OPM_ENOMEM;
    return 0;
}

/* Leave out what is too small to be seen; what is inside of it is, too. */
static int flame_prune(struct flame *f, int64_t parts)
{
    uint32_t *to = mem_alloc((f->n + 1) * sizeof(*to));
    int64_t all_ns = 0;
    size_t kept = 0;

    if (!to)
        return OPM_ENOMEM;
    for (size_t i = 0; i < f->n; i++)
        if (f->node[i].parent == OPM_NULL_ID)
            all_ns = sum_ns(all_ns, f->node[i].total_ns);
    for (size_t i = 0; i < f->n; i++) {
        struct flame_node *node = &f->node[i];
        bool orphan = node->parent != OPM_NULL_ID && to[node->parent] == OPM_NULL_ID;

        to[i] = OPM_NULL_ID;
        if (orphan || node->total_ns < all_ns / parts)
            continue;
        if (node->parent != OPM_NULL_ID)
            node->parent = to[node->parent];
        to[i] = (uint32_t)kept;
        f->node[kept++] = *node;
    }
    f->n = kept;
    mem_free(to);
    return 0;
}

int totals_flame(const struct totals *t, int64_t from_ns, int64_t to_ns, uint32_t track,
                 int64_t parts, struct flame_node **out, size_t *n)
{
    struct flame f = { .t = t, .from_ns = from_ns, .to_ns = to_ns, .track = track };
    size_t end, ntrack = store_nrow(t->st, TABLE_track) + 1;
    int rc;

    store_span_range(t->st, from_ns, MAX(from_ns, to_ns), &f.first, &end);
    f.node_of = mem_alloc((end - f.first + 1) * sizeof(*f.node_of));
    f.top = mem_alloc(ntrack * sizeof(*f.top));
    rc = f.node_of && f.top ? 0 : OPM_ENOMEM;
    for (size_t i = 0; rc == 0 && i < ntrack; i++)
        f.top[i] = OPM_NULL_ID;
    for (size_t i = next_reaching(t, 0, f.first, from_ns); rc == 0 && i < f.first;
         i = next_reaching(t, i + 1, f.first, from_ns))
        rc = flame_span(&f, i);
    for (size_t i = f.first; rc == 0 && i < end; i++)
        rc = flame_span(&f, i);
    if (rc == 0)
        rc = flame_prune(&f, MAX(parts, (int64_t)1));
    mem_free(f.node_of);
    mem_free(f.top);
    u64map_release(&f.below);
    u64map_release(&f.before);
    if (rc < 0) {
        mem_free(f.node);
        return rc;
    }
    *out = f.node;
    *n = f.n;
    return 0;
}
