/* bench.h -- the parts of `opmeter bench`: a side and its processes, and what is said at the end.
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/comparison.h"

#include <wordexp.h>

/* One thing to measure, as it was given. */
struct bench_side {
    char letter; /* A, B, ... */
    const char *text;
    wordexp_t words;            /* of text, as a shell would have them */
    const char *tool;           /* the opmeter that runs it */
    size_t tool_at, tool_words; /* the words that name it, if they do */
};

struct bench {
    struct cli *cli;
    struct bench_side side[TRIALS_SIDES_MAX];
    struct trials trials;
    struct trials_options options;
    enum recording_basis basis;
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

/* A line on how much was measured, and how calm the machine was. */
void bench_circumstances(const struct bench *b, struct buf *out);
/* Everything on standard output; c[side] of every side but the first. CLI_OK or the exit code after
 * a message. */
int bench_print(struct bench *b, const struct comparison *c, int64_t top);
/* The same as Markdown. picture: where a picture will lie, to refer to; NULL: it is drawn as text.
 */
int bench_markdown(struct bench *b, const struct comparison *c, int64_t top, const char *picture);

/* What a block takes. */
double bench_sample_ns(const struct bench *b);

/* The latency and operators that changed, with their intervals: of one side as lines of text, */
void bench_picture_text(const struct bench *b, const struct comparison *c, struct buf *out);
/* and of all sides as SVG. */
void bench_picture_svg(const struct bench *b, const struct comparison *c, struct buf *out);
void bench_add_xml(struct buf *out, const char *text); /* for an attribute or between tags */
/* Before any work is done: can the file be written at the end? */
int bench_may_write(const char *path);
/* Write a file; path "-" is standard output. CLI_OK or the exit code after a message. c NULL: what
 * was to be compared did not run. */
int bench_svg(const struct bench *b, const struct comparison *c, const char *path);
int bench_junit(const struct bench *b, const struct comparison *c, const struct diff_check *check,
                size_t n, const char *path);

#endif
