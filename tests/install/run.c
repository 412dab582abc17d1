/* run.c -- a program of somebody else: records three runs of a model into the named file. */
#include <opmeter/opmeter.h>
#include <opmeter/opmeter_run.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_session *session = NULL;
    opm_array out;
    opm_error err;
    int rc;

    options.path = argc == 2 ? argv[1] : "";
    rc = opm_start(&options, &err);
    if (rc == 0)
        rc = opm_session_open(&session, "zoo:mlp", NULL, &err);
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = opm_session_run(session, NULL, 0, &out, 1, &err);
    opm_session_close(session);
    if (rc == 0)
        rc = opm_stop(&err);
    if (rc < 0)
        fprintf(stderr, "run: %s\n", err.msg);
    return rc != 0;
}
