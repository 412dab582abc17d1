/* histogram.c -- see histogram.h. */
#include "cli/histogram.h"

#include "base/alloc.h"
#include "base/bar.h"
#include "base/glyph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BINS_MIN 5
#define BINS_MAX 20
#define FAR_ABOVE 50.0 /* times the shortest: bins grow */
#define BAR_PIPED 40
#define BAR_MIN 10
#define LEFT_COLUMNS 34 /* what stands left of the bars */

bool histogram_add(struct histogram *h, double ns)
{
    if (!GROW(h->ns, h->cap, h->n + 1))
        return false;
    h->ns[h->n++] = ns;
    return true;
}

void histogram_release(struct histogram *h)
{
    mem_free(h->ns);
    *h = (struct histogram){ 0 };
}

/* Where bin i begins. */
static double edge(double min, double max, bool growing, int bins, int i)
{
    double at = (double)i / bins;

    return growing ? min * pow(max / min, at) : min + (max - min) * at;
}

static int bin_of(double v, double min, double max, bool growing, int bins)
{
    double at = growing ? log(v / min) / log(max / min) : (v - min) / (max - min);
    int i = (int)(at * bins);

    return i < 0 ? 0 : MIN(i, bins - 1);
}

/* Pad on the left to so many columns; "µs" has more bytes than columns. */
static void put_right(struct io_out *out, const char *s, size_t columns)
{
    size_t width = glyph_width(s, strlen(s));

    io_out_addf(out, "%*s%s", (int)(columns - MIN(width, columns)), "", s);
}

void histogram_print(const struct histogram *h, struct cli *cli)
{
    int width = cli_width(), bins = (int)ceil(sqrt((double)h->n)) + 1;
    size_t count[BINS_MAX] = { 0 }, most = 0;
    double min = INFINITY, max = -INFINITY;
    bool growing;

    if (!h->n)
        return;
    bins = MIN(MAX(bins, BINS_MIN), BINS_MAX);
    for (size_t i = 0; i < h->n; i++) {
        min = fmin(min, h->ns[i]);
        max = fmax(max, h->ns[i]);
    }
    if (min == max)
        bins = 1;
    growing = min > 0 && max > min * FAR_ABOVE;
    for (size_t i = 0; i < h->n; i++)
        count[bins == 1 ? 0 : bin_of(h->ns[i], min, max, growing, bins)]++;
    for (int i = 0; i < bins; i++)
        most = MAX(most, count[i]);
    for (int i = 0; i < bins; i++) {
        struct buf b = { 0 };
        char room[HUMAN_ROOM];

        put_right(&cli->out, human_ns(room, bins == 1 ? min : edge(min, max, growing, bins, i)),
                  10);
        io_out_adds(&cli->out, " .. ");
        put_right(&cli->out, human_ns(room, bins == 1 ? max : edge(min, max, growing, bins, i + 1)),
                  10);
        put_right(&cli->out, human_count(room, (int64_t)count[i]), 9);
        bar_put(&b, (double)count[i] / (double)most,
                width ? MAX(width - LEFT_COLUMNS - 2, BAR_MIN) : BAR_PIPED, width > 0);
        io_out_addf(&cli->out, "%s%s\n", b.len ? "  " : "", buf_str(&b));
        buf_release(&b);
    }
}
