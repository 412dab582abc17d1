/* in_pieces.h -- a JSON trace read whole and in pieces: the same comes out. */
#ifndef FUZZ_IN_PIECES_H
#define FUZZ_IN_PIECES_H

#include "import/json/trace_json.h"

#include <stdlib.h>
#include <string.h>

static struct store *read_all(const struct dialect *dialect, const uint8_t *data, size_t len,
                              size_t piece, int *out_rc)
{
    struct import_source src = { .path = "fuzz.json", .data = data, .len = len, .count = 1 };
    struct store *st = NULL;
    opm_error err = { 0 };
    int rc;

    if (store_new(&st) < 0)
        abort();
    if (!piece) {
        rc = trace_json_read(st, &src, dialect, &err);
    } else {
        struct trace_json t;

        rc = trace_json_init(&t, st, &src, dialect);
        for (size_t at = 0; at < len && !rc; at += piece)
            rc = trace_json_push(&t, (const char *)data + at, MIN(piece, len - at), false);
        if (!rc)
            rc = trace_json_push(&t, NULL, 0, true);
        if (!rc)
            rc = trace_json_finish(&t, false, &err);
        trace_json_release(&t);
    }
    if (!rc)
        rc = store_finish(st);
    *out_rc = rc;
    return st;
}

static void compare(const struct store *a, const struct store *b)
{
    for (int t = 0; t < TABLE_COUNT; t++) {
        size_t n = store_nrow(a, (enum table_id)t);

        if (n != store_nrow(b, (enum table_id)t))
            abort();
        for (size_t row = 0; row < n; row++) {
            for (int c = 0; c < store_table_defs[t].ncol; c++) {
                struct cell x = store_cell(a, (enum table_id)t, row, c);
                struct cell y = store_cell(b, (enum table_id)t, row, c);

                if (x.kind != y.kind || (x.kind == CELL_I64 && x.i64 != y.i64) ||
                    (x.kind == CELL_F64 && x.f64 != y.f64) ||
                    (x.kind == CELL_STR && strcmp(store_text(a, x.str), store_text(b, y.str)) != 0))
                    abort();
            }
        }
    }
}

static void read_both_ways(const struct dialect *dialect, const uint8_t *data, size_t len,
                           size_t piece)
{
    uint8_t *copy = malloc(len ? len : 1); /* so that reading beyond its end is seen */
    struct store *whole, *parts;
    int rc, parts_rc;

    if (!copy)
        abort();
    memcpy(copy, data, len);
    whole = read_all(dialect, copy, len, 0, &rc);
    parts = read_all(dialect, copy, len, piece, &parts_rc);
    if (rc != parts_rc)
        abort();
    if (rc == 0)
        compare(whole, parts);
    store_free(whole);
    store_free(parts);
    free(copy);
}

#endif
