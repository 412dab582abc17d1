/* otlp_pb.c -- OTLP as protobuf: TracesData, which an export request is as well. */
#include "import/otlp/otlp.h"

#include "base/error.h"
#include "base/pb.h"

#include <string.h>

#define VALUE_DEPTH_MAX 8
#define ID_ROOM 33 /* 16 bytes as hex */

enum { TRACES_RESOURCE_SPANS = 1 };
enum { RESOURCE_RESOURCE = 1, RESOURCE_SCOPES = 2 };
enum { SCOPE_SPANS = 2 };
enum {
    SPAN_TRACE = 1,
    SPAN_ID = 2,
    SPAN_PARENT = 4,
    SPAN_NAME = 5,
    SPAN_KIND = 6,
    SPAN_START = 7,
    SPAN_END = 8,
    SPAN_ATTRIBUTES = 9,
    SPAN_EVENTS = 11,
};
enum {
    VALUE_STRING = 1,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_DOUBLE,
    VALUE_ARRAY,
    VALUE_LIST,
    VALUE_BYTES
};

/* The next field of this number, of bytes that may lie partly beyond what is there (*cut), as in
 * the head of a file or in one that was cut off. */
static bool enter(struct rd *r, uint32_t number, struct rd *in, bool *cut)
{
    while (rd_left(r)) {
        uint64_t tag = rd_varint(r), len;

        if (r->bad || (tag & 7) == 3 || (tag & 7) == 4 || (tag & 7) > 5 || !(tag >> 3))
            return false;
        if ((tag & 7) != PB_LEN) {
            if ((tag & 7) == PB_VARINT)
                rd_varint(r);
            else
                rd_bytes(r, (tag & 7) == PB_I64 ? 8 : 4);
            continue;
        }
        len = rd_varint(r);
        if (r->bad)
            return false;
        if (tag >> 3 == number) {
            size_t n = MIN(len, (uint64_t)rd_left(r));

            *cut |= n < len;
            *in = rd_of(rd_bytes(r, n), n);
            return true;
        }
        if (len > rd_left(r)) {
            *cut = true;
            return false;
        }
        rd_bytes(r, (size_t)len);
    }
    return false;
}

bool otlp_sniff(const uint8_t *head, size_t len)
{
    struct rd all = rd_of(head, len), resource, scope, span;
    struct pb_field f;
    bool cut = false;

    if (!len || head[0] != (TRACES_RESOURCE_SPANS << 3 | PB_LEN) ||
        !enter(&all, TRACES_RESOURCE_SPANS, &resource, &cut) ||
        !enter(&resource, RESOURCE_SCOPES, &scope, &cut) ||
        !enter(&scope, SCOPE_SPANS, &span, &cut))
        return false;
    return pb_next(&span, &f) && f.number == SPAN_TRACE && f.wire == PB_LEN && f.len == 16 &&
           pb_next(&span, &f) && f.number == SPAN_ID && f.wire == PB_LEN && f.len == 8;
}

static void hex(const struct pb_field *f, char room[ID_ROOM], struct text *out)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = MIN(f->len, (size_t)(ID_ROOM - 1) / 2);

    for (size_t i = 0; i < n; i++) {
        room[2 * i] = digits[f->p[i] >> 4]; /* bounded: n is at most half of the room */
        room[2 * i + 1] = digits[f->p[i] & 15];
    }
    *out = (struct text){ room, 2 * n };
}

/* Every one leaves a value in w, if it is given. */
static void read_value(struct rd r, struct json_writer *w, struct otlp_value *v, int depth)
{
    struct pb_field f, last = { 0 };
    struct otlp_value inner;

    *v = (struct otlp_value){ .kind = OTLP_NONE };
    while (pb_next(&r, &f))
        last = f;
    if (last.number == VALUE_STRING && last.wire == PB_LEN) {
        v->kind = OTLP_TEXT;
        v->text = (struct text){ (const char *)last.p, last.len };
        if (w)
            json_str(w, v->text.p, v->text.len);
    } else if (last.number == VALUE_INT && last.wire == PB_VARINT) {
        v->kind = OTLP_INT;
        v->i = (int64_t)last.value;
        if (w)
            json_i64(w, v->i);
    } else if (last.number == VALUE_DOUBLE && last.wire == PB_I64) {
        v->kind = OTLP_REAL;
        memcpy(&v->real, &last.value, sizeof(v->real));
        if (w)
            json_f64(w, v->real);
    } else if (last.number == VALUE_BOOL && last.wire == PB_VARINT) {
        if (w)
            json_bool(w, last.value != 0);
    } else if (last.number == VALUE_ARRAY && last.wire == PB_LEN && depth < VALUE_DEPTH_MAX) {
        struct rd in = rd_of(last.p, last.len);

        if (w)
            json_array(w);
        while (pb_next(&in, &f))
            if (f.number == 1 && f.wire == PB_LEN) {
                read_value(rd_of(f.p, f.len), w, &inner, depth + 1);
                if (v->kind == OTLP_NONE && inner.kind == OTLP_TEXT)
                    *v = inner;
            }
        if (w)
            json_array_end(w);
    } else if (w) {
        json_null(w);
    }
}

/* KeyValue; of a resource only the names of service and host are of use. */
static void read_attribute(struct otlp *o, const struct pb_field *pair, struct text *service,
                           struct text *host)
{
    struct rd r = rd_of(pair->p, pair->len), value = { 0 };
    struct text key = { "", 0 };
    struct otlp_value v;
    struct pb_field f;
    bool any = false;

    while (pb_next(&r, &f)) {
        if (f.wire != PB_LEN)
            continue;
        if (f.number == 1)
            key = (struct text){ (const char *)f.p, f.len };
        any |= f.number == 2;
        if (f.number == 2)
            value = rd_of(f.p, f.len);
    }
    if (!any)
        return;
    if (!service) {
        otlp_key(o, key);
        read_value(value, &o->w, &v, 0);
        otlp_attribute(o, key, &v);
        return;
    }
    read_value(value, NULL, &v, 0);
    if (v.kind == OTLP_TEXT && text_is(key, "service.name"))
        *service = v.text;
    if (v.kind == OTLP_TEXT && text_is(key, "host.name"))
        *host = v.text;
}

static int64_t time_of(uint64_t v)
{
    return v && v <= INT64_MAX ? (int64_t)v : OPM_NULL_I64;
}

static void read_event(struct otlp *o, const struct pb_field *event)
{
    struct rd r = rd_of(event->p, event->len);
    struct text name = { "", 0 };
    int64_t ts = OPM_NULL_I64;
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 1 && f.wire == PB_I64)
            ts = time_of(f.value);
        if (f.number == 2 && f.wire == PB_LEN)
            name = (struct text){ (const char *)f.p, f.len };
    }
    otlp_event(o, name, ts);
}

static void read_span(struct otlp *o, struct rd r)
{
    char trace[ID_ROOM], id[ID_ROOM], parent[ID_ROOM];
    struct pb_field f;

    otlp_span_begin(o);
    while (pb_next(&r, &f)) {
        if (f.number == SPAN_KIND && f.wire == PB_VARINT)
            o->span.kind = (int64_t)MIN(f.value, (uint64_t)100);
        else if (f.number == SPAN_START && f.wire == PB_I64)
            o->span.start_ns = time_of(f.value);
        else if (f.number == SPAN_END && f.wire == PB_I64)
            o->span.end_ns = time_of(f.value);
        if (f.wire != PB_LEN)
            continue;
        if (f.number == SPAN_TRACE)
            hex(&f, trace, &o->span.trace);
        else if (f.number == SPAN_ID)
            hex(&f, id, &o->span.id);
        else if (f.number == SPAN_PARENT)
            hex(&f, parent, &o->span.parent);
        else if (f.number == SPAN_NAME)
            o->span.name = (struct text){ (const char *)f.p, f.len };
        else if (f.number == SPAN_ATTRIBUTES)
            read_attribute(o, &f, NULL, NULL);
        else if (f.number == SPAN_EVENTS)
            read_event(o, &f);
    }
    if (r.bad)
        store_stat(o->b.st, STAT_packet_damaged, 1);
    otlp_span_end(o);
}

static void read_scope(struct otlp *o, struct rd r)
{
    bool cut = false;
    struct rd span;

    while (!o->b.rc && enter(&r, SCOPE_SPANS, &span, &cut) && !cut)
        read_span(o, span);
    if (r.bad)
        store_stat(o->b.st, STAT_packet_damaged, 1);
}

static void read_resource(struct otlp *o, struct rd all)
{
    struct text service = { "", 0 }, host = { "", 0 };
    struct rd r = all, in;
    struct pb_field f;
    bool cut = false;

    while (enter(&r, RESOURCE_RESOURCE, &in, &cut))
        while (pb_next(&in, &f))
            if (f.number == 1 && f.wire == PB_LEN)
                read_attribute(o, &f, &service, &host);
    otlp_service(o, service, host);
    r = all;
    while (!o->b.rc && enter(&r, RESOURCE_SCOPES, &in, &cut))
        read_scope(o, in);
    if (r.bad)
        store_stat(o->b.st, STAT_packet_damaged, 1);
}

int otlp_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct otlp o = { .b = { .st = st, .src = src } };
    struct rd r = rd_of(src->data, src->len), in;
    bool cut = src->cut;
    int rc;

    while (!o.b.rc && enter(&r, TRACES_RESOURCE_SPANS, &in, &cut)) {
        read_resource(&o, in);
        if (build_tick(&o.b, src->len - rd_left(&r), src->len))
            break;
    }
    if (!o.b.rc && (r.bad || cut))
        store_stat(st, STAT_file_truncated, 1);
    if (!o.b.rc)
        otlp_finish(&o);
    rc = build_end(&o.b, err);
    otlp_release(&o);
    return rc;
}
