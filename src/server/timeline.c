/* timeline.c -- see timeline.h. */
#include "server/timeline.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"
#include "server/answer.h"

#include <string.h>

struct line_count {
    bool known;
    uint32_t depth;
};

struct timeline {
    opm_trace *t;
    size_t ntrack;
    struct line_count *lines; /* of every track, whatever the view */
    bool *has_samples;
    int64_t end_ns;
    char *text; /* that was searched for last, and what was found */
    opm_found *found;
};

static int find_samples(struct timeline *tl, opm_error *err)
{
    opm_rows *r;
    int rc = opm_trace_query(tl->t, "SELECT DISTINCT track FROM sample", &r, err), more;

    if (rc < 0)
        return rc;
    for (more = opm_rows_next(r, err); more > 0; more = opm_rows_next(r, err)) {
        int64_t track = opm_rows_int(r, 0);

        if (opm_rows_type(r, 0) == OPM_TYPE_INT && track >= 0 && (size_t)track < tl->ntrack)
            tl->has_samples[track] = true;
    }
    opm_rows_close(r);
    return more;
}

int timeline_new(struct timeline **out, opm_trace *t, opm_error *err)
{
    struct timeline *tl = mem_calloc(1, sizeof(*tl));
    int64_t ntrack = 0;
    int rc;

    if (!tl)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    tl->t = t;
    rc = answer_int(t, "SELECT count(*) FROM track", &ntrack, err);
    if (rc == 0) {
        tl->end_ns = opm_trace_end(t);
        tl->ntrack = (size_t)ntrack;
        tl->lines = mem_calloc(tl->ntrack + 1, sizeof(*tl->lines));
        tl->has_samples = mem_calloc(tl->ntrack + 1, sizeof(*tl->has_samples));
        rc = tl->lines && tl->has_samples ? find_samples(tl, err)
                                          : opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    if (rc < 0)
        timeline_free(tl);
    else
        *out = tl;
    return rc;
}

void timeline_free(struct timeline *tl)
{
    if (!tl)
        return;
    opm_found_free(tl->found);
    mem_free(tl->text);
    mem_free(tl->lines);
    mem_free(tl->has_samples);
    mem_free(tl);
}

int64_t timeline_end_ns(const struct timeline *tl)
{
    return tl->end_ns;
}

/* Lines of a track: united as far as can be, there is at least one bar on each. */
static int find_depth(struct timeline *tl, uint32_t track, opm_error *err)
{
    opm_bar *bar = NULL;
    size_t n = 0;
    int rc;

    if (tl->lines[track].known)
        return 0;
    rc = opm_trace_timeline(tl->t, track, INT64_MIN, INT64_MAX, INT64_MAX, SIZE_MAX, &bar, &n, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        tl->lines[track].depth = MAX(tl->lines[track].depth, bar[i].depth + 1);
    tl->lines[track].known = true;
    opm_bars_free(bar);
    return 0;
}

int timeline_prepare(struct timeline *tl, opm_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < tl->ntrack; i++)
        rc = find_depth(tl, i, err);
    return rc;
}

/* The pictures of a search are asked for one after the other: what the last one found is kept. */
static int find(struct timeline *tl, const char *text, opm_error *err)
{
    size_t size = strlen(text) + 1;
    opm_found *found = NULL;
    char *copy;
    int rc;

    if (tl->text && strcmp(tl->text, text) == 0)
        return 0;
    copy = mem_alloc(size);
    if (!copy)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    rc = opm_trace_find(tl->t, text, &found, err);
    if (rc < 0) {
        mem_free(copy);
        return rc;
    }
    memcpy(copy, text, size);
    opm_found_free(tl->found);
    mem_free(tl->text);
    tl->found = found;
    tl->text = copy;
    return 0;
}

int timeline_found(struct timeline *tl, struct json_writer *w, const char *text, const int64_t *at,
                   int64_t from_ns, opm_error *err)
{
    int rc = find(tl, text, err);
    size_t count, i;

    if (rc < 0)
        return rc;
    count = opm_found_count(tl->found);
    i = count == 0 ? 0
        : at       ? (size_t)(((*at % (int64_t)count) + (int64_t)count) % (int64_t)count)
                   : opm_found_before(tl->found, from_ns) % count;
    json_object(w);
    json_key(w, "count");
    json_u64(w, count);
    json_key(w, "total_ns");
    json_i64(w, opm_found_total(tl->found));
    json_key(w, "at");
    json_u64(w, i);
    json_key(w, "span");
    json_i64(w, opm_found_span(tl->found, i));
    json_object_end(w);
    return 0;
}

/* The names of an answer; equal ones have one address. */
struct names {
    const char **name;
    size_t n, cap;
    struct u64map index; /* of an address */
    bool failed;
};

static size_t name_index(struct names *names, const char *name)
{
    const uint64_t *at = u64map_get(&names->index, (uint64_t)(uintptr_t)name);

    if (at)
        return (size_t)*at;
    if (!GROW(names->name, names->cap, names->n + 1) ||
        u64map_put(&names->index, (uint64_t)(uintptr_t)name, names->n)) {
        names->failed = true;
        return 0;
    }
    names->name[names->n] = name;
    return names->n++;
}

static void names_release(struct names *names)
{
    mem_free(names->name);
    u64map_release(&names->index);
}

static bool coarser(int64_t *pixel_ns)
{
    return !__builtin_mul_overflow(MAX(*pixel_ns, (int64_t)1), 2, pixel_ns);
}

/* As fine as the view wants it, or as fine as there is room for. */
static int track_bars(struct timeline *tl, uint32_t track, const struct timeline_view *v,
                      opm_bar **bar, size_t *n, opm_error *err)
{
    int64_t pixel = v->pixel_ns;
    int rc;

    do
        rc = v->text ? opm_found_timeline(tl->found, track, v->from_ns, v->to_ns, pixel,
                                          v->max_bars, bar, n, err)
                     : opm_trace_timeline(tl->t, track, v->from_ns, v->to_ns, pixel, v->max_bars,
                                          bar, n, err);
    while (rc == OPM_ELIMIT && coarser(&pixel));
    return rc;
}

static int add_track(struct timeline *tl, struct json_writer *w, uint32_t track,
                     const struct timeline_view *v, struct names *names, opm_error *err)
{
    opm_bar *bar = NULL;
    size_t n = 0;
    int rc = find_depth(tl, track, err);

    if (rc == 0)
        rc = track_bars(tl, track, v, &bar, &n, err);
    if (rc < 0)
        return rc;
    json_object(w);
    json_key(w, "id");
    json_u64(w, track);
    json_key(w, "depth");
    json_u64(w, tl->lines[track].depth);
    json_key(w, "spans");
    json_array(w);
    for (size_t i = 0; i < n; i++) {
        json_array(w);
        json_i64(w, bar[i].ts_ns);
        json_i64(w, bar[i].dur_ns);
        json_u64(w, bar[i].depth);
        json_i64(w, bar[i].mixed ? -1 : (int64_t)name_index(names, bar[i].name));
        json_i64(w, bar[i].count > 1 ? -1 : (int64_t)bar[i].span);
        json_u64(w, bar[i].count);
        if (bar[i].count > 1)
            json_i64(w, bar[i].busy_ns);
        json_array_end(w);
    }
    json_array_end(w);
    json_object_end(w);
    opm_bars_free(bar);
    return names->failed ? opm__fail(err, OPM_ENOMEM, "out of memory") : 0;
}

static int add_counter(struct timeline *tl, struct json_writer *w, uint32_t track,
                       const struct timeline_view *v, opm_error *err)
{
    int64_t pixel = v->pixel_ns;
    opm_point *point = NULL;
    size_t n = 0;
    int rc;

    do
        rc = opm_trace_counter(tl->t, track, v->from_ns, v->to_ns, pixel, v->max_points, &point, &n,
                               err);
    while (rc == OPM_ELIMIT && coarser(&pixel));
    if (rc < 0)
        return rc;
    json_object(w);
    json_key(w, "id");
    json_u64(w, track);
    json_key(w, "points");
    json_array(w);
    for (size_t i = 0; i < n; i++) {
        json_array(w);
        json_i64(w, point[i].ts_ns);
        json_f64(w, point[i].value);
        json_array_end(w);
    }
    json_array_end(w);
    json_object_end(w);
    opm_points_free(point);
    return 0;
}

static size_t view_ntrack(const struct timeline *tl, const struct timeline_view *v)
{
    return v->track ? v->ntrack : tl->ntrack;
}

static uint32_t view_track(const struct timeline_view *v, size_t i)
{
    return v->track ? v->track[i] : (uint32_t)i;
}

static int check_tracks(const struct timeline *tl, const struct timeline_view *v, opm_error *err)
{
    for (size_t i = 0; i < view_ntrack(tl, v); i++)
        if (view_track(v, i) >= tl->ntrack)
            return opm__fail(err, OPM_ENOTFOUND, "no track %u", (unsigned)view_track(v, i));
    return 0;
}

int timeline_answer(struct timeline *tl, struct json_writer *w, const struct timeline_view *v,
                    bool coarse, opm_error *err)
{
    struct names names = { 0 };
    int rc = check_tracks(tl, v, err);

    if (rc == 0 && v->text)
        rc = find(tl, v->text, err);
    if (rc < 0)
        return rc;
    json_object(w);
    json_key(w, "from");
    json_i64(w, v->from_ns);
    json_key(w, "to");
    json_i64(w, v->to_ns);
    json_key(w, "coarse");
    json_bool(w, coarse);
    json_key(w, "tracks");
    json_array(w);
    for (size_t i = 0; rc == 0 && i < view_ntrack(tl, v); i++)
        rc = add_track(tl, w, view_track(v, i), v, &names, err);
    json_array_end(w);
    json_key(w, "counters");
    json_array(w);
    for (size_t i = 0; rc == 0 && i < view_ntrack(tl, v); i++)
        if (!v->text && tl->has_samples[view_track(v, i)])
            rc = add_counter(tl, w, view_track(v, i), v, err);
    json_array_end(w);
    json_key(w, "names");
    json_array(w);
    for (size_t i = 0; i < names.n; i++)
        json_cstr(w, names.name[i]);
    json_array_end(w);
    json_object_end(w);
    names_release(&names);
    return rc;
}

/* Bars that the answer would have; OPM_ELIMIT beyond max. */
static int count_bars(struct timeline *tl, const struct timeline_view *v, size_t max,
                      opm_error *err)
{
    size_t total = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < view_ntrack(tl, v); i++) {
        opm_bar *bar = NULL;
        size_t n = 0;

        rc = opm_trace_timeline(tl->t, view_track(v, i), v->from_ns, v->to_ns, v->pixel_ns,
                                max - total, &bar, &n, err);
        opm_bars_free(bar);
        total += n;
    }
    return rc;
}

int timeline_fit(struct timeline *tl, struct timeline_view *v, size_t max, bool *coarse,
                 opm_error *err)
{
    size_t counters = 0;
    int rc = check_tracks(tl, v, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < view_ntrack(tl, v); i++)
        counters += tl->has_samples[view_track(v, i)];
    v->max_bars = max;
    v->max_points = MAX(max / MAX(counters, (size_t)1), (size_t)1000);
    v->pixel_ns = 0;
    rc = count_bars(tl, v, max, err);
    *coarse = rc == OPM_ELIMIT;
    if (*coarse) /* where so many would stand side by side */
        v->pixel_ns = (v->to_ns - v->from_ns) / (int64_t)max;
    while (rc == OPM_ELIMIT && coarser(&v->pixel_ns))
        rc = count_bars(tl, v, max, err);
    return rc;
}
