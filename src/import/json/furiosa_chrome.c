/* furiosa_chrome.c -- read the Chrome trace that the Furiosa SDK writes; see furiosa.h.
 *
 * An array of complete events: category Nux or Runtime on the host, NPU on thread 10000000 + PE,
 * indexes as strings in args, and thread names at the end. Parents are not in it. */
#include "base/error.h"
#include "import/furiosa/furiosa.h"
#include "import/json/event_each.h"
#include "import/json/event_scan.h"
#include "import/json/sniff.h"

#include <math.h>
#include <string.h>

#define NPU_TID 10000000

static const uint8_t *skip_blank(const uint8_t *p, const uint8_t *end)
{
    while (p < end && is_blank((char)*p))
        p++;
    return p;
}

/* Does "cat": "VALUE" stand in the head? */
static bool has_cat(const uint8_t *head, size_t len, const char *value)
{
    const uint8_t *end = head + len;
    size_t n = strlen(value);

    for (const uint8_t *p = memmem(head, len, "\"cat\"", 5); p;
         p = memmem(p, (size_t)(end - p), "\"cat\"", 5)) {
        p = skip_blank(p + 5, end);
        if (p < end && *p == ':')
            p = skip_blank(p + 1, end);
        if ((size_t)(end - p) > n + 1 && *p == '"' && memcmp(p + 1, value, n) == 0 &&
            p[1 + n] == '"')
            return true;
    }
    return false;
}

bool furiosa_chrome_sniff(const uint8_t *head, size_t len)
{
    static const char *const names[] = { "\"Inference\"",     "\"Enqueue\"",      "\"FeedInputs\"",
                                         "\"ProgramBinary\"", "\"AllocateDram\"", "\"pe_index\"",
                                         "\"operator_index\"" };

    if (!json_first_bracket(head, len))
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

static int take_event(void *user, struct json_reader *r)
{
    struct reader *rd = user;
    struct furiosa_event e = { .span = FURIOSA_SPAN_INIT };

    buf_clear(&rd->name);
    buf_clear(&rd->cat);
    buf_clear(&rd->label);
    buf_clear(&rd->rest);
    rd->r = *r;
    while (json_read_next(&rd->r) == JSON_KEY) {
        struct json_reader key = rd->r;

        take_member(rd, &e, &key);
    }
    return add_event(rd, &e);
}

int furiosa_chrome_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct reader rd = { .f = { .st = st, .src = src } };
    int rc = event_each(st, src, take_event, &rd, err);

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
