/* thrift.c -- see thrift.h. */
#include "base/thrift.h"

#include <string.h>

#define LONG_LIST 15 /* as many items or more: their number stands behind */

static void put_head(struct thrift_put *t, int id, enum thrift_type type)
{
    int16_t *last = &t->last[t->depth - 1];
    int step = id - *last;

    if (step > 0 && step < 16) {
        buf_addc(t->out, (char)(step << 4 | (int)type));
    } else {
        buf_addc(t->out, (char)type);
        buf_add_zigzag(t->out, id);
    }
    *last = (int16_t)id;
}

static void put_open(struct thrift_put *t)
{
    assert(t->depth < THRIFT_DEPTH_MAX);
    t->last[t->depth++] = 0;
}

struct thrift_put thrift_put_of(struct buf *out)
{
    struct thrift_put t = { .out = out };

    put_open(&t);
    return t;
}

void thrift_put_bool(struct thrift_put *t, int id, bool v)
{
    put_head(t, id, v ? THRIFT_TRUE : THRIFT_FALSE);
}

void thrift_put_i16(struct thrift_put *t, int id, int16_t v)
{
    put_head(t, id, THRIFT_I16);
    buf_add_zigzag(t->out, v);
}

void thrift_put_i32(struct thrift_put *t, int id, int32_t v)
{
    put_head(t, id, THRIFT_I32);
    buf_add_zigzag(t->out, v);
}

void thrift_put_i64(struct thrift_put *t, int id, int64_t v)
{
    put_head(t, id, THRIFT_I64);
    buf_add_zigzag(t->out, v);
}

static void put_bytes(struct buf *b, const void *p, size_t len)
{
    buf_add_varint(b, len);
    buf_add(b, p, len);
}

void thrift_put_bytes(struct thrift_put *t, int id, const void *p, size_t len)
{
    put_head(t, id, THRIFT_BINARY);
    put_bytes(t->out, p, len);
}

void thrift_put_str(struct thrift_put *t, int id, const char *s)
{
    thrift_put_bytes(t, id, s, strlen(s));
}

void thrift_put_struct(struct thrift_put *t, int id)
{
    put_head(t, id, THRIFT_STRUCT);
    put_open(t);
}

void thrift_put_list(struct thrift_put *t, int id, enum thrift_type of, size_t n)
{
    put_head(t, id, THRIFT_LIST);
    if (n < LONG_LIST) {
        buf_addc(t->out, (char)(n << 4 | of));
    } else {
        buf_addc(t->out, (char)(LONG_LIST << 4 | of));
        buf_add_varint(t->out, n);
    }
}

void thrift_item_struct(struct thrift_put *t)
{
    put_open(t);
}

void thrift_item_i32(struct thrift_put *t, int32_t v)
{
    buf_add_zigzag(t->out, v);
}

void thrift_item_str(struct thrift_put *t, const char *s)
{
    put_bytes(t->out, s, strlen(s));
}

void thrift_put_end(struct thrift_put *t)
{
    buf_addc(t->out, THRIFT_STOP);
    t->depth--;
}

struct thrift_struct thrift_open(struct rd *r)
{
    return (struct thrift_struct){ .r = r, .depth = 1 };
}

struct thrift_struct thrift_enter(const struct thrift_struct *s)
{
    s->r->bad |= s->depth >= THRIFT_DEPTH_MAX;
    return (struct thrift_struct){ .r = s->r, .depth = s->depth + 1 };
}

/* A list's head. Each item takes a byte or more, so that a count beyond the bytes left is none. */
static void read_list(struct rd *r, struct thrift_field *out)
{
    uint8_t head = rd_u8(r);
    uint64_t n = head >> 4;

    if (n == LONG_LIST)
        n = rd_varint(r);
    r->bad |= n > rd_left(r);
    out->len = r->bad ? 0 : (size_t)n;
    out->item = head & 15;
}

static bool read_value(struct rd *r, enum thrift_type type, struct thrift_field *out)
{
    uint64_t len;

    switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE:
        out->i = type == THRIFT_TRUE;
        out->type = THRIFT_TRUE;
        break;
    case THRIFT_I8:
        out->i = (int8_t)rd_u8(r);
        break;
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64:
        out->i = rd_zigzag(r);
        break;
    case THRIFT_DOUBLE:
        rd_bytes(r, 8);
        break;
    case THRIFT_BINARY:
        len = rd_varint(r);
        r->bad |= len > rd_left(r);
        out->len = r->bad ? 0 : (size_t)len;
        out->p = rd_bytes(r, out->len);
        break;
    case THRIFT_LIST:
    case THRIFT_SET:
        read_list(r, out);
        break;
    case THRIFT_MAP:
    case THRIFT_STRUCT:
        break;
    default:
        r->bad = true;
    }
    return !r->bad;
}

bool thrift_next(struct thrift_struct *s, struct thrift_field *out)
{
    uint8_t head = rd_u8(s->r);
    int64_t id;

    if (s->r->bad || (head & 15) == THRIFT_STOP)
        return false;
    id = head >> 4 ? s->last + (head >> 4) : rd_zigzag(s->r);
    if (id < INT16_MIN || id > INT16_MAX) {
        s->r->bad = true;
        return false;
    }
    s->last = (int16_t)id;
    *out = (struct thrift_field){ .id = (int)id, .type = head & 15 };
    return read_value(s->r, out->type, out);
}

bool thrift_item(struct thrift_struct *s, enum thrift_type type, struct thrift_field *out)
{
    *out = (struct thrift_field){ .type = type };
    if (type == THRIFT_TRUE || type == THRIFT_FALSE) {
        out->type = THRIFT_TRUE;
        out->i = rd_u8(s->r) == THRIFT_TRUE;
        return !s->r->bad;
    }
    return read_value(s->r, type, out);
}

static void skip_items(struct thrift_struct *s, enum thrift_type type, uint64_t n)
{
    struct thrift_struct inner = thrift_enter(s);
    struct thrift_field f;

    for (uint64_t i = 0; i < n && !s->r->bad; i++)
        if (thrift_item(&inner, type, &f))
            thrift_skip(&inner, &f);
}

static void skip_map(struct thrift_struct *s)
{
    struct thrift_struct inner = thrift_enter(s);
    uint64_t n = rd_varint(s->r);
    uint8_t types = n ? rd_u8(s->r) : 0;
    struct thrift_field f;

    s->r->bad |= n > rd_left(s->r);
    for (uint64_t i = 0; i < n && !s->r->bad; i++) {
        if (thrift_item(&inner, types >> 4, &f))
            thrift_skip(&inner, &f);
        if (!s->r->bad && thrift_item(&inner, types & 15, &f))
            thrift_skip(&inner, &f);
    }
}

void thrift_skip(struct thrift_struct *s, const struct thrift_field *f)
{
    struct thrift_struct inner;
    struct thrift_field field;

    switch (f->type) {
    case THRIFT_LIST:
    case THRIFT_SET:
        skip_items(s, f->item, f->len);
        break;
    case THRIFT_MAP:
        skip_map(s);
        break;
    case THRIFT_STRUCT:
        inner = thrift_enter(s);
        while (!s->r->bad && thrift_next(&inner, &field))
            thrift_skip(&inner, &field);
        break;
    default:
        break;
    }
}
