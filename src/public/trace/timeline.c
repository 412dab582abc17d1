/* timeline.c -- bars and counters of a timeline; see opmeter_trace.h. */
#include "public/trace/trace.h"

#include "base/alloc.h"
#include "base/error.h"
#include "store/found.h"

/* Columns of a table with a time in it; dur -1: there is no length. */
static const struct {
    enum table_id table;
    int ts, dur;
} timed[] = {
    { TABLE_span, span_col_ts, span_col_dur },
    { TABLE_step, step_col_ts, step_col_dur },
    { TABLE_record, record_col_ts, record_col_dur },
    { TABLE_sample, sample_col_ts, -1 },
};

int64_t opm_trace_rows(const opm_trace *t, const char *table)
{
    for (int i = 0; t && table && i < TABLE_COUNT; i++)
        if (strcmp(store_table_defs[i].name, table) == 0)
            return (int64_t)store_nrow(t->st, i);
    return -1;
}

int64_t opm_trace_end(const opm_trace *t)
{
    int64_t end_ns = 0;

    for (size_t k = 0; t && k < ARRAY_SIZE(timed); k++) {
        const void *ts_data = NULL, *dur_data = NULL;
        const int64_t *ts, *dur;

        /* Columns that are not derived are there already, so that nothing can fail. */
        store_column(t->st, timed[k].table, timed[k].ts, &ts_data);
        if (timed[k].dur >= 0)
            store_column(t->st, timed[k].table, timed[k].dur, &dur_data);
        ts = ts_data;
        dur = dur_data;
        for (size_t i = 0; ts && i < store_nrow(t->st, timed[k].table); i++) {
            int64_t end = ts[i];

            if (dur && dur[i] > 0 && __builtin_add_overflow(end, dur[i], &end))
                end = INT64_MAX;
            if (ts[i] != OPM_NULL_I64)
                end_ns = MAX(end_ns, end);
        }
    }
    return end_ns;
}

/* What the bars of a picture are for the outside; takes bar. */
static int give_bars(const struct store *st, struct lod_bar *bar, size_t nbar, opm_bar **out,
                     size_t *n, opm_error *err)
{
    const uint32_t *site = store_span_site(st);
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);
    opm_bar *made = mem_alloc((nbar + 1) * sizeof(*made));

    for (size_t i = 0; made && i < nbar; i++) {
        str_id name = bar[i].named ? bar[i].name : sites[site[bar[i].span]].name;

        made[i] = (opm_bar){ .ts_ns = bar[i].ts_ns,
                             .dur_ns = bar[i].dur_ns,
                             .busy_ns = bar[i].busy_ns,
                             .name = store_text(st, name),
                             .depth = bar[i].depth,
                             .span = bar[i].span,
                             .count = bar[i].count,
                             .mixed = !bar[i].named };
    }
    mem_free(bar);
    if (!made)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    *out = made;
    *n = nbar;
    return 0;
}

/* A picture as `lod` has it. */
static int draw(const struct store *st, const struct lod *lod, uint32_t track, int64_t from_ns,
                int64_t to_ns, int64_t pixel_ns, size_t max, opm_bar **out, size_t *n,
                opm_error *err)
{
    struct lod_bar *bar = NULL;
    size_t nbar = 0;
    int rc = lod_query(lod, track, from_ns, to_ns, pixel_ns, max, &bar, &nbar);

    if (rc == OPM_ELIMIT)
        return opm__fail(err, rc, "timeline: more than %zu bars", max);
    if (rc < 0)
        return opm__fail(err, rc, "out of memory");
    return give_bars(st, bar, nbar, out, n, err);
}

int opm_trace_timeline(opm_trace *t, uint32_t track, int64_t from_ns, int64_t to_ns,
                       int64_t pixel_ns, size_t max, opm_bar **out, size_t *n, opm_error *err)
{
    if (!t || !out || !n)
        return opm__fail(err, OPM_EINVAL, "opm_trace_timeline: an argument is NULL");
    if (!t->lod && lod_new(t->st, NULL, &t->lod) < 0)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    return draw(t->st, t->lod, track, from_ns, to_ns, pixel_ns, max, out, n, err);
}

void opm_bars_free(opm_bar *bars)
{
    mem_free(bars);
}

struct opm_found {
    const struct store *st;
    const int64_t *ts;
    struct found *found;
};

int opm_trace_find(opm_trace *t, const char *text, opm_found **out, opm_error *err)
{
    struct opm_found *f;
    const void *ts = NULL;

    if (!t || !text || !out)
        return opm__fail(err, OPM_EINVAL, "opm_trace_find: an argument is NULL");
    f = mem_calloc(1, sizeof(*f));
    if (!f || store_column(t->st, TABLE_span, span_col_ts, &ts) < 0 ||
        found_new(t->st, text, &f->found) < 0) {
        mem_free(f);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    f->st = t->st;
    f->ts = ts;
    *out = f;
    return 0;
}

void opm_found_free(opm_found *f)
{
    if (f)
        found_free(f->found);
    mem_free(f);
}

size_t opm_found_count(const opm_found *f)
{
    return f ? f->found->n : 0;
}

int64_t opm_found_total(const opm_found *f)
{
    return f ? f->found->total_ns : 0;
}

int64_t opm_found_span(const opm_found *f, size_t i)
{
    return f && i < f->found->n ? (int64_t)f->found->span[i] : -1;
}

size_t opm_found_before(const opm_found *f, int64_t ns)
{
    size_t low = 0, high = f ? f->found->n : 0;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (f->ts[f->found->span[mid]] < ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int opm_found_timeline(const opm_found *f, uint32_t track, int64_t from_ns, int64_t to_ns,
                       int64_t pixel_ns, size_t max, opm_bar **out, size_t *n, opm_error *err)
{
    if (!f || !out || !n)
        return opm__fail(err, OPM_EINVAL, "opm_found_timeline: an argument is NULL");
    return draw(f->st, f->found->lod, track, from_ns, to_ns, pixel_ns, max, out, n, err);
}

int opm_trace_totals(opm_trace *t, int64_t from_ns, int64_t to_ns, opm_total **out, size_t *n,
                     opm_error *err)
{
    struct total *sum = NULL;
    opm_total *made;
    size_t nsum = 0;
    int rc = 0;

    if (!t || !out || !n)
        return opm__fail(err, OPM_EINVAL, "opm_trace_totals: an argument is NULL");
    if (!t->totals)
        rc = totals_new(t->st, &t->totals);
    if (rc == 0)
        rc = totals_query(t->totals, from_ns, to_ns, &sum, &nsum);
    made = rc == 0 ? mem_alloc((nsum + 1) * sizeof(*made)) : NULL;
    for (size_t i = 0; made && i < nsum; i++)
        made[i] = (opm_total){ .name = store_text(t->st, sum[i].name),
                               .cat = store_text(t->st, sum[i].cat),
                               .layer = store_text(t->st, sum[i].layer),
                               .count = sum[i].count,
                               .total_ns = sum[i].total_ns,
                               .self_ns = sum[i].self_ns };
    mem_free(sum);
    if (!made)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    *out = made;
    *n = nsum;
    return 0;
}

void opm_totals_free(opm_total *totals)
{
    mem_free(totals);
}

int opm_trace_flame(opm_trace *t, int64_t from_ns, int64_t to_ns, int64_t track, int64_t parts,
                    opm_flame **out, size_t *n, opm_error *err)
{
    struct flame_node *node = NULL;
    opm_flame *made;
    size_t nnode = 0;
    int rc = 0;

    if (!t || !out || !n || track >= UINT32_MAX)
        return opm__fail(err, OPM_EINVAL, "opm_trace_flame: an argument is wrong");
    if (!t->totals)
        rc = totals_new(t->st, &t->totals);
    if (rc == 0)
        rc = totals_flame(t->totals, from_ns, to_ns, track < 0 ? OPM_NULL_ID : (uint32_t)track,
                          parts, &node, &nnode);
    made = rc == 0 ? mem_alloc((nnode + 1) * sizeof(*made)) : NULL;
    for (size_t i = 0; made && i < nnode; i++)
        made[i] =
            (opm_flame){ .parent = node[i].parent == OPM_NULL_ID ? -1 : (int64_t)node[i].parent,
                         .name = store_text(t->st, node[i].name),
                         .count = node[i].count,
                         .total_ns = node[i].total_ns };
    mem_free(node);
    if (!made)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    *out = made;
    *n = nnode;
    return 0;
}

void opm_flame_free(opm_flame *nodes)
{
    mem_free(nodes);
}

int opm_trace_counter(opm_trace *t, uint32_t track, int64_t from_ns, int64_t to_ns,
                      int64_t pixel_ns, size_t max, opm_point **out, size_t *n, opm_error *err)
{
    struct counter_point *point = NULL;
    opm_point *made;
    size_t npoint = 0;
    int rc = 0;

    if (!t || !out || !n)
        return opm__fail(err, OPM_EINVAL, "opm_trace_counter: an argument is NULL");
    if (!t->counters)
        rc = counters_new(t->st, &t->counters);
    if (rc == 0)
        rc = counters_query(t->counters, track, from_ns, to_ns, pixel_ns, max, &point, &npoint);
    if (rc == OPM_ELIMIT)
        return opm__fail(err, rc, "counter: more than %zu points", max);
    made = rc == 0 ? mem_alloc((npoint + 1) * sizeof(*made)) : NULL;
    if (!made) {
        mem_free(point);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < npoint; i++)
        made[i] = (opm_point){ point[i].ts_ns, point[i].value };
    mem_free(point);
    *out = made;
    *n = npoint;
    return 0;
}

void opm_points_free(opm_point *points)
{
    mem_free(points);
}
