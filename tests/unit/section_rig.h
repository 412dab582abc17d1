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

/* The execution of op around the launch of a kernel, or -1. */
static inline int64_t rig_execution(const struct store *st, size_t kernel, int64_t op)
{
    struct cell c = store_cell(st, TABLE_span, kernel, span_col_correlation);
    int64_t from = -1;

    for (size_t i = 0; c.kind == CELL_I64 && i < store_nrow(st, TABLE_span); i++) {
        struct cell other = store_cell(st, TABLE_span, i, span_col_correlation);

        if (other.kind == CELL_I64 && other.i64 == c.i64 && !rig_on_hardware(st, i))
            from = (int64_t)i;
    }
    while (from >= 0) {
        struct cell phase = store_cell(st, TABLE_span, (size_t)from, span_col_phase);

        if (rig_number(st, (size_t)from, span_col_op) == op && !rig_on_hardware(st, (size_t)from) &&
            (phase.kind != CELL_STR || rig_word(st, phase.str, "forward")))
            break;
        from = rig_number(st, (size_t)from, span_col_parent);
    }
    return from;
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

static inline size_t rig_in_step(const struct store *st, size_t step, bool hardware)
{
    size_t n = 0;

    for (size_t i = 0; i < store_nrow(st, TABLE_span); i++)
        n +=
            rig_number(st, i, span_col_step) == (int64_t)step && rig_on_hardware(st, i) == hardware;
    return n;
}

static inline bool rig_same_series(const struct store *st, size_t a, size_t b)
{
    static const int cols[] = { step_col_model, step_col_track };

    for (size_t i = 0; i < ARRAY_SIZE(cols); i++) {
        struct cell x = store_cell(st, TABLE_step, a, cols[i]);
        struct cell y = store_cell(st, TABLE_step, b, cols[i]);

        if (x.kind != y.kind || (x.kind == CELL_STR && x.str != y.str) ||
            (x.kind == CELL_I64 && x.i64 != y.i64))
            return false;
    }
    return true;
}

/* Work of a device that is no operator's. What encloses other work on hardware is none. */
static inline bool rig_is_nobodys(const struct store *st, size_t row)
{
    bool hardware;

    if (rig_number(st, row, span_col_op) >= 0 || rig_owner(st, row, &hardware) >= 0 || !hardware)
        return false;
    for (size_t i = 0; i < store_nrow(st, TABLE_span); i++) {
        int64_t up = rig_number(st, i, span_col_parent);

        if (up >= 0 && rig_on_hardware(st, i) &&
            store_span_site(st)[up] == store_span_site(st)[row])
            return false;
    }
    return true;
}

/* Was a step recorded, of hosts or of hardware: does it have spans, and if it is the first or the
 * last such one of its series, not clearly fewer than each in between? */
static inline bool rig_recorded(const struct store *st, size_t step, bool hardware)
{
    size_t n = rig_in_step(st, step, hardware), before = 0, after = 0, least = SIZE_MAX, inner = 0;
    size_t first = SIZE_MAX, last = 0;

    for (size_t i = 0; i < store_nrow(st, TABLE_step); i++) {
        if (!rig_same_series(st, i, step) || !rig_in_step(st, i, hardware))
            continue;
        first = MIN(first, i);
        last = i;
        before += i < step;
        after += i > step;
    }
    for (size_t i = first + 1; i < last; i++) {
        size_t here = rig_in_step(st, i, hardware);

        if (!rig_same_series(st, i, step) || !here)
            continue;
        least = MIN(least, here);
        inner++;
    }
    return n && !((!before || !after) && inner >= 2 && (double)n < 0.75 * (double)least);
}

static inline bool rig_counts(const struct store *st, size_t step)
{
    struct cell warmup = store_cell(st, TABLE_step, step, step_col_warmup);

    return !(warmup.kind == CELL_I64 && warmup.i64 == 1) &&
           store_cell(st, TABLE_step, step, step_col_dur).i64 >= 0;
}

/* Does any operator, or any work of a device that is nobody's, have hardware of its own? */
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

        if (rig_number(st, row, span_col_op) < 0 &&
            (rig_owner(st, row, &hardware) >= 0 || rig_is_nobodys(st, row)))
            return true;
    }
    return false;
}

#endif
