/* busy.c -- see busy.h. */
#include "server/busy.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

#define SHARE_MAX 1000

enum { COL_device, COL_host, COL_rank, COL_ts, COL_dur };
static const char sql[] = "SELECT device, host, rank, ts, dur FROM device_busy";

struct work {
    int64_t from_ns, to_ns;
    int64_t before_ns; /* work of the device up to here */
};

struct busy_device {
    char *device, *host; /* or NULL */
    bool has_rank;
    int64_t rank;
    struct work *work;
    size_t n, cap;
};

struct busy {
    struct busy_device *device;
    size_t n, cap;
};

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static char *copy(const char *text, bool *failed)
{
    size_t size = text ? strlen(text) + 1 : 0;
    char *made = text ? mem_alloc(size) : NULL;

    if (made)
        memcpy(made, text, size);
    *failed |= text && !made;
    return made;
}

/* Rows of a device come one after the other. NULL: out of memory. */
static struct busy_device *device_for(struct busy *b, const opm_rows *r)
{
    const char *device = opm_rows_text(r, COL_device, NULL),
               *host = opm_rows_text(r, COL_host, NULL);
    bool has_rank = opm_rows_type(r, COL_rank) != OPM_TYPE_NULL, failed = false;
    struct busy_device *d = b->n ? &b->device[b->n - 1] : NULL;

    if (d && d->has_rank == has_rank && d->rank == opm_rows_int(r, COL_rank) &&
        same_text(d->device, device) && same_text(d->host, host))
        return d;
    if (!GROW(b->device, b->cap, b->n + 1))
        return NULL;
    d = &b->device[b->n++];
    *d = (struct busy_device){ .has_rank = has_rank, .rank = opm_rows_int(r, COL_rank) };
    d->device = copy(device, &failed);
    d->host = copy(host, &failed);
    return failed ? NULL : d;
}

static bool add_row(struct busy *b, const opm_rows *r)
{
    struct busy_device *d = device_for(b, r);
    struct work w = { .from_ns = opm_rows_int(r, COL_ts) };

    if (!d || !GROW(d->work, d->cap, d->n + 1))
        return false;
    w.to_ns = w.from_ns + opm_rows_int(r, COL_dur);
    if (d->n) {
        const struct work *last = &d->work[d->n - 1];

        w.before_ns = last->before_ns + (last->to_ns - last->from_ns);
    }
    d->work[d->n++] = w;
    return true;
}

int busy_new(struct busy **out, opm_trace *t, opm_error *err)
{
    struct busy *b = mem_calloc(1, sizeof(*b));
    opm_rows *r = NULL;
    int rc = b ? opm_trace_query(t, sql, &r, err) : opm__fail(err, OPM_ENOMEM, "out of memory");
    int more = rc < 0 ? rc : opm_rows_next(r, err);

    for (; more > 0; more = opm_rows_next(r, err)) {
        if (!add_row(b, r)) {
            more = opm__fail(err, OPM_ENOMEM, "out of memory");
            break;
        }
    }
    opm_rows_close(r);
    if (more < 0)
        busy_free(b);
    else
        *out = b;
    return more;
}

void busy_free(struct busy *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n; i++) {
        mem_free(b->device[i].device);
        mem_free(b->device[i].host);
        mem_free(b->device[i].work);
    }
    mem_free(b->device);
    mem_free(b);
}

size_t busy_devices(const struct busy *b)
{
    return b->n;
}

/* Work up to a time. */
static int64_t work_until(const struct busy_device *d, int64_t ns)
{
    size_t low = 0, high = d->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (d->work[mid].from_ns < ns)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0)
        return 0;
    return d->work[low - 1].before_ns + MIN(ns, d->work[low - 1].to_ns) - d->work[low - 1].from_ns;
}

static int64_t share(int64_t part_ns, int64_t of_ns)
{
    int64_t s = (int64_t)((double)part_ns * SHARE_MAX / (double)of_ns);

    /* Neither a little work nor a little idle time is rounded away. */
    return part_ns <= 0 ? 0 : part_ns >= of_ns ? SHARE_MAX : MIN(MAX(s, 1), SHARE_MAX - 1);
}

void busy_answer(const struct busy *b, struct json_writer *w, int64_t from_ns, int64_t to_ns,
                 int64_t width)
{
    json_object(w);
    json_key(w, "from");
    json_i64(w, from_ns);
    json_key(w, "to");
    json_i64(w, to_ns);
    json_key(w, "devices");
    json_array(w);
    for (size_t i = 0; i < b->n; i++) {
        const struct busy_device *d = &b->device[i];
        int64_t before = work_until(d, from_ns), at = from_ns;

        json_object(w);
        json_key(w, "device");
        json_cstr(w, d->device);
        json_key(w, "host");
        json_cstr(w, d->host);
        json_key(w, "rank");
        if (d->has_rank)
            json_i64(w, d->rank);
        else
            json_null(w);
        json_key(w, "first");
        json_i64(w, d->work[0].from_ns);
        json_key(w, "last");
        json_i64(w, d->work[d->n - 1].to_ns);
        json_key(w, "busy_ns");
        json_i64(w, work_until(d, to_ns) - before);
        json_key(w, "busy");
        json_array(w);
        for (int64_t k = 1; k <= width; k++) {
            int64_t next =
                from_ns + (int64_t)((double)(to_ns - from_ns) * (double)k / (double)width);
            int64_t until = work_until(d, next);

            json_i64(w, next > at ? share(until - before, next - at) : 0);
            before = until;
            at = next;
        }
        json_array_end(w);
        json_object_end(w);
    }
    json_array_end(w);
    json_object_end(w);
}
