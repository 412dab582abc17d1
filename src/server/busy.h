/* busy.h -- how busy every device was over time, as JSON; docs/http.md. */
#ifndef SERVER_BUSY_H
#define SERVER_BUSY_H

#include "base/json_write.h"
#include <opmeter/opmeter_trace.h>

struct busy; /* when the devices of a trace worked; nothing changes it */

/* From table device_busy. */
int busy_new(struct busy **out, opm_trace *t, opm_error *err);
void busy_free(struct busy *b);            /* NULL is fine */
size_t busy_devices(const struct busy *b); /* how many there are */
/* Appends one JSON object: of each device the busy share of every width-th part of [from, to). */
void busy_answer(const struct busy *b, struct json_writer *w, int64_t from_ns, int64_t to_ns,
                 int64_t width);

#endif
