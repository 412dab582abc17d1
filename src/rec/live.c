/* live.c -- the mapped file: slots for threads, blocks for events. See rec.h for how it is used.
 *
 * The file is sparse. Disk space for slots and blocks is reserved before they are first touched:
 * storing into a mapped hole on a full disk would kill the program. */
#include "rec/rec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK_GROUP 16u /* blocks reserved on disk at a time */
#define SLOT_GROUP 16u
/* How long, in sessions and in time, a late store may hit the mapping of a past session: a thread
 * may have to wait for its processor between two instructions. */
#define QUARANTINE_SESSIONS 4
#define QUARANTINE_NS 10000000000

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct retired {
    struct retired *next;
    void *p;
    size_t size;
    int64_t since_ns;
};
static struct retired *retired, **retired_end = &retired; /* oldest first */
static unsigned nretired;

/* Storage for a part of the mapping, before anyone stores there. By way of the mapping, not of a
 * descriptor: those are the writer's. */
static bool reserve_disk(struct session *s, uint64_t offset, uint64_t len)
{
    int rc;

    if (atomic_load_explicit(&s->live_gone, memory_order_relaxed))
        return false;
    do
        rc = madvise(s->map + offset, len, MADV_POPULATE_WRITE);
    while (rc < 0 && (errno == EINTR || errno == EAGAIN));
    /* Before Linux 5.14 there is no such advice; opm__live_create() reserved all of it. */
    return rc == 0 || errno == EINVAL;
}

/* In the writer. False: no room for as much as the recording needs to begin with. */
static bool reserve_all(struct session *s)
{
    int rc;

    if (madvise(s->map, OPM_LIVE_HEADER_SIZE, MADV_POPULATE_WRITE) == 0 || errno != EINVAL)
        return true;
    do
        rc = posix_fallocate(s->live.fd, 0, (off_t)s->map_size);
    while (rc == EINTR);
    return rc == 0;
}

/* Put the next group of blocks into the pool. Locked by the caller, or not yet shared. */
static bool blocks_grow(struct session *s)
{
    uint32_t ready = atomic_load_explicit(&s->blocks_ready, memory_order_relaxed);
    uint32_t n = MIN(BLOCK_GROUP, s->nblock - ready);

    if (!n || !reserve_disk(s, live_block_offset(s->nslot, ready), (uint64_t)n * OPM_BLOCK_SIZE))
        return false;
    atomic_store_explicit(&s->blocks_ready, ready + n, memory_order_relaxed);
    for (uint32_t i = n; i-- > 0;)
        opm__block_release(s, ready + i);
    return true;
}

/* How large the live file may be: no more than the budget, and no more than the process may write.
 */
static uint64_t live_bytes(uint64_t budget)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < budget)
        return limit.rlim_cur;
    return budget;
}

int opm__live_create(struct session *s, uint64_t budget, opm_error *err)
{
    uint64_t bytes = live_bytes(budget);
    uint64_t per_thread = OPM_SLOT_SIZE + OPM_BLOCK_SIZE;
    struct opm_live_header *live;
    int rc;

    if (bytes < OPM_LIVE_HEADER_SIZE + 4 * per_thread)
        return opm__fail(err, OPM_EIO, "%s: the limit on file sizes leaves no room for it",
                         s->live_path);
    s->nblock = (uint32_t)((bytes - OPM_LIVE_HEADER_SIZE) / per_thread);
    s->nslot = s->nblock;
    s->map_size = live_block_offset(s->nslot, s->nblock);
    rc = opm__own_create(&s->live, s->live_path, opm__file_mode(s));
    if (rc)
        return opm__fail(err, OPM_EIO, "%s: %s", s->live_path, strerror(rc));
    if (ftruncate(s->live.fd, (off_t)s->map_size) < 0)
        return opm__fail(err, OPM_EIO, "%s: resize to %zu bytes: %s", s->live_path, s->map_size,
                         strerror(errno));
    s->map = mmap(NULL, s->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, s->live.fd, 0);
    if (s->map == MAP_FAILED) {
        s->map = NULL;
        return opm__fail(err, OPM_EIO, "%s: mmap: %s", s->live_path, strerror(errno));
    }
    s->next_slot = calloc(s->nslot, sizeof(*s->next_slot));
    s->block_links = calloc(s->nblock, sizeof(*s->next_block));
    s->next_block = s->block_links;
    if (!s->next_slot || !s->next_block)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", s->live_path);
    s->slots_ready = 0;
    s->free_slot = 0;
    atomic_store(&s->blocks_ready, 0);
    atomic_store(&s->free_blocks, 0);
    atomic_store(&s->full_blocks, 0);
    atomic_store(&s->nfree, 0);
    atomic_store(&s->held, 0);
    if (!reserve_all(s) || !reserve_disk(s, 0, OPM_LIVE_HEADER_SIZE) || !blocks_grow(s))
        return opm__fail(err, OPM_EIO, "%s: no space left for it", s->live_path);
    live = session_live(s);
    memcpy(live->magic, OPM_LIVE_MAGIC, sizeof(live->magic));
    live->version = OPM_RECORDING_VERSION;
    live->nslot = s->nslot;
    live->nblock = s->nblock;
    live->pid = s->header.pid;
    memcpy(live->session, s->header.session, sizeof(live->session));
    live->last = s->header.start;
    return 0;
}

void opm__live_give_up(struct session *s)
{
    uint8_t *map = s->map;

    atomic_store(&s->live_gone, true);
    __atomic_store_n(&opm__layers, 0, __ATOMIC_RELEASE);
    if (map)
        mmap(map, s->map_size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

static void map_to_anonymous(struct session *s)
{
    struct retired *r = malloc(sizeof(*r));
    int64_t now = clock_ns(CLOCK_MONOTONIC);

    if (s->map)
        mmap(s->map, s->map_size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (s->map && r) { /* without memory for r, it stays for ever */
        *r = (struct retired){ NULL, s->map, s->map_size, now };
        *retired_end = r;
        retired_end = &r->next;
        nretired++;
    } else {
        free(r);
    }
    s->map = NULL;
    while (nretired > QUARANTINE_SESSIONS && now - retired->since_ns > QUARANTINE_NS) {
        r = retired;
        retired = r->next;
        nretired--;
        munmap(r->p, r->size);
        free(r);
    }
}

/* The mappings themselves stay: at exit, other threads may still be running. */
void opm__live_unload(void)
{
    while (retired) {
        struct retired *r = retired;

        retired = r->next;
        free(r);
    }
    retired_end = &retired;
    nretired = 0;
}

static void thread_unlink(struct hot *h)
{
    *h->prev = h->next;
    if (h->next)
        h->next->prev = h->prev;
    h->next = NULL;
    h->prev = NULL;
}

void opm__thread_forget(struct hot *h)
{
    struct session *s = &opm__session;
    struct guard g;

    opm__lock(&s->lock, &g);
    if (h->prev)
        thread_unlink(h);
    opm__unlock(&s->lock, &g);
}

static void threads_forget(struct session *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->threads) {
        struct hot *h = s->threads;

        thread_unlink(h);
        atomic_store_explicit(&h->generation, 0, memory_order_relaxed);
        atomic_store_explicit(&h->serial, 0, memory_order_relaxed);
    }
    pthread_mutex_unlock(&s->lock);
}

void opm__live_abandon(struct session *s)
{
    map_to_anonymous(s);
    free(s->next_slot);
    free(s->block_links);
    s->next_slot = NULL;
    s->block_links = NULL;
    s->next_block = NULL;
}

/* As retiring, or abandoning what is not ours, but whatever the session points to stays. */
void opm__live_leave(struct session *s, bool ours)
{
    uint8_t *map = s->map;

    if (ours)
        threads_forget(s);
    if (ours && !s->live_stays)
        opm__own_unlink(&s->live);
    if (map)
        mmap(map, s->map_size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

void opm__live_retire(struct session *s)
{
    threads_forget(s);
    if (!s->live_stays)
        opm__own_unlink(&s->live);
    opm__live_abandon(s);
}

void opm__block_release(struct session *s, uint32_t block)
{
    uint64_t head = atomic_load_explicit(&s->free_blocks, memory_order_relaxed), next;

    __atomic_store_n(&session_block(s, block)->state, BLOCK_FREE, __ATOMIC_RELEASE);
    do {
        atomic_store_explicit(&s->next_block[block], (uint32_t)head, memory_order_relaxed);
        next = (head & ~(uint64_t)UINT32_MAX) | (block + 1);
    } while (!atomic_compare_exchange_weak_explicit(&s->free_blocks, &head, next,
                                                    memory_order_release, memory_order_relaxed));
    atomic_fetch_add_explicit(&s->nfree, 1, memory_order_relaxed);
}

/* The upper half of the head counts pops, so that a block that was taken and came back between the
 * two steps of another pop is noticed. */
static uint32_t block_pop(struct session *s)
{
    uint64_t head = atomic_load_explicit(&s->free_blocks, memory_order_acquire), next;

    do {
        if (!(uint32_t)head)
            return OPM_NO_BLOCK;
        next = ((head >> 32) + 1) << 32 |
               atomic_load_explicit(&s->next_block[(uint32_t)head - 1], memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&s->free_blocks, &head, next,
                                                    memory_order_acquire, memory_order_acquire));
    if (atomic_fetch_sub_explicit(&s->nfree, 1, memory_order_relaxed) == s->nblock / 4)
        opm__writer_wake(s);
    return (uint32_t)head - 1;
}

void opm__block_submit(struct session *s, uint32_t block)
{
    uint64_t head = atomic_load_explicit(&s->full_blocks, memory_order_relaxed);

    do
        atomic_store_explicit(&s->next_block[block], (uint32_t)head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&s->full_blocks, &head, block + 1,
                                                  memory_order_release, memory_order_relaxed));
}

uint32_t opm__block_take(struct session *s, const struct guard *may_wait)
{
    for (;;) {
        uint32_t freed = atomic_load_explicit(&s->freed, memory_order_acquire);
        uint32_t block = block_pop(s);
        struct guard again; /* the same as the caller's */

        if (block != OPM_NO_BLOCK)
            return block;
        if (atomic_load_explicit(&s->blocks_ready, memory_order_relaxed) < s->nblock) {
            bool grown;

            /* The definitions path, which never waits, holds the lock already. */
            if (may_wait)
                pthread_mutex_lock(&s->lock);
            grown = atomic_load_explicit(&s->nfree, memory_order_relaxed) > 0 || blocks_grow(s);
            if (may_wait)
                pthread_mutex_unlock(&s->lock);
            if (grown)
                continue;
        }
        /* Waiting helps only if the writer has something to give back. */
        if (atomic_load_explicit(&s->failing, memory_order_relaxed))
            return OPM_NO_BLOCK;
        opm__writer_wake(s);
        if (!may_wait || s->overflow == OPM_OVERFLOW_DROP ||
            atomic_load_explicit(&s->held, memory_order_relaxed) + 1 >=
                atomic_load_explicit(&s->blocks_ready, memory_order_relaxed) ||
            atomic_load_explicit(&s->state, memory_order_relaxed) != SESSION_ON)
            return OPM_NO_BLOCK;
        /* Signals may be what the program waits for; and there is nothing half done now. */
        opm__unguard(may_wait);
        opm__futex_wait(&s->freed, freed, 20000000);
        opm__guard(&again);
    }
}

static bool block_attach(struct session *s, struct hot *h, const struct guard *g)
{
    uint32_t block = opm__block_take(s, g);
    struct opm_block_header *b;

    if (block == OPM_NO_BLOCK)
        return false;
    atomic_fetch_add_explicit(&s->held, 1, memory_order_relaxed);
    b = session_block(s, block);
    b->thread = h->slot->serial;
    b->seq = h->slot->seq;
    b->used = 0;
    __atomic_store_n(&b->state, BLOCK_FILLING, __ATOMIC_RELEASE);
    h->units = block_units(b);
    h->used = 0;
    h->cap = OPM_BLOCK_UNITS;
    h->block = block;
    /* Count before block: a reader that sees the new block must not see the old count. */
    __atomic_store_n(&h->slot->used, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&h->slot->block, block, __ATOMIC_RELEASE);
    if (h->slot_lost) {
        h->units[0] = (struct opm_unit){ clock_ticks(), unit_word(UNIT_LOST, 0, h->slot_lost) };
        h->slot_lost = 0;
        h->used = 1;
        __atomic_store_n(&h->slot->used, 1, __ATOMIC_RELEASE);
    }
    return true;
}

/* The block is complete as it is: off to the writer with it. */
static void block_detach(struct session *s, struct hot *h)
{
    uint32_t block = h->block;
    struct opm_block_header *b;

    if (block == OPM_NO_BLOCK)
        return;
    h->block = OPM_NO_BLOCK;
    b = session_block(s, block);
    b->used = h->used;
    __atomic_store_n(&b->state, BLOCK_FULL, __ATOMIC_RELEASE);
    __atomic_store_n(&h->slot->block, OPM_NO_BLOCK, __ATOMIC_RELEASE);
    __atomic_store_n(&h->slot->used, 0, __ATOMIC_RELEASE);
    h->slot->seq++;
    h->units = NULL;
    h->used = 0;
    h->cap = 0;
    atomic_fetch_sub_explicit(&s->held, 1, memory_order_relaxed);
    opm__block_submit(s, block);
}

bool opm__block_next(struct hot *h)
{
    struct session *s = &opm__session;
    struct guard g;
    bool ok;

    opm__guard(&g);
    block_detach(s, h);
    ok = block_attach(s, h, &g);
    opm__unguard(&g);
    return ok;
}

/* A span is one loss, whatever it would have taken. */
void opm__count_lost(struct hot *h, unsigned kind)
{
    struct session *s = &opm__session;
    bool span = kind == UNIT_SPAN || kind == UNIT_LONG_SPAN || kind == UNIT_BEGIN ||
                kind == UNIT_ASYNC_BEGIN || kind == UNIT_DEVICE_SPAN;

    atomic_fetch_add_explicit(span ? &s->lost : &s->lost_other, 1, memory_order_relaxed);
    h->slot_lost += span;
}

/* Under lock. */
static uint32_t slot_take(struct session *s)
{
    uint32_t slot;

    if (!s->free_slot) {
        uint32_t n = MIN(SLOT_GROUP, s->nslot - s->slots_ready);

        if (!n || !reserve_disk(s, live_slot_offset(s->slots_ready), (uint64_t)n * OPM_SLOT_SIZE))
            return UINT32_MAX;
        for (uint32_t i = n; i-- > 0;) {
            s->next_slot[s->slots_ready + i] = s->free_slot;
            s->free_slot = s->slots_ready + i + 1;
        }
        s->slots_ready += n;
    }
    slot = s->free_slot - 1;
    s->free_slot = s->next_slot[slot];
    return slot;
}

bool opm__thread_enter(struct hot *h)
{
    struct session *s = &opm__session;
    char name[16] = "";
    uint32_t slot, serial;
    struct guard g;

    if (!opm__thread_watch())
        return false;
    opm__lock(&s->lock, &g);
    slot = slot_take(s);
    if (slot == UINT32_MAX) {
        opm__unlock(&s->lock, &g);
        return false;
    }
    serial = ++s->last_serial;
    *h = (struct hot){ .slot = session_slot(s, slot),
                       .slot_index = slot,
                       .block = OPM_NO_BLOCK,
                       .inside = h->inside,
                       .counted = h->counted };
    h->slot->block = OPM_NO_BLOCK;
    h->slot->used = 0;
    h->slot->depth = 0;
    h->slot->seq = 0;
    __atomic_store_n(&h->slot->serial, serial, __ATOMIC_RELEASE);
    h->next = s->threads;
    h->prev = &s->threads;
    if (s->threads)
        s->threads->prev = &h->next;
    s->threads = h;
    atomic_store_explicit(&h->serial, serial, memory_order_relaxed);
    atomic_store_explicit(&h->generation, atomic_load(&s->generation), memory_order_relaxed);
    prctl(PR_GET_NAME, name);
    opm__define_thread(s, serial, (int)syscall(SYS_gettid), name);
    atomic_fetch_add_explicit(&s->nthreads, 1, memory_order_relaxed);
    pthread_mutex_unlock(&s->lock);
    block_attach(s, h, &g);
    opm__unguard(&g);
    return true;
}

void opm__thread_leave(struct hot *h)
{
    struct session *s = &opm__session;
    uint32_t open = MIN(h->depth, OPM_STACK_MAX);
    struct guard g;

    opm__guard(&g);
    for (uint32_t i = 0; i < open; i++) {
        struct opm_unit u = { h->slot->stack[i].ticks,
                              unit_word(UNIT_BEGIN, (uint32_t)h->slot->stack[i].word, 0) };

        opm__put(h, &u, 1);
    }
    block_detach(s, h);
    pthread_mutex_lock(&s->lock);
    /* Serial 0 frees the slot for the reader; its open spans are in the stream by now. */
    __atomic_store_n(&h->slot->depth, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&h->slot->serial, 0, __ATOMIC_RELEASE);
    s->next_slot[h->slot_index] = s->free_slot;
    s->free_slot = h->slot_index + 1;
    thread_unlink(h);
    pthread_mutex_unlock(&s->lock);
    *h = (struct hot){ .inside = h->inside, .counted = h->counted };
    opm__unguard(&g);
}
