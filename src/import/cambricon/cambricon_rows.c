/* cambricon_rows.c -- nodes, activities and steps as rows; see cambricon_int.h. */
#include "import/cambricon/cambricon_int.h"

#include "base/alloc.h"
#include "base/json_write.h"

#include <inttypes.h>
#include <string.h>

#define TIME_MAX_NS (INT64_MAX / 4)

struct cam_step *cam_step(struct cam *c, str_id model, int64_t num)
{
    const uint64_t *last = u64map_get(&c->step_of, (uint64_t)num);
    uint32_t before = last ? (uint32_t)*last : OPM_NULL_ID;
    struct cam_step *s;

    /* A step without a model is that of the only one that has the number. */
    for (uint32_t i = before; i != OPM_NULL_ID; i = s->before) {
        s = &c->step[i];
        if (s->model == model || !model || !s->model) {
            if (!s->model)
                s->model = model;
            return s;
        }
    }
    if (c->nstep >= OPM_NULL_ID || !GROW(c->step, c->step_cap, c->nstep + 1) ||
        u64map_put(&c->step_of, (uint64_t)num, c->nstep)) {
        c->b.rc = OPM_ENOMEM;
        return NULL;
    }
    s = &c->step[c->nstep++];
    *s = (struct cam_step){ .model = model,
                            .num = num,
                            .from_ns = OPM_NULL_I64,
                            .run_from_ns = OPM_NULL_I64,
                            .before = before };
    return s;
}

/* "/job:localhost/replica:0/task:0/device:CPU:0" to "CPU:0"; what follows a stream stays. */
static struct text device_short(struct text device)
{
    struct text rest;

    if (text_after(device, "device:", &rest))
        return rest;
    return device;
}

/* The machine: what stands behind /job:. */
static struct text machine_of(struct text device)
{
    struct text rest;
    const char *slash;

    if (!text_after(device, "/job:", &rest))
        return (struct text){ "", 0 };
    slash = rest.len ? memchr(rest.p, '/', rest.len) : NULL;
    if (slash)
        rest.len = (size_t)(slash - rest.p);
    return rest;
}

/* Kernels are listed under the streams of a device. */
static bool is_hardware(struct text device)
{
    struct text rest;

    return text_after(device, "stream", &rest) ||
           (text_after(device, "MLU", &rest) && text_after(device, "Kernel", &rest));
}

/* "name = Type(inputs)", or of a kernel "name:Type#...". */
static struct text type_of(const struct cam_node *n, bool hardware)
{
    struct text t = n->type, rest;
    const char *end;

    if (t.len)
        return t;
    if (text_after(n->label, " = ", &rest)) {
        end = rest.len ? memchr(rest.p, '(', rest.len) : NULL;
        return (struct text){ rest.p, end ? (size_t)(end - rest.p) : rest.len };
    }
    if (hardware && text_after(n->name, ":", &rest)) {
        end = rest.len ? memchr(rest.p, '#', rest.len) : NULL;
        return (struct text){ rest.p, end ? (size_t)(end - rest.p) : rest.len };
    }
    return (struct text){ "", 0 };
}

/* The operator that a kernel is of: what stands before its colon. */
static struct text op_name_of(const struct cam_node *n, bool hardware)
{
    const char *colon = hardware && n->name.len ? memchr(n->name.p, ':', n->name.len) : NULL;

    return colon ? (struct text){ n->name.p, (size_t)(colon - n->name.p) } : n->name;
}

static str_id key_of(struct cam *c, str_id model, struct text a, struct text b, int64_t number)
{
    buf_clear(&c->text);
    buf_addf(&c->text, "%" PRIu32 "|%.*s|%.*s|%" PRId64, model, (int)MIN(a.len, (size_t)4096), a.p,
             (int)MIN(b.len, (size_t)4096), b.p, number);
    return build_buf(&c->b, &c->text);
}

/* TensorFlow's names, as StepStats and the summary write them. */
static struct text dtype_of(struct text t)
{
    static const char *const names[][3] = {
        { "DT_FLOAT", "Float", "fp32" },   { "DT_HALF", "Half", "fp16" },
        { "DT_DOUBLE", "Double", "fp64" }, { "DT_BFLOAT16", "Bfloat16", "bf16" },
        { "DT_INT8", "Int8", "int8" },     { "DT_UINT8", "Uint8", "uint8" },
        { "DT_INT16", "Int16", "int16" },  { "DT_UINT16", "Uint16", "uint16" },
        { "DT_INT32", "Int32", "int32" },  { "DT_UINT32", "Uint32", "uint32" },
        { "DT_INT64", "Int64", "int64" },  { "DT_UINT64", "Uint64", "uint64" },
        { "DT_BOOL", "Bool", "bool" },     { "DT_STRING", "String", "string" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (text_is(t, names[i][0]) || text_is(t, names[i][1]))
            return (struct text){ names[i][2], strlen(names[i][2]) };
    return t;
}

static void tensors_add(struct cam *c, uint32_t op, const struct cam_node *n)
{
    for (size_t i = 0; i < n->noutput && !c->b.rc; i++) {
        const struct cam_output *o = &n->output[i];
        struct text dtype = dtype_of(o->dtype);
        size_t width = dtype_bytes(dtype.p, dtype.len);
        int64_t elements = shape_elements(o->shape, strlen(o->shape));

        build_tensor(&c->b,
                     &(struct tensor_row){
                         .op = op,
                         .io = "output",
                         .slot = o->slot,
                         .dtype = dtype.len ? build_str(&c->b, dtype.p, dtype.len) : 0,
                         .shape = build_cstr(&c->b, o->shape),
                         .bytes = width && elements >= 0 && elements <= INT64_MAX / (int64_t)width
                                      ? elements * (int64_t)width
                                      : OPM_NULL_I64,
                     });
    }
}

static uint32_t op_of(struct cam *c, str_id model, const struct cam_node *n, bool hardware)
{
    struct text device = device_short(n->device), name = op_name_of(n, hardware);
    struct text type = type_of(n, hardware);
    str_id key = key_of(c, model, hardware ? (struct text){ "", 0 } : device, name, -1);
    const uint64_t *found = u64map_get(&c->op, key);
    struct op_row row = OP_ROW_INIT;
    uint32_t op;

    if (found || c->b.rc)
        return found ? (uint32_t)*found : OPM_NULL_ID;
    row.name = build_str(&c->b, name.p, name.len);
    row.type = type.len ? build_str(&c->b, type.p, type.len) : 0;
    row.device = device.len ? build_str(&c->b, device.p, device.len) : 0;
    row.engine = build_cstr(&c->b, "TensorFlow");
    op = build_op(&c->b, &row);
    tensors_add(c, op, n);
    if (!c->b.rc && u64map_put(&c->op, key, op))
        c->b.rc = OPM_ENOMEM;
    return op;
}

static uint32_t track_of(struct cam *c, const struct cam_node *n, bool hardware)
{
    struct text device = device_short(n->device), machine = machine_of(n->device);
    str_id key = key_of(c, 0, n->device, (struct text){ "", 0 }, n->thread);
    const uint64_t *found = u64map_get(&c->track, key);
    struct track_row row = TRACK_ROW_INIT;
    uint32_t track;

    if (found || c->b.rc)
        return found ? (uint32_t)*found : OPM_NULL_ID;
    row.kind = hardware ? "stream" : "thread";
    row.name = n->thread == OPM_NULL_I64
                   ? build_str(&c->b, device.p, device.len)
                   : build_fmt(&c->b, "%.*s thread %" PRId64, (int)MIN(device.len, (size_t)200),
                               device.p, n->thread);
    row.process = machine.len ? build_str(&c->b, machine.p, machine.len) : 0;
    row.device = build_str(&c->b, device.p, device.len);
    row.tid = n->thread;
    row.log = build_cstr(&c->b, "step_stats"); /* of some steps; activities are of all */
    track = build_track(&c->b, &row);
    if (!c->b.rc && u64map_put(&c->track, key, track))
        c->b.rc = OPM_ENOMEM;
    return track;
}

/* Near enough that times can be added and taken from each other. NULL is no time. */
static bool is_time(int64_t ns)
{
    return ns >= -TIME_MAX_NS && ns <= TIME_MAX_NS;
}

static str_id args_of(struct cam *c, const struct cam_node *n)
{
    struct json_writer w = { .buf = &c->text };

    buf_clear(&c->text);
    json_object(&w);
    if (n->label.len) {
        json_key(&w, "label");
        json_str(&w, n->label.p, n->label.len);
    }
    if (n->bytes != OPM_NULL_I64) {
        json_key(&w, "memory_bytes");
        json_i64(&w, n->bytes);
    }
    if (n->memory.len) { /* as it stands there: which allocator, what at its peak */
        json_key(&w, "memory");
        json_str(&w, n->memory.p, n->memory.len);
    }
    if (is_time(n->op_start_ns) && is_time(n->op_end_ns)) {
        json_key(&w, "op_start_ns");
        json_i64(&w, n->op_start_ns);
        json_key(&w, "op_end_ns");
        json_i64(&w, n->op_end_ns);
    }
    if (is_time(n->scheduled_ns) && n->ts_ns >= n->scheduled_ns) {
        json_key(&w, "scheduled_before_ns");
        json_i64(&w, n->ts_ns - n->scheduled_ns);
    }
    json_object_end(&w);
    return c->text.len > 2 ? build_buf(&c->b, &c->text) : 0;
}

void cam_node(struct cam *c, struct cam_step *s, const struct cam_node *n)
{
    bool hardware = is_hardware(n->device);
    struct span_row row = SPAN_ROW_INIT;
    struct cam_node node = *n;
    uint32_t op;

    if (n->dur_ns < 0 || n->dur_ns > TIME_MAX_NS || !n->name.len ||
        (n->ts_ns != OPM_NULL_I64 && !is_time(n->ts_ns))) {
        store_stat(c->b.st, STAT_bad_row, 1);
        return;
    }
    if (n->ts_ns == OPM_NULL_I64) {
        store_stat(c->b.st, STAT_untimed_span, 1);
        node.ts_ns = c->end_ns;
        c->end_ns = c->end_ns < TIME_MAX_NS ? c->end_ns + n->dur_ns : c->end_ns;
    }
    op = op_of(c, s->model, &node, hardware);
    row.ts_ns = node.ts_ns;
    row.dur_ns = node.dur_ns;
    row.track = track_of(c, &node, hardware);
    row.args = args_of(c, &node);
    row.site = build_site(&c->b, build_str(&c->b, n->name.p, n->name.len), build_cstr(&c->b, "op"),
                          hardware ? "hardware" : "framework", op);
    build_span(&c->b, &row);
    /* A step ends behind its last node, also behind one that took no time: it would be outside. */
    if (s->from_ns == OPM_NULL_I64)
        s->from_ns = s->to_ns = node.ts_ns;
    s->from_ns = MIN(s->from_ns, node.ts_ns);
    s->to_ns = MAX(s->to_ns, node.ts_ns + MAX(node.dur_ns, (int64_t)1));
    c->nodes++;
}

static uint32_t app_track(struct cam *c)
{
    struct track_row row = TRACK_ROW_INIT;

    if (c->app == OPM_NULL_ID) {
        row.kind = "thread";
        row.name = build_cstr(&c->b, "application");
        c->app = build_track(&c->b, &row);
    }
    return c->app;
}

static uint32_t untimed_track(struct cam *c)
{
    struct track_row row = TRACK_ROW_INIT;

    if (c->app_untimed == OPM_NULL_ID) {
        row.kind = "thread";
        row.name = build_cstr(&c->b, "application, starts not known");
        c->app_untimed = build_track(&c->b, &row);
    }
    return c->app_untimed;
}

void cam_activity(struct cam *c, struct cam_step *s, struct text name, int64_t ts_ns,
                  int64_t dur_ns, struct text meta)
{
    struct span_row row = SPAN_ROW_INIT;
    struct json_writer w = { .buf = &c->text };

    if (dur_ns < 0 || dur_ns > INT64_MAX / 4 || ts_ns > INT64_MAX / 2) {
        store_stat(c->b.st, STAT_bad_time, 1);
        return;
    }
    buf_clear(&c->text);
    if (meta.len) {
        json_object(&w);
        json_key(&w, "meta");
        json_str(&w, meta.p, meta.len);
        json_object_end(&w);
    }
    row.args = build_buf(&c->b, &c->text);
    row.ts_ns = ts_ns;
    row.dur_ns = dur_ns;
    row.track = c->untimed ? untimed_track(c) : app_track(c);
    row.site = build_site(&c->b, build_str(&c->b, name.p, name.len), build_cstr(&c->b, "activity"),
                          "app", OPM_NULL_ID);
    build_span(&c->b, &row);
    if (s && text_is(name, "Session Run")) {
        s->run_from_ns = ts_ns;
        s->run_to_ns = ts_ns + dur_ns;
    }
}

/* The model of all steps that have one; 0: they have different ones. */
static str_id only_model(const struct cam *c)
{
    str_id only = 0;

    for (size_t i = 0; i < c->nstep; i++) {
        if (only && c->step[i].model && c->step[i].model != only)
            return 0;
        if (c->step[i].model)
            only = c->step[i].model;
    }
    return only;
}

void cam_steps_end(struct cam *c)
{
    str_id only = only_model(c); /* of steps, too, of which only activities are known */

    for (size_t i = 0; i < c->nstep && !c->b.rc; i++) {
        const struct cam_step *s = &c->step[i];
        bool marked = s->run_from_ns != OPM_NULL_I64;
        int64_t run_to_ns = s->run_to_ns;

        if ((!marked && s->from_ns == OPM_NULL_I64) || s->num < 0)
            continue;
        if (marked && s->from_ns != OPM_NULL_I64 && s->to_ns == run_to_ns + 1)
            run_to_ns++; /* a node without length at its end is a part of it */
        build_step(&c->b, &(struct step_row){
                              .model = s->model ? s->model : only,
                              .num = s->num,
                              .ts_ns = marked ? s->run_from_ns : s->from_ns,
                              .dur_ns = marked ? run_to_ns - s->run_from_ns : s->to_ns - s->from_ns,
                              .track = app_track(c),
                          });
    }
}

void cam_release(struct cam *c)
{
    mem_free(c->step);
    u64map_release(&c->step_of);
    u64map_release(&c->op);
    u64map_release(&c->track);
    u64map_release(&c->counter);
    u64map_release(&c->known);
    json_texts_clear(&c->texts);
    buf_release(&c->text);
}
