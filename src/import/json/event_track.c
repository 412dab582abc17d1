/* event_track.c -- lines of the timeline: threads, streams, counters, async chains. */
#include "import/json/events.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>

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

int events_process(struct events *ev, const struct event_info *info, const struct member *pid,
                   uint32_t *out)
{
    struct ev_process p = { .rank = OPM_NULL_I64 };
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

    if (events_process(ev, info, pid, &t.process) ||
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

/* The line of async events of one category in one process. */
int events_async_track(struct events *ev, struct kind *k, const struct event_info *info)
{
    struct ev_track t = { .kind = "async", .tid = OPM_NULL_I64, .last = OPM_NULL_ID };
    bool is_new;

    t.name = k->cat ? k->cat : k->name;
    if (events_process(ev, info, member_find(&info->event, "pid"), &t.process) ||
        index_of(&ev->series_by, events_hash(events_hash(0x6173796e63, t.process), t.name),
                 ev->ntrack, &k->track, &is_new))
        return OPM_ENOMEM;
    return is_new ? add_track(ev, &t) : 0;
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

int events_write_tracks(struct events *ev)
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
            row[track_col_rank] = cell_i64(p->rank);
            if (p->host)
                row[track_col_host] = cell_str(p->host);
            row[track_col_process] = cell_str(p->name ? p->name : p->fallback);
        }
        if (store_add(ev->st, TABLE_track, row, NULL))
            return OPM_ENOMEM;
    }
    return 0;
}
