/* recordings.h -- which recordings of a rank count.
 *
 * A rank may have recorded the same steps twice: the job was begun anew under its name, or a
 * recording was added before it was complete. Together they would double every sum, and have ranks
 * wait for each other across the two. So of recordings of a rank whose steps overlap the one that
 * began last counts, and of those that began at once the one with the most spans: also where not
 * both have steps. */
#ifndef CATALOG_RECORDINGS_H
#define CATALOG_RECORDINGS_H

#include "catalog/fleetdb.h"

/* `struct left_out l = { 0 }` is empty. */
struct left_out {
    char *job;      /* that the rest is of; NULL: of none */
    struct buf sql; /* " AND batch NOT IN (1, 2)" to stand behind "job = '...'", or empty */
    int64_t *rank;  /* of each recording that does not count, in order */
    size_t n, cap;
};

/* Worked out once for a handle and job; *out belongs to the handle. */
int left_out_get(struct fleetdb *db, const char *job, const struct left_out **out, opm_error *err);
size_t left_out_of(const struct left_out *l, int64_t rank); /* recordings of a rank */
void left_out_release(struct left_out *l);

#endif
