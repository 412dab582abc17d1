/* ort_profile.c -- read the profile that ONNX Runtime writes.
 *
 * An array of Chrome trace events, one node or session event each, with integer microseconds since
 * profiling began. An event is written when it ends, so those inside an If or Loop come before it.
 */
#include "engine/ort/ort_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_read.h"

#include <stdlib.h>
#include <string.h>

static const char kernel_suffix[] = "_kernel_time";

/* What one event object says; texts are in place. */
struct raw_event {
    struct json_reader name, type, provider; /* .text NULL: absent */
    const char *in_shapes, *out_shapes;
    size_t in_len, out_len;
    int64_t ts, dur;
    bool is_node, is_session;
};

static const char *keep(struct ort_profile *p, const struct json_reader *r, struct buf *tmp)
{
    buf_clear(tmp);
    if (r->text)
        json_read_text(r, tmp);
    return tmp->failed ? NULL : arena_strndup(&p->arena, buf_str(tmp), tmp->len);
}

/* The text of the value that comes next, whatever it is. */
static void take_raw(struct json_reader *r, const char **text, size_t *len)
{
    const char *end;

    if (json_read_next(r) != JSON_ARRAY)
        return;
    *text = r->at - 1;
    if (!json_read_skip(r)) {
        *text = NULL;
        return;
    }
    end = r->at;
    *len = (size_t)(end - *text);
}

static void read_args(struct json_reader *r, struct raw_event *e)
{
    while (json_read_next(r) == JSON_KEY) {
        if (json_read_is(r, "op_name") && json_read_next(r) == JSON_STRING) {
            e->type = *r;
        } else if (json_read_is(r, "provider") && json_read_next(r) == JSON_STRING) {
            e->provider = *r;
        } else if (json_read_is(r, "input_type_shape")) {
            take_raw(r, &e->in_shapes, &e->in_len);
        } else if (json_read_is(r, "output_type_shape")) {
            take_raw(r, &e->out_shapes, &e->out_len);
        } else {
            json_read_skip(r);
        }
    }
}

/* The object has just begun. False if it is not JSON to its end. */
static bool read_event(struct json_reader *r, struct raw_event *e)
{
    *e = (struct raw_event){ .ts = -1, .dur = -1 };
    while (json_read_next(r) == JSON_KEY) {
        if (json_read_is(r, "cat")) {
            json_read_next(r);
            e->is_node = r->token == JSON_STRING && json_read_is(r, "Node");
            e->is_session = r->token == JSON_STRING && json_read_is(r, "Session");
        } else if (json_read_is(r, "name")) {
            if (json_read_next(r) == JSON_STRING)
                e->name = *r;
        } else if (json_read_is(r, "ts")) {
            json_read_next(r);
            json_read_int(r, &e->ts);
        } else if (json_read_is(r, "dur")) {
            json_read_next(r);
            json_read_int(r, &e->dur);
        } else if (json_read_is(r, "args")) {
            if (json_read_next(r) == JSON_OBJECT)
                read_args(r, e);
        } else {
            json_read_skip(r);
        }
        if (r->token == JSON_OBJECT || r->token == JSON_ARRAY)
            json_read_skip(r); /* not what was expected */
    }
    return r->token == JSON_OBJECT_END;
}

/* tmp holds "TYPE\nNAME", which is what makes a node; nothing is kept for one seen before. */
static int add_node(struct ort_profile *p, const struct raw_event *e, struct buf *tmp,
                    uint32_t *out)
{
    size_t old = p->key_cap, type_len;
    struct ort_node n = { 0 };
    str_id id;

    if (tmp->failed || strpool_intern(&p->key, buf_str(tmp), tmp->len, &id) ||
        !GROW(p->by_key, p->key_cap, (size_t)id + 1))
        return OPM_ENOMEM;
    memset(p->by_key + old, 0, (p->key_cap - old) * sizeof(*p->by_key));
    if (p->by_key[id]) {
        *out = p->by_key[id] - 1;
        return 0;
    }
    type_len = strcspn(tmp->data, "\n");
    n.type = arena_strndup(&p->arena, tmp->data, type_len);
    n.name = arena_strndup(&p->arena, tmp->data + type_len + 1, tmp->len - type_len - 1);
    n.provider = keep(p, &e->provider, tmp);
    if (e->in_shapes)
        n.in_shapes = arena_strndup(&p->arena, e->in_shapes, e->in_len);
    if (e->out_shapes)
        n.out_shapes = arena_strndup(&p->arena, e->out_shapes, e->out_len);
    if (!n.type || !n.name || !n.provider || !GROW(p->node, p->node_cap, p->nnode + 1))
        return OPM_ENOMEM;
    p->node[p->nnode++] = n;
    p->by_key[id] = (uint32_t)p->nnode;
    *out = (uint32_t)p->nnode - 1;
    return 0;
}

static int add_session(struct ort_profile *p, struct buf *tmp, uint32_t *out)
{
    const char *name = buf_str(tmp);

    for (*out = 0; *out < p->nsession; ++*out)
        if (strcmp(p->session[*out], name) == 0)
            return 0;
    name = tmp->failed ? NULL : arena_strndup(&p->arena, name, tmp->len);
    if (!name || !GROW(p->session, p->session_cap, p->nsession + 1))
        return OPM_ENOMEM;
    p->session[p->nsession++] = name;
    return 0;
}

/* Node events end in _kernel_time; those that do not are fences of old versions, not work. */
static int add_event(struct ort_profile *p, const struct raw_event *e, struct buf *tmp)
{
    struct ort_event ev = { e->ts, e->dur, 0, (uint32_t)p->nevent, e->is_session };
    size_t tail = sizeof(kernel_suffix) - 1;
    int rc;

    if (e->ts < 0 || e->dur < 0 || e->ts > INT64_MAX / 4000 || e->dur > INT64_MAX / 4000 ||
        !e->name.text || (!e->is_node && !e->is_session))
        return 0;
    buf_clear(tmp);
    if (e->is_node) {
        if (e->type.text)
            json_read_text(&e->type, tmp);
        buf_addc(tmp, '\n');
    }
    json_read_text(&e->name, tmp);
    if (e->is_node && !tmp->failed) {
        if (tmp->len < tail || memcmp(tmp->data + tmp->len - tail, kernel_suffix, tail) != 0)
            return 0;
        tmp->len -= tail;
        tmp->data[tmp->len] = '\0';
    }
    rc = e->is_node ? add_node(p, e, tmp, &ev.node) : add_session(p, tmp, &ev.node);
    if (rc || !GROW(p->event, p->event_cap, p->nevent + 1))
        return OPM_ENOMEM;
    if (e->is_node)
        p->node[ev.node].count++;
    else
        p->runs += strcmp(p->session[ev.node], "model_run") == 0;
    p->event[p->nevent++] = ev;
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const struct ort_event *x = a, *y = b;

    if (x->ts_us != y->ts_us)
        return x->ts_us < y->ts_us ? -1 : 1;
    if (x->dur_us != y->dur_us)
        return x->dur_us > y->dur_us ? -1 : 1;
    return x->order > y->order ? -1 : 1; /* outer ones were written later */
}

static bool may_have_body(const char *type)
{
    return strcmp(type, "If") == 0 || strcmp(type, "Loop") == 0 || strcmp(type, "Scan") == 0;
}

/* Find the nodes that ran others inside. Rounding may let an inner event end up to 1 us after its
 * outer one: it is cut there. */
static void find_bodies(struct ort_profile *p)
{
    enum { DEEPEST = 64 };
    struct ort_event *open[DEEPEST];
    size_t n = 0;

    for (size_t i = 0; i < p->nevent; i++) {
        struct ort_event *e = &p->event[i];

        if (e->session)
            continue;
        while (n && e->ts_us >= open[n - 1]->ts_us + open[n - 1]->dur_us &&
               (e->dur_us || e->ts_us > open[n - 1]->ts_us + open[n - 1]->dur_us))
            n--;
        if (n) {
            p->node[open[n - 1]->node].has_body = true;
            e->dur_us = MIN(e->dur_us, open[n - 1]->ts_us + open[n - 1]->dur_us - e->ts_us);
        }
        if (n < DEEPEST && e->dur_us && may_have_body(p->node[e->node].type))
            open[n++] = e;
    }
}

int ort_profile_read(struct ort_profile *p, const void *json, size_t len, opm_error *err)
{
    struct json_reader r = json_read_of(json, len);
    struct raw_event e;
    struct buf tmp = { 0 };
    int rc = 0;

    *p = (struct ort_profile){ 0 };
    if (json_read_next(&r) != JSON_ARRAY)
        return opm__fail(err, OPM_EFORMAT, "ONNX Runtime's profile is not a JSON array");
    while (!rc && json_read_next(&r) == JSON_OBJECT && read_event(&r, &e))
        rc = add_event(p, &e, &tmp);
    p->cut = r.token != JSON_ARRAY_END;
    buf_release(&tmp);
    if (rc) {
        ort_profile_release(p);
        return opm__fail(err, rc, "out of memory while reading ONNX Runtime's profile");
    }
    if (p->nevent)
        qsort(p->event, p->nevent, sizeof(*p->event), by_time);
    find_bodies(p);
    return 0;
}

void ort_profile_release(struct ort_profile *p)
{
    arena_release(&p->arena);
    strpool_release(&p->key);
    mem_free(p->node);
    mem_free(p->by_key);
    mem_free(p->session);
    mem_free(p->event);
    *p = (struct ort_profile){ 0 };
}
