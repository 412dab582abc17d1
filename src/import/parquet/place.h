/* place.h -- where tables lie: a folder for each, in it folders KEY=VALUE (job=17/rank=3), in the
 * last of them files of rows; or a file for each, TABLE.parquet.
 *
 * What lies in folders of the same keys and values below all tables belongs together; it is named
 * by one of these folders, the one of spans if it is there. */
#ifndef IMPORT_PARQUET_PLACE_H
#define IMPORT_PARQUET_PLACE_H

#include "base/buf.h"
#include "store/store.h"

struct place {
    char *root;   /* memory of its own */
    char *suffix; /* "/job=17/rank=3", or "" */
};

bool place_is(const char *path); /* of tables as Parquet; or a part of it */
/* Call each with the folders that stand for what belongs together in or below path, ordered by
 * their names. OPM_EFORMAT if they are of several jobs. */
int place_parts(const char *path, int (*each)(void *ctx, const char *part), void *ctx,
                opm_error *err);
/* Taken apart; release it in any case. False: out of memory. */
bool place_of(const char *part, struct place *out);
void place_release(struct place *p);
/* Decoded value of a key of the suffix ("rank"); false: it has none, or it is NULL. */
bool place_value(const struct place *p, const char *key, struct buf *out);
/* Files of a table, ordered by their names; the paths are memory of their own, *out, too. 0 or
 * OPM_ENOMEM. */
int place_files(const struct place *p, enum table_id table, char ***out, size_t *n);
/* The table that a path of a file names by its own name or by the folder that it lies in; -1: none.
 */
int place_table(const char *path);

#endif
