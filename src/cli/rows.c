/* rows.c -- print the rows of a query; see cli_print_query() in cli.h.
 *
 * JSON and CSV are written row by row. The aligned form has to see rows before it can set widths
 * and tell numbers from text: it hands the first BATCH_ROWS to textable and prints
 * what follows at the widths that textable chose. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/csv_write.h"
#include "base/system.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BATCH_ROWS 10000
#define NUMBER_ROOM 32
#define GAP 2

void cli_add_value(struct textable *t, const opm_rows *r, int c)
{
    const char *text;
    size_t len;

    switch (opm_rows_type(r, c)) {
    case OPM_TYPE_NULL:
        textable_null(t);
        break;
    case OPM_TYPE_INT:
        textable_int(t, opm_rows_int(r, c));
        break;
    case OPM_TYPE_REAL:
        textable_real(t, opm_rows_real(r, c));
        break;
    case OPM_TYPE_TEXT:
        text = opm_rows_text(r, c, &len);
        textable_text(t, text, len);
        break;
    }
}

/* A column of the rows after the batch, and what the batch has in it. */
struct column {
    int width;
    bool text, number;
};

/* One of numbers if nothing else stands in it, as TEXTABLE_ANY has it; SQL does not say
 * beforehand. */
static bool is_right(const struct column *col)
{
    return col->number && !col->text;
}

/* The widths in an aligned table are those of the dashes in its second line. */
static void read_widths(const char *table, size_t len, struct column *col, int ncol)
{
    const char *end = table + len, *p = memchr(table, '\n', len);

    if (!p)
        return;
    p++;
    for (int c = 0; c < ncol && p < end && *p != '\n'; c++) {
        for (; p < end && *p == '-'; p++)
            col[c].width++;
        p += GAP;
    }
}

/* Print t and learn its widths on the way. */
static int print_measured(struct cli *cli, struct textable *t, struct column *col, int ncol,
                          opm_error *err)
{
    struct io_out o = { .fd = -1 };
    uint64_t len = 0;
    int fd = system_memory_file("rows"), rc = OPM_EIO;
    void *p = MAP_FAILED;

    if (fd >= 0 && io_out_open_fd(&o, fd, "table", err) == 0) {
        rc = textable_print(t, &o, TEXTABLE_ALIGNED, cli_width(), cli_has_color(cli), err);
        len = o.total;
        if (io_out_close(&o, true, err) < 0)
            rc = OPM_EIO;
    }
    if (rc == 0 && len)
        p = mmap(NULL, (size_t)len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p != MAP_FAILED) {
        read_widths(p, (size_t)len, col, ncol);
        io_out_add(&cli->out, p, (size_t)len);
        munmap(p, (size_t)len);
    } else {
        rc = textable_print(t, &cli->out, TEXTABLE_ALIGNED, cli_width(), cli_has_color(cli), err);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Print text made harmless for a terminal; its columns, every character taken as one wide. */
static int put_clean(struct io_out *o, const char *s, size_t len)
{
    int columns = 0;

    while (len) {
        uint32_t cp;
        size_t n = utf8_next(s, len, &cp);

        if (utf8_is_control(cp))
            io_out_adds(o, "?");
        else
            io_out_add(o, s, n);
        s += n;
        len -= n;
        columns++;
    }
    return columns;
}

static const char *number_text(const opm_rows *r, int c, char room[NUMBER_ROOM])
{
    switch (opm_rows_type(r, c)) {
    case OPM_TYPE_INT:
        snprintf(room, NUMBER_ROOM, "%" PRId64, opm_rows_int(r, c));
        return room;
    case OPM_TYPE_REAL:
        snprintf(room, NUMBER_ROOM, "%.6g", opm_rows_real(r, c));
        return room;
    case OPM_TYPE_NULL:
    case OPM_TYPE_TEXT:
        break;
    }
    return "N/A";
}

/* A row after the batch, at the widths of the batch. A number that is wider widens its column from
 * here on, for row numbers and times rise; a text sticks out. */
static void put_row(struct io_out *o, const opm_rows *r, struct column *col, int ncol)
{
    char room[NUMBER_ROOM];

    for (int c = 0; c < ncol; c++) {
        size_t len;
        const char *text;
        int columns;

        if (opm_rows_type(r, c) == OPM_TYPE_TEXT) {
            text = opm_rows_text(r, c, &len);
        } else {
            text = number_text(r, c, room);
            len = strlen(text);
        }
        if (is_right(&col[c])) {
            col[c].width = MAX(col[c].width, (int)len);
            io_out_addf(o, "%*s", col[c].width - (int)len, "");
        }
        columns = put_clean(o, text, len);
        if (c + 1 < ncol)
            io_out_addf(o, "%*s", GAP + (is_right(&col[c]) ? 0 : MAX(col[c].width - columns, 0)),
                        "");
    }
    io_out_adds(o, "\n");
}

static int print_aligned(struct cli *cli, opm_rows *r, opm_error *err)
{
    int ncol = opm_rows_columns(r);
    struct column *col = mem_calloc((size_t)ncol, sizeof(*col));
    struct textable *t = textable_new();
    int more = 1, rc = OPM_ENOMEM;

    if (!col || !t)
        goto out;
    for (int c = 0; c < ncol; c++)
        textable_column(t, opm_rows_name(r, c), TEXTABLE_ANY);
    for (int i = 0; i < BATCH_ROWS; i++) {
        more = opm_rows_next(r, err);
        if (more <= 0)
            break;
        for (int c = 0; c < ncol; c++) {
            enum opm_type type = opm_rows_type(r, c);

            cli_add_value(t, r, c);
            col[c].text |= type == OPM_TYPE_TEXT;
            col[c].number |= type == OPM_TYPE_INT || type == OPM_TYPE_REAL;
        }
    }
    if (more > 0)
        rc = print_measured(cli, t, col, ncol, err);
    else
        rc = textable_print(t, &cli->out, TEXTABLE_ALIGNED, cli_width(), cli_has_color(cli), err);
    while (rc == 0 && more > 0) {
        more = opm_rows_next(r, err);
        if (more > 0)
            put_row(&cli->out, r, col, ncol);
    }
    if (rc == 0)
        rc = more; /* 0, or why the rows ended early */
out:
    if (rc == OPM_ENOMEM && !err->code)
        *err = (opm_error){ OPM_ENOMEM, "out of memory" };
    textable_free(t);
    mem_free(col);
    return rc;
}

static void json_value(struct json_writer *w, const opm_rows *r, int c)
{
    const char *text;
    size_t len;

    switch (opm_rows_type(r, c)) {
    case OPM_TYPE_NULL:
        json_null(w);
        break;
    case OPM_TYPE_INT:
        json_i64(w, opm_rows_int(r, c));
        break;
    case OPM_TYPE_REAL:
        json_f64(w, opm_rows_real(r, c));
        break;
    case OPM_TYPE_TEXT:
        text = opm_rows_text(r, c, &len);
        json_str(w, text, len);
        break;
    }
}

void cli_json_row(struct json_writer *w, const opm_rows *r)
{
    int ncol = opm_rows_columns(r);

    json_object(w);
    for (int c = 0; c < ncol; c++) {
        const char *name = opm_rows_name(r, c);
        int same = 1;
        char numbered[256];

        /* Members need different names: a second `id` becomes `id_2`. */
        for (int i = 0; i < c; i++)
            same += strcmp(opm_rows_name(r, i), name) == 0;
        if (same > 1) {
            snprintf(numbered, sizeof(numbered), "%s_%d", name, same);
            name = numbered;
        }
        json_key(w, name);
        json_value(w, r, c);
    }
    json_object_end(w);
}

static int print_json(struct io_out *o, opm_rows *r, opm_error *err)
{
    const char *lead = "[\n";
    int more;

    for (more = opm_rows_next(r, err); more > 0; more = opm_rows_next(r, err)) {
        struct json_writer w = { .out = o };

        io_out_adds(o, lead);
        lead = ",\n";
        cli_json_row(&w, r);
    }
    io_out_adds(o, *lead == '[' ? "[]\n" : "\n]\n");
    return more;
}

static int print_csv(struct io_out *o, opm_rows *r, enum csv_style style, opm_error *err)
{
    int ncol = opm_rows_columns(r), more;

    for (int c = 0; c < ncol; c++) {
        io_out_adds(o, c ? "," : "");
        csv_put(o, opm_rows_name(r, c), strlen(opm_rows_name(r, c)), style);
    }
    io_out_adds(o, "\n");
    for (more = opm_rows_next(r, err); more > 0; more = opm_rows_next(r, err)) {
        for (int c = 0; c < ncol; c++) {
            struct json_writer number = { .out = o };
            enum opm_type type = opm_rows_type(r, c);

            io_out_adds(o, c ? "," : "");
            if (type == OPM_TYPE_TEXT) {
                size_t len;
                const char *text = opm_rows_text(r, c, &len);

                csv_put(o, text, len, style);
            } else if (type != OPM_TYPE_NULL) {
                json_value(&number, r, c);
            }
        }
        io_out_adds(o, "\n");
    }
    return more;
}

int cli_print_query(struct cli *cli, opm_trace *t, const char *sql)
{
    opm_error err = { 0 };
    opm_rows *r = NULL;
    int rc = opm_trace_query(t, sql, &r, &err);

    if (rc < 0)
        return cli_error("%s", err.msg);
    if (cli->json)
        rc = print_json(&cli->out, r, &err);
    else if (cli->csv)
        rc = print_csv(&cli->out, r, cli->raw ? CSV_EXACT : CSV_SAFE, &err);
    else
        rc = print_aligned(cli, r, &err);
    opm_rows_close(r);
    return rc < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

int64_t cli_query_int(opm_trace *t, const char *sql)
{
    opm_rows *r = NULL;
    int64_t n = -1;

    if (opm_trace_query(t, sql, &r, NULL) == 0 && opm_rows_next(r, NULL) > 0)
        n = opm_rows_int(r, 0);
    opm_rows_close(r);
    return n;
}

void cli_sql_text(struct buf *b, const char *text)
{
    buf_addc(b, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            buf_addc(b, '\'');
        buf_addc(b, *text);
    }
    buf_addc(b, '\'');
}
