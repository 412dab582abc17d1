/* test_repair.c -- damage that a reader has to work on, in files of a size at which work that grows
 * with the square of it would not end before the test does. */
#include "import/import.h"
#include "unit.h"

#include <string.h>
#include <unistd.h>

#define BYTES 1500000

static const struct damage {
    const char *name;
    const char *format; /* the importer */
    const char *head, *piece, *tail;
} damages[] = {
#define X(name, format, head, piece, tail) { name, format, head, piece, tail },
#include "../../bench/repair.def"
#undef X
};

static void write_file(const char *path, const struct damage *d)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    fputs(d->head, f);
    for (size_t n = strlen(d->head); n < BYTES; n += strlen(d->piece))
        fputs(d->piece, f);
    fputs(d->tail, f);
    assert_int_equal(fclose(f), 0);
}

static void test_read(void **state)
{
    char path[] = "repair-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
        struct import_options opts = { .format = damages[i].format };
        const char *paths[] = { path };
        struct store *st;
        opm_error err;
        int rc;

        write_file(path, &damages[i]);
        assert_int_equal(store_new(&st), 0);
        rc = import_all(st, paths, 1, &opts, &err);
        if (rc == 0)
            assert_int_equal(store_finish(st), 0);
        else if (rc != OPM_EFORMAT && rc != OPM_ELIMIT)
            fail_msg("%s, %s: %s", damages[i].format, damages[i].name, err.msg);
        store_free(st);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
