/* bus.c -- the program survives when somebody cuts the live file short.
 *
 * Storing into a mapped page that its file no longer has raises SIGBUS. No file that is reachable
 * when we are killed can be sealed against that, so the fault is caught: memory takes the place of
 * the mapping, the store is repeated there, and nothing more is recorded.
 *
 * The handler is the process's, so we are careful with it. It is set while a recording goes on, and
 * only where nothing else is: a program that has a handler of its own keeps it, and one that sets
 * its own later has that one from then on (the writer still looks at the length of the file several
 * times a second). A SIGBUS that is not ours gets what it would have got: what was there before is
 * set again, and the instruction repeated or the signal sent again. A thread that blocks SIGBUS
 * cannot be helped: the kernel ends the process. */
#include "rec/rec.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sigaction before;
static _Atomic bool installed;

static void on_bus(int sig, siginfo_t *info, void *context)
{
    struct recorder *r = &opm__recorder;
    const uint8_t *at = info->si_addr, *map = r->map;
    int saved = errno;

    (void)context;
    if (info->si_code > 0 && map && at >= map && at < map + r->map_size) {
        opm__live_give_up(r);
    } else {
        sigaction(sig, &before, NULL);
        /* A fault comes again by itself, but what was sent does not. */
        if (info->si_code <= 0)
            syscall(SYS_rt_tgsigqueueinfo, getpid(), (int)syscall(SYS_gettid), sig, info);
    }
    errno = saved;
}

void opm__bus_watch(void)
{
    struct sigaction action = { .sa_sigaction = on_bus,
                                .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
    struct sigaction now;

    sigemptyset(&action.sa_mask);
    if (atomic_load(&installed) || sigaction(SIGBUS, NULL, &now) < 0 ||
        (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL)
        return;
    before = now;
    atomic_store(&installed, sigaction(SIGBUS, &action, NULL) == 0);
}

void opm__bus_leave(void)
{
    struct sigaction now;

    if (atomic_exchange(&installed, false) && sigaction(SIGBUS, NULL, &now) == 0 &&
        (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus)
        sigaction(SIGBUS, &before, NULL);
}
