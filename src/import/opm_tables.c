/* opm_tables.c -- read an .opm file of tables back into a store; docs/format.md "Files of tables".
 *
 * Rows refer to rows by their number in the file. A damaged piece takes its rows with it: row_map
 * says which row of the store a row of the file became, and what refers to a missing one becomes
 * NULL. */
#include "import/opm_int.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/zblock.h"
#include "format/colpack.h"
#include <stdlib.h>
#include <unistd.h>

#define COLUMNS_MAX 64 /* of a table; more is damage */
#define THREADS_MAX 4
#define PARALLEL_FROM 200000                       /* spans */
#define STRINGS_MAX ((uint64_t)OPM_CHUNK_MAX * 16) /* bytes of text in a chunk */

/* Tables of the file: those of the store, and two that it keeps inside. */
enum { FILE_site = TABLE_COUNT, FILE_overlap, FILE_COUNT };

/* Rows [first, first + n) of the file are rows from `to` on of the store. */
struct row_part {
    uint64_t first, n;
    uint32_t to;
};

struct row_map {
    struct row_part *part; /* ascending */
    size_t n, cap;
};

struct packed_column {
    const char *name;
    size_t name_len;
    unsigned kind;
    const uint8_t *p;
    size_t len;
};

/* A chunk of rows, its columns still packed. */
struct rows {
    int table;
    uint64_t first, n;
    struct packed_column col[COLUMNS_MAX];
    size_t ncol;
};

struct tables {
    struct opm_file *f;
    struct store *st;
    int64_t offset_ns; /* added to every time */
    str_id *string;    /* by number in the file */
    size_t nstring, string_cap;
    struct row_map map[FILE_COUNT];
    uint32_t *site; /* by row of the file's table of sites, as map[FILE_site] has them */
    size_t nsite, site_cap;
    uint32_t unknown_site;
    uint64_t expected[FILE_COUNT]; /* rows, by the contents */
    uint64_t expected_strings;
    uint64_t got[FILE_COUNT], got_strings;
    /* Spans, unpacked by several threads. */
    struct table_piece **piece;
    size_t npiece;
    struct span_load load;
    atomic_size_t next;
    atomic_int rc;
    atomic_size_t corrupt;
};

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
    static const struct {
        const char *column;
        int table;
    } refers[] = {
        { "op", TABLE_op },       { "first_op", TABLE_op }, { "last_op", TABLE_op },
        { "track", TABLE_track }, { "of", TABLE_track },    { "site", FILE_site },
        { "src", TABLE_span },    { "dst", TABLE_span },
    };

    for (size_t i = 0; i < ARRAY_SIZE(refers); i++)
        if (strlen(refers[i].column) == len && memcmp(refers[i].column, column, len) == 0)
            return refers[i].table;
    return -1;
}

static int map_add(struct row_map *m, uint64_t first, uint64_t n, uint32_t to)
{
    if (!GROW(m->part, m->cap, m->n + 1))
        return OPM_ENOMEM;
    m->part[m->n++] = (struct row_part){ first, n, to };
    return 0;
}

static uint32_t map_get(const struct row_map *m, uint64_t row)
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

static bool rows_parse(const struct table_piece *p, struct rows *out)
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
        return refers < 0 ? cell_id((uint32_t)(v - 1)) : cell_id(map_get(&t->map[refers], v - 1));
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
};

static int cells_unpack(const struct tables *t, const struct rows *rows, struct cells *c)
{
    c->cell = mem_calloc((size_t)c->def->ncol, sizeof(*c->cell));
    c->value = mem_alloc((rows->ncol * rows->n + 1) * sizeof(*c->value));
    c->to = mem_alloc((rows->ncol + 1) * sizeof(*c->to));
    if (!c->cell || !c->value || !c->to)
        return OPM_ENOMEM;
    for (size_t i = 0; i < rows->ncol; i++) {
        const struct packed_column *p = &rows->col[i];

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

static str_id cell_string(struct cell c)
{
    return c.kind == CELL_STR ? c.str : 0;
}

static int site_add(struct tables *t, const struct cell *c)
{
    struct site s = { .name = cell_string(c[0]),
                      .cat = cell_string(c[1]),
                      .layer = cell_string(c[2]),
                      .phase = cell_string(c[3]),
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
        return store_load_stat(
            t->st, cell_text(t, c[import_stat_col_name]), cell_text(t, c[import_stat_col_severity]),
            c[import_stat_col_count].kind == CELL_I64 ? c[import_stat_col_count].i64 : OPM_NULL_I64,
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
        rc = map_add(m, rows->first, rows->n, to);
    for (uint64_t i = 0; i < rows->n && !rc; i++) {
        for (int k = 0; k < def->ncol; k++)
            c.cell[k] = cell_null();
        for (size_t k = 0; k < rows->ncol; k++)
            if (c.to[k] >= 0)
                c.cell[c.to[k]] = value_cell(
                    t, &rows->col[k], referred_table(rows->col[k].name, rows->col[k].name_len),
                    c.value[k * rows->n + i]);
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

static const struct packed_column *find_column(const struct rows *rows, const char *name,
                                               unsigned kind)
{
    for (size_t i = 0; i < rows->ncol; i++)
        if (strlen(name) == rows->col[i].name_len &&
            memcmp(name, rows->col[i].name, rows->col[i].name_len) == 0 &&
            rows->col[i].kind == kind)
            return &rows->col[i];
    return NULL;
}

/* Unpack a column; false if it is damaged or, unless optional, missing. */
static bool unpack(const struct rows *rows, const char *name, unsigned kind, const uint32_t *by,
                   uint64_t *v)
{
    const struct packed_column *c = find_column(rows, name, kind);

    return c && colpack_get(c->p, c->p + c->len, v, by, rows->n);
}

static int64_t to_time(uint64_t v)
{
    return v ? unzigzag(v - 1) : 0;
}

/* One chunk of spans into its place. False: it is damaged. */
static bool spans_unpack(struct tables *t, const struct table_piece *p, struct rows *rows,
                         uint64_t *v)
{
    size_t at = p->to;
    struct span_load l = t->load;

    if (!rows_parse(p, rows) || !unpack(rows, "ts", COLUMN_INT, NULL, v))
        return false;
    for (size_t i = 0; i < rows->n; i++)
        l.ts[at + i] = time_add(to_time(v[i]), t->offset_ns);
    if (!unpack(rows, "dur", COLUMN_INT, NULL, v))
        return false;
    for (size_t i = 0; i < rows->n; i++)
        l.dur[at + i] = to_time(v[i]);
    if (!find_column(rows, "track", COLUMN_ID))
        memset(v, 0, rows->n * sizeof(*v));
    else if (!unpack(rows, "track", COLUMN_ID, NULL, v))
        return false;
    for (size_t i = 0; i < rows->n; i++)
        l.track[at + i] = (uint32_t)(v[i] - 1);
    if (!unpack(rows, "site", COLUMN_ID, l.track + at, v))
        return false;
    for (size_t i = 0; i < rows->n; i++) {
        uint32_t row = map_get(&t->map[FILE_site], v[i] - 1);

        l.site[at + i] = row < t->nsite ? t->site[row] : t->unknown_site;
        l.track[at + i] = l.track[at + i] == OPM_NULL_ID
                              ? OPM_NULL_ID
                              : map_get(&t->map[TABLE_track], l.track[at + i]);
    }
    if (l.correlation && unpack(rows, "correlation", COLUMN_INT, NULL, v))
        for (size_t i = 0; i < rows->n; i++)
            l.correlation[at + i] = v[i] ? unzigzag(v[i] - 1) : OPM_NULL_I64;
    if (l.wait && unpack(rows, "wait", COLUMN_INT, NULL, v))
        for (size_t i = 0; i < rows->n; i++)
            l.wait[at + i] = v[i] ? unzigzag(v[i] - 1) : OPM_NULL_I64;
    if (l.args && unpack(rows, "args", COLUMN_STR, NULL, v))
        for (size_t i = 0; i < rows->n; i++)
            l.args[at + i] = v[i] < t->nstring ? t->string[v[i]] : 0;
    return true;
}

/* Rows of a damaged chunk are there all the same: empty ones, named as unknown. */
static void spans_blank(struct tables *t, const struct table_piece *p)
{
    for (size_t i = p->to; i < p->to + p->n; i++) {
        t->load.ts[i] = t->offset_ns;
        t->load.dur[i] = 0;
        t->load.track[i] = OPM_NULL_ID;
        t->load.site[i] = t->unknown_site;
    }
}

static void *spans_work(void *arg)
{
    struct tables *t = arg;
    struct rows *rows = mem_alloc(sizeof(*rows));
    uint64_t *v = mem_alloc(COLPACK_ROWS * sizeof(*v));
    size_t i;

    if (!rows || !v)
        atomic_store(&t->rc, OPM_ENOMEM);
    while (rows && v && (i = atomic_fetch_add(&t->next, 1)) < t->npiece) {
        if (!spans_unpack(t, t->piece[i], rows, v)) {
            spans_blank(t, t->piece[i]);
            atomic_fetch_add(&t->corrupt, 1);
        }
    }
    mem_free(rows);
    mem_free(v);
    return NULL;
}

static int by_first(const void *va, const void *vb)
{
    const struct table_piece *a = *(struct table_piece *const *)va;
    const struct table_piece *b = *(struct table_piece *const *)vb;

    return a->first < b->first ? -1 : a->first > b->first;
}

/* Find the chunks of spans and what they hold; each row of the file once. */
static int spans_find(struct tables *t, size_t *out_n, struct span_extras *extras)
{
    struct rows *rows = mem_alloc(sizeof(*rows));
    uint64_t end = 0;
    size_t n = 0;

    t->piece = mem_alloc((t->f->ntable + 1) * sizeof(struct table_piece *));
    if (!t->piece || !rows) {
        mem_free(rows);
        return OPM_ENOMEM;
    }
    for (size_t i = 0; i < t->f->ntable; i++) {
        struct table_piece *p = &t->f->table[i];

        if (p->kind != CHUNK_ROWS)
            continue;
        if (!rows_parse(p, rows)) {
            store_stat(t->st, STAT_chunk_corrupt, 1);
            continue;
        }
        if (rows->table < 0)
            store_stat(t->st, STAT_chunk_unknown, 1);
        if (rows->table != TABLE_span)
            continue;
        p->first = rows->first;
        p->n = rows->n;
        extras->correlation |= find_column(rows, "correlation", COLUMN_INT) != NULL;
        extras->wait |= find_column(rows, "wait", COLUMN_INT) != NULL;
        extras->args |= find_column(rows, "args", COLUMN_STR) != NULL;
        t->piece[t->npiece++] = p;
    }
    mem_free(rows);
    if (t->npiece)
        qsort(t->piece, t->npiece, sizeof(struct table_piece *), by_first);
    for (size_t i = 0; i < t->npiece; i++) {
        struct table_piece *p = t->piece[i];

        if (p->first < end) {
            store_stat(t->st, STAT_chunk_corrupt, 1);
            continue;
        }
        end = p->first + p->n;
        p->to = n;
        n += p->n;
        t->piece[*out_n] = p;
        ++*out_n;
    }
    t->npiece = *out_n;
    *out_n = n;
    return 0;
}

static int spans_read(struct tables *t)
{
    pthread_t helper[THREADS_MAX];
    struct span_extras extras = { 0 };
    size_t n = 0, nhelper = 0;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int rc = spans_find(t, &n, &extras);

    if (!rc)
        rc = store_load_spans(t->st, n, extras, &t->load);
    for (size_t i = 0; i < t->npiece && !rc; i++)
        rc = map_add(&t->map[TABLE_span], t->piece[i]->first, t->piece[i]->n,
                     t->load.first + (uint32_t)t->piece[i]->to);
    if (rc)
        return rc;
    while (n >= PARALLEL_FROM && nhelper + 1 < (size_t)MIN(cpus, THREADS_MAX) &&
           pthread_create(&helper[nhelper], NULL, spans_work, t) == 0)
        nhelper++;
    spans_work(t);
    while (nhelper)
        pthread_join(helper[--nhelper], NULL);
    store_stat(t->st, STAT_chunk_corrupt, (int64_t)atomic_load(&t->corrupt));
    t->got[TABLE_span] = n;
    return atomic_load(&t->rc);
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
    static const int order[] = { TABLE_meta, TABLE_op,     TABLE_track,       FILE_site,
                                 TABLE_step, TABLE_record, TABLE_import_stat, TABLE_op_tensor,
                                 TABLE_mem,  FILE_overlap, TABLE_sample };
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
        rc = spans_read(t);
    if (!rc)
        rc = table_read(t, TABLE_flow);
    count_lost(t);
    return rc;
}

int tables_read(struct opm_file *f)
{
    struct tables t = { .f = f, .st = f->st };
    int rc = all_read(&t);

    for (int i = 0; i < FILE_COUNT; i++)
        mem_free(t.map[i].part);
    mem_free(t.string);
    mem_free(t.site);
    mem_free(t.piece);
    return rc;
}
