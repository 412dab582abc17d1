/* counters.c -- what the processor counted while a thread executed an operator.
 *
 * The kernel counts for each thread that executes operators, in a group of events that one read()
 * gives: before the operator begins and after it ended, so that its span has none of the cost. The
 * differences become arguments of the span. Events of the processor where there are any, else those
 * of the kernel; which, and why not better ones, is a fact of the trace.
 *
 * Lifetime: a thread's group is opened at its first operator of a recording and closed when it
 * ends, or at the first operator of another recording. */
#include "rec/rec.h"

#include "base/perf_refusal.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENTS_MAX 3
#define FRAMES_MAX 16 /* operators inside of operators; deeper ones are not counted */
#define COST_ROUNDS 64

struct event {
    uint32_t type;
    uint32_t config;
    const char *key; /* of the argument */
};

/* What is counted: the first set of which all events can be opened. */
struct event_set {
    const char *kind;
    bool kernel; /* also what the kernel does for the thread */
    unsigned n;
    struct event event[EVENTS_MAX];
};

#define HARDWARE(name) PERF_TYPE_HARDWARE, PERF_COUNT_HW_##name
#define SOFTWARE(name) PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##name

static const struct event_set sets[] = {
    { "hardware",
      false,
      3,
      { { HARDWARE(CPU_CYCLES), "cycles" },
        { HARDWARE(INSTRUCTIONS), "instructions" },
        { HARDWARE(CACHE_MISSES), "cache_misses" } } },
    { "hardware",
      false,
      2,
      { { HARDWARE(CPU_CYCLES), "cycles" }, { HARDWARE(INSTRUCTIONS), "instructions" } } },
    { "software",
      true,
      3,
      { { SOFTWARE(TASK_CLOCK), "cpu_ns" },
        { SOFTWARE(PAGE_FAULTS), "page_faults" },
        { SOFTWARE(CONTEXT_SWITCHES), "context_switches" } } },
    /* Switches happen in the kernel: without it they would read as 0. */
    { "software",
      false,
      2,
      { { SOFTWARE(TASK_CLOCK), "cpu_ns" }, { SOFTWARE(PAGE_FAULTS), "page_faults" } } },
};

/* What a read() of a group gives. */
struct reading {
    uint64_t n;
    uint64_t enabled, running; /* ns; less running than enabled: it shared the counters */
    uint64_t value[EVENTS_MAX];
};

struct frame {
    uint64_t ticks; /* of the span */
    struct reading before;
};

/* Of a thread. */
struct counting {
    uint32_t generation;                 /* of the recording that the group was opened for */
    struct perf_event event[EVENTS_MAX]; /* the first one leads the group */
    unsigned nevent;                     /* 0: it could not be opened */
    unsigned nframe;
    struct frame frame[FRAMES_MAX];
};

static OPM__THREAD struct counting *counting;

static void group_close(struct counting *c)
{
    while (c->nevent)
        opm__perf_close(&c->event[--c->nevent]);
}

/* 0 or an errno, and then nothing is open. */
static int group_open(struct counting *c, const struct event_set *set)
{
    for (unsigned i = 0; i < set->n; i++) {
        struct perf_event_attr attr = { .type = set->event[i].type,
                                        .size = sizeof(attr),
                                        .config = set->event[i].config,
                                        .read_format = PERF_FORMAT_GROUP |
                                                       PERF_FORMAT_TOTAL_TIME_ENABLED |
                                                       PERF_FORMAT_TOTAL_TIME_RUNNING };

        attr.exclude_kernel = !set->kernel;
        attr.exclude_hv = 1;
        if (!opm__perf_open(&c->event[i], &attr, i ? c->event[0].fd : -1)) {
            int why = errno;

            group_close(c);
            return why;
        }
        c->nevent++;
    }
    return 0;
}

static bool group_read(const struct counting *c, const struct event_set *set, struct reading *out)
{
    return c->nevent &&
           opm__perf_read(&c->event[0], out, offsetof(struct reading, value) + set->n * 8) &&
           out->n == set->n;
}

static int64_t read_cost_ns(const struct counting *c, const struct event_set *set)
{
    int64_t best = INT64_MAX;
    struct reading r;

    for (int i = 0; i < COST_ROUNDS; i++) {
        int64_t start = clock_ns(CLOCK_MONOTONIC), ns;

        group_read(c, set, &r);
        ns = clock_ns(CLOCK_MONOTONIC) - start;
        best = ns < best ? ns : best;
    }
    return best;
}

static void meta_text(struct recorder *r, const char *key, const char *value)
{
    pthread_mutex_lock(&r->lock);
    opm__define_meta(r, key, value);
    pthread_mutex_unlock(&r->lock);
}

void opm__counters_choose(struct recorder *r, bool wanted)
{
    struct counting probe = { .nevent = 0 };
    const struct event_set *set = NULL;
    char text[256], names[128] = "";
    int why = 0, first_why = 0;

    atomic_store(&r->counters, NULL);
    if (!wanted)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(sets) && !set; i++) {
        why = group_open(&probe, &sets[i]);
        if (why && !first_why)
            first_why = why;
        if (!why)
            set = &sets[i];
    }
    meta_text(r, "counters.kind", set ? set->kind : "none");
    if (first_why) {
        perf_refusal(first_why, text, sizeof(text));
        meta_text(r, "counters.reason", text);
    }
    if (!set)
        return;
    for (unsigned i = 0, len = 0; i < set->n; i++)
        len += (unsigned)snprintf(names + len, sizeof(names) - len, "%s%s", i ? "," : "",
                                  set->event[i].key);
    meta_text(r, "counters.events", names);
    meta_text(r, "counters.scope", set->kernel ? "calling thread" : "calling thread, in user mode");
    snprintf(text, sizeof(text), "%lld", (long long)read_cost_ns(&probe, set) * 2);
    meta_text(r, "counters.cost_ns", text); /* of an operator */
    group_close(&probe);
    atomic_store(&r->counters, set);
}

/* The calling thread's group, opened if need be; NULL: there is none. */
static struct counting *counting_of(struct recorder *r, const struct event_set *set)
{
    uint32_t generation = atomic_load_explicit(&r->generation, memory_order_relaxed);

    if (!counting)
        counting = opm__alloc(sizeof(*counting));
    if (counting && counting->generation != generation) {
        group_close(counting);
        counting->nframe = 0;
        counting->generation = generation;
        group_open(counting, set);
    }
    return counting && counting->nevent ? counting : NULL;
}

opm_span opm__counted_begin(opm_site *site)
{
    struct recorder *r = &opm__recorder;
    const struct event_set *set = atomic_load(&r->counters);
    struct reading before;
    struct counting *c;
    opm_span span;
    bool ok;

    if (!set || !opm__slow_enter())
        return opm__begin(site);
    c = counting_of(r, set);
    ok = c && c->nframe < FRAMES_MAX && group_read(c, set, &before);
    opm__slow_leave();
    span = opm__begin(site);
    if (ok && span.depth)
        c->frame[c->nframe++] = (struct frame){ span.ticks, before };
    return span;
}

void opm__counted_end(opm_span span)
{
    const struct event_set *set = atomic_load(&opm__recorder.counters);
    struct counting *c = counting;
    unsigned at = c ? c->nframe : 0;
    struct reading after;
    struct reading before;
    double share;

    while (at && c->frame[at - 1].ticks != span.ticks)
        at--;
    if (!set || !at)
        return;                       /* not counted, or begun in another thread */
    before = c->frame[at - 1].before; /* handlers of signals may use it again */
    c->nframe = at - 1;               /* with those that were left open inside of it */
    if (!group_read(c, set, &after) || after.running <= before.running ||
        after.enabled < before.enabled)
        return; /* others had the counters all the time: not known */
    share = (double)(after.enabled - before.enabled) / (double)(after.running - before.running);
    for (unsigned i = 0; i < set->n; i++) {
        double v = (double)(after.value[i] - before.value[i]);

        opm__arg_int(span, set->event[i].key, (int64_t)(share > 1 ? v * share : v));
    }
}

void opm__counters_leave(void)
{
    if (counting)
        group_close(counting);
    opm__free(counting);
    counting = NULL;
}
