/* derive.c -- columns of span that are computed when first asked for.
 *
 * All of them are one pass over the spans in their final order. The mutex of the store is held
 * while a column is computed; a reader that finds it ready takes no lock. */
#include "store/correlated.h"
#include "store/store_int.h"

#include "base/alloc.h"
#include "base/budget.h"

#include <string.h>

/* Steps or records that are open at some time, as the spans pass by in order. Tracks may have open
 * ones of their own that overlap or are nested; the one that started last counts. */
struct cover {
    const struct store *st;
    const int64_t *ts, *dur;
    const uint32_t *track;
    size_t n, next; /* rows before next have started */
    /* Started last first: after[row] is the row that started before it on the same track,
     * last[track] starts the chain; likewise for all tracks together. Ended rows are unlinked when
     * they come to the front. */
    uint32_t *before, *before_any;
    uint32_t *last;
    uint32_t last_any;
    uint32_t *heap; /* open rows, the one that ends first in front */
    size_t nheap;
    /* Of every track; the last one, of no track, is the last group. */
    uint32_t *group, *process;
    struct open_rows *open, *in_process; /* of every group; of every process */
    bool *tells;                         /* of every group: rows are of its tracks */
};

/* The rows of a group that are open. */
struct open_rows {
    size_t n;
    uint64_t sum; /* of their numbers: while there is one, its number */
};

static int64_t cover_end(const struct cover *c, uint32_t row)
{
    int64_t dur = c->dur ? c->dur[row] : OPM_NULL_I64;

    return dur == OPM_NULL_I64 ? c->ts[row] : span_end(c->ts[row], dur);
}

static void cover_heap_push(struct cover *c, uint32_t row)
{
    size_t at = c->nheap++;

    while (at && cover_end(c, c->heap[(at - 1) / 2]) > cover_end(c, row)) {
        c->heap[at] = c->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    c->heap[at] = row;
}

static void cover_heap_pop(struct cover *c)
{
    uint32_t row = c->heap[--c->nheap];
    size_t at = 0, child;

    for (;;) {
        child = 2 * at + 1;
        if (child >= c->nheap)
            break;
        if (child + 1 < c->nheap && cover_end(c, c->heap[child + 1]) < cover_end(c, c->heap[child]))
            child++;
        if (cover_end(c, c->heap[child]) >= cover_end(c, row))
            break;
        c->heap[at] = c->heap[child];
        at = child;
    }
    c->heap[at] = row;
}

static size_t cover_track(const struct cover *c, uint32_t row)
{
    uint32_t track = c->track ? c->track[row] : OPM_NULL_ID;

    return MIN(track, c->st->table[TABLE_track].nrow);
}

static void cover_opened(struct cover *c, uint32_t row, bool opened)
{
    struct open_rows *of[] = { &c->open[c->group[cover_track(c, row)]],
                               &c->in_process[c->process[cover_track(c, row)]] };

    for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
        of[i]->n += opened ? 1 : (size_t)-1;
        of[i]->sum += opened ? row : -(uint64_t)row;
    }
}

/* The only open row that may be a track's: of its group, or of no track; where nobody of its group
 * ever tells of any, of its process. Without a track: the only one of all. OPM_NULL_ID: there is
 * none, or several. */
static uint32_t cover_only(const struct cover *c, uint32_t track)
{
    size_t ntrack = c->st->table[TABLE_track].nrow;
    uint32_t none = c->group[ntrack];
    const struct open_rows *own = &c->open[c->group[track]], *any = &c->open[none];

    if (c->group[track] == none)
        return c->nheap == 1 ? c->heap[0] : OPM_NULL_ID;
    if (!c->tells[c->group[track]] && c->process[track] != c->process[ntrack])
        own = &c->in_process[c->process[track]];
    return own->n + any->n == 1 ? (uint32_t)(own->n ? own->sum : any->sum) : OPM_NULL_ID;
}

/* Number the tracks by what they have in common, into group[]; n: how many groups there are. Where
 * the first column is NULL, and for no track, the last group if unknown is true. */
static int cover_number(const struct cover *c, const int *cols, size_t ncol, bool unknown,
                        uint32_t *group, size_t *n)
{
    size_t ntrack = c->st->table[TABLE_track].nrow;
    struct u64map seen = { 0 };
    int rc = 0;

    for (size_t i = 0; i < ntrack && !rc; i++) {
        uint64_t key = 0;
        const uint64_t *at;
        bool known = true;

        for (size_t k = 0; k < ncol; k++) {
            struct cell v = table_cell(&c->st->table[TABLE_track], i, cols[k]);

            known &= k > 0 || v.kind != CELL_NULL || !unknown;
            key ^= v.kind == CELL_I64 ? (uint64_t)v.i64 : v.kind == CELL_STR ? v.str : UINT64_MAX;
            key *= 0x9e3779b97f4a7c15u;
            key ^= key >> 29;
        }
        at = u64map_get(&seen, key);
        group[i] = !known ? OPM_NULL_ID : at ? (uint32_t)*at : (uint32_t)seen.n;
        if (!at && known)
            rc = u64map_put(&seen, key, seen.n);
    }
    for (size_t i = 0; i <= ntrack; i++)
        if (i == ntrack || group[i] == OPM_NULL_ID)
            group[i] = (uint32_t)seen.n;
    *n = seen.n;
    u64map_release(&seen);
    return rc;
}

/* Tracks of one source, instance, rank and clock belong together. So do, if less closely, those of
 * one process, of which several sources may tell: who knows the operators need not know the steps.
 */
static int cover_groups(struct cover *c)
{
    static const int of_source[] = { track_col_source, track_col_instance, track_col_rank,
                                     track_col_clock };
    static const int of_process[] = { track_col_pid, track_col_instance, track_col_rank,
                                      track_col_clock };
    size_t ngroup, nprocess;

    if (cover_number(c, of_source, ARRAY_SIZE(of_source), false, c->group, &ngroup) ||
        cover_number(c, of_process, ARRAY_SIZE(of_process), true, c->process, &nprocess))
        return OPM_ENOMEM;
    c->open = mem_calloc(ngroup + 1, sizeof(*c->open));
    c->in_process = mem_calloc(nprocess + 1, sizeof(*c->in_process));
    c->tells = mem_calloc(ngroup + 1, sizeof(*c->tells));
    for (size_t i = 0; i < c->n && c->tells; i++)
        c->tells[c->group[cover_track(c, (uint32_t)i)]] = true;
    return c->open && c->in_process && c->tells ? 0 : OPM_ENOMEM;
}

/* Bring the set of open rows to time ts. */
static void cover_advance(struct cover *c, int64_t ts)
{
    for (; c->next < c->n && c->ts[c->next] <= ts; c->next++) {
        uint32_t row = (uint32_t)c->next, track = c->track ? c->track[row] : OPM_NULL_ID;

        if (c->ts[row] == OPM_NULL_I64)
            continue;
        if (track < c->st->table[TABLE_track].nrow) {
            c->before[row] = c->last[track];
            c->last[track] = row;
        }
        c->before_any[row] = c->last_any;
        c->last_any = row;
        cover_heap_push(c, row);
        cover_opened(c, row, true);
    }
    while (c->nheap && cover_end(c, c->heap[0]) <= ts) {
        cover_opened(c, c->heap[0], false);
        cover_heap_pop(c);
    }
}

/* The next time at which a row starts or ends. */
static int64_t cover_until(const struct cover *c)
{
    int64_t start = c->next < c->n ? c->ts[c->next] : INT64_MAX;

    return c->nheap ? MIN(start, cover_end(c, c->heap[0])) : start;
}

/* The row that a track's spans belong to, as long as nothing changes. */
struct cover_answer {
    uint64_t turn;
    uint32_t row;
};

static uint32_t cover_front(const struct cover *c, uint32_t *last, const uint32_t *before,
                            int64_t ts)
{
    while (*last != OPM_NULL_ID && cover_end(c, *last) <= ts)
        *last = before[*last];
    return *last;
}

/* Spans [from, to), and where the rows go that they belong to. */
struct cover_part {
    const struct store *st;
    enum table_id table;
    const int *col; /* of the table: ts, dur, track */
    bool innermost;
    size_t from, to;
    uint32_t *out;
    int rc;
};

static void *cover_some(void *arg)
{
    struct cover_part *part = arg;
    const struct store *st = part->st;
    const struct table *t = &st->table[part->table];
    const int *col = part->col;
    size_t ntrack = st->table[TABLE_track].nrow;
    struct cover c = { .st = st,
                       .ts = t->col[col[0]].i64,
                       .dur = t->col[col[1]].i64,
                       .track = t->col[col[2]].id,
                       .n = t->nrow,
                       .last_any = OPM_NULL_ID };
    struct cover_answer *answer = mem_calloc(ntrack + 1, sizeof(*answer));
    int64_t until = INT64_MIN; /* up to there what is open stays the same */
    uint64_t turn = 0;         /* counts how often that changed */

    part->rc = OPM_ENOMEM;
    c.before = mem_alloc(c.n * sizeof(*c.before));
    c.before_any = mem_alloc(c.n * sizeof(*c.before_any));
    c.heap = mem_alloc(c.n * sizeof(*c.heap));
    c.last = mem_alloc((ntrack + 1) * sizeof(*c.last));
    c.group = mem_alloc((ntrack + 1) * sizeof(*c.group));
    c.process = mem_alloc((ntrack + 1) * sizeof(*c.process));
    if (!answer || !c.before || !c.before_any || !c.heap || !c.last || !c.group || !c.process ||
        cover_groups(&c))
        goto done;
    memset(c.last, 0xff, (ntrack + 1) * sizeof(*c.last));
    for (size_t i = part->from; i < part->to; i++) {
        uint32_t track = st->overlap_of[packed_get(&st->span_track, i)], row;
        struct cover_answer *known = &answer[track];
        int64_t ts = span_ts(st)[i];

        if (UNLIKELY(ts >= until)) {
            cover_advance(&c, ts);
            until = cover_until(&c);
            turn++;
        }
        if (LIKELY(known->turn == turn)) {
            part->out[i] = known->row;
            continue;
        }
        row = cover_front(&c, &c.last[track], c.before, ts);
        if (row == OPM_NULL_ID)
            row = cover_only(&c, track);
        if (row == OPM_NULL_ID && part->innermost)
            row = cover_front(&c, &c.last_any, c.before_any, ts);
        *known = (struct cover_answer){ turn, row };
        part->out[i] = row;
    }
    part->rc = 0;
done:
    mem_free(answer);
    mem_free(c.before);
    mem_free(c.before_any);
    mem_free(c.heap);
    mem_free(c.last);
    mem_free(c.group);
    mem_free(c.process);
    mem_free(c.open);
    mem_free(c.in_process);
    mem_free(c.tells);
    return NULL;
}

/* Into out[], for every span, the row of table (step or record) that it belongs to: of those that
 * contain its start the one on the same track, else the only one of its source, instance, rank and
 * clock (of its process, if that source knows of none), else, if innermost, the one that started
 * last. Many spans are done in two halves, which have nothing to do with each other. */
static int cover_spans(const struct store *st, enum table_id table, const int col[3],
                       bool innermost, uint32_t *out)
{
    struct cover_part first = { .st = st,
                                .table = table,
                                .col = col,
                                .innermost = innermost,
                                .to = st->table[TABLE_span].nrow,
                                .out = out };
    struct cover_part second = first;
    pthread_t thread;

    if (first.to >= 2 && first.to >= store_parallel_from) {
        second.from = first.to / 2;
        if (thread_start(&thread, cover_some, &second) == 0) {
            first.to = second.from;
            cover_some(&first);
            pthread_join(thread, NULL);
            return first.rc ? first.rc : second.rc;
        }
    }
    cover_some(&first);
    return first.rc;
}

/* Work of a device belongs to the step, or labelled region, in which the host launched it, however
 * much later it runs; what was launched in none, to none. What nobody launched stays where it
 * runs. */
static int move_to_launches(const struct store *st, uint32_t *out)
{
    const int64_t *corr = st->table[TABLE_span].col[span_col_correlation].i64;
    str_id hardware = strpool_find(&st->strings, "hardware", strlen("hardware"));
    size_t n = st->table[TABLE_span].nrow;
    struct correlated launches;
    int rc;

    if (!corr || !hardware)
        return 0;
    rc = correlated_find(&launches, st, CORRELATED_HOST, CORRELATED_FIRST);
    for (size_t i = 0; i < n && launches.n && !rc; i++) {
        uint32_t from = OPM_NULL_ID;

        if (corr[i] != OPM_NULL_I64 && st->site[st->span_site.id[i]].layer == hardware)
            from = correlated_get(&launches, corr[i]);
        if (from != OPM_NULL_ID)
            out[i] = out[from];
    }
    correlated_release(&launches);
    return rc;
}

/* What a source says to be part of a span on another track (arrows of kind parent) belongs to the
 * step or region of that one, with all that stands inside: threads may work at several at once. */
static int move_to_parents(const struct store *st, uint32_t *out)
{
    const struct table *flow = &st->table[TABLE_flow];
    str_id kind = strpool_find(&st->strings, "parent", strlen("parent"));
    const uint32_t *src = flow->col[flow_col_src].id, *dst = flow->col[flow_col_dst].id;
    const str_id *kinds = flow->col[flow_col_kind].id;
    size_t n = st->table[TABLE_span].nrow;
    struct u64map arrow = { 0 }; /* child -> parent on another track */
    uint32_t *parent = NULL;
    bool *moved = NULL;
    int rc = 0;

    for (size_t i = 0; kind && src && dst && kinds && i < flow->nrow && !rc; i++)
        if (kinds[i] == kind && src[i] < n && dst[i] < n)
            rc = u64map_put(&arrow, dst[i], src[i]);
    if (!rc && arrow.n) {
        parent = mem_alloc(n * sizeof(*parent));
        moved = mem_calloc(n, sizeof(*moved));
        rc = parent && moved ? nest_parent(st, parent) : OPM_ENOMEM;
    }
    /* Parents come before what is in them. */
    for (size_t i = 0; !rc && arrow.n && i < n; i++) {
        const uint64_t *from = u64map_get(&arrow, i);
        uint32_t to = from                                ? out[*from]
                      : parent[i] < n && moved[parent[i]] ? out[parent[i]]
                                                          : OPM_NULL_ID;

        moved[i] = to != OPM_NULL_ID;
        if (moved[i])
            out[i] = to;
    }
    mem_free(parent);
    mem_free(moved);
    u64map_release(&arrow);
    return rc;
}

static int wait_spans(const struct store *st, int64_t *out)
{
    const int64_t *ts = span_ts(st);
    const int64_t *corr = st->table[TABLE_span].col[span_col_correlation].i64;
    const int64_t *given = st->table[TABLE_span].col[span_col_wait].i64;
    str_id hardware = strpool_find(&st->strings, "hardware", strlen("hardware"));
    size_t n = st->table[TABLE_span].nrow;
    struct correlated work;
    int rc = correlated_find(&work, st, CORRELATED_HARDWARE, CORRELATED_FIRST);

    for (size_t i = 0; i < n && !rc; i++) {
        uint32_t first = OPM_NULL_ID;

        out[i] = given ? given[i] : OPM_NULL_I64;
        if (out[i] != OPM_NULL_I64 || !corr)
            continue;
        if (corr[i] != OPM_NULL_I64 && st->site[st->span_site.id[i]].layer != hardware)
            first = correlated_get(&work, corr[i]);
        if (first != OPM_NULL_ID && ts[first] >= ts[i])
            out[i] = ts[first] - ts[i];
    }
    correlated_release(&work);
    return rc;
}

/* Caller holds the mutex. */
static int depth_locked(const struct store *st)
{
    struct lazy *lz = st->lazy;
    uint32_t max = UINT8_MAX;
    int rc;

    if (atomic_load_explicit(&lz->depth_ready, memory_order_relaxed))
        return 0;
    do {
        packed_release(&lz->depth);
        rc = packed_init(&lz->depth, st->table[TABLE_span].nrow, max);
        if (!rc)
            rc = nest_depth(st, &lz->depth);
        max = UINT32_MAX;
    } while (rc == OPM_ELIMIT);
    if (!rc)
        atomic_store_explicit(&lz->depth_ready, true, memory_order_release);
    return rc;
}

static int compute(const struct store *st, int col, struct column *c)
{
    static const int step[3] = { step_col_ts, step_col_dur, step_col_track };
    static const int record[3] = { record_col_ts, record_col_dur, record_col_track };
    size_t n = st->table[TABLE_span].nrow;

    switch (col) {
    case span_col_track:
        for (size_t i = 0; i < n; i++) {
            uint32_t track = packed_get(&st->span_track, i);

            c->id[i] = track < st->table[TABLE_track].nrow ? track : OPM_NULL_ID;
        }
        return 0;
    case span_col_args:
        for (size_t i = 0; i < n; i++)
            if (args_intern(st, st->table[TABLE_span].col[col].id[i], &c->id[i]))
                return OPM_ENOMEM;
        return 0;
    case span_col_self:
        return nest_self(st, c->i64);
    case span_col_parent:
        return nest_parent(st, c->id);
    case span_col_depth:
        if (depth_locked(st))
            return OPM_ENOMEM;
        for (size_t i = 0; i < n; i++)
            c->i64[i] = packed_get(&st->lazy->depth, i);
        return 0;
    case span_col_step:
        return cover_spans(st, TABLE_step, step, false, c->id) || move_to_launches(st, c->id) ||
                       move_to_parents(st, c->id)
                   ? OPM_ENOMEM
                   : 0;
    case span_col_record:
        return cover_spans(st, TABLE_record, record, true, c->id) || move_to_launches(st, c->id) ||
                       move_to_parents(st, c->id)
                   ? OPM_ENOMEM
                   : 0;
    case span_col_wait:
        return wait_spans(st, c->i64);
    default:
        assert(!"column is not derived");
        return 0;
    }
}

static bool all_null(const struct store *st, int col)
{
    switch (col) {
    case span_col_track:
        return st->span_track.width == 0 && st->span_track.same >= st->table[TABLE_track].nrow;
    case span_col_args:
        return !st->table[TABLE_span].col[col].data;
    case span_col_step:
        return !st->table[TABLE_step].col[step_col_ts].data;
    case span_col_record:
        return !st->table[TABLE_record].col[record_col_ts].data;
    case span_col_wait:
        return !st->table[TABLE_span].col[span_col_correlation].data &&
               !st->table[TABLE_span].col[span_col_wait].data;
    default:
        return false;
    }
}

int derive_column(const struct store *st, int col)
{
    enum col_type type = store_table_defs[TABLE_span].col[col].type;
    struct lazy_column *lc = &st->lazy->span[col];
    int rc = 0;

    if (atomic_load_explicit(&lc->ready, memory_order_acquire))
        return 0;
    if (col == span_col_args && store_args_read(st))
        return OPM_ENOMEM;
    pthread_mutex_lock(&st->lazy->mutex);
    if (!atomic_load_explicit(&lc->ready, memory_order_relaxed)) {
        if (!all_null(st, col)) {
            rc = column_reserve(&lc->col, st->table[TABLE_span].nrow * column_width(type));
            if (!rc)
                rc = compute(st, col, &lc->col);
            if (rc)
                column_release(&lc->col);
        }
        if (!rc)
            atomic_store_explicit(&lc->ready, true, memory_order_release);
    }
    pthread_mutex_unlock(&st->lazy->mutex);
    return rc;
}

int derive_depth(const struct store *st)
{
    int rc;

    pthread_mutex_lock(&st->lazy->mutex);
    rc = depth_locked(st);
    pthread_mutex_unlock(&st->lazy->mutex);
    return rc;
}
