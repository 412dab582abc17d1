/* unit.h -- what every unit test includes: cmocka, and files to play with. */
#ifndef UNIT_H
#define UNIT_H

#include "base/alloc.h"

#include <fcntl.h>
#include <opmeter/opmeter_error.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h> /* needs the headers above */

/* How many times as long everything takes here: OPMETER_TEST_PATIENCE, for an emulator. */
static inline long unit_patience(void)
{
    const char *patience = getenv("OPMETER_TEST_PATIENCE");
    long times = patience ? strtol(patience, NULL, 10) : 1;

    return times > 1 ? times : 1;
}

/* Which allocation fails after the n-th: the next; of many, where they take long, some. */
static inline long unit_next_failure(long n)
{
    return n + (n < 100 ? 1 : unit_patience());
}

/* Run step with each of its allocations failing in turn, until it gets by without. It must return
 * OPM_ENOMEM when one failed and 0 when none did; that it leaks nothing is for ASan to see. */
static inline void unit_fail_each(int (*step)(void))
{
    for (long n = 1;; n = unit_next_failure(n)) {
        bool failed;
        int rc;

        mem_fail_at(n);
        rc = step();
        failed = mem_alloc_failed();
        mem_fail_at(0);
        assert_int_equal(rc, failed ? OPM_ENOMEM : 0);
        if (!failed)
            return;
        assert_true(n < 10000);
    }
}

/* A path in a folder of this process alone; until the next call but three. */
static inline const char *unit_path(const char *name)
{
    static char dir[64], path[4][512];
    static unsigned turn;
    char *out = path[turn++ % 4];

    if (!dir[0]) {
        snprintf(dir, sizeof(dir), "/tmp/opmeter-unit-XXXXXX");
        assert_non_null(mkdtemp(dir));
    }
    snprintf(out, sizeof(path[0]), "%s/%s", dir, name);
    return out;
}

/* Remove the folder of unit_path(); the group teardown of tests that use it. */
static inline int unit_cleanup(void **state)
{
    char command[600];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", unit_path(""));
    return system(command);
}

static inline void unit_write(const char *path, const void *p, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, p, len), (ssize_t)len);
    close(fd);
}

#endif
