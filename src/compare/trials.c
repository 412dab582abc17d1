/* trials.c -- see trials.h. */
#include "compare/trials.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "compare/discovery.h"
#include "compare/figure.h"
#include "compare/robust.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VARIANTS 32 /* medians of iterations drawn again, of each process */
#define NEEDED_MARGIN 1.4

const char *const trials_verdict_names[] = { "slower", "faster", "same", "cannot tell",
                                             "one side only" };

/* -- what was measured -- */

void trial_release(struct trial *trial)
{
    mem_free(trial->iteration_ns);
    mem_free(trial->op_ns);
    *trial = (struct trial){ 0 };
}

void trials_release(struct trials *t)
{
    for (size_t s = 0; s < t->nsides; s++) {
        for (size_t i = 0; i < t->n[s]; i++)
            trial_release(&t->trial[s][i]);
        mem_free(t->trial[s]);
    }
    strpool_release(&t->keys);
    mem_free(t->op);
    *t = (struct trials){ 0 };
}

int trials_op(struct trials *t, const struct trials_op *op, size_t *out)
{
    const char *const text[] = { op->name, op->type, op->nodes, op->work };
    struct buf key = { 0 };
    str_id id = 0;
    bool ok;

    for (size_t i = 0; i < ARRAY_SIZE(text); i++) {
        buf_adds(&key, text[i] ? text[i] : "");
        buf_addc(&key, '\0');
    }
    ok = !key.failed && strpool_intern(&t->keys, key.data, key.len, &id) == 0 &&
         GROW(t->op, t->ops_cap, id);
    buf_release(&key);
    if (!ok)
        return OPM_ENOMEM;
    *out = id - 1;
    if (*out == t->nops) {
        const char *at = strpool_get(&t->keys, id), *is[ARRAY_SIZE(text)];

        for (size_t i = 0; i < ARRAY_SIZE(text); i++) {
            is[i] = at;
            at += strlen(at) + 1;
        }
        t->op[t->nops++] = (struct trials_op){ is[0], is[1], is[2], is[3] };
    }
    return 0;
}

int trial_add_op(struct trial *trial, size_t op, double ns)
{
    if (!GROW(trial->op_ns, trial->ops_cap, op + 1))
        return OPM_ENOMEM;
    while (trial->nops <= op)
        trial->op_ns[trial->nops++] = (double)NAN;
    trial->op_ns[op] = isnan(trial->op_ns[op]) ? ns : trial->op_ns[op] + ns;
    return 0;
}

int trials_add(struct trials *t, size_t side, struct trial *trial)
{
    assert(side < t->nsides && trial->n);
    if (!GROW(t->trial[side], t->cap[side], t->n[side] + 1))
        return OPM_ENOMEM;
    t->trial[side][t->n[side]++] = *trial;
    *trial = (struct trial){ 0 };
    return 0;
}

size_t trials_blocks(const struct trials *t)
{
    size_t n = SIZE_MAX;

    for (size_t s = 0; s < t->nsides; s++)
        n = MIN(n, t->n[s] / TRIALS_PER_BLOCK);
    return t->nsides ? n : 0;
}

size_t trials_samples(const struct trials *t, size_t side, const struct trials_options *o)
{
    return o->unpaired ? MIN(t->n[0], t->n[side]) : trials_blocks(t);
}

/* Processes that count: those of complete blocks, or all. */
static void processes_of(const struct trials *t, size_t side, const struct trials_options *o,
                         size_t n[2])
{
    n[0] = o->unpaired ? t->n[0] : trials_blocks(t) * TRIALS_PER_BLOCK;
    n[1] = o->unpaired ? t->n[side] : n[0];
}

/* -- the latency -- */

/* The quantile of the iterations of a process, as measured or drawn again. */
static double process_quantile(const struct trial *p, double q, double *room, uint64_t *state)
{
    for (size_t i = 0; i < p->n; i++)
        room[i] = p->iteration_ns[state ? robust_draw_below(state, p->n) : i];
    return robust_quantile(room, p->n, q);
}

static void iterations_of(const struct trials *t, size_t side, size_t *fewest, size_t *most)
{
    *fewest = SIZE_MAX;
    *most = 0;
    for (size_t s = 0; s <= side; s += side) {
        for (size_t i = 0; i < t->n[s]; i++) {
            *fewest = MIN(*fewest, t->trial[s][i].n);
            *most = MAX(*most, t->trial[s][i].n);
        }
    }
}

static bool latency(const struct trials *t, size_t side, const struct trials_options *o, double q,
                    struct trials_estimate *e)
{
    const size_t sides[2] = { 0, side };
    uint64_t state = o->seed ^ 0x5bd1e995u;
    size_t n[2], fewest, most;
    struct figure f;
    double *room;
    bool ok;

    processes_of(t, side, o, n);
    iterations_of(t, side, &fewest, &most);
    room = mem_calloc(most, sizeof(*room));
    ok = figure_init(&f, n, VARIANTS + 1, o->draws) && room;
    for (int s = 0; s < 2 && ok; s++)
        for (size_t i = 0; i < n[s]; i++)
            for (size_t v = 0; v < f.variants; v++)
                f.ns[s][i * f.variants + v] =
                    process_quantile(&t->trial[sides[s]][i], q, room, v ? &state : NULL);
    if (ok)
        figure_estimate(&f, o, e);
    figure_release(&f);
    mem_free(room);
    return ok;
}

/* -- operators -- */

static double op_ns(const struct trial *p, size_t op)
{
    return op < p->nops ? p->op_ns[op] : (double)NAN;
}

/* The mean of those processes of a side in which it ran. */
static double op_mean_ns(const struct trials *t, size_t side, size_t op)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < t->n[side]; i++) {
        double ns = op_ns(&t->trial[side][i], op);

        sum += isnan(ns) ? 0 : ns;
        n += !isnan(ns);
    }
    return n ? sum / (double)n : (double)NAN;
}

static int align(const struct trials *t, size_t side, struct align *out)
{
    struct align_op *op = mem_calloc(t->nops + 1, sizeof(*op));
    int rc = op ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < t->nops && rc == 0; i++) {
        const struct trials_op *is = &t->op[i];

        op[i] = (struct align_op){
            is->name, is->type, is->nodes, is->work, { op_mean_ns(t, 0, i), op_mean_ns(t, side, i) }
        };
    }
    if (rc == 0)
        rc = align_ops(out, op, t->nops);
    mem_free(op);
    return rc;
}

/* What groups of operators took in each process: [process * groups + group]. */
static double *group_times(const struct trials *t, size_t side, size_t n, const struct align *a)
{
    double *ns = mem_calloc(n * a->n + 1, sizeof(*ns));

    for (size_t i = 0; i < n * a->n && ns; i++)
        ns[i] = (double)NAN;
    for (size_t i = 0; i < n && ns; i++) {
        for (size_t op = 0; op < t->nops; op++) {
            double one = op_ns(&t->trial[side][i], op), *sum;

            if (isnan(one) || a->group_of[op] == ALIGN_NONE)
                continue;
            sum = &ns[i * a->n + a->group_of[op]];
            *sum = isnan(*sum) ? one : *sum + one;
        }
    }
    return ns;
}

static bool operators(const struct trials *t, size_t side, const struct trials_options *o,
                      const struct align *a, struct trials_estimate *e)
{
    const size_t sides[2] = { 0, side };
    double *ns[2] = { NULL, NULL };
    struct figure f;
    size_t n[2];
    bool ok;

    processes_of(t, side, o, n);
    ok = figure_init(&f, n, 1, o->draws);
    f.resolution_ns = TRIALS_RESOLUTION_NS;
    for (int s = 0; s < 2; s++)
        ns[s] = group_times(t, sides[s], n[s], a);
    ok = ok && ns[0] && ns[1];
    for (size_t g = 0; g < a->n && ok; g++) {
        for (int s = 0; s < 2; s++)
            for (size_t i = 0; i < n[s]; i++)
                f.ns[s][i] = ns[s][i * a->n + g];
        e[g].op = g;
        figure_estimate(&f, o, &e[g]);
    }
    figure_release(&f);
    for (int s = 0; s < 2; s++)
        mem_free(ns[s]);
    return ok;
}

/* -- verdicts -- */

static bool has_test(const struct trials_estimate *e)
{
    return !isnan(e->change);
}

/* The whole is one question, whether there are three operators or 400: it has half of what may be
 * false for itself, its operators have the other half. */
#define FALSE_EACH (DISCOVERY_FALSE / 2)

static double threshold(const struct trials_estimate *op, size_t n, double *room)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++)
        if (has_test(&op[i]))
            room[m++] = op[i].p * DISCOVERY_FALSE / FALSE_EACH;
    return discovery_threshold(room, m) * FALSE_EACH / DISCOVERY_FALSE;
}

static void judge(struct trials_estimate *e, double found, const struct trials_options *o)
{
    size_t least = o->unpaired ? TRIALS_RECORDINGS_MIN : TRIALS_BLOCKS_MIN;
    bool one_sign = e->low > 0 || e->high < 0; /* a verdict never contradicts its interval */

    if (!has_test(e))
        return;
    if (e->blocks >= least && e->p <= found && one_sign)
        e->verdict = e->change > 0 ? TRIALS_SLOWER : TRIALS_FASTER;
    else if (e->blocks >= least && e->low >= expm1(-log1p(o->min_effect)) &&
             e->high <= o->min_effect)
        e->verdict = TRIALS_SAME;
    else
        e->verdict = TRIALS_UNSURE;
}

static double moved(const struct trials_estimate *e)
{
    return fabs((isnan(e->ns[1]) ? 0 : e->ns[1]) - (isnan(e->ns[0]) ? 0 : e->ns[0]));
}

static int by_move(const void *a, const void *b)
{
    const struct trials_estimate *x = a, *y = b;
    double dx = moved(x), dy = moved(y);

    if (dx != dy)
        return dx < dy ? 1 : -1;
    return (x->op > y->op) - (x->op < y->op);
}

bool trials_whole(const struct trials *t, size_t side, const struct trials_options *o,
                  struct trials_estimate *out)
{
    out->op = TRIALS_WHOLE;
    if (trials_samples(t, side, o) < 2 || !latency(t, side, o, 0.5, out))
        return false;
    judge(out, FALSE_EACH, o);
    return true;
}

bool trials_tail(const struct trials *t, size_t side, const struct trials_options *o,
                 struct trials_estimate *out)
{
    size_t fewest, most;

    out->op = TRIALS_TAIL_OP;
    if (trials_samples(t, side, o) < 2)
        return false;
    iterations_of(t, side, &fewest, &most);
    if (fewest < TRIALS_TAIL_ITERATIONS || !latency(t, side, o, TRIALS_TAIL, out))
        return false;
    judge(out, DISCOVERY_FALSE, o);
    return true;
}

int trials_compare(const struct trials *t, size_t side, const struct trials_options *o,
                   struct align *aligned, struct trials_estimate **out, size_t *n)
{
    struct trials_estimate *e = NULL;
    double *room = NULL;
    int rc;

    *n = 0;
    *out = NULL;
    if (trials_samples(t, side, o) < 2)
        return OPM_EINVAL;
    rc = align(t, side, aligned);
    if (rc == 0 && o->by_type)
        rc = align_by_type(aligned, t->nops);
    if (rc == 0) {
        e = mem_calloc(aligned->n + 1, sizeof(*e));
        room = mem_calloc(aligned->n + 1, sizeof(*room));
        if (e)
            e->op = TRIALS_WHOLE;
        if (!e || !room || !latency(t, side, o, 0.5, &e[0]) ||
            !operators(t, side, o, aligned, e + 1))
            rc = OPM_ENOMEM;
    }
    if (rc == 0) {
        size_t all = aligned->n + 1;
        double found = threshold(e + 1, aligned->n, room);

        for (size_t i = 0; i < all; i++)
            judge(&e[i], i ? found : FALSE_EACH, o);
        qsort(e + 1, aligned->n, sizeof(*e), by_move);
        *out = e;
        *n = all;
    } else {
        mem_free(e);
    }
    mem_free(room);
    return rc;
}

size_t trials_blocks_needed(const struct trials_estimate *e, const struct trials_options *o)
{
    double least = log1p(o->min_effect), half = (log1p(e->high) - log1p(e->low)) / 2;
    double margin = MAX(fabs(fabs(log1p(e->change)) - least), least / 4) / NEEDED_MARGIN;
    double n = (double)e->blocks * (half / margin) * (half / margin);
    double least_n = o->unpaired ? TRIALS_RECORDINGS_MIN : TRIALS_BLOCKS_MIN;

    return (size_t)MIN(MAX(MAX(ceil(n), (double)e->blocks + 1), least_n), 1e9);
}
