/* step_sums.c -- operators and kernels by step and duration: rows that add up. */
#include "analyze/analysis.h"
#include "analyze/hardware.h"
#include "analyze/op_figures.h"
#include "analyze/span_class.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/sketch.h"
#include "base/u64map.h"

#include <stdlib.h>
#include <string.h>

#define BUCKET_BITS 13 /* more than a sketch has */

struct sum {
    uint32_t step, group, bucket; /* step: OPM_NULL_ID: in none */
    int64_t rank;
    int64_t count, total_ns, self_ns, min_ns, max_ns;
};

struct sums {
    struct sum *at;
    size_t n, cap;
    struct u64map place; /* step (or rank, in none) and group -> number */
    struct u64map row;   /* number and bucket -> index into at[] */
    /* What spans have. */
    const int64_t *self;
    const uint32_t *track, *step;
    int64_t *rank; /* per track */
    size_t ntrack, nstep;
};

static int sums_open(struct sums *s, const struct store *st)
{
    const void *self, *track, *step;

    *s =
        (struct sums){ .ntrack = store_nrow(st, TABLE_track), .nstep = store_nrow(st, TABLE_step) };
    s->rank = mem_alloc((s->ntrack + 1) * sizeof(*s->rank));
    if (!s->rank || store_column(st, TABLE_span, span_col_self, &self) < 0 ||
        store_column(st, TABLE_span, span_col_track, &track) < 0 ||
        store_column(st, TABLE_span, span_col_step, &step) < 0)
        return OPM_ENOMEM;
    s->self = self;
    s->track = track;
    s->step = step;
    for (size_t i = 0; i < s->ntrack; i++)
        s->rank[i] = store_i64_or(st, TABLE_track, i, track_col_rank, OPM_NULL_I64);
    return 0;
}

static void sums_release(struct sums *s)
{
    mem_free(s->at);
    mem_free(s->rank);
    u64map_release(&s->place);
    u64map_release(&s->row);
}

/* A number for each key, in the order that they come. */
static int number_of(struct u64map *m, uint64_t key, size_t *out)
{
    const uint64_t *at = u64map_get(m, key);

    *out = at ? *at : m->n;
    return at ? 0 : u64map_put(m, key, *out);
}

static uint32_t track_of(const struct sums *s, size_t span)
{
    return s->track ? s->track[span] : OPM_NULL_ID;
}

static uint32_t step_of(const struct sums *s, size_t span)
{
    return s->step && s->step[span] < s->nstep ? s->step[span] : OPM_NULL_ID;
}

/* The row of a span in a group that has durations of such a bucket; NULL when out of memory. A step
 * is of one rank, so outside of steps alone ranks are told apart. */
static struct sum *sum_at(struct sums *s, size_t span, uint32_t group, uint32_t bucket)
{
    uint32_t step = step_of(s, span), track = track_of(s, span);
    int64_t rank = track < s->ntrack ? s->rank[track] : OPM_NULL_I64;
    uint64_t where = step != OPM_NULL_ID             ? step
                     : rank >= 0 && rank < INT32_MAX ? UINT32_C(0x80000000) + (uint64_t)rank
                                                     : UINT32_MAX;
    size_t place, row;

    if (number_of(&s->place, where << 32 | group, &place) ||
        number_of(&s->row, (uint64_t)place << BUCKET_BITS | bucket, &row))
        return NULL;
    if (row == s->n) {
        if (!GROW(s->at, s->cap, s->n + 1))
            return NULL;
        s->at[s->n++] = (struct sum){
            .step = step, .group = group, .bucket = bucket, .rank = rank, .min_ns = INT64_MAX
        };
    }
    return &s->at[row];
}

static int sums_add(struct sums *s, size_t span, uint32_t group, int64_t dur_ns)
{
    struct sum *at = sum_at(s, span, group, sketch_bucket_of((double)dur_ns));

    if (!at)
        return OPM_ENOMEM;
    at->count++;
    at->total_ns = add_ns(at->total_ns, dur_ns);
    at->self_ns = add_ns(at->self_ns, s->self ? s->self[span] : dur_ns);
    at->min_ns = MIN(at->min_ns, dur_ns);
    at->max_ns = MAX(at->max_ns, dur_ns);
    return 0;
}

#define ORDER(a, b)                    \
    do {                               \
        if ((a) != (b))                \
            return (a) < (b) ? -1 : 1; \
    } while (0)

static int by_key(const void *va, const void *vb)
{
    const struct sum *a = va, *b = vb;

    ORDER(a->rank, b->rank);
    ORDER(a->step, b->step);
    ORDER(a->group, b->group);
    ORDER(a->bucket, b->bucket);
    return 0;
}

static void sums_sort(struct sums *s)
{
    if (s->n)
        qsort(s->at, s->n, sizeof(*s->at), by_key);
}

static struct cell step_num(const struct store *st, uint32_t step)
{
    return step == OPM_NULL_ID ? cell_null() : store_cell(st, TABLE_step, step, step_col_num);
}

static str_id word(const struct store *st, const char *text)
{
    return strpool_find(store_strings(st), text, strlen(text));
}

/* -- operators -- */

/* A call that only passes itself on has no execution; what it did itself is part of the one that it
 * leads to, and counts there. */
static int add_passed_on(struct sums *s, const struct group_rows *r, size_t span)
{
    uint32_t to = r->query->passed_on[span], g = group_rows_of(r, to);
    struct sum *at;

    if (g == GROUP_NONE || !s->self || r->dur[span] < 0 || r->dur[to] < 0 ||
        group_rows_warmup(r, span))
        return 0;
    at = sum_at(s, to, g, sketch_bucket_of((double)r->dur[to]));
    if (!at)
        return OPM_ENOMEM;
    at->self_ns = add_ns(at->self_ns, s->self[span]);
    return 0;
}

static int sum_ops(struct sums *s, const struct store *st, const struct op_groups *g)
{
    const struct groups_query query = { .group = g->site,
                                        .row_group = g->whose.group,
                                        .passed_on = g->passed.to,
                                        .ngroup = (uint32_t)(2 * g->nsection),
                                        .skip_warmup = true };
    struct group_rows r;
    int rc = group_rows_open(&r, st, &query);

    for (size_t i = 0; rc == 0 && i < r.nrow; i++) {
        uint32_t group = group_rows_counted(&r, i);

        if (group != GROUP_NONE)
            rc = sums_add(s, i, group, r.dur[i]);
        else if (group_rows_passed_on(&r, i))
            rc = add_passed_on(s, &r, i);
    }
    return rc;
}

static int add_op(const struct store *st, const struct op_groups *g, const struct sum *s,
                  struct table *out)
{
    size_t who = s->group % g->nsection;
    struct cell c[op_steps_col_COUNT];

    c[op_steps_col_rank] = cell_i64(s->rank);
    c[op_steps_col_step] = cell_id(s->step);
    c[op_steps_col_num] = step_num(st, s->step);
    c[op_steps_col_section] = cell_str(word(st, s->group < g->nsection ? "device" : "host"));
    if (who < g->nop) {
        c[op_steps_col_op] = cell_id((uint32_t)who);
        c[op_steps_col_name] = store_cell(st, TABLE_op, who, op_col_name);
        c[op_steps_col_type] = store_cell(st, TABLE_op, who, op_col_type);
    } else {
        static const char *const kinds[] = {
#define X(kind, text) [OWNER_##kind] = text,
            OWNER_KINDS(X)
#undef X
        };
        const struct owner *o = &g->whose.owner[who - g->nop];

        c[op_steps_col_op] = cell_null();
        c[op_steps_col_name] = cell_str(o->name);
        c[op_steps_col_type] = cell_str(word(st, kinds[o->kind]));
    }
    c[op_steps_col_bucket] = cell_i64(s->bucket);
    c[op_steps_col_count] = cell_i64(s->count);
    c[op_steps_col_total_ns] = cell_i64(s->total_ns);
    c[op_steps_col_self_ns] = cell_i64(s->self_ns);
    c[op_steps_col_min_ns] = cell_i64(s->min_ns);
    c[op_steps_col_max_ns] = cell_i64(s->max_ns);
    return table_add(out, c);
}

int analyze_op_steps(const struct store *st, struct table *out, opm_error *err)
{
    struct op_groups g;
    struct sums s = { 0 };
    int rc = op_groups_find(&g, st);

    if (rc == 0)
        rc = sums_open(&s, st);
    if (rc == 0 && g.nsection)
        rc = sum_ops(&s, st, &g);
    sums_sort(&s);
    for (size_t i = 0; rc == 0 && i < s.n; i++)
        if (s.at[i].count)
            rc = add_op(st, &g, &s.at[i], out);
    sums_release(&s);
    op_groups_release(&g);
    return rc ? opm__fail(err, rc, "op_steps: out of memory") : 0;
}

/* -- kernels -- */

/* A group for what has the same name and device. */
struct kernels {
    struct hardware hardware;
    uint8_t *class;
    const struct site *sites;
    size_t nsite;
    struct u64map group;
    struct kernel {
        str_id name, device;
        enum owner_kind kind;
    } * at;
    size_t n, cap;
    str_id *device; /* per track */
};

static int kernels_open(struct kernels *k, const struct store *st)
{
    size_t ntrack = store_nrow(st, TABLE_track);
    int rc;

    *k = (struct kernels){ 0 };
    rc = hardware_find(&k->hardware, st);
    k->class = span_classes(st);
    k->sites = store_sites(st, &k->nsite);
    k->device = mem_alloc((ntrack + 1) * sizeof(*k->device));
    if (rc < 0 || !k->class || !k->device)
        return OPM_ENOMEM;
    for (size_t i = 0; i < ntrack; i++)
        k->device[i] = cell_text_id(store_cell(st, TABLE_track, i, track_col_device));
    return 0;
}

static void kernels_release(struct kernels *k)
{
    hardware_release(&k->hardware);
    u64map_release(&k->group);
    mem_free(k->class);
    mem_free(k->device);
    mem_free(k->at);
}

/* The group of a span, GROUP_NONE for what is no work of a device. */
static int kernel_of(struct kernels *k, const struct sums *s, uint32_t site, size_t span,
                     uint32_t *group)
{
    uint32_t track = track_of(s, span);
    str_id device = track < s->ntrack ? k->device[track] : 0, name = k->sites[site].name;
    size_t at;

    *group = GROUP_NONE;
    if (!name || k->hardware.role[site] == HARDWARE_NOT || k->hardware.role[site] == HARDWARE_HOLDS)
        return 0;
    if (number_of(&k->group, (uint64_t)name << 32 | device, &at))
        return OPM_ENOMEM;
    if (at == k->n) {
        if (!GROW(k->at, k->cap, k->n + 1))
            return OPM_ENOMEM;
        k->at[k->n++] = (struct kernel){ name, device,
                                         k->class[site] == CLASS_COMM   ? OWNER_COMM
                                         : k->class[site] == CLASS_COPY ? OWNER_COPY
                                                                        : OWNER_KERNEL };
    }
    *group = (uint32_t)at;
    return 0;
}

static int sum_kernels(struct sums *s, const struct store *st, struct kernels *k)
{
    uint32_t *none = mem_alloc((k->nsite + 1) * sizeof(*none));
    const struct groups_query query = { .group = none, .skip_warmup = true };
    struct group_rows r;
    int rc = none ? 0 : OPM_ENOMEM;

    for (size_t i = 0; none && i < k->nsite; i++)
        none[i] = GROUP_NONE;
    if (rc == 0)
        rc = group_rows_open(&r, st, &query);
    for (size_t i = 0; rc == 0 && k->hardware.any && i < r.nrow; i++) {
        uint32_t group = GROUP_NONE;

        if (r.dur[i] >= 0 && !group_rows_warmup(&r, i))
            rc = kernel_of(k, s, r.site[i], i, &group);
        if (rc == 0 && group != GROUP_NONE)
            rc = sums_add(s, i, group, r.dur[i]);
    }
    mem_free(none);
    return rc;
}

static int add_kernel(const struct store *st, const struct kernels *k, const struct sum *s,
                      struct table *out)
{
    const struct kernel *kernel = &k->at[s->group];
    struct cell c[kernel_steps_col_COUNT];

    c[kernel_steps_col_rank] = cell_i64(s->rank);
    c[kernel_steps_col_step] = cell_id(s->step);
    c[kernel_steps_col_num] = step_num(st, s->step);
    c[kernel_steps_col_device] = cell_str(kernel->device);
    c[kernel_steps_col_name] = cell_str(kernel->name);
    c[kernel_steps_col_kind] = cell_str(word(st, kernel->kind == OWNER_COMM   ? "collective"
                                                 : kernel->kind == OWNER_COPY ? "copy"
                                                                              : "kernel"));
    c[kernel_steps_col_bucket] = cell_i64(s->bucket);
    c[kernel_steps_col_count] = cell_i64(s->count);
    c[kernel_steps_col_total_ns] = cell_i64(s->total_ns);
    c[kernel_steps_col_min_ns] = cell_i64(s->min_ns);
    c[kernel_steps_col_max_ns] = cell_i64(s->max_ns);
    return table_add(out, c);
}

int analyze_kernel_steps(const struct store *st, struct table *out, opm_error *err)
{
    struct kernels k;
    struct sums s = { 0 };
    int rc = kernels_open(&k, st);

    if (rc == 0)
        rc = sums_open(&s, st);
    if (rc == 0)
        rc = sum_kernels(&s, st, &k);
    sums_sort(&s);
    for (size_t i = 0; rc == 0 && i < s.n; i++)
        rc = add_kernel(st, &k, &s.at[i], out);
    sums_release(&s);
    kernels_release(&k);
    return rc ? opm__fail(err, rc, "kernel_steps: out of memory") : 0;
}
