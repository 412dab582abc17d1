/* trace_file.c -- see trace_file.h. */
#include "server/trace_file.h"

#include "base/buf.h"
#include "base/error.h"
#include "server/folder_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER_FILES_MAX 2000 /* of a folder that is one profile */

uint64_t trace_hash(uint64_t h, const void *p, size_t len)
{
    const uint8_t *b = p;

    for (size_t i = 0; i < len; i++)
        h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_stat(uint64_t h, const struct stat *st)
{
    h = trace_hash(h, &st->st_ino, sizeof(st->st_ino));
    h = trace_hash(h, &st->st_size, sizeof(st->st_size));
    return trace_hash(h, &st->st_mtim, sizeof(st->st_mtim));
}

/* Of a folder the files count, too: one that is written anew does not change the folder. Their
 * order is the file system's, so that they are summed. */
static uint64_t hash_folder(uint64_t h, const char *path)
{
    DIR *dir = opendir(path);
    struct stat st;

    for (size_t n = 0; dir && n < FOLDER_FILES_MAX; n++) {
        const struct dirent *e = readdir(dir);

        if (!e)
            break;
        if (fstatat(dirfd(dir), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            h += hash_stat(TRACE_HASH_INIT, &st);
    }
    if (dir)
        closedir(dir);
    return h;
}

size_t trace_file_paths(struct trace_file *f, const char *out[TRACE_FILE_PATHS])
{
    out[0] = f->path;
    out[1] = atomic_load(&f->beside);
    return out[1] && access(out[1], F_OK) == 0 ? 2 : 1;
}

static bool is_inside(const char *path, const char *within)
{
    char *resolved = realpath(path, NULL);
    bool inside = resolved && folder_holds(within, resolved);

    free(resolved);
    return inside;
}

int trace_file_look(struct trace_file *f, struct trace_file_state *out, opm_error *err)
{
    const char *path[TRACE_FILE_PATHS];
    size_t n = trace_file_paths(f, path);
    struct buf live = { 0 };
    struct stat st;

    *out = (struct trace_file_state){ 0 };
    if (stat(f->path, &out->st) < 0)
        return opm__fail(err, OPM_EIO, "%s: %s", f->shown,
                         errno == ENOENT || errno == ENOTDIR
                             ? "the file is no longer there; it was deleted or moved"
                             : strerror(errno));
    for (size_t i = 0; i < n; i++)
        if (f->within && !is_inside(path[i], f->within))
            return opm__fail(err, OPM_EIO, "%s: a link that leads out of the folder", f->shown);
    out->stamp = hash_stat(TRACE_HASH_INIT, &out->st);
    if (S_ISDIR(out->st.st_mode))
        out->stamp = hash_folder(out->stamp, f->path);
    if (n > 1 && stat(path[1], &st) == 0)
        out->stamp = hash_stat(out->stamp, &st);
    buf_addf(&live, "%s-live", f->path);
    if (!live.failed && stat(buf_str(&live), &st) == 0) {
        out->stamp = hash_stat(out->stamp, &st);
        out->live = true;
    }
    buf_release(&live);
    return 0;
}
