/* mark.h -- what serving programs and loops call an iteration of their scheduler. */
#ifndef IMPORT_LLM_MARK_H
#define IMPORT_LLM_MARK_H

#include "base/common.h"

/* What is not said is -1. */
struct llm_mark {
    int64_t num;               /* number of the iteration */
    int64_t prefills, decodes; /* requests in it that read their prompt, that make a token */
    int64_t prefill_tokens;    /* tokens of prompts that go in */
    int64_t decode_tokens;     /* tokens that go in for requests that make tokens */
    int64_t context;           /* tokens that all its requests attend to, these included */
    bool plain; /* a word that other programs use as well, as of pictures that they decode */
};

/* Of an annotation. True: it is one of
 *   execute_context_1(128)_generation_3(3)                      vLLM
 *   execute_131_context_1(sq128sk128..)_generation_3(sq3sk90..) vLLM, with lengths of contexts
 *   step[DECODE bs=32], step[EXTEND bs=2 toks=512]              SGLang
 *   [Executor] _forward_step 7: 1 ctx reqs, 128 ctx tokens, 3 gen reqs       TensorRT-LLM
 *   prefill, decode, decode 12, prefill[bs=2 tokens=512 context=512]         loops of PyTorch */
bool llm_mark_read(const char *name, struct llm_mark *out);

#endif
