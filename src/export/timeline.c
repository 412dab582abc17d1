/* timeline.c -- see timeline.h. */
#include "export/timeline.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EXTRA_LINES 3
/* Lanes of a line that may hold nested spans and are tried one after the other. Spans that fit into
 * none get a lane for one span at a time, found through a heap: a line with many thousands of
 * requests at once must not take quadratic time. */
#define NESTING_LANES 8
/* Regions with the same start that a span is compared with; more are not worth looking at. */
#define SAME_START_MAX 64

static bool heap_before(const struct heap_item *x, const struct heap_item *y)
{
    return x->key != y->key ? x->key < y->key : x->a > y->a;
}

int heap_push(struct heap *h, struct heap_item item)
{
    size_t i = h->n;

    if (!GROW(h->item, h->cap, h->n + 1))
        return OPM_ENOMEM;
    h->n++;
    for (; i && heap_before(&item, &h->item[(i - 1) / 2]); i = (i - 1) / 2)
        h->item[i] = h->item[(i - 1) / 2];
    h->item[i] = item;
    return 0;
}

struct heap_item heap_pop(struct heap *h)
{
    struct heap_item top = h->item[0], last = h->item[--h->n];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= h->n)
            break;
        if (child + 1 < h->n && heap_before(&h->item[child + 1], &h->item[child]))
            child++;
        if (!heap_before(&h->item[child], &last))
            break;
        h->item[i] = h->item[child];
        i = child;
    }
    if (h->n)
        h->item[i] = last;
    return top;
}

void heap_release(struct heap *h)
{
    mem_free(h->item);
    *h = (struct heap){ 0 };
}

static int load_columns(struct timeline *tl)
{
    static const struct {
        enum table_id table;
        int col;
        size_t at; /* of the pointer in struct timeline */
    } columns[] = {
        { TABLE_span, span_col_ts, offsetof(struct timeline, ts) },
        { TABLE_span, span_col_dur, offsetof(struct timeline, dur) },
        { TABLE_span, span_col_track, offsetof(struct timeline, track) },
        { TABLE_span, span_col_step, offsetof(struct timeline, step) },
        { TABLE_span, span_col_record, offsetof(struct timeline, record) },
        { TABLE_span, span_col_correlation, offsetof(struct timeline, correlation) },
        { TABLE_span, span_col_args, offsetof(struct timeline, args) },
        { TABLE_sample, sample_col_ts, offsetof(struct timeline, sample_ts) },
        { TABLE_sample, sample_col_track, offsetof(struct timeline, sample_track) },
        { TABLE_sample, sample_col_value, offsetof(struct timeline, sample_value) },
        { TABLE_flow, flow_col_src, offsetof(struct timeline, flow_src) },
        { TABLE_flow, flow_col_dst, offsetof(struct timeline, flow_dst) },
        { TABLE_step, step_col_ts, offsetof(struct timeline, steps.ts) },
        { TABLE_step, step_col_dur, offsetof(struct timeline, steps.dur) },
        { TABLE_step, step_col_track, offsetof(struct timeline, steps.track) },
        { TABLE_record, record_col_ts, offsetof(struct timeline, records.ts) },
        { TABLE_record, record_col_dur, offsetof(struct timeline, records.dur) },
        { TABLE_record, record_col_track, offsetof(struct timeline, records.track) },
    };
    const struct store *st = tl->st;

    for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
        const void *data = NULL;
        int rc = store_column(st, columns[i].table, columns[i].col, &data);

        if (rc)
            return rc;
        memcpy((char *)tl + columns[i].at, &data, sizeof(data));
    }
    tl->nspan = store_nrow(st, TABLE_span);
    tl->ntrack = store_nrow(st, TABLE_track);
    tl->nop = store_nrow(st, TABLE_op);
    tl->site = store_sites(st, &tl->nsite);
    tl->span_site = store_span_site(st);
    /* What has no time cannot be drawn. */
    tl->nsample = tl->sample_ts && tl->sample_value ? store_nrow(st, TABLE_sample) : 0;
    tl->steps.n = tl->steps.ts ? store_nrow(st, TABLE_step) : 0;
    tl->records.n = tl->records.ts ? store_nrow(st, TABLE_record) : 0;
    tl->steps.cat = strpool_find(store_strings(st), "step", 4);
    tl->records.cat = strpool_find(store_strings(st), "record", 6);
    tl->steps.seen = mem_calloc(tl->steps.n, 1);
    tl->records.seen = mem_calloc(tl->records.n, 1);
    return tl->steps.seen && tl->records.seen ? 0 : OPM_ENOMEM;
}

static str_id cell_text(const struct store *st, enum table_id table, size_t row, int col)
{
    struct cell cell = store_cell(st, table, row, col);

    return cell_text_id(cell);
}

/* Where a process stands in the hash map. The address of a static differs from run to run. */
static uint64_t process_hash(const struct process *p, bool with_name)
{
    static const char seed;
    uint64_t h = (uintptr_t)&seed ^ (uint64_t)p->given_pid;

    h = (h ^ (h >> 29)) * 0xd6e8feb86659fd93u + p->host;
    h = (h ^ (h >> 31)) * 0x9e3779b97f4a7c15u + (uint64_t)p->rank;
    h = (h ^ (h >> 27)) * 0xd6e8feb86659fd93u + (with_name ? (uint64_t)p->name + 2 : 1);
    return h ^ h >> 32;
}

/* Find or add a process equal to p but, if p has no name, for its name. */
static int process_intern(struct timeline *tl, struct u64map *map, const struct process *p,
                          uint32_t *out)
{
    uint64_t key = process_hash(p, p->name != 0);
    uint64_t *head = u64map_get(map, key);
    uint32_t i = head ? (uint32_t)*head : TIMELINE_NONE;
    int rc;

    for (uint32_t j = i; j != TIMELINE_NONE; j = tl->process[j].next) {
        const struct process *q = &tl->process[j];

        if (q->given_pid == p->given_pid && q->host == p->host && q->rank == p->rank &&
            (q->name == p->name || !p->name)) {
            *out = j;
            return 0;
        }
    }
    if (!GROW(tl->process, tl->process_cap, tl->nprocess + 1))
        return OPM_ENOMEM;
    tl->process[tl->nprocess] = *p;
    tl->process[tl->nprocess].next = i;
    rc = u64map_put(map, key, tl->nprocess);
    if (rc)
        return rc;
    /* A track that names no process belongs to the first one with its number. */
    if (p->name && p->given_pid != OPM_NULL_I64) {
        key = process_hash(p, false);
        if (!u64map_get(map, key))
            rc = u64map_put(map, key, tl->nprocess);
    }
    *out = (uint32_t)tl->nprocess++;
    return rc;
}

static bool is_number(int64_t v)
{
    return v >= 0 && v <= INT32_MAX;
}

static int invent(struct u64map *used, uint64_t high, uint32_t *next, int32_t *out)
{
    while (u64map_get(used, high | *next))
        ++*next;
    *out = (int32_t)*next;
    return u64map_put(used, high | (*next)++, 0);
}

static int number_processes(struct timeline *tl)
{
    for (size_t i = 0; i < tl->nprocess; i++) {
        struct process *p = &tl->process[i];

        p->pid = -1;
        if (is_number(p->given_pid) && !u64map_get(&tl->pids, (uint64_t)p->given_pid)) {
            p->pid = (int32_t)p->given_pid;
            if (u64map_put(&tl->pids, (uint64_t)p->given_pid, i))
                return OPM_ENOMEM;
        }
    }
    tl->next_pid = 1;
    for (size_t i = 0; i < tl->nprocess; i++)
        if (tl->process[i].pid < 0 && invent(&tl->pids, 0, &tl->next_pid, &tl->process[i].pid))
            return OPM_ENOMEM;
    return 0;
}

/* Named processes first, so that tracks without a process name find the one with their number. */
static int make_processes(struct timeline *tl)
{
    struct u64map map = { 0 };
    int rc = 0;

    for (int named = 1; named >= 0 && !rc; named--) {
        for (size_t i = 0; i < tl->nline && !rc; i++) {
            struct process p = { .given_pid = OPM_NULL_I64, .rank = OPM_NULL_I64, .next_tid = 1 };

            if (i < tl->ntrack) {
                p.given_pid = store_i64_or(tl->st, TABLE_track, i, track_col_pid, OPM_NULL_I64);
                p.name = cell_text(tl->st, TABLE_track, i, track_col_process);
                p.host = cell_text(tl->st, TABLE_track, i, track_col_host);
                p.rank = store_i64_or(tl->st, TABLE_track, i, track_col_rank, OPM_NULL_I64);
            }
            p.order = (uint32_t)i;
            if ((p.name != 0) != named)
                continue;
            rc = process_intern(tl, &map, &p, &tl->line[i].process);
            if (!rc && tl->process[tl->line[i].process].order > i)
                tl->process[tl->line[i].process].order = (uint32_t)i;
        }
    }
    u64map_release(&map);
    return rc ? rc : number_processes(tl);
}

static bool tid_is_free(const struct timeline *tl, uint32_t process, int64_t tid)
{
    return is_number(tid) && !u64map_get(&tl->tids, (uint64_t)process << 32 | (uint64_t)tid);
}

static int add_lane(struct timeline *tl, uint32_t line, int64_t given_tid, uint32_t *out)
{
    struct line *l = &tl->line[line];
    struct lane lane = { .line = line, .index = l->nlane, .next = TIMELINE_NONE };
    uint64_t high = (uint64_t)l->process << 32;
    int rc;

    if (!GROW(tl->lane, tl->lane_cap, tl->nlane + 1))
        return OPM_ENOMEM;
    if (tid_is_free(tl, l->process, given_tid)) {
        lane.tid = (int32_t)given_tid;
        rc = u64map_put(&tl->tids, high | (uint64_t)given_tid, 0);
    } else
        rc = invent(&tl->tids, high, &tl->process[l->process].next_tid, &lane.tid);
    if (rc)
        return rc;
    *out = (uint32_t)tl->nlane;
    tl->lane[tl->nlane++] = lane;
    if (l->nlane++)
        tl->lane[l->last].next = *out;
    else
        l->first = *out;
    l->last = *out;
    return 0;
}

/* Real thread numbers first, so that no invented one takes the place of a real one. */
static int make_lines(struct timeline *tl)
{
    for (size_t i = 0; i < tl->nspan; i++)
        tl->line[timeline_line_of(tl, tl->track ? tl->track[i] : OPM_NULL_ID)].spans = true;
    for (size_t i = 0; i < tl->nsample; i++)
        tl->line[timeline_line_of(tl, tl->sample_track ? tl->sample_track[i] : OPM_NULL_ID)]
            .samples = true;
    for (int real = 1; real >= 0; real--) {
        for (size_t i = 0; i < tl->nline; i++) {
            int64_t tid = OPM_NULL_I64;
            uint32_t lane;

            if (i < tl->ntrack)
                tid = store_i64_or(tl->st, TABLE_track, i, track_col_tid, OPM_NULL_I64);
            if (!tl->line[i].spans || tl->line[i].nlane)
                continue;
            if (real && !tid_is_free(tl, tl->line[i].process, tid))
                continue;
            if (add_lane(tl, (uint32_t)i, tid, &lane))
                return OPM_ENOMEM;
        }
    }
    return 0;
}

/* Order by the high halves, keeping the order of equal ones. scratch is as long as key. */
static uint64_t *sort_by_high_half(uint64_t *key, uint64_t *scratch, size_t n)
{
    enum { BITS = 11, PASSES = 3 };

    for (int pass = 0; pass < PASSES; pass++) {
        unsigned shift = 32 + (unsigned)pass * BITS;
        size_t at[1 << BITS] = { 0 }, sum = 0;
        uint64_t *swap = key;

        for (size_t i = 0; i < n; i++)
            at[key[i] >> shift & ((1 << BITS) - 1)]++;
        for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
            size_t count = at[i];

            at[i] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            scratch[at[key[i] >> shift & ((1 << BITS) - 1)]++] = key[i];
        key = scratch;
        scratch = swap;
    }
    return key;
}

static int make_flows(struct timeline *tl)
{
    size_t nflow = store_nrow(tl->st, TABLE_flow), n = 0;
    uint64_t *key, *scratch, *sorted;

    if (!nflow || !tl->flow_src || !tl->flow_dst)
        return 0;
    key = mem_calloc(nflow, 2 * sizeof(*key));
    scratch = mem_calloc(nflow, 2 * sizeof(*key));
    if (!key || !scratch) {
        mem_free(key);
        mem_free(scratch);
        return OPM_ENOMEM;
    }
    for (size_t i = 0; i < nflow; i++) {
        uint32_t src = tl->flow_src[i], dst = tl->flow_dst[i];

        if (src >= tl->nspan || dst >= tl->nspan || src == dst)
            continue;
        key[n++] = (uint64_t)src << 32 | i;
        key[n++] = (uint64_t)dst << 32 | i;
    }
    sorted = sort_by_high_half(key, scratch, n);
    mem_free(sorted == key ? scratch : key);
    tl->flow_end = sorted;
    tl->nflow_end = n;
    return 0;
}

static int compare_tensors(const void *px, const void *py)
{
    const struct tensor_ref *x = px, *y = py;

    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    if (x->io != y->io)
        return x->io < y->io ? -1 : 1;
    if (x->slot != y->slot)
        return x->slot < y->slot ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int make_tensors(struct timeline *tl)
{
    static const char *const names[] = { "input", "weight", "output" };
    size_t n = store_nrow(tl->st, TABLE_op_tensor);
    str_id io[ARRAY_SIZE(names)];

    tl->tensor = mem_calloc(n, sizeof(*tl->tensor));
    if (!tl->tensor)
        return OPM_ENOMEM;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        io[i] = strpool_find(store_strings(tl->st), names[i], strlen(names[i]));
    for (size_t i = 0; i < n; i++) {
        int64_t op = store_i64_or(tl->st, TABLE_op_tensor, i, op_tensor_col_op, OPM_NULL_I64);
        str_id kind = cell_text(tl->st, TABLE_op_tensor, i, op_tensor_col_io);
        struct tensor_ref ref = { .row = (uint32_t)i };

        if (op < 0 || (uint64_t)op >= tl->nop)
            continue;
        ref.op = (uint32_t)op;
        ref.slot = store_i64_or(tl->st, TABLE_op_tensor, i, op_tensor_col_slot, OPM_NULL_I64);
        while (ref.io < ARRAY_SIZE(names) && (!kind || io[ref.io] != kind))
            ref.io++;
        tl->tensor[tl->ntensor++] = ref;
    }
    if (tl->ntensor)
        qsort(tl->tensor, tl->ntensor, sizeof(*tl->tensor), compare_tensors);
    return 0;
}

/* Note that a span shows a step or record, if it does. Spans come in order. */
static void mark(struct regions *r, size_t *cursor, int64_t ts, int64_t dur, uint32_t track)
{
    while (*cursor < r->n && r->ts[*cursor] < ts)
        ++*cursor;
    for (size_t i = *cursor; i < r->n && r->ts[i] == ts && i - *cursor < SAME_START_MAX; i++) {
        uint32_t marked_by = r->track ? r->track[i] : OPM_NULL_ID;

        if (!r->seen[i] && (r->dur ? r->dur[i] : OPM_NULL_I64) == dur &&
            (marked_by == track || marked_by == OPM_NULL_ID)) {
            r->seen[i] = 1;
            return;
        }
    }
}

static void mark_regions(struct timeline *tl)
{
    size_t step = 0, record = 0;

    if ((!tl->steps.n || !tl->steps.cat) && (!tl->records.n || !tl->records.cat))
        return;
    for (size_t i = 0; i < tl->nspan; i++) {
        str_id cat = tl->site[tl->span_site[i]].cat;
        uint32_t track = tl->track ? tl->track[i] : OPM_NULL_ID;

        if (LIKELY(!cat || (cat != tl->steps.cat && cat != tl->records.cat)))
            continue;
        if (cat == tl->steps.cat)
            mark(&tl->steps, &step, tl->ts[i], tl->dur[i], track);
        else
            mark(&tl->records, &record, tl->ts[i], tl->dur[i], track);
    }
}

int timeline_init(struct timeline *tl, const struct store *st)
{
    int rc;

    *tl = (struct timeline){ .st = st };
    rc = load_columns(tl);
    if (rc)
        return rc;
    tl->nline = tl->ntrack + EXTRA_LINES;
    tl->line = mem_calloc(tl->nline, sizeof(*tl->line));
    if (!tl->line)
        return OPM_ENOMEM;
    for (size_t i = 0; i < tl->nline; i++)
        tl->line[i].first = tl->line[i].last = TIMELINE_NONE;
    rc = make_processes(tl);
    if (!rc)
        rc = make_lines(tl);
    if (!rc)
        rc = make_flows(tl);
    if (!rc)
        rc = make_tensors(tl);
    if (!rc)
        mark_regions(tl);
    return rc;
}

void timeline_release(struct timeline *tl)
{
    for (size_t i = 0; i < tl->nlane; i++)
        mem_free(tl->lane[i].end);
    for (size_t i = 0; tl->line && i < tl->nline; i++)
        heap_release(&tl->line[i].rest);
    mem_free(tl->lane);
    mem_free(tl->line);
    mem_free(tl->process);
    mem_free(tl->flow_end);
    mem_free(tl->tensor);
    mem_free(tl->steps.seen);
    mem_free(tl->records.seen);
    u64map_release(&tl->pids);
    u64map_release(&tl->tids);
    *tl = (struct timeline){ 0 };
}

int timeline_place(struct timeline *tl, uint32_t line, int64_t ts, int64_t end, uint32_t *out_lane)
{
    struct line *l = &tl->line[line];
    uint32_t i = l->first;
    int rc;

    for (; i != TIMELINE_NONE && tl->lane[i].index < NESTING_LANES; i = tl->lane[i].next) {
        struct lane *lane = &tl->lane[i];

        while (lane->n && lane->end[lane->n - 1] <= ts)
            lane->n--;
        if (!lane->n || end <= lane->end[lane->n - 1])
            break;
    }
    if (i == TIMELINE_NONE || tl->lane[i].index >= NESTING_LANES) {
        if (l->rest.n && l->rest.item[0].key <= ts)
            i = heap_pop(&l->rest).b;
        else {
            rc = add_lane(tl, line, OPM_NULL_I64, &i);
            if (rc)
                return rc;
        }
        *out_lane = i;
        if (tl->lane[i].index >= NESTING_LANES)
            return heap_push(&l->rest, (struct heap_item){ .key = end, .a = ~i, .b = i });
    }
    *out_lane = i;
    if (!GROW(tl->lane[i].end, tl->lane[i].cap, tl->lane[i].n + 1))
        return OPM_ENOMEM;
    tl->lane[i].end[tl->lane[i].n++] = end;
    return 0;
}

size_t timeline_flows(struct timeline *tl, uint32_t span, const uint64_t **out)
{
    size_t from = tl->flow_cursor;

    if (from == tl->nflow_end)
        return 0;
    *out = tl->flow_end + from;
    while (tl->flow_cursor < tl->nflow_end && tl->flow_end[tl->flow_cursor] >> 32 == span)
        tl->flow_cursor++;
    return tl->flow_cursor - from;
}

size_t timeline_tensors(const struct timeline *tl, uint32_t op, const struct tensor_ref **out)
{
    size_t lo = 0, hi = tl->ntensor, n = 0;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (tl->tensor[mid].op < op)
            lo = mid + 1;
        else
            hi = mid;
    }
    *out = tl->tensor + lo;
    while (lo + n < tl->ntensor && tl->tensor[lo + n].op == op)
        n++;
    return n;
}

static void add_text(const struct timeline *tl, struct buf *out, str_id text)
{
    buf_add(out, strpool_get(store_strings(tl->st), text),
            strpool_len(store_strings(tl->st), text));
}

void timeline_line_name(const struct timeline *tl, uint32_t line, struct buf *out)
{
    static const char *const extra[EXTRA_LINES] = { "no track", "steps", "records" };
    str_id name, kind;
    int64_t tid;

    if (line >= tl->ntrack) {
        buf_adds(out, extra[line - tl->ntrack]);
        return;
    }
    name = cell_text(tl->st, TABLE_track, line, track_col_name);
    if (name && strpool_len(store_strings(tl->st), name)) {
        add_text(tl, out, name);
        return;
    }
    kind = cell_text(tl->st, TABLE_track, line, track_col_kind);
    tid = store_i64_or(tl->st, TABLE_track, line, track_col_tid, OPM_NULL_I64);
    if (kind)
        add_text(tl, out, kind);
    else
        buf_adds(out, "track");
    if (tid != OPM_NULL_I64)
        buf_addf(out, " %" PRId64, tid);
    else
        buf_addf(out, " (track %" PRIu32 ")", line);
}

void timeline_region_name(const struct timeline *tl, const struct regions *r, size_t row,
                          struct buf *out)
{
    bool is_step = r == &tl->steps;
    str_id name = is_step ? cell_text(tl->st, TABLE_step, row, step_col_model)
                          : cell_text(tl->st, TABLE_record, row, record_col_label);
    int64_t num =
        is_step ? store_i64_or(tl->st, TABLE_step, row, step_col_num, OPM_NULL_I64) : OPM_NULL_I64;

    if (name)
        add_text(tl, out, name);
    else
        buf_adds(out, is_step ? "step" : "record");
    if (num != OPM_NULL_I64)
        buf_addf(out, " %" PRId64, num);
    else if (is_step || !name)
        buf_addf(out, " #%zu", row);
}

void timeline_process_name(const struct timeline *tl, uint32_t process, struct buf *out)
{
    const struct process *p = &tl->process[process];

    if (p->name && strpool_len(store_strings(tl->st), p->name))
        add_text(tl, out, p->name);
    else if (p->given_pid != OPM_NULL_I64)
        buf_addf(out, "process %" PRId64, p->given_pid);
    else
        buf_adds(out, "trace");
}

void timeline_process_labels(const struct timeline *tl, uint32_t process, struct buf *out)
{
    const struct process *p = &tl->process[process];

    if (p->host)
        add_text(tl, out, p->host);
    if (p->rank != OPM_NULL_I64)
        buf_addf(out, "%srank %" PRId64, p->host ? ", " : "", p->rank);
}
