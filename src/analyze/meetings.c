/* meetings.c -- see meetings.h. */
#include "analyze/meetings_int.h"

#include "analyze/groups.h"
#include "analyze/span_class.h"
#include "analyze/step_list.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_read.h"
#include "base/u64map.h"
#include <stdlib.h>
#include <string.h>

struct input {
    const struct store *st;
    const int64_t *ts, *dur;
    const uint32_t *track, *parent, *site;
    size_t n, ntrack;
    uint8_t *class;
    int64_t *rank;              /* per track */
    const int64_t *correlation; /* or NULL */
    struct u64map on_device;    /* ranks with collectives on hardware */
    struct u64map launches;     /* correlation -> its first span on the host */
    struct step_list steps;
    struct steps_by_rank by_rank;
    bool all; /* also what is between two, and of ranks that have no number */
};

static int input_get(struct input *in, const struct store *st)
{
    const struct {
        int col;
        const void **to;
    } columns[] = { { span_col_ts, (const void **)&in->ts },
                    { span_col_dur, (const void **)&in->dur },
                    { span_col_track, (const void **)&in->track },
                    { span_col_parent, (const void **)&in->parent },
                    { span_col_correlation, (const void **)&in->correlation } };

    in->st = st;
    in->ntrack = store_nrow(st, TABLE_track);
    in->class = span_classes(st);
    in->rank = mem_alloc((in->ntrack + 1) * sizeof(*in->rank));
    if (!in->class || !in->rank || step_list_get(&in->steps, st))
        return OPM_ENOMEM;
    if (in->steps.found)
        in->steps.n = 0; /* numbers that were made up do not match those of other ranks */
    if (steps_by_rank_get(&in->by_rank, &in->steps))
        return OPM_ENOMEM;
    for (size_t i = 0; i < in->ntrack; i++)
        in->rank[i] = store_i64_or(st, TABLE_track, i, track_col_rank, OPM_NULL_I64);
    in->site = store_span_site(st);
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        if (store_column(st, TABLE_span, columns[i].col, columns[i].to) < 0)
            return OPM_ENOMEM;
    in->n = in->ts && in->dur && in->track ? store_nrow(st, TABLE_span) : 0;
    return 0;
}

static void input_release(struct input *in)
{
    steps_by_rank_release(&in->by_rank);
    mem_free(in->rank);
    mem_free(in->class);
    u64map_release(&in->on_device);
    u64map_release(&in->launches);
    step_list_release(&in->steps);
}

bool meetings_between_two(const char *name)
{
    static const char *const words[] = { "SendRecv", "sendrecv", "send", "recv", "Send", "Recv" };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

/* A device works on what the host launched, if later: a collective is of the step that launched it,
 * or ranks whose devices are behind by different amounts would not be compared at the same one. */
static int find_launches(struct input *in)
{
    size_t nsite;
    const struct site *sites = store_sites(in->st, &nsite);
    str_id hardware = strpool_find(store_strings(in->st), "hardware", 8);
    int rc = 0;

    for (size_t i = in->n; in->correlation && hardware && i-- > 0 && rc == 0;)
        if (in->correlation[i] != OPM_NULL_I64 && sites[in->site[i]].layer != hardware)
            rc = u64map_put(&in->launches, (uint64_t)in->correlation[i], i);
    return rc;
}

/* What launched it, or the span itself. */
static size_t launch_of(const struct input *in, size_t i)
{
    const uint64_t *at = in->correlation && in->correlation[i] != OPM_NULL_I64
                             ? u64map_get(&in->launches, (uint64_t)in->correlation[i])
                             : NULL;

    return at ? (size_t)*at : i;
}

/* Kernels that do not tell what they are of: NCCL makes collectives of all with all by the one that
 * sends and receives, RCCL makes everything by one. */
static bool tells_nothing(const char *kernel)
{
    return meetings_between_two(kernel) || strstr(kernel, "DevKernel_Generic");
}

/* What PyTorch calls such a one where it launches it, as nccl:all_to_all or nccl:send; 0: nothing
 * that we know. */
static str_id name_by_launch(const struct input *in, size_t i)
{
    static const char *const known[] = { "all_to_all", "alltoall",  "all_reduce", "allreduce",
                                         "all_gather", "allgather", "broadcast",  "reduce_scatter",
                                         "send",       "recv" };
    size_t nsite, launch = launch_of(in, i);
    const struct site *sites = store_sites(in->st, &nsite);

    for (uint32_t up = launch != i && in->parent ? in->parent[launch] : OPM_NULL_ID;
         up != OPM_NULL_ID; up = in->parent[up]) {
        str_id name = sites[in->site[up]].name;
        const char *text = name ? store_text(in->st, name) : "";

        if (strncmp(text, "nccl:", 5) != 0 && strncmp(text, "c10d::", 6) != 0)
            continue;
        for (size_t k = 0; k < ARRAY_SIZE(known); k++)
            if (strstr(text, known[k]))
                return name;
        return 0;
    }
    return 0;
}

static str_id exchange_name(const struct input *in, size_t i)
{
    size_t nsite;
    str_id name = store_sites(in->st, &nsite)[in->site[i]].name,
           told = name && tells_nothing(store_text(in->st, name)) ? name_by_launch(in, i) : 0;

    return told ? told : name;
}

static bool is_collective(const struct input *in, size_t i, bool *hardware)
{
    size_t nsite;
    const struct site *s = &store_sites(in->st, &nsite)[in->site[i]];

    if (in->class[in->site[i]] != CLASS_COMM || in->dur[i] < 0 || in->track[i] >= in->ntrack ||
        (!in->all && in->rank[in->track[i]] == OPM_NULL_I64) || !s->name ||
        (!in->all && meetings_between_two(store_text(in->st, exchange_name(in, i)))))
        return false;
    for (uint32_t up = in->parent ? in->parent[i] : OPM_NULL_ID; up != OPM_NULL_ID;
         up = in->parent[up])
        if (in->class[in->site[up]] == CLASS_COMM)
            return false;
    *hardware = s->layer && strcmp(store_text(in->st, s->layer), "hardware") == 0;
    return true;
}

/* The communicator, if the source names it, as PyTorch does with its process group; else 0. */
static int group_of(const struct input *in, size_t span, struct buf *room, uint64_t *out)
{
    struct json_reader r;

    *out = 0;
    buf_clear(room);
    if (store_span_args(in->st, span, room))
        return OPM_ENOMEM;
    r = json_read_of(buf_str(room), room->len);
    if (json_read_next(&r) != JSON_OBJECT)
        return 0;
    while (json_read_next(&r) == JSON_KEY) {
        bool wanted = json_read_is(&r, "Process Group Name") || json_read_is(&r, "communicator");

        json_read_next(&r);
        for (size_t i = 0;
             wanted && (r.token == JSON_STRING || r.token == JSON_NUMBER) && i < r.len; i++)
            *out = (*out ^ (uint8_t)r.text[i]) * 0x100000001b3u + 1;
        json_read_skip(&r);
    }
    return 0;
}

static int add_arrival(struct meetings *m, size_t *cap, const struct input *in, size_t i,
                       struct buf *room)
{
    int64_t rank = in->rank[in->track[i]];
    const struct step_row *s = steps_by_rank_at(&in->by_rank, rank, in->ts[launch_of(in, i)]);
    struct arrival a = { .span = (uint32_t)i,
                         .name = exchange_name(in, i),
                         .num = s ? s->num : OPM_NULL_I64,
                         .rank = rank,
                         .ts_ns = in->ts[i],
                         .end_ns = add_ns(in->ts[i], in->dur[i]),
                         .warmup = s && s->warmup };
    int rc = group_of(in, i, room, &a.group);

    if (rc)
        return rc;
    if (!GROW(m->at, *cap, m->n + 1))
        return OPM_ENOMEM;
    m->at[m->n++] = a;
    return 0;
}

static int collect(struct meetings *m, struct input *in)
{
    struct buf room = { 0 };
    size_t cap = 0;
    bool hardware;
    int rc = find_launches(in);

    for (size_t i = 0; rc == 0 && i < in->n; i++)
        if (is_collective(in, i, &hardware) && hardware)
            rc = u64map_put(&in->on_device, (uint64_t)in->rank[in->track[i]], 1);
    for (size_t i = 0; rc == 0 && i < in->n; i++)
        if (is_collective(in, i, &hardware) &&
            (hardware || !u64map_get(&in->on_device, (uint64_t)in->rank[in->track[i]])))
            rc = add_arrival(m, &cap, in, i, &room);
    buf_release(&room);
    return rc;
}

#define ORDER(a, b)                    \
    do {                               \
        if ((a) != (b))                \
            return (a) < (b) ? -1 : 1; \
    } while (0)

static int by_series(const void *va, const void *vb)
{
    const struct arrival *a = va, *b = vb;

    ORDER(a->group, b->group);
    ORDER(a->name, b->name);
    ORDER(a->num, b->num);
    ORDER(a->rank, b->rank);
    ORDER(a->ts_ns, b->ts_ns);
    ORDER(a->span, b->span);
    return 0;
}

static int by_meeting(const void *va, const void *vb)
{
    const struct arrival *a = va, *b = vb;

    ORDER(a->group, b->group);
    ORDER(a->name, b->name);
    ORDER(a->num, b->num);
    ORDER(a->nth, b->nth);
    ORDER(a->rank, b->rank);
    return 0;
}

bool meetings_same_series(const struct arrival *a, const struct arrival *b)
{
    return a->group == b->group && a->name == b->name && a->num == b->num;
}

static void number(struct meetings *m)
{
    if (m->n)
        qsort(m->at, m->n, sizeof(*m->at), by_series);
    for (size_t i = 0; i < m->n; i++) {
        bool goes_on = i && meetings_same_series(&m->at[i], &m->at[i - 1]) &&
                       m->at[i].rank == m->at[i - 1].rank;

        m->at[i].nth = goes_on ? m->at[i - 1].nth + 1 : 1;
    }
}

/* Number them, bring those of a collective together, and leave out who was alone. */
static int match(struct meetings *m)
{
    size_t kept = 0;

    if (!m->n)
        return 0;
    number(m);
    if (meetings_align(m) < 0)
        return OPM_ENOMEM;
    qsort(m->at, m->n, sizeof(*m->at), by_meeting);
    m->first = mem_alloc((m->n + 1) * sizeof(*m->first));
    if (!m->first)
        return OPM_ENOMEM;
    for (size_t i = 0, end; i < m->n; i = end) {
        for (end = i + 1; end < m->n && meetings_same_series(&m->at[i], &m->at[end]) &&
                          m->at[i].nth == m->at[end].nth;)
            end++;
        if (end - i < 2)
            continue;
        m->first[m->count++] = kept;
        memmove(&m->at[kept], &m->at[i], (end - i) * sizeof(*m->at));
        kept += end - i;
    }
    m->first[m->count] = m->n = kept;
    return 0;
}

/* -- clocks: what that of a rank is ahead of the reference by, in a stretch of steps and in all --
 */

#define STRETCH_MEETINGS 64 /* that a stretch has on average, at least */
#define STRETCH_READINGS 16 /* of a rank: below, all of them are as good */
/* No clock is further from another, or sums of times might not fit. */
#define AHEAD_MAX (INT64_C(1) << 61)
#define STRETCHES_MAX 4095u /* also stands for all of them */

/* At one collective. */
struct reading {
    int64_t rank, ahead_ns;
    uint32_t stretch;
};

struct clocks {
    struct u64map ahead; /* of rank and stretch */
    uint32_t *stretch;   /* per meeting */
    struct reading *reading;
};

static int by_reading(const void *va, const void *vb)
{
    const struct reading *a = va, *b = vb;

    ORDER(a->rank, b->rank);
    ORDER(a->ahead_ns, b->ahead_ns);
    return 0;
}

static int by_stretch(const void *va, const void *vb)
{
    const struct reading *a = va, *b = vb;

    ORDER(a->rank, b->rank);
    ORDER(a->stretch, b->stretch);
    ORDER(a->ahead_ns, b->ahead_ns);
    return 0;
}

static uint64_t clock_key(int64_t rank, uint32_t stretch)
{
    return (uint64_t)rank << 12 | stretch;
}

static const uint64_t *clock_at(const struct clocks *c, int64_t rank, uint32_t stretch)
{
    const uint64_t *own = u64map_get(&c->ahead, clock_key(rank, stretch));

    return own ? own : u64map_get(&c->ahead, clock_key(rank, STRETCHES_MAX));
}

static int by_number(const void *va, const void *vb)
{
    ORDER(*(const int64_t *)va, *(const int64_t *)vb);
    return 0;
}

/* As many steps each as have enough collectives. Without steps there is one stretch. */
static int find_stretches(struct clocks *c, const struct meetings *m)
{
    int64_t *num = mem_alloc((m->count + 1) * sizeof(*num));
    size_t steps = 0, each;

    c->stretch = mem_calloc(m->count + 1, sizeof(*c->stretch));
    if (!num || !c->stretch) {
        mem_free(num);
        return OPM_ENOMEM;
    }
    for (size_t i = 0; i < m->count; i++)
        num[i] = m->at[m->first[i]].num;
    if (m->count)
        qsort(num, m->count, sizeof(*num), by_number);
    for (size_t i = 0; i < m->count; i++)
        if (i == 0 || num[i] != num[i - 1])
            num[steps++] = num[i];
    each = m->count ? (STRETCH_MEETINGS * steps + m->count - 1) / m->count : 1;
    each = MAX(each, steps / STRETCHES_MAX + 1);
    for (size_t i = 0; i < m->count && steps >= 2 * each; i++) {
        const int64_t *at = bsearch(&m->at[m->first[i]].num, num, steps, sizeof(*num), by_number);

        c->stretch[i] = (uint32_t)((size_t)(at - num) / each);
    }
    mem_free(num);
    return 0;
}

/* Of every rank without a clock that met one with: its end against theirs. */
static size_t read_clocks(const struct meetings *m, const struct clocks *c)
{
    size_t n = 0;

    for (size_t i = 0; i < m->count; i++) {
        const uint64_t *ahead = NULL;
        int64_t end_ns = 0;

        for (size_t k = m->first[i]; k < m->first[i + 1] && !ahead; k++) {
            ahead = clock_at(c, m->at[k].rank, c->stretch[i]);
            end_ns = m->at[k].end_ns;
        }
        for (size_t k = m->first[i]; k < m->first[i + 1] && ahead; k++)
            if (!clock_at(c, m->at[k].rank, c->stretch[i]))
                c->reading[n++] = (struct reading){
                    m->at[k].rank,
                    MIN(MAX(m->at[k].end_ns - (end_ns - (int64_t)*ahead), -AHEAD_MAX), AHEAD_MAX),
                    c->stretch[i]
                };
    }
    return n;
}

/* The median of each rank, in all and in stretches that have enough. */
static int take_medians(struct clocks *c, size_t n)
{
    struct reading *r = c->reading;
    int rc = 0;

    qsort(r, n, sizeof(*r), by_reading);
    for (size_t i = 0, end; i < n && rc == 0; i = end) {
        for (end = i + 1; end < n && r[end].rank == r[i].rank;)
            end++;
        rc = u64map_put(&c->ahead, clock_key(r[i].rank, STRETCHES_MAX),
                        (uint64_t)r[i + (end - i) / 2].ahead_ns);
    }
    qsort(r, n, sizeof(*r), by_stretch);
    for (size_t i = 0, end; i < n && rc == 0; i = end) {
        for (end = i + 1; end < n && r[end].rank == r[i].rank && r[end].stretch == r[i].stretch;)
            end++;
        if (end - i >= STRETCH_READINGS)
            rc = u64map_put(&c->ahead, clock_key(r[i].rank, r[i].stretch),
                            (uint64_t)r[i + (end - i) / 2].ahead_ns);
    }
    return rc;
}

/* Each rank once, the lowest first; *n of them. NULL when out of memory. */
static int64_t *ranks_of(const struct meetings *m, size_t *n)
{
    int64_t *rank = mem_alloc((m->n + 1) * sizeof(*rank));

    *n = 0;
    for (size_t i = 0; rank && i < m->n; i++)
        rank[i] = m->at[i].rank;
    if (rank && m->n)
        qsort(rank, m->n, sizeof(*rank), by_number);
    for (size_t i = 0; rank && i < m->n; i++)
        if (i == 0 || rank[i] != rank[i - 1])
            rank[(*n)++] = rank[i];
    return rank;
}

/* The lowest rank without a clock is the reference of those that it meets, and of whom they meet.
 * Clocks drift, so each stretch of steps has its own difference. */
static int set_clocks(struct meetings *m)
{
    struct clocks c = { .reading = mem_alloc((m->n + 1) * sizeof(*c.reading)) };
    size_t nrank;
    int64_t *rank = ranks_of(m, &nrank);
    int rc = c.reading && rank ? find_stretches(&c, m) : OPM_ENOMEM;

    for (size_t i = 0; rc == 0 && i < nrank; i++) {
        size_t n = 1;

        if (u64map_get(&c.ahead, clock_key(rank[i], STRETCHES_MAX)))
            continue;
        rc = u64map_put(&c.ahead, clock_key(rank[i], STRETCHES_MAX), 0);
        while (rc == 0 && n) {
            n = read_clocks(m, &c);
            rc = take_medians(&c, n);
        }
    }
    for (size_t i = 0; rc == 0 && i < m->count; i++)
        for (size_t k = m->first[i]; k < m->first[i + 1]; k++)
            m->at[k].clock_ns = (int64_t)*clock_at(&c, m->at[k].rank, c.stretch[i]);
    u64map_release(&c.ahead);
    mem_free(rank);
    mem_free(c.stretch);
    mem_free(c.reading);
    return rc;
}

int exchanges_get(struct meetings *m, const struct store *st)
{
    struct input in = { .all = true };
    int rc;

    *m = (struct meetings){ 0 };
    rc = input_get(&in, st);
    if (rc == 0)
        rc = collect(m, &in);
    number(m);
    input_release(&in);
    return rc;
}

int meetings_match(struct meetings *m)
{
    int rc = match(m);

    return rc == 0 ? set_clocks(m) : rc;
}

int meetings_get(struct meetings *m, const struct store *st)
{
    struct input in = { 0 };
    int rc = input_get(&in, st);

    *m = (struct meetings){ 0 };
    if (rc == 0)
        rc = collect(m, &in);
    if (rc == 0)
        rc = meetings_match(m);
    input_release(&in);
    return rc;
}

struct meeting_order meeting_order(const struct meetings *m, size_t meeting)
{
    struct meeting_order o = { INT64_MAX, INT64_MIN, INT64_MIN, 0, 0, 0 };
    size_t from = m->first[meeting], to = m->first[meeting + 1];

    for (size_t k = from; k < to; k++) {
        int64_t came = arrival_came_ns(&m->at[k]);

        o.first_ns = MIN(o.first_ns, came);
        if (came > o.last_ns) {
            o.next_ns = o.last_ns;
            o.last_ns = came;
            o.last = k;
        } else {
            o.next_ns = MAX(o.next_ns, came);
        }
    }
    for (size_t k = from; k < to; k++)
        o.others_ns = add_ns(o.others_ns, o.last_ns - arrival_came_ns(&m->at[k]));
    o.late_ns = o.others_ns / (int64_t)(to - from - 1);
    return o;
}

void meetings_release(struct meetings *m)
{
    mem_free(m->at);
    mem_free(m->first);
    *m = (struct meetings){ 0 };
}
