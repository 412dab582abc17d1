/* mock_llama.h -- the functions of llama.cpp that programs and tests/device/mock_llama.c share. */
#ifndef TESTS_MOCK_LLAMA_H
#define TESTS_MOCK_LLAMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if LAYOUT == 4
struct llama_batch {
    int8_t *logits;
    int32_t **seq_id;
    int32_t *n_seq_id, *pos;
    float *embd;
    int32_t *token;
    int64_t n_tokens;
};
#else
struct llama_batch {
    int32_t n_tokens;
    int32_t *token;
    float *embd;
    int32_t *pos;
    int32_t *n_seq_id;
    int32_t **seq_id;
    int8_t *logits;
#if LAYOUT == 2 /* it has grown */
    int64_t marks[4];
#endif
};
#endif

typedef bool eval_callback(void *tensor, bool ask, void *user);

void *mock_context(void); /* for llama_init_from_model() and all that it takes */
void mock_fail_next(void);
void mock_eval_callback(void *context, eval_callback *callback, void *user);
int64_t mock_marks(void); /* of the last batch */

struct llama_batch llama_batch_init(int32_t tokens, int32_t embd, int32_t seqs);
struct llama_batch llama_batch_get_one(int32_t *token, int32_t n);
void llama_batch_free(struct llama_batch batch);
int32_t llama_decode(void *context, struct llama_batch batch);
int32_t llama_encode(void *context, struct llama_batch batch);
void llama_synchronize(void *context);
void llama_free(void *context);
void llama_set_warmup(void *context, bool on);
float *llama_get_logits(void *context);
float *llama_get_logits_ith(void *context, int32_t i);
int32_t llama_sampler_sample(void *sampler, void *context, int32_t i);
void llama_sampler_accept(void *sampler, int32_t token);
void *llama_get_memory(const void *context);
void llama_memory_clear(void *memory, bool data);
bool llama_memory_seq_rm(void *memory, int32_t seq, int32_t from, int32_t to);

#endif
