/* event_each.h -- the events of a trace one by one, as JSON, for readers that make rows of their
 * own: what the container is, damage and its repair are as for every other trace. */
#ifndef IMPORT_JSON_EVENT_EACH_H
#define IMPORT_JSON_EVENT_EACH_H

#include "base/json_read.h"
#include "import/import.h"

/* An event: r has just read its opening brace, and what it reads is JSON without fault. What it
 * points to is gone after the call. Nonzero ends the reading. */
typedef int event_each_fn(void *user, struct json_reader *r);

/* Calls each() for all events of the source, in the order of the text. What was wrong is counted in
 * st, which gets no rows. 0, what each() returned, or an error: OPM_EFORMAT if there is no list of
 * events. */
int event_each(struct store *st, const struct import_source *src, event_each_fn *each, void *user,
               opm_error *err);

#endif
