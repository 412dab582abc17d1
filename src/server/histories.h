/* histories.h -- the catalogues of runs that a server shows: those named, and those at the top of
 * folders that are served; docs/http.md.
 *
 * A catalogue may have been written by anybody, so the traces that it names are opened only where
 * they lie in a folder that is served, or beside a catalogue that was named. Any thread may ask. */
#ifndef SERVER_HISTORIES_H
#define SERVER_HISTORIES_H

#include "server/catalog.h"

struct histories;

/* Paths that are no catalogues are passed over. The catalogue of traces outlives what this gives.
 */
int histories_new(struct histories **out, const char *const *paths, size_t npaths,
                  struct catalog *traces, opm_error *err);
void histories_free(struct histories *h); /* after the traces; NULL is fine */

bool histories_any(struct histories *h);
/* "/api/histories" */
int histories_list(struct histories *h, struct json_writer *w, opm_error *err);
/* Which of the runs: NULL: all. label: "KEY=VALUE". */
struct histories_asked {
    const char *model, *label;
};
/* "/api/history/ID": its series and their changes. */
int histories_answer(struct histories *h, const char *id, const struct histories_asked *asked,
                     struct json_writer *w, opm_error *err);
/* "/api/history/ID/operators": of the n-th series, what operators took in each run. */
int histories_operators(struct histories *h, const char *id, const struct histories_asked *asked,
                        int64_t series, struct json_writer *w, opm_error *err);
/* "/api/history/ID/trace": where to look at the trace of a run. */
int histories_trace(struct histories *h, const char *id, const char *run, struct json_writer *w,
                    opm_error *err);

#endif
