/* record.h -- a program with recording on: all that `opmeter record` does around it but for
 * printing, and for reading back what was recorded.
 *
 * Every process that the program starts writes a part of its own into a new folder, FILE.parts: the
 * recorder of those that are linked with it, the hooks of Python and CUDA. record_program() adds
 * samples.opm: hardware samples, and the account of the whole ("record." in table meta). The parts
 * are there from the beginning, so whoever is killed, they can be read.
 *
 * The program keeps its standard files, its process group (so the terminal's ^C and ^Z reach it as
 * ever), its signal mask and what is ignored. Signals sent to us by others are passed on to it. One
 * program at a time, from the main thread. */
#ifndef LAUNCH_RECORD_H
#define LAUNCH_RECORD_H

#include "base/error.h"
#include "base/folder.h"
#include "device/sampler.h"

#include <sys/types.h>

enum record_when {
    RECORD_AUTO, /* where it looks as if it were of use */
    RECORD_ALWAYS,
    RECORD_NEVER,
};

struct record_options {
    char *const *argv;      /* the program and its arguments; ends with NULL */
    const char *output;     /* the file that the parts will be merged to */
    const char *categories; /* NULL: as the environment says */
    int level;              /* -1: as the environment says */
    int buffer_mb;          /* 0: as the environment says */
    bool python, cuda;      /* use the hooks, if they are there */
    enum record_when llama; /* that of llama.cpp */
    bool ggml_ops;          /* it runs graphs node by node */
    bool counters;          /* count what the processor does during operators */
    double sample_hz;       /* hardware samples a second; 0: none */
    bool ignore_sigpipe;    /* as the program is to find it */
};

/* What became of a hook. */
enum record_hook {
    RECORD_HOOK_OFF, /* not wanted */
    RECORD_HOOK_SET,
    RECORD_HOOK_MISSING, /* not installed */
    RECORD_HOOK_TAKEN,   /* another profiler has its place */
};

struct record_result {
    int exit_code; /* as a shell has it: of the program, 128 + signal, 126 or 127 */
    int signal;    /* that ended it, or 0 */
    pid_t pid;
    int64_t wall_ns;
    enum record_hook python, cuda, llama;
    char parts[FOLDER_PATH_MAX];
    struct sampler_stats samples;
    int busy;             /* processes left behind that are still recording, or may yet */
    int failed;           /* processes that could not record */
    char failed_why[240]; /* the first of them */
    opm_error own_part;   /* code 0, or why there are no samples */
};

/* 0 once the program ran, whatever its exit code. Negative: it was not started, and the folder of
 * parts is gone again. */
int record_program(const struct record_options *opt, struct record_result *out, opm_error *err);

/* The file for a program: `wanted` with %p (our process id) and %r (rank) filled in, made different
 * for each rank if it has no %r; or if that is NULL opmeter.out/PROGRAM_DATE.opm. */
int record_output(const char *wanted, char *const *argv, char out[FOLDER_PATH_MAX], opm_error *err);

/* Remove the parts and their folder. False, errno says why: not all of them could be. */
bool record_parts_remove(const char *parts);

/* Where the hooks are: the folder that goes on PYTHONPATH, the library for CUDA. False: nowhere.
 * python: the interpreter to ask if it is not beside us; NULL: nobody. */
bool record_find_python(const char *python, char *out, size_t size);
bool record_find_cuda(char *out, size_t size);
bool record_find_llama(char *out, size_t size);

#endif
