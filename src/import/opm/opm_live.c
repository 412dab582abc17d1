/* opm_live.c -- the live buffers beside an .opm file that was not closed.
 *
 * The recording may be going on while they are read. A block leaves the live file only when the
 * file has its content, and no event gets into the file before what explains it. So the order of
 * reading makes the picture complete: open spans and events from the live file, then definitions
 * from there, then the file. How far each thread has got is read first and anything newer is cut
 * off, so that what is read of a thread has no gaps. */
#include "import/opm/opm_int.h"

#include "base/alloc.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 100 /* to see something twice in the same state; a killed process needs one */

/* Copy while somebody may be writing. Every load is an acquire, so that whoever looks at a header
 * afterwards sees it no older than the words. */
static void copy_words(void *to, const void *from, size_t bytes)
{
    const uint64_t *p = from;
    uint64_t *q = to;

    for (size_t i = 0; i < (bytes + 7) / 8; i++)
        q[i] = __atomic_load_n(&p[i], __ATOMIC_ACQUIRE);
}

/* Calibration and counters, which the writer renews every now and then. */
static void header_copy(struct opm_live_header *h, const struct opm_live_header *live)
{
    for (int tries = 0; tries < TRIES; tries++) {
        copy_words(h, live, sizeof(*h));
        if (!(h->last_seq & 1) && __atomic_load_n(&live->last_seq, __ATOMIC_ACQUIRE) == h->last_seq)
            return;
    }
    h->last.ticks = 0; /* killed while writing it: the one before is good enough */
}

bool live_map(struct live *live, const struct opm_file *f)
{
    char path[4096];
    struct stat st;
    void *p = MAP_FAILED;
    int fd;

    if ((size_t)snprintf(path, sizeof(path), "%s-live", f->src->path) >= sizeof(path))
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size >= OPM_LIVE_HEADER_SIZE)
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return false;
    live->data = p;
    live->len = (size_t)st.st_size;
    header_copy(&live->header, p);
    if (memcmp(live->header.magic, OPM_LIVE_MAGIC, 8) != 0 ||
        live->header.version > OPM_RECORDING_VERSION ||
        memcmp(live->header.session, f->header.session, sizeof(f->header.session)) != 0 ||
        live_block_offset(live->header.nslot, live->header.nblock) > live->len) {
        munmap(p, live->len);
        live->data = NULL;
        return false;
    }
    return true;
}

void live_release(struct live *live)
{
    if (live->data)
        munmap((void *)(uintptr_t)live->data, live->len);
    live->data = NULL;
    arena_release(&live->copies);
    u64map_release(&live->cut);
}

static const struct opm_block_header *live_block(const struct live *live, uint32_t i)
{
    return (const void *)(live->data + live_block_offset(live->header.nslot, i));
}

static const struct opm_slot *live_slot(const struct live *live, uint32_t i)
{
    return (const void *)(live->data + live_slot_offset(i));
}

static struct opm_block_header block_head(const struct live *live, uint32_t i)
{
    const struct opm_block_header *b = live_block(live, i);
    struct opm_block_header h;

    h.state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
    h.thread = __atomic_load_n(&b->thread, __ATOMIC_ACQUIRE);
    h.seq = __atomic_load_n(&b->seq, __ATOMIC_ACQUIRE);
    h.used = __atomic_load_n(&b->used, __ATOMIC_ACQUIRE);
    return h;
}

/* Units that a thread has in the block it is filling, by its slot. */
static uint32_t slot_used(const struct live *live, uint32_t block)
{
    for (uint32_t i = 0; i < live->header.nslot; i++) {
        const struct opm_slot *s = live_slot(live, i);

        if (__atomic_load_n(&s->serial, __ATOMIC_ACQUIRE) &&
            __atomic_load_n(&s->block, __ATOMIC_ACQUIRE) == block)
            return __atomic_load_n(&s->used, __ATOMIC_ACQUIRE);
    }
    return 0;
}

/* The head of a block of events with `used` made right: a block that is being filled does not know,
 * the slot of its thread does. If the block changes hands meanwhile, the slot spoke of another. */
static struct opm_block_header block_head_used(const struct live *live, uint32_t i)
{
    struct opm_block_header h = block_head(live, i), again;

    for (int tries = 0; tries < TRIES && h.state == BLOCK_FILLING && h.thread; tries++) {
        uint32_t used = slot_used(live, i);

        again = block_head(live, i);
        if (again.state == h.state && again.thread == h.thread && again.seq == h.seq) {
            h.used = MAX(h.used, used);
            break;
        }
        h = again;
    }
    return h;
}

/* Copy what is in a block. *out stays NULL if it is not the same block afterwards: then the file
 * has it by now. */
static int block_copy(struct live *live, uint32_t i, size_t bytes,
                      const struct opm_block_header *before, const void **out)
{
    void *copy = arena_alloc(&live->copies, bytes + 8);
    struct opm_block_header after;

    if (!copy)
        return OPM_ENOMEM;
    copy_words(copy, live_block(live, i) + 1, bytes);
    after = block_head(live, i);
    if (after.seq == before->seq && after.thread == before->thread && after.state != BLOCK_FREE)
        *out = copy;
    return 0;
}

static bool block_is_used(const struct opm_block_header *h)
{
    return h->state == BLOCK_FILLING || h->state == BLOCK_FULL;
}

static int live_events(struct opm_file *f, struct live *live)
{
    for (uint32_t i = 0; i < live->header.nblock; i++) {
        struct opm_block_header h = block_head_used(live, i);
        struct piece p = { .thread = h.thread, .seq = h.seq };
        const void *copy = NULL;
        int rc;

        if (!block_is_used(&h) || !h.thread || !h.used)
            continue;
        p.nunit = MIN(h.used, (uint32_t)OPM_BLOCK_UNITS);
        rc = block_copy(live, i, p.nunit * sizeof(struct opm_unit), &h, &copy);
        p.units = copy;
        if (rc == 0 && copy)
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
        struct def_piece d = { .seq = h.seq, .live = true };
        const void *copy = NULL;
        int rc;

        if (!block_is_used(&h) || h.thread || !h.used)
            continue;
        d.len = MIN(h.used, (uint32_t)OPM_BLOCK_BYTES);
        rc = block_copy(live, i, d.len, &h, &copy);
        d.p = copy;
        if (rc == 0 && copy)
            rc = def_piece_add(f, &d);
        if (rc)
            return rc;
    }
    return 0;
}

/* Entry k of a stack of open spans, as a BEGIN. False: it is changing, the span has ended. */
static bool open_entry(const struct opm_slot *s, uint32_t k, struct opm_unit *out)
{
    const struct opm_unit *e = &s->stack[k];
    uint64_t ticks = __atomic_load_n(&e->ticks, __ATOMIC_ACQUIRE);
    uint64_t id = __atomic_load_n(&e->word, __ATOMIC_ACQUIRE);

    out->ticks = ticks;
    out->word = unit_word(UNIT_BEGIN, (uint32_t)id & 0xffffff, 0);
    return __atomic_load_n(&e->ticks, __ATOMIC_ACQUIRE) == ticks &&
           __atomic_load_n(&e->word, __ATOMIC_ACQUIRE) == id &&
           __atomic_load_n(&s->depth, __ATOMIC_ACQUIRE) > k;
}

/* How far the thread of a slot has got: number of the block, and units in it. Between two blocks
 * all that it has filled counts. */
static uint64_t slot_cut(const struct opm_slot *s)
{
    uint32_t block, seq, used;

    for (int tries = 0;; tries++) {
        block = __atomic_load_n(&s->block, __ATOMIC_ACQUIRE);
        seq = __atomic_load_n(&s->seq, __ATOMIC_ACQUIRE);
        used = __atomic_load_n(&s->used, __ATOMIC_ACQUIRE);
        if (tries == TRIES || (__atomic_load_n(&s->seq, __ATOMIC_ACQUIRE) == seq &&
                               __atomic_load_n(&s->block, __ATOMIC_ACQUIRE) == block))
            return (uint64_t)seq << 32 | (block == OPM_NO_BLOCK ? UINT32_MAX : used);
    }
}

/* See whether the recording has moved on since its threads were cut. Threads that have come since
 * would have gaps. */
static int cut_check(struct opm_file *f, struct live *live)
{
    size_t same = 0;

    for (uint32_t i = 0; i < live->header.nslot; i++) {
        const struct opm_slot *s = live_slot(live, i);
        uint32_t serial = __atomic_load_n(&s->serial, __ATOMIC_ACQUIRE);
        const uint64_t *cut = serial ? u64map_get(&live->cut, serial) : NULL;

        same += cut && *cut == slot_cut(s);
        if (serial && !cut && u64map_put(&live->cut, serial, 0) < 0)
            return OPM_ENOMEM;
    }
    f->moving = same != live->cut.n;
    return 0;
}

void live_cut(struct opm_file *f, const struct live *live)
{
    size_t n = 0;

    for (size_t i = 0; i < f->npiece; i++) {
        struct piece *p = &f->piece[i];
        const uint64_t *cut =
            p->open || (p->packed && !p->recent) ? NULL : u64map_get(&live->cut, p->thread);

        if (cut && p->seq > *cut >> 32)
            continue;
        if (cut && !p->packed && p->seq == *cut >> 32)
            p->nunit = MIN(p->nunit, (size_t)(uint32_t)*cut);
        f->piece[n++] = *p;
    }
    f->npiece = n;
}

/* The thread of a slot: how far it has got, and spans that it has begun. They go to the end of the
 * thread, after all its blocks. Both are looked at until nothing has ended in between. */
static int slot_read(struct opm_file *f, struct live *live, const struct opm_slot *s)
{
    struct piece p = { .thread = __atomic_load_n(&s->serial, __ATOMIC_ACQUIRE),
                       .seq = UINT32_MAX,
                       .open = true };
    struct opm_unit units[OPM_STACK_MAX], *copy;
    uint64_t cut;
    int tries = 0, rc;

    if (!p.thread)
        return 0;
    do {
        uint32_t depth;

        cut = slot_cut(s);
        depth = MIN(__atomic_load_n(&s->depth, __ATOMIC_ACQUIRE), OPM_STACK_MAX);
        for (p.nunit = 0; p.nunit < depth && open_entry(s, (uint32_t)p.nunit, &units[p.nunit]);)
            p.nunit++;
    } while (slot_cut(s) != cut && tries++ < TRIES);
    if (__atomic_load_n(&s->serial, __ATOMIC_ACQUIRE) != p.thread) {
        f->moving = true;
        return 0; /* it has left: all its blocks are complete, and have its open spans */
    }
    rc = u64map_put(&live->cut, p.thread, cut);
    if (rc || !p.nunit)
        return rc;
    copy = arena_alloc(&live->copies, p.nunit * sizeof(*copy));
    if (!copy)
        return OPM_ENOMEM;
    memcpy(copy, units, p.nunit * sizeof(*copy));
    p.units = copy;
    return piece_add(f, &p);
}

int live_read(struct opm_file *f, struct live *live)
{
    int rc = 0;

    for (uint32_t i = 0; i < live->header.nslot && rc == 0; i++)
        rc = slot_read(f, live, live_slot(live, i));
    if (rc == 0)
        rc = live_events(f, live);
    if (rc == 0)
        rc = live_defs(f, live);
    if (rc == 0)
        rc = cut_check(f, live);
    if (live->header.last.ticks > f->last.ticks)
        f->last = live->header.last;
    return rc;
}
