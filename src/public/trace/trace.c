/* trace.c -- open, close and export traces; see opmeter_trace.h. */
#include "public/trace/trace.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/redact.h"
#include "base/sized.h"
#include "export/export.h"
#include "import/graph/replay.h"
#include "import/llm/derive.h"
#include <string.h>

static int add_meta(struct store *st, const char *const *meta, opm_error *err)
{
    for (; meta && *meta; meta++) {
        const char *equals = strchr(*meta, '=');
        char key[100];

        if (!equals || equals == *meta || (size_t)(equals - *meta) >= sizeof(key))
            return opm__fail(err, OPM_EINVAL, "opm_trace_open: meta '%s' is not key=value", *meta);
        memcpy(key, *meta, (size_t)(equals - *meta));
        key[equals - *meta] = '\0'; /* bounded: refused above */
        if (store_meta(st, key, equals + 1) < 0)
            return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    return 0;
}

static int hide_meta(struct store *st, const char *list, opm_error *err)
{
    for (size_t i = 0; list && i < store_nrow(st, TABLE_meta); i++) {
        const char *key = store_text(st, store_cell(st, TABLE_meta, i, meta_col_key).str);

        if (redact_hides(list, key) && store_meta(st, key, REDACT_TEXT) < 0)
            return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    return 0;
}

/* All paths into a new store; captures of graphs that lie among them are left out and listed. */
static int read_paths(opm_trace *t, const char *const *paths, size_t npaths,
                      const struct import_options *import, opm_error *err)
{
    int rc = 0;

    for (int again = 0; rc == 0 && again < 2; again++) {
        store_free(t->st);
        t->st = NULL;
        if (store_new(&t->st) < 0)
            return opm__fail(err, OPM_ENOMEM, "out of memory");
        rc = import_all(t->st, paths, npaths, import, err);
        if (!import->captures->n)
            break;
        import->captures->left_out = true;
    }
    return rc;
}

static int read_all(opm_trace *t, const char *const *paths, size_t npaths,
                    const opm_open_options *opts, opm_error *err)
{
    struct import_captures found = { 0 };
    struct import_options import = { opts->format, opts->max_bytes, opts->progress, opts->user,
                                     &found };
    struct replay_files captures = { .path = opts->captures, .n = opts->ncaptures };
    int rc = read_paths(t, paths, npaths, &import, err);

    if (rc == 0)
        rc = add_meta(t->st, opts->meta, err);
    if (rc == 0)
        rc = hide_meta(t->st, opts->redact, err);
    if (rc == 0 && store_finish(t->st) < 0)
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    if (rc == 0) {
        captures.found = found.path;
        captures.nfound = found.n;
        import.captures = NULL;
        rc = replays_link(t->st, npaths ? paths[0] : "", &captures, &import, err);
    }
    if (rc == 0 && llm_derive(t->st) < 0)
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    import_captures_release(&found);
    return rc < 0 ? rc : sql_open(&t->sql, t->st, err);
}

/* Within the limits of the options, or of whoever opens it if he has some. */
static int read_within(opm_trace *t, const char *const *paths, size_t npaths,
                       const opm_open_options *opts, opm_error *err)
{
    struct budget_limits limits = { opts->max_bytes, opts->max_memory, opts->max_seconds };
    struct budget budget, *before = budget_current();
    opm_error local;
    int rc;

    if (!err)
        err = &local;
    if (before) {
        rc = read_all(t, paths, npaths, opts, err);
        return rc == OPM_ELIMIT ? rc : budget_fail(before, npaths ? paths[0] : "", rc, err);
    }
    rc = budget_init(&budget, &limits, err);
    if (rc < 0)
        return rc;
    before = budget_enter(&budget);
    rc = read_all(t, paths, npaths, opts, err);
    budget_enter(before);
    /* Who read the file that met a limit has said so; what comes after all are read is about all.
     */
    if (rc != OPM_ELIMIT)
        rc = budget_fail(&budget, npaths ? paths[0] : "", rc, err);
    return rc;
}

int opm_trace_open(opm_trace **out, const char *const *paths, size_t npaths,
                   const opm_open_options *opts, opm_error *err)
{
    opm_open_options o = OPM_OPEN_OPTIONS_INIT;
    opm_trace *t;
    int rc;

    if (!out || (npaths && !paths))
        return opm__fail(err, OPM_EINVAL, "opm_trace_open: %s is NULL", out ? "paths" : "out");
    if (npaths > INT32_MAX)
        return opm__fail(err, OPM_EINVAL, "opm_trace_open: too many paths");
    for (size_t i = 0; i < npaths; i++)
        if (!paths[i])
            return opm__fail(err, OPM_EINVAL, "opm_trace_open: paths[%zu] is NULL", i);
    rc = sized_copy(&o, sizeof(o), opts, "opm_open_options", err);
    if (rc < 0)
        return rc;
    if (o.ncaptures && !o.captures)
        return opm__fail(err, OPM_EINVAL, "opm_trace_open: captures is NULL");
    t = mem_calloc(1, sizeof(*t));
    if (!t)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    t->refs = 1;
    t->handles = mem_alloc(sizeof(*t->handles));
    if (!t->handles) {
        mem_free(t);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    atomic_init(t->handles, 1);
    rc = read_within(t, paths, npaths, &o, err);
    if (rc < 0)
        trace_unref(t);
    else
        *out = t;
    return rc;
}

int opm_trace_share(opm_trace *t, opm_trace **out, opm_error *err)
{
    opm_trace *made;
    int rc;

    if (!t || !out)
        return opm__fail(err, OPM_EINVAL, "opm_trace_share: %s is NULL", t ? "out" : "t");
    made = mem_calloc(1, sizeof(*made));
    if (!made)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    made->refs = 1;
    made->st = t->st;
    made->handles = t->handles;
    atomic_fetch_add(t->handles, 1);
    /* Every word of the schema is in the string pool since the first handle, so that this one only
     * reads, as all others do. */
    rc = sql_open(&made->sql, made->st, err);
    if (rc < 0)
        trace_unref(made);
    else
        *out = made;
    return rc;
}

const char *opm_trace_detect(const char *path)
{
    return path ? import_detect(path) : NULL;
}

void trace_unref(opm_trace *t)
{
    if (--t->refs)
        return;
    counters_free(t->counters);
    totals_free(t->totals);
    lod_free(t->lod);
    sql_close(t->sql);
    if (atomic_fetch_sub(t->handles, 1) == 1) {
        store_free(t->st);
        mem_free(t->handles);
    }
    mem_free(t);
}

void opm_trace_close(opm_trace *t)
{
    if (t)
        trace_unref(t);
}

void opm_trace_interrupt(opm_trace *t)
{
    if (t)
        sql_interrupt(t->sql);
}

static int unknown_format(const char *name, opm_error *err)
{
    struct nearest near = { name, NULL, 0 };
    size_t n = 0;
    char list[300] = "";

    for (const struct exporter *e = exporters; e->name; e++) {
        nearest_try(&near, e->name);
        if (n < sizeof(list))
            n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", e->name);
    }
    if (near.best)
        return opm__fail(err, OPM_ENOTFOUND, "no export format '%s'; did you mean '%s'?", name,
                         near.best);
    return opm__fail(err, OPM_ENOTFOUND, "no export format '%s'; there are: %s", name, list);
}

int opm_trace_export(opm_trace *t, const char *format, const char *path,
                     const opm_export_options *opts, opm_error *err)
{
    opm_export_options o = OPM_EXPORT_OPTIONS_INIT;
    const struct exporter *e;
    int rc;

    if (!t || !format || !path)
        return opm__fail(err, OPM_EINVAL, "opm_trace_export: %s is NULL",
                         !t       ? "t"
                         : format ? "path"
                                  : "format");
    rc = sized_copy(&o, sizeof(o), opts, "opm_export_options", err);
    if (rc < 0)
        return rc;
    if (atomic_load(t->handles) > 1) /* exporting may add strings */
        return opm__fail(err, OPM_EBUSY, "opm_trace_export: other handles share this trace");
    e = exporter_find(format);
    if (!e)
        return unknown_format(format, err);
    return e->write(t->st, path,
                    &(struct export_options){ .table = o.table,
                                              .progress = o.progress,
                                              .user = o.user,
                                              .raw = o.raw != 0,
                                              .job = o.job,
                                              .rank = o.rank,
                                              .force = o.force != 0 },
                    err);
}
