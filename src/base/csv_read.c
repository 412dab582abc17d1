/* csv_read.c -- see csv_read.h. */
#include "base/csv_read.h"

#include <string.h>

struct csv_reader csv_read_of(const void *p, size_t len)
{
    const char *s = len ? p : "";

    if (len >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0) {
        s += 3;
        len -= 3;
    }
    return (struct csv_reader){ .start = s, .at = s, .end = s + len };
}

/* r->at stands on the opening quote. */
static struct csv_field take_quoted(struct csv_reader *r)
{
    const char *p = ++r->at;

    for (;;) {
        const char *q = memchr(r->at, '"', (size_t)(r->end - r->at));

        if (!q) {
            r->at = r->end;
            r->unclosed = true;
            return (struct csv_field){ p, (size_t)(r->end - p), true };
        }
        r->at = q + 1;
        if (r->at < r->end && *r->at == '"') {
            r->at++;
            continue;
        }
        /* What stands between the quote and the comma is nobody's. */
        while (r->at < r->end && *r->at != ',' && *r->at != '\n')
            r->at++;
        return (struct csv_field){ p, (size_t)(q - p), true };
    }
}

static struct csv_field take_plain(struct csv_reader *r)
{
    const char *p = r->at;
    size_t len;

    while (r->at < r->end && *r->at != ',' && *r->at != '\n')
        r->at++;
    len = (size_t)(r->at - p);
    if (len && p[len - 1] == '\r' && (r->at == r->end || *r->at == '\n'))
        len--;
    return (struct csv_field){ p, len, false };
}

int csv_read_row(struct csv_reader *r, struct csv_field *field, int max)
{
    int n = 0;

    while (r->at < r->end && (*r->at == '\n' || *r->at == '\r'))
        r->at++;
    if (r->at == r->end)
        return -1;
    r->row++;
    for (;;) {
        struct csv_field f = r->at < r->end && *r->at == '"' ? take_quoted(r) : take_plain(r);

        if (n < max)
            field[n] = f;
        n++;
        if (r->at == r->end || *r->at == '\n')
            break;
        r->at++; /* the comma */
    }
    if (r->at < r->end)
        r->at++;
    return n;
}

bool csv_read_next(struct csv_reader *r, struct csv_field *field, int max, int *n)
{
    *n = csv_read_row(r, field, max);
    return *n >= 0;
}

void csv_field_text(const struct csv_field *f, struct buf *out)
{
    const char *p = f->p, *end = p + f->len;

    while (f->quoted && p < end) {
        const char *q = memchr(p, '"', (size_t)(end - p));

        if (!q)
            break;
        buf_add(out, p, (size_t)(q - p) + 1);
        p = MIN(q + 2, end);
    }
    buf_add(out, p, (size_t)(end - p));
}

bool csv_field_is(const struct csv_field *f, const char *s)
{
    return strlen(s) == f->len && memcmp(s, f->p, f->len) == 0;
}

void csv_columns(const struct csv_field *f, int n, const char *const *name, size_t k, int *at)
{
    for (size_t c = 0; c < k; c++) {
        at[c] = -1;
        for (int i = 0; i < n; i++)
            if (csv_field_is(&f[i], name[c]))
                at[c] = i;
    }
}

bool csv_field_int(const struct csv_field *f, int64_t *out)
{
    const char *p = f->p, *end = p + f->len;
    bool negative = false;
    int64_t v = 0;

    while (p < end && *p == ' ')
        p++;
    while (p < end && end[-1] == ' ')
        end--;
    if (p < end && (*p == '-' || *p == '+'))
        negative = *p++ == '-';
    if (p == end || *p < '0' || *p > '9')
        return false;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *p - '0', &v))
            return false; /* counted downwards: INT64_MIN has no positive twin */
    if (p < end && *p == '.')
        for (p++; p < end && *p == '0'; p++)
            ;
    if (p < end || (!negative && v == INT64_MIN))
        return false;
    *out = negative ? v : -v;
    return true;
}
