/* sample_machine.c -- load and frequency of each core, memory of the machine; see sample_source.h.
 */
#include "device/sample_source.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

#define CORES_MAX 1024
#define STAT_ROOM (256 * 1024)
#define SLOW_PERIOD_NS 1000000000 /* frequencies: a file per core, and they change slowly */

struct core {
    opm_gauge *load, *clock;
    uint64_t busy, all; /* ticks so far */
    bool known;
};

struct machine {
    struct core core[CORES_MAX];
    int ncore; /* highest number + 1 */
    opm_gauge *memory;
    int64_t slow_ns; /* when frequencies were read */
    char *text;      /* STAT_ROOM */
};

/* core -1: of all. */
static opm_gauge *gauge(const char *name, const char *unit, int core)
{
    opm_gauge_info info = OPM_GAUGE_INFO_INIT;
    char full[64];

    if (core >= 0)
        snprintf(full, sizeof(full), "%s of core %d", name, core);
    info.name = core >= 0 ? full : name;
    info.unit = unit;
    return opm_gauge_define(&info);
}

static void *machine_open(struct sampler_stats *stats)
{
    struct machine *m = mem_calloc(1, sizeof(*m));

    (void)stats;
    if (m)
        m->text = mem_alloc(STAT_ROOM);
    if (m && !m->text) {
        mem_free(m);
        m = NULL;
    }
    return m;
}

/* A line "cpu7 user nice system idle iowait irq softirq steal ...". */
static void read_core(struct machine *m, const char *line, const struct sample_round *r)
{
    unsigned long long v[8] = { 0 };
    uint64_t all = 0, idle;
    struct core *c;
    unsigned n;

    if (sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &n, &v[0], &v[1], &v[2],
               &v[3], &v[4], &v[5], &v[6], &v[7]) < 5 ||
        n >= CORES_MAX)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(v); i++)
        all += v[i];
    idle = v[3] + v[4];
    c = &m->core[n];
    m->ncore = MAX(m->ncore, (int)n + 1);
    if (c->known && all > c->all && all - idle >= c->busy) {
        if (!c->load)
            c->load = gauge("load", "%", (int)n);
        sample_put(r, c->load, 100.0 * (double)(all - idle - c->busy) / (double)(all - c->all));
    }
    c->known = true;
    c->all = all;
    c->busy = all - idle;
}

static void read_clocks(struct machine *m, const struct sample_round *r)
{
    char path[96], text[32];

    for (int i = 0; i < m->ncore; i++) {
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", i);
        if (sample_read_file(path, text, sizeof(text)) <= 0)
            return; /* a machine without; all cores are alike */
        if (!m->core[i].clock)
            m->core[i].clock = gauge("clock", "Hz", i);
        sample_put(r, m->core[i].clock, 1e3 * (double)strtoull(text, NULL, 10));
    }
}

static void machine_read(void *source, const struct sample_round *r)
{
    struct machine *m = source;
    uint64_t kib;

    if (sample_read_file("/proc/stat", m->text, STAT_ROOM) > 0)
        for (const char *line = m->text; line && strncmp(line, "cpu", 3) == 0;
             line = strchr(line, '\n'), line += line != NULL)
            if (line[3] != ' ') /* not the sum */
                read_core(m, line, r);
    if (sample_read_file("/proc/meminfo", m->text, STAT_ROOM) > 0 &&
        sample_find_number(m->text, "MemAvailable:", &kib)) {
        if (!m->memory)
            m->memory = gauge("memory available", "B", -1);
        sample_put(r, m->memory, 1024.0 * (double)kib);
    }
    if (!m->slow_ns || r->now_ns - m->slow_ns >= SLOW_PERIOD_NS) {
        m->slow_ns = r->now_ns;
        read_clocks(m, r);
    }
}

static void machine_close(void *source)
{
    struct machine *m = source;

    for (int i = 0; i < m->ncore; i++) {
        opm_gauge_free(m->core[i].load);
        opm_gauge_free(m->core[i].clock);
    }
    opm_gauge_free(m->memory);
    mem_free(m->text);
    mem_free(m);
}

const struct sample_source sample_machine = { machine_open, machine_read, machine_close };
