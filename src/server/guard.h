/* guard.h -- which requests are answered at all.
 *
 * A page of some other site must not read traces through the user's browser: neither by asking this
 * server directly (the Origin is foreign then) nor through a name of its own that leads here (the
 * Host is foreign then). Pure functions over the headers. */
#ifndef SERVER_GUARD_H
#define SERVER_GUARD_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

struct guard {
    bool loopback;    /* listens to this machine alone */
    const char *host; /* as the user gave it, or NULL */
};

struct guard_request {
    const char *method;
    bool data;              /* below /api/ */
    const char *host;       /* headers; NULL: not there */
    const char *origin;     /* Origin */
    const char *fetch_site; /* Sec-Fetch-Site */
};

/* 0, or the HTTP status of the refusal with a sentence in err. */
int guard_check(const struct guard *g, const struct guard_request *r, opm_error *err);
/* Likewise, of a request that brings a file. Other machines may not. */
int guard_check_drop(const struct guard *g, const struct guard_request *r, opm_error *err);

#endif
