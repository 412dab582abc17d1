/* lists.c -- engines and the model zoo, for those who must not know engine/ and graph/. */
#include "run/run.h"

#include "base/error.h"
#include "engine/engine.h"
#include "graph/gguf_write.h"
#include "graph/zoo.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

/* Does the name ask for all of the files that a model is exported as, in this folder? */
static bool wants_folder(const char *name, const char *path)
{
    char known[FOLDER_PATH_MAX];
    size_t n = strlen(path);
    struct stat st;

    snprintf(known, sizeof(known), "%s%s", strncmp(name, "zoo:", 4) == 0 ? "" : "zoo:", name);
    return zoo_takes(known, "part") && !strstr(name, "part=") &&
           !(n >= 5 && strcmp(path + n - 5, ".onnx") == 0) && strcmp(path, "-") != 0 &&
           (stat(path, &st) != 0 || S_ISDIR(st.st_mode));
}

/* As Optimum does: a file for each part, batches open. */
static int write_folder(const char *name, const char *path, opm_error *err)
{
    int rc = run_make_folder(path, err);

    for (size_t i = 0; zoo_parts[i] && !rc; i++) {
        char part[FOLDER_PATH_MAX], file[FOLDER_PATH_MAX];
        bool has = strchr(name, '?'), batch = strstr(name, "batch=");
        int a = snprintf(part, sizeof(part), "%s%spart=%s%s", name, has ? "&" : "?", zoo_parts[i],
                         batch ? "" : "&batch=batch_size"),
            b = snprintf(file, sizeof(file), "%s/%s.onnx", path, zoo_parts[i]);

        if (a >= (int)sizeof(part) || b >= (int)sizeof(file))
            return opm__fail(err, OPM_EINVAL, "%.200s: the path is too long", path);
        rc = zoo_write(part, file, err);
    }
    return rc;
}

int run_zoo_write(const char *name, const char *path, opm_error *err)
{
    size_t n = strlen(path);

    if (wants_folder(name, path))
        return write_folder(name, path, err);

    if (n >= 5 && strcmp(path + n - 5, ".gguf") == 0)
        return gguf_zoo_write(name, path, err);
    return zoo_write(name, path, err);
}
