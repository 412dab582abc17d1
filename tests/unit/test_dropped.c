/* test_dropped.c -- limits of what is dropped, and that nothing of it stays. */
#include "server/dropped.h"
#include "unit.h"

#include <dirent.h>

static const struct dropped_limits few = { .file = 100, .all = 150, .at_once = 2, .of_free = 1 };

/* Entries of the folder for temporary files, or of one below it. */
static int entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    assert_non_null(dir);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir))
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static struct dropped *start(void)
{
    struct dropped *d;

    assert_int_equal(dropped_new(&d, &few, NULL), 0);
    return d;
}

static const char *bring(struct dropped *d, const char *name, const void *data, size_t len)
{
    const char *path;
    struct drop *f;
    size_t from;

    assert_int_equal(drop_begin(d, name, len, &f, NULL), 0);
    assert_int_equal(drop_write(f, data, len, NULL), 0);
    assert_int_equal(drop_end(f, &path, &from, NULL), 0);
    return path + from;
}

static void test_kept(void **state)
{
    struct dropped *d = start();
    const char *path;
    struct drop *f;
    char text[8];
    size_t from;
    int fd;

    (void)state;
    assert_string_equal(bring(d, "a.json", "hello", 5), "a.json");
    assert_int_equal(drop_begin(d, "a.json", DROP_LENGTH_UNKNOWN, &f, NULL), 0);
    assert_int_equal(drop_write(f, "he", 2, NULL), 0);
    assert_int_equal(drop_write(f, "y", 1, NULL), 0);
    assert_int_equal(drop_end(f, &path, &from, NULL), 0);
    fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, text, sizeof(text)), 3);
    assert_memory_equal(text, "hey", 3);
    close(fd);
    dropped_remove(d, path);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(entries(unit_path("")), 1);
    dropped_free(d);
    assert_int_equal(entries(unit_path("")), 0);
}

static void test_limits(void **state)
{
    static const char zeros[200];
    struct dropped *d = start();
    struct drop *f, *g, *h;
    opm_error err;

    (void)state;
    assert_int_equal(drop_begin(d, "a", 101, &f, &err), OPM_ELIMIT);
    assert_int_equal(drop_begin(d, "a", UINT64_MAX - 1, &f, &err), OPM_ELIMIT);
    assert_int_equal(drop_begin(d, "a", 100, &f, &err), 0);
    assert_int_equal(drop_write(f, zeros, 100, &err), 0);
    assert_int_equal(drop_write(f, zeros, 1, &err), OPM_ELIMIT); /* more than was said */
    assert_int_equal(drop_begin(d, "b", 51, &g, &err), OPM_ELIMIT);
    assert_int_equal(drop_begin(d, "b", DROP_LENGTH_UNKNOWN, &g, &err), 0);
    assert_int_equal(drop_write(g, zeros, 50, &err), 0);
    assert_int_equal(drop_write(g, zeros, 1, &err), OPM_ELIMIT);
    assert_int_equal(drop_begin(d, "c", 0, &h, &err), OPM_EBUSY);
    drop_give_up(f);
    assert_int_equal(drop_write(g, zeros, 50, &err), 0); /* there is room again */
    drop_give_up(g);
    drop_give_up(NULL);
    bring(d, "c", zeros, 100);
    assert_int_equal(drop_begin(d, "d", 51, &f, &err), OPM_ELIMIT);
    dropped_free(d);
    assert_int_equal(entries(unit_path("")), 0);
}

static void test_names(void **state)
{
    static const struct {
        const char *given, *kept;
    } cases[] = {
        { "a.json", "a.json" },
        { "../a", "_._a" },
        { ".a", "_a" },
        { "", "trace" },
        { "a\nb\x7f", "a_b_" },
        { "c:\\a", "c:_a" },
        { "\xd0\xbc", "\xd0\xbc" },
    };
    struct dropped *d = start();
    char name[400];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_string_equal(bring(d, cases[i].given, "", 0), cases[i].kept);
    memset(name, 'x', sizeof(name));
    memcpy(name + sizeof(name) - 6, ".json", 6);
    assert_string_equal(bring(d, name, "", 0), name + sizeof(name) - 1 - 120);
    dropped_free(d);
    assert_int_equal(entries(unit_path("")), 0);
}

static void test_nowhere(void **state)
{
    struct dropped *d = start();
    struct drop *f;
    opm_error err;

    (void)state;
    setenv("TMPDIR", unit_path("none"), 1);
    assert_int_equal(drop_begin(d, "a", 1, &f, &err), OPM_EIO);
    assert_non_null(strstr(err.msg, "none"));
    setenv("TMPDIR", unit_path(""), 1);
    assert_int_equal(drop_begin(d, "a", 1, &f, &err), 0);
    drop_give_up(f);
    dropped_free(d);
    assert_int_equal(entries(unit_path("")), 0);
}

static int bring_one(void)
{
    struct dropped *d;
    const char *path;
    struct drop *f;
    size_t from;
    int rc = dropped_new(&d, &few, NULL);

    if (rc < 0)
        return rc;
    rc = drop_begin(d, "a", 1, &f, NULL);
    if (rc == 0)
        rc = drop_end(f, &path, &from, NULL);
    dropped_free(d);
    return rc;
}

static void test_memory(void **state)
{
    (void)state;
    unit_fail_each(bring_one);
    assert_int_equal(entries(unit_path("")), 0);
}

static int set_up(void **state)
{
    (void)state;
    return setenv("TMPDIR", unit_path(""), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),    cmocka_unit_test(test_limits), cmocka_unit_test(test_names),
        cmocka_unit_test(test_nowhere), cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, set_up, unit_cleanup);
}
