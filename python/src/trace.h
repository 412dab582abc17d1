/* trace.h -- the type Trace: an open trace, for one thread at a time.
 *
 * opm_trace is not for several threads at once, and the GIL is given up while it works:
 * trace_lock() has others wait. */
#ifndef PYTHON_TRACE_H
#define PYTHON_TRACE_H

#include "ext.h"
#include <opmeter/opmeter_trace.h>

struct trace {
    PyObject base;
    PyObject *module;
    opm_trace *trace; /* NULL: closed */
    PyThread_type_lock lock;
};

/* Wait for the trace; false and ValueError if it is closed. Pair with trace_unlock(). */
bool trace_lock(struct trace *t);
void trace_unlock(struct trace *t);

/* Columns and rows of a query: (names, list of tuples). Holds the lock meanwhile. */
PyObject *trace_rows(struct trace *t, const char *sql);
/* The answer as a capsule of an Arrow C stream. */
PyObject *trace_arrow(struct trace *t, PyObject *sql);
/* Number of rows and a list of columns: (name, type, owner, values, valid, words), see columns.c.
 */
PyObject *trace_columns(struct trace *t, PyObject *sql);
/* hex_numbers(from, to, n, width): 64-bit numbers at an address as hexadecimal texts, into an array
 * of objects at another. */
PyObject *hex_numbers(PyObject *module, PyObject *args);

#endif
