/* opstats.c -- see opstats.h. */
#include "analyze/opstats.h"

#include "base/alloc.h"
#include <string.h>

/* Reshape time by operator. Sites without reshape are the rule; then no span is looked at. */
static int sum_reshape(struct opstats *s, const struct store *st, str_id reshape)
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

/* A group per section and operator for every site, the device's groups first. */
static void group_sites(const struct store *st, size_t nop, uint32_t *group)
{
    const struct strpool *strings = store_strings(st);
    str_id forward = strpool_find(strings, "forward", 7);
    str_id hardware = strpool_find(strings, "hardware", 8);
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);
    bool device = false;

    for (size_t i = 0; i < nsite; i++) {
        bool counts = sites[i].phase == 0 || sites[i].phase == forward;

        group[i] = counts && sites[i].op < nop ? sites[i].op : GROUP_NONE;
        device |= group[i] != GROUP_NONE && hardware && sites[i].layer == hardware;
    }
    for (size_t i = 0; i < nsite && device; i++)
        if (group[i] != GROUP_NONE && sites[i].layer != hardware)
            group[i] += (uint32_t)nop;
}

static bool is_used(const struct group_stats *g)
{
    return g->count || g->warmup_count || g->open_count;
}

int opstats_compute(struct opstats *s, const struct store *st, const double *q, size_t nq,
                    bool wait)
{
    str_id reshape = strpool_find(store_strings(st), "reshape", 7);
    uint32_t *group;
    size_t nsite;
    int rc = OPM_ENOMEM;

    store_sites(st, &nsite);
    *s = (struct opstats){ .nop = store_nrow(st, TABLE_op) };
    s->in[SECTION_DEVICE] = mem_calloc(SECTION_COUNT * s->nop, sizeof(*s->op));
    s->op = mem_calloc(s->nop, sizeof(*s->op));
    s->reshape_ns = mem_calloc(s->nop, sizeof(*s->reshape_ns));
    group = mem_alloc(nsite * sizeof(*group));
    if (!s->in[SECTION_DEVICE] || !s->op || !s->reshape_ns || !group)
        goto out;
    s->in[SECTION_HOST] = s->in[SECTION_DEVICE] + s->nop;
    group_sites(st, s->nop, group);
    rc = groups_compute(st,
                        &(struct groups_query){ .group = group,
                                                .ngroup = (uint32_t)(SECTION_COUNT * s->nop),
                                                .skip_warmup = true,
                                                .wait = wait,
                                                .q = q,
                                                .nq = nq },
                        s->in[SECTION_DEVICE]);
    if (rc == 0)
        rc = sum_reshape(s, st, reshape);
    for (size_t i = 0; i < s->nop && rc == 0; i++) {
        bool device = is_used(&s->in[SECTION_DEVICE][i]);

        s->op[i] = s->in[device ? SECTION_DEVICE : SECTION_HOST][i];
        s->self_ns = add_ns(s->self_ns, s->op[i].self_ns);
    }
out:
    mem_free(group);
    return rc;
}

void opstats_release(struct opstats *s)
{
    mem_free(s->in[SECTION_DEVICE]);
    mem_free(s->op);
    mem_free(s->reshape_ns);
    *s = (struct opstats){ 0 };
}
