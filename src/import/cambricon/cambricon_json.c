/* cambricon_json.c -- activities, timelines and summaries of Cambricon's profiler. */
#include "base/json_read.h"
#include "import/cambricon/cambricon_int.h"
#include "import/json/event_each.h"

#include <stdio.h>
#include <string.h>

#define FACT_MAX 65536

static struct text token_text(struct cam *c, const struct json_reader *r)
{
    struct text t = json_texts_get(&c->texts, r);

    if (c->texts.failed)
        c->b.rc = OPM_ENOMEM;
    return t;
}

/* The value that comes next: a string without its escapes, anything else as it stands in the file;
 * the reader is behind it then. */
static struct text value_text(struct cam *c, struct json_reader *r)
{
    const char *from;
    enum json_token t = json_read_next(r);

    if (t == JSON_STRING)
        return token_text(c, r);
    if (t == JSON_NUMBER)
        return (struct text){ r->text, r->len };
    from = r->at - 1;
    if ((t != JSON_OBJECT && t != JSON_ARRAY) || !json_read_skip(r))
        return (struct text){ "", 0 };
    return (struct text){ from, (size_t)(r->at - from) };
}

/* The next member of an object. */
static bool member(struct cam *c, struct json_reader *r, struct text *key, struct text *value)
{
    if (json_read_next(r) != JSON_KEY)
        return false;
    *key = token_text(c, r);
    *value = value_text(c, r);
    return true;
}

static bool object_of(struct text t, struct json_reader *r)
{
    *r = json_read_of(t.p, t.len);
    return t.len && json_read_next(r) == JSON_OBJECT;
}

static void malformed(struct cam *c, const struct json_reader *r)
{
    store_stat(c->b.st, STAT_json_malformed, r->token == JSON_BAD);
}

/* {"<step>": {"<activity>": {"start": s, "end": s}}}, s since 1970. */
void cam_read_activities(struct cam *c, const uint8_t *data, size_t len)
{
    struct json_reader r, steps, one;
    struct text step, activities, name, times, key, value;
    int64_t num, from, to;

    if (!object_of((struct text){ (const char *)data, len }, &steps)) {
        store_stat(c->b.st, STAT_json_malformed, 1);
        return;
    }
    while (!c->b.rc && member(c, &steps, &step, &activities)) {
        struct cam_step *s = text_decimal(step, 0, &num) ? cam_step(c, 0, num) : NULL;

        if (!s || !object_of(activities, &one))
            continue;
        while (!c->b.rc && member(c, &one, &name, &times)) {
            from = to = OPM_NULL_I64;
            for (bool any = object_of(times, &r); any && member(c, &r, &key, &value);) {
                if (text_is(key, "start") && !text_decimal(value, 9, &from))
                    from = OPM_NULL_I64;
                if (text_is(key, "end") && !text_decimal(value, 9, &to))
                    to = OPM_NULL_I64;
            }
            if (from == OPM_NULL_I64 || to == OPM_NULL_I64 || from < 0 || to < from) {
                store_stat(c->b.st, STAT_bad_time, 1);
                continue;
            }
            c->activities = true;
            if (u64map_put(&c->known, cam_listed_key(name, num), 1))
                c->b.rc = OPM_ENOMEM;
            cam_activity(c, s, name, from, to - from, (struct text){ "", 0 });
        }
        malformed(c, &one);
    }
    malformed(c, &steps);
}

struct cam_timeline {
    struct u64map process; /* number to str_id of the name */
};

struct cam_event {
    struct text ph, cat, name, pid, ts, dur, args;
};

static void event_read(struct cam *c, struct json_reader *r, struct cam_event *e)
{
    const struct {
        const char *key;
        struct text *to;
    } all[] = { { "ph", &e->ph }, { "cat", &e->cat }, { "name", &e->name }, { "pid", &e->pid },
                { "ts", &e->ts }, { "dur", &e->dur }, { "args", &e->args } };
    struct text key, value;

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        *all[i].to = (struct text){ "", 0 };
    while (member(c, r, &key, &value)) {
        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
            if (text_is(key, all[i].key))
                *all[i].to = value;
    }
}

static void take_process(struct cam *c, struct cam_timeline *t, const struct cam_event *e)
{
    struct json_reader r;
    struct text key, value;
    uint64_t pid;

    if (!text_is(e->name, "process_name") || !text_u64(e->pid, &pid) || !object_of(e->args, &r))
        return;
    while (!c->b.rc && member(c, &r, &key, &value))
        if (text_is(key, "name") &&
            u64map_put(&t->process, pid, build_str(&c->b, value.p, value.len)))
            c->b.rc = OPM_ENOMEM;
}

/* "Op" events; the process is "<device> Compute". */
static void take_op(struct cam *c, struct cam_timeline *t, struct cam_step *s,
                    const struct cam_event *e)
{
    struct cam_node n = { .type = e->name,
                          .thread = OPM_NULL_I64,
                          .bytes = OPM_NULL_I64,
                          .scheduled_ns = OPM_NULL_I64,
                          .op_start_ns = OPM_NULL_I64,
                          .op_end_ns = OPM_NULL_I64 };
    struct json_reader r;
    struct text key, value;
    const uint64_t *process;
    uint64_t pid;

    if (!text_decimal(e->ts, 3, &n.ts_ns) || !text_decimal(e->dur, 3, &n.dur_ns) || n.ts_ns < 0 ||
        n.ts_ns > INT64_MAX / 2 || n.dur_ns > INT64_MAX / 4) {
        store_stat(c->b.st, STAT_bad_time, 1);
        return;
    }
    process = text_u64(e->pid, &pid) ? u64map_get(&t->process, pid) : NULL;
    if (process && *process) {
        const char *name = store_text(c->b.st, (str_id)*process);
        size_t len = strlen(name), tail = strlen(" Compute");

        if (len > tail && strcmp(name + len - tail, " Compute") == 0)
            len -= tail;
        n.device = (struct text){ name, len };
    }
    for (bool any = object_of(e->args, &r); any && member(c, &r, &key, &value);) {
        if (text_is(key, "name"))
            n.name = value;
        else if (text_is(key, "op"))
            n.type = value;
    }
    if (!n.name.len)
        n.name = e->name;
    s->timed = true;
    cam_node(c, s, &n);
}

static void take_memory(struct cam *c, const struct cam_event *e)
{
    struct json_reader r;
    struct text key, value;
    int64_t ts, bytes;

    if (!text_decimal(e->ts, 3, &ts) || !object_of(e->args, &r))
        return;
    while (!c->b.rc && member(c, &r, &key, &value)) {
        str_id name = build_str(&c->b, key.p, key.len);
        const uint64_t *found = u64map_get(&c->counter, name);
        struct track_row row = TRACK_ROW_INIT;
        uint32_t track;

        if (!text_decimal(value, 0, &bytes))
            continue;
        row.kind = "counter";
        row.name =
            build_fmt(&c->b, "memory of allocator %.*s", (int)MIN(key.len, (size_t)200), key.p);
        row.unit = build_cstr(&c->b, "bytes");
        track = found ? (uint32_t)*found : build_track(&c->b, &row);
        if (!found && u64map_put(&c->counter, name, track))
            c->b.rc = OPM_ENOMEM;
        build_sample(&c->b, track, ts, (double)bytes);
    }
}

struct cam_pass {
    struct cam *c;
    struct cam_timeline t;
    struct cam_step *step;
    bool known; /* its statistics say the same, and more */
};

static int pass_event(void *user, struct json_reader *r)
{
    struct cam_pass *p = user;
    struct cam_event e;

    event_read(p->c, r, &e);
    if (text_is(e.ph, "M"))
        take_process(p->c, &p->t, &e);
    else if (text_is(e.ph, "X") && !p->known)
        take_op(p->c, &p->t, p->step, &e);
    else if (text_is(e.ph, "C"))
        take_memory(p->c, &e);
    json_texts_clear(&p->c->texts);
    return p->c->b.rc;
}

void cam_read_timeline(struct cam *c, str_id model, int64_t step, const uint8_t *data, size_t len)
{
    struct cam_pass p = { .c = c, .step = cam_step(c, model, step) };
    struct import_source src = { .path = "timeline", .data = data, .len = len };
    opm_error ignored;
    int rc;

    if (!p.step)
        return;
    p.known = p.step->stats;
    rc = event_each(c->b.st, &src, pass_event, &p, &ignored);
    if (rc == OPM_EFORMAT)
        store_stat(c->b.st, STAT_json_malformed, 1);
    else if (rc && !c->b.rc)
        c->b.rc = rc;
    u64map_release(&p.t.process);
}

/* [1, 224, 224, 64] as 1x224x224x64 */
static void shape_text(struct text json, char *to, size_t room)
{
    struct json_reader r = json_read_of(json.p, json.len);
    size_t n = 0;

    to[0] = '\0';
    if (!json.len || json_read_next(&r) != JSON_ARRAY)
        return;
    while (json_read_next(&r) == JSON_NUMBER && n < room)
        n += (size_t)snprintf(to + n, room - n, "%s%.*s", n ? "x" : "", (int)MIN(r.len, (size_t)20),
                              r.text);
    if (n >= room)
        to[0] = '\0';
}

/* {"0": {"shape": [...], "type": "Float"}} */
static void outputs_read(struct cam *c, struct text json, struct cam_node *n)
{
    struct json_reader r, one;
    struct text slot, value, key, v;

    if (!object_of(json, &r))
        return;
    while (n->noutput < CAM_OUTPUTS_MAX && member(c, &r, &slot, &value)) {
        struct cam_output *o = &n->output[n->noutput];

        if (!object_of(value, &one) || !text_decimal(slot, 0, &o->slot))
            continue;
        while (member(c, &one, &key, &v))
            if (text_is(key, "shape"))
                shape_text(v, o->shape, sizeof(o->shape));
            else if (text_is(key, "type"))
                o->dtype = v;
        n->noutput++;
    }
}

/* {"duration": us, "output": {...}, "total_bytes": n} */
static void summary_node(struct cam *c, struct cam_step *s, struct text device, struct text name,
                         struct text json)
{
    struct cam_node n = { .device = device,
                          .name = name,
                          .ts_ns = OPM_NULL_I64,
                          .dur_ns = -1,
                          .thread = OPM_NULL_I64,
                          .bytes = OPM_NULL_I64,
                          .scheduled_ns = OPM_NULL_I64,
                          .op_start_ns = OPM_NULL_I64,
                          .op_end_ns = OPM_NULL_I64 };
    struct json_reader r;
    struct text key, value;

    if (!object_of(json, &r))
        return;
    while (member(c, &r, &key, &value)) {
        if (text_is(key, "duration") && !text_decimal(value, 3, &n.dur_ns))
            n.dur_ns = -1;
        else if (text_is(key, "output"))
            outputs_read(c, value, &n);
        else if (text_is(key, "total_bytes") && !text_decimal(value, 0, &n.bytes))
            n.bytes = OPM_NULL_I64;
    }
    cam_node(c, s, &n);
}

/* <ip>.<device>.<node> of a step whose nodes are not known better. */
static void summary_step(struct cam *c, struct cam_step *s, struct text json)
{
    struct json_reader hosts, devices, nodes;
    struct text host, device, name, a, b, v;

    if (!object_of(json, &hosts))
        return;
    while (!c->b.rc && member(c, &hosts, &host, &a)) {
        for (bool d = object_of(a, &devices); d && !c->b.rc && member(c, &devices, &device, &b);)
            for (bool n = object_of(b, &nodes); n && !c->b.rc && member(c, &nodes, &name, &v);)
                summary_node(c, s, device, name, v);
    }
}

/* How long the activities of every step are, one after the other. */
static int activities_ns(struct cam *c, struct text json, struct u64map *out)
{
    struct json_reader steps, one, r;
    struct text step, activities, name, facts, key, value;
    int64_t num, sum, dur;

    for (bool any = object_of(json, &steps); any && member(c, &steps, &step, &activities);) {
        sum = 0;
        for (bool a = object_of(activities, &one); a && member(c, &one, &name, &facts);)
            for (bool f = object_of(facts, &r); f && member(c, &r, &key, &value);)
                if (text_is(key, "duration") && text_decimal(value, 3, &dur) && dur > 0 &&
                    sum < INT64_MAX / 4 && dur < INT64_MAX / 4)
                    sum += dur;
        if (text_decimal(step, 0, &num) && u64map_put(out, (uint64_t)num, (uint64_t)sum))
            return OPM_ENOMEM;
    }
    return 0;
}

static void summary_ops(struct cam *c, struct text json, const struct u64map *activities)
{
    struct json_reader models, steps;
    struct text model, per_step, step, value;
    int64_t num;

    if (!object_of(json, &models))
        return;
    while (!c->b.rc && member(c, &models, &model, &per_step)) {
        str_id name = build_str(&c->b, model.p, model.len);

        for (bool any = object_of(per_step, &steps);
             any && !c->b.rc && member(c, &steps, &step, &value);) {
            struct cam_step *s = text_decimal(step, 0, &num) ? cam_step(c, name, num) : NULL;

            if (s && !s->timed) {
                const uint64_t *app_ns = u64map_get(activities, (uint64_t)num);
                int64_t from_ns = c->end_ns;

                summary_step(c, s, value);
                if (app_ns && from_ns < INT64_MAX / 2)
                    c->end_ns = MAX(c->end_ns, from_ns + (int64_t)*app_ns);
            }
        }
    }
}

/* <step>.<activity>.{duration us, meta}: laid end to end from the start of their step on, beside
 * those whose times are known. One of those is not told twice. */
static void summary_activities(struct cam *c, struct text json)
{
    struct json_reader steps, one, r;
    struct text step, activities, name, facts, key, value, meta;
    int64_t num, dur, at;

    if (!object_of(json, &steps))
        return;
    while (!c->b.rc && member(c, &steps, &step, &activities)) {
        struct cam_step *s = text_decimal(step, 0, &num) ? cam_step(c, 0, num) : NULL;

        if (!s || !object_of(activities, &one))
            continue;
        at = s->from_ns == OPM_NULL_I64 ? c->end_ns : s->from_ns;
        while (!c->b.rc && member(c, &one, &name, &facts)) {
            if (u64map_get(&c->known, cam_listed_key(name, num)))
                continue;
            dur = -1;
            meta = (struct text){ "", 0 };
            for (bool any = object_of(facts, &r); any && member(c, &r, &key, &value);)
                if (text_is(key, "duration") && !text_decimal(value, 3, &dur))
                    dur = -1;
                else if (text_is(key, "meta"))
                    meta = value;
            store_stat(c->b.st, STAT_untimed_span, dur >= 0);
            cam_activity(c, s, name, at, dur, meta);
            if (dur > 0 && at < INT64_MAX / 4 && dur < INT64_MAX / 4)
                at += dur;
        }
    }
}

void cam_read_summary(struct cam *c, const uint8_t *data, size_t len)
{
    struct text whole = { (const char *)data, len }, key, value;
    struct text ops = { "", 0 }, activities = { "", 0 };
    struct u64map app_ns = { 0 };
    struct json_reader r;

    if (!object_of(whole, &r)) {
        store_stat(c->b.st, STAT_json_malformed, 1);
        return;
    }
    while (!c->b.rc && member(c, &r, &key, &value)) {
        if (text_is(key, "op_stats")) {
            ops = value;
        } else if (text_is(key, "app_stats")) {
            activities = value;
        } else if ((text_is(key, "overall_stats") || text_is(key, "batch_size")) &&
                   value.len <= FACT_MAX) {
            struct buf text = { 0 }, name = { 0 };

            buf_add(&text, value.p, value.len);
            buf_adds(&name, "cambricon.");
            buf_add(&name, key.p, key.len);
            if (text.failed || name.failed)
                c->b.rc = OPM_ENOMEM;
            build_meta(&c->b, buf_str(&name), buf_str(&text));
            buf_release(&text);
            buf_release(&name);
        }
    }
    malformed(c, &r);
    if (activities_ns(c, activities, &app_ns))
        c->b.rc = OPM_ENOMEM;
    summary_ops(c, ops, &app_ns);
    u64map_release(&app_ns);
    c->untimed = c->activities;
    summary_activities(c, activities);
}
