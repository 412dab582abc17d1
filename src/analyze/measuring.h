/* measuring.h -- what recording cost the program that was recorded.
 *
 * The hook of PyTorch measures what it costs to have one operator told (meta torch.op_cost_ns).
 * Where operators are told as texts, that is for one of torch.op_cost_bytes, and each byte more
 * costs torch.op_byte_cost_ns; there were torch.op_ranges of them with torch.op_text_bytes in all.
 * An operator is told before its span begins: that is in the time of the span around it. Other
 * costs are spans. */
#ifndef ANALYZE_MEASURING_H
#define ANALYZE_MEASURING_H

#include "store/store.h"

/* What costs something, as the analysis calls it. */
#define MEASURING_OPERATORS "operators of PyTorch"
#define MEASURING_CUPTI "CUPTI"
#define MEASURING_WRITING "writing"
#define MEASURING_RECORDS "records of CUDA"
#define MEASURING_SPANS "spans"
#define MEASURING_SAMPLES "samples"

/* Of an operator of PyTorch, on average; NaN if nobody measured it. */
double measuring_op_ns(const struct store *st);
/* Does a span of this site have that cost? */
bool measuring_of_site(const struct store *st, const struct site *site);

#endif
