/* sizes.c -- structs of every size that a release may have had, at the very end of memory: the
 * library reads and writes no more of them than the caller says there is.
 *
 * usage: sizes FOLDER
 *
 * What comes later in a struct than the size tells is neither there nor missed. */
#define _GNU_SOURCE
#include <opmeter/opmeter.h>
#include <opmeter/opmeter_run.h>
#include <opmeter/opmeter_trace.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STEP sizeof(void *) /* no field is cut in two */
#define PAGE 65536

static unsigned char *edge; /* here memory ends */

static void make_edge(void)
{
    unsigned char *two =
        mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (two == MAP_FAILED || mprotect(two + PAGE, PAGE, PROT_NONE) != 0) {
        perror("mmap");
        exit(2);
    }
    edge = two + PAGE;
}

/* The first `size` bytes of a struct; its size is told where it has the field. */
static void *cut(const void *whole, size_t size, int has_size)
{
    memcpy(edge - size, whole, size);
    if (has_size)
        memcpy(edge - size, &size, sizeof(size));
    return edge - size;
}

static void must(const char *what, size_t size, int rc, const opm_error *err)
{
    if (rc >= 0)
        return;
    printf("%s of %zu bytes: %s\n", what, size, err->msg);
    exit(1);
}

#define EACH(type, init, call)                                                   \
    do {                                                                         \
        type whole = init;                                                       \
        for (size_t size = sizeof(size_t); size <= sizeof(type); size += STEP) { \
            type *given = cut(&whole, size, 1);                                  \
            call;                                                                \
        }                                                                        \
    } while (0)

static void recorder(opm_error *err)
{
    opm_recorder_stats all = { 0 };

    EACH(opm_options, OPM_OPTIONS_INIT,
         (must("opm_options", size, opm_start(given, err), err), opm_stop(err)));
    must("opm_start", 0, opm_start(NULL, err), err);
    EACH(opm_op_info, OPM_OP_INFO_INIT, opm_op_free(opm_op_define(given)));
    EACH(opm_mem_info, OPM_MEM_INFO_INIT, opm_mem(given));
    EACH(opm_gauge_info, OPM_GAUGE_INFO_INIT, opm_gauge_free(opm_gauge_define(given)));
    for (size_t size = 0; size <= sizeof(all); size += STEP)
        opm__stats(cut(&all, size, 0), size);
    must("opm_stop", 0, opm_stop(err), err);
}

static void traces(const char *recording, const char *copy, opm_error *err)
{
    opm_trace *t = NULL;

    EACH(opm_open_options, OPM_OPEN_OPTIONS_INIT,
         (must("opm_open_options", size, opm_trace_open(&t, &recording, 1, given, err), err),
          opm_trace_close(t)));
    must("opm_trace_open", 0, opm_trace_open(&t, &recording, 1, NULL, err), err);
    EACH(opm_export_options, OPM_EXPORT_OPTIONS_INIT,
         must("opm_export_options", size, opm_trace_export(t, "chrome", copy, given, err), err));
    opm_trace_close(t);
}

static void models(opm_error *err)
{
    opm_session *s = NULL;
    opm_measure_options few = OPM_MEASURE_OPTIONS_INIT;
    opm_measured measured = { sizeof(measured), 0, 0, 0, 0, 0 };
    opm_value value = { 0 };
    opm_array array = { 0 }, known = { 0 };
    opm_latency latency = { 0 };

    few.warmup.count = 0;
    few.iterations.count = 1;
    EACH(opm_session_options, OPM_SESSION_OPTIONS_INIT,
         (must("opm_session_options", size, opm_session_open(&s, "zoo:mlp", given, err), err),
          opm_session_close(s)));
    must("opm_session_open", 0, opm_session_open(&s, "zoo:mlp", NULL, err), err);
    must("opm_session_measure", 0, opm_session_measure(s, NULL, 0, &few, NULL, 0, NULL, err), err);
    for (size_t size = 0; size <= sizeof(value); size += STEP) {
        must("opm_value", size, opm__session_input(s, 0, cut(&value, size, 0), size, err), err);
        must("opm_value", size, opm__session_output(s, 0, cut(&value, size, 0), size, err), err);
    }
    for (size_t size = 0; size <= sizeof(latency); size += STEP)
        must("opm_latency", size,
             opm__session_latency(s, OPM_ITERATIONS_METERED, cut(&latency, size, 0), size, err),
             err);
    for (size_t size = sizeof(size_t); size <= sizeof(measured); size += STEP)
        must("opm_measured", size,
             opm_session_measure(s, NULL, 0, &few, NULL, 0, cut(&measured, size, 1), err), err);
    /* Up to the dimensions of the shape, a program of the first release knows all of an array. */
    must("opm_session_random", 0, opm_session_input(s, 0, &value, err), err);
    known.rank = -1;
    for (size_t size = offsetof(opm_array, dims) + 2 * sizeof(int64_t); size <= sizeof(array);
         size += STEP) {
        must("opm_array", size, opm__session_run(s, cut(&known, size, 0), 1, NULL, 0, size, err),
             err);
        must("opm_array", size, opm__session_run(s, NULL, 0, cut(&array, size, 0), 1, size, err),
             err);
    }
    opm_session_close(s);
}

int main(int argc, char **argv)
{
    char recording[4096], copy[4096];
    opm_error err = { 0 };

    if (argc != 2)
        return 2;
    snprintf(recording, sizeof(recording), "%s/sizes.opm", argv[1]);
    snprintf(copy, sizeof(copy), "%s/sizes.json", argv[1]);
    setenv("OPMETER_OUTPUT", recording, 1);
    setenv("OPMETER_OVERWRITE", "1", 1);
    make_edge();
    recorder(&err);
    traces(recording, copy, &err);
    models(&err);
    puts("all sizes");
    return 0;
}
