/* onnx_extern.c -- tensors whose bytes lie in a file beside the model.
 *
 * The model names the file, and a model may come from anywhere: it must not be able to make us read
 * another user's files. So the name is relative, has no "..", and where it really leads, links
 * followed, is inside the model's folder. */
#include "base/alloc.h"
#include "graph/onnx_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAPS_MAX 4096

/* Why the location is not acceptable whatever the disk holds, or NULL. */
static const char *bad_location(const char *s, size_t len)
{
    const char *p = s;

    if (len == 0)
        return "has no location";
    if (strlen(s) != len)
        return "has a location with a NUL in it";
    if (len >= PATH_MAX)
        return "has a location that is too long";
    if (s[0] == '/')
        return "has an absolute location; only files beside the model are read";
    while (p) {
        if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || p[2] == '\0'))
            return "has a location with '..'; only files beside the model are read";
        p = strchr(p, '/');
        p = p ? p + 1 : NULL;
    }
    return NULL;
}

/* Open dir/location if it is a regular file really inside dir; -1 after ld->err was filled. */
static int open_inside(struct loader *ld, const char *what, const char *location)
{
    char dir[PATH_MAX], path[PATH_MAX], real[PATH_MAX];
    size_t n;
    struct stat st;
    int fd;

    if (!realpath(ld->dir, dir)) {
        ld_fail(ld, OPM_EIO, "%s: folder %.100s: %s", what, ld->dir, strerror(errno));
        return -1;
    }
    n = strlen(dir);
    if (n + 1 + strlen(location) >= sizeof(path)) {
        ld_fail(ld, OPM_EIO, "%s: external data '%.100s': %s", what, location,
                strerror(ENAMETOOLONG));
        return -1;
    }
    memcpy(path, dir, n);
    path[n] = '/';
    memcpy(path + n + 1, location, strlen(location) + 1);
    if (!realpath(path, real)) {
        ld_fail(ld, OPM_EIO, "%s: external data '%.100s': %s", what, location, strerror(errno));
        return -1;
    }
    if (n > 1 && (strncmp(real, dir, n) != 0 || real[n] != '/')) {
        ld_fail(ld, OPM_EFORMAT, "%s: external data '%.100s' is a link out of the model's folder",
                what, location);
        return -1;
    }
    fd = open(real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        ld_fail(ld, OPM_EIO, "%s: external data '%.100s': %s", what, location, strerror(errno));
        return -1;
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        ld_fail(ld, OPM_EFORMAT, "%s: external data '%.100s' is not a regular file", what,
                location);
        close(fd);
        return -1;
    }
    return fd;
}

static int map_file(struct loader *ld, const char *what, const char *location,
                    struct model_map *out)
{
    struct stat st = { 0 };
    void *p = NULL;
    int rc = 0, fd = open_inside(ld, what, location);

    if (fd < 0)
        return ld->err->code;
    if (fstat(fd, &st) < 0)
        rc = ld_fail(ld, OPM_EIO, "external data '%.100s': %s", location, strerror(errno));
    else if (st.st_size > 0) {
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            rc = ld_fail(ld, OPM_EIO, "external data '%.100s': %s", location, strerror(errno));
    }
    close(fd); /* the mapping keeps the file */
    if (!rc)
        *out = (struct model_map){ location, p ? p : (const uint8_t *)"", (size_t)st.st_size };
    return rc;
}

int ld_extern(struct loader *ld, const char *what, const char *location, size_t len,
              uint64_t offset, uint64_t bytes, const uint8_t **out)
{
    struct model_impl *impl = ld->impl;
    const char *why = bad_location(location, len);
    struct model_map map = { 0 };
    int rc;

    if (why)
        return ld_fail(ld, OPM_EFORMAT, "%s: its external data %s", what, why);
    if (!ld->dir)
        return ld_fail(ld, OPM_EUNSUPPORTED,
                       "%s: its data is in the file '%.100s', and the model is not from a folder",
                       what, location);
    for (size_t i = 0; i < impl->nmap; i++)
        if (strcmp(impl->map[i].location, location) == 0)
            map = impl->map[i];
    if (!map.location) {
        if (impl->nmap == MAPS_MAX)
            return ld_fail(ld, OPM_ELIMIT, "more than %d external data files", MAPS_MAX);
        if (!GROW(impl->map, impl->map_cap, impl->nmap + 1))
            return ld_nomem(ld);
        rc = map_file(ld, what, location, &map);
        if (rc)
            return rc;
        impl->map[impl->nmap++] = map;
        ld->m->extern_bytes += map.len;
    }
    if (offset > map.len || bytes > map.len - offset)
        return ld_fail(ld, OPM_ETRUNC,
                       "%s: wants %llu bytes at %llu of '%.100s', which has only %zu", what,
                       (unsigned long long)bytes, (unsigned long long)offset, location, map.len);
    *out = map.data + offset;
    return 0;
}
