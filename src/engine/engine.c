/* engine.c -- the list of engines. */
#include "engine/engine.h"

#include <string.h>

const struct engine_class *const engines[] = { &engine_native, &engine_ort, NULL };

const struct engine_class *engine_find(const char *name)
{
    for (size_t i = 0; engines[i]; i++)
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    return NULL;
}
