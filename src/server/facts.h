/* facts.h -- the few figures by which people tell traces apart in a list. */
#ifndef SERVER_FACTS_H
#define SERVER_FACTS_H

#include "base/json_write.h"
#include <opmeter/opmeter_trace.h>

struct facts {
    char model[100];    /* empty: none is named */
    int64_t recorded_s; /* since 1970; -1: not known */
    double latency_ns;  /* median of the steps; below 0: there are none */
    int64_t spans;
    char error[200]; /* why the trace cannot be read; empty: it can */
};

int facts_read(struct facts *out, opm_trace *t, opm_error *err);
/* Keys and values within an object; all null if f is NULL: not known yet. */
void facts_answer(struct json_writer *w, const struct facts *f);

#endif
