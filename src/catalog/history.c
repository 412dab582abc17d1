/* history.c -- see history.h. */
#include "catalog/history.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TEXT_MAX 1000
#define RUNS_MAX 1000000
#define OPS_MAX 50000000 /* rows */
#define NAMES_MAX 100000

/* -- reading -- */

struct reading {
    struct history *h;
    const struct history_filter *filter;
    struct strpool ids; /* of runs, in the order of history.run */
    struct buf *labels; /* of each */
    bool *match;        /* nlabel of each: has it the label? */
    size_t nops;
};

static const char *keep(struct history *h, const char *text)
{
    return text ? arena_strndup(&h->text, text, strnlen(text, TEXT_MAX)) : NULL;
}

static bool is_asked(const struct history_filter *f, const char *model)
{
    return !f->model || (model && strcasestr(model, f->model));
}

/* Nothing that is printed or computed with may be absurd. */
static bool makes_sense(const struct kept_run *run)
{
    return run->id && run->id[0] && run->median_ns > 0 && run->median_ns < 1e18 &&
           run->began_ns > 0;
}

static int on_run(void *user, const struct kept_run *row)
{
    struct reading *r = user;
    struct history *h = r->h;
    struct kept_run *run;
    str_id id;

    if (!makes_sense(row)) {
        h->skipped++;
        return 0;
    }
    if (!is_asked(r->filter, row->model) || h->n == RUNS_MAX)
        return 0;
    if (strpool_find(&r->ids, row->id, strlen(row->id))) {
        h->skipped++; /* only a file that somebody wrote by hand has two */
        return 0;
    }
    if (!GROW(h->run, h->cap, h->n + 1) ||
        strpool_intern(&r->ids, row->id, strlen(row->id), &id) < 0)
        return OPM_ENOMEM;
    h->run[h->n] = (struct history_run){ .run = *row, .labels = "" };
    run = &h->run[h->n++].run;
    run->sketch = (struct kept_bytes){ NULL, 0 };
#define TEXT(column) run->column = keep(h, row->column)
    TEXT(id), TEXT(model), TEXT(model_hash), TEXT(engine), TEXT(engine_version), TEXT(machine);
    TEXT(host), TEXT(sizes), TEXT(version), TEXT(commit_id), TEXT(basis), TEXT(trace);
#undef TEXT
    return run->id ? 0 : OPM_ENOMEM;
}

static bool index_of(const struct reading *r, const char *id, size_t *out)
{
    str_id found = id ? strpool_find(&r->ids, id, strlen(id)) : 0;

    *out = found - 1;
    return found != 0;
}

static int on_label(void *user, const struct kept_label *row)
{
    struct reading *r = user;
    size_t run;

    if (!row->key || !row->value || !index_of(r, row->run, &run))
        return 0;
    buf_addf(&r->labels[run], "%s%.200s=%.200s", r->labels[run].len ? " " : "", row->key,
             row->value);
    for (size_t i = 0; i < r->filter->nlabel; i++)
        r->match[run * r->filter->nlabel + i] |= strcmp(r->filter->label[i].key, row->key) == 0 &&
                                                 strcmp(r->filter->label[i].value, row->value) == 0;
    return 0;
}

static int op_index(struct history *h, const char *name, const char *type, uint32_t *out)
{
    struct buf key = { 0 };
    str_id id = 0;
    bool ok;

    buf_add(&key, name, strnlen(name, TEXT_MAX));
    buf_addc(&key, '\0');
    buf_add(&key, type, strnlen(type, TEXT_MAX));
    ok = !key.failed && strpool_intern(&h->keys, key.data, key.len, &id) == 0 &&
         GROW(h->op, h->op_cap, id);
    buf_release(&key);
    if (!ok)
        return OPM_ENOMEM;
    *out = id - 1;
    if (*out == h->nop) {
        const char *text = strpool_get(&h->keys, id);

        h->op[h->nop++] = (struct history_name){ text, text + strlen(text) + 1 };
    }
    return 0;
}

static int on_op(void *user, const struct kept_op *row)
{
    struct reading *r = user;
    struct history_run *run;
    uint32_t op;
    size_t at;

    if (!index_of(r, row->run, &at))
        return 0;
    if (!row->name || !row->type || !(row->iteration_ns > 0) || row->iteration_ns > 1e18 ||
        r->h->nop >= NAMES_MAX) {
        r->h->skipped++;
        return 0;
    }
    if (r->nops++ > OPS_MAX)
        return OPM_ELIMIT;
    run = &r->h->run[at];
    if (op_index(r->h, row->name, row->type, &op) < 0 || !GROW(run->op, run->op_cap, run->nop + 1))
        return OPM_ENOMEM;
    run->op[run->nop++] = (struct history_op){ op, row->iteration_ns };
    return 0;
}

/* Runs without a label that was asked for go. */
static void drop_unasked(struct reading *r)
{
    struct history *h = r->h;
    size_t kept = 0;

    for (size_t i = 0; i < h->n; i++) {
        bool asked = true;

        for (size_t k = 0; k < r->filter->nlabel; k++)
            asked &= r->match[i * r->filter->nlabel + k];
        if (asked)
            h->run[kept++] = h->run[i];
        else
            mem_free(h->run[i].op);
    }
    h->n = kept;
}

static int text_order(const char *a, const char *b)
{
    if (!a || !b)
        return (a != NULL) - (b != NULL);
    return strcmp(a, b);
}

static int number_order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* 0: they can be compared. */
static int series_order(const struct kept_run *a, const struct kept_run *b)
{
    int by = text_order(a->model, b->model);

    if (!by)
        by = text_order(a->engine, b->engine);
    if (!by)
        by = text_order(a->machine, b->machine);
    if (!by)
        by = number_order(a->threads, b->threads);
    if (!by)
        by = number_order(a->batch, b->batch);
    if (!by)
        by = text_order(a->sizes, b->sizes);
    return by ? by : text_order(a->basis, b->basis);
}

static int by_series_and_time(const void *pa, const void *pb)
{
    const struct kept_run *a = &((const struct history_run *)pa)->run,
                          *b = &((const struct history_run *)pb)->run;
    int by = series_order(a, b);

    if (!by)
        by = number_order(a->began_ns, b->began_ns);
    return by ? by : strcmp(a->id, b->id);
}

static int make_series(struct history *h)
{
    struct history_series *s = NULL;

    if (h->n)
        qsort(h->run, h->n, sizeof(*h->run), by_series_and_time);
    for (size_t i = 0; i < h->n; i++) {
        if (i == 0 || series_order(&h->run[i - 1].run, &h->run[i].run) != 0) {
            if (!GROW(h->series, h->series_cap, h->nseries + 1))
                return OPM_ENOMEM;
            s = &h->series[h->nseries++];
            *s = (struct history_series){ 0 };
        }
        if (!GROW(s->run, s->cap, s->n + 1))
            return OPM_ENOMEM;
        s->run[s->n++] = i;
    }
    return 0;
}

static int read_all(struct reading *r, struct runsdb *db, opm_error *err)
{
    struct history *h = r->h;
    int rc = runsdb_each_run(db, on_run, r, err);

    if (rc == 0) {
        r->labels = mem_calloc(h->n + 1, sizeof(*r->labels));
        r->match = mem_calloc(h->n * r->filter->nlabel + 1, sizeof(*r->match));
        rc = r->labels && r->match ? runsdb_each_label(db, on_label, r, err) : OPM_ENOMEM;
    }
    for (size_t i = 0; i < h->n && rc == 0; i++) {
        if (r->labels[i].len)
            h->run[i].labels = keep(h, buf_str(&r->labels[i]));
        rc = h->run[i].labels ? 0 : OPM_ENOMEM;
    }
    if (rc == 0)
        rc = runsdb_each_op(db, on_op, r, err);
    return rc;
}

int history_read(struct history *h, struct runsdb *db, const struct history_filter *filter,
                 opm_error *err)
{
    struct reading r = { .h = h, .filter = filter };
    opm_error own = { 0 };
    int rc = read_all(&r, db, &own);

    for (size_t i = 0; r.labels && i < h->n; i++)
        buf_release(&r.labels[i]);
    if (rc == 0) {
        drop_unasked(&r);
        rc = make_series(h);
    }
    strpool_release(&r.ids);
    mem_free(r.labels);
    mem_free(r.match);
    if (rc == 0)
        return 0;
    if (own.code)
        return opm__fail(err, rc, "%s", own.msg);
    return rc == OPM_ELIMIT ? opm__fail(err, rc, "there are more than %d operators", OPS_MAX)
                            : opm__fail(err, rc, "out of memory");
}

void history_release(struct history *h)
{
    for (size_t i = 0; i < h->n; i++)
        mem_free(h->run[i].op);
    for (size_t i = 0; i < h->nseries; i++) {
        struct history_series *s = &h->series[i];

        for (size_t k = 0; k < s->nchange; k++) {
            mem_free(s->change[k].type);
            mem_free(s->change[k].op);
        }
        mem_free(s->change);
        mem_free(s->run);
    }
    mem_free(h->run);
    mem_free(h->series);
    mem_free(h->op);
    strpool_release(&h->keys);
    arena_release(&h->text);
    *h = (struct history){ 0 };
}
