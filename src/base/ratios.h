/* ratios.h -- how much faster block-sparse weights run than dense ones, as measured on machines:
 * for what-if questions, and for an engine's choice between two kernels.
 *
 * Kept in the file ratios.json of the cache folder (folder.h), which people may edit:
 *   {"version":1,"ratios":[{"cpu":"...","pattern":"4x1","sparsity":0.9,"weight":"256x1024",
 *     "m":128,"ratio":3.1,"dense_ns":80000,"sparse_ns":25800}, ...]}
 * weight is outputs x inputs; m, the rows it was multiplied with, and the two times may be missing.
 * An entry with "isa" is what an engine found for an operator as it is, with that instruction set
 * and m rows: it holds for that alone. Entries of other processors are kept and not used. */
#ifndef BASE_RATIOS_H
#define BASE_RATIOS_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

#define RATIOS_PATH_MAX 1024

/* Block patterns: name, outputs and inputs that are zero together. The first is the default. */
#define RATIOS_PATTERNS(X) \
    X("4x1", 4, 1)         \
    X("8x1", 8, 1)         \
    X("1x4", 1, 4)         \
    X("1x16", 1, 16)       \
    X("16x1", 16, 1)       \
    X("4x4", 4, 4)         \
    X("4x16", 4, 16)       \
    X("16x4", 16, 4)

struct ratio_pattern {
    const char *name;
    int n, k;
};
extern const struct ratio_pattern ratio_patterns[];               /* ends with a NULL name */
const struct ratio_pattern *ratio_pattern_find(const char *name); /* NULL if there is none */

struct ratio {
    char cpu[128];
    char isa[16]; /* "": holds for any number of rows, with what the processor has */
    const struct ratio_pattern *pattern;
    double sparsity;            /* share of zero blocks, 0 to 1 */
    int64_t n, k;               /* of the weight: outputs, inputs */
    int64_t m;                  /* 0: not known */
    double ratio;               /* dense time over sparse time */
    double dense_ns, sparse_ns; /* 0: not known */
};

struct ratios {
    char cpu[128];              /* of this machine */
    char path[RATIOS_PATH_MAX]; /* "": there is no place for the file */
    struct ratio *item;
    size_t n, cap;
};

/* Read the file of this machine; none is the same as an empty one. 0, OPM_ENOMEM, or OPM_EFORMAT
 * for a file that is none of these, which leaves r empty but usable. Release in any case. */
int ratios_load(struct ratios *r, opm_error *err);
void ratios_release(struct ratios *r); /* a zeroed one is fine */
/* The entry of this processor that answers the same question: pattern, sparsity, n, k, isa, and m
 * where there is an isa. NULL if there is none. */
const struct ratio *ratios_like(const struct ratios *r, const struct ratio *like);
/* The same without isa. */
const struct ratio *ratios_find(const struct ratios *r, const struct ratio_pattern *pattern,
                                double sparsity, int64_t n, int64_t k);
/* Add an entry for this processor, in the place of one for the same. 0 or OPM_ENOMEM. */
int ratios_put(struct ratios *r, const struct ratio *entry);
int ratios_save(const struct ratios *r, opm_error *err);

/* Whether two shares of zeros are meant to be the same: 0.9 and 90 %. */
static inline bool ratio_same_sparsity(double a, double b)
{
    return a - b < 1e-6 && b - a < 1e-6;
}

#endif
