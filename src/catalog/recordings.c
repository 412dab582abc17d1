/* recordings.c -- see recordings.h. */
#include "catalog/recordings.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/strpool.h"
#include "base/u64map.h"
#include "catalog/questions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct recording {
    int64_t rank, began_ns, spans, added_ns;
    int64_t from_num, to_num; /* of its steps; from > to: it has none */
    bool left_out;
    uint32_t key;
};

struct recordings {
    struct recording *at;
    size_t n, cap;
    struct strpool keys;    /* of rank and digest */
    struct u64map of_key;   /* id of the key -> recording */
    struct u64map of_batch; /* -> id of the key */
    struct left_out *out;
    int64_t several;
};

#define ORDER(a, b)                    \
    do {                               \
        if ((a) != (b))                \
            return (a) < (b) ? -1 : 1; \
    } while (0)

/* Of each rank, the one that counts before those that overlap it. */
static int by_weight(const void *va, const void *vb)
{
    const struct recording *a = va, *b = vb;

    ORDER(a->rank, b->rank);
    ORDER(b->began_ns, a->began_ns);
    ORDER(b->spans, a->spans);
    ORDER(b->added_ns, a->added_ns);
    ORDER(a->key, b->key);
    return 0;
}

static int key_of(struct recordings *r, int64_t rank, const char *run, str_id *out)
{
    struct buf key = { 0 };
    int rc;

    buf_addf(&key, "%" PRId64 " %s", rank, run ? run : "");
    rc = key.failed ? OPM_ENOMEM : strpool_intern(&r->keys, buf_str(&key), key.len, out);
    buf_release(&key);
    return rc;
}

static int each_count(void *user, struct fleetrows *rows)
{
    struct recordings *r = user;

    r->several = fleetrows_size(rows, 0) - fleetrows_size(rows, 1);
    return 0;
}

static int each_file(void *user, struct fleetrows *rows)
{
    struct recordings *r = user;
    struct recording one = { .rank = fleetrows_int(rows, 0),
                             .began_ns = fleetrows_int(rows, 2),
                             .spans = fleetrows_int(rows, 3),
                             .added_ns = fleetrows_int(rows, 4),
                             .from_num = INT64_MAX,
                             .to_num = INT64_MIN };

    if (key_of(r, one.rank, fleetrows_text(rows, 1, NULL), &one.key) ||
        !GROW(r->at, r->cap, r->n + 1) || u64map_put(&r->of_key, one.key, r->n))
        return OPM_ENOMEM;
    r->at[r->n++] = one;
    return 0;
}

static int each_batch(void *user, struct fleetrows *rows)
{
    struct recordings *r = user;
    str_id key;

    return key_of(r, fleetrows_int(rows, 0), fleetrows_text(rows, 1, NULL), &key) ||
                   u64map_put(&r->of_batch, (uint64_t)fleetrows_int(rows, 2), key)
               ? OPM_ENOMEM
               : 0;
}

static int each_range(void *user, struct fleetrows *rows)
{
    struct recordings *r = user;
    const uint64_t *key = u64map_get(&r->of_batch, (uint64_t)fleetrows_int(rows, 0));
    const uint64_t *at = key ? u64map_get(&r->of_key, *key) : NULL;

    if (at) {
        r->at[*at].from_num = MIN(r->at[*at].from_num, fleetrows_int(rows, 1));
        r->at[*at].to_num = MAX(r->at[*at].to_num, fleetrows_int(rows, 2));
    }
    return 0;
}

static int ask(struct recordings *r, struct fleetdb *db, const char *job, const char *select,
               const char *more, ask_each *each, opm_error *err)
{
    struct buf sql = { 0 };
    int rc;

    buf_addf(&sql, "%s WHERE job = ", select);
    fleetdb_quote(db, &sql, job);
    buf_adds(&sql, more);
    rc = ask_sql(db, &sql, each, r, err);
    buf_release(&sql);
    return rc;
}

static bool has_steps(const struct recording *r)
{
    return r->from_num <= r->to_num;
}

/* Did both record the same? They have steps in common; or, where there are none to tell, both began
 * at one moment, as one that was added before it was complete and what it became. */
static bool overlap(const struct recording *a, const struct recording *b)
{
    if (has_steps(a) && has_steps(b))
        return a->from_num <= b->to_num && a->to_num >= b->from_num;
    return a->began_ns > 0 && a->began_ns == b->began_ns;
}

/* Recordings by weight: each is left out if it overlaps one before it. */
static int choose(struct recordings *r)
{
    struct left_out *out = r->out;

    if (r->n)
        qsort(r->at, r->n, sizeof(*r->at), by_weight);
    for (size_t i = 0, first = 0; i < r->n; i++) {
        struct recording *own = &r->at[i];

        if (own->rank != r->at[first].rank)
            first = i;
        for (size_t k = first; k < i && !own->left_out; k++)
            own->left_out = !r->at[k].left_out && overlap(own, &r->at[k]);
        if (!own->left_out)
            continue;
        if (!GROW(out->rank, out->cap, out->n + 1))
            return OPM_ENOMEM;
        out->rank[out->n++] = own->rank;
    }
    for (size_t i = 0; i < r->n; i++)
        if (u64map_put(&r->of_key, r->at[i].key, i))
            return OPM_ENOMEM;
    return 0;
}

static int each_left_out(void *user, struct fleetrows *rows)
{
    struct recordings *r = user;
    const uint64_t *key = u64map_get(&r->of_batch, (uint64_t)fleetrows_int(rows, 2));
    const uint64_t *at = key ? u64map_get(&r->of_key, *key) : NULL;

    if (at && r->at[*at].left_out)
        buf_addf(&r->out->sql, "%s%" PRId64, r->out->sql.len ? ", " : " AND batch NOT IN (",
                 fleetrows_int(rows, 2));
    return r->out->sql.failed ? OPM_ENOMEM : 0;
}

static int find(struct recordings *r, struct fleetdb *db, const char *job, opm_error *err)
{
    static const char batches[] = "SELECT rank, run, batch FROM rank_batch";
    int rc = ask(r, db, job, "SELECT count(*) AS n, count(DISTINCT rank) AS ranks FROM rank_file",
                 "", each_count, err);

    if (rc < 0 || r->several <= 0)
        return rc;
    rc = ask(r, db, job, "SELECT rank, run, began_ns, spans, added_ns FROM rank_file", "",
             each_file, err);
    if (rc == 0)
        rc = ask(r, db, job, batches, "", each_batch, err);
    if (rc == 0)
        rc = ask(r, db, job, "SELECT batch, min(num) AS a, max(num) AS b FROM rank_step",
                 " GROUP BY batch", each_range, err);
    if (rc == 0 && choose(r) < 0)
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    if (rc == 0 && r->out->n)
        rc = ask(r, db, job, batches, "", each_left_out, err);
    if (rc == 0 && r->out->sql.len)
        buf_addc(&r->out->sql, ')');
    return rc == 0 && r->out->sql.failed ? opm__fail(err, OPM_ENOMEM, "out of memory") : rc;
}

int left_out_get(struct fleetdb *db, const char *job, const struct left_out **out, opm_error *err)
{
    struct left_out *l = fleetdb_left_out(db);
    struct recordings r = { .out = l };
    int rc;

    *out = l;
    if (l->job && strcmp(l->job, job) == 0)
        return 0;
    left_out_release(l);
    rc = find(&r, db, job, err);
    if (rc == 0) {
        l->job = mem_strdup(job);
        rc = l->job ? 0 : opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    mem_free(r.at);
    strpool_release(&r.keys);
    u64map_release(&r.of_key);
    u64map_release(&r.of_batch);
    if (rc < 0)
        left_out_release(l);
    return rc;
}

size_t left_out_of(const struct left_out *l, int64_t rank)
{
    size_t low = 0, high = l->n, n = 0;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (l->rank[mid] < rank)
            low = mid + 1;
        else
            high = mid;
    }
    while (low + n < l->n && l->rank[low + n] == rank)
        n++;
    return n;
}

void left_out_release(struct left_out *l)
{
    mem_free(l->job);
    mem_free(l->rank);
    buf_release(&l->sql);
    *l = (struct left_out){ 0 };
}
