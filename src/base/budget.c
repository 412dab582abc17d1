/* budget.c -- see budget.h. */
#include "base/budget.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/human.h"
#include "base/system.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_MAX ((uint64_t)1 << 31)

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* The number that a file of the kernel holds; UINT64_MAX if there is none, or "max". */
static uint64_t read_number(const char *path)
{
    FILE *f = fopen(path, "re");
    uint64_t v = UINT64_MAX;

    if (f && fscanf(f, "%" SCNu64, &v) != 1)
        v = UINT64_MAX;
    if (f)
        fclose(f);
    return v;
}

/* The lowest limit of the control group of this process and those around it. */
static uint64_t group_memory(void)
{
    char line[1000], path[1100], *group = NULL;
    FILE *f = fopen("/proc/self/cgroup", "re");
    uint64_t least = read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes");

    while (f && !group && fgets(line, sizeof(line), f))
        if (strncmp(line, "0::/", 4) == 0)
            group = line + 3;
    if (f)
        fclose(f);
    if (!group)
        return least;
    group[strcspn(group, "\n")] = '\0';
    for (;;) {
        char *slash = strrchr(group, '/');

        snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", group);
        least = MIN(least, read_number(path));
        if (!slash)
            return least;
        *slash = '\0';
    }
}

uint64_t budget_machine_memory(void)
{
    static atomic_uint_least64_t known;
    uint64_t memory = atomic_load(&known);

    if (memory)
        return memory;
    memory = (uint64_t)system_memory();
    if (!memory)
        memory = (uint64_t)8 << 30;
    memory = MIN(memory, group_memory());
    atomic_store(&known, memory);
    return memory;
}

bool budget_parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "kmgt";
    double scale = 1, v;
    const char *unit;
    char *end;

    if (!isdigit((unsigned char)*text))
        return false;
    v = strtod(text, &end);
    unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
    if (unit) {
        for (const char *u = units; u <= unit; u++)
            scale *= 1024;
        end += strcasecmp(end + 1, "ib") == 0 ? 3 : strcasecmp(end + 1, "b") == 0 ? 2 : 1;
    }
    v *= scale;
    if (*end || !(v >= 1 && v < 0x1p62))
        return false;
    *out = (uint64_t)v;
    return true;
}

static int from_environment(const char *name, uint64_t *out, opm_error *err)
{
    const char *text = *out ? NULL : environment_get(name);

    if (text && !budget_parse_size(text, out))
        return opm__fail(err, OPM_EINVAL, "%s: '%s' is no size such as 512M or 16G", name, text);
    return 0;
}

static int time_from_environment(uint64_t *out, opm_error *err)
{
    const char *text = *out ? NULL : environment_get("OPMETER_MAX_TIME");
    char *end;
    double v;

    if (!text)
        return 0;
    v = strtod(text, &end);
    if (*end || !(v >= 0 && v < (double)SECONDS_MAX))
        return opm__fail(err, OPM_EINVAL, "OPMETER_MAX_TIME: '%s' is no number of seconds", text);
    *out = (uint64_t)v;
    return 0;
}

int budget_init(struct budget *b, const struct budget_limits *asked, opm_error *err)
{
    struct budget_limits l = *asked;
    int rc = from_environment("OPMETER_MAX_UNPACKED", &l.unpacked, err);

    if (!rc)
        rc = from_environment("OPMETER_MAX_MEMORY", &l.memory, err);
    if (!rc)
        rc = time_from_environment(&l.seconds, err);
    if (rc)
        return rc;
    memset(b, 0, sizeof(*b));
    b->any_ratio = l.unpacked != 0;
    if (!l.unpacked)
        l.unpacked = BUDGET_UNPACKED_DEFAULT;
    if (!l.memory)
        l.memory = budget_machine_memory() / 4 * 3;
    b->deadline_ns =
        l.seconds ? now_ns() + (int64_t)MIN(l.seconds, SECONDS_MAX) * 1000000000 : INT64_MAX;
    b->limits = l;
    return 0;
}

bool budget_time(struct budget *b)
{
    return !b || b->deadline_ns == INT64_MAX || now_ns() < b->deadline_ns ||
           budget_met(b, BUDGET_TIME);
}

bool budget_unpack(struct budget *b, uint64_t used, uint64_t made)
{
    uint64_t packed, unpacked;

    if (!b)
        return true;
    packed = atomic_fetch_add(&b->packed, used) + used;
    unpacked = atomic_fetch_add(&b->unpacked, made) + made;
    if (unpacked > b->limits.unpacked)
        return budget_met(b, BUDGET_UNPACKED);
    if (!b->any_ratio && unpacked > BUDGET_RATIO_FROM_BYTES && unpacked / BUDGET_RATIO_MAX > packed)
        return budget_met(b, BUDGET_RATIO);
    return budget_time(b);
}

int budget_fail(const struct budget *b, const char *path, int rc, opm_error *err)
{
    char a[HUMAN_ROOM], c[HUMAN_ROOM];

    switch (b ? (enum budget_over)atomic_load(&b->over) : BUDGET_KEPT) {
    case BUDGET_UNPACKED:
        return opm__fail(err, OPM_ELIMIT,
                         "%s: unpacks to more than %s, the limit; --max-unpacked SIZE, or "
                         "OPMETER_MAX_UNPACKED, raises it",
                         path, human_bytes(a, b->limits.unpacked));
    case BUDGET_RATIO:
        return opm__fail(err, OPM_ELIMIT,
                         "%s: unpacks to more than %d times its size, as no trace does: %s came of "
                         "%s; --max-unpacked SIZE, or OPMETER_MAX_UNPACKED, allows it all the same",
                         path, BUDGET_RATIO_MAX, human_bytes(a, atomic_load(&b->unpacked)),
                         human_bytes(c, atomic_load(&b->packed)));
    case BUDGET_MEMORY:
        return opm__fail(err, OPM_ELIMIT,
                         "%s: reading it takes more than %s of memory, the limit; --max-memory "
                         "SIZE, or OPMETER_MAX_MEMORY, raises it",
                         path, human_bytes(a, b->limits.memory));
    case BUDGET_TIME:
        return opm__fail(err, OPM_ELIMIT,
                         "%s: reading it takes longer than %" PRIu64 " s, the limit; --max-time "
                         "SECONDS, or OPMETER_MAX_TIME, raises it",
                         path, b->limits.seconds);
    case BUDGET_SCRATCH:
        return opm__fail(err, OPM_ELIMIT,
                         "%s: reading it takes more than %s of memory, and %s has no room for the "
                         "rest; --max-memory SIZE allows more memory, TMPDIR names another folder",
                         path, human_bytes(a, b->limits.memory / 2), b->scratch);
    case BUDGET_KEPT:
        break;
    }
    return rc;
}

struct start {
    void *(*run)(void *);
    void *arg;
    struct budget *budget;
};

static void *started(void *arg)
{
    struct start s = *(struct start *)arg;

    budget_enter(s.budget);
    mem_free(arg);
    return s.run(s.arg);
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    struct budget *budget = budget_current();
    struct start *s;
    int rc;

    if (!budget)
        return pthread_create(thread, NULL, run, arg);
    s = mem_alloc(sizeof(*s));
    if (!s)
        return ENOMEM;
    *s = (struct start){ run, arg, budget };
    rc = pthread_create(thread, NULL, started, s);
    if (rc)
        mem_free(s);
    return rc;
}
