/* sniff.h -- what the head of a file of trace events looks like, for its dialects to tell. */
#ifndef IMPORT_JSON_SNIFF_H
#define IMPORT_JSON_SNIFF_H

#include "base/common.h"

bool head_contains(const uint8_t *head, size_t len, const char *word);
/* The first bracket of the text, behind a byte order mark and blanks; 0: something else is first.
 */
char json_first_bracket(const uint8_t *head, size_t len);
bool head_has_events(const uint8_t *head, size_t len);
/* Words that only Kineto's traces have. */
bool kineto_words(const uint8_t *head, size_t len);

#endif
