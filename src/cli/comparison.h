/* comparison.h -- what is said of a side compared with the first, in words, tables and JSON: the
 * same by `opmeter bench` and by `opmeter diff` with several recordings. */
#ifndef CLI_COMPARISON_H
#define CLI_COMPARISON_H

#include "cli/cli.h"
#include "cli/diff_check.h"
#include "compare/recording.h"

/* `{0}`; release it in any case. */
struct comparison {
    char letter;               /* of the side */
    struct align align;        /* its operators and those of A */
    struct trials_estimate *e; /* [0]: the latency */
    size_t n;
    bool has_tail;
    struct trials_estimate tail;
};

void comparison_release(struct comparison *c);

/* One sentence: "B is 3.1 % slower (2.6 to 3.7); 92 % of it in 4 Conv operators." Where it cannot
 * be told, what it needs: so much time for each sample, or, if that is 0, recordings. */
void comparison_sentence(const struct comparison *c, const struct trials_options *o,
                         double sample_ns, struct buf *out);
/* A sentence on the tail: whether it moved. "" without one. */
void comparison_tail(const struct comparison *c, struct buf *out);
/* A sentence on operators that have no counterpart and on their share of either side's time; "" if
 * all have one. */
void comparison_alone(const struct comparison *c, struct buf *out);

/* The latency, the tail if there is one, and the operators that changed most, 0: all; NULL: no
 * memory. */
struct textable *comparison_table(const struct comparison *c, size_t top);
/* Columns of CSV, and all rows. */
void comparison_csv_columns(struct textable *t);
void comparison_csv(const struct comparison *c, struct textable *t);
/* Members "latency", "tail", "operators" and "alone" of the JSON object that is being written. */
void comparison_json(const struct comparison *c, struct json_writer *w);
/* "latency", "p99" or the operators' name. */
const char *comparison_name(const struct comparison *c, const struct trials_estimate *e);

enum comparison_told { TOLD_GOOD, TOLD_BAD, TOLD_NOTHING };
/* Whether the whole interval is within the limit, or beyond it; unless it is good, a line on that.
 */
enum comparison_told comparison_check(const struct comparison *c, const struct trials *t,
                                      const struct diff_check *check, struct buf *why);
/* Metrics of --fail-if that it knows in any case; besides p99 if there is a tail, and type:NAME of
 * a comparison by type. */
bool comparison_knows(const char *metric);

/* A share in percent as it is printed, with one digit; never "-0.0". */
double comparison_percent(double share);
/* "2.5%" as 0.025; false: it is no share above 0. */
bool comparison_share(const char *text, double *out);

#endif
