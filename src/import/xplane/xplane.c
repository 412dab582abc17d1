/* xplane.c -- profiles of JAX, TensorFlow and PyTorch/XLA: an XSpace of planes (a device, the
 * host), lines (a stream, a thread, a view) and events.
 *
 * Times are picoseconds. Starts and ends are both rounded down to whole nanoseconds, so that what
 * nests goes on nesting; a duration may be off by less than one. */
#include "import/xplane/xplane_int.h"

#include "base/alloc.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define EPOCH_FROM_NS 100000000000000000 /* 1973: times beyond are since 1970 */

/* Views of a device that are no stream, and what their events are. */
static const struct {
    const char *line, *cat, *layer;
    bool op, step;
} views[] = {
    { "Steps", "step", "framework", false, true },
    { "XLA Modules", "module", "framework", false, false },
    { "XLA Ops", "op", "hardware", true, false },
    { "Async XLA Ops", "async op", "hardware", true, false },
    { "XLA TraceMe", "trace", "runtime", false, false },
    { "Framework Ops", "framework op", "framework", false, false },
    { "TensorFlow Ops", "framework op", "framework", false, false },
    { "Framework Name Scope", "name scope", "framework", false, false },
    { "TensorFlow Name Scope", "name scope", "framework", false, false },
    { "Source code", "source", "app", false, false },
    { "Source Code", "source", "app", false, false },
    { "Launch Stats", "launch", "runtime", false, false },
};

struct line {
    int64_t id, display_id, ts_ns;
    str_id name, display;
    const char *cat, *layer;
    bool op, step;
    uint32_t track;
};

bool xplane_sniff(const uint8_t *head, size_t len)
{
    struct rd r = rd_of(head, len);
    uint64_t key = rd_varint(&r);
    size_t n;
    const uint8_t *name;

    if (key != (1 << 3 | PB_LEN))
        return false;
    rd_varint(&r); /* size of the first plane */
    key = rd_varint(&r);
    if (key == (1 << 3 | PB_VARINT)) {
        rd_varint(&r);
        key = rd_varint(&r);
    }
    if (r.bad || key != (2 << 3 | PB_LEN))
        return false;
    n = rd_varint(&r);
    name = rd_bytes(&r, n);
    return name && ((n > 6 && memcmp(name, "/host:", 6) == 0) ||
                    (n > 8 && memcmp(name, "/device:", 8) == 0) ||
                    (n == 16 && memcmp(name, "Task Environment", 16) == 0));
}

static bool contains(const char *text, const char *what)
{
    return text && strcasestr(text, what) != NULL;
}

/* What the events of a line are, judged by its name and plane. */
static void line_kind(struct xp *x, struct line *l)
{
    const char *name = l->name ? store_text(x->b.st, l->name) : "";

    if (!x->plane.device) {
        l->layer = "framework";
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
        if (strcmp(name, views[i].line) != 0)
            continue;
        l->cat = views[i].cat;
        l->layer = views[i].layer;
        l->op = views[i].op;
        l->step = views[i].step;
        return;
    }
    l->layer = "hardware";
    l->cat = contains(name, "memcpy") ? "memcpy" : contains(name, "memset") ? "memset" : "kernel";
}

static uint32_t line_track(struct xp *x, const struct line *l)
{
    struct track_row row = TRACK_ROW_INIT;
    int64_t id = l->display_id ? l->display_id : l->id;

    row.kind = x->plane.device ? "stream" : "thread";
    row.name = l->display ? l->display : l->name;
    row.process = x->plane.name;
    row.device = x->plane.device_name;
    row.tid = id;
    return build_track(&x->b, &row);
}

/* Statistics: field 4 of an event, 5 of its metadata. */
static void facts_read(struct xp *x, const struct pb_field *body, uint32_t field,
                       struct xfacts *facts)
{
    struct rd r = rd_of(body->p, body->len);
    struct pb_field g;

    x->narg = 0;
    while (pb_next(&r, &g) && !x->b.rc)
        if (g.number == field && g.wire == PB_LEN)
            xstat_take(x, &g, facts);
}

/* What its metadata says of the event, read once; what it says itself comes behind and wins. */
static struct xfacts facts_of(struct xp *x, struct xevent_metadata *m)
{
    struct xfacts none = { .correlation = OPM_NULL_I64,
                           .flops = OPM_NULL_I64,
                           .bytes = OPM_NULL_I64,
                           .step_num = OPM_NULL_I64,
                           .allocated = OPM_NULL_I64 };

    if (!m)
        return none;
    if (!m->facts) {
        m->facts = arena_alloc(&x->arena, sizeof(*m->facts));
        if (!m->facts) {
            x->b.rc = OPM_ENOMEM;
            return none;
        }
        *m->facts = none;
        facts_read(x, &m->body, 5, m->facts);
        xargs_of_metadata(x, m);
    }
    return *m->facts;
}

static void flow_note(struct xp *x, uint64_t type, uint64_t id, uint32_t span, bool consumer)
{
    if (!GROW(x->flow, x->flow_cap, x->nflow + 1)) {
        x->b.rc = OPM_ENOMEM;
        return;
    }
    x->flow[x->nflow++] = (struct xflow){ type, id, span, consumer };
}

/* The allocator's use of memory is a counter. */
static void allocation(struct xp *x, const struct xfacts *f, int64_t ts_ns)
{
    const uint64_t *at;
    uint32_t track;

    if (f->allocated == OPM_NULL_I64 || !f->allocator)
        return;
    at = u64map_get(&x->allocator, f->allocator);
    track = at ? (uint32_t)*at : OPM_NULL_ID;
    if (!at) {
        struct track_row row = TRACK_ROW_INIT;

        row.kind = "counter";
        row.name = build_fmt(&x->b, "%s bytes allocated", store_text(x->b.st, f->allocator));
        row.unit = build_cstr(&x->b, "bytes");
        track = build_track(&x->b, &row);
        if (!x->b.rc && u64map_put(&x->allocator, f->allocator, track))
            x->b.rc = OPM_ENOMEM;
    }
    build_sample(&x->b, track, ts_ns, (double)f->allocated);
}

/* Python functions are traced as "$file.py:12 name". */
static bool is_python(const struct xp *x, const struct line *l, str_id name)
{
    return !l->cat && name && store_text(x->b.st, name)[0] == '$';
}

static void step_add(struct xp *x, const struct line *l, str_id name, const struct xfacts *f,
                     const struct span_row *row)
{
    struct step_row step = {
        .num = f->step_num, .ts_ns = row->ts_ns, .dur_ns = row->dur_ns, .track = row->track
    };
    const char *text = name ? store_text(x->b.st, name) : "";
    char *end;
    long long num;

    if (!l->step && f->step_num == OPM_NULL_I64)
        return;
    step.model = l->step ? 0 : name;
    if (step.num == OPM_NULL_I64) {
        num = strtoll(text, &end, 10);
        if (end != text && !*end)
            step.num = num;
    }
    build_step(&x->b, &step);
}

/* Into whole nanoseconds; true if nothing was cut off. */
static bool to_ns(int64_t base_ns, uint64_t ps, int64_t *out)
{
    *out = (int64_t)((uint64_t)base_ns + ps / 1000);
    return ps % 1000 == 0;
}

struct timing {
    uint64_t metadata, offset_ps, duration_ps;
    bool aggregated;
};

static bool timing_read(const struct pb_field *f, struct timing *t)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    *t = (struct timing){ 0 };
    while (pb_next(&r, &g)) {
        if (g.wire != PB_VARINT)
            continue;
        if (g.number == 1)
            t->metadata = g.value;
        else if (g.number == 2)
            t->offset_ps = g.value;
        else if (g.number == 3)
            t->duration_ps = g.value;
        else if (g.number == 5)
            t->aggregated = true;
    }
    return !r.bad;
}

static void event_read(struct xp *x, const struct line *l, const struct pb_field *f)
{
    struct xfacts facts;
    struct span_row row = SPAN_ROW_INIT;
    struct xevent_metadata *m;
    struct timing t;
    str_id name = 0;
    uint32_t span, op, form;
    int64_t end_ns;
    bool exact;

    if (!timing_read(f, &t)) {
        store_stat(x->b.st, STAT_packet_damaged, 1);
        return;
    }
    if (t.aggregated) {
        store_stat(x->b.st, STAT_aggregate_skipped, 1);
        return;
    }
    m = xevent_metadata(x, t.metadata);
    facts = facts_of(x, m);
    if (m)
        name = m->display ? m->display : m->name;
    else
        store_stat(x->b.st, STAT_intern_missing, 1);
    facts_read(x, f, 4, &facts);
    exact = to_ns(time_diff(l->ts_ns, x->base_ns), t.offset_ps, &row.ts_ns);
    exact &= to_ns(time_diff(l->ts_ns, x->base_ns), t.offset_ps + t.duration_ps, &end_ns);
    store_stat(x->b.st, STAT_time_rounded, !exact);
    /* One that ends before it starts is mended by the store. */
    row.dur_ns = end_ns < row.ts_ns ? -2 : MAX(time_diff(end_ns, row.ts_ns), 0);
    row.track = l->track;
    op = x->plane.device ? xplane_op(x, m, &facts, l->op) : OPM_NULL_ID;
    if (is_python(x, l, name))
        row.site = build_site(&x->b, name, build_cstr(&x->b, "python"), "app", OPM_NULL_ID);
    else
        row.site = build_site(&x->b, name, build_cstr(&x->b, l->cat), l->layer, op);
    row.correlation = facts.correlation;
    row.args = xargs_text(x, m, &form);
    span = build_span(&x->b, &row);
    xargs_values(x, span, form);
    if (facts.produces)
        flow_note(x, facts.producer_type, facts.producer, span, false);
    if (facts.consumes)
        flow_note(x, facts.consumer_type, facts.consumer, span, true);
    step_add(x, l, name, &facts, &row);
    allocation(x, &facts, row.ts_ns);
}

static void line_head(struct xp *x, const struct pb_field *f, struct line *l)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    while (pb_next(&r, &g)) {
        if (g.wire == PB_LEN && (g.number == 2 || g.number == 11)) {
            str_id text = g.len ? build_str(&x->b, (const char *)g.p, g.len) : 0;

            if (g.number == 2)
                l->name = text;
            else
                l->display = text;
        } else if (g.wire == PB_VARINT) {
            if (g.number == 1)
                l->id = (int64_t)g.value;
            else if (g.number == 3)
                l->ts_ns = (int64_t)g.value;
            else if (g.number == 10)
                l->display_id = (int64_t)g.value;
        }
    }
}

static void line_read(struct xp *x, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct line l = { 0 };
    struct pb_field g;
    bool any = false;

    line_head(x, f, &l);
    if (!x->has_base) {
        x->has_base = true;
        x->base_ns = l.ts_ns >= EPOCH_FROM_NS ? l.ts_ns : 0;
    }
    line_kind(x, &l);
    while (pb_next(&r, &g) && !x->b.rc) {
        if (g.number != 4 || g.wire != PB_LEN)
            continue;
        if (!any)
            l.track = line_track(x, &l);
        any = true;
        event_read(x, &l, &g);
    }
    if (r.bad)
        store_stat(x->b.st, STAT_packet_damaged, 1);
}

static void plane_read(struct xp *x, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    xplane_names(x, f);
    xplane_facts(x, f);
    while (pb_next(&r, &g) && !x->b.rc)
        if (g.number == 3 && g.wire == PB_LEN)
            line_read(x, &g);
    if (r.bad)
        store_stat(x->b.st, STAT_packet_damaged, 1);
}

static int by_id(const void *va, const void *vb)
{
    const struct xflow *a = va, *b = vb;

    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->consumer != b->consumer)
        return a->consumer ? 1 : -1;
    return a->span < b->span ? -1 : a->span > b->span;
}

/* From whoever produces a thing to all who consume it. */
static void flows_add(struct xp *x)
{
    const struct xflow *producer = NULL;

    if (x->nflow)
        qsort(x->flow, x->nflow, sizeof(*x->flow), by_id);
    for (size_t i = 0; i < x->nflow && !x->b.rc; i++) {
        const struct xflow *f = &x->flow[i];

        if (!f->consumer)
            producer = f;
        else if (producer && producer->type == f->type && producer->id == f->id)
            build_flow(&x->b, producer->span, f->span, "flow");
        else
            store_stat(x->b.st, STAT_flow_without_span, 1);
    }
}

/* Messages of the profiler, and the host. */
static void space_text(struct xp *x, const struct pb_field *g, int *count)
{
    static const char *const keys[] = {
        [2] = "xplane.error", [3] = "xplane.warning", [4] = "machine.host"
    };
    str_id text = build_str(&x->b, (const char *)g->p, g->len);
    char key[40];

    if (x->b.rc)
        return;
    if (g->number == 4)
        snprintf(key, sizeof(key), "%s", keys[4]);
    else
        snprintf(key, sizeof(key), "%s.%d", keys[g->number], ++*count);
    build_meta(&x->b, key, store_text(x->b.st, text));
}

static void note_clock(struct xp *x)
{
    int64_t realtime = x->base_ns ? x->base_ns : x->start_realtime_ns;

    if (realtime > 0)
        import_set_realtime(x->b.src, realtime);
}

int xplane_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct xp x = { .b = { .st = st, .src = src } };
    struct rd r = rd_of(src->data, src->len);
    struct pb_field g;
    int planes = 0, messages = 0;

    while (pb_next(&r, &g) && !x.b.rc) {
        if (g.wire != PB_LEN)
            continue;
        if (g.number == 1) {
            plane_read(&x, &g);
            planes++;
        } else if (g.number >= 2 && g.number <= 4) {
            space_text(&x, &g, &messages);
        }
        build_tick(&x.b, (uint64_t)(r.p - src->data), src->len);
    }
    if (!x.b.rc)
        flows_add(&x);
    build_meta(&x.b, "source.format", "xplane");
    note_clock(&x);
    store_stat(st, STAT_file_truncated, r.bad || src->cut);
    xplane_release(&x);
    u64map_release(&x.op);
    u64map_release(&x.allocator);
    mem_free(x.flow);
    mem_free(x.arg);
    mem_free(x.value);
    buf_release(&x.key);
    buf_release(&x.args);
    buf_release(&x.scratch);
    if (!x.b.rc && !planes && r.bad)
        return opm__fail(err, OPM_EFORMAT, "%s: damaged: none of its planes can be read",
                         src->path);
    return build_end(&x.b, err);
}
