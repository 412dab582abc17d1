/* mindspore_aicpu.c -- operators that ran on the AI CPU of a device, and waits for data there.
 *
 * Times are us of the device's counter. */
#include "import/mindspore/mindspore_int.h"

#include "base/csv_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS_MAX 16
#define US_NS 1000

/* us as ns; false if that is beyond reason. */
static bool us_ns(uint64_t us, int64_t *out)
{
    if (us > (uint64_t)INT64_MAX / (4 * US_NS))
        return false;
    *out = (int64_t)us * US_NS;
    return true;
}

/* What was recorded about one execution. */
struct aicpu {
    struct text name;
    int64_t from_ns, to_ns;
    int64_t total_us, dispatch_us; /* or MS_NONE */
};

static int aicpu_add(struct ms *m, struct ms_device *d, const struct aicpu *a)
{
    struct ms_span span = { .ts_ns = a->from_ns,
                            .dur_ns = a->to_ns - a->from_ns,
                            .cat = m->w.aicpu,
                            .layer = m->w.hardware };
    char args[96];
    int rc = ms_op(m, d, a->name.p, a->name.len, &span.op);

    if (!rc)
        rc = store_str(m->st, a->name.p, a->name.len, &span.name);
    if (!rc)
        rc = ms_track(m, d, MS_TRACK_AICPU, 0, &span.track);
    if (!rc && a->total_us != MS_NONE) {
        snprintf(args, sizeof(args),
                 "{\"total_time_us\":%" PRId64 ",\"dispatch_time_us\":%" PRId64 "}", a->total_us,
                 MAX(a->dispatch_us, (int64_t)0));
        rc = store_cstr(m->st, args, &span.args);
    }
    return rc ? rc : ms_span(m, d, &span);
}

static int64_t number_after(struct text t, const char *key)
{
    struct text rest;
    uint64_t v;

    return text_after(t, key, &rest) && text_u64(text_trim(rest), &v) && v <= INT64_MAX ? (int64_t)v
                                                                                        : MS_NONE;
}

/* "[ts] Node:GetNext, Run tart:2302769932, Run end:2302769980" */
static bool node_read(struct text t, struct aicpu *a)
{
    int64_t from, to;
    const char *comma;

    if (!text_after(t, "Node:", &a->name))
        return false;
    comma = a->name.len ? memchr(a->name.p, ',', a->name.len) : NULL;
    a->name.len = comma ? (size_t)(comma - a->name.p) : 0;
    from = number_after(t, "tart:"); /* "Run start" has lost a letter in some versions */
    to = number_after(t, "Run end:");
    return a->name.len && from != MS_NONE && to >= from && us_ns((uint64_t)from, &a->from_ns) &&
           us_ns((uint64_t)to, &a->to_ns);
}

/* "Thread[ 1] ... tickBeforeRun=N,tickAfterRun=N, dispatchTime=100 us, totalTime=1567 us." */
static bool thread_read(struct text t, struct aicpu *a)
{
    int64_t from = number_after(t, "tickBeforeRun="), to = number_after(t, "tickAfterRun=");

    a->dispatch_us = number_after(t, "dispatchTime=");
    a->total_us = number_after(t, "totalTime=");
    return from != MS_NONE && to >= from && ms_ticks((uint64_t)from, &a->from_ns) &&
           ms_ticks((uint64_t)to, &a->to_ns);
}

static bool piece_next(struct text *rest, struct text *piece)
{
    const char *end = rest->len ? memchr(rest->p, '\0', rest->len) : NULL;

    if (!rest->len)
        return false;
    *piece = (struct text){ rest->p, end ? (size_t)(end - rest->p) : rest->len };
    rest->p += piece->len + (end != NULL);
    rest->len -= piece->len + (end != NULL);
    *piece = text_trim(*piece);
    return true;
}

/* A node, and behind it the thread that ran it; a thread without a node has no name. */
int ms_read_aicpu(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct text rest = { (const char *)data, len }, piece;
    struct aicpu a = { .name = { NULL, 0 } }, t;
    bool node = false;
    int rc = 0;

    while (rc == 0 && piece_next(&rest, &piece)) {
        if (!piece.len)
            continue;
        if (text_starts(piece, "Thread[")) {
            t = (struct aicpu){ .name = { "AI CPU task", strlen("AI CPU task") } };
            if (!thread_read(piece, &t) && !node) {
                store_stat(m->st, STAT_bad_row, 1);
                continue;
            }
            a.total_us = t.total_us;
            a.dispatch_us = t.dispatch_us;
            rc = aicpu_add(m, d, node ? &a : &t);
            node = false;
            continue;
        }
        if (node)
            rc = aicpu_add(m, d, &a);
        a = (struct aicpu){ .total_us = MS_NONE, .dispatch_us = MS_NONE };
        node = node_read(piece, &a);
        store_stat(m->st, STAT_bad_row, !node);
    }
    return rc == 0 && node ? aicpu_add(m, d, &a) : rc;
}

static int aicpu_row(struct ms *m, struct ms_device *d, struct text name, struct text total,
                     struct text dispatch, struct text from, struct text to)
{
    struct aicpu a = { .name = name };

    if (!name.len || !ms_time(from, 3, &a.from_ns) || !ms_time(to, 3, &a.to_ns) ||
        a.to_ns < a.from_ns || !text_decimal(total, 3, &a.total_us) ||
        !text_decimal(dispatch, 3, &a.dispatch_us)) {
        store_stat(m->st, STAT_bad_row, 1);
        return 0;
    }
    return aicpu_add(m, d, &a);
}

/* serial_number node_type_name total_time(ms) dispatch_time(ms) run_start run_end */
int ms_read_aicpu_txt(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct text rest = { (const char *)data, len }, line, w[6];
    int rc = 0;

    while (rc == 0 && text_line(&rest, &line)) {
        size_t n = 0;
        uint64_t serial;

        while (n < ARRAY_SIZE(w) && text_word(&line, &w[n]))
            n++;
        if (n && text_u64(w[0], &serial)) { /* not a heading, a rule or the total */
            if (n == ARRAY_SIZE(w))
                rc = aicpu_row(m, d, w[1], w[2], w[3], w[4], w[5]);
            else
                store_stat(m->st, STAT_bad_row, 1);
        }
    }
    return rc;
}

int ms_read_aicpu_csv(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    static const char *const names[] = { "op_type",       "kernel_type", "total_time",
                                         "dispatch_time", "run_start",   "run_end" };
    struct csv_reader r = csv_read_of(data, len);
    struct csv_field f[COLUMNS_MAX];
    struct text v[ARRAY_SIZE(names)] = { 0 };
    int at[ARRAY_SIZE(names)], rc = 0, n = csv_read_row(&r, f, COLUMNS_MAX);

    csv_columns(f, MIN(n, COLUMNS_MAX), names, ARRAY_SIZE(names), at);
    while (rc == 0 && csv_read_next(&r, f, COLUMNS_MAX, &n)) {
        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            v[k] = at[k] >= 0 && at[k] < MIN(n, COLUMNS_MAX)
                       ? text_trim((struct text){ f[at[k]].p, f[at[k]].len })
                       : (struct text){ "", 0 };
        rc = aicpu_row(m, d, v[0].len ? v[0] : v[1], v[2], v[3], v[4], v[5]);
    }
    return rc;
}

/* The queue on the device that GetNext takes from, and the waits for it. */
struct getnext {
    struct ms *m;
    struct ms_device *d;
    uint32_t queue; /* OPM_NULL_ID: not made yet */
};

static int getnext_add(struct getnext *g, struct text name, int64_t from_ns, int64_t to_ns,
                       int64_t size)
{
    struct ms *m = g->m;
    struct ms_span span = { .ts_ns = from_ns,
                            .dur_ns = to_ns - from_ns,
                            .cat = m->w.data,
                            .layer = m->w.runtime,
                            .op = OPM_NULL_ID };
    struct ms_series queue = { .name = "data queue",
                               .kind = m->w.queue,
                               .unit = "batches",
                               .sampling = m->w.fetch,
                               .capacity = OPM_NULL_I64,
                               .workers = OPM_NULL_I64 };
    int rc = 0;

    if (g->queue == OPM_NULL_ID) {
        rc = store_cstr(m->st, "transfer", &queue.producer);
        if (!rc)
            rc = store_cstr(m->st, "GetNext", &queue.consumer);
        if (!rc)
            rc = ms_series(m, g->d, &queue, &g->queue);
    }
    if (!rc)
        rc = ms_sample(m, g->d, g->queue, from_ns, (double)size);
    if (!rc)
        rc = store_str(m->st, name.p, name.len, &span.name);
    if (!rc)
        rc = ms_track(m, g->d, MS_TRACK_WAITS, 0, &span.track);
    return rc ? rc : ms_span(m, g->d, &span);
}

/* node_name start end queue_size, by lines. */
static int getnext_read(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len,
                        int shift)
{
    struct text rest = { (const char *)data, len }, line, w[4];
    struct getnext g = { m, d, OPM_NULL_ID };
    int64_t from, to, size;
    int rc = 0;

    while (rc == 0 && text_line(&rest, &line)) {
        size_t n = 0;

        while (n < ARRAY_SIZE(w) && text_word(&line, &w[n]))
            n++;
        if (!n || text_is(w[0], "node_name") || w[0].p[0] == '-')
            continue;
        if (n < 4 || !ms_time(w[1], shift, &from) || !ms_time(w[2], shift, &to) ||
            !text_decimal(w[3], 0, &size) || to < from)
            store_stat(m->st, STAT_bad_row, 1);
        else
            rc = getnext_add(&g, w[0], from, to, size);
    }
    return rc;
}

int ms_read_getnext(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    return getnext_read(m, d, data, len, 3);
}

int ms_read_getnext_gpu(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    return getnext_read(m, d, data, len, 0);
}

/* "Node:GetNext_dequeue_wait, Run start:<us>, Run end:<us>, queue size:<n>" */
int ms_read_aicpumi(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct text rest = { (const char *)data, len }, piece;
    struct getnext g = { m, d, OPM_NULL_ID };
    int rc = 0;

    while (rc == 0 && piece_next(&rest, &piece)) {
        struct aicpu a = { 0 };
        int64_t size = number_after(piece, "queue size:");

        if (!piece.len)
            continue;
        if (!node_read(piece, &a) || size == MS_NONE)
            store_stat(m->st, STAT_bad_row, 1);
        else
            rc = getnext_add(&g, a.name, a.from_ns, a.to_ns, size);
    }
    return rc;
}

/* "[393233413] Enqueue data to dp, source:..., index:1, size:0": what was in the queue then. */
int ms_read_tdt(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct text rest = { (const char *)data, len }, piece;
    struct ms_series queue = { .name = "transfer queue",
                               .kind = m->w.queue,
                               .unit = "batches",
                               .capacity = OPM_NULL_I64,
                               .workers = OPM_NULL_I64 };
    uint32_t track = OPM_NULL_ID;
    int rc = 0;

    while (rc == 0 && piece_next(&rest, &piece)) {
        int64_t us = number_after(piece, "["), size = number_after(piece, "size:"), ns;

        if (!piece.len)
            continue;
        if (us == MS_NONE || size == MS_NONE || !us_ns((uint64_t)us, &ns)) {
            store_stat(m->st, STAT_bad_row, 1);
            continue;
        }
        if (track == OPM_NULL_ID)
            rc = ms_series(m, d, &queue, &track);
        if (!rc)
            rc = ms_sample(m, d, track, ns, (double)size);
    }
    return rc;
}
