/* step_gap.c -- see step_gap.h. */
#include "analyze/step_gap.h"

#include "analyze/span_class.h"
#include "base/alloc.h"
#include "base/error.h"
#include <string.h>

/* Does anything in the trace belong to a backward pass or an optimizer? */
static int trains(const struct store *st, bool *out)
{
    static const char *const phases[] = { "backward", "update", "forward and backward" };
    size_t n;
    const struct site *site = store_sites(st, &n);
    uint8_t *class = span_classes(st);

    *out = false;
    for (size_t i = 0; class && i < n && !*out; i++) {
        const char *name = site[i].name ? store_text(st, site[i].name) : "";
        const char *cat = site[i].cat ? store_text(st, site[i].cat) : "";

        *out = class[i] == CLASS_BACKWARD || class[i] == CLASS_OPTIMIZER;
        for (size_t k = 0; k < ARRAY_SIZE(phases) && strcmp(cat, "phase") == 0; k++)
            *out |= strcmp(name, phases[k]) == 0;
    }
    mem_free(class);
    return class ? 0 : OPM_ENOMEM;
}

/* Was the track recorded through our own interface? */
static bool is_ours(const struct store *st, uint32_t track)
{
    struct cell source = store_cell(st, TABLE_track, track, track_col_source), format;

    if (source.kind != CELL_I64 || (size_t)source.i64 >= store_nrow(st, TABLE_source))
        return false;
    format = store_cell(st, TABLE_source, (size_t)source.i64, source_col_format);
    return format.kind == CELL_STR && strcmp(store_text(st, format.str), "opm") == 0;
}

int step_gaps(const struct store *st, const struct step_list *l, int64_t *before_ns)
{
    size_t ntrack = store_nrow(st, TABLE_track);
    int64_t *end_ns = mem_alloc((ntrack + 1) * sizeof(*end_ns));
    str_id *model = mem_calloc(ntrack + 1, sizeof(*model));
    bool training = false;
    int rc = end_ns && model ? trains(st, &training) : OPM_ENOMEM;

    for (size_t i = 0; rc == 0 && i < ntrack; i++)
        end_ns[i] = INT64_MAX;
    for (size_t i = 0; rc == 0 && i < l->n; i++) {
        const struct step_row *r = &l->row[i];
        struct cell track = { 0 };

        before_ns[i] = 0;
        if (r->step != OPM_NULL_ID)
            track = store_cell(st, TABLE_step, r->step, step_col_track);
        if (!training || track.kind != CELL_I64 || (size_t)track.i64 >= ntrack ||
            !is_ours(st, (uint32_t)track.i64))
            continue;
        if (end_ns[track.i64] <= r->from_ns && model[track.i64] == r->model)
            before_ns[i] = r->from_ns - end_ns[track.i64];
        end_ns[track.i64] = r->to_ns;
        model[track.i64] = r->model;
    }
    mem_free(end_ns);
    mem_free(model);
    return rc;
}
