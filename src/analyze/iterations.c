/* iterations.c -- see iterations.h. */
#include "analyze/iterations.h"

#include "base/alloc.h"
#include "base/u64map.h"

#define NO_SERIES UINT32_MAX

static int64_t int_cell(const struct store *st, size_t row, int col, int64_t otherwise)
{
    struct cell c = store_cell(st, TABLE_step, row, col);

    return c.kind == CELL_I64 ? c.i64 : otherwise;
}

/* Steps of one model on one track are a series; warm-up and open ones belong to none. */
static int list_series(const struct store *st, uint32_t *of_step, int64_t *count, size_t nstep)
{
    struct u64map index = { 0 };
    uint32_t n = 0;
    int rc = 0;

    for (size_t i = 0; i < nstep && !rc; i++) {
        struct cell model = store_cell(st, TABLE_step, i, step_col_model);
        uint64_t key = (uint64_t)int_cell(st, i, step_col_track, OPM_NULL_ID) << 32 |
                       (model.kind == CELL_STR ? model.str : 0);
        uint64_t *at = u64map_get(&index, key);

        of_step[i] = NO_SERIES;
        if (int_cell(st, i, step_col_warmup, 0) == 1 || int_cell(st, i, step_col_dur, -1) < 0)
            continue;
        of_step[i] = at ? (uint32_t)*at : n;
        if (!at)
            rc = u64map_put(&index, key, n++);
        count[of_step[i]]++;
    }
    u64map_release(&index);
    return rc;
}

int op_iterations(const struct store *st, int64_t *out)
{
    size_t nstep = store_nrow(st, TABLE_step), nop = store_nrow(st, TABLE_op), nsite;
    size_t nspan = store_nrow(st, TABLE_span);
    const struct site *sites = store_sites(st, &nsite);
    const uint32_t *span_site = store_span_site(st), *step;
    uint32_t *of_step = mem_alloc(nstep * sizeof(*of_step));
    int64_t *count = mem_calloc(nstep, sizeof(*count));
    const void *col = NULL;
    int rc = of_step && count ? list_series(st, of_step, count, nstep) : OPM_ENOMEM;

    for (size_t i = 0; i < nop; i++)
        out[i] = 0;
    if (!rc && nstep && nspan)
        rc = store_column(st, TABLE_span, span_col_step, &col);
    step = col;
    for (size_t i = 0; step && !rc && i < nspan; i++) {
        uint32_t op = sites[span_site[i]].op;

        if (op < nop && step[i] < nstep && of_step[step[i]] != NO_SERIES && !out[op])
            out[op] = count[of_step[step[i]]];
    }
    mem_free(of_step);
    mem_free(count);
    return rc;
}
