/* parquet.c -- read tables that opmeter wrote as Parquet, or that others made of them;
 * docs/tables.md says what they must be like. */
#include "import/parquet/parquet.h"

#include "base/alloc.h"
#include "base/error.h"
#include "format/parquet.h"
#include "import/common/refers.h"
#include "import/parquet/place.h"

#include <stdlib.h>
#include <string.h>

int pq_fail(const struct pq_reader *r, const char *path, int rc)
{
    return rc == OPM_ENOMEM ? opm__fail(r->err, rc, "%s: out of memory", path) : rc;
}

/* Ids become a map when they stop to rise one by one. */
static int scatter(struct pq_ids *ids)
{
    for (size_t i = 0; i < ids->n; i++)
        if (u64map_put(&ids->map, (uint64_t)ids->first + i, ids->to + i))
            return OPM_ENOMEM;
    ids->scattered = true;
    return 0;
}

int pq_ids_add(struct pq_reader *r, enum table_id table, const char *path, int64_t id, uint32_t row)
{
    struct pq_ids *ids = &r->ids[table];

    if (id == OPM_NULL_I64)
        return 0; /* nothing can refer to it */
    if (!ids->n && !ids->scattered) {
        ids->first = id;
        ids->to = row;
    }
    if (!ids->scattered && (uint64_t)id == (uint64_t)ids->first + ids->n &&
        row == ids->to + ids->n) {
        ids->n++;
        return 0;
    }
    if (pq_ids_get(r, table, id) != OPM_NULL_ID)
        return opm__fail(r->err, OPM_EFORMAT,
                         "%s: id %lld twice in table %s: rows of several ranks or jobs; keep them "
                         "in folders of their own (DuckDB: PARTITION_BY (job, rank))",
                         path, (long long)id, store_table_defs[table].name);
    if (!ids->scattered && scatter(ids))
        return pq_fail(r, path, OPM_ENOMEM);
    return pq_fail(r, path, u64map_put(&ids->map, (uint64_t)id, row));
}

uint32_t pq_ids_get(const struct pq_reader *r, enum table_id table, int64_t id)
{
    const struct pq_ids *ids = &r->ids[table];
    const uint64_t *row;

    if (id == OPM_NULL_I64)
        return OPM_NULL_ID;
    if (!ids->scattered) {
        uint64_t at = (uint64_t)id - (uint64_t)ids->first;

        return at < ids->n ? ids->to + (uint32_t)at : OPM_NULL_ID;
    }
    row = u64map_get(&ids->map, (uint64_t)id);
    return row ? (uint32_t)*row : OPM_NULL_ID;
}

int pq_track_get(struct pq_reader *r, int64_t id, uint32_t *out)
{
    struct cell c[track_col_COUNT] = { 0 };
    char name[40];
    str_id kind, text;

    *out = pq_ids_get(r, TABLE_track, id);
    if (*out != OPM_NULL_ID || id == OPM_NULL_I64)
        return 0;
    if (r->there[TABLE_track]) {
        store_stat(r->st, STAT_unknown_track, 1);
        return 0;
    }
    snprintf(name, sizeof(name), "track %lld", (long long)id);
    if (store_cstr(r->st, name, &text) || store_cstr(r->st, "thread", &kind))
        return OPM_ENOMEM;
    c[track_col_kind] = cell_str(kind);
    c[track_col_name] = cell_str(text);
    if (store_add(r->st, TABLE_track, c, out))
        return OPM_ENOMEM;
    return pq_ids_add(r, TABLE_track, r->src->path, id, *out);
}

static enum pq_want want_of(enum col_type type)
{
    return type == COL_STR ? PQ_WANT_TEXT : type == COL_F64 ? PQ_WANT_REAL : PQ_WANT_INT;
}

/* Whether a column is read; those that follow from others are computed again. How long a span
 * waited follows from others or was told; the file does not say which. */
static bool is_read(enum table_id table, int col)
{
    return store_table_defs[table].col[col].from != FROM_DERIVED ||
           (table == TABLE_span && col == span_col_wait);
}

int pq_table_open(struct pq_table *t, const struct pq_reader *r, const struct pq_meta *m,
                  enum table_id table)
{
    int rc = 0, any = 0;

    t->def = &store_table_defs[table];
    assert(t->def->ncol <= PQ_COLUMNS_MAX);
    for (int i = 0; i < t->def->ncol && !rc; i++) {
        t->leaf[i] = is_read(table, i) ? pq_meta_find(m, t->def->col[i].name) : -1;
        any += t->leaf[i] >= 0;
        if (t->leaf[i] >= 0)
            rc = pq_column_check(m, t->leaf[i], want_of(t->def->col[i].type), r->err);
    }
    t->overlap_leaf = table == TABLE_track ? pq_meta_find(m, PARQUET_OVERLAP_COLUMN) : -1;
    if (!rc && t->overlap_leaf >= 0)
        rc = pq_column_check(m, t->overlap_leaf, PQ_WANT_INT, r->err);
    if (!rc && !any)
        rc =
            opm__fail(r->err, OPM_EFORMAT, "%s: none of its columns (%.*s, ...) is one of table %s",
                      m->path, (int)MIN(m->leaf[0].len, (size_t)60), m->leaf[0].name, t->def->name);
    return rc;
}

/* Room for the values of a column. */
static uint64_t *fit(uint64_t *value, size_t had, size_t n)
{
    if (value && had >= n)
        return value;
    mem_free(value);
    return mem_alloc((n + 1) * sizeof(*value));
}

int pq_table_take(struct pq_table *t, struct pq_reader *r, const struct pq_meta *m, size_t group)
{
    size_t n = (size_t)m->group[group];
    int rc = 0;

    for (int i = 0; i < t->def->ncol && !rc; i++) {
        if (t->leaf[i] < 0)
            continue;
        t->value[i] = fit(t->value[i], t->cap, n);
        rc = t->value[i] ? pq_column_read(&r->columns, m, group, t->leaf[i],
                                          want_of(t->def->col[i].type), t->value[i], r->err)
                         : pq_fail(r, m->path, OPM_ENOMEM);
    }
    if (!rc && t->overlap_leaf >= 0) {
        t->overlap = fit(t->overlap, t->cap, n);
        rc = t->overlap ? pq_column_read(&r->columns, m, group, t->overlap_leaf, PQ_WANT_INT,
                                         t->overlap, r->err)
                        : pq_fail(r, m->path, OPM_ENOMEM);
    }
    t->cap = MAX(t->cap, n);
    return rc;
}

void pq_table_release(struct pq_table *t)
{
    for (int i = 0; i < PQ_COLUMNS_MAX; i++)
        mem_free(t->value[i]);
    mem_free(t->overlap);
}

static struct cell value_cell(enum col_type type, uint64_t v)
{
    double d;

    switch (type) {
    case COL_STR:
        return cell_str((str_id)v);
    case COL_F64:
        memcpy(&d, &v, 8);
        return cell_f64(d);
    default:
        return cell_i64((int64_t)v);
    }
}

/* A cell of a row: references by the row that they lead to. */
static int take_cell(struct pq_reader *r, const struct pq_table *t, int col, size_t i,
                     struct cell *out)
{
    const struct column_def *def = &t->def->col[col];
    int refers = def->type == COL_ID ? column_refers(def->name, strlen(def->name)) : -1, rc = 0;
    uint32_t row;

    *out = t->leaf[col] < 0 ? cell_null() : value_cell(def->type, t->value[col][i]);
    if (out->kind != CELL_I64 || def->type != COL_ID || def->from == FROM_ROW)
        return 0;
    if (refers == TABLE_track)
        rc = pq_track_get(r, out->i64, &row);
    else
        row = refers < 0 ? OPM_NULL_ID : pq_ids_get(r, (enum table_id)refers, out->i64);
    *out = cell_id(rc ? OPM_NULL_ID : row);
    return rc;
}

static const char *text_of(const struct pq_reader *r, struct cell c)
{
    return c.kind == CELL_STR ? store_text(r->st, c.str) : NULL;
}

/* What finishing will find again, and what tells the clocks of several sources. */
static int add_meta(struct pq_reader *r, const struct cell *c)
{
    const char *key = text_of(r, c[meta_col_key]), *value = text_of(r, c[meta_col_value]);

    if (!key)
        return 0;
    if (strcmp(key, "trace.start_ns") == 0 && value) {
        r->offset_ns = strtoll(value, NULL, 10);
        return 0;
    }
    return import_meta(r->st, r->src, key, value ? value : "");
}

static int add_row(struct pq_reader *r, enum table_id table, struct cell *c, uint32_t *row)
{
    int ts = table_find_col(&store_table_defs[table], "ts");

    *row = OPM_NULL_ID;
    if (table == TABLE_meta)
        return add_meta(r, c);
    if (table == TABLE_import_stat)
        return store_load_stat(r->st, text_of(r, c[import_stat_col_name]),
                               text_of(r, c[import_stat_col_severity]),
                               cell_i64_or(c[import_stat_col_count], OPM_NULL_I64),
                               text_of(r, c[import_stat_col_description]));
    if (ts >= 0 && c[ts].kind == CELL_I64)
        c[ts].i64 = pq_shift(r, c[ts].i64);
    return store_add(r->st, table, c, row);
}

/* Tracks of the store from `first` on hold what overlaps on others. */
static int add_overlaps(struct pq_reader *r, const struct pq_table *t, size_t n, uint32_t first)
{
    int rc = 0;

    for (size_t i = 0; i < n && !rc && t->overlap_leaf >= 0; i++) {
        uint32_t of = pq_ids_get(r, TABLE_track, (int64_t)t->overlap[i]);

        if (of != OPM_NULL_ID)
            rc = store_load_overlap(r->st, first + (uint32_t)i, of);
    }
    return rc;
}

static int add_rows(struct pq_reader *r, enum table_id table, const struct pq_table *t,
                    const char *path, size_t n)
{
    uint32_t first = (uint32_t)store_nrow(r->st, table), row;
    struct cell c[PQ_COLUMNS_MAX];
    int rc = 0;

    for (size_t i = 0; i < n && !rc; i++) {
        for (int k = 0; k < t->def->ncol && !rc; k++)
            rc = take_cell(r, t, k, i, &c[k]);
        if (!rc)
            rc = add_row(r, table, c, &row);
        if (!rc && t->def->col[0].from == FROM_ROW)
            rc = pq_ids_add(r, table, path, t->leaf[0] < 0 ? (int64_t)row : (int64_t)t->value[0][i],
                            row);
    }
    return rc ? rc : table == TABLE_track ? add_overlaps(r, t, n, first) : 0;
}

static int read_rows(struct pq_reader *r, enum table_id table, const struct pq_open *f)
{
    struct pq_table t = { 0 };
    int rc = pq_table_open(&t, r, &f->meta, table);

    for (size_t g = 0; g < f->meta.ngroup && !rc; g++) {
        rc = pq_table_take(&t, r, &f->meta, g);
        if (!rc)
            rc = pq_fail(r, f->meta.path,
                         add_rows(r, table, &t, f->meta.path, (size_t)f->meta.group[g]));
    }
    pq_table_release(&t);
    return rc;
}

static int read_table(struct pq_reader *r, enum table_id table, struct pq_open *file, size_t n)
{
    int rc = 0;

    if (table == TABLE_span)
        rc = pq_spans_read(r, file, n);
    for (size_t i = 0; i < n && !rc && table != TABLE_span; i++)
        rc = read_rows(r, table, &file[i]);
    for (size_t i = 0; i < n; i++)
        r->done += file[i].map.len;
    if (!rc && r->src->progress && r->src->progress(r->src->user, r->done, r->total))
        rc = opm__fail(r->err, OPM_ELIMIT, "%s: interrupted", r->src->path);
    return rc;
}

static int open_files(struct pq_reader *r, char *const *path, size_t n, struct pq_open *file)
{
    int rc = 0;

    for (size_t i = 0; i < n && !rc; i++) {
        rc = io_map(&file[i].map, path[i], 0, r->err);
        if (!rc)
            rc = pq_meta_read(&file[i].meta, path[i], file[i].map.data, file[i].map.len, r->err);
        r->total += file[i].map.len;
    }
    return rc;
}

static int read_place_table(struct pq_reader *r, const struct place *p, enum table_id table)
{
    struct pq_open *file = NULL;
    char **path;
    size_t n;
    int rc = pq_fail(r, r->src->path, place_files(p, table, &path, &n));

    r->there[table] = n > 0;
    if (!rc && n) {
        file = mem_calloc(n, sizeof(*file));
        rc = file ? open_files(r, path, n, file) : pq_fail(r, r->src->path, OPM_ENOMEM);
        if (!rc)
            rc = read_table(r, table, file, n);
        for (size_t i = 0; file && i < n; i++) {
            pq_meta_release(&file[i].meta);
            io_map_release(&file[i].map);
        }
    }
    mem_free(file);
    for (size_t i = 0; i < n; i++)
        mem_free(path[i]);
    mem_free(path);
    return rc;
}

static void tell_clocks(const struct pq_reader *r)
{
    struct buf key = { 0 };
    const char *value[3] = { NULL, NULL, NULL };
    static const char *const names[] = { "clock.boot", "clock.start_monotonic_ns",
                                         "clock.start_realtime_ns" };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        buf_clear(&key);
        if (r->src->index)
            buf_addf(&key, "file%d.", r->src->index);
        buf_adds(&key, names[i]);
        value[i] = key.failed ? NULL : store_meta_get(r->st, buf_str(&key));
    }
    if (value[0] && value[1])
        import_set_monotonic(r->src, value[0], strtoll(value[1], NULL, 10));
    if (value[2])
        import_set_realtime(r->src, strtoll(value[2], NULL, 10));
    buf_release(&key);
}

/* What the folders say: rank=3, job=17. */
static int tell_place(const struct pq_reader *r, const struct place *p)
{
    struct buf text = { 0 };
    int rc = 0;

    if (place_value(p, "rank", &text) && text.len &&
        strspn(buf_str(&text), "0123456789") == text.len)
        import_set_rank(r->src, strtoll(buf_str(&text), NULL, 10));
    buf_clear(&text);
    if (place_value(p, "job", &text))
        rc = text.failed ? OPM_ENOMEM : import_meta(r->st, r->src, "job", buf_str(&text));
    buf_release(&text);
    return rc;
}

static void reader_release(struct pq_reader *r)
{
    for (int i = 0; i < TABLE_COUNT; i++)
        u64map_release(&r->ids[i].map);
    pq_columns_release(&r->columns);
}

/* What others refer to comes first. */
static const enum table_id order[] = { TABLE_meta,
                                       TABLE_source,
                                       TABLE_op,
                                       TABLE_track,
                                       TABLE_step,
                                       TABLE_record,
                                       TABLE_import_stat,
                                       TABLE_op_tensor,
                                       TABLE_mem,
                                       TABLE_sample,
                                       TABLE_request,
                                       TABLE_iteration,
                                       TABLE_request_iteration,
                                       TABLE_token,
                                       TABLE_span,
                                       TABLE_flow };
static_assert(ARRAY_SIZE(order) == TABLE_COUNT, "every table is read");

int parquet_read_dir(struct store *st, const struct import_source *src, opm_error *err)
{
    struct pq_reader r = { .st = st, .src = src, .columns = { .st = st }, .err = err };
    struct place p = { 0 };
    int rc = place_of(src->path, &p) ? 0 : OPM_ENOMEM;

    if (!rc)
        rc = tell_place(&r, &p);
    rc = pq_fail(&r, src->path, rc);
    for (size_t i = 0; i < ARRAY_SIZE(order) && !rc; i++) {
        rc = read_place_table(&r, &p, order[i]);
        if (!rc && order[i] == TABLE_meta)
            tell_clocks(&r);
    }
    place_release(&p);
    reader_release(&r);
    return rc;
}

bool parquet_sniff_dir(const char *path)
{
    return place_is(path);
}

int parquet_parts(const char *path, int (*each)(void *ctx, const char *part), void *ctx,
                  opm_error *err)
{
    return place_parts(path, each, ctx, err);
}

bool parquet_sniff(const uint8_t *head, size_t len)
{
    return len >= 4 &&
           (memcmp(head, PARQUET_MAGIC, 4) == 0 || memcmp(head, PARQUET_MAGIC_SEALED, 4) == 0);
}

/* Which table a file alone holds: as it says itself, as it or its folder is named, or spans if it
 * has the columns that those can't be without. */
static int table_of(const struct pq_meta *m, const char *path, opm_error *err)
{
    int table = -1;

    for (int i = 0; m->table && i < TABLE_COUNT; i++)
        if (strlen(store_table_defs[i].name) == m->table_len &&
            memcmp(store_table_defs[i].name, m->table, m->table_len) == 0)
            table = i;
    if (table < 0)
        table = place_table(path);
    if (table < 0 && pq_meta_find(m, "ts") >= 0 && pq_meta_find(m, "dur") >= 0 &&
        pq_meta_find(m, "name") >= 0)
        table = TABLE_span;
    if (table < 0)
        opm__fail(err, OPM_EFORMAT,
                  "%s: a Parquet file, and none of opmeter's tables: its columns are %.*s, ...; "
                  "spans need ts, dur and name, other tables a file or folder of their name",
                  path, (int)MIN(m->leaf[0].len, (size_t)60), m->leaf[0].name);
    return table;
}

int parquet_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct pq_reader r = { .st = st, .src = src, .columns = { .st = st }, .err = err };
    struct pq_open f = { .map = { .data = src->data, .len = src->len } };
    int rc = pq_meta_read(&f.meta, src->path, src->data, src->len, err);
    int table = rc ? -1 : table_of(&f.meta, src->path, err);

    r.total = src->len;
    if (!rc)
        rc = table < 0 ? OPM_EFORMAT : read_table(&r, (enum table_id)table, &f, 1);
    pq_meta_release(&f.meta);
    reader_release(&r);
    return rc;
}
