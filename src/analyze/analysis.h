/* analysis.h -- figures computed from a frozen store, each a table.
 *
 * Pure functions over the columns: same store, same result, nothing cached here. Strings in a
 * result are ids of the store's own pool. Words that a result needs and the trace may not have
 * ("step") are put there beforehand by analysis_intern_words(). */
#ifndef ANALYZE_ANALYSIS_H
#define ANALYZE_ANALYSIS_H

#include "store/store.h"

enum analysis_id {
#define TABLE(name, doc) ANALYSIS_##name,
#define COL(table, name, type, from, doc)
#define END(table)
#include "analyze/analyses.def"
#undef TABLE
#undef COL
#undef END
    ANALYSIS_COUNT,
};

/* op_stats_col_op, ...: the number of a column within its result. */
#define TABLE(name, doc) \
    enum name##_cols     \
    {
#define COL(table, name, type, from, doc) table##_col_##name,
#define END(table)    \
    table##_col_COUNT \
    }                 \
    ;
#include "analyze/analyses.def"
#undef TABLE
#undef COL
#undef END

struct analysis {
    const struct table_def *def;
    /* Fill out, which is empty and has the columns of def. */
    int (*compute)(const struct store *st, struct table *out, opm_error *err);
};

extern const struct analysis analyses[ANALYSIS_COUNT];

/* Once per store, after store_finish() and before any analysis; one thread. 0 or OPM_ENOMEM. */
int analysis_intern_words(struct store *st);

/* Compute one analysis into out, which need not be initialised. Release with table_release(); on
 * failure there is nothing to release. */
int analysis_run(const struct store *st, enum analysis_id id, struct table *out, opm_error *err);

/* One per analysis. */
#define TABLE(name, doc) \
    int analyze_##name(const struct store *st, struct table *out, opm_error *err);
#define COL(table, name, type, from, doc)
#define END(table)
#include "analyze/analyses.def"
#undef TABLE
#undef COL
#undef END

#endif
