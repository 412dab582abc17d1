/* opm.c -- write a store as an .opm file of tables, which opens without sorting or parsing
 * anything; docs/format.md "Files of tables" is the specification. */
#include "export/export.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/zblock.h"
#include "export/writer.h"
#include "format/colpack.h"
#include "format/crc32c.h"
#include "format/format.h"

#include <stdlib.h>
#include <string.h>

#define STRINGS_BYTES ((size_t)1 << 20) /* of text in a chunk, but for one that is longer */

/* The numbers of a row begin at `at`. */
struct form_use {
    uint32_t form; /* number of the string */
    uint32_t row;
    uint32_t at, n;
};

struct opm_out {
    const struct store *st;
    const struct export_options *opts;
    struct io_out out;
    uint32_t *number; /* string -> its number in the file; 0: it is not needed */
    str_id *string;   /* and back, from 1 on */
    size_t nstring;
    uint32_t seq;
    struct buf payload;
    uint64_t *value, *scratch;
    uint8_t *packed;
    /* Args made of a form and numbers, of the rows in hand. */
    struct form_use *use; /* one per row that has such args */
    int64_t *form_value;  /* their numbers, one after the other */
    size_t form_value_cap;
    uint64_t done, total; /* rows */
};

static void put_varint(struct buf *b, uint64_t v)
{
    uint8_t room[VARINT_MAX];

    buf_add(b, room, (size_t)(varint_put(room, v) - room));
}

static void put_str(struct buf *b, const char *s)
{
    put_varint(b, strlen(s));
    buf_adds(b, s);
}

static int put_chunk(struct opm_out *o, enum opm_chunk_kind kind)
{
    struct opm_chunk c = { .magic = OPM_CHUNK_MAGIC,
                           .kind = (uint16_t)kind,
                           .size = (uint32_t)o->payload.len,
                           .seq = o->seq++ };

    if (o->payload.failed)
        return OPM_ENOMEM;
    if (o->payload.len > OPM_CHUNK_MAX)
        return OPM_ELIMIT;
    c.crc = crc32c(buf_str(&o->payload), o->payload.len);
    c.header_crc = crc32c(&c, offsetof(struct opm_chunk, header_crc));
    io_out_add(&o->out, &c, sizeof(c));
    io_out_add(&o->out, buf_str(&o->payload), o->payload.len);
    buf_clear(&o->payload);
    return 0;
}

/* The one recording that the trace was made of; zeros if it is none, or several. */
static void take_session(const struct store *st, uint8_t out[16])
{
    char id[WRITER_ID_ROOM], digits[3] = "";

    if (!writer_recording(st, id))
        return;
    for (int i = 0; i < 16; i++) {
        memcpy(digits, id + 2 * i, 2);
        out[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
}

static void put_header(struct opm_out *o)
{
    struct opm_file_header h = { .magic = OPM_FILE_MAGIC,
                                 .version = OPM_FORMAT_VERSION,
                                 .header_size = OPM_HEADER_SIZE,
                                 .clock_source = CLOCK_SOURCE_MONOTONIC,
                                 .ticks_per_s = 1000000000 };
    struct opm_file_status s = { .state = FILE_CLOSED };
    static const char zeros[OPM_HEADER_SIZE - sizeof(h) - sizeof(s)];

    take_session(o->st, h.session);
    h.crc = crc32c(&h, offsetof(struct opm_file_header, crc));
    s.crc = crc32c(&s, offsetof(struct opm_file_status, crc));
    io_out_add(&o->out, &h, sizeof(h));
    io_out_add(&o->out, &s, sizeof(s));
    io_out_add(&o->out, zeros, sizeof(zeros));
}

/* Give a string a number in the file, in the order of first use: what is used together then has
 * numbers that are close. */
static void use_string(struct opm_out *o, str_id id)
{
    if (id && !o->number[id]) {
        o->number[id] = (uint32_t)++o->nstring;
        o->string[o->nstring] = id;
    }
}

static void use_args(struct opm_out *o)
{
    for (size_t i = 0; store_has_args(o->st) && i < store_nrow(o->st, TABLE_span); i++) {
        size_t n;

        use_string(o, store_span_args_form(o->st, i, NULL, 0, &n));
        use_string(o, store_span_text_args(o->st, i));
    }
}

static int use_column(struct opm_out *o, enum table_id table, int col)
{
    const struct column_def *def = &store_table_defs[table].col[col];
    const void *data = NULL;
    int rc = 0;

    if (def->type != COL_STR || def->from != FROM_ADD)
        return 0;
    if (table == TABLE_span) {
        use_args(o);
        return 0;
    }
    rc = store_column(o->st, table, col, &data);
    for (size_t i = 0; data && !rc && i < store_nrow(o->st, table); i++)
        use_string(o, ((const str_id *)data)[i]);
    return rc;
}

static int use_strings(struct opm_out *o)
{
    size_t n = strpool_count(store_strings(o->st)) + 1, nsite;
    const struct site *sites = store_sites(o->st, &nsite);
    int rc = 0;

    o->number = mem_calloc(n, sizeof(*o->number));
    o->string = mem_calloc(n, sizeof(*o->string));
    if (!o->number || !o->string)
        return OPM_ENOMEM;
    for (size_t i = 0; i < nsite; i++) {
        use_string(o, sites[i].layer);
        use_string(o, sites[i].cat);
        use_string(o, sites[i].phase);
        use_string(o, sites[i].name);
    }
    for (int t = 0; t < TABLE_COUNT; t++)
        for (int c = 0; c < store_table_defs[t].ncol && !rc; c++)
            rc = use_column(o, (enum table_id)t, c);
    return rc;
}

/* Lengths and bytes of strings [from, to) as a chunk. */
static int put_strings_part(struct opm_out *o, size_t from, size_t to)
{
    const struct strpool *pool = store_strings(o->st);
    struct buf text = { 0 }, packed = { 0 };
    bool plain;
    int rc = OPM_ENOMEM;

    for (size_t i = from; i < to; i++)
        put_varint(&text, strpool_len(pool, o->string[i]));
    for (size_t i = from; i < to; i++)
        buf_add(&text, strpool_get(pool, o->string[i]), strpool_len(pool, o->string[i]));
    if (text.failed || zblock_pack(&packed, buf_str(&text), text.len))
        goto out;
    plain = packed.len >= text.len || text.len / OPM_STRING_RATIO > packed.len;
    put_varint(&o->payload, from);
    put_varint(&o->payload, to - from);
    buf_addc(&o->payload, plain ? STRINGS_PLAIN : STRINGS_ZSTD);
    put_varint(&o->payload, text.len);
    buf_add(&o->payload, plain ? buf_str(&text) : buf_str(&packed), plain ? text.len : packed.len);
    rc = put_chunk(o, CHUNK_STRINGS);
out:
    buf_release(&text);
    buf_release(&packed);
    return rc;
}

static int put_strings(struct opm_out *o)
{
    size_t from = 1, bytes = 0;
    int rc = 0;

    for (size_t i = 1; i <= o->nstring && !rc; i++) {
        bytes += strpool_len(store_strings(o->st), o->string[i]) + 2;
        if (bytes >= STRINGS_BYTES || i == o->nstring) {
            rc = put_strings_part(o, from, i + 1);
            from = i + 1;
            bytes = 0;
        }
    }
    return rc;
}

static uint64_t of_int(int64_t v)
{
    return v == OPM_NULL_I64 ? 0 : zigzag(v) + 1;
}

static bool is_integer(double v)
{
    uint64_t a, b;
    double back;

    if (v != v)
        return true; /* NULL */
    if (!(v > -9e15 && v < 9e15))
        return false;
    back = (double)(int64_t)v;
    memcpy(&a, &v, 8);
    memcpy(&b, &back, 8);
    return a == b; /* not -0.0 */
}

static enum opm_column_kind real_values(struct opm_out *o, const double *v, size_t n)
{
    bool integers = true;

    for (size_t i = 0; i < n && integers; i++)
        integers = is_integer(v[i]);
    for (size_t i = 0; i < n; i++) {
        if (integers)
            o->value[i] = v[i] != v[i] ? 0 : of_int((int64_t)v[i]);
        else
            memcpy(&o->value[i], &v[i], 8);
    }
    return integers ? COLUMN_REAL_INT : COLUMN_REAL;
}

/* n values from `from` on, as numbers, to o->value. */
static enum opm_column_kind take_values(struct opm_out *o, enum col_type type, const void *data,
                                        size_t from, size_t n)
{
    const int64_t *i64 = (const int64_t *)data + from;
    const uint32_t *id = (const uint32_t *)data + from;

    switch (type) {
    case COL_I64:
        for (size_t i = 0; i < n; i++)
            o->value[i] = of_int(i64[i]);
        return COLUMN_INT;
    case COL_ID:
        for (size_t i = 0; i < n; i++)
            o->value[i] = (uint32_t)(id[i] + 1);
        return COLUMN_ID;
    case COL_STR:
        for (size_t i = 0; i < n; i++)
            o->value[i] = o->number[id[i]];
        return COLUMN_STR;
    case COL_F64:
        break;
    }
    return real_values(o, (const double *)data + from, n);
}

/* A column of the rows that the payload is about. by: see colpack.h. */
static void put_column(struct opm_out *o, const char *name, enum col_type type, const void *data,
                       const uint32_t *by, size_t from, size_t n)
{
    enum opm_column_kind kind = take_values(o, type, data, from, n);
    size_t size = (size_t)(colpack_put(o->packed, o->value, by, n, o->scratch) - o->packed);

    put_str(&o->payload, name);
    buf_addc(&o->payload, (char)kind);
    put_varint(&o->payload, size);
    buf_add(&o->payload, o->packed, size);
}

/* Args that are texts, of rows [from, from + n); false if there are none. */
static bool put_text_args(struct opm_out *o, size_t from, size_t n)
{
    bool any = false;
    size_t size;

    for (size_t i = 0; i < n; i++) {
        o->value[i] = o->number[store_span_text_args(o->st, from + i)];
        any |= o->value[i] != 0;
    }
    if (!any)
        return false;
    size = (size_t)(colpack_put(o->packed, o->value, NULL, n, o->scratch) - o->packed);
    put_str(&o->payload, "args");
    buf_addc(&o->payload, COLUMN_STR);
    put_varint(&o->payload, size);
    buf_add(&o->payload, o->packed, size);
    return true;
}

/* Ordered by form, then row. */
static int by_form(const void *va, const void *vb)
{
    const struct form_use *a = va, *b = vb;

    if (a->form != b->form)
        return a->form < b->form ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* The rows whose args are a form and numbers, to o->use; how many, or SIZE_MAX: no memory. */
static size_t take_forms(struct opm_out *o, size_t from, size_t n)
{
    size_t nuse = 0, at = 0;

    for (size_t i = 0; i < n; i++) {
        size_t nvalue = 0;
        str_id form = store_span_args_form(o->st, from + i, NULL, 0, &nvalue);

        if (!form)
            continue;
        if (!GROW(o->form_value, o->form_value_cap, at + nvalue))
            return SIZE_MAX;
        store_span_args_form(o->st, from + i, o->form_value + at, nvalue, &nvalue);
        o->use[nuse++] =
            (struct form_use){ o->number[form], (uint32_t)i, (uint32_t)at, (uint32_t)nvalue };
        at += nvalue;
    }
    return nuse;
}

/* Which form each row has; then for every form and every number that it takes, the column of
 * those. */
static int put_form_args(struct opm_out *o, size_t from, size_t n, bool *any)
{
    size_t nuse = take_forms(o, from, n), end;
    struct buf body = { 0 };
    int rc = 0;

    *any = nuse != 0;
    if (nuse == SIZE_MAX)
        return OPM_ENOMEM;
    if (!nuse)
        return 0;
    memset(o->value, 0, n * sizeof(*o->value));
    for (size_t i = 0; i < nuse; i++)
        o->value[o->use[i].row] = o->use[i].form;
    buf_add(&body, o->packed,
            (size_t)(colpack_put(o->packed, o->value, NULL, n, o->scratch) - o->packed));
    qsort(o->use, nuse, sizeof(*o->use), by_form);
    for (size_t i = 0; i < nuse; i = end) {
        for (end = i; end < nuse && o->use[end].form == o->use[i].form;)
            end++;
        for (uint32_t k = 0; k < o->use[i].n; k++) {
            for (size_t j = i; j < end; j++)
                o->value[j - i] = zigzag(o->form_value[o->use[j].at + k]);
            buf_add(
                &body, o->packed,
                (size_t)(colpack_put(o->packed, o->value, NULL, end - i, o->scratch) - o->packed));
        }
    }
    put_str(&o->payload, "args");
    buf_addc(&o->payload, COLUMN_FORM);
    put_varint(&o->payload, body.len);
    buf_add(&o->payload, buf_str(&body), body.len);
    if (body.failed)
        rc = OPM_ENOMEM;
    buf_release(&body);
    return rc;
}

/* The start of a payload of rows; columns follow. */
static void begin_rows(struct opm_out *o, const char *table, size_t from, size_t n, size_t ncol)
{
    put_str(&o->payload, table);
    put_varint(&o->payload, from);
    put_varint(&o->payload, n);
    put_varint(&o->payload, ncol);
}

static int end_rows(struct opm_out *o, size_t n)
{
    int rc;

    while (o->payload.len < n / OPM_ROWS_PER_BYTE && !o->payload.failed)
        buf_addc(&o->payload, 0);
    rc = put_chunk(o, CHUNK_ROWS);
    o->done += n;
    return rc ? rc : writer_progress(o->opts, &o->out, o->done, o->total);
}

struct table_column {
    const char *name;
    enum col_type type;
    const void *data;
};

static int put_rows(struct opm_out *o, const char *table, const struct table_column *col,
                    size_t ncol, size_t nrow)
{
    int rc = 0;

    for (size_t from = 0; from < nrow && !rc; from += COLPACK_ROWS) {
        size_t n = MIN(nrow - from, (size_t)COLPACK_ROWS);

        begin_rows(o, table, from, n, ncol);
        for (size_t c = 0; c < ncol; c++)
            put_column(o, col[c].name, col[c].type, col[c].data, NULL, from, n);
        rc = end_rows(o, n);
    }
    return rc;
}

static int put_table(struct opm_out *o, enum table_id table)
{
    const struct table_def *def = &store_table_defs[table];
    struct table_column *col = mem_calloc((size_t)def->ncol, sizeof(*col));
    size_t n = 0;
    int rc = col ? 0 : OPM_ENOMEM;

    for (int c = 0; c < def->ncol && !rc; c++) {
        if (def->col[c].from != FROM_ADD)
            continue;
        col[n].name = def->col[c].name;
        col[n].type = def->col[c].type;
        rc = store_column(o->st, table, c, &col[n].data);
        n += col[n].data != NULL;
    }
    if (!rc)
        rc = put_rows(o, def->name, col, n, store_nrow(o->st, table));
    mem_free(col);
    return rc;
}

/* The spans' sites as a table of their own. */
static int put_sites(struct opm_out *o)
{
    static const char *const names[] = { "name", "cat", "layer", "phase", "op" };
    size_t n;
    const struct site *s = store_sites(o->st, &n);
    uint32_t *column = mem_alloc(ARRAY_SIZE(names) * n * sizeof(*column));
    struct table_column col[ARRAY_SIZE(names)];
    int rc = column ? 0 : OPM_ENOMEM;

    for (size_t c = 0; c < ARRAY_SIZE(names) && !rc; c++)
        col[c] = (struct table_column){ names[c], c < 4 ? COL_STR : COL_ID, column + c * n };
    for (size_t i = 0; i < n && !rc; i++) {
        column[i] = s[i].name;
        column[n + i] = s[i].cat;
        column[2 * n + i] = s[i].layer;
        column[3 * n + i] = s[i].phase;
        column[4 * n + i] = s[i].op;
    }
    if (!rc)
        rc = put_rows(o, "site", col, ARRAY_SIZE(names), n);
    mem_free(column);
    return rc;
}

static size_t overlap_count(const struct store *st)
{
    size_t n = 0;

    for (uint32_t i = 0; i < store_nrow(st, TABLE_track); i++)
        n += store_overlap_of(st, i) != i;
    return n;
}

static int put_overlaps(struct opm_out *o)
{
    size_t n = overlap_count(o->st), k = 0;
    uint32_t *pair = mem_alloc(2 * n * sizeof(*pair));
    int rc;

    if (!pair)
        return OPM_ENOMEM;
    for (uint32_t i = 0; i < store_nrow(o->st, TABLE_track); i++) {
        if (store_overlap_of(o->st, i) == i)
            continue;
        pair[k] = i;
        pair[n + k++] = store_overlap_of(o->st, i);
    }
    rc = put_rows(o, "overlap",
                  (struct table_column[]){ { "track", COL_ID, pair }, { "of", COL_ID, pair + n } },
                  2, n);
    mem_free(pair);
    return rc;
}

struct span_columns {
    const void *ts, *dur, *track, *correlation, *wait;
    const uint32_t *site;
};

/* The track comes before the site, which is guessed by it. The number of columns is known last, so
 * they are put together before what stands in front of them. */
static int put_some_spans(struct opm_out *o, const struct span_columns *c, size_t from, size_t n)
{
    const uint32_t *by = c->track ? (const uint32_t *)c->track + from : NULL;
    struct buf columns = { 0 };
    size_t ncol = 3;
    bool forms = false;
    int rc = 0;

    put_column(o, "ts", COL_I64, c->ts, NULL, from, n);
    put_column(o, "dur", COL_I64, c->dur, NULL, from, n);
    if (c->track) {
        put_column(o, "track", COL_ID, c->track, NULL, from, n);
        ncol++;
    }
    put_column(o, "site", COL_ID, c->site, by, from, n);
    if (c->correlation) {
        put_column(o, "correlation", COL_I64, c->correlation, NULL, from, n);
        ncol++;
    }
    if (c->wait) {
        put_column(o, "wait", COL_I64, c->wait, NULL, from, n);
        ncol++;
    }
    if (store_has_args(o->st)) {
        ncol += put_text_args(o, from, n);
        rc = put_form_args(o, from, n, &forms);
        ncol += forms;
    }
    columns = o->payload;
    o->payload = (struct buf){ 0 };
    begin_rows(o, "span", from, n, ncol);
    buf_add(&o->payload, buf_str(&columns), columns.len);
    o->payload.failed |= columns.failed;
    buf_release(&columns);
    return rc ? rc : end_rows(o, n);
}

static int put_spans(struct opm_out *o)
{
    size_t nrow = store_nrow(o->st, TABLE_span);
    struct span_columns c = { .site = store_span_site(o->st) };
    int rc = store_column(o->st, TABLE_span, span_col_ts, &c.ts);

    if (!rc)
        rc = store_column(o->st, TABLE_span, span_col_dur, &c.dur);
    if (!rc)
        rc = store_column(o->st, TABLE_span, span_col_track, &c.track);
    if (!rc)
        rc = store_column(o->st, TABLE_span, span_col_correlation, &c.correlation);
    c.wait = store_given_waits(o->st); /* the rest follows from correlations */
    for (size_t from = 0; from < nrow && !rc; from += COLPACK_ROWS)
        rc = put_some_spans(o, &c, from, MIN(nrow - from, (size_t)COLPACK_ROWS));
    return rc;
}

static int put_contents(struct opm_out *o)
{
    size_t nsite;

    store_sites(o->st, &nsite);
    put_varint(&o->payload, o->nstring);
    put_varint(&o->payload, TABLE_COUNT + 2);
    put_str(&o->payload, "site");
    put_varint(&o->payload, nsite);
    put_str(&o->payload, "overlap");
    put_varint(&o->payload, overlap_count(o->st));
    o->total = nsite + overlap_count(o->st);
    for (int t = 0; t < TABLE_COUNT; t++) {
        put_str(&o->payload, store_table_defs[t].name);
        put_varint(&o->payload, store_nrow(o->st, (enum table_id)t));
        o->total += store_nrow(o->st, (enum table_id)t);
    }
    return put_chunk(o, CHUNK_CONTENTS);
}

/* What is few comes first: a file that was cut off still explains what it holds. */
static int put_all(struct opm_out *o)
{
    int rc;

    put_header(o);
    rc = use_strings(o);
    if (!rc)
        rc = put_contents(o);
    if (!rc)
        rc = put_strings(o);
    if (!rc)
        rc = put_sites(o);
    for (int t = 0; t < TABLE_COUNT && !rc; t++)
        if (t != TABLE_span && t != TABLE_sample && t != TABLE_flow)
            rc = put_table(o, (enum table_id)t);
    if (!rc)
        rc = put_overlaps(o);
    if (!rc)
        rc = put_spans(o);
    if (!rc)
        rc = put_table(o, TABLE_sample);
    if (!rc)
        rc = put_table(o, TABLE_flow);
    return rc ? rc : put_chunk(o, CHUNK_END);
}

int export_opm(const struct store *st, const char *path, const struct export_options *opts,
               opm_error *err)
{
    struct opm_out o = { .st = st, .opts = opts };
    int rc = writer_open(&o.out, st, path, err);

    if (rc)
        return rc;
    o.value = mem_alloc(COLPACK_SCRATCH * sizeof(*o.value));
    o.scratch = mem_alloc(COLPACK_SCRATCH * sizeof(*o.scratch));
    o.packed = mem_alloc(COLPACK_MAX(COLPACK_ROWS));
    o.use = mem_alloc(COLPACK_ROWS * sizeof(*o.use));
    rc = o.value && o.scratch && o.packed && o.use ? put_all(&o) : OPM_ENOMEM;
    mem_free(o.value);
    mem_free(o.scratch);
    mem_free(o.packed);
    mem_free(o.use);
    mem_free(o.form_value);
    mem_free(o.number);
    mem_free(o.string);
    buf_release(&o.payload);
    return writer_close(&o.out, rc, path, err);
}
