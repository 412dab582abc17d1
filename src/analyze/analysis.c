/* analysis.c -- the list of analyses. */
#include "analyze/analysis.h"

#include "analyze/attribution.h"
#include "analyze/busy.h"
#include "analyze/critical_path.h"
#include "analyze/measuring.h"
#include "analyze/roof.h"
#include "base/error.h"
#include "base/ratios.h"
#include <string.h>

#define TABLE(name, doc) static const struct column_def name##_columns[] = {
#define COL(table, name, type, from, doc) { #name, COL_##type, FROM_##from, doc },
#define END(table) \
    }              \
    ;
#include "analyze/analyses.def"
#undef TABLE
#undef COL
#undef END

static const struct table_def defs[ANALYSIS_COUNT] = {
#define TABLE(name, doc) \
    [ANALYSIS_##name] = { #name, doc, name##_columns, (int)ARRAY_SIZE(name##_columns) },
#define COL(table, name, type, from, doc)
#define END(table)
#include "analyze/analyses.def"
#undef TABLE
#undef COL
#undef END
};

const struct analysis analyses[ANALYSIS_COUNT] = {
#define TABLE(name, doc) [ANALYSIS_##name] = { &defs[ANALYSIS_##name], analyze_##name },
#define COL(table, name, type, from, doc)
#define END(table)
#include "analyze/analyses.def"
#undef TABLE
#undef COL
#undef END
};

int analysis_intern_words(struct store *st)
{
    static const char *const words[] = { "step",
                                         "record",
                                         "device",
                                         "stream",
                                         "host",
                                         "marks",
                                         "repetition",
                                         "optimizer",
                                         MEASURING_OPERATORS,
                                         MEASURING_CUPTI,
                                         MEASURING_WRITING,
                                         MEASURING_RECORDS,
                                         MEASURING_SPANS,
                                         MEASURING_SAMPLES,
                                         "phases",
                                         "points",
                                         "autograd",
                                         "reduction",
                                         "operators",
                                         "measured",
                                         "constant",
                                         "given",
#define X(kind, word) word,
                                         OWNER_KINDS(X) ROOF_WORDS(X)
#undef X
#define X(name, doc) #name,
                                             BUSY_BUCKETS(X) CRITICAL_KINDS(X)
#undef X
#define X(name, n, k) name,
                                                 RATIOS_PATTERNS(X)
#undef X
    };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        str_id id;
        int rc = store_cstr(st, words[i], &id);

        if (rc < 0)
            return rc;
    }
    return 0;
}

int analysis_run(const struct store *st, enum analysis_id id, struct table *out, opm_error *err)
{
    struct table result;
    int rc;

    if (table_init(&result, analyses[id].def) < 0)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", analyses[id].def->name);
    rc = analyses[id].compute(st, &result, err);
    if (rc < 0)
        table_release(&result);
    else
        *out = result;
    return rc;
}
