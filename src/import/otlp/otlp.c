/* otlp.c -- see otlp.h. */
#include "import/otlp/otlp.h"

#include "base/alloc.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ANCESTORS_MAX 64 /* of a span that are looked at */
#define SECONDS_MAX 1e9

struct otlp_row {
    uint32_t span; /* build id */
    uint32_t track;
    uint64_t key, parent; /* hashes; parent 0: none */
    int64_t start_ns, end_ns;
    size_t first_token, ntoken;
    bool gen_ai, inside; /* inside: a gen_ai span has this one as its ancestor */
    str_id name, model, finish;
    int64_t dur_ns, ttft_ns, queue_ns, prefill_ns; /* OPM_NULL_I64: not said */
    int64_t tokens_in, tokens_out, cached;
};

void otlp_release(struct otlp *o)
{
    u64map_release(&o->services);
    u64map_release(&o->spans);
    mem_free(o->row);
    mem_free(o->token);
    buf_release(&o->args);
}

static uint64_t hash(uint64_t h, struct text t)
{
    for (size_t i = 0; i < t.len; i++)
        h = (h ^ (unsigned char)t.p[i]) * UINT64_C(0x100000001b3);
    return (h ^ 0xff) * UINT64_C(0x100000001b3);
}

void otlp_service(struct otlp *o, struct text service, struct text host)
{
    static const struct text unnamed = { "unnamed service", 15 };
    struct track_row row = TRACK_ROW_INIT;
    uint64_t key = hash(hash(UINT64_C(0xcbf29ce484222325), service), host);
    const uint64_t *at = u64map_get(&o->services, key);

    if (at) {
        o->track = (uint32_t)*at;
        return;
    }
    if (!service.len)
        service = unnamed;
    row.kind = "async";
    row.name = build_str(&o->b, service.p, service.len);
    row.process = host.len ? build_str(&o->b, host.p, host.len) : 0;
    o->track = build_track(&o->b, &row);
    if (!o->b.rc && u64map_put(&o->services, key, o->track))
        o->b.rc = OPM_ENOMEM;
}

void otlp_span_begin(struct otlp *o)
{
    o->span = (struct otlp_span){ .start_ns = OPM_NULL_I64,
                                  .end_ns = OPM_NULL_I64,
                                  .ttft_s = -1,
                                  .queue_s = -1,
                                  .prefill_s = -1,
                                  .e2e_s = -1,
                                  .tokens_in = -1,
                                  .tokens_out = -1,
                                  .cached = -1,
                                  .first_token_ns = OPM_NULL_I64 };
    o->first_token = o->ntoken;
    buf_clear(&o->args);
    o->w = (struct json_writer){ .buf = &o->args };
    json_object(&o->w);
}

void otlp_key(struct otlp *o, struct text key)
{
    char room[256];
    size_t n = MIN(key.len, sizeof(room) - 1);

    memcpy(room, key.p, n);
    room[n] = '\0';
    json_key(&o->w, room);
}

static double seconds(const struct otlp_value *v)
{
    double s = v->kind == OTLP_REAL ? v->real : v->kind == OTLP_INT ? (double)v->i : -1;

    return s >= 0 && s < SECONDS_MAX ? s : -1;
}

static int64_t count(const struct otlp_value *v)
{
    if (v->kind == OTLP_REAL && v->real >= 0 && v->real < 1e15)
        return (int64_t)v->real;
    return v->kind == OTLP_INT && v->i >= 0 && v->i < INT64_C(1000000000000000) ? v->i : -1;
}

/* Which member of struct otlp_span an attribute is. Names changed over time. */
enum what { TTFT, QUEUE, PREFILL, E2E, TOKENS_IN, TOKENS_OUT, CACHED, REQUEST, MODEL, FINISH };

static const struct {
    const char *key;
    enum what what;
} known[] = {
    { "gen_ai.latency.time_to_first_token", TTFT },
    { "gen_ai.server.time_to_first_token", TTFT },
    { "gen_ai.response.time_to_first_chunk", TTFT },
    { "gen_ai.latency.time_in_queue", QUEUE },
    { "gen_ai.latency.time_in_model_prefill", PREFILL },
    { "gen_ai.latency.time_in_model.prefill", PREFILL },
    { "gen_ai.latency.e2e", E2E },
    { "gen_ai.usage.prompt_tokens", TOKENS_IN },
    { "gen_ai.usage.input_tokens", TOKENS_IN },
    { "gen_ai.usage.completion_tokens", TOKENS_OUT },
    { "gen_ai.usage.output_tokens", TOKENS_OUT },
    { "gen_ai.usage.cached_tokens", CACHED },
    { "gen_ai.usage.cache_read_input_tokens", CACHED },
    { "gen_ai.usage.cache_read.input_tokens", CACHED },
    { "gen_ai.request.id", REQUEST },
    { "gen_ai.response.id", REQUEST },
    { "gen_ai.request.model", MODEL },
    { "gen_ai.response.model", MODEL },
    { "gen_ai.response.finish_reasons", FINISH },
};

static void take(struct otlp_span *s, enum what what, const struct otlp_value *v)
{
    switch (what) {
    case TTFT:
        s->ttft_s = seconds(v);
        break;
    case QUEUE:
        s->queue_s = seconds(v);
        break;
    case PREFILL:
        s->prefill_s = seconds(v);
        break;
    case E2E:
        s->e2e_s = seconds(v);
        break;
    case TOKENS_IN:
        s->tokens_in = count(v);
        break;
    case TOKENS_OUT:
        s->tokens_out = count(v);
        break;
    case CACHED:
        s->cached = count(v);
        break;
    case REQUEST:
        if (s->request.kind == OTLP_NONE)
            s->request = *v;
        break;
    case MODEL:
        s->model = *v;
        break;
    default:
        s->finish = *v;
    }
}

/* Attributes that tell of a call of a model; gen_ai.* of agents and tools do not. */
static bool tells_of_model(const char *key)
{
    return strncmp(key, "gen_ai.latency.", 15) == 0 || strncmp(key, "gen_ai.usage.", 13) == 0;
}

void otlp_attribute(struct otlp *o, struct text key, const struct otlp_value *v)
{
    if (!text_starts(key, "gen_ai."))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (text_is(key, known[i].key)) {
            take(&o->span, known[i].what, v);
            o->span.gen_ai |= tells_of_model(known[i].key);
        }
}

void otlp_event(struct otlp *o, struct text name, int64_t ts_ns)
{
    bool first = text_is(name, "first_token") || text_is(name, "gen_ai.first_token");

    if (ts_ns == OPM_NULL_I64 ||
        (!first && !text_is(name, "token") && !text_is(name, "gen_ai.token")))
        return;
    if (o->span.first_token_ns == OPM_NULL_I64 || ts_ns < o->span.first_token_ns)
        o->span.first_token_ns = ts_ns;
    if (first)
        return;
    if (!GROW(o->token, o->token_cap, o->ntoken + 1)) {
        o->b.rc = o->b.rc ? o->b.rc : OPM_ENOMEM;
        return;
    }
    o->token[o->ntoken++] = ts_ns;
}

static int64_t ns_of(double s)
{
    return s < 0 ? OPM_NULL_I64 : llround(s * 1e9);
}

static str_id text_of(struct otlp *o, const struct otlp_value *v)
{
    if (v->kind == OTLP_INT)
        return build_fmt(&o->b, "%lld", (long long)v->i);
    return v->kind == OTLP_TEXT && v->text.len ? build_str(&o->b, v->text.p, v->text.len) : 0;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* Tokens of the span in order, without what cannot be: one before the request. Where fewer are told
 * of than were made (senders keep so many events of a span), single ones are not known. */
static size_t sort_tokens(struct otlp *o)
{
    size_t n = o->ntoken - o->first_token, early = 0;
    int64_t *token;

    if (!n)
        return 0;
    token = o->token + o->first_token;
    qsort(token, n, sizeof(*token), by_time);
    while (early < n && token[early] < o->span.start_ns)
        early++;
    if (early)
        store_stat(o->b.st, STAT_otlp_token_early, (int64_t)early);
    n -= early;
    memmove(token, token + early, n * sizeof(*token));
    if (n && o->span.tokens_out > (int64_t)n) {
        store_stat(o->b.st, STAT_otlp_tokens_few, 1);
        n = 0;
    }
    o->ntoken = o->first_token + n;
    return n;
}

static void put_request(struct otlp *o, struct otlp_row *r)
{
    const struct otlp_span *s = &o->span;
    int64_t first = s->first_token_ns;

    r->gen_ai = s->gen_ai;
    if (!s->gen_ai)
        return;
    r->name = text_of(o, &s->request);
    if (!r->name && s->id.len)
        r->name = build_str(&o->b, s->id.p, s->id.len);
    r->model = text_of(o, &s->model);
    r->finish = text_of(o, &s->finish);
    r->ntoken = sort_tokens(o);
    r->first_token = o->first_token;
    if (r->ntoken) /* what follows is counted from there */
        first = o->token[r->first_token];
    else if (s->ttft_s >= 0)
        first = OPM_NULL_I64;
    r->ttft_ns =
        first != OPM_NULL_I64 && first >= s->start_ns ? first - s->start_ns : ns_of(s->ttft_s);
    r->queue_ns = ns_of(s->queue_s);
    r->prefill_ns = ns_of(s->prefill_s);
    r->dur_ns = r->ntoken       ? o->token[r->first_token + r->ntoken - 1] - s->start_ns
                : s->e2e_s >= 0 ? ns_of(s->e2e_s)
                                : s->end_ns - s->start_ns;
    if (r->ttft_ns != OPM_NULL_I64 && r->ttft_ns > r->dur_ns)
        r->dur_ns = r->ttft_ns; /* of times that were rounded */
    r->tokens_in = s->tokens_in;
    r->tokens_out = r->ntoken ? (int64_t)r->ntoken : s->tokens_out;
    r->cached = s->cached;
}

static str_id args_of(struct otlp *o)
{
    const struct otlp_span *s = &o->span;
    static const char *const kinds[] = { NULL,     "internal", "server",
                                         "client", "producer", "consumer" };

    json_key(&o->w, "trace_id");
    json_str(&o->w, s->trace.p, s->trace.len);
    json_key(&o->w, "span_id");
    json_str(&o->w, s->id.p, s->id.len);
    if (s->parent.len) {
        json_key(&o->w, "parent_span_id");
        json_str(&o->w, s->parent.p, s->parent.len);
    }
    if (s->kind > 0 && s->kind < (int64_t)ARRAY_SIZE(kinds)) {
        json_key(&o->w, "kind");
        json_cstr(&o->w, kinds[s->kind]);
    }
    json_object_end(&o->w);
    return build_text(&o->b, &o->args);
}

void otlp_span_end(struct otlp *o)
{
    struct otlp_span *s = &o->span;
    struct span_row row = SPAN_ROW_INIT;
    struct otlp_row r = { .track = o->track };
    uint64_t trace = hash(UINT64_C(0xcbf29ce484222325), s->trace);

    if (o->b.rc)
        return;
    if (s->start_ns == OPM_NULL_I64 || s->start_ns <= 0) {
        store_stat(o->b.st, STAT_bad_time, 1);
        return;
    }
    r.key = hash(trace, s->id);
    if (s->id.len && u64map_get(&o->spans, r.key)) {
        store_stat(o->b.st, STAT_otlp_span_again, 1);
        return;
    }
    if (s->end_ns != OPM_NULL_I64 && s->end_ns < s->start_ns) {
        store_stat(o->b.st, STAT_negative_duration, 1);
        s->end_ns = s->start_ns;
    }
    r.parent = s->parent.len ? hash(trace, s->parent) : 0;
    r.start_ns = row.ts_ns = s->start_ns;
    r.end_ns = s->end_ns == OPM_NULL_I64 ? s->start_ns : s->end_ns;
    row.dur_ns = s->end_ns == OPM_NULL_I64 ? -1 : s->end_ns - s->start_ns;
    s->end_ns = r.end_ns;
    row.track = o->track;
    row.site = build_site(&o->b, build_str(&o->b, s->name.p ? s->name.p : "", s->name.len),
                          build_cstr(&o->b, "otlp"), "app", OPM_NULL_ID);
    row.args = args_of(o);
    r.span = build_span(&o->b, &row);
    put_request(o, &r);
    if (o->b.rc)
        return;
    if (!GROW(o->row, o->row_cap, o->nrow + 1) || u64map_put(&o->spans, r.key, o->nrow + 1))
        o->b.rc = OPM_ENOMEM;
    else
        o->row[o->nrow++] = r;
}

static struct otlp_row *parent_of(const struct otlp *o, const struct otlp_row *r)
{
    const uint64_t *at = r->parent ? u64map_get(&o->spans, r->parent) : NULL;

    return at ? &o->row[*at - 1] : NULL;
}

static void link_parents(struct otlp *o)
{
    for (size_t i = 0; i < o->nrow && !o->b.rc; i++) {
        struct otlp_row *r = &o->row[i], *up = parent_of(o, r);

        if (r->parent && (!up || up == r))
            store_stat(o->b.st, STAT_otlp_parent_missing, 1);
        if (!up || up == r)
            continue;
        build_flow(&o->b, up->span, r->span, "parent");
        if (r->track != up->track && (r->start_ns < up->start_ns || r->start_ns > up->end_ns))
            store_stat(o->b.st, STAT_otlp_clock_skew, 1);
        for (int depth = 0; r->gen_ai && up && depth < ANCESTORS_MAX;
             depth++, up = parent_of(o, up))
            up->inside = true;
    }
}

static struct cell known_or_null(int64_t v)
{
    return v < 0 ? cell_null() : cell_i64(v);
}

static int put_rows(struct otlp *o, const struct otlp_row *r)
{
    uint32_t request;
    int rc = store_add(o->b.st, TABLE_request,
                       (struct cell[request_col_COUNT]){
                           [request_col_name] = cell_str(r->name),
                           [request_col_model] = cell_str(r->model),
                           [request_col_ts] = cell_i64(r->start_ns),
                           [request_col_dur] = cell_i64(r->dur_ns),
                           [request_col_queue] = cell_i64(r->queue_ns),
                           [request_col_ttft] = cell_i64(r->ttft_ns),
                           [request_col_prefill] = cell_i64(r->prefill_ns),
                           [request_col_tokens_in] = known_or_null(r->tokens_in),
                           [request_col_tokens_out] = known_or_null(r->tokens_out),
                           [request_col_cached] = known_or_null(r->cached),
                           [request_col_finish] = cell_str(r->finish),
                           [request_col_track] = cell_id(r->track),
                       },
                       &request);

    for (size_t i = 0; i < r->ntoken && rc == 0; i++)
        rc = store_add(o->b.st, TABLE_token,
                       (struct cell[token_col_COUNT]){ [token_col_request] = cell_id(request),
                                                       [token_col_num] = cell_i64((int64_t)i),
                                                       [token_col_ts] =
                                                           cell_i64(o->token[r->first_token + i]) },
                       NULL);
    return rc;
}

void otlp_finish(struct otlp *o)
{
    link_parents(o);
    for (size_t i = 0; i < o->nrow && !o->b.rc; i++)
        if (o->row[i].gen_ai && !o->row[i].inside)
            o->b.rc = put_rows(o, &o->row[i]);
    import_set_realtime(o->b.src, 0);
}
