/* kind.h -- the database file that runs and rollups of ranks are kept in. */
#ifndef CATALOG_KIND_H
#define CATALOG_KIND_H

#include "sql/dbfile.h"

#define CATALOG_VERSION 4
#define CATALOG_VERSION_ROLLUPS 2 /* the first that has rollups */

extern const struct dbfile_kind catalog_kind;

#endif
