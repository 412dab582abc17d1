/* plan.h -- how a query wants to read a table: what xBestIndex decides and xFilter carries out.
 *
 * SQLite keeps the plan between the two as text (idxStr). Constraints that a plan uses only narrow
 * what is read: SQLite checks every row again, so a plan may give too many rows, never too few.
 * Orders are always true orders, also where grouped rows would do. */
#ifndef SQL_PLAN_H
#define SQL_PLAN_H

#include "sql/index.h"
#include <sqlite3.h>

#define PLAN_TERMS_MAX 16

enum plan_op {
    PLAN_EQ = '=',
    PLAN_IS = 'i',
    PLAN_IS_NULL = 'n',
    PLAN_LT = '<',
    PLAN_LE = 'l',
    PLAN_GT = '>',
    PLAN_GE = 'g',
};

struct plan_term {
    enum plan_op op;
    int col;
};

struct plan {
    struct plan_term term[PLAN_TERMS_MAX]; /* one per argument of xFilter */
    int nterm;
    struct {
        int col;
        bool desc;
    } order[INDEX_ORDER_MAX]; /* columns with an index, the first counts most */
    int norder;
    int rows;      /* then by row number: 1 rising, -1 falling, 0 either */
    bool unique;   /* of rows equal in the order columns one is enough */
    uint64_t used; /* bit i: column i is read */
};

/* Decide; fills the output part of info. An SQLite code. */
int plan_make(const struct source *s, sqlite3_index_info *info);
/* Read back what plan_make() left in idxStr. */
void plan_parse(struct plan *p, const char *text);

#endif
