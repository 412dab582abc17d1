/* iterations.h -- how many measured iterations stand behind the executions of an operator. */
#ifndef ANALYZE_ITERATIONS_H
#define ANALYZE_ITERATIONS_H

#include "store/store.h"

/* out[op]: steps that ended and are no warm-up, of the thread whose steps the operator runs in; 0
 * if it runs in none. Conditional operators thus count the iterations without them, too. out has a
 * place for every op. 0 or OPM_ENOMEM. */
int op_iterations(const struct store *st, int64_t *out);

/* Such steps of all threads whose steps operators run in, or of all threads where they run in none;
 * OPM_NULL_I64 if there are none, or of several models. 0 or OPM_ENOMEM. */
int trace_iterations(const struct store *st, int64_t *out);

#endif
