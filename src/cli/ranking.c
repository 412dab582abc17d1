/* ranking.c -- see ranking.h. */
#include "cli/ranking.h"

#include "base/buf.h"
#include "base/human.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MATTERS 0.05

/* rank: what is left out first where there is no room; 0: never. */
static const struct {
    const char *name;
    enum textable_kind kind;
    int rank;
} columns[RANKING_COLUMN_COUNT] = {
    [RANKING_TIME] = { "time", TEXTABLE_INT, 0 },
    [RANKING_SHARE] = { "share", TEXTABLE_SHARE, 0 },
    [RANKING_COUNT] = { "count", TEXTABLE_INT, 6 },
    [RANKING_MEDIAN] = { "median", TEXTABLE_INT, 7 },
    [RANKING_P99] = { "p99", TEXTABLE_INT, 8 },
    [RANKING_TYPE] = { "type", TEXTABLE_TEXT, 0 },
    [RANKING_NAME] = { "operator", TEXTABLE_TEXT, 0 },
    [RANKING_GFLOPS] = { "GFLOP/s", TEXTABLE_INT, 2 },
    [RANKING_GBYTES] = { "GB/s", TEXTABLE_INT, 3 },
    [RANKING_OF_PEAK] = { "of peak", TEXTABLE_INT, 1 },
    [RANKING_ROOF] = { "roof", TEXTABLE_TEXT, 4 },
    [RANKING_SHAPES] = { "shapes", TEXTABLE_TEXT, 9 },
};

void ranking_text(struct textable *t, const char *text)
{
    if (text)
        textable_text(t, text, strlen(text));
    else
        textable_null(t);
}

void ranking_time(struct textable *t, double ns)
{
    char room[HUMAN_ROOM];

    ranking_text(t, isnan(ns) ? NULL : human_ns(room, ns));
}

void ranking_rate(struct textable *t, double v)
{
    char room[HUMAN_ROOM];

    if (v > 0 && v < 0.005)
        snprintf(room, sizeof(room), "<0.01");
    else if (v >= 9999.5 && v < 1e15)
        human_count(room, llround(v));
    else
        snprintf(room, sizeof(room), "%.*f", v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2, v);
    ranking_text(t, isnan(v) ? NULL : room);
}

static void share_cell(struct textable *t, double share)
{
    if (isnan(share))
        textable_null(t);
    else
        textable_real(t, share);
}

/* "Conv+Relu+Add" of a convolution with what is fused behind it. */
static void type_cell(struct textable *t, const struct ranking_row *row)
{
    struct buf b = { 0 };

    buf_addf(&b, "%s%s", row->type ? row->type : "", row->post_op ? "+" : "");
    for (const char *c = row->post_op ? row->post_op : ""; *c; c++)
        buf_addc(&b, *c == ',' ? '+' : *c);
    textable_text(t, buf_str(&b), b.len);
    buf_release(&b);
}

/* "aten::mm [2x3, 3x4]" of type aten::mm: its type stands beside it already. */
static const char *own_name(const struct ranking_row *row)
{
    const char *name = row->name ? row->name : "";
    size_t len = row->type ? strlen(row->type) : 0;

    return len && strncmp(name, row->type, len) == 0 && strncmp(name + len, " [", 2) == 0
               ? name + len + 1
               : name;
}

/* Shapes in a name: scalars at the end, which are empty there, say nothing. */
static void name_cell(struct textable *t, const struct ranking_row *row)
{
    const char *name = own_name(row);
    size_t len = strlen(name), end = len;

    if (name != row->name && len && name[len - 1] == ']')
        for (end = len - 1; end >= 2 && memcmp(name + end - 2, ", ", 2) == 0;)
            end -= 2;
    if (end < len - 1 && len) {
        struct buf b = { 0 };

        buf_add(&b, name, end);
        buf_addc(&b, ']');
        textable_text(t, buf_str(&b), b.len);
        buf_release(&b);
    } else {
        textable_text(t, name, len);
    }
}

void ranking_put_kernel(struct buf *out, const char *name)
{
    size_t blank = strspn(name, " "), end = strlen(name), open;
    const char *clone = strstr(name, " [clone ");
    int depth = 0;

    if (clone)
        end = (size_t)(clone - name);
    if (end > 6 && memcmp(name + end - 6, " const", 6) == 0)
        end -= 6;
    open = end && name[end - 1] == ')' ? end : 0;
    while (open > blank) {
        open--;
        depth += name[open] == ')' ? 1 : name[open] == '(' ? -1 : 0;
        if (!depth)
            break;
    }
    /* "Memcpy HtoD (Pinned -> Device)" is no list of parameters. */
    if (depth == 0 && open > blank && name[open - 1] != ' ')
        end = open;
    buf_add(out, name, blank);
    if (strncmp(name + blank, "void ", 5) == 0 && end > blank + 5)
        blank += 5;
    buf_add(out, name + blank, end - blank);
}

bool ranking_name_has_shapes(const struct ranking_row *row)
{
    const char *shapes = row->shapes, *name = own_name(row);

    if (!shapes || *name++ != '[')
        return false;
    for (;;) {
        size_t n = strcspn(shapes, ";"), m = strcspn(name, ",]");
        bool scalar = m == 0 && n == 6 && strncmp(shapes, "scalar", 6) == 0;

        if (!scalar && (n != m || strncmp(shapes, name, n) != 0))
            return false;
        shapes += n;
        name += m;
        if (*shapes != ';' || *name != ',')
            return !*shapes && strcmp(name, "]") == 0;
        shapes++;
        name += name[1] == ' ' ? 2 : 1;
    }
}

static void rate_cell(struct textable *t, const struct ranking_row *row, double v)
{
    if (row->part)
        ranking_text(t, "");
    else
        ranking_rate(t, v);
}

void ranking_cell(struct textable *t, enum ranking_column c, const struct ranking_row *row)
{
    char room[HUMAN_ROOM], marked[HUMAN_ROOM + 1];

    switch (c) {
    case RANKING_TIME:
        ranking_time(t, row->time_ns);
        break;
    case RANKING_SHARE:
        share_cell(t, row->share);
        break;
    case RANKING_COUNT:
        human_count(room, row->count);
        if (row->interrupted_ns > MATTERS * row->time_ns)
            snprintf(marked, sizeof(marked), "%s!", room);
        ranking_text(t, row->interrupted_ns > MATTERS * row->time_ns ? marked : room);
        break;
    case RANKING_MEDIAN:
        ranking_time(t, row->median_ns);
        break;
    case RANKING_P99:
        ranking_time(t, row->p99_ns);
        break;
    case RANKING_TYPE:
        type_cell(t, row);
        break;
    case RANKING_NAME:
        name_cell(t, row);
        break;
    case RANKING_GFLOPS:
        rate_cell(t, row, row->gflops);
        break;
    case RANKING_GBYTES:
        rate_cell(t, row, row->gbytes);
        break;
    case RANKING_OF_PEAK:
        snprintf(room, sizeof(room), "%.0f %%", row->of_peak * 100);
        ranking_text(t, row->part ? "" : isnan(row->of_peak) ? NULL : room);
        break;
    case RANKING_ROOF:
        ranking_text(t, row->part ? "" : row->roof);
        break;
    case RANKING_SHAPES:
        ranking_text(t, row->shapes ? row->shapes : "");
        break;
    case RANKING_COLUMN_COUNT:
        break;
    }
}

void ranking_column(struct textable *t, enum ranking_column c, const char *name, bool optional)
{
    textable_column(t, name ? name : columns[c].name, columns[c].kind);
    if (optional)
        textable_optional(t, columns[c].rank);
}

struct textable *ranking_new(void)
{
    struct textable *t = textable_new();

    for (int c = 0; t && c < RANKING_COLUMN_COUNT; c++)
        ranking_column(t, (enum ranking_column)c, NULL, true);
    return t;
}

void ranking_add(struct textable *t, const struct ranking_row *row)
{
    for (int c = 0; c < RANKING_COLUMN_COUNT; c++)
        ranking_cell(t, (enum ranking_column)c, row);
}
