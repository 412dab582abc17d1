/* test_totals.c -- totals of a range against every span looked at by itself. */
#include "base/alloc.h"
#include "base/error.h"
#include "store/totals.h"
#include "store_unit.h"

static const char *const names[] = { "a", "b", "c", "d" };

static void add(struct store *st, uint32_t track, uint32_t name, int64_t ts, int64_t dur)
{
    struct span_row row = SPAN_ROW_INIT;
    struct site site = { .op = NONE };

    row.ts_ns = ts;
    row.dur_ns = dur;
    row.track = track;
    assert_int_equal(store_cstr(st, names[name], &site.name), 0);
    assert_int_equal(store_site(st, &site, &row.site), 0);
    assert_int_equal(store_add_span(st, &row, &(uint32_t){ 0 }), 0);
}

/* Nested spans on one track, overlapping ones on another, one around all, one that never ends. */
static struct store *random_store(uint32_t n, int64_t *length)
{
    struct store *st = make(3, 2, 0);
    int64_t now = 10;

    for (uint32_t i = 0; i < n; i++) {
        int64_t dur = 3 + (int64_t)rng(200);

        add(st, 0, rng(4), now, dur);
        add(st, 0, rng(4), now + 1, dur / 2);
        if (rng(3) == 0)
            add(st, 1, rng(4), now, (int64_t)rng(3000));
        now += dur + (int64_t)rng(50);
    }
    add(st, 0, 3, 0, now);
    add(st, 2, 2, now / 2, -1);
    assert_int_equal(store_finish(st), 0);
    *length = now;
    return st;
}

/* How much of a span lies in the range; -1: it does not touch it. */
static int64_t part(const struct store *st, size_t row, int64_t from, int64_t to)
{
    int64_t ts = cell(st, row, span_col_ts), dur = cell(st, row, span_col_dur);
    int64_t end = dur < 0 ? to : ts + dur;

    if (ts >= to || (ts < from && end <= from))
        return -1;
    return MIN(end, to) - MAX(ts, from);
}

static void check(const struct store *st, const struct totals *t, int64_t from, int64_t to)
{
    int64_t count[4] = { 0 }, total[4] = { 0 }, self[4] = { 0 };
    struct total *got;
    size_t n, some = 0;

    for (size_t i = 0; i < store_nrow(st, TABLE_span); i++) {
        struct cell up = store_cell(st, TABLE_span, i, span_col_parent);
        int64_t ns = part(st, i, from, to);
        int name = store_text(st, store_cell(st, TABLE_span, i, span_col_name).str)[0] - 'a';

        if (ns < 0)
            continue;
        count[name]++;
        total[name] += ns;
        self[name] += ns;
        if (up.kind != CELL_NULL)
            self[store_text(st, store_cell(st, TABLE_span, (size_t)up.i64, span_col_name).str)[0] -
                 'a'] -= ns;
    }
    assert_int_equal(totals_query(t, from, to, &got, &n), 0);
    for (size_t i = 0; i < n; i++) {
        int name = store_text(st, got[i].name)[0] - 'a';

        assert_int_equal(got[i].count, count[name]);
        assert_int_equal(got[i].total_ns, total[name]);
        assert_int_equal(got[i].self_ns, self[name]);
        if (i)
            assert_true(got[i].self_ns <= got[i - 1].self_ns);
    }
    for (int k = 0; k < 4; k++)
        some += count[k] > 0;
    assert_int_equal(n, some);
    mem_free(got);
}

static void against_all_spans(void **state)
{
    (void)state;
    rng_state = 31337;
    for (int round = 0; round < 6; round++) {
        int64_t length;
        struct store *st = random_store(round < 3 ? 20 : 20000, &length);
        struct totals *t;

        assert_int_equal(totals_new(st, &t), 0);
        check(st, t, 0, length + 1);
        check(st, t, -1000, 5 * length);
        check(st, t, length + 10, length + 20);
        for (int i = 0; i < 20; i++) {
            int64_t from = (int64_t)rng((uint32_t)length);

            check(st, t, from, from + 1 + (int64_t)rng((uint32_t)length));
        }
        totals_free(t);
        store_free(st);
    }
}

static void nothing(void **state)
{
    struct store *st = make(1, 0, 0);
    struct total *got;
    struct totals *t;
    size_t n;

    (void)state;
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(totals_new(st, &t), 0);
    assert_int_equal(totals_query(t, 0, 100, &got, &n), 0);
    assert_int_equal(n, 0);
    mem_free(got);
    totals_free(t);
    store_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_all_spans),
        cmocka_unit_test(nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
