/* span_class.h -- what kind of work a span is, whichever profiler recorded it.
 *
 * Decided once per site from its layer, category and name by the table in span_class.c. */
#ifndef ANALYZE_SPAN_CLASS_H
#define ANALYZE_SPAN_CLASS_H

#include "store/store.h"

enum span_class {
    CLASS_NONE,      /* marks a stretch of time, does no work: steps, regions, phases */
    CLASS_COMPUTE,   /* a device computes */
    CLASS_COMM,      /* a collective or another exchange between devices, wherever it runs */
    CLASS_COPY,      /* a device copies or clears memory */
    CLASS_DATA,      /* the host waits for input data */
    CLASS_MEASURING, /* whoever records is at work */
    CLASS_RUNTIME,   /* the host is in the runtime or driver of a device */
    CLASS_OPERATOR,  /* the host executes or launches an operator */
    CLASS_BACKWARD,  /* likewise, for the backward pass */
    CLASS_OPTIMIZER, /* likewise, for the update of the weights */
    CLASS_HOST,      /* anything else that the host does */
    CLASS_COUNT,
};

/* The class of every site of the store. Free with mem_free(); NULL when out of memory. */
uint8_t *span_classes(const struct store *st);

#endif
