/* scratch.h -- memory that lies in a file, for what is too large for the machine's own.
 *
 * The file has no name and is gone with the process, or once all of it was given back; the kernel
 * keeps those pages of it in memory that are in use and writes the others out. Room on the disk is
 * taken when memory is asked for, so that a full disk is a refusal, not a signal later.
 * Thread-safe.
 *
 * Who allocates by base/alloc.h within a budget that names a folder (base/budget.h) gets it. */
#ifndef BASE_SCRATCH_H
#define BASE_SCRATCH_H

#include "base/common.h"

/* The folder for such files: TMPDIR, else /var/tmp, which is seldom kept in memory, else /tmp.
 * NULL: none can be written to. */
const char *scratch_folder(void);
/* Zeroed, and page-aligned. NULL: no room, or no file can be made in the folder. */
void *scratch_map(const char *folder, size_t size);
/* Was p made here? *size is what it has. */
bool scratch_is(const void *p, size_t *size);
/* As realloc(), for what was made here; what is added is zeroed. NULL, p intact, on failure. */
void *scratch_resize(void *p, size_t size);
/* False: it was not made here. */
bool scratch_unmap(void *p);

#endif
