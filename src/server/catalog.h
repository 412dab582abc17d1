/* catalog.h -- the traces that a server shows: those named, and those found in folders.
 *
 * A trace has an id as long as the server runs. It is read when first asked for and stays in memory
 * until others need the room. Any thread may ask. Files outside of the folders that were named are
 * never opened, whatever links there are inside. */
#ifndef SERVER_CATALOG_H
#define SERVER_CATALOG_H

#include "base/json_write.h"
#include "server/opened.h"

struct catalog;

/* Each path is a file, a folder that is one profile, or a folder with traces in it. */
int catalog_new(struct catalog **out, const char *const *paths, size_t npaths, opm_error *err);
void catalog_free(struct catalog *c); /* no request may run any more; NULL is fine */

/* Whether there may be several traces. */
bool catalog_is_folder(const struct catalog *c);
/* "/api/traces". Looks into the folders again. */
int catalog_list(struct catalog *c, struct json_writer *w, opm_error *err);

/* How a trace is asked for. */
enum catalog_want {
    CATALOG_AS_READ, /* as it was read before, if it was */
    CATALOG_FRESH,   /* read again if the file has changed since, or is being written */
};
/* OPM_ENOTFOUND: no such id; OPM_EIO: the file is gone or not readable. Give back *out with
 * opened_unref(). */
int catalog_open(struct catalog *c, const char *id, enum catalog_want want, struct opened **out,
                 opm_error *err);
/* "/api/trace/ID": opens it, CATALOG_FRESH. */
int catalog_describe(struct catalog *c, const char *id, struct json_writer *w, opm_error *err);
/* The path of a trace, until the catalog is freed, after the same checks as when opening it. */
int catalog_path(struct catalog *c, const char *id, const char **out, opm_error *err);

#endif
