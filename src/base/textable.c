/* textable.c -- see textable.h.
 *
 * Cells are kept in one array, row after row, and their text in one buffer. The aligned form takes
 * two passes: measure every cell, then print. */
#include "base/textable.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/csv_write.h"
#include "base/error.h"
#include "base/glyph.h"
#include "base/json_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GAP 2        /* between columns */
#define SHRINK_MIN 8 /* text columns are not cut below this */
#define ELLIPSIS "\xe2\x80\xa6"
#define NUMBER_MAX_BYTES 32

enum cell_type { CELL_NULL, CELL_TEXT, CELL_INT, CELL_REAL };

struct cell {
    enum cell_type type;
    union {
        int64_t i;
        double f;
        struct {
            size_t at; /* in textable.text */
            size_t len;
        } s;
    };
};

struct column {
    char *name;
    enum textable_kind kind;
};

struct textable {
    struct column *col;
    size_t ncol, col_cap;
    struct cell *cell;
    size_t ncell, cell_cap;
    struct buf text;
    bool failed; /* something was lost for want of memory */
};

/* Bytes to be printed; they belong to the table or to a scratch buffer of the caller. */
struct span {
    const char *s;
    size_t len;
};

struct textable *textable_new(void)
{
    return mem_calloc(1, sizeof(struct textable));
}

void textable_column(struct textable *t, const char *name, enum textable_kind kind)
{
    char *copy;

    assert(!t->ncell);
    copy = mem_strdup(name);
    if (!copy || !GROW(t->col, t->col_cap, t->ncol + 1)) {
        mem_free(copy);
        t->failed = true;
        return;
    }
    t->col[t->ncol++] = (struct column){ copy, kind };
}

static void add(struct textable *t, struct cell c)
{
    if (t->failed)
        return;
    assert(t->ncol);
    if (!t->ncol || !GROW(t->cell, t->cell_cap, t->ncell + 1)) {
        t->failed = true;
        return;
    }
    t->cell[t->ncell++] = c;
}

void textable_text(struct textable *t, const char *s, size_t len)
{
    struct cell c = { .type = CELL_TEXT, .s = { t->text.len, len } };

    buf_add(&t->text, s, len);
    if (t->text.failed)
        t->failed = true;
    add(t, c);
}

void textable_int(struct textable *t, int64_t v)
{
    add(t, (struct cell){ .type = CELL_INT, .i = v });
}

void textable_real(struct textable *t, double v)
{
    add(t, (struct cell){ .type = CELL_REAL, .f = v });
}

void textable_null(struct textable *t)
{
    add(t, (struct cell){ .type = CELL_NULL });
}

size_t textable_rows(const struct textable *t)
{
    return t->ncol ? (t->ncell + t->ncol - 1) / t->ncol : 0;
}

/* A last row that was not filled reads as if it ended in NULLs. */
static struct cell cell_at(const struct textable *t, size_t row, size_t col)
{
    size_t i = row * t->ncol + col;

    return i < t->ncell ? t->cell[i] : (struct cell){ .type = CELL_NULL };
}

static struct span text_of(const struct textable *t, const struct cell *c)
{
    return (struct span){ buf_str(&t->text) + c->s.at, c->s.len };
}

static struct span span_of(const char *s)
{
    return (struct span){ s, strlen(s) };
}

static size_t text_width(struct span text)
{
    return glyph_width(text.s, text.len);
}

/* Print text, cut with an ellipsis if it is wider than max. Its width as printed. */
static size_t put_text(struct io_out *out, struct span text, size_t max)
{
    bool cut = text_width(text) > max;
    size_t width = 0;

    while (text.len) {
        struct glyph g;
        size_t n = glyph_next(text.s, text.len, &g);

        if (cut && width + (size_t)g.width > max - 1)
            break;
        io_out_add(out, g.s, g.len);
        width += (size_t)g.width;
        text.s += n;
        text.len -= n;
    }
    if (!cut)
        return width;
    io_out_adds(out, ELLIPSIS);
    return width + 1;
}

/* A cell as people read it; scratch holds numbers. */
static struct span cell_text(const struct textable *t, const struct cell *c,
                             char scratch[static NUMBER_MAX_BYTES])
{
    switch (c->type) {
    case CELL_TEXT:
        return text_of(t, c);
    case CELL_INT:
        snprintf(scratch, NUMBER_MAX_BYTES, "%" PRId64, c->i);
        break;
    case CELL_REAL:
        snprintf(scratch, NUMBER_MAX_BYTES, "%.6g", c->f);
        break;
    case CELL_NULL:
        return span_of("N/A");
    }
    return span_of(scratch);
}

static void put_spaces(struct io_out *out, size_t n)
{
    static const char blank[] = "                                ";

    for (; n >= sizeof(blank); n -= sizeof(blank) - 1)
        io_out_add(out, blank, sizeof(blank) - 1);
    io_out_add(out, blank, n);
}

static void put_aligned(const struct textable *t, struct io_out *out, size_t col, struct span text,
                        const size_t *width)
{
    bool right = t->col[col].kind != TEXTABLE_TEXT;
    size_t done = 0;

    if (right) {
        done = width[col] - MIN(text_width(text), width[col]);
        put_spaces(out, done);
    }
    done += put_text(out, text, width[col]);
    if (col + 1 < t->ncol)
        put_spaces(out, width[col] - done + GAP);
}

/* Cut text columns, always the widest one next, until the table fits or none can give any more. */
static void shrink(const struct textable *t, size_t *width, size_t limit)
{
    for (;;) {
        size_t total = GAP * (t->ncol - 1), widest = t->ncol, second = SHRINK_MIN;

        for (size_t i = 0; i < t->ncol; i++) {
            total += width[i];
            if (t->col[i].kind != TEXTABLE_TEXT || width[i] <= SHRINK_MIN)
                continue;
            if (widest == t->ncol || width[i] > width[widest]) {
                if (widest != t->ncol)
                    second = MAX(second, width[widest]);
                widest = i;
            } else
                second = MAX(second, width[i]);
        }
        if (total <= limit || widest == t->ncol)
            return;
        /* Down to the runner-up in one step; from a tie, one column at a time. */
        if (width[widest] == second)
            width[widest]--;
        else
            width[widest] -= MIN(total - limit, width[widest] - second);
    }
}

static int print_aligned(const struct textable *t, struct io_out *out, int limit, bool bold,
                         opm_error *err)
{
    size_t rows = textable_rows(t);
    size_t *width = mem_calloc(t->ncol, sizeof(*width));
    char scratch[NUMBER_MAX_BYTES];

    if (!width)
        return opm__fail(err, OPM_ENOMEM, "table: no memory for %zu columns", t->ncol);
    for (size_t c = 0; c < t->ncol; c++)
        width[c] = text_width(span_of(t->col[c].name));
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < t->ncol; c++) {
            struct cell cell = cell_at(t, r, c);

            width[c] = MAX(width[c], text_width(cell_text(t, &cell, scratch)));
        }
    }
    if (limit > 0)
        shrink(t, width, (size_t)limit);
    if (bold)
        io_out_adds(out, "\033[1m");
    for (size_t c = 0; c < t->ncol; c++)
        put_aligned(t, out, c, span_of(t->col[c].name), width);
    io_out_adds(out, bold ? "\033[0m\n" : "\n");
    for (size_t c = 0; c < t->ncol; c++) {
        for (size_t i = 0; i < width[c]; i++)
            io_out_add(out, "-", 1);
        put_spaces(out, c + 1 < t->ncol ? GAP : 0);
    }
    io_out_adds(out, "\n");
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < t->ncol; c++) {
            struct cell cell = cell_at(t, r, c);

            put_aligned(t, out, c, cell_text(t, &cell, scratch), width);
        }
        io_out_adds(out, "\n");
    }
    mem_free(width);
    return 0;
}

static void print_json(const struct textable *t, struct io_out *out)
{
    size_t rows = textable_rows(t);

    io_out_adds(out, "[");
    for (size_t r = 0; r < rows; r++) {
        struct json_writer w = { .out = out };

        io_out_adds(out, r ? ",\n" : "\n");
        json_object(&w);
        for (size_t c = 0; c < t->ncol; c++) {
            struct cell cell = cell_at(t, r, c);
            struct span text;

            json_key(&w, t->col[c].name);
            switch (cell.type) {
            case CELL_TEXT:
                text = text_of(t, &cell);
                json_str(&w, text.s, text.len);
                break;
            case CELL_INT:
                json_i64(&w, cell.i);
                break;
            case CELL_REAL:
                json_f64(&w, cell.f);
                break;
            case CELL_NULL:
                json_null(&w);
                break;
            }
        }
        json_object_end(&w);
    }
    io_out_adds(out, rows ? "\n]\n" : "]\n");
}

static void print_csv(const struct textable *t, struct io_out *out, enum csv_style style)
{
    size_t rows = textable_rows(t);
    struct json_writer number = { .out = out };
    char scratch[NUMBER_MAX_BYTES];

    for (size_t c = 0; c < t->ncol; c++) {
        io_out_adds(out, c ? "," : "");
        csv_put(out, t->col[c].name, strlen(t->col[c].name), style);
    }
    io_out_adds(out, "\n");
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < t->ncol; c++) {
            struct cell cell = cell_at(t, r, c);
            struct span text;

            io_out_adds(out, c ? "," : "");
            if (cell.type == CELL_REAL && cell.f - cell.f == 0) {
                json_f64(&number, cell.f); /* in full: a program reads this */
                continue;
            }
            if (cell.type == CELL_NULL)
                continue;
            text = cell_text(t, &cell, scratch);
            if (cell.type == CELL_TEXT)
                csv_put(out, text.s, text.len, style);
            else
                io_out_add(out, text.s, text.len);
        }
        io_out_adds(out, "\n");
    }
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Operator names are full of what Markdown takes for markup: "vec<float>", "__half2", "a|b". An
 * underscore inside a word is none. Line breaks would end the row. */
static void put_markdown(struct io_out *out, struct span text)
{
    char before = ' ';

    while (text.len) {
        struct glyph g;
        size_t n = glyph_next(text.s, text.len, &g);
        bool inside = is_word(before) && text.len > 1 && is_word(text.s[1]);

        if (*text.s == '\n' || *text.s == '\r' || *text.s == '\t')
            g = (struct glyph){ " ", 1, 1 };
        else if (strchr("|\\<*`", *g.s) || (*g.s == '_' && !inside))
            io_out_adds(out, "\\");
        io_out_add(out, g.s, g.len);
        before = *text.s;
        text.s += n;
        text.len -= n;
    }
}

static void print_markdown(const struct textable *t, struct io_out *out)
{
    size_t rows = textable_rows(t);
    char scratch[NUMBER_MAX_BYTES];

    for (size_t c = 0; c < t->ncol; c++) {
        io_out_adds(out, c ? " | " : "| ");
        put_markdown(out, span_of(t->col[c].name));
    }
    io_out_adds(out, " |\n");
    for (size_t c = 0; c < t->ncol; c++)
        io_out_adds(out, t->col[c].kind == TEXTABLE_TEXT ? "|---" : "|--:");
    io_out_adds(out, "|\n");
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < t->ncol; c++) {
            struct cell cell = cell_at(t, r, c);

            io_out_adds(out, c ? " | " : "| ");
            put_markdown(out, cell_text(t, &cell, scratch));
        }
        io_out_adds(out, " |\n");
    }
}

int textable_print(const struct textable *t, struct io_out *out, enum textable_format format,
                   int width, bool bold, opm_error *err)
{
    if (t->failed)
        return opm__fail(err, OPM_ENOMEM, "table: no memory for row %zu", textable_rows(t) + 1);
    if (!t->ncol && format != TEXTABLE_JSON)
        return 0;
    switch (format) {
    case TEXTABLE_ALIGNED:
        return print_aligned(t, out, width, bold, err);
    case TEXTABLE_JSON:
        print_json(t, out);
        break;
    case TEXTABLE_CSV:
        print_csv(t, out, CSV_EXACT);
        break;
    case TEXTABLE_CSV_SAFE:
        print_csv(t, out, CSV_SAFE);
        break;
    case TEXTABLE_MARKDOWN:
        print_markdown(t, out);
        break;
    }
    return 0;
}

void textable_free(struct textable *t)
{
    if (!t)
        return;
    for (size_t c = 0; c < t->ncol; c++)
        mem_free(t->col[c].name);
    mem_free(t->col);
    mem_free(t->cell);
    buf_release(&t->text);
    mem_free(t);
}
