/* folder_walk.h -- the traces below a folder, recognised by content. */
#ifndef SERVER_FOLDER_WALK_H
#define SERVER_FOLDER_WALK_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

/* Calls found() for every file, or folder that is one profile, that holds a trace; with `beside`,
 * another file that tells of the same run and is to be read with it, or NULL: the CSV of a run of
 * Neural Engine belongs to its trace, of the same name. Hidden entries,
 * what is nested deeper than FOLDER_DEPTH_MAX, and links that lead out of `resolved` (path without
 * links) are passed over; after FOLDER_ENTRIES_MAX entries it ends, and sets *cut. What `opmeter
 * run` derived from a recording beside it is not found again. A nonzero result of found() ends it
 * and is returned. */
#define FOLDER_DEPTH_MAX 8
#define FOLDER_ENTRIES_MAX 20000
int folder_walk(const char *path, const char *resolved,
                int (*found)(void *user, const char *path, const char *beside, const char *format,
                             opm_error *err),
                void *user, bool *cut, opm_error *err);

/* Is the file, both without links, inside the folder? */
bool folder_holds(const char *folder, const char *file);

#endif
