/* test_dbfile.c -- database files while another process makes or changes them. */
#include "unit.h"

#include "catalog/kind.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#define OPENED 1500

static const char *path;
static atomic_bool enough;

/* Tables come and go, each time in one transaction. */
static void *make_and_unmake(void *unused)
{
    sqlite3 *db;
    int rc = sqlite3_open(path, &db);

    (void)unused;
    sqlite3_busy_timeout(db, 10000);
    while (rc == SQLITE_OK && !enough) {
        char made[128];

        snprintf(made, sizeof(made),
                 "BEGIN IMMEDIATE; CREATE TABLE t (x); PRAGMA user_version = %d;"
                 "PRAGMA application_id = %u; COMMIT",
                 catalog_kind.version, (unsigned)catalog_kind.mark);
        rc = sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            rc = sqlite3_exec(db, made, NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            rc = sqlite3_exec(db,
                              "BEGIN IMMEDIATE; DROP TABLE t; PRAGMA user_version = 0;"
                              "PRAGMA application_id = 0; COMMIT",
                              NULL, NULL, NULL);
    }
    sqlite3_close(db);
    return rc == SQLITE_OK ? NULL : db;
}

static void test_whole_or_empty(void **state)
{
    pthread_t other;
    void *failed;
    int made = 0, empty = 0;

    (void)state;
    path = unit_path("x.db");
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(pthread_create(&other, NULL, make_and_unmake, NULL), 0);
    for (int i = 0; i < OPENED; i++) {
        struct dbfile *db;
        opm_error err = { 0 };

        if (dbfile_open(&db, path, &catalog_kind, DBFILE_READ, &err) == 0) {
            dbfile_close(db);
            made++;
        } else if (strstr(err.msg, " is empty")) {
            empty++;
        } else {
            assert_string_equal(err.msg, "");
        }
    }
    enough = true;
    assert_int_equal(pthread_join(other, &failed), 0);
    assert_null(failed);
    assert_int_equal(made + empty, OPENED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_or_empty),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
