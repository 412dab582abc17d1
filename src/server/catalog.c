/* catalog.c -- see catalog.h. */
#include "server/catalog_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "catalog/runsdb.h"
#include "server/folder_walk.h"
#include "server/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_MAX 8 /* traces in memory */
#define UNASKED_UNPACKED_MAX ((uint64_t)64 << 20)
#define UNASKED_MEMORY_MAX ((uint64_t)2 << 30)
#define UNASKED_SECONDS 10
#define BYTES_PER_SPAN 150      /* in memory, with what pictures need */
#define LIVE_FRESH_NS 500000000 /* what is being written is not read more often than this */

static struct catalog_entry *find_path(const struct catalog *c, const char *path)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->entry[i]->file.path, path) == 0)
            return c->entry[i];
    return NULL;
}

struct catalog_entry *entry_of_id(const struct catalog *c, const char *id)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->entry[i]->id, id) == 0)
            return c->entry[i];
    return NULL;
}

/* From the path, so that an address can be kept from one run of the server to the next. */
static void set_id(const struct catalog *c, struct catalog_entry *e)
{
    uint64_t h = trace_hash(TRACE_HASH_INIT, e->file.path, strlen(e->file.path));

    do
        snprintf(e->id, sizeof(e->id), "%012" PRIx64, h++ & 0xffffffffffffu);
    while (entry_of_id(c, e->id));
}

static void entry_free(struct catalog_entry *e)
{
    opened_unref(e->opened);
    pthread_mutex_destroy(&e->opening);
    mem_free(e->file.path);
    mem_free(atomic_load(&e->file.beside));
    mem_free(e);
}

static int new_entry(struct catalog *c, const char *path, size_t shown_from, const char *within,
                     const char *format, opm_error *err)
{
    struct catalog_entry *e = mem_calloc(1, sizeof(*e));
    char *own_path = mem_strdup(path);

    if (!e || !own_path || !GROW(c->entry, c->cap, c->n + 1)) {
        mem_free(own_path);
        mem_free(e);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    pthread_mutex_init(&e->opening, NULL);
    e->file.path = own_path;
    e->file.shown = e->file.path + shown_from;
    e->file.within = within;
    e->format = format;
    e->reading.stop = &c->end;
    set_id(c, e);
    c->entry[c->n++] = e;
    return 0;
}

/* The file beside may come later than the other. */
static int set_beside(struct catalog_entry *e, const char *beside, opm_error *err)
{
    char *own;

    if (!beside || atomic_load(&e->file.beside))
        return 0;
    own = mem_strdup(beside);
    atomic_store(&e->file.beside, own);
    return own ? 0 : opm__fail(err, OPM_ENOMEM, "out of memory");
}

static int add_entry(struct catalog *c, const char *path, const char *beside, size_t shown_from,
                     const char *within, const char *format, opm_error *err)
{
    struct catalog_entry *e;
    int rc = 0;

    pthread_mutex_lock(&c->mutex);
    e = find_path(c, path);
    if (e)
        e->format = format;
    else
        rc = new_entry(c, path, shown_from, within, format, err);
    if (rc == 0)
        rc = set_beside(find_path(c, path), beside, err);
    pthread_mutex_unlock(&c->mutex);
    return rc;
}

struct found {
    struct catalog *c;
    const struct root *root;
};

static int on_found(void *user, const char *path, const char *beside, const char *format,
                    opm_error *err)
{
    struct found *f = user;

    return add_entry(f->c, path, beside, strlen(f->root->path) + 1, f->root->resolved, format, err);
}

/* At most a tenth of the time goes into it. */
int catalog_scan(struct catalog *c, opm_error *err)
{
    int64_t start;
    int rc = 0;

    pthread_mutex_lock(&c->scanning);
    start = watch_now_ns();
    if (start - c->scanned_ns > 9 * c->scan_took_ns) {
        for (size_t i = 0; rc == 0 && i < c->nroot; i++)
            rc = folder_walk(c->root[i].path, c->root[i].resolved, on_found,
                             &(struct found){ c, &c->root[i] }, &c->cut, err);
        c->scanned_ns = watch_now_ns();
        c->scan_took_ns = c->scanned_ns - start;
    }
    pthread_mutex_unlock(&c->scanning);
    return rc;
}

static int add_root(struct catalog *c, const char *path, opm_error *err)
{
    struct root *r = &c->root[c->nroot];
    size_t len = strlen(path);

    r->path = mem_strdup(path);
    if (!r->path)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    while (len > 1 && r->path[len - 1] == '/')
        r->path[--len] = '\0';
    r->resolved = realpath(path, NULL);
    if (!r->resolved) {
        mem_free(r->path);
        return opm__fail(err, OPM_EIO, "%s: %s", path, strerror(errno));
    }
    c->nroot++;
    c->folder = true;
    return 0;
}

static int add_path(struct catalog *c, const char *path, opm_error *err)
{
    const char *format = opm_trace_detect(path);
    struct stat st;

    if (stat(path, &st) < 0)
        return opm__fail(err, OPM_EIO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode) && !format)
        return add_root(c, path, err);
    if (!format && runsdb_is(path)) {
        c->folder = true; /* it leads to several traces */
        return 0;
    }
    return add_entry(c, path, NULL, 0, NULL, format, err);
}

int catalog_add(struct catalog *c, const char *path, size_t shown_from, char id[CATALOG_ID_ROOM],
                opm_error *err)
{
    const char *format = opm_trace_detect(path);
    int rc;

    if (!format)
        return opm__fail(err, OPM_EFORMAT, "%s is no trace that opmeter knows", path + shown_from);
    rc = add_entry(c, path, NULL, shown_from, NULL, format, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&c->mutex);
    memcpy(id, find_path(c, path)->id, CATALOG_ID_ROOM);
    c->folder = c->n > 1;
    pthread_mutex_unlock(&c->mutex);
    return 0;
}

int catalog_add_inside(struct catalog *c, const char *path, const char *also,
                       char id[CATALOG_ID_ROOM], opm_error *err)
{
    char *resolved = realpath(path, NULL), *shown = NULL;
    const char *within = NULL, *format;
    size_t shown_from = 0;
    int rc = 0;

    if (!resolved)
        return opm__fail(err, OPM_ENOTFOUND, "its trace is gone: %s: %s", path, strerror(errno));
    for (size_t i = 0; i < c->nroot && !within; i++) {
        const char *folder = c->root[i].resolved;

        if (!folder_holds(folder, resolved))
            continue;
        within = folder;
        shown_from = strlen(c->root[i].path) + 1;
        if (asprintf(&shown, "%s%s", c->root[i].path, resolved + strlen(folder)) < 0)
            rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    if (rc == 0 && !within && also && folder_holds(also, resolved))
        within = also;
    if (rc == 0 && !within)
        rc = opm__fail(err, OPM_ENOTFOUND,
                       "its trace is in no folder that is served; name that, too: %s", resolved);
    format = rc == 0 ? opm_trace_detect(resolved) : NULL;
    if (rc == 0 && !format)
        rc = opm__fail(err, OPM_EFORMAT, "%s is no trace that opmeter knows", resolved);
    if (rc == 0)
        rc = add_entry(c, shown ? shown : resolved, NULL, shown_from, within, format, err);
    if (rc == 0) {
        pthread_mutex_lock(&c->mutex);
        memcpy(id, find_path(c, shown ? shown : resolved)->id, CATALOG_ID_ROOM);
        pthread_mutex_unlock(&c->mutex);
    }
    free(shown); /* asprintf() allocated it */
    free(resolved);
    return rc;
}

int catalog_new(struct catalog **out, const char *const *paths, size_t npaths,
                const struct read_limits *limits, opm_error *err)
{
    struct catalog *c = mem_calloc(1, sizeof(*c));
    int rc = 0;

    if (c)
        c->root = mem_calloc(npaths + 1, sizeof(*c->root));
    if (!c || !c->root) {
        mem_free(c);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    c->limits = *limits;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_mutex_init(&c->scanning, NULL);
    for (size_t i = 0; rc == 0 && i < npaths; i++)
        rc = add_path(c, paths[i], err);
    if (rc == 0)
        rc = catalog_scan(c, err);
    if (npaths > 1)
        c->folder = true;
    if (rc < 0)
        catalog_free(c);
    else
        *out = c;
    return rc;
}

void catalog_end(struct catalog *c)
{
    atomic_store(&c->end, true);
}

void catalog_free(struct catalog *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++)
        entry_free(c->entry[i]);
    for (size_t i = 0; i < c->nroot; i++) {
        mem_free(c->root[i].path);
        free(c->root[i].resolved); /* realpath() allocated it */
    }
    mem_free(c->entry);
    mem_free(c->root);
    pthread_mutex_destroy(&c->mutex);
    pthread_mutex_destroy(&c->scanning);
    mem_free(c);
}

const struct read_limits *catalog_limits(const struct catalog *c)
{
    return &c->limits;
}

bool catalog_is_cut(const struct catalog *c)
{
    return c->cut;
}

bool catalog_is_folder(const struct catalog *c)
{
    return c->folder;
}

/* Half of what the machine has. */
static int64_t spans_max(void)
{
    int64_t memory = system_memory();

    return memory > 0 ? memory / 2 / BYTES_PER_SPAN : INT64_MAX;
}

/* Let go of what was not used for longest until the rest fits; `keep` stays. */
static void make_room(struct catalog *c, const struct catalog_entry *keep)
{
    for (;;) {
        struct catalog_entry *oldest = NULL;
        int64_t spans = 0;
        size_t n = 0;

        for (size_t i = 0; i < c->n; i++) {
            struct catalog_entry *e = c->entry[i];

            if (!e->opened)
                continue;
            n++;
            spans += opened_spans(e->opened);
            if (e != keep && (!oldest || e->used_ns < oldest->used_ns))
                oldest = e;
        }
        if (!oldest || (n <= OPEN_MAX && spans <= spans_max()))
            return;
        opened_unref(oldest->opened);
        oldest->opened = NULL;
    }
}

static bool is_good(const struct opened *o, enum catalog_want want,
                    const struct trace_file_state *file)
{
    if (!o)
        return false;
    if (want == CATALOG_AS_READ)
        return true;
    return opened_stamp(o) == file->stamp &&
           !(file->live && watch_now_ns() - opened_read_ns(o) > LIVE_FRESH_NS);
}

/* A reference to what is in memory, if that will do. */
static struct opened *take_opened(struct catalog *c, struct catalog_entry *e,
                                  enum catalog_want want, const struct trace_file_state *file)
{
    struct opened *o = NULL;

    pthread_mutex_lock(&c->mutex);
    if (is_good(e->opened, want, file)) {
        o = e->opened;
        opened_ref(o);
        e->used_ns = watch_now_ns();
    }
    pthread_mutex_unlock(&c->mutex);
    return o;
}

static int read_entry(struct catalog *c, struct catalog_entry *e,
                      const struct trace_file_state *file, bool keep, struct opened **out,
                      opm_error *err)
{
    static const struct read_limits unasked = { .unpacked = UNASKED_UNPACKED_MAX,
                                                .memory = UNASKED_MEMORY_MAX,
                                                .seconds = UNASKED_SECONDS };
    const char *path[TRACE_FILE_PATHS];
    size_t n = trace_file_paths(&e->file, path);
    struct opened *o, *before;
    int rc = opened_read(&o, path, n, file->stamp, keep ? &c->limits : &unasked, &e->reading, err);

    if (rc < 0)
        return rc;
    *out = o;
    if (!keep)
        return 0;
    opened_prepare(o);
    pthread_mutex_lock(&c->mutex);
    before = e->opened;
    e->opened = o;
    e->used_ns = watch_now_ns();
    opened_ref(o);
    make_room(c, e);
    pthread_mutex_unlock(&c->mutex);
    opened_unref(before);
    return 0;
}

struct catalog_entry *entry_find(struct catalog *c, const char *id, opm_error *err)
{
    struct catalog_entry *e;

    pthread_mutex_lock(&c->mutex);
    e = entry_of_id(c, id);
    pthread_mutex_unlock(&c->mutex);
    if (!e)
        opm__fail(err, OPM_ENOTFOUND, "no trace '%.40s' here", id);
    return e;
}

int entry_open(struct catalog *c, struct catalog_entry *e, enum catalog_want want,
               struct opened **out, opm_error *err)
{
    struct trace_file_state file = { 0 };
    int rc = 0;

    if (want != CATALOG_AS_READ)
        rc = trace_file_look(&e->file, &file, err);
    if (rc < 0)
        return rc;
    *out = take_opened(c, e, want, &file);
    if (*out)
        return 0;
    /* One thread reads it; who comes meanwhile finds it read. */
    pthread_mutex_lock(&e->opening);
    *out = take_opened(c, e, want, &file);
    if (!*out) {
        rc = trace_file_look(&e->file, &file, err);
        if (rc == 0)
            rc = read_entry(c, e, &file, want != CATALOG_BRIEFLY, out, err);
    }
    pthread_mutex_unlock(&e->opening);
    return rc;
}

int catalog_open(struct catalog *c, const char *id, enum catalog_want want, struct opened **out,
                 opm_error *err)
{
    struct catalog_entry *e = entry_find(c, id, err);

    return e ? entry_open(c, e, want, out, err) : OPM_ENOTFOUND;
}

int catalog_paths(struct catalog *c, const char *id, const char *out[TRACE_FILE_PATHS], size_t *n,
                  opm_error *err)
{
    struct catalog_entry *e = entry_find(c, id, err);
    struct trace_file_state file;
    int rc = e ? trace_file_look(&e->file, &file, err) : OPM_ENOTFOUND;

    if (rc == 0)
        *n = trace_file_paths(&e->file, out);
    return rc;
}
