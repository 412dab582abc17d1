/* test_damage.c -- files cut short, bent, or from the future: a clear error, or what can be read
 * with what is missing counted; never a crash. */
#include "rig.h"

#include "format/crc32c.h"
#include "format/format.h"
#include "import/import.h"
#include "sample.h"

#include <sys/wait.h>

/* ---- reading without the SQL: thousands of times ---- */

struct reading {
    int rc;
    char message[500];
    int64_t spans;
    int64_t stat[STAT_COUNT];
};

static struct reading read_file(const char *path)
{
    struct reading r = { 0 };
    struct store *st = NULL;
    opm_error err = { 0 };

    assert_int_equal(store_new(&st), 0);
    r.rc = import_all(st, &path, 1, &(struct import_options){ 0 }, &err);
    snprintf(r.message, sizeof(r.message), "%s", err.msg);
    if (r.rc == 0)
        r.rc = store_finish(st);
    if (r.rc == 0) {
        r.spans = (int64_t)store_nrow(st, TABLE_span);
        for (size_t i = 0; i < store_nrow(st, TABLE_import_stat); i++) {
            const char *name =
                store_text(st, store_cell(st, TABLE_import_stat, i, import_stat_col_name).str);
            static const char *const names[] = {
#define X(stat, severity, description) #stat,
#include "store/stats.def"
#undef X
            };

            for (size_t k = 0; k < STAT_COUNT; k++)
                if (strcmp(name, names[k]) == 0)
                    r.stat[k] = store_cell(st, TABLE_import_stat, i, import_stat_col_count).i64;
        }
    } else {
        assert_true(r.rc < 0);
        assert_non_null(strstr(r.message, path)); /* an error says which file */
    }
    store_free(st);
    return r;
}

static struct reading read_bytes(const uint8_t *bytes, size_t len)
{
    const char *path = rig_path("bent.opm");

    unlink(path); /* some file systems wait for the disk when a file is overwritten */
    unit_write(path, bytes, len);
    return read_file(path);
}

static size_t record_sample(uint8_t **bytes)
{
    rig_start(rig_path("sample.opm"));
    sample_everything(0);
    rig_stop();
    return rig_read(rig_path("sample.opm"), bytes);
}

/* ---- cut short ---- */

static void cut_anywhere(void **state)
{
    uint8_t *bytes;
    size_t len = record_sample(&bytes);
    struct reading whole = read_bytes(bytes, len);
    int64_t last = 0;

    (void)state;
    assert_int_equal(whole.rc, 0);
    assert_int_equal(whole.stat[STAT_file_truncated], 0);
    for (size_t n = 0; n < len; n++) {
        struct reading r = read_bytes(bytes, n);

        if (n < sizeof(struct opm_file_header)) {
            assert_int_equal(r.rc, n < 12 ? OPM_EFORMAT : OPM_ETRUNC);
            continue;
        }
        if (r.rc != 0)
            fail_msg("%zu of %zu bytes: %s", n, len, r.message);
        if (r.stat[STAT_file_truncated] + r.stat[STAT_live_missing] == 0)
            fail_msg("%zu of %zu bytes: not told", n, len);
        assert_true(r.spans >= last && r.spans <= whole.spans);
        last = r.spans;
    }
    assert_int_equal(last, whole.spans); /* only the end chunk was missing */
    free(bytes);
}

/* ---- bent ---- */

static void flip(uint8_t *bytes, size_t len, uint64_t *seed)
{
    for (uint32_t n = 1 + rig_random(seed) % 4; n > 0; n--)
        bytes[rig_random(seed) % len] ^= (uint8_t)(1u << rig_random(seed) % 8);
}

static void bits_flipped(void **state)
{
    int rounds = rig_rounds(2000 / (int)unit_patience(), 200000), failed = 0;
    uint8_t *bytes, *bent;
    size_t len = record_sample(&bytes);
    uint64_t seed = 42;

    (void)state;
    bent = malloc(len);
    assert_non_null(bent);
    for (int i = 0; i < rounds; i++) {
        memcpy(bent, bytes, len);
        flip(bent, len, &seed);
        failed += read_bytes(bent, len).rc != 0;
    }
    assert_in_range(failed, 1, rounds / 2); /* damage outside the header costs a chunk, no more */
    free(bent);
    free(bytes);
}

/* Chunks whose checksums are right, and nothing else is: what a broken recorder might write. */
static void chunks_bent(void **state)
{
    int rounds = rig_rounds(2000 / (int)unit_patience(), 200000);
    uint8_t *bytes, *bent;
    size_t len = record_sample(&bytes);
    uint64_t seed = 43;

    (void)state;
    bent = malloc(len);
    assert_non_null(bent);
    for (int i = 0; i < rounds; i++) {
        memcpy(bent, bytes, len);
        for (size_t at = OPM_HEADER_SIZE; at + sizeof(struct opm_chunk) <= len;) {
            struct opm_chunk c;

            memcpy(&c, bent + at, sizeof(c));
            if (c.size && c.size <= len - at - sizeof(c)) {
                flip(bent + at + sizeof(c), c.size, &seed);
                c.crc = crc32c(bent + at + sizeof(c), c.size);
                c.header_crc = crc32c(&c, offsetof(struct opm_chunk, header_crc));
                memcpy(bent + at, &c, sizeof(c));
            }
            at += sizeof(c) + c.size;
        }
        assert_int_equal(read_bytes(bent, len).rc, 0);
    }
    free(bent);
    free(bytes);
}

/* ---- one thing wrong at a time ---- */

/* Where chunk number n of this kind starts. */
static size_t chunk_at(const uint8_t *bytes, size_t len, unsigned kind, int n, struct opm_chunk *c)
{
    for (size_t at = OPM_HEADER_SIZE; at + sizeof(*c) <= len; at += sizeof(*c) + c->size) {
        memcpy(c, bytes + at, sizeof(*c));
        assert_int_equal(c->magic, OPM_CHUNK_MAGIC);
        if (c->kind == kind && n-- == 0)
            return at;
    }
    fail_msg("no such chunk");
    return 0;
}

static size_t record_long(uint8_t **bytes)
{
    opm_options options = OPM_OPTIONS_INIT;

    options.path = rig_path("long.opm");
    assert_int_equal(opm_start(&options, NULL), 0);
    sample_spans(20000);
    rig_stop();
    return rig_read(options.path, bytes);
}

static void one_chunk_damaged(void **state)
{
    uint8_t *bytes;
    size_t len = record_long(&bytes), at;
    struct opm_chunk c;
    struct reading r;

    (void)state;
    assert_int_equal(read_bytes(bytes, len).spans, 20000);
    at = chunk_at(bytes, len, CHUNK_EVENTS, 4, &c);
    /* In its payload: only its spans are missing. */
    bytes[at + sizeof(c) + c.size / 2] ^= 0x10;
    r = read_bytes(bytes, len);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.spans, 20000 - (int64_t)OPM_BLOCK_UNITS);
    assert_int_equal(r.stat[STAT_chunk_corrupt], 1);
    bytes[at + sizeof(c) + c.size / 2] ^= 0x10;
    /* In every byte of its head: the next one is found. */
    for (size_t i = 0; i < sizeof(c); i++) {
        bytes[at + i] ^= 0x80;
        r = read_bytes(bytes, len);
        assert_int_equal(r.rc, 0);
        assert_int_equal(r.spans, 20000 - (int64_t)OPM_BLOCK_UNITS);
        assert_int_equal(r.stat[STAT_chunk_corrupt], 1);
        bytes[at + i] ^= 0x80;
    }
    assert_int_equal(read_bytes(bytes, len).spans, 20000);
    free(bytes);
}

/* A copy with `n` bytes put in at `at`. */
static uint8_t *insert(const uint8_t *bytes, size_t len, size_t at, const void *p, size_t n)
{
    uint8_t *out = malloc(len + n);

    assert_non_null(out);
    memcpy(out, bytes, at);
    memcpy(out + at, p, n);
    memcpy(out + at + n, bytes + at, len - at);
    return out;
}

static size_t make_chunk(uint8_t *to, unsigned kind, const void *payload, size_t n)
{
    struct opm_chunk c = { .magic = OPM_CHUNK_MAGIC,
                           .kind = (uint16_t)kind,
                           .size = (uint32_t)n,
                           .crc = crc32c(payload, n) };

    c.header_crc = crc32c(&c, offsetof(struct opm_chunk, header_crc));
    memcpy(to, &c, sizeof(c));
    memcpy(to + sizeof(c), payload, n);
    return sizeof(c) + n;
}

static void things_unknown(void **state)
{
    static const uint8_t items[] = { 200, 1, 3, 'a', 'b', 'c', /* kind 200: three bytes */
                                     99,  0 };                 /* kind 99: none */
    uint8_t *bytes, *more, chunk[200];
    size_t len = record_long(&bytes), n, at;
    struct opm_chunk c;
    struct reading r;

    (void)state;
    at = chunk_at(bytes, len, CHUNK_EVENTS, 3, &c);
    n = make_chunk(chunk, 77, "from the future", 15);
    more = insert(bytes, len, at, chunk, n);
    r = read_bytes(more, len + n);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.spans, 20000);
    assert_int_equal(r.stat[STAT_chunk_unknown], 1);
    assert_int_equal(r.stat[STAT_chunk_corrupt], 0);
    free(more);

    n = make_chunk(chunk, CHUNK_DEFS, items, sizeof(items));
    more = insert(bytes, len, at, chunk, n);
    r = read_bytes(more, len + n);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.spans, 20000);
    assert_int_equal(r.stat[STAT_chunk_unknown], 2);
    free(more);

    memset(chunk, 'C', sizeof(chunk)); /* nothing at all, in between */
    more = insert(bytes, len, at, chunk, sizeof(chunk));
    r = read_bytes(more, len + sizeof(chunk));
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.spans, 20000);
    assert_int_equal(r.stat[STAT_chunk_corrupt], 1);
    free(more);
    free(bytes);
}

static void refused(void **state)
{
    uint8_t *bytes;
    size_t len = record_sample(&bytes);
    const char *path = rig_path("bent.opm");
    opm_trace *t = NULL;
    opm_error err = { 0 };
    uint32_t newer = OPM_FORMAT_VERSION + 1;

    (void)state;
    memcpy(bytes + offsetof(struct opm_file_header, version), &newer, sizeof(newer));
    unit_write(path, bytes, len);
    assert_int_equal(opm_trace_open(&t, &path, 1, NULL, &err), OPM_EVERSION);
    assert_non_null(strstr(err.msg, path));
    assert_non_null(strstr(err.msg, "version 3"));
    assert_non_null(strstr(err.msg, "up to 2"));
    unit_write(path, bytes, 40); /* even if not much of it is there */
    assert_int_equal(opm_trace_open(&t, &path, 1, NULL, &err), OPM_EVERSION);

    unit_write(path, "opmeter\r\n and other text", 24);
    assert_int_equal(opm_trace_open(&t, &path, 1, NULL, &err), OPM_EFORMAT);
    assert_non_null(strstr(err.msg, path));
    unit_write(path, "", 0);
    assert_int_equal(opm_trace_open(&t, &path, 1, NULL, &err), OPM_EFORMAT);
    free(bytes);

    len = record_sample(&bytes);
    bytes[offsetof(struct opm_file_header, session)] ^= 1;
    unit_write(path, bytes, len);
    assert_int_equal(opm_trace_open(&t, &path, 1, NULL, &err), OPM_EFORMAT);
    assert_non_null(strstr(err.msg, "header is damaged"));
    assert_null(t);
    free(bytes);
}

/* ---- losses that damage must not hide ---- */

#define PLANTED_LOST 38600000
#define PLANTED_NO_ROOM 77

static bool any_loss(const struct reading *r)
{
    static const bool is_loss[] = {
#define INFO false
#define LOSS true
#define X(stat, severity, description) severity,
#include "store/stats.def"
#undef X
#undef INFO
#undef LOSS
    };

    for (size_t i = 0; i < STAT_COUNT; i++)
        if (is_loss[i] && r->stat[i])
            return true;
    return false;
}

static struct opm_file_status status_of(const uint8_t *bytes)
{
    struct opm_file_status s;

    memcpy(&s, bytes + sizeof(struct opm_file_header), sizeof(s));
    assert_int_equal(s.crc, crc32c(&s, offsetof(struct opm_file_status, crc)));
    return s;
}

static void status_set(uint8_t *bytes, struct opm_file_status s)
{
    s.crc = crc32c(&s, offsetof(struct opm_file_status, crc));
    memcpy(bytes + sizeof(struct opm_file_header), &s, sizeof(s));
}

static void plant_losses(uint8_t *bytes)
{
    struct opm_file_status s = status_of(bytes);

    s.lost = PLANTED_LOST;
    s.lost_no_room = PLANTED_NO_ROOM;
    status_set(bytes, s);
}

/* The byte that is bent after this one: of many, where that takes long, some; not all of a kind. */
static size_t next_byte(size_t at)
{
    return at + (at < OPM_HEADER_SIZE ? 1 : (size_t)unit_patience() | 1);
}

/* Every byte of a recording that lost much, bent in turn: the loss is told, or that nobody knows,
 * or the file is refused. */
static void losses_never_hidden(void **state)
{
    uint8_t *bytes;
    size_t len = record_sample(&bytes);
    int unknown = 0;

    (void)state;
    plant_losses(bytes);
    for (size_t at = 0; at < len; at = next_byte(at)) {
        for (int bit = at < OPM_HEADER_SIZE ? 0 : (int)(at % 8); bit < 8; bit++) {
            struct reading r;

            bytes[at] ^= (uint8_t)(1u << bit);
            r = read_bytes(bytes, len);
            bytes[at] ^= (uint8_t)(1u << bit);
            if (r.rc == 0 && !r.stat[STAT_losses_unknown] &&
                (r.stat[STAT_spans_lost] != PLANTED_LOST ||
                 r.stat[STAT_threads_lost] != PLANTED_NO_ROOM))
                fail_msg("byte %zu, bit %d: the losses are not told", at, bit);
            unknown += r.rc == 0 && r.stat[STAT_losses_unknown];
            if (at >= OPM_HEADER_SIZE)
                break;
        }
    }
    /* All of the status, and nothing else. */
    assert_int_equal(unknown, 8 * sizeof(struct opm_file_status));
    free(bytes);
}

/* The same of one that lost nothing: no byte can be bent but that something is said to be missing,
 * or the file is refused, or all is there. */
static void completeness_never_made_up(void **state)
{
    uint8_t *bytes;
    size_t len = record_sample(&bytes);
    struct reading whole = read_bytes(bytes, len);
    size_t unused = sizeof(struct opm_file_header) + sizeof(struct opm_file_status);

    (void)state;
    assert_false(any_loss(&whole));
    for (size_t at = 0; at < len; at = next_byte(at)) {
        struct reading r;

        bytes[at] ^= (uint8_t)(1u << at % 8);
        r = read_bytes(bytes, len);
        bytes[at] ^= (uint8_t)(1u << at % 8);
        if (at >= unused && at < OPM_HEADER_SIZE) {
            assert_int_equal(r.spans, whole.spans);
            assert_false(any_loss(&r));
        } else if (r.rc == 0 && !any_loss(&r)) {
            fail_msg("byte %zu: not told", at);
        }
    }
    free(bytes);
}

/* The end chunk is there, but the last word of the status is not: its counts are those of some
 * moment before. */
static void status_not_final(void **state)
{
    uint8_t *bytes;
    size_t len = record_sample(&bytes);
    struct opm_file_status s = status_of(bytes);
    struct reading r;

    (void)state;
    s.state = FILE_RECORDING;
    status_set(bytes, s);
    r = read_bytes(bytes, len);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.stat[STAT_losses_unknown], 1);
    /* Nor does the status of a recording that never wrote one say anything. */
    memset(bytes + sizeof(struct opm_file_header), 0, sizeof(s));
    r = read_bytes(bytes, len);
    assert_int_equal(r.stat[STAT_losses_unknown], 1);
    free(bytes);
}

/* What a thread noted that it dropped is told even where the status cannot be read; and once, where
 * it can. */
static void dropped_noted_by_threads(void **state)
{
    uint8_t *bytes;
    size_t len;
    struct opm_file_status s;
    struct reading r;
    opm_options options = OPM_OPTIONS_INIT;
    opm_recorder_stats stats;

    (void)state;
    options.path = rig_path("drop.opm");
    options.buffer_mb = 1;
    options.overflow = OPM_OVERFLOW_DROP;
    for (int tries = 0; tries < 20; tries++) {
        assert_int_equal(opm_start(&options, NULL), 0);
        sample_spans(2000000);
        rig_stop();
        opm_stats(&stats);
        if (stats.lost)
            break;
    }
    if (!stats.lost)
        skip(); /* the writer kept up every time */
    len = rig_read(options.path, &bytes);
    r = read_bytes(bytes, len);
    assert_int_equal(r.stat[STAT_spans_lost], stats.lost);
    assert_int_equal(r.stat[STAT_losses_unknown], 0);
    s = status_of(bytes);
    s.state = FILE_RECORDING; /* its account of a moment ago, and no end */
    status_set(bytes, s);
    r = read_bytes(bytes, len - sizeof(struct opm_chunk));
    assert_int_equal(r.stat[STAT_not_closed], 1);
    assert_int_equal(r.stat[STAT_spans_lost], stats.lost);
    bytes[sizeof(struct opm_file_header)] ^= 1;
    r = read_bytes(bytes, len);
    assert_int_equal(r.stat[STAT_losses_unknown], 1);
    assert_int_equal(r.stat[STAT_spans_lost], stats.lost);
    free(bytes);
}

/* ---- the live file ---- */

static int leave_live(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;

    (void)argc;
    options.path = argv[0];
    options.buffer_mb = 1;
    RIG_CHECK(opm_start(&options, NULL) == 0);
    sample_everything(1);
    sample_spans(5000);
    _exit(0);
}

struct live_rig {
    const char *path;
    uint8_t *bytes; /* of the live file, as it was left */
    size_t len;
    int fd;
    struct reading good;
};

static struct live_rig live_rig(void)
{
    struct live_rig rig = { .path = rig_path("left.opm") };
    struct rig_result r;

    rig_run(&r, NULL, RIG_WORDS("leave", rig.path));
    assert_int_equal(r.status, 0);
    rig.len = rig_read(rig_path("left.opm-live"), &rig.bytes);
    rig.fd = open(rig_path("left.opm-live"), O_RDWR | O_CLOEXEC);
    assert_true(rig.fd >= 0);
    rig.good = read_file(rig.path);
    assert_int_equal(rig.good.rc, 0);
    assert_true(rig.good.spans > 5000);
    assert_true(rig.good.stat[STAT_recovered_live] > 0);
    return rig;
}

static void live_rig_release(struct live_rig *rig)
{
    close(rig->fd);
    free(rig->bytes);
}

/* A place in the live file that means something: most of it is empty. */
static size_t live_place(const struct live_rig *rig, uint64_t *seed)
{
    struct opm_live_header h;

    memcpy(&h, rig->bytes, sizeof(h));
    switch (rig_random(seed) % 4) {
    case 0:
        return rig_random(seed) % sizeof(h);
    case 1:
        return live_slot_offset(rig_random(seed) % 2) + rig_random(seed) % 128;
    case 2:
        return live_block_offset(h.nslot, rig_random(seed) % 4) + rig_random(seed) % 16;
    default:
        return live_block_offset(h.nslot, rig_random(seed) % 4) + rig_random(seed) % 2000;
    }
}

static void live_bits_flipped(void **state)
{
    int rounds = rig_rounds(1500 / (int)unit_patience(), 100000);
    struct live_rig rig = live_rig();
    uint64_t seed = 44;

    (void)state;
    for (int i = 0; i < rounds; i++) {
        size_t at[4], n = 1 + rig_random(&seed) % ARRAY_SIZE(at);

        for (size_t k = 0; k < n; k++) {
            uint8_t b;

            at[k] = live_place(&rig, &seed);
            b = (uint8_t)(rig.bytes[at[k]] ^ (1u << rig_random(&seed) % 8));
            assert_int_equal(pwrite(rig.fd, &b, 1, (off_t)at[k]), 1);
        }
        assert_int_equal(read_file(rig.path).rc, 0); /* it can do no worse than not being there */
        for (size_t k = 0; k < n; k++)
            assert_int_equal(pwrite(rig.fd, rig.bytes + at[k], 1, (off_t)at[k]), 1);
    }
    assert_int_equal(read_file(rig.path).spans, rig.good.spans);
    live_rig_release(&rig);
}

static void live_cut_short(void **state)
{
    struct live_rig rig = live_rig();

    (void)state;
    for (size_t n = rig.len; n > 0; n -= MIN(n, (size_t)9973)) {
        struct reading r;

        assert_int_equal(ftruncate(rig.fd, (off_t)n), 0);
        r = read_file(rig.path);
        assert_int_equal(r.rc, 0);
        assert_int_equal(r.stat[STAT_not_closed], 1);
        assert_int_equal(r.stat[STAT_live_missing], n < rig.len);
    }
    unlink(rig_path("left.opm-live"));
    assert_int_equal(read_file(rig.path).stat[STAT_live_missing], 1);
    live_rig_release(&rig);
}

static struct opm_slot slot_of(const struct live_rig *rig)
{
    struct opm_slot slot;

    memcpy(&slot, rig->bytes + live_slot_offset(0), sizeof(slot));
    assert_true(slot.serial && slot.depth && slot.used && slot.block != OPM_NO_BLOCK);
    return slot;
}

static void slot_write(const struct live_rig *rig, const struct opm_slot *slot)
{
    assert_int_equal(pwrite(rig->fd, slot, sizeof(*slot), (off_t)live_slot_offset(0)),
                     (ssize_t)sizeof(*slot));
}

static uint64_t block_offset(const struct live_rig *rig, uint32_t block)
{
    struct opm_live_header h;

    memcpy(&h, rig->bytes, sizeof(h));
    return live_block_offset(h.nslot, block);
}

/* Killed after a span was written and before it left the stack: it has ended, and is there once. */
static void live_span_in_both(void **state)
{
    struct live_rig rig = live_rig();
    struct opm_slot slot = slot_of(&rig);
    struct opm_unit last[2];
    uint64_t at = block_offset(&rig, slot.block) + sizeof(struct opm_block_header);
    struct reading r;

    (void)state;
    memcpy(last, rig.bytes + at + (slot.used - 1) * sizeof(last[0]), sizeof(last[0]));
    assert_int_equal(unit_kind(&last[0]), UNIT_SPAN);
    slot.stack[slot.depth++] = (struct opm_unit){ last[0].ticks, unit_id(&last[0]) };
    slot_write(&rig, &slot);
    r = read_file(rig.path);
    assert_int_equal(r.spans, rig.good.spans);
    assert_int_equal(r.stat[STAT_span_not_ended], rig.good.stat[STAT_span_not_ended]);

    /* The same with one that took so long that it needs two units. */
    last[1] = (struct opm_unit){ 1ull << 40, 0 };
    last[0].word = unit_word(UNIT_LONG_SPAN, unit_id(&last[0]), 0);
    assert_int_equal(
        pwrite(rig.fd, last, sizeof(last), (off_t)(at + (slot.used - 1) * sizeof(last[0]))),
        (ssize_t)sizeof(last));
    slot.used++;
    slot_write(&rig, &slot);
    r = read_file(rig.path);
    assert_int_equal(r.spans, rig.good.spans);
    assert_int_equal(r.stat[STAT_span_not_ended], rig.good.stat[STAT_span_not_ended]);

    /* And with a thread that was about to leave, its open spans being in the stream already. */
    last[0].word = unit_word(UNIT_BEGIN, unit_id(&last[0]), 0);
    assert_int_equal(
        pwrite(rig.fd, last, sizeof(last[0]), (off_t)(at + (slot.used - 2) * sizeof(last[0]))),
        (ssize_t)sizeof(last[0]));
    slot.used--;
    slot_write(&rig, &slot);
    r = read_file(rig.path);
    assert_int_equal(r.spans, rig.good.spans);
    assert_int_equal(r.stat[STAT_span_not_ended], rig.good.stat[STAT_span_not_ended] + 1);
    live_rig_release(&rig);
}

/* A thread that went on while its slot was being read: what is newer than the slot is left out, or
 * there would be gaps. */
static void live_block_too_new(void **state)
{
    struct live_rig rig = live_rig();
    struct opm_slot slot = slot_of(&rig);
    struct opm_block_header h;
    uint8_t block[OPM_BLOCK_SIZE];
    struct reading r;

    (void)state;
    memcpy(block, rig.bytes + block_offset(&rig, slot.block), sizeof(block));
    memcpy(&h, block, sizeof(h));
    h.state = BLOCK_FULL;
    h.seq = slot.seq + 1;
    h.used = slot.used;
    memcpy(block, &h, sizeof(h));
    assert_int_equal(
        pwrite(rig.fd, block, sizeof(block), (off_t)block_offset(&rig, slot.block + 5)),
        (ssize_t)sizeof(block));
    r = read_file(rig.path);
    assert_int_equal(r.spans, rig.good.spans);
    /* Of its last block, the slot counts what has been written. */
    slot.used -= 10;
    slot_write(&rig, &slot);
    assert_int_equal(read_file(rig.path).spans, rig.good.spans - 10);
    live_rig_release(&rig);
}

/* The live buffers of another recording are none of its business. */
static void live_of_another(void **state)
{
    struct live_rig rig = live_rig();
    struct rig_result r;
    struct reading bad;

    (void)state;
    rig_run(&r, NULL, RIG_WORDS("leave", rig_path("other.opm")));
    assert_int_equal(rename(rig_path("other.opm-live"), rig_path("left.opm-live")), 0);
    bad = read_file(rig.path);
    assert_int_equal(bad.rc, 0);
    assert_int_equal(bad.stat[STAT_live_missing], 1);
    assert_int_equal(bad.stat[STAT_recovered_live], 0);
    live_rig_release(&rig);
}

/* Counts of a recording that was killed stand in its status and in its live buffers. Whichever byte
 * of either is bent, what was lost is told once, or that nobody knows. */
static void live_losses_never_hidden(void **state)
{
    struct live_rig rig = live_rig();
    struct opm_live_header h;
    uint8_t *bytes;
    size_t len = rig_read(rig.path, &bytes);
    struct reading r;

    (void)state;
    plant_losses(bytes);
    unit_write(rig.path, bytes, len);
    memcpy(&h, rig.bytes, sizeof(h));
    h.lost_no_room = PLANTED_NO_ROOM;
    memcpy(rig.bytes, &h, sizeof(h));
    assert_int_equal(pwrite(rig.fd, &h, sizeof(h), 0), (ssize_t)sizeof(h));
    r = read_file(rig.path);
    assert_int_equal(r.stat[STAT_threads_lost], PLANTED_NO_ROOM);
    assert_int_equal(r.stat[STAT_spans_lost], PLANTED_LOST);
    assert_int_equal(r.stat[STAT_losses_unknown], 0);
    for (size_t at = 0; at < sizeof(h); at++) {
        uint8_t b = (uint8_t)(rig.bytes[at] ^ 0xff);

        assert_int_equal(pwrite(rig.fd, &b, 1, (off_t)at), 1);
        r = read_file(rig.path);
        assert_int_equal(pwrite(rig.fd, rig.bytes + at, 1, (off_t)at), 1);
        assert_int_equal(r.rc, 0);
        /* The live buffers may know of more than the status does, so a bent count may be believed.
         */
        assert_true(r.stat[STAT_spans_lost] >= PLANTED_LOST);
        assert_true(r.stat[STAT_threads_lost] >= PLANTED_NO_ROOM);
    }
    for (size_t at = 0; at < sizeof(struct opm_file_status); at++) {
        bytes[sizeof(struct opm_file_header) + at] ^= 0xff;
        unit_write(rig.path, bytes, len);
        bytes[sizeof(struct opm_file_header) + at] ^= 0xff;
        r = read_file(rig.path);
        assert_int_equal(r.stat[STAT_losses_unknown], 1);
        assert_int_equal(r.stat[STAT_threads_lost], PLANTED_NO_ROOM);
    }
    free(bytes);
    live_rig_release(&rig);
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = { { "leave", leave_live }, { NULL, NULL } };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(bits_flipped),
        cmocka_unit_test(chunks_bent),
        cmocka_unit_test(one_chunk_damaged),
        cmocka_unit_test(things_unknown),
        cmocka_unit_test(refused),
        cmocka_unit_test(live_bits_flipped),
        cmocka_unit_test(live_cut_short),
        cmocka_unit_test(live_of_another),
        cmocka_unit_test(live_span_in_both),
        cmocka_unit_test(live_block_too_new),
        cmocka_unit_test(losses_never_hidden),
        cmocka_unit_test(completeness_never_made_up),
        cmocka_unit_test(status_not_final),
        cmocka_unit_test(dropped_noted_by_threads),
        cmocka_unit_test(live_losses_never_hidden),
    };
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
