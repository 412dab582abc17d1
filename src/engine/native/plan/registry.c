/* registry.c -- which kernel executes which operator; the table is kernels.def. */
#include "engine/native/op/elementwise.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <string.h>

static const struct kernel table[] = {
#define K(type, domain, min, max, name, flags, arg, raw) \
    { #type, domain, min, max, name##_prepare, name##_run, flags, arg, raw },
#include "engine/native/op/kernels.def"
#undef K
};

const struct kernel *kernel_find(const char *op_type, const char *domain, int opset)
{
    if (strcmp(domain, "ai.onnx") == 0)
        domain = "";
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (strcmp(table[i].op_type, op_type) == 0 && strcmp(table[i].domain, domain) == 0 &&
            opset >= table[i].min && (table[i].max == 0 || opset <= table[i].max))
            return &table[i];
    return NULL;
}
