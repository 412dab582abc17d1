/* range.h -- a comparison of an integer column with any value, as a range of integers.
 *
 * Follows SQLite to the letter: text that looks like a number is one, other text and blobs sort
 * after all numbers, reals compare exactly, nothing compares with NULL. */
#ifndef SQL_RANGE_H
#define SQL_RANGE_H

#include "sql/plan.h"

/* Both ends included; empty if lo > hi. */
struct range {
    int64_t lo;
    int64_t hi;
};

/* The integers x for which `x op v` holds. IS NULL gives all. An SQLite code. */
int range_of(enum plan_op op, sqlite3_value *v, struct range *out);

#endif
