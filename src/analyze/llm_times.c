/* llm_times.c -- see llm_times.h; and the analyses of iterations and of what requests have of them.
 */
#include "analyze/llm_times.h"

#include "analyze/analysis.h"
#include "analyze/attribution.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"

#include <stdlib.h>

/* Iterations of a process that may go on at once. */
#define LOOKED_AT_MAX 256

/* When an iteration lasted, of which process and track. */
struct stretch {
    uint64_t process;
    int64_t from, to;
    int64_t last; /* when the last of its process that began by then ends */
    uint32_t track, iteration;
};

static int by_time(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;

    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Processes of different sources may have the same number. */
static uint64_t process_of(const struct store *st, uint32_t track)
{
    size_t n = store_nrow(st, TABLE_track);
    int64_t pid, source;

    if (track >= n)
        return UINT64_MAX;
    pid = store_i64_or(st, TABLE_track, track, track_col_pid, -1 - (int64_t)track);
    source = store_i64_or(st, TABLE_track, track, track_col_source, 0);
    return (uint64_t)pid << 20 ^ (uint64_t)source;
}

/* The iteration that goes on at a time: the track's own, else the one of its process that began
 * last. */
static uint32_t find(const struct stretch *s, size_t n, uint64_t process, uint32_t track,
                     int64_t ts)
{
    uint32_t other = OPM_NULL_ID;
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (s[mid].process < process || (s[mid].process == process && s[mid].from <= ts))
            low = mid + 1;
        else
            high = mid;
    }
    for (int looked = 0; low && looked < LOOKED_AT_MAX; looked++) {
        const struct stretch *at = &s[--low];

        if (at->process != process || at->last <= ts)
            break;
        if (at->to > ts && at->track == track)
            return at->iteration;
        if (at->to > ts && other == OPM_NULL_ID)
            other = at->iteration;
    }
    return other;
}

static int list_stretches(const struct store *st, struct stretch **out)
{
    size_t n = store_nrow(st, TABLE_iteration);
    struct stretch *s = mem_alloc((n + 1) * sizeof(*s));

    if (!s)
        return OPM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int64_t ts = store_i64_or(st, TABLE_iteration, i, iteration_col_ts, 0);
        int64_t dur = store_i64_or(st, TABLE_iteration, i, iteration_col_dur, -1);
        int64_t track = store_i64_or(st, TABLE_iteration, i, iteration_col_track, OPM_NULL_ID);

        s[i] = (struct stretch){ .process = process_of(st, (uint32_t)track),
                                 .from = ts,
                                 .to = dur < 0 ? INT64_MAX : ts + dur,
                                 .track = (uint32_t)track,
                                 .iteration = (uint32_t)i };
    }
    qsort(s, n, sizeof(*s), by_time);
    for (size_t i = 0; i < n; i++)
        s[i].last = i && s[i - 1].process == s[i].process ? MAX(s[i - 1].last, s[i].to) : s[i].to;
    *out = s;
    return 0;
}

static int assign(struct llm_times *t, const struct store *st, const struct stretch *s)
{
    str_id hardware = strpool_find(store_strings(st), "hardware", 8);
    struct span_tracks tracks = store_span_tracks(st);
    const uint32_t *site = store_span_site(st);
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);
    const void *correlations = NULL, *starts = NULL, *durs = NULL;
    const int64_t *correlation, *ts, *dur;
    struct u64map launch = { 0 };
    int rc = 0;

    if (store_column(st, TABLE_span, span_col_correlation, &correlations) ||
        store_column(st, TABLE_span, span_col_ts, &starts) ||
        store_column(st, TABLE_span, span_col_dur, &durs))
        return OPM_ENOMEM;
    correlation = correlations;
    ts = starts;
    dur = durs;
    for (size_t row = 0; row < t->nspan; row++)
        t->of[row] = OPM_NULL_ID;
    for (size_t row = 0; correlation && row < t->nspan && rc == 0; row++) {
        uint32_t at, track;

        if (correlation[row] == OPM_NULL_I64 || sites[site[row]].layer == hardware)
            continue;
        track = span_tracks_get(&tracks, row);
        at = find(s, t->niteration, process_of(st, track), track, ts[row]);
        if (at != OPM_NULL_ID)
            rc = u64map_put(&launch, (uint64_t)correlation[row], at);
    }
    for (size_t row = 0; correlation && row < t->nspan && rc == 0; row++) {
        const uint64_t *at;

        if (correlation[row] == OPM_NULL_I64 || sites[site[row]].layer != hardware || dur[row] < 0)
            continue;
        at = u64map_get(&launch, (uint64_t)correlation[row]);
        if (!at)
            continue;
        t->of[row] = (uint32_t)*at;
        t->device_ns[*at] += dur[row];
        t->kernels[*at]++;
    }
    u64map_release(&launch);
    return rc;
}

/* An operator's span. */
struct run {
    uint32_t track, row;
    int64_t from, to;
    size_t outer; /* that it lies in; NO_RUN: none */
};

#define NO_RUN SIZE_MAX

static int outer_first(const void *a, const void *b)
{
    const struct run *x = a, *y = b;

    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to > y->to ? -1 : x->to < y->to;
}

/* What is inside another one is not that one's own. Who ended before this one does is around
 * nothing that follows either, so each is left behind once. */
static void find_own(struct llm_times *t, struct run *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t outer = i && r[i - 1].track == r[i].track ? i - 1 : NO_RUN;

        while (outer != NO_RUN && r[outer].to < r[i].to)
            outer = r[outer].outer;
        r[i].outer = outer;
        t->own_ns[r[i].row] += r[i].to - r[i].from;
        if (outer != NO_RUN)
            t->own_ns[r[outer].row] -= r[i].to - r[i].from;
    }
}

/* On a processor: operators belong to the iteration that they ran in. */
static int assign_ops(struct llm_times *t, const struct store *st, const struct stretch *s)
{
    struct span_tracks tracks = store_span_tracks(st);
    const uint32_t *site = store_span_site(st);
    size_t nsite, n = 0;
    const struct site *sites = store_sites(st, &nsite);
    str_id forward = strpool_find(store_strings(st), "forward", 7);
    struct run *r = mem_alloc((t->nspan + 1) * sizeof(*r));
    const void *starts = NULL, *durs = NULL;

    t->own_ns = mem_calloc(t->nspan + 1, sizeof(*t->own_ns));
    if (!r || !t->own_ns || store_column(st, TABLE_span, span_col_ts, &starts) ||
        store_column(st, TABLE_span, span_col_dur, &durs)) {
        mem_free(r);
        return OPM_ENOMEM;
    }
    for (size_t row = 0; row < t->nspan; row++) {
        const struct site *of = &sites[site[row]];
        int64_t ts = ((const int64_t *)starts)[row], dur = ((const int64_t *)durs)[row];
        uint32_t track = span_tracks_get(&tracks, row), at;

        t->of[row] = OPM_NULL_ID;
        if (of->op == OPM_NULL_ID || dur < 0 || (of->phase && of->phase != forward))
            continue;
        at = find(s, t->niteration, process_of(st, track), track, ts);
        if (at == OPM_NULL_ID)
            continue;
        t->of[row] = at;
        r[n++] = (struct run){ track, (uint32_t)row, ts, ts + dur, NO_RUN };
    }
    qsort(r, n, sizeof(*r), outer_first);
    find_own(t, r, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t at = t->of[r[i].row];

        t->device_ns[at] += t->own_ns[r[i].row];
        t->kernels[at]++;
    }
    mem_free(r);
    return 0;
}

int llm_times_find(struct llm_times *t, const struct store *st)
{
    str_id hardware = strpool_find(store_strings(st), "hardware", 8);
    struct stretch *s = NULL;
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);
    bool device = false, ops = store_nrow(st, TABLE_op) > 0;
    int rc = 0;

    *t = (struct llm_times){ .nspan = store_nrow(st, TABLE_span),
                             .niteration = store_nrow(st, TABLE_iteration) };
    for (size_t i = 0; i < nsite; i++)
        device |= hardware && sites[i].layer == hardware;
    if ((!device && !ops) || !t->niteration)
        return 0;
    t->of = mem_alloc((t->nspan + 1) * sizeof(*t->of));
    t->device_ns = mem_calloc(t->niteration, sizeof(*t->device_ns));
    t->kernels = mem_calloc(t->niteration, sizeof(*t->kernels));
    if (!t->of || !t->device_ns || !t->kernels)
        rc = OPM_ENOMEM;
    if (rc == 0)
        rc = list_stretches(st, &s);
    if (rc == 0)
        rc = device ? assign(t, st, s) : assign_ops(t, st, s);
    mem_free(s);
    if (rc)
        llm_times_release(t);
    return rc;
}

void llm_times_release(struct llm_times *t)
{
    mem_free(t->of);
    mem_free(t->own_ns);
    mem_free(t->device_ns);
    mem_free(t->kernels);
    *t = (struct llm_times){ 0 };
}

int analyze_iteration_times(const struct store *st, struct table *out, opm_error *err)
{
    struct llm_times t;
    int rc = llm_times_find(&t, st);

    for (size_t i = 0; i < store_nrow(st, TABLE_iteration) && rc == 0; i++)
        rc = table_add(
            out,
            (struct cell[iteration_times_col_COUNT]){
                [iteration_times_col_iteration] = cell_id((uint32_t)i),
                [iteration_times_col_kind] = store_cell(st, TABLE_iteration, i, iteration_col_kind),
                [iteration_times_col_num] = store_cell(st, TABLE_iteration, i, iteration_col_num),
                [iteration_times_col_ts] = store_cell(st, TABLE_iteration, i, iteration_col_ts),
                [iteration_times_col_dur_ns] =
                    cell_i64(store_i64_or(st, TABLE_iteration, i, iteration_col_dur, -1) < 0
                                 ? OPM_NULL_I64
                                 : store_i64_or(st, TABLE_iteration, i, iteration_col_dur, -1)),
                [iteration_times_col_batch] =
                    store_cell(st, TABLE_iteration, i, iteration_col_batch),
                [iteration_times_col_tokens_in] =
                    store_cell(st, TABLE_iteration, i, iteration_col_tokens_in),
                [iteration_times_col_tokens_out] =
                    store_cell(st, TABLE_iteration, i, iteration_col_tokens_out),
                [iteration_times_col_context] =
                    store_cell(st, TABLE_iteration, i, iteration_col_context),
                [iteration_times_col_kernels] = t.of ? cell_i64(t.kernels[i]) : cell_null(),
                [iteration_times_col_device_ns] = t.of ? cell_i64(t.device_ns[i]) : cell_null(),
            });
    llm_times_release(&t);
    return rc < 0 ? opm__fail(err, rc, "iteration_times: out of memory") : 0;
}

/* Members of an iteration, one behind the other in the table or not. */
struct share {
    uint32_t iteration, row;
    int64_t weight;
};

static int by_iteration(const void *a, const void *b)
{
    const struct share *x = a, *y = b;

    if (x->iteration != y->iteration)
        return x->iteration < y->iteration ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Of total the part of [from, to) of all weights: parts of neighbours add up to it exactly. */
static int64_t part(int64_t total, int64_t from, int64_t to, int64_t all)
{
    __extension__ typedef __int128 wide;

    return (int64_t)((wide)total * to / all - (wide)total * from / all);
}

static int add_shares(const struct store *st, const struct llm_times *t, const struct share *s,
                      size_t n, struct table *out)
{
    uint32_t iteration = s[0].iteration;
    int64_t dur = iteration < t->niteration
                      ? store_i64_or(st, TABLE_iteration, iteration, iteration_col_dur, -1)
                      : -1;
    int64_t all = 0, before = 0;
    bool counted = true;
    int rc = 0;

    for (size_t i = 0; i < n; i++)
        counted &= s[i].weight > 0;
    for (size_t i = 0; i < n; i++)
        all += counted ? s[i].weight : 1;
    for (size_t i = 0; i < n && rc == 0; i++) {
        int64_t to = before + (counted ? s[i].weight : 1);
        size_t row = s[i].row;

        rc = table_add(
            out, (struct cell[request_shares_col_COUNT]){
                     [request_shares_col_request] = store_cell(st, TABLE_request_iteration, row,
                                                               request_iteration_col_request),
                     [request_shares_col_iteration] = cell_id(iteration),
                     [request_shares_col_phase] =
                         store_cell(st, TABLE_request_iteration, row, request_iteration_col_phase),
                     [request_shares_col_tokens_in] = store_cell(st, TABLE_request_iteration, row,
                                                                 request_iteration_col_tokens_in),
                     [request_shares_col_share] = cell_f64((double)(to - before) / (double)all),
                     [request_shares_col_device_ns] =
                         t->of && iteration < t->niteration
                             ? cell_i64(part(t->device_ns[iteration], before, to, all))
                             : cell_null(),
                     [request_shares_col_time_ns] =
                         dur < 0 ? cell_null() : cell_i64(part(dur, before, to, all)),
                 });
        before = to;
    }
    return rc;
}

int analyze_request_shares(const struct store *st, struct table *out, opm_error *err)
{
    size_t n = store_nrow(st, TABLE_request_iteration);
    struct share *s = mem_alloc((n + 1) * sizeof(*s));
    struct llm_times t = { 0 };
    int rc = s ? llm_times_find(&t, st) : OPM_ENOMEM;

    for (size_t i = 0; i < n && rc == 0; i++)
        s[i] = (struct share){ (uint32_t)store_i64_or(st, TABLE_request_iteration, i,
                                                      request_iteration_col_iteration, OPM_NULL_ID),
                               (uint32_t)i,
                               store_i64_or(st, TABLE_request_iteration, i,
                                            request_iteration_col_tokens_in, 0) };
    if (rc == 0)
        qsort(s, n, sizeof(*s), by_iteration);
    for (size_t i = 0, end; i < n && rc == 0; i = end) {
        for (end = i; end < n && s[end].iteration == s[i].iteration;)
            end++;
        rc = add_shares(st, &t, s + i, end - i, out);
    }
    llm_times_release(&t);
    mem_free(s);
    return rc < 0 ? opm__fail(err, rc, "request_shares: out of memory") : 0;
}

/* Device time by kind of iteration and operator, or whoever else it is of. */
struct by_kind {
    uint32_t owner;
    str_id kind;
    int64_t count, ns;
};

static int count_kernels(const struct store *st, const struct llm_times *t,
                         const struct attribution *a, struct by_kind **sum, size_t *n)
{
    const uint32_t *site = store_span_site(st);
    size_t nsite, cap = 0;
    const struct site *sites = store_sites(st, &nsite);
    struct u64map at = { 0 };
    const void *durs;
    int rc = store_column(st, TABLE_span, span_col_dur, &durs);
    const int64_t *dur = rc ? NULL : durs;

    for (size_t row = 0; row < t->nspan && rc == 0; row++) {
        uint32_t owner = a->group ? a->group[row] : GROUP_NONE;
        const uint64_t *known;
        uint64_t key;
        str_id kind;

        if (t->of[row] == OPM_NULL_ID)
            continue;
        if (owner == GROUP_NONE)
            owner = sites[site[row]].op;
        kind = cell_text_id(store_cell(st, TABLE_iteration, t->of[row], iteration_col_kind));
        key = (uint64_t)owner << 32 | kind;
        known = u64map_get(&at, key);
        if (!known) {
            if (!GROW(*sum, cap, *n + 1) || u64map_put(&at, key, *n)) {
                rc = OPM_ENOMEM;
                break;
            }
            (*sum)[*n] = (struct by_kind){ .owner = owner, .kind = kind };
            known = u64map_get(&at, key);
            ++*n;
        }
        (*sum)[*known].count++;
        (*sum)[*known].ns += t->own_ns ? t->own_ns[row] : dur[row];
    }
    u64map_release(&at);
    return rc;
}

/* What so many executions did together: on devices there may be several kernels to one. */
static struct cell times(const struct llm_times *t, struct cell amount, int64_t count)
{
    return t->own_ns && amount.kind == CELL_I64 ? cell_i64(amount.i64 * count) : cell_null();
}

int analyze_iteration_ops(const struct store *st, struct table *out, opm_error *err)
{
    size_t nop = store_nrow(st, TABLE_op), n = 0;
    struct by_kind *sum = NULL;
    struct attribution a = { 0 };
    struct llm_times t;
    int rc = llm_times_find(&t, st);

    if (rc == 0 && t.of)
        rc = attribution_find(&a, st);
    if (rc == 0 && t.of)
        rc = count_kernels(st, &t, &a, &sum, &n);
    for (size_t i = 0; i < n && rc == 0; i++) {
        uint32_t owner = sum[i].owner;
        bool op = owner < nop, other = !op && owner != OPM_NULL_ID && owner - nop < a.nowner;

        rc = table_add(
            out, (struct cell[iteration_ops_col_COUNT]){
                     [iteration_ops_col_kind] = cell_str(sum[i].kind),
                     [iteration_ops_col_op] = op ? cell_id(owner) : cell_null(),
                     [iteration_ops_col_name] = op ? store_cell(st, TABLE_op, owner, op_col_name)
                                                : other ? cell_str(a.owner[owner - nop].name)
                                                        : cell_null(),
                     [iteration_ops_col_type] =
                         op ? store_cell(st, TABLE_op, owner, op_col_type) : cell_null(),
                     [iteration_ops_col_kernels] = cell_i64(sum[i].count),
                     [iteration_ops_col_device_ns] = cell_i64(sum[i].ns),
                     [iteration_ops_col_flops] =
                         op ? times(&t, store_cell(st, TABLE_op, owner, op_col_flops), sum[i].count)
                            : cell_null(),
                     [iteration_ops_col_bytes] =
                         op ? times(&t, store_cell(st, TABLE_op, owner, op_col_bytes), sum[i].count)
                            : cell_null(),
                 });
    }
    mem_free(sum);
    attribution_release(&a);
    llm_times_release(&t);
    return rc < 0 ? opm__fail(err, rc, "iteration_ops: out of memory") : 0;
}
