/* step_list.c -- see step_list.h.
 *
 * Finding steps by repetition: on the track with most operators, in the sequence of outermost ones,
 * an operator opens a step if the stretches between its executions mostly have the same content.
 * Among those the one with the longest stretches wins, for layers repeat inside a step. */
#include "analyze/step_list.h"

#include "analyze/groups.h"
#include "analyze/span_class.h"
#include "base/alloc.h"
#include "base/error.h"

#include <stdlib.h>

#define CANDIDATES 64   /* operators tried as the first of a step */
#define STRETCHES_MIN 3 /* of equal content */
#define COVER_MIN 0.6   /* share of the sequence that they must make up */

/* One executed operator. */
struct exec {
    uint32_t name; /* str_id */
    int64_t from_ns, to_ns;
};

struct sequence {
    struct exec *at;
    size_t n, cap;
};

static int marked(struct step_list *l, const struct store *st)
{
    size_t n = store_nrow(st, TABLE_step);

    l->row = mem_alloc((n + 1) * sizeof(*l->row));
    if (!l->row)
        return OPM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct cell track = store_cell(st, TABLE_step, i, step_col_track);
        struct cell model = store_cell(st, TABLE_step, i, step_col_model);
        int64_t ts = store_i64_or(st, TABLE_step, i, step_col_ts, 0);
        int64_t dur = store_i64_or(st, TABLE_step, i, step_col_dur, -1);

        if (dur < 0)
            continue;
        l->row[l->n++] = (struct step_row){
            .step = (uint32_t)i,
            .model = cell_text_id(model),
            .num = store_i64_or(st, TABLE_step, i, step_col_num, OPM_NULL_I64),
            .from_ns = ts,
            .to_ns = add_ns(ts, dur),
            .rank = track.kind == CELL_I64 ? store_i64_or(st, TABLE_track, (size_t)track.i64,
                                                          track_col_rank, OPM_NULL_I64)
                                           : OPM_NULL_I64,
            .warmup = store_i64_or(st, TABLE_step, i, step_col_warmup, 0) == 1,
        };
    }
    return 0;
}

static bool is_operator(uint8_t class)
{
    return class == CLASS_OPERATOR || class == CLASS_COMPUTE;
}

/* The outermost operators of the track that has most spans of operators. */
static int sequence_get(struct sequence *s, uint32_t *best, const struct store *st)
{
    size_t n = store_nrow(st, TABLE_span), ntrack = store_nrow(st, TABLE_track), nsite;
    const struct site *site = store_sites(st, &nsite);
    const uint32_t *span_site = store_span_site(st), *track;
    size_t *count = mem_calloc(ntrack + 1, sizeof(*count));
    uint8_t *class = span_classes(st);
    const void *ts, *dur, *tracks;
    int64_t last = INT64_MIN;
    int rc = OPM_ENOMEM;

    if (!count || !class || store_column(st, TABLE_span, span_col_ts, &ts) ||
        store_column(st, TABLE_span, span_col_dur, &dur) ||
        store_column(st, TABLE_span, span_col_track, &tracks))
        goto out;
    rc = 0;
    track = tracks;
    *best = 0;
    for (size_t i = 0; tracks && i < n; i++)
        if (is_operator(class[span_site[i]]) && track[i] < ntrack &&
            ++count[track[i]] > count[*best])
            *best = track[i];
    for (size_t i = 0; tracks && rc == 0 && i < n; i++) {
        int64_t from = ((const int64_t *)ts)[i], length = ((const int64_t *)dur)[i];

        if (track[i] != *best || !is_operator(class[span_site[i]]) || length < 0 || from < last)
            continue;
        if (!GROW(s->at, s->cap, s->n + 1))
            rc = OPM_ENOMEM;
        else
            s->at[s->n++] =
                (struct exec){ site[span_site[i]].name, from, last = add_ns(from, length) };
    }
out:
    mem_free(class);
    mem_free(count);
    return rc;
}

/* Content of stretches, and how often each occurs. */
struct content {
    uint64_t hash;
    size_t length, count;
};

/* The most frequent content of the stretches that start with `name`. */
static struct content usual_content(const struct sequence *s, uint32_t name)
{
    struct content seen[8] = { 0 }, none = { 0 }, *best = &none, now = { 0 };
    bool inside = false;

    for (size_t i = 0; i <= s->n; i++) {
        if (i == s->n || s->at[i].name == name) {
            for (size_t k = 0; inside && k < ARRAY_SIZE(seen); k++) {
                if (seen[k].count && (seen[k].hash != now.hash || seen[k].length != now.length))
                    continue;
                seen[k] = (struct content){ now.hash, now.length, seen[k].count + 1 };
                if (seen[k].count > best->count)
                    best = &seen[k];
                break;
            }
            inside = true;
            now = (struct content){ 0 };
        }
        if (i < s->n && inside) {
            now.hash = (now.hash ^ s->at[i].name) * 0x9e3779b97f4a7c15u;
            now.length++;
        }
    }
    return *best;
}

static uint32_t opener(const struct sequence *s)
{
    uint32_t tried[CANDIDATES], best = 0;
    size_t ntried = 0, longest = 0;

    for (size_t i = 0; i < s->n && ntried < CANDIDATES; i++) {
        struct content c;
        bool known = false;

        for (size_t k = 0; k < ntried; k++)
            known |= tried[k] == s->at[i].name;
        if (known)
            continue;
        tried[ntried++] = s->at[i].name;
        c = usual_content(s, s->at[i].name);
        if (c.count >= STRETCHES_MIN && c.length > longest &&
            (double)(c.length * c.count) >= COVER_MIN * (double)s->n) {
            longest = c.length;
            best = s->at[i].name;
        }
    }
    return best;
}

/* Each found step ends with its last operator. */
static int found(struct step_list *l, const struct store *st)
{
    struct sequence s = { 0 };
    int rc = sequence_get(&s, &l->track, st);
    uint32_t first = rc == 0 ? opener(&s) : 0;
    size_t cap = 0;

    for (size_t i = 0; rc == 0 && first && i < s.n; i++) {
        if (s.at[i].name == first) {
            if (!GROW(l->row, cap, l->n + 1)) {
                rc = OPM_ENOMEM;
                break;
            }
            l->row[l->n] = (struct step_row){ .step = OPM_NULL_ID,
                                              .num = (int64_t)l->n,
                                              .from_ns = s.at[i].from_ns,
                                              .rank = OPM_NULL_I64 };
            l->n++;
        }
        if (l->n)
            l->row[l->n - 1].to_ns = s.at[i].to_ns;
    }
    l->found = l->n > 0;
    mem_free(s.at);
    return rc;
}

int step_list_get(struct step_list *l, const struct store *st)
{
    *l = (struct step_list){ .track = OPM_NULL_ID };
    return store_nrow(st, TABLE_step) ? marked(l, st) : found(l, st);
}

void step_list_release(struct step_list *l)
{
    mem_free(l->row);
    *l = (struct step_list){ 0 };
}

size_t step_list_at(const struct step_list *l, int64_t ts_ns)
{
    size_t low = 0, high = l->n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (l->row[mid].from_ns <= ts_ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low && ts_ns < l->row[low - 1].to_ns ? low - 1 : l->n;
}

static int by_rank(const void *va, const void *vb)
{
    const struct step_row *a = *(const struct step_row *const *)va;
    const struct step_row *b = *(const struct step_row *const *)vb;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->from_ns < b->from_ns ? -1 : a->from_ns > b->from_ns;
}

int steps_by_rank_get(struct steps_by_rank *s, const struct step_list *l)
{
    s->row = mem_alloc((l->n + 1) * sizeof(*s->row));
    s->n = s->row ? l->n : 0;
    for (size_t i = 0; i < s->n; i++)
        s->row[i] = &l->row[i];
    if (s->n)
        qsort(s->row, s->n, sizeof(*s->row), by_rank);
    return s->row ? 0 : OPM_ENOMEM;
}

void steps_by_rank_release(struct steps_by_rank *s)
{
    mem_free(s->row);
    *s = (struct steps_by_rank){ 0 };
}

const struct step_row *steps_by_rank_at(const struct steps_by_rank *s, int64_t rank, int64_t ts_ns)
{
    const struct step_row key = { .rank = rank, .from_ns = ts_ns }, *k = &key;
    size_t from = 0, to = s->n;

    while (from < to) {
        size_t mid = from + (to - from) / 2;

        if (by_rank(&s->row[mid], &k) <= 0)
            from = mid + 1;
        else
            to = mid;
    }
    return from && s->row[from - 1]->rank == rank ? s->row[from - 1] : NULL;
}
