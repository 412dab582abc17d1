/* whatif_measure.c -- see whatif.h. */
#include "cli/whatif.h"

#include "run/sparse_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MEASURED_ROWS 128 /* rows to multiply with where the trace does not tell */

/* Weight shapes with the rows of the operator that takes longest. One that fits no pattern is not
 * there. */
static const char shapes_sql[] = "SELECT n, k, m, weight_shape, max(latency_ns) FROM whatif"
                                 " WHERE n IS NOT NULL AND latency_ns IS NOT NULL"
                                 " GROUP BY n, k, weight_shape ORDER BY 5 DESC";

struct bench {
    struct whatif *w;
    struct ratios known;
    int threads;
    bool again;
    size_t done, total; /* measurements */
    size_t added;
};

/* Shares of zeros to measure for a weight shape: those of the table, and what was asked for. */
static size_t levels_of(const struct whatif *w, const char *shape, double out[8])
{
    double aim = w->sparsity;
    size_t n = 3;

    out[0] = 0.9;
    out[1] = 0.8;
    out[2] = 0.7;
    for (size_t i = 0; i < w->aims.n; i++)
        if (strcasecmp(w->aims.item[i].name, shape) == 0)
            aim = w->aims.item[i].value;
    for (size_t i = 0; i < n; i++)
        if (ratio_same_sparsity(out[i], aim))
            return n;
    out[n++] = aim;
    return n;
}

static int measure_one(struct bench *b, int64_t n, int64_t k, int64_t m, double sparsity)
{
    struct sparse_case c = { .m = m > 0 ? m : MEASURED_ROWS,
                             .n = n,
                             .k = k,
                             .pattern = b->w->pattern->name,
                             .sparsity = sparsity,
                             .threads = b->threads };
    struct ratio r = { .pattern = b->w->pattern, .sparsity = sparsity, .n = n, .k = k, .m = c.m };
    struct sparse_result result = { 0 };
    opm_error err;

    if (sparse_measure(&c, &result, &err) < 0)
        return cli_error("%s", err.msg);
    if (result.dense_ns <= 0 || result.sparse_ns <= 0)
        return CLI_OK;
    r.dense_ns = (double)result.dense_ns;
    r.sparse_ns = (double)result.sparse_ns;
    r.ratio = r.dense_ns / r.sparse_ns;
    b->added++;
    return ratios_put(&b->known, &r) < 0 ? cli_out_of_memory() : CLI_OK;
}

static int measure_shape(struct bench *b, const opm_rows *row, struct progress *p)
{
    int64_t n = opm_rows_int(row, 0), k = opm_rows_int(row, 1), m = opm_rows_int(row, 2);
    const char *shape = opm_rows_text(row, 3, NULL);
    double level[8];
    size_t nlevel = levels_of(b->w, shape ? shape : "", level);
    int rc = CLI_OK;

    for (size_t i = 0; i < nlevel && rc == CLI_OK; i++) {
        b->done++;
        if (!b->again && ratios_find(&b->known, b->w->pattern, level[i], n, k))
            continue;
        if (progress_tick(p, b->done - 1, b->total))
            return cli_error("given up on request");
        rc = measure_one(b, n, k, m, level[i]);
    }
    return rc;
}

/* Go over the weight shapes: count what there is to measure, or do it. */
static int each_shape(struct bench *b, opm_trace *t, struct progress *p)
{
    opm_rows *row = NULL;
    opm_error err;
    int rc = opm_trace_query(t, shapes_sql, &row, &err), status = CLI_OK;

    while (rc >= 0 && status == CLI_OK) {
        rc = opm_rows_next(row, &err);
        if (rc <= 0)
            break;
        double level[8];
        const char *shape = opm_rows_text(row, 3, NULL);

        if (opm_rows_int(row, 0) % b->w->pattern->n || opm_rows_int(row, 1) % b->w->pattern->k)
            continue;
        if (p)
            status = measure_shape(b, row, p);
        else
            b->total += levels_of(b->w, shape ? shape : "", level);
    }
    opm_rows_close(row);
    return rc < 0 ? cli_error("%s", err.msg) : status;
}

/* As many threads as the run had, so that the ratio is that of its engine. */
static int trace_threads(opm_trace *t)
{
    opm_rows *row = NULL;
    const char *text;
    long n = 0;

    if (opm_trace_query(t, "SELECT value FROM meta WHERE key GLOB '*engine.threads' LIMIT 1", &row,
                        NULL) == 0 &&
        opm_rows_next(row, NULL) > 0) {
        text = opm_rows_text(row, 0, NULL);
        n = text ? strtol(text, NULL, 10) : 0;
    }
    opm_rows_close(row);
    return n > 0 && n <= 1024 ? (int)n : 0;
}

int whatif_measure(struct whatif *w, opm_trace *t, int threads, bool again)
{
    struct bench b = { .w = w, .again = again, .threads = threads ? threads : trace_threads(t) };
    struct progress p;
    opm_error err;
    int rc = ratios_load(&b.known, &err) < 0 ? cli_error("%s", err.msg) : CLI_OK;

    if (rc == CLI_OK)
        rc = each_shape(&b, t, NULL);
    if (rc == CLI_OK && b.total) {
        progress_start(&p, w->cli, "measuring", "block-sparse kernels");
        cli_interrupt_begin();
        rc = each_shape(&b, t, &p);
        progress_end(&p);
        /* What was measured before ^C is kept, too. */
        if (b.added && ratios_save(&b.known, &err) < 0)
            rc = cli_error("%s", err.msg);
        cli_interrupt_end();
    }
    ratios_release(&b.known);
    return rc;
}
