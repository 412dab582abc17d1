/* io.c -- see io.h. */
#include "base/io.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>

#define OUT_BYTES ((size_t)256 << 10)
#define CHUNK_BYTES ((size_t)1 << 20)
#define WAIT_MS 100                  /* between two looks at the clock */
#define STEP_BYTES ((size_t)4 << 20) /* unpacked between two looks at the budget */
#define BASENAME_MAX 200             /* of a temporary file, before the suffix; NAME_MAX is 255 */

/* Memory that a stream is read or unpacked into. One byte beyond max may be written: that is how
 * the limit is noticed. */
struct sink {
    uint8_t *data;
    size_t len;
    size_t cap;
    size_t max;
    const char *path;
};

/* Room for at least one more byte, growing up to the limit; 0, OPM_ENOMEM or OPM_ELIMIT. */
static int sink_room(struct sink *s, opm_error *err)
{
    size_t cap;
    uint8_t *p;

    if (s->len > s->max)
        return opm__fail(err, OPM_ELIMIT, "%s: unpacks to more than %zu bytes", s->path, s->max);
    if (s->len < s->cap)
        return 0;
    cap = MIN(MAX(s->cap * 2, CHUNK_BYTES), s->max + 1);
    p = mem_map_resize(s->data, s->cap, cap);
    if (!p)
        return opm__fail(err, OPM_ENOMEM, "%s: no memory for %zu bytes", s->path, cap);
    s->data = p;
    s->cap = cap;
    return 0;
}

/* Hand the memory over to m, giving back what was not used. */
static void sink_finish(struct sink *s, struct io_map *m)
{
    if (s->len == 0) {
        mem_unmap(s->data, s->cap);
        m->data = (const uint8_t *)"";
        return;
    }
    if (s->len < s->cap) {
        uint8_t *p = mem_map_resize(s->data, s->cap, s->len);

        if (p) {
            s->data = p;
            s->cap = s->len;
        }
    }
    m->data = s->data;
    m->len = s->len;
    m->alloc = s->cap;
}

static void *zlib_alloc(void *opaque, unsigned n, unsigned size)
{
    (void)opaque;
    return mem_calloc(n, size);
}

static void zlib_free(void *opaque, void *p)
{
    (void)opaque;
    mem_free(p);
}

static bool is_gzip(const uint8_t *p, size_t len)
{
    return len >= 3 && p[0] == 0x1f && p[1] == 0x8b && p[2] == 8;
}

/* A frame, or a skippable frame, with which some packers begin. */
static bool is_zstd(const uint8_t *p, size_t len)
{
    static const uint8_t frame[] = { 0x28, 0xb5, 0x2f, 0xfd }, skippable[] = { 0x2a, 0x4d, 0x18 };

    if (len < 4)
        return false;
    return memcmp(p, frame, 4) == 0 || ((p[0] & 0xf0) == 0x50 && memcmp(p + 1, skippable, 3) == 0);
}

static bool all_zero(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i])
            return false;
    return true;
}

static size_t limit_of(uint64_t max_bytes)
{
    return (size_t)MIN(max_bytes ? max_bytes : IO_MAX_BYTES_DEFAULT, (uint64_t)SIZE_MAX / 8);
}

/* A packed stream on its way. */
struct io_unpack {
    struct io_map packed;
    const char *path;
    size_t at; /* in packed */
    uint64_t made, max;
    struct budget *budget; /* of whoever opened it, or own */
    struct budget own;
    bool gz, ended;
    const char *why; /* what is wrong with it; NULL: nothing */
    z_stream z;
    ZSTD_DStream *zstd;
};

int io_unpack_open(struct io_unpack **out, struct io_map *packed, const char *path, uint64_t max,
                   opm_error *err)
{
    struct io_unpack *u = mem_calloc(1, sizeof(*u));
    bool ok = u != NULL;

    if (u) {
        u->budget = budget_current();
        if (!u->budget) {
            int rc = budget_init(&u->own, &(struct budget_limits){ 0 }, err);

            if (rc) {
                mem_free(u);
                io_map_release(packed);
                return rc;
            }
            u->budget = &u->own;
        }
        u->path = path;
        u->max = limit_of(max);
        u->gz = is_gzip(packed->data, packed->len);
        u->z = (z_stream){ .zalloc = zlib_alloc, .zfree = zlib_free };
        if (u->gz)
            ok = inflateInit2(&u->z, 15 + 16) == Z_OK;
        else
            ok = (u->zstd = ZSTD_createDStream()) != NULL;
    }
    if (!ok) {
        mem_free(u);
        io_map_release(packed);
        return opm__fail(err, OPM_ENOMEM, "%s: no memory to unpack it", path);
    }
    u->packed = *packed;
    *packed = (struct io_map){ 0 };
    *out = u;
    return 0;
}

void io_unpack_close(struct io_unpack *u)
{
    if (!u)
        return;
    if (u->gz)
        inflateEnd(&u->z);
    else
        ZSTD_freeDStream(u->zstd);
    io_map_release(&u->packed);
    mem_free(u);
}

bool io_unpack_cut(const struct io_unpack *u)
{
    return u->why != NULL;
}

/* Up to len bytes, fewer only where a member or the stream ends. 0 or OPM_ENOMEM. */
static int gunzip_some(struct io_unpack *u, uint8_t *to, size_t len, size_t *got, opm_error *err)
{
    const uint8_t *in = u->packed.data + u->at;
    size_t in_len = u->packed.len - u->at;
    uInt in_n = (uInt)MIN(in_len, (size_t)1 << 30), out_n = (uInt)MIN(len, (size_t)1 << 30);
    int st;

    u->z.next_in = in;
    u->z.avail_in = in_n;
    u->z.next_out = to;
    u->z.avail_out = out_n;
    st = inflate(&u->z, Z_NO_FLUSH);
    in += in_n - u->z.avail_in;
    in_len -= in_n - u->z.avail_in;
    u->at = u->packed.len - in_len;
    *got = out_n - u->z.avail_out;
    if (st == Z_MEM_ERROR)
        return opm__fail(err, OPM_ENOMEM, "%s: no memory to unpack gzip", u->path);
    if (st == Z_STREAM_END) {
        if (all_zero(in, in_len)) { /* the end, or the padding of a tape or a disk */
            u->ended = true;
        } else if (!is_gzip(in, in_len)) {
            u->why = "bytes after the end";
        } else {
            inflateReset(&u->z);
        }
    } else if (st != Z_OK && st != Z_BUF_ERROR) {
        u->why = u->z.msg ? u->z.msg : "bad data";
    } else if (!in_len && u->z.avail_out) {
        u->why = "it ends early";
    }
    return 0;
}

static int unzstd_some(struct io_unpack *u, uint8_t *to, size_t len, size_t *got)
{
    ZSTD_inBuffer src = { u->packed.data, u->packed.len, u->at };
    ZSTD_outBuffer dst = { to, len, 0 };
    size_t left = ZSTD_decompressStream(u->zstd, &dst, &src);

    u->at = src.pos;
    *got = dst.pos;
    if (ZSTD_isError(left))
        u->why = ZSTD_getErrorName(left);
    else if (src.pos == src.size && left == 0) /* a frame ends, and nothing of it is held back */
        u->ended = true;
    else if (src.pos == src.size && dst.pos < dst.size)
        u->why = "it ends early";
    return 0;
}

int io_unpack_read(struct io_unpack *u, void *to, size_t len, size_t *got, opm_error *err)
{
    *got = 0;
    while (*got < len && !u->ended && !u->why) {
        size_t n = 0, before = u->at, step = MIN(len - *got, STEP_BYTES);
        int rc = u->gz ? gunzip_some(u, (uint8_t *)to + *got, step, &n, err)
                       : unzstd_some(u, (uint8_t *)to + *got, step, &n);

        *got += n;
        u->made += n;
        if (rc)
            return rc;
        if (!budget_unpack(u->budget, u->at - before, n))
            return budget_fail(u->budget, u->path, OPM_ELIMIT, err);
        if (u->made > u->max)
            return opm__fail(err, OPM_ELIMIT, "%s: unpacks to more than %zu bytes", u->path,
                             (size_t)u->max);
    }
    if (u->why && u->made == 0)
        return opm__fail(err, OPM_EFORMAT, "%s: cannot unpack %s: %s", u->path,
                         u->gz ? "gzip" : "zstd", u->why);
    return 0;
}

uint64_t io_unpack_done(const struct io_unpack *u, uint64_t *total)
{
    *total = u->packed.len;
    return u->at;
}

bool io_is_packed(const struct io_map *m)
{
    return is_gzip(m->data, m->len) || is_zstd(m->data, m->len);
}

/* If m holds packed bytes, put the unpacked ones in their place. Either way there are at most max
 * of them. On failure m is released. */
static int unpack(struct io_map *m, const char *path, size_t max, opm_error *err)
{
    struct sink s = { .path = path, .max = max };
    struct io_map plain = { .packed = true };
    struct io_unpack *u = NULL;
    int rc;

    if (!io_is_packed(m)) {
        if (m->len <= max)
            return 0;
        io_map_release(m);
        return opm__fail(err, OPM_ELIMIT, "%s: larger than %zu bytes", path, max);
    }
    rc = io_unpack_open(&u, m, path, max, err);
    while (!rc) {
        size_t got = 0;

        if (s.len == s.cap && !budget_has_memory(u->budget, s.len))
            rc = budget_fail(u->budget, path, OPM_ENOMEM, err);
        else
            rc = sink_room(&s, err);
        if (rc)
            break;
        rc = io_unpack_read(u, s.data + s.len, s.cap - s.len, &got, err);
        s.len += got;
        if (u->ended || u->why)
            break;
    }
    if (!rc)
        plain.cut = u->why != NULL;
    io_unpack_close(u);
    if (rc) {
        mem_unmap(s.data, s.cap);
        return rc;
    }
    sink_finish(&s, &plain);
    *m = plain;
    return 0;
}

/* The bytes of a pipe, a device or a file that does not tell its size, such as those in /proc. */
static int slurp(struct io_map *m, int fd, const char *path, size_t max,
                 const struct io_judge *judge, opm_error *err)
{
    struct sink s = { .path = path, .max = max };
    struct budget own;
    int rc = 0;

    if (!budget_current()) {
        rc = budget_init(&own, &(struct budget_limits){ 0 }, err);
        s.max = rc ? 0 : (size_t)MIN(s.max, own.limits.memory);
    }
    while (!rc) {
        ssize_t n;

        if (s.len > s.max) {
            rc = opm__fail(err, OPM_ELIMIT, "%s: larger than %zu bytes", path, s.max);
            break;
        }
        if (judge && s.len >= IO_HEAD_BYTES) {
            rc = judge->judge(judge->user, &(struct io_map){ .data = s.data, .len = s.len }, err);
            judge = NULL;
        }
        if (!rc)
            rc = sink_room(&s, err);
        if (rc)
            break;
        if (!budget_time(budget_current())) {
            rc = budget_fail(budget_current(), path, OPM_ELIMIT, err);
            break;
        }
        /* Whoever writes may take his time; that is limited, too. */
        if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, WAIT_MS) == 0)
            continue;
        n = read(fd, s.data + s.len, MIN(s.cap - s.len, (size_t)1 << 30));
        if (n == 0)
            break;
        if (n > 0)
            s.len += (size_t)n;
        else if (errno != EINTR) {
            rc = opm__fail(err, OPM_EIO, "%s: %s", path, strerror(errno));
            break;
        }
    }
    if (rc)
        mem_unmap(s.data, s.cap);
    else
        sink_finish(&s, m);
    return rc;
}

int io_map_packed(struct io_map *m, const char *path, uint64_t max_bytes, opm_error *err)
{
    return io_map_judged(m, path, max_bytes, NULL, err);
}

int io_map_judged(struct io_map *m, const char *path, uint64_t max_bytes,
                  const struct io_judge *judge, opm_error *err)
{
    size_t max = limit_of(max_bytes);
    struct io_map raw = { 0 };
    struct stat st;
    int rc = 0, fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return opm__fail(err, OPM_EIO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) < 0)
        rc = opm__fail(err, OPM_EIO, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        rc = opm__fail(err, OPM_EIO, "%s: is a directory", path);
    else if (!S_ISREG(st.st_mode) || st.st_size == 0)
        rc = slurp(&raw, fd, path, max, judge, err);
    else {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

        if (p == MAP_FAILED)
            rc = opm__fail(err, OPM_EIO, "%s: %s", path, strerror(errno));
        else
            raw = (struct io_map){
                .data = p, .len = (size_t)st.st_size, .alloc = (size_t)st.st_size, .file = true
            };
    }
    close(fd); /* a mapping keeps the file */
    if (!rc)
        *m = raw;
    return rc;
}

int io_map_unpack(struct io_map *m, const char *path, uint64_t max_bytes, opm_error *err)
{
    return unpack(m, path, limit_of(max_bytes), err);
}

int io_map(struct io_map *m, const char *path, uint64_t max_bytes, opm_error *err)
{
    struct io_map raw = { 0 };
    int rc = io_map_packed(&raw, path, max_bytes, err);

    if (!rc)
        rc = io_map_unpack(&raw, path, max_bytes, err);
    if (!rc)
        *m = raw;
    return rc;
}

static size_t gunzip_head(const uint8_t *in, size_t len, uint8_t *to, size_t size)
{
    z_stream z = { .zalloc = zlib_alloc, .zfree = zlib_free };

    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return 0;
    z.next_in = in;
    z.avail_in = (uInt)len;
    z.next_out = to;
    z.avail_out = (uInt)size;
    inflate(&z, Z_SYNC_FLUSH);
    inflateEnd(&z);
    return size - z.avail_out;
}

static size_t unzstd_head(const uint8_t *in, size_t len, uint8_t *to, size_t size)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    ZSTD_inBuffer src = { in, len, 0 };
    ZSTD_outBuffer dst = { to, size, 0 };

    while (z && dst.pos < dst.size) {
        size_t before = src.pos + dst.pos;

        if (ZSTD_isError(ZSTD_decompressStream(z, &dst, &src)) || src.pos + dst.pos == before)
            break;
    }
    ZSTD_freeDStream(z);
    return dst.pos;
}

int io_head(const char *path, void *to, size_t size, size_t *len, opm_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *raw = mem_alloc(IO_HEAD_BYTES);
    size_t n = 0;
    ssize_t got = 1;
    int rc = 0;

    if (fd < 0)
        rc = opm__fail(err, OPM_EIO, "%s: %s", path, strerror(errno));
    else if (!raw)
        rc = opm__fail(err, OPM_ENOMEM, "%s: no memory for its head", path);
    while (!rc && n < IO_HEAD_BYTES && got) {
        got = read(fd, raw + n, IO_HEAD_BYTES - n);
        if (got < 0 && errno != EINTR)
            rc = opm__fail(err, OPM_EIO, "%s: %s", path, strerror(errno));
        else if (got > 0)
            n += (size_t)got;
    }
    if (!rc && is_gzip(raw, n)) {
        *len = gunzip_head(raw, n, to, size);
    } else if (!rc && is_zstd(raw, n)) {
        *len = unzstd_head(raw, n, to, size);
    } else if (!rc) {
        *len = MIN(n, size);
        memcpy(to, raw, *len);
    }
    mem_free(raw);
    if (fd >= 0)
        close(fd);
    return rc;
}

void io_map_release(struct io_map *m)
{
    if (m->file)
        munmap((void *)(uintptr_t)m->data, m->alloc);
    else if (m->alloc)
        mem_unmap((void *)(uintptr_t)m->data, m->alloc);
    *m = (struct io_map){ 0 };
}

/* Write all of p, unless a write has failed before. */
static void put(struct io_out *o, const char *p, size_t len)
{
    while (len && !o->err_no) {
        ssize_t n = write(o->fd, p, MIN(len, (size_t)1 << 30));

        if (n >= 0) {
            p += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) { /* whoever gave us the descriptor made it non-blocking */
            struct pollfd pfd = { .fd = o->fd, .events = POLLOUT };

            if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
                o->err_no = errno;
        } else if (errno != EINTR)
            o->err_no = errno;
    }
}

void io_out_flush(struct io_out *o)
{
    put(o, o->data, o->len);
    o->len = 0;
}

int io_out_open_fd(struct io_out *o, int fd, const char *name, opm_error *err)
{
    struct io_out new = { .fd = fd, .path = mem_strdup(name), .data = mem_alloc(OUT_BYTES) };

    if (!new.path || !new.data) {
        mem_free(new.path);
        mem_free(new.data);
        return opm__fail(err, OPM_ENOMEM, "%s: no memory for a write buffer", name);
    }
    *o = new;
    return 0;
}

/* A new file next to path, whose name goes to *out. The descriptor, or -1 and errno. */
static int open_temporary(const char *path, char **out)
{
    static atomic_uint serial;
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t dir_len = (size_t)(base - path), base_len = MIN(strlen(base), (size_t)BASENAME_MAX);
    size_t size = dir_len + base_len + 48;
    char *tmp = mem_alloc(size);
    int fd;

    if (!tmp) {
        errno = ENOMEM;
        return -1;
    }
    do {
        snprintf(tmp, size, "%.*s.tmp-%ld-%u", (int)(dir_len + base_len), path, (long)getpid(),
                 atomic_fetch_add(&serial, 1));
        fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (fd < 0 && errno == EEXIST);
    if (fd < 0)
        mem_free(tmp);
    else
        *out = tmp;
    return fd;
}

/* Open path for writing; the descriptor, or -1 and errno. A regular file is written under another
 * name, *tmp, and *target is the name it gets in the end: path, or what that links to. */
static int open_target(const char *path, char **target, char **tmp)
{
    struct stat st;
    bool exists = stat(path, &st) == 0;
    char *real;
    int fd;

    if (exists && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return -1;
    }
    if (exists && !S_ISREG(st.st_mode))
        return open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (exists && access(path, W_OK) < 0) /* a rename would replace it all the same */
        return -1;
    real = exists ? realpath(path, NULL) : NULL;
    *target = mem_strdup(real ? real : path);
    free(real);
    if (!*target) {
        errno = ENOMEM;
        return -1;
    }
    fd = open_temporary(*target, tmp);
    if (fd >= 0 && exists)
        fchmod(fd, st.st_mode & 0777); /* where that fails the umask has decided */
    return fd;
}

int io_out_open(struct io_out *o, const char *path, opm_error *err)
{
    char *target = NULL, *tmp = NULL;
    bool fresh;
    int rc, fd;

    if (strcmp(path, "-") == 0)
        return io_out_open_fd(o, STDOUT_FILENO, "standard output", err);
    fresh = access(path, F_OK) < 0;
    fd = open_target(path, &target, &tmp);
    if (fd < 0) {
        rc =
            opm__fail(err, errno == ENOMEM ? OPM_ENOMEM : OPM_EIO, "%s: %s", path, strerror(errno));
        mem_free(target);
        return rc;
    }
    rc = io_out_open_fd(o, fd, path, err);
    if (rc) {
        close(fd);
        if (tmp)
            unlink(tmp);
        mem_free(tmp);
        mem_free(target);
        return rc;
    }
    o->owned = true;
    o->tmp = tmp;
    o->target = target;
    o->fresh = fresh;
    return 0;
}

void io_out_private(struct io_out *o)
{
    if (o->fresh)
        fchmod(o->fd, 0600);
}

void io_out_add(struct io_out *o, const void *p, size_t len)
{
    if (o->err_no)
        return;
    o->total += len;
    if (UNLIKELY(len > OUT_BYTES - o->len)) {
        io_out_flush(o);
        if (len >= OUT_BYTES) {
            put(o, p, len);
            return;
        }
    }
    if (len)
        memcpy(o->data + o->len, p, len);
    o->len += len;
}

void io_out_adds(struct io_out *o, const char *s)
{
    io_out_add(o, s, strlen(s));
}

void io_out_addf(struct io_out *o, const char *fmt, ...)
{
    size_t room = OUT_BYTES - o->len;
    va_list ap;
    char *big;
    int len;

    if (o->err_no)
        return;
    va_start(ap, fmt);
    len = vsnprintf(o->data + o->len, room, fmt, ap);
    va_end(ap);
    if (len < 0) {
        o->err_no = errno;
        return;
    }
    if ((size_t)len < room) {
        o->len += (size_t)len;
        o->total += (size_t)len;
        return;
    }
    big = mem_alloc((size_t)len + 1);
    if (!big) {
        o->err_no = ENOMEM;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(big, (size_t)len + 1, fmt, ap);
    va_end(ap);
    io_out_add(o, big, (size_t)len);
    mem_free(big);
}

int io_out_close(struct io_out *o, bool keep, opm_error *err)
{
    int rc = 0;

    if (!o->data)
        return 0;
    if (keep || !o->tmp)
        io_out_flush(o);
    if (o->owned && close(o->fd) < 0 && !o->err_no)
        o->err_no = errno;
    if (o->tmp && keep && !o->err_no && rename(o->tmp, o->target) < 0)
        o->err_no = errno;
    if (o->tmp && (!keep || o->err_no))
        unlink(o->tmp);
    if (o->err_no && (keep || !o->tmp))
        rc = opm__fail(err, o->err_no == ENOMEM ? OPM_ENOMEM : OPM_EIO, "%s: %s", o->path,
                       strerror(o->err_no));
    mem_free(o->target);
    mem_free(o->tmp);
    mem_free(o->path);
    mem_free(o->data);
    *o = (struct io_out){ .fd = -1 };
    return rc;
}
