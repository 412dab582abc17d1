/* npy.c -- read and write .npy; see npy.h.
 *
 * A file is a magic number, a version, and a header that is a Python dictionary in ASCII:
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 224, 224), }
 * padded with blanks to a multiple of 64 bytes; then the elements. Strings ('<U5', '|S5') all take
 * as much room as the longest, padded with NULs: four bytes for each character, or bytes. */
#include "run/npy.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/rd.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";
#define MAGIC_LEN 6
#define HEADER_MAX ((size_t)1 << 20)
#define STRINGS_MAX ((int64_t)1 << 26)

static const struct {
    const char *descr; /* without the byte order */
    enum tensor_type type;
} types[] = {
    { "f4", TENSOR_F32 }, { "f8", TENSOR_F64 }, { "f2", TENSOR_F16 },   { "i8", TENSOR_I64 },
    { "i4", TENSOR_I32 }, { "i2", TENSOR_I16 }, { "i1", TENSOR_I8 },    { "u8", TENSOR_U64 },
    { "u4", TENSOR_U32 }, { "u2", TENSOR_U16 }, { "u1", TENSOR_U8 },    { "b1", TENSOR_BOOL },
    { "c8", TENSOR_C64 }, { "?", TENSOR_BOOL }, { "c16", TENSOR_C128 },
};

/* The header's text as it is being read. */
struct text {
    const char *at, *end;
};

static bool take(struct text *t, char c)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t'))
        t->at++;
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static bool take_quoted(struct text *t, const char **s, size_t *len)
{
    char quote = '\'';

    if (!take(t, quote)) {
        quote = '"';
        if (!take(t, quote))
            return false;
    }
    *s = t->at;
    while (t->at < t->end && *t->at != quote)
        t->at++;
    *len = (size_t)(t->at - *s);
    return take(t, quote);
}

static bool take_size(struct text *t, int64_t *out)
{
    int64_t v = 0;
    bool any = false;

    take(t, ' ');
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++, any = true) {
        if (v > (INT64_MAX - 9) / 10)
            return false;
        v = v * 10 + (*t->at - '0');
    }
    if (t->at < t->end && *t->at == 'L') /* Python 2's */
        t->at++;
    *out = v;
    return any;
}

static bool take_shape(struct text *t, struct shape *s)
{
    s->rank = 0;
    if (!take(t, '('))
        return false;
    while (!take(t, ')')) {
        if (s->rank == SHAPE_RANK_MAX || !take_size(t, &s->dim[s->rank]))
            return false;
        s->rank++;
        if (!take(t, ','))
            return take(t, ')');
    }
    return true;
}

static bool take_word(struct text *t, const char *word)
{
    size_t n = strlen(word);

    take(t, ' ');
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0)
        return false;
    t->at += n;
    return true;
}

struct header {
    const char *descr;
    size_t descr_len;
    bool fortran;
    struct shape shape;
    unsigned seen; /* bit for each of the three keys */
};

static bool parse_header(struct header *h, struct text t)
{
    const char *key;
    size_t len;

    *h = (struct header){ 0 };
    if (!take(&t, '{'))
        return false;
    while (!take(&t, '}')) {
        if (!take_quoted(&t, &key, &len) || !take(&t, ':'))
            return false;
        if (len == 5 && memcmp(key, "descr", 5) == 0) {
            if (!take_quoted(&t, &h->descr, &h->descr_len))
                return false;
            h->seen |= 1;
        } else if (len == 13 && memcmp(key, "fortran_order", 13) == 0) {
            h->fortran = take_word(&t, "True");
            if (!h->fortran && !take_word(&t, "False"))
                return false;
            h->seen |= 2;
        } else if (len == 5 && memcmp(key, "shape", 5) == 0) {
            if (!take_shape(&t, &h->shape))
                return false;
            h->seen |= 4;
        } else {
            return false;
        }
        if (!take(&t, ','))
            return take(&t, '}') && h->seen == 7;
    }
    return h->seen == 7;
}

static enum tensor_type type_of(const struct header *h)
{
    const char *name = h->descr;
    size_t len = h->descr_len;

    if (len && strchr("<>|=", *name)) {
        name++;
        len--;
    }
    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        if (strlen(types[i].descr) == len && memcmp(types[i].descr, name, len) == 0)
            return types[i].type;
    return TENSOR_NONE;
}

static void swap_bytes(uint8_t *p, int64_t count, size_t size)
{
    for (int64_t i = 0; i < count; i++, p += size) {
        for (size_t k = 0; k < size / 2; k++) {
            uint8_t b = p[k];

            p[k] = p[size - 1 - k];
            p[size - 1 - k] = b;
        }
    }
}

/* From column-major to row-major. */
static void reorder(uint8_t *to, const uint8_t *from, const struct shape *s, int64_t count,
                    size_t size)
{
    int64_t at[SHAPE_RANK_MAX] = { 0 };

    for (int64_t i = 0; i < count; i++) {
        int64_t offset = 0;

        for (int d = s->rank - 1; d >= 0; d--)
            offset = offset * s->dim[d] + at[d];
        memcpy(to + (size_t)i * size, from + (size_t)offset * size, size);
        for (int d = s->rank - 1; d >= 0 && ++at[d] == s->dim[d]; d--)
            at[d] = 0;
    }
}

static int fix_order(struct tensor *t, const struct header *h, struct arena *arena, size_t size,
                     const char *name, opm_error *err)
{
    bool swap = h->descr[0] == '>' && size > 1, fortran = h->fortran && t->shape.rank > 1;
    uint8_t *copy;

    if ((!swap && !fortran) || t->bytes == 0)
        return 0;
    copy = arena_alloc(arena, t->bytes);
    if (!copy)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory for %zu bytes", name, t->bytes);
    if (fortran)
        reorder(copy, t->data, &t->shape, t->count, size);
    else
        memcpy(copy, t->data, t->bytes);
    if (swap) {
        bool complex = t->type == TENSOR_C64 || t->type == TENSOR_C128;

        swap_bytes(copy, complex ? t->count * 2 : t->count, complex ? size / 2 : size);
    }
    t->data = copy;
    return 0;
}

/* Bytes of a string if elements are such, else -1. */
static int64_t string_width(const struct header *h, bool *wide)
{
    size_t i = h->descr_len && strchr("<>|=", h->descr[0]) ? 1 : 0;
    int64_t n = 0;

    if (i + 1 >= h->descr_len || (h->descr[i] != 'U' && h->descr[i] != 'S'))
        return -1;
    *wide = h->descr[i] == 'U';
    for (i++; i < h->descr_len; i++) {
        if (h->descr[i] < '0' || h->descr[i] > '9' || n > INT32_MAX / 16)
            return -1;
        n = n * 10 + (h->descr[i] - '0');
    }
    return *wide ? 4 * n : n;
}

/* One string of `width` bytes as UTF-8, without the NULs at its end. */
static bool string_at(struct tensor_string *out, const uint8_t *p, size_t width, bool wide,
                      bool swap, struct arena *arena)
{
    struct buf b = { 0 };
    size_t len = width;
    char *copy;

    while (len && !p[len - 1])
        len--;
    if (!wide)
        buf_add(&b, p, len);
    for (size_t i = 0; wide && i < (len + 3) / 4; i++) {
        const uint8_t *c = p + 4 * i;
        uint32_t cp =
            swap ? (uint32_t)c[0] << 24 | (uint32_t)c[1] << 16 | (uint32_t)c[2] << 8 | c[3]
                 : (uint32_t)c[3] << 24 | (uint32_t)c[2] << 16 | (uint32_t)c[1] << 8 | c[0];

        char text[4];

        buf_add(&b, text,
                utf8_put(cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000) ? 0xfffd : cp, text));
    }
    copy = b.failed ? NULL : arena_strndup(arena, buf_str(&b), b.len);
    *out = (struct tensor_string){ copy, b.len };
    buf_release(&b);
    return copy != NULL;
}

static int parse_strings(struct tensor *t, const struct header *h, const uint8_t *p, size_t left,
                         int64_t width, bool wide, struct arena *arena, opm_error *err)
{
    struct tensor_string *out;
    bool swap = h->descr[0] == '>';
    int64_t bytes;

    t->type = TENSOR_STRING;
    t->count = shape_count(&t->shape);
    if (t->count < 0 || __builtin_mul_overflow(t->count, width, &bytes) || (uint64_t)bytes > left ||
        t->count > STRINGS_MAX)
        return opm__fail(err, OPM_ETRUNC, "%s: the array is larger than its file", t->name);
    if (h->fortran && t->shape.rank > 1)
        return opm__fail(err, OPM_EUNSUPPORTED, "%s: strings in column-major order are not read",
                         t->name);
    out = arena_alloc(arena, ((size_t)t->count + 1) * sizeof(*out));
    for (int64_t i = 0; out && i < t->count; i++)
        if (!string_at(&out[i], p + i * width, (size_t)width, wide, swap, arena))
            out = NULL;
    if (!out)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory for its strings", t->name);
    t->data = out;
    return 0;
}

int npy_parse(struct tensor *t, const void *p, size_t len, const char *name, struct arena *arena,
              opm_error *err)
{
    struct rd r = rd_of(p, len);
    const uint8_t *head = rd_bytes(&r, MAGIC_LEN), *dict;
    unsigned major = rd_u8(&r);
    struct header h;
    size_t dict_len;
    int64_t bytes, width;
    bool wide = false;

    rd_u8(&r);
    if (r.bad || memcmp(head, magic, MAGIC_LEN) != 0)
        return opm__fail(err, OPM_EFORMAT, "%s: not a .npy file", name);
    if (major < 1 || major > 3)
        return opm__fail(err, OPM_EVERSION, "%s: .npy version %u, newest known is 3", name, major);
    dict_len = major == 1 ? rd_u16(&r) : rd_u32(&r);
    dict = rd_bytes(&r, MIN(dict_len, HEADER_MAX + 1));
    if (r.bad)
        return opm__fail(err, OPM_ETRUNC, "%s: ends inside the .npy header", name);
    if (dict_len > HEADER_MAX ||
        !parse_header(&h, (struct text){ (const char *)dict, (const char *)dict + dict_len }))
        return opm__fail(err, OPM_EFORMAT, "%s: the .npy header is not understood", name);
    *t = (struct tensor){ .name = name, .type = type_of(&h), .shape = h.shape };
    width = string_width(&h, &wide);
    if (width >= 0)
        return parse_strings(t, &h, r.p, rd_left(&r), width, wide, arena, err);
    if (t->type == TENSOR_NONE)
        return opm__fail(err, OPM_EUNSUPPORTED, "%s: elements of NumPy type '%.*s' are not read",
                         name, (int)MIN(h.descr_len, (size_t)32), h.descr);
    t->count = shape_count(&t->shape);
    bytes = shape_bytes(&t->shape, t->type);
    if (t->count < 0 || bytes < 0 || (uint64_t)bytes > rd_left(&r))
        return opm__fail(err, OPM_ETRUNC, "%s: the array is larger than its file", name);
    t->data = r.p;
    t->bytes = (size_t)bytes;
    return fix_order(t, &h, arena, (size_t)tensor_type_bits(t->type) / 8, name, err);
}

/* Characters of the longest string, at least one. */
static size_t longest(const struct tensor *t)
{
    const struct tensor_string *s = t->data;
    size_t most = 1;

    for (int64_t i = 0; i < t->count; i++) {
        size_t n = 0;
        uint32_t cp;

        for (size_t at = 0; at < s[i].len; n++)
            at += utf8_next(s[i].s + at, s[i].len - at, &cp);
        most = MAX(most, n);
    }
    return most;
}

/* What is no UTF-8 becomes U+FFFD. */
static void write_strings(struct io_out *out, const struct tensor *t, size_t chars)
{
    const struct tensor_string *s = t->data;

    for (int64_t i = 0; i < t->count; i++) {
        size_t at = 0;

        for (size_t n = 0; n < chars; n++) {
            uint32_t cp = 0;

            if (at < s[i].len)
                at += utf8_next(s[i].s + at, s[i].len - at, &cp);
            cp = cp == UTF8_BAD ? 0xfffd : cp;
            io_out_add(out, (uint8_t[]){ (uint8_t)cp, (uint8_t)(cp >> 8), (uint8_t)(cp >> 16), 0 },
                       4);
        }
    }
}

int npy_write(const char *path, const struct tensor *t, opm_error *err)
{
    struct buf h = { 0 };
    size_t chars = t->type == TENSOR_STRING ? longest(t) : 0;
    char string_descr[32];
    struct io_out out;
    const char *descr = NULL;
    size_t pad;
    int rc;

    for (size_t i = 0; !descr && i < ARRAY_SIZE(types); i++)
        if (types[i].type == t->type)
            descr = types[i].descr;
    if (chars) {
        snprintf(string_descr, sizeof(string_descr), "U%zu", chars);
        descr = string_descr;
    }
    if (!descr)
        return opm__fail(err, OPM_EUNSUPPORTED, "%s: NumPy has no type for %s", path,
                         tensor_type_name(t->type));
    buf_addf(&h, "{'descr': '%s%s', 'fortran_order': False, 'shape': (",
             tensor_type_bits(t->type) == 8 ? "|" : "<", descr);
    for (int i = 0; i < t->shape.rank; i++)
        buf_addf(&h, "%" PRId64 "%s", t->shape.dim[i],
                 t->shape.rank == 1      ? ","
                 : i + 1 < t->shape.rank ? ", "
                                         : "");
    buf_adds(&h, "), }");
    pad = (64 - (MAGIC_LEN + 4 + h.len + 1) % 64) % 64;
    buf_addf(&h, "%*s\n", (int)pad, "");
    rc = h.failed ? opm__fail(err, OPM_ENOMEM, "%s: out of memory", path)
                  : io_out_open(&out, path, err);
    if (!rc) {
        uint8_t front[] = { 1, 0, (uint8_t)h.len, (uint8_t)(h.len >> 8) };

        io_out_add(&out, magic, MAGIC_LEN);
        io_out_add(&out, front, sizeof(front));
        io_out_add(&out, h.data, h.len);
        if (chars)
            write_strings(&out, t, chars);
        else
            io_out_add(&out, t->data, t->bytes);
        rc = io_out_close(&out, true, err);
    }
    buf_release(&h);
    return rc;
}
