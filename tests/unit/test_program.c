/* test_program.c -- programs that are not there, before they are started and afterwards. */
#include "launch/program.h"

#include "unit.h"

#include <errno.h>
#include <sys/stat.h>

static void test_missing(void **state)
{
    const char *path = unit_path("tool");
    char folder[512], *before = strdup(getenv("PATH"));

    (void)state;
    snprintf(folder, sizeof(folder), "/none::%s", unit_path(""));
    assert_int_equal(program_missing("/bin/sh"), 0);
    assert_int_equal(program_missing("sh"), 0);
    assert_int_equal(program_missing(path), ENOENT);
    assert_int_equal(program_missing("/none/tool"), ENOENT);
    setenv("PATH", folder, 1);
    assert_int_equal(program_missing("tool"), ENOENT);
    unit_write(path, "", 0);
    assert_int_equal(program_missing(path), EACCES);
    assert_int_equal(program_missing("tool"), EACCES);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(program_missing(path), 0);
    assert_int_equal(program_missing("tool"), 0);
    assert_int_equal(program_missing(unit_path("")), EACCES); /* a folder */
    setenv("PATH", before, 1);
    free(before);
}

/* What ends as the fork of posix_spawn() does has never begun, if it was not there. */
static void test_not_started(void **state)
{
    const int exit_127 = 127 << 8, exit_126 = 126 << 8, killed = 9;

    (void)state;
    assert_int_equal(program_not_started(ENOENT, exit_127), ENOENT);
    assert_int_equal(program_not_started(EACCES, exit_127), EACCES);
    assert_int_equal(program_not_started(0, exit_127), 0); /* a shell that found no command */
    assert_int_equal(program_not_started(ENOENT, exit_126), 0);
    assert_int_equal(program_not_started(ENOENT, 0), 0);
    assert_int_equal(program_not_started(ENOENT, killed), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_not_started),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
