/* textable.c -- see textable.h.
 *
 * Cells are kept in one array, row after row, and their text in one buffer. The aligned form takes
 * two passes: measure every cell, then print. */
#include "base/textable.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_write.h"
#include "base/utf8.h"

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

/* Terminal columns of a code point: 0 for what combines with its predecessor, 2 for East Asian wide
 * and emoji, else 1. Not wcwidth(), which depends on the locale. From Unicode 15, coarsened. */
static int width_of(uint32_t cp)
{
    static const struct {
        uint32_t from, to;
        int width;
    } ranges[] = {
        { 0x0300, 0x036f, 0 },   { 0x0483, 0x0489, 0 },   { 0x0591, 0x05bd, 0 },
        { 0x0610, 0x061a, 0 },   { 0x064b, 0x065f, 0 },   { 0x0900, 0x0902, 0 },
        { 0x093c, 0x093c, 0 },   { 0x0941, 0x0948, 0 },   { 0x094d, 0x094d, 0 },
        { 0x0e31, 0x0e31, 0 },   { 0x0e34, 0x0e3a, 0 },   { 0x0e47, 0x0e4e, 0 },
        { 0x1100, 0x115f, 2 },   { 0x1160, 0x11ff, 0 },   { 0x1ab0, 0x1aff, 0 },
        { 0x1dc0, 0x1dff, 0 },   { 0x200b, 0x200f, 0 },   { 0x2028, 0x202e, 0 },
        { 0x2060, 0x2064, 0 },   { 0x2066, 0x206f, 0 },   { 0x20d0, 0x20ff, 0 },
        { 0x231a, 0x231b, 2 },   { 0x23e9, 0x23ec, 2 },   { 0x25fd, 0x25fe, 2 },
        { 0x2614, 0x2615, 2 },   { 0x2648, 0x2653, 2 },   { 0x26a1, 0x26a1, 2 },
        { 0x26d4, 0x26d4, 2 },   { 0x2705, 0x2705, 2 },   { 0x270a, 0x270b, 2 },
        { 0x2728, 0x2728, 2 },   { 0x274c, 0x274c, 2 },   { 0x2753, 0x2755, 2 },
        { 0x2757, 0x2757, 2 },   { 0x2795, 0x2797, 2 },   { 0x2b1b, 0x2b1c, 2 },
        { 0x2b50, 0x2b50, 2 },   { 0x2b55, 0x2b55, 2 },   { 0x2e80, 0x303e, 2 },
        { 0x3041, 0x3098, 2 },   { 0x3099, 0x309a, 0 },   { 0x309b, 0xa4cf, 2 },
        { 0xa960, 0xa97f, 2 },   { 0xac00, 0xd7a3, 2 },   { 0xd7b0, 0xd7ff, 0 },
        { 0xf900, 0xfaff, 2 },   { 0xfe00, 0xfe0f, 0 },   { 0xfe10, 0xfe19, 2 },
        { 0xfe20, 0xfe2f, 0 },   { 0xfe30, 0xfe6f, 2 },   { 0xfeff, 0xfeff, 0 },
        { 0xff01, 0xff60, 2 },   { 0xffe0, 0xffe6, 2 },   { 0x16fe0, 0x18cff, 2 },
        { 0x1aff0, 0x1b2ff, 2 }, { 0x1f18e, 0x1f18e, 2 }, { 0x1f191, 0x1f19a, 2 },
        { 0x1f200, 0x1f320, 2 }, { 0x1f32d, 0x1f335, 2 }, { 0x1f337, 0x1f37c, 2 },
        { 0x1f37e, 0x1f393, 2 }, { 0x1f3a0, 0x1f3ca, 2 }, { 0x1f3cf, 0x1f3d3, 2 },
        { 0x1f3e0, 0x1f3f0, 2 }, { 0x1f3f4, 0x1f3f4, 2 }, { 0x1f3f8, 0x1f43e, 2 },
        { 0x1f440, 0x1f440, 2 }, { 0x1f442, 0x1f4fc, 2 }, { 0x1f4ff, 0x1f53d, 2 },
        { 0x1f54b, 0x1f567, 2 }, { 0x1f57a, 0x1f57a, 2 }, { 0x1f595, 0x1f596, 2 },
        { 0x1f5a4, 0x1f5a4, 2 }, { 0x1f5fb, 0x1f64f, 2 }, { 0x1f680, 0x1f6c5, 2 },
        { 0x1f6cc, 0x1f6cc, 2 }, { 0x1f6d0, 0x1f6d2, 2 }, { 0x1f6d5, 0x1f6d7, 2 },
        { 0x1f6dc, 0x1f6df, 2 }, { 0x1f6eb, 0x1f6ec, 2 }, { 0x1f6f4, 0x1f6fc, 2 },
        { 0x1f7e0, 0x1f7eb, 2 }, { 0x1f7f0, 0x1f7f0, 2 }, { 0x1f90c, 0x1f9ff, 2 },
        { 0x1fa70, 0x1faff, 2 }, { 0x20000, 0x3fffd, 2 }, { 0xe0001, 0xe01ef, 0 },
    };
    size_t lo = 0, hi = ARRAY_SIZE(ranges);

    if (cp < 0x300)
        return 1;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (cp > ranges[mid].to)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < ARRAY_SIZE(ranges) && cp >= ranges[lo].from ? ranges[lo].width : 1;
}

/* One character of a text as the terminal gets it: what must not reach it becomes '?'. */
struct glyph {
    struct span bytes;
    int width;
};

static size_t glyph_next(struct span text, struct glyph *g)
{
    uint32_t cp;
    size_t n = utf8_next(text.s, text.len, &cp);

    *g = (struct glyph){ { text.s, n }, 1 };
    if (cp == UTF8_BAD || cp < 0x20 || (cp >= 0x7f && cp < 0xa0))
        g->bytes = span_of("?");
    else
        g->width = width_of(cp);
    return n;
}

static size_t text_width(struct span text)
{
    size_t width = 0;

    while (text.len) {
        struct glyph g;
        size_t n = glyph_next(text, &g);

        width += (size_t)g.width;
        text.s += n;
        text.len -= n;
    }
    return width;
}

/* Print text, cut with an ellipsis if it is wider than max. Its width as printed. */
static size_t put_text(struct io_out *out, struct span text, size_t max)
{
    bool cut = text_width(text) > max;
    size_t width = 0;

    while (text.len) {
        struct glyph g;
        size_t n = glyph_next(text, &g);

        if (cut && width + (size_t)g.width > max - 1)
            break;
        io_out_add(out, g.bytes.s, g.bytes.len);
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

/* An empty text is quoted, which tells it from NULL. */
static void put_csv(struct io_out *out, struct span text)
{
    bool quote = text.len == 0;

    for (size_t i = 0; i < text.len && !quote; i++)
        quote = text.s[i] == ',' || text.s[i] == '"' || text.s[i] == '\n' || text.s[i] == '\r';
    if (!quote) {
        io_out_add(out, text.s, text.len);
        return;
    }
    io_out_adds(out, "\"");
    while (text.len) {
        const char *q = memchr(text.s, '"', text.len);
        size_t n = q ? (size_t)(q - text.s) + 1 : text.len;

        io_out_add(out, text.s, n);
        if (q)
            io_out_adds(out, "\"");
        text.s += n;
        text.len -= n;
    }
    io_out_adds(out, "\"");
}

static void print_csv(const struct textable *t, struct io_out *out)
{
    size_t rows = textable_rows(t);
    struct json_writer number = { .out = out };
    char scratch[NUMBER_MAX_BYTES];

    for (size_t c = 0; c < t->ncol; c++) {
        io_out_adds(out, c ? "," : "");
        put_csv(out, span_of(t->col[c].name));
    }
    io_out_adds(out, "\n");
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < t->ncol; c++) {
            struct cell cell = cell_at(t, r, c);

            io_out_adds(out, c ? "," : "");
            if (cell.type == CELL_REAL && cell.f - cell.f == 0)
                json_f64(&number, cell.f); /* in full: a program reads this */
            else if (cell.type != CELL_NULL)
                put_csv(out, cell_text(t, &cell, scratch));
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
        size_t n = glyph_next(text, &g);
        bool inside = is_word(before) && text.len > 1 && is_word(text.s[1]);

        if (*text.s == '\n' || *text.s == '\r' || *text.s == '\t')
            g.bytes = span_of(" ");
        else if (strchr("|\\<*`", *g.bytes.s) || (*g.bytes.s == '_' && !inside))
            io_out_adds(out, "\\");
        io_out_add(out, g.bytes.s, g.bytes.len);
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
        print_csv(t, out);
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
