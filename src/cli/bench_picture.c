/* bench_picture.c -- intervals drawn: as text, which shows everywhere, and as SVG; see bench.h. */
#include "cli/bench.h"

#include <math.h>
#include <string.h>

#define ROWS_MAX 8    /* of a side: the latency and the operators that changed most */
#define TEXT_WIDTH 41 /* columns of the scale */
#define TEXT_NAME 24  /* columns of a name */
#define SVG_WIDTH 640
#define SVG_SCALE_FROM 210.0
#define SVG_SCALE_TO 530.0
#define SVG_ROW 22
#define SVG_HEAD 26

/* What is drawn of a side. */
struct drawn {
    const struct trials_estimate *row[ROWS_MAX];
    size_t n;
};

static struct drawn rows_of(const struct comparison *c)
{
    struct drawn d = { .row = { &c->e[0] }, .n = 1 };

    for (size_t i = 1; i < c->n && d.n < ROWS_MAX; i++) {
        enum trials_verdict v = c->e[i].verdict;

        if (v == TRIALS_SLOWER || v == TRIALS_FASTER)
            d.row[d.n++] = &c->e[i];
    }
    return d;
}

/* The scale of a side: it holds zero and every interval, with some room. */
struct scale {
    double low, high;
};

static struct scale scale_of(const struct drawn *d, double least)
{
    struct scale s = { -2 * least, 2 * least };
    double room;

    for (size_t i = 0; i < d->n; i++) {
        s.low = MIN(s.low, d->row[i]->low);
        s.high = MAX(s.high, d->row[i]->high);
    }
    room = 0.05 * (s.high - s.low);
    return (struct scale){ s.low - room, s.high + room };
}

static double at(const struct scale *s, double v)
{
    return (v - s->low) / (s->high - s->low);
}

/* -- as text -- */

static int column(const struct scale *s, double v)
{
    return (int)lround(at(s, v) * (TEXT_WIDTH - 1));
}

/* A name so many columns wide, its end left out where it is longer; backticks, which would end the
 * block that it stands in, and control bytes are not shown. */
static void add_padded(struct buf *out, const char *name)
{
    struct buf clean = { 0 };
    size_t shown = 0, i = 0;

    buf_adds(&clean, name);
    cli_clean(&clean);
    for (; i < clean.len && (shown < TEXT_NAME || (clean.data[i] & 0xc0) == 0x80); i++) {
        shown += (clean.data[i] & 0xc0) != 0x80;
        buf_addc(out, clean.data[i] == '`' ? '\'' : clean.data[i]);
    }
    for (; shown < TEXT_NAME; shown++)
        buf_addc(out, ' ');
    buf_release(&clean);
}

void bench_picture_text(const struct bench *b, const struct comparison *c, struct buf *out)
{
    struct drawn d = rows_of(c);
    struct scale s = scale_of(&d, b->options.min_effect);
    int zero = column(&s, 0);

    for (size_t i = 0; i < d.n; i++) {
        const struct trials_estimate *e = d.row[i];
        int from = column(&s, e->low), to = column(&s, e->high), mid = column(&s, e->change);

        add_padded(out, comparison_name(c, e));
        buf_adds(out, "  ");
        for (int k = 0; k < TEXT_WIDTH; k++)
            buf_adds(out, k == mid             ? "●"
                          : k == from          ? "├"
                          : k == to            ? "┤"
                          : k > from && k < to ? "─"
                          : k == zero          ? "│"
                                               : " ");
        buf_addf(out, "  %+6.1f %%  %s\n", comparison_percent(e->change),
                 trials_verdict_names[e->verdict]);
    }
    for (int k = 0; k < TEXT_NAME + 2 + zero; k++)
        buf_addc(out, ' ');
    buf_adds(out, "0 %\n");
}

/* -- as SVG -- */

void bench_add_xml(struct buf *out, const char *text)
{
    struct buf clean = { 0 };

    buf_adds(&clean, text);
    cli_clean(&clean);
    for (size_t i = 0; i < clean.len; i++) {
        char k = clean.data[i];

        if (k == '<' || k == '>' || k == '&' || k == '"')
            buf_adds(out, k == '<' ? "&lt;" : k == '>' ? "&gt;" : k == '&' ? "&amp;" : "&quot;");
        else
            buf_addc(out, k);
    }
    buf_release(&clean);
}

static const char *color_of(enum trials_verdict v)
{
    return v == TRIALS_SLOWER ? "#d1495b" : v == TRIALS_FASTER ? "#2a9d5c" : "#7d8590";
}

static double x_of(const struct scale *s, double v)
{
    return SVG_SCALE_FROM + at(s, v) * (SVG_SCALE_TO - SVG_SCALE_FROM);
}

static void svg_row(struct buf *out, const struct comparison *c, const struct trials_estimate *e,
                    const struct scale *s, int y)
{
    const char *color = color_of(e->verdict), *name = comparison_name(c, e);
    size_t len = strlen(name), cut = MIN(len, 30);

    buf_addf(out, "<text x=\"%.0f\" y=\"%d\" text-anchor=\"end\"%s>", SVG_SCALE_FROM - 12, y + 4,
             e->op == TRIALS_WHOLE ? " font-weight=\"bold\"" : "");
    while (cut && cut < len && (name[cut] & 0xc0) == 0x80)
        cut--;
    if (cut < len) {
        struct buf begin = { 0 };

        buf_add(&begin, name, cut);
        bench_add_xml(out, buf_str(&begin));
        buf_adds(out, "…");
        buf_release(&begin);
    } else {
        bench_add_xml(out, name);
    }
    buf_addf(out,
             "</text>\n<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"%s\" "
             "stroke-width=\"3\"/>\n<circle cx=\"%.1f\" cy=\"%d\" r=\"4.5\" fill=\"%s\"/>\n"
             "<text x=\"%.0f\" y=\"%d\" fill=\"%s\">%+.1f %%</text>\n",
             x_of(s, e->low), x_of(s, e->high), y, y, color, x_of(s, e->change), y, color,
             SVG_SCALE_TO + 12, y + 4, color, comparison_percent(e->change));
}

static int svg_side(struct buf *out, const struct bench *b, const struct comparison *c, int y)
{
    struct drawn d = rows_of(c);
    struct scale s = scale_of(&d, b->options.min_effect);
    int bottom = y + SVG_HEAD + (int)d.n * SVG_ROW;

    buf_addf(out, "<text x=\"12\" y=\"%d\">%c, compared with A</text>\n", y + 16, c->letter);
    /* What is worth mentioning begins beyond the band. */
    buf_addf(out,
             "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#7d8590\" "
             "fill-opacity=\"0.15\"/>\n",
             x_of(&s, -b->options.min_effect), y + SVG_HEAD,
             x_of(&s, b->options.min_effect) - x_of(&s, -b->options.min_effect),
             (int)d.n * SVG_ROW);
    buf_addf(out,
             "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#7d8590\"/>\n"
             "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">0 %%</text>\n",
             x_of(&s, 0), x_of(&s, 0), y + SVG_HEAD, bottom, x_of(&s, 0), bottom + 14);
    for (size_t i = 0; i < d.n; i++)
        svg_row(out, c, d.row[i], &s, y + SVG_HEAD + (int)i * SVG_ROW + SVG_ROW / 2);
    return bottom + 22;
}

void bench_picture_svg(const struct bench *b, const struct comparison *c, struct buf *out)
{
    struct buf body = { 0 };
    int y = 0;

    for (size_t s = 1; s < b->trials.nsides; s++)
        y = svg_side(&body, b, &c[s], y);
    buf_addf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
        "%d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#7d8590\">\n",
        SVG_WIDTH, y, SVG_WIDTH, y);
    buf_add(out, buf_str(&body), body.len);
    buf_adds(out, "</svg>\n");
    out->failed |= body.failed;
    buf_release(&body);
}
