/* writer.c -- the thread that owns the files: packs full blocks and appends them.
 *
 * All use of the files' descriptors is here (ownfile.h says why), from creating them to closing
 * them. A block returns to the pool only after write() took its chunk, so at every moment each
 * event is in the live file or in the file. The thread looks for full blocks every so often, and at
 * once when the pool runs low: recording threads need not wake it. What could not be written stays
 * in its blocks and is tried again; events are lost only when no block is left for them. If it
 * cannot be written in the end, the live file stays and has it.
 *
 * The mapped file is open to others: what is read from it may be anything by then. It is copied
 * before it is packed, and numbers from it are never used to reach memory unchecked. */
#include "rec/rec.h"

#include "format/crc32c.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUT_BYTES (1u << 20)
#define IDLE_MIN_NS 1000000
#define IDLE_MAX_NS 50000000
#define IDLE_FAILING_NS 500000000 /* before the same is tried again */
#define CALIBRATE_NS 1000000000

/* What a thread that may not touch the file has for it. One at a time: it holds the recorder's
 * lock.
 */
struct direct {
    struct opm_chunk chunk;
    const void *payload;
    bool kept;
    _Atomic uint32_t done; /* futex */
};

static OPM__THREAD bool is_writer;

static void chunk_finish(struct opm_chunk *c, const void *payload)
{
    c->magic = OPM_CHUNK_MAGIC;
    c->crc = crc32c(payload, c->size);
    c->header_crc = crc32c(c, offsetof(struct opm_chunk, header_crc));
}

static void note_errno(struct recorder *r, int error)
{
    int expected = 0;

    atomic_compare_exchange_strong(&r->write_errno, &expected, error);
}

/* The file is there to be written, and as long as we made it. */
static bool file_usable(struct recorder *r)
{
    uint64_t size;

    if (r->stopped_by)
        return false;
    if (!opm__own_check(&r->file, &size)) {
        r->stopped_by = STOPPED_NOT_OURS;
        note_errno(r, EBADF);
    } else if (size < r->size) {
        r->stopped_by = STOPPED_TRUNCATED;
        note_errno(r, EIO);
    }
    return !r->stopped_by;
}

/* All of it at the end of the file, or none of it: a torn chunk is cut off again. Under io_lock. */
static bool file_append(struct recorder *r, const uint8_t *p, size_t len)
{
    int why;

    if (!file_usable(r))
        return false;
    why = opm__own_write(&r->file, p, len, r->size);
    if (why) {
        note_errno(r, why);
        if (opm__own_check(&r->file, NULL) && ftruncate(r->file.fd, (off_t)r->size) < 0)
            note_errno(r, errno);
        return false;
    }
    r->size += len;
    return true;
}

static bool write_chunk(struct recorder *r, struct opm_chunk chunk, const void *payload)
{
    uint8_t *all = opm__alloc(sizeof(chunk) + chunk.size);
    bool kept = false;

    chunk_finish(&chunk, payload);
    if (all) {
        memcpy(all, &chunk, sizeof(chunk));
        if (chunk.size)
            memcpy(all + sizeof(chunk), payload, chunk.size);
        pthread_mutex_lock(&r->io_lock);
        kept = file_append(r, all, sizeof(chunk) + chunk.size);
        pthread_mutex_unlock(&r->io_lock);
    }
    opm__free(all);
    return kept;
}

static void serve_direct(struct recorder *r)
{
    struct direct *d = atomic_exchange(&r->direct, NULL);

    if (!d)
        return;
    d->kept = write_chunk(r, d->chunk, d->payload);
    atomic_store(&d->done, 1);
    opm__futex_wake(&d->done, 1);
}

bool opm__write_chunk(struct recorder *r, struct opm_chunk chunk, const void *payload)
{
    struct direct d = { .chunk = chunk, .payload = payload };

    if (is_writer)
        return write_chunk(r, chunk, payload);
    if (atomic_load_explicit(&r->failing, memory_order_relaxed))
        return false; /* it will not do better now than a moment ago */
    atomic_store(&r->direct, &d);
    opm__writer_wake(r);
    /* A handler that forked on the way to here leaves the child without a writer. */
    while (!atomic_load(&d.done) && !atomic_load(&r->orphaned))
        opm__futex_wait(&d.done, 0, IDLE_MAX_NS);
    return d.kept;
}

void opm__status_make(struct recorder *r, enum opm_file_state state, uint8_t to[OPM_STATUS_SIZE])
{
    struct opm_file_status st = { .state = state,
                                  .write_errno = (uint32_t)atomic_load(&r->write_errno),
                                  .lost = atomic_load(&r->lost),
                                  .lost_no_room = atomic_load(&r->no_room),
                                  .unbalanced_ends = atomic_load(&r->unbalanced_ends),
                                  .closed_by_parent = atomic_load(&r->closed_by_parent),
                                  .last = opm__clock_read() };
    struct opm_file_losses losses = { .lost_other = atomic_load(&r->lost_other),
                                      .not_known = atomic_load(&r->live_gone) };

    st.crc = crc32c(&st, offsetof(struct opm_file_status, crc));
    losses.crc = crc32c(&losses, offsetof(struct opm_file_losses, crc));
    memcpy(to, &st, sizeof(st));
    memcpy(to + sizeof(st), &losses, sizeof(losses));
}

static void write_status(struct recorder *r, enum opm_file_state state)
{
    uint8_t both[OPM_STATUS_SIZE];
    int why;

    opm__status_make(r, state, both);
    pthread_mutex_lock(&r->io_lock);
    if (file_usable(r)) {
        why = opm__own_write(&r->file, both, sizeof(both), sizeof(struct opm_file_header));
        if (why)
            note_errno(r, why);
    }
    pthread_mutex_unlock(&r->io_lock);
}

/* Pack n units as one chunk to the end of `out`. */
static uint64_t out_add_events(struct recorder *r, uint32_t thread, uint32_t seq,
                               const struct opm_unit *shared, size_t n)
{
    struct opm_chunk c = { .kind = CHUNK_EVENTS, .thread = thread, .seq = seq, .nblock = 1 };
    uint8_t *payload = r->out + r->out_len + sizeof(c);
    uint64_t spans = 0;

    n = MIN(n, OPM_BLOCK_UNITS);
    memcpy(r->block_copy, shared, n * sizeof(*shared));
    c.size = (uint32_t)opm__pack(r->packer, r->block_copy, n, payload, &spans);
    chunk_finish(&c, payload);
    memcpy(r->out + r->out_len, &c, sizeof(c));
    r->out_len += sizeof(c) + c.size;
    return spans;
}

static void out_add_defs(struct recorder *r, uint32_t seq, const uint8_t *shared, size_t len)
{
    struct opm_chunk c = { .kind = CHUNK_DEFS, .seq = seq, .nblock = 1, .size = (uint32_t)len };
    uint8_t *p = r->out + r->out_len + sizeof(c);

    memcpy(p, shared, len);
    chunk_finish(&c, p);
    memcpy(r->out + r->out_len, &c, sizeof(c));
    r->out_len += sizeof(c) + len;
}

/* Blocks whose chunks are in `out` but not in the file yet. */
struct batch {
    uint32_t block[256];
    uint32_t n;
    uint64_t spans;
    bool failed; /* a write did: what comes later is not tried */
};

static void batch_write(struct recorder *r, struct batch *batch)
{
    bool kept;

    /* Had the mapping been taken away while it was read, this would be made of zeros. */
    pthread_mutex_lock(&r->io_lock);
    kept = !atomic_load(&r->live_gone) && file_append(r, r->out, r->out_len);
    pthread_mutex_unlock(&r->io_lock);
    atomic_store_explicit(&r->failing, !kept, memory_order_relaxed);
    if (kept)
        atomic_fetch_add_explicit(&r->spans, batch->spans, memory_order_relaxed);
    for (uint32_t i = 0; i < batch->n; i++) {
        if (kept)
            opm__block_release(r, batch->block[batch->n - 1 - i]);
        else
            opm__block_submit(r, batch->block[i]);
    }
    if (batch->n && kept) {
        atomic_fetch_add_explicit(&r->freed, 1, memory_order_release);
        opm__futex_wake(&r->freed, INT32_MAX);
    }
    r->out_len = 0;
    *batch = (struct batch){ .failed = !kept };
    if (!kept)
        write_status(r, FILE_RECORDING);
}

static void batch_add(struct recorder *r, struct batch *batch, uint32_t block)
{
    struct opm_block_header *b = recorder_block(r, block);
    uint32_t thread = __atomic_load_n(&b->thread, __ATOMIC_RELAXED);
    uint32_t used = __atomic_load_n(&b->used, __ATOMIC_RELAXED);

    if (OUT_BYTES - r->out_len < PACK_MAX_BYTES + sizeof(struct opm_chunk) ||
        batch->n == ARRAY_SIZE(batch->block))
        batch_write(r, batch);
    if (batch->failed) {
        opm__block_submit(r, block);
        return;
    }
    if (thread)
        batch->spans += out_add_events(r, thread, b->seq, block_units(b), used);
    else
        out_add_defs(r, b->seq, block_bytes(b), MIN(used, (uint32_t)OPM_BLOCK_BYTES));
    batch->block[batch->n++] = block;
}

/* The block that is being filled with definitions, complete or not; OPM_NO_BLOCK if there is none.
 */
static uint32_t defs_cut(struct recorder *r)
{
    uint32_t block;

    /* Whoever has the lock may be waiting for us. */
    while (pthread_mutex_trylock(&r->lock)) {
        serve_direct(r);
        sched_yield();
    }
    block = r->defs_block;
    r->defs_block = OPM_NO_BLOCK;
    pthread_mutex_unlock(&r->lock);
    if (block != OPM_NO_BLOCK)
        __atomic_store_n(&recorder_block(r, block)->state, BLOCK_FULL, __ATOMIC_RELEASE);
    return block;
}

/* Write every full block there is, oldest first, and before them what explains them. True if there
 * was anything to write. */
static bool drain(struct recorder *r)
{
    uint32_t newest = (uint32_t)atomic_exchange_explicit(&r->full_blocks, 0, memory_order_acquire);
    uint32_t defs = newest ? defs_cut(r) : OPM_NO_BLOCK, oldest = 0;
    struct batch batch = { 0 };

    for (uint32_t i = newest; i;) {
        uint32_t next = atomic_load_explicit(&r->next_block[i - 1], memory_order_relaxed);

        atomic_store_explicit(&r->next_block[i - 1], oldest, memory_order_relaxed);
        oldest = i;
        i = next;
    }
    if (defs != OPM_NO_BLOCK)
        batch_add(r, &batch, defs);
    for (uint32_t i = oldest, next; i; i = next) {
        next = atomic_load_explicit(&r->next_block[i - 1], memory_order_relaxed);
        batch_add(r, &batch, i - 1);
    }
    if (batch.n)
        batch_write(r, &batch);
    return newest != 0;
}

/* The reader of a killed recording needs a second reading of the clocks, far from the first. */
static void calibrate(struct recorder *r)
{
    struct opm_live_header *live = recorder_live(r);
    struct opm_calibration c = opm__clock_read();
    uint32_t seq = live->last_seq;

    /* Every store is a release: none of them is seen before the odd number, nor after the even. */
    __atomic_store_n(&live->last_seq, seq + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&live->last.ticks, c.ticks, __ATOMIC_RELEASE);
    __atomic_store_n(&live->last.monotonic_ns, c.monotonic_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&live->last.realtime_ns, c.realtime_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&live->lost_no_room, atomic_load(&r->no_room), __ATOMIC_RELEASE);
    __atomic_store_n(&live->unbalanced_ends, atomic_load(&r->unbalanced_ends), __ATOMIC_RELEASE);
    __atomic_store_n(&live->closed_by_parent, atomic_load(&r->closed_by_parent), __ATOMIC_RELEASE);
    __atomic_store_n(&live->lost, atomic_load(&r->lost), __ATOMIC_RELEASE);
    __atomic_store_n(&live->lost_other, atomic_load(&r->lost_other), __ATOMIC_RELEASE);
    __atomic_store_n(&live->last_seq, seq + 2, __ATOMIC_RELEASE);
    write_status(r, FILE_RECORDING);
}

/* What one empty span costs, for the trace to say so: the smallest of a few averages, on a slot
 * that belongs to nobody. */
static void measure_cost(struct recorder *r)
{
    struct opm_slot *slot = calloc(1, sizeof(*slot));
    struct opm_unit *units = calloc(OPM_BLOCK_UNITS, sizeof(*units));
    uint32_t generation = atomic_load(&r->generation);
    opm_site site = OPM_SITE_INIT(OPM_APP, NULL, "");
    int64_t best = INT64_MAX;

    for (int round = 0; slot && units && round < 5; round++) {
        int64_t start;

        opm__hot = (struct hot){ .slot = slot, .units = units, .cap = OPM_BLOCK_UNITS };
        atomic_store(&opm__hot.generation, generation);
        site.cache = (uint64_t)generation << 32 | 1;
        start = clock_ns(CLOCK_MONOTONIC);
        for (int i = 0; i < 512; i++)
            opm__end(opm__begin(&site));
        best = MIN(best, clock_ns(CLOCK_MONOTONIC) - start);
    }
    opm__hot = (struct hot){ 0 };
    if (best != INT64_MAX)
        r->span_cost_ps = (uint64_t)best * 1000 / 512;
    free(units);
    free(slot);
}

/* What a thread that goes on recorded so far: its unfinished block, its open spans. False: they
 * stay in the live file. */
static bool write_thread(struct recorder *r, struct opm_slot *slot)
{
    uint32_t serial = __atomic_load_n(&slot->serial, __ATOMIC_ACQUIRE);
    uint32_t block = __atomic_load_n(&slot->block, __ATOMIC_ACQUIRE);
    uint32_t used = __atomic_load_n(&slot->used, __ATOMIC_ACQUIRE);
    uint32_t depth = MIN(__atomic_load_n(&slot->depth, __ATOMIC_ACQUIRE), OPM_STACK_MAX);
    struct opm_unit open[OPM_STACK_MAX];
    struct batch batch = { 0 };

    for (uint32_t i = 0; i < depth; i++) {
        uint32_t id = (uint32_t)__atomic_load_n(&slot->stack[i].word, __ATOMIC_RELAXED);

        open[i].ticks = __atomic_load_n(&slot->stack[i].ticks, __ATOMIC_RELAXED);
        open[i].word = unit_word(UNIT_BEGIN, id & 0xffffff, 0);
    }
    if (block < r->nblock && used)
        batch.spans =
            out_add_events(r, serial, slot->seq, block_units(recorder_block(r, block)), used);
    if (depth)
        out_add_events(r, serial, slot->seq + 1, open, depth);
    if (r->out_len)
        batch_write(r, &batch);
    if (!batch.failed) /* a reader of a live file that stays must not find it there again */
        __atomic_store_n(&slot->serial, 0, __ATOMIC_RELEASE);
    return !batch.failed;
}

/* Definitions that no full block asked for yet. */
static void write_defs(struct recorder *r)
{
    struct batch batch = { 0 };
    uint32_t defs = defs_cut(r);

    if (defs != OPM_NO_BLOCK) {
        batch_add(r, &batch, defs);
        if (batch.n)
            batch_write(r, &batch);
    }
}

/* Everything that is left, and the end. What cannot be written stays in the live file. */
static void finish(struct recorder *r)
{
    struct opm_chunk end = { .kind = CHUNK_END };
    struct opm_calibration now = opm__clock_read();
    char cost[32];
    bool kept;

    pthread_mutex_lock(&r->lock);
    snprintf(cost, sizeof(cost), "%llu.%03llu", (unsigned long long)r->span_cost_ps / 1000,
             (unsigned long long)r->span_cost_ps % 1000);
    opm__define_meta(r, "recorder.span_cost_ns", cost);
    opm__define_calibration(r, &now);
    pthread_mutex_unlock(&r->lock);
    atomic_store(&r->failing, false);
    drain(r);
    if (!atomic_load(&r->failing))
        write_defs(r);
    kept = !atomic_load(&r->failing);
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->slots_ready && kept; i++)
        if (recorder_slot(r, i)->serial)
            kept = write_thread(r, recorder_slot(r, i));
    pthread_mutex_unlock(&r->lock);
    kept = kept && !atomic_load(&r->live_gone) && write_chunk(r, end, "");
    r->live_stays = !kept && !atomic_load(&r->live_gone);
    if (r->live_stays)
        calibrate(r);
    write_status(r, r->live_stays ? FILE_RECORDING : FILE_CLOSED);
}

/* The end of what others can do to our files: nobody has them open but us. */
static void files_close(struct recorder *r)
{
    struct stat st;

    if (r->file.fd >= 0 && opm__own_check(&r->file, NULL) && fstat(r->file.fd, &st) == 0 &&
        !st.st_nlink && !r->stopped_by)
        r->stopped_by = STOPPED_DELETED;
    opm__own_close(&r->file);
    opm__own_close(&r->live);
}

/* Somebody cut the live file short: storing into it would raise SIGBUS sooner or later. */
static void live_watch(struct recorder *r)
{
    uint64_t size;

    if (r->own_table && opm__own_check(&r->live, &size) && size < r->map_size)
        opm__live_give_up(r);
}

struct start {
    struct recorder *r;
    int (*open)(struct recorder *r, const void *arg, opm_error *err);
    const void *arg;
    opm_error *err;
    int rc;
    _Atomic uint32_t done; /* futex */
};

static void *writer_main(void *arg)
{
    struct start *start = arg;
    struct recorder *r = start->r;
    int64_t idle_ns = IDLE_MIN_NS, next_calibration = 0;
    int rc;

    is_writer = true;
    r->own_table = opm__own_table();
    rc = start->rc = start->open(r, start->arg, start->err);
    if (rc)
        files_close(r);
    else
        write_status(r, FILE_RECORDING); /* from here on the process may end at any time */
    atomic_store(&start->done, 1);
    opm__futex_wake(&start->done, 1);
    if (rc)
        return NULL;
    measure_cost(r);
    while (!atomic_load_explicit(&r->finish, memory_order_acquire)) {
        uint32_t wake = atomic_load_explicit(&r->wake, memory_order_acquire);
        int64_t now;
        bool busy;

        serve_direct(r);
        live_watch(r);
        busy = drain(r);
        idle_ns = atomic_load(&r->failing) ? IDLE_FAILING_NS
                  : busy                   ? IDLE_MIN_NS
                                           : MIN(idle_ns * 2, IDLE_MAX_NS);
        now = clock_ns(CLOCK_MONOTONIC);
        if (now >= next_calibration) {
            calibrate(r);
            /* Soon after the start again, then rarely: early readings are the least exact. */
            next_calibration =
                now + MIN(CALIBRATE_NS, now - r->header.start.monotonic_ns + 1000000);
        }
        opm__futex_wait(&r->wake, wake, idle_ns);
    }
    finish(r);
    files_close(r);
    return NULL;
}

void opm__writer_wake(struct recorder *r)
{
    atomic_fetch_add_explicit(&r->wake, 1, memory_order_release);
    opm__futex_wake(&r->wake, 1);
}

int opm__writer_start(struct recorder *r,
                      int (*open)(struct recorder *r, const void *arg, opm_error *err),
                      const void *arg, opm_error *err)
{
    struct start start = { .r = r, .open = open, .arg = arg, .err = err };
    pthread_attr_t attr;
    int rc;

    r->packer = opm__packer_new();
    r->out = malloc(OUT_BYTES);
    r->block_copy = malloc(OPM_BLOCK_SIZE);
    r->out_len = 0;
    atomic_store(&r->finish, false);
    atomic_store(&r->direct, NULL);
    if (!r->packer || !r->out || !r->block_copy)
        return opm__fail(err, OPM_ENOMEM, "recording: out of memory");
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    rc = pthread_create(&r->writer, &attr, writer_main, &start);
    pthread_attr_destroy(&attr);
    if (rc)
        return opm__fail(err, OPM_EIO, "recording: cannot start the writer thread: %s",
                         strerror(rc));
    pthread_setname_np(r->writer, "opmeter-writer");
    while (!atomic_load(&start.done))
        opm__futex_wait(&start.done, 0, IDLE_MAX_NS);
    if (start.rc)
        pthread_join(r->writer, NULL);
    return start.rc;
}

void opm__writer_stop(struct recorder *r)
{
    atomic_store(&r->finish, true);
    opm__writer_wake(r);
    pthread_join(r->writer, NULL);
    opm__writer_release(r);
}

void opm__writer_release(struct recorder *r)
{
    opm__packer_free(r->packer);
    free(r->out);
    free(r->block_copy);
    r->packer = NULL;
    r->out = NULL;
    r->block_copy = NULL;
}
