/* hive.c -- see hive.h. */
#include "export/parquet/hive.h"

#include "format/parquet.h"

#include <string.h>

void hive_add_value(struct buf *path, const char *value)
{
    if (!*value)
        buf_adds(path, PARQUET_NULL_FOLDER);
    for (const char *s = value; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c < 0x20 || c == 0x7f || strchr("\"#%'*/:=?\\{}[]^", c) || (c == '.' && s == value))
            buf_addf(path, "%%%02X", c);
        else
            buf_addc(path, *s);
    }
}
