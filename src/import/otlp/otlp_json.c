/* otlp_json.c -- OTLP as JSON: one document, or one per line as collectors write them.
 *
 * Names in camel case or with underscores; 64-bit numbers as texts or numbers. */
#include "import/otlp/otlp.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_read.h"
#include "import/common/json_texts.h"
#include "import/json/sniff.h"

#include <string.h>

#define VALUE_DEPTH_MAX 8

struct json {
    struct otlp o;
    struct json_reader r;
    struct json_texts texts; /* of the present span */
    struct json_texts names; /* of the present resource */
    struct text service, host;
};

bool otlp_json_sniff(const uint8_t *head, size_t len)
{
    return json_first_bracket(head, len) == '{' && (head_contains(head, len, "\"resourceSpans\"") ||
                                                    head_contains(head, len, "\"resource_spans\""));
}

/* The value that was just begun, if it is more than one token. */
static void skip(struct json *j)
{
    if (j->r.token == JSON_OBJECT || j->r.token == JSON_ARRAY)
        json_read_skip(&j->r);
}

static bool is_key(const struct json *j, const char *camel, const char *plain)
{
    return json_read_is(&j->r, camel) || json_read_is(&j->r, plain);
}

/* A value, to args if w is given. The reader stands on its first token. */
static void read_plain(struct json *j, struct json_writer *w, struct otlp_value *v)
{
    double real;

    *v = (struct otlp_value){ .kind = OTLP_NONE };
    if (j->r.token == JSON_STRING || j->r.token == JSON_NUMBER) {
        bool text = j->r.token == JSON_STRING;

        if (text) {
            v->kind = OTLP_TEXT;
            v->text = json_texts_get(&j->texts, &j->r);
        } else if (json_read_int(&j->r, &v->i)) {
            v->kind = OTLP_INT;
        } else if (json_read_real(&j->r, &real)) {
            v->kind = OTLP_REAL;
            v->real = real;
        }
        if (w && v->kind == OTLP_TEXT)
            json_str(w, v->text.p, v->text.len);
        else if (w && v->kind == OTLP_INT)
            json_i64(w, v->i);
        else if (w)
            json_f64(w, v->real);
        return;
    }
    if (w && (j->r.token == JSON_TRUE || j->r.token == JSON_FALSE))
        json_bool(w, j->r.token == JSON_TRUE);
    else if (w)
        json_null(w);
    if (j->r.token == JSON_OBJECT || j->r.token == JSON_ARRAY)
        json_read_skip(&j->r);
}

static void read_value(struct json *j, struct json_writer *w, struct otlp_value *v, int depth);

/* {"values": [V, ...]}: all of it to args, and the first text to *v. */
static void read_values(struct json *j, struct json_writer *w, struct otlp_value *v, int depth)
{
    struct otlp_value inner;

    if (w)
        json_array(w);
    while (json_read_next(&j->r) == JSON_KEY) {
        bool values = json_read_is(&j->r, "values");

        json_read_next(&j->r);
        if (!values || j->r.token != JSON_ARRAY) {
            skip(j);
            continue;
        }
        while (json_read_next(&j->r) != JSON_ARRAY_END && j->r.token != JSON_BAD) {
            read_value(j, w, &inner, depth);
            if (v->kind == OTLP_NONE && inner.kind == OTLP_TEXT)
                *v = inner;
        }
    }
    if (w)
        json_array_end(w);
}

/* {"intValue": "12"} and the like. One value goes to w, whatever is there. */
static void read_value(struct json *j, struct json_writer *w, struct otlp_value *v, int depth)
{
    bool written = false;

    *v = (struct otlp_value){ .kind = OTLP_NONE };
    if (j->r.token != JSON_OBJECT) {
        read_plain(j, w, v);
        return;
    }
    while (json_read_next(&j->r) == JSON_KEY) {
        bool whole = is_key(j, "intValue", "int_value");
        bool list = is_key(j, "arrayValue", "array_value");

        json_read_next(&j->r);
        if (written) {
            skip(j);
            continue;
        }
        written = true;
        if (whole && json_read_int(&j->r, &v->i)) {
            v->kind = OTLP_INT;
            if (w)
                json_i64(w, v->i);
        } else if (list && j->r.token == JSON_OBJECT && depth < VALUE_DEPTH_MAX) {
            read_values(j, w, v, depth + 1);
        } else {
            read_plain(j, w, v);
        }
    }
    if (w && !written)
        json_null(w);
}

/* [{"key": K, "value": V}, ...]; of a resource only the names of service and host are of use. */
static void read_attributes(struct json *j, bool resource)
{
    if (j->r.token != JSON_ARRAY) {
        skip(j);
        return;
    }
    while (json_read_next(&j->r) == JSON_OBJECT) {
        struct text key = { "", 0 };
        bool keyed = false;

        while (json_read_next(&j->r) == JSON_KEY) {
            bool is_name = json_read_is(&j->r, "key"), is_value = json_read_is(&j->r, "value");
            struct otlp_value v;

            json_read_next(&j->r);
            if (is_name && j->r.token == JSON_STRING) {
                key = json_texts_get(resource ? &j->names : &j->texts, &j->r);
            } else if (is_value && !keyed && resource) {
                read_value(j, NULL, &v, 0);
                if (v.kind == OTLP_TEXT && text_is(key, "service.name"))
                    j->service = v.text;
                if (v.kind == OTLP_TEXT && text_is(key, "host.name"))
                    j->host = v.text;
            } else if (is_value && !keyed) {
                keyed = true;
                otlp_key(&j->o, key);
                read_value(j, &j->o.w, &v, 0);
                otlp_attribute(&j->o, key, &v);
            } else {
                skip(j);
            }
        }
    }
}

static int64_t read_time(struct json *j)
{
    int64_t v;

    return json_read_int(&j->r, &v) ? v : OPM_NULL_I64;
}

static void read_events(struct json *j)
{
    if (j->r.token != JSON_ARRAY) {
        skip(j);
        return;
    }
    while (json_read_next(&j->r) == JSON_OBJECT) {
        struct text name = { "", 0 };
        int64_t ts = OPM_NULL_I64;

        while (json_read_next(&j->r) == JSON_KEY) {
            bool named = json_read_is(&j->r, "name"),
                 timed = is_key(j, "timeUnixNano", "time_unix_nano");

            json_read_next(&j->r);
            if (named && j->r.token == JSON_STRING)
                name = json_texts_get(&j->texts, &j->r);
            else if (timed)
                ts = read_time(j);
            else
                skip(j);
        }
        otlp_event(&j->o, name, ts);
    }
}

static void read_span(struct json *j)
{
    struct otlp_span *s = &j->o.span;

    json_texts_clear(&j->texts);
    otlp_span_begin(&j->o);
    while (json_read_next(&j->r) == JSON_KEY) {
        struct text *id = is_key(j, "traceId", "trace_id")              ? &s->trace
                          : is_key(j, "spanId", "span_id")              ? &s->id
                          : is_key(j, "parentSpanId", "parent_span_id") ? &s->parent
                          : json_read_is(&j->r, "name")                 ? &s->name
                                                                        : NULL;
        bool start = is_key(j, "startTimeUnixNano", "start_time_unix_nano");
        bool end = is_key(j, "endTimeUnixNano", "end_time_unix_nano");
        bool kind = json_read_is(&j->r, "kind"), events = json_read_is(&j->r, "events");
        bool attributes = json_read_is(&j->r, "attributes");

        json_read_next(&j->r);
        if (id && j->r.token == JSON_STRING)
            *id = json_texts_get(&j->texts, &j->r);
        else if (start)
            s->start_ns = read_time(j);
        else if (end)
            s->end_ns = read_time(j);
        else if (kind)
            json_read_int(&j->r, &s->kind);
        else if (attributes)
            read_attributes(j, false);
        else if (events)
            read_events(j);
        else
            skip(j);
    }
    if (j->texts.failed)
        j->o.b.rc = OPM_ENOMEM;
    if (j->r.token == JSON_BAD)
        s->start_ns = OPM_NULL_I64; /* it is not said to its end */
    otlp_span_end(&j->o);
}

/* Go down a list of objects for what `each` takes by name. */
static void read_list(struct json *j, void (*each)(struct json *j))
{
    if (j->r.token != JSON_ARRAY) {
        skip(j);
        return;
    }
    while (!j->o.b.rc && json_read_next(&j->r) == JSON_OBJECT) {
        each(j);
        if (build_tick(&j->o.b, (uint64_t)(j->r.at - j->r.start),
                       (uint64_t)(j->r.end - j->r.start)))
            return;
    }
}

static void read_scope(struct json *j)
{
    while (!j->o.b.rc && json_read_next(&j->r) == JSON_KEY) {
        bool spans = json_read_is(&j->r, "spans");

        json_read_next(&j->r);
        if (spans)
            read_list(j, read_span);
        else
            skip(j);
    }
}

static void read_resource_attributes(struct json *j)
{
    if (j->r.token != JSON_OBJECT) {
        skip(j);
        return;
    }
    while (json_read_next(&j->r) == JSON_KEY) {
        bool attributes = json_read_is(&j->r, "attributes");

        json_read_next(&j->r);
        if (attributes)
            read_attributes(j, true);
        else
            skip(j);
    }
}

static void read_resource(struct json *j)
{
    struct json_reader begin = j->r;

    json_texts_clear(&j->names);
    json_texts_clear(&j->texts);
    j->service = j->host = (struct text){ "", 0 };
    /* The resource may stand behind its spans. */
    while (json_read_next(&j->r) == JSON_KEY) {
        bool resource = json_read_is(&j->r, "resource");

        json_read_next(&j->r);
        if (resource)
            read_resource_attributes(j);
        else
            skip(j);
    }
    otlp_service(&j->o, j->service, j->host);
    j->r = begin;
    while (!j->o.b.rc && json_read_next(&j->r) == JSON_KEY) {
        bool scopes = is_key(j, "scopeSpans", "scope_spans") ||
                      json_read_is(&j->r, "instrumentationLibrarySpans");

        json_read_next(&j->r);
        if (scopes)
            read_list(j, read_scope);
        else
            skip(j);
    }
}

/* The end of the object that begins at p; end if it is not closed. */
static const char *object_end(const char *p, const char *end)
{
    size_t depth = 0;
    bool text = false;

    for (; p < end; p++) {
        if (text) {
            if (*p == '\\' && p + 1 < end)
                p++;
            else
                text = *p != '"';
        } else if (*p == '"') {
            text = true;
        } else if (*p == '{') {
            depth++;
        } else if (*p == '}' && --depth == 0) {
            return p + 1;
        }
    }
    return end;
}

static void read_document(struct json *j)
{
    if (json_read_next(&j->r) != JSON_OBJECT)
        return;
    while (!j->o.b.rc && json_read_next(&j->r) == JSON_KEY) {
        bool resources = is_key(j, "resourceSpans", "resource_spans");

        json_read_next(&j->r);
        if (resources)
            read_list(j, read_resource);
        else
            skip(j);
    }
}

int otlp_json_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct json j = { .o = { .b = { .st = st, .src = src } } };
    const char *p = (const char *)src->data, *end = p + src->len;
    int rc;

    while (p < end && !j.o.b.rc) {
        const char *from = memchr(p, '{', (size_t)(end - p));

        if (!from)
            break;
        p = object_end(from, end);
        j.r = json_read_of(from, (size_t)(p - from));
        read_document(&j);
        if (j.r.token == JSON_BAD)
            store_stat(st, STAT_json_malformed, 1);
    }
    if (src->cut)
        store_stat(st, STAT_file_truncated, 1);
    if (!j.o.b.rc)
        otlp_finish(&j.o);
    json_texts_clear(&j.texts);
    json_texts_clear(&j.names);
    arena_release(&j.texts.arena);
    arena_release(&j.names.arena);
    rc = build_end(&j.o.b, err);
    otlp_release(&j.o);
    return rc;
}
