/* pq_file.c -- see pq_file.h. */
#include "export/parquet/pq_file.h"

#include "base/alloc.h"
#include "base/thrift.h"
#include "base/zblock.h"
#include "export/parquet/pq_encode.h"
#include "export/writer.h"
#include "format/parquet.h"

#include <string.h>

#define PAGE_BYTES ((size_t)1 << 20) /* of plain texts; a page ends behind it */
#define DICTIONARY_MAX 16384         /* numbers; of texts there may be as many as rows */
#define DICTIONARY_BYTES ((size_t)4 << 20)
#define HASH_SIZE (4 * DICTIONARY_MAX)
#define STATISTIC_MAX 128 /* bytes of a text; longer ones have no least and greatest */

/* The values of a column of a row group that are not NULL. */
struct values {
    size_t n;
    uint64_t *bits;     /* PQ_INT and PQ_REAL */
    str_id *str;        /* PQ_TEXT in the pool */
    uint32_t *level;    /* per row, NULLs included: 1, or 0 for NULL */
    uint32_t *index;    /* into the dictionary, if there is one */
    size_t *from, *end; /* PQ_TEXT out of the pool: where it stands */
};

struct dictionary {
    uint32_t n;
    uint64_t *bits;   /* numbers: the entries */
    uint32_t *slot;   /* numbers: hash table of entry + 1 */
    str_id *str;      /* texts: the entries */
    uint32_t *number; /* texts: by str_id, entry + 1 */
    size_t nnumber;
    size_t text_bytes; /* of all entries */
};

/* What the footer says of a column chunk. */
struct chunk {
    uint64_t start, dictionary, data; /* where; dictionary 0: there is none */
    uint64_t plain, packed;           /* bytes, heads of pages included */
    size_t nrow, nulls;
    int encoding; /* of the values */
    bool limits;  /* least and greatest are known */
    struct buf least, greatest;
};

struct pq_file {
    struct io_out *out;
    uint64_t at; /* bytes that were in out before */
    const struct strpool *strings;
    const struct pq_column *col;
    int ncol, next;
    size_t ngroup, group_rows;
    uint64_t nrow, group_at, group_plain, group_packed;
    int sorted;  /* column by which all rows of the row group rise; -1: none */
    int sort_by; /* the column of times, or -1 */
    struct buf groups, columns, facts;
    size_t nfact;
    struct values v;
    struct dictionary dict;
    struct buf page, head, packed, text;
};

int pq_open(struct pq_file **out_file, struct io_out *out, const struct strpool *strings,
            const struct pq_column *col, int ncol)
{
    struct pq_file *f = mem_calloc(1, sizeof(*f));

    *out_file = f;
    if (!f)
        return OPM_ENOMEM;
    *f = (struct pq_file){
        .out = out, .at = out->total, .strings = strings, .col = col, .ncol = ncol, .sort_by = -1
    };
    for (int i = 0; i < ncol && f->sort_by < 0; i++)
        if (strcmp(col[i].name, "ts") == 0)
            f->sort_by = i;
    f->v.bits = mem_alloc(PQ_GROUP_ROWS * sizeof(*f->v.bits));
    f->v.str = mem_alloc(PQ_GROUP_ROWS * sizeof(*f->v.str));
    f->v.level = mem_alloc(PQ_GROUP_ROWS * sizeof(*f->v.level));
    f->v.index = mem_alloc(PQ_GROUP_ROWS * sizeof(*f->v.index));
    f->v.from = mem_alloc(PQ_GROUP_ROWS * sizeof(*f->v.from));
    f->v.end = mem_alloc(PQ_GROUP_ROWS * sizeof(*f->v.end));
    f->dict.bits = mem_alloc(DICTIONARY_MAX * sizeof(*f->dict.bits));
    f->dict.slot = mem_alloc(HASH_SIZE * sizeof(*f->dict.slot));
    f->dict.str = mem_alloc(PQ_GROUP_ROWS * sizeof(*f->dict.str));
    if (!f->v.bits || !f->v.str || !f->v.level || !f->v.index || !f->v.from || !f->v.end ||
        !f->dict.bits || !f->dict.slot || !f->dict.str)
        return OPM_ENOMEM;
    io_out_adds(out, PARQUET_MAGIC);
    return 0;
}

void pq_close(struct pq_file *f)
{
    if (!f)
        return;

    struct buf *const bufs[] = { &f->groups, &f->columns, &f->facts, &f->page,
                                 &f->head,   &f->packed,  &f->text };

    for (size_t i = 0; i < ARRAY_SIZE(bufs); i++)
        buf_release(bufs[i]);
    mem_free(f->v.bits);
    mem_free(f->v.str);
    mem_free(f->v.level);
    mem_free(f->v.index);
    mem_free(f->v.from);
    mem_free(f->v.end);
    mem_free(f->dict.bits);
    mem_free(f->dict.slot);
    mem_free(f->dict.str);
    mem_free(f->dict.number);
    mem_free(f);
}

static uint64_t file_at(const struct pq_file *f)
{
    return f->out->total - f->at;
}

static bool is_null(enum pq_kind kind, const struct pq_values *v, size_t i)
{
    if (kind == PQ_INT)
        return v->i64[i] == OPM_NULL_I64;
    if (kind == PQ_REAL)
        return v->f64[i] != v->f64[i];
    if (v->str)
        return !v->str[i];
    return v->end[i] == (i ? v->end[i - 1] : 0);
}

/* Levels of all rows, and the values that there are. */
static void take_values(struct pq_file *f, enum pq_kind kind, const struct pq_values *in)
{
    struct values *v = &f->v;

    v->n = 0;
    for (size_t i = 0; i < f->group_rows; i++) {
        v->level[i] = !is_null(kind, in, i);
        if (!v->level[i])
            continue;
        if (kind == PQ_INT) {
            memcpy(&v->bits[v->n], &in->i64[i], 8);
        } else if (kind == PQ_REAL) {
            memcpy(&v->bits[v->n], &in->f64[i], 8);
        } else if (in->str) {
            v->str[v->n] = in->str[i];
        } else {
            v->from[v->n] = i ? in->end[i - 1] : 0;
            v->end[v->n] = in->end[i];
        }
        v->n++;
    }
}

/* False: they are too many. */
static bool find_numbers(struct pq_file *f)
{
    struct dictionary *d = &f->dict;
    size_t most = MIN((size_t)DICTIONARY_MAX, f->v.n / 2 + 1);

    d->n = 0;
    memset(d->slot, 0, HASH_SIZE * sizeof(*d->slot));
    for (size_t i = 0; i < f->v.n; i++) {
        uint64_t bits = f->v.bits[i];
        size_t at = (bits * 0x9e3779b97f4a7c15u) >> 48;

        for (; d->slot[at % HASH_SIZE]; at++)
            if (d->bits[d->slot[at % HASH_SIZE] - 1] == bits)
                break;
        if (!d->slot[at % HASH_SIZE]) {
            if (d->n == most)
                return false;
            d->bits[d->n] = bits;
            d->slot[at % HASH_SIZE] = ++d->n;
        }
        f->v.index[i] = d->slot[at % HASH_SIZE] - 1;
    }
    return true;
}

static bool find_texts(struct pq_file *f)
{
    struct dictionary *d = &f->dict;

    d->n = 0;
    d->text_bytes = 0;
    for (size_t i = 0; i < f->v.n; i++) {
        str_id id = f->v.str[i];

        if (!d->number[id]) {
            d->str[d->n] = id;
            d->number[id] = ++d->n;
            d->text_bytes += strpool_len(f->strings, id) + 4;
        }
        f->v.index[i] = d->number[id] - 1;
    }
    for (uint32_t k = 0; k < d->n; k++)
        d->number[d->str[k]] = 0;
    return d->text_bytes <= DICTIONARY_BYTES && (size_t)d->n * 4 <= f->v.n * 3 + 4;
}

static void put_bits64(struct buf *b, uint64_t bits)
{
    buf_clear(b);
    buf_add(b, &bits, 8);
}

static double real_of(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, 8);
    return d;
}

static void number_limits(const struct values *v, enum pq_kind kind, struct chunk *c)
{
    uint64_t least = v->bits[0], greatest = v->bits[0];

    for (size_t i = 1; i < v->n; i++) {
        bool less = kind == PQ_INT ? (int64_t)v->bits[i] < (int64_t)least
                                   : real_of(v->bits[i]) < real_of(least);
        bool more = kind == PQ_INT ? (int64_t)v->bits[i] > (int64_t)greatest
                                   : real_of(v->bits[i]) > real_of(greatest);

        least = less ? v->bits[i] : least;
        greatest = more ? v->bits[i] : greatest;
    }
    if (kind == PQ_REAL) { /* the two zeros are equal, and the limits must hold for both */
        double low = real_of(least), high = real_of(greatest);

        low = low == 0 ? -0.0 : low;
        high = high == 0 ? 0.0 : high;
        memcpy(&least, &low, 8);
        memcpy(&greatest, &high, 8);
    }
    put_bits64(&c->least, least);
    put_bits64(&c->greatest, greatest);
    c->limits = true;
}

static int compare_bytes(const char *a, size_t na, const char *b, size_t nb)
{
    int order = memcmp(a, b, MIN(na, nb));

    return order ? order : na < nb ? -1 : na > nb;
}

/* The text of a value as it is written; until the next call. */
static const char *text_of(struct pq_file *f, const struct pq_values *in, const str_id *str,
                           size_t i, size_t *len)
{
    const char *s = str ? strpool_get(f->strings, str[i]) : in->text + f->v.from[i];

    *len = str ? strpool_len(f->strings, str[i]) : f->v.end[i] - f->v.from[i];
    if (text_is_utf8(s, *len))
        return s;
    buf_clear(&f->text);
    text_add_utf8(&f->text, s, *len);
    *len = f->text.len;
    return buf_str(&f->text);
}

static void text_limits(struct pq_file *f, const struct pq_values *in, const str_id *str, size_t n,
                        struct chunk *c)
{
    bool fits = true;

    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *s = text_of(f, in, str, i, &len);

        if (!i || compare_bytes(s, len, buf_str(&c->least), c->least.len) < 0) {
            buf_clear(&c->least);
            buf_add(&c->least, s, len);
        }
        if (!i || compare_bytes(s, len, buf_str(&c->greatest), c->greatest.len) > 0) {
            buf_clear(&c->greatest);
            buf_add(&c->greatest, s, len);
        }
        fits &= len <= STATISTIC_MAX;
        if (!fits)
            break;
    }
    c->limits = fits && n;
}

enum { PAGE_HEAD_DATA = 5, PAGE_HEAD_DICTIONARY = 7 };

/* What is in f->page, packed, with its head. */
static int put_page(struct pq_file *f, struct chunk *c, enum parquet_page type, size_t nvalue,
                    int encoding)
{
    struct thrift_put t;

    buf_clear(&f->head);
    buf_clear(&f->packed);
    if (f->page.failed || zblock_pack(&f->packed, buf_str(&f->page), f->page.len))
        return OPM_ENOMEM;
    if (f->page.len > INT32_MAX)
        return OPM_ELIMIT;
    t = thrift_put_of(&f->head);
    thrift_put_i32(&t, 1, type);
    thrift_put_i32(&t, 2, (int32_t)f->page.len);
    thrift_put_i32(&t, 3, (int32_t)f->packed.len);
    thrift_put_struct(&t, type == PARQUET_DATA_PAGE ? PAGE_HEAD_DATA : PAGE_HEAD_DICTIONARY);
    thrift_put_i32(&t, 1, (int32_t)nvalue);
    thrift_put_i32(&t, 2, encoding);
    if (type == PARQUET_DATA_PAGE) {
        thrift_put_i32(&t, 3, PARQUET_RLE);
        thrift_put_i32(&t, 4, PARQUET_RLE);
    }
    thrift_put_end(&t);
    thrift_put_end(&t);
    if (f->head.failed || f->packed.failed)
        return OPM_ENOMEM;
    if (type == PARQUET_DICTIONARY_PAGE)
        c->dictionary = file_at(f);
    else if (!c->data)
        c->data = file_at(f);
    c->plain += f->head.len + f->page.len;
    c->packed += f->head.len + f->packed.len;
    io_out_add(f->out, buf_str(&f->head), f->head.len);
    io_out_add(f->out, buf_str(&f->packed), f->packed.len);
    buf_clear(&f->page);
    return 0;
}

static void put_levels(struct pq_file *f, size_t from, size_t n)
{
    uint32_t len;
    size_t at = f->page.len;

    buf_add(&f->page, "\0\0\0", 4);
    pq_hybrid(&f->page, f->v.level + from, n, 1);
    if (f->page.failed)
        return;
    len = (uint32_t)(f->page.len - at - 4);
    memcpy(f->page.data + at, &len, 4);
}

static void put_text(struct buf *b, const char *s, size_t len)
{
    uint32_t n = (uint32_t)len;

    buf_add(b, &n, 4);
    buf_add(b, s, len);
}

static int put_indices(struct pq_file *f, struct chunk *c)
{
    unsigned width = MAX(pq_width(f->dict.n - 1), 1u);

    put_levels(f, 0, f->group_rows);
    buf_addc(&f->page, (char)width);
    pq_hybrid(&f->page, f->v.index, f->v.n, width);
    c->encoding = PARQUET_RLE_DICTIONARY;
    return put_page(f, c, PARQUET_DATA_PAGE, f->group_rows, PARQUET_RLE_DICTIONARY);
}

static int put_texts(struct pq_file *f, const struct pq_values *in, struct chunk *c)
{
    const str_id *str = in->str ? f->v.str : NULL;
    size_t row = 0, value = 0;
    int rc = 0;

    c->encoding = PARQUET_PLAIN;
    while (row < f->group_rows && !rc) {
        size_t from = row, first = value, bytes = 0;

        for (; row < f->group_rows && bytes < PAGE_BYTES; row++)
            if (f->v.level[row]) {
                bytes +=
                    str ? strpool_len(f->strings, str[value]) : f->v.end[value] - f->v.from[value];
                value++;
            }
        put_levels(f, from, row - from);
        for (size_t i = first; i < value; i++) {
            size_t len;
            const char *s = text_of(f, in, str, i, &len);

            put_text(&f->page, s, len);
        }
        rc = put_page(f, c, PARQUET_DATA_PAGE, row - from, PARQUET_PLAIN);
    }
    return rc;
}

static int put_text_column(struct pq_file *f, const struct pq_values *in, struct chunk *c)
{
    int rc;

    if (!in->str || !find_texts(f) || !f->dict.n) {
        text_limits(f, in, in->str ? f->v.str : NULL, f->v.n, c);
        return put_texts(f, in, c);
    }
    text_limits(f, in, f->dict.str, f->dict.n, c);
    for (uint32_t k = 0; k < f->dict.n; k++) {
        size_t len;
        const char *s = text_of(f, in, f->dict.str, k, &len);

        put_text(&f->page, s, len);
    }
    rc = put_page(f, c, PARQUET_DICTIONARY_PAGE, f->dict.n, PARQUET_PLAIN);
    return rc ? rc : put_indices(f, c);
}

/* Differences if they take less than plain numbers do, and less than `best` bytes. */
static bool put_differences(struct pq_file *f, size_t best)
{
    size_t at = f->page.len;

    if (!f->v.n)
        return false;
    pq_delta(&f->page, (const int64_t *)f->v.bits, f->v.n);
    if (f->page.failed || f->page.len - at < best)
        return true;
    f->page.len = at;
    return false;
}

static int put_number_column(struct pq_file *f, enum pq_kind kind, struct chunk *c)
{
    bool few = f->v.n && find_numbers(f);
    size_t indices = few ? f->dict.n * 8 + f->v.n * pq_width(f->dict.n - 1) / 8 : SIZE_MAX;
    int rc;

    if (f->v.n)
        number_limits(&f->v, kind, c);
    put_levels(f, 0, f->group_rows);
    if (kind == PQ_INT && put_differences(f, MIN(indices, f->v.n * 8))) {
        c->encoding = PARQUET_DELTA_BINARY_PACKED;
        return put_page(f, c, PARQUET_DATA_PAGE, f->group_rows, c->encoding);
    }
    if (few) {
        buf_clear(&f->page);
        buf_add(&f->page, f->dict.bits, f->dict.n * sizeof(*f->dict.bits));
        rc = put_page(f, c, PARQUET_DICTIONARY_PAGE, f->dict.n, PARQUET_PLAIN);
        return rc ? rc : put_indices(f, c);
    }
    c->encoding = PARQUET_PLAIN;
    buf_add(&f->page, f->v.bits, f->v.n * sizeof(*f->v.bits));
    return put_page(f, c, PARQUET_DATA_PAGE, f->group_rows, PARQUET_PLAIN);
}

static const int types[] = {
    [PQ_INT] = PARQUET_INT64, [PQ_REAL] = PARQUET_DOUBLE, [PQ_TEXT] = PARQUET_BYTE_ARRAY
};

static void put_chunk(struct pq_file *f, const struct pq_column *col, const struct chunk *c)
{
    struct thrift_put t = thrift_put_of(&f->columns);

    thrift_put_i64(&t, 2, (int64_t)c->start);
    thrift_put_struct(&t, 3);
    thrift_put_i32(&t, 1, types[col->kind]);
    thrift_put_list(&t, 2, THRIFT_I32, c->dictionary ? 3 : 2);
    thrift_item_i32(&t, PARQUET_RLE);
    if (c->dictionary)
        thrift_item_i32(&t, PARQUET_PLAIN);
    thrift_item_i32(&t, c->encoding);
    thrift_put_list(&t, 3, THRIFT_BINARY, 1);
    thrift_item_str(&t, col->name);
    thrift_put_i32(&t, 4, PARQUET_ZSTD);
    thrift_put_i64(&t, 5, (int64_t)c->nrow);
    thrift_put_i64(&t, 6, (int64_t)c->plain);
    thrift_put_i64(&t, 7, (int64_t)c->packed);
    thrift_put_i64(&t, 9, (int64_t)c->data);
    if (c->dictionary)
        thrift_put_i64(&t, 11, (int64_t)c->dictionary);
    thrift_put_struct(&t, 12);
    thrift_put_i64(&t, 3, (int64_t)c->nulls);
    if (c->limits) {
        thrift_put_bytes(&t, 5, buf_str(&c->greatest), c->greatest.len);
        thrift_put_bytes(&t, 6, buf_str(&c->least), c->least.len);
    }
    thrift_put_end(&t);
    thrift_put_end(&t);
    thrift_put_end(&t);
}

/* Room for every text that the pool has by now. */
static int know_texts(struct dictionary *d, const struct strpool *strings)
{
    size_t n = strpool_count(strings) + 1, had = d->nnumber;

    if (n <= had)
        return 0;
    if (!GROW(d->number, d->nnumber, n))
        return OPM_ENOMEM;
    memset(d->number + had, 0, (d->nnumber - had) * sizeof(*d->number));
    return 0;
}

int pq_group(struct pq_file *f, size_t n)
{
    assert(n && n <= PQ_GROUP_ROWS && !f->next);
    if (know_texts(&f->dict, f->strings))
        return OPM_ENOMEM;
    f->group_rows = n;
    f->group_at = file_at(f);
    f->group_plain = f->group_packed = 0;
    f->sorted = -1;
    buf_clear(&f->columns);
    return 0;
}

static void end_group(struct pq_file *f)
{
    struct thrift_put t = thrift_put_of(&f->groups);

    thrift_put_list(&t, 1, THRIFT_STRUCT, (size_t)f->ncol);
    buf_add(&f->groups, buf_str(&f->columns), f->columns.len);
    thrift_put_i64(&t, 2, (int64_t)f->group_plain);
    thrift_put_i64(&t, 3, (int64_t)f->group_rows);
    if (f->sorted >= 0) {
        thrift_put_list(&t, 4, THRIFT_STRUCT, 1);
        thrift_item_struct(&t);
        thrift_put_i32(&t, 1, f->sorted);
        thrift_put_bool(&t, 2, false);
        thrift_put_bool(&t, 3, false);
        thrift_put_end(&t);
    }
    thrift_put_i64(&t, 5, (int64_t)f->group_at);
    thrift_put_i64(&t, 6, (int64_t)f->group_packed);
    if (f->ngroup <= INT16_MAX)
        thrift_put_i16(&t, 7, (int16_t)f->ngroup);
    thrift_put_end(&t);
    f->nrow += f->group_rows;
    f->ngroup++;
    f->next = 0;
}

static bool rises(const struct values *v, size_t nrow)
{
    for (size_t i = 1; i < v->n; i++)
        if ((int64_t)v->bits[i] < (int64_t)v->bits[i - 1])
            return false;
    return v->n == nrow;
}

int pq_put(struct pq_file *f, const struct pq_values *in)
{
    const struct pq_column *col = &f->col[f->next];
    struct chunk c = { .start = file_at(f), .nrow = f->group_rows };
    int rc;

    take_values(f, col->kind, in);
    c.nulls = f->group_rows - f->v.n;
    if (f->next == f->sort_by && rises(&f->v, f->group_rows))
        f->sorted = f->next;
    buf_clear(&f->page);
    rc = col->kind == PQ_TEXT ? put_text_column(f, in, &c) : put_number_column(f, col->kind, &c);
    if (!rc && (c.least.failed || c.greatest.failed || f->text.failed))
        rc = OPM_ENOMEM;
    if (!rc)
        put_chunk(f, col, &c);
    f->group_plain += c.plain;
    f->group_packed += c.packed;
    buf_release(&c.least);
    buf_release(&c.greatest);
    if (++f->next == f->ncol && !rc)
        end_group(f);
    return rc ? rc : f->columns.failed || f->groups.failed ? OPM_ENOMEM : 0;
}

void pq_fact(struct pq_file *f, const char *key, const char *value)
{
    struct thrift_put t = thrift_put_of(&f->facts);

    thrift_put_str(&t, 1, key);
    thrift_put_str(&t, 2, value);
    thrift_put_end(&t);
    f->nfact++;
}

static void put_schema(const struct pq_file *f, struct thrift_put *t)
{
    thrift_put_list(t, 2, THRIFT_STRUCT, (size_t)f->ncol + 1);
    thrift_item_struct(t);
    thrift_put_str(t, 4, "schema");
    thrift_put_i32(t, 5, f->ncol);
    thrift_put_end(t);
    for (int i = 0; i < f->ncol; i++) {
        thrift_item_struct(t);
        thrift_put_i32(t, 1, types[f->col[i].kind]);
        thrift_put_i32(t, 3, PARQUET_OPTIONAL);
        thrift_put_str(t, 4, f->col[i].name);
        if (f->col[i].kind == PQ_TEXT) {
            thrift_put_i32(t, 6, PARQUET_UTF8);
            thrift_put_struct(t, 10);
            thrift_put_struct(t, PARQUET_LOGICAL_STRING);
            thrift_put_end(t);
            thrift_put_end(t);
        }
        thrift_put_end(t);
    }
}

int pq_end(struct pq_file *f)
{
    struct buf b = { 0 };
    struct thrift_put t = thrift_put_of(&b);
    uint32_t len;
    bool failed;

    thrift_put_i32(&t, 1, 2);
    put_schema(f, &t);
    thrift_put_i64(&t, 3, (int64_t)f->nrow);
    thrift_put_list(&t, 4, THRIFT_STRUCT, f->ngroup);
    buf_add(&b, buf_str(&f->groups), f->groups.len);
    if (f->nfact) {
        thrift_put_list(&t, 5, THRIFT_STRUCT, f->nfact);
        buf_add(&b, buf_str(&f->facts), f->facts.len);
    }
    thrift_put_str(&t, 6, "opmeter version " OPMETER_VERSION);
    thrift_put_list(&t, 7, THRIFT_STRUCT, (size_t)f->ncol);
    for (int i = 0; i < f->ncol; i++) { /* values are ordered as their type says */
        thrift_item_struct(&t);
        thrift_put_struct(&t, 1);
        thrift_put_end(&t);
        thrift_put_end(&t);
    }
    thrift_put_end(&t);
    len = (uint32_t)b.len;
    io_out_add(f->out, buf_str(&b), b.len);
    io_out_add(f->out, &len, 4);
    io_out_adds(f->out, PARQUET_MAGIC);
    failed = b.failed || f->groups.failed || f->facts.failed;
    buf_release(&b);
    return failed ? OPM_ENOMEM : 0;
}
