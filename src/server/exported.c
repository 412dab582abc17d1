/* exported.c -- see exported.h. */
#include "server/exported.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/system.h"
#include <opmeter/opmeter_trace.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_EVERY_NS 200000000

static const struct {
    const char *extension, *type;
} types[] = {
    { ".json", "application/json; charset=utf-8" },
    { ".csv", "text/csv; charset=utf-8" },
    { ".md", "text/markdown; charset=utf-8" },
};

static const opm_format *find_format(const char *name)
{
    for (const opm_format *f = opm_export_formats(); f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static const char *type_of(const opm_format *f)
{
    size_t n = strlen(f->extension);

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        size_t m = strlen(types[i].extension);

        if (n >= m && strcmp(f->extension + n - m, types[i].extension) == 0)
            return types[i].type;
    }
    return "application/octet-stream";
}

/* "resnet50" of "runs/resnet50.opm": only characters that need no quoting anywhere. */
static void set_name(struct reply *a, const char *path, const opm_format *f)
{
    const char *slash = strrchr(path, '/'), *base = slash && slash[1] ? slash + 1 : path;
    char stem[60];
    size_t n = 0;

    for (; base[n] && base[n] != '.' && n + 1 < sizeof(stem); n++) {
        char c = base[n];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        stem[n] = plain || c == '-' || c == '_' ? c : '_';
    }
    stem[n] = '\0';
    snprintf(a->file_name, sizeof(a->file_name), "%s%s", n ? stem : "trace", f->extension);
}

struct files {
    const char *const *path;
    size_t n;
    const struct read_limits *limits;
};

/* Called while a trace is read or written. */
static int give_up(void *who, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return waiter_is_gone(who);
}

static int write_file(const struct files *from, const opm_format *f, const struct waiter *who,
                      const char *to, opm_error *err)
{
    opm_open_options open_opts = OPM_OPEN_OPTIONS_INIT;
    opm_export_options opts = OPM_EXPORT_OPTIONS_INIT;
    opm_trace *t;
    int rc;

    opts.progress = open_opts.progress = give_up;
    opts.user = open_opts.user = (void *)(uintptr_t)who;
    open_opts.captures = from->limits->captures;
    open_opts.ncaptures = from->limits->ncaptures;
    rc = opm_trace_open(&t, from->path, from->n, &open_opts, err);
    if (rc < 0)
        return rc;
    if (strcmp(f->name, "csv") == 0 || strcmp(f->name, "parquet") == 0 ||
        strcmp(f->name, "arrow") == 0)
        opts.table = "span"; /* one file holds one table */
    rc = opm_trace_export(t, f->name, to, &opts, err);
    opm_trace_close(t);
    return rc;
}

static int export_to_fd(const struct files *from, const opm_format *f, const struct waiter *who,
                        struct reply *a, opm_error *err)
{
    const char *tmp = environment_get("TMPDIR");
    struct buf dir = { 0 }, file = { 0 };
    struct stat st;
    int rc;

    buf_addf(&dir, "%s/opmeter-export-XXXXXX", tmp ? tmp : "/tmp");
    if (dir.failed || !mkdtemp(dir.data)) {
        rc = opm__fail(err, OPM_ENOMEM, "%s: %s", buf_str(&dir), strerror(errno));
        buf_release(&dir);
        return rc;
    }
    buf_addf(&file, "%s/export%s", buf_str(&dir), f->extension);
    rc = file.failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                     : write_file(from, f, who, buf_str(&file), err);
    if (rc == 0) {
        a->fd = open(buf_str(&file), O_RDONLY | O_CLOEXEC);
        if (a->fd < 0 || fstat(a->fd, &st) < 0)
            rc = opm__fail(err, OPM_ENOMEM, "%s: %s", buf_str(&file), strerror(errno));
        else
            a->len = (uint64_t)st.st_size;
    }
    unlink(buf_str(&file));
    rmdir(buf_str(&dir));
    buf_release(&file);
    buf_release(&dir);
    return rc;
}

/* One export at a time; false: nobody waits for this one any more. */
static bool take_turn(pthread_mutex_t *one, const struct waiter *who)
{
    while (!waiter_is_gone(who))
        if (system_lock_within(one, LOOK_EVERY_NS))
            return true;
    return false;
}

int exported(const char *const *paths, size_t npaths, const struct read_limits *limits,
             const char *format, const struct waiter *who, struct reply *a, opm_error *err)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    const opm_format *f = find_format(format);
    int rc;

    if (!f)
        return opm__fail(err, OPM_ENOTFOUND, "no export format '%.40s'", format);
    if (!*f->extension)
        return opm__fail(err, OPM_EINVAL,
                         "%s is a folder of files; 'opmeter export -f %s' writes it", f->name,
                         f->name);
    if (!take_turn(&one, who))
        return opm__fail(err, OPM_EBUSY, "nobody waits for this export any more");
    rc = export_to_fd(&(struct files){ paths, npaths, limits }, f, who, a, err);
    pthread_mutex_unlock(&one);
    if (rc < 0)
        return rc;
    a->type = type_of(f);
    set_name(a, paths[0], f);
    return 0;
}
