/* gguf.h -- what a GGUF file holds: a model as llama.cpp reads it. Weights are not looked at. */
#ifndef RUN_GGUF_H
#define RUN_GGUF_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

#define GGUF_TYPES_MAX 64

struct gguf_type_sum {
    char name[16];                    /* "q4_0"; "type 77" if it is not known */
    int64_t tensors, elements, bytes; /* bytes -1: not known */
};

/* Numbers are -1 where the file does not say; texts empty. */
struct gguf_file {
    uint32_t version;
    uint64_t facts, tensors;
    char name[128], architecture[64], tokenizer[32];
    int64_t layers, width, inner, heads, kv_heads, context, vocabulary, experts, experts_used;
    int64_t kv_bytes; /* of a token in a cache of fp16 */
    int64_t elements; /* of all tensors */
    int64_t bytes;    /* of them; -1: of some it is not known */
    int64_t missing;  /* bytes that should be there behind the end of the file */
    struct gguf_type_sum type[GGUF_TYPES_MAX]; /* the most bytes first */
    size_t ntype;
};

bool gguf_sniff(const void *head, size_t len);
/* len may be less than the file has, if all but weights is in it; file_bytes is what it has. */
int gguf_read(const void *data, size_t len, uint64_t file_bytes, const char *path,
              struct gguf_file *out, opm_error *err);
int gguf_open(const char *path, struct gguf_file *out, opm_error *err);

#endif
