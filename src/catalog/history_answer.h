/* history_answer.h -- a history as JSON, for the command line and the page. */
#ifndef CATALOG_HISTORY_ANSWER_H
#define CATALOG_HISTORY_ANSWER_H

#include "base/json_write.h"
#include "catalog/history.h"

/* Members of an object: what the series is of, its runs and its changes. */
void history_answer_series(struct json_writer *w, const struct history *h,
                           const struct history_series *s);
/* Members of an object: one change. */
void history_answer_change(struct json_writer *w, const struct history *h,
                           const struct history_series *s, const struct change *c);

#endif
