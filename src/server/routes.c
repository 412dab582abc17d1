/* routes.c -- see routes.h. */
#include "server/routes.h"

#include "base/alloc.h"
#include "base/error.h"
#include "compare/diff.h"
#include "server/answer.h"
#include "server/exported.h"
#include "server/page.h"
#include "server/queries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SQL_LIMIT_NS 10000000000
#define SQL_ROWS_DEFAULT 10000
#define TOTALS_DEFAULT 1000 /* names */
#define WIDTH_MAX 20000
#define WIDTH_DEFAULT 1000
#define BARS_MAX 50000 /* of a track; beyond, they are united to coarser ones */
#define JSON_TYPE "application/json; charset=utf-8"

struct asked {
    const struct routes *r;
    const struct target *t;
    int client_fd;
    struct json_writer *w;
};

void reply_error(struct reply *a, int status, const char *sentence)
{
    struct json_writer w = { .buf = &a->body };

    buf_clear(&a->body);
    json_object(&w);
    json_key(&w, "error");
    json_cstr(&w, sentence);
    json_object_end(&w);
    buf_addc(&a->body, '\n');
    a->status = status;
    a->type = JSON_TYPE;
}

static int status_of(int rc)
{
    switch (rc) {
    case OPM_ENOTFOUND:
        return 404;
    case OPM_EIO: /* the file is gone */
        return 410;
    case OPM_EINVAL:
    case OPM_ELIMIT:
        return 400;
    case OPM_EBUSY:
    case OPM_ENOMEM:
        return 503;
    default: /* a file that is no trace, or a broken one */
        return 422;
    }
}

static int get_version(struct asked *q, opm_error *err)
{
    (void)err;
    json_object(q->w);
    json_key(q->w, "version");
    json_cstr(q->w, opm_trace_version());
    json_key(q->w, "folder");
    json_bool(q->w, catalog_is_folder(q->r->catalog));
    json_key(q->w, "histories");
    json_bool(q->w, histories_any(q->r->histories));
    json_key(q->w, "fleets");
    json_i64(q->w, (int64_t)fleets_count(q->r->fleets));
    json_key(q->w, "drop_max");
    json_i64(q->w, q->r->dropped ? (int64_t)dropped_default.file : 0);
    json_object_end(q->w);
    return 0;
}

static int get_fleets(struct asked *q, opm_error *err)
{
    (void)err;
    fleets_list(q->r->fleets, q->w);
    return 0;
}

static int get_jobs(struct asked *q, opm_error *err)
{
    return fleet_jobs(q->r->fleets, q->t->segment[2], q->w, err);
}

static int get_hosts(struct asked *q, opm_error *err)
{
    return fleet_ask(q->r->fleets, q->t->segment[2], NULL, "hosts", q->w, err);
}

static int get_question(struct asked *q, opm_error *err)
{
    return fleet_ask(q->r->fleets, q->t->segment[2], q->t->segment[4], q->t->segment[5], q->w, err);
}

static int get_rank(struct asked *q, opm_error *err)
{
    const char *text = q->t->segment[6];
    char *end;
    long long rank = strtoll(text, &end, 10);

    if (!*text || *end)
        return opm__fail(err, OPM_EINVAL, "a rank is a number");
    return fleet_open_rank(q->r->fleets, q->r->catalog, q->t->segment[2], q->t->segment[4], rank,
                           q->w, err);
}

static int get_traces(struct asked *q, opm_error *err)
{
    int rc = catalog_list(q->r->catalog, q->w, err);

    scout_wake(q->r->scout); /* files may be new or changed; the next list tells more */
    return rc;
}

static int get_trace(struct asked *q, opm_error *err)
{
    return catalog_describe(q->r->catalog, q->t->segment[2], q->w, err);
}

static int get_progress(struct asked *q, opm_error *err)
{
    return catalog_progress(q->r->catalog, q->t->segment[2], q->w, err);
}

/* Run sql in a lane, interrupted at the limit and when the client is gone. */
static int answer_query(struct asked *q, enum lane lane, const char *sql, int64_t limit,
                        opm_error *err)
{
    struct opened *o = NULL;
    struct watched watched;
    struct waiter who = { q->r->watch, q->client_fd };
    enum watched_end end;
    opm_trace *t;
    int rc = catalog_open(q->r->catalog, q->t->segment[2], CATALOG_AS_READ, &o, err);

    if (rc == 0)
        rc = opened_enter(o, lane, &who, &t, err);
    if (rc == 0) {
        watch_begin(q->r->watch, &watched, t, q->client_fd, SQL_LIMIT_NS);
        rc = answer_rows(q->w, t, sql, limit, err);
        end = watch_end(q->r->watch, &watched);
        opened_leave(o, lane);
        if (rc < 0 && end == WATCHED_LATE)
            rc = opm__fail(err, OPM_ELIMIT, "the query was stopped after 10 seconds");
        else if (rc < 0 && end == WATCHED_STOPPED)
            rc = opm__fail(err, OPM_EBUSY, "the server is ending");
    }
    opened_unref(o);
    return rc;
}

static int get_data(struct asked *q, opm_error *err)
{
    const struct query *query = query_find(q->t->segment[4]);
    struct buf sql = { 0 };
    int rc;

    if (!query)
        return opm__fail(err, OPM_ENOTFOUND, "no query '%.40s'", q->t->segment[4]);
    rc = query_sql(query, q->t->arg, q->t->narg, &sql, err);
    if (rc == 0)
        rc = answer_query(q, query_needs_nothing(query) ? LANE_DATA : LANE_DETAIL, buf_str(&sql),
                          ANSWER_ROWS_MAX, err);
    buf_release(&sql);
    return rc;
}

static int get_sql(struct asked *q, opm_error *err)
{
    const char *sql = target_arg(q->t, "q");
    int64_t limit = SQL_ROWS_DEFAULT;
    int rc = target_int(q->t, "limit", 0, ANSWER_ROWS_MAX, &limit, err);

    if (rc < 0)
        return rc;
    if (!sql)
        return opm__fail(err, OPM_EINVAL, "the argument q is missing: the SQL");
    return answer_query(q, LANE_SQL, sql, limit, err);
}

/* "3,5,8" */
static int read_tracks(const char *text, uint32_t **out, size_t *n, opm_error *err)
{
    size_t cap = 0;

    *n = 0;
    *out = mem_alloc(sizeof(**out)); /* not NULL: none is not all */
    if (!*out)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    cap = 1;
    while (*text) {
        char *end;
        unsigned long v;

        errno = 0;
        v = strtoul(text, &end, 10);
        if (*text < '0' || *text > '9' || (*end && *end != ',') || errno || v > UINT32_MAX)
            return opm__fail(err, OPM_EINVAL, "track: '%.40s' is no list of track ids", text);
        if (!GROW(*out, cap, *n + 1))
            return opm__fail(err, OPM_ENOMEM, "out of memory");
        (*out)[(*n)++] = (uint32_t)v;
        text = *end ? end + 1 : end;
    }
    return 0;
}

/* Open the trace and take a lane of it; leave() then, unless it failed. */
static int enter(struct asked *q, enum lane lane, struct opened **o, opm_trace **t, opm_error *err)
{
    struct waiter who = { q->r->watch, q->client_fd };
    int rc;

    *o = NULL;
    rc = catalog_open(q->r->catalog, q->t->segment[2], CATALOG_AS_READ, o, err);
    if (rc == 0)
        rc = opened_enter(*o, lane, &who, t, err);
    if (rc < 0)
        opened_unref(*o);
    return rc;
}

static void leave(struct opened *o, enum lane lane)
{
    opened_leave(o, lane);
    opened_unref(o);
}

/* A range of time that the request gives; to_ns stays as it is if it does not. */
static int read_range(struct asked *q, int64_t *from_ns, int64_t *to_ns, opm_error *err)
{
    int rc = target_int(q->t, "from", INT64_MIN / 4, INT64_MAX / 4, from_ns, err);

    return rc < 0 ? rc : target_int(q->t, "to", INT64_MIN / 4, INT64_MAX / 4, to_ns, err);
}

static int check_range(int64_t from_ns, int64_t to_ns, opm_error *err)
{
    return to_ns > from_ns ? 0
                           : opm__fail(err, OPM_EINVAL, "the range is empty: from %lld to %lld",
                                       (long long)from_ns, (long long)to_ns);
}

static int draw(struct asked *q, struct timeline_view *v, int64_t width, opm_error *err)
{
    struct timeline *tl;
    struct opened *o;
    opm_trace *t;
    int rc = enter(q, LANE_TIMELINE, &o, &t, err);

    if (rc < 0)
        return rc;
    rc = opened_timeline(o, &tl, err);
    if (rc == 0) {
        /* Of a span that never ended the end of the trace is part of the picture. */
        if (v->to_ns < 0)
            v->to_ns = timeline_end_ns(tl) + 1;
        rc = check_range(v->from_ns, v->to_ns, err);
    }
    if (rc == 0) {
        v->pixel_ns = (v->to_ns - v->from_ns) / width;
        rc = timeline_answer(tl, q->w, v, false, err);
    }
    leave(o, LANE_TIMELINE);
    return rc;
}

static int get_timeline(struct asked *q, opm_error *err)
{
    struct timeline_view v = { .to_ns = -1, .max_bars = BARS_MAX, .max_points = BARS_MAX };
    const char *tracks = target_arg(q->t, "track");
    int64_t width = WIDTH_DEFAULT;
    uint32_t *track = NULL;
    int rc = read_range(q, &v.from_ns, &v.to_ns, err);

    v.text = target_arg(q->t, "text");
    if (rc == 0)
        rc = target_int(q->t, "width", 1, WIDTH_MAX, &width, err);
    if (rc == 0 && tracks)
        rc = read_tracks(tracks, &track, &v.ntrack, err);
    v.track = track;
    if (rc == 0)
        rc = draw(q, &v, width, err);
    mem_free(track);
    return rc;
}

static int get_found(struct asked *q, opm_error *err)
{
    const char *text = target_arg(q->t, "text");
    int64_t at = 0, from_ns = 0;
    struct timeline *tl;
    struct opened *o;
    opm_trace *t;
    int rc = target_int(q->t, "at", -1, INT64_MAX, &at, err);

    if (rc == 0)
        rc = target_int(q->t, "from", INT64_MIN / 4, INT64_MAX / 4, &from_ns, err);
    if (rc == 0 && !text)
        rc = opm__fail(err, OPM_EINVAL, "the argument text is missing: what names must hold");
    if (rc == 0)
        rc = enter(q, LANE_TIMELINE, &o, &t, err);
    if (rc < 0)
        return rc;
    rc = opened_timeline(o, &tl, err);
    if (rc == 0)
        rc = timeline_found(tl, q->w, text, target_arg(q->t, "at") ? &at : NULL, from_ns, err);
    leave(o, LANE_TIMELINE);
    return rc;
}

/* What one of the answers of a range says, which takes another number: the argument `name`, from 0
 * to max, else `number`. */
static int answer_range(struct asked *q, const char *name, int64_t max, int64_t number,
                        int (*answer)(struct json_writer *, opm_trace *, int64_t, int64_t, int64_t,
                                      opm_error *),
                        opm_error *err)
{
    int64_t from_ns = 0, to_ns = 0;
    struct opened *o;
    opm_trace *t;
    int rc = read_range(q, &from_ns, &to_ns, err);

    if (rc == 0)
        rc = target_int(q->t, name, 0, max, &number, err);
    if (rc == 0)
        rc = check_range(from_ns, to_ns, err);
    if (rc == 0)
        rc = enter(q, LANE_DETAIL, &o, &t, err);
    if (rc < 0)
        return rc;
    rc = answer(q->w, t, from_ns, to_ns, number, err);
    leave(o, LANE_DETAIL);
    return rc;
}

static int get_totals(struct asked *q, opm_error *err)
{
    return answer_range(q, "limit", ANSWER_ROWS_MAX, TOTALS_DEFAULT, answer_totals, err);
}

static int get_flame(struct asked *q, opm_error *err)
{
    return answer_range(q, "track", UINT32_MAX - 1, -1, answer_flame, err);
}

static int get_busy(struct asked *q, opm_error *err)
{
    int64_t from_ns = 0, to_ns = -1, width = WIDTH_DEFAULT;
    struct watched watched;
    struct opened *o;
    struct busy *b;
    opm_trace *t;
    int rc = read_range(q, &from_ns, &to_ns, err);

    if (rc == 0)
        rc = target_int(q->t, "width", 1, WIDTH_MAX, &width, err);
    if (rc == 0)
        rc = enter(q, LANE_DATA, &o, &t, err);
    if (rc < 0)
        return rc;
    watch_begin(q->r->watch, &watched, t, q->client_fd, SQL_LIMIT_NS);
    rc = opened_busy(o, &b, err);
    watch_end(q->r->watch, &watched);
    if (rc == 0 && to_ns < 0)
        to_ns = opm_trace_end(t) + 1;
    if (rc == 0)
        rc = check_range(from_ns, to_ns, err);
    if (rc == 0)
        busy_answer(b, q->w, from_ns, to_ns, width);
    leave(o, LANE_DATA);
    return rc;
}

/* Two traces that are held for one question, always taken in the order of their ids: who asks the
 * other way round waits, and neither waits for the other. */
struct both {
    struct opened *o[DIFF_SIDES];
    opm_trace *t[DIFF_SIDES];
    bool entered[DIFF_SIDES];
};

static void both_leave(struct both *b)
{
    for (int s = 0; s < DIFF_SIDES; s++) {
        if (b->entered[s])
            opened_leave(b->o[s], LANE_DATA);
        opened_unref(b->o[s]);
    }
}

static int both_enter(struct asked *q, const char *const id[DIFF_SIDES], struct both *b,
                      opm_error *err)
{
    struct waiter who = { q->r->watch, q->client_fd };
    int first = strcmp(id[DIFF_A], id[DIFF_B]) < 0 ? DIFF_A : DIFF_B, rc = 0;

    *b = (struct both){ 0 };
    for (int s = 0; s < DIFF_SIDES && rc == 0; s++)
        rc = catalog_open(q->r->catalog, id[s], CATALOG_AS_READ, &b->o[s], err);
    for (int i = 0; i < DIFF_SIDES && rc == 0; i++) {
        int s = i == 0 ? first : !first;

        rc = opened_enter(b->o[s], LANE_DATA, &who, &b->t[s], err);
        b->entered[s] = rc == 0;
    }
    if (rc < 0)
        both_leave(b);
    return rc;
}

static int get_diff(struct asked *q, opm_error *err)
{
    const char *by = target_arg(q->t, "by");
    const char *const id[DIFF_SIDES] = { q->t->segment[2], target_arg(q->t, "with") };
    struct watched watched[DIFF_SIDES];
    struct diff d = { 0 };
    struct both b;
    bool late = false;
    int rc;

    if (!id[DIFF_B])
        return opm__fail(err, OPM_EINVAL, "the argument with is missing: the other trace");
    if (strcmp(id[DIFF_A], id[DIFF_B]) == 0)
        return opm__fail(err, OPM_EINVAL, "a trace is not compared with itself");
    if (by && strcmp(by, "op") != 0 && strcmp(by, "type") != 0)
        return opm__fail(err, OPM_EINVAL, "by: '%.40s' is neither op nor type", by);
    rc = both_enter(q, id, &b, err);
    if (rc < 0)
        return rc;
    for (int s = 0; s < DIFF_SIDES; s++)
        watch_begin(q->r->watch, &watched[s], b.t[s], q->client_fd, SQL_LIMIT_NS);
    rc = diff_read(&d, b.t, by && strcmp(by, "type") == 0, err);
    for (int s = 0; s < DIFF_SIDES; s++)
        late |= watch_end(q->r->watch, &watched[s]) == WATCHED_LATE;
    both_leave(&b);
    if (rc == 0)
        answer_diff(q->w, &d);
    else if (late)
        rc = opm__fail(err, OPM_ELIMIT, "the comparison was stopped after 10 seconds");
    diff_release(&d);
    return rc;
}

static int get_histories(struct asked *q, opm_error *err)
{
    return histories_list(q->r->histories, q->w, err);
}

static struct histories_asked runs_asked(const struct asked *q)
{
    return (struct histories_asked){ target_arg(q->t, "model"), target_arg(q->t, "label") };
}

static int get_history(struct asked *q, opm_error *err)
{
    struct histories_asked asked = runs_asked(q);

    return histories_answer(q->r->histories, q->t->segment[2], &asked, q->w, err);
}

static int get_history_operators(struct asked *q, opm_error *err)
{
    struct histories_asked asked = runs_asked(q);
    int64_t series = 0;
    int rc = target_int(q->t, "series", 0, INT32_MAX, &series, err);

    return rc < 0
               ? rc
               : histories_operators(q->r->histories, q->t->segment[2], &asked, series, q->w, err);
}

static int get_history_trace(struct asked *q, opm_error *err)
{
    const char *run = target_arg(q->t, "run");

    if (!run)
        return opm__fail(err, OPM_EINVAL, "the argument run is missing: its id");
    return histories_trace(q->r->histories, q->t->segment[2], run, q->w, err);
}

static const struct {
    const char *path;
    int (*get)(struct asked *q, opm_error *err);
} routes_json[] = {
    { "api/version", get_version },
    { "api/traces", get_traces },
    { "api/fleets", get_fleets },
    { "api/fleet/*/jobs", get_jobs },
    { "api/fleet/*/hosts", get_hosts },
    { "api/fleet/*/job/*/*", get_question },
    { "api/fleet/*/job/*/rank/*", get_rank },
    { "api/trace/*", get_trace },
    { "api/trace/*/data/*", get_data },
    { "api/trace/*/sql", get_sql },
    { "api/trace/*/timeline", get_timeline },
    { "api/trace/*/found", get_found },
    { "api/trace/*/totals", get_totals },
    { "api/trace/*/flame", get_flame },
    { "api/trace/*/busy", get_busy },
    { "api/trace/*/progress", get_progress },
    { "api/trace/*/diff", get_diff },
    { "api/histories", get_histories },
    { "api/history/*", get_history },
    { "api/history/*/operators", get_history_operators },
    { "api/history/*/trace", get_history_trace },
};

static void answer_json(const struct routes *r, const struct target *t, int client_fd,
                        struct reply *a, int (*get)(struct asked *, opm_error *))
{
    struct json_writer w = { .buf = &a->body };
    struct asked q = { r, t, client_fd, &w };
    opm_error err;
    int rc = get(&q, &err);

    a->type = JSON_TYPE;
    if (rc == 0 && a->body.failed)
        rc = opm__fail(&err, OPM_ENOMEM, "out of memory");
    if (rc < 0)
        reply_error(a, status_of(rc), err.msg);
    else
        buf_addc(&a->body, '\n');
}

static void answer_export(const struct routes *r, const struct target *t, int client_fd,
                          struct reply *a)
{
    struct waiter who = { r->watch, client_fd };
    const char *path[TRACE_FILE_PATHS];
    opm_error err;
    size_t n;
    int rc = catalog_paths(r->catalog, t->segment[2], path, &n, &err);

    if (rc == 0)
        rc = exported(path, n, catalog_limits(r->catalog), t->segment[4], &who, a, &err);
    if (rc < 0)
        reply_error(a, status_of(rc), err.msg);
}

bool routes_is_drop(const struct target *t)
{
    return target_is(t, "api/dropped/*");
}

static int add_dropped(const struct routes *r, struct drop *f, struct reply *a, opm_error *err)
{
    struct json_writer w = { .buf = &a->body };
    char id[CATALOG_ID_ROOM];
    const char *path;
    size_t shown_from;
    int rc = drop_end(f, &path, &shown_from, err);

    if (rc < 0)
        return rc;
    rc = catalog_add(r->catalog, path, shown_from, id, err);
    if (rc < 0) {
        dropped_remove(r->dropped, path);
        return rc;
    }
    json_object(&w);
    json_key(&w, "id");
    json_cstr(&w, id);
    json_key(&w, "path");
    json_cstr(&w, path + shown_from);
    json_object_end(&w);
    buf_addc(&a->body, '\n');
    return a->body.failed ? opm__fail(err, OPM_ENOMEM, "out of memory") : 0;
}

void routes_fail_drop(int rc, const opm_error *err, struct reply *a)
{
    int status = rc == OPM_ELIMIT ? 413 : rc == OPM_EIO ? 507 : status_of(rc);

    reply_error(a, status, err->msg);
}

void routes_answer_drop(const struct routes *r, struct drop *f, struct reply *a)
{
    opm_error err;
    int rc = add_dropped(r, f, a, &err);

    a->status = 201;
    a->type = JSON_TYPE;
    if (rc < 0)
        routes_fail_drop(rc, &err, a);
    else
        scout_wake(r->scout);
}

/* Every page has an address of its own; what looks like a file is one or is not there. */
static bool looks_like_file(const struct target *t)
{
    for (size_t i = 0; i < t->nsegment; i++)
        if (strchr(t->segment[i], '.'))
            return true;
    return false;
}

static void answer_page(const struct target *t, struct reply *a)
{
    bool is_file = looks_like_file(t);
    struct page_file file;

    if (is_file && (t->nsegment > 1 || !page_find(t->segment[0], &file))) {
        reply_error(a, 404, "no such file");
        return;
    }
    if (!is_file && !page_find("index.html", &file)) {
        reply_error(a, 404, "this opmeter was built without its web page");
        return;
    }
    a->type = file.type;
    a->data = file.data;
    a->len = file.len;
}

void routes_answer(const struct routes *r, const struct target *t, int client_fd, struct reply *a)
{
    for (size_t i = 0; i < ARRAY_SIZE(routes_json); i++) {
        if (target_is(t, routes_json[i].path)) {
            answer_json(r, t, client_fd, a, routes_json[i].get);
            return;
        }
    }
    if (target_is(t, "api/trace/*/export/*"))
        answer_export(r, t, client_fd, a);
    else if (t->nsegment && strcmp(t->segment[0], "api") == 0)
        reply_error(a, 404, "no such address; docs/http.md lists them");
    else
        answer_page(t, a);
}
