/* devices.c -- see devices.h. */
#include "analyze/devices.h"

static bool same(struct cell a, struct cell b)
{
    return a.kind == b.kind && (a.kind == CELL_NULL  ? true
                                : a.kind == CELL_STR ? a.str == b.str
                                                     : a.i64 == b.i64);
}

bool track_same_device(const struct store *st, uint32_t a, uint32_t b)
{
    static const int cols[] = { track_col_device, track_col_host, track_col_rank };

    for (size_t i = 0; i < ARRAY_SIZE(cols); i++)
        if (!same(store_cell(st, TABLE_track, a, cols[i]), store_cell(st, TABLE_track, b, cols[i])))
            return false;
    return true;
}
