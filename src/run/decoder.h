/* decoder.h -- which inputs and outputs of a language model are what, by the names that exporters
 * give (Hugging Face's, ONNX Runtime's): input_ids, attention_mask, position_ids, use_cache_branch,
 * past_key_values.N.key and .value, which come out as present.N.key and .value, or anything else
 * from past... to present... A decoder that listens to an encoder has encoder_hidden_states,
 * encoder_attention_mask, and keys and values of both: past_key_values.N.decoder.key,
 * past_key_values.N.encoder.key and so on. */
#ifndef RUN_DECODER_H
#define RUN_DECODER_H

#include "engine/engine.h"

#define DECODER_NONE SIZE_MAX

/* What comes out of a step and goes into the next. */
struct decoder_cache {
    const char *name; /* of the input */
    size_t in, out;   /* places among inputs and outputs; out may be DECODER_NONE of_encoder */
    int rows;         /* the dimension of the batch: behind keys and values where both are one */
    int axis;         /* of the dimension that counts tokens; unused of a state */
    bool state;       /* of one size, however many tokens: of convolutions, recurrences */
    bool in_place;    /* the model writes new tokens into the past one itself */
    bool of_encoder;  /* made of what the encoder gave by the first step, and kept from then on */
    int64_t room;     /* tokens that the model wants room for, always; 0: as many as there are */
};

struct decoder {
    /* Places among the inputs, or DECODER_NONE. */
    size_t ids, mask, positions, branch;
    size_t place;               /* cache_position: of the new tokens, the same for all rows */
    size_t keep;                /* num_logits_to_keep: of how many tokens logits are wanted */
    size_t before, total, last; /* tokens before the new ones, with them, and one less than that */
    size_t states, states_mask; /* what the encoder gave, and which of it counts */
    size_t logits;              /* among the outputs */
    struct decoder_cache *cache;
    size_t ncache;
    int64_t batch;      /* 0: any */
    int64_t vocabulary; /* 0: not known */
    int64_t longest;    /* positions that it has; 0: no limit is known */
};

/* Fails, in one line, if the model is no decoder with a cache. */
int decoder_find(struct decoder *d, const struct model *m, const struct engine_value *in,
                 size_t nin, const struct engine_value *out, size_t nout, opm_error *err);
/* The same of a model that takes no cache but gives that of `next`, which goes on from there. */
int decoder_find_first(struct decoder *d, const struct decoder *next, const struct model *m,
                       const struct engine_value *in, size_t nin, const struct engine_value *out,
                       size_t nout, opm_error *err);
/* Does it listen to an encoder? */
bool decoder_listens(const struct decoder *d);
void decoder_release(struct decoder *d); /* a zeroed one is fine */

#endif
