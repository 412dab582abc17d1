/* fleet.h -- databases of the ranks of jobs that a server shows: files that `opmeter add --job`
 * wrote, and ClickHouse.
 *
 * Any thread may ask; each request opens the database anew, so that what is added meanwhile is
 * seen. */
#ifndef SERVER_FLEET_H
#define SERVER_FLEET_H

#include "base/json_write.h"
#include "server/catalog.h"

struct fleets;

bool fleet_is_url(const char *path); /* of a database: no file */
/* Of the paths that a server was given, those that are such databases. OPM_EIO and others if one
 * can't be read. */
int fleets_new(struct fleets **out, const char *const *paths, size_t npaths, opm_error *err);
void fleets_free(struct fleets *f);          /* NULL is fine */
size_t fleets_count(const struct fleets *f); /* with jobs in them, as far as that is seen at once */

/* "/api/fleets": each with its id and name. */
void fleets_list(const struct fleets *f, struct json_writer *w);
/* "/api/fleet/ID/jobs", as rows. */
int fleet_jobs(const struct fleets *f, const char *id, struct json_writer *w, opm_error *err);
/* "/api/fleet/ID/job/JOB/QUESTION", as rows: a question of catalog/questions.def. job NULL: of all.
 * Where a heat map has more fields than can be drawn, steps are put together. */
int fleet_ask(const struct fleets *f, const char *id, const char *job, const char *question,
              struct json_writer *w, opm_error *err);
/* "/api/fleet/ID/job/JOB/rank/N": the trace of a rank becomes one of the server's, {"id": ...}. It
 * must lie below the folder of the database, or below one that the server was given. */
int fleet_open_rank(const struct fleets *f, struct catalog *c, const char *id, const char *job,
                    int64_t rank, struct json_writer *w, opm_error *err);

#endif
