/* refers.c -- see refers.h. */
#include "import/common/refers.h"

#include <string.h>

int column_refers(const char *column, size_t len)
{
    static const struct {
        const char *column;
        enum table_id table;
    } refers[] = {
        { "op", TABLE_op },           { "first_op", TABLE_op },
        { "last_op", TABLE_op },      { "track", TABLE_track },
        { "src", TABLE_span },        { "dst", TABLE_span },
        { "source", TABLE_source },   { "part_of", TABLE_source },
        { "request", TABLE_request }, { "iteration", TABLE_iteration },
    };

    for (size_t i = 0; i < ARRAY_SIZE(refers); i++)
        if (strlen(refers[i].column) == len && memcmp(refers[i].column, column, len) == 0)
            return (int)refers[i].table;
    return -1;
}
