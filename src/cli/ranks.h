/* ranks.h -- recordings of ranks go to a catalogue: `opmeter add --job`, `--watch`, and `opmeter
 * record --add-to`. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "catalog/rank_reduce.h"
#include "cli/cli.h"

struct ranks_said {
    const char *job; /* NULL: as the environment says */
    int64_t rank;    /* RANK_OF_TRACE: likewise */
    bool spans;
};

/* The job of `s` or of the environment; NULL: there is none. */
const char *ranks_job(const struct ranks_said *s);
/* 'opmeter run' writes a folder, which has a recording. Lives in room, or is path itself. */
char *ranks_trace_of(char *path, char room[]);

/* Reduce each file and add it, one at a time; what that did is said. CLI_OK, or the exit code after
 * a message. */
int ranks_add(struct cli *cli, const char *to, const struct ranks_said *s, char **paths, int n);
/* Go on adding what appears in a folder and has come to rest, until a signal ends it; `seconds`
 * between two looks. idle: ends when nothing new came for so many looks; 0: never. */
int ranks_watch(struct cli *cli, const char *to, const struct ranks_said *s, const char *folder,
                int64_t seconds, int64_t idle);

#endif
