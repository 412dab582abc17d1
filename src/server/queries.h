/* queries.h -- the named queries of queries.def, with their arguments filled in. */
#ifndef SERVER_QUERIES_H
#define SERVER_QUERIES_H

#include "base/buf.h"
#include "server/target.h"

struct query {
    const char *name;
    const char *args; /* as in queries.def */
    const char *doc;
    const char *sql;
};

extern const struct query queries[]; /* ends with a NULL name */

const struct query *query_find(const char *name); /* NULL: no such query */
/* The SQL with the arguments in their places: integers as such, texts as SQL literals. OPM_EINVAL
 * if one is missing, unknown or not what it should be. */
int query_sql(const struct query *q, const struct target_arg *arg, size_t narg, struct buf *out,
              opm_error *err);
/* Whether all arguments may be left out; whether the one that must be given is `name`. */
bool query_needs_nothing(const struct query *q);
bool query_needs_only(const struct query *q, const char *name);

#endif
