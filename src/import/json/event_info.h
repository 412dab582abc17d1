/* event_info.h -- the members of an event, looked at once per shape. */
#ifndef IMPORT_JSON_EVENT_INFO_H
#define IMPORT_JSON_EVENT_INFO_H

#include "base/buf.h"
#include "base/json_read.h"
#include "import/json/event_shape.h"

#define NO_VALUE UINT16_MAX

/* "key": value, in place in the strict text of a shape. */
struct member {
    struct json_reader key; /* as just read */
    enum json_token token;  /* first of the value */
    struct json_reader at;  /* with the value as just read; only for scalars */
    uint32_t from, to;      /* the text of the value, quotes included */
    uint16_t value;         /* number of the value that stands here, if the whole is a hole */
    uint8_t hole;           /* its type then */
};

struct member_list {
    struct member *m;
    size_t n, cap;
};

struct event_info {
    const struct event_shape *shape;
    struct member_list event;
    struct member_list args; /* empty unless "args" is an object */
};

/* Fill info, whose memory is reused. False: no memory, or not an object after all. */
bool event_info_read(struct event_info *info, const struct event_shape *shape);
void event_info_release(struct event_info *info);

/* NULL: none. Here, so that the length of a literal is known. */
static inline const struct member *member_find(const struct member_list *l, const char *key)
{
    for (size_t i = 0; i < l->n; i++)
        if (json_read_is(&l->m[i].key, key))
            return &l->m[i];
    return NULL;
}
/* A string unescaped, or the text of anything else; with values of this event if it has holes. */
void member_text(const struct event_info *info, const struct member *m, const int64_t *value,
                 struct buf *out);
/* An integer, also one in quotes. False: it is none, or not the same for all events. */
bool member_int(const struct member *m, int64_t *out);
bool member_is(const struct member *m, const char *s); /* a string equal to s */

/* Append the whole event of a shape with these values, as strict JSON. */
void event_shape_text(const struct event_shape *shape, const int64_t *value, struct buf *out);

/* Append the value without white space, its holes as the markers of store.h; the numbers of the
 * values they stand for are added to index[*n...]. */
void member_form(const struct event_info *info, const struct member *m, struct buf *out,
                 uint16_t *index, unsigned *n);

#endif
