/* writer.c -- the thread that packs full blocks and appends them to the file.
 *
 * A block returns to the pool only after write() took its chunk, so at every moment each event is
 * in the live file or in the file. The thread looks for full blocks every so often, and at once
 * when the pool runs low: recording threads need not wake it. A failed write loses what was in it,
 * counts that, and the next one tries again. */
#include "rec/rec.h"

#include "format/crc32c.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUT_BYTES (1u << 20)
#define IDLE_MIN_NS 1000000
#define IDLE_MAX_NS 50000000
#define CALIBRATE_NS 1000000000

static void chunk_finish(struct opm_chunk *c, const void *payload)
{
    c->magic = OPM_CHUNK_MAGIC;
    c->crc = crc32c(payload, c->size);
    c->header_crc = crc32c(c, offsetof(struct opm_chunk, header_crc));
}

/* All of it at the end of the file, or none of it: a torn chunk is cut off again. Under io_lock. */
static bool file_append(struct session *s, const uint8_t *p, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = pwrite(s->fd, p + done, len - done, (off_t)(s->size + done));

        if (n > 0) {
            done += (size_t)n;
        } else if (n < 0 && errno != EINTR) {
            int expected = 0;

            atomic_compare_exchange_strong(&s->write_errno, &expected, errno);
            if (ftruncate(s->fd, (off_t)s->size) < 0)
                atomic_store(&s->write_errno, errno);
            return false;
        }
    }
    s->size += len;
    return true;
}

bool opm__write_chunk(struct session *s, struct opm_chunk chunk, const void *payload)
{
    uint8_t *all = malloc(sizeof(chunk) + chunk.size);
    bool kept = false;
    sigset_t old;

    chunk_finish(&chunk, payload);
    if (all) {
        memcpy(all, &chunk, sizeof(chunk));
        if (chunk.size)
            memcpy(all + sizeof(chunk), payload, chunk.size);
        opm__signals_off(&old);
        pthread_mutex_lock(&s->io_lock);
        kept = file_append(s, all, sizeof(chunk) + chunk.size);
        pthread_mutex_unlock(&s->io_lock);
        opm__signals_restore(&old);
    }
    free(all);
    return kept;
}

void opm__write_status(struct session *s, enum opm_file_state state)
{
    struct opm_file_status st = { .state = state,
                                  .write_errno = (uint32_t)atomic_load(&s->write_errno),
                                  .lost = atomic_load(&s->lost),
                                  .lost_no_room = atomic_load(&s->no_room),
                                  .unbalanced_ends = atomic_load(&s->unbalanced_ends),
                                  .closed_by_parent = atomic_load(&s->closed_by_parent),
                                  .last = opm__clock_read() };

    st.crc = crc32c(&st, offsetof(struct opm_file_status, crc));
    pthread_mutex_lock(&s->io_lock);
    if (pwrite(s->fd, &st, sizeof(st), sizeof(struct opm_file_header)) != (ssize_t)sizeof(st)) {
        int expected = 0;

        atomic_compare_exchange_strong(&s->write_errno, &expected, errno);
    }
    pthread_mutex_unlock(&s->io_lock);
}

static uint64_t count_events(const struct opm_unit *u, size_t n)
{
    uint64_t events = 0;

    for (size_t i = 0; i < n; i += MAX(unit_count(unit_kind(&u[i])), 1u))
        events += unit_kind(&u[i]) != UNIT_LOST; /* those were counted when they were lost */
    return events;
}

/* Pack n units as one chunk to the end of `out`. */
static uint64_t out_add_events(struct session *s, uint32_t thread, uint32_t seq,
                               const struct opm_unit *u, size_t n)
{
    struct opm_chunk c = { .kind = CHUNK_EVENTS, .thread = thread, .seq = seq, .nblock = 1 };
    uint8_t *payload = s->out + s->out_len + sizeof(c);
    uint64_t spans = 0;

    c.size = (uint32_t)opm__pack(s->packer, u, n, payload, &spans);
    chunk_finish(&c, payload);
    memcpy(s->out + s->out_len, &c, sizeof(c));
    s->out_len += sizeof(c) + c.size;
    return spans;
}

static void out_add_defs(struct session *s, uint32_t seq, const uint8_t *p, size_t len)
{
    struct opm_chunk c = { .kind = CHUNK_DEFS, .seq = seq, .nblock = 1, .size = (uint32_t)len };

    chunk_finish(&c, p);
    memcpy(s->out + s->out_len, &c, sizeof(c));
    memcpy(s->out + s->out_len + sizeof(c), p, len);
    s->out_len += sizeof(c) + len;
}

/* Blocks whose chunks are in `out` but not in the file yet. */
struct batch {
    uint32_t block[256];
    uint32_t n;
    uint64_t spans;
    uint64_t unblocked; /* events in `out` that are in none of the blocks */
};

static uint64_t batch_events(struct session *s, const struct batch *batch)
{
    uint64_t events = batch->unblocked;

    for (uint32_t i = 0; i < batch->n; i++) {
        struct opm_block_header *b = session_block(s, batch->block[i]);

        if (b->thread)
            events += count_events(block_units(b), b->used);
    }
    return events;
}

static void batch_write(struct session *s, struct batch *batch)
{
    bool kept;

    pthread_mutex_lock(&s->io_lock);
    kept = file_append(s, s->out, s->out_len);
    pthread_mutex_unlock(&s->io_lock);
    atomic_store_explicit(&s->failing, !kept, memory_order_relaxed);
    if (kept)
        atomic_fetch_add_explicit(&s->spans, batch->spans, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&s->lost, batch_events(s, batch), memory_order_relaxed);
    for (uint32_t i = batch->n; i-- > 0;) {
        /* Events that cannot be written are lost; what explains others is tried again. */
        if (!kept && !session_block(s, batch->block[i])->thread)
            opm__block_submit(s, batch->block[i]);
        else
            opm__block_release(s, batch->block[i]);
    }
    if (batch->n) {
        atomic_fetch_add_explicit(&s->freed, 1, memory_order_release);
        opm__futex_wake(&s->freed, INT32_MAX);
    }
    s->out_len = 0;
    *batch = (struct batch){ 0 };
    if (!kept)
        opm__write_status(s, FILE_RECORDING);
}

static void batch_add(struct session *s, struct batch *batch, uint32_t block)
{
    struct opm_block_header *b = session_block(s, block);

    if (OUT_BYTES - s->out_len < PACK_MAX_BYTES + sizeof(struct opm_chunk) ||
        batch->n == ARRAY_SIZE(batch->block))
        batch_write(s, batch);
    if (b->thread)
        batch->spans += out_add_events(s, b->thread, b->seq, block_units(b), b->used);
    else
        out_add_defs(s, b->seq, block_bytes(b), b->used);
    batch->block[batch->n++] = block;
}

/* The block that is being filled with definitions, complete or not; OPM_NO_BLOCK if there is none.
 */
static uint32_t defs_cut(struct session *s)
{
    uint32_t block;

    pthread_mutex_lock(&s->lock);
    block = s->defs_block;
    s->defs_block = OPM_NO_BLOCK;
    pthread_mutex_unlock(&s->lock);
    if (block != OPM_NO_BLOCK)
        __atomic_store_n(&session_block(s, block)->state, BLOCK_FULL, __ATOMIC_RELEASE);
    return block;
}

/* Write every full block there is, oldest first, and before them what explains them. True if there
 * was anything to write. */
static bool drain(struct session *s)
{
    uint32_t newest = (uint32_t)atomic_exchange_explicit(&s->full_blocks, 0, memory_order_acquire);
    uint32_t defs = newest ? defs_cut(s) : OPM_NO_BLOCK, oldest = 0;
    struct batch batch = { 0 };

    for (uint32_t i = newest; i;) {
        uint32_t next = atomic_load_explicit(&s->next_block[i - 1], memory_order_relaxed);

        atomic_store_explicit(&s->next_block[i - 1], oldest, memory_order_relaxed);
        oldest = i;
        i = next;
    }
    if (defs != OPM_NO_BLOCK)
        batch_add(s, &batch, defs);
    for (uint32_t i = oldest, next; i; i = next) {
        next = atomic_load_explicit(&s->next_block[i - 1], memory_order_relaxed);
        batch_add(s, &batch, i - 1);
    }
    if (batch.n)
        batch_write(s, &batch);
    return newest != 0;
}

/* The reader of a killed recording needs a second reading of the clocks, far from the first. */
static void calibrate(struct session *s)
{
    struct opm_live_header *live = session_live(s);
    struct opm_calibration c = opm__clock_read();
    uint32_t seq = live->last_seq;

    /* Every store is a release: none of them is seen before the odd number, nor after the even. */
    __atomic_store_n(&live->last_seq, seq + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&live->last.ticks, c.ticks, __ATOMIC_RELEASE);
    __atomic_store_n(&live->last.monotonic_ns, c.monotonic_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&live->last.realtime_ns, c.realtime_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&live->lost_no_room, atomic_load(&s->no_room), __ATOMIC_RELEASE);
    __atomic_store_n(&live->unbalanced_ends, atomic_load(&s->unbalanced_ends), __ATOMIC_RELEASE);
    __atomic_store_n(&live->closed_by_parent, atomic_load(&s->closed_by_parent), __ATOMIC_RELEASE);
    __atomic_store_n(&live->last_seq, seq + 2, __ATOMIC_RELEASE);
    opm__write_status(s, FILE_RECORDING);
}

/* What one empty span costs, for the trace to say so: the smallest of a few averages, on a slot
 * that belongs to nobody. */
static void measure_cost(struct session *s)
{
    struct opm_slot *slot = calloc(1, sizeof(*slot));
    struct opm_unit *units = calloc(OPM_BLOCK_UNITS, sizeof(*units));
    uint32_t generation = atomic_load(&s->generation);
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
        s->span_cost_ps = (uint64_t)best * 1000 / 512;
    free(units);
    free(slot);
}

static void *writer_main(void *arg)
{
    struct session *s = arg;
    int64_t idle_ns = IDLE_MIN_NS, next_calibration = 0;

    measure_cost(s);
    for (;;) {
        uint32_t wake = atomic_load_explicit(&s->wake, memory_order_acquire);
        int64_t now;

        if (atomic_load_explicit(&s->state, memory_order_acquire) == SESSION_STOPPING)
            return NULL;
        idle_ns =
            drain(s) && !atomic_load(&s->failing) ? IDLE_MIN_NS : MIN(idle_ns * 2, IDLE_MAX_NS);
        now = clock_ns(CLOCK_MONOTONIC);
        if (now >= next_calibration) {
            calibrate(s);
            /* Soon after the start again, then rarely: early readings are the least exact. */
            next_calibration =
                now + MIN(CALIBRATE_NS, now - s->header.start.monotonic_ns + 1000000);
        }
        opm__futex_wait(&s->wake, wake, idle_ns);
    }
}

void opm__writer_wake(struct session *s)
{
    atomic_fetch_add_explicit(&s->wake, 1, memory_order_release);
    opm__futex_wake(&s->wake, 1);
}

int opm__writer_start(struct session *s, opm_error *err)
{
    pthread_attr_t attr;
    int rc;

    s->packer = opm__packer_new();
    s->out = malloc(OUT_BYTES);
    s->out_len = 0;
    if (!s->packer || !s->out)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", s->path);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    rc = pthread_create(&s->writer, &attr, writer_main, s);
    pthread_attr_destroy(&attr);
    if (rc)
        return opm__fail(err, OPM_EIO, "%s: cannot start the writer thread: %s", s->path,
                         strerror(rc));
    pthread_setname_np(s->writer, "opmeter-writer");
    return 0;
}

/* What a thread that goes on recorded so far: its unfinished block, its open spans. */
static void write_thread(struct session *s, struct opm_slot *slot)
{
    uint32_t block = __atomic_load_n(&slot->block, __ATOMIC_ACQUIRE);
    uint32_t used = __atomic_load_n(&slot->used, __ATOMIC_ACQUIRE);
    uint32_t depth = MIN(__atomic_load_n(&slot->depth, __ATOMIC_ACQUIRE), OPM_STACK_MAX);
    struct opm_unit open[OPM_STACK_MAX];
    struct batch batch = { 0 };

    for (uint32_t i = 0; i < depth; i++) {
        uint32_t id = (uint32_t)__atomic_load_n(&slot->stack[i].word, __ATOMIC_RELAXED);

        open[i].ticks = __atomic_load_n(&slot->stack[i].ticks, __ATOMIC_RELAXED);
        open[i].word = unit_word(UNIT_BEGIN, id, 0);
    }
    if (block != OPM_NO_BLOCK && used) {
        const struct opm_unit *u = block_units(session_block(s, block));

        batch.unblocked = count_events(u, used);
        batch.spans = out_add_events(s, slot->serial, slot->seq, u, used);
    }
    if (depth) {
        batch.unblocked += depth;
        out_add_events(s, slot->serial, slot->seq + 1, open, depth);
    }
    if (s->out_len)
        batch_write(s, &batch);
}

/* Definitions that no full block asked for yet. */
static void write_defs(struct session *s)
{
    struct batch batch = { 0 };
    uint32_t defs = defs_cut(s);

    if (defs != OPM_NO_BLOCK) {
        batch_add(s, &batch, defs);
        batch_write(s, &batch);
    }
}

void opm__writer_stop(struct session *s)
{
    struct opm_chunk end = { .kind = CHUNK_END };
    struct opm_calibration now;
    char cost[32];

    opm__writer_wake(s);
    pthread_join(s->writer, NULL);
    now = opm__clock_read();
    pthread_mutex_lock(&s->lock);
    snprintf(cost, sizeof(cost), "%llu.%03llu", (unsigned long long)s->span_cost_ps / 1000,
             (unsigned long long)s->span_cost_ps % 1000);
    opm__define_meta(s, "recorder.span_cost_ns", cost);
    opm__define_calibration(s, &now);
    pthread_mutex_unlock(&s->lock);
    drain(s);
    write_defs(s);
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->slots_ready; i++)
        if (session_slot(s, i)->serial)
            write_thread(s, session_slot(s, i));
    pthread_mutex_unlock(&s->lock);
    opm__write_chunk(s, end, "");
    opm__write_status(s, FILE_CLOSED);
    opm__packer_free(s->packer);
    free(s->out);
    s->packer = NULL;
    s->out = NULL;
}
