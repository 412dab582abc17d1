/* decoder.h -- which inputs and outputs of a language model are what, by the names that Hugging
 * Face's exporters give: input_ids, attention_mask, position_ids, use_cache_branch,
 * past_key_values.N.key and .value, which come out as present.N.key and .value. */
#ifndef RUN_DECODER_H
#define RUN_DECODER_H

#include "engine/engine.h"

#define DECODER_NONE SIZE_MAX

/* What comes out of a step and goes into the next. */
struct decoder_cache {
    size_t in, out; /* places among inputs and outputs */
    int axis;       /* of the dimension that counts tokens */
    bool in_place;  /* the model writes new tokens into the past one itself */
    int64_t room;   /* tokens that the model wants room for, always; 0: as many as there are */
};

struct decoder {
    /* Places among the inputs, or DECODER_NONE. */
    size_t ids, mask, positions, branch;
    size_t logits; /* among the outputs */
    struct decoder_cache *cache;
    size_t ncache;
    int64_t batch;      /* 0: any */
    int64_t vocabulary; /* 0: not known */
    int64_t longest;    /* positions that it has; 0: no limit is known */
};

/* Fails, in one line, if the model is no decoder with a cache. */
int decoder_find(struct decoder *d, const struct model *m, const struct engine_value *in,
                 size_t nin, const struct engine_value *out, size_t nout, opm_error *err);
void decoder_release(struct decoder *d); /* a zeroed one is fine */

#endif
