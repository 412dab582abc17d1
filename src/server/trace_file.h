/* trace_file.h -- the file or folder that a trace is read from, and whether it has changed. */
#ifndef SERVER_TRACE_FILE_H
#define SERVER_TRACE_FILE_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>
#include <stdatomic.h>
#include <sys/stat.h>

struct trace_file {
    char *path;
    const char *shown;  /* what people see of it: within path */
    const char *within; /* the folder that it must stay in, resolved; NULL: it was named itself */
    /* Another file that is read with it, or NULL as long as there is none: set once. */
    char *_Atomic beside;
};

/* The paths to read: one or two, as long as the second is there. */
#define TRACE_FILE_PATHS 2
size_t trace_file_paths(struct trace_file *f, const char *out[TRACE_FILE_PATHS]);

struct trace_file_state {
    uint64_t stamp; /* differs from that of other versions of the file */
    bool live;      /* it is being recorded */
    struct stat st;
};

/* OPM_EIO: it is gone, or a link there leads out of the folder. */
int trace_file_look(struct trace_file *f, struct trace_file_state *out, opm_error *err);

/* FNV-1a over some bytes more; begin with TRACE_HASH_INIT. */
#define TRACE_HASH_INIT 0xcbf29ce484222325u
uint64_t trace_hash(uint64_t h, const void *p, size_t len);

#endif
