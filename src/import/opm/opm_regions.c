/* opm_regions.c -- steps and labelled regions of an .opm file: spans that have a row in a table of
 * their own as well.
 *
 * A step that begins inside a warm-up region is a warm-up step, whatever it says of itself. Regions
 * are those of the step's thread; of any thread if that has none. */
#include "import/opm/opm_events.h"

#include "base/alloc.h"

#include <stdlib.h>

struct region {
    uint32_t thread;
    int64_t from_ns;
    int64_t to_ns; /* the end; of this one and all before it on the thread, the latest */
};

/* Warm-up regions, by thread and start; then once more as if of one thread, NO_THREAD. */
struct warmups {
    struct region *region;
    size_t n, cap;
    struct u64map threads; /* that have regions of any kind */
};

#define NO_THREAD UINT32_MAX

static int64_t arg_int(const struct noted *span, uint32_t key, int64_t none)
{
    for (size_t i = 0; i < span->narg; i++)
        if (span->arg[i].key == key)
            return (int64_t)span->arg[i].value;
    return none;
}

static bool says_warmup(const struct noted *n)
{
    return arg_int(n, ARG_KEY_FLAGS, 0) & 1;
}

static const struct def_site *site_of(const struct event_pass *e, const struct noted *n)
{
    return n->id < ID_COUNT ? defs_site(e->f, n->id) : NULL;
}

static int region_order(const void *va, const void *vb)
{
    const struct region *a = va, *b = vb;

    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

static int warmups_add(struct warmups *w, uint32_t thread, const struct noted *n)
{
    if (!GROW(w->region, w->cap, w->n + 1))
        return OPM_ENOMEM;
    w->region[w->n++] =
        (struct region){ .thread = thread,
                         .from_ns = n->ts_ns,
                         .to_ns = n->dur_ns < 0 ? INT64_MAX : n->ts_ns + n->dur_ns };
    return 0;
}

static int warmups_gather(struct warmups *w, const struct event_pass *e)
{
    int rc = 0;

    for (size_t i = 0; i < e->notes.n && !rc; i++) {
        const struct noted *n = &e->notes.item[i];
        const struct def_site *site = site_of(e, n);

        if (!site || site->role != ROLE_RECORD)
            continue;
        rc = u64map_put(&w->threads, n->thread, 1);
        if (!rc && says_warmup(n))
            rc = warmups_add(w, n->thread, n);
        if (!rc && says_warmup(n))
            rc = warmups_add(w, NO_THREAD, n);
    }
    if (rc || !w->n)
        return rc;
    qsort(w->region, w->n, sizeof(*w->region), region_order);
    for (size_t i = 1; i < w->n; i++)
        if (w->region[i].thread == w->region[i - 1].thread)
            w->region[i].to_ns = MAX(w->region[i].to_ns, w->region[i - 1].to_ns);
    return 0;
}

static bool warmups_cover(const struct warmups *w, const struct noted *step)
{
    struct region wanted = { .thread =
                                 u64map_get(&w->threads, step->thread) ? step->thread : NO_THREAD,
                             .from_ns = step->ts_ns };
    size_t lo = 0, hi = w->n;

    while (lo < hi) { /* to the first one that starts later */
        size_t mid = (lo + hi) / 2;

        if (region_order(&w->region[mid], &wanted) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && w->region[lo - 1].thread == wanted.thread && w->region[lo - 1].to_ns > step->ts_ns;
}

static int step_place(struct event_pass *e, const struct noted *n, const struct warmups *w,
                      uint32_t track)
{
    struct cell row[step_col_COUNT];

    row[step_col_id] = cell_null();
    row[step_col_model] = cell_str(site_of(e, n)->name);
    row[step_col_num] = cell_i64(arg_int(n, ARG_KEY_STEP, OPM_NULL_I64));
    row[step_col_ts] = cell_i64(n->ts_ns);
    row[step_col_dur] = cell_i64(n->dur_ns);
    row[step_col_warmup] = cell_i64(says_warmup(n) || warmups_cover(w, n));
    row[step_col_track] = cell_id(track);
    return store_add(e->f->st, TABLE_step, row, NULL);
}

static int record_place(struct event_pass *e, const struct noted *n, uint32_t track)
{
    struct cell row[record_col_COUNT];

    row[record_col_id] = cell_null();
    row[record_col_label] = cell_str(site_of(e, n)->name);
    row[record_col_ts] = cell_i64(n->ts_ns);
    row[record_col_dur] = cell_i64(n->dur_ns);
    row[record_col_warmup] = cell_i64(says_warmup(n));
    row[record_col_track] = cell_id(track);
    return store_add(e->f->st, TABLE_record, row, NULL);
}

int regions_place(struct event_pass *e)
{
    struct warmups w = { 0 };
    int rc = warmups_gather(&w, e);

    for (size_t i = 0; i < e->notes.n && !rc; i++) {
        const struct noted *n = &e->notes.item[i];
        const struct def_site *site = site_of(e, n);
        const struct def_thread *t = defs_thread(e->f, n->thread);

        if (!site || !t || !role_is_special(site->role))
            continue;
        if (site->role == ROLE_STEP)
            rc = step_place(e, n, &w, t->track);
        else
            rc = record_place(e, n, t->track);
    }
    mem_free(w.region);
    u64map_release(&w.threads);
    return rc;
}
