/* xplane_args.c -- statistics that no column holds, as args.
 *
 * What an event says itself is mostly numbers; the texts come from its metadata, are long and the
 * same for all events of a kind. So args are forms (store.h), one for each metadata and sequence of
 * statistics, and found by these: no text is written per event. */
#include "import/xplane/xplane_int.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <string.h>

#define KEY_MAX_BYTES                                                                           \
    1024                 /* of what tells forms apart; beyond, the args are a text of their own \
                          */
#define FORMS_MAX 65536  /* of a plane: so many differ in more than numbers; likewise */
#define FORMS_TRIED 2048 /* likewise, where hardly any was found again */
#define DIGITS_MAX 18

static void put_value(struct xp *x, struct json_writer *w, const struct xvalue *v)
{
    switch (v->kind) {
    case XVALUE_INT:
        json_i64(w, v->i);
        break;
    case XVALUE_UINT:
        json_u64(w, (uint64_t)v->i);
        break;
    case XVALUE_REAL:
        json_f64(w, v->f);
        break;
    case XVALUE_TEXT:
        if (v->ref && !build_echo(&x->b, v->len))
            json_null(w);
        else
            json_str(w, v->text, v->len);
        break;
    case XVALUE_BYTES: {
        char text[48];

        snprintf(text, sizeof(text), "%zu bytes", v->len);
        json_cstr(w, text);
        break;
    }
    case XVALUE_NONE:
        json_null(w);
        break;
    }
}

/* 12.50 as 1250 and 2. False: it is too long, or written with an exponent. */
static bool decimal_of(struct xp *x, double f, int64_t value[2])
{
    struct json_writer w = { .buf = &x->scratch };
    const char *p;
    int digits = 0;
    bool minus, point = false;

    buf_clear(&x->scratch);
    json_f64(&w, f);
    p = buf_str(&x->scratch);
    minus = *p == '-';
    value[0] = value[1] = 0;
    for (p += minus; *p; p++) {
        if (*p == '.' && !point) {
            point = true;
            continue;
        }
        if (*p < '0' || *p > '9' || ++digits > DIGITS_MAX)
            return false;
        value[0] = value[0] * 10 + (*p - '0');
        value[1] += point;
    }
    if (!digits || (minus && !value[0]))
        return false;
    if (minus)
        value[0] = -value[0];
    return true;
}

/* What stands for a number in a form (store.h), and its values; 0: it is part of the text. */
static char hole_of(struct xp *x, const struct xvalue *v, int64_t value[2])
{
    if (v->kind == XVALUE_INT || (v->kind == XVALUE_UINT && v->i >= 0)) {
        value[0] = v->i;
        return ARGS_INT;
    }
    return v->kind == XVALUE_REAL && decimal_of(x, v->f, value) ? ARGS_DECIMAL : '\0';
}

static void put_members(struct xp *x, struct json_writer *w, bool form)
{
    for (size_t i = 0; i < x->narg && !x->b.rc; i++) {
        const struct xarg *a = &x->arg[i];
        char room[XSTAT_NAME_ROOM];
        int64_t value[2];
        char hole = form ? hole_of(x, &a->v, value) : '\0';

        json_key(w, xstat_name(x, a->stat, room));
        if (hole)
            json_raw(w, &hole, 1);
        else
            put_value(x, w, &a->v);
    }
}

static size_t long_name_len(const struct xp *x, const struct xevent_metadata *m)
{
    return m->display && m->name && m->display != m->name
               ? strpool_len(store_strings(x->b.st), m->name)
               : 0;
}

static void put_long_name(struct xp *x, struct json_writer *w, const struct xevent_metadata *m)
{
    json_key(w, "long_name");
    json_str(w, store_text(x->b.st, m->name), long_name_len(x, m));
}

/* Into x->args: what m says, then the present statistics. */
static void put_args(struct xp *x, const struct xevent_metadata *m, bool form)
{
    struct json_writer w = { .buf = &x->args };
    size_t len = m ? m->members_len + long_name_len(x, m) : 0;
    bool whole = len && (!x->narg || build_echo(&x->b, len));

    buf_clear(&x->args);
    json_object(&w);
    if (whole && m->members_len)
        json_raw(&w, m->members, m->members_len);
    put_members(x, &w, form);
    if (whole && long_name_len(x, m))
        put_long_name(x, &w, m);
    json_object_end(&w);
    build_check(&x->b, &x->args);
}

void xargs_add(struct xp *x, uint64_t stat, const struct xvalue *v)
{
    if (!GROW(x->arg, x->arg_cap, x->narg + 1)) {
        x->b.rc = OPM_ENOMEM;
        return;
    }
    x->arg[x->narg++] = (struct xarg){ stat, *v };
}

void xargs_of_metadata(struct xp *x, struct xevent_metadata *m)
{
    struct json_writer w = { .buf = &x->args };

    buf_clear(&x->args);
    json_object(&w);
    put_members(x, &w, false);
    build_check(&x->b, &x->args);
    if (x->b.rc || !x->narg)
        return;
    m->members_len = x->args.len - 1;
    m->members = arena_strndup(&x->arena, x->args.data + 1, m->members_len);
    if (!m->members)
        x->b.rc = OPM_ENOMEM;
}

/* What tells the form from others, into x->key, and the values, into x->value. */
static void make_key(struct xp *x, const struct xevent_metadata *m)
{
    uint64_t of = (uint64_t)(uintptr_t)m;

    buf_clear(&x->key);
    buf_add(&x->key, &of, sizeof(of));
    x->nvalue = 0;
    for (size_t i = 0; i < x->narg && x->key.len <= KEY_MAX_BYTES; i++) {
        const struct xarg *a = &x->arg[i];
        int64_t value[2] = { 0 };
        char hole = hole_of(x, &a->v, value), kind = (char)a->v.kind;
        uint64_t text = a->v.ref ? a->v.ref : a->v.len;

        buf_add(&x->key, &a->stat, sizeof(a->stat));
        buf_addc(&x->key, kind);
        buf_addc(&x->key, hole);
        if (!GROW(x->value, x->value_cap, x->nvalue + 2)) {
            x->b.rc = OPM_ENOMEM;
            return;
        }
        if (hole) {
            x->value[x->nvalue++] = value[0];
            if (hole == ARGS_DECIMAL)
                x->value[x->nvalue++] = value[1];
        } else if (a->v.kind == XVALUE_TEXT || a->v.kind == XVALUE_BYTES) {
            buf_addc(&x->key, a->v.ref != 0);
            buf_add(&x->key, &text, sizeof(text));
            if (!a->v.ref && a->v.kind == XVALUE_TEXT)
                buf_add(&x->key, a->v.text, MIN(a->v.len, KEY_MAX_BYTES + 1));
        } else {
            buf_add(&x->key, &a->v.i, sizeof(a->v.i));
            buf_add(&x->key, &a->v.f, sizeof(a->v.f));
        }
    }
    build_check(&x->b, &x->key);
}

/* The form of the key; XARGS_NO_FORM: it has none. */
static uint32_t form_of_key(struct xp *x, const struct xevent_metadata *m)
{
    str_id id = strpool_find(&x->keys, x->key.data, x->key.len);

    if (id) {
        x->hits++;
        return x->form[id];
    }
    if (strpool_count(&x->keys) >= (x->hits < FORMS_TRIED ? FORMS_TRIED : FORMS_MAX))
        return XARGS_NO_FORM;
    put_args(x, m, true);
    if (x->b.rc)
        return XARGS_NO_FORM;
    x->b.rc = strpool_intern(&x->keys, x->key.data, x->key.len, &id);
    if (!x->b.rc && !GROW(x->form, x->form_cap, (size_t)id + 1))
        x->b.rc = OPM_ENOMEM;
    if (!x->b.rc)
        x->b.rc = store_args_form(x->b.st, x->args.data, x->args.len, &x->form[id]);
    return x->b.rc ? XARGS_NO_FORM : x->form[id];
}

str_id xargs_text(struct xp *x, struct xevent_metadata *m, uint32_t *out_form)
{
    *out_form = XARGS_NO_FORM;
    if (x->b.rc || (!x->narg && !m))
        return 0;
    if (!x->narg) {
        if (!m->args_made && (m->members_len || long_name_len(x, m))) {
            put_args(x, m, false);
            m->args = build_buf(&x->b, &x->args);
        }
        m->args_made = true;
        return m->args;
    }
    make_key(x, m);
    if (!x->b.rc && x->key.len <= KEY_MAX_BYTES)
        *out_form = form_of_key(x, m);
    if (x->b.rc || *out_form != XARGS_NO_FORM)
        return 0;
    put_args(x, m, false);
    return build_buf(&x->b, &x->args);
}

void xargs_values(struct xp *x, uint32_t span, uint32_t form)
{
    if (!x->b.rc && form != XARGS_NO_FORM)
        x->b.rc = store_span_set_args_form(x->b.st, span, form, x->value);
}

void xargs_release(struct xp *x)
{
    strpool_release(&x->keys);
    mem_free(x->form);
    x->form = NULL;
    x->form_cap = 0;
    x->hits = 0;
}
