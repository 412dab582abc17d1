/* hive.h -- folders as Hive names them, by the value of a column: job=8211/rank=3. */
#ifndef EXPORT_PARQUET_HIVE_H
#define EXPORT_PARQUET_HIVE_H

#include "base/buf.h"

/* A value as the name of a folder, in which Hive and its readers take %41 for A; "" is NULL. */
void hive_add_value(struct buf *path, const char *value);

#endif
