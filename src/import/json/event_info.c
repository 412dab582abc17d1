/* event_info.c -- see event_info.h. */
#include "import/json/event_info.h"

#include "base/alloc.h"
#include "store/store.h"

#include <inttypes.h>
#include <string.h>

static unsigned hole_values(const struct hole *h)
{
    return h->type == HOLE_DECIMAL ? 2 : 1;
}

/* The hole at [from, to) of the text, quotes or not; NO_VALUE if there is none. */
static void find_hole(const struct event_shape *sh, struct member *m)
{
    bool quoted = m->token == JSON_STRING;
    uint16_t value = 0;

    m->value = NO_VALUE;
    for (unsigned i = 0; i < sh->nhole; i++) {
        const struct hole *h = &sh->strict_hole[i];

        if (h->at == m->from + quoted && h->at + h->len == m->to - quoted) {
            m->value = value;
            m->hole = h->type;
        }
        value = (uint16_t)(value + hole_values(h));
    }
}

/* The members of the object that r has just begun. */
static bool read_members(struct member_list *l, const struct event_shape *sh, struct json_reader *r)
{
    l->n = 0;
    while (json_read_next(r) == JSON_KEY) {
        struct member *m;

        if (!GROW(l->m, l->cap, l->n + 1))
            return false;
        m = &l->m[l->n];
        m->key = *r;
        m->token = json_read_next(r);
        m->at = *r;
        switch (m->token) {
        case JSON_STRING:
            m->from = (uint32_t)(r->text - 1 - sh->strict);
            m->to = (uint32_t)(r->text + r->len + 1 - sh->strict);
            break;
        case JSON_OBJECT:
        case JSON_ARRAY:
            m->from = (uint32_t)(r->at - 1 - sh->strict);
            if (!json_read_skip(r))
                return false;
            m->to = (uint32_t)(r->at - sh->strict);
            break;
        case JSON_NUMBER:
            m->from = (uint32_t)(r->text - sh->strict);
            m->to = m->from + (uint32_t)r->len;
            break;
        case JSON_TRUE:
        case JSON_NULL:
            m->to = (uint32_t)(r->at - sh->strict);
            m->from = m->to - 4;
            break;
        case JSON_FALSE:
            m->to = (uint32_t)(r->at - sh->strict);
            m->from = m->to - 5;
            break;
        default:
            return false;
        }
        find_hole(sh, m);
        l->n++;
    }
    return r->token == JSON_OBJECT_END;
}

bool event_info_read(struct event_info *info, const struct event_shape *sh)
{
    struct json_reader r = json_read_of(sh->strict, sh->strict_len);
    const struct member *args;

    info->shape = sh;
    info->args.n = 0;
    if (json_read_next(&r) != JSON_OBJECT || !read_members(&info->event, sh, &r))
        return false;
    args = member_find(&info->event, "args");
    if (!args || args->token != JSON_OBJECT)
        return true;
    r = json_read_of(sh->strict + args->from, args->to - args->from);
    return json_read_next(&r) == JSON_OBJECT && read_members(&info->args, sh, &r);
}

void event_info_release(struct event_info *info)
{
    mem_free(info->event.m);
    mem_free(info->args.m);
    *info = (struct event_info){ 0 };
}

/* A number as it stands in the text; times in microseconds. */
static void add_hole(const struct hole *h, const int64_t *value, struct buf *out)
{
    static const char marker[] = {
        [HOLE_INT] = ARGS_INT, [HOLE_DECIMAL] = ARGS_DECIMAL, [HOLE_HEX] = ARGS_HEX
    };

    if (h->type != HOLE_TIME) {
        store_args_text(&marker[h->type], 1, value, out);
    } else {
        uint64_t ns = *value < 0 ? 0 - (uint64_t)*value : (uint64_t)*value;

        buf_addf(out, "%s%" PRIu64 ".%03u", *value < 0 ? "-" : "", ns / 1000,
                 (unsigned)(ns % 1000));
    }
}

void event_shape_text(const struct event_shape *shape, const int64_t *value, struct buf *out)
{
    size_t at = 0;

    for (unsigned i = 0; i < shape->nhole; i++) {
        const struct hole *h = &shape->strict_hole[i];

        buf_add(out, shape->strict + at, h->at - at);
        add_hole(h, value, out);
        at = h->at + h->len;
        value += hole_values(h);
    }
    buf_add(out, shape->strict + at, shape->strict_len - at);
}

void member_text(const struct event_info *info, const struct member *m, const int64_t *value,
                 struct buf *out)
{
    const char *text = info->shape->strict + m->from;
    size_t len = m->to - m->from;

    if (m->value != NO_VALUE && value) {
        static const char marker[] = {
            [HOLE_INT] = ARGS_INT, [HOLE_DECIMAL] = ARGS_DECIMAL, [HOLE_HEX] = ARGS_HEX
        };

        if (m->hole != HOLE_TIME) {
            store_args_text(&marker[m->hole], 1, value + m->value, out);
            return;
        }
    }
    if (m->token == JSON_STRING)
        json_read_text(&m->at, out);
    else
        buf_add(out, text, len);
}

bool member_int(const struct member *m, int64_t *out)
{
    return m && m->value == NO_VALUE && (m->token == JSON_NUMBER || m->token == JSON_STRING) &&
           json_read_int(&m->at, out);
}

bool member_is(const struct member *m, const char *s)
{
    return m && m->token == JSON_STRING && json_read_is(&m->at, s);
}

void member_form(const struct event_info *info, const struct member *m, struct buf *out,
                 uint16_t *index, unsigned *n)
{
    const struct event_shape *sh = info->shape;
    const char *text = sh->strict;
    unsigned h = 0;
    uint16_t value = 0;
    bool string = false;

    for (; h < sh->nhole && sh->strict_hole[h].at < m->from; h++)
        value = (uint16_t)(value + hole_values(&sh->strict_hole[h]));
    for (uint32_t i = m->from; i < m->to; i++) {
        const struct hole *hole = &sh->strict_hole[h];

        if (h < sh->nhole && i == hole->at && hole->type != HOLE_TIME) {
            buf_addc(out, hole->type == HOLE_INT       ? ARGS_INT
                          : hole->type == HOLE_DECIMAL ? ARGS_DECIMAL
                                                       : ARGS_HEX);
            index[(*n)++] = value;
            if (hole->type == HOLE_DECIMAL)
                index[(*n)++] = (uint16_t)(value + 1);
            i += hole->len - 1u;
        } else if (string || !is_blank(text[i])) {
            buf_addc(out, text[i]);
            if (string && text[i] == '\\') {
                buf_addc(out, text[++i]);
                continue;
            }
            string ^= text[i] == '"';
        }
        while (h < sh->nhole && sh->strict_hole[h].at <= i) {
            value = (uint16_t)(value + hole_values(&sh->strict_hole[h]));
            h++;
        }
    }
}
