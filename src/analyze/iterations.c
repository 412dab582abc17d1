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

struct series {
    str_id model;
    int64_t count;
    bool has_op; /* some operator runs in a step of it */
};

struct all_series {
    struct series *item; /* has room for one per step */
    size_t n;
    uint32_t *of_step; /* or NO_SERIES */
    size_t nstep;
};

/* Steps of one model on one track are a series; warm-up and open ones belong to none. */
static int list_series(struct all_series *all, const struct store *st)
{
    struct u64map index = { 0 };
    int rc = 0;

    *all = (struct all_series){ .nstep = store_nrow(st, TABLE_step) };
    all->item = mem_calloc(all->nstep, sizeof(*all->item));
    all->of_step = mem_alloc(all->nstep * sizeof(*all->of_step));
    if (!all->item || !all->of_step)
        return OPM_ENOMEM;
    for (size_t i = 0; i < all->nstep && !rc; i++) {
        struct cell model = store_cell(st, TABLE_step, i, step_col_model);
        str_id id = model.kind == CELL_STR ? model.str : 0;
        uint64_t key = (uint64_t)int_cell(st, i, step_col_track, OPM_NULL_ID) << 32 | id;
        const uint64_t *at = u64map_get(&index, key);

        all->of_step[i] = NO_SERIES;
        if (int_cell(st, i, step_col_warmup, 0) == 1 || int_cell(st, i, step_col_dur, -1) < 0)
            continue;
        all->of_step[i] = at ? (uint32_t)*at : (uint32_t)all->n;
        if (!at)
            rc = u64map_put(&index, key, all->n++);
        all->item[all->of_step[i]].model = id;
        all->item[all->of_step[i]].count++;
    }
    u64map_release(&index);
    return rc;
}

static void all_series_release(struct all_series *all)
{
    mem_free(all->item);
    mem_free(all->of_step);
}

/* Mark the series that operators run in; of_op, if not NULL, gets the first one of each. */
static int look_for_ops(struct all_series *all, const struct store *st, uint32_t *of_op)
{
    size_t nop = store_nrow(st, TABLE_op), nspan = store_nrow(st, TABLE_span), nsite;
    const struct site *sites = store_sites(st, &nsite);
    const uint32_t *span_site = store_span_site(st), *step;
    const void *col = NULL;

    for (size_t i = 0; i < nop && of_op; i++)
        of_op[i] = NO_SERIES;
    if (all->nstep && nspan && store_column(st, TABLE_span, span_col_step, &col) < 0)
        return OPM_ENOMEM;
    step = col;
    for (size_t i = 0; step && i < nspan; i++) {
        uint32_t op = sites[span_site[i]].op;

        if (op >= nop || step[i] >= all->nstep || all->of_step[step[i]] == NO_SERIES)
            continue;
        all->item[all->of_step[step[i]]].has_op = true;
        if (of_op && of_op[op] == NO_SERIES)
            of_op[op] = all->of_step[step[i]];
    }
    return 0;
}

int op_iterations(const struct store *st, int64_t *out)
{
    size_t nop = store_nrow(st, TABLE_op);
    uint32_t *of_op = mem_alloc(nop * sizeof(*of_op));
    struct all_series all = { 0 };
    int rc = of_op ? list_series(&all, st) : OPM_ENOMEM;

    if (rc == 0)
        rc = look_for_ops(&all, st, of_op);
    for (size_t i = 0; i < nop && rc == 0; i++)
        out[i] = of_op[i] == NO_SERIES ? 0 : all.item[of_op[i]].count;
    all_series_release(&all);
    mem_free(of_op);
    return rc;
}

int trace_iterations(const struct store *st, int64_t *out)
{
    struct all_series all;
    bool any = false, several = false;
    str_id model = 0;
    int64_t n = 0;
    int rc = list_series(&all, st);

    if (rc == 0)
        rc = look_for_ops(&all, st, NULL);
    for (size_t i = 0; i < all.n && rc == 0; i++)
        any |= all.item[i].has_op;
    for (size_t i = 0; i < all.n && rc == 0; i++) {
        if (any && !all.item[i].has_op)
            continue;
        several |= n && all.item[i].model != model;
        model = all.item[i].model;
        n += all.item[i].count;
    }
    *out = n && !several ? n : OPM_NULL_I64;
    all_series_release(&all);
    return rc;
}
