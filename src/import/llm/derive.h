/* derive.h -- requests, iterations and tokens of language models, from what programs mark.
 *
 * Iterations are annotations as mark.h knows them, or spans "iteration" of category "llm".
 * Requests, tokens and members of iterations are events (of any length) of category "llm", each
 * with args.request, which names the request: request    it arrives; args tokens_in, cached, model
 *   scheduled  it leaves the queue, the first time or after it was set aside
 *   member     it takes part in the iteration that the event lies in; args phase (prefill, decode),
 *              tokens_in, tokens_out, context
 *   token      args n tokens of it are there (not given: 1)
 *   preempted  it is set aside
 *   finished   args reason
 * docs/llm.md has the definitions. */
#ifndef IMPORT_LLM_DERIVE_H
#define IMPORT_LLM_DERIVE_H

#include "store/store.h"

/* st is finished and nobody else reads it yet. Tables that have rows already are left as they are.
 * 0 or OPM_ENOMEM. */
int llm_derive(struct store *st);

#endif
