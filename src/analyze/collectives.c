/* collectives.c -- where in each step devices exchange data. */
#include "analyze/analysis.h"
#include "analyze/groups.h"
#include "analyze/span_class.h"
#include "analyze/step_gap.h"
#include "analyze/step_list.h"
#include "analyze/window.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"

#include <stdlib.h>

struct input {
    const int64_t *ts, *dur;
    const uint32_t *track, *parent, *site, *step;
    size_t n;
    uint8_t *class;
    struct step_list steps;
    int64_t *before_ns; /* time before each step that belongs to it */
    struct steps_by_rank by_rank;
    struct windows windows;
    struct u64map window_of; /* place and step.id -> of windows */
    struct u64map seen;      /* step and track -> collectives so far */
};

/* A step where a collective runs, and when it begins there. */
struct frame {
    const struct step_row *step; /* NULL: in none */
    int64_t from_ns;
};

static uint64_t window_key(uint32_t place, uint32_t step)
{
    return (uint64_t)place << 32 | step;
}

static int windows_index(struct input *in)
{
    int rc = 0;

    for (size_t i = 0; i < in->windows.n && rc == 0; i++) {
        const struct window *win = &in->windows.at[i];

        if (win->row != OPM_NULL_ID && in->windows.place[win->place].device)
            rc =
                u64map_put(&in->window_of, window_key(win->place, in->steps.row[win->row].step), i);
    }
    return rc;
}

static int input_get(struct input *in, const struct store *st)
{
    const struct {
        int col;
        const void **to;
    } columns[] = { { span_col_ts, (const void **)&in->ts },
                    { span_col_dur, (const void **)&in->dur },
                    { span_col_track, (const void **)&in->track },
                    { span_col_parent, (const void **)&in->parent },
                    { span_col_step, (const void **)&in->step } };

    if (step_list_get(&in->steps, st) < 0)
        return OPM_ENOMEM;
    in->class = span_classes(st);
    in->before_ns = mem_alloc((in->steps.n + 1) * sizeof(*in->before_ns));
    if (!in->class || !in->before_ns || step_gaps(st, &in->steps, in->before_ns) ||
        steps_by_rank_get(&in->by_rank, &in->steps) || windows_get(&in->windows, st, &in->steps) ||
        windows_index(in))
        return OPM_ENOMEM;
    in->site = store_span_site(st);
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        if (store_column(st, TABLE_span, columns[i].col, columns[i].to) < 0)
            return OPM_ENOMEM;
    in->n = in->ts && in->dur && in->track ? store_nrow(st, TABLE_span) : 0;
    return 0;
}

static void input_release(struct input *in)
{
    mem_free(in->before_ns);
    steps_by_rank_release(&in->by_rank);
    mem_free(in->class);
    u64map_release(&in->window_of);
    windows_release(&in->windows);
    u64map_release(&in->seen);
    step_list_release(&in->steps);
}

/* What a collective consists of is part of it. */
static bool is_outermost(const struct input *in, size_t i)
{
    for (uint32_t up = in->parent ? in->parent[i] : OPM_NULL_ID; up != OPM_NULL_ID;
         up = in->parent[up])
        if (in->class[in->site[up]] == CLASS_COMM)
            return false;
    return true;
}

/* On a device: the window there of the step that launched it. */
static const struct window *window_of(const struct input *in, size_t i)
{
    uint32_t place =
        in->track[i] < in->windows.ntrack ? in->windows.place_of[in->track[i]] : OPM_NULL_ID;
    const uint64_t *at = NULL;

    if (place != OPM_NULL_ID && in->step && in->step[i] != OPM_NULL_ID)
        at = u64map_get(&in->window_of, window_key(place, in->step[i]));
    return at ? &in->windows.at[*at] : NULL;
}

static struct frame frame_of(const struct input *in, const struct store *st, size_t i)
{
    const struct window *win = window_of(in, i);
    int64_t rank = store_i64_or(st, TABLE_track, in->track[i], track_col_rank, OPM_NULL_I64);
    const struct step_row *s =
        win ? &in->steps.row[win->row] : steps_by_rank_at(&in->by_rank, rank, in->ts[i]);
    struct frame f = { .step = s };

    if (!s || (!win && s->to_ns <= in->ts[i]))
        return (struct frame){ 0 };
    f.from_ns = s->from_ns - in->before_ns[s - in->steps.row];
    /* A device that keeps up with its host has the host's steps, from their starts on, though its
     * first window begins with its first work. */
    if (win && win->from_ns > s->from_ns &&
        (win->to_ns > s->to_ns || win->from_ns != in->windows.place[win->place].first_ns))
        f.from_ns = win->from_ns;
    return f;
}

static int add_row(struct input *in, const struct store *st, struct table *out, size_t i,
                   struct frame f)
{
    const struct step_row *s = f.step;
    uint64_t key = (uint64_t)(s - in->steps.row) << 32 | in->track[i];
    const uint64_t *before = u64map_get(&in->seen, key);
    uint64_t nth = before ? *before + 1 : 1;
    struct cell c[collectives_col_COUNT] = { 0 };

    c[collectives_col_span] = cell_id((uint32_t)i);
    c[collectives_col_name] = store_cell(st, TABLE_span, i, span_col_name);
    c[collectives_col_track] = cell_id(in->track[i]);
    c[collectives_col_nth] = cell_i64((int64_t)nth);
    c[collectives_col_step] = cell_id(s->step);
    c[collectives_col_num] = cell_i64(s->num);
    c[collectives_col_rank] = cell_i64(s->rank);
    c[collectives_col_warmup] = cell_i64(s->warmup);
    c[collectives_col_step_ts] = cell_i64(f.from_ns);
    c[collectives_col_start_ns] = cell_i64(in->ts[i] - f.from_ns);
    c[collectives_col_dur_ns] = cell_i64(in->dur[i]);
    if (u64map_put(&in->seen, key, nth) < 0)
        return OPM_ENOMEM;
    return table_add(out, c);
}

int analyze_collectives(const struct store *st, struct table *out, opm_error *err)
{
    struct input in = { 0 };
    int rc = input_get(&in, st);

    for (size_t i = 0; rc == 0 && i < in.n; i++) {
        struct frame f;

        if (in.class[in.site[i]] != CLASS_COMM || in.dur[i] < 0 || in.track[i] == OPM_NULL_ID ||
            !is_outermost(&in, i))
            continue;
        f = frame_of(&in, st, i);
        if (f.step)
            rc = add_row(&in, st, out, i, f);
    }
    input_release(&in);
    return rc ? opm__fail(err, rc, "collectives: out of memory") : 0;
}
