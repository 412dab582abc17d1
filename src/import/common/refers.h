/* refers.h -- which table a column of ids refers to, for readers of files of tables. */
#ifndef IMPORT_COMMON_REFERS_H
#define IMPORT_COMMON_REFERS_H

#include "store/store.h"

/* -1: none that is known. */
int column_refers(const char *column, size_t len);

#endif
