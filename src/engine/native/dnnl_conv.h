/* dnnl_conv.h -- convolutions by oneDNN, if the build has it. All that knows oneDNN is in
 * dnnl_conv.c. */
#ifndef NATIVE_DNNL_CONV_H
#define NATIVE_DNNL_CONV_H

#include "engine/native/conv.h"

struct dnnl_conv;

/* Worth trying for this operator; OPMETER_DNNL=0 in the environment says no (for tests). */
bool dnnl_conv_usable(const struct op *op);
/* Make or remake *d for c's geometry; weights are reordered once. 0, NEED_DATA: oneDNN cannot do
 * it, or an error. */
int dnnl_conv_prepare(struct dnnl_conv **d, struct op *op, const struct conv *c, opm_error *err);
int dnnl_conv_run(struct dnnl_conv *d, struct op *op, opm_error *err);
void dnnl_conv_free(struct dnnl_conv *d); /* NULL is fine */

#endif
