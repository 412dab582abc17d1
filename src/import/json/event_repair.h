/* event_repair.h -- an event that is not quite JSON, rewritten as JSON.
 *
 * Put right and reported as bits of enum event_dirt: quotes within strings, control bytes, bad
 * escapes, invalid UTF-8, lone surrogates, NaN and infinities (null), misshapen numbers, missing
 * and stray commas. What was valid stays as it is. */
#ifndef IMPORT_JSON_EVENT_REPAIR_H
#define IMPORT_JSON_EVENT_REPAIR_H

#include "base/buf.h"
#include "import/json/event_scan.h"

/* Rewrite the value at p (an event: an opening brace). SCAN_OK: out has it, *next is behind it and
 * *dirt what was wrong. SCAN_BAD: beyond repair. Never SCAN_MORE unless the text really ends. The
 * contract of `end` is that of event_scan.h. out->failed tells of lacking memory. */
enum scan_result event_repair(const char *p, const char *end, struct buf *out, const char **next,
                              unsigned *dirt);

/* Is this text free of what a scan does not look for: invalid UTF-8, bad escapes, lone surrogates?
 */
unsigned event_text_dirt(const char *p, size_t len);

/* Where the next event might begin, from p on; end if nowhere. */
const char *event_resync(const char *p, const char *end);

#endif
