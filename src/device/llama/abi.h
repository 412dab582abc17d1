/* abi.h -- what we know of llama.cpp and ggml: the functions that are called, and what crosses
 * them.
 *
 * Structures are theirs and change. What of them is needed is looked for and checked when a library
 * is met (library.c); nothing here says where in a tensor anything lies. */
#ifndef DEVICE_LLAMA_ABI_H
#define DEVICE_LLAMA_ABI_H

#include "base/common.h"

/* As llama.cpp's header has it since tokens carry lists of sequences; library.c checks it. */
struct llama_batch {
    int32_t n_tokens;
    const int32_t *token;
    const float *embd;
    const int32_t *pos;
    const int32_t *n_seq_id;
    const int32_t *const *seq_id;
    const int8_t *logits;
};

/* It is passed by value. So that one which has grown reaches the library whole, too, this much of
 * what the caller passed is passed on. */
#define LLAMA_BATCH_ROOM 160
struct llama_batch_room {
    unsigned char bytes[LLAMA_BATCH_ROOM];
};
/* And given back by value, to where there is room. */
struct llama_batch_back {
    unsigned char bytes[1024];
};

struct ggml_init_params {
    size_t mem_size;
    void *mem_buffer;
    bool no_alloc;
};

typedef bool ggml_eval_callback(void *tensor, bool ask, void *user);

#define GGML_F32 0 /* as in GGUF files */
#define GGML_F16 1
#define GGML_DIMS 4
#define GGML_SRC_MAX 10

/* FUNCTION(result, name, parameters): what we call. */
#define GGML_FUNCTIONS(FUNCTION)                                                         \
    FUNCTION(int, ggml_graph_n_nodes, (void *graph))                                     \
    FUNCTION(void *, ggml_graph_node, (void *graph, int i))                              \
    FUNCTION(const char *, ggml_get_name, (const void *tensor))                          \
    FUNCTION(const char *, ggml_op_desc, (const void *tensor))                           \
    FUNCTION(const char *, ggml_type_name, (int type))                                   \
    FUNCTION(size_t, ggml_nbytes, (const void *tensor))                                  \
    FUNCTION(int64_t, ggml_nelements, (const void *tensor))                              \
    FUNCTION(size_t, ggml_tensor_overhead, (void))                                       \
    FUNCTION(void *, ggml_init, (struct ggml_init_params params))                        \
    FUNCTION(void, ggml_free, (void *context))                                           \
    FUNCTION(void *, ggml_new_tensor_4d,                                                 \
             (void *context, int type, int64_t a, int64_t b, int64_t c, int64_t d))      \
    FUNCTION(void *, ggml_mul_mat, (void *context, void *a, void *b))                    \
    FUNCTION(void *, ggml_backend_sched_get_tensor_backend, (void *sched, void *tensor)) \
    FUNCTION(const char *, ggml_backend_name, (void *backend))                           \
    FUNCTION(void, ggml_backend_sched_set_eval_callback,                                 \
             (void *sched, ggml_eval_callback *callback, void *user))                    \
    FUNCTION(int, ggml_backend_sched_graph_compute_async, (void *sched, void *graph))

#define LLAMA_FUNCTIONS(FUNCTION)                                                         \
    FUNCTION(struct llama_batch_back, llama_batch_init, (int tokens, int embd, int seqs)) \
    FUNCTION(void, llama_batch_free, (struct llama_batch_room batch))                     \
    FUNCTION(const void *, llama_get_model, (const void *context))                        \
    FUNCTION(int, llama_model_desc, (const void *model, char *text, size_t size))         \
    FUNCTION(void *, llama_get_memory, (const void *context))                             \
    FUNCTION(bool, llama_memory_seq_rm, (void *memory, int seq, int from, int to))        \
    FUNCTION(int, llama_decode, (void *context, struct llama_batch_room batch))           \
    FUNCTION(void, llama_synchronize, (void *context))                                    \
    FUNCTION(float *, llama_get_logits_ith, (void *context, int i))

#endif
