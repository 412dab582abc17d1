/* textable.c -- see textable.h.
 *
 * Cells are kept in one array, row after row, and their text in one buffer. The aligned form takes
 * two passes: measure every cell, then print. */
#include "base/textable.h"

#include "base/alloc.h"
#include "base/bar.h"
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
#define READABLE 24  /* below this, columns that may be left out are, before texts are cut */
#define BAR_COLUMNS 8
#define BAR_RANK 5      /* of columns, a bar is left out among those of this rank */
#define TEMPLATE_MIN 12 /* below this, the arguments of a template are not shown as such */
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

/* Bytes to be printed; they belong to the table or to a scratch buffer of the caller. */
struct span {
    const char *s;
    size_t len;
};

struct column {
    char *name;
    enum textable_kind kind;
    bool optional;
    int rank;
    /* as printed last */
    bool hidden, no_room, bar;
    size_t width;     /* without the bar */
    double largest;   /* of shares: what a whole bar is */
    struct span rest; /* of sentences: what the lines so far have not shown */
};

struct textable {
    struct column *col;
    size_t ncol, col_cap;
    struct cell *cell;
    size_t ncell, cell_cap;
    struct buf text;
    bool failed; /* something was lost for want of memory */
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
    t->col[t->ncol++] = (struct column){ .name = copy, .kind = kind };
}

void textable_optional(struct textable *t, int rank)
{
    if (t->failed)
        return;
    assert(t->ncol);
    t->col[t->ncol - 1].optional = true;
    t->col[t->ncol - 1].rank = rank;
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

static void put_glyphs(struct io_out *out, const char *s, size_t len)
{
    while (len) {
        struct glyph g;
        size_t n = glyph_next(s, len, &g);

        io_out_add(out, g.s, g.len);
        s += n;
        len -= n;
    }
}

/* Print text, with an ellipsis for what does not fit into max columns. Its width as printed. */
static size_t put_text(struct io_out *out, struct span text, size_t max)
{
    const char *args = memchr(text.s, '<', text.len);
    size_t width = text_width(text), head, tail;

    if (width <= max) {
        put_glyphs(out, text.s, text.len);
        return width;
    }
    /* Of a C++ template its name tells more than its arguments. */
    if (args > text.s && text.s[text.len - 1] == '>' && max > TEMPLATE_MIN) {
        struct span name = { text.s, (size_t)(args - text.s) };

        if (text_width(name) + 3 > max) {
            width = put_text(out, name, max - 3);
            io_out_adds(out, "<" ELLIPSIS ">");
            return width + 3;
        }
        width = text_width(name) + 1;
        head = glyph_head(text.s, text.len, width + (max - 1 - width) / 3);
    } else {
        head = glyph_head(text.s, text.len, (max - 1) / 3);
    }
    width = glyph_width(text.s, head);
    tail = glyph_tail(text.s, text.len, max - 1 - width);
    put_glyphs(out, text.s, head);
    io_out_adds(out, ELLIPSIS);
    put_glyphs(out, text.s + tail, text.len - tail);
    return width + 1 + glyph_width(text.s + tail, text.len - tail);
}

/* A cell of a column as people read it; scratch holds numbers. */
static struct span cell_text(const struct textable *t, size_t col, const struct cell *c,
                             char scratch[static NUMBER_MAX_BYTES])
{
    switch (c->type) {
    case CELL_TEXT:
        return text_of(t, c);
    case CELL_INT:
        snprintf(scratch, NUMBER_MAX_BYTES, "%" PRId64, c->i);
        break;
    case CELL_REAL:
        if (t->col[col].kind == TEXTABLE_SHARE)
            snprintf(scratch, NUMBER_MAX_BYTES, "%.1f %%", c->f * 100);
        else
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

static bool is_text(const struct column *c)
{
    return c->kind == TEXTABLE_TEXT || c->kind == TEXTABLE_PROSE;
}

static size_t whole_width(const struct column *c)
{
    return c->width + (c->bar ? 1 + BAR_COLUMNS : 0);
}

/* A cell or heading, and the spaces up to the next column. */
static void put_aligned(struct io_out *out, const struct column *c, struct span text, bool last)
{
    size_t done = 0;

    if (!is_text(c)) {
        done = c->width - MIN(text_width(text), c->width);
        put_spaces(out, done);
    }
    done += put_text(out, text, c->width);
    if (!last)
        put_spaces(out, whole_width(c) - done + GAP);
}

/* A share and its bar, which blanks fill up. */
static void put_share(struct io_out *out, const struct column *c, struct span text,
                      const struct cell *cell, bool last)
{
    struct buf b = { 0 };
    size_t done;

    put_aligned(out, c, text, true);
    if (cell->type == CELL_REAL)
        bar_put(&b, c->largest > 0 ? cell->f / c->largest : 0, BAR_COLUMNS, true);
    done = text_width((struct span){ buf_str(&b), b.len });
    io_out_addf(out, " \033[36m%s\033[0m", buf_str(&b));
    if (!last)
        put_spaces(out, BAR_COLUMNS - done + GAP);
    buf_release(&b);
}

static size_t table_width(const struct textable *t, size_t text_most)
{
    size_t total = 0;

    for (size_t i = 0; i < t->ncol; i++) {
        const struct column *c = &t->col[i];

        if (!c->hidden)
            total += (is_text(c) ? MIN(c->width, text_most) : whole_width(c)) + GAP;
    }
    return total ? total - GAP : 0;
}

/* Leave out what may be, the highest rank first, until the rest has room to be read. */
static void leave_out(struct textable *t, size_t limit)
{
    while (table_width(t, READABLE) > limit) {
        struct column *worst = NULL;
        bool bar = false;

        for (size_t i = 0; i < t->ncol; i++) {
            struct column *c = &t->col[i];

            if (c->hidden)
                continue;
            if (c->rank && (!worst || c->rank > (bar ? BAR_RANK : worst->rank))) {
                worst = c;
                bar = false;
            }
            if (c->bar && (!worst || BAR_RANK > (bar ? BAR_RANK : worst->rank))) {
                worst = c;
                bar = true;
            }
        }
        if (!worst)
            return;
        if (bar) {
            worst->bar = false;
        } else {
            worst->hidden = true;
            worst->no_room = true;
        }
    }
}

/* Cut text columns, always the widest one next, until the table fits or none can give any more. */
static void shrink(struct textable *t, size_t limit)
{
    for (;;) {
        size_t total = table_width(t, SIZE_MAX), second = SHRINK_MIN;
        struct column *widest = NULL;

        for (size_t i = 0; i < t->ncol; i++) {
            struct column *c = &t->col[i];

            if (c->hidden || !is_text(c) || c->width <= SHRINK_MIN)
                continue;
            if (!widest || c->width > widest->width) {
                if (widest)
                    second = MAX(second, widest->width);
                widest = c;
            } else
                second = MAX(second, c->width);
        }
        if (total <= limit || !widest)
            return;
        /* Down to the runner-up in one step; from a tie, one column at a time. */
        if (widest->width == second)
            widest->width--;
        else
            widest->width -= MIN(total - limit, widest->width - second);
    }
}

/* Which columns are shown, and how wide. */
static void lay_out(struct textable *t, size_t limit, bool color)
{
    size_t rows = textable_rows(t);
    char scratch[NUMBER_MAX_BYTES];

    for (size_t i = 0; i < t->ncol; i++) {
        struct column *c = &t->col[i];
        bool any = false;

        c->width = text_width(span_of(c->name));
        c->bar = color && c->kind == TEXTABLE_SHARE;
        c->no_room = false;
        c->largest = 0;
        for (size_t r = 0; r < rows; r++) {
            struct cell cell = cell_at(t, r, i);

            any |= cell.type != CELL_NULL && (cell.type != CELL_TEXT || cell.s.len);
            c->width = MAX(c->width, text_width(cell_text(t, i, &cell, scratch)));
            if (cell.type == CELL_REAL && cell.f > c->largest)
                c->largest = cell.f;
        }
        c->hidden = c->optional && !any;
    }
    if (limit) {
        leave_out(t, limit);
        shrink(t, limit);
    }
}

/* Take off a sentence what goes on one line of max columns; a word that is longer stays whole. */
static struct span take_line(struct span *rest, size_t max)
{
    struct span line = { rest->s, 0 };
    size_t end = 0;

    while (end < rest->len) {
        while (end < rest->len && rest->s[end] == ' ')
            end++;
        while (end < rest->len && rest->s[end] != ' ')
            end++;
        if (line.len && glyph_width(rest->s, end) > max)
            break;
        line.len = end;
    }
    end = line.len;
    while (end < rest->len && rest->s[end] == ' ')
        end++;
    rest->s += end;
    rest->len -= end;
    return line;
}

/* The lines below the first one of a row: what its sentences have left. */
static void put_rest(struct textable *t, struct io_out *out)
{
    for (;;) {
        size_t blank = 0;
        bool any = false;

        for (size_t i = 0; i < t->ncol; i++) {
            struct column *c = &t->col[i];

            if (c->hidden)
                continue;
            if (c->rest.len) {
                struct span line = take_line(&c->rest, c->width);

                put_spaces(out, blank);
                blank = c->width - put_text(out, line, c->width);
                any = true;
            } else {
                blank += whole_width(c);
            }
            blank += GAP;
        }
        if (!any)
            return;
        io_out_adds(out, "\n");
    }
}

static void print_aligned(struct textable *t, struct io_out *out, int limit, bool color)
{
    size_t rows = textable_rows(t), last = 0;
    char scratch[NUMBER_MAX_BYTES];

    lay_out(t, limit > 0 ? (size_t)limit : 0, color);
    for (size_t i = 0; i < t->ncol; i++)
        last = t->col[i].hidden ? last : i;
    io_out_adds(out, color ? "\033[1m" : "");
    for (size_t i = 0; i < t->ncol; i++)
        if (!t->col[i].hidden)
            put_aligned(out, &t->col[i], span_of(t->col[i].name), i == last);
    io_out_adds(out, color ? "\033[0m\n" : "\n");
    for (size_t i = 0; i < t->ncol; i++) {
        for (size_t k = 0; !t->col[i].hidden && k < whole_width(&t->col[i]); k++)
            io_out_add(out, "-", 1);
        put_spaces(out, t->col[i].hidden || i == last ? 0 : GAP);
    }
    io_out_adds(out, "\n");
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < t->ncol; i++) {
            struct cell cell = cell_at(t, r, i);
            struct span text = cell_text(t, i, &cell, scratch);

            if (t->col[i].hidden)
                continue;
            if (t->col[i].kind == TEXTABLE_PROSE) {
                t->col[i].rest = text;
                text = take_line(&t->col[i].rest, t->col[i].width);
            }
            if (t->col[i].bar)
                put_share(out, &t->col[i], text, &cell, i == last);
            else
                put_aligned(out, &t->col[i], text, i == last);
        }
        io_out_adds(out, "\n");
        put_rest(t, out);
    }
}

const char *textable_no_room(const struct textable *t, size_t i)
{
    for (size_t c = 0; c < t->ncol; c++)
        if (t->col[c].no_room && i-- == 0)
            return t->col[c].name;
    return NULL;
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
            text = cell_text(t, c, &cell, scratch);
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
        io_out_adds(out, is_text(&t->col[c]) ? "|---" : "|--:");
    io_out_adds(out, "|\n");
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < t->ncol; c++) {
            struct cell cell = cell_at(t, r, c);

            io_out_adds(out, c ? " | " : "| ");
            put_markdown(out, cell_text(t, c, &cell, scratch));
        }
        io_out_adds(out, " |\n");
    }
}

static void settle_kinds(struct textable *t)
{
    for (size_t c = 0; c < t->ncol; c++) {
        if (t->col[c].kind != TEXTABLE_ANY)
            continue;
        t->col[c].kind = TEXTABLE_TEXT;
        for (size_t i = c; i < t->ncell; i += t->ncol)
            if (t->cell[i].type != CELL_NULL && t->cell[i].type != CELL_TEXT)
                t->col[c].kind = TEXTABLE_REAL;
        for (size_t i = c; i < t->ncell; i += t->ncol)
            if (t->cell[i].type == CELL_TEXT)
                t->col[c].kind = TEXTABLE_TEXT;
    }
}

int textable_print(struct textable *t, struct io_out *out, enum textable_format format, int width,
                   bool color, opm_error *err)
{
    if (t->failed)
        return opm__fail(err, OPM_ENOMEM, "table: no memory for row %zu", textable_rows(t) + 1);
    if (!t->ncol && format != TEXTABLE_JSON)
        return 0;
    settle_kinds(t);
    switch (format) {
    case TEXTABLE_ALIGNED:
        print_aligned(t, out, width, color);
        break;
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
