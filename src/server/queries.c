/* queries.c -- see queries.h. */
#include "server/queries.h"

#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct query queries[] = {
#define QUERY(name, args, doc, sql) { #name, args, doc, sql },
#include "server/queries.def"
#undef QUERY
    { NULL, NULL, NULL, NULL },
};

/* One argument of query.args. */
struct param {
    const char *name;
    size_t len;
    bool text;     /* else an integer */
    bool optional; /* NULL where there is no fallback */
    const char *fallback;
    size_t fallback_len;
};

/* Take the next one off the front of *at. */
static bool param_next(const char **at, struct param *p)
{
    const char *s = *at + strspn(*at, " "), *type;

    if (!*s)
        return false;
    *p = (struct param){ .name = s, .len = strcspn(s, ":") };
    type = s + p->len + 1;
    p->text = *type == 't';
    s = type + strcspn(type, "?= ");
    p->optional = *s == '?' || *s == '=';
    if (*s == '=') {
        p->fallback = s + 1;
        p->fallback_len = strcspn(s + 1, " ");
    }
    *at = s + strcspn(s, " ");
    return true;
}

const struct query *query_find(const char *name)
{
    for (const struct query *q = queries; q->name; q++)
        if (strcmp(q->name, name) == 0)
            return q;
    return NULL;
}

bool query_needs_nothing(const struct query *q)
{
    const char *at = q->args;
    struct param p;

    while (param_next(&at, &p))
        if (!p.optional)
            return false;
    return true;
}

bool query_needs_only(const struct query *q, const char *name)
{
    const char *at = q->args;
    bool found = false;
    struct param p;

    while (param_next(&at, &p)) {
        bool same = p.len == strlen(name) && memcmp(p.name, name, p.len) == 0;

        if (!p.optional && !same)
            return false;
        found |= same && !p.optional;
    }
    return found;
}

static const struct target_arg *arg_of(const struct param *p, const struct target_arg *arg,
                                       size_t narg)
{
    for (size_t i = 0; i < narg; i++)
        if (strlen(arg[i].name) == p->len && memcmp(arg[i].name, p->name, p->len) == 0)
            return &arg[i];
    return NULL;
}

static void add_literal(struct buf *out, const char *s, size_t len)
{
    buf_addc(out, '\'');
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '\'')
            buf_addc(out, '\'');
        buf_addc(out, s[i]);
    }
    buf_addc(out, '\'');
}

static int add_int(struct buf *out, const struct param *p, const char *text, size_t len,
                   opm_error *err)
{
    char digits[24], *end;
    long long v;

    snprintf(digits, sizeof(digits), "%.*s", (int)MIN(len, sizeof(digits) - 1), text);
    errno = 0;
    v = strtoll(digits, &end, 10);
    if (len >= sizeof(digits) || end == digits || *end || errno || isspace((unsigned char)*text))
        return opm__fail(err, OPM_EINVAL, "argument %.*s: '%.*s' is no integer", (int)p->len,
                         p->name, (int)MIN(len, (size_t)40), text);
    buf_addf(out, "%lld", v);
    return 0;
}

static int add_value(struct buf *out, const struct query *q, const struct param *p,
                     const struct target_arg *arg, size_t narg, opm_error *err)
{
    const struct target_arg *a = arg_of(p, arg, narg);
    const char *text = a ? a->value : p->fallback;
    size_t len = a ? strlen(text) : p->fallback_len;

    if (!text && !p->optional)
        return opm__fail(err, OPM_EINVAL, "'%s' needs the argument %.*s", q->name, (int)p->len,
                         p->name);
    if (!text)
        buf_adds(out, "NULL");
    else if (p->text)
        add_literal(out, text, len);
    else
        return add_int(out, p, text, len, err);
    return 0;
}

/* The parameter whose name begins at s. */
static bool param_at(const struct query *q, const char *s, struct param *p)
{
    const char *at = q->args;
    size_t len = 0;

    while (isalnum((unsigned char)s[len]) || s[len] == '_')
        len++;
    while (param_next(&at, p))
        if (p->len == len && memcmp(p->name, s, len) == 0)
            return true;
    return false;
}

static int find_unknown(const struct query *q, const struct target_arg *arg, size_t narg,
                        opm_error *err)
{
    for (size_t i = 0; i < narg; i++) {
        const char *at = q->args;
        bool known = false;
        struct param p;

        while (!known && param_next(&at, &p))
            known = arg_of(&p, &arg[i], 1) != NULL;
        if (!known)
            return opm__fail(err, OPM_EINVAL, "'%s' has no argument '%.40s'", q->name, arg[i].name);
    }
    return 0;
}

int query_sql(const struct query *q, const struct target_arg *arg, size_t narg, struct buf *out,
              opm_error *err)
{
    int rc = find_unknown(q, arg, narg, err);

    for (const char *s = q->sql; rc == 0 && *s; s++) {
        struct param p;

        if (*s == ':' && param_at(q, s + 1, &p)) {
            rc = add_value(out, q, &p, arg, narg, err);
            s += p.len;
        } else {
            buf_addc(out, *s);
        }
    }
    if (rc == 0 && out->failed)
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    return rc;
}
