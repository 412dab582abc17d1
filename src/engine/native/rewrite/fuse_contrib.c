/* fuse_contrib.c -- FusedConv and FusedGemm name their activation in an attribute: it is done like
 * one that was a node of its own. */
#include "engine/native/rewrite/fuse_int.h"

#include <string.h>

static const struct {
    const char *name;
    enum isa_unary f;
    float alpha, beta; /* where activation_params leaves them out */
} activations[] = {
    { "Relu", U_RELU, 0, 0 },
    { "Sigmoid", U_SIGMOID, 0, 0 },
    { "Tanh", U_TANH, 0, 0 },
    { "LeakyRelu", U_LEAKY, 0.01f, 0 },
    { "Clip", U_CLIP, -3.4e38f, 3.4e38f },
    { "HardSigmoid", U_HARDSIGMOID, 0.2f, 0.5f },
    { "HardSwish", U_HARDSWISH, 0, 0 },
};

int fuse_contrib(struct fuser *f, struct op *op)
{
    const struct node *n = op->node;
    const char *want = node_attr_str(n, "activation", "");
    const float *params;
    struct post post = { POST_UNARY, U_RELU, 0, 0, -1 };
    size_t count;

    if (op->type || op->npost || strcmp(n->domain, "com.microsoft") != 0 ||
        (strcmp(n->op_type, "FusedConv") != 0 && strcmp(n->op_type, "FusedGemm") != 0))
        return 0;
    if (op->nin > 3 && op->in[3] != NO_VALUE)
        op->post[op->npost++] = (struct post){ POST_ADD, U_RELU, 0, 0, 3 };
    if (!*want)
        return 0;
    params = node_attr_floats(n, "activation_params", &count);
    for (size_t i = 0; i < ARRAY_SIZE(activations); i++) {
        if (strcmp(activations[i].name, want) != 0)
            continue;
        post.unary = activations[i].f;
        post.alpha =
            count > 0 ? params[0] : node_attr_float(n, "activation_alpha", activations[i].alpha);
        post.beta =
            count > 1 ? params[1] : node_attr_float(n, "activation_beta", activations[i].beta);
        op->post[op->npost++] = post;
        return 0;
    }
    return kernel_fail(op, OPM_EUNSUPPORTED, f->err, "no kernel for the activation '%.40s'", want);
}
