/* folder_walk.c -- see folder_walk.h. */
#include "server/folder_walk.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include <opmeter/opmeter_trace.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUMMARY "neural-engine" /* sums up what a file of the next format tells in full */
#define IN_FULL "neural-engine-trace"

struct item {
    char *path;
    const char *format;
};

struct walk {
    const char *resolved;
    struct item *item;
    size_t n, cap;
    size_t entries;
};

bool folder_holds(const char *folder, const char *file)
{
    size_t len = strlen(folder);

    if (strcmp(folder, "/") == 0)
        return true;
    return strncmp(folder, file, len) == 0 && (file[len] == '/' || !file[len]);
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

/* A link is followed to a file inside the folder only, and never to another folder. */
static bool may_look(const struct walk *w, const char *path, struct stat *st)
{
    char *resolved;
    bool inside;

    if (lstat(path, st) < 0)
        return false;
    if (!S_ISLNK(st->st_mode))
        return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode);
    resolved = realpath(path, NULL);
    inside = resolved && folder_holds(w->resolved, resolved) && stat(resolved, st) == 0 &&
             S_ISREG(st->st_mode);
    free(resolved);
    return inside;
}

static int keep(struct walk *w, const char *path, const char *format, opm_error *err)
{
    char *own = mem_strdup(path);

    if (!own || !GROW(w->item, w->cap, w->n + 1)) {
        mem_free(own);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    w->item[w->n++] = (struct item){ own, format };
    return 0;
}

static int walk_folder(struct walk *w, const char *path, int depth, opm_error *err);

static int look_at(struct walk *w, const char *path, bool beside_recording, int depth,
                   opm_error *err)
{
    const char *format;
    struct stat st;

    if (!may_look(w, path, &st))
        return 0;
    if (S_ISREG(st.st_mode) && beside_recording && !ends_with(path, ".opm"))
        return 0;
    format = opm_trace_detect(path);
    if (format)
        return keep(w, path, format, err);
    if (S_ISDIR(st.st_mode) && depth < FOLDER_DEPTH_MAX)
        return walk_folder(w, path, depth + 1, err);
    return 0;
}

static int walk_folder(struct walk *w, const char *path, int depth, opm_error *err)
{
    struct dirent **entry;
    struct buf name = { 0 };
    bool recording;
    int rc = 0, n;

    buf_addf(&name, "%s/trace.opm", path);
    recording = !name.failed && access(buf_str(&name), F_OK) == 0;
    n = scandir(path, &entry, visible, by_name);
    for (int i = 0; i < n; i++) {
        if (rc == 0 && w->entries++ < FOLDER_ENTRIES_MAX) {
            buf_clear(&name);
            buf_addf(&name, "%s/%s", path, entry[i]->d_name);
            rc = name.failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                             : look_at(w, buf_str(&name), recording, depth, err);
        }
        free(entry[i]); /* scandir() allocated it */
    }
    if (n >= 0)
        free(entry);
    buf_release(&name);
    return rc;
}

/* Length of the path up to the last '/' before `end`. */
static size_t up(const char *path, size_t end)
{
    while (end && path[--end] != '/')
        ;
    return end;
}

/* The same name without extension, in one folder or in two beside each other. */
static bool is_same_run(const char *a, const char *b)
{
    size_t da = up(a, strlen(a)), db = up(b, strlen(b));
    const char *x = a + da, *y = b + db;
    size_t n = strcspn(x, "."), m = strcspn(y, ".");

    if (n != m || memcmp(x, y, n) != 0)
        return false;
    if (da == db && memcmp(a, b, da) == 0)
        return true;
    return up(a, da) == up(b, db) && memcmp(a, b, up(a, da)) == 0;
}

/* The other file of a run, or NULL. */
static const char *other_of(const struct walk *w, const struct item *of, const char *format)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->item[i].format, format) == 0 && is_same_run(w->item[i].path, of->path))
            return w->item[i].path;
    return NULL;
}

int folder_walk(const char *path, const char *resolved,
                int (*found)(void *user, const char *path, const char *beside, const char *format,
                             opm_error *err),
                void *user, bool *cut, opm_error *err)
{
    struct walk w = { .resolved = resolved };
    int rc = walk_folder(&w, path, 0, err);

    for (size_t i = 0; i < w.n && rc == 0; i++) {
        const struct item *it = &w.item[i];
        const char *beside = NULL;

        if (strcmp(it->format, SUMMARY) == 0 && other_of(&w, it, IN_FULL))
            continue;
        if (strcmp(it->format, IN_FULL) == 0)
            beside = other_of(&w, it, SUMMARY);
        rc = found(user, it->path, beside, it->format, err);
    }
    *cut |= w.entries > FOLDER_ENTRIES_MAX;
    for (size_t i = 0; i < w.n; i++)
        mem_free(w.item[i].path);
    mem_free(w.item);
    return rc;
}
