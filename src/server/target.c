/* target.c -- see target.h. */
#include "server/target.h"

#include "base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Append the decoded bytes of [s, end) and a NUL. */
static int decode(struct buf *out, const char *s, const char *end, bool form, opm_error *err)
{
    for (; s < end; s++) {
        int high, low;

        if (*s != '%') {
            buf_addc(out, form && *s == '+' ? ' ' : *s);
            continue;
        }
        high = end - s > 2 ? digit_of(s[1]) : -1;
        low = end - s > 2 ? digit_of(s[2]) : -1;
        if (high < 0 || low < 0)
            return opm__fail(err, OPM_EINVAL, "the address has a %% that is no escape");
        if (high == 0 && low == 0)
            return opm__fail(err, OPM_EINVAL, "the address has an encoded NUL");
        buf_addc(out, (char)(high * 16 + low));
        s += 2;
    }
    buf_addc(out, '\0');
    return 0;
}

static int add_segment(struct target *t, size_t *at, const char *s, const char *end, opm_error *err)
{
    const char *text;
    int rc;

    if (t->nsegment == TARGET_SEGMENTS_MAX)
        return opm__fail(err, OPM_ELIMIT, "the address has more than %d parts",
                         TARGET_SEGMENTS_MAX);
    at[t->nsegment] = t->text.len;
    rc = decode(&t->text, s, end, false, err);
    if (rc < 0)
        return rc;
    text = buf_str(&t->text) + at[t->nsegment++];
    if (strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
        return opm__fail(err, OPM_EINVAL, "the address has a '%s'", text);
    return 0;
}

/* Offsets of an argument's name and value in t->text. */
struct arg_at {
    size_t name;
    size_t value;
};

static int add_arg(struct target *t, struct arg_at *at, const char *s, const char *end,
                   opm_error *err)
{
    const char *equals = memchr(s, '=', (size_t)(end - s));
    int rc;

    if (t->narg == TARGET_ARGS_MAX)
        return opm__fail(err, OPM_ELIMIT, "the address has more than %d arguments",
                         TARGET_ARGS_MAX);
    at[t->narg].name = t->text.len;
    rc = decode(&t->text, s, equals ? equals : end, true, err);
    at[t->narg].value = t->text.len;
    if (rc == 0)
        rc = decode(&t->text, equals ? equals + 1 : end, end, true, err);
    t->narg++;
    return rc;
}

static int find_twice(const struct target *t, opm_error *err)
{
    for (size_t i = 0; i < t->narg; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(t->arg[i].name, t->arg[j].name) == 0)
                return opm__fail(err, OPM_EINVAL, "argument '%s' is given twice", t->arg[i].name);
    return 0;
}

static int split(struct target *t, const char *raw, size_t *segment_at, struct arg_at *arg_at,
                 opm_error *err)
{
    const char *path_end = raw + strcspn(raw, "?"), *s = raw;
    int rc = 0;

    for (const char *c = raw; *c; c++)
        if ((unsigned char)*c <= 0x20 || *c == 0x7f || *c == '#' || *c == '\\')
            return opm__fail(err, OPM_EINVAL, "the address has a byte that must be escaped");
    if (*raw != '/')
        return opm__fail(err, OPM_EINVAL, "the address does not begin with '/'");
    while (rc == 0 && s < path_end) {
        const char *end = memchr(s + 1, '/', (size_t)(path_end - s - 1));

        end = end ? end : path_end;
        if (end > s + 1 || end < path_end) /* nothing behind the last slash is no segment */
            rc = add_segment(t, segment_at, s + 1, end, err);
        s = end;
    }
    s = *path_end ? path_end + 1 : path_end;
    while (rc == 0 && *s) {
        size_t len = strcspn(s, "&");

        if (len)
            rc = add_arg(t, arg_at, s, s + len, err);
        s += len + (s[len] == '&');
    }
    return rc;
}

int target_parse(struct target *t, const char *raw, opm_error *err)
{
    size_t segment_at[TARGET_SEGMENTS_MAX];
    struct arg_at arg_at[TARGET_ARGS_MAX];
    int rc;

    *t = (struct target){ 0 };
    rc = split(t, raw, segment_at, arg_at, err);
    if (rc == 0 && t->text.failed)
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    if (rc == 0) { /* the text moved while it grew */
        for (size_t i = 0; i < t->nsegment; i++)
            t->segment[i] = buf_str(&t->text) + segment_at[i];
        for (size_t i = 0; i < t->narg; i++)
            t->arg[i] = (struct target_arg){ buf_str(&t->text) + arg_at[i].name,
                                             buf_str(&t->text) + arg_at[i].value };
        rc = find_twice(t, err);
    }
    if (rc < 0)
        t->nsegment = t->narg = 0;
    return rc;
}

void target_release(struct target *t)
{
    buf_release(&t->text);
}

bool target_is(const struct target *t, const char *path)
{
    for (size_t i = 0; i < t->nsegment; i++) {
        size_t len = strcspn(path, "/");

        if (!*path)
            return false;
        if (!(len == 1 && *path == '*') &&
            !(strlen(t->segment[i]) == len && memcmp(t->segment[i], path, len) == 0))
            return false;
        path += len + (path[len] == '/');
    }
    return !*path;
}

const char *target_arg(const struct target *t, const char *name)
{
    for (size_t i = 0; i < t->narg; i++)
        if (strcmp(t->arg[i].name, name) == 0)
            return t->arg[i].value;
    return NULL;
}

int target_int(const struct target *t, const char *name, int64_t min, int64_t max, int64_t *out,
               opm_error *err)
{
    const char *text = target_arg(t, name);
    char *end;
    long long v;

    if (!text)
        return 0;
    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || *end || errno || *text == ' ' || *text == '+')
        return opm__fail(err, OPM_EINVAL, "%s: '%.40s' is no integer", name, text);
    if (v < min || v > max)
        return opm__fail(err, OPM_EINVAL, "%s: %lld is not within %" PRId64 " and %" PRId64, name,
                         v, min, max);
    *out = v;
    return 0;
}
