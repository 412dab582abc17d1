/* op_figures.c -- see op_figures.h. */
#include "analyze/op_figures.h"

#include "base/alloc.h"
#include "base/u64map.h"
#include <string.h>

/* Reshape time by operator. Sites without reshape are the rule; then no span is looked at. */
static int sum_reshape(struct op_figures *s, const struct store *st, str_id reshape)
{
    size_t nsite, nrow = store_nrow(st, TABLE_span);
    const struct site *sites = store_sites(st, &nsite);
    const uint32_t *span_site = store_span_site(st);
    const int64_t *dur;
    const void *col;
    bool any = false;
    int rc;

    for (size_t i = 0; i < s->nop; i++)
        s->reshape_ns[i] = OPM_NULL_I64;
    for (size_t i = 0; i < nsite && !any; i++)
        any = reshape && sites[i].phase == reshape && sites[i].op < s->nop;
    if (!any || nrow == 0)
        return 0;
    rc = store_column(st, TABLE_span, span_col_dur, &col);
    if (rc < 0)
        return rc;
    dur = col;
    for (size_t row = 0; row < nrow; row++) {
        const struct site *site = &sites[span_site[row]];

        if (site->phase != reshape || site->op >= s->nop || dur[row] < 0)
            continue;
        if (s->reshape_ns[site->op] == OPM_NULL_I64)
            s->reshape_ns[site->op] = 0;
        s->reshape_ns[site->op] = add_ns(s->reshape_ns[site->op], dur[row]);
    }
    return 0;
}

/* The operator that launched what has this correlation number: of the spans around the launch the
 * innermost that executes one. */
static uint32_t launcher(const struct site *sites, const uint32_t *site, const uint32_t *parent,
                         size_t nop, uint32_t row)
{
    while (row != OPM_NULL_ID && sites[site[row]].op >= nop)
        row = parent[row];
    return row == OPM_NULL_ID ? GROUP_NONE : sites[site[row]].op;
}

/* Kernels that are no operator themselves, to the operators that launched them. *out stays NULL if
 * there are none; else it has an entry per span. */
static int attribute(const struct store *st, size_t nop, str_id hardware, uint32_t **out)
{
    size_t nsite, nrow = store_nrow(st, TABLE_span);
    const struct site *sites = store_sites(st, &nsite);
    const uint32_t *site = store_span_site(st), *up;
    const void *correlation, *parent;
    struct u64map launches = { 0 };
    bool kernels = false, any = false;
    uint32_t *group = NULL;
    int rc;

    for (size_t i = 0; i < nsite && !kernels; i++)
        kernels = hardware && sites[i].layer == hardware && sites[i].op >= nop;
    if (!kernels || !nop || !nrow)
        return 0;
    rc = store_column(st, TABLE_span, span_col_correlation, &correlation);
    if (rc < 0 || !correlation)
        return rc;
    rc = store_column(st, TABLE_span, span_col_parent, &parent);
    up = parent;
    group = rc == 0 && up ? mem_map(nrow * sizeof(*group)) : NULL;
    if (rc < 0 || !up)
        return rc;
    if (!group)
        return OPM_ENOMEM;
    for (size_t row = 0; row < nrow && rc == 0; row++) {
        int64_t c = ((const int64_t *)correlation)[row];

        if (c != OPM_NULL_I64 && sites[site[row]].layer != hardware)
            rc = u64map_put(&launches, (uint64_t)c, row);
    }
    for (size_t row = 0; row < nrow && rc == 0; row++) {
        int64_t c = ((const int64_t *)correlation)[row];
        const uint64_t *from = NULL;

        if (c != OPM_NULL_I64 && sites[site[row]].layer == hardware && sites[site[row]].op >= nop)
            from = u64map_get(&launches, (uint64_t)c);
        group[row] = from ? launcher(sites, site, up, nop, (uint32_t)*from) : GROUP_NONE;
        any |= group[row] != GROUP_NONE;
    }
    u64map_release(&launches);
    if (rc < 0 || !any)
        mem_unmap(group, nrow * sizeof(*group));
    else
        *out = group;
    return rc;
}

/* A group per section and operator for every site, the device's groups first. *kernels: there are
 * kernels of operators; may be set before. */
static void group_sites(const struct store *st, size_t nop, str_id hardware, bool *kernels,
                        uint32_t *group)
{
    str_id forward = strpool_find(store_strings(st), "forward", 7);
    str_id kernel = strpool_find(store_strings(st), "kernel", 6);
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);
    bool device = *kernels;

    for (size_t i = 0; i < nsite; i++) {
        bool on_hardware = hardware && sites[i].layer == hardware;
        bool is_kernel = on_hardware && kernel && sites[i].phase == kernel && sites[i].op < nop;
        bool counts = sites[i].phase == 0 || sites[i].phase == forward || is_kernel;

        group[i] = counts && sites[i].op < nop ? sites[i].op : GROUP_NONE;
        device |= group[i] != GROUP_NONE && on_hardware;
        *kernels |= is_kernel;
    }
    for (size_t i = 0; i < nsite && device; i++)
        if (group[i] != GROUP_NONE && sites[i].layer != hardware)
            group[i] += (uint32_t)nop;
}

static bool is_used(const struct group_stats *g)
{
    return g->count || g->warmup_count || g->open_count;
}

int op_figures_compute(struct op_figures *s, const struct store *st, const double *q, size_t nq,
                       bool wait)
{
    str_id reshape = strpool_find(store_strings(st), "reshape", 7);
    str_id hardware = strpool_find(store_strings(st), "hardware", 8);
    uint32_t *group, *row_group = NULL;
    size_t nsite;
    int rc = OPM_ENOMEM;

    store_sites(st, &nsite);
    *s = (struct op_figures){ .nop = store_nrow(st, TABLE_op) };
    s->in[SECTION_DEVICE] = mem_calloc(SECTION_COUNT * s->nop, sizeof(*s->op));
    s->op = mem_calloc(s->nop, sizeof(*s->op));
    s->reshape_ns = mem_calloc(s->nop, sizeof(*s->reshape_ns));
    group = mem_alloc(nsite * sizeof(*group));
    if (!s->in[SECTION_DEVICE] || !s->op || !s->reshape_ns || !group)
        goto out;
    s->in[SECTION_HOST] = s->in[SECTION_DEVICE] + s->nop;
    rc = attribute(st, s->nop, hardware, &row_group);
    if (rc < 0)
        goto out;
    s->kernels = row_group != NULL;
    group_sites(st, s->nop, hardware, &s->kernels, group);
    rc = groups_compute(st,
                        &(struct groups_query){ .group = group,
                                                .row_group = row_group,
                                                .ngroup = (uint32_t)(SECTION_COUNT * s->nop),
                                                .skip_warmup = true,
                                                .wait = wait,
                                                .q = q,
                                                .nq = nq },
                        s->in[SECTION_DEVICE]);
    if (rc == 0)
        rc = sum_reshape(s, st, reshape);
    for (size_t i = 0; i < s->nop && rc == 0; i++) {
        bool device =
            is_used(&s->in[SECTION_DEVICE][i]) && !(s->kernels && is_used(&s->in[SECTION_HOST][i]));

        s->op[i] = s->in[device ? SECTION_DEVICE : SECTION_HOST][i];
        s->self_ns = add_ns(s->self_ns, s->op[i].self_ns);
    }
out:
    if (row_group)
        mem_unmap(row_group, store_nrow(st, TABLE_span) * sizeof(*row_group));
    mem_free(group);
    return rc;
}

void op_figures_release(struct op_figures *s)
{
    mem_free(s->in[SECTION_DEVICE]);
    mem_free(s->op);
    mem_free(s->reshape_ns);
    *s = (struct op_figures){ 0 };
}
