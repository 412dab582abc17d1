/* generate_int.h -- what the files of generate.h share. */
#ifndef RUN_GENERATE_INT_H
#define RUN_GENERATE_INT_H

#include "run/decoder.h"
#include "run/generate.h"
#include "run/pick.h"

enum { BARE, METERED };

struct times {
    struct run_times encoder, ttft, itl;
    double prefill_ns, decode_ns, prefill_tokens, decode_tokens;
};

/* A decoder and its inputs. Often one reads the prompt and goes on from there; of those that are
 * exported as two files each does one of both. */
struct side {
    struct runner *s;
    struct decoder d;
    struct engine_tensor *in;
};

struct generator {
    struct runner *s, *encoder;  /* encoder NULL: none */
    struct side next, other;     /* other.s NULL: next reads the prompt, too */
    struct engine_tensor states; /* what the encoder gives */
    size_t states_at;            /* among its outputs */
    bool bound_states;
    int64_t encoder_ns; /* of its last run */
    int64_t heard;      /* positions that the encoder gives for each row */
    struct picker *picker;
    struct pick_options pick;
    int64_t batch, prompt, tokens, room; /* room: tokens that the cache has room for */
    int64_t *prompt_id;                  /* batch rows of `prompt` */
    int64_t *made;                       /* batch rows of `tokens` */
    int64_t done; /* of which so many are known: all, unless it was stopped */
    char *memory; /* all of the inputs, both buffers of what is cached */
    size_t memory_bytes, held_bytes;
    char **buffer[2]; /* of each cache */
    char *nothing;    /* what inputs without elements point to */
    int64_t texts;    /* begun, for names */
    bool told;        /* this one is in the trace: no warm-up */
    int64_t steps;
    struct times times[2];
};

/* -- generate_inputs.c -- */

/* Who reads what is behind so many tokens. */
struct side *generate_side(struct generator *g, int64_t past);
/* The type that the engine computes with. */
enum tensor_type generate_own_type(const struct generator *g, enum tensor_type t);
/* What a cache is with so many tokens in it. */
void generate_cache(const struct generator *g, const struct decoder_cache *c, int64_t tokens,
                    char *data, struct engine_tensor *t);
/* Memory for inputs and all that is cached; sizes are known by now. */
int generate_memory(struct generator *g, opm_error *err);
/* Inputs and outputs of a step that reads `count` tokens behind `past` ones. */
int generate_inputs(struct generator *g, int64_t past, int64_t count, opm_error *err);

#endif
