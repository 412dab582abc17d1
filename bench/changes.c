/* changes.c -- how well change points are found: series with planted truth, by `opmeter history`'s
 * method and by E-divisive alone.
 *
 * usage: bench_changes [SERIES [SEED [KIND]]]
 *
 * Of each kind SERIES (200) series of 40 to 120 runs. A change that is called the code's within 3
 * runs of a planted one is right, each planted one once; steps lie 8 runs apart from each other and
 * from the ends. Precision: right ones of those called; recall: of those planted; alarms: series
 * with any wrong one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "compare/changes.h"
#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNS_MAX 120
#define APART 8
#define NEAR 3

static uint64_t state;

static double uniform(double low, double high)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return low + (high - low) * ((double)(z >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform(0, 1))) * cos(6.283185307179586 * uniform(0, 1));
}

struct truth {
    double value[RUNS_MAX], control[RUNS_MAX];
    size_t n;
    size_t step[8];
    size_t nstep;
};

struct kind {
    const char *name;
    int steps; /* planted at the most; negative: so many exactly */
    bool drift, outliers, regimes, follows, machine, neighbours;
};

static const struct kind kinds[] = {
    { .name = "stable" },
    { .name = "one step", .steps = -1 },
    { .name = "several steps", .steps = 3 },
    { .name = "drift", .drift = true },
    { .name = "drift and a step", .drift = true, .steps = -1 },
    { .name = "outliers", .outliers = true },
    { .name = "outliers and steps", .outliers = true, .steps = 2 },
    { .name = "calm and noisy spells", .regimes = true },
    { .name = "calm and noisy spells, steps", .regimes = true, .steps = 2 },
    { .name = "autocorrelated", .follows = true },
    { .name = "autocorrelated, steps", .follows = true, .steps = 2 },
    { .name = "machine changes speed", .machine = true },
    { .name = "machine changes speed, steps", .machine = true, .steps = 2 },
    { .name = "neighbours slow single runs", .neighbours = true },
    { .name = "neighbours, steps", .neighbours = true, .steps = 2 },
    { .name = "all of it", .steps = 2, .outliers = true, .regimes = true, .machine = true },
};

static bool is_free(const size_t *taken, size_t n, size_t at)
{
    for (size_t i = 0; i < n; i++)
        if ((at > taken[i] ? at - taken[i] : taken[i] - at) < APART)
            return false;
    return true;
}

/* A place apart from those taken; 0: there is none. */
static size_t place(const struct truth *t, size_t *taken, size_t *n)
{
    for (int tries = 0; tries < 100; tries++) {
        size_t at = (size_t)uniform(APART, (double)(t->n - APART));

        if (is_free(taken, *n, at)) {
            taken[(*n)++] = at;
            return at;
        }
    }
    return 0;
}

static double one_step(void)
{
    return (uniform(0, 1) < 0.5 ? -1 : 1) * uniform(0.05, 0.20);
}

static void add_from(double *v, size_t n, size_t at, double by)
{
    for (size_t i = at; i < n; i++)
        v[i] += by;
}

/* Noise of 1 %, and what the kind has of it. */
static void add_noise(const struct kind *k, struct truth *t)
{
    double rho = uniform(0.3, 0.7), last = normal(), spread = 1;

    for (size_t i = 0; i < t->n; i++) {
        double e = normal();

        if (k->follows)
            e = last = rho * last + sqrt(1 - rho * rho) * e;
        if (k->regimes && (i == 0 || uniform(0, 1) < 0.06))
            spread = uniform(0, 1) < 0.5 ? 0.5 : 1.7;
        t->value[i] += 0.01 * spread * e;
        t->control[i] += 0.004 * normal();
        if (k->outliers && uniform(0, 1) < 0.05)
            t->value[i] += uniform(0.1, 0.6);
        if (k->neighbours && uniform(0, 1) < 0.3) {
            double by = uniform(0.03, 0.15);

            t->value[i] += by;
            t->control[i] += by;
        }
    }
}

static void make(const struct kind *k, struct truth *t)
{
    size_t taken[8], ntaken = 0;
    int steps = k->steps < 0 ? -k->steps : (int)uniform(0, k->steps + 0.999);

    *t = (struct truth){ .n = (size_t)uniform(40, RUNS_MAX + 0.999) };
    add_noise(k, t);
    for (int i = 0; i < steps; i++) {
        size_t at = place(t, taken, &ntaken);

        if (!at)
            continue;
        add_from(t->value, t->n, at, one_step());
        t->step[t->nstep++] = at;
    }
    for (int i = 0; k->machine && i < 2; i++) {
        size_t at = place(t, taken, &ntaken);
        double by = one_step();

        if (!at)
            continue;
        add_from(t->value, t->n, at,
                 by * uniform(0.7, 1.05)); /* memory does not follow the clock */
        add_from(t->control, t->n, at, by);
    }
    if (k->drift) {
        double by = one_step();

        for (size_t i = 0; i < t->n; i++)
            t->value[i] += by * (double)i / (double)t->n;
    }
    for (size_t i = 0; i < t->n; i++) {
        t->value[i] = 1e7 * exp(t->value[i]);
        t->control[i] = 1.3e6 * exp(t->control[i]);
    }
}

struct score {
    size_t right, called, planted, alarmed, series;
};

static void count(struct score *s, const struct truth *t, const struct changes *found)
{
    bool used[8] = { false };
    size_t right = 0, called = 0;

    for (size_t i = 0; i < found->n; i++) {
        const struct change *c = &found->change[i];
        bool hit = false;

        if (c->kind != CHANGE_CODE)
            continue;
        called++;
        for (size_t k = 0; k < t->nstep && !hit; k++) {
            size_t off = c->at > t->step[k] ? c->at - t->step[k] : t->step[k] - c->at;

            hit = off <= NEAR && !used[k];
            used[k] |= hit;
        }
        right += hit;
    }
    s->right += right;
    s->called += called;
    s->planted += t->nstep;
    s->alarmed += called > right;
    s->series++;
}

static double share(size_t a, size_t b)
{
    return b ? (double)a / (double)b : 1;
}

static void print(const char *name, const struct score s[2])
{
    printf("| %-29s | %7zu |", name, s[0].planted);
    for (int i = 0; i < 2; i++) {
        if (s[i].called && s[i].planted)
            printf(" %9.3f |", share(s[i].right, s[i].called));
        else
            printf(" %9s |", "-");
        if (s[i].planted)
            printf(" %6.3f |", share(s[i].right, s[i].planted));
        else
            printf(" %6s |", "-");
        printf(" %5.1f %% |", 100 * share(s[i].alarmed, s[i].series));
    }
    putchar('\n');
}

int main(int argc, char **argv)
{
    int series = argc > 1 ? atoi(argv[1]) : 200;
    struct score all[2] = { { 0 } };

    printf("| %-29s | planted | precision | recall | alarms  | E-divisive: precision | recall | "
           "alarms |\n"
           "|---|--:|--:|--:|--:|--:|--:|--:|\n",
           "series");
    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        struct score s[2] = { { 0 } };

        if (argc > 3 && !strstr(kinds[k].name, argv[3]))
            continue;
        for (int i = 0; i < series; i++) {
            struct truth t;

            state = (uint64_t)(argc > 2 ? atoi(argv[2]) : 1) * 1000003 + k * 100003 + (uint64_t)i;
            make(&kinds[k], &t);
            for (int plain = 0; plain < 2; plain++) {
                struct changes_options o = CHANGES_OPTIONS_INIT;
                struct changes found;

                o.plain = plain;
                if (changes_find(t.value, t.control, t.n, &o, &found) < 0)
                    return 1;
                count(&s[plain], &t, &found);
                count(&all[plain], &t, &found);
                mem_free(found.change);
            }
        }
        print(kinds[k].name, s);
        fflush(stdout);
    }
    print("all", all);
    return 0;
}
