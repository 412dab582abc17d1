/* mindspore_timeline.c -- executions of operators from files that were made from raw ones: text
 * with ms of the device's counter, or Chrome JSON whose times count from the earliest one.
 *
 * The JSON is read twice, because names of processes and threads may come last. Lanes that only
 * repeat others (overlap analysis, steps) are left out. */
#include "import/json/event_each.h"
#include "import/mindspore/mindspore_int.h"

#include <string.h>

/* Processes and threads of timelines; a device has its own number. */
enum { PID_AICPU = 9000, PID_COLLECTIVE = 10000, PID_HOST = 11000, PID_OVERLAP = 12000 };
enum { TID_MERGED_FROM = 7999, TID_MERGED_TO = 8002, TID_STEPS = 100000, TID_SCOPE = 100001 };
/* Times beyond this are since 1970. */
#define UNIX_NS ((int64_t)1000000000000000000)

/* op_name, stream_id, start_time(ms), duration(ms) */
int ms_read_timeline_txt(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct text rest = { (const char *)data, len }, line;
    int rc = 0;

    text_line(&rest, &line);
    while (rc == 0 && text_line(&rest, &line)) {
        struct text part[3];
        int64_t ts, dur;
        uint64_t stream;
        uint32_t op, track;
        size_t n = 0;

        /* From the right: the name may hold commas. */
        while (n < 3 && line.len) {
            const char *comma = memrchr(line.p, ',', line.len);

            if (!comma)
                break;
            part[n++] =
                text_trim((struct text){ comma + 1, line.len - (size_t)(comma + 1 - line.p) });
            line.len = (size_t)(comma - line.p);
        }
        if (!text_trim(line).len && !n)
            continue;
        if (n < 3 || !ms_time(part[1], 6, &ts) || !ms_time(part[0], 6, &dur) ||
            !text_u64(part[2], &stream) || stream > UINT32_MAX) {
            store_stat(m->st, STAT_bad_row, 1);
            continue;
        }
        rc = ms_op(m, d, line.p, line.len, &op);
        if (!rc)
            rc = ms_track(m, d, MS_TRACK_STREAM, (uint32_t)stream, &track);
        if (!rc)
            rc = ms_op_span(m, d, track, op, ts, dur, 0);
    }
    return rc;
}

/* The start of the timeline, in ticks. */
int ms_read_min_cycle(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    int64_t ns;

    if (ms_time((struct text){ (const char *)data, len }, 1, &ns)) {
        d->origin_ns = ns;
        d->added++;
    } else {
        store_stat(m->st, STAT_bad_row, 1);
    }
    return 0;
}

/* An event, as far as we look at it. Its texts are gone after it; args are JSON. */
struct ms_event {
    struct text name, ph, cat, pid, tid, args;
    struct text ts, dur;
};

struct args {
    struct text full_name, type, label;
    struct text fp, bp, iteration;
};

struct ms_timeline {
    struct ms *m;
    struct ms_device *d;
    int64_t origin_ns;
    struct u64map process; /* str_id of the pid: str_id of the name */
    struct u64map thread;  /* str_id of "pid/tid": str_id of the name */
    bool steps;            /* only these are wanted */
    int64_t min_ns;        /* its earliest time; MS_NONE: none */
};

static struct text value_text(struct json_texts *texts, struct json_reader *r)
{
    const char *from = r->at;
    enum json_token t = json_read_next(r);

    if (t == JSON_STRING)
        return json_texts_get(texts, r);
    if (t == JSON_NUMBER)
        return (struct text){ r->text, r->len };
    while (from < r->at && *from != '{' && *from != '[')
        from++; /* the colon, and blanks */
    if (!json_read_skip(r))
        return (struct text){ "", 0 };
    return t == JSON_OBJECT ? (struct text){ from, (size_t)(r->at - from) }
                            : (struct text){ "", 0 };
}

/* The reader stands on the brace of an event. */
static void event_read(struct json_texts *texts, struct json_reader *r, struct ms_event *e)
{
    const struct {
        const char *key;
        struct text *to;
    } all[] = { { "name", &e->name }, { "ph", &e->ph }, { "cat", &e->cat }, { "pid", &e->pid },
                { "tid", &e->tid },   { "ts", &e->ts }, { "dur", &e->dur }, { "args", &e->args } };

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        *all[i].to = (struct text){ "", 0 };
    while (json_read_next(r) == JSON_KEY) {
        struct text key = json_texts_get(texts, r), value = value_text(texts, r);

        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
            if (text_is(key, all[i].key))
                *all[i].to = value;
    }
}

static void args_read(struct json_texts *texts, struct text text, struct args *a)
{
    struct json_reader r = json_read_of(text.p, text.len);
    const struct {
        const char *key;
        struct text *to;
    } all[] = { { "fullname", &a->full_name },
                { "op_full_name", &a->full_name },
                { "type", &a->type },
                { "name", &a->label },
                { "FP Start", &a->fp },
                { "BP End", &a->bp },
                { "Iteration ID", &a->iteration } };

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        *all[i].to = (struct text){ "", 0 };
    if (!text.len || json_read_next(&r) != JSON_OBJECT)
        return;
    while (json_read_next(&r) == JSON_KEY) {
        struct text key = json_texts_get(texts, &r), value = value_text(texts, &r);

        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
            if (text_is(key, all[i].key))
                *all[i].to = value;
    }
}

static bool is_named(const struct ms *m, str_id name, const char *s)
{
    return strcmp(store_text(m->st, name), s) == 0;
}

static int key_of(struct ms_timeline *t, const struct ms_event *e, bool thread, str_id *out)
{
    buf_clear(&t->m->text);
    buf_add(&t->m->text, e->pid.p, e->pid.len);
    if (thread) {
        buf_addc(&t->m->text, '/');
        buf_add(&t->m->text, e->tid.p, e->tid.len);
    }
    return t->m->text.failed ? OPM_ENOMEM
                             : store_str(t->m->st, buf_str(&t->m->text), t->m->text.len, out);
}

static int note_name(struct ms_timeline *t, const struct ms_event *e)
{
    bool thread = text_is(e->name, "thread_name");
    struct args a;
    str_id key, name;
    int64_t ns;

    if (text_is(e->ph, "X") && text_decimal(e->ts, 3, &ns) && ns >= 0)
        t->min_ns = t->min_ns == MS_NONE ? ns : MIN(t->min_ns, ns);
    if (!text_is(e->ph, "M") || (!thread && !text_is(e->name, "process_name")))
        return 0;
    args_read(&t->m->texts, e->args, &a);
    if (!a.label.len)
        return 0;
    if (key_of(t, e, thread, &key) || store_str(t->m->st, a.label.p, a.label.len, &name))
        return OPM_ENOMEM;
    return u64map_put(thread ? &t->thread : &t->process, key, name);
}

/* How lanes that are no streams of the device are named. */
static int lane(struct ms_timeline *t, const struct ms_event *e, const char *fallback,
                uint32_t *track)
{
    const uint64_t *process, *thread;
    str_id pid, tid, name;

    if (key_of(t, e, false, &pid) || key_of(t, e, true, &tid))
        return OPM_ENOMEM;
    process = u64map_get(&t->process, pid);
    thread = u64map_get(&t->thread, tid);
    buf_clear(&t->m->text);
    buf_adds(&t->m->text, process ? store_text(t->m->st, (str_id)*process) : fallback);
    buf_adds(&t->m->text, ": ");
    buf_adds(&t->m->text,
             thread ? store_text(t->m->st, (str_id)*thread) : store_text(t->m->st, tid));
    if (t->m->text.failed || store_str(t->m->st, buf_str(&t->m->text), t->m->text.len, &name))
        return OPM_ENOMEM;
    return ms_track(t->m, t->d, MS_TRACK_PROCESS, name, track);
}

static bool ends_with(struct text t, struct text end)
{
    return t.len >= end.len && memcmp(t.p + t.len - end.len, end.p, end.len) == 0;
}

static int take_op(struct ms_timeline *t, const struct ms_event *e, struct ms_span *s,
                   const char *where)
{
    struct ms *m = t->m;
    uint64_t stream;
    struct args a;
    int rc;

    args_read(&t->m->texts, e->args, &a);
    if (a.full_name.len && a.type.len && text_after(e->args, "put_", &(struct text){ 0 })) {
        rc = ms_op_new(m, t->d, a.full_name.p, a.full_name.len, a.type.p, a.type.len, NULL, &s->op);
        if (!rc && s->op != OPM_NULL_ID)
            rc = ms_op_info(m, s->op, e->args.p, e->args.len);
        if (rc)
            return rc;
    }
    if (!a.full_name.len)
        a.full_name = e->name;
    rc = ms_op(m, t->d, a.full_name.p, a.full_name.len, &s->op);
    /* A kernel has a name of its own; the short name of the operator says less than its own. */
    if (!rc)
        rc = ends_with(a.full_name, e->name)
                 ? store_str(m->st, a.full_name.p, a.full_name.len, &s->name)
                 : store_str(m->st, e->name.p, e->name.len, &s->name);
    if (!rc && !where && text_u64(e->tid, &stream) && stream <= UINT32_MAX)
        rc = ms_track(m, t->d, MS_TRACK_STREAM, (uint32_t)stream, &s->track);
    else if (!rc)
        rc = lane(t, e, where ? where : "device", &s->track);
    return rc ? rc : ms_span(m, t->d, s);
}

/* A lane of msprof: tasks of the hardware and of collectives, and calls of the runtime. */
static int take_other(struct ms_timeline *t, const struct ms_event *e, struct ms_span *s,
                      str_id process)
{
    struct ms_words *w = &t->m->w;
    bool op = is_named(t->m, process, "Ascend Hardware") && e->name.len &&
              memchr(e->name.p, '/', e->name.len);
    const uint64_t *thread;
    str_id tid;
    int rc;

    if (key_of(t, e, true, &tid))
        return OPM_ENOMEM;
    thread = u64map_get(&t->thread, tid);
    s->op = OPM_NULL_ID;
    s->cat = w->task;
    s->layer = w->runtime;
    if (op) {
        rc = ms_op(t->m, t->d, e->name.p, e->name.len, &s->op);
        if (rc)
            return rc;
        s->cat = w->op;
        s->layer = w->hardware;
    } else if (is_named(t->m, process, "HCCL") && thread &&
               is_named(t->m, (str_id)*thread, "Communication Kernel")) {
        if (t->d->has & 1u << MS_STEPS)
            return 0; /* they came with the steps */
        s->cat = w->collective;
        s->layer = w->hardware;
    }
    rc = store_str(t->m->st, e->name.p, e->name.len, &s->name);
    if (!rc && e->args.len)
        rc = store_str(t->m->st, e->args.p, e->args.len, &s->args);
    if (!rc)
        rc = lane(t, e, "process", &s->track);
    return rc ? rc : ms_span(t->m, t->d, s);
}

/* A step, with its points, as msprof has it. */
static int take_step(struct ms_timeline *t, const struct ms_event *e, const struct ms_span *s)
{
    struct ms_step step = { .start_ns = s->ts_ns, .end_ns = s->ts_ns + s->dur_ns };
    const uint64_t *before;
    struct args a;

    args_read(&t->m->texts, e->args, &a);
    if (!text_decimal(a.iteration, 0, &step.num))
        step.num = MS_NONE;
    /* Each of several files may list all steps. */
    before = u64map_get(&t->d->step_at, (uint64_t)step.num);
    if ((before && (int64_t)*before == step.start_ns) ||
        (t->d->first_step_held && t->d->first_step.num == step.num))
        return 0;
    if (!ms_time(a.fp, 3, &step.fp_ns) || !ms_time(a.bp, 3, &step.bp_ns) || step.bp_ns < step.fp_ns)
        step.fp_ns = step.bp_ns = MS_NONE;
    return ms_step(t->m, t->d, &step);
}

/* "Reduce_<step>_<number>": a collective. */
static int take_reduce(struct ms_timeline *t, const struct ms_event *e, const struct ms_span *s)
{
    struct text rest = e->name;
    uint64_t number = 0;
    str_id key;

    /* As steps, they may come again. */
    buf_clear(&t->m->text);
    buf_add(&t->m->text, e->name.p, e->name.len);
    buf_add(&t->m->text, e->ts.p, e->ts.len);
    if (t->m->text.failed || store_str(t->m->st, buf_str(&t->m->text), t->m->text.len, &key))
        return OPM_ENOMEM;
    if (u64map_get(&t->d->reduce_seen, key))
        return 0;
    if (u64map_put(&t->d->reduce_seen, key, 1))
        return OPM_ENOMEM;
    if (text_after(rest, "_", &rest) && text_after(rest, "_", &rest))
        text_u64(rest, &number);
    return ms_collective(t->m, t->d, 0, (uint32_t)number, 0, s->ts_ns, s->ts_ns + s->dur_ns);
}

static int take(struct ms_timeline *t, const struct ms_event *e)
{
    struct ms *m = t->m;
    struct ms_span s = { .cat = m->w.op, .layer = m->w.hardware, .op = OPM_NULL_ID };
    uint64_t pid = UINT64_MAX, tid = UINT64_MAX;
    const uint64_t *process;
    str_id key;

    if (!text_is(e->ph, "X"))
        return 0;
    if (!ms_time(e->ts, 3, &s.ts_ns) || !ms_time(e->dur, 3, &s.dur_ns)) {
        store_stat(m->st, STAT_bad_time, 1);
        return 0;
    }
    if (t->steps)
        return text_is(e->cat, "Iteration Time") ? take_step(t, e, &s)
               : text_is(e->cat, "Reduce")       ? take_reduce(t, e, &s)
                                                 : 0;
    s.ts_ns += t->origin_ns;
    text_u64(e->pid, &pid);
    text_u64(e->tid, &tid);
    if (key_of(t, e, false, &key))
        return OPM_ENOMEM;
    process = u64map_get(&t->process, key);
    if (pid == PID_OVERLAP || (tid >= TID_MERGED_FROM && tid <= TID_MERGED_TO) ||
        tid == TID_STEPS ||
        (process && (is_named(m, (str_id)*process, "Step Trace") ||
                     is_named(m, (str_id)*process, "Overlap Analysis"))) ||
        text_is(e->cat, "Iteration Time") || text_is(e->cat, "FP_BP Time") ||
        text_is(e->cat, "Iteration Refresh") || text_is(e->cat, "Reduce"))
        return 0;
    if (pid == PID_AICPU) {
        s.cat = m->w.aicpu;
        return t->d->has & 1u << MS_AICPU ? 0 : take_op(t, e, &s, "AI CPU");
    }
    if (pid == PID_COLLECTIVE) {
        s.cat = m->w.collective;
        return t->d->has & 1u << MS_STEPS ? 0 : take_op(t, e, &s, "collectives");
    }
    if (tid == TID_SCOPE) {
        s.cat = m->w.scope;
        s.layer = m->w.app;
        return take_op(t, e, &s, "scopes");
    }
    if (pid == PID_HOST) {
        s.layer = m->w.framework;
        return take_op(t, e, &s, "host");
    }
    if (process && pid != (uint64_t)t->d->id)
        return take_other(t, e, &s, (str_id)*process);
    return take_op(t, e, &s, NULL);
}

struct ms_pass {
    struct ms_timeline *t;
    int (*each)(struct ms_timeline *t, const struct ms_event *e);
};

static int pass_event(void *user, struct json_reader *r)
{
    const struct ms_pass *p = user;
    struct json_texts *texts = &p->t->m->texts;
    struct ms_event e;
    int rc;

    event_read(texts, r, &e);
    rc = p->each(p->t, &e);
    json_texts_clear(texts);
    return texts->failed ? OPM_ENOMEM : rc;
}

/* All events; st counts what is wrong with them. */
static int events(struct ms_timeline *t, struct store *st, const uint8_t *data, size_t len,
                  int (*each)(struct ms_timeline *t, const struct ms_event *e))
{
    struct ms_pass pass = { t, each };
    struct import_source src = { .path = t->m->src->path, .data = data, .len = len };
    opm_error ignored;
    int rc = event_each(st, &src, pass_event, &pass, &ignored);

    if (rc != OPM_EFORMAT)
        return rc;
    store_stat(st, STAT_json_malformed, 1);
    return 0;
}

/* Names and the earliest time first, wherever they stand. What is wrong is counted later. */
static int read_names(struct ms_timeline *t, const uint8_t *data, size_t len)
{
    struct store *scratch = NULL;
    int rc = store_new(&scratch);

    if (!rc)
        rc = events(t, scratch, data, len, note_name);
    store_free(scratch);
    return rc;
}

/* Those of a GPU are since 1970, of which nothing else of the device needs to know. */
static void set_origin(struct ms_timeline *t)
{
    int64_t start;

    store_part_end(t->m->st, &t->d->part);
    start = store_part_start(t->m->st, &t->d->part);
    if (t->min_ns == MS_NONE)
        return;
    if (t->min_ns < UNIX_NS) {
        t->origin_ns = t->d->origin_ns == MS_NONE ? 0 : t->d->origin_ns;
    } else if (start != OPM_NULL_I64 && start < UNIX_NS) {
        t->origin_ns = start - t->min_ns;
        store_stat(t->m->st, STAT_clock_unknown, 1);
    } else {
        import_set_realtime(t->m->src, 0);
    }
}

static int timeline_read(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len,
                         bool steps)
{
    struct ms_timeline t = { .m = m, .d = d, .steps = steps, .min_ns = MS_NONE };
    int rc = read_names(&t, data, len);

    set_origin(&t);
    if (!rc)
        rc = events(&t, m->st, data, len, take);
    u64map_release(&t.process);
    u64map_release(&t.thread);
    return rc ? rc : ms_steps_end(m, d);
}

int ms_read_timeline(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    return timeline_read(m, d, data, len, false);
}

int ms_read_timeline_steps(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    return timeline_read(m, d, data, len, true);
}
