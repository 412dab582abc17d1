/* csv.c -- write tables of the store as CSV.
 *
 * With options->table, that one goes to path. Otherwise path is a folder, made if needed, that gets
 * TABLE.csv for every table with rows; an empty table overwrites the file of an earlier export with
 * its header, so that a folder never mixes two traces.
 *
 * RFC 4180 but for the line ends, which are \n as in all CSV that opmeter writes: a header of
 * column names, derived columns included; text is quoted where it must be; NULL is nothing, an
 * empty text is "". Text is CSV_SAFE of csv_write.h, for these files are opened with spreadsheets,
 * or exact with options->raw. */
#include "export/export.h"

#include "base/alloc.h"
#include "base/csv_write.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/json_write.h"
#include "export/columns.h"
#include "export/writer.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_ROWS 65536

/* Where the values of a column are; both NULL: every value is NULL, or the row number itself. */
struct csv_column {
    const struct column_def *def;
    const void *data;
    bool site; /* of span: data is not used */
    int index;
};

struct csv {
    const struct store *st;
    const struct export_options *opts;
    const uint32_t *span_site;
    const struct site *sites;
    uint64_t done;
    uint64_t total;
};

static void put_number(struct io_out *out, int64_t v)
{
    char text[TEXT_DIGITS];

    io_out_add(out, text, (size_t)(text_put_i64(text, v) - text));
}

static void put_real(struct io_out *out, double v)
{
    struct json_writer w = { .out = out };

    if (isinf(v))
        io_out_adds(out, v < 0 ? "-inf" : "inf");
    else
        json_f64(&w, v);
}

static struct cell column_cell(const struct csv *c, const struct csv_column *col, size_t row)
{
    if (col->def->from == FROM_ROW)
        return cell_i64((int64_t)row);
    if (col->site)
        return site_cell(&c->sites[c->span_site[row]], col->index);
    if (!col->data)
        return cell_null();
    switch (col->def->type) {
    case COL_I64:
        return cell_i64(((const int64_t *)col->data)[row]);
    case COL_ID:
        return cell_id(((const uint32_t *)col->data)[row]);
    case COL_STR:
        return cell_str(((const str_id *)col->data)[row]);
    case COL_F64:
        return cell_f64(((const double *)col->data)[row]);
    }
    return cell_null();
}

static void put_row(const struct csv *c, struct io_out *out, const struct csv_column *cols, int n,
                    size_t row)
{
    const struct strpool *strings = store_strings(c->st);

    for (int i = 0; i < n; i++) {
        struct cell cell = column_cell(c, &cols[i], row);

        if (i)
            io_out_add(out, ",", 1);
        switch (cell.kind) {
        case CELL_NULL:
            break;
        case CELL_I64:
            put_number(out, cell.i64);
            break;
        case CELL_F64:
            put_real(out, cell.f64);
            break;
        case CELL_STR:
            csv_put(out, strpool_get(strings, cell.str), strpool_len(strings, cell.str),
                    c->opts && c->opts->raw ? CSV_EXACT : CSV_SAFE);
            break;
        }
    }
    io_out_add(out, "\n", 1);
}

static int put_table(struct csv *c, struct io_out *out, enum table_id table)
{
    const struct table_def *def = &store_table_defs[table];
    size_t nrow = store_nrow(c->st, table);
    struct csv_column *cols = mem_calloc((size_t)def->ncol, sizeof(*cols));
    int rc = cols ? 0 : OPM_ENOMEM;

    for (int i = 0; i < def->ncol && !rc; i++) {
        cols[i].def = &def->col[i];
        cols[i].index = i;
        cols[i].site = def->col[i].from == FROM_SITE;
        if (def->col[i].from != FROM_ROW && !cols[i].site && nrow)
            rc = store_column(c->st, table, i, &cols[i].data);
        io_out_adds(out, i ? "," : "");
        io_out_adds(out, def->col[i].name);
    }
    io_out_adds(out, "\n");
    for (size_t row = 0; row < nrow && !rc; row++) {
        if (c->done++ % PROGRESS_ROWS == 0)
            rc = writer_progress(c->opts, out, c->done - 1, c->total);
        if (!rc)
            put_row(c, out, cols, def->ncol, row);
    }
    mem_free(cols);
    return rc;
}

static int put_file(struct csv *c, enum table_id table, const char *path, opm_error *err)
{
    struct io_out out = { 0 };
    int rc = io_out_open(&out, path, err);

    if (rc)
        return rc;
    rc = put_table(c, &out, table);
    if (!rc && c->done == c->total)
        rc = writer_progress(c->opts, &out, c->done, c->total);
    return writer_close(&out, rc, path, err);
}

static int put_folder(struct csv *c, const char *folder, opm_error *err)
{
    struct buf path = { 0 };
    int rc = folder_make(folder, err);

    for (int i = 0; i < TABLE_COUNT && !rc; i++) {
        buf_clear(&path);
        buf_addf(&path, "%s/%s.csv", folder, store_table_defs[i].name);
        if (path.failed)
            rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", folder);
        else if (store_nrow(c->st, (enum table_id)i) || access(buf_str(&path), F_OK) == 0)
            rc = put_file(c, (enum table_id)i, buf_str(&path), err);
    }
    buf_release(&path);
    return rc;
}

int export_csv(const struct store *st, const char *path, const struct export_options *opts,
               opm_error *err)
{
    struct csv c = { .st = st, .opts = opts, .span_site = store_span_site(st) };
    const char *name = opts ? opts->table : NULL;
    enum table_id table;
    size_t nsite;

    c.sites = store_sites(st, &nsite);
    if (name) {
        int rc = export_find_table(name, "CSV", &table, err);

        if (rc)
            return rc;
        c.total = store_nrow(st, table);
        return put_file(&c, table, path, err);
    }
    if (strcmp(path, "-") == 0)
        return opm__fail(err, OPM_EINVAL,
                         "csv: standard output takes one table; name it, or write to a folder");
    for (int i = 0; i < TABLE_COUNT; i++)
        c.total += store_nrow(st, (enum table_id)i);
    return put_folder(&c, path, err);
}
