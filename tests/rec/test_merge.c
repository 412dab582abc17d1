/* test_merge.c -- recordings of several machines in one trace. Another machine is made up: its boot
 * and its wall clock are written over ours. */
#include "rig.h"

#include "format/crc32c.h"
#include "format/format.h"
#include <fcntl.h>

static struct opm_file_header header_of(const char *path)
{
    struct opm_file_header h;
    int fd = open(path, O_RDONLY);

    assert_int_equal(read(fd, &h, sizeof(h)), sizeof(h));
    close(fd);
    return h;
}

/* As if path had been recorded since another boot, by a wall clock that is ahead. */
static void move_to_other_machine(const char *path, int64_t ahead_ns)
{
    struct opm_file_header h = header_of(path);
    int fd = open(path, O_RDWR);

    h.boot[0] ^= 0xff;
    h.start.realtime_ns += ahead_ns;
    h.crc = crc32c(&h, offsetof(struct opm_file_header, crc));
    assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
    close(fd);
}

static void record(const char *path, const char *name)
{
    rig_start(path);
    usleep(5000);
    opm_end(opm_begin_named(OPM_APP, NULL, name, strlen(name)));
    usleep(5000);
    rig_stop();
}

/* Those of one machine stay together to the tick, whatever its wall clock did in between. */
static void two_machines(void **state)
{
    const char *paths[] = { rig_path("here.opm"), rig_path("there.opm"), rig_path("there2.opm") };
    int64_t apart_ns;
    opm_trace *t = NULL;

    (void)state;
    record(paths[0], "here");
    record(paths[1], "there");
    record(paths[2], "there again");
    move_to_other_machine(paths[1], 1000000000);
    move_to_other_machine(paths[2], 8000000000); /* somebody set it */
    apart_ns = header_of(paths[2]).start.monotonic_ns - header_of(paths[1]).start.monotonic_ns;
    assert_int_equal(opm_trace_open(&t, paths, 3, NULL, NULL), 0);
    rig_expect(t, "SELECT aligned IN ('cycle counter', 'monotonic clock') FROM source WHERE id = 2",
               "1\n");
    rig_expect(t, "SELECT aligned FROM source WHERE id < 2", "NULL\nwall clock\n");
    assert_true(llabs(rig_int(t, "SELECT (SELECT offset FROM source WHERE id = 2) - offset FROM "
                                 "source WHERE id = 1") -
                      apart_ns) < 2000);
    assert_true(rig_int(t, "SELECT (SELECT ts FROM span WHERE name = 'there') - ts FROM span WHERE "
                           "name = 'here'") > 1000000000);
    assert_in_range(rig_int(t, "SELECT (SELECT ts FROM span WHERE name = 'there again') - ts FROM "
                               "span WHERE name = 'there'"),
                    10000000, 2000000000);
    opm_trace_close(t);
}

/* One after the other, in any order of reading: what happened between two spans is the same. */
static void order_does_not_matter(void **state)
{
    const char *paths[] = { rig_path("1.opm"), rig_path("2.opm"), rig_path("3.opm") };
    static const int orders[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 2, 0 } };
    int64_t first = 0;

    (void)state;
    record(paths[0], "one");
    record(paths[1], "two");
    record(paths[2], "three");
    for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
        const char *in_order[] = { paths[orders[i][0]], paths[orders[i][1]], paths[orders[i][2]] };
        opm_trace *t = NULL;
        int64_t gap;

        assert_int_equal(opm_trace_open(&t, in_order, 3, NULL, NULL), 0);
        rig_expect(t, "SELECT name FROM span ORDER BY ts", "one\ntwo\nthree\n");
        gap = rig_int(t, "SELECT max(ts) - min(ts) FROM span");
        if (i == 0)
            first = gap;
        assert_true(llabs(gap - first) < 2000);
        opm_trace_close(t);
    }
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = { { NULL, NULL } };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_machines),
        cmocka_unit_test(order_does_not_matter),
    };
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
