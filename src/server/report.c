/* report.c -- see report.h.
 *
 * The file allows itself no script but those that carry a number drawn when it was written, and
 * loads nothing: whatever a trace's author put into names, it stays text. */
#include "server/report.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "server/answer.h"
#include "server/busy.h"
#include "server/page.h"
#include "server/queries.h"
#include "server/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROWS_MAX 20000 /* of a query */
#define OPS_MAX 100    /* operators with answers of their own */
#define OP_ROWS_MAX 1000
#define BARS_MAX 200000
#define BUSY_PARTS \
    32768 /* of all devices; of one at most BUSY_PARTS_MAX, at least BUSY_PARTS_MIN */
#define BUSY_PARTS_MAX 8192
#define BUSY_PARTS_MIN 1024

struct report {
    struct io_out *out;
    opm_trace *t;
    const struct report_options *o;
    uint64_t done, total;
    char nonce[33];
};

/* What JSON has between quotation marks must not end the script element that it stands in. */
static void add_escaped(struct io_out *out, const char *s, size_t len)
{
    while (len) {
        const char *at = memchr(s, '<', len);
        size_t plain = at ? (size_t)(at - s) : len;

        io_out_add(out, s, plain);
        if (at)
            io_out_adds(out, "\\u003c");
        s += plain + (at != NULL);
        len -= plain + (at != NULL);
    }
}

/* Write what was collected, and empty it. */
static int put(struct report *r, struct buf *json, opm_error *err)
{
    if (json->failed)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    add_escaped(r->out, buf_str(json), json->len);
    buf_clear(json);
    r->done++;
    if (r->o->progress && r->o->progress(r->o->user, r->done, MAX(r->total, r->done)))
        return opm__fail(err, OPM_ELIMIT, "interrupted");
    return 0;
}

static int put_trace(struct report *r, struct buf *json, opm_error *err)
{
    struct json_writer w = { .buf = json };
    int rc;

    json_object(&w);
    json_key(&w, "id");
    json_cstr(&w, "report");
    json_key(&w, "path");
    json_cstr(&w, r->o->path);
    json_key(&w, "format");
    json_null(&w);
    json_key(&w, "recording");
    json_bool(&w, false);
    json_key(&w, "stamp");
    json_cstr(&w, "");
    rc = answer_facts(&w, r->t, r->o->path, err);
    json_object_end(&w);
    return rc < 0 ? rc : put(r, json, err);
}

/* "name": rows or, for one operator, "name?op=3": rows */
static int put_query(struct report *r, struct buf *json, const struct query *q, const char *op,
                     bool first, opm_error *err)
{
    const struct target_arg arg = { "op", op };
    struct json_writer w = { .buf = json };
    struct buf sql = { 0 };
    int rc = query_sql(q, &arg, op ? 1 : 0, &sql, err);

    buf_addf(json, op ? "%s\n\"%s?op=%s\":" : "%s\n\"%s\":", first ? "" : ",", q->name, op);
    if (rc == 0)
        rc = answer_rows(&w, r->t, buf_str(&sql), op ? OP_ROWS_MAX : ROWS_MAX, err);
    buf_release(&sql);
    return rc < 0 ? rc : put(r, json, err);
}

/* The operators that took longest. */
static int top_ops(struct report *r, int64_t *op, size_t *n, opm_error *err)
{
    opm_rows *rows = NULL;
    int more, rc = opm_trace_query(r->t,
                                   "SELECT op FROM op_times WHERE op IS NOT NULL GROUP BY op"
                                   " ORDER BY sum(time_ns) DESC, op",
                                   &rows, err);

    *n = 0;
    if (rc < 0)
        return rc;
    for (more = opm_rows_next(rows, err); more > 0 && *n < OPS_MAX; more = opm_rows_next(rows, err))
        op[(*n)++] = opm_rows_int(rows, 0);
    opm_rows_close(rows);
    return MIN(more, 0);
}

static int put_queries(struct report *r, struct buf *json, opm_error *err)
{
    int64_t op[OPS_MAX];
    bool first = true;
    size_t nop;
    int rc = top_ops(r, op, &nop, err);

    for (const struct query *q = queries; q->name; q++)
        r->total += query_needs_nothing(q) ? 1 : query_needs_only(q, "op") ? nop : 0;
    for (const struct query *q = queries; rc == 0 && q->name; q++) {
        if (query_needs_nothing(q)) {
            rc = put_query(r, json, q, NULL, first, err);
            first = false;
        }
        for (size_t i = 0; rc == 0 && query_needs_only(q, "op") && i < nop; i++) {
            char text[24];

            snprintf(text, sizeof(text), "%" PRId64, op[i]);
            rc = put_query(r, json, q, text, first, err);
            first = false;
        }
    }
    return rc;
}

static int put_timeline(struct report *r, struct buf *json, opm_error *err)
{
    struct json_writer w = { .buf = json };
    struct timeline_view v = { 0 };
    struct timeline *tl;
    bool coarse;
    int rc = timeline_new(&tl, r->t, err);

    if (rc < 0)
        return rc;
    v.to_ns = timeline_end_ns(tl) + 1;
    rc = timeline_fit(tl, &v, BARS_MAX, &coarse, err);
    if (rc == 0)
        rc = timeline_answer(tl, &w, &v, coarse, err);
    timeline_free(tl);
    return rc < 0 ? rc : put(r, json, err);
}

static int put_busy(struct report *r, struct buf *json, opm_error *err)
{
    struct json_writer w = { .buf = json };
    struct busy *b;
    int64_t parts, end_ns = opm_trace_end(r->t) + 1;
    int rc = busy_new(&b, r->t, err);

    if (rc < 0)
        return rc;
    parts = BUSY_PARTS / (int64_t)MAX(busy_devices(b), 1);
    parts = MIN(MAX(parts, BUSY_PARTS_MIN), BUSY_PARTS_MAX);
    busy_answer(b, &w, 0, end_ns, MIN(parts, end_ns));
    busy_free(b);
    return put(r, json, err);
}

static int put_data(struct report *r, opm_error *err)
{
    struct buf json = { 0 };
    int rc;

    r->total = 3;
    io_out_addf(r->out,
                "<script type=\"application/json\" id=\"opmeter-data\">\n{\"version\":\"%s\","
                "\n\"trace\":",
                opm_trace_version());
    rc = put_trace(r, &json, err);
    io_out_adds(r->out, ",\n\"data\":{");
    if (rc == 0)
        rc = put_queries(r, &json, err);
    io_out_adds(r->out, "},\n\"timeline\":");
    if (rc == 0)
        rc = put_timeline(r, &json, err);
    io_out_adds(r->out, ",\n\"busy\":");
    if (rc == 0)
        rc = put_busy(r, &json, err);
    io_out_adds(r->out, "}\n</script>\n");
    buf_release(&json);
    return rc;
}

static int draw_nonce(struct report *r, opm_error *err)
{
    uint8_t random[16];

    if (!system_random(random, sizeof(random)))
        return opm__fail(err, OPM_EIO, "the system gives no random numbers");
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(r->nonce + 2 * i, 3, "%02x", random[i]);
    return 0;
}

/* The element of the page that loads `file`: its tag, for a script with the end tag. */
static bool find_tag(const struct page_file *page, const char *file, const char **from,
                     const char **to)
{
    const char *at = memmem(page->data, page->len, file, strlen(file)), *end;

    if (!at)
        return false;
    for (*from = at; *from > page->data && **from != '<'; (*from)--)
        ;
    end = memchr(at, '>', page->len - (size_t)(at - page->data));
    if (!end)
        return false;
    *to = end + 1;
    if (strncmp(*from, "<script", 7) == 0 && strncmp(*to, "</script>", 9) == 0)
        *to += 9;
    return true;
}

/* Scripts and style sheets hold no end tag of their own: the bundler escapes them. */
static int put_inline(struct report *r, const char *name, const char *element, opm_error *err)
{
    struct page_file file;

    if (!page_find(name, &file))
        return opm__fail(err, OPM_ENOTFOUND, "this opmeter was built without its web page");
    io_out_addf(r->out, "<%s nonce=\"%s\">", element, r->nonce);
    io_out_add(r->out, file.data, file.len);
    io_out_addf(r->out, "</%s>", element);
    return 0;
}

static void put_policy(struct report *r)
{
    io_out_addf(r->out,
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                "script-src 'nonce-%s'; style-src 'nonce-%s'; img-src data:; base-uri 'none'; "
                "form-action 'none'\">\n",
                r->nonce, r->nonce);
}

enum part { PART_ICON, PART_STYLE, PART_SCRIPT, PART_COUNT };

static int put_part(struct report *r, enum part part, opm_error *err)
{
    int rc = 0;

    switch (part) {
    case PART_ICON: /* a file has none; the policy goes before what it is about */
        put_policy(r);
        break;
    case PART_STYLE:
        rc = put_inline(r, "app.css", "style", err);
        break;
    case PART_SCRIPT:
        rc = put_data(r, err);
        if (rc == 0)
            rc = put_inline(r, "app.js", "script", err);
        break;
    case PART_COUNT:
        break;
    }
    return rc;
}

int report_write(struct io_out *out, opm_trace *t, const struct report_options *o, opm_error *err)
{
    static const char *const loads[PART_COUNT] = { "icon.svg", "app.css", "app.js" };
    struct report r = { .out = out, .t = t, .o = o };
    struct page_file page;
    const char *at;
    int rc = draw_nonce(&r, err);

    if (rc == 0 && !page_find("index.html", &page))
        rc = opm__fail(err, OPM_ENOTFOUND, "this opmeter was built without its web page");
    if (rc < 0)
        return rc;
    at = page.data;
    for (int i = 0; rc == 0 && i < PART_COUNT; i++) {
        const char *from, *to;

        if (!find_tag(&page, loads[i], &from, &to) || from < at)
            return opm__fail(err, OPM_EFORMAT, "the web page does not load %s where it should",
                             loads[i]);
        io_out_add(out, at, (size_t)(from - at));
        rc = put_part(&r, i, err);
        at = to;
    }
    if (rc == 0)
        io_out_add(out, at, page.len - (size_t)(at - page.data));
    return rc;
}
