/* guard.c -- what a signal or a cancellation may find a thread doing.
 *
 * Code that holds a lock, or has a block in its hands, is guarded: no handler runs and the thread
 * is not cancelled. All other code of the recorder may be interrupted anywhere. A handler may
 * record; if what it interrupted is in the middle of something (`inside`), what it records is
 * dropped and counted. It may also never return: siglongjmp(), or an asynchronous cancellation.
 * Then `inside` names a frame that is no more, which shows as soon as the thread records from a
 * place further up its stack, or ends. */
#include "rec/rec.h"

/* A handler on the same stack is below the frame that it interrupted by at least what the kernel
 * saves there. */
#define SIGNAL_FRAME_BYTES 512

/* A thread that glibc cancels inside pthread_setcancelstate() ends without a result; inside
 * pthread_setcanceltype(), it has one. */
void opm__cancel_off(struct cancel_off *c)
{
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &c->type);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &c->state);
}

void opm__cancel_back(const struct cancel_off *c)
{
    int ignored;

    pthread_setcancelstate(c->state, &ignored);
    pthread_setcanceltype(c->type, &ignored);
}

void opm__guard(struct guard *g)
{
    sigset_t held;

    opm__cancel_off(&g->cancel);
    sigfillset(&held);
    /* A mistake must stay one, and stores into a mapped file can raise SIGBUS. */
    sigdelset(&held, SIGSEGV);
    sigdelset(&held, SIGBUS);
    sigdelset(&held, SIGFPE);
    sigdelset(&held, SIGILL);
    sigdelset(&held, SIGTRAP);
    sigdelset(&held, SIGSYS);
    sigdelset(&held, SIGXFSZ); /* whoever writes takes care of it: opm__signals_off() */
    pthread_sigmask(SIG_BLOCK, &held, &g->mask);
}

void opm__unguard(const struct guard *g)
{
    /* In this order: the first handler to run may never return. */
    opm__cancel_back(&g->cancel);
    pthread_sigmask(SIG_SETMASK, &g->mask, NULL);
}

void opm__lock(pthread_mutex_t *m, struct guard *g)
{
    opm__guard(g);
    pthread_mutex_lock(m);
}

void opm__unlock(pthread_mutex_t *m, const struct guard *g)
{
    pthread_mutex_unlock(m);
    opm__unguard(g);
}

/* The frame that was inside is no more: put right what it may have left half done. */
static void recover(struct hot *h)
{
    if (h->counted) {
        h->counted = false;
        atomic_fetch_sub(&opm__recorder.slow, 1);
    }
    if (h->slot && h->cap && h->depth <= OPM_STACK_MAX) {
        /* A span whose unit is there but that is on the stack still. */
        if (h->depth && h->used && h->used <= h->cap &&
            unit_kind(&h->units[h->used - 1]) == UNIT_SPAN &&
            h->units[h->used - 1].ticks == h->slot->stack[h->depth - 1].ticks)
            h->depth--;
        __atomic_store_n(&h->slot->used, h->used, __ATOMIC_RELEASE);
        __atomic_store_n(&h->slot->depth, h->depth, __ATOMIC_RELEASE);
    }
    atomic_store_explicit(&h->inside, 0, memory_order_relaxed);
}

bool opm__interrupting(void)
{
    struct hot *h = &opm__hot;
    uintptr_t inside = atomic_load_explicit(&h->inside, memory_order_relaxed);
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    stack_t stack = { .ss_flags = 0 };

    if (!inside)
        return false;
    /* On a stack of its own, a handler may be anywhere. */
    if (sigaltstack(NULL, &stack) < 0 || stack.ss_flags & SS_ONSTACK ||
        here + SIGNAL_FRAME_BYTES < inside)
        return true;
    recover(h);
    return false;
}

void opm__thread_recover(void)
{
    if (atomic_load_explicit(&opm__hot.inside, memory_order_relaxed))
        recover(&opm__hot);
}
