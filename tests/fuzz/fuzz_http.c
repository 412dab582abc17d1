/* fuzz_http.c -- what comes from a client before anything is answered: the target of a request, and
 * the headers by which requests are refused. Lines: target, Host, Origin, Sec-Fetch-Site. */
#include "server/guard.h"
#include "server/queries.h"
#include "server/target.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* An argument that is text must stay within its quotation marks. */
static void check_literal(const char *sql)
{
    bool quoted = false;

    for (const char *c = strstr(sql, "lower(") ? strstr(sql, "lower(") : ""; *c; c++)
        quoted ^= *c == '\'';
    if (quoted)
        abort();
}

static void check_target(const struct target *t)
{
    struct buf sql = { 0 };
    int64_t v = 7;

    for (size_t i = 0; i < t->nsegment; i++)
        if (strcmp(t->segment[i], "..") == 0 || strcmp(t->segment[i], ".") == 0)
            abort();
    for (size_t i = 0; i < t->narg; i++)
        if (!target_arg(t, t->arg[i].name))
            abort();
    if (target_int(t, "from", -5, 5, &v, NULL) == 0 && (v < -5 || v > 7))
        abort();
    for (const struct query *q = queries; q->name; q++) {
        buf_clear(&sql);
        if (query_sql(q, t->arg, t->narg, &sql, NULL) == 0 && strcmp(q->name, "search") == 0)
            check_literal(buf_str(&sql));
    }
    buf_release(&sql);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct guard guards[] = { { true, NULL }, { false, "box" } };
    char *text = malloc(len + 1), *line[4] = { NULL };
    struct target t;

    if (!text)
        return 0;
    memcpy(text, data, len);
    text[len] = '\0';
    line[0] = text;
    for (int i = 1; i < 4; i++) {
        char *end = line[i - 1] ? strchr(line[i - 1], '\n') : NULL;

        if (end) {
            *end = '\0';
            line[i] = end + 1;
        }
    }
    if (target_parse(&t, line[0], NULL) == 0)
        check_target(&t);
    for (size_t i = 0; i < ARRAY_SIZE(guards); i++) {
        struct guard_request r = { "GET", true, line[1], line[2], line[3] };

        if (guard_check(&guards[i], &r, NULL) == 0 && (!r.host || strstr(r.host, "evil")))
            abort();
    }
    target_release(&t);
    free(text);
    return 0;
}
