/* explain.h -- SQLite's complaints, with what the user probably meant. */
#ifndef SQL_EXPLAIN_H
#define SQL_EXPLAIN_H

#include <opmeter/opmeter_error.h>

/* Fill err from the message that SQLite gave for the statement `text`, adding the nearest table or
 * column where one is unknown. Returns code. */
int explain_failure(opm_error *err, int code, const char *message, const char *text);

#endif
