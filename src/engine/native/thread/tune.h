/* tune.h -- measured times that choices between kernels are made by, remembered per machine.
 *
 * In memory for the life of the process, and in a file "tune" under OPMETER_CACHE,
 * XDG_CACHE_HOME/opmeter or ~/.cache/opmeter, one line per key, so that a choice is measured once
 * and stays the same from then on. A file that cannot be read or written is no error. Safe from
 * any thread. */
#ifndef NATIVE_TUNE_H
#define NATIVE_TUNE_H

#include "base/common.h"

#define TUNE_KEY_MAX 120 /* bytes of a key, its end included; no blanks */

/* The two times in ns that are known for a key of this machine's processor. */
bool tune_get(const char *key, int64_t *a_ns, int64_t *b_ns);
void tune_put(const char *key, int64_t a_ns, int64_t b_ns);

#endif
