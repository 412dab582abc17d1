/* speedscope.c -- write speedscope's own format: flame graphs of every line of the timeline.
 *
 * {"$schema":..,"shared":{"frames":[..]},"profiles":[..]}: one evented profile per lane
 * (timeline.h), because its frames must nest; frames are names, each once. Times are integer ns
 * from the start of the trace. A span that never ended is closed where the one around it or the
 * trace ends. A profile's events must stand together, so the spans of each lane are listed first:
 * four bytes for every span, a fraction of what the store itself takes. */
#include "export/export.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_write.h"
#include "export/timeline.h"
#include "export/writer.h"

#include <string.h>

#define NO_SPAN UINT32_MAX

struct scope {
    const struct store *st;
    struct timeline tl;
    struct io_out out;
    struct json_writer w;
    uint32_t *next; /* [nspan] the next one of the same lane */
    uint32_t *head; /* [lane] first span */
    uint32_t *tail;
    size_t nhead, head_cap, tail_cap;
    uint32_t *frame;   /* [nsite] */
    int64_t *open_end; /* stack of the lane being written */
    uint32_t *open_frame;
    size_t nopen, open_end_cap, open_frame_cap;
    int64_t last_ns; /* end of the trace */
    uint64_t done;
};

/* Chain the spans of every lane, in order. */
static int chain(struct scope *s)
{
    for (size_t i = 0; i < s->tl.nspan; i++) {
        uint32_t track = s->tl.track ? s->tl.track[i] : OPM_NULL_ID, lane;
        int64_t end = timeline_end(s->tl.ts[i], s->tl.dur[i]);
        int rc = timeline_place(&s->tl, timeline_line_of(&s->tl, track), s->tl.ts[i], end, &lane);

        if (rc)
            return rc;
        if (!GROW(s->head, s->head_cap, (size_t)lane + 1) ||
            !GROW(s->tail, s->tail_cap, (size_t)lane + 1))
            return OPM_ENOMEM;
        while (s->nhead <= lane)
            s->head[s->nhead++] = NO_SPAN;
        if (s->head[lane] == NO_SPAN)
            s->head[lane] = (uint32_t)i;
        else
            s->next[s->tail[lane]] = (uint32_t)i;
        s->tail[lane] = (uint32_t)i;
        s->next[i] = NO_SPAN;
        s->last_ns = MAX(s->last_ns, end < INT64_MAX - 1 ? end : s->tl.ts[i]);
    }
    return 0;
}

static int put_frames(struct scope *s)
{
    struct u64map names = { 0 };
    const struct strpool *strings = store_strings(s->st);
    uint32_t n = 0;
    int rc = 0;

    json_key(&s->w, "shared");
    json_object(&s->w);
    json_key(&s->w, "frames");
    json_array(&s->w);
    for (size_t i = 0; i < s->tl.nsite && !rc; i++) {
        str_id name = s->tl.site[i].name;
        const uint64_t *known = u64map_get(&names, name);

        s->frame[i] = known ? (uint32_t)*known : n;
        if (known)
            continue;
        rc = u64map_put(&names, name, n++);
        json_newline(&s->w);
        json_object(&s->w);
        json_key(&s->w, "name");
        json_str(&s->w, name ? strpool_get(strings, name) : "", strpool_len(strings, name));
        json_object_end(&s->w);
    }
    json_array_end(&s->w);
    json_object_end(&s->w);
    u64map_release(&names);
    return rc;
}

static void put_event(struct scope *s, bool *first, char type, uint32_t frame, int64_t at)
{
    char text[120], *p = stpcpy(text, *first ? "\n{\"type\":\"" : ",\n{\"type\":\"");

    *first = false;
    *p++ = type;
    p = stpcpy(p, "\",\"frame\":");
    p = text_put_u64(p, frame);
    p = stpcpy(p, ",\"at\":");
    p = text_put_i64(p, at);
    *p++ = '}';
    io_out_add(&s->out, text, (size_t)(p - text));
}

/* Close what ends up to `until`. */
static void close_until(struct scope *s, bool *first, int64_t until)
{
    while (s->nopen && s->open_end[s->nopen - 1] <= until) {
        s->nopen--;
        put_event(s, first, 'C', s->open_frame[s->nopen], s->open_end[s->nopen]);
    }
}

static int put_events(struct scope *s, uint32_t lane, const struct export_options *opts)
{
    bool first = true;

    for (uint32_t i = s->head[lane]; i != NO_SPAN; i = s->next[i]) {
        int64_t ts = s->tl.ts[i], end = timeline_end(ts, s->tl.dur[i]);
        uint32_t frame = s->frame[s->tl.span_site[i]];

        if (s->done++ % TIMELINE_PROGRESS_SPANS == 0) {
            int rc = writer_progress(opts, &s->out, s->done - 1, s->tl.nspan);

            if (rc)
                return rc;
        }
        close_until(s, &first, ts);
        end = MIN(end, s->last_ns);
        if (s->nopen) /* a lane promises this but for what never ended */
            end = MIN(end, s->open_end[s->nopen - 1]);
        put_event(s, &first, 'O', frame, ts);
        if (end <= ts) {
            put_event(s, &first, 'C', frame, ts);
            continue;
        }
        if (!GROW(s->open_end, s->open_end_cap, s->nopen + 1) ||
            !GROW(s->open_frame, s->open_frame_cap, s->nopen + 1))
            return OPM_ENOMEM;
        s->open_end[s->nopen] = end;
        s->open_frame[s->nopen++] = frame;
    }
    close_until(s, &first, INT64_MAX);
    return 0;
}

static int put_profile(struct scope *s, uint32_t lane, const struct export_options *opts)
{
    const struct lane *l = &s->tl.lane[lane];
    struct json_writer *w = &s->w;
    struct buf name = { 0 };
    int rc;

    timeline_process_name(&s->tl, s->tl.line[l->line].process, &name);
    buf_adds(&name, name.len ? " / " : "");
    timeline_line_name(&s->tl, l->line, &name);
    if (l->index)
        buf_addf(&name, " #%u", l->index + 1);
    json_newline(w);
    json_object(w);
    json_key(w, "type");
    json_cstr(w, "evented");
    json_key(w, "name");
    json_str(w, buf_str(&name), name.len);
    json_key(w, "unit");
    json_cstr(w, "nanoseconds");
    json_key(w, "startValue");
    json_i64(w, 0);
    json_key(w, "endValue");
    json_i64(w, s->last_ns);
    json_key(w, "events");
    json_array(w);
    rc = name.failed ? OPM_ENOMEM : put_events(s, lane, opts);
    json_array_end(w);
    json_object_end(w);
    buf_release(&name);
    return rc;
}

static int put_file(struct scope *s, const struct export_options *opts)
{
    const char *model = store_meta_get(s->st, "model.name");
    struct json_writer *w = &s->w;
    int rc = chain(s);

    if (rc)
        return rc;
    json_object(w);
    json_key(w, "$schema");
    json_cstr(w, "https://www.speedscope.app/file-format-schema.json");
    json_key(w, "exporter");
    json_cstr(w, "opmeter@" OPMETER_VERSION);
    json_key(w, "name");
    json_cstr(w, model ? model : "trace");
    writer_recording_member(s->st, w);
    json_key(w, "activeProfileIndex");
    json_i64(w, 0);
    json_newline(w);
    rc = put_frames(s);
    json_newline(w);
    json_key(w, "profiles");
    json_array(w);
    for (uint32_t lane = 0; lane < s->nhead && !rc; lane++)
        if (s->head[lane] != NO_SPAN)
            rc = put_profile(s, lane, opts);
    json_array_end(w);
    json_object_end(w);
    io_out_adds(&s->out, "\n");
    return rc ? rc : writer_progress(opts, &s->out, s->tl.nspan, s->tl.nspan);
}

int export_speedscope(const struct store *st, const char *path, const struct export_options *opts,
                      opm_error *err)
{
    struct scope s = { .st = st };
    size_t bytes = 0;
    int rc = timeline_init(&s.tl, st);

    s.w.out = &s.out;
    if (!rc) {
        bytes = (s.tl.nspan + 1) * sizeof(*s.next);
        s.next = mem_map(bytes);
        s.frame = mem_calloc(s.tl.nsite + 1, sizeof(*s.frame));
    }
    if (rc || !s.next || !s.frame)
        rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", path);
    else
        rc = io_out_open(&s.out, path, err);
    if (!rc) {
        rc = put_file(&s, opts);
        rc = writer_close(&s.out, rc, path, err);
    }
    timeline_release(&s.tl);
    if (s.next)
        mem_unmap(s.next, bytes);
    mem_free(s.frame);
    mem_free(s.head);
    mem_free(s.tail);
    mem_free(s.open_end);
    mem_free(s.open_frame);
    return rc;
}
