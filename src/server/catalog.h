/* catalog.h -- the traces that a server shows: those named, and those found in folders.
 *
 * A trace has an id as long as the server runs. It is read when first asked for and stays in memory
 * until others need the room. Any thread may ask. Files outside of the folders that were named are
 * never opened, whatever links there are inside. */
#ifndef SERVER_CATALOG_H
#define SERVER_CATALOG_H

#include "base/json_write.h"
#include "server/facts.h"
#include "server/opened.h"
#include "server/trace_file.h"

#define CATALOG_ID_ROOM 20

struct catalog;

/* Each path is a file, a folder that is one profile, or a folder with traces in it. Catalogues of
 * runs are passed over (histories.h). */
int catalog_new(struct catalog **out, const char *const *paths, size_t npaths,
                const struct read_limits *limits, opm_error *err);
void catalog_end(struct catalog *c);  /* traces that are being read are given up, from now on */
void catalog_free(struct catalog *c); /* no request may run any more; NULL is fine */

/* Whether there may be several traces. */
bool catalog_is_folder(const struct catalog *c);
const struct read_limits *catalog_limits(const struct catalog *c); /* as catalog_new() was told */
bool catalog_is_cut(const struct catalog *c); /* right after catalog_new(): not all was looked at */
/* "/api/traces". Looks into the folders again. */
int catalog_list(struct catalog *c, struct json_writer *w, opm_error *err);

/* How a trace is asked for. */
enum catalog_want {
    CATALOG_AS_READ, /* as it was read before, if it was */
    CATALOG_FRESH,   /* read again if the file has changed since, or is being written */
    CATALOG_BRIEFLY, /* as CATALOG_FRESH, but what has to be read is not kept for others, and is not
                      * read to its end if that takes much: nobody has asked for it. OPM_ELIMIT then
                      */
};
/* OPM_ENOTFOUND: no such id; OPM_EIO: the file is gone or not readable. Give back *out with
 * opened_unref(). */
int catalog_open(struct catalog *c, const char *id, enum catalog_want want, struct opened **out,
                 opm_error *err);
/* Another trace, a file of this path, is shown as what follows so many bytes of it. OPM_EFORMAT: it
 * is none. The file is not removed before the catalog is freed. */
int catalog_add(struct catalog *c, const char *path, size_t shown_from, char id[CATALOG_ID_ROOM],
                opm_error *err);
/* Another one, which lies inside of a folder that is served, or of `also`, both without links.
 * OPM_ENOTFOUND: it does not, or is not there. */
int catalog_add_inside(struct catalog *c, const char *path, const char *also,
                       char id[CATALOG_ID_ROOM], opm_error *err);
/* "/api/trace/ID/progress": how much of the trace was read by whoever opens it just now. */
int catalog_progress(struct catalog *c, const char *id, struct json_writer *w, opm_error *err);
/* "/api/trace/ID": opens it, CATALOG_FRESH. */
int catalog_describe(struct catalog *c, const char *id, struct json_writer *w, opm_error *err);
/* The paths of a trace, until the catalog is freed, after the same checks as when opening it; *n of
 * them. */
int catalog_paths(struct catalog *c, const char *id, const char *out[TRACE_FILE_PATHS], size_t *n,
                  opm_error *err);

/* The id of a trace of which there are no facts yet, or older ones than its file; false: none. */
bool catalog_unknown(struct catalog *c, char id[CATALOG_ID_ROOM], uint64_t *stamp);
/* Facts about it, for the list; stamp as above. */
void catalog_learn(struct catalog *c, const char *id, uint64_t stamp, const struct facts *f);

#endif
