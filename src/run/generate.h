/* generate.h -- a decoder makes tokens: its prompt is read in one step (prefill), then each step
 * makes a token of every row (decode), and its keys and values go into the next without being
 * copied: two buffers change places, or the model writes into the one that there is.
 *
 * Every row is a request in the trace, every step an iteration. Metered texts alternate with bare
 * ones, as iterations of other runs do; all are the same text. */
#ifndef RUN_GENERATE_H
#define RUN_GENERATE_H

#include "run/runner.h"

/* Instead of runner_feed() to runner_describe_run(). encoder: one with its inputs, prepared, whose
 * output s is to listen to; NULL: none. first: reads the prompt instead of s; NULL: s does. */
int generate_run(struct runner *s, struct runner *encoder, struct runner *first, opm_error *err);

/* -- prompt.c -- */

/* The prompts of a text file: a line for each, numbers between blanks, commas or brackets. *ids
 * gets rows * *len of them, to be freed with mem_free(). */
int prompt_read(const char *path, int64_t vocabulary, int64_t **ids, int64_t *rows, int64_t *len,
                opm_error *err);
/* Random ones. */
int prompt_random(uint64_t seed, int64_t vocabulary, int64_t rows, int64_t len, int64_t **ids,
                  opm_error *err);

#endif
