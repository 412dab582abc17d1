/* top_table.c -- `opmeter top` in boxes, as bars, or as a bare list; see top.h. */
#include "cli/top.h"

#include "base/bar.h"
#include "base/glyph.h"
#include "base/json_read.h"
#include "cli/box.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define INFO_WRAP 30
#define BAR_MIN 10
#define BAR_PIPED 40

/* -- amounts -- */

void top_put_g3(struct buf *b, double v)
{
    char room[32];

    snprintf(room, sizeof(room), "%.3g", v);
    buf_adds(b, room);
    if (!strpbrk(room, ".en"))
        buf_adds(b, ".0");
}

void top_put_time(struct buf *b, const struct top *t, double ns)
{
    char room[HUMAN_ROOM];

    if (isnan(ns))
        buf_adds(b, "N/A");
    else if (t->seconds)
        top_put_g3(b, ns / 1e9);
    else
        buf_adds(b, human_ns(room, ns));
}

void top_put_amount(struct buf *b, double v, double base, const char *unit, const char *prefixed,
                    const char *between)
{
    static const char prefixes[] = "KMGTPEZY";
    int p = -1;

    if (!isfinite(v)) {
        buf_addf(b, "N/A%s%s", between, unit);
        return;
    }
    for (; v >= base && p + 1 < (int)sizeof(prefixes) - 1; p++)
        v /= base;
    if (p < 0)
        buf_addf(b, "%.2f%s%s", v, between, unit);
    else
        buf_addf(b, "%.2f%s%c%s", v, between, prefixes[p], prefixed);
}

static void put_share(struct buf *b, double share)
{
    if (isnan(share))
        buf_adds(b, "N/A");
    else
        buf_addf(b, "%.1f%%", share * 100);
}

/* " -[strides]" below a shape whose tensor is not contiguous. */
static void put_layout(struct buf *b, struct json_reader *r)
{
    if (r->token == JSON_BAD || json_read_next(r) != JSON_ARRAY) {
        json_read_skip(r);
        return;
    }
    buf_adds(b, "\n -[");
    for (bool first = true; json_read_next(r) == JSON_NUMBER; first = false)
        buf_addf(b, "%s%.*s", first ? "" : ",", (int)MIN(r->len, (size_t)24), r->text);
    buf_adds(b, "]");
}

void top_put_shapes(struct buf *b, const char *shapes, size_t len, const char *layouts,
                    const char *between)
{
    struct json_reader r = json_read_of(layouts, layouts ? strlen(layouts) : 0);
    const char *end = shapes + len;

    if (layouts)
        json_read_next(&r);
    for (bool first = true; shapes <= end; first = false) {
        const char *stop = memchr(shapes, ';', (size_t)(end - shapes));
        const char *to = stop ? stop : end;

        buf_addf(b, "%s{", first ? "" : between);
        for (const char *p = shapes; p < to; p++)
            buf_addc(b, *p == 'x' ? ',' : *p);
        buf_adds(b, "}");
        if (layouts)
            put_layout(b, &r);
        shapes = to + 1;
        if (!stop)
            break;
    }
}

static void put_text(struct buf *b, const struct top_rows *r, int col)
{
    size_t len;
    const char *s = top_text(r, col, &len);

    for (size_t i = 0; i < len; i++)
        buf_addc(b, s[i] == '\n' ? ' ' : s[i]); /* a line break would look like a new entry */
}

/* -- the table -- */

static void put_info(struct buf *b, const struct top *t, const struct top_rows *r)
{
    if (t->aggregate) {
        put_text(b, r, r->at[TOP_type]);
        buf_addf(b, "\n%" PRId64 "\nN/A", opm_rows_int(r->rows, r->at[TOP_ops]));
        return;
    }
    put_text(b, r, r->at[TOP_info]);
    buf_adds(b, "\n");
    put_text(b, r, r->at[TOP_type]);
    if (opm_rows_type(r->rows, r->at[TOP_id]) != OPM_TYPE_NULL) {
        buf_adds(b, "\n");
        put_text(b, r, r->at[TOP_id]);
    }
}

static void put_shape_cell(struct buf *b, const struct top *t, const struct top_rows *r, bool in)
{
    int col = r->at[in ? TOP_in_shapes : TOP_out_shapes];
    const char *layouts = in ? opm_rows_text(r->rows, r->field[TOP_FIELD_IN_LAYOUTS], NULL) : NULL;
    size_t len;
    const char *s;

    if (t->aggregate) {
        buf_adds(b, "None");
        return;
    }
    s = opm_rows_text(r->rows, col, &len);
    if (s)
        top_put_shapes(b, s, len, layouts, "\n");
}

static void put_cell(struct buf *b, const struct top *t, const struct top_rows *r, int column)
{
    int at = r->at[column];
    double v = top_columns[column].kind == TOP_KIND_TEXT ? 0 : top_real(r, at);

    switch (top_columns[column].kind) {
    case TOP_KIND_SELF:
        buf_addf(b, "#%" PRId64 "\n", opm_rows_int(r->rows, r->field[TOP_FIELD_RANK]));
        top_put_time(b, t, v);
        buf_adds(b, "\n");
        put_share(b, top_real(r, r->at[TOP_share]));
        break;
    case TOP_KIND_CUMULATIVE:
        top_put_time(b, t, v);
        buf_adds(b, "\n");
        put_share(b, top_real(r, r->field[TOP_FIELD_CUMULATIVE_SHARE]));
        break;
    case TOP_KIND_INFO:
        put_info(b, t, r);
        break;
    case TOP_KIND_TIME:
        top_put_time(b, t, v);
        break;
    case TOP_KIND_COUNT:
        buf_addf(b, "%" PRId64, opm_rows_int(r->rows, at));
        break;
    case TOP_KIND_FLO:
        top_put_amount(b, v, 1000, "FLO", "FLO", "\n");
        break;
    case TOP_KIND_FLOPS:
        top_put_amount(b, v, 1000, "FLOPS", "FLOPS", "\n");
        break;
    case TOP_KIND_BYTES:
        top_put_amount(b, v, 1024, "byte", "iB", "\n");
        break;
    case TOP_KIND_BANDWIDTH:
        top_put_amount(b, v, 1024, "byte/s", "iB/s", "\n");
        break;
    case TOP_KIND_NUMBER:
        top_put_amount(b, v, 1000, "", "", "");
        break;
    case TOP_KIND_RATIO:
        buf_addf(b, isnan(v) ? "N/A" : "%.2f", v);
        break;
    case TOP_KIND_SHARE:
        put_share(b, v);
        break;
    case TOP_KIND_TEXT:
        put_text(b, r, at);
        break;
    case TOP_KIND_IN_SHAPES:
    case TOP_KIND_OUT_SHAPES:
        put_shape_cell(b, t, r, top_columns[column].kind == TOP_KIND_IN_SHAPES);
        break;
    }
}

void top_note_row(struct top_remarks *m, const struct top_rows *r)
{
    m->rows++;
    m->all_rows = opm_rows_int(r->rows, r->field[TOP_FIELD_ALL_ROWS]);
    m->ops += opm_rows_int(r->rows, r->at[TOP_ops]);
    m->unknown_computation += opm_rows_int(r->rows, r->field[TOP_FIELD_UNKNOWN_COMPUTATION]);
    m->unknown_memory += opm_rows_int(r->rows, r->field[TOP_FIELD_UNKNOWN_MEMORY]);
}

void top_say_remarks(const struct top *t, const struct top_remarks *m)
{
    const char *what = t->aggregate_by ? "type" : t->has_ops ? "operator" : "name";
    bool all = t->boxes; /* a column of which nothing is known is not shown elsewhere */

    if (t->aggregate && m->unknown_computation && (all || m->unknown_computation < m->ops))
        cli_remark(t->cli,
                   "computation is not known for %" PRId64 " of %" PRId64
                   " operators; the %s of it is that of the others",
                   m->unknown_computation, m->ops, t->aggregate);
    if (t->aggregate && m->unknown_memory && (all || m->unknown_memory < m->ops))
        cli_remark(t->cli,
                   "memory is not known for %" PRId64 " of %" PRId64
                   " operators; the %s of it is that of the others",
                   m->unknown_memory, m->ops, t->aggregate);
    if (m->all_rows > m->rows)
        cli_remark(t->cli, "%" PRId64 " more %s%s: -t 0 shows all", m->all_rows - m->rows, what,
                   human_s(m->all_rows - m->rows));
}

static void say_left_out(const struct top *t, const struct box *box)
{
    struct buf names = { 0 };

    for (size_t i = 0; i < t->ncolumn; i++)
        if (box_left_out(box, i))
            buf_addf(&names, "%s%s", names.len ? ", " : "", top_columns[t->column[i]].name);
    if (names.len)
        cli_remark(t->cli, "no room for: %s; see --columns, or --csv for all", buf_str(&names));
    buf_release(&names);
}

static struct box *new_box(const struct top *t, const char *section)
{
    struct box *box = box_new();
    char header[64];

    for (size_t i = 0; box && i < t->ncolumn; i++) {
        const struct top_column_def *c = &top_columns[t->column[i]];

        snprintf(header, sizeof(header), "%s%s%s", c->kind == TOP_KIND_SELF ? section : "",
                 c->kind == TOP_KIND_SELF ? " " : "", c->header);
        box_column(box, header, c->kind == TOP_KIND_INFO ? INFO_WRAP : 0, c->rank);
    }
    return box;
}

int top_print_boxes(const struct top *t, const char *section)
{
    struct box *box = new_box(t, section);
    struct top_remarks m = { 0 };
    struct top_rows r;
    struct buf b = { 0 };
    int more = 0, rc;

    if (!box)
        return cli_out_of_memory();
    rc = top_rows_open(t, section, &r);
    while (rc == CLI_OK) {
        more = top_rows_next(&r);
        if (more <= 0)
            break;
        top_note_row(&m, &r);
        for (size_t i = 0; i < t->ncolumn; i++) {
            buf_clear(&b);
            put_cell(&b, t, &r, t->column[i]);
            box_cell(box, buf_str(&b), b.len);
        }
    }
    rc = rc != CLI_OK || more < 0 ? CLI_FAILURE : CLI_OK;
    if (rc == CLI_OK && !m.rows)
        io_out_addf(&t->cli->out, "No operator passes the filters.\n");
    else if (rc == CLI_OK && box_print(box, &t->cli->out, cli_width()) < 0)
        rc = cli_out_of_memory();
    if (rc == CLI_OK && m.rows)
        say_left_out(t, box);
    if (rc == CLI_OK)
        top_say_remarks(t, &m);
    top_rows_close(&r);
    buf_release(&b);
    box_free(box);
    return rc;
}

/* -- bars -- */

/* time, share, a bar, type and name; a line each. */
int top_print_bars(const struct top *t, const char *section)
{
    struct cli *cli = t->cli;
    int width = cli_width(), bar = width ? MAX(width / 3, BAR_MIN) : BAR_PIPED;
    struct textable *table = textable_new();
    struct top_remarks m = { 0 };
    struct top_rows r;
    struct buf b = { 0 };
    double longest = 0;
    int more = 0, rc;

    if (!table)
        return cli_out_of_memory();
    textable_column(table, "time", TEXTABLE_INT);
    textable_column(table, "share", TEXTABLE_INT);
    textable_column(table, section, TEXTABLE_TEXT);
    textable_column(table, "type", TEXTABLE_TEXT);
    textable_column(table, t->aggregate ? "operators" : "operator", TEXTABLE_TEXT);
    rc = top_rows_open(t, section, &r);
    while (rc == CLI_OK) {
        more = top_rows_next(&r);
        if (more <= 0)
            break;
        double ns = top_real(&r, r.at[TOP_time]);

        top_note_row(&m, &r);
        if (m.rows == 1)
            longest = top_real(&r, r.field[TOP_FIELD_LONGEST]);
        buf_clear(&b);
        top_put_time(&b, t, ns);
        textable_text(table, buf_str(&b), b.len);
        buf_clear(&b);
        put_share(&b, top_real(&r, r.at[TOP_share]));
        textable_text(table, buf_str(&b), b.len);
        buf_clear(&b);
        bar_put(&b, longest > 0 ? ns / longest : 0, bar, width > 0);
        textable_text(table, buf_str(&b), b.len);
        buf_clear(&b);
        put_text(&b, &r, r.at[TOP_type]);
        textable_text(table, buf_str(&b), b.len);
        buf_clear(&b);
        put_text(&b, &r, r.at[t->aggregate ? TOP_ops : TOP_info]);
        textable_text(table, buf_str(&b), b.len);
    }
    rc = rc != CLI_OK || more < 0 ? CLI_FAILURE : CLI_OK;
    top_rows_close(&r);
    buf_release(&b);
    if (rc != CLI_OK || !m.rows) {
        textable_free(table);
        if (rc == CLI_OK)
            io_out_addf(&cli->out, "No operator passes the filters.\n");
        return rc;
    }
    rc = cli_print_table(cli, table);
    if (rc == CLI_OK)
        top_say_remarks(t, &m);
    return rc;
}

/* -- a bare list -- */

int top_print_oprs(const struct top *t, const char *section)
{
    struct top_rows r;
    struct buf b = { 0 };
    int more = 0, rc = top_rows_open(t, section, &r);

    while (rc == CLI_OK) {
        more = top_rows_next(&r);
        if (more <= 0)
            break;
        if (t->aggregate) {
            put_text(&b, &r, r.at[TOP_type]);
            buf_addf(&b, " %" PRId64 " N/A", opm_rows_int(r.rows, r.at[TOP_ops]));
        } else {
            put_text(&b, &r, r.at[TOP_info]);
            buf_adds(&b, " ");
            put_text(&b, &r, r.at[TOP_type]);
            buf_adds(&b, " ");
            put_text(&b, &r, r.at[TOP_id]);
        }
        cli_clean(&b);
        io_out_addf(&t->cli->out, "%s\n", buf_str(&b));
        buf_clear(&b);
    }
    rc = rc != CLI_OK || more < 0 ? CLI_FAILURE : CLI_OK;
    if (b.failed)
        rc = cli_out_of_memory();
    top_rows_close(&r);
    buf_release(&b);
    return rc;
}
