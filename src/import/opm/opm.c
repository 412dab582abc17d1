/* opm.c -- read our own file: header and chunks, and whatever its live buffers add.
 *
 * A damaged chunk is skipped and counted; what follows it is found by its magic number. A recording
 * that is going on, or was killed, has the rest of its events in FILE-live; opm_live.c says in
 * which order the two are read. Blocks seen in both are taken once. */
#include "import/opm/opm_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "format/crc32c.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STATUS_TRIES 100
#define STATUS_PAUSE_NS 100000

bool opm_sniff(const uint8_t *head, size_t len)
{
    return len >= 8 && memcmp(head, OPM_FILE_MAGIC, 8) == 0;
}

/* What the recorder says it lost. Its own account is rewritten in place while the recording goes
 * on, so that a wrong checksum may be a moment's; one that stays wrong is damage. */
static void status_read(struct opm_file *f, const uint8_t *data, size_t len)
{
    struct opm_file_status *s = &f->status;
    const struct timespec pause = { .tv_nsec = STATUS_PAUSE_NS };
    bool whole = len >= sizeof(f->header) + sizeof(*s);

    f->status_known = false;
    for (int tries = 0; whole && !f->status_known && tries < STATUS_TRIES; tries++) {
        if (tries > STATUS_TRIES / 2)
            nanosleep(&pause, NULL); /* the one who rewrites it may be waiting for this processor */
        memcpy(s, data + sizeof(f->header), sizeof(*s));
        f->status_known = s->crc == crc32c(s, offsetof(struct opm_file_status, crc));
    }
    if (!f->status_known)
        memset(s, 0, sizeof(*s));
}

/* Those of older recorders are zeros. */
static void losses_read(struct opm_file *f, const uint8_t *data, size_t len)
{
    struct opm_file_losses *l = &f->losses;
    size_t at = sizeof(f->header) + sizeof(f->status);

    memset(l, 0, sizeof(*l));
    if (MIN(len, f->header.header_size) < at + sizeof(*l))
        return;
    memcpy(l, data + at, sizeof(*l));
    if (l->crc != crc32c(l, offsetof(struct opm_file_losses, crc)))
        memset(l, 0, sizeof(*l));
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
    status_read(f, data, len);
    losses_read(f, data, len);
    f->closed = f->status.state == FILE_CLOSED;
    f->last = f->status.last.ticks > h->start.ticks ? f->status.last : h->start;
    f->pid = h->pid;
    return 0;
}

int piece_add(struct opm_file *f, const struct piece *p)
{
    if (!GROW(f->piece, f->piece_cap, f->npiece + 1))
        return OPM_ENOMEM;
    f->piece[f->npiece++] = *p;
    return 0;
}

int def_piece_add(struct opm_file *f, const struct def_piece *d)
{
    if (!GROW(f->defs, f->defs_cap, f->ndefs + 1))
        return OPM_ENOMEM;
    f->defs[f->ndefs] = *d;
    f->defs[f->ndefs].order = f->ndefs;
    f->ndefs++;
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

static int chunk_read(struct opm_file *f, const struct opm_chunk *c, const uint8_t *payload,
                      bool recent)
{
    struct piece p = {
        .thread = c->thread, .seq = c->seq, .packed = payload, .size = c->size, .recent = recent
    };
    struct def_piece d = { .seq = c->seq, .p = payload, .len = c->size };

    switch (c->kind) {
    case CHUNK_DEFS:
        return def_piece_add(f, &d);
    case CHUNK_EVENTS:
        return piece_add(f, &p);
    case CHUNK_END:
        f->closed = true;
        return 0;
    case CHUNK_CONTENTS:
    case CHUNK_STRINGS:
    case CHUNK_ROWS:
        if (!GROW(f->table, f->table_cap, f->ntable + 1))
            return OPM_ENOMEM;
        f->table[f->ntable++] =
            (struct table_piece){ .kind = c->kind, .p = payload, .len = c->size };
        return 0;
    default:
        store_stat(f->st, STAT_chunk_unknown, 1);
        return 0;
    }
}

/* With live buffers at hand, a chunk that the file ends in is one that was being written: they have
 * what is in it. */
static int chunks_read(struct opm_file *f, const uint8_t *data, size_t len, bool live)
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
            if (next < len || len - at >= sizeof(c))
                store_stat(f->st, STAT_chunk_corrupt, 1);
            else if (!live)
                store_stat(f->st, STAT_file_truncated, 1);
            at = next;
            continue;
        }
        at += sizeof(c);
        if (c.size > len - at) {
            store_stat(f->st, STAT_file_truncated, !live);
            break;
        }
        if (crc32c(data + at, c.size) != c.crc)
            store_stat(f->st, STAT_chunk_corrupt, 1);
        else
            rc = chunk_read(f, &c, data + at, at > f->src->len);
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

static int def_order(const void *va, const void *vb)
{
    const struct def_piece *a = va, *b = vb;

    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    if (a->live != b->live)
        return a->live ? 1 : -1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* All definitions in the order in which they were made, each block once. */
static int defs_all(struct opm_file *f)
{
    if (f->ndefs)
        qsort(f->defs, f->ndefs, sizeof(*f->defs), def_order);
    for (size_t i = 0; i < f->ndefs; i++) {
        const struct def_piece *d = &f->defs[i];
        int rc;

        if (i && d->live && d->seq == d[-1].seq)
            continue;
        rc = defs_read(f, d->p, d->len);
        if (rc == OPM_EFORMAT)
            store_stat(f->st, STAT_chunk_corrupt, 1);
        else if (rc)
            return rc;
    }
    return 0;
}

static const char *own_meta(const struct opm_file *f, const char *key)
{
    char full[64];

    if (!f->src->index)
        return store_meta_get(f->st, key);
    snprintf(full, sizeof(full), "file%d.%s", f->src->index, key);
    return store_meta_get(f->st, full);
}

/* The facts of a file of tables have been read, under other names if it is not the first. */
void tables_time_tell(const struct opm_file *f)
{
    const char *boot = own_meta(f, "clock.boot");
    const char *mono = own_meta(f, "clock.start_monotonic_ns");
    const char *real = own_meta(f, "clock.start_realtime_ns");

    if (boot && mono)
        import_set_monotonic(f->src, boot, strtoll(mono, NULL, 10));
    if (real)
        import_set_realtime(f->src, strtoll(real, NULL, 10));
}

static void hex(const uint8_t *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* Whatever is made of the recording carries this on, so that both are known to be one run. */
static int id_tell(const struct opm_file *f)
{
    static const uint8_t none[sizeof(f->header.session)];
    char id[2 * sizeof(f->header.session) + 1];

    if (memcmp(f->header.session, none, sizeof(none)) == 0)
        return 0;
    hex(f->header.session, sizeof(f->header.session), id);
    return import_meta(f->st, f->src, "recording.id", id);
}

/* Several files in one trace are brought in line by these clocks. */
static void time_tell(const struct opm_file *f)
{
    char boot[2 * sizeof(f->header.boot) + 1];

    hex(f->header.boot, sizeof(f->header.boot), boot);
    import_set_monotonic(f->src, boot, f->header.start.monotonic_ns);
    import_set_realtime(f->src, f->header.start.realtime_ns);
}

/* Another file of the same boot may have been read before: its ticks are ours. Returns the rate to
 * use. */
static double time_share(struct opm_file *f, double rate)
{
    struct timebase *t = &f->time;
    struct import_ticks own = { .counter = f->header.clock_source,
                                .first = f->header.start.ticks,
                                .first_ns = f->header.start.monotonic_ns,
                                .last = f->last.ticks,
                                .last_ns = f->last.monotonic_ns,
                                .rate = rate };
    struct import_ticks shared;

    if (!import_set_ticks(f->src, &own, &shared))
        return rate;
    t->origin = shared.first;
    t->own_rate = rate / shared.rate;
    return shared.rate;
}

static void time_setup(struct opm_file *f)
{
    struct timebase *t = &f->time;
    uint64_t ticks = f->last.ticks - f->header.start.ticks;
    int64_t ns = time_sub(f->last.monotonic_ns, f->header.start.monotonic_ns);
    double rate;

    t->origin = t->start = f->header.start.ticks;
    t->own_rate = 1;
    t->start_monotonic_ns = f->header.start.monotonic_ns;
    t->start_realtime_ns = f->header.start.realtime_ns;
    if (f->header.clock_source == CLOCK_SOURCE_MONOTONIC) {
        rate = 1;
    } else if (ns > 1000000 && ticks) {
        rate = (double)ns / (double)ticks;
    } else if (f->header.ticks_per_s) { /* good to a tenth of a percent, so to a microsecond here */
        rate = 1e9 / (double)f->header.ticks_per_s;
    } else {
        rate = 1;
        store_stat(f->st, STAT_clock_uncalibrated, 1);
    }
    /* A damaged calibration must not overflow anything later. */
    if (!(rate > 1e-6 && rate < 1e6))
        rate = 1;
    time_tell(f);
    if (f->header.clock_source != CLOCK_SOURCE_MONOTONIC)
        rate = time_share(f, rate);
    t->mult = (uint64_t)(rate * 4294967296.0 + 0.5);
}

static int64_t count_of(uint64_t n)
{
    return (int64_t)MIN(n, (uint64_t)INT64_MAX);
}

/* live: the live buffers of a recording that was not closed, whose counts are those of the status
 * or newer; NULL: there are none. Of a closed one the counts are final only once the status says so
 * itself: the end chunk comes before it. */
static void status_stats(struct opm_file *f, const struct live *live)
{
    const struct opm_file_status *s = &f->status;
    struct opm_live_header none = { 0 };
    const struct opm_live_header *l = live ? &live->header : &none;

    store_stat(f->st, STAT_losses_unknown,
               !f->status_known || f->losses.not_known || (f->closed && s->state != FILE_CLOSED));
    store_stat(f->st, STAT_events_lost, count_of(MAX(f->losses.lost_other, l->lost_other)));
    store_stat(f->st, STAT_threads_lost, count_of(MAX(s->lost_no_room, l->lost_no_room)));
    store_stat(f->st, STAT_end_without_begin,
               count_of(MAX(s->unbalanced_ends, l->unbalanced_ends)));
    store_stat(f->st, STAT_ended_by_parent,
               count_of(MAX(s->closed_by_parent, l->closed_by_parent)));
    f->status.lost = MAX(f->status.lost, l->lost);
    store_stat(f->st, STAT_write_failed, f->status.write_errno != 0);
    store_stat(f->st, STAT_device_records_lost, MAX(f->device_dropped, 0));
    store_stat(f->st, STAT_device_unfinished, MAX(f->device_unfinished, 0));
    if (!f->closed) {
        store_stat(f->st, STAT_not_closed, 1);
        store_stat(f->st, STAT_live_missing, !live);
    }
}

/* The whole of a recording that was closed ends with an end chunk. */
static bool ends_closed(const uint8_t *data, size_t len)
{
    struct opm_chunk c;

    return len >= sizeof(c) && chunk_head(data + len - sizeof(c), sizeof(c), &c) &&
           c.kind == CHUNK_END;
}

static size_t file_size(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

/* The file of a recording that was going on when it was mapped, as it is now. False: it is another
 * one by now, or gone; what was mapped first has to do. */
static bool file_again(struct opm_file *f, struct io_map *again)
{
    struct opm_file_header h;

    if (io_map(again, f->src->path, 0, NULL) < 0)
        return false;
    if (again->len < sizeof(h))
        return false;
    memcpy(&h, again->data, sizeof(h));
    return memcmp(&h, &f->header, sizeof(h)) == 0 &&
           header_read(f, again->data, again->len, NULL) == 0;
}

/* Find all pieces. *live_found: the live buffers belong to it. */
static int pieces_find(struct opm_file *f, struct live *live, struct io_map *again,
                       bool *live_found)
{
    const uint8_t *data = f->src->data;
    size_t len = f->src->len;
    int rc = 0;

    *live_found = !f->closed && live_map(live, f);
    if (*live_found) {
        rc = live_read(f, live);
        if (rc)
            return rc;
    }
    /* The status may be newer than the length of what was mapped, the second time too; not the
     * third, for the file is whole when its status says that it was closed. */
    if (*live_found || (!ends_closed(data, len) && file_size(f->src->path) > len)) {
        for (int i = 0; i < 2 && !ends_closed(data, len); i++) {
            io_map_release(again);
            data = f->src->data;
            len = f->src->len;
            if (!file_again(f, again))
                break;
            data = again->data;
            len = again->len;
            if (!f->closed)
                break;
        }
        if (f->closed || ends_closed(data, len)) {
            /* It was closed while we looked: everything is in the file. */
            f->npiece = 0;
            f->ndefs = 0;
            *live_found = false;
        }
    }
    rc = chunks_read(f, data, len, *live_found);
    if (rc == 0 && *live_found)
        live_cut(f, live);
    return rc;
}

static int file_read(struct opm_file *f, struct live *live, struct io_map *again, opm_error *err)
{
    bool live_found;
    int rc = header_read(f, f->src->data, f->src->len, err);

    if (rc == 0)
        rc = defs_init(f);
    if (rc == 0)
        rc = pieces_find(f, live, again, &live_found);
    if (rc == 0 && f->ntable) {
        store_stat(f->st, STAT_file_truncated, !f->closed);
        return tables_read(f);
    }
    if (rc == 0)
        rc = defs_all(f);
    if (rc == 0)
        rc = id_tell(f);
    if (rc)
        return rc;
    time_setup(f);
    pieces_sort(f);
    status_stats(f, live_found ? live : NULL);
    for (size_t i = 0; i < f->npiece; i++)
        if (!defs_thread(f, f->piece[i].thread))
            return OPM_ENOMEM;
    rc = defs_finish(f);
    if (rc == 0)
        rc = events_read(f);
    /* The status has the sum, if it is intact and as new as the events. */
    store_stat(f->st, STAT_spans_lost, count_of(MAX(f->status.lost, f->lost_units)));
    return rc;
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
    mem_free(f.defs);
    mem_free(f.table);
    io_map_release(&again);
    live_release(&live);
    return rc;
}
