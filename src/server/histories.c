/* histories.c -- see histories.h. */
#include "server/histories.h"

#include "base/alloc.h"
#include "base/error.h"
#include "catalog/history_answer.h"
#include "server/folder_walk.h"
#include "server/trace_file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FOUND_MAX 200    /* catalogues in a folder */
#define RUNS_SHOWN 500   /* of a series, of which operators are shown: the last */
#define OPERATORS_MAX 60 /* those that take longest */

struct one {
    char id[CATALOG_ID_ROOM];
    char *path;
    char *beside; /* the folder that it lies in, without links */
};

struct histories {
    struct catalog *traces;
    pthread_mutex_t mutex; /* over the list; what is in it stays */
    struct one **one;
    size_t n, cap;
    char **folder; /* that are served */
    size_t nfolder;
    pthread_mutex_t reading; /* one history at a time is read, as it may be large */
};

static struct one *find_path(const struct histories *h, const char *path)
{
    for (size_t i = 0; i < h->n; i++)
        if (strcmp(h->one[i]->path, path) == 0)
            return h->one[i];
    return NULL;
}

static void one_free(struct one *one)
{
    mem_free(one->path);
    free(one->beside); /* realpath() allocated it */
    mem_free(one);
}

static int add(struct histories *h, const char *path, opm_error *err)
{
    struct one *one = find_path(h, path) ? NULL : mem_calloc(1, sizeof(*one));
    char folder[PATH_MAX], *slash;

    if (find_path(h, path))
        return 0;
    if (one)
        one->path = mem_strdup(path);
    if (!one || !one->path || !GROW(h->one, h->cap, h->n + 1)) {
        if (one)
            one_free(one);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    snprintf(folder, sizeof(folder), "%s", path);
    slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    one->beside = realpath(slash ? folder : ".", NULL);
    snprintf(one->id, sizeof(one->id), "%012" PRIx64,
             trace_hash(TRACE_HASH_INIT, path, strlen(path)) & 0xffffffffffffu);
    h->one[h->n++] = one;
    return 0;
}

/* Those at the top of a folder, that end in .db. */
static int look_into(struct histories *h, const char *folder, opm_error *err)
{
    DIR *d = opendir(folder);
    struct dirent *entry;
    size_t found = 0;
    int rc = 0;

    while (d && rc == 0 && found < FOUND_MAX) {
        char path[PATH_MAX], resolved[PATH_MAX];
        size_t len;

        entry = readdir(d);
        if (!entry)
            break;
        len = strlen(entry->d_name);
        if (len < 4 || entry->d_name[0] == '.' || strcmp(entry->d_name + len - 3, ".db") != 0 ||
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= (int)sizeof(path) ||
            !realpath(path, resolved) || !folder_holds(folder, resolved) || !runsdb_is(path))
            continue;
        found++;
        rc = add(h, path, err);
    }
    if (d)
        closedir(d);
    return rc;
}

int histories_new(struct histories **out, const char *const *paths, size_t npaths,
                  struct catalog *traces, opm_error *err)
{
    struct histories *h = mem_calloc(1, sizeof(*h));
    int rc = 0;

    if (h)
        h->folder = mem_calloc(npaths + 1, sizeof(*h->folder));
    if (!h || !h->folder) {
        mem_free(h);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    h->traces = traces;
    pthread_mutex_init(&h->mutex, NULL);
    pthread_mutex_init(&h->reading, NULL);
    for (size_t i = 0; i < npaths && rc == 0; i++) {
        struct stat st;

        if (stat(paths[i], &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode))
            h->folder[h->nfolder++] = realpath(paths[i], NULL);
        else if (runsdb_is(paths[i]))
            rc = add(h, paths[i], err);
    }
    if (rc < 0)
        histories_free(h);
    else
        *out = h;
    return rc;
}

void histories_free(struct histories *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->n; i++)
        one_free(h->one[i]);
    for (size_t i = 0; i < h->nfolder; i++)
        free(h->folder[i]);
    mem_free(h->one);
    mem_free(h->folder);
    pthread_mutex_destroy(&h->mutex);
    pthread_mutex_destroy(&h->reading);
    mem_free(h);
}

/* Look what is new; with the mutex held. */
static int look(struct histories *h, opm_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < h->nfolder && rc == 0; i++)
        rc = h->folder[i] ? look_into(h, h->folder[i], err) : 0;
    return rc;
}

bool histories_any(struct histories *h)
{
    opm_error err;
    bool any;

    pthread_mutex_lock(&h->mutex);
    any = look(h, &err) == 0 && h->n > 0;
    pthread_mutex_unlock(&h->mutex);
    return any;
}

int histories_list(struct histories *h, struct json_writer *w, opm_error *err)
{
    int rc;

    pthread_mutex_lock(&h->mutex);
    rc = look(h, err);
    json_array(w);
    for (size_t i = 0; i < h->n && rc == 0; i++) {
        json_object(w);
        json_key(w, "id");
        json_cstr(w, h->one[i]->id);
        json_key(w, "path");
        json_cstr(w, h->one[i]->path);
        json_object_end(w);
    }
    json_array_end(w);
    pthread_mutex_unlock(&h->mutex);
    return rc;
}

/* Never removed once it is there. */
static struct one *find(struct histories *h, const char *id, opm_error *err)
{
    struct one *one = NULL;

    pthread_mutex_lock(&h->mutex);
    for (size_t i = 0; i < h->n && !one; i++)
        if (strcmp(h->one[i]->id, id) == 0)
            one = h->one[i];
    pthread_mutex_unlock(&h->mutex);
    if (!one)
        opm__fail(err, OPM_ENOTFOUND, "no catalogue of runs '%.40s' here", id);
    return one;
}

/* -- what it says -- */

static int read_history(const struct one *one, const struct histories_asked *asked,
                        struct history *out, opm_error *err)
{
    struct history_filter filter = { .model = asked->model };
    struct kept_label label = { 0 };
    struct runsdb *db = NULL;
    char *key = NULL;
    int rc = 0;

    if (asked->label && asked->label[0]) {
        char *equals;

        key = mem_strdup(asked->label);
        equals = key ? strchr(key, '=') : NULL;
        if (!key)
            return opm__fail(err, OPM_ENOMEM, "out of memory");
        if (!equals || equals == key)
            rc = opm__fail(err, OPM_EINVAL, "label: '%.40s' is not KEY=VALUE", asked->label);
        else
            *equals = '\0';
        label = (struct kept_label){ .key = key, .value = equals ? equals + 1 : NULL };
        filter.label = &label;
        filter.nlabel = 1;
    }
    if (rc == 0)
        rc = runsdb_open(&db, one->path, RUNSDB_READ, err);
    if (rc == 0)
        rc = history_read(out, db, &filter, err);
    runsdb_close(db);
    mem_free(key);
    return rc;
}

int histories_answer(struct histories *h, const char *id, const struct histories_asked *asked,
                     struct json_writer *w, opm_error *err)
{
    const struct changes_options o = CHANGES_OPTIONS_INIT;
    const struct one *one = find(h, id, err);
    struct history history = { 0 };
    int rc;

    if (!one)
        return OPM_ENOTFOUND;
    pthread_mutex_lock(&h->reading);
    rc = read_history(one, asked, &history, err);
    if (rc == 0)
        rc = history_analyze(&history, &o, err);
    if (rc == 0) {
        json_object(w);
        json_key(w, "path");
        json_cstr(w, one->path);
        json_key(w, "skipped");
        json_i64(w, (int64_t)history.skipped);
        json_key(w, "series");
        json_array(w);
        for (size_t i = 0; i < history.nseries; i++) {
            json_newline(w);
            json_object(w);
            history_answer_series(w, &history, &history.series[i]);
            json_object_end(w);
        }
        json_array_end(w);
        json_object_end(w);
    }
    history_release(&history);
    pthread_mutex_unlock(&h->reading);
    return rc;
}

/* -- operators -- */

struct op_time {
    size_t op;
    double ns; /* in all runs that are shown */
};

static int by_time(const void *a, const void *b)
{
    const struct op_time *x = a, *y = b;

    if (x->ns != y->ns)
        return x->ns < y->ns ? 1 : -1;
    return (x->op > y->op) - (x->op < y->op);
}

static void put_operator(struct json_writer *w, const struct history *h,
                         const struct history_series *s, size_t from, size_t op, double *room)
{
    json_newline(w);
    json_object(w);
    json_key(w, "name");
    json_cstr(w, h->op[op].name);
    json_key(w, "type");
    json_cstr(w, h->op[op].type);
    json_key(w, "ns");
    json_array(w);
    history_values(h, s, h->op[op].name, h->op[op].type, room);
    for (size_t i = from; i < s->n; i++)
        json_f64(w, room[i]);
    json_array_end(w);
    json_object_end(w);
}

static int put_operators(struct json_writer *w, const struct history *h,
                         const struct history_series *s, opm_error *err)
{
    size_t from = s->n > RUNS_SHOWN ? s->n - RUNS_SHOWN : 0, n = 0;
    struct op_time *time = mem_calloc(h->nop + 1, sizeof(*time));
    double *room = mem_calloc(s->n + 1, sizeof(*room));
    int rc = time && room ? 0 : opm__fail(err, OPM_ENOMEM, "out of memory");

    for (size_t k = 0; k < h->nop && rc == 0; k++)
        time[k].op = k;
    for (size_t i = from; i < s->n && rc == 0; i++) {
        const struct history_run *r = history_run_at(h, s, i);

        for (size_t k = 0; k < r->nop; k++)
            time[r->op[k].op].ns += isfinite(r->op[k].ns) ? r->op[k].ns : 0;
    }
    if (rc == 0) {
        qsort(time, h->nop, sizeof(*time), by_time);
        while (n < h->nop && n < OPERATORS_MAX && time[n].ns > 0)
            n++;
        json_object(w);
        json_key(w, "from");
        json_i64(w, (int64_t)from);
        json_key(w, "operators");
        json_array(w);
        for (size_t k = 0; k < n; k++)
            put_operator(w, h, s, from, time[k].op, room);
        json_array_end(w);
        json_object_end(w);
    }
    mem_free(time);
    mem_free(room);
    return rc;
}

int histories_operators(struct histories *h, const char *id, const struct histories_asked *asked,
                        int64_t series, struct json_writer *w, opm_error *err)
{
    const struct one *one = find(h, id, err);
    struct history history = { 0 };
    int rc;

    if (!one)
        return OPM_ENOTFOUND;
    pthread_mutex_lock(&h->reading);
    rc = read_history(one, asked, &history, err);
    if (rc == 0 && (series < 0 || (size_t)series >= history.nseries))
        rc = opm__fail(err, OPM_ENOTFOUND, "there are %zu series, not one of number %lld",
                       history.nseries, (long long)series);
    if (rc == 0)
        rc = put_operators(w, &history, &history.series[series], err);
    history_release(&history);
    pthread_mutex_unlock(&h->reading);
    return rc;
}

/* -- traces -- */

struct sought {
    const char *run;
    char *trace;
};

static int on_run(void *user, const struct kept_run *row)
{
    struct sought *s = user;

    if (!row->id || strcmp(row->id, s->run) != 0)
        return 0;
    s->trace = row->trace ? mem_strdup(row->trace) : NULL;
    return 1;
}

int histories_trace(struct histories *h, const char *id, const char *run, struct json_writer *w,
                    opm_error *err)
{
    const struct one *one = find(h, id, err);
    struct sought sought = { .run = run };
    char trace[CATALOG_ID_ROOM];
    struct runsdb *db = NULL;
    int rc;

    if (!one)
        return OPM_ENOTFOUND;
    rc = runsdb_open(&db, one->path, RUNSDB_READ, err);
    if (rc == 0)
        rc = runsdb_each_run(db, on_run, &sought, err);
    runsdb_close(db);
    if (rc >= 0 && !sought.trace)
        rc = opm__fail(err, OPM_ENOTFOUND, "%s",
                       rc ? "where its trace lies is not known" : "no such run");
    if (rc >= 0)
        rc = catalog_add_inside(h->traces, sought.trace, one->beside, trace, err);
    if (rc == 0) {
        json_object(w);
        json_key(w, "id");
        json_cstr(w, trace);
        json_object_end(w);
    }
    mem_free(sought.trace);
    return rc;
}
