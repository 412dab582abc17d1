/* history_analyze.c -- where series changed, and what changed there; see history.h. */
#include "catalog/history.h"

#include "base/alloc.h"
#include "base/error.h"
#include "compare/discovery.h"
#include "compare/trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIDE_MAX 100 /* runs on a side of a change that tell about operators */
#define FAR 4.0      /* times the noise: a run that is no longer of its level */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void history_values(const struct history *h, const struct history_series *s, const char *name,
                    const char *type, double *values)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct history_run *run = history_run_at(h, s, i);
        double sum = 0;

        for (size_t k = 0; k < run->nop; k++) {
            const struct history_name *op = &h->op[run->op[k].op];

            if (strcmp(op->type, type) == 0 && (!name || strcmp(op->name, name) == 0))
                sum += run->op[k].ns;
        }
        values[i] = sum > 0 ? sum : (double)NAN;
    }
}

/* -- what changed at a place -- */

/* Times of all operators, or types, of the runs on both sides of a change. */
struct sides {
    size_t from, at, to; /* places */
    size_t keys;
    double *ns; /* keys x (to - from), NAN: it did not run */
    double *room;
};

static bool sides_init(struct sides *t, const struct history_series *s, size_t change, size_t keys)
{
    const struct change *c = &s->change[change].c;

    *t = (struct sides){ .from = 0, .at = c->at, .to = s->n, .keys = keys };
    for (size_t k = 0; k < s->nchange; k++) {
        const struct change *other = &s->change[k].c;

        if (other->end < c->at)
            t->from = MAX(t->from, other->end);
        if (other->at > c->at)
            t->to = MIN(t->to, other->at);
    }
    t->from = MAX(t->from, t->at > SIDE_MAX ? t->at - SIDE_MAX : 0);
    t->to = MIN(t->to, t->at + SIDE_MAX);
    t->ns = mem_calloc(keys * (t->to - t->from) + 1, sizeof(*t->ns));
    t->room = mem_calloc(t->to - t->from + 1, sizeof(*t->room));
    return t->ns && t->room;
}

static void sides_release(struct sides *t)
{
    mem_free(t->ns);
    mem_free(t->room);
}

static void sides_add(struct sides *t, size_t key, size_t place, double ns)
{
    t->ns[key * (t->to - t->from) + place - t->from] += ns;
}

/* The values of a key on one side that are there; how many. */
static size_t side(const struct sides *t, size_t key, bool after, double *out)
{
    size_t n = 0;

    for (size_t i = after ? t->at : t->from; i < (after ? t->to : t->at); i++) {
        double ns = t->ns[key * (t->to - t->from) + i - t->from];

        if (ns > 0)
            out[n++] = ns;
    }
    return n;
}

static struct history_culprit compare(struct sides *t, size_t key)
{
    struct history_culprit c = { .shift = { NAN, NAN, NAN, 1 } };
    size_t na = side(t, key, false, t->room), nb;

    c.before = na ? median(t->room, na) : (double)NAN;
    nb = side(t, key, true, t->room + na);
    c.after = nb ? median(t->room + na, nb) : (double)NAN;
    if (na && nb) {
        if (!shift_of(t->room, na, t->room + na, nb, 1, &c.shift))
            c.shift = (struct shift){ NAN, NAN, NAN, 1 };
    } else if (na + nb == (na ? t->at - t->from : t->to - t->at)) {
        c.shift.p = 0; /* in all runs of one side and in none of the other */
    }
    return c;
}

static double moved(const struct history_culprit *c)
{
    return fabs((isnan(c->after) ? 0 : c->after) - (isnan(c->before) ? 0 : c->before));
}

static int by_move(const void *a, const void *b)
{
    double x = moved(a), y = moved(b);

    return (x < y) - (x > y);
}

/* Certain ones of all keys, named by name_of(). */
static int find_culprits(struct sides *t, const struct history_name *names, bool types,
                         struct history_culprit **out, size_t *nout)
{
    struct history_culprit *c = mem_calloc(t->keys + 1, sizeof(*c));
    double *p = mem_calloc(t->keys + 1, sizeof(*p)), found;
    size_t n = 0;

    if (!c || !p) {
        mem_free(c);
        mem_free(p);
        return OPM_ENOMEM;
    }
    for (size_t k = 0; k < t->keys; k++) {
        c[k] = compare(t, k);
        c[k].name = types ? NULL : names[k].name;
        c[k].type = names[k].type;
        if (moved(&c[k]) < TRIALS_RESOLUTION_NS)
            c[k].shift.p = 1;
        p[k] = c[k].shift.p;
    }
    found = discovery_threshold(p, t->keys);
    for (size_t k = 0; k < t->keys; k++)
        if (c[k].shift.p <= found)
            c[n++] = c[k];
    qsort(c, n, sizeof(*c), by_move);
    mem_free(p);
    *out = c;
    *nout = n;
    return 0;
}

/* Which operators have which type: type_of[op] indexes types[]; *n of them. */
static int list_types(const struct history *h, struct history_name *types, size_t *type_of,
                      size_t *n)
{
    struct strpool ids = { 0 };
    str_id id;
    int rc = 0;

    for (size_t i = 0; i < h->nop && rc == 0; i++) {
        rc = strpool_intern(&ids, h->op[i].type, strlen(h->op[i].type), &id);
        if (rc == 0) {
            type_of[i] = id - 1;
            types[id - 1] = (struct history_name){ NULL, h->op[i].type };
        }
    }
    *n = strpool_count(&ids);
    strpool_release(&ids);
    return rc;
}

static int explain(const struct history *h, struct history_series *s, size_t change,
                   const struct history_name *types, const size_t *type_of, size_t ntypes)
{
    struct history_change *c = &s->change[change];
    struct sides ops = { 0 }, by_type = { 0 };
    bool ok = sides_init(&ops, s, change, h->nop) && sides_init(&by_type, s, change, ntypes);
    int rc = ok ? 0 : OPM_ENOMEM;

    for (size_t i = ops.from; i < ops.to && ok; i++) {
        const struct history_run *run = history_run_at(h, s, i);

        for (size_t k = 0; k < run->nop; k++) {
            sides_add(&ops, run->op[k].op, i, run->op[k].ns);
            sides_add(&by_type, type_of[run->op[k].op], i, run->op[k].ns);
        }
    }
    if (rc == 0)
        rc = find_culprits(&ops, h->op, false, &c->op, &c->nop);
    if (rc == 0)
        rc = find_culprits(&by_type, types, true, &c->type, &c->ntype);
    sides_release(&ops);
    sides_release(&by_type);
    return rc;
}

/* -- all of it -- */

static int analyze_series(const struct history *h, struct history_series *s,
                          const struct changes_options *o, const struct history_name *types,
                          const size_t *type_of, size_t ntypes)
{
    double *value = mem_calloc(s->n, sizeof(*value)), *control = mem_calloc(s->n, sizeof(*control));
    struct changes found = { 0 };
    int rc = value && control ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < s->n && rc == 0; i++) {
        value[i] = history_run_at(h, s, i)->run.median_ns;
        control[i] = history_run_at(h, s, i)->run.loop_ns;
    }
    if (rc == 0)
        rc = changes_find(value, control, s->n, o, &found);
    if (rc == 0) {
        s->change = mem_calloc(found.n + 1, sizeof(*s->change));
        rc = s->change ? 0 : OPM_ENOMEM;
    }
    if (rc == 0) {
        s->nchange = found.n;
        s->noise = found.noise;
        for (size_t k = 0; k < found.n; k++)
            s->change[k].c = found.change[k];
    }
    for (size_t k = 0; k < s->nchange && rc == 0; k++)
        if (s->change[k].c.kind == CHANGE_CODE)
            rc = explain(h, s, k, types, type_of, ntypes);
    mem_free(found.change);
    mem_free(value);
    mem_free(control);
    return rc;
}

int history_analyze(struct history *h, const struct changes_options *o, opm_error *err)
{
    struct history_name *types = mem_calloc(h->nop + 1, sizeof(*types));
    size_t *type_of = mem_calloc(h->nop + 1, sizeof(*type_of)), ntypes = 0;
    int rc = types && type_of ? 0 : OPM_ENOMEM;

    if (rc == 0)
        rc = list_types(h, types, type_of, &ntypes);
    for (size_t i = 0; i < h->nseries && rc == 0; i++)
        rc = analyze_series(h, &h->series[i], o, types, type_of, ntypes);
    mem_free(types);
    mem_free(type_of);
    return rc < 0 ? opm__fail(err, rc, "out of memory") : 0;
}

/* -- the gate -- */

/* Runs at the end that are above their level by more than noise explains, too few to be a change
 * yet. */
static size_t suspects(const struct history *h, const struct history_series *s, size_t since)
{
    size_t from = since, n = 0;
    double limit, *room = mem_calloc(s->n, sizeof(*room)), level;

    for (size_t k = 0; k < s->nchange; k++)
        from = MAX(from, s->change[k].c.end);
    for (size_t i = from; i < s->n && room; i++)
        room[i - from] = history_run_at(h, s, i)->run.median_ns;
    level = room ? median(room, s->n - from) : (double)INFINITY;
    mem_free(room);
    limit = level * exp(FAR * MAX(s->noise, 0.0025));
    while (n < s->n - from && history_run_at(h, s, s->n - 1 - n)->run.median_ns > limit)
        n++;
    return n;
}

struct history_verdict history_judge(const struct history *h, const struct history_series *s,
                                     double min_effect)
{
    struct history_verdict v = {
        .told = HISTORY_GOOD, .change = SIZE_MAX, .size = 0, .low = 0, .high = 0
    };
    double low = 1, high = 1, size = 1;

    for (size_t i = 0; i < s->n; i++)
        if (history_run_at(h, s, i)->run.accepted > 0)
            v.since = i;
    for (size_t k = 0; k < s->nchange; k++) {
        const struct change *c = &s->change[k].c;

        if (c->kind != CHANGE_CODE || c->at <= v.since)
            continue;
        size *= 1 + c->size;
        low *= 1 + c->low;
        high *= 1 + c->high;
        if (c->size > 0)
            v.change = k;
    }
    v.size = size - 1;
    v.low = low - 1;
    v.high = high - 1;
    if (v.change != SIZE_MAX && v.size > min_effect) {
        v.told = HISTORY_WORSE;
    } else if (s->n < 2 * CHANGES_LEAST) {
        v.told = HISTORY_UNTOLD;
        v.needed = 2 * CHANGES_LEAST - s->n;
    } else {
        size_t n = suspects(h, s, v.since);

        if (n > 0 && n < CHANGES_LEAST) {
            v.told = HISTORY_UNTOLD;
            v.needed = CHANGES_LEAST - n;
        }
    }
    return v;
}
