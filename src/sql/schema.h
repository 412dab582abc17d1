/* schema.h -- names and meanings of everything that can be queried. */
#ifndef SQL_SCHEMA_H
#define SQL_SCHEMA_H

#include "store/store.h"

struct view {
    const struct table_def *def; /* columns for the schema only */
    const char *sql;
    char *(*make)(void); /* makes it where sql is NULL; free with sqlite3_free() */
};

extern const struct view views[]; /* ends with a NULL def */
extern const struct table_def schema_def;

/* The i-th thing to query, tables first, then analyses, then views; NULL past the end. *out_kind is
 * 'table', 'analysis' or 'view'. */
const struct table_def *schema_get(int i, const char **out_kind);
/* Fill t, an empty table of schema_def; strings go into the pool of st. 0 or OPM_ENOMEM. */
int schema_fill(struct table *t, struct store *st);

#endif
