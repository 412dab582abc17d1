/* tensorrt.c -- what trtexec exports as JSON:
 *   --exportProfile    time per layer, summed over all iterations: one iteration of averages
 *   --exportTimes      every inference: enqueue, copies, compute
 *   --exportLayerInfo  the layers of the engine; given before a profile, they describe its layers
 */
#include "import/tensorrt/tensorrt_int.h"

#include "base/error.h"

#include <ctype.h>
#include <string.h>

enum form { FORM_NONE, FORM_PROFILE, FORM_TIMES, FORM_LAYERS };

static bool has(const uint8_t *p, size_t len, const char *what)
{
    return memmem(p, len, what, strlen(what)) != NULL;
}

static enum form form_of(const uint8_t *p, size_t len)
{
    size_t i = len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    size_t j;

    while (i < len && isspace(p[i]))
        i++;
    if (i == len)
        return FORM_NONE;
    for (j = i + 1; j < len && isspace(p[j]); j++)
        ;
    if (p[i] == '{')
        return j < len && (has(p + j, MIN(len - j, (size_t)9), "\"Layers\"")) ? FORM_LAYERS
                                                                              : FORM_NONE;
    if (p[i] != '[')
        return FORM_NONE;
    if (has(p, len, "\"averageMs\"") && has(p, len, "\"timeMs\""))
        return FORM_PROFILE;
    return has(p, len, "\"startComputeMs\"") && has(p, len, "\"latencyMs\"") ? FORM_TIMES
                                                                             : FORM_NONE;
}

bool tensorrt_sniff(const uint8_t *head, size_t len)
{
    return form_of(head, MIN(len, (size_t)IMPORT_SNIFF_MAX)) != FORM_NONE;
}

/* The number just read as ns; OPM_NULL_I64 if it is none. */
static int64_t ms_value(const struct json_reader *r)
{
    int64_t ns;

    return (r->token == JSON_NUMBER || r->token == JSON_STRING) &&
                   decimal_scaled(r->text, r->len, 6, &ns)
               ? ns
               : OPM_NULL_I64;
}

/* An object of numbers and one name. */
struct trt_entry {
    str_id name;
    int64_t count, total_ns, average_ns, median_ns;
    double percentage;
    int64_t time[12]; /* of --exportTimes, by time_keys */
};

static const char *const time_keys[] = {
    "startEnqMs", "endEnqMs", "startH2dMs", "endH2dMs",  "startComputeMs", "endComputeMs",
    "startD2hMs", "endD2hMs", "h2dMs",      "computeMs", "d2hMs",          "latencyMs"
};
enum {
    T_ENQ,
    T_ENQ_END,
    T_H2D,
    T_H2D_END,
    T_COMPUTE,
    T_COMPUTE_END,
    T_D2H,
    T_D2H_END,
    T_H2D_MS,
    T_COMPUTE_MS,
    T_D2H_MS,
    T_LATENCY_MS,
};

/* r is behind the opening bracket. False: the text ends inside, or is no JSON. */
static bool entry_read(struct trt *t, struct json_reader *r, struct trt_entry *e)
{
    *e = (struct trt_entry){ .count = OPM_NULL_I64,
                             .total_ns = OPM_NULL_I64,
                             .average_ns = OPM_NULL_I64,
                             .median_ns = OPM_NULL_I64,
                             .percentage = -1 };
    for (size_t i = 0; i < ARRAY_SIZE(e->time); i++)
        e->time[i] = OPM_NULL_I64;
    while (json_read_next(r) == JSON_KEY) {
        struct json_reader key = *r;

        json_read_next(r);
        if (json_read_is(&key, "name") && r->token == JSON_STRING)
            e->name = trt_text(t, r);
        else if (json_read_is(&key, "count"))
            json_read_int(r, &e->count);
        else if (json_read_is(&key, "timeMs"))
            e->total_ns = ms_value(r);
        else if (json_read_is(&key, "averageMs"))
            e->average_ns = ms_value(r);
        else if (json_read_is(&key, "medianMs"))
            e->median_ns = ms_value(r);
        else if (json_read_is(&key, "percentage"))
            json_read_real(r, &e->percentage);
        for (size_t i = 0; i < ARRAY_SIZE(time_keys); i++)
            if (json_read_is(&key, time_keys[i]))
                e->time[i] = ms_value(r);
        if (!json_read_skip(r))
            return false;
    }
    return r->token == JSON_OBJECT_END;
}

static void member(struct json_writer *w, const char *key, int64_t v)
{
    if (v == OPM_NULL_I64)
        return;
    json_key(w, key);
    json_i64(w, v);
}

static void profile_entry(struct trt *t, const struct trt_entry *e, uint32_t track)
{
    struct span_row row = SPAN_ROW_INIT;
    struct buf args = { 0 };
    struct json_writer w = { .buf = &args };
    uint32_t op = trt_op_named(t, e->name);

    json_object(&w);
    member(&w, "iterations", t->iterations);
    member(&w, "total_ns", e->total_ns);
    member(&w, "median_ns", e->median_ns);
    if (e->percentage >= 0) {
        json_key(&w, "percentage");
        json_f64(&w, e->percentage);
    }
    json_object_end(&w);
    row.ts_ns = t->end_ns;
    row.dur_ns = e->average_ns < 0 ? -2 : e->average_ns;
    row.track = track;
    row.site = build_site(&t->b, e->name, build_cstr(&t->b, "layer"), "hardware", op);
    row.args = build_buf(&t->b, &args);
    build_span(&t->b, &row);
    if (e->average_ns > 0 && __builtin_add_overflow(t->end_ns, e->average_ns, &t->end_ns))
        t->b.rc = OPM_EFORMAT;
    store_stat(t->b.st, STAT_time_made_up, 1);
    buf_release(&args);
}

static uint32_t make_track(struct trt *t, const char *kind, const char *name)
{
    struct track_row row = TRACK_ROW_INIT;

    row.kind = kind;
    row.name = build_cstr(&t->b, name);
    row.process = build_cstr(&t->b, "TensorRT");
    return build_track(&t->b, &row);
}

static void profile_read(struct trt *t, struct json_reader *r)
{
    uint32_t track = make_track(t, "stream", "layers, one average iteration");
    struct trt_entry e;
    bool good = true;
    char text[32];

    while (good && json_read_next(r) == JSON_OBJECT && !t->b.rc) {
        good = entry_read(t, r, &e);
        if (!good)
            break;
        if (e.count != OPM_NULL_I64)
            t->iterations = e.count;
        if (e.name && e.average_ns != OPM_NULL_I64)
            profile_entry(t, &e, track);
    }
    build_step(&t->b,
               &(struct step_row){ .num = OPM_NULL_I64, .dur_ns = t->end_ns, .track = track });
    if (t->iterations != OPM_NULL_I64) {
        snprintf(text, sizeof(text), "%lld", (long long)t->iterations);
        build_meta(&t->b, "tensorrt.iterations", text);
    }
    build_meta(&t->b, "clock.note",
               "sums over all iterations: one iteration of averages, laid end to end");
}

static void times_span(struct trt *t, const struct trt_entry *e, int start, int end, uint32_t track,
                       const char *name, const char *layer, int64_t correlation)
{
    struct span_row row = SPAN_ROW_INIT;

    if (e->time[start] == OPM_NULL_I64 || e->time[end] == OPM_NULL_I64)
        return;
    row.ts_ns = e->time[start];
    if (__builtin_sub_overflow(e->time[end], e->time[start], &row.dur_ns))
        return;
    row.dur_ns = row.dur_ns < 0 ? -2 : row.dur_ns;
    row.track = track;
    row.site =
        build_site(&t->b, build_cstr(&t->b, name), build_cstr(&t->b, name), layer, OPM_NULL_ID);
    row.correlation = correlation;
    build_span(&t->b, &row);
}

/* How long an inference took. Moments have six digits, which is tens of microseconds after some
 * seconds: the duration that the file has of its own is finer. Spans stay at their moments, or they
 * would overlap. */
static int64_t times_latency(const struct trt_entry *e, int64_t start_ns, int64_t end_ns)
{
    return e->time[T_LATENCY_MS] >= 0 ? e->time[T_LATENCY_MS] : MAX(time_diff(end_ns, start_ns), 0);
}

static void times_read(struct trt *t, struct json_reader *r)
{
    uint32_t enqueue = make_track(t, "thread", "enqueue"), h2d = OPM_NULL_ID, d2h = OPM_NULL_ID;
    uint32_t compute = make_track(t, "stream", "compute");
    struct trt_entry e;
    int64_t n = 0;

    while (json_read_next(r) == JSON_OBJECT && entry_read(t, r, &e) && !t->b.rc) {
        int64_t start = e.time[T_H2D] != OPM_NULL_I64 ? e.time[T_H2D] : e.time[T_COMPUTE];
        int64_t end = e.time[T_D2H_END] != OPM_NULL_I64 ? e.time[T_D2H_END] : e.time[T_COMPUTE_END];

        times_span(t, &e, T_ENQ, T_ENQ_END, enqueue, "enqueue", "runtime", n);
        times_span(t, &e, T_COMPUTE, T_COMPUTE_END, compute, "compute", "hardware", n);
        if (e.time[T_H2D_MS] > 0) { /* 0: data transfers were switched off */
            h2d = h2d == OPM_NULL_ID ? make_track(t, "stream", "host to device") : h2d;
            times_span(t, &e, T_H2D, T_H2D_END, h2d, "host to device", "hardware", OPM_NULL_I64);
        }
        if (e.time[T_D2H_MS] > 0) {
            d2h = d2h == OPM_NULL_ID ? make_track(t, "stream", "device to host") : d2h;
            times_span(t, &e, T_D2H, T_D2H_END, d2h, "device to host", "hardware", OPM_NULL_I64);
        }
        if (start != OPM_NULL_I64 && end != OPM_NULL_I64 && end >= start)
            build_step(&t->b, &(struct step_row){ .num = n,
                                                  .ts_ns = start,
                                                  .dur_ns = times_latency(&e, start, end),
                                                  .track = compute });
        if (++n % 4096 == 0)
            build_tick(&t->b, (uint64_t)(r->at - r->start), (uint64_t)(r->end - r->start));
    }
}

str_id trt_text(struct trt *t, const struct json_reader *r)
{
    buf_clear(&t->scratch);
    json_read_text(r, &t->scratch);
    return build_text(&t->b, &t->scratch);
}

int tensorrt_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct trt t = { .b = { .st = st, .src = src }, .iterations = OPM_NULL_I64 };
    size_t skip = src->len >= 3 && memcmp(src->data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct json_reader r = json_read_of(src->data + skip, src->len - skip);
    enum form form = form_of(src->data, MIN(src->len, (size_t)IMPORT_SNIFF_MAX));

    if (form == FORM_NONE)
        return opm__fail(err, OPM_EFORMAT,
                         "%s: neither a profile, nor times, nor layers of trtexec", src->path);
    trt_begin(&t);
    json_read_next(&r); /* the opening bracket */
    if (form == FORM_PROFILE)
        profile_read(&t, &r);
    else if (form == FORM_TIMES)
        times_read(&t, &r);
    else
        trt_layers(&t, &r);
    store_stat(st, STAT_file_truncated, r.token == JSON_BAD || src->cut);
    build_meta(&t.b, "source.format", "tensorrt");
    build_meta(&t.b, "source.producer", "trtexec");
    trt_end(&t);
    return build_end(&t.b, err);
}
