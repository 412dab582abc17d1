/* executions.c -- runs of devices: how long, how much of it computing. */
#include "analyze/analysis.h"
#include "analyze/groups.h"
#include "analyze/hardware.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"

struct run {
    uint32_t span, step, track;
    int64_t ts, end;
    int64_t run_ns;
    int64_t ops;
    int64_t inside; /* spans in it, of any kind */
};

struct runs {
    struct run *run;
    size_t n, cap;
    struct u64map index; /* span, or step and track, -> run */
};

#define OF_STEP ((uint64_t)1 << 63) /* keys of runs that a step stands for */

static struct run *run_at(struct runs *r, uint64_t key, const struct run *fresh)
{
    const uint64_t *at = u64map_get(&r->index, key);

    if (at)
        return &r->run[*at];
    if (!GROW(r->run, r->cap, r->n + 1) || u64map_put(&r->index, key, r->n))
        return NULL;
    r->run[r->n] = *fresh;
    return &r->run[r->n++];
}

/* The columns of span that are looked at; NULL where all are NULL. */
struct spans {
    const uint32_t *site, *track, *step;
    const int64_t *ts, *dur;
    size_t n;
};

static int spans_of(struct spans *s, const struct store *st)
{
    const struct {
        int col;
        const void **to;
    } columns[] = { { span_col_ts, (const void **)&s->ts },
                    { span_col_dur, (const void **)&s->dur },
                    { span_col_track, (const void **)&s->track },
                    { span_col_step, (const void **)&s->step } };

    s->n = store_nrow(st, TABLE_span);
    s->site = store_span_site(st);
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        if (store_column(st, TABLE_span, columns[i].col, columns[i].to) < 0)
            return OPM_ENOMEM;
    return 0;
}

/* The outermost span on hardware around one, which may be itself. */
static uint32_t outermost(const struct hardware *h, const struct spans *s, uint32_t row)
{
    uint32_t up;

    for (;;) {
        up = h->parent[row];
        if (up == OPM_NULL_ID || h->role[s->site[up]] == HARDWARE_NOT)
            break;
        row = up;
    }
    return row;
}

/* A span that computes counts unless it is inside another that does: no time is counted twice. */
static bool counts(const struct hardware *h, const struct spans *s, uint32_t row)
{
    uint32_t up;

    if (h->role[s->site[row]] != HARDWARE_COMPUTES)
        return false;
    for (uint32_t at = row;; at = up) {
        up = h->parent[at];
        if (up == OPM_NULL_ID)
            break;
        if (h->role[s->site[up]] == HARDWARE_COMPUTES)
            return false;
    }
    return true;
}

static int add_span(struct runs *r, const struct hardware *h, const struct spans *s, uint32_t row)
{
    uint32_t top = outermost(h, s, row);
    bool held = h->role[s->site[top]] == HARDWARE_HOLDS;
    uint32_t track = s->track ? s->track[top] : OPM_NULL_ID;
    uint32_t step = s->step ? s->step[top] : OPM_NULL_ID;
    uint64_t key = held ? top : OF_STEP | (uint64_t)(step & 0x7fffffff) << 32 | track;
    struct run *run = run_at(r, key,
                             &(struct run){ .span = held ? top : OPM_NULL_ID,
                                            .step = step,
                                            .track = track,
                                            .ts = s->ts[top],
                                            .end = s->ts[top] });

    if (!run)
        return OPM_ENOMEM;
    run->end = MAX(run->end, s->ts[row] + s->dur[row]);
    run->inside += row != run->span;
    if (counts(h, s, row)) {
        run->run_ns = add_ns(run->run_ns, s->dur[row]);
        run->ops++;
    }
    return 0;
}

static int add_row(const struct store *st, struct table *out, const struct run *run)
{
    struct cell c[executions_col_COUNT] = { 0 };
    int64_t total = run->end - run->ts;
    struct cell warmup = cell_null();

    if (run->step != OPM_NULL_ID)
        warmup = store_cell(st, TABLE_step, run->step, step_col_warmup);
    c[executions_col_span] = cell_id(run->span);
    c[executions_col_step] = cell_id(run->step);
    c[executions_col_warmup] = cell_i64(warmup.kind == CELL_I64 && warmup.i64 == 1);
    c[executions_col_track] = cell_id(run->track);
    c[executions_col_ts] = cell_i64(run->ts);
    c[executions_col_total_ns] = cell_i64(total);
    c[executions_col_ops] = cell_i64(run->ops);
    if (run->inside) {
        c[executions_col_run_ns] = cell_i64(MIN(run->run_ns, total));
        c[executions_col_io_wait_ns] = cell_i64(total - MIN(run->run_ns, total));
    }
    return table_add(out, c);
}

int analyze_executions(const struct store *st, struct table *out, opm_error *err)
{
    struct hardware h;
    struct runs r = { 0 };
    struct spans s = { 0 };
    int rc = hardware_find(&h, st);

    if (rc == 0 && h.any && h.parent)
        rc = spans_of(&s, st);
    for (uint32_t row = 0; rc == 0 && s.dur && row < s.n; row++)
        if (h.role[s.site[row]] != HARDWARE_NOT && s.dur[row] >= 0)
            rc = add_span(&r, &h, &s, row);
    for (size_t i = 0; i < r.n && rc == 0; i++)
        rc = add_row(st, out, &r.run[i]);
    mem_free(r.run);
    u64map_release(&r.index);
    hardware_release(&h);
    return rc < 0 ? opm__fail(err, rc, "executions: out of memory") : 0;
}
