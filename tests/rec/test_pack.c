/* test_pack.c -- what rec/pack.c makes of any units, import/opm/opm_unpack.c turns back into them.
 */
#include "rig.h"

#include "import/opm/opm_int.h"
#include "rec/rec.h"

static struct opm_unit units[OPM_BLOCK_UNITS];
static uint8_t packed[PACK_MAX_BYTES];
static uint64_t start[OPM_BLOCK_UNITS], dur[OPM_BLOCK_UNITS];
static uint32_t id[OPM_BLOCK_UNITS];

/* Numbers of every length, and those at the edges. */
static uint64_t any_number(uint64_t *seed)
{
    uint64_t v =
        (uint64_t)rig_random(seed) << 42 ^ (uint64_t)rig_random(seed) << 21 ^ rig_random(seed);

    switch (rig_random(seed) % 8) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    case 2:
        return (uint64_t)INT64_MAX + rig_random(seed) % 3 - 1;
    case 3:
        return 1ull << rig_random(seed) % 64;
    default:
        return v >> rig_random(seed) % 64;
    }
}

/* ---- the check ---- */

/* The span at u comes next among the packed ones, or among the others, written at length. */
static bool is_next(const struct opm_unit *u, size_t nspan, size_t *span, struct rd *others,
                    uint64_t *ticks, size_t *nother)
{
    struct opm_unit other[3];
    struct rd peek = *others;
    uint64_t peek_ticks = *ticks;

    if (*span < nspan && start[*span] == u->ticks && dur[*span] == unit_value(u) &&
        id[*span] == unit_id(u)) {
        (*span)++;
        return true;
    }
    if (!*nother || !unpack_other(&peek, other, &peek_ticks) ||
        unit_kind(other) != UNIT_LONG_SPAN || unit_id(other) != unit_id(u) ||
        other[0].ticks != u->ticks || other[1].ticks != unit_value(u))
        return false;
    *others = peek;
    *ticks = peek_ticks;
    (*nother)--;
    return true;
}

static void check(struct packer *p, size_t n, const char *what)
{
    uint64_t spans = 0, expected = 0, ticks, last;
    size_t size = opm__pack(p, units, n, packed, &spans), span = 0, nother;
    struct rd r = rd_of(packed, size), others;
    struct unpacked_head h;
    struct opm_unit u[3];

    assert_true(size <= PACK_MAX_BYTES);
    if (!unpack_head(&r, &h))
        fail_msg("%s: the head cannot be read", what);
    others = r;
    ticks = last = h.base;
    for (size_t i = 0; i < h.nother; i++)
        assert_true(unpack_other(&r, u, &last));
    assert_true(h.nspan <= ARRAY_SIZE(start));
    assert_true(unpack_spans(&r, &h, start, dur, id));
    assert_int_equal(rd_left(&r), 0);
    nother = h.nother;
    for (size_t i = 0; i < n;) {
        unsigned kind = unit_kind(&units[i]), count = unit_count(kind);

        expected += kind == UNIT_SPAN || kind == UNIT_LONG_SPAN || kind == UNIT_DEVICE_SPAN;
        if (kind == UNIT_SPAN) {
            if (!is_next(&units[i], h.nspan, &span, &others, &ticks, &nother))
                fail_msg("%s: span at %zu of %zu is lost", what, i, n);
        } else {
            assert_true(nother-- > 0);
            assert_true(unpack_other(&others, u, &ticks));
            if (memcmp(u, &units[i], count * sizeof(*u)) != 0)
                fail_msg("%s: event %u at %zu is not what it was", what, kind, i);
        }
        i += count;
    }
    assert_int_equal(span, h.nspan);
    assert_int_equal(nother, 0);
    assert_int_equal(spans, expected);
}

/* ---- inputs ---- */

static size_t anything(uint64_t *seed, size_t max)
{
    size_t n = 0;

    for (;;) {
        unsigned kind = 1 + rig_random(seed) % UNIT_INT_COUNTER, count = unit_count(kind);

        if (!count || n + count > max)
            return n;
        for (unsigned i = 0; i < count; i++) {
            units[n + i].ticks = any_number(seed);
            units[n + i].word = any_number(seed);
        }
        units[n].word = unit_word((enum opm_unit_kind)kind, any_number(seed) & 0xffffff,
                                  any_number(seed) & UNIT_VALUE_MAX);
        n += count;
    }
}

/* Nested spans on a clock that counts in steps, as a recorder sees them; now and then the clock
 * goes back, or something else happens. */
static size_t realistic(uint64_t *seed, size_t n, uint64_t step, uint32_t nid, bool others)
{
    uint64_t now = 1000000 * step, back = 0;
    size_t i = 0;

    while (i < n) {
        uint64_t length = rig_random(seed) % 1000 * step;
        bool around = i && rig_random(seed) % 4 == 0;

        if (others && rig_random(seed) % 50 == 0 && i + 2 <= n) {
            units[i++] = (struct opm_unit){ now, unit_word(UNIT_COUNTER, 3, 0) };
            units[i++] = (struct opm_unit){ any_number(seed), 0 };
            continue;
        }
        if (others && rig_random(seed) % 100 == 0) {
            back = rig_random(seed) % 100000 * step;
            now -= MIN(now, back);
        }
        units[i++] =
            around ? (struct opm_unit){ now - MIN(now, length),
                                        unit_word(UNIT_SPAN, 1 + rig_random(seed) % nid,
                                                  MIN(now, length)) }
                   : (struct opm_unit){ now,
                                        unit_word(UNIT_SPAN, 1 + rig_random(seed) % nid, length) };
        now += (around ? 0 : length) + rig_random(seed) % 30 * step;
    }
    return i;
}

static void random_units(void **state)
{
    struct packer *p = opm__packer_new();
    int rounds = rig_rounds(500, 50000);
    uint64_t seed = 7;

    (void)state;
    for (int i = 0; i < rounds; i++) {
        size_t max = i < 10 ? (size_t)i : 1 + rig_random(&seed) % OPM_BLOCK_UNITS;

        check(p, anything(&seed, max), "anything");
    }
    opm__packer_free(p);
}

static void recorded_units(void **state)
{
    static const size_t sizes[] = { 1, 2, 127, 128, 129, 255, 256, 257, OPM_BLOCK_UNITS };
    static const uint64_t steps[] = { 1, 2, 10, 26, 64, 1000, 4096, 1000003 };
    struct packer *p = opm__packer_new(); /* one for all: it learns from block to block */
    uint64_t seed = 8;
    int rounds = rig_rounds(2, 200);

    (void)state;
    for (int round = 0; round < rounds; round++)
        for (size_t s = 0; s < ARRAY_SIZE(steps); s++)
            for (size_t k = 0; k < ARRAY_SIZE(sizes); k++)
                for (int others = 0; others < 2; others++) {
                    check(p, realistic(&seed, sizes[k], steps[s], 1, others), "one name");
                    check(p, realistic(&seed, sizes[k], steps[s], 5, others), "few names");
                    check(p, realistic(&seed, sizes[k], steps[s], OPM_ID_MAX - 1, others),
                          "many names");
                }
    opm__packer_free(p);
}

static struct opm_unit span_unit(uint64_t ticks, uint32_t site, uint64_t length)
{
    return (struct opm_unit){ ticks, unit_word(UNIT_SPAN, site, length) };
}

static void extreme_spans(void **state)
{
    static const uint64_t times[] = {
        0,
        1,
        UNIT_VALUE_MAX,
        INT64_MAX / 2 - 1,
        INT64_MAX / 2,
        INT64_MAX,
        INT64_MIN,
        UINT64_MAX - 1,
        UINT64_MAX,
        (uint64_t)INT64_MAX + 2,
        1ull << 62,
        3ull << 62,
        (1ull << 36) - 1,
        UINT64_MAX - UNIT_VALUE_MAX,
    };
    static const uint64_t lengths[] = { 0, 1, 2, UNIT_VALUE_MAX - 1, UNIT_VALUE_MAX };
    struct packer *p = opm__packer_new();

    (void)state;
    check(p, 0, "nothing");
    for (size_t a = 0; a < ARRAY_SIZE(times); a++)
        for (size_t b = 0; b < ARRAY_SIZE(times); b++)
            for (size_t c = 0; c < ARRAY_SIZE(times); c++)
                for (size_t k = 0; k < ARRAY_SIZE(lengths); k++) {
                    units[0] = span_unit(times[a], 1, lengths[k]);
                    units[1] =
                        span_unit(times[b], OPM_ID_MAX, lengths[(k + 1) % ARRAY_SIZE(lengths)]);
                    units[2] =
                        span_unit(times[c], 0xffffff, lengths[(k + 3) % ARRAY_SIZE(lengths)]);
                    check(p, 3, "extreme spans");
                }
    opm__packer_free(p);
}

/* Every width of a column, in all positions of a group. */
static void every_width(void **state)
{
    struct packer *p = opm__packer_new();

    (void)state;
    for (unsigned w = 0; w <= UNIT_VALUE_BITS; w++)
        for (size_t odd = 0; odd < 3; odd++) {
            size_t n = 128 * 2 + odd * 63;
            uint64_t now = 1;

            for (size_t i = 0; i < n; i++) {
                uint64_t length = ((1ull << w) - 1) & (i % 5 == odd ? UINT64_MAX : 0x15);

                units[i] = span_unit(now, 1 + (uint32_t)i % 3, length);
                now += length + (i % 7 == 0 ? (1ull << w) : 1);
            }
            check(p, n, "every width");
        }
    opm__packer_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_units),
        cmocka_unit_test(recorded_units),
        cmocka_unit_test(extreme_spans),
        cmocka_unit_test(every_width),
    };

    return rig_group(tests);
}
