/* prompt.c -- what a decoder is given to read; see generate.h. */
#include "run/generate.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"

#include <inttypes.h>
#include <string.h>

#define IDS_MAX ((size_t)16000000)

struct reader {
    const char *path;
    int64_t vocabulary;
    int64_t *id;
    size_t n, cap;
    int64_t rows, len; /* len: of the first row; -1: there is none yet */
    opm_error *err;
};

static int add_id(struct reader *r, int64_t id, int64_t line)
{
    if (r->vocabulary && id >= r->vocabulary)
        return opm__fail(r->err, OPM_EINVAL,
                         "%.200s:%" PRId64 ": token %" PRId64
                         " is not in the model's vocabulary, which has 0 to %" PRId64,
                         r->path, line, id, r->vocabulary - 1);
    if (r->n >= IDS_MAX || !GROW(r->id, r->cap, r->n + 1))
        return opm__fail(r->err, OPM_ELIMIT, "%.200s:%" PRId64 ": too many tokens", r->path, line);
    r->id[r->n++] = id;
    return 0;
}

/* One line of len bytes; one without numbers is none. */
static int add_line(struct reader *r, const char *p, size_t len, int64_t line)
{
    size_t before = r->n;
    int rc = 0;

    for (size_t i = 0; i < len && !rc;) {
        int64_t id = 0;
        size_t first = i;

        if (strchr(" \t\r,;[]", p[i]) && p[i]) {
            i++;
            continue;
        }
        for (; i < len && p[i] >= '0' && p[i] <= '9' && id <= INT32_MAX; i++)
            id = id * 10 + (p[i] - '0');
        if (i == first || id > INT32_MAX)
            return opm__fail(r->err, OPM_EINVAL,
                             "%.200s:%" PRId64 ": '%.*s' is no token: numbers from 0 on, and "
                             "blanks or commas between them",
                             r->path, line, (int)MIN(len - first, (size_t)12), p + first);
        rc = add_id(r, id, line);
    }
    if (rc || r->n == before)
        return rc;
    if (r->len >= 0 && r->n - before != (size_t)r->len)
        return opm__fail(r->err, OPM_EINVAL,
                         "%.200s:%" PRId64 ": a prompt of %zu tokens, but the first has %" PRId64
                         "; those of a batch must be of one length",
                         r->path, line, r->n - before, r->len);
    r->len = (int64_t)(r->n - before);
    r->rows++;
    return 0;
}

int prompt_read(const char *path, int64_t vocabulary, int64_t **ids, int64_t *rows, int64_t *len,
                opm_error *err)
{
    struct reader r = { .path = path, .vocabulary = vocabulary, .len = -1, .err = err };
    struct io_map map = { 0 };
    int64_t line = 0;
    int rc = io_map(&map, path, 0, err);

    for (size_t at = 0; !rc && at < map.len;) {
        const char *p = (const char *)map.data + at, *end = memchr(p, '\n', map.len - at);
        size_t n = end ? (size_t)(end - p) : map.len - at;

        rc = add_line(&r, p, n, ++line);
        at += n + 1;
    }
    io_map_release(&map);
    if (!rc && !r.rows)
        rc = opm__fail(err, OPM_EINVAL, "%.200s: no tokens in it", path);
    if (rc) {
        mem_free(r.id);
        return rc;
    }
    *ids = r.id;
    *rows = r.rows;
    *len = r.len;
    return 0;
}

int prompt_random(uint64_t seed, int64_t vocabulary, int64_t rows, int64_t len, int64_t **ids,
                  opm_error *err)
{
    uint64_t x = seed + 0x9e3779b97f4a7c15u;
    int64_t *id = NULL, n;

    if (!__builtin_mul_overflow(rows, len, &n) && n <= (int64_t)IDS_MAX)
        id = mem_calloc((size_t)n + 1, sizeof(*id));
    if (!id)
        return opm__fail(err, OPM_ELIMIT,
                         "no memory for prompts of %" PRId64 " times %" PRId64 " tokens", rows,
                         len);
    for (int64_t i = 0; i < n; i++) { /* xorshift */
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        id[i] = (int64_t)((x >> 20) % (uint64_t)vocabulary);
    }
    *ids = id;
    return 0;
}
