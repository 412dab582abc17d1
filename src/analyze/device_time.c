/* device_time.c -- see device_time.h. */
#include "analyze/device_time.h"

#include "base/alloc.h"
#include "store/correlated.h"

struct pass {
    const struct store *st;
    const struct site *sites;
    const uint32_t *site, *owner, *parent, *step, *record;
    const int64_t *dur, *correlation, *step_warmup, *record_warmup;
    size_t nspan, nop;
    str_id hardware, forward, kernel;
    struct correlated launches;
    int64_t *sum; /* per span: of what it launched, plus 1; 0: nothing */
};

static int columns_get(struct pass *p)
{
    const struct {
        enum table_id table;
        int col;
        const void **to;
    } columns[] = {
        { TABLE_span, span_col_parent, (const void **)&p->parent },
        { TABLE_span, span_col_dur, (const void **)&p->dur },
        { TABLE_span, span_col_correlation, (const void **)&p->correlation },
        { TABLE_span, span_col_step, (const void **)&p->step },
        { TABLE_span, span_col_record, (const void **)&p->record },
        { TABLE_step, step_col_warmup, (const void **)&p->step_warmup },
        { TABLE_record, record_col_warmup, (const void **)&p->record_warmup },
    };

    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        if (store_column(p->st, columns[i].table, columns[i].col, columns[i].to) < 0)
            return OPM_ENOMEM;
    return 0;
}

static bool on_hardware(const struct pass *p, size_t row)
{
    return p->hardware && p->sites[p->site[row]].layer == p->hardware;
}

static uint32_t op_of(const struct pass *p, size_t row)
{
    const struct site *s = &p->sites[p->site[row]];

    if (s->op < p->nop)
        return s->phase == 0 || s->phase == p->forward || s->phase == p->kernel ? s->op
                                                                                : GROUP_NONE;
    return p->owner && p->owner[row] < p->nop ? p->owner[row] : GROUP_NONE;
}

/* Calls that an operator makes are parts of it, too, of a phase of their own. */
static bool executes(const struct pass *p, uint32_t row, uint32_t op)
{
    const struct site *s = &p->sites[p->site[row]];

    return s->op == op && (s->phase == 0 || s->phase == p->forward) && !on_hardware(p, row);
}

/* The execution of op around the launch of a kernel, or OPM_NULL_ID. */
static uint32_t execution(struct pass *p, size_t kernel, uint32_t op)
{
    int64_t c = p->correlation ? p->correlation[kernel] : OPM_NULL_I64;
    uint32_t row = correlated_get(&p->launches, c);

    while (row != OPM_NULL_ID && !executes(p, row, op))
        row = p->parent ? p->parent[row] : OPM_NULL_ID;
    return row;
}

static int add_kernels(struct pass *p, struct device_time *d)
{
    int rc = correlated_find(&p->launches, p->st, CORRELATED_HOST, CORRELATED_LAST);

    for (size_t i = 0; i < p->nspan && rc == 0; i++) {
        uint32_t op = on_hardware(p, i) && p->dur[i] >= 0 ? op_of(p, i) : GROUP_NONE, by;

        if (op == GROUP_NONE)
            continue;
        by = execution(p, i, op);
        if (by == OPM_NULL_ID)
            d->unplaced[op] = true;
        else
            p->sum[by] = add_ns(p->sum[by] ? p->sum[by] : 1, p->dur[i]);
    }
    return rc;
}

static bool counts(const struct pass *p, size_t row)
{
    if (!p->sum[row] || p->dur[row] < 0)
        return false;
    if (p->step && p->step_warmup && p->step[row] != OPM_NULL_ID &&
        p->step_warmup[p->step[row]] == 1)
        return false;
    return !(p->record && p->record_warmup && p->record[row] != OPM_NULL_ID &&
             p->record_warmup[p->record[row]] == 1);
}

static int sort_by_op(const struct pass *p, struct device_time *d)
{
    size_t n = 0, *next = mem_alloc((p->nop + 1) * sizeof(*next));

    for (size_t i = 0; i < p->nspan; i++)
        if (counts(p, i)) {
            d->first[p->sites[p->site[i]].op + 1]++;
            n++;
        }
    d->value_ns = mem_alloc((n + 1) * sizeof(*d->value_ns));
    if (!next || !d->value_ns) {
        mem_free(next);
        return OPM_ENOMEM;
    }
    for (size_t op = 0; op < p->nop; op++) {
        d->first[op + 1] += d->first[op];
        next[op] = d->first[op];
    }
    for (size_t i = 0; i < p->nspan; i++)
        if (counts(p, i))
            d->value_ns[next[p->sites[p->site[i]].op]++] = p->sum[i] - 1;
    mem_free(next);
    return 0;
}

int device_time_find(struct device_time *d, const struct store *st, const uint32_t *owner)
{
    const struct strpool *strings = store_strings(st);
    size_t nsite;
    struct pass p = { .st = st,
                      .sites = store_sites(st, &nsite),
                      .site = store_span_site(st),
                      .owner = owner,
                      .nspan = store_nrow(st, TABLE_span),
                      .nop = store_nrow(st, TABLE_op),
                      .hardware = strpool_find(strings, "hardware", 8),
                      .forward = strpool_find(strings, "forward", 7),
                      .kernel = strpool_find(strings, "kernel", 6) };
    int rc;

    *d = (struct device_time){ .first = mem_calloc(p.nop + 1, sizeof(*d->first)),
                               .unplaced = mem_calloc(p.nop + 1, sizeof(*d->unplaced)) };
    p.sum = mem_map(p.nspan * sizeof(*p.sum));
    rc = d->first && d->unplaced && p.sum ? columns_get(&p) : OPM_ENOMEM;
    if (rc == 0 && p.dur)
        rc = add_kernels(&p, d);
    if (rc == 0 && p.dur)
        rc = sort_by_op(&p, d);
    if (p.sum)
        mem_unmap(p.sum, p.nspan * sizeof(*p.sum));
    correlated_release(&p.launches);
    return rc;
}

void device_time_release(struct device_time *d)
{
    mem_free(d->value_ns);
    mem_free(d->first);
    mem_free(d->unplaced);
    *d = (struct device_time){ 0 };
}
