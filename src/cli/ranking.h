/* ranking.h -- the table of operators that `opmeter run` and `opmeter top` print: what its columns
 * are called, how a figure is written, and what is left out first on a narrow terminal. */
#ifndef CLI_RANKING_H
#define CLI_RANKING_H

#include "base/buf.h"
#include "base/textable.h"

enum ranking_column {
    RANKING_TIME,
    RANKING_SHARE,
    RANKING_COUNT,
    RANKING_MEDIAN,
    RANKING_P99,
    RANKING_TYPE,
    RANKING_NAME,
    RANKING_GFLOPS,
    RANKING_GBYTES,
    RANKING_OF_PEAK,
    RANKING_ROOF,
    RANKING_SHAPES,
    RANKING_COLUMN_COUNT,
};

/* Texts may be NULL; a figure that is not known is NAN. */
struct ranking_row {
    const char *name, *type;
    const char *post_op; /* what is fused behind it, with ',' in between */
    const char *shapes;  /* "1x784 * 784x256 -> 1x256": inputs, weights, outputs */
    int64_t count;
    double
        interrupted_ns; /* left out of time_ns; a count is marked with ! if it matters beside it */
    double time_ns, share, median_ns, p99_ns;
    double gflops, gbytes; /* 10^9 per second */
    double of_peak;        /* of what the machine could do with it at most */
    const char *roof;      /* what limits it */
    bool part;             /* of the row above, which has the speed of all */
};

/* name: what to call it; NULL: as usual. optional: it may be left out. */
void ranking_column(struct textable *t, enum ranking_column c, const char *name, bool optional);
void ranking_cell(struct textable *t, enum ranking_column c, const struct ranking_row *row);
/* Does the name of the row tell its shapes, as "aten::mm [2x3, 3x4]" does? */
bool ranking_name_has_shapes(const struct ranking_row *row);
struct textable *ranking_new(void); /* with all columns; NULL without memory */
void ranking_add(struct textable *t, const struct ranking_row *row);

/* Cells of other columns in the same style. NULL or NAN: not known. */
void ranking_text(struct textable *t, const char *text);
void ranking_time(struct textable *t, double ns);
void ranking_rate(struct textable *t, double v); /* three digits */
/* A kernel by its qualified name: of what C++ says of it, parameters and "void" tell nothing. */
void ranking_put_kernel(struct buf *out, const char *name);

#endif
