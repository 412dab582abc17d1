/* files.c -- the names of a recording's files, and creating them.
 *
 * Called in the writer, whose descriptors are its own. Nothing that is there is written over unless
 * base/makeway.h allows it; and what this process itself recorded before it became another program
 * by exec() never makes way. */
#include "rec/rec.h"

#include "base/environment.h"
#include "base/makeway.h"

#include "format/crc32c.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_MAX 10000
#define BEFORE_MAX 400 /* bytes of names that are listed */

char *opm__path_absolute(const char *path)
{
    char *cwd = *path == '/' ? NULL : getcwd(NULL, 0), *out = NULL;

    if (!cwd)
        return strdup(path);
    if (asprintf(&out, "%s/%s", cwd, path) < 0)
        out = NULL;
    free(cwd);
    return out;
}

static char *path_with(const char *path, const char *before_extension, const char *after)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t stem = dot && (!slash || dot > slash + 1) ? (size_t)(dot - path) : strlen(path);
    char *out = NULL;

    if (asprintf(&out, "%.*s%s%s%s", (int)stem, path, before_extension, path + stem, after) < 0)
        return NULL;
    return out;
}

static void path_insert(char **path, const char *before_extension)
{
    char *other = *path ? path_with(*path, before_extension, "") : NULL;

    free(*path);
    *path = other;
}

/* %p becomes the process id. */
static char *path_expand(const char *path)
{
    size_t len = strlen(path), n = 0;
    char *out = malloc(len * 12 + 1);

    for (size_t i = 0; out && i < len; i++) {
        if (path[i] == '%' && path[i + 1] == 'p') {
            n += (size_t)snprintf(out + n, 12, "%d", (int)getpid());
            i++;
        } else {
            out[n++] = path[i];
        }
    }
    if (out)
        out[n] = '\0';
    return out;
}

/* A name without an extension asks for nothing else. */
static bool path_is_opm(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');

    return !dot || dot == name || strcmp(dot, ".opm") == 0;
}

/* An old file of the name makes way, unless a running program is recording into it. */
static bool path_is_taken(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool taken = false;

    if (fd >= 0) {
        taken = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
        close(fd);
    }
    return taken;
}

static bool path_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* Among the parts of one recording nothing makes way: a process that became another program by
 * exec, or a later one of the same number, has its part there. */
static void path_beside_parts(char **path)
{
    const char *parts = environment_get("OPMETER_RECORD_DIR");
    size_t len = parts ? strlen(parts) : 0;
    char *free_path = NULL, number[16];

    if (!parts || strncmp(*path, parts, len) != 0 || (*path)[len] != '/')
        return;
    for (int k = 1; k < NAMES_MAX && path_exists(free_path ? free_path : *path); k++) {
        free(free_path);
        snprintf(number, sizeof(number), "-%d", k);
        free_path = path_with(*path, number, "");
        if (!free_path)
            return;
    }
    if (free_path) {
        free(*path);
        *path = free_path;
    }
}

/* A recording that this very process began and never stopped: it was another program then. One of
 * an earlier process of the same number passes for it, and is kept just so. */
static bool is_earlier_image(const struct recorder *r, const char *path)
{
    struct opm_file_header h;
    struct opm_file_status st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool is = false;

    if (fd < 0)
        return false;
    if (pread(fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h) &&
        pread(fd, &st, sizeof(st), sizeof(h)) == (ssize_t)sizeof(st))
        is = memcmp(h.magic, OPM_FILE_MAGIC, sizeof(h.magic)) == 0 &&
             h.crc == crc32c(&h, offsetof(struct opm_file_header, crc)) && h.pid == r->header.pid &&
             memcmp(h.boot, r->header.boot, sizeof(h.boot)) == 0 && st.state != FILE_CLOSED;
    close(fd);
    return is;
}

static void before_add(struct recorder *r, const char *path)
{
    char *longer = NULL;

    if (!r->before || strlen(r->before) + strlen(path) < BEFORE_MAX) {
        if (asprintf(&longer, "%s%s%s", r->before ? r->before : "", r->before ? ", " : "", path) <
            0)
            return;
        free(r->before);
        r->before = longer;
    }
}

/* NAME-PID.opm, or if that is what we were before, NAME-PID-1.opm and so on. */
static void path_after_exec(struct recorder *r, const char *pid, bool has_pid)
{
    char *base, number[32];
    int k = 1;

    if (!is_earlier_image(r, r->path))
        return;
    if (!has_pid) {
        before_add(r, r->path);
        path_insert(&r->path, pid);
    }
    base = r->path ? strdup(r->path) : NULL;
    for (; base && r->path && k < NAMES_MAX && path_exists(r->path); k++) {
        if (is_earlier_image(r, r->path))
            before_add(r, r->path);
        snprintf(number, sizeof(number), "-%d", k);
        free(r->path);
        r->path = path_with(base, number, "");
    }
    free(base);
}

static int is_foreign(const char *path, opm_error *err)
{
    return opm__fail(err, OPM_EINVAL,
                     "%s: exists and is not a trace of opmeter: nothing is recorded; remove it, or "
                     "set OPMETER_OVERWRITE=1",
                     path);
}

int opm__may_make(const char *path, opm_error *err)
{
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);

    if (environment_overwrite() || (folder && makeway_folder(path)) ||
        (!folder && (makeway_look(path) != MAKEWAY_FOREIGN || makeway_is_made(path))))
        return 0;
    return is_foreign(path, err);
}

/* Have the name free. */
static int make_way(const char *path, opm_error *err)
{
    enum makeway found = makeway_look(path);
    struct stat st;

    if (found == MAKEWAY_SPECIAL)
        return opm__fail(err, OPM_EINVAL, "%s: exists and is not a regular file", path);
    if (found == MAKEWAY_FOREIGN && !environment_overwrite())
        return is_foreign(path, err);
    if (found == MAKEWAY_OURS && !makeway_keep_old(path))
        return opm__fail(err, OPM_EIO, "%s: cannot be kept as %s.old: %s", path, path,
                         errno == EEXIST ? "that exists and is not a trace of opmeter"
                                         : strerror(errno));
    if (lstat(path, &st) == 0)
        unlink(path);
    return 0;
}

static int file_create(struct recorder *r, const char *wanted, bool child, opm_error *err)
{
    char *expanded = path_expand(wanted);
    bool has_pid = false;
    char pid[16];
    int rc;

    snprintf(pid, sizeof(pid), "-%d", (int)getpid());
    if (!expanded)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", wanted);
    r->convert_to = path_is_opm(expanded) ? NULL : opm__path_absolute(expanded);
    r->path = r->convert_to ? path_with(expanded, "", ".opm") : strdup(expanded);
    free(expanded);
    if (r->path && (child || path_is_taken(r->path))) {
        path_insert(&r->path, pid);
        has_pid = true;
    }
    if (r->path)
        path_beside_parts(&r->path);
    if (r->path)
        path_after_exec(r, pid, has_pid);
    r->file_at = r->path ? opm__path_absolute(r->path) : NULL;
    if (!r->file_at || asprintf(&r->live_path, "%s-live", r->file_at) < 0) {
        r->live_path = NULL;
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", wanted);
    }
    rc = r->convert_to ? opm__may_make(r->convert_to, err) : 0;
    if (rc == 0)
        rc = make_way(r->path, err);
    if (rc == 0 && makeway_look(r->live_path) != MAKEWAY_FREE)
        rc = make_way(r->live_path, err);
    else if (rc == 0)
        unlink(r->live_path);
    if (rc)
        return rc;
    rc = opm__own_create(&r->file, r->file_at, opm__file_mode(r));
    return rc ? opm__fail(err, OPM_EIO, "%s: %s", r->path, strerror(rc)) : 0;
}

static void boot_id(uint8_t out[16])
{
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    unsigned n = 0;

    memset(out, 0, 16);
    if (fd < 0)
        return;
    if (read(fd, text, sizeof(text) - 1) > 0) {
        for (const char *p = text; *p && n < 32; p++) {
            int digit = *p >= '0' && *p <= '9'   ? *p - '0'
                        : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10
                                                 : -1;

            if (digit >= 0) {
                /* bounded: 32 digits */
                out[n / 2] |= (uint8_t)(digit << (n % 2 ? 0 : 4));
                n++;
            }
        }
    }
    close(fd);
}

static void header_make(struct recorder *r)
{
    struct opm_file_header *h = &r->header;

    memset(h, 0, sizeof(*h));
    memcpy(h->magic, OPM_FILE_MAGIC, sizeof(h->magic));
    h->version = OPM_RECORDING_VERSION;
    h->header_size = OPM_HEADER_SIZE;
    if (getrandom(h->session, sizeof(h->session), GRND_NONBLOCK) != (ssize_t)sizeof(h->session)) {
        int64_t now[2] = { clock_ns(CLOCK_REALTIME), (int64_t)getpid() };

        memcpy(h->session, now, sizeof(now));
    }
    boot_id(h->boot);
    h->clock_source = opm__clock_source;
    h->pid = (uint32_t)getpid();
    h->start = opm__clock_read();
    h->ticks_per_s = opm__clock_rate;
    h->crc = crc32c(h, offsetof(struct opm_file_header, crc));
}

/* Once the live file is there, and with a status: a file that has a header can be read, however
 * young it is, and says that nothing is lost yet. */
static int header_write(struct recorder *r, opm_error *err)
{
    uint8_t page[OPM_HEADER_SIZE] = { 0 };
    int why;

    memcpy(page, &r->header, sizeof(r->header));
    opm__status_make(r, FILE_RECORDING, page + sizeof(r->header));
    why = opm__own_check(&r->file, NULL) ? opm__own_write(&r->file, page, sizeof(page), 0) : EBADF;
    if (why)
        return opm__fail(err, OPM_EIO, "%s: %s", r->path, strerror(why));
    r->size = sizeof(page);
    return 0;
}

int opm__files_open(struct recorder *r, const char *wanted, bool child, uint64_t live_bytes,
                    opm_error *err)
{
    int rc;

    header_make(r);
    rc = file_create(r, wanted, child, err);
    if (rc == 0)
        rc = opm__live_create(r, live_bytes, err);
    if (rc == 0)
        rc = header_write(r, err);
    return rc;
}

void opm__files_release(struct recorder *r)
{
    free(r->file_at);
    free(r->live_path);
    r->file_at = NULL;
    r->live_path = NULL;
    r->file = r->live = (struct ownfile){ .fd = -1 };
}
