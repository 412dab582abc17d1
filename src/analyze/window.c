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
        /* Scattered before the name comes in: both count up together where rank r has GPU r. */
        key *= 0xd6e8feb86659fd93u;
        key = (key ^ key >> 32 ^ cell_text_id(name)) * 0x9e3779b97f4a7c15u;
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

        bool whole = store_cell(st, TABLE_track, t, track_col_log).kind != CELL_STR;

        w->place_of[t] = at ? (uint32_t)*at : OPM_NULL_ID;
        if (at)
            w->place[*at].whole |= whole;
        if (!works[t] || at)
            continue;
        w->place_of[t] = (uint32_t)w->nplace;
        rc = u64map_put(&devices, key, w->nplace);
        if (rc == 0)
            rc = u64map_put(&ranks, (uint64_t)rank, w->nplace);
        if (rc == 0)
            rc =
                place_add(w, &cap,
                          (struct place){
                              .track = (uint32_t)t, .rank = rank, .device = true, .whole = whole });
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

/* n[place][log]: computations. */
static void places_look(struct windows *w, const struct columns *c, const struct coverage *cover,
                        uint32_t *n)
{
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
}

/* Of the logs of one source, or of all, the one with most computations; OPM_NULL_ID: none has any.
 * n: those of one place. */
static uint32_t log_with_most(const uint32_t *n, const struct coverage *cover, bool all,
                              int64_t source)
{
    uint32_t best = OPM_NULL_ID;

    for (uint32_t log = 0; log < cover->nlog; log++)
        if (n[log] && (all || cover->log[log].source == source) &&
            (best == OPM_NULL_ID || n[log] > n[best]))
            best = log;
    return best;
}

/* ---- windows ---- */

/* What tells whether steps belong to a place, and whether it was recorded in them. */
struct listing {
    const struct store *st;
    const struct step_list *l;
    const struct coverage *cover;
    const uint32_t *n;    /* as of places_look */
    struct u64map marked; /* sources that mark steps */
    struct u64map index;  /* place and step -> window */
};

static int64_t source_of(const struct store *st, const struct step_row *s)
{
    int64_t track = store_i64_or(st, TABLE_step, s->step, step_col_track, OPM_NULL_I64);

    if (track == OPM_NULL_I64)
        return track;
    return store_i64_or(st, TABLE_track, (size_t)track, track_col_source, OPM_NULL_I64);
}

static bool same_rank(const struct place *p, const struct step_row *step)
{
    return p->rank == OPM_NULL_I64 || step->rank == OPM_NULL_I64 || p->rank == step->rank;
}

static uint64_t window_key(uint32_t place, uint32_t step)
{
    return (uint64_t)place << 32 | step;
}

/* As the host has it, to begin with. */
static int list_window(struct windows *w, size_t *cap, struct listing *of, uint32_t place,
                       uint32_t row)
{
    const struct step_row *s = &of->l->row[row];
    const uint32_t *n = of->n + place * of->cover->nlog;
    int64_t source = source_of(of->st, s);
    uint32_t log = log_with_most(n, of->cover, false, source);
    struct window win = { .place = place, .row = row, .from_ns = s->from_ns, .to_ns = s->to_ns };

    if (log == OPM_NULL_ID) {
        log = log_with_most(n, of->cover, true, 0);
        /* A place that others tell of, who mark steps of their own. */
        if (log != OPM_NULL_ID && of->cover->log[log].source != source &&
            u64map_get(&of->marked, (uint64_t)of->cover->log[log].source))
            return 0;
    }
    win.recorded = log == OPM_NULL_ID ? !w->place[place].device || w->place[place].whole
                                      : coverage_has(of->cover, log, s->step);
    if (!GROW(w->at, *cap, w->n + 1))
        return OPM_ENOMEM;
    w->at[w->n] = win;
    return u64map_put(&of->index, window_key(place, s->step), w->n++);
}

static int list_windows(struct windows *w, struct listing *of)
{
    size_t cap = 0;
    int rc = 0;

    for (size_t i = 0; i < of->l->n && rc == 0; i++)
        rc = u64map_put(&of->marked, (uint64_t)source_of(of->st, &of->l->row[i]), 1);
    for (uint32_t p = 0; p < w->nplace && rc == 0; p++)
        for (uint32_t i = 0; i < of->l->n && rc == 0; i++)
            if (same_rank(&w->place[p], &of->l->row[i]))
                rc = list_window(w, &cap, of, p, i);
    return rc;
}

/* Does the device itself mark the step, so that it is known from when to when it is there? */
static bool marked_there(const struct windows *w, const struct listing *of,
                         const struct window *win)
{
    int64_t track =
        store_i64_or(of->st, TABLE_step, of->l->row[win->row].step, step_col_track, OPM_NULL_I64);
    struct cell marks, there;

    if (track == OPM_NULL_I64)
        return false;
    marks = store_cell(of->st, TABLE_track, (size_t)track, track_col_device);
    there = store_cell(of->st, TABLE_track, w->place[win->place].track, track_col_device);
    return marks.kind == CELL_STR && there.kind == CELL_STR && marks.str == there.str;
}

/* Until the last of what a step launched is done. */
static void extend(struct windows *w, const struct columns *c, const struct listing *of)
{
    for (size_t i = 0; i < c->n && c->step; i++) {
        uint32_t at = c->track[i] < w->ntrack ? w->place_of[c->track[i]] : OPM_NULL_ID;
        const uint64_t *found;
        struct window *win;

        if (at == OPM_NULL_ID || c->step[i] == OPM_NULL_ID || c->dur[i] < 0)
            continue;
        found = u64map_get(&of->index, window_key(at, c->step[i]));
        if (!found)
            continue;
        win = &w->at[*found];
        if (w->place[at].device && is_device_work(c, i) &&
            add_ns(c->ts[i], c->dur[i]) > win->to_ns && !marked_there(w, of, win))
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

/* A window and whose time it is: of a place, and on a host of a thread. */
struct share {
    struct window *win;
    uint64_t of;
};

static int by_start(const void *va, const void *vb)
{
    const struct share *a = va, *b = vb;

    if (a->of != b->of)
        return a->of < b->of ? -1 : 1;
    if (a->win->from_ns != b->win->from_ns)
        return a->win->from_ns < b->win->from_ns ? -1 : 1;
    /* Of those that begin at once the longest, which holds the others. */
    return a->win->to_ns > b->win->to_ns ? -1 : a->win->to_ns < b->win->to_ns;
}

static int find_once(struct windows *w, const struct store *st, const struct step_list *l)
{
    struct share *s = mem_alloc((w->n + 1) * sizeof(*s));
    int64_t until = 0;

    if (!s)
        return OPM_ENOMEM;
    for (size_t i = 0; i < w->n; i++) {
        int64_t track =
            store_i64_or(st, TABLE_step, l->row[w->at[i].row].step, step_col_track, OPM_NULL_I64);
        bool device = w->place[w->at[i].place].device;

        s[i] = (struct share){ &w->at[i],
                               (uint64_t)w->at[i].place << 32 | (device ? 0 : (uint32_t)track) };
    }
    qsort(s, w->n, sizeof(*s), by_start);
    for (size_t i = 0; i < w->n; i++) {
        struct window *win = s[i].win;

        if (i == 0 || s[i].of != s[i - 1].of)
            until = win->from_ns;
        win->once_ns = MIN(MAX(win->from_ns, until), win->to_ns);
        until = MAX(until, win->to_ns);
    }
    mem_free(s);
    return 0;
}

static int whole_trace(struct windows *w)
{
    size_t cap = 0;

    for (uint32_t p = 0; p < w->nplace; p++) {
        if (w->place[p].first_ns == OPM_NULL_I64 || w->place[p].last_ns <= w->place[p].first_ns)
            continue;
        if (!GROW(w->at, cap, w->n + 1))
            return OPM_ENOMEM;
        w->at[w->n++] = (struct window){
            p, OPM_NULL_ID, w->place[p].first_ns, w->place[p].last_ns, w->place[p].first_ns, true
        };
    }
    return 0;
}

static int marked_windows(struct windows *w, struct listing *of, const struct columns *c)
{
    int rc = list_windows(w, of);

    if (rc == 0) {
        extend(w, c, of);
        rc = part(w, of->st, of->l);
    }
    if (rc == 0)
        rc = find_once(w, of->st, of->l);
    u64map_release(&of->marked);
    u64map_release(&of->index);
    return rc;
}

int windows_get(struct windows *w, const struct store *st, const struct step_list *steps)
{
    struct coverage cover = { 0 };
    struct columns c = { 0 };
    uint32_t *n = NULL;
    int rc;

    *w = (struct windows){ .ntrack = store_nrow(st, TABLE_track) };
    w->place_of = mem_alloc((w->ntrack + 1) * sizeof(*w->place_of));
    rc = w->place_of ? columns_get(&c, st) : OPM_ENOMEM;
    if (rc == 0)
        rc = places_find(w, st, &c);
    if (rc == 0)
        rc = coverage_find(&cover, st);
    if (rc == 0) {
        n = mem_calloc(w->nplace * cover.nlog + 1, sizeof(*n));
        rc = n ? 0 : OPM_ENOMEM;
    }
    if (rc == 0) {
        struct listing of = { .st = st, .l = steps, .cover = &cover, .n = n };

        places_look(w, &c, &cover, n);
        rc = steps->found || !steps->n ? whole_trace(w) : marked_windows(w, &of, &c);
    }
    mem_free(n);
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
