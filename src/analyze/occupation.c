/* occupation.c -- what device and host did in the window of each step. */
#include "analyze/analysis.h"
#include "analyze/busy.h"
#include "analyze/step_list.h"
#include "analyze/window.h"
#include "base/alloc.h"
#include "base/error.h"
#include <string.h>

static int add_window(const struct store *st, struct table *out, const struct windows *w,
                      const struct window *win, const struct step_row *s, const int64_t *ns,
                      const int64_t *once)
{
    const struct place *p = &w->place[win->place];
    double total = (double)win->to_ns - (double)win->from_ns;
    int rc = 0;

    for (int b = 0; b < BUCKET_COUNT && rc == 0; b++) {
        struct cell c[occupation_col_COUNT];

        c[occupation_col_step] = cell_id(s ? s->step : OPM_NULL_ID);
        c[occupation_col_num] = cell_i64(s ? s->num : OPM_NULL_I64);
        c[occupation_col_rank] = cell_i64(p->rank == OPM_NULL_I64 && s ? s->rank : p->rank);
        c[occupation_col_device] =
            p->device ? store_cell(st, TABLE_track, p->track, track_col_device) : cell_null();
        c[occupation_col_ts] = cell_i64(win->from_ns);
        c[occupation_col_warmup] = cell_i64(s && s->warmup);
        c[occupation_col_bucket] =
            cell_str(strpool_find(store_strings(st), bucket_names[b], strlen(bucket_names[b])));
        c[occupation_col_ns] = cell_i64(ns[b]);
        c[occupation_col_once_ns] = cell_i64(once[b]);
        c[occupation_col_share] = total > 0 ? cell_f64((double)ns[b] / total) : cell_null();
        rc = table_add(out, c);
    }
    return rc;
}

/* Two rows of buckets for each window: all of it, and what no window before it has. */
static int account(const struct store *st, const struct windows *w, const struct step_list *l,
                   int64_t *ns)
{
    struct stretch *s = mem_alloc((2 * w->n + 1) * sizeof(*s));
    int rc = s ? 0 : OPM_ENOMEM;

    for (size_t i = 0; rc == 0 && i < w->n; i++) {
        const struct window *win = &w->at[i];
        struct cell track = win->row == OPM_NULL_ID
                                ? cell_null()
                                : store_cell(st, TABLE_step, l->row[win->row].step, step_col_track);

        s[2 * i] =
            (struct stretch){ win->from_ns, win->to_ns, w->place[win->place].rank, win->place,
                              track.kind == CELL_I64 ? (uint32_t)track.i64 : OPM_NULL_ID };
        s[2 * i + 1] = s[2 * i];
        s[2 * i + 1].from_ns = win->once_ns;
    }
    if (rc == 0)
        rc = busy_compute(st, w, s, 2 * w->n, ns);
    for (size_t i = 0; rc == 0 && i < 2 * w->n; i++) {
        int64_t *of = ns + i * BUCKET_COUNT;

        if (w->at[i / 2].recorded)
            continue;
        memset(of, 0, BUCKET_COUNT * sizeof(*of));
        of[BUCKET_not_recorded] = s[i].to_ns - s[i].from_ns;
    }
    mem_free(s);
    return rc;
}

int analyze_occupation(const struct store *st, struct table *out, opm_error *err)
{
    struct step_list l;
    struct windows w = { 0 };
    int64_t *ns = NULL;
    int rc = step_list_get(&l, st);

    if (rc == 0)
        rc = windows_get(&w, st, &l);
    if (rc == 0) {
        ns = mem_alloc((2 * w.n + 1) * BUCKET_COUNT * sizeof(*ns));
        rc = ns ? account(st, &w, &l, ns) : OPM_ENOMEM;
    }
    for (size_t i = 0; rc == 0 && i < w.n; i++)
        rc = add_window(st, out, &w, &w.at[i],
                        w.at[i].row == OPM_NULL_ID ? NULL : &l.row[w.at[i].row],
                        ns + 2 * i * BUCKET_COUNT, ns + (2 * i + 1) * BUCKET_COUNT);
    mem_free(ns);
    windows_release(&w);
    step_list_release(&l);
    return rc ? opm__fail(err, rc, "occupation: out of memory") : 0;
}
