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
#define GROW_AGAIN_NS 10000000 /* after the disk was full */
/* How long, in recordings and in time, a late store may hit the mapping of a past one: a thread
 * may have to wait for its processor between two instructions. */
#define QUARANTINE_RECORDINGS 4
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
static bool reserve_disk(struct recorder *r, uint64_t offset, uint64_t len)
{
    int rc;

    if (atomic_load_explicit(&r->live_gone, memory_order_relaxed))
        return false;
    do
        rc = madvise(r->map + offset, len, MADV_POPULATE_WRITE);
    while (rc < 0 && (errno == EINTR || errno == EAGAIN));
    /* Before Linux 5.14 there is no such advice; opm__live_create() reserved all of it. */
    return rc == 0 || errno == EINVAL;
}

/* In the writer. False: no room for as much as the recording needs to begin with. */
static bool reserve_all(struct recorder *r)
{
    int rc;

    if (madvise(r->map, OPM_LIVE_HEADER_SIZE, MADV_POPULATE_WRITE) == 0 || errno != EINVAL)
        return true;
    do
        rc = posix_fallocate(r->live.fd, 0, (off_t)r->map_size);
    while (rc == EINTR);
    return rc == 0;
}

/* There may be more blocks. A full disk is asked again only after a while: every span that is lost
 * would ask it otherwise, one thread after the other. */
static bool may_grow(const struct recorder *r)
{
    return atomic_load_explicit(&r->blocks_ready, memory_order_relaxed) < r->nblock &&
           clock_ns(CLOCK_MONOTONIC) >=
               atomic_load_explicit(&r->grow_after_ns, memory_order_relaxed);
}

/* Put the next group of blocks into the pool. Locked by the caller, or not yet shared. */
static bool blocks_grow(struct recorder *r)
{
    uint32_t ready = atomic_load_explicit(&r->blocks_ready, memory_order_relaxed);
    uint32_t n = MIN(BLOCK_GROUP, r->nblock - ready);

    if (!n || !may_grow(r))
        return false;
    if (!reserve_disk(r, live_block_offset(r->nslot, ready), (uint64_t)n * OPM_BLOCK_SIZE)) {
        atomic_store_explicit(&r->grow_after_ns, clock_ns(CLOCK_MONOTONIC) + GROW_AGAIN_NS,
                              memory_order_relaxed);
        return false;
    }
    atomic_store_explicit(&r->blocks_ready, ready + n, memory_order_relaxed);
    for (uint32_t i = n; i-- > 0;)
        opm__block_release(r, ready + i);
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

int opm__live_create(struct recorder *r, uint64_t budget, opm_error *err)
{
    uint64_t bytes = live_bytes(budget);
    uint64_t per_thread = OPM_SLOT_SIZE + OPM_BLOCK_SIZE;
    struct opm_live_header *live;
    int rc;

    if (bytes < OPM_LIVE_HEADER_SIZE + 4 * per_thread)
        return opm__fail(err, OPM_EIO, "%s: the limit on file sizes leaves no room for it",
                         r->live_path);
    r->nblock = (uint32_t)((bytes - OPM_LIVE_HEADER_SIZE) / per_thread);
    r->nslot = r->nblock;
    r->map_size = live_block_offset(r->nslot, r->nblock);
    rc = opm__own_create(&r->live, r->live_path, opm__file_mode(r));
    if (rc)
        return opm__fail(err, OPM_EIO, "%s: %s", r->live_path, strerror(rc));
    if (ftruncate(r->live.fd, (off_t)r->map_size) < 0)
        return opm__fail(err, OPM_EIO, "%s: resize to %zu bytes: %s", r->live_path, r->map_size,
                         strerror(errno));
    r->map = mmap(NULL, r->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, r->live.fd, 0);
    if (r->map == MAP_FAILED) {
        r->map = NULL;
        return opm__fail(err, OPM_EIO, "%s: mmap: %s", r->live_path, strerror(errno));
    }
    r->next_slot = calloc(r->nslot, sizeof(*r->next_slot));
    r->block_links = calloc(r->nblock, sizeof(*r->next_block));
    r->next_block = r->block_links;
    if (!r->next_slot || !r->next_block)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", r->live_path);
    r->slots_ready = 0;
    r->free_slot = 0;
    atomic_store(&r->blocks_ready, 0);
    atomic_store(&r->grow_after_ns, 0);
    atomic_store(&r->free_blocks, 0);
    atomic_store(&r->full_blocks, 0);
    atomic_store(&r->nfree, 0);
    atomic_store(&r->held, 0);
    if (!reserve_all(r) || !reserve_disk(r, 0, OPM_LIVE_HEADER_SIZE) || !blocks_grow(r))
        return opm__fail(err, OPM_EIO, "%s: no space left for it", r->live_path);
    live = recorder_live(r);
    memcpy(live->magic, OPM_LIVE_MAGIC, sizeof(live->magic));
    live->version = OPM_RECORDING_VERSION;
    live->nslot = r->nslot;
    live->nblock = r->nblock;
    live->pid = r->header.pid;
    memcpy(live->session, r->header.session, sizeof(live->session));
    live->last = r->header.start;
    return 0;
}

void opm__live_give_up(struct recorder *r)
{
    uint8_t *map = r->map;

    atomic_store(&r->live_gone, true);
    __atomic_store_n(&opm__layers, 0, __ATOMIC_RELEASE);
    if (map)
        mmap(map, r->map_size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

static void map_to_anonymous(struct recorder *r)
{
    struct retired *old = malloc(sizeof(*old));
    int64_t now = clock_ns(CLOCK_MONOTONIC);

    if (r->map)
        mmap(r->map, r->map_size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (r->map && old) { /* without memory for old, it stays for ever */
        *old = (struct retired){ NULL, r->map, r->map_size, now };
        *retired_end = old;
        retired_end = &old->next;
        nretired++;
    } else {
        free(old);
    }
    r->map = NULL;
    while (nretired > QUARANTINE_RECORDINGS && now - retired->since_ns > QUARANTINE_NS) {
        old = retired;
        retired = old->next;
        nretired--;
        munmap(old->p, old->size);
        free(old);
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
    struct recorder *r = &opm__recorder;
    struct guard g;

    opm__lock(&r->lock, &g);
    if (h->prev)
        thread_unlink(h);
    opm__unlock(&r->lock, &g);
}

static void threads_forget(struct recorder *r)
{
    pthread_mutex_lock(&r->lock);
    while (r->threads) {
        struct hot *h = r->threads;

        thread_unlink(h);
        atomic_store_explicit(&h->generation, 0, memory_order_relaxed);
        atomic_store_explicit(&h->serial, 0, memory_order_relaxed);
    }
    pthread_mutex_unlock(&r->lock);
}

void opm__live_abandon(struct recorder *r)
{
    map_to_anonymous(r);
    free(r->next_slot);
    free(r->block_links);
    r->next_slot = NULL;
    r->block_links = NULL;
    r->next_block = NULL;
}

/* As retiring, or abandoning what is not ours, but whatever the recorder points to stays. */
void opm__live_leave(struct recorder *r, bool ours)
{
    uint8_t *map = r->map;

    if (ours)
        threads_forget(r);
    if (ours && !r->live_stays)
        opm__own_unlink(&r->live);
    if (map)
        mmap(map, r->map_size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

void opm__live_retire(struct recorder *r)
{
    threads_forget(r);
    if (!r->live_stays)
        opm__own_unlink(&r->live);
    opm__live_abandon(r);
}

void opm__block_release(struct recorder *r, uint32_t block)
{
    uint64_t head = atomic_load_explicit(&r->free_blocks, memory_order_relaxed), next;

    __atomic_store_n(&recorder_block(r, block)->state, BLOCK_FREE, __ATOMIC_RELEASE);
    do {
        atomic_store_explicit(&r->next_block[block], (uint32_t)head, memory_order_relaxed);
        next = (head & ~(uint64_t)UINT32_MAX) | (block + 1);
    } while (!atomic_compare_exchange_weak_explicit(&r->free_blocks, &head, next,
                                                    memory_order_release, memory_order_relaxed));
    atomic_fetch_add_explicit(&r->nfree, 1, memory_order_relaxed);
}

/* The upper half of the head counts pops, so that a block that was taken and came back between the
 * two steps of another pop is noticed. */
static uint32_t block_pop(struct recorder *r)
{
    uint64_t head = atomic_load_explicit(&r->free_blocks, memory_order_acquire), next;

    do {
        if (!(uint32_t)head)
            return OPM_NO_BLOCK;
        next = ((head >> 32) + 1) << 32 |
               atomic_load_explicit(&r->next_block[(uint32_t)head - 1], memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&r->free_blocks, &head, next,
                                                    memory_order_acquire, memory_order_acquire));
    if (atomic_fetch_sub_explicit(&r->nfree, 1, memory_order_relaxed) == r->nblock / 4)
        opm__writer_wake(r);
    return (uint32_t)head - 1;
}

void opm__block_submit(struct recorder *r, uint32_t block)
{
    uint64_t head = atomic_load_explicit(&r->full_blocks, memory_order_relaxed);

    do
        atomic_store_explicit(&r->next_block[block], (uint32_t)head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&r->full_blocks, &head, block + 1,
                                                  memory_order_release, memory_order_relaxed));
}

uint32_t opm__block_take(struct recorder *r, const struct guard *may_wait)
{
    for (;;) {
        uint32_t freed = atomic_load_explicit(&r->freed, memory_order_acquire);
        uint32_t block = block_pop(r);
        struct guard again; /* the same as the caller's */

        if (block != OPM_NO_BLOCK)
            return block;
        if (may_grow(r)) {
            bool grown;

            /* The definitions path, which never waits, holds the lock already. */
            if (may_wait)
                pthread_mutex_lock(&r->lock);
            grown = atomic_load_explicit(&r->nfree, memory_order_relaxed) > 0 || blocks_grow(r);
            if (may_wait)
                pthread_mutex_unlock(&r->lock);
            if (grown)
                continue;
        }
        /* Waiting helps only if the writer has something to give back. */
        if (atomic_load_explicit(&r->failing, memory_order_relaxed))
            return OPM_NO_BLOCK;
        opm__writer_wake(r);
        if (!may_wait || r->overflow == OPM_OVERFLOW_DROP ||
            atomic_load_explicit(&r->held, memory_order_relaxed) + 1 >=
                atomic_load_explicit(&r->blocks_ready, memory_order_relaxed) ||
            atomic_load_explicit(&r->state, memory_order_relaxed) != RECORDER_ON)
            return OPM_NO_BLOCK;
        /* Signals may be what the program waits for; and there is nothing half done now. */
        opm__unguard(may_wait);
        opm__futex_wait(&r->freed, freed, 20000000);
        opm__guard(&again);
    }
}

static bool block_attach(struct recorder *r, struct hot *h, const struct guard *g)
{
    uint32_t block = opm__block_take(r, g);
    struct opm_block_header *b;

    if (block == OPM_NO_BLOCK)
        return false;
    atomic_fetch_add_explicit(&r->held, 1, memory_order_relaxed);
    b = recorder_block(r, block);
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
static void block_detach(struct recorder *r, struct hot *h)
{
    uint32_t block = h->block;
    struct opm_block_header *b;

    if (block == OPM_NO_BLOCK)
        return;
    h->block = OPM_NO_BLOCK;
    b = recorder_block(r, block);
    b->used = h->used;
    __atomic_store_n(&b->state, BLOCK_FULL, __ATOMIC_RELEASE);
    __atomic_store_n(&h->slot->block, OPM_NO_BLOCK, __ATOMIC_RELEASE);
    __atomic_store_n(&h->slot->used, 0, __ATOMIC_RELEASE);
    h->slot->seq++;
    h->units = NULL;
    h->used = 0;
    h->cap = 0;
    atomic_fetch_sub_explicit(&r->held, 1, memory_order_relaxed);
    opm__block_submit(r, block);
}

bool opm__block_next(struct hot *h)
{
    struct recorder *r = &opm__recorder;
    struct guard g;
    bool ok;

    opm__guard(&g);
    block_detach(r, h);
    ok = block_attach(r, h, &g);
    opm__unguard(&g);
    return ok;
}

/* A span is one loss, whatever it would have taken. */
void opm__count_lost(struct hot *h, unsigned kind)
{
    struct recorder *r = &opm__recorder;
    bool span = kind == UNIT_SPAN || kind == UNIT_LONG_SPAN || kind == UNIT_BEGIN ||
                kind == UNIT_ASYNC_BEGIN || kind == UNIT_DEVICE_SPAN;

    atomic_fetch_add_explicit(span ? &r->lost : &r->lost_other, 1, memory_order_relaxed);
    h->slot_lost += span;
}

/* Under lock. */
static uint32_t slot_take(struct recorder *r)
{
    uint32_t slot;

    if (!r->free_slot) {
        uint32_t n = MIN(SLOT_GROUP, r->nslot - r->slots_ready);

        if (!n || !reserve_disk(r, live_slot_offset(r->slots_ready), (uint64_t)n * OPM_SLOT_SIZE))
            return UINT32_MAX;
        for (uint32_t i = n; i-- > 0;) {
            r->next_slot[r->slots_ready + i] = r->free_slot;
            r->free_slot = r->slots_ready + i + 1;
        }
        r->slots_ready += n;
    }
    slot = r->free_slot - 1;
    r->free_slot = r->next_slot[slot];
    return slot;
}

bool opm__thread_enter(struct hot *h)
{
    struct recorder *r = &opm__recorder;
    char name[16] = "";
    uint32_t slot, serial;
    struct guard g;

    if (!opm__thread_watch())
        return false;
    opm__lock(&r->lock, &g);
    slot = slot_take(r);
    if (slot == UINT32_MAX) {
        opm__unlock(&r->lock, &g);
        return false;
    }
    serial = ++r->last_serial;
    *h = (struct hot){ .slot = recorder_slot(r, slot),
                       .slot_index = slot,
                       .block = OPM_NO_BLOCK,
                       .inside = h->inside,
                       .counted = h->counted };
    h->slot->block = OPM_NO_BLOCK;
    h->slot->used = 0;
    h->slot->depth = 0;
    h->slot->seq = 0;
    __atomic_store_n(&h->slot->serial, serial, __ATOMIC_RELEASE);
    h->next = r->threads;
    h->prev = &r->threads;
    if (r->threads)
        r->threads->prev = &h->next;
    r->threads = h;
    atomic_store_explicit(&h->serial, serial, memory_order_relaxed);
    atomic_store_explicit(&h->generation, atomic_load(&r->generation), memory_order_relaxed);
    prctl(PR_GET_NAME, name);
    opm__define_thread(r, serial, (int)syscall(SYS_gettid), name);
    atomic_fetch_add_explicit(&r->nthreads, 1, memory_order_relaxed);
    pthread_mutex_unlock(&r->lock);
    block_attach(r, h, &g);
    opm__unguard(&g);
    return true;
}

void opm__thread_leave(struct hot *h)
{
    struct recorder *r = &opm__recorder;
    uint32_t open = MIN(h->depth, OPM_STACK_MAX);
    struct guard g;

    opm__guard(&g);
    for (uint32_t i = 0; i < open; i++) {
        struct opm_unit u = { h->slot->stack[i].ticks,
                              unit_word(UNIT_BEGIN, (uint32_t)h->slot->stack[i].word, 0) };

        opm__put(h, &u, 1);
    }
    block_detach(r, h);
    pthread_mutex_lock(&r->lock);
    /* Serial 0 frees the slot for the reader; its open spans are in the stream by now. */
    __atomic_store_n(&h->slot->depth, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&h->slot->serial, 0, __ATOMIC_RELEASE);
    r->next_slot[h->slot_index] = r->free_slot;
    r->free_slot = h->slot_index + 1;
    thread_unlink(h);
    pthread_mutex_unlock(&r->lock);
    *h = (struct hot){ .inside = h->inside, .counted = h->counted };
    opm__unguard(&g);
}
