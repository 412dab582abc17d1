/* run_generated.c -- what `opmeter run --generate` says of the tokens that were made; see
 * run_report.h. */
#include "cli/run_report.h"

#include "cli/ranking.h"

#include <inttypes.h>
#include <math.h>

void report_generated_title(const struct report *r, struct buf *b)
{
    const struct run_generated *g = &r->res[0].generated;

    buf_addf(b, ": %" PRId64 " text%s of %" PRId64 " token%s behind a prompt of %" PRId64, g->texts,
             human_s(g->texts), g->tokens, human_s(g->tokens), g->prompt);
    buf_addf(b, ", after %" PRIu64 " of warm-up", r->res[0].warmup);
}

static void rate(struct buf *b, const char *what, const double per_s[2])
{
    if (per_s[1] <= 0)
        return;
    buf_addf(b, "%s%s ", b->len ? "; " : "", what);
    if (per_s[0] > 0)
        buf_addf(b, "%.*f tokens/s bare, ", per_s[0] < 100 ? 2 : 0, per_s[0]);
    buf_addf(b, "%.*f%s metered", per_s[1] < 100 ? 2 : 0, per_s[1],
             per_s[0] > 0 ? "" : " tokens/s");
}

void report_generated_rates(const struct report *r, struct buf *b)
{
    const struct run_generated *g = &r->res[0].generated;

    rate(b, "prefill", g->prefill_per_s);
    rate(b, "decode", g->decode_per_s);
}

void report_generated_cache(const struct report *r, struct buf *b)
{
    const struct run_generated *g = &r->res[0].generated;
    char token[HUMAN_ROOM], kept[HUMAN_ROOM], peak[HUMAN_ROOM], held[HUMAN_ROOM];

    buf_addf(b, "%s of keys and values for each token, ",
             human_bytes(token, (uint64_t)g->cache_token_bytes));
    if (g->cache_kept_bytes && g->heard)
        buf_addf(b, "%s for the %" PRId64 " positions of the encoder, ",
                 human_bytes(kept, (uint64_t)g->cache_kept_bytes), g->heard);
    else if (g->cache_kept_bytes)
        buf_addf(b, "%s of states for each row, ",
                 human_bytes(kept, (uint64_t)g->cache_kept_bytes));
    buf_addf(b, "%s at the end; ", human_bytes(peak, (uint64_t)g->cache_peak_bytes));
    buf_addf(b, "%s are held for them, ", human_bytes(held, (uint64_t)g->cache_held_bytes));
    buf_adds(b, g->in_place ? "which the model writes into where they lie"
                            : "two buffers that change places with every step");
}

static void row(struct textable *t, const char *label, const char *kind,
                const struct run_latency *l)
{
    const double v[] = { l->min, l->mean, l->median, l->p90, l->p95, l->p99, l->max };

    if (!l->n)
        return;
    ranking_text(t, label);
    ranking_text(t, kind);
    textable_int(t, (int64_t)l->n);
    for (size_t i = 0; i < ARRAY_SIZE(v); i++)
        ranking_time(t, v[i]);
}

struct textable *report_generated_table(const struct report *r)
{
    static const char *const columns[] = { "min", "mean", "median", "p90", "p95", "p99", "max" };
    const struct run_generated *g = &r->res[0].generated;
    struct textable *t = textable_new();

    if (!t)
        return NULL;
    textable_column(t, "time", TEXTABLE_TEXT);
    textable_column(t, "", TEXTABLE_TEXT);
    textable_column(t, "count", TEXTABLE_INT);
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        textable_column(t, columns[i], TEXTABLE_INT);
    for (int k = 0; k < 2; k++)
        row(t, "encoder", k ? "metered" : "bare", &g->encoder[k]);
    for (int k = 0; k < 2; k++)
        row(t, "to first token", k ? "metered" : "bare", &g->ttft[k]);
    for (int k = 0; k < 2; k++)
        row(t, "between tokens", k ? "metered" : "bare", &g->itl[k]);
    return t;
}
