/* box.c -- see box.h. */
#include "cli/box.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/glyph.h"

#include <string.h>

#define HEADER_ROOM 2 /* beside a header, while there is enough */
#define WRAP_MIN 14   /* wrapping columns do not get narrower than this */
#define CONTINUED "-  "

struct column {
    char *header;
    int wrap;
    int rank;
    int now; /* wrap that fits */
    size_t width;
    bool left_out;
};

struct cell {
    size_t at, len; /* in text */
};

struct box {
    struct column *col;
    size_t ncol, col_cap;
    struct cell *cell;
    size_t ncell, cell_cap;
    struct buf text;
    bool failed;
};

/* A line of a cell as it is printed. */
struct line {
    const char *p;
    size_t len;
    bool continued;
};

struct box *box_new(void)
{
    return mem_calloc(1, sizeof(struct box));
}

void box_free(struct box *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->ncol; i++)
        mem_free(b->col[i].header);
    mem_free(b->col);
    mem_free(b->cell);
    buf_release(&b->text);
    mem_free(b);
}

void box_column(struct box *b, const char *header, int wrap, int rank)
{
    char *copy = mem_strdup(header);

    if (!copy || !GROW(b->col, b->col_cap, b->ncol + 1)) {
        mem_free(copy);
        b->failed = true;
        return;
    }
    b->col[b->ncol++] = (struct column){ .header = copy, .wrap = wrap, .rank = rank, .now = wrap };
}

void box_cell(struct box *b, const char *text, size_t len)
{
    struct cell c = { b->text.len, len };

    buf_add(&b->text, text, len);
    if (b->text.failed || !GROW(b->cell, b->cell_cap, b->ncell + 1)) {
        b->failed = true;
        return;
    }
    b->cell[b->ncell++] = c;
}

size_t box_rows(const struct box *b)
{
    return b->ncol ? b->ncell / b->ncol : 0;
}

bool box_left_out(const struct box *b, size_t column)
{
    return b->col[column].left_out;
}

/* -- lines -- */

/* How many bytes of p fit wrap columns; breaks after a blank if there is one. */
static size_t fitting(const char *p, size_t len, int wrap)
{
    size_t at = 0, blank = 0;
    int width = 0;

    while (at < len) {
        struct glyph g;
        size_t n = glyph_next(p + at, len - at, &g);

        if (width + g.width > wrap && at)
            return blank ? blank : at;
        width += g.width;
        at += n;
        if (p[at - 1] == ' ')
            blank = at;
    }
    return at;
}

/* Take the next line from *rest; false when the cell is over. *first: nothing was taken yet. */
static bool next_line(struct line *rest, int wrap, bool *first, struct line *out)
{
    const char *end;
    size_t len;

    if (!rest->len && !*first)
        return false;
    *first = false;
    end = memchr(rest->p, '\n', rest->len);
    len = end ? (size_t)(end - rest->p) : rest->len;
    *out = (struct line){ rest->p, len, rest->continued };
    if (wrap)
        out->len = fitting(rest->p, len, wrap);
    rest->continued = out->len < len;
    len = out->len + (end && !rest->continued);
    rest->p += len;
    rest->len -= len;
    if (end && !rest->continued && !rest->len)
        *first = true; /* an empty line after the last break */
    return true;
}

static size_t line_width(const struct line *l)
{
    return glyph_width(l->p, l->len) + (l->continued ? strlen(CONTINUED) : 0);
}

static struct line cell_of(const struct box *b, size_t row, size_t col)
{
    const struct cell *c = &b->cell[row * b->ncol + col];

    return (struct line){ buf_str(&b->text) + c->at, c->len, false };
}

/* -- fitting -- */

static void measure(struct box *b, size_t header_room)
{
    for (size_t c = 0; c < b->ncol; c++) {
        struct column *col = &b->col[c];

        col->width = glyph_width(col->header, strlen(col->header)) + header_room;
        for (size_t r = 0; r < box_rows(b); r++) {
            struct line rest = cell_of(b, r, c), l;
            bool first = true;

            while (next_line(&rest, col->now, &first, &l))
                col->width = MAX(col->width, line_width(&l));
        }
    }
}

static size_t total_width(const struct box *b)
{
    size_t total = 1;

    for (size_t c = 0; c < b->ncol; c++)
        if (!b->col[c].left_out)
            total += b->col[c].width + 3;
    return total;
}

/* The next column to leave out, or ncol. */
static size_t most_dispensable(const struct box *b)
{
    size_t best = b->ncol;

    for (size_t c = 0; c < b->ncol; c++)
        if (!b->col[c].left_out && b->col[c].rank &&
            (best == b->ncol || b->col[c].rank >= b->col[best].rank))
            best = c;
    return best;
}

static bool narrow(struct box *b)
{
    bool any = false;

    for (size_t c = 0; c < b->ncol; c++) {
        struct column *col = &b->col[c];

        if (col->left_out || !col->wrap || col->now <= WRAP_MIN)
            continue;
        col->now = MAX(col->now - 4, WRAP_MIN);
        any = true;
    }
    return any;
}

static void fit(struct box *b, size_t limit)
{
    measure(b, HEADER_ROOM);
    if (!limit || total_width(b) <= limit)
        return;
    measure(b, 0);
    while (total_width(b) > limit) {
        size_t out;

        if (narrow(b)) {
            measure(b, 0);
            continue;
        }
        out = most_dispensable(b);
        if (out == b->ncol)
            return;
        b->col[out].left_out = true;
        /* What it took may be enough for the others to be wide again. */
        for (size_t c = 0; c < b->ncol; c++)
            b->col[c].now = b->col[c].wrap;
        measure(b, 0);
    }
}

/* -- printing -- */

static void put_times(struct io_out *out, const char *s, size_t n)
{
    while (n--)
        io_out_adds(out, s);
}

static void put_rule(const struct box *b, struct io_out *out, const char *left, const char *line,
                     const char *cross, const char *right)
{
    const char *before = left;

    for (size_t c = 0; c < b->ncol; c++) {
        if (b->col[c].left_out)
            continue;
        io_out_adds(out, before);
        put_times(out, line, b->col[c].width + 2);
        before = cross;
    }
    io_out_adds(out, right);
    io_out_adds(out, "\n");
}

static void put_line(struct io_out *out, const struct line *l, size_t width)
{
    size_t done = line_width(l);
    const char *p = l->p;
    size_t len = l->len;

    io_out_adds(out, l->continued ? "│ " CONTINUED : "│ ");
    while (len) {
        struct glyph g;
        size_t n = glyph_next(p, len, &g);

        io_out_add(out, g.s, g.len);
        p += n;
        len -= n;
    }
    put_times(out, " ", width - MIN(done, width) + 1);
}

struct cursor {
    struct line rest;
    bool first;
};

/* False if every cell of the row is over. */
static bool put_lines(const struct box *b, struct io_out *out, struct cursor *cur)
{
    bool any = false;

    for (size_t c = 0; c < b->ncol; c++)
        any |= !b->col[c].left_out && (cur[c].first || cur[c].rest.len);
    if (!any)
        return false;
    for (size_t c = 0; c < b->ncol; c++) {
        struct line l = { "", 0, false };

        if (b->col[c].left_out)
            continue;
        if (!next_line(&cur[c].rest, b->col[c].now, &cur[c].first, &l))
            l = (struct line){ "", 0, false };
        put_line(out, &l, b->col[c].width);
    }
    io_out_adds(out, "│\n");
    return true;
}

int box_print(struct box *b, struct io_out *out, int width)
{
    struct cursor *cur = mem_calloc(b->ncol + 1, sizeof(*cur));

    if (b->failed || !cur) {
        mem_free(cur);
        return OPM_ENOMEM;
    }
    fit(b, width > 0 ? (size_t)width : 0);
    put_rule(b, out, "╒", "═", "╤", "╕");
    for (size_t c = 0; c < b->ncol; c++)
        cur[c] = (struct cursor){ { b->col[c].header, strlen(b->col[c].header), false }, true };
    while (put_lines(b, out, cur))
        ;
    for (size_t r = 0; r < box_rows(b); r++) {
        if (r)
            put_rule(b, out, "├", "─", "┼", "┤");
        else
            put_rule(b, out, "╞", "═", "╪", "╡");
        for (size_t c = 0; c < b->ncol; c++)
            cur[c] = (struct cursor){ cell_of(b, r, c), true };
        while (put_lines(b, out, cur))
            ;
    }
    put_rule(b, out, "╘", "═", "╧", "╛");
    mem_free(cur);
    return 0;
}
