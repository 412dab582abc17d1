/* environ.h -- the environment that a program is started with: a copy of ours, changed. */
#ifndef LAUNCH_ENVIRON_H
#define LAUNCH_ENVIRON_H

#include "base/common.h"

struct environ_copy {
    char **item; /* NAME=VALUE, ends with NULL: for posix_spawn() */
    size_t n;
    size_t cap;
    bool failed; /* out of memory: later changes are ignored, check once */
};

void environ_copy_init(struct environ_copy *e);
void environ_copy_set(struct environ_copy *e, const char *name, const char *value);
/* Put value before what a list such as PYTHONPATH holds. */
void environ_copy_prepend(struct environ_copy *e, const char *name, const char *value);
void environ_copy_release(struct environ_copy *e);

#endif
