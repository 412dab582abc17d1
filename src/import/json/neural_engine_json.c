/* neural_engine_json.c -- read the trace of Intel's Neural Engine; see neural_engine.h.
 *
 *     {"otherData": {}, "traceEvents": [{"cat":"inference","name":"model_inference",..},
 *      {"cat":"iteration","name":"Iteration0",..}, {"cat":"InnerProduct","name":"Add_37",..}, ..]}
 *
 * In their files all lines are texts ("Operator"), durations are laid end to end from 0, and starts
 * have six digits: what those lost is computed anew from the durations. An operator's duration is
 * reshaping plus forward, and becomes two spans. In files of `opmeter export` lines are threads and
 * times are true. */
#include "import/json/event_each.h"
#include "import/json/sniff.h"
#include "import/neural_engine/neural_engine.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Args of an operator that are texts, in the order of their table below. */
enum arg {
    ARG_IN_NAME,
    ARG_IN_TYPE,
    ARG_IN_SHAPE,
    ARG_OUT_NAME,
    ARG_OUT_TYPE,
    ARG_OUT_SHAPE,
    ARG_ATTR,
    ARG_RESHAPE,
    ARG_FORWARD,
    ARG_MODEL,
    ARG_COUNT
};

static const char *const arg_names[ARG_COUNT] = {
    "input_tensor_name", "input_type", "input_shape",  "output_tensor_name", "output_type",
    "output_shape",      "attributes", "reshape_time", "forward_time",       "model",
};

struct neural_event {
    struct buf cat, name, tid;
    char ph;
    bool has_ts, has_dur, tid_is_text, warmup, has_args;
    double ts_us, dur_us;
    int64_t pid, tid_number, step;
    struct buf arg[ARG_COUNT];
    struct buf raw; /* all args as they stand */
};

/* Reshaping that opmeter wrote as an event of its own; the operator's first event comes later. */
struct pending {
    str_id name;
    uint32_t track;
    int64_t ts, dur;
};

struct reader {
    struct neural n;
    struct neural_event e;
    struct u64map tracks; /* pid << 32 | name */
    struct u64map args;   /* op: the args that defined it */
    struct u64map names;  /* name: the first op that has it */
    struct pending *pending;
    size_t npending, pending_cap;
    struct buf json;
    int64_t op_end_ns, iteration_end_ns; /* where the next one starts, in their files */
    int64_t nstep;
};

bool neural_engine_json_sniff(const uint8_t *head, size_t len)
{
    return json_first_bracket(head, len) == '{' && head_contains(head, len, "\"traceEvents\"") &&
           head_contains(head, len, "\"model_inference\"") &&
           head_contains(head, len, "\"inference\"");
}

/* -- one event -- */

static void event_clear(struct neural_event *e)
{
    buf_clear(&e->cat);
    buf_clear(&e->name);
    buf_clear(&e->tid);
    buf_clear(&e->raw);
    for (int i = 0; i < ARG_COUNT; i++)
        buf_clear(&e->arg[i]);
    e->ph = 0;
    e->has_ts = e->has_dur = e->tid_is_text = e->warmup = e->has_args = false;
    e->pid = e->tid_number = e->step = OPM_NULL_I64;
}

static void event_release(struct neural_event *e)
{
    buf_release(&e->cat);
    buf_release(&e->name);
    buf_release(&e->tid);
    buf_release(&e->raw);
    for (int i = 0; i < ARG_COUNT; i++)
        buf_release(&e->arg[i]);
}

static bool event_failed(const struct neural_event *e)
{
    bool failed = e->cat.failed || e->name.failed || e->tid.failed || e->raw.failed;

    for (int i = 0; i < ARG_COUNT; i++)
        failed |= e->arg[i].failed;
    return failed;
}

static void read_arg(struct json_reader *r, struct neural_event *e)
{
    for (int i = 0; i < ARG_COUNT; i++) {
        if (!json_read_is(r, arg_names[i]))
            continue;
        if (json_read_next(r) == JSON_STRING) {
            buf_clear(&e->arg[i]);
            json_read_text(r, &e->arg[i]);
        } else {
            json_read_skip(r);
        }
        return;
    }
    if (json_read_is(r, "warmup"))
        e->warmup = json_read_next(r) == JSON_TRUE;
    else if (json_read_is(r, "step") && json_read_next(r) == JSON_NUMBER)
        json_read_int(r, &e->step);
    else
        json_read_skip(r);
    if (r->token == JSON_OBJECT || r->token == JSON_ARRAY)
        json_read_skip(r);
}

static void read_args(struct json_reader *r, struct neural_event *e)
{
    const char *from = r->at;

    if (json_read_next(r) != JSON_OBJECT) {
        json_read_skip(r);
        return;
    }
    while (json_read_next(r) == JSON_KEY)
        read_arg(r, e);
    if (r->token == JSON_OBJECT_END) {
        while (*from != '{')
            from++;
        buf_add(&e->raw, from, (size_t)(r->at - from));
        e->has_args = true;
    }
}

static void read_text(struct json_reader *r, struct buf *out)
{
    if (json_read_next(r) == JSON_STRING)
        json_read_text(r, out);
    else
        json_read_skip(r);
}

static void read_event(struct json_reader *r, struct neural_event *e)
{
    event_clear(e);
    while (json_read_next(r) == JSON_KEY) {
        if (json_read_is(r, "cat")) {
            read_text(r, &e->cat);
        } else if (json_read_is(r, "name")) {
            read_text(r, &e->name);
        } else if (json_read_is(r, "ph")) {
            if (json_read_next(r) == JSON_STRING && r->len == 1)
                e->ph = *r->text;
            else
                json_read_skip(r);
        } else if (json_read_is(r, "ts")) {
            json_read_next(r);
            e->has_ts = json_read_real(r, &e->ts_us) || !json_read_skip(r);
        } else if (json_read_is(r, "dur")) {
            json_read_next(r);
            e->has_dur = json_read_real(r, &e->dur_us) || !json_read_skip(r);
        } else if (json_read_is(r, "pid")) {
            json_read_next(r);
            if (!json_read_int(r, &e->pid))
                json_read_skip(r);
        } else if (json_read_is(r, "tid")) {
            e->tid_is_text = json_read_next(r) == JSON_STRING;
            if (e->tid_is_text)
                json_read_text(r, &e->tid);
            else if (!json_read_int(r, &e->tid_number))
                json_read_skip(r);
        } else if (json_read_is(r, "args")) {
            read_args(r, e);
        } else {
            json_read_skip(r);
        }
    }
}

/* -- rows -- */

static int intern(struct reader *x, const struct buf *b, str_id *out)
{
    *out = 0;
    return b->len ? store_str(x->n.st, buf_str(b), b->len, out) : 0;
}

/* All of their levels are one line; threads of ours have a number each. */
static int track_of(struct reader *x, uint32_t *out)
{
    struct neural_event *e = &x->e;
    uint64_t key = e->tid_is_text ? (uint64_t)e->pid << 32 | UINT32_MAX
                                  : (uint64_t)e->pid << 32 | (uint32_t)e->tid_number;
    const uint64_t *at = u64map_get(&x->tracks, key);
    str_id name = 0;
    int rc;

    if (at) {
        *out = (uint32_t)*at;
        return 0;
    }
    rc = e->tid_is_text ? store_cstr(x->n.st, "neural engine", &name) : 0;
    if (!rc)
        rc = neural_add_track(&x->n, name, e->pid, e->tid_is_text ? OPM_NULL_I64 : e->tid_number,
                              out);
    return rc ? rc : u64map_put(&x->tracks, key, *out);
}

/* "append_op:sum;src1_perm:1,0" as a JSON object, append_op apart. */
static int read_attributes(struct reader *x, const char *text, str_id *json, str_id *post_op)
{
    struct json_writer w = { .buf = &x->json };
    bool any = false;
    int rc = 0;

    buf_clear(&x->json);
    json_object(&w);
    while (*text && !rc) {
        size_t len = strcspn(text, ";"), key = strcspn(text, ":;");
        const char *value = key < len ? text + key + 1 : "";
        size_t value_len = key < len ? len - key - 1 : 0;

        if (key == 9 && memcmp(text, "append_op", 9) == 0) {
            rc = value_len ? store_str(x->n.st, value, value_len, post_op) : 0;
        } else if (key) {
            buf_clear(&x->n.text);
            buf_add(&x->n.text, text, key);
            if (x->n.text.failed)
                rc = OPM_ENOMEM;
            json_key(&w, buf_str(&x->n.text));
            json_str(&w, value, value_len);
            any = true;
        }
        text += len + (text[len] == ';');
    }
    json_object_end(&w);
    if (!rc && any)
        rc = store_str(x->n.st, buf_str(&x->json), x->json.len, json);
    return !rc && x->json.failed ? OPM_ENOMEM : rc;
}

static const char *list_of(const struct neural_event *e, enum arg arg)
{
    return e->arg[arg].len ? buf_str(&e->arg[arg]) : NULL;
}

/* What says all about an operator but the times of one execution. */
static int signature(struct reader *x, str_id *out)
{
    buf_clear(&x->json);
    for (int i = ARG_IN_NAME; i <= ARG_ATTR; i++)
        buf_addf(&x->json, "%s\n", buf_str(&x->e.arg[i]));
    return x->json.failed ? OPM_ENOMEM : store_str(x->n.st, buf_str(&x->json), x->json.len, out);
}

/* The operator of the event; *args is set if this execution had other args than the first. */
static int op_of(struct reader *x, str_id name, uint32_t *out, str_id *args)
{
    struct neural_event *e = &x->e;
    struct neural_op_row row = {
        .name = name,
        .zero_ratio = (double)NAN,
        .sparse_support = OPM_NULL_I64,
        .aim = (double)NAN,
        .ratio = (double)NAN,
        .sep = ',',
        .times = '*',
        .in = { list_of(e, ARG_IN_NAME), list_of(e, ARG_IN_SHAPE), list_of(e, ARG_IN_TYPE) },
        .out = { list_of(e, ARG_OUT_NAME), list_of(e, ARG_OUT_SHAPE), list_of(e, ARG_OUT_TYPE) }
    };
    str_id sign;
    int rc = intern(x, &e->cat, &row.type);

    *args = 0;
    if (!rc)
        rc = signature(x, &sign);
    if (rc)
        return rc;
    *out = neural_find(&x->n, name, row.type);
    if (*out != OPM_NULL_ID) {
        const uint64_t *first = u64map_get(&x->args, *out);

        if (first && *first != sign)
            rc = intern(x, &e->raw, args);
        return rc;
    }
    rc = read_attributes(x, buf_str(&e->arg[ARG_ATTR]), &row.attributes, &row.post_op);
    if (!rc)
        rc = neural_add_op(&x->n, &row, out);
    if (!rc && !u64map_get(&x->names, name))
        rc = u64map_put(&x->names, name, *out);
    return rc ? rc : u64map_put(&x->args, *out, sign);
}

/* "0.012ms" in ns; -1 if it is nothing of the kind. */
static int64_t parse_ms(const struct buf *b)
{
    char *end;
    double v = strtod(buf_str(b), &end);

    return end != buf_str(b) && strcmp(end, "ms") == 0 && v >= 0 && v < 1e12
               ? (int64_t)(v * 1e6 + 0.5)
               : -1;
}

/* The start that six digits cannot tell: where the one before ended, if they do not contradict. */
static int64_t true_start(struct reader *x, int64_t given_ns, int64_t expected_ns)
{
    int64_t doubt = llabs(given_ns) / 50000 + 1500;

    if (!x->e.tid_is_text || llabs(given_ns - expected_ns) > doubt)
        return given_ns;
    if (given_ns != expected_ns)
        store_stat(x->n.st, STAT_time_rebuilt, 1);
    return expected_ns;
}

static bool about(int64_t a, int64_t b)
{
    return llabs(a - b) <= 1500 + llabs(b) / 50000;
}

static int add_operator(struct reader *x, uint32_t track, int64_t ts, int64_t dur)
{
    struct neural_event *e = &x->e;
    struct neural *n = &x->n;
    struct site site = { .cat = n->word.op, .layer = n->word.framework, .phase = n->word.forward };
    int64_t reshape = parse_ms(&e->arg[ARG_RESHAPE]), forward = parse_ms(&e->arg[ARG_FORWARD]);
    str_id args;
    int rc = intern(x, &e->name, &site.name);

    if (!rc)
        rc = op_of(x, site.name, &site.op, &args);
    if (rc)
        return rc;
    ts = true_start(x, ts, x->op_end_ns);
    x->op_end_ns = ts + MAX(dur, 0);
    if (reshape > 0 && reshape <= dur && about(dur, reshape + forward) && !about(dur, forward)) {
        struct site first = site;

        first.phase = n->word.reshape;
        rc = neural_add_span(n, track, ts, reshape, &first, 0);
        ts += reshape;
        dur -= reshape;
    } else if (reshape > 0 && e->tid_is_text) {
        rc = intern(x, &e->raw, &args); /* told, but not part of the duration */
    }
    return rc ? rc : neural_add_span(n, track, ts, dur, &site, args);
}

static int add_reshape(struct reader *x, uint32_t track, int64_t ts, int64_t dur)
{
    struct pending p = { .track = track, .ts = ts, .dur = dur };
    int rc = intern(x, &x->e.name, &p.name);

    if (!rc && !GROW(x->pending, x->pending_cap, x->npending + 1))
        rc = OPM_ENOMEM;
    if (!rc)
        x->pending[x->npending++] = p;
    return rc;
}

static int add_pending(struct reader *x)
{
    int rc = 0;

    for (size_t i = 0; i < x->npending && !rc; i++) {
        const struct pending *p = &x->pending[i];
        const uint64_t *op = u64map_get(&x->names, p->name);
        struct site site = { .name = p->name,
                             .cat = x->n.word.op,
                             .layer = x->n.word.framework,
                             .phase = x->n.word.reshape,
                             .op = op ? (uint32_t)*op : OPM_NULL_ID };

        rc = neural_add_span(&x->n, p->track, p->ts, p->dur, &site, 0);
    }
    return rc;
}

static int add_iteration(struct reader *x, uint32_t track, int64_t ts, int64_t dur)
{
    struct neural_event *e = &x->e;
    struct site site = { .cat = x->n.word.step, .layer = x->n.word.app, .op = OPM_NULL_ID };
    str_id model = x->n.word.model;
    int64_t num = e->step != OPM_NULL_I64 ? e->step : x->nstep;
    int rc = intern(x, &e->name, &site.name);

    if (!rc && e->arg[ARG_MODEL].len)
        rc = intern(x, &e->arg[ARG_MODEL], &model);
    ts = true_start(x, ts, x->iteration_end_ns);
    x->iteration_end_ns = ts + MAX(dur, 0);
    x->op_end_ns = ts;
    x->nstep++;
    if (!rc)
        rc = neural_add_step(&x->n, track, num, ts, dur, model, e->warmup);
    return rc ? rc : neural_add_span(&x->n, track, ts, dur, &site, 0);
}

static bool is(const struct buf *b, const char *text)
{
    return strcmp(buf_str(b), text) == 0;
}

static int add_event(struct reader *x)
{
    struct neural_event *e = &x->e;
    int64_t ts, dur = -1;
    uint32_t track;
    int rc;

    if (event_failed(e))
        return OPM_ENOMEM;
    if (e->ph != 'X' && e->ph != 'B')
        return 0;
    if (!e->has_ts || !(fabs(e->ts_us) < 1e15) || (e->has_dur && !(e->dur_us < 1e15))) {
        store_stat(x->n.st, STAT_bad_time, 1);
        return 0;
    }
    ts = llround(e->ts_us * 1000);
    if (e->ph == 'X') {
        store_stat(x->n.st, STAT_missing_duration, !e->has_dur);
        dur = e->has_dur ? llround(e->dur_us * 1000) : 0;
        if (dur < 0) {
            store_stat(x->n.st, STAT_negative_duration, 1);
            dur = 0;
        }
    }
    rc = track_of(x, &track);
    if (rc)
        return rc;
    if (is(&e->cat, "iteration"))
        return add_iteration(x, track, ts, dur);
    if (is(&e->cat, "reshape") && !e->has_args)
        return add_reshape(x, track, ts, dur);
    if (is(&e->cat, "inference") && is(&e->name, "model_inference")) {
        struct site site = { .layer = x->n.word.app, .op = OPM_NULL_ID };

        rc = intern(x, &e->name, &site.name);
        if (!rc)
            rc = intern(x, &e->cat, &site.cat);
        return rc ? rc : neural_add_span(&x->n, track, ts, dur, &site, 0);
    }
    return add_operator(x, track, ts, dur);
}

static int take_event(void *user, struct json_reader *r)
{
    struct reader *x = user;

    read_event(r, &x->e);
    return add_event(x);
}

int neural_engine_json_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct reader x = { 0 };
    int rc = neural_init(&x.n, st, src);

    if (!rc)
        rc = event_each(st, src, take_event, &x, err);
    if (!rc)
        rc = add_pending(&x);
    if (rc && rc != OPM_EFORMAT)
        opm__fail(err, rc, "%s: %s", src->path, opm_status_text(rc));
    event_release(&x.e);
    buf_release(&x.json);
    u64map_release(&x.tracks);
    u64map_release(&x.args);
    u64map_release(&x.names);
    mem_free(x.pending);
    neural_release(&x.n);
    return rc;
}
