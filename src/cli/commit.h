/* commit.h -- the commit of git that a folder is at. */
#ifndef CLI_COMMIT_H
#define CLI_COMMIT_H

#include "base/buf.h"

/* Of the current folder: its whole name into *out, and whether there are changes that are not in
 * it. False where there is none: no git, no repository, no commit yet. */
bool commit_here(struct buf *out, bool *dirty);

#endif
