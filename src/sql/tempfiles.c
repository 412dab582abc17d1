/* tempfiles.c -- see tempfiles.h. */
#include "sql/tempfiles.h"

#include "base/budget.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/human.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* SQLite's own file stands behind it. */
struct temp_file {
    sqlite3_file base;
    struct tempfiles *t;
    sqlite3_int64 bytes; /* up to where it was written */
};

static struct temp_file *file_of(sqlite3_file *file)
{
    return (struct temp_file *)file;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return (sqlite3_file *)(file_of(file) + 1);
}

static void count(struct temp_file *f, sqlite3_int64 bytes)
{
    f->t->bytes += bytes - f->bytes;
    f->bytes = bytes;
}

static int file_close(sqlite3_file *file)
{
    count(file_of(file), 0);
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *p, int n, sqlite3_int64 at)
{
    return real_of(file)->pMethods->xRead(real_of(file), p, n, at);
}

static int file_write(sqlite3_file *file, const void *p, int n, sqlite3_int64 at)
{
    struct temp_file *f = file_of(file);
    sqlite3_int64 end = MAX(at + n, f->bytes);
    int rc;

    if (f->t->bytes + (end - f->bytes) > f->t->room_bytes) {
        f->t->full = true;
        return SQLITE_FULL;
    }
    rc = real_of(file)->pMethods->xWrite(real_of(file), p, n, at);
    if (rc == SQLITE_OK)
        count(f, end);
    return rc;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int rc = real_of(file)->pMethods->xTruncate(real_of(file), size);

    if (rc == SQLITE_OK)
        count(file_of(file), size);
    return rc;
}

static int file_sync(sqlite3_file *file, int flags)
{
    return real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *out)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), out);
}

static int file_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int file_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int file_reserved(sqlite3_file *file, int *out)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

/* Hints that a file will grow would have it grow uncounted. */
static int file_control(sqlite3_file *file, int op, void *arg)
{
    if (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_CHUNK_SIZE)
        return SQLITE_OK;
    return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int file_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_character(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

/* Version 1 has no mapped files, which would grow uncounted. */
static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_character,
};

/* The folder that SQLite takes, by its own order; NULL: none. */
static const char *temp_folder(void)
{
    const char *const folders[] = { environment_get("SQLITE_TMPDIR"),
                                    environment_get("TMPDIR"),
                                    "/var/tmp",
                                    "/usr/tmp",
                                    "/tmp",
                                    "." };

    for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
        if (folders[i] && access(folders[i], W_OK | X_OK) == 0)
            return folders[i];
    return NULL;
}

static void measure_room(struct tempfiles *t)
{
    const char *folder = temp_folder();
    struct statvfs fs;
    uint64_t half;

    t->room_bytes = t->max_bytes;
    snprintf(t->folder, sizeof(t->folder), "%s", folder ? folder : "");
    if (!folder || statvfs(folder, &fs) || !fs.f_frsize)
        return;
    half = __builtin_mul_overflow(fs.f_bavail, fs.f_frsize, &half) ? INT64_MAX : half / 2;
    t->room_bytes = MIN(t->max_bytes, (int64_t)half);
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *out_flags)
{
    struct tempfiles *t = (struct tempfiles *)vfs;
    struct temp_file *f = file_of(file);
    sqlite3_file *real = real_of(file);
    int rc;

    if (!t->bytes)
        measure_room(t);
    *f = (struct temp_file){ .t = t };
    real->pMethods = NULL;
    rc = t->real->xOpen(t->real, name, real, flags, out_flags);
    if (real->pMethods)
        f->base.pMethods = &methods;
    return rc;
}

int tempfiles_init(struct tempfiles *t, opm_error *err)
{
    const char *text = environment_get("OPMETER_MAX_TEMP");
    uint64_t max = TEMPFILES_DEFAULT_BYTES;

    if (text && !budget_parse_size(text, &max))
        return opm__fail(err, OPM_EINVAL, "OPMETER_MAX_TEMP: '%s' is no size such as 512M or 16G",
                         text);
    *t = (struct tempfiles){ .max_bytes = (int64_t)max };
    t->real = sqlite3_vfs_find(NULL);
    if (!t->real)
        return opm__fail(err, OPM_ENOMEM, "SQLite has no file system");
    t->vfs = *t->real;
    t->vfs.szOsFile = (int)sizeof(struct temp_file) + t->real->szOsFile;
    t->vfs.pNext = NULL;
    t->vfs.xOpen = open_file;
    snprintf(t->name, sizeof(t->name), "opmeter %p", (void *)t);
    t->vfs.zName = t->name;
    if (sqlite3_vfs_register(&t->vfs, 0) != SQLITE_OK) {
        t->real = NULL;
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    return 0;
}

void tempfiles_release(struct tempfiles *t)
{
    if (t->real)
        sqlite3_vfs_unregister(&t->vfs);
    t->real = NULL;
}

int tempfiles_fail(const struct tempfiles *t, opm_error *err)
{
    char room[HUMAN_ROOM];

    human_bytes(room, (uint64_t)t->room_bytes);
    if (t->room_bytes < t->max_bytes)
        return opm__fail(err, OPM_ELIMIT,
                         "the query needs more than %s of temporary files, half of what is free in "
                         "%s; select less, or set TMPDIR to a larger folder",
                         room, t->folder);
    return opm__fail(err, OPM_ELIMIT,
                     "the query needs more than %s of temporary files, the limit; select less, or "
                     "raise OPMETER_MAX_TEMP",
                     room);
}
