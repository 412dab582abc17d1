/* json_texts.c -- see json_texts.h. */
#include "import/common/json_texts.h"

struct text json_texts_get(struct json_texts *t, const struct json_reader *r)
{
    struct buf plain = { 0 };
    const char *copy = NULL;
    size_t len;

    if (!r->escaped)
        return (struct text){ r->text, r->len };
    json_read_text(r, &plain);
    len = plain.len;
    if (!plain.failed && !t->failed)
        copy = arena_strndup(&t->arena, buf_str(&plain), len);
    buf_release(&plain);
    t->failed |= !copy;
    return copy ? (struct text){ copy, len } : (struct text){ "", 0 };
}

void json_texts_clear(struct json_texts *t)
{
    if (t->arena.head)
        arena_release(&t->arena);
}
