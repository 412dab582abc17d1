/* grammar.h -- texts made from a grammar: of a format as it should be, and of all that goes wrong
 * in files found in the wild.
 *
 * A grammar is a file x.gram:
 *
 *     # a comment
 *     include json.gram
 *     event:
 *       {"ph":"X","ts":<number>,"args":{<member*3>}},
 *       @5 {"ph":"E","ts":<number>},
 *
 * A rule is a name with a colon and the alternatives below it, indented by two spaces, one per
 * line. One of them is picked at random, those that begin with @N N times as often. <name> stands
 * for another rule, <name?> for it or nothing, <name*N> for up to N of it, <name+N> for 1 to N. The
 * line's end is no part of it. Escapes: \n \r \t \\ \< \xHH, and \e for nothing. <byte> is any
 * byte. Rules that were included can be written anew; the last counts. A text begins with the rule
 * `file`; the rule `event` is what is counted: a row, a line, a node, whatever a file repeats. */
#ifndef FUZZ_GRAMMAR_H
#define FUZZ_GRAMMAR_H

#include <stddef.h>
#include <stdint.h>

struct grammar;

/* Never NULL: a mistake in a grammar ends the program with a message. Never freed. */
struct grammar *grammar_load(const char *path);
/* A text of the rule `file`, cut off at max bytes. The same seed makes the same. */
size_t grammar_make(struct grammar *g, uint32_t seed, uint8_t *out, size_t max);
/* A text of any rule. */
size_t grammar_make_any(struct grammar *g, uint32_t seed, uint8_t *out, size_t max);
/* Texts of the rule `event` that were made so far. */
uint64_t grammar_events(const struct grammar *g);

#endif
