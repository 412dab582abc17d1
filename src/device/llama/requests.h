/* requests.h -- what a program does with sequences of llama.cpp, told as requests and tokens.
 *
 * llama.cpp knows sequences of tokens, not requests: what is decoded for a sequence up to its first
 * output is a prompt, what comes of it then one by one are tokens, and more than that at once,
 * or a position that was there before, is the prompt of the next request. So:
 *
 *   a request arrives when the first of its prompt is decoded; a queue before that is not seen.
 *   a token is there when it was sampled; a program that samples by itself takes the logits, and
 *   its token is there when it goes on.
 *   cached is the position at which a prompt begins: what is before was decoded earlier.
 *
 * Several tokens of a sequence at once that all have outputs are a draft being verified, and those
 * outputs that the program takes are tokens. One thread uses a context at a time; different ones
 * may be used at once. */
#ifndef DEVICE_LLAMA_REQUESTS_H
#define DEVICE_LLAMA_REQUESTS_H

#include "device/llama/abi.h"

#include <opmeter/opmeter.h>

/* A context was met, or nothing happens. model may be NULL. */
void requests_context(const void *context, const void *memory, const char *model);
/* Before a batch is decoded: its iteration has begun when this returns. warmup: it has none. */
struct requests_batch {
    opm_span step, iteration;
    int64_t context; /* the longest of its sequences, -1: not known */
    bool open;
};
struct requests_batch requests_decode(const void *context, const struct llama_batch *batch);
/* Behind it; done: it succeeded. */
void requests_decoded(const void *context, struct requests_batch b, bool done);

/* The program looks at the output of a row of the last batch: negative counts from the end. */
void requests_output(const void *context, int row);
void requests_outputs(const void *context); /* of all rows */
void requests_sampled(void);                /* what this thread looked at last is a token now */
void requests_waited(const void *context);  /* the last batch is done, whether looked at or not */

/* Positions from..to are forgotten (negative: from the start, to the end) of a sequence (negative:
 * of all); or moved. */
void requests_forget(const void *memory, int seq, int from, int to);
void requests_move(const void *memory, int seq, int from, int to, int by);
void requests_keep(const void *memory, int seq); /* the others are forgotten */
void requests_warmup(const void *context, bool on);
void requests_free(const void *context);
void requests_end(void); /* of all contexts */

#endif
