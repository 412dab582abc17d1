/* tempfiles.h -- how much of the disk the temporary files of SQLite may take.
 *
 * Sorts and joins that do not fit into memory go to files, and a join of everything with
 * everything would fill any disk. This is a file system for one database, in front of SQLite's own:
 * it counts what its files hold, and a write beyond the limit fails with SQLITE_FULL. The limit is
 * the one given and never more than half of what was free when the first file was opened. */
#ifndef SQL_TEMPFILES_H
#define SQL_TEMPFILES_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>
#include <sqlite3.h>

#define TEMPFILES_DEFAULT_BYTES ((int64_t)16 << 30)

struct tempfiles {
    sqlite3_vfs vfs; /* first: SQLite hands its address back */
    sqlite3_vfs *real;
    char name[40];
    int64_t max_bytes;
    int64_t room_bytes; /* max_bytes, or half of what is free */
    int64_t bytes;      /* in all files */
    bool full;          /* a write was refused; whoever asks puts it back */
    char folder[256];   /* where the files are; empty: not known */
};

/* OPMETER_MAX_TEMP, or the default. The database is opened with t->name, at an address that stays.
 * OPM_EINVAL if the variable is no size, OPM_ENOMEM. */
int tempfiles_init(struct tempfiles *t, opm_error *err);
void tempfiles_release(
    struct tempfiles *t); /* after the database is closed; a zeroed one is fine */
/* The line for a query that needed more. */
int tempfiles_fail(const struct tempfiles *t, opm_error *err);

#endif
