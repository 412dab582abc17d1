/* expansion.h -- what a statement is once every name of WITH is replaced by its query.
 *
 * SQLite does that, name by name, while it prepares a statement, and cannot be interrupted then:
 * thirty tables of which each names the one before twice are a billion queries. */
#ifndef SQL_EXPANSION_H
#define SQL_EXPANSION_H

#include "base/common.h"

#define EXPANSION_MAX 5000 /* queries */

/* From the text alone. A name that stands before a dot is not counted: it is a column's. */
bool expansion_is_huge(const char *sql);

#endif
