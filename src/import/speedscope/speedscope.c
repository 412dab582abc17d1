/* speedscope.c -- read files of speedscope: evented and sampled profiles, each a track.
 *
 * Frames are shared and may stand behind the profiles that use them, so they are read first.
 * Evented profiles have opening and closing events; of those that do not match, an end without
 * begin is ignored and what stays open never ended, both counted. In sampled profiles a frame lasts
 * as long as consecutive stacks have it in the same place. Weights that are no times ("none",
 * "bytes") are taken as nanoseconds, and meta says so. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "import/import.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PROGRESS_EVENTS 65536
#define TIME_MAX_NS 4e18

struct frame {
    uint32_t site;
    str_id args;   /* file, line and whatever else it has */
    uint32_t open; /* how many of it are, in the present profile */
};

struct open_span {
    uint32_t frame;
    int64_t start_ns;
};

struct speedscope {
    struct store *st;
    const struct import_source *src;
    struct frame *frame;
    size_t nframe, frame_cap;
    struct open_span *open;
    size_t nopen, open_cap;
    uint32_t *stack; /* of the sample being read */
    size_t nstack, stack_cap;
    uint64_t nevent;
    size_t nprofile;
    uint32_t track;
    double unit_ns;
    int64_t last_ns;
    struct buf text, rest;
};

bool speedscope_sniff(const uint8_t *head, size_t len)
{
    static const char schema[] = "speedscope.app/file-format-schema.json";
    size_t i = 0;

    while (i < len && (head[i] == ' ' || (head[i] >= '\t' && head[i] <= '\r')))
        i++;
    return i < len && head[i] == '{' && memmem(head, len, schema, sizeof(schema) - 1);
}

/* -- frames -- */

static int read_frame(struct speedscope *s, struct json_reader *r)
{
    struct site site = { .op = OPM_NULL_ID };
    struct frame f = { 0 };
    const char *from;
    int rc;

    buf_clear(&s->text);
    buf_clear(&s->rest);
    while (json_read_next(r) == JSON_KEY) {
        if (json_read_is(r, "name")) {
            if (json_read_next(r) == JSON_STRING) {
                buf_clear(&s->text);
                json_read_text(r, &s->text);
            } else {
                json_read_skip(r);
            }
            continue;
        }
        buf_adds(&s->rest, s->rest.len ? "," : "{");
        buf_addc(&s->rest, '"');
        buf_add(&s->rest, r->text, r->len);
        buf_adds(&s->rest, "\":");
        from = r->at;
        while (from < r->end && (*from == ':' || *from == ' ' || (*from >= '\t' && *from <= '\r')))
            from++;
        if (json_read_skip(r))
            buf_add(&s->rest, from, (size_t)(r->at - from));
    }
    if (r->token == JSON_BAD)
        return 0;
    if (s->rest.len)
        buf_addc(&s->rest, '}');
    rc = s->text.failed || s->rest.failed
             ? OPM_ENOMEM
             : store_str(s->st, buf_str(&s->text), s->text.len, &site.name);
    if (!rc && s->rest.len && json_valid(buf_str(&s->rest), s->rest.len))
        rc = store_str(s->st, buf_str(&s->rest), s->rest.len, &f.args);
    if (!rc)
        rc = store_site(s->st, &site, &f.site);
    if (!rc && !GROW(s->frame, s->frame_cap, s->nframe + 1))
        rc = OPM_ENOMEM;
    if (!rc)
        s->frame[s->nframe++] = f;
    return rc;
}

static int read_frames(struct speedscope *s, struct json_reader *r)
{
    int rc = 0;

    if (json_read_next(r) != JSON_OBJECT) {
        json_read_skip(r);
        return 0;
    }
    while (!rc && json_read_next(r) == JSON_KEY) {
        if (!json_read_is(r, "frames")) {
            json_read_skip(r);
            continue;
        }
        if (json_read_next(r) != JSON_ARRAY) {
            json_read_skip(r);
            continue;
        }
        while (!rc && json_read_next(r) != JSON_ARRAY_END && r->token != JSON_BAD) {
            if (r->token == JSON_OBJECT)
                rc = read_frame(s, r);
            else
                json_read_skip(r);
        }
    }
    return rc;
}

/* -- spans -- */

/* One that was open. */
static int add_span(struct speedscope *s, const struct open_span *o, int64_t end_ns)
{
    struct span_row row = SPAN_ROW_INIT;
    uint32_t id;

    s->frame[o->frame].open--;
    row.ts_ns = o->start_ns;
    row.dur_ns = end_ns < 0 ? -1 : end_ns - o->start_ns;
    row.track = s->track;
    row.site = s->frame[o->frame].site;
    row.args = s->frame[o->frame].args;
    return store_add_span(s->st, &row, &id);
}

static int push(struct speedscope *s, uint32_t frame, int64_t at)
{
    if (!GROW(s->open, s->open_cap, s->nopen + 1))
        return OPM_ENOMEM;
    s->open[s->nopen++] = (struct open_span){ frame, at };
    s->frame[frame].open++;
    return 0;
}

static int tick(struct speedscope *s, const struct json_reader *r)
{
    return ++s->nevent % PROGRESS_EVENTS == 0 && s->src->progress &&
                   s->src->progress(s->src->user, (uint64_t)(r->at - r->start), s->src->len)
               ? OPM_ELIMIT
               : 0;
}

/* A value of the profile's unit in ns. False: it cannot be one. */
static bool to_ns(const struct speedscope *s, double v, int64_t *out)
{
    v *= s->unit_ns;
    if (!(fabs(v) < TIME_MAX_NS))
        return false;
    *out = llround(v);
    return true;
}

/* One {"type":"O","frame":3,"at":12.5}. */
static int read_event(struct speedscope *s, struct json_reader *r)
{
    int64_t frame = -1, at = 0;
    double value = NAN;
    char type = 0;

    while (json_read_next(r) == JSON_KEY) {
        if (json_read_is(r, "type") && json_read_next(r) == JSON_STRING) {
            type = r->len == 1 ? *r->text : 0;
        } else if (json_read_is(r, "frame")) {
            json_read_next(r);
            if (!json_read_int(r, &frame))
                json_read_skip(r);
        } else if (json_read_is(r, "at")) {
            json_read_next(r);
            if (!json_read_real(r, &value))
                json_read_skip(r);
        } else {
            json_read_skip(r);
        }
    }
    if (r->token == JSON_BAD)
        return 0;
    if (frame < 0 || frame >= (int64_t)s->nframe || !to_ns(s, value, &at) ||
        (type != 'O' && type != 'C')) {
        store_stat(s->st, STAT_event_unreadable, 1);
        return 0;
    }
    if (at < s->last_ns) {
        store_stat(s->st, STAT_negative_duration, 1);
        at = s->last_ns;
    }
    s->last_ns = at;
    if (type == 'O')
        return push(s, (uint32_t)frame, at);
    for (size_t i = s->frame[frame].open ? s->nopen : 0; i-- > 0;) {
        int rc = 0;

        if (s->open[i].frame != (uint32_t)frame)
            continue;
        store_stat(s->st, STAT_ended_by_parent, (int64_t)(s->nopen - i - 1));
        while (!rc && s->nopen > i)
            rc = add_span(s, &s->open[--s->nopen], at);
        return rc;
    }
    store_stat(s->st, STAT_end_without_begin, 1);
    return 0;
}

static int read_events(struct speedscope *s, struct json_reader *r)
{
    int rc = 0;

    while (!rc && json_read_next(r) != JSON_ARRAY_END && r->token != JSON_BAD) {
        if (r->token == JSON_OBJECT)
            rc = read_event(s, r);
        else
            json_read_skip(r);
        if (!rc)
            rc = tick(s, r);
    }
    while (!rc && s->nopen)
        rc = add_span(s, &s->open[--s->nopen], -1);
    return rc;
}

/* The next [frame, ...] of samples into s->stack; *more is false at the end. */
static int next_sample(struct speedscope *s, struct json_reader *r, bool *more)
{
    *more = json_read_next(r) == JSON_ARRAY;
    s->nstack = 0;
    while (*more && json_read_next(r) != JSON_ARRAY_END && r->token != JSON_BAD) {
        int64_t frame;

        if (!json_read_int(r, &frame) || frame < 0 || frame >= (int64_t)s->nframe) {
            store_stat(s->st, STAT_event_unreadable, 1);
            json_read_skip(r);
            continue;
        }
        if (!GROW(s->stack, s->stack_cap, s->nstack + 1))
            return OPM_ENOMEM;
        s->stack[s->nstack++] = (uint32_t)frame;
    }
    return 0;
}

static int read_samples(struct speedscope *s, struct json_reader *samples,
                        struct json_reader *weights, int64_t start_ns)
{
    double now = (double)start_ns;
    bool more = true;
    int rc = next_sample(s, samples, &more);

    for (; !rc && more; rc = next_sample(s, samples, &more)) {
        double weight = 0;
        int64_t at = llround(now);
        size_t same = 0;

        if (json_read_next(weights) != JSON_NUMBER || !json_read_real(weights, &weight) ||
            !(weight >= 0))
            weight = 0;
        while (same < s->nstack && same < s->nopen && s->open[same].frame == s->stack[same])
            same++;
        while (!rc && s->nopen > same)
            rc = add_span(s, &s->open[--s->nopen], at);
        for (size_t i = same; !rc && i < s->nstack; i++)
            rc = push(s, s->stack[i], at);
        now += weight * s->unit_ns;
        if (!(now < TIME_MAX_NS))
            now = TIME_MAX_NS;
        if (!rc)
            rc = tick(s, samples);
    }
    while (!rc && s->nopen)
        rc = add_span(s, &s->open[--s->nopen], llround(now));
    return rc;
}

/* -- profiles -- */

struct profile {
    struct json_reader events, samples, weights; /* .start NULL: not there */
    double start;
};

/* 0: the unit is none of time. */
static double unit_of(const char *unit)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {
        { "nanoseconds", 1 }, { "microseconds", 1e3 }, { "milliseconds", 1e6 }, { "seconds", 1e9 }
    };

    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (strcmp(units[i].name, unit) == 0)
            return units[i].ns;
    return 0;
}

static int add_track(struct speedscope *s, const struct buf *name)
{
    struct cell c[track_col_COUNT] = { 0 };
    str_id kind, id = 0;
    int rc = store_cstr(s->st, "thread", &kind);

    if (!rc && name->len)
        rc = store_str(s->st, buf_str(name), name->len, &id);
    c[track_col_kind] = cell_str(kind);
    c[track_col_name] = cell_str(id);
    return rc ? rc : store_add(s->st, TABLE_track, c, &s->track);
}

static int read_profile(struct speedscope *s, struct json_reader *r)
{
    struct profile p = { 0 };
    struct buf name = { 0 }, unit = { 0 };
    char key[48];
    int rc = 0;

    while (json_read_next(r) == JSON_KEY) {
        struct json_reader *keep = json_read_is(r, "events")    ? &p.events
                                   : json_read_is(r, "samples") ? &p.samples
                                   : json_read_is(r, "weights") ? &p.weights
                                                                : NULL;

        if (keep) {
            if (json_read_next(r) == JSON_ARRAY)
                *keep = *r;
            json_read_skip(r);
        } else if (json_read_is(r, "name") && json_read_next(r) == JSON_STRING) {
            json_read_text(r, &name);
        } else if (json_read_is(r, "unit") && json_read_next(r) == JSON_STRING) {
            json_read_text(r, &unit);
        } else if (json_read_is(r, "startValue")) {
            json_read_next(r);
            if (!json_read_real(r, &p.start))
                json_read_skip(r);
        } else {
            json_read_skip(r);
        }
    }
    s->unit_ns = unit_of(buf_str(&unit));
    if (s->unit_ns == 0) {
        s->unit_ns = 1;
        snprintf(key, sizeof(key), "speedscope.profile%zu.unit", s->nprofile);
        rc = import_meta(s->st, s->src, key, unit.len ? buf_str(&unit) : "none");
    }
    s->nprofile++;
    s->last_ns = INT64_MIN;
    if (!rc)
        rc = name.failed || unit.failed ? OPM_ENOMEM : add_track(s, &name);
    if (!rc && p.events.start)
        rc = read_events(s, &p.events);
    if (!rc && p.samples.start) {
        int64_t start_ns = 0;

        to_ns(s, p.start, &start_ns);
        if (!p.weights.start)
            p.weights = json_read_of("", 0);
        rc = read_samples(s, &p.samples, &p.weights, start_ns);
    }
    s->nopen = 0;
    buf_release(&name);
    buf_release(&unit);
    return rc;
}

static int read_profiles(struct speedscope *s, struct json_reader *r)
{
    int rc = 0;

    if (json_read_next(r) != JSON_ARRAY) {
        json_read_skip(r);
        return 0;
    }
    while (!rc && json_read_next(r) != JSON_ARRAY_END && r->token != JSON_BAD) {
        if (r->token == JSON_OBJECT)
            rc = read_profile(s, r);
        else
            json_read_skip(r);
    }
    return rc;
}

static int keep_text(struct speedscope *s, struct json_reader *r, const char *key)
{
    if (json_read_next(r) != JSON_STRING) {
        json_read_skip(r);
        return 0;
    }
    buf_clear(&s->text);
    json_read_text(r, &s->text);
    return s->text.failed ? OPM_ENOMEM : import_meta(s->st, s->src, key, buf_str(&s->text));
}

/* Once for the frames, once for the rest. */
static int read_object(struct speedscope *s, struct json_reader *r, bool frames)
{
    int rc = 0;

    *r = json_read_of(s->src->data, s->src->len);
    if (json_read_next(r) != JSON_OBJECT)
        return 0;
    while (!rc && json_read_next(r) == JSON_KEY) {
        if (frames && json_read_is(r, "shared"))
            rc = read_frames(s, r);
        else if (!frames && json_read_is(r, "profiles"))
            rc = read_profiles(s, r);
        else if (!frames && json_read_is(r, "name"))
            rc = keep_text(s, r, "speedscope.name");
        else if (!frames && json_read_is(r, "exporter"))
            rc = keep_text(s, r, "speedscope.exporter");
        else
            json_read_skip(r);
    }
    return rc;
}

int speedscope_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct speedscope s = { .st = st, .src = src };
    struct json_reader r;
    int rc = read_object(&s, &r, true);

    if (!rc)
        rc = read_object(&s, &r, false);
    if (!rc && (r.token != JSON_OBJECT_END || json_read_next(&r) != JSON_DONE))
        store_stat(st, src->cut ? STAT_file_truncated : STAT_json_malformed, 1);
    if (rc)
        opm__fail(err, rc, "%s: %s", src->path, opm_status_text(rc));
    mem_free(s.frame);
    mem_free(s.open);
    mem_free(s.stack);
    buf_release(&s.text);
    buf_release(&s.rest);
    return rc;
}
