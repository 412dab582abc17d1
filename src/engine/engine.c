/* engine.c -- the list of engines. */
#include "engine/engine.h"

#include <string.h>

const struct engine_class *const engines[] = { &engine_native, &engine_ort, NULL };

int64_t engine_bytes(const struct shape *s, enum tensor_type t)
{
    int64_t n;

    if (t != TENSOR_STRING)
        return shape_bytes(s, t);
    n = shape_count(s);
    if (n < 0 || __builtin_mul_overflow(n, (int64_t)sizeof(struct tensor_string), &n))
        return -1;
    return n;
}

const struct engine_class *engine_find(const char *name)
{
    for (size_t i = 0; engines[i]; i++)
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    return NULL;
}
