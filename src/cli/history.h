/* history.h -- the parts of `opmeter history`: what is printed, and what is done with a catalogue.
 */
#ifndef CLI_HISTORY_H
#define CLI_HISTORY_H

#include "catalog/history.h"
#include "cli/cli.h"

enum history_by { BY_WHOLE, BY_TYPE, BY_OP };

struct history_view {
    struct cli *cli;
    const struct history *h;
    struct changes_options options;
    enum history_by by;
    int64_t last; /* runs to print of a series; 0: all */
    bool markdown;
};

/* Everything in the format asked for. CLI_OK or the exit code after a message. */
int history_print(const struct history_view *v);

/* "resnet50, native, Xeon, 2 threads, batch 1" */
void history_title(const struct history_series *s, const struct history *h, struct buf *out);
/* "5.0 % slower (4.8 to 5.2)" */
void history_size(const struct change *c, struct buf *out);
/* "1f2e3d4c5b..9a8b7c6d5e", or times where commits are not known. */
void history_range(const struct history *h, const struct history_series *s, const struct change *c,
                   struct buf *out);
/* The change in one sentence, with the operators. */
void history_sentence(const struct history *h, const struct history_series *s,
                      const struct history_change *c, struct buf *out);
/* "2026-11-16 19:20", of UTC. */
#define HISTORY_TIME_ROOM 24
const char *history_time(char room[HISTORY_TIME_ROOM], int64_t ns);

/* What `history export` and `history prune` do. */
int history_export(struct cli *cli, struct runsdb *db, const struct history *h, const char *to,
                   bool force);
struct history_prune {
    int64_t keep;     /* newest runs of a series; 0: no limit */
    int64_t older_ns; /* than this go; 0: no limit */
    bool dry;         /* only say */
};
int history_prune(struct cli *cli, struct runsdb *db, const struct history *h,
                  const struct history_prune *p);

#endif
