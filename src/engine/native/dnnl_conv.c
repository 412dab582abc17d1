/* dnnl_conv.c -- see dnnl_conv.h. */
#include "engine/native/dnnl_conv.h"

bool dnnl_conv_usable(const struct op *op)
{
    (void)op;
    return false;
}

int dnnl_conv_prepare(struct dnnl_conv **d, struct op *op, const struct conv *c, opm_error *err)
{
    (void)d;
    (void)op;
    (void)c;
    (void)err;
    return NEED_DATA;
}

int dnnl_conv_run(struct dnnl_conv *d, struct op *op, opm_error *err)
{
    (void)d;
    return kop_fail(op, OPM_EUNSUPPORTED, err, "this build has no oneDNN");
}

void dnnl_conv_free(struct dnnl_conv *d)
{
    (void)d;
}
