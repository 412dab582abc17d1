/* opm_events.c -- events of an .opm file into steps, records, samples, arrows, arguments.
 *
 * Two passes over the pieces. The first, here, takes all events that are not packed spans: they are
 * few, and tell which spans matter beyond their own row (those with arguments or arrows). The
 * second, opm_spans.c, unpacks spans into the store. What needs both comes last. Spans are named by
 * (thread, start ticks) within a file. */
#include "import/opm/opm_events.h"

#include "base/alloc.h"
#include "base/json_write.h"
#include "base/runsort.h"
#include "base/u64map.h"
#include <stdlib.h>

static double real_of(uint64_t bits)
{
    double v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* enum opm_clock of opmeter.h, as the file has it */
enum { TRACK_CLOCK_REALTIME = 1, TRACK_CLOCK_DEVICE = 2, TRACK_CLOCK_TICKS = 3 };

static int take_arg(struct event_pass *e, const struct opm_unit *u)
{
    if (!GROW(e->arg, e->arg_cap, e->narg + 1))
        return OPM_ENOMEM;
    e->arg[e->narg++] = (struct arg){ .ticks = u[0].ticks,
                                      .value = u[1].ticks,
                                      .thread = (uint32_t)u[1].word,
                                      .key = unit_id(u),
                                      .kind = (uint8_t)unit_kind(u) };
    /* Spans that have these are noted for what they are. */
    if (unit_id(u) == ARG_KEY_STEP || unit_id(u) == ARG_KEY_FLAGS || unit_id(u) == ARG_KEY_META)
        return 0;
    return u64map_put(&e->wanted, u[0].ticks, 1);
}

static int take_arrow(struct event_pass *e, const struct opm_unit *u)
{
    if (!GROW(e->arrow, e->arrow_cap, e->narrow + 1))
        return OPM_ENOMEM;
    e->arrow[e->narrow++] = (struct arrow){ .src_ticks = u[1].ticks,
                                            .src_thread = (uint32_t)u[1].word,
                                            .dst_ticks = u[2].ticks,
                                            .dst_thread = (uint32_t)u[2].word };
    return u64map_put(&e->wanted, u[1].ticks, 1) < 0 ? OPM_ENOMEM
                                                     : u64map_put(&e->wanted, u[2].ticks, 1);
}

static int open_add(struct event_pass *e, const struct open_span *span)
{
    if (!GROW(e->open, e->open_cap, e->nopen + 1))
        return OPM_ENOMEM;
    e->open[e->nopen++] = *span;
    return 0;
}

static int take_begin(struct event_pass *e, const struct opm_unit *u, uint32_t thread)
{
    struct open_span span = { .ticks = u->ticks, .id = unit_id(u), .thread = thread };
    int rc = open_add(e, &span);

    if (rc == 0 && !GROW(e->stack, e->stack_cap, e->nstack + 1))
        rc = OPM_ENOMEM;
    if (rc == 0)
        e->stack[e->nstack++] = e->nopen - 1;
    return rc;
}

static void take_end(struct event_pass *e, const struct opm_unit *u)
{
    struct open_span *span;

    if (!e->nstack) {
        store_stat(e->f->st, STAT_end_without_begin, 1);
        return;
    }
    span = &e->open[e->stack[--e->nstack]];
    span->end = u->ticks;
    span->ended = true;
}

/* Asynchronous ends are kept as spans without a site until all begins are known. */
static int take_async(struct event_pass *e, const struct opm_unit *u, uint32_t thread)
{
    struct open_span span = {
        .ticks = u->ticks, .id = unit_id(u), .thread = thread, .async = true
    };

    if (unit_kind(u) == UNIT_ASYNC_END)
        span = (struct open_span){ .ticks = u[1].ticks,
                                   .thread = (uint32_t)u[1].word,
                                   .end = u->ticks,
                                   .ended = true,
                                   .async = true };
    return open_add(e, &span);
}

static int take_sample(struct event_pass *e, const struct opm_unit *u)
{
    struct opm_file *f = e->f;
    struct def_site *site = defs_site(f, unit_id(u));
    struct cell row[sample_col_COUNT];
    uint32_t track;
    int rc;

    if (!site) {
        e->unknown++;
        return 0;
    }
    rc = defs_side_track(f, site, site->role == ROLE_QUEUE ? "queue" : "counter", &track);
    if (rc)
        return rc;
    row[sample_col_ts] = cell_i64(time_ns(&f->time, u->ticks));
    row[sample_col_track] = cell_id(track);
    row[sample_col_value] =
        cell_f64(unit_kind(u) == UNIT_COUNTER ? real_of(u[1].ticks) : (double)(int64_t)u[1].ticks);
    return store_add(f->st, TABLE_sample, row, NULL);
}

/* Exact where the factor is nearly 1, as those of clocks are. */
static int64_t time_scale(int64_t ns, double factor)
{
    double more = (double)ns * (factor - 1);

    return more > -9e18 && more < 9e18 ? time_add(ns, (int64_t)more) : 0;
}

/* A time of a device's clock, tied to the host's by the syncs, as monotonic time. */
static int64_t device_time(const struct def_track *t, int64_t ns)
{
    int64_t device = time_sub(t->sync[2], t->sync[0]), host = time_sub(t->sync[3], t->sync[1]);
    int64_t since = time_sub(ns, t->sync[0]);

    if (t->nsync > 1 && device > 0 && host > 0 && device != host)
        since = time_scale(since, (double)host / (double)device);
    return time_add(t->sync[1], since);
}

/* A time of a track's own clock as ns of the trace. */
static int64_t track_time(const struct opm_file *f, const struct def_track *t, int64_t ns)
{
    const struct timebase *tb = &f->time;

    if (t->clock == TRACK_CLOCK_TICKS)
        return time_ns(tb, (uint64_t)ns);
    if (t->clock == TRACK_CLOCK_DEVICE && t->nsync)
        ns = device_time(t, ns);
    ns = time_sub(ns, t->clock == TRACK_CLOCK_REALTIME ? tb->start_realtime_ns
                                                       : tb->start_monotonic_ns);
    if (tb->origin == tb->start)
        return ns;
    /* As if the tick of that moment had been recorded. */
    return time_add(time_ns(tb, tb->start), time_scale(ns, 1 / tb->own_rate));
}

static int take_device_span(struct event_pass *e, const struct opm_unit *u)
{
    struct opm_file *f = e->f;
    const struct def_site *site = defs_site(f, unit_id(u));
    const struct def_track *t = defs_track(f, u[2].ticks);
    struct span_row row = SPAN_ROW_INIT;
    int64_t end_ns;
    uint32_t span;
    int rc;

    if (!t) {
        store_stat(f->st, STAT_unknown_track, 1);
        return 0;
    }
    row.ts_ns = track_time(f, t, (int64_t)u[0].ticks);
    end_ns = track_time(f, t, (int64_t)u[1].ticks);
    row.dur_ns = MAX(time_sub(end_ns, row.ts_ns), 0);
    row.track = t->track;
    row.site = site ? site->site : e->unknown_site;
    row.correlation = u[1].word ? (int64_t)u[1].word : OPM_NULL_I64;
    row.args = u[2].word ? defs_args(f, u[2].word) : 0;
    e->unknown += !site;
    rc = store_add_span(f->st, &row, &span);
    if (rc == 0 && u[1].word)
        rc = launches_add(&e->launches, row.correlation, span, site && site->hardware);
    return rc;
}

static int take_other(struct event_pass *e, const struct opm_unit *u, uint32_t thread)
{
    struct open_span span;

    switch (unit_kind(u)) {
    case UNIT_LONG_SPAN:
        span = (struct open_span){ .ticks = u->ticks,
                                   .end = u->ticks + u[1].ticks,
                                   .id = unit_id(u),
                                   .thread = thread,
                                   .ended = true };
        return open_add(e, &span);
    case UNIT_BEGIN:
        return take_begin(e, u, thread);
    case UNIT_END:
        take_end(e, u);
        return 0;
    case UNIT_ASYNC_BEGIN:
    case UNIT_ASYNC_END:
        return take_async(e, u, thread);
    case UNIT_COUNTER:
    case UNIT_INT_COUNTER:
        return take_sample(e, u);
    case UNIT_ARG_INT:
    case UNIT_ARG_REAL:
    case UNIT_ARG_STR:
        return take_arg(e, u);
    case UNIT_DEVICE_SPAN:
        return take_device_span(e, u);
    case UNIT_FLOW:
        return take_arrow(e, u);
    case UNIT_LOST:
        e->f->lost_units += unit_value(u);
        return 0;
    default:
        return 0;
    }
}

static int others_packed(struct event_pass *e, struct piece *p, size_t *out_nspan)
{
    struct rd r = rd_of(p->packed, p->size);
    struct unpacked_head h;
    struct opm_unit u[3];
    uint64_t ticks;
    int rc = 0;

    *out_nspan = 0;
    if (!unpack_head(&r, &h)) {
        e->corrupt++;
        return 0;
    }
    ticks = p->from = h.base;
    for (size_t i = 0; i < h.nother && rc == 0; i++) {
        if (!unpack_other(&r, u, &ticks)) {
            e->corrupt++;
            return 0;
        }
        rc = take_other(e, u, p->thread);
    }
    *out_nspan = h.nspan;
    return rc;
}

static int others_raw(struct event_pass *e, struct piece *p, size_t *out_nspan)
{
    size_t nspan = 0;

    p->from = p->nunit ? p->units->ticks : 0;
    for (size_t i = 0; i < p->nunit;) {
        const struct opm_unit *u = &p->units[i];
        unsigned n = unit_count(unit_kind(u));
        int rc;

        if (!n || n > p->nunit - i) {
            e->corrupt++;
            break;
        }
        i += n;
        if (unit_kind(u) == UNIT_SPAN) {
            nspan++;
            continue;
        }
        rc = take_other(e, u, p->thread);
        if (rc)
            return rc;
    }
    *out_nspan = nspan;
    return 0;
}

/* The stack of a thread that was killed or is running on. It was copied before the thread's events:
 * a span on it may have ended since, or have been killed between being written and leaving the
 * stack. stacked_match() sorts those out. */
static int take_stack(struct event_pass *e, const struct piece *p)
{
    for (size_t i = 0; i < p->nunit; i++) {
        struct open_span span = { .ticks = p->units[i].ticks,
                                  .id = unit_id(&p->units[i]),
                                  .thread = p->thread,
                                  .stacked = true };
        int rc = open_add(e, &span);

        if (rc == 0)
            rc = u64map_put(&e->wanted, span.ticks, 1);
        if (rc)
            return rc;
    }
    return 0;
}

/* Reads all events but packed spans; *total counts the packed ones, block[] tells how many each
 * piece has (in first_build_id, for the time being). */
static int first_pass(struct event_pass *e, size_t *total)
{
    struct opm_file *f = e->f;

    *total = 0;
    for (size_t i = 0; i < f->npiece; i++) {
        struct piece *p = &f->piece[i];
        size_t nspan = 0;
        int rc;

        if (i && f->piece[i - 1].thread != p->thread)
            e->nstack = 0;
        rc = p->open     ? take_stack(e, p)
             : p->packed ? others_packed(e, p, &nspan)
                         : others_raw(e, p, &nspan);
        if (rc)
            return rc;
        if (!p->packed)
            store_stat(f->st, STAT_recovered_live, (int64_t)nspan);
        e->block[i].first_build_id = (uint32_t)nspan;
        *total += nspan;
    }
    return 0;
}

static uint64_t span_key(uint32_t thread, uint64_t ticks)
{
    return (ticks ^ (uint64_t)thread << 48) * 0x9e3779b97f4a7c15u;
}

/* Asynchronous begins meet their ends. */
static int async_match(struct event_pass *e)
{
    struct u64map begun = { 0 };
    int rc = 0;

    for (size_t i = 0; i < e->nopen && rc == 0; i++)
        if (e->open[i].async && e->open[i].id)
            rc = u64map_put(&begun, span_key(e->open[i].thread, e->open[i].ticks), i);
    for (size_t i = 0; i < e->nopen && rc == 0; i++) {
        struct open_span *end = &e->open[i], *begin;
        const uint64_t *at;

        if (!end->async || end->id)
            continue;
        at = u64map_get(&begun, span_key(end->thread, end->ticks));
        begin = at ? &e->open[*at] : NULL;
        if (!begin) {
            store_stat(e->f->st, STAT_async_end_without_begin, !e->f->moving);
            continue;
        }
        begin->end = end->end;
        begin->ended = true;
    }
    u64map_release(&begun);
    return rc;
}

static uint64_t site_key(uint32_t thread, uint64_t ticks, uint32_t id)
{
    return span_key(thread, ticks) ^ (uint64_t)id << 40;
}

/* Spans of the stacks that are among the others as well: forget the stacks' copy. */
static int stacked_match(struct event_pass *e)
{
    struct u64map stacked = { 0 };
    uint64_t *at;
    int rc = 0;

    for (size_t i = 0; i < e->nopen && rc == 0; i++) {
        const struct open_span *s = &e->open[i];

        if (s->stacked)
            rc = u64map_put(&stacked, site_key(s->thread, s->ticks, s->id), i);
    }
    for (size_t i = 0; i < e->notes.n && stacked.n && rc == 0; i++) {
        const struct noted *n = &e->notes.item[i];

        at = u64map_get(&stacked, site_key(n->thread, n->ticks, n->id));
        if (at)
            e->open[*at].gone = true;
    }
    for (size_t i = 0; i < e->nopen && stacked.n && rc == 0; i++) {
        const struct open_span *s = &e->open[i];

        at = s->stacked || s->async ? NULL
                                    : u64map_get(&stacked, site_key(s->thread, s->ticks, s->id));
        if (at)
            e->open[*at].gone = true;
    }
    u64map_release(&stacked);
    return rc;
}

static int open_place(struct event_pass *e, const struct open_span *span)
{
    struct opm_file *f = e->f;
    struct def_site *site = defs_site(f, span->id);
    const struct def_thread *t = defs_thread(f, span->thread);
    struct span_row row = SPAN_ROW_INIT;
    struct noted n = { .ticks = span->ticks, .thread = span->thread, .id = span->id };
    int rc = 0;

    if (span->gone || (span->async && !span->id))
        return 0;
    if (!t)
        return OPM_ENOMEM;
    store_stat(f->st, STAT_recovered_live, span->stacked);
    row.ts_ns = time_ns(&f->time, span->ticks);
    row.dur_ns = span->ended ? MAX(time_sub(time_ns(&f->time, span->end), row.ts_ns), 0) : -1;
    row.track = t->track;
    row.site = site ? site->site : e->unknown_site;
    e->unknown += !site;
    if (span->async && site)
        rc = defs_side_track(f, site, "async", &row.track);
    if (rc == 0)
        rc = store_add_span(f->st, &row, &n.build_id);
    n.ts_ns = row.ts_ns;
    n.dur_ns = row.dur_ns;
    if (rc == 0 &&
        (span->async || (site && role_is_special(site->role)) || is_wanted(e, span->ticks)))
        rc = notes_add(&e->notes, &n);
    return rc;
}

static int arg_order(const void *va, const void *vb)
{
    const struct arg *a = va, *b = vb;

    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    return a->ticks < b->ticks ? -1 : a->ticks > b->ticks;
}

static int noted_order(const void *va, const void *vb)
{
    const struct noted *a = va, *b = vb;

    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->ticks != b->ticks)
        return a->ticks < b->ticks ? -1 : 1;
    return a->build_id < b->build_id ? -1 : a->build_id > b->build_id;
}

static bool noted_before(const struct noted *n, uint32_t thread, uint64_t ticks)
{
    return n->thread < thread || (n->thread == thread && n->ticks < ticks);
}

static const struct noted *noted_find(const struct event_pass *e, uint32_t thread, uint64_t ticks)
{
    const struct noted *all = e->notes.item;
    size_t lo = 0, hi = e->notes.n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (noted_before(&all[mid], thread, ticks))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < e->notes.n && all[lo].thread == thread && all[lo].ticks == ticks ? &all[lo] : NULL;
}

static const char *file_string(const struct opm_file *f, uint64_t id, size_t *len)
{
    str_id s = defs_string(f, id);

    *len = s ? strpool_len(store_strings(f->st), s) : 0;
    return s ? store_text(f->st, s) : NULL;
}

/* Arguments are packed in the file: what they take when unpacked counts as its size, too. */
static bool may_echo(struct event_pass *e, size_t len)
{
    uint64_t size = e->f->src->len + (uint64_t)e->narg * sizeof(struct arg);
    bool may = echo_allows(&e->echo, size, len);

    store_stat(e->f->st, STAT_text_not_repeated, !may);
    return may;
}

/* One argument as a member of the JSON object. */
static void arg_write(struct event_pass *e, struct json_writer *w, const struct arg *a)
{
    size_t len = 0;
    const char *key = a->key == ARG_KEY_STEP    ? "step"
                      : a->key == ARG_KEY_FLAGS ? "flags"
                      : a->key == ARG_KEY_META  ? "meta"
                                                : file_string(e->f, a->key, &len);
    const char *text;

    json_key(w, key && may_echo(e, len) ? key : "?");
    text = a->kind == UNIT_ARG_STR ? file_string(e->f, a->value, &len) : NULL;
    if (a->kind == UNIT_ARG_INT)
        json_i64(w, (int64_t)a->value);
    else if (a->kind == UNIT_ARG_REAL)
        json_f64(w, real_of(a->value));
    else if (text && !may_echo(e, len))
        json_null(w);
    else if (text && a->key == ARG_KEY_META && json_valid(text, len))
        json_raw(w, text, len);
    else
        json_str(w, text ? text : "", text ? len : 0);
}

/* Arguments of one span: args[0..n). Those with a column of their own go there. */
static int span_args(struct event_pass *e, const struct noted *span, const struct arg *args,
                     size_t n)
{
    struct store *st = e->f->st;
    const struct def_site *site = span->id < ID_COUNT ? defs_site(e->f, span->id) : NULL;
    unsigned role = site ? site->role : ROLE_SPAN;
    struct json_writer w = { .buf = &e->text };
    bool any = false;
    str_id id;
    int rc = 0;

    buf_clear(&e->text);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (args[i].key == ARG_KEY_CORRELATION) {
            rc = store_span_set_correlation(st, span->build_id, (int64_t)args[i].value);
            if (rc == 0)
                rc = launches_add(&e->launches, (int64_t)args[i].value, span->build_id,
                                  site && site->hardware);
        } else if (!role_is_special(role) || args[i].key < ARG_KEY_STEP) {
            if (!any)
                json_object(&w);
            any = true;
            arg_write(e, &w, &args[i]);
        }
    }
    if (rc || !any)
        return rc;
    json_object_end(&w);
    rc = e->text.failed ? OPM_ENOMEM : store_str(st, buf_str(&e->text), e->text.len, &id);
    return rc ? rc : store_span_set_args(st, span->build_id, id);
}

/* Arguments and spans are in the same order. */
static int args_place(struct event_pass *e)
{
    struct noted *span = e->notes.item;
    size_t nspan = e->notes.n, at = 0;
    int rc = 0;

    for (size_t i = 0, end; i < e->narg && rc == 0; i = end) {
        uint32_t thread = e->arg[i].thread;
        uint64_t ticks = e->arg[i].ticks;

        for (end = i + 1; end < e->narg && arg_order(&e->arg[i], &e->arg[end]) == 0; end++)
            ;
        while (at < nspan && noted_before(&span[at], thread, ticks))
            at++;
        if (at < nspan && span[at].thread == thread && span[at].ticks == ticks)
            rc = span_args(e, &span[at], &e->arg[i], end - i);
        else
            store_stat(e->f->st, STAT_arg_without_span, e->f->moving ? 0 : (int64_t)(end - i));
        for (size_t k = at; k < nspan && span[k].thread == thread && span[k].ticks == ticks; k++) {
            span[k].arg = &e->arg[i];
            span[k].narg = end - i;
        }
    }
    return rc;
}

static int arrows_place(struct event_pass *e)
{
    struct store *st = e->f->st;
    str_id kind;
    int rc = store_cstr(st, "flow", &kind);

    for (size_t i = 0; i < e->narrow && rc == 0; i++) {
        const struct arrow *a = &e->arrow[i];
        const struct noted *src = noted_find(e, a->src_thread, a->src_ticks);
        const struct noted *dst = noted_find(e, a->dst_thread, a->dst_ticks);
        struct cell row[flow_col_COUNT];

        if (!src || !dst) {
            store_stat(st, STAT_flow_without_span, !e->f->moving);
            continue;
        }
        row[flow_col_src] = cell_id(src->build_id);
        row[flow_col_dst] = cell_id(dst->build_id);
        row[flow_col_kind] = cell_str(kind);
        rc = store_add(st, TABLE_flow, row, NULL);
    }
    return rc;
}

/* A filter with some 32 bits for every start that is wanted. */
static int filter_build(struct event_pass *e)
{
    e->filter_bits = 12;
    while (e->filter_bits < 30 && (size_t)1 << e->filter_bits < e->wanted.n * 32)
        e->filter_bits++;
    e->filter = mem_calloc(((size_t)1 << e->filter_bits) / 64, sizeof(*e->filter));
    if (!e->filter)
        return OPM_ENOMEM;
    for (size_t i = 0; i < e->wanted.cap; i++) {
        if (e->wanted.used[i]) {
            uint64_t h = filter_hash(e, e->wanted.entry[i].key);

            e->filter[h / 64] |= 1ull << h % 64;
        }
    }
    return 0;
}

static int events_place(struct event_pass *e, size_t total)
{
    int rc = filter_build(e);

    if (rc == 0)
        rc = spans_read(e, total);

    if (rc == 0)
        rc = async_match(e);
    if (rc == 0)
        rc = stacked_match(e);
    for (size_t i = 0; i < e->nopen && rc == 0; i++)
        rc = open_place(e, &e->open[i]);
    if (rc)
        return rc;
    /* Threads record them nearly in order. */
    rc = runsort(e->arg, e->narg, sizeof(*e->arg), arg_order);
    if (rc == 0)
        rc = runsort(e->notes.item, e->notes.n, sizeof(*e->notes.item), noted_order);
    if (rc == 0)
        rc = args_place(e);
    if (rc == 0)
        rc = regions_place(e);
    if (rc == 0)
        rc = arrows_place(e);
    if (rc == 0)
        rc = launches_place(&e->launches, e->f->st);
    store_stat(e->f->st, STAT_unknown_site, e->unknown);
    store_stat(e->f->st, STAT_chunk_corrupt, e->corrupt);
    return rc;
}

int events_read(struct opm_file *f)
{
    struct event_pass *e = mem_calloc(1, sizeof(*e));
    struct site unknown = { .op = OPM_NULL_ID };
    size_t total = 0;
    int rc;

    if (!e)
        return OPM_ENOMEM;
    e->f = f;
    e->block = mem_calloc(f->npiece + 1, sizeof(*e->block));
    rc = e->block ? store_cstr(f->st, "(unknown)", &unknown.name) : OPM_ENOMEM;
    if (rc == 0)
        rc = store_site(f->st, &unknown, &e->unknown_site);
    if (rc == 0)
        rc = first_pass(e, &total);
    if (rc == 0)
        rc = events_place(e, total);
    launches_release(&e->launches);
    mem_free(e->filter);
    u64map_release(&e->wanted);
    mem_free(e->arg);
    mem_free(e->arrow);
    mem_free(e->open);
    mem_free(e->stack);
    mem_free(e->notes.item);
    mem_free(e->span_site);
    buf_release(&e->text);
    mem_free(e->block);
    mem_free(e);
    return rc;
}
