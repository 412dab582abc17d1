/* neural_trace.c -- the trace of Intel's Neural Engine: Chrome events on three levels.
 *
 * Layout and args are theirs: an event model_inference, an event Iteration<i> for every step, an
 * event for every execution of an operator whose args say as text how long reshaping and forward
 * took and what the tensors and attributes are. Times are the true ones (theirs: durations laid end
 * to end), operators stand on a line for each thread that ran them, and everything is strict JSON.
 * An operator's event is its forward phase; reshaping is an event of category reshape where it
 * happened, and reshape_time of the execution that follows it. */
#include "export/export.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_write.h"
#include "export/chrome_json.h"
#include "export/neural_text.h"
#include "export/timeline.h"
#include "export/writer.h"

#include <string.h>

struct trace {
    const struct store *st;
    struct timeline tl;
    struct op_tensors tensors;
    struct io_out out;
    struct fragments ops; /* category and name; args behind the times */
    int64_t *reshape_ns;  /* [nop] not yet said by an execution */
    struct buf scratch;
    uint64_t nevent;
    size_t next_step;
    str_id reshape, forward;
};

static void put_text_member(struct json_writer *w, const char *key, struct buf *text)
{
    json_key(w, key);
    json_str(w, buf_str(text), text->len);
    buf_clear(text);
}

static void put_store_text(struct json_writer *w, const struct store *st, struct cell c)
{
    if (c.kind == CELL_STR)
        json_str(w, store_text(st, c.str), strpool_len(store_strings(st), c.str));
    else
        json_cstr(w, "");
}

/* Two objects: {"cat":..,"name":..} and the args that are the same for every execution. */
static int make_op(void *ctx, uint32_t op, struct buf *out, size_t *out_head)
{
    static const struct {
        const char *key;
        bool outputs;
        enum neural_field field;
    } members[] = {
        { "input_tensor_name", false, NEURAL_NAME }, { "input_type", false, NEURAL_DTYPE },
        { "input_shape", false, NEURAL_SHAPE },      { "output_tensor_name", true, NEURAL_NAME },
        { "output_type", true, NEURAL_DTYPE },       { "output_shape", true, NEURAL_SHAPE },
    };
    struct trace *t = ctx;
    struct json_writer w = { .buf = out };
    struct buf text = { 0 };
    size_t from = out->len;
    int rc;

    json_object(&w);
    json_key(&w, "cat");
    put_store_text(&w, t->st, store_cell(t->st, TABLE_op, op, op_col_type));
    json_key(&w, "name");
    put_store_text(&w, t->st, store_cell(t->st, TABLE_op, op, op_col_name));
    json_object_end(&w);
    *out_head = out->len - from;
    json_object(&w);
    for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
        neural_tensors(&t->tensors, op, members[i].outputs, members[i].field, ",", '*', &text);
        put_text_member(&w, members[i].key, &text);
    }
    rc = neural_attributes(t->st, op, &text);
    if (text.failed)
        rc = OPM_ENOMEM;
    put_text_member(&w, "attributes", &text);
    json_object_end(&w);
    buf_release(&text);
    return rc;
}

/* An M event that says what is in scratch. tid < 0: of a process. */
static void put_name(struct trace *t, int32_t pid, int32_t tid)
{
    struct json_writer w =
        chrome_metadata(&t->out, &t->nevent, tid >= 0 ? "thread_name" : "process_name", pid, tid);

    put_text_member(&w, "name", &t->scratch);
    chrome_metadata_end(&w);
}

static void put_lane_name(struct trace *t, uint32_t lane)
{
    struct lane *l = &t->tl.lane[lane];
    struct process *p = &t->tl.process[t->tl.line[l->line].process];

    if (l->shown)
        return;
    l->shown = true;
    buf_clear(&t->scratch);
    if (!p->shown) {
        p->shown = true;
        timeline_process_name(&t->tl, t->tl.line[l->line].process, &t->scratch);
        put_name(t, p->pid, -1);
    }
    if (l->line == timeline_records_line(&t->tl)) {
        buf_adds(&t->scratch, "inference");
    } else if (l->line == timeline_steps_line(&t->tl)) {
        buf_adds(&t->scratch, "Iteration");
    } else {
        buf_adds(&t->scratch, "Operator ");
        timeline_line_name(&t->tl, l->line, &t->scratch);
    }
    if (l->index)
        buf_addf(&t->scratch, " #%u", l->index + 1);
    put_name(t, p->pid, l->tid);
}

/* Phase, line and times; the caller goes on with a comma. The name of the line comes before the
 * event, but for the first one: readers know the format by it. */
static int begin_event(struct trace *t, uint32_t line, int64_t ts, int64_t dur)
{
    char text[160], *p = text;
    const struct lane *l;
    uint32_t lane;
    int rc = timeline_place(&t->tl, line, ts, timeline_end(ts, dur), &lane);

    if (rc)
        return rc;
    if (t->nevent)
        put_lane_name(t, lane);
    l = &t->tl.lane[lane];
    io_out_adds(&t->out, t->nevent++ ? ",\n" : "\n");
    p = stpcpy(p, dur < 0 ? "{\"ph\":\"B\",\"pid\":" : "{\"ph\":\"X\",\"pid\":");
    p = text_put_u64(p, (uint64_t)t->tl.process[t->tl.line[l->line].process].pid);
    p = stpcpy(p, ",\"tid\":");
    p = text_put_u64(p, (uint64_t)l->tid);
    p = stpcpy(p, ",\"ts\":");
    p = text_put_us(p, ts);
    if (dur >= 0) {
        p = stpcpy(p, ",\"dur\":");
        p = text_put_us(p, dur);
    }
    io_out_add(&t->out, text, (size_t)(p - text));
    return 0;
}

/* From the first iteration, or operator, to the end of the last. */
static int put_model(struct trace *t)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    uint32_t line = timeline_records_line(&t->tl);
    int rc;

    for (size_t i = 0; i < t->tl.steps.n; i++) {
        int64_t dur = t->tl.steps.dur ? t->tl.steps.dur[i] : -1;

        first = MIN(first, t->tl.steps.ts[i]);
        last = MAX(last, t->tl.steps.ts[i] + MAX(dur, 0));
    }
    for (size_t i = 0; i < t->tl.nspan && !t->tl.steps.n; i++) {
        if (t->tl.site[t->tl.span_site[i]].op >= t->tl.nop)
            continue;
        first = MIN(first, t->tl.ts[i]);
        last = MAX(last, t->tl.ts[i] + MAX(t->tl.dur[i], 0));
    }
    if (first > last)
        return 0;
    rc = begin_event(t, line, first, last - first);
    if (rc)
        return rc;
    io_out_adds(&t->out, ",\"cat\":\"inference\",\"name\":\"model_inference\"}");
    put_lane_name(t, t->tl.line[line].first);
    return 0;
}

static int put_step(struct trace *t, size_t i)
{
    int64_t dur = t->tl.steps.dur ? t->tl.steps.dur[i] : -1;
    struct cell model = store_cell(t->st, TABLE_step, i, step_col_model);
    struct cell num = store_cell(t->st, TABLE_step, i, step_col_num);
    struct cell warmup = store_cell(t->st, TABLE_step, i, step_col_warmup);
    struct json_writer w = { .out = &t->out };
    int rc = begin_event(t, timeline_steps_line(&t->tl), t->tl.steps.ts[i], dur);

    if (rc)
        return rc;
    io_out_addf(&t->out, ",\"cat\":\"iteration\",\"name\":\"Iteration%zu\",\"args\":", i);
    json_object(&w);
    if (model.kind == CELL_STR) {
        json_key(&w, "model");
        put_store_text(&w, t->st, model);
    }
    if (num.kind == CELL_I64) {
        json_key(&w, "step");
        json_i64(&w, num.i64);
    }
    json_key(&w, "warmup");
    json_bool(&w, warmup.kind == CELL_I64 && warmup.i64 == 1);
    json_object_end(&w);
    io_out_adds(&t->out, "}");
    return 0;
}

/* "0.044ms", with all digits that there are. */
static char *put_ms(char *p, const char *key, int64_t ns)
{
    uint64_t v = ns < 0 ? 0 : (uint64_t)ns;
    unsigned rest = (unsigned)(v % 1000000);

    *p++ = '"';
    p = stpcpy(p, key);
    p = stpcpy(p, "\":\"");
    p = text_put_u64(p, v / 1000000);
    if (rest)
        *p++ = '.';
    for (unsigned digit = 100000; rest; rest %= digit, digit /= 10)
        *p++ = (char)('0' + rest / digit);
    return stpcpy(p, "ms\"");
}

static int put_op(struct trace *t, size_t i, const struct site *site)
{
    uint32_t line = timeline_line_of(&t->tl, t->tl.track ? t->tl.track[i] : OPM_NULL_ID);
    bool reshape = site->phase && site->phase == t->reshape;
    struct fragment item;
    const char *made;
    char text[120], *p = text;
    int rc = begin_event(t, line, t->tl.ts[i], t->tl.dur[i]);

    if (!rc)
        rc = fragments_get(&t->ops, site->op, make_op, t, &made, &item);
    if (rc)
        return rc;
    if (reshape) {
        struct json_writer w = { .out = &t->out };

        t->reshape_ns[site->op] += MAX(t->tl.dur[i], 0);
        io_out_adds(&t->out, ",\"cat\":\"reshape\",\"name\":");
        put_store_text(&w, t->st, store_cell(t->st, TABLE_op, site->op, op_col_name));
        io_out_adds(&t->out, "}");
        return 0;
    }
    io_out_add(&t->out, ",", 1);
    io_out_add(&t->out, made + 1, item.head - 2);
    p = stpcpy(p, ",\"args\":{");
    p = put_ms(p, "reshape_time", t->reshape_ns[site->op]);
    *p++ = ',';
    p = put_ms(p, "forward_time", t->tl.dur[i]);
    *p++ = ',';
    io_out_add(&t->out, text, (size_t)(p - text));
    io_out_add(&t->out, made + item.head + 1, item.len - item.head - 1);
    io_out_add(&t->out, "}", 1);
    t->reshape_ns[site->op] = 0;
    return 0;
}

static int put_trace(struct trace *t, const struct export_options *opts)
{
    struct json_writer w = { .out = &t->out };
    struct timeline *tl = &t->tl;
    int rc;

    io_out_adds(&t->out, "{\"displayTimeUnit\":\"ns\",\"otherData\":");
    json_object(&w);
    writer_recording_member(t->st, &w);
    json_object_end(&w);
    io_out_adds(&t->out, ",\"traceEvents\":[");
    rc = put_model(t);
    for (size_t i = 0; i < tl->nspan && !rc; i++) {
        const struct site *site = &tl->site[tl->span_site[i]];

        if (i % TIMELINE_PROGRESS_SPANS == 0)
            rc = writer_progress(opts, &t->out, i, tl->nspan);
        while (!rc && t->next_step < tl->steps.n && tl->steps.ts[t->next_step] <= tl->ts[i])
            rc = put_step(t, t->next_step++);
        if (!rc && site->op < tl->nop &&
            (!site->phase || site->phase == t->forward || site->phase == t->reshape))
            rc = put_op(t, i, site);
    }
    while (!rc && t->next_step < tl->steps.n)
        rc = put_step(t, t->next_step++);
    io_out_adds(&t->out, "\n]}\n");
    if (!rc && t->scratch.failed)
        rc = OPM_ENOMEM;
    return rc ? rc : writer_progress(opts, &t->out, tl->nspan, tl->nspan);
}

int export_neural_engine_trace(const struct store *st, const char *path,
                               const struct export_options *opts, opm_error *err)
{
    struct trace t = { .st = st };
    int rc = timeline_init(&t.tl, st);

    if (!rc)
        rc = op_tensors_init(&t.tensors, st);
    if (!rc)
        rc = fragments_init(&t.ops, t.tl.nop);
    t.reshape_ns = mem_calloc(t.tl.nop + 1, sizeof(*t.reshape_ns));
    if (!t.reshape_ns)
        rc = OPM_ENOMEM;
    t.reshape = strpool_find(store_strings(st), "reshape", 7);
    t.forward = strpool_find(store_strings(st), "forward", 7);
    if (rc)
        opm__fail(err, rc, "%s: out of memory", path);
    else
        rc = io_out_open(&t.out, path, err);
    if (!rc) {
        rc = put_trace(&t, opts);
        rc = writer_close(&t.out, rc, path, err);
    }
    timeline_release(&t.tl);
    op_tensors_release(&t.tensors);
    fragments_release(&t.ops);
    buf_release(&t.scratch);
    mem_free(t.reshape_ns);
    return rc;
}
