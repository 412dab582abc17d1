/* trials.c -- see trials.h. */
#include "compare/trials.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "compare/discovery.h"
#include "compare/student.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRIMMED 0.2 /* share of blocks left out at each end */
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

int trials_op(struct trials *t, const char *name, const char *type, size_t *out)
{
    struct buf key = { 0 };
    str_id id = 0;
    bool ok;

    buf_adds(&key, name ? name : "");
    buf_addc(&key, '\0');
    buf_adds(&key, type ? type : "");
    ok = !key.failed && strpool_intern(&t->keys, key.data, key.len, &id) == 0 &&
         GROW(t->op, t->ops_cap, id);
    buf_release(&key);
    if (!ok)
        return OPM_ENOMEM;
    *out = id - 1;
    if (*out == t->nops) {
        const char *text = strpool_get(&t->keys, id);

        t->op[t->nops++] = (struct trials_op){ text, text + strlen(text) + 1 };
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

/* -- small statistics -- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_sorted(const double *v, size_t n)
{
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return median_sorted(v, n);
}

static size_t trimmed_at_end(size_t n)
{
    return (size_t)((double)n * TRIMMED);
}

/* v is sorted by it. */
static double trimmed_mean(double *v, size_t n)
{
    size_t g = trimmed_at_end(n);
    double sum = 0;

    qsort(v, n, sizeof(*v), by_value);
    for (size_t i = g; i < n - g; i++)
        sum += v[i];
    return sum / (double)(n - 2 * g);
}

/* The standard error of the trimmed mean of sorted values: that of values whose ends were drawn in
 * to the last that counts. */
static double trimmed_error(const double *v, size_t n)
{
    size_t g = trimmed_at_end(n);
    double mean = 0, squares = 0;

    for (size_t i = 0; i < n; i++)
        mean += v[MIN(MAX(i, g), n - 1 - g)] / (double)n;
    for (size_t i = 0; i < n; i++) {
        double d = v[MIN(MAX(i, g), n - 1 - g)] - mean;

        squares += d * d;
    }
    return sqrt(squares / (double)(n - 1) / (double)n) / (1 - 2 * (double)g / (double)n);
}

static uint64_t draw(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t draw_below(uint64_t *state, size_t n)
{
    return (size_t)((draw(state) >> 32) * n >> 32);
}

/* -- one figure, block by block -- */

/* What blocks say: variants[0] as measured, the others with iterations drawn again. */
struct blocks {
    double *log_ratio; /* n * variants */
    size_t n, variants;
    double *room; /* n: for a draw */
    double *drawn;
};

static void blocks_release(struct blocks *b)
{
    mem_free(b->log_ratio);
    mem_free(b->room);
    mem_free(b->drawn);
}

static bool blocks_init(struct blocks *b, size_t n, size_t variants, int draws)
{
    *b = (struct blocks){ .variants = variants };
    b->log_ratio = mem_calloc(n * variants, sizeof(*b->log_ratio));
    b->room = mem_calloc(n, sizeof(*b->room));
    b->drawn = mem_calloc((size_t)draws, sizeof(*b->drawn));
    return b->log_ratio && b->room && b->drawn;
}

/* Where log ratios are so far apart that draws of them lie below share `tail` of all. */
static void interval(struct blocks *b, uint64_t *state, int draws, double *low, double *high)
{
    double n = (double)b->n, tail, at;
    size_t k;

    for (int i = 0; i < draws; i++) {
        for (size_t j = 0; j < b->n; j++)
            b->room[j] = b->log_ratio[draw_below(state, b->n) * b->variants +
                                      (b->variants > 1 ? draw_below(state, b->variants) : 0)];
        b->drawn[i] = trimmed_mean(b->room, b->n);
    }
    qsort(b->drawn, (size_t)draws, sizeof(*b->drawn), by_value);
    tail = normal_above(sqrt(n / (n - 1)) * student_bound(0.025, n - 1));
    at = floor(tail * draws);
    k = at > 0 ? (size_t)at : 0;
    *low = expm1(b->drawn[k]);
    *high = expm1(b->drawn[(size_t)draws - 1 - k]);
}

static void estimate(struct blocks *b, const struct trials_options *o, struct trials_estimate *e)
{
    double least = log1p(o->min_effect), mean, error;
    uint64_t state = o->seed;

    for (size_t i = 0; i < b->n; i++)
        b->room[i] = b->log_ratio[i * b->variants];
    mean = trimmed_mean(b->room, b->n);
    error = trimmed_error(b->room, b->n);
    e->blocks = b->n;
    e->change = expm1(mean);
    if (error > 0)
        e->p = MIN(1, 2 * student_above((fabs(mean) - least) / error,
                                        (double)(b->n - 2 * trimmed_at_end(b->n) - 1)));
    else
        e->p = fabs(mean) > least ? 0 : 1;
    interval(b, &state, o->draws, &e->low, &e->high);
    /* An estimate is never outside of its interval. */
    e->low = MIN(e->low, e->change);
    e->high = MAX(e->high, e->change);
}

/* -- the latency -- */

static double process_median(const struct trial *p, double *room, uint64_t *state)
{
    for (size_t i = 0; i < p->n; i++)
        room[i] = p->iteration_ns[state ? draw_below(state, p->n) : i];
    return median(room, p->n);
}

static size_t longest(const struct trials *t, size_t side)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n[0]; i++)
        n = MAX(n, t->trial[0][i].n);
    for (size_t i = 0; i < t->n[side]; i++)
        n = MAX(n, t->trial[side][i].n);
    return n;
}

/* Of all processes; *room has at least as many. */
static double median_over(const struct trials *t, size_t side, size_t nblocks, double *iterations,
                          double *room)
{
    size_t n = nblocks * TRIALS_PER_BLOCK;

    for (size_t i = 0; i < n; i++)
        room[i] = process_median(&t->trial[side][i], iterations, NULL);
    return median(room, n);
}

static bool whole(const struct trials *t, size_t side, const struct trials_options *o,
                  struct trials_estimate *e)
{
    size_t n = trials_blocks(t);
    const size_t sides[2] = { 0, side };
    double *iterations = mem_calloc(longest(t, side), sizeof(double));
    double *processes = mem_calloc(n * TRIALS_PER_BLOCK, sizeof(double));
    uint64_t state = o->seed ^ 0x5bd1e995u;
    struct blocks b;
    bool ok = blocks_init(&b, n, VARIANTS + 1, o->draws) && iterations && processes;

    *e = (struct trials_estimate){ .op = TRIALS_WHOLE };
    for (size_t i = 0; i < n && ok; i++) {
        for (size_t v = 0; v < b.variants; v++) {
            double sum[2] = { 0, 0 };

            for (int s = 0; s < 2; s++)
                for (size_t k = 0; k < TRIALS_PER_BLOCK; k++)
                    sum[s] += process_median(&t->trial[sides[s]][i * TRIALS_PER_BLOCK + k],
                                             iterations, v ? &state : NULL);
            b.log_ratio[i * b.variants + v] = log(sum[1] / sum[0]);
        }
    }
    if (ok) {
        b.n = n;
        for (int s = 0; s < 2; s++)
            e->ns[s] = median_over(t, sides[s], n, iterations, processes);
        estimate(&b, o, e);
    }
    blocks_release(&b);
    mem_free(iterations);
    mem_free(processes);
    return ok;
}

/* -- an operator -- */

static double op_ns(const struct trial *p, size_t op)
{
    return op < p->nops ? p->op_ns[op] : (double)NAN;
}

static void one_operator(const struct trials *t, size_t side, size_t op,
                         const struct trials_options *o, struct blocks *b, double *processes,
                         struct trials_estimate *e)
{
    size_t n = trials_blocks(t);
    const size_t sides[2] = { 0, side };

    *e = (struct trials_estimate){ .op = op, .change = NAN, .low = NAN, .high = NAN, .p = 1 };
    for (int s = 0; s < 2; s++) {
        size_t ran = 0;

        for (size_t i = 0; i < n * TRIALS_PER_BLOCK; i++) {
            double ns = op_ns(&t->trial[sides[s]][i], op);

            if (!isnan(ns))
                processes[ran++] = ns;
        }
        e->ns[s] = ran ? median(processes, ran) : (double)NAN;
    }
    b->n = 0;
    for (size_t i = 0; i < n; i++) {
        double sum[2] = { 0, 0 };

        for (int s = 0; s < 2; s++)
            for (size_t k = 0; k < TRIALS_PER_BLOCK; k++)
                sum[s] += op_ns(&t->trial[sides[s]][i * TRIALS_PER_BLOCK + k], op);
        if (sum[0] > 0 && sum[1] > 0)
            b->log_ratio[b->n++] = log(sum[1] / sum[0]);
    }
    if (isnan(e->ns[0]) || isnan(e->ns[1]))
        e->verdict = TRIALS_ONE_SIDED;
    else if (b->n < 2)
        e->verdict = TRIALS_UNSURE;
    else
        estimate(b, o, e);
}

/* -- verdicts -- */

static bool has_test(const struct trials_estimate *e)
{
    return !isnan(e->change);
}

static double threshold(const struct trials_estimate *e, size_t n, double *room)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++)
        if (has_test(&e[i]))
            room[m++] = e[i].p;
    return discovery_threshold(room, m);
}

static void judge(struct trials_estimate *e, double found, double min_effect)
{
    if (!has_test(e))
        return;
    if (e->blocks >= TRIALS_BLOCKS_MIN && e->p <= found)
        e->verdict = e->change > 0 ? TRIALS_SLOWER : TRIALS_FASTER;
    else if (e->blocks >= TRIALS_BLOCKS_MIN && e->low >= expm1(-log1p(min_effect)) &&
             e->high <= min_effect)
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
    if (trials_blocks(t) < 2 || !whole(t, side, o, out))
        return false;
    judge(out, DISCOVERY_FALSE, o->min_effect);
    return true;
}

int trials_compare(const struct trials *t, size_t side, const struct trials_options *o,
                   struct trials_estimate **out, size_t *n)
{
    size_t blocks = trials_blocks(t);
    struct trials_estimate *e;
    struct blocks b;
    double *room, *processes, found;
    bool ok;

    *n = 0;
    *out = NULL;
    if (blocks < 2)
        return OPM_EINVAL;
    e = mem_calloc(t->nops + 1, sizeof(*e));
    room = mem_calloc(t->nops + 1, sizeof(*room));
    processes = mem_calloc(blocks * TRIALS_PER_BLOCK, sizeof(*processes));
    ok = blocks_init(&b, blocks, 1, o->draws) && e && room && processes && whole(t, side, o, &e[0]);
    if (ok) {
        size_t kept = 1;

        for (size_t i = 0; i < t->nops; i++) {
            one_operator(t, side, i, o, &b, processes, &e[kept]);
            kept += !isnan(e[kept].ns[0]) || !isnan(e[kept].ns[1]); /* else a third side's */
        }
        found = threshold(e, kept, room);
        for (size_t i = 0; i < kept; i++)
            judge(&e[i], found, o->min_effect);
        qsort(e + 1, kept - 1, sizeof(*e), by_move);
        *out = e;
        *n = kept;
    } else {
        mem_free(e);
    }
    blocks_release(&b);
    mem_free(room);
    mem_free(processes);
    return ok ? 0 : OPM_ENOMEM;
}

size_t trials_blocks_needed(const struct trials_estimate *e, const struct trials_options *o)
{
    double least = log1p(o->min_effect), half = (log1p(e->high) - log1p(e->low)) / 2;
    double margin = MAX(fabs(fabs(log1p(e->change)) - least), least / 4) / NEEDED_MARGIN;
    double n = (double)e->blocks * (half / margin) * (half / margin);

    return (size_t)MIN(MAX(MAX(ceil(n), (double)e->blocks + 1), (double)TRIALS_BLOCKS_MIN), 1e9);
}
