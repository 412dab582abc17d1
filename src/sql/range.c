/* range.c -- see range.h. */
#include "sql/range.h"

#include <math.h>

/* The right-hand side of a comparison with an integer column. */
struct number {
    enum {
        NUMBER_NULL,
        NUMBER_INT,
        NUMBER_REAL,
        NUMBER_ABOVE, /* text and blobs sort after every number */
    } kind;
    int64_t i;
    double r;
};

/* As SQLite does before it compares: text that looks like a number is one. */
static int number_of(sqlite3_value *v, struct number *out)
{
    sqlite3_value *copy = NULL;
    int type = sqlite3_value_type(v);

    if (type == SQLITE_TEXT) {
        copy = sqlite3_value_dup(v); /* converting in place would change the caller's value */
        if (!copy)
            return SQLITE_NOMEM;
        v = copy;
        type = sqlite3_value_numeric_type(v);
    }
    *out = (struct number){ .kind = NUMBER_ABOVE };
    if (type == SQLITE_NULL)
        out->kind = NUMBER_NULL;
    else if (type == SQLITE_INTEGER)
        *out = (struct number){ .kind = NUMBER_INT, .i = sqlite3_value_int64(v) };
    else if (type == SQLITE_FLOAT)
        *out = (struct number){ .kind = NUMBER_REAL, .r = sqlite3_value_double(v) };
    sqlite3_value_free(copy);
    return SQLITE_OK;
}

static const struct range range_all = { INT64_MIN, INT64_MAX };
static const struct range range_none = { 1, 0 };

#define TWO_POW_63 9223372036854775808.0

static struct range range_int(enum plan_op op, int64_t v)
{
    switch (op) {
    case PLAN_LT:
        return v == INT64_MIN ? range_none : (struct range){ INT64_MIN, v - 1 };
    case PLAN_LE:
        return (struct range){ INT64_MIN, v };
    case PLAN_GT:
        return v == INT64_MAX ? range_none : (struct range){ v + 1, INT64_MAX };
    case PLAN_GE:
        return (struct range){ v, INT64_MAX };
    default:
        return (struct range){ v, v };
    }
}

static struct range range_real(enum plan_op op, double v)
{
    bool below = op == PLAN_LT || op == PLAN_LE;
    bool above = op == PLAN_GT || op == PLAN_GE;

    if (v >= TWO_POW_63)
        return below ? range_all : range_none;
    if (v < -TWO_POW_63)
        return above ? range_all : range_none;
    if (floor(v) == v)
        return range_int(op, (int64_t)v);
    if (below)
        return range_int(PLAN_LE, (int64_t)floor(v));
    if (above)
        return range_int(PLAN_GT, (int64_t)floor(v));
    return range_none;
}

int range_of(enum plan_op op, sqlite3_value *v, struct range *out)
{
    struct number n;
    int rc = number_of(v, &n);

    if (rc != SQLITE_OK)
        return rc;
    switch (n.kind) {
    case NUMBER_NULL:
        *out = op == PLAN_IS ? range_all : range_none;
        break;
    case NUMBER_INT:
        *out = range_int(op, n.i);
        break;
    case NUMBER_REAL:
        *out = range_real(op, n.r);
        break;
    case NUMBER_ABOVE:
        *out = op == PLAN_LT || op == PLAN_LE ? range_all : range_none;
        break;
    }
    return SQLITE_OK;
}
