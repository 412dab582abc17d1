/* diff_parts.h -- the parts of `opmeter diff`: what is not the same, and several recordings. */
#ifndef CLI_DIFF_PARTS_H
#define CLI_DIFF_PARTS_H

#include "base/arena.h"
#include "cli/diff_check.h"

/* Facts of the recordings of both sides that can explain a difference. `{0}`; release it in any
 * case. */
struct diff_fact {
    const char *key;
    struct buf value[DIFF_SIDES]; /* with " | " in between, where recordings differ */
    size_t n[DIFF_SIDES];         /* 0: no recording has it */
};
struct diff_facts {
    struct diff_fact *fact;
    size_t n, cap;
    struct arena text;
};
int diff_facts_read(struct diff_facts *f, opm_trace *t, enum diff_side side);
/* Those that are not the same on both sides, in the order of their keys. */
void diff_facts_print(struct cli *cli, struct diff_facts *f);
void diff_facts_release(struct diff_facts *f);

/* Recordings of a side. */
struct diff_paths {
    char **path; /* each to mem_free() */
    size_t n, cap;
};
/* Add the files that text names, which may be a pattern. CLI_OK or the exit code after a message.
 */
int diff_paths_add(struct diff_paths *p, const char *text);
void diff_paths_release(struct diff_paths *p);

struct diff_wanted {
    bool by_type;
    int64_t top;
    double min_effect;
    struct diff_check *check;
    size_t nchecks;
};
/* Compare several recordings of each side and print what that tells. CLI_OK, CLI_CHECK, or the exit
 * code after a message. */
int diff_several(struct cli *cli, struct diff_paths side[DIFF_SIDES], const struct diff_wanted *w);

#endif
