/* parts.h -- a language model as Hugging Face's Optimum exports it, in several files: an encoder, a
 * decoder that reads the prompt, and one that goes on from a cache; or both of these in one. */
#ifndef RUN_PARTS_H
#define RUN_PARTS_H

#include "run/runner.h"

struct parts {
    char encoder[FOLDER_PATH_MAX]; /* "": none */
    char first[FOLDER_PATH_MAX];   /* reads the prompt; "": the decoder does that, too */
    char decoder[FOLDER_PATH_MAX];
};

/* Which they are of the model and encoder that the options name: files, a folder of them, or
 * zoo:NAME. */
int parts_find(struct parts *out, const struct run_options *opt, opm_error *err);

/* Those of a run, opened. */
struct parts_open {
    struct runner encoder, first;
    struct run_options decoder_opt, encoder_opt, first_opt;
    const struct run_options *given;
};

/* Open s and what else its options name; the encoder has its inputs then, and is ready to be run.
 * The options of s are others until parts_close(), which also closes the other parts. */
int parts_open(struct parts_open *p, struct runner *s, opm_error *err);
/* What runner_describe_run() does not say: files, the encoder's inputs. */
void parts_describe(const struct parts_open *p);
void parts_close(struct parts_open *p, struct runner *s); /* after a failure, too */

#endif
