/* dropped.h -- copies of the files that are dropped on the page, until the server ends.
 *
 * They lie in a folder of their own among the temporary files (TMPDIR), for their owner alone,
 * which is made for the first and removed with the last. The name that a client gives a file is its
 * name there, without what would make it more than a name. Any thread may ask; one drop belongs to
 * one thread at a time. */
#ifndef SERVER_DROPPED_H
#define SERVER_DROPPED_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

struct dropped;
struct drop;

struct dropped_limits {
    uint64_t file;    /* bytes of one */
    uint64_t all;     /* of all together */
    size_t at_once;   /* that are coming in */
    unsigned of_free; /* so many times what is coming in must be free on the disk */
};
extern const struct dropped_limits dropped_default;

/* limits must outlive it. */
int dropped_new(struct dropped **out, const struct dropped_limits *limits, opm_error *err);
void dropped_free(struct dropped *d); /* removes the files; no drop may be open; NULL is fine */

/* A file begins to come in, of so many bytes as far as is known. OPM_ELIMIT: it is too large, or
 * they are together; OPM_EBUSY: too many at once; OPM_EIO: it cannot be written. */
#define DROP_LENGTH_UNKNOWN UINT64_MAX
int drop_begin(struct dropped *d, const char *name, uint64_t length, struct drop **out,
               opm_error *err);
/* The next bytes of it; likewise. */
int drop_write(struct drop *f, const void *data, size_t len, opm_error *err);
/* All is there: gives the drop up, and keeps the file. *path lives as long as d, *shown_from is
 * where in it the name begins. After a failure the file is gone. */
int drop_end(struct drop *f, const char **path, size_t *shown_from, opm_error *err);
void drop_give_up(struct drop *f); /* the file is removed; NULL is fine */
/* A file that drop_end() kept is not wanted after all. */
void dropped_remove(struct dropped *d, const char *path);

#endif
