/* step_trace.c -- the parts of every step.
 *
 * Named operators (meta keys step.fp_point and step.bp_point) split every step that has them, and
 * none that has not: steps that were split in different ways have no common average. Else the first
 * of these that a step allows: phases that the program marked; spans of an autograd engine; the
 * operator before the last reduction over all devices; the last operator. The forward pass starts
 * with the first operator after input data arrived. All look at the host where it has operators,
 * else at the device. */
#include "analyze/analysis.h"
#include "analyze/busy.h"
#include "analyze/groups.h"
#include "analyze/span_class.h"
#include "analyze/step_gap.h"
#include "analyze/step_list.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_read.h"
#include "base/step_name.h"
#include "base/u64map.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEVER INT64_MAX /* a point that was not seen */

/* What is seen of one kind of thing within a step. */
struct seen {
    int64_t first_ns, last_ns; /* start of the first, end of the last; first NEVER: none */
    str_id first, last;        /* their names */
};

enum thing {
    SEEN_FORWARD, /* phases */
    SEEN_BACKWARD,
    SEEN_BOTH, /* passes in one phase */
    SEEN_UPDATE,
    SEEN_AUTOGRAD,
    SEEN_OPERATOR, /* on the host; neither data loading nor optimizer */
    SEEN_DEVICE,
    SEEN_OPERATOR_FED, /* both, those that start after the first input data arrived */
    SEEN_DEVICE_FED,
    SEEN_OPERATOR_REDUCED, /* both, the last that ended before the last reduction began */
    SEEN_DEVICE_REDUCED,
    SEEN_FP, /* named points */
    SEEN_BP,
    SEEN_COUNT,
};

struct facts {
    struct seen seen[SEEN_COUNT];
    int64_t update_ns;         /* OPM_NULL_I64: no optimizer */
    int64_t fed_ns;            /* when the first input data had arrived; NEVER: not seen */
    uint32_t unfed[2], fed[2]; /* operators on host and device before and after that */
    str_id fp, bp;             /* points that the source names for its phases */
};

/* Operators that started last, of any step: among them is the one before a reduction. */
#define RECENT 64
struct recent {
    size_t row[RECENT], span[RECENT];
    size_t n; /* all that ever were */
};

/* The columns of span that are read, and words to compare with. */
struct input {
    const int64_t *ts, *dur;
    const uint32_t *track, *site, *step;
    const struct site *sites;
    size_t n, ntrack;
    uint8_t *class;
    int64_t *skip_until;  /* of every track: end of data loading or optimizer, whatever is inside */
    uint32_t *row_of;     /* step.id to row of the list */
    uint8_t *reduces;     /* per site: sums up over all devices */
    struct u64map launch; /* host spans that launch such */
    struct recent recent[2]; /* on the host, on the device */
    struct buf room;
    const struct store *st;
    str_id phase, forward, backward, both, update, fp, bp;
    bool wants_fp, wants_bp;
};

static str_id word(const struct store *st, const char *text)
{
    return text ? strpool_find(store_strings(st), text, strlen(text)) : 0;
}

/* All-reduce and its like: what ends a backward pass. Not what gathers weights. */
static bool is_reduction(const struct store *st, const struct site *site)
{
    const char *name = site->name ? store_text(st, site->name) : "";
    const char *cat = site->cat ? store_text(st, site->cat) : "";

    return strstr(name, "educe") ||
           (strcmp(cat, "collective") == 0 && !strstr(name, "ather") && !strstr(name, "roadcast"));
}

/* The calls on the host that launch reductions on the device. */
static int launches_get(struct input *in)
{
    const void *column;
    const int64_t *corr;
    struct u64map wanted = { 0 };
    int rc = store_column(in->st, TABLE_span, span_col_correlation, &column);

    corr = column;
    for (size_t i = 0; rc == 0 && corr && i < in->n; i++)
        if (in->reduces[in->site[i]] && corr[i] != OPM_NULL_I64)
            rc = u64map_put(&wanted, (uint64_t)corr[i], 1);
    for (size_t i = 0; rc == 0 && corr && i < in->n; i++)
        if (in->class[in->site[i]] == CLASS_RUNTIME && corr[i] != OPM_NULL_I64 &&
            u64map_get(&wanted, (uint64_t)corr[i]))
            rc = u64map_put(&in->launch, i, 1);
    u64map_release(&wanted);
    return rc;
}

static int input_get(struct input *in, const struct store *st, const struct step_list *l)
{
    size_t nstep = store_nrow(st, TABLE_step), nsite;
    const void *ts, *dur, *track, *step = NULL;

    in->n = store_nrow(st, TABLE_span);
    in->ntrack = store_nrow(st, TABLE_track);
    in->site = store_span_site(st);
    in->sites = store_sites(st, &nsite);
    in->class = span_classes(st);
    in->skip_until = mem_alloc((in->ntrack + 1) * sizeof(*in->skip_until));
    in->row_of = mem_alloc((nstep + 1) * sizeof(*in->row_of));
    in->reduces = mem_calloc(nsite + 1, sizeof(*in->reduces));
    in->st = st;
    if (!in->class || !in->reduces || !in->skip_until || !in->row_of ||
        store_column(st, TABLE_span, span_col_ts, &ts) ||
        store_column(st, TABLE_span, span_col_dur, &dur) ||
        store_column(st, TABLE_span, span_col_track, &track) ||
        (!l->found && store_column(st, TABLE_span, span_col_step, &step)))
        return OPM_ENOMEM;
    for (size_t i = 0; i < in->ntrack; i++)
        in->skip_until[i] = INT64_MIN;
    for (size_t i = 0; i < nstep; i++)
        in->row_of[i] = UINT32_MAX;
    for (size_t i = 0; i < l->n && !l->found; i++)
        in->row_of[l->row[i].step] = (uint32_t)i;
    in->ts = ts;
    in->dur = dur;
    in->track = track;
    in->step = step;
    in->phase = word(st, "phase");
    in->forward = word(st, "forward");
    in->backward = word(st, "backward");
    in->both = word(st, "forward and backward");
    in->update = word(st, "update");
    in->wants_fp = store_meta_get(st, "step.fp_point") != NULL;
    in->wants_bp = store_meta_get(st, "step.bp_point") != NULL;
    in->fp = word(st, store_meta_get(st, "step.fp_point"));
    in->bp = word(st, store_meta_get(st, "step.bp_point"));
    if (!ts || !dur || !track || (!l->found && !step))
        in->n = 0; /* no span, or none in a step */
    for (size_t i = 0; i < nsite; i++)
        in->reduces[i] = in->class[i] == CLASS_COMM && is_reduction(st, &in->sites[i]);
    return launches_get(in);
}

static void input_release(struct input *in)
{
    mem_free(in->class);
    mem_free(in->skip_until);
    mem_free(in->row_of);
    mem_free(in->reduces);
    u64map_release(&in->launch);
    buf_release(&in->room);
}

static void see(struct facts *f, enum thing thing, const struct input *in, size_t span)
{
    struct seen *s = &f->seen[thing];
    int64_t end = add_ns(in->ts[span], MAX(in->dur[span], (int64_t)0));
    str_id name = in->sites[in->site[span]].name;

    if (in->ts[span] < s->first_ns) {
        s->first_ns = in->ts[span];
        s->first = name;
    }
    if (end > s->last_ns || !s->last) {
        s->last_ns = end;
        s->last = name;
    }
}

/* An operator on the host (0) or the device (1). */
static void see_operator(struct facts *f, struct input *in, size_t row, size_t i, int where)
{
    struct recent *r = &in->recent[where];

    see(f, where ? SEEN_DEVICE : SEEN_OPERATOR, in, i);
    if (f->fed_ns != NEVER && in->ts[i] >= f->fed_ns) {
        see(f, where ? SEEN_DEVICE_FED : SEEN_OPERATOR_FED, in, i);
        f->fed[where]++;
    } else {
        f->unfed[where]++;
    }
    r->row[r->n % RECENT] = row;
    r->span[r->n++ % RECENT] = i;
}

/* A reduction begins: what ended last before it, in the same step. */
static void see_reduction(struct facts *f, struct input *in, size_t row, size_t i, int where)
{
    const struct recent *r = &in->recent[where];
    size_t best = in->n;
    int64_t best_ns = INT64_MIN;

    for (size_t k = r->n > RECENT ? r->n - RECENT : 0; k < r->n; k++) {
        size_t span = r->span[k % RECENT];
        int64_t end = add_ns(in->ts[span], in->dur[span]);

        if (r->row[k % RECENT] == row && end <= in->ts[i] && end > best_ns) {
            best = span;
            best_ns = end;
        }
    }
    if (best < in->n)
        see(f, where ? SEEN_DEVICE_REDUCED : SEEN_OPERATOR_REDUCED, in, best);
}

/* Points that a source gives its phases, as arguments fp_point and bp_point. */
static int see_points(struct facts *f, struct input *in, size_t i)
{
    struct json_reader r;

    buf_clear(&in->room);
    if (store_span_args(in->st, i, &in->room))
        return OPM_ENOMEM;
    r = json_read_of(buf_str(&in->room), in->room.len);
    if (json_read_next(&r) != JSON_OBJECT)
        return 0;
    while (json_read_next(&r) == JSON_KEY) {
        str_id *to = json_read_is(&r, "fp_point")   ? &f->fp
                     : json_read_is(&r, "bp_point") ? &f->bp
                                                    : NULL;

        if (json_read_next(&r) == JSON_STRING && to && !r.escaped)
            *to = strpool_find(store_strings(in->st), r.text, r.len);
        else
            json_read_skip(&r);
    }
    return 0;
}

static int see_phase(struct facts *f, struct input *in, size_t i)
{
    str_id name = in->sites[in->site[i]].name;

    if (name == in->forward)
        see(f, SEEN_FORWARD, in, i);
    else if (name == in->backward)
        see(f, SEEN_BACKWARD, in, i);
    else if (name == in->both)
        see(f, SEEN_BOTH, in, i);
    else if (name == in->update) {
        see(f, SEEN_UPDATE, in, i);
        f->update_ns = add_ns(MAX(f->update_ns, (int64_t)0), in->dur[i]);
    }
    return see_points(f, in, i);
}

static int see_span(struct facts *f, struct input *in, size_t row, size_t i)
{
    const struct site *site = &in->sites[in->site[i]];
    enum span_class class = in->class[in->site[i]];
    int64_t *skip = in->track[i] < in->ntrack ? &in->skip_until[in->track[i]] : NULL;
    bool inside = skip && in->ts[i] < *skip;

    if (in->fp && site->name == in->fp)
        see(f, SEEN_FP, in, i);
    if (in->bp && site->name == in->bp)
        see(f, SEEN_BP, in, i);
    if (class == CLASS_DATA || class == CLASS_OPTIMIZER) {
        if (class == CLASS_OPTIMIZER && !inside)
            f->update_ns = add_ns(MAX(f->update_ns, (int64_t)0), in->dur[i]);
        if (class == CLASS_DATA && f->fed_ns == NEVER)
            f->fed_ns = add_ns(in->ts[i], in->dur[i]);
        if (skip)
            *skip = MAX(*skip, add_ns(in->ts[i], in->dur[i]));
        return 0;
    }
    if (class == CLASS_BACKWARD)
        see(f, SEEN_AUTOGRAD, in, i);
    if ((class == CLASS_OPERATOR || class == CLASS_BACKWARD) && !inside)
        see_operator(f, in, row, i, 0);
    if (class == CLASS_COMPUTE)
        see_operator(f, in, row, i, 1);
    if (class == CLASS_COMM)
        see(f, SEEN_DEVICE, in, i);
    if (in->reduces[in->site[i]])
        see_reduction(f, in, row, i, 1);
    if (in->reduces[in->site[i]] ? !in->launch.n : u64map_get(&in->launch, i) != NULL)
        see_reduction(f, in, row, i, 0);
    return in->phase && site->cat == in->phase ? see_phase(f, in, i) : 0;
}

static int look(struct facts *f, struct input *in, const struct step_list *l)
{
    int rc = 0;

    for (size_t i = 0; i < l->n; i++) {
        f[i] = (struct facts){ .update_ns = OPM_NULL_I64, .fed_ns = NEVER };
        for (int k = 0; k < SEEN_COUNT; k++)
            f[i].seen[k] = (struct seen){ .first_ns = NEVER, .last_ns = INT64_MIN };
    }
    for (size_t i = 0; rc == 0 && i < in->n; i++) {
        size_t row = l->n;

        if (in->dur[i] < 0)
            continue;
        if (l->found)
            row = step_list_at(l, in->ts[i]);
        else if (in->step[i] != OPM_NULL_ID && in->row_of[in->step[i]] != UINT32_MAX)
            row = in->row_of[in->step[i]];
        if (row < l->n)
            rc = see_span(&f[row], in, row, i);
    }
    return rc;
}

/* Where the parts of a step begin and end; NEVER where not known. */
struct split {
    const char *by; /* NULL: the step has nothing to split by */
    int64_t fp_ns, bp_start_ns, bp_end_ns;
    str_id fp, bp;
};

static bool has(const struct facts *f, enum thing t)
{
    return f->seen[t].first_ns != NEVER;
}

/* From operators alone. Data that arrives after most of them is for the next step. */
static struct split split_by_operators(const struct facts *f)
{
    bool device = !has(f, SEEN_OPERATOR);
    const struct seen *all = &f->seen[device ? SEEN_DEVICE : SEEN_OPERATOR];
    const struct seen *fed = &f->seen[device ? SEEN_DEVICE_FED : SEEN_OPERATOR_FED];
    const struct seen *reduced = &f->seen[device ? SEEN_DEVICE_REDUCED : SEEN_OPERATOR_REDUCED];
    struct split s = { NULL, NEVER, NEVER, NEVER, 0, 0 };

    if (all->first_ns == NEVER)
        return s;
    s = (struct split){ "operators", all->first_ns, NEVER, all->last_ns, all->first, all->last };
    if (f->fed[device] > f->unfed[device]) {
        s.fp_ns = fed->first_ns;
        s.fp = fed->first;
    }
    if (reduced->last > 0 && reduced->last_ns > s.fp_ns) {
        s.by = "reduction";
        s.bp_end_ns = reduced->last_ns;
        s.bp = reduced->last;
    }
    return s;
}

/* As the source and its operators tell. */
static struct split split_found(const struct facts *f)
{
    struct split s = split_by_operators(f);

    if (has(f, SEEN_AUTOGRAD)) {
        s.by = "autograd";
        s.bp_start_ns = f->seen[SEEN_AUTOGRAD].first_ns;
        s.bp_end_ns = f->seen[SEEN_AUTOGRAD].last_ns;
        s.bp = f->seen[SEEN_AUTOGRAD].last;
    }
    if (has(f, SEEN_FORWARD) || has(f, SEEN_BACKWARD)) {
        s.by = "phases";
        s.fp_ns = MIN(f->seen[SEEN_FORWARD].first_ns, f->seen[SEEN_BACKWARD].first_ns);
        s.bp_start_ns = f->seen[SEEN_BACKWARD].first_ns;
        s.bp_end_ns = f->seen[has(f, SEEN_BACKWARD) ? SEEN_BACKWARD : SEEN_FORWARD].last_ns;
    }
    if (has(f, SEEN_BOTH)) {
        s.by = "phases";
        s.fp_ns = f->seen[SEEN_BOTH].first_ns;
        s.bp_start_ns = NEVER;
        s.bp_end_ns = f->seen[SEEN_BOTH].last_ns;
    }
    if (s.by && strcmp(s.by, "phases") == 0) {
        s.fp = f->fp;
        s.bp = f->bp;
    }
    return s;
}

static struct split split_of(const struct facts *f, bool fp, bool bp)
{
    struct split s = split_found(f);

    if (!fp && !bp)
        return s;
    if ((fp && !has(f, SEEN_FP)) || (bp && !has(f, SEEN_BP)) || !s.by)
        return (struct split){ NULL, NEVER, NEVER, NEVER, 0, 0 };
    s.by = "points";
    s.bp_start_ns = NEVER;
    if (fp) {
        s.fp_ns = f->seen[SEEN_FP].first_ns;
        s.fp = f->seen[SEEN_FP].first;
    }
    if (bp) {
        s.bp_end_ns = f->seen[SEEN_BP].last_ns;
        s.bp = f->seen[SEEN_BP].last;
    }
    return s;
}

/* Points lie within the step, in order, whatever the source says. */
static struct split split_clamp(struct split s, const struct step_row *r)
{
    s.fp_ns = MIN(MAX(s.fp_ns, r->from_ns), r->to_ns);
    s.bp_end_ns = MIN(MAX(s.bp_end_ns, s.fp_ns), r->to_ns);
    if (s.bp_start_ns != NEVER)
        s.bp_start_ns = MIN(MAX(s.bp_start_ns, s.fp_ns), s.bp_end_ns);
    return s;
}

static int by_value(const void *va, const void *vb)
{
    int64_t a = *(const int64_t *)va, b = *(const int64_t *)vb;

    return a < b ? -1 : a > b;
}

static int64_t median_of(int64_t *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

/* Median and usual deviation from it, of the steps that count and are of the model of row. */
static void spread(const struct step_list *l, size_t row, int64_t *room, int64_t *median,
                   int64_t *deviation)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        if (!l->row[i].warmup && l->row[i].model == l->row[row].model)
            room[n++] = l->row[i].to_ns - l->row[i].from_ns;
    *median = *deviation = -1;
    if (n < 5)
        return;
    *median = median_of(room, n);
    for (size_t i = 0; i < n; i++)
        room[i] = llabs(room[i] - *median);
    *deviation = median_of(room, n);
}

static bool is_outlier(const struct step_row *r, int64_t median, int64_t deviation)
{
    double away = fabs((double)(r->to_ns - r->from_ns) - (double)median);

    return median > 0 && !r->warmup && away > 0.1 * (double)median &&
           away > 3 * 1.4826 * (double)deviation;
}

static str_id found_by(const struct store *st, const struct step_list *l, const struct step_row *r)
{
    if (l->found)
        return word(st, "repetition");
    return word(st, r->model && r->model == word(st, STEP_OF_OPTIMIZER) ? "optimizer" : "marks");
}

static int add_row(const struct store *st, struct table *out, const struct step_list *l, size_t i,
                   const struct facts *f, const int64_t *busy, bool any_comm,
                   const struct input *in, int64_t before_ns, bool outlier)
{
    const struct step_row *r = &l->row[i];
    struct split s = split_of(f, in->wants_fp, in->wants_bp);
    struct cell c[step_trace_col_COUNT];

    for (int k = 0; k < step_trace_col_COUNT; k++)
        c[k] = cell_null();
    c[step_trace_col_step] = cell_id(r->step);
    c[step_trace_col_model] = cell_str(r->model);
    c[step_trace_col_num] = cell_i64(r->num);
    c[step_trace_col_rank] = cell_i64(r->rank);
    c[step_trace_col_warmup] = cell_i64(r->warmup);
    c[step_trace_col_found_by] = cell_str(found_by(st, l, r));
    c[step_trace_col_ts] = cell_i64(r->from_ns - before_ns);
    c[step_trace_col_total_ns] = cell_i64(r->to_ns - r->from_ns + before_ns);
    if (s.by) {
        s = split_clamp(s, r);
        c[step_trace_col_split_by] = cell_str(word(st, s.by));
        c[step_trace_col_gap_ns] = cell_i64(s.fp_ns - r->from_ns + before_ns);
        if (s.bp_start_ns != NEVER) {
            c[step_trace_col_forward_ns] = cell_i64(s.bp_start_ns - s.fp_ns);
            c[step_trace_col_backward_ns] = cell_i64(s.bp_end_ns - s.bp_start_ns);
        }
        c[step_trace_col_fp_bp_ns] = cell_i64(s.bp_end_ns - s.fp_ns);
        c[step_trace_col_tail_ns] = cell_i64(r->to_ns - s.bp_end_ns);
        c[step_trace_col_fp_point] = cell_str(s.fp);
        c[step_trace_col_bp_point] = cell_str(s.bp);
    }
    c[step_trace_col_update_ns] = cell_i64(f->update_ns);
    if (any_comm) {
        c[step_trace_col_collective_ns] =
            cell_i64(busy[BUCKET_overlap] + busy[BUCKET_communication]);
        if (!busy[BUCKET_not_recorded])
            c[step_trace_col_exposed_ns] = cell_i64(busy[BUCKET_communication]);
    }
    c[step_trace_col_outlier] = cell_i64(outlier);
    return table_add(out, c);
}

/* What device and host did in each step: on devices in its windows there, which end with the last
 * of what it launched. Steps of which no place has a computation were not recorded. */
static int occupy(const struct store *st, const struct step_list *l, int64_t *busy)
{
    struct stretch *stretch = mem_alloc((l->n + 1) * sizeof(*stretch));
    bool *on_device = mem_calloc(l->n + 1, sizeof(*on_device));
    bool *listed = mem_calloc(l->n + 1, sizeof(*listed));
    bool *recorded = mem_calloc(l->n + 1, sizeof(*recorded));
    struct windows w = { 0 };
    int rc = stretch && on_device && listed && recorded ? windows_get(&w, st, l) : OPM_ENOMEM;

    for (size_t i = 0; rc == 0 && i < l->n; i++) {
        struct cell track =
            l->found ? cell_null() : store_cell(st, TABLE_step, l->row[i].step, step_col_track);

        stretch[i] =
            (struct stretch){ l->row[i].from_ns, l->row[i].to_ns, l->row[i].rank, OPM_NULL_ID,
                              track.kind == CELL_I64 ? (uint32_t)track.i64 : OPM_NULL_ID };
    }
    for (size_t i = 0; rc == 0 && i < w.n; i++) {
        const struct window *win = &w.at[i];
        struct stretch *s = win->row == OPM_NULL_ID ? NULL : &stretch[win->row];

        if (!s)
            continue;
        listed[win->row] = true;
        recorded[win->row] |= win->recorded;
        if (!w.place[win->place].device || !win->recorded)
            continue;
        s->from_ns = on_device[win->row] ? MIN(s->from_ns, win->from_ns) : win->from_ns;
        s->to_ns = on_device[win->row] ? MAX(s->to_ns, win->to_ns) : win->to_ns;
        on_device[win->row] = true;
    }
    if (rc == 0)
        rc = busy_compute(st, NULL, stretch, l->n, busy);
    for (size_t i = 0; rc == 0 && i < l->n; i++)
        if (listed[i] && !recorded[i])
            busy[i * BUCKET_COUNT + BUCKET_not_recorded] = l->row[i].to_ns - l->row[i].from_ns;
    windows_release(&w);
    mem_free(stretch);
    mem_free(on_device);
    mem_free(listed);
    mem_free(recorded);
    return rc;
}

int analyze_step_trace(const struct store *st, struct table *out, opm_error *err)
{
    struct input in = { 0 };
    struct step_list l;
    struct facts *facts = NULL;
    int64_t *busy = NULL, *room = NULL, *before = NULL, median = -1, deviation = -1;
    bool any_comm = false;
    int rc = step_list_get(&l, st);

    if (rc == 0) {
        facts = mem_alloc((l.n + 1) * sizeof(*facts));
        busy = mem_alloc((l.n + 1) * BUCKET_COUNT * sizeof(*busy));
        room = mem_alloc((l.n + 1) * sizeof(*room));
        before = mem_alloc((l.n + 1) * sizeof(*before));
        rc = facts && busy && room && before ? input_get(&in, st, &l) : OPM_ENOMEM;
    }
    if (rc == 0)
        rc = occupy(st, &l, busy);
    if (rc == 0)
        rc = step_gaps(st, &l, before);
    if (rc == 0)
        rc = look(facts, &in, &l);
    for (size_t i = 0; rc == 0 && i < l.n; i++)
        any_comm |= busy[i * BUCKET_COUNT + BUCKET_overlap] ||
                    busy[i * BUCKET_COUNT + BUCKET_communication];
    for (size_t i = 0; rc == 0 && i < l.n; i++) {
        if (i == 0 || l.row[i].model != l.row[i - 1].model)
            spread(&l, i, room, &median, &deviation);
        rc = add_row(st, out, &l, i, &facts[i], busy + i * BUCKET_COUNT, any_comm, &in, before[i],
                     is_outlier(&l.row[i], median, deviation));
    }
    input_release(&in);
    mem_free(before);
    mem_free(room);
    mem_free(busy);
    mem_free(facts);
    step_list_release(&l);
    return rc ? opm__fail(err, rc, "step_trace: out of memory") : 0;
}
