/* registry.c -- which kernel executes which operator; the table is kernels.def. */
#include "engine/native/op/elementwise.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <string.h>

#define CONST_IN(i) (1u << (i))

static const struct kernel table[] = {
#define OPERATOR(type, domain, min, max, name, flags, arg, raw) \
    { KERNEL_##name, #type, domain, min, max, name##_prepare, name##_run, flags, arg, raw },
#define FORM(name, flags, arg, raw) \
    { KERNEL_##name, NULL, NULL, 0, 0, name##_prepare, name##_run, flags, arg, raw },
#include "engine/native/kernels.def"
};

const struct kernel *kernel_find(const char *op_type, const char *domain, int opset)
{
    if (strcmp(domain, "ai.onnx") == 0)
        domain = "";
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (table[i].op_type && strcmp(table[i].op_type, op_type) == 0 &&
            strcmp(table[i].domain, domain) == 0 && opset >= table[i].min &&
            (table[i].max == 0 || opset <= table[i].max))
            return &table[i];
    return NULL;
}

const struct kernel *kernel_form(enum kernel_kind kind, int arg)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (table[i].kind == kind && table[i].arg == arg)
            return &table[i];
    return NULL;
}
