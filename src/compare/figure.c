/* figure.c -- see figure.h. */
#include "compare/figure.h"

#include "base/alloc.h"
#include "compare/robust.h"
#include "compare/student.h"

#include <math.h>
#include <stdlib.h>

bool figure_init(struct figure *f, const size_t n[2], size_t variants, int draws)
{
    bool ok;

    *f = (struct figure){ .n = { n[0], n[1] }, .variants = variants };
    f->drawn = mem_calloc((size_t)draws, sizeof(*f->drawn));
    ok = f->drawn;
    for (int s = 0; s < 2; s++) {
        f->ns[s] = mem_calloc(n[s] * variants, sizeof(*f->ns[s]));
        f->log[s] = mem_calloc(n[s] * variants, sizeof(*f->log[s]));
        f->room[s] = mem_calloc(n[s], sizeof(*f->room[s]));
        ok = ok && f->ns[s] && f->log[s] && f->room[s];
    }
    return ok;
}

void figure_release(struct figure *f)
{
    for (int s = 0; s < 2; s++) {
        mem_free(f->ns[s]);
        mem_free(f->log[s]);
        mem_free(f->room[s]);
    }
    mem_free(f->drawn);
    *f = (struct figure){ 0 };
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* -- samples: logarithms of ratios of blocks, or of the processes of either side -- */

struct samples {
    size_t n[2]; /* of blocks only the first; else of either side */
    int sides;
};

/* A block counts if its processes all have the figure. */
static struct samples take_blocks(struct figure *f)
{
    struct samples out = { .sides = 1 };
    size_t v = f->variants;

    for (size_t i = 0; i + TRIALS_PER_BLOCK <= MIN(f->n[0], f->n[1]); i += TRIALS_PER_BLOCK) {
        bool there = true;

        for (size_t k = 0; k < v && there; k++) {
            double sum[2] = { 0, 0 };

            for (int s = 0; s < 2; s++)
                for (size_t j = 0; j < TRIALS_PER_BLOCK; j++)
                    sum[s] += f->ns[s][(i + j) * v + k];
            there = sum[0] > 0 && sum[1] > 0;
            f->log[0][out.n[0] * v + k] = there ? log(sum[1] / sum[0]) : 0;
        }
        out.n[0] += there;
    }
    return out;
}

static struct samples take_processes(struct figure *f)
{
    struct samples out = { .sides = 2 };
    size_t v = f->variants;

    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < f->n[s]; i++) {
            bool there = true;

            for (size_t k = 0; k < v && there; k++) {
                there = f->ns[s][i * v + k] > 0;
                f->log[s][out.n[s] * v + k] = there ? log(f->ns[s][i * v + k]) : 0;
            }
            out.n[s] += there;
        }
    }
    return out;
}

/* -- estimate, test and interval -- */

/* The mean of samples, its error, and what that error is known from. */
struct known {
    double mean, error, freedom;
    double wider; /* than draws of so few samples are apart */
};

static struct known know(struct figure *f, int side, size_t n)
{
    struct known k = { .freedom = (double)(n - 2 * robust_trimmed(n) - 1) };

    for (size_t i = 0; i < n; i++)
        f->room[side][i] = f->log[side][i * f->variants];
    k.mean = robust_mean(f->room[side], n);
    k.error = robust_error(f->room[side], n);
    k.wider = sqrt((double)n / (double)(n - 1));
    return k;
}

/* B's mean without A's; Welch's degrees of freedom. */
static struct known difference(struct known a, struct known b)
{
    double va = a.error * a.error, vb = b.error * b.error;
    double narrow = va / (a.wider * a.wider) + vb / (b.wider * b.wider);

    if (va + vb <= 0)
        return (struct known){ b.mean - a.mean, 0, MIN(a.freedom, b.freedom),
                               MAX(a.wider, b.wider) };
    return (struct known){ .mean = b.mean - a.mean,
                           .error = sqrt(va + vb),
                           .freedom =
                               (va + vb) * (va + vb) / (va * va / a.freedom + vb * vb / b.freedom),
                           .wider = sqrt((va + vb) / narrow) };
}

static double draw_mean(struct figure *f, int side, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        f->room[side][i] =
            f->log[side][robust_draw_below(state, n) * f->variants +
                         (f->variants > 1 ? robust_draw_below(state, f->variants) : 0)];
    return robust_mean(f->room[side], n);
}

/* Percentiles of means of samples that were drawn again, as far out as so few demand. */
static void interval(struct figure *f, const struct samples *s, const struct trials_options *o,
                     double expanded, struct trials_estimate *e)
{
    uint64_t state = o->seed;
    double at = floor(normal_above(expanded) * o->draws);
    size_t k = at > 0 ? (size_t)at : 0;

    for (int i = 0; i < o->draws; i++) {
        double first = draw_mean(f, 0, s->n[0], &state);

        f->drawn[i] = s->sides == 1 ? first : draw_mean(f, 1, s->n[1], &state) - first;
    }
    qsort(f->drawn, (size_t)o->draws, sizeof(*f->drawn), by_value);
    /* An estimate is never outside of its interval. */
    e->low = MIN(expm1(f->drawn[k]), e->change);
    e->high = MAX(expm1(f->drawn[(size_t)o->draws - 1 - k]), e->change);
}

static void test(struct figure *f, const struct samples *s, const struct trials_options *o,
                 struct trials_estimate *e)
{
    double least = log1p(o->min_effect + f->resolution_ns / e->ns[0]), n = (double)s->n[0];
    struct known k = know(f, 0, s->n[0]);
    double interval_freedom = n - 1;

    if (s->sides == 2) {
        k = difference(k, know(f, 1, s->n[1]));
        interval_freedom = k.freedom;
    }
    e->blocks = s->sides == 1 ? s->n[0] : MIN(s->n[0], s->n[1]);
    e->change = expm1(k.mean);
    if (k.error > 0)
        e->p = MIN(1, 2 * student_above((fabs(k.mean) - least) / k.error, k.freedom));
    else
        e->p = fabs(k.mean) > least ? 0 : 1;
    interval(f, s, o, k.wider * student_bound(0.025, interval_freedom), e);
}

static double median_of(struct figure *f, int side)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n[side]; i++) {
        double ns = f->ns[side][i * f->variants];

        if (!isnan(ns))
            f->room[side][n++] = ns;
    }
    return n ? robust_median(f->room[side], n) : (double)NAN;
}

void figure_estimate(struct figure *f, const struct trials_options *o, struct trials_estimate *e)
{
    struct samples s;

    *e = (struct trials_estimate){ .op = e->op, .change = NAN, .low = NAN, .high = NAN, .p = 1 };
    for (int side = 0; side < 2; side++)
        e->ns[side] = median_of(f, side);
    e->verdict = isnan(e->ns[0]) || isnan(e->ns[1]) ? TRIALS_ONE_SIDED : TRIALS_UNSURE;
    if (e->verdict == TRIALS_ONE_SIDED)
        return;
    s = o->unpaired ? take_processes(f) : take_blocks(f);
    if (s.n[0] >= 2 && (s.sides == 1 || s.n[1] >= 2))
        test(f, &s, o, e);
}
