/* perfetto_spans.c -- begins and ends into spans, flow ids into arrows. */
#include "import/perfetto/perfetto_int.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static int by_lane_and_time(const void *va, const void *vb)
{
    const struct pf_event *a = va, *b = vb;

    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Arguments of a begin and its end: one object. */
static str_id join_args(struct pf *p, str_id a, str_id b)
{
    const struct strpool *pool = store_strings(p->b.st);

    if (!a || !b)
        return a ? a : b;
    buf_clear(&p->scratch);
    buf_add(&p->scratch, strpool_get(pool, a), strpool_len(pool, a) - 1);
    buf_addc(&p->scratch, ',');
    buf_add(&p->scratch, strpool_get(pool, b) + 1, strpool_len(pool, b) - 1);
    return build_buf(&p->b, &p->scratch);
}

static void set_flows(struct pf *p, const struct pf_event *e, uint32_t span)
{
    for (uint32_t i = 0; i < e->nflow; i++)
        p->flow[e->flow - 1 + i].span = span;
}

static int64_t duration(const struct pf_event *begin, const struct pf_event *end)
{
    int64_t dur;

    return __builtin_sub_overflow(end->ts_ns, begin->ts_ns, &dur) ? INT64_MAX : dur;
}

/* end: NULL if it never ended, or begin itself if it says how long it is. */
static void span_add(struct pf *p, const struct pf_event *begin, const struct pf_event *end)
{
    struct span_row row = SPAN_ROW_INIT;
    uint32_t id;

    row.ts_ns = begin->ts_ns;
    row.dur_ns = !end ? -1 : end == begin ? begin->dur_ns : duration(begin, end);
    row.track = p->lane[begin->lane].track;
    row.site = begin->site;
    row.correlation = begin->correlation;
    row.args = join_args(p, begin->args, end && end != begin ? end->args : 0);
    id = build_span(&p->b, &row);
    set_flows(p, begin, id);
    if (end && end != begin)
        set_flows(p, end, id);
    if (begin->region && !p->b.rc) {
        const struct pf_region *r = &p->region[begin->region - 1];

        if (r->is_record)
            build_record(&p->b, r->text, row.ts_ns, row.dur_ns, r->warmup, row.track);
        else
            build_step(&p->b, &(struct step_row){ .model = r->text,
                                                  .num = r->num,
                                                  .ts_ns = row.ts_ns,
                                                  .dur_ns = row.dur_ns,
                                                  .warmup = r->warmup,
                                                  .track = row.track });
    }
}

/* What happened in one lane, in order of time. */
static void lane_read(struct pf *p, const struct pf_event *e, size_t n, size_t *open)
{
    size_t nopen = 0;

    for (size_t i = 0; i < n && !p->b.rc; i++) {
        switch (e[i].type) {
        case PF_STATE: /* ends the one before */
            if (nopen)
                span_add(p, &e[open[--nopen]], &e[i]);
            open[nopen++] = i;
            break;
        case PF_BEGIN:
            open[nopen++] = i;
            break;
        case PF_END:
            if (nopen)
                span_add(p, &e[open[--nopen]], &e[i]);
            else
                store_stat(p->b.st, STAT_end_without_begin, 1);
            break;
        case PF_COMPLETE:
            span_add(p, &e[i], &e[i]);
            break;
        }
    }
    while (nopen && !p->b.rc)
        span_add(p, &e[open[--nopen]], NULL);
}

static int by_id_and_time(const void *va, const void *vb)
{
    const struct pf_flow *a = va, *b = vb;

    if (a->legacy != b->legacy)
        return a->legacy ? 1 : -1;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* An id leads from each event that has it to the next, until one ends it. */
static void flows_add(struct pf *p)
{
    uint32_t from = OPM_NULL_ID;

    if (p->nflow)
        qsort(p->flow, p->nflow, sizeof(*p->flow), by_id_and_time);
    for (size_t i = 0; i < p->nflow && !p->b.rc; i++) {
        const struct pf_flow *f = &p->flow[i];

        if (i && (f->id != f[-1].id || f->legacy != f[-1].legacy))
            from = OPM_NULL_ID;
        if (f->span == OPM_NULL_ID) {
            store_stat(p->b.st, STAT_flow_without_span, 1);
            continue;
        }
        if (f->mode != PF_FLOW_OUT) {
            if (from != OPM_NULL_ID && from != f->span)
                build_flow(&p->b, from, f->span, "flow");
            else if (from == OPM_NULL_ID && f->mode != PF_FLOW_STEP)
                store_stat(p->b.st, STAT_flow_without_span, 1);
        }
        if (f->mode == PF_FLOW_END)
            from = OPM_NULL_ID;
        else if (f->mode != PF_FLOW_IN)
            from = f->span;
    }
}

void pf_spans(struct pf *p)
{
    size_t *open = mem_alloc((p->nevent + 1) * sizeof(*open));
    bool sorted = true;

    if (!open) {
        p->b.rc = OPM_ENOMEM;
        return;
    }
    for (size_t i = 1; i < p->nevent && sorted; i++)
        sorted = by_lane_and_time(&p->event[i - 1], &p->event[i]) < 0;
    if (!sorted)
        qsort(p->event, p->nevent, sizeof(*p->event), by_lane_and_time);
    for (size_t i = 0, n; i < p->nevent && !p->b.rc; i += n) {
        for (n = 1; i + n < p->nevent && p->event[i + n].lane == p->event[i].lane;)
            n++;
        lane_read(p, p->event + i, n, open);
    }
    flows_add(p);
    mem_free(open);
}
