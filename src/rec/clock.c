/* clock.c -- see clock.h. */
#include "rec/clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

uint32_t opm__clock_source = CLOCK_SOURCE_MONOTONIC;
uint64_t opm__clock_rate;
uint64_t opm__clock_apart;

#if defined(__x86_64__)
/* The CPU promises a constant rate in all power states, and the kernel has not found otherwise: it
 * replaces the TSC by one of these clock sources when it does. */
static int tsc_is_trusted(void)
{
    unsigned a, b, c, d;
    char source[32] = "";
    int fd;

    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & (1u << 8)))
        return 0;
    fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
              O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, source, sizeof(source) - 1);

        source[n > 0 ? n : 0] = '\0';
        close(fd);
    }
    return strncmp(source, "hpet", 4) != 0 && strncmp(source, "acpi_pm", 7) != 0;
}
#endif

/* What the firmware says of the counter, in ticks as they are here; or 0. */
static uint64_t stated_rate(void)
{
    uint64_t hz = 0;

#if defined(__aarch64__)
    __asm__("mrs %0, cntfrq_el0" : "=r"(hz));
    hz *= CNTVCT_PARTS;
#endif
    return hz;
}

/* A first guess at the rate, good to a tenth of a percent; calibrations in the trace are better. */
static uint64_t measure_rate(void)
{
    int64_t start_ns = clock_ns(CLOCK_MONOTONIC), now_ns;
    uint64_t start = clock_ticks(), now;

    do {
        now_ns = clock_ns(CLOCK_MONOTONIC);
        now = clock_ticks();
    } while (now_ns - start_ns < 50000);
    return (uint64_t)((double)(now - start) * 1e9 / (double)(now_ns - start_ns));
}

void opm__clock_init(void)
{
    uint64_t rate;

    if (opm__clock_known())
        return;
#if defined(__x86_64__)
    opm__clock_source = tsc_is_trusted() ? CLOCK_SOURCE_TSC : CLOCK_SOURCE_MONOTONIC;
#elif defined(__aarch64__)
    opm__clock_source = CLOCK_SOURCE_CNTVCT;
#endif
    rate = opm__clock_source == CLOCK_SOURCE_MONOTONIC ? 1000000000 : stated_rate();
    if (!rate)
        rate = measure_rate();
    opm__clock_apart = rate / 1000000000 + 1;
    __atomic_store_n(&opm__clock_rate, rate, __ATOMIC_RELEASE);
}

struct opm_calibration opm__clock_read(void)
{
    struct opm_calibration best = { 0 };
    uint64_t best_gap = UINT64_MAX;

    for (int i = 0; i < 8; i++) {
        uint64_t before = clock_ticks();
        int64_t mono = clock_ns(CLOCK_MONOTONIC);
        int64_t real = clock_ns(CLOCK_REALTIME);
        uint64_t after = clock_ticks();

        /* A preempted try has a wide gap; the narrowest one ties the clocks best. The monotonic
         * clock was read at about a third of the way. */
        if (after - before < best_gap) {
            best_gap = after - before;
            best.ticks = before + best_gap / 3;
            best.monotonic_ns = mono;
            best.realtime_ns = real;
        }
    }
    return best;
}
