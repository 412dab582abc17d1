/* flat.h -- FlatBuffers, as much as Arrow's messages need: tables, vectors and texts, written front
 * to back.
 *
 * What a table refers to is written behind it: its field is linked when the position is known. */
#ifndef EXPORT_ARROW_FLAT_H
#define EXPORT_ARROW_FLAT_H

#include "base/buf.h"

/* A field of a table, by its place in the schema. */
struct flat_field {
    unsigned size; /* 1, 2, 4 or 8 bytes; 0: the field is left out */
    uint64_t value;
    size_t at; /* where it was written, to be linked */
};
#define FLAT_LINK \
    {             \
        4, 0, 0   \
    }

size_t flat_begin(struct buf *b); /* the root's place, to be linked */
/* What is written next, a table, vector or text, is what the field at `at` refers to. */
void flat_table(struct buf *b, size_t at, struct flat_field *field, size_t n);
void flat_text(struct buf *b, size_t at, const char *s);
/* A vector of n items, whose bytes are added behind it, or whose links are to be set: the place of
 * the first one. */
size_t flat_vector(struct buf *b, size_t at, size_t n, size_t align);
void flat_u64(struct buf *b, uint64_t v); /* an item, or half of one */
void flat_align(struct buf *b, size_t to);

#endif
