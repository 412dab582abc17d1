/* mindspore_data.c -- how data gets to the device: operators of the pipeline and their queues, the
 * host queue, use of the CPU.
 *
 * None of these files shares a clock with the device. Values that come step by step stand at the
 * start of their steps, others from the start of the trace on; both are counted. */
#include "import/mindspore/mindspore_int.h"

#include "base/alloc.h"
#include "base/csv_read.h"
#include "base/json_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 32
#define MS_NS ((int64_t)1000000)
#define INTERVAL_MAX_MS 86400000
#define OPS_MAX 65536 /* of a pipeline */

struct stage {
    int64_t id, parent; /* parent MS_NONE: the root */
    int64_t workers, capacity;
    str_id type, name;
    struct text sizes;    /* JSON array, or empty: it has no queue */
    struct text children; /* JSON array of ids, or empty */
    str_id consumer;      /* 0: none of the stages */
    bool seen;
};

struct pipeline {
    struct ms *m;
    struct ms_device *d;
    struct stage *stage;
    size_t n, cap;
    int64_t interval_ns;
};

/* The value that comes next: a string without its escapes, anything else as it stands. */
static struct text value_text(struct json_texts *texts, struct json_reader *r)
{
    const char *from = r->at;
    enum json_token t = json_read_next(r);

    while (from < r->at && (*from == ':' || *from == ',' || *from == ' ' || *from == '\n' ||
                            *from == '\r' || *from == '\t'))
        from++;
    if (t == JSON_BAD || !json_read_skip(r) || t == JSON_NULL)
        return (struct text){ "", 0 };
    if (t == JSON_STRING)
        return json_texts_get(texts, r);
    return (struct text){ from, (size_t)(r->at - from) };
}

/* The next object of an array. */
static bool object_next(struct json_reader *r, struct text *out)
{
    if (json_read_next(r) != JSON_OBJECT)
        return false;
    out->p = r->at - 1;
    if (!json_read_skip(r))
        return false;
    out->len = (size_t)(r->at - out->p);
    return true;
}

static int64_t int_or_none(struct text t)
{
    int64_t v;

    return text_decimal(t, 0, &v) ? v : MS_NONE;
}

/* Members of an object into texts; keys[] ends with NULL. */
static bool members(struct json_texts *texts, struct text object, const char *const keys[],
                    struct text *to)
{
    struct json_reader r = json_read_of(object.p, object.len);

    for (size_t i = 0; keys[i]; i++)
        to[i] = (struct text){ "", 0 };
    if (!object.len || json_read_next(&r) != JSON_OBJECT)
        return false;
    while (json_read_next(&r) == JSON_KEY) {
        struct text key = json_texts_get(texts, &r), value = value_text(texts, &r);

        for (size_t i = 0; keys[i]; i++)
            if (text_is(key, keys[i]))
                to[i] = value;
    }
    return r.token == JSON_OBJECT_END;
}

static int stage_add(struct pipeline *p, const struct stage *s)
{
    char name[160];

    if (p->n >= OPS_MAX) {
        store_stat(p->m->st, STAT_bad_row, 1);
        return 0;
    }
    if (!GROW(p->stage, p->cap, p->n + 1))
        return OPM_ENOMEM;
    p->stage[p->n] = *s;
    snprintf(name, sizeof(name), "%.100s_%" PRId64, s->type ? store_text(p->m->st, s->type) : "op",
             s->id);
    return store_cstr(p->m->st, name, &p->stage[p->n++].name);
}

static int by_id(const void *va, const void *vb)
{
    const struct stage *a = va, *b = vb;

    return a->id < b->id ? -1 : a->id > b->id;
}

static struct stage *stage_of(const struct pipeline *p, int64_t id)
{
    struct stage key = { .id = id };

    return p->n && id != MS_NONE ? bsearch(&key, p->stage, p->n, sizeof(key), by_id) : NULL;
}

static void find_parents(struct pipeline *p)
{
    for (size_t i = 0; i < p->n; i++) {
        struct json_reader r = json_read_of(p->stage[i].children.p, p->stage[i].children.len);

        if (!p->stage[i].children.len || json_read_next(&r) != JSON_ARRAY)
            continue;
        while (json_read_next(&r) == JSON_NUMBER) {
            struct stage *child = stage_of(p, int_or_none((struct text){ r.text, r.len }));

            if (child && child != &p->stage[i])
                child->parent = p->stage[i].id;
        }
    }
}

/* Who takes from a stage's queue: the nearest one above it that has a queue itself, else the
 * topmost. Each is looked at once, however long the chains are, and circles end. */
static int find_consumers(struct pipeline *p)
{
    struct stage **way = mem_alloc((p->n + 1) * sizeof(*way));

    if (!way)
        return OPM_ENOMEM;
    for (size_t i = 0; i < p->n; i++) {
        struct stage *at = &p->stage[i];
        size_t n = 0;

        while (at && !at->seen) {
            at->seen = true;
            way[n++] = at;
            at = stage_of(p, at->parent);
        }
        while (n) {
            struct stage *s = way[--n];
            const struct stage *above = stage_of(p, s->parent);

            if (above)
                s->consumer = above->sizes.len || !above->consumer ? above->name : above->consumer;
        }
    }
    mem_free(way);
    return 0;
}

static int stage_queue(struct pipeline *p, const struct stage *s)
{
    struct json_reader r = json_read_of(s->sizes.p, s->sizes.len);
    struct ms_series q = { .name = store_text(p->m->st, s->name),
                           .kind = p->m->w.queue,
                           .producer = s->name,
                           .sampling = p->m->w.interval,
                           .unit = "batches",
                           .capacity = s->capacity,
                           .workers = s->workers };
    int64_t ts = ms_start_ns(p->m, p->d);
    uint32_t track;
    double v;
    int rc = 0;

    q.consumer = s->consumer; /* else whatever sends to the device */
    if (!q.consumer)
        rc = store_cstr(p->m->st, "DeviceQueue", &q.consumer);
    if (!rc)
        rc = ms_series(p->m, p->d, &q, &track);
    if (rc || json_read_next(&r) != JSON_ARRAY)
        return rc;
    while (rc == 0 && json_read_next(&r) == JSON_NUMBER) {
        if (json_read_real(&r, &v)) {
            rc = ms_sample(p->m, p->d, track, ts, v);
            store_stat(p->m->st, STAT_samples_untimed, 1);
        }
        if (ts < INT64_MAX / 2)
            ts += p->interval_ns;
    }
    store_stat(p->m->st, STAT_json_malformed, r.token != JSON_ARRAY_END);
    return rc;
}

static int pipeline_add(struct pipeline *p)
{
    int rc;

    if (p->n)
        qsort(p->stage, p->n, sizeof(*p->stage), by_id);
    find_parents(p);
    rc = find_consumers(p);
    for (size_t i = 0; i < p->n && rc == 0; i++) {
        const struct stage *s = &p->stage[i];

        if (s->sizes.len)
            rc = stage_queue(p, s);
        if (!rc && s->parent == MS_NONE)
            rc = s->sizes.len ? store_cstr(p->m->st, "DeviceQueue", &p->d->root)
                              : (p->d->root = s->name, 0);
    }
    p->d->added += p->n;
    return rc;
}

static int64_t interval_of(struct text t)
{
    int64_t v = int_or_none(t);

    return (v > 0 && v <= INTERVAL_MAX_MS ? v : 1) * MS_NS;
}

static int stage_read(struct pipeline *p, struct text object)
{
    static const char *const keys[] = { "op_id",    "op_type", "num_workers",
                                        "children", "metrics", NULL };
    static const char *const metrics_keys[] = { "output_queue", NULL };
    static const char *const queue_keys[] = { "size", "length", NULL };
    struct text v[5], metrics[1], queue[2];
    struct stage s = { .parent = MS_NONE };

    s.id = members(&p->m->texts, object, keys, v) ? int_or_none(v[0]) : MS_NONE;
    if (s.id == MS_NONE) {
        store_stat(p->m->st, STAT_bad_row, 1);
        return 0;
    }
    members(&p->m->texts, v[4], metrics_keys, metrics);
    members(&p->m->texts, metrics[0], queue_keys, queue);
    s.workers = int_or_none(v[2]);
    s.capacity = int_or_none(queue[1]);
    s.sizes = queue[0];
    s.children = v[3];
    if (store_str(p->m->st, v[1].p, v[1].len, &s.type))
        return OPM_ENOMEM;
    return stage_add(p, &s);
}

int ms_read_pipeline(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    static const char *const keys[] = { "sampling_interval", "op_info", NULL };
    struct pipeline p = { .m = m, .d = d };
    struct text v[2], one;
    struct json_reader r;
    int rc = 0;

    if (!members(&m->texts, (struct text){ (const char *)data, len }, keys, v))
        store_stat(m->st, STAT_json_malformed, 1);
    p.interval_ns = interval_of(v[0]);
    r = json_read_of(v[1].p, v[1].len);
    if (v[1].len && json_read_next(&r) == JSON_ARRAY) {
        while (rc == 0 && object_next(&r, &one))
            rc = stage_read(&p, one);
    }
    if (!rc)
        rc = pipeline_add(&p);
    mem_free(p.stage);
    return rc;
}

int ms_read_pipeline_csv(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    static const char *const names[] = {
        "op_id",           "op_type",    "num_workers", "output_queue_size", "output_queue_length",
        "sample_interval", "children_id"
    };
    struct csv_reader r = csv_read_of(data, len);
    struct csv_field f[COLUMNS_MAX];
    struct text v[ARRAY_SIZE(names)];
    struct pipeline p = { .m = m, .d = d };
    int at[ARRAY_SIZE(names)], rc = 0, n = csv_read_row(&r, f, COLUMNS_MAX);

    csv_columns(f, MIN(n, COLUMNS_MAX), names, ARRAY_SIZE(names), at);
    while (rc == 0 && csv_read_next(&r, f, COLUMNS_MAX, &n)) {
        struct stage s = { .parent = MS_NONE };

        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            v[k] = at[k] >= 0 && at[k] < MIN(n, COLUMNS_MAX)
                       ? text_trim((struct text){ f[at[k]].p, f[at[k]].len })
                       : (struct text){ "", 0 };
        s.id = int_or_none(v[0]);
        if (s.id == MS_NONE) {
            store_stat(m->st, STAT_bad_row, 1);
            continue;
        }
        s.workers = int_or_none(v[2]);
        s.sizes = v[3];
        s.capacity = int_or_none(v[4]);
        s.children = v[6];
        p.interval_ns = interval_of(v[5]);
        rc = store_str(m->st, v[1].p, v[1].len, &s.type) ? OPM_ENOMEM : stage_add(&p, &s);
    }
    if (!rc)
        rc = pipeline_add(&p);
    mem_free(p.stage);
    return rc;
}

/* Lines "type extra batch value [timestamp]". Type 0: a time in ms, of what extra says; type 1: the
 * host queue, of which extra is the capacity. */
struct host_queue {
    struct ms *m;
    struct ms_device *d;
    uint32_t queue, time[3];
    int64_t start_ns, first_ms;
};

/* When a batch was taken. */
static int64_t batch_ns(struct host_queue *h, uint64_t batch, int64_t stamp_ms)
{
    const uint64_t *step = u64map_get(&h->d->step_at, batch);

    store_stat(h->m->st, STAT_samples_untimed, 1);
    if (step)
        return (int64_t)*step;
    if (stamp_ms != MS_NONE) {
        if (h->first_ms == MS_NONE)
            h->first_ms = stamp_ms;
        if (stamp_ms >= h->first_ms && stamp_ms - h->first_ms < INT64_MAX / (4 * MS_NS))
            return h->start_ns + (stamp_ms - h->first_ms) * MS_NS;
    }
    return h->start_ns + (int64_t)MIN(batch, (uint64_t)INT32_MAX) * MS_NS;
}

static int host_queue_line(struct host_queue *h, const uint64_t v[4], int64_t stamp_ms)
{
    static const char *const times[] = { "getting a batch from the pipeline",
                                         "pushing a batch to the device", "a batch in all" };
    struct ms *m = h->m;
    struct ms_series s = {
        .kind = m->w.counter, .unit = "ms", .capacity = OPM_NULL_I64, .workers = OPM_NULL_I64
    };
    uint32_t *track = v[0] == 1 ? &h->queue : v[1] < ARRAY_SIZE(times) ? &h->time[v[1]] : NULL;
    int rc = 0;

    if (v[0] > 1 || !track) {
        store_stat(m->st, STAT_record_unknown, 1);
        return 0;
    }
    if (v[0] == 1) {
        s.name = "host queue";
        s.kind = m->w.queue;
        s.unit = "batches";
        s.capacity = v[1] <= INT32_MAX ? (int64_t)v[1] : OPM_NULL_I64;
        s.producer = h->d->root;
        s.sampling = m->w.fetch;
    } else {
        s.name = times[v[1]];
    }
    if (*track == OPM_NULL_ID) {
        if (v[0] == 1 && store_cstr(m->st, "transfer", &s.consumer))
            return OPM_ENOMEM;
        rc = ms_series(m, h->d, &s, track);
    }
    return rc ? rc : ms_sample(m, h->d, *track, batch_ns(h, v[2], stamp_ms), (double)v[3]);
}

int ms_read_host_queue(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct text rest = { (const char *)data, len }, line, word;
    struct host_queue h = { .m = m,
                            .d = d,
                            .queue = OPM_NULL_ID,
                            .time = { OPM_NULL_ID, OPM_NULL_ID, OPM_NULL_ID },
                            .start_ns = ms_start_ns(m, d),
                            .first_ms = MS_NONE };
    int rc = 0;

    while (rc == 0 && text_line(&rest, &line)) {
        uint64_t v[4];
        int64_t stamp = MS_NONE;
        size_t n = 0;

        while (n < 4 && text_word(&line, &word) && text_u64(word, &v[n]))
            n++;
        if (n == 0 && !text_trim(line).len)
            continue;
        if (n < 4) {
            store_stat(m->st, STAT_bad_row, 1);
            continue;
        }
        if (text_word(&line, &word))
            stamp = int_or_none(word);
        rc = host_queue_line(&h, v, stamp);
    }
    return rc;
}

struct cpu {
    struct ms *m;
    struct ms_device *d;
    int64_t start_ns, interval_ns;
    struct text stamps;
};

/* One array of percentages, or counts. */
static int cpu_series(struct cpu *c, const char *prefix, struct text key, struct text values)
{
    struct json_reader r = json_read_of(values.p, values.len);
    struct ms_series s = { .kind = c->m->w.counter,
                           .capacity = OPM_NULL_I64,
                           .workers = OPM_NULL_I64 };
    struct buf name = { 0 };
    int64_t ts = c->start_ns;
    uint32_t track;
    double v;
    int rc = 0;

    if (!values.len || json_read_next(&r) != JSON_ARRAY)
        return 0;
    buf_adds(&name, prefix);
    for (size_t i = 0; i < key.len; i++)
        buf_addc(&name, key.p[i] == '_' ? ' ' : key.p[i]);
    s.unit = text_after(key, "utilization", &(struct text){ 0 }) ? "%" : NULL;
    s.name = buf_str(&name);
    rc = name.failed ? OPM_ENOMEM : ms_series(c->m, c->d, &s, &track);
    while (rc == 0 && json_read_next(&r) == JSON_NUMBER) {
        if (json_read_real(&r, &v)) {
            rc = ms_sample(c->m, c->d, track, ts, v);
            store_stat(c->m->st, STAT_samples_untimed, 1);
        }
        if (ts < INT64_MAX / 2)
            ts += c->interval_ns;
    }
    buf_release(&name);
    return rc;
}

static int cpu_group(struct cpu *c, const char *prefix, struct text object)
{
    struct json_reader r = json_read_of(object.p, object.len);
    int rc = 0;

    if (!object.len || json_read_next(&r) != JSON_OBJECT)
        return 0;
    while (rc == 0 && json_read_next(&r) == JSON_KEY) {
        struct text key = json_texts_get(&c->m->texts, &r);
        struct text value = value_text(&c->m->texts, &r);

        rc = cpu_series(c, prefix, key, value);
    }
    return rc;
}

int ms_read_cpu(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    static const char *const keys[] = { "sampling_interval", "device_info",       "process_info",
                                        "op_info",           "cpu_processor_num", NULL };
    static const char *const op_keys[] = { "op_id", "metrics", NULL };
    struct cpu c = { .m = m, .d = d, .start_ns = ms_start_ns(m, d) };
    struct text v[5], op[2], one;
    struct json_reader r;
    char prefix[64];
    int rc;

    if (!members(&m->texts, (struct text){ (const char *)data, len }, keys, v))
        store_stat(m->st, STAT_json_malformed, 1);
    c.interval_ns = interval_of(v[0]);
    rc = v[4].len ? ms_fact(m, d, "cpu_processor_num", v[4].p, v[4].len) : 0;
    if (!rc)
        rc = cpu_group(&c, "machine CPU: ", v[1]);
    if (!rc)
        rc = cpu_group(&c, "process CPU: ", v[2]);
    r = json_read_of(v[3].p, v[3].len);
    if (!v[3].len || json_read_next(&r) != JSON_ARRAY)
        return rc;
    while (rc == 0 && object_next(&r, &one)) {
        members(&m->texts, one, op_keys, op);
        snprintf(prefix, sizeof(prefix), "pipeline op %.*s CPU: ", (int)MIN(op[0].len, (size_t)20),
                 op[0].p);
        rc = cpu_group(&c, prefix, op[1]);
    }
    return rc;
}
