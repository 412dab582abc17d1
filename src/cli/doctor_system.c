/* doctor_system.c -- memory, hardware counters, files, limits and settings; see doctor.h. */
#include "base/environment.h"
#include "base/perf_refusal.h"
#include "cli/doctor.h"

#include "cli/cli.h"
#include "launch/record.h"

#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOW_DISK_BYTES ((uint64_t)1 << 30)
#define LOW_FILES 256

extern char **environ;

static uint64_t meminfo_bytes(const char *key)
{
    char value[64];

    if (!doctor_read_key("/proc/meminfo", key, value, sizeof(value)))
        return 0;
    return strtoull(value, NULL, 10) * 1024;
}

/* The chosen word of "always [madvise] never", or all of it; in place. */
static const char *chosen(char *line)
{
    char *open = strchr(line, '['), *end = open ? strchr(open, ']') : NULL;

    if (!end)
        return line;
    *end = '\0';
    return open + 1;
}

void doctor_memory(struct doctor *d)
{
    uint64_t total = meminfo_bytes("MemTotal"), available = meminfo_bytes("MemAvailable");
    char total_text[HUMAN_ROOM], available_text[HUMAN_ROOM], line[128];
    const char *mode;

    human_bytes(total_text, total);
    human_bytes(available_text, available);
    if (!total)
        doctor_say(d, DOCTOR_LIMITED, "main memory", NULL, "unknown: no MemTotal in /proc/meminfo");
    else if (available < total / 10)
        doctor_say(d, DOCTOR_LIMITED, "main memory", "Close other programs before measuring.",
                   "only %s of %s available", available_text, total_text);
    else
        doctor_say(d, DOCTOR_OK, "main memory", NULL, "%s, of which %s available", total_text,
                   available_text);
    if (!doctor_read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof(line))) {
        doctor_say(d, DOCTOR_LIMITED, "huge pages", NULL,
                   "this kernel has no transparent huge pages; large traces open more slowly");
        return;
    }
    mode = chosen(line);
    if (strcmp(mode, "never") == 0)
        doctor_say(d, DOCTOR_LIMITED, "huge pages",
                   "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
                   "transparent huge pages are off; large traces open more slowly");
    else
        doctor_say(d, DOCTOR_OK, "huge pages", NULL, "transparent huge pages: %s", mode);
}

/* 0 if a counter of this kind can be opened for our own process, else errno. */
static int try_counter(uint32_t type, uint64_t config)
{
    struct perf_event_attr attr = { .type = type, .size = sizeof(attr), .config = config };
    long fd;

    attr.disabled = 1;
    attr.exclude_kernel = 1;
    attr.exclude_hv = 1;
    fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return errno;
    close((int)fd);
    return 0;
}

static void say_counter(struct doctor *d, const char *what, int err_no)
{
    const char *advice = NULL;
    char why[200];

    if (err_no == 0) {
        doctor_say(d, DOCTOR_OK, what, NULL, "can be opened; kernel.perf_event_paranoid is %d",
                   perf_paranoid());
        return;
    }
    if (err_no == ENOENT || err_no == EOPNOTSUPP || err_no == ENODEV)
        advice = "Run on the bare machine, or let the host give the VM a virtual PMU. Times and "
                 "operators are measured all the same.";
    else if (err_no == ENOSYS || perf_paranoid() <= PERF_PARANOID_OWN)
        advice = "Allow perf_event_open in the seccomp profile of the container.";
    else if (err_no == EACCES || err_no == EPERM)
        advice = "sudo sysctl kernel.perf_event_paranoid=2; in a container also allow "
                 "perf_event_open in its seccomp profile.";
    perf_refusal(err_no, why, sizeof(why));
    doctor_say(d, DOCTOR_MISSING, what, advice, "%s", why);
}

void doctor_counters(struct doctor *d)
{
    int cycles = try_counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES), software;
    int misses = cycles ? cycles : try_counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES);

    say_counter(d, "cycles", cycles);
    if (cycles == 0) /* else for the same reason */
        say_counter(d, "cache misses", misses);
    software = try_counter(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK);
    say_counter(d, "software counters", software);
    if (misses == 0)
        doctor_say(d, DOCTOR_OK, "--counters", NULL,
                   "counts cycles, instructions and cache misses of operators");
    else if (cycles == 0)
        doctor_say(d, DOCTOR_LIMITED, "--counters", NULL,
                   "counts cycles and instructions of operators, but no cache misses");
    else if (software == 0)
        doctor_say(
            d, DOCTOR_LIMITED, "--counters", NULL,
            "counts only what the kernel knows of operators: processor time and page faults");
    else
        doctor_say(d, DOCTOR_MISSING, "--counters", NULL, "counts nothing of operators");
}

/* What `opmeter record` can hook and sample; GPUs have an area of their own. */
void doctor_recording(struct doctor *d)
{
    char path[PATH_MAX];

    if (record_find_python("python3", path, sizeof(path)))
        doctor_say(d, DOCTOR_OK, "Python", NULL, "what programs import is hooked, from %s", path);
    else
        doctor_say(d, DOCTOR_MISSING, "Python", "pip install ./python in opmeter's sources",
                   "the package opmeter is not installed: Python programs are not hooked");
    if (access("/proc/self/stat", R_OK) < 0 || access("/proc/stat", R_OK) < 0)
        doctor_say(d, DOCTOR_MISSING, "hardware samples", "Mount /proc.",
                   "/proc cannot be read: no load, memory or I/O of processes");
    else if (access("/proc/self/io", R_OK) < 0)
        doctor_say(d, DOCTOR_LIMITED, "hardware samples", NULL,
                   "load, memory, faults and switches of processes, but not their I/O: "
                   "/proc/PID/io: %s",
                   strerror(errno));
    else
        doctor_say(d, DOCTOR_OK, "hardware samples", NULL,
                   "load, memory, faults, switches and I/O of processes can be read");
    if (access("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", R_OK) < 0)
        doctor_say(d, DOCTOR_LIMITED, "core frequencies", NULL,
                   "this machine does not say how fast its cores run (no cpufreq), as in most "
                   "virtual machines");
    else
        doctor_say(d, DOCTOR_OK, "core frequencies", NULL, "can be sampled");
}

static void look_at_folder(struct doctor *d)
{
    char cwd[PATH_MAX], room[HUMAN_ROOM];
    struct statvfs fs;
    uint64_t left;

    if (!getcwd(cwd, sizeof(cwd))) {
        doctor_say(d, DOCTOR_LIMITED, "current folder", "Change to a folder that exists.", "%s",
                   strerror(errno));
        return;
    }
    if (access(".", W_OK) < 0) {
        doctor_say(d, DOCTOR_LIMITED, "current folder",
                   "Give another place with -o or OPMETER_OUTPUT.", "%s cannot be written: %s", cwd,
                   strerror(errno));
        return;
    }
    if (statvfs(".", &fs) < 0) {
        doctor_say(d, DOCTOR_LIMITED, "current folder", NULL, "%s: free space unknown: %s", cwd,
                   strerror(errno));
        return;
    }
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    human_bytes(room, left);
    if (left < LOW_DISK_BYTES)
        doctor_say(d, DOCTOR_LIMITED, "current folder",
                   "Free some space, or give another place with -o or OPMETER_OUTPUT.",
                   "%s can be written, but only %s are free", cwd, room);
    else
        doctor_say(d, DOCTOR_OK, "current folder", NULL, "%s can be written, %s free", cwd, room);
}

void doctor_files(struct doctor *d)
{
    char room[HUMAN_ROOM];
    struct rlimit lim;

    look_at_folder(d);
    if (getrlimit(RLIMIT_FSIZE, &lim) == 0) {
        if (lim.rlim_cur == RLIM_INFINITY)
            doctor_say(d, DOCTOR_OK, "file size limit", NULL, "none");
        else
            doctor_say(d, DOCTOR_LIMITED, "file size limit", "ulimit -f unlimited",
                       "no file may grow past %s; a recording stops there",
                       human_bytes(room, lim.rlim_cur));
    }
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        if (lim.rlim_cur == RLIM_INFINITY)
            doctor_say(d, DOCTOR_OK, "open files limit", NULL, "none");
        else
            doctor_say(d, lim.rlim_cur < LOW_FILES ? DOCTOR_LIMITED : DOCTOR_OK, "open files limit",
                       lim.rlim_cur < LOW_FILES ? "ulimit -n 1024" : NULL, "%llu",
                       (unsigned long long)lim.rlim_cur);
    }
}

static bool is_number(const char *s, long min, long max)
{
    char *end;
    long v = strtol(s, &end, 10);

    return *s && !*end && v >= min && v <= max;
}

static const struct {
    const char *name;
    const char *doc;
} known[] = {
#define VARIABLE(name, kind, doc) { #name, doc },
#include "base/environment.def"
#undef VARIABLE
};

/* NULL if opmeter understands the value, else what it expects. */
static const char *wrong_value(const char *name, const char *value)
{
    if (!*value)
        return NULL; /* as if it were not set */
    if (strcmp(name, "OPMETER_LEVEL") == 0 && !is_number(value, 0, 3))
        return "must be 0, 1, 2 or 3";
    if (strcmp(name, "OPMETER_COUNTERS") == 0 && !is_number(value, 0, 1))
        return "must be 0 or 1";
    if (strcmp(name, "OPMETER_BUFFER_MB") == 0 && !is_number(value, 1, 1 << 20))
        return "must be a number of megabytes";
    if (strcmp(name, "INST_NUM") == 0 && !is_number(value, 1, ENVIRONMENT_INSTANCES_MAX))
        return "must be a number of at least 1";
    if (strcmp(name, "TENSORFLOW_MODELS_TRACE_LEVEL") == 0 && !is_number(value, 0, 3))
        return "must be 0, 1, 2 or 3";
    if (strcmp(name, "OPMETER_ORT_LIB") == 0 && access(value, R_OK) < 0)
        return "no such file";
    return NULL;
}

static void look_at_variable(struct doctor *d, const char *name, const char *value)
{
    struct nearest near = { name, NULL, 0 };
    const char *wrong = wrong_value(name, value);

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        nearest_try(&near, known[i].name);
        if (strcmp(name, known[i].name) != 0)
            continue;
        if (wrong)
            doctor_say(d, DOCTOR_LIMITED, known[i].name, "Correct or unset it.", "'%s': %s", value,
                       wrong);
        else
            doctor_say(d, DOCTOR_OK, known[i].name, NULL, "'%s': %s", value,
                       *value ? known[i].doc : "empty, as if not set");
        return;
    }
    if (near.best)
        doctor_say(d, DOCTOR_LIMITED, "unknown variable", "Correct or unset it.",
                   "%s means nothing to opmeter; %s would", name, near.best);
    else
        doctor_say(d, DOCTOR_LIMITED, "unknown variable", "Unset it.",
                   "%s means nothing to opmeter", name);
}

void doctor_environment(struct doctor *d)
{
    static const char prefix[] = "OPMETER_";
    size_t before = d->n;

    for (char **e = environ; *e; e++) {
        const char *eq = strchr(*e, '=');
        bool ours = strncmp(*e, prefix, sizeof(prefix) - 1) == 0;
        char name[64];

        for (size_t i = 0; eq && i < ARRAY_SIZE(known) && !ours; i++)
            ours = strlen(known[i].name) == (size_t)(eq - *e) &&
                   memcmp(known[i].name, *e, (size_t)(eq - *e)) == 0;
        if (!eq || !ours)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(eq - *e), *e);
        look_at_variable(d, name, eq + 1);
    }
    if (d->n == before)
        doctor_say(d, DOCTOR_OK, "OPMETER_*", NULL, "none is set; see 'man opmeter'");
}
