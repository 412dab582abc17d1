/* furiosa_csv.c -- read the CSV behind the Furiosa SDK's DataFrame; see furiosa.h.
 *
 *     trace_id,parent_span_id,span_id,start,end,cat,name,thread.id,dram_base,pe_index,...
 *
 * Columns are found by their names, in any order; `dur` and unknown ones are kept in args. */
#include "base/csv_read.h"
#include "base/csv_write.h"
#include "base/error.h"
#include "base/json_write.h"
#include "import/furiosa/furiosa.h"

#include <string.h>

#define COLUMNS_MAX 64
#define KEY_MAX_BYTES 256 /* of the name of a column: every row repeats it */
#define PROGRESS_ROWS 65536

enum csv_column {
    COL_TRACE_ID,
    COL_PARENT,
    COL_SPAN_ID,
    COL_START,
    COL_END,
    COL_CAT,
    COL_NAME,
    COL_NUMBERS,
    COL_COUNT = COL_NUMBERS + FURIOSA_NUMBER_COUNT,
};

static const char *const column_names[COL_COUNT] = {
    "trace_id",        "parent_span_id", "span_id", "start", "end", "cat", "name",
#define X(name, text) text,
    FURIOSA_NUMBERS(X)
#undef X
};

bool furiosa_csv_sniff(const uint8_t *head, size_t len)
{
    struct csv_reader r = csv_read_of(head, len);
    struct csv_field f[COLUMNS_MAX];
    int n = csv_read_row(&r, f, COLUMNS_MAX), found = 0;

    for (int i = 0; i < MIN(n, COLUMNS_MAX); i++)
        for (int c = COL_TRACE_ID; c <= COL_NAME; c++)
            found += csv_field_is(&f[i], column_names[c]);
    return found == COL_NAME + 1;
}

struct reader {
    struct furiosa f;
    struct csv_field field[COLUMNS_MAX];
    struct csv_field header[COLUMNS_MAX];
    int at[COL_COUNT]; /* field of each column, or -1 */
    int ncol;
    struct buf name, rest;
};

/* What a spreadsheet-safe writer put in front of a text is no part of it. */
static struct furiosa_text unmarked(const char *s, size_t len)
{
    size_t mark = csv_is_marked(s, len);

    return (struct furiosa_text){ s + mark, len - mark };
}

static struct furiosa_text text_at(const struct reader *r, int column)
{
    int i = r->at[column];

    return i < 0 ? (struct furiosa_text){ 0 } : unmarked(r->field[i].p, r->field[i].len);
}

static int64_t number_at(const struct reader *r, int column)
{
    int64_t v = OPM_NULL_I64;

    if (r->at[column] >= 0)
        csv_field_int(&r->field[r->at[column]], &v);
    return v;
}

/* Columns that we do not know, as members of an object. dur follows from start and end. */
static void rest_of(struct reader *r, int n)
{
    struct json_writer w = { .buf = &r->rest };

    buf_clear(&r->rest);
    for (int i = 0; i < MIN(n, r->ncol); i++) {
        bool known = csv_field_is(&r->header[i], "dur") || !r->field[i].len || !r->header[i].len;

        for (int c = 0; c < COL_COUNT && !known; c++)
            known = r->at[c] == i;
        if (known)
            continue;
        buf_adds(&r->rest, r->rest.len ? "," : "");
        json_str(&w, r->header[i].p, MIN(r->header[i].len, (size_t)KEY_MAX_BYTES));
        buf_adds(&r->rest, ":");
        w = (struct json_writer){ .buf = &r->rest };
        json_str(&w, r->field[i].p, r->field[i].len);
        w = (struct json_writer){ .buf = &r->rest };
    }
}

static int add_row(struct reader *r, int n)
{
    struct furiosa_span s = FURIOSA_SPAN_INIT;

    if (n < r->ncol) /* cut off, or not of this table */
        goto bad;
    s.start_ns = number_at(r, COL_START);
    s.end_ns = number_at(r, COL_END);
    if (s.start_ns == OPM_NULL_I64 || s.end_ns == OPM_NULL_I64)
        goto bad;
    s.trace_id = text_at(r, COL_TRACE_ID);
    s.parent_span_id = text_at(r, COL_PARENT);
    s.span_id = text_at(r, COL_SPAN_ID);
    s.cat = text_at(r, COL_CAT);
    buf_clear(&r->name);
    csv_field_text(&r->field[r->at[COL_NAME]], &r->name);
    if (r->name.failed)
        return OPM_ENOMEM;
    s.name = unmarked(buf_str(&r->name), r->name.len);
    for (int i = 0; i < FURIOSA_NUMBER_COUNT; i++)
        s.number[i] = number_at(r, COL_NUMBERS + i);
    rest_of(r, n);
    if (r->rest.failed)
        return OPM_ENOMEM;
    s.rest = (struct furiosa_text){ buf_str(&r->rest), r->rest.len };
    return furiosa_add(&r->f, &s);
bad:
    store_stat(r->f.st, STAT_bad_row, 1);
    return 0;
}

static int read_header(struct reader *r, struct csv_reader *csv, opm_error *err)
{
    int n = csv_read_row(csv, r->header, COLUMNS_MAX);

    r->ncol = MAX(MIN(n, COLUMNS_MAX), 0);
    csv_columns(r->header, r->ncol, column_names, COL_COUNT, r->at);
    for (int c = COL_START; c <= COL_NAME; c++)
        if (r->at[c] < 0)
            return opm__fail(err, OPM_EFORMAT, "%s: the first line has no column '%s'",
                             r->f.src->path, column_names[c]);
    return 0;
}

int furiosa_csv_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct csv_reader csv = csv_read_of(src->data, src->len);
    struct reader r = { .f = { .st = st, .src = src, .absolute = true, .named_parents = true } };
    int rc = read_header(&r, &csv, err), n;

    if (rc)
        return rc;
    while (rc == 0 && csv_read_next(&csv, r.field, COLUMNS_MAX, &n)) {
        rc = add_row(&r, n);
        if (rc == 0 && csv.row % PROGRESS_ROWS == 0 && src->progress &&
            src->progress(src->user, (uint64_t)(csv.at - csv.start), src->len))
            rc = OPM_ELIMIT;
    }
    if (rc == 0)
        rc = furiosa_end(&r.f);
    if (rc == 0)
        store_stat(st, STAT_file_truncated, src->cut || csv.unclosed);
    if (rc)
        opm__fail(err, rc, "%s: %s", src->path, opm_status_text(rc));
    buf_release(&r.name);
    buf_release(&r.rest);
    furiosa_release(&r.f);
    return rc;
}
