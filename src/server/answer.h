/* answer.h -- what the server and report files say about a trace, as JSON; docs/http.md.
 *
 * Each appends one JSON value to w, or fails with nothing worth sending. One thread at a time per
 * trace handle. */
#ifndef SERVER_ANSWER_H
#define SERVER_ANSWER_H

#include "base/json_write.h"
#include "compare/diff.h"
#include <opmeter/opmeter_trace.h>

#define ANSWER_MAX_BYTES ((size_t)64 << 20) /* of rows */
#define ANSWER_ROWS_MAX 100000

/* The rows of a query, at most `limit` of them and about ANSWER_MAX_BYTES. */
int answer_rows(struct json_writer *w, opm_trace *t, const char *sql, int64_t limit,
                opm_error *err);

/* What spans do in a range of time, by name, as such rows: at most `limit`, most self time first.
 */
int answer_totals(struct json_writer *w, opm_trace *t, int64_t from_ns, int64_t to_ns,
                  int64_t limit, opm_error *err);

/* What stands in what there, as such rows: parent, name, count, total_ns. */
int answer_flame(struct json_writer *w, opm_trace *t, int64_t from_ns, int64_t to_ns, int64_t track,
                 opm_error *err);

/* Two traces compared, as such rows: name, type, a_ns, b_ns, state; the largest change first, at
 * most ANSWER_ROWS_MAX; with "spans", "iterations" and "total". */
void answer_diff(struct json_writer *w, const struct diff *d);

/* "rows" and "duration_ns" of a trace, and what to call it, within an object. */
int answer_facts(struct json_writer *w, opm_trace *t, const char *path, opm_error *err);

/* The first cell of what sql gives, as an integer; -1 if there is none or it is NULL. */
int answer_int(opm_trace *t, const char *sql, int64_t *out, opm_error *err);
/* The first cell as a text appended to out, which stays as it is if there is none. */
int answer_text(opm_trace *t, const char *sql, struct buf *out, opm_error *err);

#endif
