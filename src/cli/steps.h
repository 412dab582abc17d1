/* steps.h -- pages of `opmeter steps` beside the parts of a step. */
#ifndef CLI_STEPS_H
#define CLI_STEPS_H

#include "cli/cli.h"

/* As wide as a whole bar is, between a name and figures. */
int steps_bar_columns(void);
/* The critical path of the steps on average, or of step `num` (-1: all). An exit code. */
int steps_print_path(struct cli *cli, opm_trace *t, int64_t num);
/* When each rank came to the collectives; nothing unless several did. An exit code. */
int steps_print_arrivals(struct cli *cli, opm_trace *t);

#endif
