/* dropped.c -- see dropped.h. */
#include "server/dropped.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/environment.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NAME_BYTES_MAX 120
#define GIB ((uint64_t)1 << 30)

const struct dropped_limits dropped_default = {
    .file = 4 * GIB,
    .all = 16 * GIB,
    .at_once = 4,
    .of_free = 2,
};

struct kept {
    char *path; /* of the file, in a folder of its own */
    uint64_t bytes;
};

struct dropped {
    const struct dropped_limits *limits;
    pthread_mutex_t mutex;
    struct buf folder; /* empty until the first file comes */
    uint64_t bytes;    /* of all files, those that are coming in included */
    size_t coming;
    uint64_t numbered; /* folders so far */
    struct kept *kept;
    size_t n, cap;
};

struct drop {
    struct dropped *of;
    struct buf path;
    size_t shown_from;
    uint64_t bytes;
    int fd;
};

int dropped_new(struct dropped **out, const struct dropped_limits *limits, opm_error *err)
{
    struct dropped *d = mem_calloc(1, sizeof(*d));

    if (!d)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    d->limits = limits;
    pthread_mutex_init(&d->mutex, NULL);
    *out = d;
    return 0;
}

/* The file and the folder around it; the name is cut off the path. Needs no memory. */
static void remove_file(char *path)
{
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

void dropped_free(struct dropped *d)
{
    if (!d)
        return;
    assert(!d->coming);
    for (size_t i = 0; i < d->n; i++) {
        if (d->kept[i].bytes != DROP_LENGTH_UNKNOWN)
            remove_file(d->kept[i].path);
        mem_free(d->kept[i].path);
    }
    if (d->folder.len)
        rmdir(buf_str(&d->folder));
    buf_release(&d->folder);
    mem_free(d->kept);
    pthread_mutex_destroy(&d->mutex);
    mem_free(d);
}

/* With the mutex held. */
static int need_folder(struct dropped *d, opm_error *err)
{
    const char *tmp = environment_get("TMPDIR");
    int rc = 0;

    if (d->folder.len)
        return 0;
    buf_addf(&d->folder, "%s/opmeter-drop-XXXXXX", tmp ? tmp : "/tmp");
    if (d->folder.failed)
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    else if (!mkdtemp(d->folder.data))
        rc = opm__fail(err, OPM_EIO, "%s: %s", buf_str(&d->folder), strerror(errno));
    if (rc < 0)
        buf_clear(&d->folder);
    return rc;
}

/* With the mutex held. So many bytes more, all together. */
static int check_room(const struct dropped *d, const char *name, uint64_t more, opm_error *err)
{
    struct statvfs fs;

    if (more > d->limits->all - MIN(d->bytes, d->limits->all))
        return opm__fail(err, OPM_ELIMIT,
                         "%.100s: the files dropped here would be more than %" PRIu64
                         " bytes together; 'opmeter serve' opens it where it lies",
                         name, d->limits->all);
    if (statvfs(buf_str(&d->folder), &fs) == 0 &&
        more > (uint64_t)fs.f_bavail * fs.f_frsize / d->limits->of_free)
        return opm__fail(err, OPM_ELIMIT,
                         "%.100s: there is no room for a copy of it in %s; 'opmeter serve' opens "
                         "it where it lies",
                         name, buf_str(&d->folder));
    return 0;
}

/* With the mutex held. */
static int admit(struct dropped *d, const char *name, uint64_t length, opm_error *err)
{
    int rc;

    if (d->coming >= d->limits->at_once)
        return opm__fail(err, OPM_EBUSY, "other files are coming in; try again");
    if (length != DROP_LENGTH_UNKNOWN && length > d->limits->file)
        return opm__fail(err, OPM_ELIMIT,
                         "%.100s has more than %" PRIu64
                         " bytes; 'opmeter serve' opens it where it lies",
                         name, d->limits->file);
    rc = need_folder(d, err);
    if (rc == 0)
        rc = check_room(d, name, length == DROP_LENGTH_UNKNOWN ? 0 : length, err);
    return rc;
}

/* The end of a long name tells the format. What is left is no path, nothing hidden, and can be
 * printed. */
static void add_name(struct buf *out, const char *name)
{
    size_t len = strlen(name);
    const char *from = len > NAME_BYTES_MAX ? name + len - NAME_BYTES_MAX : name;

    while (((unsigned char)*from & 0xc0) == 0x80) /* within a character of UTF-8 */
        from++;
    for (const char *c = from; *c; c++) {
        bool plain = (unsigned char)*c >= ' ' && *c != 0x7f && *c != '/' && *c != '\\';

        buf_addc(out, !plain || (c == from && *c == '.') ? '_' : *c);
    }
    if (!*from)
        buf_adds(out, "trace");
}

static int create(struct drop *f, uint64_t number, const char *name, opm_error *err)
{
    buf_addf(&f->path, "%s/%" PRIu64 "/", buf_str(&f->of->folder), number);
    f->shown_from = f->path.len;
    add_name(&f->path, name);
    if (f->path.failed)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    f->path.data[f->shown_from - 1] = '\0';
    if (mkdir(f->path.data, S_IRWXU) < 0)
        return opm__fail(err, OPM_EIO, "%s: %s", f->path.data, strerror(errno));
    f->path.data[f->shown_from - 1] = '/';
    f->fd =
        open(f->path.data, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (f->fd < 0) {
        opm__fail(err, OPM_EIO, "%s: %s", f->path.data, strerror(errno));
        remove_file(f->path.data);
        return OPM_EIO;
    }
    return 0;
}

int drop_begin(struct dropped *d, const char *name, uint64_t length, struct drop **out,
               opm_error *err)
{
    struct drop *f = mem_calloc(1, sizeof(*f));
    uint64_t number = 0;
    int rc;

    if (!f)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    f->of = d;
    f->fd = -1;
    pthread_mutex_lock(&d->mutex);
    rc = admit(d, name, length, err);
    if (rc == 0) {
        d->coming++;
        number = d->numbered++;
    }
    pthread_mutex_unlock(&d->mutex);
    if (rc == 0) {
        rc = create(f, number, name, err);
        if (rc < 0) {
            pthread_mutex_lock(&d->mutex);
            d->coming--;
            pthread_mutex_unlock(&d->mutex);
        }
    }
    if (rc < 0) {
        buf_release(&f->path);
        mem_free(f);
    } else {
        *out = f;
    }
    return rc;
}

static int take_room(struct drop *f, size_t len, opm_error *err)
{
    struct dropped *d = f->of;
    const char *name = buf_str(&f->path) + f->shown_from;
    int rc = 0;

    pthread_mutex_lock(&d->mutex);
    if (len > d->limits->file - f->bytes)
        rc =
            opm__fail(err, OPM_ELIMIT, "%s has more than %" PRIu64 " bytes", name, d->limits->file);
    else
        rc = check_room(d, name, len, err);
    if (rc == 0) {
        d->bytes += len;
        f->bytes += len;
    }
    pthread_mutex_unlock(&d->mutex);
    return rc;
}

int drop_write(struct drop *f, const void *data, size_t len, opm_error *err)
{
    const char *p = data;
    int rc = take_room(f, len, err);

    while (rc == 0 && len) {
        ssize_t n = write(f->fd, p, len);

        if (n > 0) {
            p += n;
            len -= (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            rc = opm__fail(err, OPM_EIO, "%s: %s", buf_str(&f->path), strerror(n ? errno : EIO));
        }
    }
    return rc;
}

/* Gives it up; bytes: how many of it do not stay. */
static void release(struct drop *f, uint64_t bytes)
{
    struct dropped *d = f->of;

    pthread_mutex_lock(&d->mutex);
    d->coming--;
    d->bytes -= bytes;
    pthread_mutex_unlock(&d->mutex);
    buf_release(&f->path);
    mem_free(f);
}

int drop_end(struct drop *f, const char **path, size_t *shown_from, opm_error *err)
{
    struct dropped *d = f->of;
    char *own = mem_strdup(buf_str(&f->path));
    bool listed = false;
    int rc = 0;

    if (close(f->fd) < 0 && errno != EINTR)
        rc = opm__fail(err, OPM_EIO, "%s: %s", buf_str(&f->path), strerror(errno));
    f->fd = -1;
    if (rc == 0 && own) {
        pthread_mutex_lock(&d->mutex);
        listed = GROW(d->kept, d->cap, d->n + 1);
        if (listed)
            d->kept[d->n++] = (struct kept){ own, f->bytes };
        pthread_mutex_unlock(&d->mutex);
    }
    if (rc == 0 && !listed)
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    if (rc < 0) {
        mem_free(own);
        drop_give_up(f);
        return rc;
    }
    *path = own;
    *shown_from = f->shown_from;
    release(f, 0);
    return 0;
}

void drop_give_up(struct drop *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    remove_file(f->path.data);
    release(f, f->bytes);
}

void dropped_remove(struct dropped *d, const char *path)
{
    pthread_mutex_lock(&d->mutex);
    for (size_t i = 0; i < d->n; i++) {
        struct kept *k = &d->kept[i];

        if (k->path == path) {
            remove_file(k->path);
            d->bytes -= k->bytes;
            k->bytes = DROP_LENGTH_UNKNOWN;
        }
    }
    pthread_mutex_unlock(&d->mutex);
}
