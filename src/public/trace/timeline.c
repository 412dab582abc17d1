/* timeline.c -- bars and counters of a timeline; see opmeter_trace.h. */
#include "public/trace/trace.h"

#include "base/alloc.h"
#include "base/error.h"

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

int opm_trace_timeline(opm_trace *t, uint32_t track, int64_t from_ns, int64_t to_ns,
                       int64_t pixel_ns, size_t max, opm_bar **out, size_t *n, opm_error *err)
{
    const uint32_t *site;
    const struct site *sites;
    struct lod_bar *bar = NULL;
    size_t nbar = 0, nsite;
    opm_bar *made;
    int rc = 0;

    if (!t || !out || !n)
        return opm__fail(err, OPM_EINVAL, "opm_trace_timeline: an argument is NULL");
    if (!t->lod)
        rc = lod_new(t->st, &t->lod);
    if (rc == 0)
        rc = lod_query(t->lod, track, from_ns, to_ns, pixel_ns, max, &bar, &nbar);
    if (rc == OPM_ELIMIT)
        return opm__fail(err, rc, "timeline: more than %zu bars", max);
    made = rc == 0 ? mem_alloc((nbar + 1) * sizeof(*made)) : NULL;
    if (!made) {
        mem_free(bar);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    site = store_span_site(t->st);
    sites = store_sites(t->st, &nsite);
    for (size_t i = 0; i < nbar; i++)
        made[i] = (opm_bar){ .ts_ns = bar[i].ts_ns,
                             .dur_ns = bar[i].dur_ns,
                             .name = store_text(t->st, sites[site[bar[i].span]].name),
                             .depth = bar[i].depth,
                             .span = bar[i].span,
                             .count = bar[i].count };
    mem_free(bar);
    *out = made;
    *n = nbar;
    return 0;
}

void opm_bars_free(opm_bar *bars)
{
    mem_free(bars);
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
