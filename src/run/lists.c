/* lists.c -- engines and the model zoo, for those who must not know engine/ and graph/. */
#include "run/run.h"

#include "engine/engine.h"
#include "graph/gguf_write.h"
#include "graph/zoo.h"

#include <string.h>

/* False past the end. */
static bool engine_exists(size_t i)
{
    for (size_t k = 0; k <= i; k++)
        if (!engines[k])
            return false;
    return true;
}

const char *run_engine_name(size_t i)
{
    return engine_exists(i) ? engines[i]->name : NULL;
}

const char *run_engine_doc(size_t i)
{
    return engine_exists(i) ? engines[i]->doc : NULL;
}

bool run_zoo_entry(size_t i, struct run_zoo_entry *out)
{
    size_t n;
    const struct zoo_entry *e = zoo_list(&n);

    if (i >= n)
        return false;
    *out = (struct run_zoo_entry){ e[i].name, e[i].about, e[i].options };
    return true;
}

int run_zoo_write(const char *name, const char *path, opm_error *err)
{
    size_t n = strlen(path);

    if (n >= 5 && strcmp(path + n - 5, ".gguf") == 0)
        return gguf_zoo_write(name, path, err);
    return zoo_write(name, path, err);
}
