/* sample_process.c -- a process and all that descends from it; see sample_source.h.
 *
 * Who descends is found by looking at all processes of the machine, which costs, so it is done once
 * a second, more often in the beginning. A process that was found stays followed when its parent
 * ends. Numbers are used again: a process is the same as long as it started at the same time. */
#include "device/sample_source.h"

#include "base/alloc.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROCESSES_MAX 512 /* followed at a time */
#define THREADS_MAX 256   /* of a process whose switches are counted one by one */
#define FIND_NS 1000000000
#define FIND_EARLY_NS 100000000
#define EARLY_NS 2000000000

enum process_gauge { PROCESS_MEMORY, PROCESS_THREADS, PROCESS_GAUGES };
enum process_sum {
    PROCESS_CPU,
    PROCESS_FAULTS,
    PROCESS_DISK_FAULTS,
    PROCESS_SWITCHES,
    PROCESS_READ,
    PROCESS_WRITTEN,
    PROCESS_SUMS
};

static const struct {
    const char *name, *unit;
} gauge_words
    [] = { [PROCESS_MEMORY] = { "memory (RSS)", "B" }, [PROCESS_THREADS] = { "threads", "" } },
    sum_words[] = { [PROCESS_CPU] = { "cpu", "%" },
                    [PROCESS_FAULTS] = { "page faults", "1/s" },
                    [PROCESS_DISK_FAULTS] = { "page faults with I/O", "1/s" },
                    [PROCESS_SWITCHES] = { "context switches", "1/s" },
                    [PROCESS_READ] = { "disk read", "B/s" },
                    [PROCESS_WRITTEN] = { "disk written", "B/s" } };

/* What /proc/PID/stat says. */
struct stat_line {
    char name[64];
    pid_t parent;
    uint64_t faults, disk_faults, cpu_ticks, threads, started, rss_pages;
};

struct process {
    pid_t pid;
    uint64_t started;
    opm_gauge *gauge[PROCESS_GAUGES];
    struct sample_sum sum[PROCESS_SUMS];
    bool alive;
};

struct family {
    pid_t pid, parent;
    uint64_t started;
};

struct processes {
    struct process *item;
    size_t n, cap;
    struct family *all; /* of the machine, while looking for descendants */
    size_t nall, all_cap;
    int64_t first_ns, found_ns;
    double ticks_per_s, page_bytes;
};

static bool read_stat(pid_t pid, struct stat_line *out)
{
    char path[48], text[1024], *open, *close;
    unsigned long long v[22] = { 0 }; /* fields 4 to 24, from 1 */
    int n = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (sample_read_file(path, text, sizeof(text)) <= 0)
        return false;
    open = strchr(text, '(');
    close = strrchr(text, ')'); /* the name may hold any */
    if (!open || !close || close[1] != ' ' || !close[2] || close[2] == 'Z')
        return false;
    *close = '\0';
    snprintf(out->name, sizeof(out->name), "%s", open + 1);
    for (char *p = close + 3; *p && n < 21; n++)
        v[n + 1] = strtoull(p, &p, 10);
    *out = (struct stat_line){ .parent = (pid_t)v[1],
                               .faults = v[7],
                               .disk_faults = v[9],
                               .cpu_ticks = v[11] + v[12],
                               .threads = v[17],
                               .started = v[19],
                               .rss_pages = v[21] };
    snprintf(out->name, sizeof(out->name), "%s", open + 1);
    return n == 21;
}

static void *processes_open(struct sampler_stats *stats)
{
    struct processes *p = mem_calloc(1, sizeof(*p));

    (void)stats;
    if (p) {
        p->ticks_per_s = (double)sysconf(_SC_CLK_TCK);
        p->page_bytes = (double)sysconf(_SC_PAGESIZE);
    }
    return p;
}

static struct process *known(struct processes *p, pid_t pid, uint64_t started)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->item[i].pid == pid && p->item[i].started == started)
            return &p->item[i];
    return NULL;
}

static void follow(struct processes *p, pid_t pid, const struct sample_round *r)
{
    struct stat_line line;
    struct process new = { .pid = pid, .alive = true };
    opm_gauge_info info = OPM_GAUGE_INFO_INIT;

    if (!read_stat(pid, &line) || known(p, pid, line.started) || p->n >= PROCESSES_MAX ||
        !GROW(p->item, p->cap, p->n + 1))
        return;
    new.started = line.started;
    info.process = line.name;
    info.pid = pid;
    for (int i = 0; i < PROCESS_GAUGES; i++) {
        info.name = gauge_words[i].name;
        info.unit = *gauge_words[i].unit ? gauge_words[i].unit : NULL;
        new.gauge[i] = opm_gauge_define(&info);
    }
    for (int i = 0; i < PROCESS_SUMS; i++) {
        info.name = sum_words[i].name;
        info.unit = sum_words[i].unit;
        new.sum[i].gauge = opm_gauge_define(&info);
    }
    p->item[p->n++] = new;
    r->stats->processes++;
}

static bool descends(const struct processes *p, const struct family *f, pid_t root)
{
    pid_t parent = f->parent;

    /* As many steps as there are processes at most: what is read is not all of one moment. */
    for (size_t steps = 0; steps < p->nall && parent > 1; steps++) {
        size_t i = 0;

        if (parent == root)
            return true;
        for (size_t k = 0; k < p->n; k++)
            if (p->item[k].pid == parent && p->item[k].alive)
                return true;
        while (i < p->nall && p->all[i].pid != parent)
            i++;
        if (i == p->nall)
            return false;
        parent = p->all[i].parent;
    }
    return false;
}

static void find_descendants(struct processes *p, const struct sample_round *r)
{
    DIR *dir = opendir("/proc");
    struct dirent *e;
    struct stat_line line;

    p->nall = 0;
    follow(p, r->root, r);
    while (dir) {
        e = readdir(dir);
        if (!e)
            break;
        pid_t pid = isdigit((unsigned char)e->d_name[0]) ? (pid_t)strtol(e->d_name, NULL, 10) : 0;

        if (pid > 0 && read_stat(pid, &line) && GROW(p->all, p->all_cap, p->nall + 1))
            p->all[p->nall++] = (struct family){ pid, line.parent, line.started };
    }
    if (dir)
        closedir(dir);
    for (size_t i = 0; i < p->nall; i++)
        if (descends(p, &p->all[i], r->root))
            follow(p, p->all[i].pid, r);
}

/* Of all threads; the process itself only knows those of its first one. False: too many to count.
 */
static bool count_switches(pid_t pid, uint64_t threads, uint64_t *out)
{
    char path[300], text[4096];
    struct dirent *e;
    uint64_t v;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = threads <= THREADS_MAX ? opendir(path) : NULL;
    if (!dir)
        return false;
    *out = 0;
    for (;;) {
        e = readdir(dir);
        if (!e)
            break;
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, e->d_name);
        if (sample_read_file(path, text, sizeof(text)) <= 0)
            continue;
        if (sample_find_number(text, "voluntary_ctxt_switches:", &v))
            *out += v;
        if (sample_find_number(text, "nonvoluntary_ctxt_switches:", &v))
            *out += v;
    }
    closedir(dir);
    return true;
}

static void read_process(struct processes *p, struct process *item, const struct sample_round *r)
{
    char path[48], text[1024];
    struct stat_line line;
    uint64_t v;

    if (!read_stat(item->pid, &line) || line.started != item->started) {
        item->alive = false;
        return;
    }
    sample_put(r, item->gauge[PROCESS_MEMORY], (double)line.rss_pages * p->page_bytes);
    sample_put(r, item->gauge[PROCESS_THREADS], (double)line.threads);
    sample_put_rate(r, &item->sum[PROCESS_CPU], line.cpu_ticks, 100 / p->ticks_per_s);
    sample_put_rate(r, &item->sum[PROCESS_FAULTS], line.faults, 1);
    sample_put_rate(r, &item->sum[PROCESS_DISK_FAULTS], line.disk_faults, 1);
    /* A thread that ended takes its switches along: a smaller sum is no rate. */
    if (count_switches(item->pid, line.threads, &v))
        sample_put_rate(r, &item->sum[PROCESS_SWITCHES], v, 1);
    snprintf(path, sizeof(path), "/proc/%d/io", (int)item->pid);
    if (sample_read_file(path, text, sizeof(text)) <= 0)
        return; /* not ours to see */
    if (sample_find_number(text, "read_bytes:", &v))
        sample_put_rate(r, &item->sum[PROCESS_READ], v, 1);
    if (sample_find_number(text, "write_bytes:", &v))
        sample_put_rate(r, &item->sum[PROCESS_WRITTEN], v, 1);
}

static void process_release(struct process *item)
{
    for (int i = 0; i < PROCESS_GAUGES; i++)
        opm_gauge_free(item->gauge[i]);
    for (int i = 0; i < PROCESS_SUMS; i++)
        opm_gauge_free(item->sum[i].gauge);
}

static void processes_read(void *source, const struct sample_round *r)
{
    struct processes *p = source;
    size_t n = 0;

    if (!p->first_ns)
        p->first_ns = r->now_ns;
    if (!p->found_ns ||
        r->now_ns - p->found_ns >= (r->now_ns - p->first_ns < EARLY_NS ? FIND_EARLY_NS : FIND_NS)) {
        p->found_ns = r->now_ns;
        find_descendants(p, r);
    }
    for (size_t i = 0; i < p->n; i++) {
        read_process(p, &p->item[i], r);
        if (p->item[i].alive)
            p->item[n++] = p->item[i];
        else
            process_release(&p->item[i]);
    }
    p->n = n;
}

static void processes_close(void *source)
{
    struct processes *p = source;

    for (size_t i = 0; i < p->n; i++)
        process_release(&p->item[i]);
    mem_free(p->item);
    mem_free(p->all);
    mem_free(p);
}

const struct sample_source sample_processes = { processes_open, processes_read, processes_close };
