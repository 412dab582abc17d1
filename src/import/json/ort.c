/* ort.c -- profiles of ONNX Runtime, 0.4 to 1.30.
 *
 * A run of the model is a step. Where a file has several sessions, runs of one process that begin
 * with the same node are of one model. A node that runs others inside (If, Loop, Scan) is marked by
 * the phase "control", so that what they do is counted once; fences of old versions are "fence". */
#include "import/json/events.h"
#include "import/json/sniff.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_LIMIT 1000000 /* of ONNX Runtime's profiler */
#define SHAPE_DIMS 8

enum what { WHAT_NODE, WHAT_RUN, WHAT_KERNEL, WHAT_SESSION };

struct ort_kind {
    uint8_t what;
    uint32_t op;
    uint16_t in_use, arena; /* values, or NO_VALUE */
};

struct run {
    int64_t ts, dur;
    uint32_t track, process;
};

struct node {
    int64_t ts;
    uint32_t track;
    str_id name;
};

struct ort {
    struct u64map ops; /* what makes a node -> op row */
    struct run *run;
    size_t nrun, run_cap;
    struct node *node;
    size_t nnode, node_cap;
    size_t nsession;
    int64_t nodes;
    uint32_t last_node, last_op; /* device work is written behind its node */
    str_id phase_control, phase_fence, phase_kernel, layer[3];
};

enum { FRAMEWORK, RUNTIME, HARDWARE };

static struct ort *state(struct events *ev)
{
    static const char *const layers[] = { "framework", "runtime", "hardware" };
    struct ort *s = ev->state;
    int rc;

    if (s)
        return s;
    s = mem_calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->last_node = s->last_op = OPM_NULL_ID;
    rc = store_cstr(ev->st, "control", &s->phase_control) ||
         store_cstr(ev->st, "fence", &s->phase_fence) ||
         store_cstr(ev->st, "kernel", &s->phase_kernel);
    for (size_t i = 0; i < ARRAY_SIZE(layers) && !rc; i++)
        rc = store_cstr(ev->st, layers[i], &s->layer[i]);
    if (rc) {
        mem_free(s);
        return NULL;
    }
    ev->state = s;
    return s;
}

static void ort_release(struct events *ev)
{
    struct ort *s = ev->state;

    if (!s)
        return;
    u64map_release(&s->ops);
    mem_free(s->run);
    mem_free(s->node);
    mem_free(s);
}

static const struct {
    const char *onnx, *ours;
    int bytes;
} dtypes[] = {
    { "float", "fp32", 4 },    { "double", "fp64", 8 },   { "float16", "fp16", 2 },
    { "bfloat16", "bf16", 2 }, { "int64", "int64", 8 },   { "int32", "int32", 4 },
    { "int16", "int16", 2 },   { "int8", "int8", 1 },     { "uint8", "uint8", 1 },
    { "uint16", "uint16", 2 }, { "uint32", "uint32", 4 }, { "uint64", "uint64", 8 },
    { "bool", "bool", 1 },
};

/* One {"float":[1,3,224,224]}. */
struct ort_tensor {
    int64_t dim[SHAPE_DIMS];
    int ndim; /* -1: too many, or not known */
    struct json_reader dtype;
};

/* The next tensor of a list that r is in; false at its end. */
static bool next_tensor(struct json_reader *r, struct ort_tensor *t)
{
    *t = (struct ort_tensor){ .ndim = -1 };
    if (json_read_next(r) == JSON_ARRAY_END || r->token == JSON_BAD || r->token == JSON_DONE)
        return false;
    if (r->token != JSON_OBJECT) {
        if (r->token == JSON_ARRAY)
            json_read_skip(r);
        return true;
    }
    while (json_read_next(r) == JSON_KEY) {
        t->dtype = *r;
        if (json_read_next(r) != JSON_ARRAY) {
            if (r->token == JSON_OBJECT)
                json_read_skip(r);
            continue;
        }
        t->ndim = 0;
        while (json_read_next(r) != JSON_ARRAY_END && r->token != JSON_BAD) {
            int64_t v;

            if (r->token == JSON_ARRAY || r->token == JSON_OBJECT)
                json_read_skip(r);
            else if (t->ndim >= 0 && t->ndim < SHAPE_DIMS && json_read_int(r, &v))
                t->dim[t->ndim++] = v;
            else
                t->ndim = -1;
        }
    }
    return r->token == JSON_OBJECT_END;
}

static struct json_reader list_of(const struct event_info *info, const char *key)
{
    const struct member *m = member_find(&info->args, key);
    struct json_reader r = json_read_of("[]", 2);

    if (m && m->token == JSON_ARRAY)
        r = json_read_of(info->shape->strict + m->from, m->to - m->from);
    json_read_next(&r);
    return r;
}

static int add_tensor(struct events *ev, uint32_t op, const char *io, int slot,
                      const struct ort_tensor *t)
{
    struct cell row[op_tensor_col_COUNT];
    int64_t bytes = OPM_NULL_I64;
    str_id io_id, dtype = 0, shape = 0;
    int rc = store_cstr(ev->st, io, &io_id);

    for (int i = 0; i < op_tensor_col_COUNT; i++)
        row[i] = cell_null();
    buf_clear(&ev->text);
    for (int i = 0; i < t->ndim; i++)
        buf_addf(&ev->text, i ? "x%" PRId64 : "%" PRId64, t->dim[i]);
    if (!rc && t->ndim >= 0)
        rc = ev->text.failed ? OPM_ENOMEM
                             : store_str(ev->st, buf_str(&ev->text), ev->text.len, &shape);
    if (!rc && t->dtype.text)
        rc = store_str(ev->st, t->dtype.text, t->dtype.len, &dtype);
    for (size_t i = 0; i < ARRAY_SIZE(dtypes) && !rc && t->dtype.text; i++) {
        if (!json_read_is(&t->dtype, dtypes[i].onnx))
            continue;
        rc = store_cstr(ev->st, dtypes[i].ours, &dtype);
        if (t->ndim >= 0)
            bytes = dtypes[i].bytes;
        for (int k = 0; k < t->ndim && bytes != OPM_NULL_I64; k++)
            if (t->dim[k] < 0 || __builtin_mul_overflow(bytes, t->dim[k], &bytes))
                bytes = OPM_NULL_I64;
    }
    if (rc)
        return rc;
    row[op_tensor_col_op] = cell_id(op);
    row[op_tensor_col_io] = cell_str(io_id);
    row[op_tensor_col_slot] = cell_i64(slot);
    row[op_tensor_col_dtype] = cell_str(dtype);
    row[op_tensor_col_shape] = cell_str(shape);
    row[op_tensor_col_bytes] = cell_i64(bytes);
    return store_add(ev->st, TABLE_op_tensor, row, NULL);
}

static int add_tensors(struct events *ev, const struct event_info *info, uint32_t op)
{
    static const char *const keys[] = { "input_type_shape", "output_type_shape" };
    static const char *const ios[] = { "input", "output" };
    struct ort_tensor t;
    int rc = 0;

    for (int k = 0; k < 2; k++) {
        struct json_reader r = list_of(info, keys[k]);

        for (int slot = 0; !rc && next_tensor(&r, &t); slot++)
            rc = add_tensor(ev, op, ios[k], slot, &t);
    }
    return rc;
}

/* "CPUExecutionProvider" is the device CPU. */
static int device_of(struct events *ev, const struct event_info *info, str_id *out)
{
    static const char suffix[] = "ExecutionProvider";
    const struct member *m = member_find(&info->args, "provider");
    size_t n;

    *out = 0;
    if (!m || m->token != JSON_STRING)
        return 0;
    buf_clear(&ev->text);
    member_text(info, m, NULL, &ev->text);
    n = sizeof(suffix) - 1;
    if (ev->text.len > n && strcmp(ev->text.data + ev->text.len - n, suffix) == 0)
        ev->text.len -= n;
    return ev->text.failed ? OPM_ENOMEM : store_str(ev->st, buf_str(&ev->text), ev->text.len, out);
}

/* The op row of a node: same name, type and input shapes. */
static int find_op(struct events *ev, const struct event_info *info, str_id name, str_id type,
                   uint32_t *out)
{
    struct ort *s = ev->state;
    const struct member *shapes = member_find(&info->args, "input_type_shape");
    uint64_t key = events_hash(events_hash(0x6f7274, name), type);
    const uint64_t *known;
    struct cell row[op_col_COUNT];
    str_id device, engine;

    for (uint32_t i = shapes ? shapes->from : 0; shapes && i < shapes->to; i++)
        key = events_hash(key, (unsigned char)info->shape->strict[i]);
    known = u64map_get(&s->ops, key);
    if (known) {
        *out = (uint32_t)*known;
        return 0;
    }
    if (device_of(ev, info, &device) || store_cstr(ev->st, "onnxruntime", &engine))
        return OPM_ENOMEM;
    for (int i = 0; i < op_col_COUNT; i++)
        row[i] = cell_null();
    row[op_col_name] = cell_str(name);
    row[op_col_type] = cell_str(type);
    row[op_col_device] = cell_str(device);
    row[op_col_engine] = cell_str(engine);
    if (store_add(ev->st, TABLE_op, row, out) || add_tensors(ev, info, *out))
        return OPM_ENOMEM;
    return u64map_put(&s->ops, key, *out);
}

static uint16_t int_value(const struct member *m)
{
    return m && m->value != NO_VALUE && m->hole == HOLE_INT ? m->value : NO_VALUE;
}

/* Cut `suffix` off the name. */
static int cut_name(struct events *ev, const char *name, const char *suffix, str_id *out,
                    bool *had_it)
{
    size_t n = strlen(name), m = strlen(suffix);

    *had_it = n > m && strcmp(name + n - m, suffix) == 0;
    return *had_it ? store_str(ev->st, name, n - m, out) : 0;
}

static bool has_body(const char *type)
{
    return strcmp(type, "If") == 0 || strcmp(type, "Loop") == 0 || strcmp(type, "Scan") == 0;
}

static int node_kind(struct events *ev, struct kind *k, struct ort_kind *ok,
                     const struct event_info *info, struct site *site)
{
    struct ort *s = ev->state;
    const struct member *m = member_find(&info->args, "op_name");
    bool kernel;
    str_id type = 0;

    site->layer = s->layer[FRAMEWORK];
    if (cut_name(ev, store_text(ev->st, k->name), "_kernel_time", &site->name, &kernel))
        return OPM_ENOMEM;
    if (!kernel) {
        site->phase = s->phase_fence;
        return 0;
    }
    if (m) {
        buf_clear(&ev->text);
        member_text(info, m, NULL, &ev->text);
        if (ev->text.failed || store_str(ev->st, buf_str(&ev->text), ev->text.len, &type))
            return OPM_ENOMEM;
    }
    if (find_op(ev, info, site->name, type, &ok->op))
        return OPM_ENOMEM;
    site->op = ok->op;
    if (type && has_body(store_text(ev->st, type)))
        site->phase = s->phase_control;
    ok->what = WHAT_NODE;
    ok->in_use = int_value(member_find(&info->args, "mem_bytes_in_use"));
    ok->arena = int_value(member_find(&info->args, "mem_arena_held"));
    k->dialect = ok;
    return 0;
}

static int ort_kind(struct events *ev, struct kind *k, const struct event_info *info,
                    struct site *site)
{
    struct ort *s = state(ev);
    struct ort_kind *ok = s ? arena_alloc(ev->arena, sizeof(*ok)) : NULL;
    const char *cat = k->cat ? store_text(ev->st, k->cat) : "";

    if (!ok)
        return OPM_ENOMEM;
    *ok = (struct ort_kind){ .op = OPM_NULL_ID, .in_use = NO_VALUE, .arena = NO_VALUE };
    if (k->act != ACT_SPAN)
        return 0;
    if (strcmp(cat, "Node") == 0)
        return node_kind(ev, k, ok, info, site);
    if (strcmp(cat, "Kernel") == 0) {
        site->layer = s->layer[HARDWARE];
        ev->track[k->track].kind = "stream";
        ok->what = WHAT_KERNEL;
        k->dialect = ok;
    } else if (strcmp(cat, "Api") == 0) {
        site->layer = s->layer[RUNTIME];
    } else if (strcmp(store_text(ev->st, k->name), "model_run") == 0) {
        ok->what = WHAT_RUN;
        k->dialect = ok;
    } else if (strcmp(store_text(ev->st, k->name), "session_initialization") == 0) {
        ok->what = WHAT_SESSION;
        k->dialect = ok;
    }
    return 0;
}

static int memory_sample(struct events *ev, const char *name, int64_t ts, int64_t bytes)
{
    uint32_t track;

    if (events_series(ev, OPM_NULL_ID, 0x6d656d, name, strlen(name), &track))
        return OPM_ENOMEM;
    if (!ev->track[track].unit && store_cstr(ev->st, "bytes", &ev->track[track].unit))
        return OPM_ENOMEM;
    return events_sample(ev, track, ts, (double)bytes);
}

static int take_kernel(struct events *ev, uint32_t span)
{
    struct ort *s = ev->state;
    uint32_t site;
    str_id launch;

    if (s->last_node == OPM_NULL_ID)
        return 0;
    if (events_site_with_op(ev, store_span_get_site(ev->st, span), s->last_op, s->phase_kernel,
                            &site) ||
        store_span_set_site(ev->st, span, site) || store_cstr(ev->st, "launch", &launch))
        return OPM_ENOMEM;
    return store_add_flow(ev->st, &(struct flow_end){ .bind = FLOW_SPAN, .span = s->last_node },
                          &(struct flow_end){ .bind = FLOW_SPAN, .span = span }, launch);
}

static int ort_span(struct events *ev, struct kind *k, uint32_t span, int64_t ts, int64_t dur,
                    const int64_t *value)
{
    struct ort *s = ev->state;
    const struct ort_kind *ok = k->dialect;

    switch (ok->what) {
    case WHAT_NODE:
        if (!GROW(s->node, s->node_cap, s->nnode + 1))
            return OPM_ENOMEM;
        s->node[s->nnode++] =
            (struct node){ ts, ev->first_track + k->track,
                           cell_text_id(store_cell(ev->st, TABLE_op, ok->op, op_col_name)) };
        s->nodes++;
        s->last_node = span;
        s->last_op = ok->op;
        if (ok->in_use != NO_VALUE &&
            memory_sample(ev, "memory in use", ts + dur, value[ok->in_use]))
            return OPM_ENOMEM;
        if (ok->arena != NO_VALUE &&
            memory_sample(ev, "memory held by arena", ts + dur, value[ok->arena]))
            return OPM_ENOMEM;
        return 0;
    case WHAT_KERNEL:
        return take_kernel(ev, span);
    case WHAT_SESSION:
        s->nsession++;
        return 0;
    default:
        if (!GROW(s->run, s->run_cap, s->nrun + 1))
            return OPM_ENOMEM;
        s->run[s->nrun++] =
            (struct run){ ts, dur, ev->first_track + k->track, ev->track[k->track].process };
        return 0;
    }
}

static int by_track(const void *va, const void *vb)
{
    const struct node *a = va, *b = vb;

    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    return a->ts < b->ts ? -1 : a->ts > b->ts;
}

/* The first node of a run, on the thread that called for it; 0: none was recorded. */
static str_id first_node(const struct ort *s, const struct run *run)
{
    const struct node from = { .ts = run->ts, .track = run->track };
    size_t lo = 0, hi = s->nnode;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (by_track(&s->node[mid], &from) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->nnode && s->node[lo].track == run->track && s->node[lo].ts - run->ts <= run->dur
               ? s->node[lo].name
               : 0;
}

/* A number from 0 on for the model of every run. If that makes more models than there were
 * sessions, nodes did not tell, and only the process does. */
static int find_models(struct ort *s, uint32_t *model, bool by_node, size_t *n)
{
    struct u64map seen = { 0 };
    int rc = 0;

    for (size_t i = 0; i < s->nrun && !rc; i++) {
        uint64_t key =
            (uint64_t)s->run[i].process << 32 | (by_node ? first_node(s, &s->run[i]) : 0);
        const uint64_t *at = u64map_get(&seen, key);

        model[i] = (uint32_t)(at ? *at : seen.n);
        if (!at)
            rc = u64map_put(&seen, key, seen.n);
    }
    *n = seen.n;
    u64map_release(&seen);
    return rc;
}

static int model_name(struct events *ev, uint32_t model, str_id *out)
{
    char name[32];

    if (!model)
        return store_cstr(ev->st, "model_run", out);
    snprintf(name, sizeof(name), "model_run %" PRIu32, model + 1);
    return store_cstr(ev->st, name, out);
}

static int add_steps(struct events *ev, struct ort *s, const uint32_t *model, int64_t *next)
{
    str_id name;

    for (size_t i = 0; i < s->nrun; i++)
        if (model_name(ev, model[i], &name) ||
            store_add(ev->st, TABLE_step,
                      (struct cell[step_col_COUNT]){ [step_col_model] = cell_str(name),
                                                     [step_col_num] = cell_i64(next[model[i]]++),
                                                     [step_col_ts] = cell_i64(s->run[i].ts),
                                                     [step_col_dur] = cell_i64(s->run[i].dur),
                                                     [step_col_warmup] = cell_i64(0),
                                                     [step_col_track] = cell_id(s->run[i].track) },
                      NULL))
            return OPM_ENOMEM;
    return 0;
}

static int ort_finish(struct events *ev)
{
    struct ort *s = state(ev);
    uint32_t *model = s ? mem_calloc(s->nrun + 1, sizeof(*model)) : NULL;
    int64_t *next = s ? mem_calloc(s->nrun + 1, sizeof(*next)) : NULL;
    size_t n = 1;
    int rc = model && next ? 0 : OPM_ENOMEM;

    if (!rc && s->nsession > 1) {
        if (s->nnode)
            qsort(s->node, s->nnode, sizeof(*s->node), by_track);
        rc = find_models(s, model, true, &n);
        if (!rc && n > s->nsession)
            rc = find_models(s, model, false, &n);
    }
    if (!rc)
        rc = add_steps(ev, s, model, next);
    mem_free(model);
    mem_free(next);
    if (rc)
        return rc;
    store_stat(ev->st, STAT_profiler_bias, s->nodes);
    store_stat(ev->st, STAT_profiler_full, ev->count >= EVENTS_LIMIT);
    return 0;
}

const struct dialect dialect_ort = { .name = "onnxruntime",
                                     .kind = ort_kind,
                                     .span = ort_span,
                                     .finish = ort_finish,
                                     .release = ort_release };

bool ort_sniff(const uint8_t *head, size_t len)
{
    return json_first_bracket(head, len) && head_contains(head, len, "\"ph\"") &&
           (head_contains(head, len, "model_loading_") ||
            head_contains(head, len, "session_initialization") ||
            head_contains(head, len, "_kernel_time\"") ||
            head_contains(head, len, "_fence_before\""));
}

int ort_read(struct store *st, const struct import_source *src, opm_error *err)
{
    return trace_json_read(st, src, &dialect_ort, err);
}
