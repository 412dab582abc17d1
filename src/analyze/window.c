/* window.c -- see window.h. */
#include "analyze/window.h"

#include "analyze/coverage.h"
#include "analyze/groups.h"
#include "analyze/span_class.h"
#include "base/alloc.h"
#include "base/u64map.h"
#include <stdlib.h>
#include <string.h>

/* The columns of span that are looked at. */
struct columns {
    const int64_t *ts, *dur;
    const uint32_t *track, *site, *step;
    const struct site *sites;
    size_t n;
    uint8_t *class;
    str_id hardware;
};

static bool is_device_work(const struct columns *c, size_t i)
{
    enum span_class class = c->class[c->site[i]];

    return (class == CLASS_COMPUTE || class == CLASS_COMM || class == CLASS_COPY) && c->hardware &&
           c->sites[c->site[i]].layer == c->hardware;
}

/* Of computations, not of exchanges. */
static bool is_computation(const struct columns *c, const struct place *p, size_t i)
{
    enum span_class class = c->class[c->site[i]];

    if (p->device)
        return is_device_work(c, i) && class != CLASS_COMM;
    return class == CLASS_OPERATOR || class == CLASS_BACKWARD || class == CLASS_OPTIMIZER ||
           class == CLASS_COMPUTE;
}

static int columns_get(struct columns *c, const struct store *st)
{
    const void *ts = NULL, *dur = NULL, *track = NULL, *step = NULL;
    size_t nsite;

    *c = (struct columns){ .n = store_nrow(st, TABLE_span),
                           .site = store_span_site(st),
                           .sites = store_sites(st, &nsite),
                           .class = span_classes(st),
                           .hardware = strpool_find(store_strings(st), "hardware", 8) };
    if (!c->class || store_column(st, TABLE_span, span_col_ts, &ts) < 0 ||
        store_column(st, TABLE_span, span_col_dur, &dur) < 0 ||
        store_column(st, TABLE_span, span_col_track, &track) < 0 ||
        store_column(st, TABLE_span, span_col_step, &step) < 0)
        return OPM_ENOMEM;
    c->ts = ts;
    c->dur = dur;
    c->track = track;
    c->step = step;
    if (!ts || !dur || !track)
        c->n = 0;
    return 0;
}

/* ---- places ---- */

static int place_add(struct windows *w, size_t *cap, struct place p)
{
    if (!GROW(w->place, *cap, w->nplace + 1))
        return OPM_ENOMEM;
    w->place[w->nplace++] = p;
    return 0;
}

static uint64_t key_of(const struct store *st, size_t track, bool device)
{
    struct cell name = store_cell(st, TABLE_track, track, track_col_device);
    struct cell host = store_cell(st, TABLE_track, track, track_col_host);
    uint64_t key = (uint64_t)store_i64_or(st, TABLE_track, track, track_col_rank, OPM_NULL_I64);

    if (device) {
        key = (key ^ cell_text_id(name)) * 0x9e3779b97f4a7c15u;
        key = (key ^ key >> 29 ^ cell_text_id(host)) * 0xbf58476d1ce4e5b9u;
    }
    return key ^ key >> 32;
}

/* Devices are places if anything was recorded on them; then ranks that have none. */
static int places_find(struct windows *w, const struct store *st, const struct columns *c)
{
    bool *works = mem_calloc(w->ntrack + 1, sizeof(*works));
    struct u64map devices = { 0 }, ranks = { 0 };
    size_t cap = 0;
    int rc = works ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < c->n && rc == 0; i++)
        if (c->track[i] < w->ntrack && is_device_work(c, i))
            works[c->track[i]] = true;
    for (size_t t = 0; t < w->ntrack && rc == 0; t++) {
        uint64_t key = key_of(st, t, true);
        const uint64_t *at = works[t] ? u64map_get(&devices, key) : NULL;
        int64_t rank = store_i64_or(st, TABLE_track, t, track_col_rank, OPM_NULL_I64);

        w->place_of[t] = at ? (uint32_t)*at : OPM_NULL_ID;
        if (!works[t] || at)
            continue;
        w->place_of[t] = (uint32_t)w->nplace;
        rc = u64map_put(&devices, key, w->nplace);
        if (rc == 0)
            rc = u64map_put(&ranks, (uint64_t)rank, w->nplace);
        if (rc == 0)
            rc = place_add(w, &cap,
                           (struct place){ .track = (uint32_t)t, .rank = rank, .device = true });
    }
    for (size_t t = 0; t < w->ntrack && rc == 0; t++) {
        int64_t rank = store_i64_or(st, TABLE_track, t, track_col_rank, OPM_NULL_I64);
        const uint64_t *at = u64map_get(&ranks, (uint64_t)rank);

        /* A host that tells no rank is that of all devices. */
        if (w->place_of[t] != OPM_NULL_ID || (rank == OPM_NULL_I64 && devices.n))
            continue;
        if (at) {
            if (!w->place[*at].device)
                w->place_of[t] = (uint32_t)*at;
            continue;
        }
        w->place_of[t] = (uint32_t)w->nplace;
        rc = u64map_put(&ranks, (uint64_t)rank, w->nplace);
        if (rc == 0)
            rc = place_add(w, &cap, (struct place){ .track = (uint32_t)t, .rank = rank });
    }
    u64map_release(&devices);
    u64map_release(&ranks);
    mem_free(works);
    return rc;
}

static int places_look(struct windows *w, const struct columns *c, const struct coverage *cover)
{
    uint32_t *n = mem_calloc(w->nplace * cover->nlog + 1, sizeof(*n));

    if (!n)
        return OPM_ENOMEM;
    for (size_t i = 0; i < w->nplace; i++)
        w->place[i].first_ns = w->place[i].last_ns = OPM_NULL_I64;
    for (size_t i = 0; i < c->n; i++) {
        uint32_t at = c->track[i] < w->ntrack ? w->place_of[c->track[i]] : OPM_NULL_ID;
        struct place *p = at == OPM_NULL_ID ? NULL : &w->place[at];

        if (!p || c->dur[i] < 0 || (p->device && !is_device_work(c, i)))
            continue;
        if (is_computation(c, p, i))
            n[at * cover->nlog + coverage_log(cover, c->track[i], p->device)]++;
        if (p->first_ns == OPM_NULL_I64)
            p->first_ns = c->ts[i]; /* spans come by their starts */
        if (p->last_ns == OPM_NULL_I64 || add_ns(c->ts[i], c->dur[i]) > p->last_ns)
            p->last_ns = add_ns(c->ts[i], c->dur[i]);
    }
    for (size_t i = 0; i < w->nplace; i++) {
        const uint32_t *of = n + i * cover->nlog;

        w->place[i].log = OPM_NULL_ID;
        for (uint32_t log = 0; log < cover->nlog; log++)
            if (of[log] && (w->place[i].log == OPM_NULL_ID || of[log] > of[w->place[i].log]))
                w->place[i].log = log;
    }
    mem_free(n);
    return 0;
}

/* ---- windows ---- */

static bool belongs(const struct place *p, const struct step_row *step)
{
    return p->rank == OPM_NULL_I64 || step->rank == OPM_NULL_I64 || p->rank == step->rank;
}

static uint64_t window_key(uint32_t place, uint32_t step)
{
    return (uint64_t)place << 32 | step;
}

/* As the host has them, to begin with. */
static int list_windows(struct windows *w, const struct step_list *l, const struct coverage *cover,
                        struct u64map *index)
{
    size_t cap = 0;
    int rc = 0;

    for (uint32_t p = 0; p < w->nplace && rc == 0; p++) {
        for (size_t i = 0; i < l->n && rc == 0; i++) {
            const struct step_row *s = &l->row[i];
            uint32_t log = w->place[p].log;

            if (!belongs(&w->place[p], s))
                continue;
            if (!GROW(w->at, cap, w->n + 1))
                return OPM_ENOMEM;
            w->at[w->n] =
                (struct window){ p, (uint32_t)i, s->from_ns, s->to_ns,
                                 log == OPM_NULL_ID || coverage_has(cover, log, s->step) };
            rc = u64map_put(index, window_key(p, s->step), w->n++);
        }
    }
    return rc;
}

/* Until the last of what a step launched is done. */
static void extend(struct windows *w, const struct columns *c, const struct u64map *index)
{
    for (size_t i = 0; i < c->n && c->step; i++) {
        uint32_t at = c->track[i] < w->ntrack ? w->place_of[c->track[i]] : OPM_NULL_ID;
        const uint64_t *found;
        struct window *win;

        if (at == OPM_NULL_ID || c->step[i] == OPM_NULL_ID || c->dur[i] < 0)
            continue;
        found = u64map_get(index, window_key(at, c->step[i]));
        if (!found)
            continue;
        win = &w->at[*found];
        if (w->place[at].device && is_device_work(c, i) && add_ns(c->ts[i], c->dur[i]) > win->to_ns)
            win->to_ns = add_ns(c->ts[i], c->dur[i]);
    }
}

/* Steps of one series follow one another on a device, whatever the host has queued meanwhile. */
static int part(struct windows *w, const struct store *st, const struct step_list *l)
{
    struct u64map until = { 0 }; /* of every series */
    int rc = 0;

    for (size_t i = 0; i < w->n && rc == 0; i++) {
        struct window *win = &w->at[i];
        const struct step_row *s = &l->row[win->row];
        int64_t track = store_i64_or(st, TABLE_step, s->step, step_col_track, OPM_NULL_I64);
        uint64_t key = (uint64_t)track << 32 | s->model;
        const uint64_t *end;

        if (i && w->at[i - 1].place != win->place)
            u64map_release(&until);
        if (!w->place[win->place].device)
            continue;
        /* Before its first record a device may have been busy with what nobody recorded. */
        win->recorded &= win->to_ns > w->place[win->place].first_ns;
        if (win->recorded)
            win->from_ns = MAX(win->from_ns, w->place[win->place].first_ns);
        end = u64map_get(&until, key);
        if (end && (int64_t)*end > win->from_ns)
            win->from_ns = (int64_t)*end;
        win->to_ns = MAX(win->to_ns, win->from_ns);
        rc = u64map_put(&until, key, (uint64_t)win->to_ns);
    }
    u64map_release(&until);
    return rc;
}

static int whole_trace(struct windows *w)
{
    size_t cap = 0;

    for (uint32_t p = 0; p < w->nplace; p++) {
        if (w->place[p].first_ns == OPM_NULL_I64 || w->place[p].last_ns <= w->place[p].first_ns)
            continue;
        if (!GROW(w->at, cap, w->n + 1))
            return OPM_ENOMEM;
        w->at[w->n++] =
            (struct window){ p, OPM_NULL_ID, w->place[p].first_ns, w->place[p].last_ns, true };
    }
    return 0;
}

int windows_get(struct windows *w, const struct store *st, const struct step_list *steps)
{
    struct u64map index = { 0 };
    struct coverage cover = { 0 };
    struct columns c = { 0 };
    int rc;

    *w = (struct windows){ .ntrack = store_nrow(st, TABLE_track) };
    w->place_of = mem_alloc((w->ntrack + 1) * sizeof(*w->place_of));
    rc = w->place_of ? columns_get(&c, st) : OPM_ENOMEM;
    if (rc == 0)
        rc = places_find(w, st, &c);
    if (rc == 0)
        rc = coverage_find(&cover, st);
    if (rc == 0)
        rc = places_look(w, &c, &cover);
    if (rc == 0)
        rc = steps->found || !steps->n ? whole_trace(w) : list_windows(w, steps, &cover, &index);
    if (rc == 0 && !steps->found && steps->n) {
        extend(w, &c, &index);
        rc = part(w, st, steps);
    }
    u64map_release(&index);
    coverage_release(&cover);
    mem_free(c.class);
    return rc;
}

void windows_release(struct windows *w)
{
    mem_free(w->place);
    mem_free(w->place_of);
    mem_free(w->at);
    *w = (struct windows){ 0 };
}
