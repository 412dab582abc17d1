/* doctor_cpu.c -- clock and processor; see doctor.h. */
#include "cli/doctor.h"

#include "base/folder.h"
#include "cli/cli.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#define COST_ROUNDS 7
#define COST_READS 20000
#define CALIBRATE_NS 20000000
#define SLOW_CLOCK_NS 150 /* a clock that needs the kernel costs more than this */

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void read_monotonic(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
}

/* ns of one call; the best of some rounds, so that interruptions do not count. */
static double cost_ns(void (*read_clock)(void))
{
    double best = 0;

    for (int round = 0; round < COST_ROUNDS; round++) {
        int64_t start = now_ns();
        double ns;

        for (int i = 0; i < COST_READS; i++)
            read_clock();
        ns = (double)(now_ns() - start) / COST_READS;
        if (round == 0 || ns < best)
            best = ns;
    }
    return best;
}

#if defined(__x86_64__)
static void read_tsc(void)
{
    volatile uint64_t t = __rdtsc();

    (void)t;
}

static bool tsc_is_invariant(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
}

static double tsc_ghz(void)
{
    int64_t start = now_ns(), end;
    uint64_t ticks = __rdtsc();

    do
        end = now_ns();
    while (end - start < CALIBRATE_NS);
    return (double)(__rdtsc() - ticks) / (double)(end - start);
}

static void look_at_counter(struct doctor *d)
{
    if (tsc_is_invariant())
        doctor_say(d, DOCTOR_OK, "time stamp counter", NULL,
                   "invariant TSC, %.3f GHz, %.1f ns a read", tsc_ghz(), cost_ns(read_tsc));
    else
        doctor_say(
            d, DOCTOR_LIMITED, "time stamp counter",
            "In a virtual machine, let the host pass the invariant TSC flag through.",
            "the TSC is not invariant (CPUID 80000007h EDX bit 8 is 0): its rate may change; "
            "recordings use CLOCK_MONOTONIC instead");
}
#elif defined(__aarch64__)
static void look_at_counter(struct doctor *d)
{
    uint64_t hz;

    __asm__("mrs %0, cntfrq_el0" : "=r"(hz));
    doctor_say(d, DOCTOR_OK, "generic counter", NULL, "CNTVCT_EL0, %.3f MHz, so %.1f ns a tick",
               (double)hz / 1e6, hz ? 1e9 / (double)hz : 0);
}
#else
static void look_at_counter(struct doctor *d)
{
    doctor_say(d, DOCTOR_MISSING, "time stamp counter", NULL,
               "this is not an x86-64 processor; recordings use the clocks of the kernel");
}
#endif

void doctor_clock(struct doctor *d)
{
    static const char source_file[] =
        "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    char source[64];
    struct timespec res = { 0 };
    double cost = cost_ns(read_monotonic);

    look_at_counter(d);
    if (!doctor_read_line(source_file, source, sizeof(source)))
        doctor_say(d, DOCTOR_LIMITED, "kernel clock source", NULL, "unknown: %s cannot be read",
                   source_file);
    else if (strcmp(source, "hpet") == 0 || strcmp(source, "acpi_pm") == 0)
        doctor_say(d, DOCTOR_LIMITED, "kernel clock source",
                   "Find out with 'dmesg | grep -i tsc' why the kernel gave up the TSC.",
                   "%s: slow, and the kernel does not trust the TSC of this machine", source);
    else
        doctor_say(d, DOCTOR_OK, "kernel clock source", NULL, "%s", source);
    clock_getres(CLOCK_MONOTONIC, &res);
    if (cost > SLOW_CLOCK_NS)
        doctor_say(d, DOCTOR_LIMITED, "clock_gettime",
                   "Use a kernel clock source that the vDSO can read (tsc, kvm-clock).",
                   "CLOCK_MONOTONIC, %.0f ns a read: it enters the kernel; resolution %ld ns", cost,
                   res.tv_nsec);
    else
        doctor_say(d, DOCTOR_OK, "clock_gettime", NULL,
                   "CLOCK_MONOTONIC, %.1f ns a read, resolution %ld ns", cost, res.tv_nsec);
}

static int allowed_cpus(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

/* CPUs that the control group may use, as in "150000 100000"; 0: no limit. */
static double quota_cpus(void)
{
    char line[64], *end;
    double quota, period;

    if (!doctor_read_line("/sys/fs/cgroup/cpu.max", line, sizeof(line)))
        return 0;
    quota = strtod(line, &end);
    period = end == line ? 0 : strtod(end, NULL);
    return period > 0 ? quota / period : 0;
}

static void look_at_cores(struct doctor *d)
{
    int online = (int)sysconf(_SC_NPROCESSORS_ONLN), allowed = allowed_cpus();
    double quota = quota_cpus();
    char siblings[64] = "", smt[8] = "";
    const char *threads = "";

    doctor_read_line("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", siblings,
                     sizeof(siblings));
    doctor_read_line("/sys/devices/system/cpu/smt/active", smt, sizeof(smt));
    if (strpbrk(siblings, ",-") || strcmp(smt, "1") == 0)
        threads =
            ", two hardware threads to a core (SMT): use one thread per core for steady times";
    else if (*siblings)
        threads = ", one hardware thread to a core";
    if (quota > 0 && quota < online)
        doctor_say(
            d, DOCTOR_LIMITED, "cores", "Raise the CPU limit of the container for steady times.",
            "%d CPU%s, but the control group allows the time of %.2g; the rest of each period "
            "is spent waiting",
            online, human_s(online), quota);
    else if (allowed && allowed < online)
        doctor_say(d, DOCTOR_OK, "cores", NULL, "%d of %d CPUs allowed to this process%s", allowed,
                   online, threads);
    else
        doctor_say(d, DOCTOR_OK, "cores", NULL, "%d CPU%s%s", online, human_s(online), threads);
}

static void look_at_caches(struct doctor *d)
{
    struct buf b = { 0 };

    for (int i = 0; i < 8; i++) {
        char path[96], level[8], type[32], size[32];

        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        if (!doctor_read_line(path, level, sizeof(level)))
            break;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        if (!doctor_read_line(path, type, sizeof(type)) || strcmp(type, "Instruction") == 0)
            continue;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (doctor_read_line(path, size, sizeof(size)))
            buf_addf(&b, "%sL%s%s %s", b.len ? ", " : "", level,
                     strcmp(type, "Data") == 0 ? "d" : "", size);
    }
    if (b.len)
        doctor_say(d, DOCTOR_OK, "caches", NULL, "%s", buf_str(&b));
    else
        doctor_say(d, DOCTOR_LIMITED, "caches", NULL,
                   "unknown: /sys/devices/system/cpu/cpu0/cache is empty");
    buf_release(&b);
}

/* What the kernel says to programs is surer than its text: an emulator shows the text of the
 * machine below. Elsewhere flags stay as they are. */
static void arm_flags(char *flags, size_t size)
{
#if defined(__aarch64__)
    unsigned long cap = getauxval(AT_HWCAP), cap2 = getauxval(AT_HWCAP2);

    snprintf(flags, size, "%s%s%s%s", cap & 1ul << 1 ? "asimd " : "",
             cap & 1ul << 20 ? "asimddp " : "", cap2 & 1ul << 13 ? "i8mm " : "",
             cap2 & 1ul << 14 ? "bf16 " : "");
#else
    (void)flags;
    (void)size;
#endif
}

static void look_at_isa(struct doctor *d, const char *flags)
{
    static const struct {
        const char *flag; /* in /proc/cpuinfo: what the processor has and the kernel allows */
        const char *name;
    } sets[] = {
#if defined(__aarch64__)
        { "asimd", "NEON" },
        { "asimddp", "dot product" },
        { "i8mm", "i8mm" },
        { "bf16", "BF16" },
#else
        { "avx2", "AVX2" },
        { "fma", "FMA" },
        { "f16c", "F16C" },
        { "avx512f", "AVX-512" },
        { "avx512_vnni", "AVX-512 VNNI" },
        { "avx512_bf16", "AVX-512 BF16" },
        { "avx512_fp16", "AVX-512 FP16" },
        { "avx_vnni", "AVX-VNNI" },
        { "amx_tile", "AMX" },
        { "amx_int8", "AMX INT8" },
        { "amx_bf16", "AMX BF16" },
#endif
    };
    struct buf has = { 0 }, lacks = { 0 };

    if (!*flags) {
        doctor_say(d, DOCTOR_LIMITED, "instruction sets", NULL, "/proc/cpuinfo names none");
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
        struct buf *b = doctor_has_word(flags, sets[i].flag) ? &has : &lacks;

        buf_addf(b, "%s%s", b->len ? ", " : "", sets[i].name);
    }
    if (!doctor_has_word(flags, "avx2") && !doctor_has_word(flags, "asimd"))
        doctor_say(d, DOCTOR_LIMITED, "instruction sets", NULL,
                   "no AVX2: models run on plain code, slowly");
    else
        doctor_say(d, DOCTOR_OK, "instruction sets", NULL, "%s%s%s", buf_str(&has),
                   lacks.len ? "; not: " : "", buf_str(&lacks));
    buf_release(&has);
    buf_release(&lacks);
}

static void look_at_frequency(struct doctor *d, bool virtual_machine)
{
    char governor[64], khz[32] = "";

    if (!doctor_read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor,
                          sizeof(governor))) {
        doctor_say(d, DOCTOR_LIMITED, "frequency",
                   "Compare only runs made one right after the other.", "%s",
                   virtual_machine ? "decided by the host of this virtual machine, not visible"
                                   : "the kernel has no cpufreq driver; not visible");
        return;
    }
    doctor_read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", khz, sizeof(khz));
    if (strcmp(governor, "performance") == 0)
        doctor_say(d, DOCTOR_OK, "frequency", NULL, "governor 'performance', at most %.2f GHz",
                   strtod(khz, NULL) / 1e6);
    else
        doctor_say(d, DOCTOR_LIMITED, "frequency",
                   "For steady times: sudo cpupower frequency-set -g performance",
                   "governor '%s', at most %.2f GHz: the clock rate follows the load", governor,
                   strtod(khz, NULL) / 1e6);
}

static void look_at_load(struct doctor *d)
{
    int cpus = allowed_cpus();
    double load;

    if (getloadavg(&load, 1) != 1)
        return;
    if (cpus && load > 0.5 * cpus)
        doctor_say(d, DOCTOR_LIMITED, "load", "Measure when nothing else runs.",
                   "%.1f threads wanted to run in the last minute, on %d CPU%s", load, cpus,
                   human_s(cpus));
    else
        doctor_say(d, DOCTOR_OK, "load", NULL, "%.1f threads wanted to run in the last minute",
                   load);
}

void doctor_cpu(struct doctor *d)
{
    char flags[8192] = "", model[128];
    bool virtual_machine;

    folder_cpu_name(model, sizeof(model));
    doctor_read_key("/proc/cpuinfo", "flags", flags, sizeof(flags));
    arm_flags(flags, sizeof(flags));
    virtual_machine = doctor_has_word(flags, "hypervisor");
    doctor_say(d, DOCTOR_OK, "model", NULL, "%s%s", model,
               virtual_machine ? ", in a virtual machine" : "");
    look_at_cores(d);
    look_at_caches(d);
    look_at_isa(d, flags);
    look_at_frequency(d, virtual_machine);
    look_at_load(d);
}
