/* report.h -- the pages about one trace as one HTML file that needs nothing else; docs/http.md. */
#ifndef SERVER_REPORT_H
#define SERVER_REPORT_H

#include "base/io.h"
#include <opmeter/opmeter_trace.h>

struct report_options {
    const char *path; /* of the trace, to be shown */
    /* As in opm_open_options; counts parts. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
};

/* Failures of out are left to whoever closes it. */
int report_write(struct io_out *out, opm_trace *t, const struct report_options *o, opm_error *err);

#endif
