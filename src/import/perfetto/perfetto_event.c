/* perfetto_event.c -- a TrackEvent: a begin, an end, an instant, a value, or one of the old kind
 * that says what it is by a Chrome phase. */
#include "import/perfetto/perfetto_int.h"

#include "base/alloc.h"

#include <string.h>

enum {
    TYPE_SLICE_BEGIN = 1,
    TYPE_SLICE_END = 2,
    TYPE_INSTANT = 3,
    TYPE_COUNTER = 4,
    TYPE_STATE = 5,
};

struct legacy {
    bool present;
    uint32_t phase;
    str_id name;
    int64_t duration_us;
    uint64_t id, space; /* space: 1 unscoped, 2 of the process, 3 global */
    str_id scope;
    uint64_t bind_id, flow_direction;
    uint64_t instant_scope;
    int64_t pid, tid; /* overrides */
};

struct track_event {
    uint64_t type;
    str_id name;
    struct buf cats;
    bool has_track;
    uint64_t track;
    bool has_value, has_double;
    int64_t value;
    double real;
    uint64_t extra_track[PF_COUNTERS_MAX], extra_double_track[PF_COUNTERS_MAX];
    int64_t extra[PF_COUNTERS_MAX];
    double extra_double[PF_COUNTERS_MAX];
    size_t nextra_track, nextra_double_track, nextra, nextra_double;
    int64_t correlation;
    struct legacy legacy;
    struct pf_args args;
    struct pf_span_facts ours;
    uint32_t first_flow;
    uint32_t nflow;
};

static void legacy_read(struct pf *p, struct pf_seq *s, const struct pb_field *f,
                        struct legacy *out)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    *out = (struct legacy){ .present = true, .pid = OPM_NULL_I64, .tid = OPM_NULL_I64 };
    while (pb_next(&r, &g)) {
        if (g.number == 7 && g.wire == PB_LEN)
            out->scope = build_str(&p->b, (const char *)g.p, g.len);
        if (g.wire != PB_VARINT)
            continue;
        switch (g.number) {
        case 1:
            out->name = pf_text(p, s, PF_NAMES, g.value);
            break;
        case 2:
            out->phase = (uint32_t)g.value;
            break;
        case 3:
            out->duration_us = (int64_t)g.value;
            break;
        case 6:
        case 10:
        case 11:
            out->id = g.value;
            out->space = g.number == 6 ? 1 : g.number == 10 ? 2 : 3;
            break;
        case 8:
            out->bind_id = g.value;
            break;
        case 13:
            out->flow_direction = g.value;
            break;
        case 14:
            out->instant_scope = g.value;
            break;
        case 18:
            out->pid = (int32_t)g.value;
            break;
        case 19:
            out->tid = (int64_t)g.value;
            break;
        default:
            break;
        }
    }
}

static void add_category(struct track_event *e, const char *text, size_t len)
{
    if (e->cats.len)
        buf_addc(&e->cats, ',');
    buf_add(&e->cats, text, len);
}

static void add_category_iid(struct pf *p, struct pf_seq *s, struct track_event *e, uint64_t iid)
{
    str_id cat = pf_text(p, s, PF_CATEGORIES, iid);

    if (cat)
        add_category(e, store_text(p->b.st, cat), strpool_len(store_strings(p->b.st), cat));
}

static void add_flow(struct pf *p, struct track_event *e, uint64_t id, bool legacy,
                     enum pf_flow_mode mode)
{
    if (p->nflow >= OPM_NULL_ID - 1 || !GROW(p->flow, p->flow_cap, p->nflow + 1)) {
        p->b.rc = OPM_ENOMEM;
        return;
    }
    if (!e->nflow++)
        e->first_flow = (uint32_t)p->nflow + 1;
    p->flow[p->nflow++] =
        (struct pf_flow){ .id = id, .legacy = legacy, .mode = mode, .span = OPM_NULL_ID };
}

/* Repeated numbers, packed or one by one. */
#define EACH_NUMBER(f, fixed, v, statement)                              \
    do {                                                                 \
        if ((f)->wire != PB_LEN) {                                       \
            uint64_t v = (f)->value;                                     \
            statement;                                                   \
        } else {                                                         \
            struct rd list = rd_of((f)->p, (f)->len);                    \
            while (rd_left(&list) && !list.bad) {                        \
                uint64_t v = (fixed) ? rd_u64(&list) : rd_varint(&list); \
                if (!list.bad)                                           \
                    statement;                                           \
            }                                                            \
        }                                                                \
    } while (0)

static void push(uint64_t *list, size_t *n, uint64_t v)
{
    if (*n < PF_COUNTERS_MAX)
        list[(*n)++] = v;
}

static void read_number(struct pf *p, struct pf_seq *s, struct track_event *e,
                        const struct pb_field *g)
{
    uint64_t bits[PF_COUNTERS_MAX];
    size_t n = 0;

    switch (g->number) {
    case 3:
        EACH_NUMBER(g, false, v, add_category_iid(p, s, e, v));
        break;
    case 9:
        e->type = g->value;
        break;
    case 10:
        e->name = pf_text(p, s, PF_NAMES, g->value);
        break;
    case 11:
        e->track = g->value;
        e->has_track = true;
        break;
    case 12:
        EACH_NUMBER(g, false, v, push(bits, &n, v));
        for (size_t i = 0; i < n && e->nextra < PF_COUNTERS_MAX; i++)
            e->extra[e->nextra++] = (int64_t)bits[i];
        break;
    case 30:
        e->value = (int64_t)g->value;
        e->has_value = true;
        break;
    case 31:
        EACH_NUMBER(g, false, v, push(e->extra_track, &e->nextra_track, v));
        break;
    case 44:
        memcpy(&e->real, &g->value, sizeof(e->real));
        e->has_double = g->wire == PB_I64;
        break;
    case 45:
        EACH_NUMBER(g, false, v, push(e->extra_double_track, &e->nextra_double_track, v));
        break;
    case 46:
        EACH_NUMBER(g, true, v, push(bits, &n, v));
        for (size_t i = 0; i < n && e->nextra_double < PF_COUNTERS_MAX; i++)
            memcpy(&e->extra_double[e->nextra_double++], &bits[i], sizeof(double));
        break;
    case 36:
        EACH_NUMBER(g, false, v, add_flow(p, e, v, false, PF_FLOW_STEP));
        break;
    case 42:
        EACH_NUMBER(g, false, v, add_flow(p, e, v, false, PF_FLOW_END));
        break;
    case 47:
        EACH_NUMBER(g, true, v, add_flow(p, e, v, false, PF_FLOW_STEP));
        break;
    case 48:
        EACH_NUMBER(g, true, v, add_flow(p, e, v, false, PF_FLOW_END));
        break;
    case 52:
        e->correlation = (int64_t)g->value;
        break;
    default:
        break;
    }
}

static void put_text(struct pf *p, struct track_event *e, const char *key, str_id text)
{
    size_t len = strpool_len(store_strings(p->b.st), text);

    if (!text || !build_echo(&p->b, len))
        return;
    pf_args_key(&e->args, key);
    json_str(&e->args.w, store_text(p->b.st, text), len);
}

/* frames=1 {function_name=1}, from the outermost in. */
static void inline_callstack(struct track_event *e, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len), frame;
    struct pb_field g, h;
    struct buf text = { 0 };

    while (pb_next(&r, &g)) {
        if (g.number != 1 || g.wire != PB_LEN)
            continue;
        for (frame = rd_of(g.p, g.len); pb_next(&frame, &h);) {
            if (h.number != 1 || h.wire != PB_LEN)
                continue;
            buf_adds(&text, text.len ? ";" : "");
            buf_add(&text, h.p, h.len);
        }
    }
    pf_args_key(&e->args, "callstack");
    build_check(&e->args.p->b, &text);
    json_str(&e->args.w, buf_str(&text), text.len);
    buf_release(&text);
}

static void read_annotation(struct pf *p, struct pf_seq *s, struct track_event *e,
                            const struct pb_field *g)
{
    if (!p->ours || !pf_our_annotation(p, s, g, &e->ours))
        pf_annotation(&e->args, g);
}

static void read_field(struct pf *p, struct pf_seq *s, struct track_event *e,
                       const struct pb_field *g)
{
    switch (g->number) {
    case 1:
    case 2:
    case 8:
    case 16:
    case 17:
    case 20:
    case 41:
        break; /* times of the thread, and the former way to say when */
    case 4:
        if (g->wire == PB_LEN)
            read_annotation(p, s, e, g);
        break;
    case 6:
        if (g->wire == PB_LEN)
            legacy_read(p, s, g, &e->legacy);
        break;
    case 22:
        if (g->wire == PB_LEN)
            add_category(e, (const char *)g->p, g->len);
        break;
    case 23:
        if (g->wire == PB_LEN)
            e->name = build_str(&p->b, (const char *)g->p, g->len);
        break;
    case 34:
        put_text(p, e, "source", pf_text(p, s, PF_LOCATIONS, g->value));
        break;
    case 56:
        put_text(p, e, "callstack", pf_text(p, s, PF_CALLSTACKS, g->value));
        break;
    case 55:
        if (g->wire == PB_LEN)
            inline_callstack(e, g);
        break;
    case 53:
        if (g->wire == PB_LEN)
            put_text(p, e, "correlation_id", build_str(&p->b, (const char *)g->p, g->len));
        break;
    default:
        if ((g->number <= 52 && g->wire != PB_LEN) || g->number == 3 || g->number == 12 ||
            g->number == 31 || (g->number >= 45 && g->number <= 48))
            read_number(p, s, e, g);
        else
            store_stat(p->b.st, STAT_typed_arg_skipped, 1);
        break;
    }
}

/* The lane that an event belongs to. */
static uint32_t lane_of(struct pf *p, struct pf_seq *s, const struct track_event *e)
{
    const struct legacy *l = &e->legacy;
    int64_t pid = l->pid != OPM_NULL_I64 ? l->pid : s->has_thread ? s->pid : OPM_NULL_I64;
    struct pf_track *t;

    if (l->present && l->tid != OPM_NULL_I64)
        return pf_thread_lane(p, pid, l->tid);
    if (!(e->has_track && e->track) && !(s->has_track && !e->has_track) && s->has_thread)
        return pf_thread_lane(p, pid, s->tid);
    t = pf_track(p, e->has_track ? e->track : s->has_track ? s->track : 0);
    return t ? pf_track_lane(p, t) : OPM_NULL_ID;
}

static void event_add(struct pf *p, struct track_event *e, uint32_t lane, int64_t ts_ns,
                      int64_t dur_ns, enum pf_event_type type)
{
    struct site site = { .op = e->ours.op, .layer = e->ours.layer, .phase = e->ours.phase };
    struct pf_event *out;

    if (p->b.rc)
        return;
    site.name = e->name ? e->name : e->legacy.name;
    site.cat = build_buf(&p->b, &e->cats);
    if (!p->b.rc && (p->nevent >= OPM_NULL_ID || !GROW(p->event, p->event_cap, p->nevent + 1)))
        p->b.rc = OPM_ENOMEM;
    if (p->b.rc)
        return;
    out = &p->event[p->nevent];
    *out =
        (struct pf_event){ .ts_ns = ts_ns,
                           .dur_ns = dur_ns,
                           .lane = lane,
                           .order = (uint32_t)p->nevent,
                           .type = type,
                           .flow = e->first_flow,
                           .nflow = e->nflow,
                           .correlation = e->ours.correlation != OPM_NULL_I64 ? e->ours.correlation
                                                                              : e->correlation };
    if (type != PF_END)
        p->b.rc = store_site(p->b.st, &site, &out->site);
    for (uint32_t i = 0; i < e->nflow; i++) {
        struct pf_flow *f = &p->flow[e->first_flow - 1 + i];

        f->ts_ns = ts_ns;
        f->order = out->order;
    }
    out->args = pf_args_end(&e->args);
    out->args = e->ours.args ? e->ours.args : out->args;
    if ((e->ours.has_step || e->ours.has_record) && site.cat) {
        const char *cat = store_text(p->b.st, site.cat);
        bool step = e->ours.has_step && strcmp(cat, "step") == 0;

        if ((step || (e->ours.has_record && strcmp(cat, "record") == 0))) {
            if (!GROW(p->region, p->region_cap, p->nregion + 1)) {
                p->b.rc = OPM_ENOMEM;
                return;
            }
            p->region[p->nregion++] = step ? e->ours.step : e->ours.record;
            out->region = (uint32_t)p->nregion;
        }
    }
    p->nevent++;
}

static void sample_add(struct pf *p, struct pf_seq *s, uint64_t uuid, int64_t ts_ns, bool integer,
                       int64_t value, double real)
{
    struct pf_track *t = pf_track(p, uuid);
    const uint64_t *last;

    if (!t)
        return;
    t->is_counter = true;
    if (integer && t->incremental) {
        last = u64map_get(&s->counter, uuid);
        value = (int64_t)((uint64_t)value + (last ? *last : 0));
        if (u64map_put(&s->counter, uuid, (uint64_t)value))
            p->b.rc = OPM_ENOMEM;
    }
    build_sample(&p->b, pf_track_row(p, t), ts_ns,
                 (integer ? (double)value : real) * (double)t->unit_multiplier);
}

static void extra_counters(struct pf *p, struct pf_seq *s, const struct track_event *e,
                           int64_t ts_ns)
{
    static const struct pf_counters none;
    const struct pf_counters *c = s->counters ? s->counters : &none;
    const uint64_t *track = e->nextra_track ? e->extra_track : c->track;
    size_t n = e->nextra_track ? e->nextra_track : c->n;
    const uint64_t *real = e->nextra_double_track ? e->extra_double_track : c->real_track;
    size_t nreal = e->nextra_double_track ? e->nextra_double_track : c->nreal;

    for (size_t i = 0; i < MIN(n, e->nextra); i++)
        sample_add(p, s, track[i], ts_ns, true, e->extra[i], 0);
    for (size_t i = 0; i < MIN(nreal, e->nextra_double); i++)
        sample_add(p, s, real[i], ts_ns, false, 0, e->extra_double[i]);
    if (e->nextra > n || e->nextra_double > nreal)
        store_stat(p->b.st, STAT_unknown_track, 1);
}

static void legacy_flow(struct pf *p, struct track_event *e)
{
    static const enum pf_flow_mode modes[] = { PF_FLOW_STEP, PF_FLOW_IN, PF_FLOW_OUT,
                                               PF_FLOW_STEP };

    if (e->legacy.bind_id && e->legacy.flow_direction < ARRAY_SIZE(modes) &&
        e->legacy.flow_direction)
        add_flow(p, e, e->legacy.bind_id, true, modes[e->legacy.flow_direction]);
}

/* "name:step" for the marks inside an asynchronous event. */
static void legacy_step_name(struct pf *p, struct track_event *e)
{
    const char *name = store_text(p->b.st, e->name ? e->name : e->legacy.name), *step;
    char quoted[128];
    size_t len;

    step = e->args.any ? strstr(buf_str(&e->args.text), "\"step\":\"") : NULL;
    if (!step || !name)
        return;
    step += strlen("\"step\":\"");
    len = strcspn(step, "\"");
    snprintf(quoted, sizeof(quoted), "%.*s", (int)MIN(len, sizeof(quoted) - 1), step);
    e->name = build_fmt(&p->b, "%s:%s", name, quoted);
}

static void legacy_async(struct pf *p, struct pf_seq *s, struct track_event *e, int64_t ts_ns)
{
    str_id name = e->name ? e->name : e->legacy.name;
    str_id scope = e->legacy.scope ? e->legacy.scope : build_buf(&p->b, &e->cats);
    int64_t pid = s->has_thread ? s->pid : OPM_NULL_I64;
    uint32_t lane = pf_async_lane(p, name, pid, e->legacy.id,
                                  e->legacy.space << 32 ^ scope ^
                                      (e->legacy.space == 2 ? (uint64_t)pid << 34 : 0));

    switch (e->legacy.phase) {
    case 'S':
    case 'b':
        event_add(p, e, lane, ts_ns, 0, PF_BEGIN);
        break;
    case 'F':
    case 'e':
        event_add(p, e, lane, ts_ns, 0, PF_END);
        break;
    default:
        legacy_step_name(p, e);
        event_add(p, e, lane, ts_ns, 0, PF_COMPLETE);
        break;
    }
}

/* An event that has no type but a phase. */
static void legacy_event(struct pf *p, struct pf_seq *s, struct track_event *e, int64_t ts_ns)
{
    uint32_t phase = e->legacy.phase;

    legacy_flow(p, e);
    if (phase && phase < 128 && strchr("SFTpben", (int)phase)) {
        legacy_async(p, s, e, ts_ns);
        return;
    }
    switch (phase) {
    case 'B':
        event_add(p, e, lane_of(p, s, e), ts_ns, 0, PF_BEGIN);
        break;
    case 'E':
        event_add(p, e, lane_of(p, s, e), ts_ns, 0, PF_END);
        break;
    case 'X':
        event_add(p, e, lane_of(p, s, e), ts_ns,
                  e->legacy.duration_us < 0                  ? -2
                  : e->legacy.duration_us > INT64_MAX / 1000 ? INT64_MAX
                                                             : e->legacy.duration_us * 1000,
                  PF_COMPLETE);
        break;
    case 'i':
    case 'I':
    case 'R':
        event_add(p, e, lane_of(p, s, e), ts_ns, 0, PF_COMPLETE);
        break;
    default:
        store_stat(p->b.st, STAT_phase_skipped, 1);
        break;
    }
}

/* Facts about an exported trace, on a track of their own. */
static bool is_about(struct pf *p, const struct track_event *e)
{
    const char *name = p->ours && e->name ? store_text(p->b.st, e->name) : NULL;

    return name && e->type == TYPE_INSTANT && strcmp(name, "about this trace") == 0;
}

static void event_take(struct pf *p, struct pf_seq *s, struct track_event *e, int64_t ts_ns)
{
    switch (e->type) {
    case TYPE_SLICE_BEGIN:
        legacy_flow(p, e);
        event_add(p, e, lane_of(p, s, e), ts_ns, 0, PF_BEGIN);
        break;
    case TYPE_SLICE_END:
        event_add(p, e, lane_of(p, s, e), ts_ns, 0, PF_END);
        break;
    case TYPE_INSTANT:
        if (!is_about(p, e))
            event_add(p, e, lane_of(p, s, e), ts_ns, 0, PF_COMPLETE);
        break;
    case TYPE_STATE:
        event_add(p, e, lane_of(p, s, e), ts_ns, 0, PF_STATE);
        break;
    case TYPE_COUNTER:
        if (e->has_value || e->has_double)
            sample_add(p, s, e->has_track ? e->track : s->track, ts_ns, e->has_value, e->value,
                       e->real);
        break;
    default:
        if (e->legacy.present)
            legacy_event(p, s, e, ts_ns);
        else
            store_stat(p->b.st, STAT_phase_skipped, 1);
        break;
    }
}

void pf_track_event(struct pf *p, struct pf_seq *s, const struct pb_field *f, int64_t ts_ns)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    struct track_event e = { .correlation = OPM_NULL_I64,
                             .args = { .p = p, .s = s },
                             .ours = { .op = OPM_NULL_ID, .correlation = OPM_NULL_I64 } };

    while (pb_next(&r, &g) && !p->b.rc)
        read_field(p, s, &e, &g);
    if (r.bad) {
        store_stat(p->b.st, STAT_packet_damaged, 1);
    } else if (!p->b.rc) {
        extra_counters(p, s, &e, ts_ns);
        event_take(p, s, &e, ts_ns);
    }
    build_check(&p->b, &e.args.text);
    build_check(&p->b, &e.cats);
    buf_release(&e.args.text);
    buf_release(&e.cats);
}
