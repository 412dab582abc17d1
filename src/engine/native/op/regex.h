/* regex.h -- does a regular expression match all of a text, and where does it match first? In the
 * syntax of RE2, which is what ONNX asks for.
 *
 * The expression becomes a machine all of whose states are followed at once, so time grows with
 * the text, whatever the expression. Which of several ways a text matches does not matter here, so
 * greedy and lazy repetitions are the same, and of matches at one place the longest counts. Not in
 * it, and refused: Unicode properties (\p), single bytes (\C). What RE2 has not either is refused
 * as well: references to groups, looking around. */
#ifndef NATIVE_REGEX_H
#define NATIVE_REGEX_H

#include "base/common.h"

struct regex;

/* OPM_EINVAL: not an expression, OPM_EUNSUPPORTED, OPM_ELIMIT, OPM_ENOMEM; *why is a text that
 * lives on. */
int regex_new(struct regex **out, const char *pattern, size_t len, const char **why);
void regex_free(struct regex *r); /* NULL is fine */
/* Text is UTF-8; bytes that are not match nothing. One thread at a time. */
bool regex_matches(struct regex *r, const char *s, size_t len);
/* The match that begins first at `at` or later, and of these the longest: [*begin, *end). What is
 * before `at` still counts for ^ and \b. */
bool regex_finds(struct regex *r, const char *s, size_t len, size_t at, size_t *begin, size_t *end);

#endif
