/* events.c -- see events.h. */
#include "import/json/events.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int events_init(struct events *ev, struct store *st, const struct import_source *src,
                const struct dialect *dialect)
{
    *ev = (struct events){ .st = st, .src = src, .dialect = dialect };
    ev->first_track = (uint32_t)store_nrow(st, TABLE_track);
    return store_cstr(st, "app", &ev->layer_app) || store_cstr(st, "", &ev->empty) ? OPM_ENOMEM : 0;
}

void events_release(struct events *ev)
{
    if (ev->dialect && ev->dialect->release)
        ev->dialect->release(ev);
    event_info_release(&ev->info);
    buf_release(&ev->text);
    buf_release(&ev->form);
    mem_free(ev->track);
    mem_free(ev->process);
    u64map_release(&ev->process_by);
    u64map_release(&ev->thread_by);
    u64map_release(&ev->track_by);
    u64map_release(&ev->series_by);
    u64map_release(&ev->site_with_op);
    mem_free(ev->point);
    mem_free(ev->async);
    mem_free(ev->flow);
}

uint64_t events_hash(uint64_t h, uint64_t v)
{
    __extension__ unsigned __int128 m =
        (unsigned __int128)(h ^ v ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;

    return (uint64_t)m ^ (uint64_t)(m >> 64) ^ v;
}

double hole_number(uint8_t hole, const int64_t *value)
{
    return hole == HOLE_DECIMAL ? (double)value[0] / pow(10, (double)value[1]) : (double)value[0];
}

int events_meta(struct events *ev, const char *key, const char *value)
{
    return import_meta(ev->st, ev->src, key, value);
}

void events_clock(struct events *ev, int64_t base_ns)
{
    ev->clocked = true;
    import_set_realtime(ev->src, base_ns);
}

int events_site_with_op(struct events *ev, uint32_t site, uint32_t op, str_id phase, uint32_t *out)
{
    uint64_t key = (uint64_t)site << 32 | op;
    const uint64_t *known = u64map_get(&ev->site_with_op, key);
    struct site with;
    size_t n;

    if (known) {
        *out = (uint32_t)*known;
        return 0;
    }
    with = store_sites(ev->st, &n)[site];
    with.op = op;
    with.phase = phase;
    if (store_site(ev->st, &with, out))
        return OPM_ENOMEM;
    return u64map_put(&ev->site_with_op, key, *out);
}

static int set_args(struct events *ev, const struct kind *k, uint32_t span, const int64_t *value)
{
    int64_t packed[2 * EVENT_HOLES_MAX];

    if (k->form == OPM_NULL_ID)
        return 0;
    if (k->form_run)
        return store_span_set_args_form(ev->st, span, k->form, value + k->form_value[0]);
    for (unsigned i = 0; i < k->nform; i++)
        packed[i] = value[k->form_value[i]];
    return store_span_set_args_form(ev->st, span, k->form, packed);
}

/* The args of an event that gets no span of its own, as a string. */
static int args_string(struct events *ev, const struct kind *k, const struct event_shape *sh,
                       const int64_t *value, str_id *out)
{
    const struct member *args;

    *out = 0;
    (void)k;
    if (!event_info_read(&ev->info, sh))
        return OPM_ENOMEM;
    args = member_find(&ev->info.event, "args");
    if (!args || !ev->info.args.n)
        return 0;
    buf_clear(&ev->form);
    {
        uint16_t index[2 * EVENT_HOLES_MAX];
        int64_t packed[2 * EVENT_HOLES_MAX];
        unsigned n = 0;

        member_form(&ev->info, args, &ev->form, index, &n);
        for (unsigned i = 0; i < n; i++)
            packed[i] = value[index[i]];
        buf_clear(&ev->text);
        if (ev->form.failed)
            return OPM_ENOMEM;
        store_args_text(ev->form.data, ev->form.len, packed, &ev->text);
    }
    return ev->text.failed || store_str(ev->st, buf_str(&ev->text), ev->text.len, out) ? OPM_ENOMEM
                                                                                       : 0;
}

static int add_flow(struct events *ev, const struct flow_step *f)
{
    if (!GROW(ev->flow, ev->flow_cap, ev->nflow + 1))
        return OPM_ENOMEM;
    ev->flow[ev->nflow++] = *f;
    return 0;
}

/* Arrows of the second version: bound to the span itself. */
static int bind_flow(struct events *ev, const struct kind *k, uint32_t span, int64_t ts,
                     const int64_t *value)
{
    struct flow_step f = { .ts = ts, .span = span, .track = k->track, .kind = k->cat };

    f.key = k->bind_key;
    if (k->bind_id != NO_VALUE)
        f.key = events_hash(f.key, (uint64_t)value[k->bind_id]);
    f.ph = k->flow_in ? k->flow_out ? 't' : 'f' : 's';
    return add_flow(ev, &f);
}

static int take_span(struct events *ev, struct kind *k, const int64_t *value)
{
    struct span_row row = SPAN_ROW_INIT;
    struct ev_track *t = &ev->track[k->track];
    uint32_t id;

    if (UNLIKELY(k->ts == NO_VALUE)) {
        store_stat(ev->st, STAT_event_without_time, 1);
        return 0;
    }
    row.ts_ns = value[k->ts];
    if (LIKELY(k->dur != NO_VALUE))
        row.dur_ns = value[k->dur];
    if (k->act == ACT_BEGIN)
        row.dur_ns = -1;
    else if (k->act == ACT_INSTANT)
        row.dur_ns = 0;
    else if (UNLIKELY(k->dur == NO_VALUE))
        store_stat(ev->st, STAT_missing_duration, 1);
    else if (UNLIKELY(row.dur_ns < 0)) {
        store_stat(ev->st, STAT_negative_duration, 1);
        row.dur_ns = 0;
    }
    row.track = ev->first_track + k->track;
    row.site = k->site;
    if (k->correlation != NO_VALUE)
        row.correlation = value[k->correlation];
    if (store_add_span(ev->st, &row, &id) || set_args(ev, k, id, value))
        return OPM_ENOMEM;
    t->last = id;
    t->last_ts = row.ts_ns;
    if (UNLIKELY(k->flow_in || k->flow_out) && bind_flow(ev, k, id, row.ts_ns, value))
        return OPM_ENOMEM;
    if (k->act == ACT_BEGIN) {
        if (!GROW(ev->point, ev->point_cap, ev->npoint + 1))
            return OPM_ENOMEM;
        ev->point[ev->npoint++] = (struct point){
            .ts = row.ts_ns, .key = k->track, .span = id, .name = k->name, .ph = 'B'
        };
    }
    return k->dialect ? ev->dialect->span(ev, k, id, row.ts_ns, row.dur_ns, value) : 0;
}

static int take_end(struct events *ev, const struct kind *k, const struct event_shape *sh,
                    const int64_t *value)
{
    struct point p = { .key = k->track, .span = OPM_NULL_ID, .name = k->name, .ph = 'E' };

    if (k->ts == NO_VALUE) {
        store_stat(ev->st, STAT_event_without_time, 1);
        return 0;
    }
    p.ts = value[k->ts];
    if (k->name == ev->empty)
        p.name = 0;
    if (args_string(ev, k, sh, value, &p.args) || !GROW(ev->point, ev->point_cap, ev->npoint + 1))
        return OPM_ENOMEM;
    ev->point[ev->npoint++] = p;
    return 0;
}

/* Beginnings and instants of async chains are spans at once; ends find them later. */
static int take_async(struct events *ev, struct kind *k, const struct event_shape *sh,
                      const int64_t *value)
{
    struct point p = { .span = OPM_NULL_ID, .name = k->name, .ph = k->ph };
    bool begins = strchr("bSN", k->ph) != NULL, ends = strchr("eFD", k->ph) != NULL;

    if (k->ts == NO_VALUE) {
        store_stat(ev->st, STAT_event_without_time, 1);
        return 0;
    }
    p.ts = value[k->ts];
    p.key = k->id == NO_VALUE ? k->key : events_hash(k->key, (uint64_t)value[k->id]);
    if (ends) {
        if (args_string(ev, k, sh, value, &p.args))
            return OPM_ENOMEM;
    } else {
        struct span_row row = SPAN_ROW_INIT;

        row.ts_ns = p.ts;
        row.dur_ns = begins ? -1 : 0;
        row.site = k->site;
        row.track = ev->first_track + k->track;
        if (store_add_span(ev->st, &row, &p.span) || set_args(ev, k, p.span, value))
            return OPM_ENOMEM;
        if (!begins)
            return 0;
    }
    if (!GROW(ev->async, ev->async_cap, ev->nasync + 1))
        return OPM_ENOMEM;
    ev->async[ev->nasync++] = p;
    return 0;
}

static int take_counter(struct events *ev, const struct kind *k, const int64_t *value)
{
    int rc = 0;

    if (k->ts == NO_VALUE) {
        store_stat(ev->st, STAT_event_without_time, 1);
        return 0;
    }
    for (size_t i = 0; i < k->nseries && !rc; i++) {
        const struct series *s = &k->series[i];

        rc = events_sample(ev, s->track, value[k->ts],
                           s->value == NO_VALUE ? s->same : hole_number(s->hole, value + s->value));
    }
    return rc;
}

static int take_flow(struct events *ev, const struct kind *k, const int64_t *value)
{
    const struct ev_track *t = &ev->track[k->track];
    struct flow_step f = { .key = k->key,
                           .span = OPM_NULL_ID,
                           .track = k->track,
                           .kind = k->cat ? k->cat : k->name,
                           .ph = k->ph,
                           .next = !k->bind_enclosing };

    if (k->ts == NO_VALUE) {
        store_stat(ev->st, STAT_event_without_time, 1);
        return 0;
    }
    f.ts = value[k->ts];
    if (k->id != NO_VALUE)
        f.key = events_hash(f.key, (uint64_t)value[k->id]);
    /* Kineto and others write an arrow right behind its span. */
    if (k->bind_enclosing && t->last != OPM_NULL_ID && t->last_ts == f.ts)
        f.span = t->last;
    return add_flow(ev, &f);
}

static int take_meta(struct events *ev, const struct event_shape *sh, const int64_t *value)
{
    const struct event_info *info = &ev->info;
    const struct member *name, *arg;
    struct ev_process *p;
    uint32_t process, track;
    str_id *to, text;

    if (!event_info_read(&ev->info, sh))
        return OPM_ENOMEM;
    name = member_find(&info->event, "name");
    arg = member_find(&info->args, "name");
    if (!name || name->token != JSON_STRING ||
        events_process(ev, info, member_find(&info->event, "pid"), &process))
        return name && name->token == JSON_STRING ? OPM_ENOMEM : 0;
    p = &ev->process[process];
    if (member_is(name, "process_name")) {
        to = &p->name;
    } else if (member_is(name, "process_labels")) {
        to = &p->labels;
        arg = member_find(&info->args, "labels");
    } else if (member_is(name, "thread_name")) {
        if (events_track(ev, info, member_find(&info->event, "pid"),
                         member_find(&info->event, "tid"), &track))
            return OPM_ENOMEM;
        to = &ev->track[track].name;
        if (ev->dialect->track && ev->dialect->track(ev, &ev->track[track], info))
            return OPM_ENOMEM;
    } else {
        return 0;
    }
    if (!arg)
        return 0;
    buf_clear(&ev->text);
    member_text(info, arg, value, &ev->text);
    if (ev->text.failed || store_str(ev->st, buf_str(&ev->text), ev->text.len, &text))
        return OPM_ENOMEM;
    if (*to && *to != text)
        store_stat(ev->st, STAT_duplicate_metadata, 1);
    *to = text;
    return 0;
}

static int take_one(struct events *ev, struct kind *k, const struct event_shape *sh,
                    const int64_t *value)
{
    switch (k->act) {
    case ACT_SPAN:
    case ACT_BEGIN:
    case ACT_INSTANT:
        return take_span(ev, k, value);
    case ACT_END:
        return take_end(ev, k, sh, value);
    case ACT_ASYNC:
        return take_async(ev, k, sh, value);
    case ACT_COUNTER:
        return take_counter(ev, k, value);
    case ACT_FLOW:
        return take_flow(ev, k, value);
    case ACT_META:
        return take_meta(ev, sh, value);
    default:
        store_stat(ev->st, STAT_event_unknown, 1);
        return 0;
    }
}

static void count_dirt(struct events *ev, unsigned dirt)
{
    static const enum stat_id stats[] = {
#define X(name, stat) STAT_##stat,
        EVENT_DIRT(X)
#undef X
    };

    for (size_t i = 0; i < ARRAY_SIZE(stats); i++)
        if (dirt >> i & 1)
            store_stat(ev->st, stats[i], 1);
}

static void count_batch(struct events *ev, const struct event_batch *b)
{
    static const enum stat_id stats[] = {
#define X(name, stat) STAT_##stat,
        EVENT_DIRT(X)
#undef X
    };

    for (size_t i = 0; i < ARRAY_SIZE(stats); i++)
        store_stat(ev->st, stats[i], b->dirt[i]);
    store_stat(ev->st, STAT_missing_comma, (int64_t)b->missing_commas);
    store_stat(ev->st, STAT_stray_comma, (int64_t)b->stray_commas);
    store_stat(ev->st, STAT_event_unreadable, (int64_t)b->skipped);
    store_stat(ev->st, STAT_text_cut, (int64_t)b->texts_cut);
    store_stat(ev->st, STAT_event_too_long, (int64_t)b->too_long);
    ev->cut |= b->cut;
}

/* Events as JSON to those who want them so. */
static int take_texts(struct events *ev, struct event_reader *r)
{
    const struct event_batch *b = &r->batch;
    const int64_t *value = b->value;

    for (size_t i = 0; i < b->n; i++) {
        const struct event_shape *sh = &r->shape[b->shape[i]];
        struct json_reader json;
        int rc;

        count_dirt(ev, sh->dirt);
        buf_clear(&ev->text);
        event_shape_text(sh, value, &ev->text);
        if (ev->text.failed)
            return OPM_ENOMEM;
        json = json_read_of(buf_str(&ev->text), ev->text.len);
        rc = json_read_next(&json) == JSON_OBJECT ? ev->dialect->event(ev, &json) : 0;
        if (rc)
            return rc;
        value += sh->nvalue;
    }
    ev->count += b->n;
    count_batch(ev, b);
    return 0;
}

int events_take(struct events *ev, struct event_reader *r)
{
    const struct event_batch *b = &r->batch;
    const int64_t *value = b->value;

    if (ev->dialect->event)
        return take_texts(ev, r);
    ev->arena = &r->users;
    for (size_t i = 0; i < b->n; i++) {
        struct event_shape *sh = &r->shape[b->shape[i]];
        struct kind *k;
        int rc;

        if (UNLIKELY(!sh->user) && events_make_kind(ev, sh))
            return OPM_ENOMEM;
        k = sh->user;
        if (UNLIKELY(k->dirt))
            count_dirt(ev, k->dirt);
        rc = LIKELY(k->act == ACT_SPAN) ? take_span(ev, k, value) : take_one(ev, k, sh, value);
        if (UNLIKELY(rc))
            return rc;
        value += sh->nvalue;
    }
    ev->count += b->n;
    count_batch(ev, b);
    return 0;
}

/* Scalars and short things of the outermost object become facts about the trace. */
int events_fact(struct events *ev, const char *key, const char *json, size_t len)
{
    struct json_reader r = json_read_of(json, len);
    struct buf name = { 0 };
    bool taken = false;
    int rc = 0;

    if (ev->dialect->fact)
        rc = ev->dialect->fact(ev, key, json, len, &taken);
    if (rc || taken)
        return rc;
    buf_clear(&ev->text);
    if (json_read_next(&r) == JSON_STRING)
        json_read_text(&r, &ev->text);
    else
        buf_add(&ev->text, json, len);
    buf_addf(&name, "%s.%s", ev->dialect->name, key);
    rc = name.failed || ev->text.failed ? OPM_ENOMEM
                                        : events_meta(ev, buf_str(&name), buf_str(&ev->text));
    buf_release(&name);
    return rc;
}

int events_finish(struct events *ev)
{
    int rc;

    if (ev->dialect->event)
        return 0;
    rc = events_meta(ev, "source.format", ev->dialect->name);
    if (!rc)
        rc = pairs_finish(ev);
    if (!rc)
        rc = async_finish(ev);
    if (!rc && ev->dialect->finish)
        rc = ev->dialect->finish(ev);
    if (!rc)
        rc = flows_finish(ev);
    if (!rc)
        rc = events_write_tracks(ev);
    return rc;
}
