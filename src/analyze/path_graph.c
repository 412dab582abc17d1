/* path_graph.c -- see path_graph.h. */
#include "analyze/path_graph.h"

#include "analyze/groups.h"
#include "analyze/span_class.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_read.h"
#include <stdlib.h>
#include <string.h>

/* Longest chain of nested spans that is followed; what is deeper counts as part of the last. */
#define NEST_MAX 512

static int64_t end_of(const struct path_graph *g, uint32_t span)
{
    return add_ns(g->ts[span], MAX(g->dur[span], (int64_t)0));
}

static bool add_piece(struct line *l, int64_t from_ns, int64_t to_ns, uint32_t span, bool empty)
{
    if (to_ns < from_ns || (to_ns == from_ns && !empty))
        return true;
    if (!GROW(l->at, l->cap, l->n + 1))
        return false;
    l->at[l->n++] = (struct piece){ from_ns, to_ns, span };
    return true;
}

/* The spans that are open on a line while all are gone through by start. */
struct nest {
    uint32_t open[NEST_MAX];
    size_t n;
    int64_t done_ns; /* pieces reach up to here */
};

static bool nest_close(const struct path_graph *g, struct nest *s, struct line *l, int64_t until_ns)
{
    while (s->n && end_of(g, s->open[s->n - 1]) <= until_ns) {
        uint32_t span = s->open[--s->n];
        int64_t end = end_of(g, span);

        if (!add_piece(l, s->done_ns, end, span, false))
            return false;
        s->done_ns = MAX(s->done_ns, end);
    }
    return true;
}

static bool nest_open(const struct path_graph *g, struct nest *s, struct line *l, uint32_t span)
{
    int64_t ts = g->ts[span];

    if (!nest_close(g, s, l, ts))
        return false;
    if (s->n && !add_piece(l, s->done_ns, ts, s->open[s->n - 1], false))
        return false;
    s->done_ns = s->n ? MAX(s->done_ns, ts) : ts;
    if (g->dur[span] == 0)
        return l->on_device ? add_piece(l, ts, ts, span, true) : true;
    if (s->n < NEST_MAX)
        s->open[s->n++] = span;
    return true;
}

static bool counts(const struct path_graph *g, size_t i, str_id sync_cat)
{
    size_t nsite;

    return g->dur[i] >= 0 && g->track[i] < g->nline && g->class[g->site[i]] != CLASS_NONE &&
           !g->line[g->track[i]].async &&
           !(sync_cat && store_sites(g->st, &nsite)[g->site[i]].cat == sync_cat);
}

/* Spans of one line after the other, so that one nest does for all. */
static int cut(struct path_graph *g, str_id sync_cat)
{
    uint32_t *order = mem_alloc((g->nspan + 1) * sizeof(*order));
    size_t *first = mem_calloc(g->nline + 2, sizeof(*first));
    struct nest *nest = mem_alloc(sizeof(*nest));
    int rc = order && first && nest ? 0 : OPM_ENOMEM;

    for (size_t i = 0; rc == 0 && i < g->nspan; i++)
        if (counts(g, i, sync_cat))
            first[g->track[i] + 2]++;
    for (size_t k = 2; rc == 0 && k < g->nline + 2; k++)
        first[k] += first[k - 1];
    for (size_t i = 0; rc == 0 && i < g->nspan; i++)
        if (counts(g, i, sync_cat))
            order[first[g->track[i] + 1]++] = (uint32_t)i;
    for (size_t k = 0; rc == 0 && k < g->nline; k++) {
        *nest = (struct nest){ .done_ns = INT64_MIN };
        for (size_t i = first[k]; rc == 0 && i < first[k + 1]; i++)
            if (!nest_open(g, nest, &g->line[k], order[i]))
                rc = OPM_ENOMEM;
        if (rc == 0 && !nest_close(g, nest, &g->line[k], INT64_MAX))
            rc = OPM_ENOMEM;
    }
    mem_free(nest);
    mem_free(first);
    mem_free(order);
    return rc;
}

/* Tracks of kind async know no order: what is there bounds nothing. */
static bool is_async(const struct store *st, size_t track)
{
    struct cell kind = store_cell(st, TABLE_track, track, track_col_kind);

    return kind.kind == CELL_STR && strcmp(store_text(st, kind.str), "async") == 0;
}

static int lines_get(struct path_graph *g)
{
    size_t nsite;
    const struct site *sites = store_sites(g->st, &nsite);
    str_id hardware = strpool_find(store_strings(g->st), "hardware", strlen("hardware"));

    g->nline = store_nrow(g->st, TABLE_track);
    g->line = mem_calloc(g->nline + 1, sizeof(*g->line));
    if (!g->line)
        return OPM_ENOMEM;
    for (size_t i = 0; i < g->nline; i++) {
        struct cell device = store_cell(g->st, TABLE_track, i, track_col_device);

        g->line[i].rank = store_i64_or(g->st, TABLE_track, i, track_col_rank, OPM_NULL_I64);
        g->line[i].pid = store_i64_or(g->st, TABLE_track, i, track_col_pid, OPM_NULL_I64);
        g->line[i].tid = store_i64_or(g->st, TABLE_track, i, track_col_tid, OPM_NULL_I64);
        g->line[i].async = is_async(g->st, i);
        g->line[i].device = cell_text_id(device);
    }
    for (size_t i = 0; i < g->nspan; i++) {
        if (g->track[i] >= g->nline)
            continue;
        if (hardware && sites[g->site[i]].layer == hardware && g->class[g->site[i]] != CLASS_NONE)
            g->line[g->track[i]].on_device = true;
        if (g->class[g->site[i]] == CLASS_BACKWARD)
            g->line[g->track[i]].backward = true;
    }
    for (size_t i = g->nline; i-- > 0;) {
        const uint64_t *next;

        if (!g->line[i].on_device)
            continue;
        next = u64map_get(&g->first_stream, (uint64_t)g->line[i].rank);
        g->line[i].next_stream = next ? (uint32_t)*next : OPM_NULL_ID;
        if (u64map_put(&g->first_stream, (uint64_t)g->line[i].rank, i))
            return OPM_ENOMEM;
    }
    return 0;
}

/* Calls of CUDA, HIP, oneAPI, CANN, ...: what is called like this waits for the device, unless it
 * turns out that nothing was left to wait for. */
static enum sync_scope scope_of_name(const char *name)
{
    if (strstr(name, "Synchronize") || strcmp(name, "clFinish") == 0 ||
        strcmp(name, "cudaFree") == 0 || strcmp(name, "hipFree") == 0)
        return SYNC_DEVICE;
    return strstr(name, "Memcpy") ? SYNC_OWN : SYNC_NONE;
}

/* Who launched what, and the calls that wait. */
static int links_get(struct path_graph *g, str_id sync_cat)
{
    size_t nsite;
    const struct site *sites = store_sites(g->st, &nsite);
    str_id hardware = strpool_find(store_strings(g->st), "hardware", strlen("hardware"));
    int rc = 0;

    g->sync_name = mem_calloc(nsite + 1, sizeof(*g->sync_name));
    if (!g->sync_name)
        return OPM_ENOMEM;
    for (size_t i = 0; i < nsite; i++)
        if (g->class[i] == CLASS_RUNTIME && sites[i].cat != sync_cat && sites[i].name)
            g->sync_name[i] = (uint8_t)scope_of_name(store_text(g->st, sites[i].name));
    for (size_t i = 0; rc == 0 && g->correlation && i < g->nspan; i++) {
        const struct site *s = &sites[g->site[i]];
        uint64_t key = (uint64_t)g->correlation[i];
        const uint64_t *last;

        if (g->correlation[i] == OPM_NULL_I64 || (sync_cat && s->cat == sync_cat) || g->dur[i] < 0)
            continue;
        if (!hardware || s->layer != hardware) {
            rc = u64map_put(&g->launch, key, i);
            continue;
        }
        last = u64map_get(&g->launched, key);
        if (!last || end_of(g, (uint32_t)i) > end_of(g, (uint32_t)*last))
            rc = u64map_put(&g->launched, key, i);
    }
    return rc;
}

/* What a span of category cuda_sync has to tell. */
struct sync_facts {
    int64_t stream, wait_on_stream; /* OPM_NULL_I64: nothing */
    int64_t record;                 /* the call that recorded the event, by its correlation ... */
    int64_t event;                  /* ... or the event: it was the last call that did */
    int64_t recorded;               /* of such a call: the event */
};

static int facts_get(const struct path_graph *g, size_t span, struct buf *room,
                     struct sync_facts *f)
{
    struct json_reader r;

    *f =
        (struct sync_facts){ OPM_NULL_I64, OPM_NULL_I64, OPM_NULL_I64, OPM_NULL_I64, OPM_NULL_I64 };
    buf_clear(room);
    if (store_span_args(g->st, span, room))
        return OPM_ENOMEM;
    r = json_read_of(buf_str(room), room->len);
    if (json_read_next(&r) != JSON_OBJECT)
        return 0;
    while (json_read_next(&r) == JSON_KEY) {
        int64_t *to = json_read_is(&r, "stream")                              ? &f->stream
                      : json_read_is(&r, "wait_on_stream")                    ? &f->wait_on_stream
                      : json_read_is(&r, "wait_on_cuda_event_record_corr_id") ? &f->record
                      : json_read_is(&r, "wait_on_cuda_event_id")             ? &f->event
                      : json_read_is(&r, "cuda_event_id")                     ? &f->recorded
                                                                              : NULL;

        json_read_next(&r);
        if (to)
            json_read_int(&r, to);
        json_read_skip(&r);
    }
    return 0;
}

/* The stream of that number beside another line of the same device. */
static int stream_beside(const struct path_graph *g, struct u64map *known, uint32_t line,
                         int64_t stream, uint32_t *out)
{
    uint64_t key = (uint64_t)line << 32 | (uint32_t)stream;
    const uint64_t *hit = u64map_get(known, key);

    *out = hit ? (uint32_t)*hit : OPM_NULL_ID;
    for (size_t i = 0; !hit && i < g->nline && *out == OPM_NULL_ID; i++)
        if (g->line[i].on_device && g->line[i].tid == stream &&
            g->line[i].rank == g->line[line].rank && g->line[i].pid == g->line[line].pid)
            *out = (uint32_t)i;
    return hit ? 0 : u64map_put(known, key, *out);
}

static int add_sync(struct path_graph *g, uint32_t call, struct sync s)
{
    if (!GROW(g->syncs, g->sync_cap, g->nsync + 1))
        return OPM_ENOMEM;
    g->syncs[g->nsync] = s;
    return u64map_put(&g->sync, call, g->nsync++);
}

static int add_wait(struct line *l, struct stream_wait w)
{
    if (!GROW(l->wait, l->wait_cap, l->nwait + 1))
        return OPM_ENOMEM;
    l->wait[l->nwait++] = w;
    return 0;
}

/* Files of a job count correlations alike; those of each were moved by a multiple of this. */
static int64_t moved(int64_t number, int64_t beside)
{
    return number + beside - beside % STORE_CORRELATION_STEP;
}

/* Calls that recorded an event of a process. */
struct recorded {
    int64_t rank, pid, event, ts;
};
struct records {
    struct recorded *at; /* ascending */
    size_t n, cap;
    bool sought;
};

static int by_event(const void *va, const void *vb)
{
    const struct recorded *a = va, *b = vb;
    const int64_t pair[][2] = {
        { a->rank, b->rank }, { a->pid, b->pid }, { a->event, b->event }, { a->ts, b->ts }
    };

    for (size_t i = 0; i < ARRAY_SIZE(pair); i++)
        if (pair[i][0] != pair[i][1])
            return pair[i][0] < pair[i][1] ? -1 : 1;
    return 0;
}

static int records_seek(const struct path_graph *g, struct records *all, struct buf *room)
{
    size_t nsite;
    const struct site *sites = store_sites(g->st, &nsite);
    uint8_t *records = mem_calloc(nsite + 1, 1);
    int rc = records ? 0 : OPM_ENOMEM;

    for (size_t i = 0; rc == 0 && i < nsite; i++)
        records[i] = g->class[i] == CLASS_RUNTIME && sites[i].name &&
                     strstr(store_text(g->st, sites[i].name), "EventRecord") != NULL;
    for (size_t i = 0; rc == 0 && i < g->nspan; i++) {
        struct sync_facts f;

        if (!records[g->site[i]] || g->track[i] >= g->nline)
            continue;
        rc = facts_get(g, i, room, &f);
        if (rc || f.recorded < 0)
            continue;
        if (GROW(all->at, all->cap, all->n + 1))
            all->at[all->n++] = (struct recorded){ g->line[g->track[i]].rank,
                                                   g->line[g->track[i]].pid, f.recorded, g->ts[i] };
        else
            rc = OPM_ENOMEM;
    }
    if (all->n)
        qsort(all->at, all->n, sizeof(*all->at), by_event);
    all->sought = true;
    mem_free(records);
    return rc;
}

/* When an event was recorded last before a call on this line, or INT64_MIN. */
static int64_t recorded_before(const struct path_graph *g, const struct records *all, uint32_t line,
                               int64_t event, int64_t ts)
{
    struct recorded wanted = { g->line[line].rank, g->line[line].pid, event, ts };
    size_t lo = 0, hi = all->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (by_event(&all->at[mid], &wanted) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0 || all->at[lo - 1].rank != wanted.rank || all->at[lo - 1].pid != wanted.pid ||
        all->at[lo - 1].event != event)
        return INT64_MIN;
    return all->at[lo - 1].ts;
}

/* One span of category cuda_sync: which call it is about, and what that waits for. */
static int read_sync(struct path_graph *g, size_t i, struct buf *room, struct u64map *known,
                     struct records *all)
{
    size_t nsite;
    const char *name = store_text(g->st, store_sites(g->st, &nsite)[g->site[i]].name);
    const uint64_t *call = u64map_get(&g->launch, (uint64_t)g->correlation[i]), *record = NULL;
    struct sync_facts f;
    uint32_t stream = OPM_NULL_ID, on = OPM_NULL_ID;
    int64_t record_ns = INT64_MIN;
    int rc = facts_get(g, i, room, &f);

    if (rc || !call || !name || g->track[i] >= g->nline)
        return rc;
    if (f.stream >= 0)
        rc = stream_beside(g, known, g->track[i], f.stream, &stream);
    if (rc == 0 && f.wait_on_stream >= 0)
        rc = stream_beside(g, known, g->track[i], f.wait_on_stream, &on);
    if (f.record >= 0)
        record = u64map_get(&g->launch, (uint64_t)moved(f.record, g->correlation[i]));
    if (record)
        record_ns = g->ts[*record];
    if (rc == 0 && f.record < 0 && f.event >= 0 && !all->sought)
        rc = records_seek(g, all, room);
    if (rc)
        return rc;
    if (f.record < 0 && f.event >= 0)
        record_ns = recorded_before(g, all, g->track[i], f.event, g->ts[*call]);
    if (strcmp(name, "Stream Wait Event") == 0) {
        struct stream_wait w = { g->ts[*call], on, record_ns };

        return stream != OPM_NULL_ID && on != OPM_NULL_ID && record_ns != INT64_MIN
                   ? add_wait(&g->line[stream], w)
                   : 0;
    }
    if (strcmp(name, "Event Sync") == 0 && g->sync_name[g->site[*call]] != SYNC_NONE)
        return add_sync(g, (uint32_t)*call,
                        on != OPM_NULL_ID && record_ns != INT64_MIN
                            ? (struct sync){ SYNC_EVENT, on, record_ns }
                            : (struct sync){ SYNC_NONE, OPM_NULL_ID, 0 });
    if (strcmp(name, "Stream Sync") == 0 && stream != OPM_NULL_ID)
        return add_sync(g, (uint32_t)*call, (struct sync){ SYNC_STREAM, stream, g->ts[*call] });
    return 0;
}

static int by_call(const void *va, const void *vb)
{
    const struct stream_wait *a = va, *b = vb;

    return a->call_ns < b->call_ns ? -1 : a->call_ns > b->call_ns;
}

static int by_time(const void *va, const void *vb)
{
    int64_t a = *(const int64_t *)va, b = *(const int64_t *)vb;

    return a < b ? -1 : a > b;
}

/* Calls that tell some stream to wait, in traces that do not say which. */
static int asked_get(struct path_graph *g)
{
    size_t nsite;
    const struct site *sites = store_sites(g->st, &nsite);
    uint8_t *waits = mem_calloc(nsite + 1, 1);
    int rc = waits ? 0 : OPM_ENOMEM;

    for (size_t i = 0; rc == 0 && i < nsite; i++)
        waits[i] = g->class[i] == CLASS_RUNTIME && sites[i].name &&
                   strstr(store_text(g->st, sites[i].name), "StreamWaitEvent") != NULL;
    for (size_t i = 0; rc == 0 && i < g->nspan; i++) {
        if (!waits[g->site[i]])
            continue;
        if (GROW(g->asked, g->asked_cap, g->nasked + 1))
            g->asked[g->nasked++] = g->ts[i];
        else
            rc = OPM_ENOMEM;
    }
    mem_free(waits);
    if (g->nasked)
        qsort(g->asked, g->nasked, sizeof(*g->asked), by_time);
    return rc;
}

static int syncs_get(struct path_graph *g, str_id sync_cat)
{
    size_t nsite;
    const struct site *sites = store_sites(g->st, &nsite);
    struct u64map known = { 0 };
    struct records all = { 0 };
    struct buf room = { 0 };
    bool any = false;
    int rc = 0;

    for (size_t i = 0; rc == 0 && sync_cat && g->correlation && i < g->nspan; i++) {
        if (sites[g->site[i]].cat != sync_cat || g->correlation[i] == OPM_NULL_I64)
            continue;
        any = true;
        rc = read_sync(g, i, &room, &known, &all);
    }
    for (size_t i = 0; rc == 0 && i < g->nline; i++)
        if (g->line[i].nwait)
            qsort(g->line[i].wait, g->line[i].nwait, sizeof(*g->line[i].wait), by_call);
    if (rc == 0 && !any)
        rc = asked_get(g);
    mem_free(all.at);
    u64map_release(&known);
    buf_release(&room);
    return rc;
}

int path_graph_get(struct path_graph *g, const struct store *st)
{
    str_id sync_cat = strpool_find(store_strings(st), "cuda_sync", strlen("cuda_sync"));
    const void *ts, *dur, *track, *correlation;
    int rc;

    *g = (struct path_graph){ .st = st, .class = span_classes(st) };
    if (!g->class || store_column(st, TABLE_span, span_col_ts, &ts) ||
        store_column(st, TABLE_span, span_col_dur, &dur) ||
        store_column(st, TABLE_span, span_col_track, &track) ||
        store_column(st, TABLE_span, span_col_correlation, &correlation))
        return OPM_ENOMEM;
    g->ts = ts;
    g->dur = dur;
    g->track = track;
    g->correlation = correlation;
    g->site = store_span_site(st);
    g->nspan = ts && dur && track ? store_nrow(st, TABLE_span) : 0;
    rc = lines_get(g);
    if (rc == 0)
        rc = cut(g, sync_cat);
    if (rc == 0)
        rc = links_get(g, sync_cat);
    if (rc == 0)
        rc = syncs_get(g, sync_cat);
    return rc;
}

void path_graph_release(struct path_graph *g)
{
    for (size_t i = 0; g->line && i < g->nline; i++) {
        mem_free(g->line[i].at);
        mem_free(g->line[i].wait);
    }
    mem_free(g->line);
    mem_free(g->class);
    mem_free(g->sync_name);
    mem_free(g->syncs);
    mem_free(g->asked);
    u64map_release(&g->launch);
    u64map_release(&g->launched);
    u64map_release(&g->sync);
    u64map_release(&g->first_stream);
    *g = (struct path_graph){ 0 };
}

uint32_t path_first_stream(const struct path_graph *g, int64_t rank)
{
    const uint64_t *first = u64map_get(&g->first_stream, (uint64_t)rank);

    return first ? (uint32_t)*first : OPM_NULL_ID;
}

uint32_t path_launch_of(const struct path_graph *g, uint32_t span)
{
    const uint64_t *from = NULL;

    if (g->correlation && g->correlation[span] != OPM_NULL_I64)
        from = u64map_get(&g->launch, (uint64_t)g->correlation[span]);
    return from ? (uint32_t)*from : OPM_NULL_ID;
}

size_t path_piece_before(const struct line *l, int64_t t_ns)
{
    size_t low = 0, high = l->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (l->at[mid].from_ns < t_ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? low - 1 : NO_PIECE;
}

struct sync path_sync_of(const struct path_graph *g, uint32_t span)
{
    const uint64_t *row = u64map_get(&g->sync, span);
    enum sync_scope scope = (enum sync_scope)g->sync_name[g->site[span]];

    if (row)
        return g->syncs[*row];
    return (struct sync){ scope, OPM_NULL_ID, g->ts[span] };
}

/* When the host asked for it; its start where that is not known. */
static int64_t launch_ns(const struct path_graph *g, uint32_t span)
{
    uint32_t launch = path_launch_of(g, span);

    return launch == OPM_NULL_ID ? g->ts[span] : g->ts[launch];
}

size_t path_launched_before(const struct path_graph *g, const struct line *l, int64_t t_ns,
                            int64_t before_ns)
{
    size_t low = 0, high = l->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (l->at[mid].from_ns < t_ns && launch_ns(g, l->at[mid].span) < before_ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? low - 1 : NO_PIECE;
}

struct path_place path_waited_for(const struct path_graph *g, uint32_t call, struct sync sync,
                                  int64_t end_ns)
{
    struct path_place best = { OPM_NULL_ID, NO_PIECE };
    int64_t best_ns = INT64_MIN;

    if (sync.scope == SYNC_OWN) {
        const uint64_t *own = g->correlation && g->correlation[call] != OPM_NULL_I64
                                  ? u64map_get(&g->launched, (uint64_t)g->correlation[call])
                                  : NULL;

        /* One that goes on after the call returned was not waited for. */
        if (!own || end_of(g, (uint32_t)*own) > end_of(g, call) || g->track[*own] >= g->nline)
            return best;
        best.line = g->track[*own];
        best.at = path_piece_before(&g->line[best.line], end_of(g, (uint32_t)*own));
        return best;
    }
    for (uint32_t i = path_first_stream(g, g->line[g->track[call]].rank); i != OPM_NULL_ID;
         i = g->line[i].next_stream) {
        const struct line *l = &g->line[i];
        size_t at;

        if (sync.scope != SYNC_DEVICE && i != sync.line)
            continue;
        at = path_launched_before(g, l, end_ns, sync.before_ns);
        if (at != NO_PIECE && l->at[at].to_ns > best_ns) {
            best_ns = l->at[at].to_ns;
            best = (struct path_place){ i, at };
        }
    }
    return best;
}

/* Was some stream told to wait between two launches? */
static bool asked_between(const struct path_graph *g, int64_t from_ns, int64_t to_ns)
{
    size_t low = 0, high = g->nasked;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (g->asked[mid] < from_ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low < g->nasked && g->asked[low] < to_ns;
}

/* Of the other streams of the device, what ended last before a piece started. */
static struct path_place ended_last(const struct path_graph *g, struct path_place p,
                                    int64_t ready_ns, bool same_launch)
{
    const struct line *own = &g->line[p.line];
    const struct piece *piece = &own->at[p.at];
    struct path_place best = { OPM_NULL_ID, NO_PIECE };
    int64_t launch = launch_ns(g, piece->span);

    for (uint32_t i = path_first_stream(g, own->rank); i != OPM_NULL_ID;
         i = g->line[i].next_stream) {
        const struct line *l = &g->line[i];
        size_t at = NO_PIECE;

        if (i != p.line && l->device == own->device)
            at = path_piece_before(l, piece->from_ns);
        if (at != NO_PIECE && l->at[at].to_ns > piece->from_ns)
            at = at ? at - 1 : NO_PIECE;
        if (at == NO_PIECE || l->at[at].to_ns <= ready_ns || l->at[at].span >= piece->span ||
            launch_ns(g, l->at[at].span) > launch ||
            (same_launch && launch_ns(g, l->at[at].span) != launch))
            continue;
        ready_ns = l->at[at].to_ns;
        best = (struct path_place){ i, at };
    }
    return best;
}

/* Waits of a line that were asked for before a time. */
static size_t waits_before(const struct line *l, int64_t t_ns)
{
    size_t low = 0, high = l->nwait;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (l->wait[mid].call_ns < t_ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct path_place path_awaited(const struct path_graph *g, struct path_place p, int64_t ready_ns,
                               bool *inferred)
{
    const struct line *own = &g->line[p.line];
    const struct piece *piece = &own->at[p.at];
    struct path_place best = { OPM_NULL_ID, NO_PIECE };
    int64_t launch = launch_ns(g, piece->span), before;
    bool known = path_launch_of(g, piece->span) != OPM_NULL_ID;

    before = p.at ? launch_ns(g, own->at[p.at - 1].span) : INT64_MIN;
    *inferred = false;
    for (size_t i = waits_before(own, launch); i-- > 0 && own->wait[i].call_ns >= before;) {
        const struct stream_wait *w = &own->wait[i];
        const struct line *l = &g->line[w->on];
        size_t at;

        at = path_launched_before(g, l, piece->from_ns, w->record_ns);
        if (at != NO_PIECE && l->at[at].to_ns > ready_ns && l->at[at].to_ns <= piece->from_ns) {
            ready_ns = l->at[at].to_ns;
            best = (struct path_place){ w->on, at };
        }
    }
    if (best.at != NO_PIECE)
        return best;
    *inferred = true;
    if (!known || asked_between(g, before, launch))
        return ended_last(g, p, ready_ns, false);
    return before == launch ? best : ended_last(g, p, ready_ns, true);
}
