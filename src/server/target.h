/* target.h -- the target of a request, "/api/trace/3f/data/ops?top=5", taken apart.
 *
 * Segments of the path are split before they are decoded, so that an encoded slash stays within its
 * segment, and nothing here or behind it is ever used as the path of a file. Every string is
 * NUL-terminated and holds no NUL. */
#ifndef SERVER_TARGET_H
#define SERVER_TARGET_H

#include "base/buf.h"
#include <opmeter/opmeter_error.h>

#define TARGET_SEGMENTS_MAX 8
#define TARGET_ARGS_MAX 16

struct target_arg {
    const char *name;
    const char *value;
};

struct target {
    struct buf text; /* what the pointers below point into */
    size_t nsegment; /* 0: "/" */
    const char *segment[TARGET_SEGMENTS_MAX];
    size_t narg;
    struct target_arg arg[TARGET_ARGS_MAX];
};

/* OPM_EINVAL for what is not "/path?name=value&...": wrong escapes, encoded NULs and control bytes,
 * "." and ".." segments, a name twice; OPM_ELIMIT for too many parts. Release in either case. */
int target_parse(struct target *t, const char *raw, opm_error *err);
void target_release(struct target *t);

/* Is the path exactly this, "api/version"? A "*" stands for any one segment. */
bool target_is(const struct target *t, const char *path);
const char *target_arg(const struct target *t, const char *name); /* NULL: not given */
/* An integer within [min, max]; *out keeps its value if the argument is not given. */
int target_int(const struct target *t, const char *name, int64_t min, int64_t max, int64_t *out,
               opm_error *err);

#endif
