/* mark.h -- what serving programs and loops call an iteration of their scheduler. */
#ifndef IMPORT_LLM_MARK_H
#define IMPORT_LLM_MARK_H

#include "base/common.h"

/* What is not said is -1. */
struct llm_mark {
    int64_t num;               /* number of the iteration */
    int64_t batch;             /* requests in it */
    int64_t prefills, decodes; /* of which so many read their prompt, so many make a token */
    int64_t tokens_in;         /* tokens that go in for all of them */
    int64_t tokens_out;        /* tokens that come out */
    int64_t context;           /* tokens that all its requests attend to, these included */
    bool plain; /* a word that other programs use as well, as of pictures that they decode */
};

/* Of an annotation. True: it is one of
 *   execute_context_1(128)_generation_3(3)                      vLLM
 *   execute_131_context_1(sq128sk128..)_generation_3(sq3sk90..) vLLM, with lengths of contexts
 *   execute_new_1_cached_3                                      vLLM up to 0.12
 *   step[DECODE bs=32], step[EXTEND bs=2 toks=512]              SGLang
 *   step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 .. g_sq=1 g_sk=12 ..] SGLang, with lengths of contexts
 *   decode[bs=30/32 tok=33 p=1 d=29], prefill[bs=2 tok=96 ctx=[64, 32]]      ATOM
 *   [Executor] _forward_step 7: 1 ctx reqs, 128 ctx tokens, 3 gen reqs       TensorRT-LLM
 *   prefill, decode, decode 12, prefill[bs=2 tokens=512 context=512]         loops of PyTorch */
bool llm_mark_read(const char *name, struct llm_mark *out);

#endif
