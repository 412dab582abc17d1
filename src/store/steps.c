/* steps.c -- one source for steps: what a process marks itself comes before what was derived for
 * it, and the two are never mixed. */
#include "store/store_int.h"

#include "base/step_name.h"

/* What tells the process of a step from others. Tracks of one process may come from several
 * sources. */
static uint64_t process_of(const struct store *st, size_t row)
{
    static const int cols[] = { track_col_pid, track_col_instance, track_col_rank };
    struct cell track = table_cell(&st->table[TABLE_step], row, step_col_track);
    uint64_t key = 0;

    for (size_t i = 0; i < ARRAY_SIZE(cols) && track.kind == CELL_I64; i++) {
        struct cell v = table_cell(&st->table[TABLE_track], (size_t)track.i64, cols[i]);

        key ^= v.kind == CELL_I64 ? (uint64_t)v.i64 : UINT64_MAX;
        key *= 0x9e3779b97f4a7c15u;
        key ^= key >> 29;
    }
    return key;
}

static void keep_row(struct table *t, size_t from, size_t to)
{
    for (int i = 0; i < t->def->ncol; i++) {
        struct column *c = &t->col[i];

        if (!c->data)
            continue;
        if (column_width(t->def->col[i].type) == sizeof(*c->i64))
            c->i64[to] = c->i64[from];
        else
            c->id[to] = c->id[from];
    }
}

int steps_settle(struct store *st)
{
    struct table *t = &st->table[TABLE_step];
    str_id derived = strpool_find(&st->strings, STEP_OF_OPTIMIZER, strlen(STEP_OF_OPTIMIZER));
    const uint32_t *model = t->col[step_col_model].id;
    struct u64map marked = { 0 };
    size_t kept = 0;
    int rc = 0;

    if (!derived || !model || st->loaded)
        return 0;
    for (size_t i = 0; i < t->nrow && !rc; i++)
        if (model[i] != derived)
            rc = u64map_put(&marked, process_of(st, i), 1);
    for (size_t i = 0; i < t->nrow && marked.n && !rc; i++) {
        if (model[i] == derived && u64map_get(&marked, process_of(st, i)))
            continue;
        if (kept < i)
            keep_row(t, i, kept);
        kept++;
    }
    if (marked.n && !rc) {
        store_stat(st, STAT_step_derived, (int64_t)(t->nrow - kept));
        t->nrow = kept;
    }
    u64map_release(&marked);
    return rc;
}
