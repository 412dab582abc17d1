/* catalog.c -- see catalog.h. */
#include "server/catalog.h"

#include "base/alloc.h"
#include "base/error.h"
#include "server/answer.h"
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

#define OPEN_MAX 8                              /* traces in memory */
#define BYTES_PER_SPAN 150                      /* in memory, with what pictures need */
#define UNASKED_BYTES_MAX ((uint64_t)256 << 20) /* larger files are read when asked for */
#define LIVE_FRESH_NS 500000000 /* what is being written is not read more often than this */

struct entry {
    char id[CATALOG_ID_ROOM];
    char *path;
    const char *shown;  /* what people see of it: within path */
    const char *within; /* the folder that it must stay in, resolved; NULL: it was named itself */
    const char *format;
    struct opened *opened; /* or NULL */
    int64_t used_ns;
    pthread_mutex_t opening;
    bool known; /* facts are those of the file with this stamp */
    uint64_t known_stamp;
    struct facts facts;
};

struct root {
    char *path;
    char *resolved;
};

struct catalog {
    pthread_mutex_t mutex; /* over all but the opening of a trace */
    struct root *root;
    size_t nroot;
    struct entry **entry;
    size_t n, cap;
    bool folder;
    atomic_bool end;
    pthread_mutex_t scanning; /* of the folders; taken before mutex */
    int64_t scanned_ns, scan_took_ns;
};

/* ---- ids ---- */

static uint64_t hash_of(uint64_t h, const void *p, size_t len)
{
    const uint8_t *b = p;

    for (size_t i = 0; i < len; i++)
        h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

static struct entry *find_path(const struct catalog *c, const char *path)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->entry[i]->path, path) == 0)
            return c->entry[i];
    return NULL;
}

static struct entry *find_id(const struct catalog *c, const char *id)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->entry[i]->id, id) == 0)
            return c->entry[i];
    return NULL;
}

/* From the path, so that an address can be kept from one run of the server to the next. */
static void set_id(const struct catalog *c, struct entry *e)
{
    uint64_t h = hash_of(0xcbf29ce484222325u, e->path, strlen(e->path));

    do
        snprintf(e->id, sizeof(e->id), "%012" PRIx64, h++ & 0xffffffffffffu);
    while (find_id(c, e->id));
}

static void entry_free(struct entry *e)
{
    opened_unref(e->opened);
    pthread_mutex_destroy(&e->opening);
    mem_free(e->path);
    mem_free(e);
}

static int new_entry(struct catalog *c, const char *path, size_t shown_from, const char *within,
                     const char *format, opm_error *err)
{
    struct entry *e = mem_calloc(1, sizeof(*e));

    if (!e || !(e->path = mem_strdup(path)) || !GROW(c->entry, c->cap, c->n + 1)) {
        if (e)
            mem_free(e->path);
        mem_free(e);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    pthread_mutex_init(&e->opening, NULL);
    e->shown = e->path + shown_from;
    e->within = within;
    e->format = format;
    set_id(c, e);
    c->entry[c->n++] = e;
    return 0;
}

static int add_entry(struct catalog *c, const char *path, size_t shown_from, const char *within,
                     const char *format, opm_error *err)
{
    struct entry *e;
    int rc = 0;

    pthread_mutex_lock(&c->mutex);
    e = find_path(c, path);
    if (e)
        e->format = format;
    else
        rc = new_entry(c, path, shown_from, within, format, err);
    pthread_mutex_unlock(&c->mutex);
    return rc;
}

/* ---- folders ---- */

struct found {
    struct catalog *c;
    const struct root *root;
};

static int on_found(void *user, const char *path, const char *format, opm_error *err)
{
    struct found *f = user;

    return add_entry(f->c, path, strlen(f->root->path) + 1, f->root->resolved, format, err);
}

/* Find what is new, unless that was done just now: at most a tenth of the time goes into it. */
static int look_into_folders(struct catalog *c, opm_error *err)
{
    int64_t start;
    int rc = 0;

    pthread_mutex_lock(&c->scanning);
    start = watch_now_ns();
    if (start - c->scanned_ns > 9 * c->scan_took_ns) {
        for (size_t i = 0; rc == 0 && i < c->nroot; i++)
            rc = folder_walk(c->root[i].path, c->root[i].resolved, on_found,
                             &(struct found){ c, &c->root[i] }, err);
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
    return add_entry(c, path, 0, NULL, format, err);
}

int catalog_new(struct catalog **out, const char *const *paths, size_t npaths, opm_error *err)
{
    struct catalog *c = mem_calloc(1, sizeof(*c));
    int rc = 0;

    if (c)
        c->root = mem_calloc(npaths + 1, sizeof(*c->root));
    if (!c || !c->root) {
        mem_free(c);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    pthread_mutex_init(&c->mutex, NULL);
    pthread_mutex_init(&c->scanning, NULL);
    for (size_t i = 0; rc == 0 && i < npaths; i++)
        rc = add_path(c, paths[i], err);
    if (rc == 0)
        rc = look_into_folders(c, err);
    c->folder |= npaths > 1;
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

bool catalog_is_folder(const struct catalog *c)
{
    return c->folder;
}

/* ---- files ---- */

/* What tells one version of a file from the next. */
struct file_state {
    uint64_t stamp;
    uint64_t bytes;
    bool live; /* being written */
};

static uint64_t hash_stat(uint64_t h, const struct stat *st)
{
    h = hash_of(h, &st->st_ino, sizeof(st->st_ino));
    h = hash_of(h, &st->st_size, sizeof(st->st_size));
    return hash_of(h, &st->st_mtim, sizeof(st->st_mtim));
}

static int look_at_file(const struct entry *e, struct file_state *out, opm_error *err)
{
    struct buf live = { 0 };
    struct stat st;

    *out = (struct file_state){ 0 };
    if (stat(e->path, &st) < 0)
        return opm__fail(err, OPM_EIO, "%s: %s", e->shown,
                         errno == ENOENT || errno == ENOTDIR
                             ? "the file is no longer there; it was deleted or moved"
                             : strerror(errno));
    if (e->within) {
        char *resolved = realpath(e->path, NULL);
        bool inside = resolved && folder_holds(e->within, resolved);

        free(resolved);
        if (!inside)
            return opm__fail(err, OPM_EIO, "%s: a link that leads out of the folder", e->shown);
    }
    out->stamp = hash_stat(0xcbf29ce484222325u, &st);
    out->bytes = (uint64_t)st.st_size;
    buf_addf(&live, "%s-live", e->path);
    if (!live.failed && stat(buf_str(&live), &st) == 0) {
        out->stamp = hash_stat(out->stamp, &st);
        out->live = true;
    }
    buf_release(&live);
    return 0;
}

/* ---- memory ---- */

/* Half of what the machine has. */
static int64_t spans_max(void)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    return pages > 0 && page > 0 ? pages / 2 * page / BYTES_PER_SPAN : INT64_MAX;
}

/* Let go of what was not used for longest until the rest fits; `keep` stays. */
static void make_room(struct catalog *c, const struct entry *keep)
{
    for (;;) {
        struct entry *oldest = NULL;
        int64_t spans = 0;
        size_t n = 0;

        for (size_t i = 0; i < c->n; i++) {
            struct entry *e = c->entry[i];

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

/* ---- opening ---- */

static bool is_good(const struct opened *o, enum catalog_want want, const struct file_state *file)
{
    if (!o)
        return false;
    if (want == CATALOG_AS_READ)
        return true;
    return opened_stamp(o) == file->stamp &&
           !(file->live && watch_now_ns() - opened_read_ns(o) > LIVE_FRESH_NS);
}

/* A reference to what is in memory, if that will do. */
static struct opened *take_opened(struct catalog *c, struct entry *e, enum catalog_want want,
                                  const struct file_state *file)
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

static int read_entry(struct catalog *c, struct entry *e, const struct file_state *file, bool keep,
                      struct opened **out, opm_error *err)
{
    struct opened *o, *before;
    int rc = opened_read(&o, e->path, file->stamp, &c->end, err);

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

static struct entry *entry_of(struct catalog *c, const char *id, opm_error *err)
{
    struct entry *e;

    pthread_mutex_lock(&c->mutex);
    e = find_id(c, id);
    pthread_mutex_unlock(&c->mutex);
    if (!e)
        opm__fail(err, OPM_ENOTFOUND, "no trace '%.40s' here", id);
    return e;
}

static int open_entry(struct catalog *c, struct entry *e, enum catalog_want want,
                      struct opened **out, opm_error *err)
{
    struct file_state file = { 0 };
    int rc = 0;

    if (want != CATALOG_AS_READ)
        rc = look_at_file(e, &file, err);
    if (rc < 0)
        return rc;
    *out = take_opened(c, e, want, &file);
    if (*out)
        return 0;
    /* One thread reads it; who comes meanwhile finds it read. */
    pthread_mutex_lock(&e->opening);
    *out = take_opened(c, e, want, &file);
    if (!*out) {
        rc = look_at_file(e, &file, err);
        if (rc == 0)
            rc = read_entry(c, e, &file, want != CATALOG_BRIEFLY, out, err);
    }
    pthread_mutex_unlock(&e->opening);
    return rc;
}

int catalog_open(struct catalog *c, const char *id, enum catalog_want want, struct opened **out,
                 opm_error *err)
{
    struct entry *e = entry_of(c, id, err);

    return e ? open_entry(c, e, want, out, err) : OPM_ENOTFOUND;
}

int catalog_path(struct catalog *c, const char *id, const char **out, opm_error *err)
{
    struct entry *e = entry_of(c, id, err);
    struct file_state file;
    int rc = e ? look_at_file(e, &file, err) : OPM_ENOTFOUND;

    if (rc == 0)
        *out = e->path;
    return rc;
}

/* ---- answers ---- */

static void add_stamp(struct json_writer *w, uint64_t stamp)
{
    char text[20];

    snprintf(text, sizeof(text), "%016" PRIx64, stamp);
    json_key(w, "stamp");
    json_cstr(w, text);
}

int catalog_describe(struct catalog *c, const char *id, struct json_writer *w, opm_error *err)
{
    struct entry *e = entry_of(c, id, err);
    struct opened *o = NULL;
    struct file_state file = { 0 };
    opm_trace *t;
    int rc = e ? open_entry(c, e, CATALOG_FRESH, &o, err) : OPM_ENOTFOUND;

    if (rc == 0)
        rc = opened_enter(o, LANE_DATA, &t, err);
    if (rc < 0) {
        opened_unref(o);
        return rc;
    }
    json_object(w);
    json_key(w, "id");
    json_cstr(w, e->id);
    json_key(w, "path");
    json_cstr(w, e->shown);
    json_key(w, "format");
    json_cstr(w, e->format);
    json_key(w, "recording");
    json_bool(w, look_at_file(e, &file, NULL) == 0 && file.live);
    add_stamp(w, opened_stamp(o));
    rc = answer_facts(w, t, e->shown, err);
    json_object_end(w);
    opened_leave(o, LANE_DATA);
    opened_unref(o);
    return rc;
}

static void list_entry(struct json_writer *w, const struct entry *e, const struct stat *st)
{
    json_object(w);
    json_key(w, "id");
    json_cstr(w, e->id);
    json_key(w, "path");
    json_cstr(w, e->shown);
    json_key(w, "bytes");
    if (S_ISREG(st->st_mode))
        json_i64(w, st->st_size);
    else
        json_null(w);
    json_key(w, "modified");
    json_i64(w, st->st_mtim.tv_sec);
    json_key(w, "format");
    json_cstr(w, e->format);
    json_key(w, "open");
    json_bool(w, e->opened != NULL);
    facts_answer(w, e->known ? &e->facts : NULL);
    json_object_end(w);
}

struct listed {
    const struct entry *entry;
    struct stat st;
};

static int newest_first(const void *pa, const void *pb)
{
    const struct listed *a = pa, *b = pb;
    int64_t at = a->st.st_mtim.tv_sec, bt = b->st.st_mtim.tv_sec;

    return at != bt ? (at < bt ? 1 : -1) : strverscmp(a->entry->path, b->entry->path);
}

int catalog_list(struct catalog *c, struct json_writer *w, opm_error *err)
{
    struct listed *list = NULL;
    size_t n = 0;
    int rc = look_into_folders(c, err);

    pthread_mutex_lock(&c->mutex);
    if (rc == 0) {
        list = mem_calloc(c->n + 1, sizeof(*list));
        rc = list ? 0 : opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    for (size_t i = 0; rc == 0 && i < c->n; i++) {
        list[n].entry = c->entry[i];
        n += stat(c->entry[i]->path, &list[n].st) == 0; /* what is gone is not listed */
    }
    if (rc == 0) {
        qsort(list, n, sizeof(*list), newest_first);
        json_array(w);
        for (size_t i = 0; i < n; i++)
            list_entry(w, list[i].entry, &list[i].st);
        json_array_end(w);
    }
    pthread_mutex_unlock(&c->mutex);
    mem_free(list);
    return rc;
}

bool catalog_unknown(struct catalog *c, char id[CATALOG_ID_ROOM], uint64_t *stamp)
{
    bool found = false;

    pthread_mutex_lock(&c->mutex);
    for (size_t i = 0; !found && i < c->n && !atomic_load(&c->end); i++) {
        struct entry *e = c->entry[i];
        struct file_state file;

        if (look_at_file(e, &file, NULL) < 0 || (e->known && e->known_stamp == file.stamp) ||
            (file.bytes > UNASKED_BYTES_MAX && c->folder && !e->opened))
            continue;
        memcpy(id, e->id, CATALOG_ID_ROOM);
        *stamp = file.stamp;
        found = true;
    }
    pthread_mutex_unlock(&c->mutex);
    return found;
}

void catalog_learn(struct catalog *c, const char *id, uint64_t stamp, const struct facts *f)
{
    struct entry *e;

    pthread_mutex_lock(&c->mutex);
    e = find_id(c, id);
    e->known = true;
    e->known_stamp = stamp;
    e->facts = *f;
    pthread_mutex_unlock(&c->mutex);
}
