/* trials.h -- processes of several sides, taken in turn, and what they tell of the difference.
 *
 * Iterations of one process have its memory layout, its neighbours and its clock in common, and
 * processes differ more than they do: what is independent is the process. So processes come in
 * blocks, in each of which every side has two, in some order and its reverse (A B B A): what drifts
 * hits all sides alike. What a block says of a figure is the logarithm of the ratio of its means;
 * the estimate is the mean of blocks without a fifth at each end, so that one disturbed block does
 * not carry it.
 *
 * The 95 % interval is that of a bootstrap: blocks are drawn again, and within a process its
 * iterations. Percentiles of few blocks make intervals too narrow; they are taken further out, as
 * far as Student's t is beyond the normal distribution (the "expanded percentile" interval).
 *
 * Recordings that were not taken in turn are two samples that have nothing in common: there the
 * mean of one side's processes is compared with the mean of the other's, and draws and tests
 * (Yuen's, for two samples) go over processes.
 *
 * Whether a change is more than chance and more than what is worth mentioning is a test of its own
 * (Yuen's t on trimmed means): one for the whole, one over all operators together
 * (compare/discovery.h). */
#ifndef COMPARE_TRIALS_H
#define COMPARE_TRIALS_H

#include "base/strpool.h"
#include "compare/align.h"
#include <opmeter/opmeter_error.h>

#define TRIALS_SIDES_MAX 8
#define TRIALS_PER_BLOCK 2 /* of each side */
#define TRIALS_BLOCKS_MIN 5
#define TRIALS_RECORDINGS_MIN 3       /* of each side, where they were not taken in turn */
#define TRIALS_TAIL 0.99              /* the quantile that is the tail */
#define TRIALS_TAIL_ITERATIONS 100    /* of every process, below which it has none */
#define TRIALS_RESOLUTION_NS 20       /* an operator begins and ends on ticks of some 10 ns, */
                                      /* which are the same in all processes of a side */
#define TRIALS_WHOLE SIZE_MAX         /* figures that are no operator's: the latency, */
#define TRIALS_TAIL_OP (SIZE_MAX - 1) /* and its tail */

/* What one process took. */
struct trial {
    double *iteration_ns; /* each iteration */
    size_t n;             /* at least 1 */
    double *op_ns; /* own time in one iteration, by operator; NAN or beyond nops: it did not run */
    size_t nops, ops_cap;
};

/* See struct align_op. */
struct trials_op {
    const char *name, *type, *nodes, *work; /* NULL or "": not known */
};

/* `{0}` but for nsides; release it in any case. */
struct trials {
    size_t nsides; /* the first is what the others are compared with */
    struct trial *trial[TRIALS_SIDES_MAX];
    size_t n[TRIALS_SIDES_MAX], cap[TRIALS_SIDES_MAX];
    struct strpool keys; /* texts of an operator, with NUL in between */
    struct trials_op *op;
    size_t nops, ops_cap;
};

enum trials_verdict { TRIALS_SLOWER, TRIALS_FASTER, TRIALS_SAME, TRIALS_UNSURE, TRIALS_ONE_SIDED };
extern const char *const trials_verdict_names[];

struct trials_estimate {
    size_t op;        /* a group of operators, TRIALS_WHOLE or TRIALS_TAIL_OP */
    size_t blocks;    /* or processes of the side that has fewer */
    double ns[2];     /* of the first side and of the other; NAN: it did not run there */
    double change;    /* a share of the first's; NAN if it ran on one side only */
    double low, high; /* 95 % interval of that */
    double p;         /* the chance of so much change if there is none worth mentioning */
    enum trials_verdict verdict;
};

struct trials_options {
    double min_effect; /* what is worth mentioning: a share, above 0 */
    uint64_t seed;
    int draws;     /* of the bootstrap */
    bool unpaired; /* processes were not taken in turn */
    bool by_type;  /* operators of one type are one */
};

void trials_release(struct trials *t);
/* The number of an operator. 0 or OPM_ENOMEM. */
int trials_op(struct trials *t, const struct trials_op *op, size_t *out);
/* One more process of a side, whose turn it is; takes over what *trial has. 0 or OPM_ENOMEM. */
int trials_add(struct trials *t, size_t side, struct trial *trial);
void trial_release(struct trial *trial);
/* An operator's own time in one iteration of the process, added to what it has. */
int trial_add_op(struct trial *trial, size_t op, double ns);
/* Blocks that are complete on all sides. */
size_t trials_blocks(const struct trials *t);

/* What can be compared: blocks, or processes of the side that has fewer. */
size_t trials_samples(const struct trials *t, size_t side, const struct trials_options *o);

/* The latency of a side, without operators: for a look while processes still run. The verdict is
 * its own. False: there are fewer samples than 2. */
bool trials_whole(const struct trials *t, size_t side, const struct trials_options *o,
                  struct trials_estimate *out);
/* The tail of the latency, which has a test and a verdict of its own. False: a process has too few
 * iterations to have one, or there are fewer samples than 2. */
bool trials_tail(const struct trials *t, size_t side, const struct trials_options *o,
                 struct trials_estimate *out);
/* The latency (first) and every group of operators of *aligned, which starts as {0} and is the
 * caller's in any case; verdicts over all of them, those that changed the latency most first. *out
 * is the caller's, to mem_free(); *n of them. 0, OPM_ENOMEM, or OPM_EINVAL with fewer samples than
 * 2. */
int trials_compare(const struct trials *t, size_t side, const struct trials_options *o,
                   struct align *aligned, struct trials_estimate **out, size_t *n);
/* Blocks in all after which it can probably be told; at least one more than there are. */
size_t trials_blocks_needed(const struct trials_estimate *e, const struct trials_options *o);

#endif
