/* flat.c -- see flat.h. */
#include "export/arrow/flat.h"

#include <string.h>

#define FIELDS_MAX 8

void flat_align(struct buf *b, size_t to)
{
    while (b->len % to && !b->failed)
        buf_addc(b, 0);
}

static void put(struct buf *b, uint64_t v, size_t size)
{
    buf_add(b, &v, size);
}

void flat_u64(struct buf *b, uint64_t v)
{
    put(b, v, 8);
}

/* The field at `at` refers to the end of what is there. */
static void set_link(struct buf *b, size_t at)
{
    uint32_t far = (uint32_t)(b->len - at);

    if (!b->failed)
        memcpy(b->data + at, &far, sizeof(far));
}

size_t flat_begin(struct buf *b)
{
    buf_clear(b);
    put(b, 0, 4);
    return 0;
}

void flat_table(struct buf *b, size_t at, struct flat_field *field, size_t n)
{
    uint16_t place[FIELDS_MAX] = { 0 };
    size_t end = 4, vtable = 4 + 2 * n, start;

    assert(n <= FIELDS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (!field[i].size)
            continue;
        end = (end + field[i].size - 1) / field[i].size * field[i].size;
        place[i] = (uint16_t)end;
        end += field[i].size;
    }
    while ((b->len + vtable) % 8 && !b->failed) /* the table is aligned for any field */
        buf_addc(b, 0);
    put(b, vtable, 2);
    put(b, end, 2);
    for (size_t i = 0; i < n; i++)
        put(b, place[i], 2);
    set_link(b, at);
    start = b->len;
    put(b, vtable, 4);
    for (size_t i = 0; i < n; i++) {
        if (!field[i].size)
            continue;
        while (b->len < start + place[i] && !b->failed)
            buf_addc(b, 0);
        field[i].at = b->len;
        put(b, field[i].value, field[i].size);
    }
}

void flat_text(struct buf *b, size_t at, const char *s)
{
    flat_align(b, 4);
    set_link(b, at);
    put(b, strlen(s), 4);
    buf_add(b, s, strlen(s) + 1);
}

size_t flat_vector(struct buf *b, size_t at, size_t n, size_t align)
{
    while ((b->len + 4) % align && !b->failed)
        buf_addc(b, 0);
    flat_align(b, 4);
    set_link(b, at);
    put(b, n, 4);
    return b->len;
}
