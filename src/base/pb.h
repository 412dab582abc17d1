/* pb.h -- protobuf wire format: write into a buf, read from bounded bytes. */
#ifndef BASE_PB_H
#define BASE_PB_H

#include "base/buf.h"
#include "base/rd.h"

void pb_varint(struct buf *b, uint32_t field, uint64_t v);
void pb_sint(struct buf *b, uint32_t field, int64_t v); /* zigzag */
void pb_fixed64(struct buf *b, uint32_t field, uint64_t v);
void pb_double(struct buf *b, uint32_t field, double v);
void pb_bytes(struct buf *b, uint32_t field, const void *p, size_t len);
void pb_str(struct buf *b, uint32_t field, const char *s);
/* Open a nested message; returns a mark for pb_end(). Messages may nest. */
size_t pb_begin(struct buf *b, uint32_t field);
void pb_end(struct buf *b, size_t mark);

enum pb_wire { PB_VARINT = 0, PB_I64 = 1, PB_LEN = 2, PB_I32 = 5 };

struct pb_field {
    uint32_t number;
    enum pb_wire wire;
    uint64_t value;   /* VARINT, I64, I32 */
    const uint8_t *p; /* LEN */
    size_t len;
};

/* Next field of r: true and *out, or false at the end or on malformed bytes (r->bad tells). Groups
 * (wire types 3 and 4) are skipped, nested ones to a depth of 32. */
bool pb_next(struct rd *r, struct pb_field *out);

#endif
