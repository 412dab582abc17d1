/* event_shorten.h -- an event that is very long, with its strings cut. */
#ifndef IMPORT_JSON_EVENT_SHORTEN_H
#define IMPORT_JSON_EVENT_SHORTEN_H

#include "base/buf.h"

#define EVENT_LONG_BYTES ((size_t)1 << 20)  /* strings of longer events are cut */
#define EVENT_STRING_MAX ((size_t)64 << 10) /* to so many bytes */
#define EVENT_SHORT_MAX ((size_t)16 << 20)  /* and what is longer all the same is left out */

/* Append the event from p to end, which a scan has found to be well-formed, with every string cut
 * to EVENT_STRING_MAX bytes, between characters; *cut counts them. False if more than
 * EVENT_SHORT_MAX bytes would be left. out->failed tells of lacking memory. */
bool event_shorten(const char *p, const char *end, struct buf *out, size_t *cut);

#endif
