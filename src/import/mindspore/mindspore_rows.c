/* mindspore_rows.c -- tracks, operators, spans and steps of a device; see mindspore_int.h. */
#include "import/mindspore/mindspore_int.h"

#include "base/json_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int ms_start(struct ms *m, struct store *st, const struct import_source *src)
{
    struct ms_words *w = &m->w;
    const struct {
        const char *text;
        str_id *to;
    } all[] = {
        { "stream", &w->stream },
        { "queue", &w->queue },
        { "counter", &w->counter },
        { "thread", &w->thread },
        { "hardware", &w->hardware },
        { "framework", &w->framework },
        { "app", &w->app },
        { "runtime", &w->runtime },
        { "op", &w->op },
        { "step", &w->step },
        { "phase", &w->phase },
        { "forward and backward", &w->fp_bp },
        { "forward", &w->forward },
        { "collective", &w->collective },
        { "aicpu", &w->aicpu },
        { "task", &w->task },
        { "scope", &w->scope },
        { "dataloader", &w->data },
        { "input", &w->input },
        { "output", &w->output },
        { "fetch", &w->fetch },
        { "interval", &w->interval },
    };

    *m = (struct ms){ .st = st, .src = src, .path = src->path };
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (store_cstr(st, all[i].text, all[i].to))
            return OPM_ENOMEM;
    return 0;
}

void ms_device_release(struct ms_device *d)
{
    u64map_release(&d->track);
    u64map_release(&d->op);
    u64map_release(&d->task);
    u64map_release(&d->flops);
    u64map_release(&d->point);
    u64map_release(&d->task_began);
    u64map_release(&d->step_at);
    u64map_release(&d->reduce_seen);
}

int ms_fact(struct ms *m, const struct ms_device *d, const char *key, const char *value, size_t len)
{
    struct buf k = { 0 }, v = { 0 };
    int rc;

    if (d->host)
        buf_addf(&k, "mindspore.%s", key);
    else
        buf_addf(&k, "mindspore.device%" PRId64 ".%s", d->id, key);
    buf_add(&v, value, len);
    rc = k.failed || v.failed ? OPM_ENOMEM : import_meta(m->st, m->src, buf_str(&k), buf_str(&v));
    buf_release(&k);
    buf_release(&v);
    return rc;
}

static int device_name(struct ms *m, struct ms_device *d)
{
    char text[64];

    if (d->name || d->host)
        return 0;
    snprintf(text, sizeof(text), "%s %" PRId64, d->kind ? d->kind : "Ascend", d->id);
    return store_cstr(m->st, text, &d->name);
}

static int track_add(struct ms *m, struct ms_device *d, str_id kind, str_id name, int64_t tid,
                     struct cell row[track_col_COUNT])
{
    if (device_name(m, d))
        return OPM_ENOMEM;
    for (int i = 0; i < track_col_COUNT; i++)
        row[i] = cell_null();
    row[track_col_kind] = cell_str(kind);
    row[track_col_name] = cell_str(name);
    row[track_col_tid] = cell_i64(tid);
    row[track_col_device] = cell_str(d->name);
    row[track_col_rank] = d->host ? cell_null() : cell_i64(d->id);
    return 0;
}

int ms_track(struct ms *m, struct ms_device *d, enum ms_track_kind kind, uint32_t number,
             uint32_t *out)
{
    static const char *const names[] = {
        [MS_TRACK_STREAM] = "stream %" PRIu32,
        [MS_TRACK_COLLECTIVE] = "collectives, stream %" PRIu32,
        [MS_TRACK_STEPS] = "step trace",
        [MS_TRACK_AICPU] = "AI CPU",
        [MS_TRACK_WAITS] = "waiting for data",
        [MS_TRACK_AVERAGES] = "operators by mean time",
    };
    /* Operators are recorded for some steps only; the others are always on. */
    static const char *const logs[] = {
        [MS_TRACK_STREAM] = "operators",  [MS_TRACK_COLLECTIVE] = "step trace",
        [MS_TRACK_STEPS] = "step trace",  [MS_TRACK_AICPU] = "AI CPU",
        [MS_TRACK_WAITS] = "data",        [MS_TRACK_AVERAGES] = "averages",
        [MS_TRACK_PROCESS] = "processes",
    };
    uint64_t key = (uint64_t)kind << 32 | number;
    const uint64_t *found = u64map_get(&d->track, key);
    bool stream = kind == MS_TRACK_STREAM || kind == MS_TRACK_COLLECTIVE;
    struct cell row[track_col_COUNT];
    char text[64];
    str_id name = number, log;

    if (found) {
        *out = (uint32_t)*found;
        return 0;
    }
    if (kind != MS_TRACK_PROCESS) {
        if (stream)
            snprintf(text, sizeof(text),
                     kind == MS_TRACK_STREAM ? "stream %" PRIu32 : "collectives, stream %" PRIu32,
                     number);
        if (store_cstr(m->st, stream ? text : names[kind], &name))
            return OPM_ENOMEM;
    }
    if (track_add(m, d, m->w.stream, name, stream ? (int64_t)number : OPM_NULL_I64, row) ||
        store_cstr(m->st, logs[kind], &log))
        return OPM_ENOMEM;
    row[track_col_log] = cell_str(log);
    if (store_add(m->st, TABLE_track, row, out))
        return OPM_ENOMEM;
    return u64map_put(&d->track, key, *out);
}

int ms_series(struct ms *m, struct ms_device *d, const struct ms_series *s, uint32_t *out)
{
    struct cell row[track_col_COUNT];
    str_id name, unit;

    if (store_cstr(m->st, s->name, &name) || store_cstr(m->st, s->unit, &unit) ||
        track_add(m, d, s->kind, name, OPM_NULL_I64, row))
        return OPM_ENOMEM;
    row[track_col_unit] = cell_str(unit);
    row[track_col_capacity] = cell_i64(s->capacity);
    row[track_col_producer] = cell_str(s->producer);
    row[track_col_consumer] = cell_str(s->consumer);
    row[track_col_workers] = cell_i64(s->workers);
    row[track_col_sampling] = cell_str(s->sampling);
    return store_add(m->st, TABLE_track, row, out);
}

int ms_sample(struct ms *m, struct ms_device *d, uint32_t track, int64_t ts_ns, double value)
{
    d->added++;
    return store_add(m->st, TABLE_sample,
                     (struct cell[sample_col_COUNT]){ [sample_col_ts] = cell_i64(ts_ns),
                                                      [sample_col_track] = cell_id(track),
                                                      [sample_col_value] = cell_f64(value) },
                     NULL);
}

int64_t ms_start_ns(struct ms *m, struct ms_device *d)
{
    int64_t start;

    store_part_end(m->st, &d->part);
    start = store_part_start(m->st, &d->part);
    return start == OPM_NULL_I64 ? 0 : start;
}

int ms_op_new(struct ms *m, struct ms_device *d, const char *name, size_t len, const char *type,
              size_t type_len, const char *attributes, uint32_t *out)
{
    struct cell row[op_col_COUNT];
    str_id name_id, type_id, attributes_id;
    const uint64_t *flops;

    *out = OPM_NULL_ID;
    if (store_str(m->st, name, len, &name_id))
        return OPM_ENOMEM;
    if (u64map_get(&d->op, name_id))
        return 0;
    if (store_str(m->st, type, type_len, &type_id) ||
        store_cstr(m->st, attributes, &attributes_id) || device_name(m, d))
        return OPM_ENOMEM;
    for (int i = 0; i < op_col_COUNT; i++)
        row[i] = cell_null();
    row[op_col_name] = cell_str(name_id);
    row[op_col_type] = cell_str(type_id);
    row[op_col_device] = cell_str(d->name);
    row[op_col_attributes] = cell_str(attributes_id);
    flops = u64map_get(&d->flops, name_id);
    row[op_col_flops] = flops ? cell_i64((int64_t)*flops) : cell_null();
    if (store_add(m->st, TABLE_op, row, out))
        return OPM_ENOMEM;
    return u64map_put(&d->op, name_id, *out);
}

int ms_op(struct ms *m, struct ms_device *d, const char *name, size_t len, uint32_t *out)
{
    struct text type = ms_type_of((struct text){ name, len });
    const uint64_t *found;
    str_id name_id;
    int rc = ms_op_new(m, d, name, len, type.p, type.len, NULL, out);

    if (rc || *out != OPM_NULL_ID)
        return rc;
    if (store_str(m->st, name, len, &name_id))
        return OPM_ENOMEM;
    found = u64map_get(&d->op, name_id);
    *out = found ? (uint32_t)*found : OPM_NULL_ID;
    return 0;
}

/* Element types by the names and numbers that MindSpore writes. */
static const struct {
    const char *name;
    int code;
    const char *dtype;
    int bytes;
} dtypes[] = {
    { "BOOL", 27, "bool", 1 },     { "INT", 28, "int32", 4 },     { "INT8", 29, "int8", 1 },
    { "INT16", 30, "int16", 2 },   { "INT32", 31, "int32", 4 },   { "INT64", 32, "int64", 8 },
    { "UINT", 33, "uint32", 4 },   { "UINT8", 34, "uint8", 1 },   { "UINT16", 35, "uint16", 2 },
    { "UINT32", 36, "uint32", 4 }, { "UINT64", 37, "uint64", 8 }, { "FLOAT", 38, "fp32", 4 },
    { "FLOAT16", 39, "fp16", 2 },  { "FLOAT32", 40, "fp32", 4 },  { "FLOAT64", 41, "fp64", 8 },
    { "DOUBLE", -1, "fp64", 8 },   { "BFLOAT16", -1, "bf16", 2 }, { "DT_BF16", -1, "bf16", 2 },
};

static const char *dtype_of(struct text t, int *bytes)
{
    uint64_t code = UINT64_MAX;

    if (text_starts(t, "NUMBER_TYPE_")) {
        t.p += strlen("NUMBER_TYPE_");
        t.len -= strlen("NUMBER_TYPE_");
    }
    text_u64(t, &code);
    for (size_t i = 0; i < ARRAY_SIZE(dtypes); i++) {
        if (text_is(t, dtypes[i].name) || code == (uint64_t)dtypes[i].code) {
            *bytes = dtypes[i].bytes;
            return dtypes[i].dtype;
        }
    }
    return NULL;
}

/* "32,3,224" as 32x3x224, and how many elements that is; OPM_NULL_I64: not known. */
static void shape_add(struct buf *b, struct text shape, int64_t *elements)
{
    *elements = 1;
    for (size_t i = 0; i < shape.len; i++) {
        uint64_t dim;

        if (shape.p[i] >= '0' && shape.p[i] <= '9') {
            if (!text_u64((struct text){ shape.p + i, shape.len - i }, &dim) || dim > INT64_MAX ||
                *elements == OPM_NULL_I64 ||
                __builtin_mul_overflow(*elements, (int64_t)dim, elements))
                *elements = OPM_NULL_I64;
            for (; i < shape.len && shape.p[i] >= '0' && shape.p[i] <= '9'; i++)
                buf_addc(b, shape.p[i]);
            i--;
        } else if (shape.p[i] == '-') {
            buf_addc(b, '-');
            *elements = OPM_NULL_I64;
        } else if (shape.p[i] == ',') {
            buf_addc(b, 'x');
        }
    }
}

int ms_op_tensor(struct ms *m, uint32_t op, const struct ms_tensor *t)
{
    struct text dtype = { t->dtype, t->dtype_len };
    struct cell row[op_tensor_col_COUNT];
    str_id dtype_id, shape_id;
    int64_t elements;
    int bytes = 0;
    const char *known = dtype_of(dtype, &bytes);

    buf_clear(&m->text);
    shape_add(&m->text, (struct text){ t->shape, t->shape_len }, &elements);
    if (m->text.failed || store_str(m->st, buf_str(&m->text), m->text.len, &shape_id))
        return OPM_ENOMEM;
    if (known ? store_cstr(m->st, known, &dtype_id)
              : store_str(m->st, t->dtype, t->dtype_len, &dtype_id))
        return OPM_ENOMEM;
    for (int i = 0; i < op_tensor_col_COUNT; i++)
        row[i] = cell_null();
    row[op_tensor_col_op] = cell_id(op);
    row[op_tensor_col_io] = cell_str(t->io);
    row[op_tensor_col_slot] = cell_i64(t->slot);
    row[op_tensor_col_dtype] = cell_str(t->dtype_len ? dtype_id : 0);
    row[op_tensor_col_shape] = cell_str(shape_id);
    if (known && elements != OPM_NULL_I64 && elements < INT64_MAX / 8)
        row[op_tensor_col_bytes] = cell_i64(elements * bytes);
    return store_add(m->st, TABLE_op_tensor, row, NULL);
}

int ms_span(struct ms *m, struct ms_device *d, const struct ms_span *s)
{
    struct site site = { .name = s->name, .cat = s->cat, .layer = s->layer, .op = s->op };
    struct span_row row = SPAN_ROW_INIT;

    d->added++;
    row.ts_ns = s->ts_ns;
    row.dur_ns = s->dur_ns;
    row.track = s->track;
    row.args = s->args;
    if (store_site(m->st, &site, &row.site))
        return OPM_ENOMEM;
    return store_add_span(m->st, &row, NULL);
}

int ms_op_span(struct ms *m, struct ms_device *d, uint32_t track, uint32_t op, int64_t ts_ns,
               int64_t dur_ns, str_id args)
{
    struct cell name = store_cell(m->st, TABLE_op, op, op_col_name);

    return ms_span(m, d,
                   &(struct ms_span){ .track = track,
                                      .ts_ns = ts_ns,
                                      .dur_ns = dur_ns,
                                      .name = cell_text_id(name),
                                      .cat = m->w.op,
                                      .layer = m->w.hardware,
                                      .op = op,
                                      .args = args });
}

/* The operators at which a step is split, for step_trace: {"fp_point": NAME, "bp_point": NAME}. */
static int points_args(struct ms *m, const struct ms_device *d, str_id *out)
{
    struct buf text = { 0 };
    struct json_writer w = { .buf = &text };
    int rc;

    *out = 0;
    if (!d->fp_point && !d->bp_point)
        return 0;
    json_object(&w);
    json_key(&w, "fp_point");
    json_cstr(&w, d->fp_point ? store_text(m->st, d->fp_point) : NULL);
    json_key(&w, "bp_point");
    json_cstr(&w, d->bp_point ? store_text(m->st, d->bp_point) : NULL);
    json_object_end(&w);
    rc = text.failed ? OPM_ENOMEM : store_str(m->st, text.data, text.len, out);
    buf_release(&text);
    return rc;
}

static int step_add(struct ms *m, struct ms_device *d, const struct ms_step *s, bool warmup)
{
    struct ms_span span = { .layer = m->w.app, .op = OPM_NULL_ID };
    int rc = ms_track(m, d, MS_TRACK_STEPS, 0, &span.track);

    if (rc)
        return rc;
    span.ts_ns = s->start_ns;
    span.dur_ns = s->end_ns - s->start_ns;
    span.name = span.cat = m->w.step;
    rc = ms_span(m, d, &span);
    if (!rc)
        rc = store_add(m->st, TABLE_step,
                       (struct cell[step_col_COUNT]){
                           [step_col_num] = cell_i64(s->num),
                           [step_col_ts] = cell_i64(s->start_ns),
                           [step_col_dur] = cell_i64(span.dur_ns),
                           [step_col_warmup] = cell_i64(warmup),
                           [step_col_track] = cell_id(span.track),
                       },
                       NULL);
    if (!rc)
        rc = u64map_put(&d->step_at, (uint64_t)s->num, (uint64_t)s->start_ns);
    if (rc || s->fp_ns == MS_NONE || s->bp_ns == MS_NONE)
        return rc;
    span.ts_ns = s->fp_ns;
    span.dur_ns = s->bp_ns - s->fp_ns;
    span.name = s->inference ? m->w.forward : m->w.fp_bp;
    span.cat = m->w.phase;
    rc = points_args(m, d, &span.args);
    return rc ? rc : ms_span(m, d, &span);
}

int ms_step(struct ms *m, struct ms_device *d, const struct ms_step *s)
{
    struct ms_step step = *s;

    d->step_count++;
    if (s->num == MS_NONE)
        step.num = d->step_count;
    if (d->step_count == 1) {
        d->first_step = step;
        d->first_step_held = true;
        return 0;
    }
    if (d->first_step_held) {
        int rc;

        /* Where it began was not recorded, so it does not count. */
        d->first_step_held = false;
        rc = step_add(m, d, &d->first_step, d->first_step.start_ns == d->first_step.fp_ns);
        if (rc)
            return rc;
    }
    return step_add(m, d, &step, false);
}

int ms_steps_end(struct ms *m, struct ms_device *d)
{
    if (!d->first_step_held)
        return 0;
    d->first_step_held = false;
    return step_add(m, d, &d->first_step, false);
}

int ms_collective(struct ms *m, struct ms_device *d, uint32_t stream, uint32_t number, str_id name,
                  int64_t from_ns, int64_t to_ns)
{
    struct ms_span span = { .ts_ns = from_ns,
                            .dur_ns = to_ns - from_ns,
                            .name = name,
                            .cat = m->w.collective,
                            .layer = m->w.hardware,
                            .op = OPM_NULL_ID };
    char text[64];
    int rc = ms_track(m, d, MS_TRACK_COLLECTIVE, stream, &span.track);

    snprintf(text, sizeof(text), "{\"parallel\":\"stream_%" PRIu32 "_parallel_%" PRIu32 "\"}",
             stream, number);
    if (!rc)
        rc = store_cstr(m->st, text, &span.args);
    if (!rc && !name) {
        snprintf(text, sizeof(text), "stream_%" PRIu32 "_parallel_%" PRIu32, stream, number);
        rc = store_cstr(m->st, text, &span.name);
    }
    return rc ? rc : ms_span(m, d, &span);
}

bool ms_time(struct text t, int shift, int64_t *out_ns)
{
    int64_t ns;

    if (!text_decimal(t, shift, &ns) || ns < 0 || ns > INT64_MAX / 4)
        return false;
    *out_ns = ns;
    return true;
}

bool ms_ticks(uint64_t ticks, int64_t *out_ns)
{
    if (ticks > (uint64_t)INT64_MAX / (4 * MS_TICK_NS))
        return false;
    *out_ns = (int64_t)ticks * MS_TICK_NS;
    return true;
}

struct text ms_type_of(struct text full_name)
{
    const char *slash = full_name.len ? memrchr(full_name.p, '/', full_name.len) : NULL;
    struct text t = full_name;
    size_t n;

    if (slash) {
        t.len -= (size_t)(slash + 1 - t.p);
        t.p = slash + 1;
    }
    n = t.len;
    while (n && t.p[n - 1] >= '0' && t.p[n - 1] <= '9')
        n--;
    if (n < t.len && n > 3 && memcmp(t.p + n - 3, "-op", 3) == 0)
        t.len = n - 3;
    return t;
}
