/* pb.c -- see pb.h. */
#include "base/pb.h"

#include <string.h>

#define VARINT_MAX_BYTES 10
#define GROUP_DEPTH_MAX 32
#define FIELD_MAX (((uint32_t)1 << 29) - 1)
#define WIRE_GROUP 3
#define WIRE_GROUP_END 4

static size_t varint_put(uint8_t *p, uint64_t v)
{
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        p[n++] = (uint8_t)(v | 0x80);
    p[n++] = (uint8_t)v;
    return n;
}

static size_t tag_put(uint8_t *p, uint32_t field, enum pb_wire wire)
{
    assert(field >= 1 && field <= FIELD_MAX);
    return varint_put(p, (uint64_t)field << 3 | wire);
}

void pb_varint(struct buf *b, uint32_t field, uint64_t v)
{
    uint8_t raw[2 * VARINT_MAX_BYTES];
    size_t n = tag_put(raw, field, PB_VARINT);

    n += varint_put(raw + n, v);
    buf_add(b, raw, n);
}

void pb_sint(struct buf *b, uint32_t field, int64_t v)
{
    pb_varint(b, field, (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0));
}

void pb_fixed64(struct buf *b, uint32_t field, uint64_t v)
{
    uint8_t raw[VARINT_MAX_BYTES + 8];
    size_t n = tag_put(raw, field, PB_I64);

    for (size_t i = 0; i < 8; i++)
        raw[n++] = (uint8_t)(v >> 8 * i); /* bounded: eight behind the tag */
    buf_add(b, raw, n);
}

void pb_double(struct buf *b, uint32_t field, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    pb_fixed64(b, field, bits);
}

void pb_bytes(struct buf *b, uint32_t field, const void *p, size_t len)
{
    uint8_t raw[2 * VARINT_MAX_BYTES];
    size_t n = tag_put(raw, field, PB_LEN);

    n += varint_put(raw + n, len);
    buf_add(b, raw, n);
    buf_add(b, p, len);
}

void pb_str(struct buf *b, uint32_t field, const char *s)
{
    pb_bytes(b, field, s, strlen(s));
}

/* One byte is kept for the length, which is all that most messages need; pb_end() shifts the
 * contents of longer ones. */
size_t pb_begin(struct buf *b, uint32_t field)
{
    uint8_t raw[VARINT_MAX_BYTES + 1];
    size_t n = tag_put(raw, field, PB_LEN);

    raw[n++] = 0;
    buf_add(b, raw, n);
    return b->len;
}

void pb_end(struct buf *b, size_t mark)
{
    uint8_t raw[VARINT_MAX_BYTES];
    size_t len, n;

    if (b->failed)
        return;
    assert(mark >= 2 && mark <= b->len);
    len = b->len - mark;
    n = varint_put(raw, len);
    if (n > 1) {
        buf_add(b, raw, n - 1); /* any bytes: this makes the room */
        if (b->failed)
            return;
        memmove(b->data + mark + n - 1, b->data + mark, len);
    }
    memcpy(b->data + mark - 1, raw, n);
}

/* Past the end of a group whose start tag was read. */
static void skip_group(struct rd *r, uint32_t number)
{
    uint32_t open[GROUP_DEPTH_MAX];
    size_t depth = 0;

    open[depth++] = number;
    while (depth && !r->bad) {
        uint64_t tag = rd_varint(r);
        uint32_t field = (uint32_t)(tag >> 3);

        if (r->bad || tag > UINT32_MAX || field == 0) {
            r->bad = true;
            return;
        }
        switch (tag & 7) {
        case PB_VARINT:
            rd_varint(r);
            break;
        case PB_I64:
            rd_bytes(r, 8);
            break;
        case PB_LEN:
            rd_bytes(r, rd_varint(r));
            break;
        case PB_I32:
            rd_bytes(r, 4);
            break;
        case WIRE_GROUP:
            if (depth == GROUP_DEPTH_MAX)
                r->bad = true;
            else
                open[depth++] = field;
            break;
        case WIRE_GROUP_END:
            if (open[--depth] != field)
                r->bad = true;
            break;
        default:
            r->bad = true;
        }
    }
}

bool pb_next(struct rd *r, struct pb_field *out)
{
    struct pb_field f = { 0 };

    while (!r->bad && r->p != r->end) {
        uint64_t tag = rd_varint(r);

        f.number = (uint32_t)(tag >> 3);
        if (tag > UINT32_MAX || f.number == 0)
            r->bad = true;
        if (r->bad)
            return false;
        switch (tag & 7) {
        case PB_VARINT:
            f.wire = PB_VARINT;
            f.value = rd_varint(r);
            break;
        case PB_I64:
            f.wire = PB_I64;
            f.value = rd_u64(r);
            break;
        case PB_LEN:
            f.wire = PB_LEN;
            f.len = rd_varint(r);
            f.p = rd_bytes(r, f.len);
            break;
        case PB_I32:
            f.wire = PB_I32;
            f.value = rd_u32(r);
            break;
        case WIRE_GROUP:
            skip_group(r, f.number);
            continue;
        default: /* also an end of group without a start */
            r->bad = true;
            return false;
        }
        if (r->bad)
            return false;
        *out = f;
        return true;
    }
    return false;
}
