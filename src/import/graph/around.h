/* around.h -- what the spans around one say of it: its operator, the tokens of its iteration.
 *
 * Of finished spans; parent: the span around each, of the store's, NULL: none is known. */
#ifndef IMPORT_GRAPH_AROUND_H
#define IMPORT_GRAPH_AROUND_H

#include "store/store.h"

/* That of the row itself or the nearest around it; OPM_NULL_ID: none. */
uint32_t around_op(const struct store *st, const uint32_t *parent, uint32_t row);
/* Tokens in the iteration around a launch, as an annotation says them; -1: not known. */
int64_t around_tokens(const struct store *st, const uint32_t *parent, uint32_t row);

#endif
