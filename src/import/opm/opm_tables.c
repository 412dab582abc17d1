/* opm_tables.c -- read an .opm file of tables back into a store; docs/format.md "Files of tables".
 *
 * Rows refer to rows by their number in the file. A damaged piece takes its rows with it: row_map
 * says which row of the store a row of the file became, and what refers to a missing one becomes
 * NULL. */
#include "import/opm/opm_tables.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/zblock.h"
#include "format/colpack.h"
#include "import/common/refers.h"
#include <stdlib.h>

#define STRINGS_MAX ((uint64_t)OPM_CHUNK_MAX * 16) /* bytes of text in a chunk */

static const char *table_name(int table)
{
    return table == FILE_site      ? "site"
           : table == FILE_overlap ? "overlap"
                                   : store_table_defs[table].name;
}

static int find_table(const uint8_t *name, size_t len)
{
    for (int i = 0; i < FILE_COUNT; i++)
        if (strlen(table_name(i)) == len && memcmp(table_name(i), name, len) == 0)
            return i;
    return -1;
}

/* The table that a column of ids refers to; -1: none that is known. */
static int referred_table(const char *column, size_t len)
{
    if (len == strlen("of") && memcmp(column, "of", len) == 0)
        return TABLE_track;
    if (len == strlen("site") && memcmp(column, "site", len) == 0)
        return FILE_site;
    return column_refers(column, len);
}

int row_map_add(struct row_map *m, uint64_t first, uint64_t n, uint32_t to)
{
    if (!GROW(m->part, m->cap, m->n + 1))
        return OPM_ENOMEM;
    m->part[m->n++] = (struct row_part){ first, n, to };
    return 0;
}

uint32_t row_map_get(const struct row_map *m, uint64_t row)
{
    size_t lo = 0, hi = m->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (row < m->part[mid].first)
            hi = mid;
        else if (row - m->part[mid].first >= m->part[mid].n)
            lo = mid + 1;
        else
            return m->part[mid].to + (uint32_t)(row - m->part[mid].first);
    }
    return OPM_NULL_ID;
}

static int contents_read(struct tables *t, const struct table_piece *p)
{
    struct rd r = rd_of(p->p, p->len);
    uint64_t n;

    t->expected_strings = rd_varint(&r);
    n = rd_varint(&r);
    for (uint64_t i = 0; i < n && !r.bad; i++) {
        size_t len = rd_varint(&r);
        const uint8_t *name = rd_bytes(&r, len);
        uint64_t rows = rd_varint(&r);
        int table = r.bad ? -1 : find_table(name, len);

        if (table >= 0)
            t->expected[table] = rows;
    }
    return r.bad ? OPM_EFORMAT : 0;
}

static int strings_add(struct tables *t, uint64_t first, uint64_t count, const uint8_t *p,
                       size_t len)
{
    struct rd lengths = rd_of(p, len), text;
    uint64_t total = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t n = rd_varint(&lengths);

        if (lengths.bad || n > len || total + n > len)
            return OPM_EFORMAT;
        total += n;
    }
    text = lengths;
    lengths = rd_of(p, len);
    if (total > rd_left(&text))
        return OPM_EFORMAT;
    if (first + count > t->nstring) {
        if (!GROW(t->string, t->string_cap, first + count))
            return OPM_ENOMEM;
        memset(t->string + t->nstring, 0, (first + count - t->nstring) * sizeof(*t->string));
        t->nstring = first + count;
    }
    for (uint64_t i = 0; i < count; i++) {
        size_t n = rd_varint(&lengths);

        if (store_str(t->st, (const char *)rd_bytes(&text, n), n, &t->string[first + i]))
            return OPM_ENOMEM;
    }
    t->got_strings += count;
    return 0;
}

static int strings_read(struct tables *t, const struct table_piece *p)
{
    struct rd r = rd_of(p->p, p->len);
    uint64_t first = rd_varint(&r), count = rd_varint(&r), len;
    unsigned packing = rd_u8(&r);
    uint8_t *text;
    int rc;

    len = rd_varint(&r);
    /* The numbers of strings that were lost before it are bounded by the contents' count. */
    if (r.bad || !first || count > len || len > STRINGS_MAX || first > UINT32_MAX ||
        first > t->got_strings + 1 + MAX(t->expected_strings, 1))
        return OPM_EFORMAT;
    if (packing == STRINGS_PLAIN)
        return len > rd_left(&r) ? OPM_EFORMAT : strings_add(t, first, count, r.p, len);
    if (packing != STRINGS_ZSTD || len / (OPM_STRING_RATIO + 1) > rd_left(&r))
        return OPM_EFORMAT;
    text = mem_alloc(len + 1);
    if (!text)
        return OPM_ENOMEM;
    rc = zblock_unpack(r.p, rd_left(&r), text, len) ? strings_add(t, first, count, text, len)
                                                    : OPM_EFORMAT;
    mem_free(text);
    return rc;
}

/* The table and rows of a chunk; false if it is damaged. table -1: unknown. */
static bool rows_head(struct rd *r, const struct table_piece *p, struct rows *out)
{
    size_t len;
    const uint8_t *name;

    *r = rd_of(p->p, p->len);
    len = rd_varint(r);
    name = rd_bytes(r, len);
    out->first = rd_varint(r);
    out->n = rd_varint(r);
    out->ncol = rd_varint(r);
    if (r->bad || out->n > COLPACK_ROWS || out->first > UINT32_MAX || out->ncol > COLUMNS_MAX ||
        out->n / OPM_ROWS_PER_BYTE > p->len)
        return false;
    out->table = find_table(name, len);
    return true;
}

bool rows_parse(const struct table_piece *p, struct rows *out)
{
    struct rd r;

    if (!rows_head(&r, p, out))
        return false;
    for (size_t i = 0; i < out->ncol; i++) {
        struct packed_column *c = &out->col[i];

        c->name_len = rd_varint(&r);
        c->name = (const char *)rd_bytes(&r, c->name_len);
        c->kind = rd_u8(&r);
        c->len = rd_varint(&r);
        c->p = rd_bytes(&r, c->len);
    }
    return !r.bad;
}

static struct cell real_cell(uint64_t v)
{
    double d;

    memcpy(&d, &v, 8);
    return cell_f64(d);
}

/* What a number of a packed column stands for. */
static struct cell value_cell(const struct tables *t, const struct packed_column *c, int refers,
                              uint64_t v)
{
    switch (c->kind) {
    case COLUMN_INT:
        return v ? cell_i64(unzigzag(v - 1)) : cell_null();
    case COLUMN_ID:
        if (!v || v > UINT32_MAX)
            return cell_null();
        return refers < 0 ? cell_id((uint32_t)(v - 1))
                          : cell_id(row_map_find(&t->map[refers], v - 1));
    case COLUMN_STR:
        return v < t->nstring ? cell_str(t->string[v]) : cell_null();
    case COLUMN_REAL:
        return real_cell(v);
    default:
        return v ? cell_f64((double)unzigzag(v - 1)) : cell_null();
    }
}

static bool kind_fits(unsigned kind, enum col_type type)
{
    switch (type) {
    case COL_I64:
        return kind == COLUMN_INT;
    case COL_ID:
        return kind == COLUMN_ID;
    case COL_STR:
        return kind == COLUMN_STR;
    case COL_F64:
        return kind == COLUMN_REAL || kind == COLUMN_REAL_INT;
    }
    return false;
}

/* Rows of any table as cells; def says where each column goes. */
struct cells {
    const struct table_def *def;
    struct cell *cell; /* of one row */
    uint64_t *value;   /* of all columns, one after the other */
    int *to;           /* column of def, or -1 */
    int *refers;       /* table that ids refer to, or -1 */
};

static int cells_unpack(const struct tables *t, const struct rows *rows, struct cells *c)
{
    c->cell = mem_calloc((size_t)c->def->ncol, sizeof(*c->cell));
    c->value = mem_alloc((rows->ncol * rows->n + 1) * sizeof(*c->value));
    c->to = mem_alloc((rows->ncol + 1) * sizeof(*c->to));
    c->refers = mem_alloc((rows->ncol + 1) * sizeof(*c->refers));
    if (!c->cell || !c->value || !c->to || !c->refers)
        return OPM_ENOMEM;
    for (size_t i = 0; i < rows->ncol; i++) {
        const struct packed_column *p = &rows->col[i];

        c->refers[i] = referred_table(p->name, p->name_len);
        c->to[i] = -1;
        for (int k = 0; k < c->def->ncol; k++)
            if (strlen(c->def->col[k].name) == p->name_len &&
                memcmp(c->def->col[k].name, p->name, p->name_len) == 0 &&
                kind_fits(p->kind, c->def->col[k].type))
                c->to[i] = k;
        if (c->to[i] < 0)
            store_stat(t->st, STAT_chunk_unknown, 1);
        else if (!colpack_get(p->p, p->p + p->len, c->value + i * rows->n, NULL, rows->n))
            return OPM_EFORMAT;
    }
    return 0;
}

static void cells_release(struct cells *c)
{
    mem_free(c->cell);
    mem_free(c->value);
    mem_free(c->to);
    mem_free(c->refers);
}

static void shift_times(const struct tables *t, const struct table_def *def, struct cell *cell)
{
    int ts = table_find_col(def, "ts");

    if (ts >= 0 && cell[ts].kind == CELL_I64)
        cell[ts].i64 = time_add(cell[ts].i64, t->offset_ns);
}

static const char *cell_text(const struct tables *t, struct cell c)
{
    return c.kind == CELL_STR ? store_text(t->st, c.str) : NULL;
}

static const struct column_def site_columns[] = {
    { "name", COL_STR, FROM_ADD, "" },  { "cat", COL_STR, FROM_ADD, "" },
    { "layer", COL_STR, FROM_ADD, "" }, { "phase", COL_STR, FROM_ADD, "" },
    { "op", COL_ID, FROM_ADD, "" },
};
static const struct column_def overlap_columns[] = {
    { "track", COL_ID, FROM_ADD, "" },
    { "of", COL_ID, FROM_ADD, "" },
};
static const struct table_def inner_defs[] = {
    { "site", "", site_columns, ARRAY_SIZE(site_columns) },
    { "overlap", "", overlap_columns, ARRAY_SIZE(overlap_columns) },
};

static int site_add(struct tables *t, const struct cell *c)
{
    struct site s = { .name = cell_text_id(c[0]),
                      .cat = cell_text_id(c[1]),
                      .layer = cell_text_id(c[2]),
                      .phase = cell_text_id(c[3]),
                      .op = c[4].kind == CELL_I64 ? (uint32_t)c[4].i64 : OPM_NULL_ID };

    if (!GROW(t->site, t->site_cap, t->nsite + 1))
        return OPM_ENOMEM;
    return store_site(t->st, &s, &t->site[t->nsite++]);
}

/* Facts of the first of several files keep their names; those of others say which file it was. */
static int meta_add(struct tables *t, const struct cell *c)
{
    const char *key = cell_text(t, c[meta_col_key]);
    struct buf prefixed = { 0 };
    struct cell row[meta_col_COUNT] = { c[meta_col_key], c[meta_col_value] };
    str_id id;
    int rc;

    if (key && strcmp(key, "trace.start_ns") == 0 && cell_text(t, c[meta_col_value])) {
        /* Times count from there; store_finish() will find it again. */
        t->offset_ns = strtoll(cell_text(t, c[meta_col_value]), NULL, 10);
        return 0;
    }
    if (!key || !t->f->src->index)
        return store_add(t->st, TABLE_meta, row, NULL);
    buf_addf(&prefixed, "file%d.%s", t->f->src->index, key);
    rc = prefixed.failed ? OPM_ENOMEM : store_str(t->st, prefixed.data, prefixed.len, &id);
    buf_release(&prefixed);
    row[meta_col_key] = cell_str(rc ? 0 : id);
    return rc ? rc : store_add(t->st, TABLE_meta, row, NULL);
}

static int row_add(struct tables *t, int table, const struct table_def *def, struct cell *c)
{
    switch (table) {
    case FILE_site:
        return site_add(t, c);
    case FILE_overlap:
        if (c[0].kind != CELL_I64 || c[1].kind != CELL_I64)
            return 0;
        return store_load_overlap(t->st, (uint32_t)c[0].i64, (uint32_t)c[1].i64);
    case TABLE_meta:
        return meta_add(t, c);
    case TABLE_import_stat:
        return store_load_stat(t->st, cell_text(t, c[import_stat_col_name]),
                               cell_text(t, c[import_stat_col_severity]),
                               cell_i64_or(c[import_stat_col_count], OPM_NULL_I64),
                               cell_text(t, c[import_stat_col_description]));
    default:
        shift_times(t, def, c);
        return store_add(t->st, (enum table_id)table, c, NULL);
    }
}

static int rows_read(struct tables *t, const struct rows *rows)
{
    const struct table_def *def = rows->table >= TABLE_COUNT
                                      ? &inner_defs[rows->table - TABLE_COUNT]
                                      : &store_table_defs[rows->table];
    struct cells c = { .def = def };
    struct row_map *m = &t->map[rows->table];
    uint32_t to = rows->table == FILE_site ? (uint32_t)t->nsite
                  : rows->table < TABLE_COUNT
                      ? (uint32_t)store_nrow(t->st, (enum table_id)rows->table)
                      : 0;
    int rc = cells_unpack(t, rows, &c);

    if (!rc && m->n && m->part[m->n - 1].first + m->part[m->n - 1].n > rows->first)
        rc = OPM_EFORMAT;
    if (!rc)
        rc = row_map_add(m, rows->first, rows->n, to);
    for (uint64_t i = 0; i < rows->n && !rc; i++) {
        for (int k = 0; k < def->ncol; k++)
            c.cell[k] = cell_null();
        for (size_t k = 0; k < rows->ncol; k++)
            if (c.to[k] >= 0)
                c.cell[c.to[k]] =
                    value_cell(t, &rows->col[k], c.refers[k], c.value[k * rows->n + i]);
        rc = row_add(t, rows->table, def, c.cell);
    }
    cells_release(&c);
    if (!rc)
        t->got[rows->table] += rows->n;
    return rc;
}

/* All chunks of rows of a table. */
static int table_read(struct tables *t, int table)
{
    struct rows rows;
    int rc = 0;

    for (size_t i = 0; i < t->f->ntable && !rc; i++) {
        const struct table_piece *p = &t->f->table[i];
        struct rd r;

        if (p->kind != CHUNK_ROWS || !rows_head(&r, p, &rows) || rows.table != table)
            continue;
        rc = rows_parse(p, &rows) ? rows_read(t, &rows) : OPM_EFORMAT;
        if (rc == OPM_EFORMAT) {
            store_stat(t->st, STAT_chunk_corrupt, 1);
            rc = 0;
        }
    }
    return rc;
}

/* What the contents promised and is not there. */
static void count_lost(const struct tables *t)
{
    for (int i = 0; i < FILE_COUNT; i++)
        if (t->expected[i] > t->got[i])
            store_stat(t->st, i == TABLE_span ? STAT_spans_missing : STAT_rows_missing,
                       (int64_t)MIN(t->expected[i] - t->got[i], (uint64_t)UINT32_MAX));
    if (t->expected_strings > t->got_strings)
        store_stat(t->st, STAT_texts_missing,
                   (int64_t)MIN(t->expected_strings - t->got_strings, (uint64_t)UINT32_MAX));
}

static int all_read(struct tables *t)
{
    static const int order[] = { TABLE_meta,    TABLE_source,      TABLE_op,
                                 TABLE_track,   FILE_site,         TABLE_step,
                                 TABLE_record,  TABLE_import_stat, TABLE_op_tensor,
                                 TABLE_mem,     FILE_overlap,      TABLE_sample,
                                 TABLE_request, TABLE_iteration,   TABLE_request_iteration,
                                 TABLE_token };
    int rc = 0;

    for (int kind = CHUNK_CONTENTS; kind <= CHUNK_STRINGS; kind++) {
        for (size_t i = 0; i < t->f->ntable && !rc; i++) {
            const struct table_piece *p = &t->f->table[i];

            if (p->kind != (unsigned)kind)
                continue;
            rc = kind == CHUNK_CONTENTS ? contents_read(t, p) : strings_read(t, p);
            if (rc == OPM_EFORMAT) {
                store_stat(t->st, STAT_chunk_corrupt, 1);
                rc = 0;
            }
        }
    }
    if (!rc)
        rc = store_site(t->st, &(struct site){ .op = OPM_NULL_ID }, &t->unknown_site);
    for (size_t i = 0; i < ARRAY_SIZE(order) && !rc; i++) {
        rc = table_read(t, order[i]);
        if (!rc && order[i] == TABLE_meta)
            tables_time_tell(t->f);
    }
    if (!rc)
        rc = table_spans_read(t);
    if (!rc)
        rc = table_read(t, TABLE_flow);
    count_lost(t);
    return rc;
}

int tables_read(struct opm_file *f)
{
    struct tables t = { .f = f, .st = f->st };
    int rc = all_read(&t);

    if (!rc)
        rc = args_keep(&t);
    for (int i = 0; i < FILE_COUNT; i++)
        mem_free(t.map[i].part);
    mem_free(t.string);
    mem_free(t.site);
    mem_free(t.piece);
    return rc;
}
