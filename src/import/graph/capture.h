/* capture.h -- launches that were captured into graphs, with the operators that launched them.
 *
 * While a stream is captured nothing runs: launches become nodes of a graph, in their order. When
 * the graph runs later it is one launch, and its kernels say nothing of operators. A trace of the
 * capture says it all; see replay.h. */
#ifndef IMPORT_GRAPH_CAPTURE_H
#define IMPORT_GRAPH_CAPTURE_H

#include "base/arena.h"
#include "base/u64map.h"
#include "import/import.h"

enum launch_kind { LAUNCH_KERNEL, LAUNCH_COPY, LAUNCH_FILL };

struct captured {
    uint32_t op;  /* of captures.ops, or OPM_NULL_ID: no operator launched it */
    int64_t node; /* of the graph, as the trace numbers it, or OPM_NULL_I64 */
    uint8_t kind; /* enum launch_kind */
};

/* One graph. */
struct capture {
    size_t path;     /* of captures.path */
    size_t first, n; /* launches of captures.name and .launch */
    int64_t size;    /* tokens that it was captured for, as an annotation around it says; or -1 */
    bool named;      /* the trace says which kernels were launched, not only that some were */
    size_t used;     /* replays that took it */
};

/* `struct captures c = {0}` is empty. */
struct captures {
    struct store *ops; /* rows of op and op_tensor only, each once; op.attributes say the module.
                          NULL: operators are those of the trace that replays */
    struct strpool *names; /* of kernels */
    uint32_t *name;        /* per launch; 0: not known */
    struct captured *launch;
    size_t nlaunch, name_cap, launch_cap;
    struct capture *capture;
    size_t ncapture, capture_cap;
    const char **path;
    size_t npath, path_cap;
    struct u64map known;   /* of ops, for op_copy() */
    struct u64map by_node; /* -> launch, or SIZE_MAX: several captures number one so */
    struct arena arena;
};

/* Names of what is compared with it are interned in the same pool, which is lent. */
int captures_init(struct captures *c, struct strpool *names); /* 0 or OPM_ENOMEM */
void captures_release(struct captures *c);

/* Read files or folders that hold traces of captures. One without a capture fails with
 * OPM_EFORMAT. */
int captures_read(struct captures *c, const char *path, const struct import_options *opts,
                  opm_error *err);
/* Those in a finished trace; none is fine. 0 or OPM_ENOMEM. */
int captures_take(struct captures *c, const struct store *st, const char *path);
/* A launch more, of a capture that is being put together. 0 or OPM_ENOMEM. */
int captures_add_launch(struct captures *c, const char *name, struct captured launch);
/* The last launches, from first on, are a capture. 0 or OPM_ENOMEM. */
int captures_add(struct captures *c, const char *path, size_t first, int64_t size);

/* Is the same launched in the same order? */
bool captures_alike(const struct captures *c, size_t a, size_t b);
/* The launch whose node has the number: the only one of all captures, else that of this one, else
 * SIZE_MAX. */
size_t captures_node(const struct captures *c, const struct capture *k, int64_t node);

uint64_t names_hash(const uint32_t *name, size_t n);

#endif
