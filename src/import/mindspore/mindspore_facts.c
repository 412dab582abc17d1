/* mindspore_facts.c -- the run, the machine and its clocks, and figures that were summed up
 * already: means of operators, costs of communication, parts of steps. */
#include "import/mindspore/mindspore_int.h"

#include "base/csv_read.h"
#include "base/json_read.h"

#include <string.h>

#define COLUMNS_MAX 64
#define FACT_MAX 65536 /* bytes of a file that is kept as it is */

/* The members of an object that are no objects or arrays themselves, as facts. */
static int object_facts(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len,
                        const char *prefix)
{
    struct json_reader r = json_read_of(data, len);
    struct buf key = { 0 }, value = { 0 };
    int rc = 0;

    if (json_read_next(&r) != JSON_OBJECT)
        store_stat(m->st, STAT_json_malformed, 1);
    while (rc == 0 && json_read_next(&r) == JSON_KEY) {
        enum json_token t;

        buf_clear(&key);
        buf_clear(&value);
        buf_adds(&key, prefix);
        json_read_text(&r, &key);
        t = json_read_next(&r);
        if (t == JSON_STRING)
            json_read_text(&r, &value);
        else if (t == JSON_NUMBER)
            buf_add(&value, r.text, r.len);
        else if (!json_read_skip(&r))
            break;
        if (t != JSON_STRING && t != JSON_NUMBER)
            continue;
        d->added++;
        rc = key.failed || value.failed ? OPM_ENOMEM
                                        : ms_fact(m, d, buf_str(&key), buf_str(&value), value.len);
        if (!rc && strcmp(buf_str(&key), "ms_version") == 0)
            rc = import_meta(m->st, m->src, "source.version", buf_str(&value));
    }
    buf_release(&key);
    buf_release(&value);
    return rc;
}

int ms_read_profiler_info(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    return object_facts(m, d, data, len, "");
}

int ms_read_info_json(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    return object_facts(m, d, data, len, "machine.");
}

/* The name of the file without its device and what stands behind it. */
static size_t base_name(const char *path, const char **base)
{
    const char *slash = strrchr(path, '/'), *at = slash ? slash + 1 : path;
    size_t n = strcspn(at, ".");

    while (n && at[n - 1] >= '0' && at[n - 1] <= '9')
        n--;
    if (n && at[n - 1] == '_')
        n--;
    *base = at;
    return n;
}

static int whole(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct buf key = { 0 };
    const char *base;
    size_t n = base_name(m->path, &base);
    int rc;

    if (len > FACT_MAX)
        return 0;
    buf_add(&key, base, n);
    d->added++;
    rc = key.failed ? OPM_ENOMEM : ms_fact(m, d, buf_str(&key), (const char *)data, len);
    buf_release(&key);
    return rc;
}

int ms_read_json_fact(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    return whole(m, d, data, len);
}

int ms_read_text_fact(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    return whole(m, d, data, len);
}

/* clock_realtime, clock_monotonic_raw and, of a device, cntvct: its counter then. */
int ms_read_start_log(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct text text = { (const char *)data, len }, rest;
    uint64_t realtime = 0, counter;
    int64_t ns;
    int rc = 0;

    if (text_after(text, "clock_realtime:", &rest) && text_u64(text_trim(rest), &realtime)) {
        char digits[24];
        size_t n = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)realtime);

        d->added++;
        rc = ms_fact(m, d, "started_realtime_ns", digits, n);
    }
    if (realtime && realtime <= INT64_MAX && text_after(text, "cntvct:", &rest) &&
        text_u64(text_trim(rest), &counter) && counter && ms_ticks(counter, &ns))
        import_set_realtime(m->src, (int64_t)realtime - ns);
    return rc;
}

/* {"collectionTimeBegin": "<us since 1970>", "clockMonotonicRaw": "<ns>"}: the clock of msprof. */
int ms_read_start_info(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct json_reader r = json_read_of(data, len);
    int64_t begin = MS_NONE, raw = MS_NONE;

    if (json_read_next(&r) != JSON_OBJECT)
        store_stat(m->st, STAT_json_malformed, 1);
    while (json_read_next(&r) == JSON_KEY) {
        int64_t *to = json_read_is(&r, "collectionTimeBegin") ? &begin
                      : json_read_is(&r, "clockMonotonicRaw") ? &raw
                                                              : NULL;

        json_read_next(&r);
        if (to)
            json_read_int(&r, to);
        if (!json_read_skip(&r))
            break;
    }
    if (begin > 0 && begin < INT64_MAX / 1000 && raw >= 0 && raw < begin * 1000) {
        d->added++;
        import_set_realtime(m->src, begin * 1000 - raw);
    }
    return 0;
}

/* Columns of the tables with means of operators, by the many names that they have; first come the
 * better ones. */
static const struct {
    const char *name;
    enum { NAME, TYPE, MEAN_MS, MEAN_US, COUNT } what;
} mean_columns[] = {
    { "full_op_name", NAME },
    { "full_kernel_name", NAME },
    { "full_kernel_time", NAME },
    { "full_op_time", NAME },
    { "op_full_name", NAME },
    { "name", NAME },
    { "op_name", NAME },
    { "op_type", TYPE },
    { "kernel_type", TYPE },
    { "OP Type", TYPE },
    { "execution_time", MEAN_MS },
    { "total_time", MEAN_MS },
    { "Avg Time(us)", MEAN_US },
    { "op_avg_time(us)", MEAN_US },
    { "avg_duration(us)", MEAN_US },
    { "op_avg_time", MEAN_MS },
    { "execution_frequency", COUNT },
    { "op_occurrences", COUNT },
    { "occurrences", COUNT },
    { "Count", COUNT },
};

static struct text cell_of(const struct csv_field *f, int n, int column)
{
    if (column < 0 || column >= MIN(n, COLUMNS_MAX))
        return (struct text){ "", 0 };
    return text_trim((struct text){ f[column].p, f[column].len });
}

static int mean_add(struct ms *m, struct ms_device *d, struct text name, struct text type,
                    int64_t mean_ns, int64_t count, int64_t *at_ns)
{
    uint32_t op, track;
    str_id args = 0;
    char text[64];
    int rc = 0;

    if (type.len)
        rc = ms_op_new(m, d, name.p, name.len, type.p, type.len, NULL, &op);
    if (!rc)
        rc = ms_op(m, d, name.p, name.len, &op);
    if (!rc)
        rc = ms_track(m, d, MS_TRACK_AVERAGES, 0, &track);
    if (!rc && count != MS_NONE) {
        snprintf(text, sizeof(text), "{\"executions\":%lld}", (long long)count);
        rc = store_cstr(m->st, text, &args);
    }
    store_stat(m->st, STAT_mean_only, 1);
    if (!rc)
        rc = ms_op_span(m, d, track, op, *at_ns, mean_ns, args);
    *at_ns = *at_ns < INT64_MAX / 4 ? *at_ns + mean_ns : *at_ns;
    return rc;
}

int ms_read_averages(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct csv_reader r = csv_read_of(data, len);
    struct csv_field f[COLUMNS_MAX];
    int at[COUNT + 1], rc = 0, n = csv_read_row(&r, f, COLUMNS_MAX), mean;
    int64_t at_ns = ms_start_ns(m, d), count, mean_ns;

    for (int k = 0; k <= COUNT; k++)
        at[k] = -1;
    for (size_t k = 0; k < ARRAY_SIZE(mean_columns); k++)
        for (int i = 0; i < MIN(n, COLUMNS_MAX); i++)
            if (at[mean_columns[k].what] < 0 && text_is(cell_of(f, n, i), mean_columns[k].name))
                at[mean_columns[k].what] = i;
    mean = at[MEAN_MS] >= 0 ? MEAN_MS : MEAN_US;
    if ((at[NAME] < 0 && at[TYPE] < 0) || at[mean] < 0) {
        store_stat(m->st, STAT_bad_row, 1);
        return 0;
    }
    while (rc == 0 && csv_read_next(&r, f, COLUMNS_MAX, &n)) {
        struct text name = cell_of(f, n, at[NAME]), type = cell_of(f, n, at[TYPE]);

        if (!name.len)
            name = type;
        if (!text_decimal(cell_of(f, n, at[COUNT]), 0, &count))
            count = MS_NONE;
        if (!name.len || !ms_time(cell_of(f, n, at[mean]), mean == MEAN_MS ? 6 : 3, &mean_ns))
            store_stat(m->st, STAT_bad_row, 1);
        else
            rc = mean_add(m, d, name, type, mean_ns, count, &at_ns);
    }
    return rc;
}

/* "name mean_ms  stream" between a heading and "total op". */
int ms_read_compute_time(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct text rest = { (const char *)data, len }, line, w[3];
    int64_t at_ns = ms_start_ns(m, d), mean_ns;
    int rc = 0;

    while (rc == 0 && text_line(&rest, &line)) {
        size_t n = 0;

        while (n < ARRAY_SIZE(w) && text_word(&line, &w[n]))
            n++;
        if (n < 3 || text_is(w[0], "total") || !ms_time(w[1], 6, &mean_ns))
            continue;
        rc = mean_add(m, d, w[0], (struct text){ "", 0 }, mean_ns, MS_NONE, &at_ns);
    }
    return rc;
}

/* A table with a row for each step: columns as counters, at the starts of the steps. */
static int step_counters(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len,
                         const char *step_column, const char *unit)
{
    struct csv_reader r = csv_read_of(data, len);
    struct csv_field head[COLUMNS_MAX], f[COLUMNS_MAX];
    uint32_t track[COLUMNS_MAX];
    int rc = 0, n, step = -1, ncol = csv_read_row(&r, head, COLUMNS_MAX);
    int64_t start_ns = ms_start_ns(m, d), row = 0, num, v;

    ncol = MIN(ncol, COLUMNS_MAX);
    for (int i = 0; i < ncol; i++) {
        track[i] = OPM_NULL_ID;
        if (text_is(cell_of(head, ncol, i), step_column))
            step = i;
    }
    if (step < 0) {
        store_stat(m->st, STAT_bad_row, 1);
        return 0;
    }
    while (rc == 0 && csv_read_next(&r, f, COLUMNS_MAX, &n)) {
        const uint64_t *at;
        int64_t ts;

        row++;
        if (!text_decimal(cell_of(f, n, step), 0, &num))
            continue; /* the mean of all, or a stage without steps */
        at = u64map_get(&d->step_at, (uint64_t)num);
        ts = at ? (int64_t)*at : start_ns + row;
        for (int i = 0; i < MIN(n, ncol) && rc == 0; i++) {
            struct text h = cell_of(head, ncol, i);
            struct ms_series s = { .kind = m->w.counter,
                                   .unit = unit,
                                   .capacity = OPM_NULL_I64,
                                   .workers = OPM_NULL_I64 };

            if (i == step || !text_decimal(cell_of(f, n, i), 6, &v) || !h.len)
                continue;
            if (track[i] == OPM_NULL_ID) {
                buf_clear(&m->text);
                buf_add(&m->text, h.p, h.len);
                s.name = buf_str(&m->text);
                rc = m->text.failed ? OPM_ENOMEM : ms_series(m, d, &s, &track[i]);
            }
            store_stat(m->st, STAT_samples_untimed, 1);
            if (!rc)
                rc = ms_sample(m, d, track[i], ts, (double)v / 1e6);
        }
    }
    return rc;
}

int ms_read_hccl(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    return step_counters(m, d, data, len, "step_num", "ms");
}

int ms_read_step_time(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    return step_counters(m, d, data, len, "Step", "us");
}
