/* index.c -- see index.h. */
#include "sql/index.h"

#include "base/alloc.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* Long columns of free text (span.args) would need all their strings sorted. */
#define TEXT_ROWS_MAX ((size_t)1 << 20)
#define DIGIT_BITS 16
#define DIGITS ((uint32_t)1 << DIGIT_BITS)
#define INSERT_BELOW 48

bool index_offered(const struct source *s, int col)
{
    const struct column_def *def;

    if (source_is_row(s, col) || source_is_args(s, col))
        return false;
    def = &s->def->col[col];
    if (def->type == COL_ID || def->from == FROM_SITE)
        return true;
    return def->type == COL_STR && s->nrow <= TEXT_ROWS_MAX;
}

static int compare_text(const struct strpool *pool, str_id id, const char *text, size_t len)
{
    size_t have = strpool_len(pool, id);
    int order = memcmp(strpool_get(pool, id), text, MIN(have, len));

    return order ? order : have < len ? -1 : have > len;
}

static int by_text(const void *a, const void *b, void *pool)
{
    str_id x = *(const str_id *)a, y = *(const str_id *)b;

    return x == y ? 0 : compare_text(pool, x, strpool_get(pool, y), strpool_len(pool, y));
}

/* Sort the n ids in ix->string[1..] by their text and drop the doubles. */
static void rank_strings(struct index *ix, const struct strpool *pool, size_t n)
{
    struct strpool view = *pool; /* qsort_r has no const */
    uint32_t nrank = 1;

    qsort_r(ix->string + 1, n, sizeof(*ix->string), by_text, &view);
    for (size_t i = 1; i <= n; i++)
        if (i == 1 || ix->string[i] != ix->string[nrank - 1])
            ix->string[nrank++] = ix->string[i];
    ix->nrank = nrank;
}

static uint32_t rank_of_string(const struct index *ix, const struct strpool *pool, str_id id)
{
    uint32_t lo = 1, hi = ix->nrank;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (compare_text(pool, ix->string[mid], strpool_get(pool, id), strpool_len(pool, id)) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int rank_sites(struct index *ix, const struct source *s, const struct vcol *c)
{
    const struct strpool *pool = store_strings(s->st);
    size_t nsite, n = 0;

    store_sites(s->st, &nsite);
    ix->code = c->u32;
    ix->map_bytes = MAX(nsite, (size_t)1) * sizeof(*ix->map);
    ix->map = mem_map(ix->map_bytes);
    if (!ix->map)
        return OPM_ENOMEM;
    if (c->kind == VCOL_SITE_ID) {
        ix->nrank = 1;
        for (size_t i = 0; i < nsite; i++) {
            ix->map[i] = c->field[i * SITE_STRIDE] + 1; /* OPM_NULL_ID becomes 0 */
            ix->nrank = MAX(ix->nrank, ix->map[i] + 1);
        }
        return 0;
    }
    ix->string = mem_alloc((nsite + 1) * sizeof(*ix->string));
    if (!ix->string)
        return OPM_ENOMEM;
    for (size_t i = 0; i < nsite; i++)
        if (c->field[i * SITE_STRIDE])
            ix->string[++n] = c->field[i * SITE_STRIDE];
    rank_strings(ix, pool, n);
    for (size_t i = 0; i < nsite; i++) {
        str_id id = c->field[i * SITE_STRIDE];

        ix->map[i] = id ? rank_of_string(ix, pool, id) : 0;
    }
    return 0;
}

static int rank_column(struct index *ix, const struct source *s, const struct vcol *c)
{
    const struct strpool *pool = store_strings(s->st);
    size_t nid = strpool_count(pool) + 1, n = 0;

    ix->code = c->u32;
    if (c->kind == VCOL_ID) {
        ix->nrank = 1;
        for (size_t row = 0; row < s->nrow; row++)
            ix->nrank = MAX(ix->nrank, c->u32[row] + 2); /* OPM_NULL_ID becomes 1 */
        return 0;
    }
    ix->map_bytes = nid * sizeof(*ix->map);
    ix->map = mem_map(ix->map_bytes);
    if (!ix->map)
        return OPM_ENOMEM;
    for (size_t row = 0; row < s->nrow; row++) {
        n += c->u32[row] && !ix->map[c->u32[row]];
        ix->map[c->u32[row]] = 1;
    }
    ix->string = mem_alloc((n + 1) * sizeof(*ix->string));
    if (!ix->string)
        return OPM_ENOMEM;
    n = 0;
    for (str_id id = 1; id < nid; id++)
        if (ix->map[id])
            ix->string[++n] = id;
    rank_strings(ix, pool, n);
    ix->map[0] = 0;
    for (uint32_t rank = 1; rank < ix->nrank; rank++)
        ix->map[ix->string[rank]] = rank;
    return 0;
}

int index_get(struct source *s, int col, struct index **out, opm_error *err)
{
    struct vcol *c = &s->col[col];
    struct index *ix;
    int rc = source_column(s, col, err);

    if (rc < 0)
        return rc;
    if (c->index) {
        *out = c->index;
        return 0;
    }
    ix = mem_calloc(1, sizeof(*ix));
    if (!ix)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", s->def->name);
    ix->nrow = s->nrow;
    switch (c->kind) {
    case VCOL_SITE_ID:
    case VCOL_SITE_STR:
        rc = rank_sites(ix, s, c);
        break;
    case VCOL_ID:
    case VCOL_STR:
        rc = rank_column(ix, s, c);
        break;
    default:
        assert(c->kind == VCOL_NULL);
        /* All rows have rank 0: every code is 0 and maps to 0. */
        ix->map_bytes = MAX(s->nrow, (size_t)1) * sizeof(*ix->map);
        ix->map = mem_map(ix->map_bytes);
        ix->code = ix->map;
        ix->nrank = 1;
        rc = ix->map ? 0 : OPM_ENOMEM;
        break;
    }
    if (rc < 0) {
        index_free(ix);
        return opm__fail(err, rc, "%s: out of memory", s->def->name);
    }
    c->index = ix;
    *out = ix;
    return 0;
}

bool index_groups(const struct index *ix)
{
    return ix->nrank <= 16 * ix->nrow + DIGITS;
}

static size_t start_bytes(const struct index *ix)
{
    return ((size_t)ix->nrank + 2) * sizeof(*ix->start);
}

static size_t rows_bytes(const struct index *ix)
{
    return MAX(ix->nrow, (size_t)1) * sizeof(*ix->rows);
}

int index_group(struct source *s, int col, struct index **out, opm_error *err)
{
    struct index *ix;
    uint32_t *start, *rows, *next;
    int rc = index_get(s, col, &ix, err);

    if (rc < 0)
        return rc;
    assert(index_groups(ix));
    if (ix->rows) {
        *out = ix;
        return 0;
    }
    start = mem_map(start_bytes(ix));
    rows = mem_map(rows_bytes(ix));
    if (!start || !rows) {
        if (start)
            mem_unmap(start, start_bytes(ix));
        if (rows)
            mem_unmap(rows, rows_bytes(ix));
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", s->def->name);
    }
    /* Counted two places up, summed one place up: dealing out leaves start[] as it should be. */
    next = start + 1;
    for (size_t row = 0; row < ix->nrow; row++)
        next[index_rank(ix, row) + 1]++;
    for (uint32_t r = 0; r < ix->nrank; r++)
        next[r + 1] += next[r];
    for (size_t row = 0; row < ix->nrow; row++)
        rows[next[index_rank(ix, row)]++] = (uint32_t)row;
    ix->start = start;
    ix->rows = rows;
    *out = ix;
    return 0;
}

void index_free(struct index *ix)
{
    if (!ix)
        return;
    if (ix->rows)
        mem_unmap(ix->rows, rows_bytes(ix));
    if (ix->start)
        mem_unmap(ix->start, start_bytes(ix));
    if (ix->map)
        mem_unmap(ix->map, ix->map_bytes);
    mem_free(ix->string);
    mem_free(ix);
}

bool index_find_str(const struct source *s, const struct index *ix, const char *text, size_t len,
                    uint32_t *rank)
{
    const struct strpool *pool = store_strings(s->st);
    str_id id = strpool_find(pool, text, len);

    if (!id || !ix->string)
        return false;
    *rank = rank_of_string(ix, pool, id);
    return *rank < ix->nrank && ix->string[*rank] == id;
}

bool index_find_id(const struct index *ix, int64_t id, uint32_t *rank)
{
    if (ix->string || id < 0 || id >= (int64_t)ix->nrank - 1)
        return false;
    *rank = (uint32_t)id + 1;
    return true;
}

static inline uint32_t order_key(const struct index_order *o, uint32_t row)
{
    uint32_t rank = index_rank(o->ix, row);

    return o->desc ? o->ix->nrank - 1 - rank : rank;
}

static void insertion_sort(uint32_t *rows, size_t n, const struct index_order *order, int norder)
{
    for (size_t i = 1; i < n; i++) {
        uint32_t row = rows[i];
        size_t j = i;

        for (; j > 0; j--) {
            int k = 0;

            while (k < norder && order_key(&order[k], rows[j - 1]) == order_key(&order[k], row))
                k++;
            if (k == norder || order_key(&order[k], rows[j - 1]) < order_key(&order[k], row))
                break;
            rows[j] = rows[j - 1];
        }
        rows[j] = row;
    }
}

/* One stable pass over a digit of the key. */
static void deal(uint32_t *to, const uint32_t *from, size_t n, const struct index_order *o,
                 unsigned shift, uint32_t *count)
{
    uint32_t sum = 0, used;

    used = (o->ix->nrank - 1) >> shift;
    used = MIN(used, DIGITS - 1) + 1;
    memset(count, 0, used * sizeof(*count));
    for (size_t i = 0; i < n; i++)
        count[(order_key(o, from[i]) >> shift) & (DIGITS - 1)]++;
    for (uint32_t d = 0; d < used; d++) {
        uint32_t c = count[d];

        count[d] = sum;
        sum += c;
    }
    for (size_t i = 0; i < n; i++)
        to[count[(order_key(o, from[i]) >> shift) & (DIGITS - 1)]++] = from[i];
}

uint32_t *index_sort(uint32_t *rows, uint32_t *room, size_t n, const struct index_order *order,
                     int norder)
{
    uint32_t count[DIGITS];

    if (n < INSERT_BELOW) {
        insertion_sort(rows, n, order, norder);
        return rows;
    }
    for (int k = norder - 1; k >= 0; k--) {
        unsigned shift = 0;

        /* Least significant digit first; one digit is the rule. */
        do {
            uint32_t *from = rows;

            deal(room, from, n, &order[k], shift, count);
            rows = room;
            room = from;
            shift += DIGIT_BITS;
        } while (shift < 32 && (order[k].ix->nrank - 1) >> shift);
    }
    return rows;
}
