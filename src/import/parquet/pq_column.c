/* pq_column.c -- see pq_column.h. A column chunk is a dictionary page, if it has one, and data
 * pages of the first or second version. */
#include "import/parquet/pq_column.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "base/error.h"
#include "base/thrift.h"
#include "format/parquet.h"
#include "import/parquet/pq_unpack.h"
#include "import/parquet/pq_values.h"

#include <math.h>
#include <string.h>

#define PAGE_MAX ((uint64_t)1 << 30)
/* What texts that repeat parts of others may come to. */
#define TEXTS_FREE ((uint64_t)64 << 20)
#define TEXTS_PER_BYTE 64

struct page {
    int64_t type, plain, packed; /* bytes */
    int64_t nvalue, encoding, level_encoding;
    int64_t level_bytes, repetition_bytes; /* version 2 */
    bool is_packed;                        /* version 2 */
};

/* One column chunk while it is read. */
struct chunk {
    struct pq_columns *c;
    const struct pq_meta *m;
    const struct pq_leaf *leaf;
    const struct pq_chunk *chunk;
    enum pq_want want;
    uint64_t *out;
    size_t n, done; /* rows */
    opm_error *err;
};

void pq_columns_release(struct pq_columns *c)
{
    mem_free(c->value);
    mem_free(c->number);
    mem_free(c->length);
    mem_free(c->dict);
    mem_free(c->page);
    mem_free(c->text);
    *c = (struct pq_columns){ .st = c->st };
}

static int name_len(const struct pq_leaf *leaf)
{
    return (int)MIN(leaf->len, (size_t)60);
}

static int damaged(const struct chunk *k, const char *what)
{
    return opm__fail(k->err, OPM_EFORMAT, "%s: a damaged Parquet file: column '%.*s': %s",
                     k->m->path, name_len(k->leaf), k->leaf->name, what);
}

static int out_of_memory(const struct chunk *k)
{
    return opm__fail(k->err, OPM_ENOMEM, "%s: out of memory", k->m->path);
}

int pq_column_check(const struct pq_meta *m, int leaf, enum pq_want want, opm_error *err)
{
    const struct pq_leaf *l = &m->leaf[leaf];
    bool text = l->type == PARQUET_BYTE_ARRAY || l->type == PARQUET_FIXED;
    const char *holds = l->cannot                                     ? l->cannot
                        : l->type == PARQUET_INT96                    ? "96-bit times"
                        : l->type < 0                                 ? "values of no known type"
                        : text != (want == PQ_WANT_TEXT)              ? text ? "texts" : "numbers"
                        : l->type == PARQUET_FIXED && (l->width <= 0) ? "texts without a length"
                                                                      : NULL;

    if (!holds)
        return 0;
    return opm__fail(err, OPM_EUNSUPPORTED, "%s: column '%.*s' holds %s, and %s are needed there",
                     m->path, name_len(l), l->name, holds,
                     want == PQ_WANT_TEXT ? "texts" : "plain numbers");
}

static bool read_head(struct rd *r, struct page *p)
{
    struct thrift_struct s = thrift_open(r), in;
    struct thrift_field f;

    *p = (struct page){ .level_encoding = PARQUET_RLE, .is_packed = true };
    while (thrift_next(&s, &f)) {
        int of = f.id;

        if (of == 1)
            p->type = f.i;
        if (of == 2)
            p->plain = f.i;
        if (of == 3)
            p->packed = f.i;
        if (f.type != THRIFT_STRUCT || (of != 5 && of != 7 && of != 8)) {
            thrift_skip(&s, &f);
            continue;
        }
        in = thrift_enter(&s);
        while (thrift_next(&in, &f)) {
            if (f.id == 1)
                p->nvalue = f.i;
            else if (f.id == (of == 8 ? 4 : 2))
                p->encoding = f.i;
            else if (f.id == 3 && of == 5)
                p->level_encoding = f.i;
            else if (f.id == 5 && of == 8)
                p->level_bytes = f.i;
            else if (f.id == 6 && of == 8)
                p->repetition_bytes = f.i;
            else if (f.id == 7 && of == 8)
                p->is_packed = f.i;
            thrift_skip(&in, &f);
        }
    }
    return !r->bad && p->plain >= 0 && p->packed >= 0 && p->nvalue >= 0 && p->level_bytes >= 0 &&
           p->repetition_bytes >= 0;
}

static int fit_page(struct chunk *k, size_t bytes)
{
    struct pq_columns *c = k->c;

    return c->page_cap >= bytes || GROW(c->page, c->page_cap, bytes) ? 0 : out_of_memory(k);
}

/* Content of a page, unpacked; levels of version 2 are not packed and come first. */
static int unpack_page(struct chunk *k, const struct page *p, const uint8_t *data, struct rd *out)
{
    size_t levels =
        p->type == PARQUET_DATA_PAGE_V2 ? (size_t)p->level_bytes + (size_t)p->repetition_bytes : 0;
    size_t plain = (size_t)p->plain, packed = (size_t)p->packed;
    int codec = k->chunk->codec;

    if (levels > plain || levels > packed || (uint64_t)plain > PAGE_MAX)
        return damaged(k, "sizes of a page that cannot be");
    if (codec == PARQUET_UNCOMPRESSED || (p->type == PARQUET_DATA_PAGE_V2 && !p->is_packed)) {
        *out = rd_of(data, packed);
        return packed == plain ? 0 : damaged(k, "sizes of a page that cannot be");
    }
    if (plain - levels > pq_unpacked_max(codec, packed - levels))
        return damaged(k, "a page that cannot become as large as it says");
    if (!budget_unpack(budget_current(), packed, plain))
        return opm__fail(k->err, OPM_ELIMIT, "%s: unpacks to too much", k->m->path);
    if (fit_page(k, plain + 1))
        return OPM_ENOMEM;
    memcpy(k->c->page, data, levels);
    if (plain > levels &&
        !pq_unpack(codec, data + levels, packed - levels, k->c->page + levels, plain - levels))
        return damaged(k, "a page that does not unpack");
    *out = rd_of(k->c->page, plain);
    return 0;
}

static int fit(struct chunk *k, size_t n)
{
    struct pq_columns *c = k->c;
    size_t value = c->cap, number = c->cap, length = c->cap;

    if (n <= c->cap)
        return 0;
    if (!GROW(c->value, value, n) || !GROW(c->number, number, n) || !GROW(c->length, length, n))
        return out_of_memory(k);
    c->cap = MIN(value, MIN(number, length));
    return 0;
}

static uint64_t null_of(enum pq_want want)
{
    double none = NAN;
    uint64_t bits;

    if (want == PQ_WANT_TEXT)
        return 0;
    if (want == PQ_WANT_INT)
        return (uint64_t)OPM_NULL_I64;
    memcpy(&bits, &none, 8);
    return bits;
}

/* A whole number as it is wanted. */
static uint64_t from_int(const struct chunk *k, int64_t v)
{
    double d = k->leaf->is_unsigned ? (double)(uint64_t)v : (double)v;
    uint64_t bits;

    if (k->want == PQ_WANT_INT)
        return (uint64_t)v * (uint64_t)k->leaf->scale;
    memcpy(&bits, &d, 8);
    return bits;
}

/* 0, or OPM_EFORMAT if it is no whole number where one is wanted. pandas makes such of whole ones
 * where some are NULL. */
static int from_real(const struct chunk *k, double v, uint64_t *out)
{
    if (k->want == PQ_WANT_REAL) {
        memcpy(out, &v, 8);
        return 0;
    }
    if (isnan(v)) {
        *out = (uint64_t)OPM_NULL_I64;
        return 0;
    }
    if (v != floor(v) || fabs(v) > 9e18)
        return opm__fail(k->err, OPM_EFORMAT,
                         "%s: column '%.*s' holds %g, and whole numbers are needed there",
                         k->m->path, name_len(k->leaf), k->leaf->name, v);
    *out = (uint64_t)(int64_t)v;
    return 0;
}

static int from_text(const struct chunk *k, const uint8_t *p, size_t len, uint64_t *out)
{
    str_id id;

    if (store_str(k->c->st, (const char *)p, len, &id))
        return out_of_memory(k);
    *out = id;
    return 0;
}

static int get_booleans(struct chunk *k, struct rd *r, uint64_t *out, size_t n)
{
    const uint8_t *p = rd_bytes(r, (n + 7) / 8);

    for (size_t i = 0; p && i < n; i++)
        out[i] = from_int(k, p[i / 8] >> i % 8 & 1);
    return p ? 0 : damaged(k, "a page that ends too early");
}

static int get_plain(struct chunk *k, struct rd *r, uint64_t *out, size_t n)
{
    int type = k->leaf->type, rc = 0;
    size_t width = type == PARQUET_INT32 || type == PARQUET_FLOAT ? 4
                   : type == PARQUET_FIXED                        ? (size_t)k->leaf->width
                                                                  : 8;

    if (type == PARQUET_BOOLEAN)
        return get_booleans(k, r, out, n);
    for (size_t i = 0; i < n && !rc; i++) {
        size_t len = type == PARQUET_BYTE_ARRAY ? rd_u32(r) : width;
        const uint8_t *p = rd_bytes(r, len);
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;

        if (!p)
            return damaged(k, "a page that ends too early");
        switch (type) {
        case PARQUET_INT32:
            memcpy(&i32, p, 4);
            out[i] = from_int(k, k->leaf->is_unsigned ? (int64_t)(uint32_t)i32 : i32);
            break;
        case PARQUET_INT64:
            memcpy(&i64, p, 8);
            out[i] = from_int(k, i64);
            break;
        case PARQUET_FLOAT:
            memcpy(&f32, p, 4);
            rc = from_real(k, f32, &out[i]);
            break;
        case PARQUET_DOUBLE:
            memcpy(&f64, p, 8);
            rc = from_real(k, f64, &out[i]);
            break;
        default:
            rc = from_text(k, p, len, &out[i]);
        }
    }
    return rc;
}

static int get_indexed(struct chunk *k, struct rd *r, uint64_t *out, size_t n)
{
    unsigned width = n ? rd_u8(r) : 0;

    if (r->bad || !pq_hybrid_get(r, width, k->c->number, n))
        return damaged(k, "malformed indices");
    for (size_t i = 0; i < n; i++) {
        if (k->c->number[i] >= k->c->ndict)
            return damaged(k, "an index beyond the dictionary");
        out[i] = k->c->dict[k->c->number[i]];
    }
    return 0;
}

static int get_runs(struct chunk *k, struct rd *r, uint64_t *out, size_t n)
{
    size_t len = rd_u32(r);
    const uint8_t *p = rd_bytes(r, len);
    struct rd runs = rd_of(p ? p : r->p, p ? len : 0);

    if (!p || k->leaf->type != PARQUET_BOOLEAN || !pq_hybrid_get(&runs, 1, k->c->number, n))
        return damaged(k, "malformed runs");
    for (size_t i = 0; i < n; i++)
        out[i] = from_int(k, k->c->number[i]);
    return 0;
}

static int get_delta(struct chunk *k, struct rd *r, uint64_t *out, size_t n)
{
    bool narrow = k->leaf->type == PARQUET_INT32;

    if ((!narrow && k->leaf->type != PARQUET_INT64) || !pq_delta_get(r, k->c->length, n))
        return damaged(k, "malformed differences");
    for (size_t i = 0; i < n; i++) {
        int64_t v = k->c->length[i];

        if (narrow)
            v = k->leaf->is_unsigned ? (int64_t)(uint32_t)v : (int64_t)(int32_t)v;
        out[i] = from_int(k, v);
    }
    return 0;
}

/* Texts behind their lengths, or parts of texts that go on where the one before them began: such a
 * page may stand for far more than its size, so what it makes is bounded, too. */
static int get_delta_texts(struct chunk *k, struct rd *r, uint64_t *out, size_t n, bool prefixed)
{
    struct pq_columns *c = k->c;
    uint64_t made = 0, before = 0;
    bool good = !prefixed || pq_delta_get(r, c->length, n);
    int rc = 0;

    for (size_t i = 0; prefixed && good && i < n; i++) {
        good = c->length[i] >= 0 && c->length[i] <= INT32_MAX;
        c->number[i] = (uint32_t)c->length[i];
    }
    good = good && k->leaf->type == PARQUET_BYTE_ARRAY && pq_delta_get(r, c->length, n);
    for (size_t i = 0; good && i < n && !rc; i++) {
        uint64_t kept = prefixed ? c->number[i] : 0;
        const uint8_t *p = c->length[i] < 0 ? NULL : rd_bytes(r, (size_t)c->length[i]);
        size_t len = (size_t)c->length[i];

        good = p && kept <= before;
        if (!good)
            break;
        made += kept + len;
        if (made > TEXTS_FREE + TEXTS_PER_BYTE * k->m->len)
            return damaged(k, "texts that are too long together");
        if (prefixed) {
            if (c->text_cap < kept + len + 1 && !GROW(c->text, c->text_cap, kept + len + 1))
                return out_of_memory(k);
            memcpy(c->text + kept, p, len);
            p = c->text;
            len += (size_t)kept;
        }
        before = len;
        rc = from_text(k, p, len, &out[i]);
    }
    return good ? rc : damaged(k, "malformed texts");
}

/* Bytes of all numbers one by one: all first ones, all second ones, ... */
static int get_split(struct chunk *k, struct rd *r, uint64_t *out, size_t n)
{
    int type = k->leaf->type;
    size_t width = type == PARQUET_INT32 || type == PARQUET_FLOAT    ? 4
                   : type == PARQUET_INT64 || type == PARQUET_DOUBLE ? 8
                                                                     : 0;
    const uint8_t *p = width ? rd_bytes(r, n * width) : NULL;
    int rc = 0;

    if (!p)
        return damaged(k, "malformed split bytes");
    for (size_t i = 0; i < n && !rc; i++) {
        uint8_t raw[8] = { 0 };
        struct rd one = rd_of(raw, width);

        for (size_t b = 0; b < width; b++)
            raw[b] = p[b * n + i]; /* bounded: a width of 4 or 8 */
        rc = get_plain(k, &one, out + i, 1);
    }
    return rc;
}

static int get_values(struct chunk *k, struct rd *r, int64_t encoding, uint64_t *out, size_t n)
{
    if (!n)
        return 0;
    switch (encoding) {
    case PARQUET_PLAIN:
        return get_plain(k, r, out, n);
    case PARQUET_PLAIN_DICTIONARY:
    case PARQUET_RLE_DICTIONARY:
        return get_indexed(k, r, out, n);
    case PARQUET_RLE:
        return get_runs(k, r, out, n);
    case PARQUET_DELTA_BINARY_PACKED:
        return get_delta(k, r, out, n);
    case PARQUET_DELTA_LENGTH_BYTE_ARRAY:
    case PARQUET_DELTA_BYTE_ARRAY:
        return get_delta_texts(k, r, out, n, encoding == PARQUET_DELTA_BYTE_ARRAY);
    case PARQUET_BYTE_STREAM_SPLIT:
        return get_split(k, r, out, n);
    default:
        return opm__fail(k->err, OPM_EUNSUPPORTED,
                         "%s: column '%.*s' is encoded in a way (%lld) that opmeter does not read",
                         k->m->path, name_len(k->leaf), k->leaf->name, (long long)encoding);
    }
}

static int read_dictionary(struct chunk *k, const struct page *p, struct rd *r)
{
    struct pq_columns *c = k->c;
    size_t n = (size_t)p->nvalue;

    /* Each entry takes a bit or more. */
    if (c->ndict || n / 8 > rd_left(r) || n > UINT32_MAX ||
        (p->encoding != PARQUET_PLAIN && p->encoding != PARQUET_PLAIN_DICTIONARY))
        return damaged(k, "a malformed dictionary");
    if (!GROW(c->dict, c->dict_cap, n + 1))
        return out_of_memory(k);
    c->ndict = n;
    return get_plain(k, r, c->dict, n);
}

/* Which of the n values of a page are there, as *levels; NULL: all. */
static int read_levels(struct chunk *k, const struct page *p, struct rd *r, size_t n, size_t *there)
{
    uint32_t *level = k->c->number;
    struct rd own;
    const uint8_t *at;
    size_t len;

    *there = n;
    if (!k->leaf->optional) {
        if (p->type == PARQUET_DATA_PAGE_V2)
            rd_bytes(r, (size_t)p->level_bytes + (size_t)p->repetition_bytes);
        return r->bad ? damaged(k, "malformed levels") : 0;
    }
    if (p->type == PARQUET_DATA_PAGE_V2) {
        rd_bytes(r, (size_t)p->repetition_bytes);
        len = (size_t)p->level_bytes;
    } else {
        len = rd_u32(r);
        if (p->level_encoding != PARQUET_RLE)
            return opm__fail(k->err, OPM_EUNSUPPORTED,
                             "%s: column '%.*s' has levels of a kind that was given up in 2013",
                             k->m->path, name_len(k->leaf), k->leaf->name);
    }
    at = rd_bytes(r, len);
    own = rd_of(at ? at : r->p, at ? len : 0);
    if (!at || !pq_hybrid_get(&own, 1, level, n))
        return damaged(k, "malformed levels");
    *there = 0;
    for (size_t i = 0; i < n; i++)
        *there += level[i] & 1;
    return 0;
}

/* Values to rows. Levels are lost on the way, so NULLs are put first. */
static int read_data(struct chunk *k, const struct page *p, struct rd *r)
{
    size_t n = (size_t)p->nvalue, there, from;
    uint64_t *out = k->out + k->done, none = null_of(k->want);
    int rc;

    if (n > k->n - k->done)
        return damaged(k, "more values than rows");
    if (fit(k, n + 1))
        return OPM_ENOMEM;
    rc = read_levels(k, p, r, n, &there);
    if (rc)
        return rc;
    k->done += n;
    if (there == n)
        return get_values(k, r, p->encoding, out, n);
    for (size_t i = 0; i < n; i++)
        out[i] = k->c->number[i] & 1;
    rc = get_values(k, r, p->encoding, k->c->value, there);
    from = 0;
    for (size_t i = 0; i < n; i++)
        out[i] = out[i] ? k->c->value[from++] : none;
    return rc;
}

static int read_page(struct chunk *k, struct rd *r)
{
    struct page p;
    struct rd content;
    const uint8_t *data;
    int rc;

    if (!read_head(r, &p))
        return damaged(k, "a malformed head of a page");
    data = rd_bytes(r, (size_t)p.packed);
    if (!data)
        return damaged(k, "a page that reaches beyond its end");
    if (p.type == PARQUET_INDEX_PAGE)
        return 0;
    rc = unpack_page(k, &p, data, &content);
    if (rc)
        return rc;
    if (p.type == PARQUET_DICTIONARY_PAGE)
        return read_dictionary(k, &p, &content);
    if (p.type != PARQUET_DATA_PAGE && p.type != PARQUET_DATA_PAGE_V2)
        return damaged(k, "a page of a kind that is not known");
    return read_data(k, &p, &content);
}

int pq_column_read(struct pq_columns *c, const struct pq_meta *m, size_t group, int leaf,
                   enum pq_want want, uint64_t *out, opm_error *err)
{
    const struct pq_chunk *chunk = &m->chunk[group * m->nleaf + (size_t)leaf];
    struct chunk k = { .c = c,
                       .m = m,
                       .leaf = &m->leaf[leaf],
                       .chunk = chunk,
                       .want = want,
                       .out = out,
                       .n = (size_t)m->group[group],
                       .err = err };
    struct rd r = rd_of(m->data + chunk->at, (size_t)chunk->len);
    int rc = 0;

    if (!pq_codec_known(chunk->codec))
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%s: packed with %s, which opmeter does not read; write it with zstd, "
                         "Snappy, gzip or LZ4",
                         m->path, pq_codec_name(chunk->codec));
    c->ndict = 0;
    while (k.done < k.n && !rc)
        rc = rd_left(&r) ? read_page(&k, &r) : damaged(&k, "fewer values than rows");
    return rc;
}
