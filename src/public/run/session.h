/* session.h -- what an opm_session is, for the files of this folder. */
#ifndef PUBLIC_RUN_SESSION_H
#define PUBLIC_RUN_SESSION_H

#include "run/runner.h"
#include <opmeter/opmeter_run.h>

struct opm_session {
    struct run_options opt; /* its strings and dims are the session's own */
    struct run_result res;
    struct runner run;
    struct shape *in_shape, *out_shape; /* declared, with the sizes of the options */
    char *model, *engine, *ort_lib;
    struct run_dim *dim;
    size_t ndim;
    int64_t steps; /* runs so far: the number of the next step */
    bool random;   /* the inputs that are in place are all made up */
};

/* What a call that came to rc returns: says so if it was the time limit that ended it. */
int session_end(const opm_session *s, int rc, opm_error *err);

#endif
