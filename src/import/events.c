/* events.c -- see events.h. */
#include "import/events.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char event_phases[] =
    "BEXiIRPOVvNDc(),"; /* kept as spans or instants; see kind_act() */

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
    arena_release(&ev->arena);
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

void events_forget(struct events *ev)
{
    arena_release(&ev->arena);
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

/* What tells one pid or tid from another: numbers and texts never meet. *number and *text are what
 * it is; both may be NULL for one that is missing. */
static int identity(struct events *ev, const struct event_info *info, const struct member *m,
                    uint64_t *out, int64_t *number, str_id *text)
{
    *number = OPM_NULL_I64;
    *text = 0;
    *out = UINT64_MAX;
    if (!m || m->token == JSON_NULL)
        return 0;
    if (member_int(m, number)) {
        *out = (uint64_t)*number << 1;
        if (m->token == JSON_STRING)
            store_stat(ev->st, STAT_text_id, 1);
        return 0;
    }
    buf_clear(&ev->text);
    member_text(info, m, NULL, &ev->text);
    if (ev->text.failed || store_str(ev->st, buf_str(&ev->text), ev->text.len, text))
        return OPM_ENOMEM;
    store_stat(ev->st, STAT_text_id, 1);
    *out = (uint64_t)*text << 1 | 1;
    return 0;
}

/* The index for key in map, a new one (*n) if there is none; *is_new tells. */
static int index_of(struct u64map *map, uint64_t key, size_t n, uint32_t *out, bool *is_new)
{
    const uint64_t *known = u64map_get(map, key);

    *is_new = !known;
    *out = known ? (uint32_t)*known : (uint32_t)n;
    return known ? 0 : u64map_put(map, key, n);
}

static int find_process(struct events *ev, const struct event_info *info, const struct member *pid,
                        uint32_t *out)
{
    struct ev_process p = { 0 };
    uint64_t key;
    bool is_new;

    if (identity(ev, info, pid, &key, &p.pid, &p.fallback) ||
        index_of(&ev->process_by, key, ev->nprocess, out, &is_new))
        return OPM_ENOMEM;
    if (is_new) {
        if (!GROW(ev->process, ev->process_cap, ev->nprocess + 1))
            return OPM_ENOMEM;
        ev->process[ev->nprocess++] = p;
    }
    return 0;
}

static int add_track(struct events *ev, const struct ev_track *t)
{
    if (!GROW(ev->track, ev->track_cap, ev->ntrack + 1))
        return OPM_ENOMEM;
    ev->track[ev->ntrack++] = *t;
    return 0;
}

int events_track(struct events *ev, const struct event_info *info, const struct member *pid,
                 const struct member *tid, uint32_t *out)
{
    struct ev_track t = { .kind = "thread", .last = OPM_NULL_ID };
    uint32_t thread;
    uint64_t key;
    bool is_new;

    if (find_process(ev, info, pid, &t.process) ||
        identity(ev, info, tid, &key, &t.tid, &t.fallback) ||
        index_of(&ev->thread_by, key, ev->thread_by.n, &thread, &is_new) ||
        index_of(&ev->track_by, (uint64_t)t.process << 32 | thread, ev->ntrack, out, &is_new))
        return OPM_ENOMEM;
    return is_new ? add_track(ev, &t) : 0;
}

int events_series(struct events *ev, uint32_t process, uint64_t key, const char *name, size_t len,
                  uint32_t *out)
{
    struct ev_track t = {
        .kind = "counter", .process = process, .tid = OPM_NULL_I64, .last = OPM_NULL_ID
    };
    bool is_new;

    if (store_str(ev->st, name, len, &t.name) ||
        index_of(&ev->series_by, events_hash(events_hash(key, process), t.name), ev->ntrack, out,
                 &is_new))
        return OPM_ENOMEM;
    return is_new ? add_track(ev, &t) : 0;
}

int events_sample(struct events *ev, uint32_t track, int64_t ts_ns, double value)
{
    return store_add(
        ev->st, TABLE_sample,
        (struct cell[sample_col_COUNT]){ [sample_col_ts] = cell_i64(ts_ns),
                                         [sample_col_track] = cell_id(ev->first_track + track),
                                         [sample_col_value] = cell_f64(value) },
        NULL);
}

/* Is this member of the event told by a column, or by what becomes of the event? */
static bool is_column(const struct kind *k, const struct member *m)
{
    static const char *const keys[] = { "name", "cat", "ph", "pid", "tid", "ts", "dur", "args" };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (json_read_is(&m->key, keys[i]))
            return true;
    if (json_read_is(&m->key, "dur"))
        return k->ph == 'X';
    if (json_read_is(&m->key, "id") || json_read_is(&m->key, "bp"))
        return k->act == ACT_FLOW || k->act == ACT_COUNTER;
    return json_read_is(&m->key, "s") && k->act == ACT_INSTANT && member_is(m, "t");
}

static void form_member(struct events *ev, const struct event_info *info, const struct member *m,
                        uint16_t *index, unsigned *n, bool *first)
{
    if (!*first)
        buf_addc(&ev->form, ',');
    *first = false;
    buf_addc(&ev->form, '"');
    buf_add(&ev->form, m->key.text, m->key.len);
    buf_adds(&ev->form, "\":");
    member_form(info, m, &ev->form, index, n);
}

/* Make the form of a kind's args: those of the event but for `taken`, and members of the event that
 * nothing else holds. */
static int make_form(struct events *ev, struct kind *k, const struct event_info *info,
                     const struct member *taken)
{
    uint16_t index[2 * EVENT_HOLES_MAX];
    unsigned n = 0;
    bool first = true;
    const struct member *args = member_find(&info->event, "args");

    k->form = OPM_NULL_ID;
    buf_clear(&ev->form);
    buf_addc(&ev->form, '{');
    for (size_t i = 0; i < info->args.n; i++)
        if (&info->args.m[i] != taken)
            form_member(ev, info, &info->args.m[i], index, &n, &first);
    for (size_t i = 0; i < info->event.n; i++) {
        const struct member *m = &info->event.m[i];

        if (!is_column(k, m) ||
            (m == args && args->token != JSON_OBJECT && args->token != JSON_NULL))
            form_member(ev, info, m, index, &n, &first);
    }
    if (!strchr("XBEiI", k->ph) && k->act == ACT_INSTANT) {
        buf_addf(&ev->form, "%s\"ph\":\"%c\"", first ? "" : ",", k->ph);
        first = false;
    }
    buf_addc(&ev->form, '}');
    if (first)
        return 0;
    if (ev->form.failed || store_args_form(ev->st, ev->form.data, ev->form.len, &k->form))
        return OPM_ENOMEM;
    k->nform = (uint16_t)n;
    k->form_value = arena_alloc(&ev->arena, (n + 1) * sizeof(*index));
    if (!k->form_value)
        return OPM_ENOMEM;
    memcpy(k->form_value, index, n * sizeof(*index));
    k->form_run = n > 0;
    for (unsigned i = 1; i < n; i++)
        k->form_run &= index[i] == index[0] + i;
    return 0;
}

static enum act kind_act(char ph)
{
    switch (ph) {
    case 'X':
        return ACT_SPAN;
    case 'B':
        return ACT_BEGIN;
    case 'E':
        return ACT_END;
    case 'C':
        return ACT_COUNTER;
    case 'M':
        return ACT_META;
    case 's':
    case 't':
    case 'f':
        return ACT_FLOW;
    case 'b':
    case 'n':
    case 'e':
    case 'S':
    case 'T':
    case 'p':
    case 'F':
    case 'N':
    case 'D':
        return ACT_ASYNC;
    default:
        return memchr(event_phases, ph, sizeof(event_phases) - 1) ? ACT_INSTANT : ACT_SKIP;
    }
}

static int member_str(struct events *ev, const struct event_info *info, const struct member *m,
                      str_id *out)
{
    *out = 0;
    if (!m || m->token == JSON_NULL)
        return 0;
    buf_clear(&ev->text);
    member_text(info, m, NULL, &ev->text);
    return ev->text.failed || store_str(ev->st, buf_str(&ev->text), ev->text.len, out) ? OPM_ENOMEM
                                                                                       : 0;
}

/* What an id adds to a key: nothing if it is a hole, whose value comes later. */
static int id_key(struct events *ev, const struct event_info *info, const struct member *m,
                  uint16_t *value, uint64_t *key)
{
    str_id text;

    *value = m ? m->value : NO_VALUE;
    if (!m || m->value != NO_VALUE)
        return 0;
    if (member_str(ev, info, m, &text))
        return OPM_ENOMEM;
    *key = events_hash(*key, text);
    return 0;
}

/* The id of an async or flow event: id, or id2 with its scope; and "scope". */
static int find_id(struct events *ev, struct kind *k, const struct event_info *info)
{
    const struct member *id = member_find(&info->event, "id");
    const struct member *id2 = member_find(&info->event, "id2");
    const struct member *pid = member_find(&info->event, "pid");
    const struct shape *sh = info->shape;
    str_id scope;

    k->id = NO_VALUE;
    if (member_str(ev, info, member_find(&info->event, "scope"), &scope))
        return OPM_ENOMEM;
    k->key = events_hash(k->key, scope);
    if (!id && id2 && id2->token == JSON_OBJECT) {
        struct json_reader r = json_read_of(sh->strict + id2->from, id2->to - id2->from);
        struct member m = { .value = NO_VALUE };
        uint16_t value = 0;

        json_read_next(&r);
        if (json_read_next(&r) != JSON_KEY)
            return 0;
        if (json_read_is(&r, "local")) {
            uint32_t process;

            if (find_process(ev, info, pid, &process))
                return OPM_ENOMEM;
            k->key = events_hash(k->key, (uint64_t)process + 1);
        }
        m.token = json_read_next(&r);
        m.at = r;
        m.from = (uint32_t)(r.text - sh->strict);
        m.to = m.from + (uint32_t)r.len;
        for (unsigned i = 0; i < sh->nhole; i++) {
            const struct hole *h = &sh->strict_hole[i];

            if (h->at == m.from && h->len == r.len) {
                m.value = value;
                m.hole = h->type;
            }
            value = (uint16_t)(value + (h->type == HOLE_DECIMAL ? 2 : 1));
        }
        if (m.token != JSON_STRING && m.token != JSON_NUMBER)
            return 0;
        return id_key(ev, info, &m, &k->id, &k->key);
    }
    return id_key(ev, info, id, &k->id, &k->key);
}

/* The series of a counter event, one for each number in args. */
static int make_series(struct events *ev, struct kind *k, const struct event_info *info)
{
    const struct member *id = member_find(&info->event, "id");
    size_t numbers = 0;
    uint32_t process;
    str_id id_text;

    if (find_process(ev, info, member_find(&info->event, "pid"), &process) ||
        member_str(ev, info, id, &id_text))
        return OPM_ENOMEM;
    k->series = arena_alloc(&ev->arena, (info->args.n + 1) * sizeof(*k->series));
    if (!k->series)
        return OPM_ENOMEM;
    for (size_t i = 0; i < info->args.n; i++)
        numbers += info->args.m[i].token == JSON_NUMBER || info->args.m[i].value != NO_VALUE;
    for (size_t i = 0; i < info->args.n; i++) {
        const struct member *m = &info->args.m[i];
        struct series *s = &k->series[k->nseries];

        *s = (struct series){ .value = m->value, .hole = m->hole };
        if (m->value == NO_VALUE && ((m->token != JSON_NUMBER && m->token != JSON_STRING) ||
                                     !json_read_real(&m->at, &s->same))) {
            store_stat(ev->st, STAT_counter_without_number, 1);
            continue;
        }
        buf_clear(&ev->text);
        buf_adds(&ev->text, store_text(ev->st, k->name));
        if (id)
            buf_addf(&ev->text, " %s", store_text(ev->st, id_text));
        if (numbers > 1 || (!json_read_is(&m->key, "value") &&
                            !json_read_is(&m->key, store_text(ev->st, k->name)))) {
            buf_addc(&ev->text, ' ');
            json_read_text(&m->key, &ev->text);
        }
        if (ev->text.failed ||
            events_series(ev, process, 0, buf_str(&ev->text), ev->text.len, &s->track))
            return OPM_ENOMEM;
        k->nseries++;
    }
    return 0;
}

/* The line of async events of one category in one process. */
static int async_track(struct events *ev, struct kind *k, const struct event_info *info)
{
    struct ev_track t = { .kind = "async", .tid = OPM_NULL_I64, .last = OPM_NULL_ID };
    bool is_new;

    t.name = k->cat ? k->cat : k->name;
    if (find_process(ev, info, member_find(&info->event, "pid"), &t.process) ||
        index_of(&ev->series_by, events_hash(events_hash(0x6173796e63, t.process), t.name),
                 ev->ntrack, &k->track, &is_new))
        return OPM_ENOMEM;
    return is_new ? add_track(ev, &t) : 0;
}

/* Times: as a hole, or not at all. */
static void find_times(struct kind *k, const struct event_info *info)
{
    const struct member *ts = member_find(&info->event, "ts");
    const struct member *dur = member_find(&info->event, "dur");

    k->ts = ts && ts->hole == HOLE_TIME ? ts->value : NO_VALUE;
    k->dur = dur && dur->hole == HOLE_TIME ? dur->value : NO_VALUE;
}

static int make_kind(struct events *ev, struct shape *sh)
{
    const struct event_info *info = &ev->info;
    struct kind *k = arena_alloc(&ev->arena, sizeof(*k));
    const struct member *ph, *m, *taken = NULL;
    struct site site = { .layer = ev->layer_app, .op = OPM_NULL_ID };

    if (!k || !event_info_read(&ev->info, sh))
        return OPM_ENOMEM;
    k->dirt = sh->dirt;
    k->correlation = k->external = k->bind_id = k->id = NO_VALUE;
    ph = member_find(&info->event, "ph");
    k->ph = ph && ph->token == JSON_STRING && ph->at.len == 1 ? ph->at.text[0] : '\0';
    if (!ph) /* an entry of "samples" */
        k->ph = member_find(&info->event, "sf") || member_find(&info->event, "weight") ? 'P' : '\0';
    k->act = (uint8_t)kind_act(k->ph);
    sh->user = k;
    if (k->act == ACT_SKIP || k->act == ACT_META)
        return 0;
    find_times(k, info);
    m = member_find(&info->event, "name");
    if (member_str(ev, info, m, &k->name) ||
        member_str(ev, info, member_find(&info->event, "cat"), &k->cat))
        return OPM_ENOMEM;
    if (!k->name)
        k->name = ev->empty;
    site.name = k->name;
    site.cat = k->cat;
    if (k->act == ACT_COUNTER)
        return make_series(ev, k, info);
    if (k->act == ACT_ASYNC ? async_track(ev, k, info)
                            : events_track(ev, info, member_find(&info->event, "pid"),
                                           member_find(&info->event, "tid"), &k->track))
        return OPM_ENOMEM;
    if (k->act == ACT_FLOW || k->act == ACT_ASYNC) {
        k->key = events_hash(k->cat, k->act == ACT_FLOW || strchr("STpFND", k->ph) ? k->name : 0);
        if (find_id(ev, k, info))
            return OPM_ENOMEM;
    }
    if (k->act == ACT_FLOW) {
        k->bind_enclosing = k->ph != 'f' || member_is(member_find(&info->event, "bp"), "e");
        return 0;
    }
    m = member_find(&info->event, "bind_id");
    if (m) {
        k->bind_key = events_hash(0x62696e64, 0);
        if (id_key(ev, info, m, &k->bind_id, &k->bind_key))
            return OPM_ENOMEM;
        m = member_find(&info->event, "flow_in");
        k->flow_in = m && m->token == JSON_TRUE;
        m = member_find(&info->event, "flow_out");
        k->flow_out = m && m->token == JSON_TRUE;
    }
    if (ev->dialect->args_correlation) {
        taken = member_find(&info->args, "correlation");
        if (taken && taken->value != NO_VALUE && taken->hole == HOLE_INT)
            k->correlation = taken->value;
        else
            taken = NULL;
    }
    if (ev->dialect->kind && ev->dialect->kind(ev, k, info, &site))
        return OPM_ENOMEM;
    if (store_site(ev->st, &site, &k->site))
        return OPM_ENOMEM;
    return make_form(ev, k, info, taken);
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
static int args_string(struct events *ev, const struct kind *k, const struct shape *sh,
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

static int take_end(struct events *ev, const struct kind *k, const struct shape *sh,
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
static int take_async(struct events *ev, struct kind *k, const struct shape *sh,
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

static int take_meta(struct events *ev, const struct shape *sh, const int64_t *value)
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
        find_process(ev, info, member_find(&info->event, "pid"), &process))
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

static int take_one(struct events *ev, struct kind *k, const struct shape *sh, const int64_t *value)
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
}

int events_take(struct events *ev, struct event_reader *r)
{
    const struct event_batch *b = &r->batch;
    const int64_t *value = b->value;

    for (size_t i = 0; i < b->n; i++) {
        struct shape *sh = &r->shape[b->shape[i]];
        struct kind *k;
        int rc;

        if (UNLIKELY(!sh->user) && make_kind(ev, sh))
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

/* The label of a line that nobody named. */
static int track_label(struct events *ev, const struct ev_track *t, str_id *out)
{
    char text[48];

    *out = t->name ? t->name : t->fallback;
    if (*out || t->tid == OPM_NULL_I64)
        return 0;
    snprintf(text, sizeof(text), "%s %" PRId64, t->kind, t->tid);
    return store_cstr(ev->st, text, out);
}

static int write_tracks(struct events *ev)
{
    for (size_t i = 0; i < ev->ntrack; i++) {
        const struct ev_track *t = &ev->track[i];
        const struct ev_process *p = t->process == OPM_NULL_ID ? NULL : &ev->process[t->process];
        struct cell row[track_col_COUNT] = { 0 };
        str_id kind, name;

        for (int c = 0; c < track_col_COUNT; c++)
            row[c] = cell_null();
        if (store_cstr(ev->st, t->kind, &kind) || track_label(ev, t, &name))
            return OPM_ENOMEM;
        row[track_col_kind] = cell_str(kind);
        row[track_col_name] = cell_str(name);
        row[track_col_tid] = cell_i64(t->tid);
        row[track_col_device] = cell_str(t->device);
        row[track_col_unit] = cell_str(t->unit);
        row[track_col_host] = cell_str(ev->host);
        if (p) {
            row[track_col_pid] = cell_i64(p->pid);
            row[track_col_process] = cell_str(p->name ? p->name : p->fallback);
        }
        if (store_add(ev->st, TABLE_track, row, NULL))
            return OPM_ENOMEM;
    }
    return 0;
}

int events_finish(struct events *ev)
{
    int rc = events_meta(ev, "source.format", ev->dialect->name);

    if (!rc)
        rc = pairs_finish(ev);
    if (!rc)
        rc = async_finish(ev);
    if (!rc && ev->dialect->finish)
        rc = ev->dialect->finish(ev);
    if (!rc)
        rc = flows_finish(ev);
    if (!rc)
        rc = write_tracks(ev);
    return rc;
}
