/* latency.c -- how long steps and labelled regions take. */
#include "analyze/analysis.h"
#include "analyze/groups.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"
#include <string.h>

enum { Q50, Q90, Q95, Q97, Q99, Q999, NQ };
static const double quantiles[NQ] = { PERCENTILE(50), PERCENTILE(90), PERCENTILE(95),
                                      PERCENTILE(97), PERCENTILE(99), PERCENTILE(99.9) };

/* Steps and records look alike; these are the columns to read. */
struct scope {
    const char *word;
    enum table_id table;
    int name;
    int ts;
    int dur;
    int warmup;
    int track;
};

static const struct scope scopes[] = {
    { "step", TABLE_step, step_col_model, step_col_ts, step_col_dur, step_col_warmup,
      step_col_track },
    { "record", TABLE_record, record_col_label, record_col_ts, record_col_dur, record_col_warmup,
      record_col_track },
};

/* All rows of one name in one source: two sessions that go by one name are two models. */
struct series {
    str_id name;
    uint32_t source; /* source.id, or OPM_NULL_ID */
    size_t count;
    int64_t warmup_count;
    int64_t until_ns; /* end of the counted rows up to now, */
    int64_t busy_ns;  /* and how long at least one of them was going on */
    size_t at;        /* where its durations start, then where the next one goes */
};

static uint32_t source_of(const struct store *st, const struct scope *sc, size_t row)
{
    int64_t track = store_i64_or(st, sc->table, row, sc->track, -1);

    if (track < 0 || (size_t)track >= store_nrow(st, TABLE_track))
        return OPM_NULL_ID;
    return (uint32_t)store_i64_or(st, TABLE_track, (size_t)track, track_col_source, OPM_NULL_ID);
}

/* Which series each row belongs to; UINT32_MAX for rows that are not counted. */
static int collect(const struct store *st, const struct scope *sc, uint32_t *of_row,
                   struct series **series, size_t *nseries)
{
    struct u64map index = { 0 };
    size_t cap = 0;
    int rc = 0;

    for (size_t row = 0, n = store_nrow(st, sc->table); row < n; row++) {
        struct cell name = store_cell(st, sc->table, row, sc->name);
        str_id id = cell_text_id(name);
        int64_t ts = store_i64_or(st, sc->table, row, sc->ts, 0);
        int64_t dur = store_i64_or(st, sc->table, row, sc->dur, -1);
        uint32_t source = source_of(st, sc, row);
        uint64_t key = (uint64_t)source << 32 | id;
        uint64_t *at = u64map_get(&index, key);
        size_t i = at ? *at : *nseries;
        struct series *s;

        if (!at) {
            if (!GROW(*series, cap, *nseries + 1)) {
                rc = OPM_ENOMEM;
                break;
            }
            (*series)[i] = (struct series){ .name = id, .source = source };
            rc = u64map_put(&index, key, (*nseries)++);
            if (rc < 0)
                break;
        }
        s = &(*series)[i];
        of_row[row] = UINT32_MAX;
        if (dur < 0)
            continue;
        if (store_i64_or(st, sc->table, row, sc->warmup, 0) == 1) {
            s->warmup_count++;
            continue;
        }
        of_row[row] = (uint32_t)i;
        /* Rows come by their starts. */
        if (s->count == 0 || ts > s->until_ns)
            s->until_ns = ts;
        if (add_ns(ts, dur) > s->until_ns) {
            s->busy_ns = add_ns(s->busy_ns, add_ns(ts, dur) - s->until_ns);
            s->until_ns = add_ns(ts, dur);
        }
        s->count++;
    }
    u64map_release(&index);
    return rc;
}

static int add_row(struct table *out, str_id scope, const struct series *s, int64_t *values)
{
    struct cell c[latency_col_COUNT] = { 0 };
    struct group_stats stats = { 0 };

    group_stats_of(&stats, values, s->count, quantiles, NQ);
    c[latency_col_scope] = cell_str(scope);
    c[latency_col_name] = cell_str(s->name);
    c[latency_col_source] = cell_id(s->source);
    c[latency_col_count] = cell_i64(stats.count);
    c[latency_col_warmup_count] = cell_i64(s->warmup_count);
    if (stats.count > 0) {
        c[latency_col_min_ns] = cell_i64(stats.min_ns);
        c[latency_col_max_ns] = cell_i64(stats.max_ns);
        c[latency_col_mean_ns] = cell_f64(stats.mean_ns);
        c[latency_col_median_ns] = cell_f64(stats.q[Q50]);
        c[latency_col_p90_ns] = cell_f64(stats.q[Q90]);
        c[latency_col_p95_ns] = cell_f64(stats.q[Q95]);
        c[latency_col_p97_ns] = cell_f64(stats.q[Q97]);
        c[latency_col_p99_ns] = cell_f64(stats.q[Q99]);
        c[latency_col_p999_ns] = cell_f64(stats.q[Q999]);
        c[latency_col_stdev_ns] = cell_f64(stats.stdev_ns);
        if (s->busy_ns > 0)
            c[latency_col_per_second] = cell_f64((double)stats.count * 1e9 / (double)s->busy_ns);
    }
    return table_add(out, c);
}

static int add_scope(const struct store *st, const struct scope *sc, struct table *out)
{
    size_t nrow = store_nrow(st, sc->table), nseries = 0, at = 0;
    str_id word = strpool_find(store_strings(st), sc->word, strlen(sc->word));
    uint32_t *of_row = mem_alloc(nrow * sizeof(*of_row));
    int64_t *values = mem_alloc(nrow * sizeof(*values));
    struct series *series = NULL;
    int rc = OPM_ENOMEM;

    if (!of_row || !values)
        goto out;
    rc = collect(st, sc, of_row, &series, &nseries);
    if (rc < 0)
        goto out;
    for (size_t i = 0; i < nseries; i++) {
        series[i].at = at;
        at += series[i].count;
    }
    for (size_t row = 0; row < nrow; row++)
        if (of_row[row] != UINT32_MAX)
            values[series[of_row[row]].at++] = store_cell(st, sc->table, row, sc->dur).i64;
    for (size_t i = 0; i < nseries && rc == 0; i++)
        rc = add_row(out, word, &series[i], values + series[i].at - series[i].count);
out:
    mem_free(series);
    mem_free(values);
    mem_free(of_row);
    return rc;
}

int analyze_latency(const struct store *st, struct table *out, opm_error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(scopes); i++) {
        int rc = add_scope(st, &scopes[i], out);

        if (rc < 0)
            return opm__fail(err, rc, "latency: out of memory");
    }
    return 0;
}
