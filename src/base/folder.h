/* folder.h -- folders to write to, and the one where opmeter keeps what it measured here. */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

#define FOLDER_PATH_MAX 1024         /* of results, with the NUL */
#define FOLDER_RESULTS "opmeter.out" /* where results go if nobody says */

/* Make a folder and those above it; one that is there already is fine. */
int folder_make(const char *path, opm_error *err);

/* Path of a file in $OPMETER_CACHE, else $XDG_CACHE_HOME/opmeter, else ~/.cache/opmeter, which need
 * not exist. False: there is no such place, or its path is too long. */
bool folder_cache_path(char *out, size_t size, const char *name);
/* The processor's name, by which such files tell machines apart; "unknown" where nobody knows. */
void folder_cpu_name(char *out, size_t size);

#endif
