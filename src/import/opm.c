/* opm.c -- read our own file: header, chunks, and the live buffers of a recording that was not
 * closed.
 *
 * A damaged chunk is skipped and counted; what follows it is found by its magic number. A recording
 * that is going on, or was killed, has the rest of its events in FILE-live. There a block is either
 * still in the live file or already in the file, so the live file is copied first and the file
 * mapped after that; blocks seen in both are taken once. */
#include "import/opm_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "format/crc32c.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool opm_sniff(const uint8_t *head, size_t len)
{
    return len >= 8 && memcmp(head, OPM_FILE_MAGIC, 8) == 0;
}

static int header_read(struct opm_file *f, const uint8_t *data, size_t len, opm_error *err)
{
    struct opm_file_header *h = &f->header;
    const char *path = f->src->path;

    if (len < 12 || memcmp(data, OPM_FILE_MAGIC, 8) != 0)
        return opm__fail(err, OPM_EFORMAT, "%s: not an opmeter file", path);
    memcpy(h, data, MIN(len, sizeof(*h)));
    if (h->version > OPM_FORMAT_VERSION)
        return opm__fail(err, OPM_EVERSION,
                         "%s: format version %u, this opmeter reads up to %u: it needs a newer one",
                         path, h->version, OPM_FORMAT_VERSION);
    if (len < sizeof(*h))
        return opm__fail(err, OPM_ETRUNC, "%s: ends inside its header: %zu of %zu bytes", path, len,
                         sizeof(*h));
    if (h->crc != crc32c(h, offsetof(struct opm_file_header, crc)) || !h->version ||
        h->header_size < sizeof(*h) + sizeof(f->status))
        return opm__fail(err, OPM_EFORMAT, "%s: the header is damaged", path);
    if (len >= sizeof(*h) + sizeof(f->status)) {
        memcpy(&f->status, data + sizeof(*h), sizeof(f->status));
        if (f->status.crc != crc32c(&f->status, offsetof(struct opm_file_status, crc)))
            memset(&f->status, 0, sizeof(f->status));
    }
    f->closed = f->status.state == FILE_CLOSED;
    f->last = h->start;
    f->pid = h->pid;
    return 0;
}

static int piece_add(struct opm_file *f, const struct piece *p)
{
    if (!GROW(f->piece, f->piece_cap, f->npiece + 1))
        return OPM_ENOMEM;
    f->piece[f->npiece++] = *p;
    return 0;
}

static bool chunk_head(const uint8_t *p, size_t left, struct opm_chunk *c)
{
    if (left < sizeof(*c))
        return false;
    memcpy(c, p, sizeof(*c));
    return c->magic == OPM_CHUNK_MAGIC &&
           c->header_crc == crc32c(c, offsetof(struct opm_chunk, header_crc)) &&
           c->size <= OPM_CHUNK_MAX;
}

/* The next chunk at or after `at`; len if there is none. */
static size_t chunk_find(const uint8_t *data, size_t len, size_t at)
{
    static const uint32_t magic = OPM_CHUNK_MAGIC;
    struct opm_chunk c;

    while (at < len) {
        const uint8_t *p = memmem(data + at, len - at, &magic, sizeof(magic));

        if (!p)
            return len;
        at = (size_t)(p - data);
        if (chunk_head(p, len - at, &c))
            return at;
        at++;
    }
    return len;
}

static int chunk_read(struct opm_file *f, const struct opm_chunk *c, const uint8_t *payload)
{
    struct piece p = { .thread = c->thread, .seq = c->seq, .packed = payload, .size = c->size };
    int rc;

    switch (c->kind) {
    case CHUNK_DEFS:
        rc = defs_read(f, payload, c->size);
        if (rc == OPM_EFORMAT) {
            store_stat(f->st, STAT_chunk_corrupt, 1);
            rc = 0;
        }
        return rc;
    case CHUNK_EVENTS:
        return piece_add(f, &p);
    case CHUNK_END:
        f->closed = true;
        return 0;
    default:
        store_stat(f->st, STAT_chunk_unknown, 1);
        return 0;
    }
}

static int chunks_read(struct opm_file *f, const uint8_t *data, size_t len)
{
    size_t at = MIN(f->header.header_size, len);
    bool was_closed = f->closed;
    int rc = 0;

    f->closed = false;
    while (at < len && rc == 0) {
        struct opm_chunk c;

        if (!chunk_head(data + at, len - at, &c)) {
            size_t next = chunk_find(data, len, at);

            /* A torn end is what a crash leaves; anything else is damage. */
            store_stat(
                f->st,
                next < len || len - at >= sizeof(c) ? STAT_chunk_corrupt : STAT_file_truncated, 1);
            at = next;
            continue;
        }
        at += sizeof(c);
        if (c.size > len - at) {
            store_stat(f->st, STAT_file_truncated, 1);
            break;
        }
        if (crc32c(data + at, c.size) != c.crc)
            store_stat(f->st, STAT_chunk_corrupt, 1);
        else
            rc = chunk_read(f, &c, data + at);
        at += c.size;
        if (f->src->progress && f->src->progress(f->src->user, at / 2, len))
            return OPM_ELIMIT;
    }
    if (was_closed && !f->closed) {
        /* Closed by its own account, yet the end is missing: cut off later. */
        store_stat(f->st, STAT_file_truncated, 1);
        f->closed = true;
    }
    return rc;
}

/* ---- the live file ---- */

struct live {
    const uint8_t *data; /* mapped, changing under us if the recording goes on */
    size_t len;
    struct opm_live_header header;
    struct arena copies;
};

static bool live_map(struct live *live, const struct opm_file *f)
{
    char path[4096];
    struct stat st;
    int fd;
    void *p;

    if ((size_t)snprintf(path, sizeof(path), "%s-live", f->src->path) >= sizeof(path))
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    p = MAP_FAILED;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size >= OPM_LIVE_HEADER_SIZE)
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return false;
    live->data = p;
    live->len = (size_t)st.st_size;
    memcpy(&live->header, p, sizeof(live->header));
    if (memcmp(live->header.magic, OPM_LIVE_MAGIC, 8) != 0 ||
        live->header.version > OPM_FORMAT_VERSION ||
        memcmp(live->header.session, f->header.session, sizeof(f->header.session)) != 0 ||
        live_block_offset(live->header.nslot, live->header.nblock) > live->len) {
        munmap(p, live->len);
        live->data = NULL;
        return false;
    }
    return true;
}

static void live_release(struct live *live)
{
    if (live->data)
        munmap((void *)(uintptr_t)live->data, live->len);
    arena_release(&live->copies);
}

static const struct opm_block_header *live_block(const struct live *live, uint32_t i)
{
    return (const void *)(live->data + live_block_offset(live->header.nslot, i));
}

static const struct opm_slot *live_slot(const struct live *live, uint32_t i)
{
    return (const void *)(live->data + live_slot_offset(i));
}

/* Copy a block while its owner may be writing on: right if it is still the same block afterwards.
 * If it is not, the writer has taken it, and the file has it. */
static const void *block_copy(struct live *live, uint32_t i, size_t bytes,
                              const struct opm_block_header *before)
{
    const struct opm_block_header *b = live_block(live, i);
    void *copy = arena_alloc(&live->copies, bytes + 1);

    if (!copy)
        return NULL;
    memcpy(copy, b + 1, bytes);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&b->seq, __ATOMIC_RELAXED) != before->seq ||
        __atomic_load_n(&b->thread, __ATOMIC_RELAXED) != before->thread ||
        __atomic_load_n(&b->state, __ATOMIC_RELAXED) == BLOCK_FREE)
        return memset(copy, 0, bytes + 1), NULL;
    return copy;
}

static struct opm_block_header block_head(const struct live *live, uint32_t i)
{
    const struct opm_block_header *b = live_block(live, i);
    struct opm_block_header h;

    h.state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
    h.thread = __atomic_load_n(&b->thread, __ATOMIC_RELAXED);
    h.seq = __atomic_load_n(&b->seq, __ATOMIC_RELAXED);
    h.used = __atomic_load_n(&b->used, __ATOMIC_ACQUIRE);
    return h;
}

/* Units that a thread has in the block it is filling. */
static uint32_t block_filled(const struct live *live, uint32_t block)
{
    for (uint32_t i = 0; i < live->header.nslot; i++) {
        const struct opm_slot *s = live_slot(live, i);

        if (__atomic_load_n(&s->serial, __ATOMIC_ACQUIRE) &&
            __atomic_load_n(&s->block, __ATOMIC_ACQUIRE) == block)
            return __atomic_load_n(&s->used, __ATOMIC_ACQUIRE);
    }
    return 0;
}

static int live_events(struct opm_file *f, struct live *live)
{
    for (uint32_t i = 0; i < live->header.nblock; i++) {
        struct opm_block_header h = block_head(live, i);
        struct piece p = { .thread = h.thread, .seq = h.seq };
        int rc;

        if (h.state == BLOCK_FREE || h.state > BLOCK_FULL || !h.thread)
            continue;
        p.nunit = MIN(MAX(h.used, h.state == BLOCK_FILLING ? block_filled(live, i) : 0u),
                      (uint32_t)OPM_BLOCK_UNITS);
        p.units = block_copy(live, i, p.nunit * sizeof(struct opm_unit), &h);
        if (!p.units || !p.nunit)
            continue;
        rc = piece_add(f, &p);
        if (rc)
            return rc;
    }
    return 0;
}

/* Spans that had begun: they go to the end of their thread, after all its blocks. */
static int live_open(struct opm_file *f, struct live *live)
{
    for (uint32_t i = 0; i < live->header.nslot; i++) {
        const struct opm_slot *s = live_slot(live, i);
        struct piece p = { .thread = __atomic_load_n(&s->serial, __ATOMIC_ACQUIRE),
                           .seq = UINT32_MAX,
                           .open = true };
        struct opm_unit *units;
        int rc;

        p.nunit = MIN(__atomic_load_n(&s->depth, __ATOMIC_ACQUIRE), OPM_STACK_MAX);
        if (!p.thread || !p.nunit)
            continue;
        units = arena_alloc(&live->copies, p.nunit * sizeof(*units));
        if (!units)
            return OPM_ENOMEM;
        for (size_t k = 0; k < p.nunit; k++) {
            uint32_t id = (uint32_t)__atomic_load_n(&s->stack[k].word, __ATOMIC_RELAXED);

            units[k].ticks = __atomic_load_n(&s->stack[k].ticks, __ATOMIC_RELAXED);
            units[k].word = unit_word(UNIT_BEGIN, id & 0xffffff, 0);
        }
        p.units = units;
        rc = piece_add(f, &p);
        if (rc)
            return rc;
    }
    return 0;
}

static int live_defs(struct opm_file *f, struct live *live)
{
    for (uint32_t i = 0; i < live->header.nblock; i++) {
        struct opm_block_header h = block_head(live, i);
        size_t used = MIN(h.used, (uint32_t)OPM_BLOCK_BYTES);
        const uint8_t *copy;
        int rc;

        if (h.state == BLOCK_FREE || h.state > BLOCK_FULL || h.thread)
            continue;
        copy = block_copy(live, i, used, &h);
        rc = copy ? defs_read(f, copy, used) : 0;
        if (rc == OPM_EFORMAT)
            store_stat(f->st, STAT_chunk_corrupt, 1);
        else if (rc)
            return rc;
    }
    return 0;
}

/* Events before definitions: whatever an event refers to was defined before it. */
static int live_read(struct opm_file *f, struct live *live)
{
    int rc = live_open(f, live);

    if (rc == 0)
        rc = live_events(f, live);
    if (rc == 0)
        rc = live_defs(f, live);
    if (live->header.last.ticks > f->last.ticks && !(live->header.last_seq & 1))
        f->last = live->header.last;
    return rc;
}

/* ---- all of it ---- */

static int piece_order(const void *va, const void *vb)
{
    const struct piece *a = va, *b = vb;

    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->open != b->open)
        return a->open ? 1 : -1;
    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    return (a->packed == NULL) - (b->packed == NULL);
}

/* In order per thread, each block once: the packed form wins. */
static void pieces_sort(struct opm_file *f)
{
    size_t n = 0;

    if (f->npiece)
        qsort(f->piece, f->npiece, sizeof(*f->piece), piece_order);
    for (size_t i = 0; i < f->npiece; i++) {
        if (n && !f->piece[i].packed && !f->piece[i].open &&
            f->piece[n - 1].thread == f->piece[i].thread && f->piece[n - 1].seq == f->piece[i].seq)
            continue;
        f->piece[n++] = f->piece[i];
    }
    f->npiece = n;
}

/* Several files in one trace: the first one's start is time 0 of the recorders' clocks. */
static int time_align(struct opm_file *f)
{
    const char *boot = store_meta_get(f->st, "clock.boot");
    const char *mono = store_meta_get(f->st, "clock.start_monotonic_ns");
    const char *real = store_meta_get(f->st, "clock.start_realtime_ns");
    char text[40];
    int rc = 0;

    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", f->header.boot[i]);
    if (!boot || !mono || !real) {
        rc = store_meta(f->st, "clock.boot", text);
        snprintf(text, sizeof(text), "%" PRId64, f->header.start.monotonic_ns);
        if (rc == 0)
            rc = store_meta(f->st, "clock.start_monotonic_ns", text);
        snprintf(text, sizeof(text), "%" PRId64, f->header.start.realtime_ns);
        return rc ? rc : store_meta(f->st, "clock.start_realtime_ns", text);
    }
    f->time.offset_ns = strcmp(boot, text) == 0
                            ? f->header.start.monotonic_ns - strtoll(mono, NULL, 10)
                            : f->header.start.realtime_ns - strtoll(real, NULL, 10);
    return 0;
}

static int time_setup(struct opm_file *f)
{
    struct timebase *t = &f->time;
    uint64_t ticks = f->last.ticks - f->header.start.ticks;
    int64_t ns = f->last.monotonic_ns - f->header.start.monotonic_ns;
    double rate;

    t->origin = f->header.start.ticks;
    t->start_monotonic_ns = f->header.start.monotonic_ns;
    t->start_realtime_ns = f->header.start.realtime_ns;
    if (f->header.clock_source == CLOCK_SOURCE_MONOTONIC) {
        rate = 1;
    } else if (ns > 1000000 && ticks) {
        rate = (double)ns / (double)ticks;
    } else {
        rate = f->header.ticks_per_s ? 1e9 / (double)f->header.ticks_per_s : 1;
        store_stat(f->st, STAT_clock_uncalibrated, 1);
    }
    /* A damaged calibration must not overflow anything later. */
    if (!(rate > 1e-6 && rate < 1e6))
        rate = 1;
    t->mult = (uint64_t)(rate * 4294967296.0 + 0.5);
    return time_align(f);
}

static void status_stats(struct opm_file *f, bool live_found)
{
    store_stat(f->st, STAT_spans_lost, (int64_t)f->status.lost);
    store_stat(f->st, STAT_threads_lost, (int64_t)f->status.lost_no_room);
    store_stat(f->st, STAT_end_without_begin, (int64_t)f->status.unbalanced_ends);
    store_stat(f->st, STAT_ended_by_parent, (int64_t)f->status.closed_by_parent);
    store_stat(f->st, STAT_write_failed, f->status.write_errno != 0);
    if (!f->closed) {
        store_stat(f->st, STAT_not_closed, 1);
        store_stat(f->st, STAT_live_missing, !live_found);
    }
}

static int file_read(struct opm_file *f, struct live *live, struct io_map *again, opm_error *err)
{
    const struct import_source *src = f->src;
    const uint8_t *data = src->data;
    size_t len = src->len;
    bool live_found;
    int rc = header_read(f, data, len, err);

    if (rc == 0)
        rc = defs_init(f);
    if (rc)
        return rc;
    live_found = !f->closed && live_map(live, f);
    if (live_found) {
        rc = live_read(f, live);
        if (rc)
            return rc;
        rc = io_map(again, src->path, 0, err);
        if (rc)
            return rc;
        data = again->data;
        len = again->len;
    }
    rc = chunks_read(f, data, len);
    if (rc == 0)
        rc = time_setup(f);
    if (rc)
        return rc;
    pieces_sort(f);
    status_stats(f, live_found);
    if (live_found) {
        store_stat(f->st, STAT_threads_lost, (int64_t)live->header.lost_no_room);
        store_stat(f->st, STAT_end_without_begin, (int64_t)live->header.unbalanced_ends);
        store_stat(f->st, STAT_ended_by_parent, (int64_t)live->header.closed_by_parent);
    }
    for (size_t i = 0; i < f->npiece; i++)
        if (!defs_thread(f, f->piece[i].thread))
            return OPM_ENOMEM;
    rc = defs_finish(f);
    return rc ? rc : events_read(f);
}

int opm_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct opm_file f = { .src = src, .st = st };
    struct live live = { 0 };
    struct io_map again = { 0 };
    opm_error local = { 0 };
    int rc = file_read(&f, &live, &again, &local);

    if (rc && local.code)
        opm__fail(err, rc, "%s", local.msg);
    else if (rc)
        opm__fail(err, rc, "%s: %s", src->path, opm_status_text(rc));
    defs_release(&f);
    mem_free(f.piece);
    io_map_release(&again);
    live_release(&live);
    return rc;
}
