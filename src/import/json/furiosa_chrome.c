/* furiosa_chrome.c -- read the Chrome trace that the Furiosa SDK writes; see furiosa.h.
 *
 * An array of complete events: category Nux or Runtime on the host, NPU on thread 10000000 + PE,
 * indexes as strings in args, and thread names at the end. Parents are not in it. */
#include "base/error.h"
#include "base/json_read.h"
#include "import/furiosa/furiosa.h"

#include <math.h>
#include <string.h>

#define NPU_TID 10000000
#define PROGRESS_EVENTS 65536

static size_t skip_space(const uint8_t *p, size_t len, size_t i)
{
    while (i < len && (p[i] == ' ' || (p[i] >= '\t' && p[i] <= '\r')))
        i++;
    return i;
}

/* Does "cat": "VALUE" stand in the head? */
static bool has_cat(const uint8_t *head, size_t len, const char *value)
{
    const uint8_t *p = head, *end = head + len;
    size_t n = strlen(value);

    while ((p = memmem(p, (size_t)(end - p), "\"cat\"", 5)) != NULL) {
        size_t i;

        p += 5;
        i = skip_space(p, (size_t)(end - p), 0);
        if (p + i < end && p[i] == ':')
            i = skip_space(p, (size_t)(end - p), i + 1);
        if ((size_t)(end - p) > i + n + 1 && p[i] == '"' && memcmp(p + i + 1, value, n) == 0 &&
            p[i + 1 + n] == '"')
            return true;
    }
    return false;
}

bool furiosa_chrome_sniff(const uint8_t *head, size_t len)
{
    static const char *const names[] = { "\"Inference\"",     "\"Enqueue\"",      "\"FeedInputs\"",
                                         "\"ProgramBinary\"", "\"AllocateDram\"", "\"pe_index\"",
                                         "\"operator_index\"" };
    size_t i = skip_space(head, len, len >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);

    if (i == len || (head[i] != '[' && head[i] != '{'))
        return false;
    if (!has_cat(head, len, "Nux") && !has_cat(head, len, "NPU") && !has_cat(head, len, "Runtime"))
        return false;
    /* Others may have an "NPU" or a "Runtime", too; not with these words. */
    for (size_t k = 0; k < ARRAY_SIZE(names); k++)
        if (memmem(head, len, names[k], strlen(names[k])))
            return true;
    return false;
}

struct reader {
    struct furiosa f;
    struct json_reader r;
    struct buf name, cat, label, rest;
};

/* One event while its members pass by. */
struct furiosa_event {
    struct furiosa_span span;
    double ts, dur;
    int64_t tid;
    bool has_ts, has_dur, has_tid, has_name;
    char ph;
};

static void put_text(const struct json_reader *r, struct buf *out)
{
    buf_clear(out);
    json_read_text(r, out);
}

/* An index in args; false if it is something else. */
static bool take_index(struct reader *rd, struct furiosa_event *e, const struct json_reader *key)
{
    static const char *const names[] = {
#define X(name, text) text,
        FURIOSA_NUMBERS(X)
#undef X
    };

    for (size_t i = 0; i < FURIOSA_NUMBER_COUNT; i++)
        if (json_read_is(key, names[i]))
            return json_read_int(&rd->r, &e->span.number[i]);
    return false;
}

/* Keep the value whose first token was just read, under its key. */
static void keep(struct reader *rd, const struct json_reader *key, const char *start)
{
    if (!json_read_skip(&rd->r))
        return;
    while (*start == ' ' || (*start >= '\t' && *start <= '\r'))
        start++; /* before a value that is whole, so it ends */
    buf_addf(&rd->rest, "%s\"", rd->rest.len ? "," : "");
    buf_add(&rd->rest, key->text, key->len);
    buf_adds(&rd->rest, "\":");
    buf_add(&rd->rest, start, (size_t)(rd->r.at - start));
}

static void take_args(struct reader *rd, struct furiosa_event *e)
{
    struct json_reader *r = &rd->r;

    if (r->token != JSON_OBJECT) {
        json_read_skip(r);
        return;
    }
    while (json_read_next(r) == JSON_KEY) {
        struct json_reader key = *r;
        const char *start = r->at;

        json_read_next(r);
        if (e->ph == 'M' && json_read_is(&key, "name") && r->token == JSON_STRING)
            put_text(r, &rd->label);
        else if (!take_index(rd, e, &key))
            keep(rd, &key, start);
    }
}

static void take_member(struct reader *rd, struct furiosa_event *e, const struct json_reader *key)
{
    struct json_reader *r = &rd->r;
    const char *start = r->at;

    json_read_next(r);
    if (json_read_is(key, "name") && r->token == JSON_STRING) {
        put_text(r, &rd->name);
        e->has_name = true;
    } else if (json_read_is(key, "cat") && r->token == JSON_STRING) {
        put_text(r, &rd->cat);
    } else if (json_read_is(key, "ph") && r->token == JSON_STRING && r->len == 1) {
        e->ph = *r->text;
    } else if (json_read_is(key, "ts")) {
        e->has_ts = json_read_real(r, &e->ts);
    } else if (json_read_is(key, "dur")) {
        e->has_dur = json_read_real(r, &e->dur);
    } else if (json_read_is(key, "pid")) {
        json_read_int(r, &e->span.pid);
    } else if (json_read_is(key, "tid")) {
        e->has_tid = json_read_int(r, &e->tid);
    } else if (json_read_is(key, "args")) {
        take_args(rd, e);
    } else {
        keep(rd, key, start);
    }
}

static int add_event(struct reader *rd, struct furiosa_event *e)
{
    struct furiosa_span *s = &e->span;
    bool npu = buf_str(&rd->cat)[0] && strcmp(buf_str(&rd->cat), "NPU") == 0;

    if (rd->name.failed || rd->cat.failed || rd->label.failed || rd->rest.failed)
        return OPM_ENOMEM;
    if (e->ph == 'M') {
        if (strcmp(buf_str(&rd->name), "thread_name") == 0 && e->has_tid && e->tid >= NPU_TID)
            return furiosa_name_track(&rd->f, e->tid - NPU_TID, buf_str(&rd->label), rd->label.len);
        return 0;
    }
    if (e->ph != 'X' || !e->has_ts || !e->has_dur || !e->has_name || !(fabs(e->ts) < 4e15) ||
        !(fabs(e->dur) < 4e15)) {
        store_stat(rd->f.st, STAT_bad_time, 1);
        return 0;
    }
    s->start_ns = llround(e->ts * 1000);
    s->end_ns = s->start_ns + llround(e->dur * 1000);
    s->name = (struct furiosa_text){ buf_str(&rd->name), rd->name.len };
    s->cat = (struct furiosa_text){ buf_str(&rd->cat), rd->cat.len };
    s->rest = (struct furiosa_text){ buf_str(&rd->rest), rd->rest.len };
    if (!npu && e->has_tid)
        s->number[FURIOSA_thread_id] = e->tid;
    else if (npu && e->has_tid && s->number[FURIOSA_pe_index] == OPM_NULL_I64)
        s->number[FURIOSA_pe_index] = e->tid >= NPU_TID ? e->tid - NPU_TID : e->tid;
    return furiosa_add(&rd->f, s);
}

/* The events of the array that was just opened. */
static int read_events(struct reader *rd)
{
    struct json_reader *r = &rd->r;
    size_t n = 0;
    int rc = 0;

    while (rc == 0 && json_read_next(r) == JSON_OBJECT) {
        struct furiosa_event e = { .span = FURIOSA_SPAN_INIT };

        buf_clear(&rd->name);
        buf_clear(&rd->cat);
        buf_clear(&rd->label);
        buf_clear(&rd->rest);
        while (json_read_next(r) == JSON_KEY) {
            struct json_reader key = *r;

            take_member(rd, &e, &key);
        }
        if (r->token == JSON_BAD)
            break;
        rc = add_event(rd, &e);
        if (rc == 0 && ++n % PROGRESS_EVENTS == 0 && rd->f.src->progress &&
            rd->f.src->progress(rd->f.src->user, (uint64_t)(r->at - r->start), rd->f.src->len))
            rc = OPM_ELIMIT;
    }
    return rc;
}

static int read_all(struct reader *rd)
{
    struct json_reader *r = &rd->r;
    int rc = 0;

    if (json_read_next(r) == JSON_ARRAY)
        return read_events(rd);
    if (r->token != JSON_OBJECT)
        return 0;
    while (rc == 0 && json_read_next(r) == JSON_KEY) {
        bool events = json_read_is(r, "traceEvents");

        json_read_next(r);
        if (events && r->token == JSON_ARRAY)
            rc = read_events(rd);
        else
            json_read_skip(r);
    }
    return rc;
}

int furiosa_chrome_read(struct store *st, const struct import_source *src, opm_error *err)
{
    size_t skip = src->len >= 3 && memcmp(src->data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct reader rd = { .f = { .st = st, .src = src },
                         .r = json_read_of(src->data + skip, src->len - skip) };
    int rc = read_all(&rd);

    if (rc == 0 && rd.r.token == JSON_BAD && !rd.f.nspan)
        rc = opm__fail(err, OPM_EFORMAT, "%s: malformed JSON at byte %zu", src->path,
                       skip + (size_t)(rd.r.at - rd.r.start));
    else if (rc == 0 && rd.r.token == JSON_BAD)
        store_stat(st, rd.r.at == rd.r.end ? STAT_file_truncated : STAT_json_malformed, 1);
    else if (rc == 0)
        store_stat(st, STAT_file_truncated, src->cut);
    if (rc == 0)
        rc = furiosa_end(&rd.f);
    if (rc == OPM_ENOMEM || rc == OPM_ELIMIT)
        opm__fail(err, rc, "%s: %s", src->path, opm_status_text(rc));
    buf_release(&rd.name);
    buf_release(&rd.cat);
    buf_release(&rd.label);
    buf_release(&rd.rest);
    furiosa_release(&rd.f);
    return rc;
}
