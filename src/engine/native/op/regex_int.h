/* regex_int.h -- what regex.c, which reads expressions, and regex_match.c share. */
#ifndef NATIVE_REGEX_INT_H
#define NATIVE_REGEX_INT_H

#include "engine/native/op/regex.h"

enum assertion { AT_START, AT_END, AT_LINE_START, AT_LINE_END, AT_WORD_EDGE, AT_NO_WORD_EDGE };

struct range {
    uint32_t lo, hi;
};

struct tree_node;

enum code_kind { CODE_CLASS, CODE_ASSERT, CODE_SPLIT, CODE_MATCH };

/* CLASS: ranges [a, a + b); SPLIT: goes on at a and at b; others go on behind. */
struct code {
    enum code_kind kind;
    uint32_t a, b;
};

struct regex {
    struct range *range;
    size_t nrange, range_cap;
    struct tree_node *node;
    size_t nnode, node_cap;
    struct code *code;
    size_t ncode, code_cap;
    /* For the match: two lists of states, which states are in the one that is filled (by its
     * number), states still to be followed. */
    uint32_t *list[2], *mark, *stack;
    uint32_t round;
    /* For a search: where the match that a state of either list is on the way to began; by two
     * numbers for each instruction, which of 128 characters a class has; likewise which of them
     * a match may begin with. */
    size_t *from[2];
    uint64_t *ascii, first[2];
};

/* Fill in ascii and first, once the program is there. */
void regex_index(struct regex *r);

#endif
