/* derive.c -- see derive.h. */
#include "import/llm/derive.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"
#include "import/common/span_args.h"
#include "import/llm/mark.h"

#include <string.h>

#define TOKENS_AT_ONCE_MAX 4096
/* Iterations that began last and may still go on: as many as there are ranks in one trace. */
#define LAST_LOOKED_AT 256

#define EVENTS(X)             \
    X(REQUEST, "request")     \
    X(SCHEDULED, "scheduled") \
    X(MEMBER, "member")       \
    X(TOKEN, "token")         \
    X(PREEMPTED, "preempted") \
    X(FINISHED, "finished")   \
    X(ITERATION, "iteration")

enum role {
    ROLE_NONE,
    ROLE_MARK, /* an annotation that is an iteration */
#define X(role, word) ROLE_##role,
    EVENTS(X)
#undef X
};

struct request {
    str_id name, model, reason;
    int64_t ts, end, first_token, last_token, scheduled, aside_since, aside_ns;
    int64_t tokens_in, tokens_out, cached, preemptions;
    int64_t tokens_read; /* of its prompt, in iterations; -1: not known of all */
    bool in_flight;      /* in an iteration that never ended */
    uint32_t track;
};

struct iteration {
    uint32_t row; /* span */
    int64_t last; /* when the last of those that began by then ends; INT64_MAX: one never does */
    struct llm_mark mark;
    int64_t tokens_in, tokens_out, context; /* of members; OPM_NULL_I64: there are none */
    int64_t prefills, decodes;
};

struct member {
    uint32_t request, iteration;
    bool prefill;
    int64_t tokens_in, tokens_out, context;
};

struct token {
    uint32_t request, iteration;
    int64_t num, ts;
};

struct deriver {
    struct store *st;
    const struct site *sites;
    const uint32_t *site;
    const int64_t *ts, *dur;
    struct span_tracks tracks;
    uint8_t *role;         /* per site */
    bool *stream;          /* per track: a device's */
    struct u64map by_name; /* name -> request */
    struct request *request;
    size_t nrequest, request_cap;
    struct iteration *iteration;
    size_t niteration, iteration_cap;
    struct member *member;
    size_t nmember, member_cap;
    struct token *token;
    size_t ntoken, token_cap;
    bool finishes; /* the program says when a request is finished */
    struct buf text;
};

static void release(struct deriver *d)
{
    u64map_release(&d->by_name);
    mem_free(d->role);
    mem_free(d->stream);
    mem_free(d->request);
    mem_free(d->iteration);
    mem_free(d->member);
    mem_free(d->token);
    buf_release(&d->text);
}

static enum role role_of(const struct deriver *d, const struct site *site, str_id llm,
                         str_id hardware)
{
    static const struct {
        enum role role;
        const char *word;
    } events[] = {
#define X(role, word) { ROLE_##role, word },
        EVENTS(X)
#undef X
    };
    const char *name = site->name ? store_text(d->st, site->name) : "";
    struct llm_mark mark;

    if (site->layer == hardware || site->op != OPM_NULL_ID)
        return ROLE_NONE;
    if (llm && site->cat == llm)
        for (size_t i = 0; i < ARRAY_SIZE(events); i++)
            if (strcmp(name, events[i].word) == 0)
                return events[i].role;
    return llm_mark_read(name, &mark) ? ROLE_MARK : ROLE_NONE;
}

/* Plain words are marks of a language model if there are prefills, too. */
static void drop_plain(struct deriver *d, size_t nsite)
{
    struct llm_mark m;
    bool prefills = false;

    for (size_t i = 0; i < nsite; i++)
        prefills |= d->role[i] == ROLE_MARK &&
                    llm_mark_read(store_text(d->st, d->sites[i].name), &m) && m.prefills != 0;
    for (size_t i = 0; i < nsite && !prefills; i++)
        if (d->role[i] == ROLE_MARK && llm_mark_read(store_text(d->st, d->sites[i].name), &m) &&
            m.plain)
            d->role[i] = ROLE_NONE;
}

/* *any: something in the trace is of interest. */
static int find_roles(struct deriver *d, bool *any)
{
    str_id hardware = strpool_find(store_strings(d->st), "hardware", 8);
    str_id llm = strpool_find(store_strings(d->st), "llm", 3);
    str_id stream = strpool_find(store_strings(d->st), "stream", 6);
    size_t nsite, ntrack = store_nrow(d->st, TABLE_track);

    d->sites = store_sites(d->st, &nsite);
    d->role = mem_calloc(nsite + 1, 1);
    d->stream = mem_calloc(ntrack + 1, sizeof(*d->stream));
    if (!d->role || !d->stream)
        return OPM_ENOMEM;
    for (size_t i = 0; i < nsite; i++)
        d->role[i] = (uint8_t)role_of(d, &d->sites[i], llm, hardware);
    drop_plain(d, nsite);
    for (size_t i = 0; i < nsite; i++)
        *any |= d->role[i] != ROLE_NONE;
    for (size_t i = 0; i < ntrack; i++)
        d->stream[i] =
            stream && cell_text_id(store_cell(d->st, TABLE_track, i, track_col_kind)) == stream;
    return 0;
}

static int64_t end_of(const struct deriver *d, uint32_t row)
{
    return d->dur[row] < 0 ? INT64_MAX : d->ts[row] + d->dur[row];
}

/* Of a process, and of the source that tells of it. */
static bool same_process(const struct deriver *d, uint32_t a, uint32_t b)
{
    uint32_t x = span_tracks_get(&d->tracks, a), y = span_tracks_get(&d->tracks, b);

    return x == y || (store_i64_or(d->st, TABLE_track, x, track_col_pid, -1) ==
                          store_i64_or(d->st, TABLE_track, y, track_col_pid, -2) &&
                      store_i64_or(d->st, TABLE_track, x, track_col_source, 0) ==
                          store_i64_or(d->st, TABLE_track, y, track_col_source, 0));
}

/* Of a thread. Spans that overlap others of it stand on tracks beside its own. */
static bool same_thread(const struct deriver *d, uint32_t a, uint32_t b)
{
    uint32_t x = span_tracks_get(&d->tracks, a), y = span_tracks_get(&d->tracks, b);

    return x == y ||
           (same_process(d, a, b) && store_i64_or(d->st, TABLE_track, x, track_col_tid, -1) ==
                                         store_i64_or(d->st, TABLE_track, y, track_col_tid, -2));
}

/* The iteration that a span lies in, or OPM_NULL_ID: of its own thread, else of its process, if
 * others count. Not by nesting, which other spans that overlap may have broken; of one process few
 * go on at once. */
static uint32_t iteration_around(const struct deriver *d, uint32_t row, bool others)
{
    uint32_t other = OPM_NULL_ID;
    size_t low = 0, begun = d->niteration;

    while (low < begun) {
        size_t mid = low + (begun - low) / 2;

        if (d->ts[d->iteration[mid].row] <= d->ts[row])
            low = mid + 1;
        else
            begun = mid;
    }
    for (size_t i = begun; i-- > 0 && i + LAST_LOOKED_AT >= begun;) {
        uint32_t of = d->iteration[i].row;

        if (d->iteration[i].last < end_of(d, row))
            break;
        if (end_of(d, row) > end_of(d, of))
            continue;
        if (same_thread(d, row, of))
            return (uint32_t)i;
        if (others && other == OPM_NULL_ID && same_process(d, row, of))
            other = (uint32_t)i;
    }
    return other;
}

static int take_iteration(struct deriver *d, uint32_t row, bool marked)
{
    struct iteration it = { .row = row,
                            .mark = { -1, -1, -1, -1, -1, -1, -1, false },
                            .tokens_in = OPM_NULL_I64,
                            .tokens_out = OPM_NULL_I64,
                            .context = OPM_NULL_I64 };

    if (d->stream[span_tracks_get(&d->tracks, row)])
        return 0; /* what a device's line says again */
    if (iteration_around(d, row, false) != OPM_NULL_ID)
        return 0; /* a part of one */
    it.last = end_of(d, row);
    if (d->niteration)
        it.last = MAX(it.last, d->iteration[d->niteration - 1].last);
    if (marked)
        llm_mark_read(store_text(d->st, d->sites[d->site[row]].name), &it.mark);
    else
        span_arg_int(d->st, row, "num", &it.mark.num);
    if (!GROW(d->iteration, d->iteration_cap, d->niteration + 1))
        return OPM_ENOMEM;
    d->iteration[d->niteration++] = it;
    return 0;
}

/* The name of the request that an event is of, or 0. */
static int request_name(struct deriver *d, uint32_t row, str_id *out)
{
    int64_t number;

    *out = 0;
    buf_clear(&d->text);
    if (!span_arg_text(d->st, row, "request", &d->text)) {
        if (!span_arg_int(d->st, row, "request", &number))
            return 0;
        buf_clear(&d->text);
        buf_addf(&d->text, "%lld", (long long)number);
    }
    return d->text.failed ? OPM_ENOMEM : store_str(d->st, buf_str(&d->text), d->text.len, out);
}

static int text_arg(struct deriver *d, uint32_t row, const char *key, str_id *out)
{
    buf_clear(&d->text);
    *out = 0;
    if (!span_arg_text(d->st, row, key, &d->text))
        return d->text.failed ? OPM_ENOMEM : 0;
    return store_str(d->st, buf_str(&d->text), d->text.len, out);
}

/* A number of tokens. */
static void amount_arg(struct deriver *d, uint32_t row, const char *key, int64_t *out)
{
    span_arg_int(d->st, row, key, out);
    if (*out == OPM_NULL_I64 || (*out >= 0 && *out <= INT32_MAX))
        return;
    store_stat(d->st, STAT_llm_event_odd, 1);
    *out = OPM_NULL_I64;
}

static int take_request(struct deriver *d, uint32_t row, str_id name)
{
    struct request r = { .name = name,
                         .ts = d->ts[row],
                         .end = OPM_NULL_I64,
                         .first_token = OPM_NULL_I64,
                         .last_token = OPM_NULL_I64,
                         .scheduled = OPM_NULL_I64,
                         .aside_since = OPM_NULL_I64,
                         .tokens_in = OPM_NULL_I64,
                         .cached = OPM_NULL_I64,
                         .track = span_tracks_get(&d->tracks, row) };

    if (u64map_get(&d->by_name, name)) {
        store_stat(d->st, STAT_llm_request_again, 1);
        return 0;
    }
    amount_arg(d, row, "tokens_in", &r.tokens_in);
    amount_arg(d, row, "cached", &r.cached);
    if (text_arg(d, row, "model", &r.model) || !GROW(d->request, d->request_cap, d->nrequest + 1) ||
        u64map_put(&d->by_name, name, d->nrequest))
        return OPM_ENOMEM;
    d->request[d->nrequest++] = r;
    return 0;
}

static int take_tokens(struct deriver *d, uint32_t row, uint32_t request, int64_t ts)
{
    struct request *r = &d->request[request];
    uint32_t iteration = iteration_around(d, row, true);
    int64_t n = 1;

    span_arg_int(d->st, row, "n", &n);
    if (n < 1 || n > TOKENS_AT_ONCE_MAX) {
        store_stat(d->st, STAT_llm_event_odd, 1);
        n = n < 1 ? 0 : TOKENS_AT_ONCE_MAX;
    }
    for (int64_t i = 0; i < n; i++) {
        if (!GROW(d->token, d->token_cap, d->ntoken + 1))
            return OPM_ENOMEM;
        d->token[d->ntoken++] = (struct token){ request, iteration, r->tokens_out++, ts };
    }
    if (n && r->first_token == OPM_NULL_I64)
        r->first_token = ts;
    if (n)
        r->last_token = ts;
    return 0;
}

static int take_member(struct deriver *d, uint32_t row, uint32_t request)
{
    struct member m = { .request = request, .iteration = iteration_around(d, row, true) };
    struct request *r = &d->request[request];
    struct iteration *it;
    int64_t *sums[3], *own[] = { &m.tokens_in, &m.tokens_out, &m.context };

    if (m.iteration == OPM_NULL_ID) {
        store_stat(d->st, STAT_llm_member_alone, 1);
        return 0;
    }
    it = &d->iteration[m.iteration];
    sums[0] = &it->tokens_in;
    sums[1] = &it->tokens_out;
    sums[2] = &it->context;
    m.tokens_in = m.tokens_out = m.context = OPM_NULL_I64;
    buf_clear(&d->text);
    m.prefill =
        span_arg_text(d->st, row, "phase", &d->text) && strcmp(buf_str(&d->text), "prefill") == 0;
    amount_arg(d, row, "tokens_in", &m.tokens_in);
    amount_arg(d, row, "tokens_out", &m.tokens_out);
    amount_arg(d, row, "context", &m.context);
    for (size_t i = 0; i < ARRAY_SIZE(sums); i++)
        if (*own[i] != OPM_NULL_I64)
            *sums[i] = *own[i] + (*sums[i] == OPM_NULL_I64 ? 0 : *sums[i]);
    if (m.prefill && m.tokens_in == OPM_NULL_I64)
        r->tokens_read = -1;
    else if (m.prefill && r->tokens_read >= 0 && r->first_token == OPM_NULL_I64)
        r->tokens_read += m.tokens_in; /* what is read again was set aside meanwhile */
    r->in_flight |= d->dur[it->row] < 0;
    it->prefills += m.prefill;
    it->decodes += !m.prefill;
    if (!GROW(d->member, d->member_cap, d->nmember + 1))
        return OPM_ENOMEM;
    d->member[d->nmember++] = m;
    return 0;
}

static void resume(struct request *r, int64_t ts)
{
    if (r->scheduled == OPM_NULL_I64)
        r->scheduled = ts;
    if (r->aside_since != OPM_NULL_I64)
        r->aside_ns += MAX(ts - r->aside_since, (int64_t)0);
    r->aside_since = OPM_NULL_I64;
}

static int take_event(struct deriver *d, uint32_t row, enum role role)
{
    struct request *r;
    const uint64_t *at;
    int64_t ts = d->ts[row];
    str_id name;
    int rc = request_name(d, row, &name);

    if (rc)
        return rc;
    if (!name) {
        store_stat(d->st, STAT_llm_event_alone, 1);
        return 0;
    }
    if (role == ROLE_REQUEST)
        return take_request(d, row, name);
    at = u64map_get(&d->by_name, name);
    if (!at) {
        store_stat(d->st, STAT_llm_event_alone, 1);
        return 0;
    }
    r = &d->request[*at];
    if (ts < r->ts && role != ROLE_MEMBER) { /* by another clock, or noted by another thread */
        store_stat(d->st, STAT_llm_event_early, 1);
        ts = r->ts;
    }
    switch (role) {
    case ROLE_TOKEN:
        return take_tokens(d, row, (uint32_t)*at, ts);
    case ROLE_MEMBER:
        return take_member(d, row, (uint32_t)*at);
    case ROLE_SCHEDULED:
        resume(r, ts);
        return 0;
    case ROLE_PREEMPTED:
        r->preemptions++;
        if (r->aside_since == OPM_NULL_I64)
            r->aside_since = ts;
        return 0;
    default:
        r->end = ts;
        d->finishes = true;
        if (!r->tokens_out) /* one that ends in the queue never left it otherwise */
            resume(r, r->end);
        return text_arg(d, row, "reason", &r->reason);
    }
}

/* As long as it said on arrival, else what was read of it and what was cached. */
static struct cell prompt_tokens(const struct request *r)
{
    if (r->tokens_in != OPM_NULL_I64 || r->tokens_read <= 0)
        return cell_i64(r->tokens_in);
    return cell_i64(r->tokens_read + MAX(r->cached, (int64_t)0));
}

static struct cell known(int64_t v)
{
    return v < 0 ? cell_null() : cell_i64(v);
}

/* When the last of it was there; OPM_NULL_I64: more was to come when the recording stopped. */
static int64_t end_of_request(const struct deriver *d, const struct request *r)
{
    if (r->end == OPM_NULL_I64 && (d->finishes || r->in_flight))
        return OPM_NULL_I64;
    return r->last_token != OPM_NULL_I64 ? r->last_token : r->end;
}

static int put_requests(const struct deriver *d)
{
    for (size_t i = 0; i < d->nrequest; i++) {
        const struct request *r = &d->request[i];
        int64_t end = end_of_request(d, r);
        struct cell row[request_col_COUNT] = {
            [request_col_name] = cell_str(r->name),
            [request_col_model] = cell_str(r->model),
            [request_col_ts] = cell_i64(r->ts),
            [request_col_dur] = cell_i64(end == OPM_NULL_I64 ? -1 : end - r->ts),
            [request_col_queue] =
                r->scheduled == OPM_NULL_I64 ? cell_null() : cell_i64(r->scheduled - r->ts),
            [request_col_ttft] =
                r->first_token == OPM_NULL_I64 ? cell_null() : cell_i64(r->first_token - r->ts),
            [request_col_tokens_in] = prompt_tokens(r),
            [request_col_tokens_out] = cell_i64(r->tokens_out),
            [request_col_cached] = cell_i64(r->cached),
            [request_col_preemptions] = cell_i64(r->preemptions),
            [request_col_preempted] = cell_i64(r->aside_ns),
            [request_col_finish] = cell_str(r->reason),
            [request_col_track] = cell_id(r->track),
        };

        if (store_add(d->st, TABLE_request, row, NULL))
            return OPM_ENOMEM;
    }
    return 0;
}

static const char *kind_of(int64_t prefills, int64_t decodes)
{
    return prefills == 0 && decodes == 0 ? NULL
           : prefills == 0               ? "decode"
           : decodes == 0                ? "prefill"
                                         : "mixed";
}

static int put_iterations(const struct deriver *d)
{
    for (size_t i = 0; i < d->niteration; i++) {
        const struct iteration *it = &d->iteration[i];
        const struct llm_mark *m = &it->mark;
        bool members = it->prefills || it->decodes;
        int64_t prefills = members ? it->prefills : m->prefills;
        int64_t decodes = members ? it->decodes : m->decodes;
        str_id kind;
        struct cell row[iteration_col_COUNT] = {
            [iteration_col_num] = known(m->num),
            [iteration_col_ts] = cell_i64(d->ts[it->row]),
            [iteration_col_dur] = cell_i64(d->dur[it->row]),
            [iteration_col_batch] = known(members ? prefills + decodes : m->batch),
            [iteration_col_prefills] = known(prefills),
            [iteration_col_decodes] = known(decodes),
            [iteration_col_tokens_in] = members ? cell_i64(it->tokens_in) : known(m->tokens_in),
            /* Whether a prompt was read to its end, a mark does not say. */
            [iteration_col_tokens_out] = members ? cell_i64(it->tokens_out) : known(m->tokens_out),
            [iteration_col_context] = members ? cell_i64(it->context) : known(m->context),
            [iteration_col_track] = cell_id(span_tracks_get(&d->tracks, it->row)),
        };

        if (store_cstr(d->st, kind_of(prefills, decodes), &kind))
            return OPM_ENOMEM;
        row[iteration_col_kind] = cell_str(kind);
        if (store_add(d->st, TABLE_iteration, row, NULL))
            return OPM_ENOMEM;
    }
    return 0;
}

static int put_members(const struct deriver *d)
{
    str_id phase[2];

    if (store_cstr(d->st, "decode", &phase[0]) || store_cstr(d->st, "prefill", &phase[1]))
        return OPM_ENOMEM;
    for (size_t i = 0; i < d->nmember; i++) {
        const struct member *m = &d->member[i];

        if (store_add(d->st, TABLE_request_iteration,
                      (struct cell[request_iteration_col_COUNT]){
                          [request_iteration_col_request] = cell_id(m->request),
                          [request_iteration_col_iteration] = cell_id(m->iteration),
                          [request_iteration_col_phase] = cell_str(phase[m->prefill]),
                          [request_iteration_col_tokens_in] = cell_i64(m->tokens_in),
                          [request_iteration_col_tokens_out] = cell_i64(m->tokens_out),
                          [request_iteration_col_context] = cell_i64(m->context) },
                      NULL))
            return OPM_ENOMEM;
    }
    for (size_t i = 0; i < d->ntoken; i++) {
        const struct token *t = &d->token[i];

        if (store_add(
                d->st, TABLE_token,
                (struct cell[token_col_COUNT]){ [token_col_request] = cell_id(t->request),
                                                [token_col_num] = cell_i64(t->num),
                                                [token_col_ts] = cell_i64(t->ts),
                                                [token_col_iteration] = cell_id(t->iteration) },
                NULL))
            return OPM_ENOMEM;
    }
    return 0;
}

/* Iterations and arrivals first: what is at the same time may stand in any order. */
static int take_all(struct deriver *d, bool requests, bool iterations)
{
    size_t nspan = store_nrow(d->st, TABLE_span);
    int rc = 0;

    for (int first = 1; first >= 0; first--) {
        for (uint32_t row = 0; row < nspan && rc == 0; row++) {
            enum role role = (enum role)d->role[d->site[row]];

            if (role == ROLE_NONE)
                continue;
            if (role == ROLE_MARK || role == ROLE_ITERATION)
                rc = first && iterations ? take_iteration(d, row, role == ROLE_MARK) : 0;
            else if (requests && first == (role == ROLE_REQUEST))
                rc = take_event(d, row, role);
        }
    }
    return rc;
}

int llm_derive(struct store *st)
{
    struct deriver d = { .st = st, .site = store_span_site(st), .tracks = store_span_tracks(st) };
    bool requests = store_nrow(st, TABLE_request) == 0, any = false;
    bool iterations = store_nrow(st, TABLE_iteration) == 0;
    const void *ts, *dur;
    int rc = 0;

    if (requests || iterations)
        rc = find_roles(&d, &any);
    if (rc || !any) {
        release(&d);
        return rc;
    }
    if (store_column(st, TABLE_span, span_col_ts, &ts) ||
        store_column(st, TABLE_span, span_col_dur, &dur)) {
        release(&d);
        return OPM_ENOMEM;
    }
    d.ts = ts;
    d.dur = dur;
    store_amend_begin(st);
    rc = take_all(&d, requests, iterations);
    if (rc == 0)
        rc = put_requests(&d);
    if (rc == 0)
        rc = put_iterations(&d);
    if (rc == 0)
        rc = put_members(&d);
    if (store_amend_end(st))
        rc = OPM_ENOMEM;
    release(&d);
    return rc;
}
