/* section_rig.h -- which operator a span counts for, on which side, found the slow way. */
#ifndef SECTION_RIG_H
#define SECTION_RIG_H

#include "store/store.h"
#include "unit.h"

#include <string.h>

static inline int64_t rig_number(const struct store *st, size_t row, int col)
{
    struct cell c = store_cell(st, TABLE_span, row, col);

    return c.kind == CELL_I64 ? c.i64 : -1;
}

static inline bool rig_word(const struct store *st, str_id id, const char *word)
{
    const char *s = store_text(st, id);

    return s && strcmp(s, word) == 0;
}

static inline bool rig_on_hardware(const struct store *st, size_t row)
{
    struct cell c = store_cell(st, TABLE_span, row, span_col_layer);

    return c.kind == CELL_STR && rig_word(st, c.str, "hardware");
}

/* The operator that launched a kernel, or -1. */
static inline int64_t rig_launcher(const struct store *st, size_t kernel)
{
    struct cell c = store_cell(st, TABLE_span, kernel, span_col_correlation);
    int64_t from = -1;

    for (size_t i = 0; c.kind == CELL_I64 && i < store_nrow(st, TABLE_span); i++) {
        struct cell other = store_cell(st, TABLE_span, i, span_col_correlation);

        if (other.kind == CELL_I64 && other.i64 == c.i64 && !rig_on_hardware(st, i))
            from = (int64_t)i;
    }
    while (from >= 0 && rig_number(st, (size_t)from, span_col_op) < 0)
        from = rig_number(st, (size_t)from, span_col_parent);
    return from < 0 ? -1 : rig_number(st, (size_t)from, span_col_op);
}

/* The operator that a span counts for, or -1; *hardware: on which side. */
static inline int64_t rig_owner(const struct store *st, size_t row, bool *hardware)
{
    struct cell phase = store_cell(st, TABLE_span, row, span_col_phase);
    int64_t op = rig_number(st, row, span_col_op);

    *hardware = rig_on_hardware(st, row);
    if (op >= 0)
        return phase.kind != CELL_STR || rig_word(st, phase.str, "forward") ? op : -1;
    return *hardware ? rig_launcher(st, row) : -1;
}

/* Does any operator have hardware of its own? */
static inline bool rig_has_device(const struct store *st)
{
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);

    for (size_t i = 0; i < nsite; i++)
        if (sites[i].op != OPM_NULL_ID && rig_word(st, sites[i].layer, "hardware") &&
            (!sites[i].phase || rig_word(st, sites[i].phase, "forward")))
            return true;
    for (size_t row = 0; row < store_nrow(st, TABLE_span); row++) {
        bool hardware;

        if (rig_number(st, row, span_col_op) < 0 && rig_owner(st, row, &hardware) >= 0)
            return true;
    }
    return false;
}

#endif
