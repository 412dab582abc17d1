/* bench.h -- the parts of `opmeter bench`: a side and its processes, and what is said at the end.
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/cli.h"
#include "compare/trials.h"

#include <wordexp.h>

/* One thing to measure, as it was given. */
struct bench_side {
    char letter; /* A, B, ... */
    const char *text;
    wordexp_t words;            /* of text, as a shell would have them */
    const char *tool;           /* the opmeter that runs it */
    size_t tool_at, tool_words; /* the words that name it, if they do */
};

/* What the latency is that is compared. */
enum bench_basis { BENCH_UNKNOWN, BENCH_BARE, BENCH_STEPS, BENCH_WHOLE };
extern const char *const bench_basis_names[];

struct bench {
    struct cli *cli;
    struct bench_side side[TRIALS_SIDES_MAX];
    struct trials trials;
    struct trials_options options;
    enum bench_basis basis;
    bool record;      /* sides are programs, not models */
    const char *keep; /* folder where traces of all processes stay, or NULL */
    double precision;
    int64_t time_ns;
    int64_t process_ns; /* that a process measures for */
    /* Of the machine meanwhile: */
    int64_t began_ns, spent_ns;
    double loop_min_ns, loop_max_ns, stolen, load;
    bool interrupted;
};

int64_t bench_now_ns(void);
/* Split the side's text and find its opmeter (self unless it says). CLI_OK or the exit code. */
int bench_side_init(struct bench *b, size_t side, const char *text, const char *self);
void bench_side_release(struct bench_side *side);
/* Run one more process of the side, the n-th of all, and add what it took. CLI_OK or the exit code
 * after a message. */
int bench_process(struct bench *b, size_t side, size_t n);

/* What is known of a side at the end, compared with the first. */
struct bench_result {
    struct trials_estimate *e; /* [0]: the latency; to mem_free() */
    size_t n;
};
/* One sentence: "B is 3.1 % slower (2.6 to 3.7); 92 % of it in 4 Conv operators." */
void bench_sentence(const struct bench *b, size_t side, const struct bench_result *r,
                    struct buf *out);
/* A line on how much was measured, and how calm the machine was. */
void bench_circumstances(const struct bench *b, struct buf *out);
/* Everything; r[side] of every side but the first. CLI_OK or the exit code after a message. */
int bench_print(struct bench *b, const struct bench_result *r, int64_t top, bool markdown);

#endif
