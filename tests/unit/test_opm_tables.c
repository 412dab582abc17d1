/* test_opm_tables.c -- a store written as a file of tables and read back is the same store; a
 * damaged file gives what is left of it, and says how much is missing. */
#include "export/opm_pack.h"
#include "export_rig.h"
#include "import/import.h"
#include "trace_rig.h"

#include "format/colpack.h"
#include "format/crc32c.h"
#include "format/format.h"
#include "format/varint.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int read_bytes(const void *data, size_t len, struct store **out)
{
    struct import_source src = { .path = "/nowhere/x.opm", .data = data, .len = len, .count = 1 };
    opm_error err = { 0 };
    int rc = store_new(out);

    assert_int_equal(rc, 0);
    rc = opm_read(*out, &src, &err);
    if (rc == 0)
        rc = store_finish(*out);
    else
        assert_true(err.msg[0]);
    return rc;
}

static struct buf write_bytes(const struct store *st)
{
    const char *path = unit_path("t.opm");
    opm_error err = { 0 };

    assert_int_equal(export_opm(st, path, NULL, &err), 0);
    return slurp(path);
}

static void assert_same_cell(const struct store *a, const struct store *b, int table, size_t row,
                             int col)
{
    struct cell x = store_cell(a, (enum table_id)table, row, col);
    struct cell y = store_cell(b, (enum table_id)table, row, col);
    const char *name = store_table_defs[table].name,
               *column = store_table_defs[table].col[col].name;
    bool same = x.kind == y.kind;

    if (same && x.kind == CELL_STR)
        same = strpool_len(store_strings(a), x.str) == strpool_len(store_strings(b), y.str) &&
               memcmp(store_text(a, x.str), store_text(b, y.str),
                      strpool_len(store_strings(a), x.str)) == 0;
    else if (same && x.kind == CELL_I64)
        same = x.i64 == y.i64;
    else if (same && x.kind == CELL_F64)
        same = memcmp(&x.f64, &y.f64, sizeof(x.f64)) == 0;
    if (!same)
        fail_msg("%s.%s of row %zu differs", name, column, row);
}

static void assert_same_store(const struct store *a, const struct store *b)
{
    for (int t = 0; t < TABLE_COUNT; t++) {
        size_t n = store_nrow(a, (enum table_id)t);

        if (n != store_nrow(b, (enum table_id)t))
            fail_msg("%s: %zu rows, then %zu", store_table_defs[t].name, n,
                     store_nrow(b, (enum table_id)t));
        for (size_t row = 0; row < n; row++)
            for (int c = 0; c < store_table_defs[t].ncol; c++)
                assert_same_cell(a, b, t, row, c);
    }
}

static void assert_round_trip(const struct store *st)
{
    struct buf file = write_bytes(st), again;
    struct store *back;

    assert_int_equal(read_bytes(file.data, file.len, &back), 0);
    assert_same_store(st, back);
    again = write_bytes(back);
    store_free(back);
    assert_int_equal(read_bytes(again.data, again.len, &back), 0);
    assert_same_store(st, back);
    store_free(back);
    buf_release(&file);
    buf_release(&again);
}

static void test_random(void **state)
{
    static const struct rig rigs[] = {
        { 0 },
        { .ntrack = 1, .nsite = 1, .nspan = 1 },
        { .ntrack = 3, .nop = 5, .nsite = 10, .nstep = 4, .nrecord = 3, .nspan = 200 },
        { .ntrack = 12,
          .nop = 40,
          .nsite = 80,
          .nstep = 60,
          .nrecord = 20,
          .nspan = 3000,
          .warmup = true },
        { .ntrack = 300, .nop = 9, .nsite = 30, .nspan = 150000 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rigs); i++) {
        for (uint64_t seed = 1; seed <= (rigs[i].nspan > 10000 ? 1 : 5); seed++) {
            struct store *st = NULL;

            assert_int_equal(rig_make(&st, &rigs[i], seed), 0);
            assert_round_trip(st);
            store_free(st);
        }
    }
}

/* Times at the ends of what is possible, texts of all kinds, every table. */
static void test_extremes(void **state)
{
    struct store *st = store_begin();
    uint32_t a = add_track(st, "thread", "a", INT64_MAX, INT64_MIN + 1);
    uint32_t b = add_track(st, "async", "", -1, 0);
    struct cell mem[mem_col_COUNT] = { 0 }, step[step_col_COUNT] = { 0 };
    char *large = malloc(3 << 20);

    (void)state;
    assert_non_null(large);
    for (size_t i = 0; i < 3 << 20; i++)
        large[i] = (char)('a' + i * i % 23);
    large[(3 << 20) - 1] = '\0';
    add_span(st, a, INT64_MIN, 5, large, "{\"x\":1}");
    add_span(st, a, INT64_MAX, -1, "\xff", NULL);
    add_span(st, b, 0, INT64_MAX, "", "");
    add_span(st, OPM_NULL_ID, 7, 0, "lost", NULL);
    add_flow(st, 0, 1, NULL);
    add_flow(st, 2, 0, "launch");
    add_sample(st, a, 1, -0.0);
    add_sample(st, a, 2, 0.1);
    add_sample(st, a, 3, 1e300);
    mem[mem_col_bytes] = cell_i64(INT64_MAX);
    mem[mem_col_addr] = cell_i64(-5);
    assert_int_equal(store_add(st, TABLE_mem, mem, NULL), 0);
    step[step_col_ts] = cell_null();
    step[step_col_dur] = cell_i64(3);
    assert_int_equal(store_add(st, TABLE_step, step, NULL), 0);
    assert_int_equal(store_meta(st, "k", NULL), 0);
    assert_int_equal(store_meta(st, "", "v"), 0);
    store_stat(st, STAT_chunk_unknown, 12);
    assert_int_equal(store_finish(st), 0);
    assert_round_trip(st);
    store_free(st);
    free(large);
}

/* Args made of forms and numbers, beside texts and none. */
static void test_forms(void **state)
{
    static const char *const texts[] = { "{\"a\":\1,\"p\":\"\3\"}", "{\"x\":[\2,\1]}", "{}" };
    struct store *st = store_begin();
    uint32_t track = add_track(st, "thread", "t", 1, 2), form[ARRAY_SIZE(texts)];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        assert_int_equal(store_args_form(st, texts[i], strlen(texts[i]), &form[i]), 0);
    for (int64_t i = 0; i < 70000; i++) {
        uint32_t id = add_span(st, track, i * 10, 5, "s", i % 5 == 4 ? "{\"t\":1}" : NULL);
        int64_t value[3] = { i * i - 1000, i % 7 == 0 ? INT64_MIN : i, -i };

        if (i % 5 < 3)
            assert_int_equal(store_span_set_args_form(st, id, form[i % 5], value), 0);
    }
    assert_int_equal(store_finish(st), 0);
    assert_round_trip(st);
    store_free(st);
}

static int64_t stat_of(const struct store *st, const char *name)
{
    for (size_t i = 0; i < store_nrow(st, TABLE_import_stat); i++) {
        struct cell c = store_cell(st, TABLE_import_stat, i, import_stat_col_name);

        if (strcmp(store_text(st, c.str), name) == 0)
            return store_cell(st, TABLE_import_stat, i, import_stat_col_count).i64;
    }
    return 0;
}

#define LATER_SPANS 70000

/* Of every seven spans five have args of two forms, one has a text, one has none. */
static struct store *later_store(void)
{
    static const char *const texts[] = { "{\"a\":\1,\"p\":\"\3\"}", "{\"n\":\1}" };
    struct store *st = store_begin();
    uint32_t track = add_track(st, "thread", "t", 1, 2), form[ARRAY_SIZE(texts)];

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        assert_int_equal(store_args_form(st, texts[i], strlen(texts[i]), &form[i]), 0);
    for (int64_t i = 0; i < LATER_SPANS; i++) {
        uint32_t id = add_span(st, track, i * 10, 5, "s", i % 7 == 5 ? "{\"t\":1}" : NULL);
        int64_t value[2] = { i * i - 1000, i };

        if (i % 7 < 5)
            assert_int_equal(store_span_set_args_form(st, id, form[i % 2], value), 0);
    }
    assert_int_equal(store_finish(st), 0);
    return st;
}

/* Row `row` has the args of span i of later_store(). */
static void assert_args(const struct store *st, size_t row, int64_t i)
{
    struct buf text = { 0 };
    char expected[80] = "";

    if (i % 7 < 5 && i % 2)
        snprintf(expected, sizeof(expected), "{\"n\":%lld}", (long long)(i * i - 1000));
    else if (i % 7 < 5)
        snprintf(expected, sizeof(expected), "{\"a\":%lld,\"p\":\"0x%llx\"}",
                 (long long)(i * i - 1000), (unsigned long long)i);
    else if (i % 7 == 5)
        snprintf(expected, sizeof(expected), "{\"t\":1}");
    assert_int_equal(store_span_args(st, row, &text), 0);
    assert_string_equal(buf_str(&text), expected);
    buf_release(&text);
}

static void *ask_args(void *arg)
{
    const struct store *st = arg;

    assert_int_equal(store_args_read(st), 0);
    for (size_t i = 0; i < LATER_SPANS; i += 11)
        assert_args(st, i, (int64_t)i);
    return NULL;
}

/* Args are read when they are asked for: by several threads, of files merged with others, and of
 * one that is written again at once. */
static void test_args_later(void **state)
{
    struct store *st = later_store(), *back;
    struct buf file = write_bytes(st);
    opm_error err = { 0 };
    pthread_t thread;

    (void)state;
    assert_int_equal(read_bytes(file.data, file.len, &back), 0);
    assert_true(store_has_args(back));
    assert_int_equal(pthread_create(&thread, NULL, ask_args, back), 0);
    ask_args(back);
    pthread_join(thread, NULL);
    store_free(back);

    assert_int_equal(store_new(&back), 0);
    for (int i = 0; i < 2; i++) {
        struct import_source src = { .path = "x.opm",
                                     .data = (const uint8_t *)file.data,
                                     .len = file.len,
                                     .index = i,
                                     .count = 2 };

        assert_int_equal(opm_read(back, &src, &err), 0);
    }
    assert_int_equal(store_finish(back), 0);
    for (size_t row = 0; row < 2 * LATER_SPANS; row++)
        assert_args(back, row, (int64_t)row / 2);
    store_free(back);

    assert_round_trip(st);
    store_free(st);
    buf_release(&file);
}

/* Each allocation fails once while args are read: that is said, and the next who asks has them. */
static void test_args_no_memory(void **state)
{
    struct store *st = later_store(), *back;
    struct buf file = write_bytes(st);
    bool delivered = true;

    (void)state;
    store_free(st);
    for (long n = 1; delivered; n = unit_next_failure(n)) {
        int rc;

        assert_int_equal(read_bytes(file.data, file.len, &back), 0);
        mem_fail_at(n);
        rc = store_args_read(back);
        delivered = mem_alloc_failed();
        mem_fail_at(0);
        assert_int_equal(rc, delivered ? OPM_ENOMEM : 0);
        for (size_t i = 0; i < LATER_SPANS; i += 1009)
            assert_args(back, i, (int64_t)i);
        store_free(back);
    }
    buf_release(&file);
}

/* The first chunk of spans, of which `at` is a byte, has a good checksum again. */
static void checksum_again(struct buf *file, size_t at)
{
    struct opm_chunk c;

    for (size_t head = OPM_HEADER_SIZE; head < file->len; head += sizeof(c) + c.size) {
        memcpy(&c, file->data + head, sizeof(c));
        if (at - head >= sizeof(c) + c.size)
            continue;
        c.crc = crc32c(file->data + head + sizeof(c), c.size);
        c.header_crc = crc32c(&c, offsetof(struct opm_chunk, header_crc));
        memcpy(file->data + head, &c, sizeof(c));
        return;
    }
    fail();
}

/* Damage that no checksum tells of is counted before anybody asks for args. */
static void test_args_damage(void **state)
{
    static const uint8_t head[] = { 4, 'a', 'r', 'g', 's', 5 }; /* name and kind of the column */
    struct store *st = later_store(), *back;
    struct buf file = write_bytes(st);
    uint8_t *column = memmem(file.data, file.len, head, sizeof(head)), *p;
    uint64_t size = 0;

    (void)state;
    assert_non_null(column);
    p = (uint8_t *)(uintptr_t)varint_get(column + sizeof(head), (uint8_t *)file.data + file.len,
                                         &size);
    assert_non_null(p);
    for (size_t at = 0; at < size; at += 1 + size / 300) {
        uint8_t was = p[at];
        int64_t bad;

        p[at] = 0xff;
        checksum_again(&file, (size_t)((char *)p - file.data) + at);
        assert_int_equal(read_bytes(file.data, file.len, &back), 0);
        bad = stat_of(back, "chunk_corrupt");
        assert_true(at ? bad <= 1 : bad == 1); /* the first byte says how it is packed */
        assert_int_equal(store_args_read(back), 0);
        assert_args(back, LATER_SPANS - 1, LATER_SPANS - 1); /* of the chunk behind it */
        store_free(back);
        p[at] = was;
        checksum_again(&file, (size_t)((char *)p - file.data) + at);
    }
    store_free(st);
    buf_release(&file);
}

/* Every prefix is refused in words, or read with all that is missing counted. */
static void test_prefixes(void **state)
{
    static const struct rig rig = { .ntrack = 3, .nop = 5, .nsite = 10, .nstep = 4, .nspan = 100 };
    struct store *st = NULL, *back;
    struct buf file;

    (void)state;
    assert_int_equal(rig_make(&st, &rig, 7), 0);
    file = write_bytes(st);
    for (size_t len = 0; len < file.len; len++) {
        char *cut = malloc(len + 1); /* its end is the end of the allocation, for sanitizers */
        int rc;

        assert_non_null(cut);
        memcpy(cut, file.data, len);
        rc = read_bytes(cut, len, &back);
        if (rc == 0) {
            /* Until the contents were read nobody can know what is missing. */
            if (len > 4096)
                assert_int_equal(
                    store_nrow(back, TABLE_span) + (size_t)stat_of(back, "spans_missing"), 100);
            if (len < file.len)
                assert_true(stat_of(back, "file_truncated") + stat_of(back, "not_closed") > 0);
        }
        store_free(back);
        free(cut);
    }
    buf_release(&file);
    store_free(st);
}

/* One byte of each chunk is wrong: the rest is read. */
static void test_damage(void **state)
{
    static const struct rig rig = {
        .ntrack = 5, .nop = 20, .nsite = 40, .nstep = 30, .nrecord = 9, .nspan = 140000
    };
    struct store *st = NULL, *back;
    struct opm_chunk c;
    struct buf file;
    size_t chunks = 0;

    (void)state;
    assert_int_equal(rig_make(&st, &rig, 3), 0);
    file = write_bytes(st);
    for (size_t at = OPM_HEADER_SIZE; at < file.len; at += sizeof(c) + c.size) {
        memcpy(&c, file.data + at, sizeof(c));
        if (c.size) {
            file.data[at + sizeof(c) + c.size / 2] ^= 0x40;
            assert_int_equal(read_bytes(file.data, file.len, &back), 0);
            assert_int_equal(stat_of(back, "chunk_corrupt"), 1);
            if (c.kind != CHUNK_CONTENTS)
                assert_int_equal(
                    store_nrow(back, TABLE_span) + (size_t)stat_of(back, "spans_missing"), 140000);
            store_free(back);
            file.data[at + sizeof(c) + c.size / 2] ^= 0x40;
        }
        chunks++;
    }
    assert_true(chunks > 10);
    buf_release(&file);
    store_free(st);
}

/* Files merged with others are sorted together. */
static void test_merge(void **state)
{
    static const struct rig rig = { .ntrack = 3, .nop = 5, .nsite = 10, .nstep = 4, .nspan = 500 };
    struct store *st = NULL, *both;
    struct buf file;
    opm_error err = { 0 };
    int64_t last = INT64_MIN;

    (void)state;
    assert_int_equal(rig_make(&st, &rig, 9), 0);
    file = write_bytes(st);
    assert_int_equal(store_new(&both), 0);
    for (int i = 0; i < 2; i++) {
        struct import_source src = { .path = "x.opm",
                                     .data = (const uint8_t *)file.data,
                                     .len = file.len,
                                     .index = i,
                                     .count = 2 };

        assert_int_equal(opm_read(both, &src, &err), 0);
    }
    assert_int_equal(store_finish(both), 0);
    for (int t = 0; t < TABLE_COUNT; t++)
        if (t != TABLE_meta && t != TABLE_import_stat)
            assert_int_equal(store_nrow(both, (enum table_id)t),
                             2 * store_nrow(st, (enum table_id)t));
    assert_int_equal(stat_of(both, "span_not_ended"), 2 * stat_of(st, "span_not_ended"));
    for (size_t i = 0; i < store_nrow(both, TABLE_span); i++) {
        int64_t ts = store_cell(both, TABLE_span, i, span_col_ts).i64;

        assert_true(ts >= last);
        last = ts;
    }
    assert_round_trip(both);
    store_free(both);
    store_free(st);
    buf_release(&file);
}

/* The file does not depend on how many threads packed it. */
static void test_threads(void **state)
{
    static const struct rig rig = {
        .ntrack = 3, .nop = 5, .nsite = 40, .nstep = 2, .nspan = 3 * COLPACK_ROWS + 77
    };
    size_t usual = opm_chunks_per_thread;
    struct store *st = NULL;
    struct buf one, several;

    (void)state;
    assert_int_equal(rig_make(&st, &rig, 12), 0);
    opm_chunks_per_thread = SIZE_MAX;
    one = write_bytes(st);
    opm_chunks_per_thread = 1;
    several = write_bytes(st);
    opm_chunks_per_thread = usual;
    assert_int_equal(one.len, several.len);
    assert_memory_equal(one.data, several.data, one.len);
    buf_release(&one);
    buf_release(&several);
    store_free(st);
}

/* Each allocation of writing and reading fails once. */
static void test_no_memory(void **state)
{
    static const struct rig rig = { .ntrack = 2, .nop = 3, .nsite = 5, .nstep = 2, .nspan = 40 };
    struct store *st = NULL, *back;
    struct buf file;
    opm_error err;
    bool delivered = true;

    (void)state;
    assert_int_equal(rig_make(&st, &rig, 11), 0);
    file = write_bytes(st);
    for (long n = 1; delivered; n = unit_next_failure(n)) {
        int rc;

        mem_fail_at(n);
        rc = export_opm(st, unit_path("f.opm"), NULL, &err);
        delivered = mem_alloc_failed();
        mem_fail_at(0);
        assert_true(rc == (delivered ? OPM_ENOMEM : 0));
    }
    delivered = true;
    for (long n = 1; delivered; n = unit_next_failure(n)) {
        struct import_source src = {
            .path = "x", .data = (const uint8_t *)file.data, .len = file.len, .count = 1
        };
        int rc;

        assert_int_equal(store_new(&back), 0);
        mem_fail_at(n);
        rc = opm_read(back, &src, &err);
        if (rc == 0)
            rc = store_finish(back);
        delivered = mem_alloc_failed();
        mem_fail_at(0);
        assert_true(rc == (delivered ? OPM_ENOMEM : 0));
        store_free(back);
    }
    buf_release(&file);
    store_free(st);
}

/* Multiples of one number are packed without it: odd and even ones, the largest, and some that are
 * no multiples after all. */
static void test_colpack_step(void **state)
{
    static const uint64_t steps[] = { 1,
                                      2,
                                      3,
                                      1000,
                                      1024,
                                      999999937,
                                      (uint64_t)1 << 62,
                                      (uint64_t)1 << 63,
                                      UINT64_MAX / 3,
                                      UINT64_MAX };
    static uint64_t v[3000], back[3000], scratch[3000 + PACK_GROUP];
    static uint8_t packed[COLPACK_MAX(3000)];

    (void)state;
    for (size_t s = 0; s < ARRAY_SIZE(steps); s++) {
        for (int odd = 0; odd < 2; odd++) {
            uint64_t most = MIN(UINT64_MAX / steps[s], 5000u), base = s % 2 ? 17 : 0;
            size_t n = ARRAY_SIZE(v);
            uint8_t *end;

            for (size_t i = 0; i < n; i++)
                v[i] = base + steps[s] * rig_random((uint32_t)most + 1);
            v[n - 1] += (uint64_t)odd;
            end = colpack_put(packed, v, NULL, n, scratch);
            assert_ptr_equal(colpack_get(packed, end, back, NULL, n), end);
            assert_memory_equal(v, back, sizeof(v));
            /* 13 bits and the exceptions' two are enough for a number up to 5000. */
            if (!odd)
                assert_true((size_t)(end - packed) < n * 2 + 64);
        }
    }
}

static void test_colpack(void **state)
{
    static uint64_t v[COLPACK_SCRATCH], back[COLPACK_ROWS], scratch[COLPACK_SCRATCH];
    static uint32_t by[COLPACK_ROWS];
    static uint8_t packed[COLPACK_MAX(COLPACK_ROWS)];

    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        for (size_t n = 1; n <= COLPACK_ROWS; n = n * 3 + 1) {
            uint8_t *end;

            for (size_t i = 0; i < n; i++) {
                by[i] = rig_random(5);
                switch (kind) {
                case 0:
                    v[i] = 77;
                    break;
                case 1:
                    v[i] = 1000 * (uint64_t)rig_random(5000);
                    break;
                case 2:
                    v[i] = i * 12345 + rig_random(100);
                    break;
                case 3:
                    v[i] = (i ? v[i - 1] : 0) * 5 % 97;
                    break;
                case 4:
                    v[i] = (uint64_t)rig_random(UINT32_MAX) << 32 | rig_random(UINT32_MAX);
                    break;
                case 5:
                    v[i] = rig_random(50) ? rig_random(4) : UINT64_MAX - rig_random(9);
                    break;
                case 6:
                    v[i] = by[i] * 100 + i % 7;
                    break;
                default:
                    v[i] = i % 2 ? UINT64_MAX : 0;
                    break;
                }
            }
            end = colpack_put(packed, v, kind & 1 ? by : NULL, n, scratch);
            assert_true(end <= packed + sizeof(packed));
            assert_ptr_equal(colpack_get(packed, end, back, kind & 1 ? by : NULL, n), end);
            assert_memory_equal(v, back, n * sizeof(*v));
            for (size_t cut = 0; cut < (size_t)(end - packed); cut += 1 + cut / 3)
                assert_null(colpack_get(packed, packed + cut, back, kind & 1 ? by : NULL, n));
            if (kind & 1 || n > 3000)
                continue;
            assert_ptr_equal(colpack_skip(packed, end, n), end);
            for (size_t at = 0; at < (size_t)(end - packed); at++) {
                uint8_t was = packed[at];

                assert_null(colpack_skip(packed, packed + at, n));
                packed[at] ^= (uint8_t)(1 + rig_random(255));
                assert_ptr_equal(colpack_skip(packed, end, n),
                                 colpack_get(packed, end, back, NULL, n));
                packed[at] = was;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),     cmocka_unit_test(test_colpack_step),
        cmocka_unit_test(test_colpack),     cmocka_unit_test(test_random),
        cmocka_unit_test(test_extremes),    cmocka_unit_test(test_forms),
        cmocka_unit_test(test_args_later),  cmocka_unit_test(test_args_no_memory),
        cmocka_unit_test(test_args_damage), cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_damage),      cmocka_unit_test(test_merge),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
