/* top_wiki.c -- `opmeter top --confluence`: a table for a wiki; see top.h. */
#include "cli/top.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/glyph.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BAR_COLUMNS 15
#define HEADER_ROOM 2
#define MEBI (1024.0 * 1024)

/* -- layout -- */

static bool is_number(const char *s)
{
    char *end;

    if (!*s)
        return false;
    strtod(s, &end);
    return !*end && !strpbrk(s, "xXnN");
}

/* Characters after the point (or the exponent's letter); -1 for an integer. */
static long after_point(const char *s)
{
    const char *p = strrchr(s, '.');

    if (!p)
        p = strpbrk(s, "eE");
    return p ? (long)strlen(p + 1) : -1;
}

static void put_spaces(struct io_out *out, size_t n)
{
    while (n--)
        io_out_adds(out, " ");
}

static void put_cell(struct io_out *out, const char *s, size_t width, bool right, size_t tail)
{
    size_t len = glyph_width(s, strlen(s)) + tail, gap = width - MIN(width, len);

    io_out_adds(out, "| ");
    put_spaces(out, right ? gap : 0);
    for (size_t left = strlen(s); left;) {
        struct glyph g;
        size_t n = glyph_next(s, left, &g);

        /* A bar would end the cell. */
        io_out_adds(out, *g.s == '|' ? "\\" : "");
        io_out_add(out, g.s, g.len);
        s += n;
        left -= n;
    }
    put_spaces(out, tail + (right ? 0 : gap) + 1);
}

struct wiki_column {
    bool number;
    long decimals;
    size_t width;
};

static struct wiki_column measure(const char *const *cell, size_t rows, size_t cols, size_t c)
{
    struct wiki_column w = { .number = rows > 1,
                             .decimals = -1,
                             .width = glyph_width(cell[c], strlen(cell[c])) + HEADER_ROOM };

    for (size_t r = 1; r < rows; r++) {
        const char *s = cell[r * cols + c];

        w.number &= is_number(s);
        w.decimals = MAX(w.decimals, after_point(s));
    }
    for (size_t r = 1; r < rows; r++) {
        const char *s = cell[r * cols + c];
        size_t tail = w.number ? (size_t)(w.decimals - after_point(s)) : 0;

        w.width = MAX(w.width, glyph_width(s, strlen(s)) + tail);
    }
    return w;
}

void top_put_wiki(struct io_out *out, const char *const *cell, size_t rows, size_t cols)
{
    struct wiki_column w[32];

    assert(cols <= ARRAY_SIZE(w));
    for (size_t c = 0; c < cols; c++)
        w[c] = measure(cell, rows, cols, c);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++) {
            const char *s = cell[r * cols + c];
            size_t tail = r && w[c].number ? (size_t)(w[c].decimals - after_point(s)) : 0;

            put_cell(out, s, w[c].width, w[c].number, tail);
        }
        io_out_adds(out, "|\n");
        for (size_t c = 0; r == 0 && c < cols; c++) {
            io_out_adds(out, "|");
            for (size_t i = 0; i < w[c].width + 2; i++)
                io_out_adds(out, "-");
        }
        io_out_adds(out, r ? "" : "|\n");
    }
}

/* -- the table -- */

static const char *const headers[] = { "#",
                                       "time",
                                       "ratio",
                                       "time bar",
                                       "cum-time",
                                       "cum-time ratio",
                                       "opr name",
                                       "opr type",
                                       "opr id",
                                       "computation (MFLO)",
                                       "MFLOPS",
                                       "MFLOPS-bar",
                                       "memory (MB)",
                                       "bandwidth (MiB/s)",
                                       "bandwidth bar",
                                       "in_shapes",
                                       "out_shapes" };
#define COLS ARRAY_SIZE(headers)

struct grid {
    struct arena arena;
    const char **cell;
    size_t n, cap;
    struct buf text;
    bool failed;
};

/* The text so far becomes a cell. */
static void end_cell(struct grid *g)
{
    char *copy = arena_strndup(&g->arena, buf_str(&g->text), g->text.len);

    if (!copy || g->text.failed || !GROW(g->cell, g->cap, g->n + 1)) {
        g->failed = true;
        return;
    }
    g->cell[g->n++] = copy;
    buf_clear(&g->text);
}

static void add_number(struct grid *g, const char *fmt_digits, double v)
{
    if (isnan(v))
        buf_adds(&g->text, "N/A");
    else if (*fmt_digits == '1')
        buf_addf(&g->text, "%.1f", v);
    else
        buf_addf(&g->text, "%g", v);
    end_cell(g);
}

static void add_bar(struct grid *g, double v, double max)
{
    int n = isfinite(v) && max > 0 ? (int)(v / max * BAR_COLUMNS) : 0;

    for (int i = 0; i < n; i++)
        buf_addc(&g->text, '#');
    end_cell(g);
}

static void add_text(struct grid *g, const struct top_rows *r, int col)
{
    size_t len;
    const char *s = top_text(r, col, &len);

    for (size_t i = 0; i < len; i++)
        buf_addc(&g->text, s[i] == '\n' ? ' ' : s[i]); /* a line break would end the row */
    end_cell(g);
}

static void add_shapes(struct grid *g, const struct top *t, const struct top_rows *r, int col)
{
    size_t len;
    const char *s = opm_rows_text(r->rows, col, &len);

    if (t->aggregate)
        buf_adds(&g->text, "None");
    else if (s)
        top_put_shapes(&g->text, s, len, NULL, ", ");
    end_cell(g);
}

/* The rates that bars are scaled by come after all rows: bars are filled in last. */
struct maxima {
    double time, flops, bandwidth;
};

static void add_row(struct grid *g, const struct top *t, const struct top_rows *r,
                    const struct maxima *max)
{
    double ns = top_real(r, r->at[TOP_time]), share = top_real(r, r->at[TOP_share]);

    add_number(g, "g", top_real(r, r->field[TOP_FIELD_RANK]));
    top_put_g3(&g->text, ns / 1e9);
    end_cell(g);
    if (isnan(share))
        buf_adds(&g->text, "N/A");
    else
        buf_addf(&g->text, "%.1f%%", share * 100);
    end_cell(g);
    add_bar(g, ns, max->time);
    add_number(g, "g", top_real(r, r->at[TOP_cumulative]) / 1e9);
    add_number(g, "g", top_real(r, r->field[TOP_FIELD_CUMULATIVE_SHARE]));
    add_text(g, r, r->at[t->aggregate ? TOP_type : TOP_info]);
    add_text(g, r, r->at[t->aggregate ? TOP_ops : TOP_type]);
    if (t->aggregate) {
        buf_adds(&g->text, "N/A");
        end_cell(g);
    } else {
        add_text(g, r, r->at[TOP_id]);
    }
    add_number(g, "1", top_real(r, r->at[TOP_computation]) / 1e6);
    add_number(g, "1", top_real(r, r->at[TOP_flops]) / 1e6);
    add_bar(g, top_real(r, r->at[TOP_flops]), max->flops);
    add_number(g, "1", top_real(r, r->at[TOP_memory]) / MEBI);
    add_number(g, "1", top_real(r, r->at[TOP_bandwidth]) / MEBI);
    add_bar(g, top_real(r, r->at[TOP_bandwidth]), max->bandwidth);
    add_shapes(g, t, r, r->at[TOP_in_shapes]);
    add_shapes(g, t, r, r->at[TOP_out_shapes]);
}

static int read_rows(struct grid *g, const struct top *t, const char *section, struct maxima *max,
                     bool fill)
{
    struct top_rows r;
    int more = 0, rc = top_rows_open(t, section, &r);

    while (rc == CLI_OK) {
        more = top_rows_next(&r);
        if (more <= 0)
            break;
        max->time = fmax(max->time, top_real(&r, r.at[TOP_time]));
        max->flops = fmax(max->flops, top_real(&r, r.at[TOP_flops]));
        max->bandwidth = fmax(max->bandwidth, top_real(&r, r.at[TOP_bandwidth]));
        if (fill)
            add_row(g, t, &r, max);
    }
    top_rows_close(&r);
    return rc != CLI_OK || more < 0 ? CLI_FAILURE : CLI_OK;
}

int top_print_wiki(const struct top *t, const char *section)
{
    struct maxima max = { 0 };
    struct grid g = { 0 };
    int rc = read_rows(&g, t, section, &max, false);

    for (size_t i = 0; i < COLS && rc == CLI_OK; i++) {
        buf_adds(&g.text, t->aggregate && i == 6   ? "opr type"
                          : t->aggregate && i == 7 ? "opr count"
                                                   : headers[i]);
        end_cell(&g);
    }
    if (rc == CLI_OK)
        rc = read_rows(&g, t, section, &max, true);
    if (rc == CLI_OK && g.failed)
        rc = cli_out_of_memory();
    if (rc == CLI_OK && g.n == COLS)
        io_out_adds(&t->cli->out, "No operator passes the filters.\n");
    else if (rc == CLI_OK)
        top_put_wiki(&t->cli->out, g.cell, g.n / COLS, COLS);
    mem_free(g.cell);
    buf_release(&g.text);
    arena_release(&g.arena);
    return rc;
}
