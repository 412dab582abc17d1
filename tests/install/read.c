/* read.c -- a program of somebody else: prints the number of executed operators in a trace. */
#include <inttypes.h>
#include <opmeter/opmeter_trace.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    const char *path = argc == 2 ? argv[1] : "";
    opm_trace *trace = NULL;
    opm_rows *rows = NULL;
    opm_error err;
    int rc = opm_trace_open(&trace, &path, 1, NULL, &err);

    if (rc == 0)
        rc = opm_trace_query(trace, "SELECT count(*) FROM span WHERE op IS NOT NULL", &rows, &err);
    if (rc == 0)
        rc = opm_rows_next(rows, &err);
    if (rc == 1)
        printf("%" PRId64 "\n", opm_rows_int(rows, 0));
    if (rc < 0)
        fprintf(stderr, "read: %s\n", err.msg);
    opm_rows_close(rows);
    opm_trace_close(trace);
    return rc != 1;
}
