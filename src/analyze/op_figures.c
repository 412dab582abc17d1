/* op_figures.c -- see op_figures.h. */
#include "analyze/op_figures.h"

#include "analyze/device_time.h"
#include "analyze/interrupted.h"
#include "base/alloc.h"
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

/* A group per section and operator for every site, the device's groups first, ngroup to a section.
 * *kernels: there are kernels of operators; may be set before. */
static void group_sites(const struct store *st, size_t nop, size_t ngroup, str_id hardware,
                        bool *kernels, uint32_t *group)
{
    str_id forward = strpool_find(store_strings(st), "forward", 7);
    str_id kernel = strpool_find(store_strings(st), "kernel", 6);
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);
    bool device = *kernels || ngroup > nop;

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
            group[i] += (uint32_t)ngroup;
}

static bool is_used(const struct group_stats *g)
{
    return g->count || g->warmup_count || g->open_count;
}

int64_t op_figures_work_ns(const struct op_figures *s, size_t op)
{
    const struct group_stats *device = &s->in[SECTION_DEVICE][op];

    if (device->count)
        return group_typical_ns(device);
    return s->kernels ? 0 : group_typical_ns(&s->op[op]);
}

/* The figures of both sections, and how many iterations stand behind them. */
static int compute_sections(struct op_figures *s, const struct store *st, struct groups_query *q)
{
    size_t n = s->nop + s->nowner;
    int rc;

    s->in[SECTION_DEVICE] = mem_calloc(SECTION_COUNT * n, sizeof(*s->in[0]));
    s->iterations[SECTION_DEVICE] = mem_calloc(SECTION_COUNT * n, sizeof(*s->iterations[0]));
    if (!s->in[SECTION_DEVICE] || !s->iterations[SECTION_DEVICE])
        return OPM_ENOMEM;
    s->in[SECTION_HOST] = s->in[SECTION_DEVICE] + n;
    s->iterations[SECTION_HOST] = s->iterations[SECTION_DEVICE] + n;
    q->ngroup = (uint32_t)(SECTION_COUNT * n);
    rc = groups_compute(st, q, s->in[SECTION_DEVICE]);
    if (rc == 0)
        rc = iterations_count(st,
                              &(struct iterations_query){ .group = q->group,
                                                          .row_group = q->row_group,
                                                          .passed_on = q->passed_on,
                                                          .ngroup = q->ngroup,
                                                          .wait = q->wait },
                              s->iterations[SECTION_DEVICE]);
    /* Kernels of an operator, as those of an owner, need not be alike. */
    if (rc == 0)
        rc = interrupted_find(st, q, (uint32_t)n, s->kernels ? 0 : (uint32_t)s->nop,
                              s->in[SECTION_DEVICE], s->iterations[SECTION_DEVICE]);
    return rc;
}

bool op_figures_timed(const struct op_figures *s, size_t op)
{
    return s->op[op].count && (!s->kernels || is_used(&s->in[SECTION_DEVICE][op]));
}

/* Executions that launch kernels, by how long the device worked for each. Where that is not known
 * of all, the kernels stand for them. */
static void use_executions(struct op_figures *s, const struct device_time *d, size_t op,
                           const double *q, size_t nq)
{
    size_t n = d->first[op + 1] - d->first[op];
    const struct group_stats *kernels = &s->in[SECTION_DEVICE][op];
    struct group_stats g = { .self_ns = kernels->self_ns,
                             .interrupted = kernels->interrupted,
                             .interrupted_ns = kernels->interrupted_ns,
                             .warmup_count = s->in[SECTION_HOST][op].warmup_count,
                             .open_count = s->in[SECTION_HOST][op].open_count };

    if (d->unplaced[op] || !n)
        return;
    group_stats_of(&g, d->value_ns + d->first[op], n, q, nq);
    s->op[op] = g;
}

int op_groups_find(struct op_groups *g, const struct store *st)
{
    str_id hardware = strpool_find(store_strings(st), "hardware", 8);
    size_t nsite;
    int rc;

    *g = (struct op_groups){ .nop = store_nrow(st, TABLE_op) };
    store_sites(st, &nsite);
    rc = attribution_find(&g->whose, st);
    if (rc == 0)
        rc = redispatch_find(&g->passed, st);
    g->site = mem_alloc(nsite * sizeof(*g->site));
    if (rc < 0 || !g->site)
        return OPM_ENOMEM;
    g->kernels = g->whose.launched;
    g->nsection = g->nop + g->whose.nowner;
    group_sites(st, g->nop, g->nsection, hardware, &g->kernels, g->site);
    return 0;
}

void op_groups_release(struct op_groups *g)
{
    attribution_release(&g->whose);
    redispatch_release(&g->passed);
    mem_free(g->site);
    *g = (struct op_groups){ 0 };
}

int op_figures_compute(struct op_figures *s, const struct store *st, const double *q, size_t nq,
                       bool wait)
{
    str_id reshape = strpool_find(store_strings(st), "reshape", 7);
    struct device_time launched = { 0 };
    struct op_groups g;
    int rc = op_groups_find(&g, st);

    *s = (struct op_figures){
        .nop = g.nop, .nowner = g.whose.nowner, .owner = g.whose.owner, .kernels = g.kernels
    };
    g.whose.owner = NULL;
    s->op = mem_calloc(s->nop, sizeof(*s->op));
    s->op_iterations = mem_calloc(s->nop, sizeof(*s->op_iterations));
    s->reshape_ns = mem_calloc(s->nop, sizeof(*s->reshape_ns));
    if (rc == 0 && (!s->op || !s->op_iterations || !s->reshape_ns))
        rc = OPM_ENOMEM;
    if (rc < 0)
        goto out;
    rc = compute_sections(s, st,
                          &(struct groups_query){ .group = g.site,
                                                  .row_group = g.whose.group,
                                                  .passed_on = g.passed.to,
                                                  .skip_warmup = true,
                                                  .wait = wait,
                                                  .q = q,
                                                  .nq = nq });
    if (rc == 0)
        rc = sum_reshape(s, st, reshape);
    if (rc == 0 && s->kernels)
        rc = device_time_find(&launched, st, g.whose.group);
    for (size_t i = 0; i < s->nop && rc == 0; i++) {
        bool device = is_used(&s->in[SECTION_DEVICE][i]);

        s->op[i] = s->in[device ? SECTION_DEVICE : SECTION_HOST][i];
        s->op_iterations[i] = s->iterations[device ? SECTION_DEVICE : SECTION_HOST][i];
        if (device && s->kernels)
            use_executions(s, &launched, i, q, nq);
        if (op_figures_timed(s, i))
            s->whole_ns += iterations_whole_ns(&s->op_iterations[i], group_typical_ns(&s->op[i]));
    }
out:
    device_time_release(&launched);
    op_groups_release(&g);
    return rc;
}

void op_figures_release(struct op_figures *s)
{
    mem_free(s->in[SECTION_DEVICE]);
    mem_free(s->iterations[SECTION_DEVICE]);
    mem_free(s->owner);
    mem_free(s->op);
    mem_free(s->op_iterations);
    mem_free(s->reshape_ns);
    *s = (struct op_figures){ 0 };
}
