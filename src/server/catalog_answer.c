/* catalog_answer.c -- what a catalog says about its traces; see catalog.h. */
#include "server/catalog_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "server/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNASKED_BYTES_MAX ((uint64_t)256 << 20) /* larger files are read when asked for */

static void add_stamp(struct json_writer *w, uint64_t stamp)
{
    char text[20];

    snprintf(text, sizeof(text), "%016" PRIx64, stamp);
    json_key(w, "stamp");
    json_cstr(w, text);
}

int catalog_describe(struct catalog *c, const char *id, struct json_writer *w, opm_error *err)
{
    struct catalog_entry *e = entry_find(c, id, err);
    struct opened *o = NULL;
    struct trace_file_state file = { 0 };
    opm_trace *t;
    int rc = e ? entry_open(c, e, CATALOG_FRESH, &o, err) : OPM_ENOTFOUND;

    if (rc == 0)
        rc = opened_enter(o, LANE_DATA, NULL, &t, err);
    if (rc < 0) {
        opened_unref(o);
        return rc;
    }
    json_object(w);
    json_key(w, "id");
    json_cstr(w, e->id);
    json_key(w, "path");
    json_cstr(w, e->file.shown);
    json_key(w, "format");
    json_cstr(w, e->format);
    json_key(w, "recording");
    json_bool(w, trace_file_look(&e->file, &file, NULL) == 0 && file.live);
    add_stamp(w, opened_stamp(o));
    rc = answer_facts(w, t, e->file.shown, err);
    json_object_end(w);
    opened_leave(o, LANE_DATA);
    opened_unref(o);
    return rc;
}

int catalog_progress(struct catalog *c, const char *id, struct json_writer *w, opm_error *err)
{
    struct catalog_entry *e = entry_find(c, id, err);
    struct stat st;
    bool counts;

    if (!e)
        return OPM_ENOTFOUND;
    /* Of a folder, importers count records and files. */
    counts = stat(e->file.path, &st) == 0 && S_ISREG(st.st_mode);
    json_object(w);
    json_key(w, "done");
    json_i64(w, counts ? (int64_t)atomic_load(&e->reading.done) : 0);
    json_key(w, "total");
    json_i64(w, counts ? (int64_t)atomic_load(&e->reading.total) : 0);
    json_object_end(w);
    return 0;
}

static void list_entry(struct json_writer *w, const struct catalog_entry *e, const struct stat *st)
{
    json_object(w);
    json_key(w, "id");
    json_cstr(w, e->id);
    json_key(w, "path");
    json_cstr(w, e->file.shown);
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
    const struct catalog_entry *entry;
    struct stat st;
};

static int newest_first(const void *pa, const void *pb)
{
    const struct listed *a = pa, *b = pb;
    int64_t at = a->st.st_mtim.tv_sec, bt = b->st.st_mtim.tv_sec;

    return at != bt ? (at < bt ? 1 : -1) : strverscmp(a->entry->file.path, b->entry->file.path);
}

/* It was found before the file that it is read with. */
static bool is_beside(const struct catalog *c, const struct catalog_entry *e)
{
    for (size_t i = 0; i < c->n; i++) {
        const char *beside = atomic_load(&c->entry[i]->file.beside);

        if (beside && strcmp(beside, e->file.path) == 0)
            return true;
    }
    return false;
}

int catalog_list(struct catalog *c, struct json_writer *w, opm_error *err)
{
    struct listed *list = NULL;
    size_t n = 0;
    int rc = catalog_scan(c, err);

    pthread_mutex_lock(&c->mutex);
    if (rc == 0) {
        list = mem_calloc(c->n + 1, sizeof(*list));
        rc = list ? 0 : opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    for (size_t i = 0; rc == 0 && i < c->n; i++) {
        if (is_beside(c, c->entry[i]))
            continue;
        list[n].entry = c->entry[i];
        n += stat(c->entry[i]->file.path, &list[n].st) == 0; /* what is gone is not listed */
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
        struct catalog_entry *e = c->entry[i];
        struct trace_file_state file;

        if (trace_file_look(&e->file, &file, NULL) < 0 ||
            (e->known && e->known_stamp == file.stamp) ||
            ((uint64_t)file.st.st_size > UNASKED_BYTES_MAX && c->folder && !e->opened))
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
    struct catalog_entry *e;

    pthread_mutex_lock(&c->mutex);
    e = entry_of_id(c, id);
    e->known = true;
    e->known_stamp = stamp;
    e->facts = *f;
    pthread_mutex_unlock(&c->mutex);
}
