/* arith.c -- arithmetic on elements that may be open dimensions; see known.h. */
#include "graph/ops/known.h"

#include <math.h>

/* With at least one operand open: what can still be said. Open dimensions are not negative. */
static int64_t open_binary(enum arith op, int64_t a, int64_t b)
{
    switch (op) {
    case ARITH_ADD:
        return a == 0 ? b : b == 0 ? a : ELEM_ANY;
    case ARITH_SUB:
        return b == 0 ? a : a == b && a != ELEM_ANY && a != elem_of_dim(DIM_OPEN) ? 0 : ELEM_ANY;
    case ARITH_MUL:
        if (a == 0 || b == 0)
            return 0;
        return a == 1 ? b : b == 1 ? a : ELEM_ANY;
    case ARITH_DIV:
        return b == 1 ? a : ELEM_ANY;
    case ARITH_EQUAL:
        if ((elem_is_dim(a) && !elem_open(b) && b < 0) ||
            (elem_is_dim(b) && !elem_open(a) && a < 0))
            return 0;
        return a == b && a != ELEM_ANY && a != elem_of_dim(DIM_OPEN) ? 1 : ELEM_ANY;
    case ARITH_LESS:
        return elem_is_dim(a) && !elem_open(b) && b <= 0 ? 0 : ELEM_ANY;
    case ARITH_GREATER_EQUAL:
        return elem_is_dim(a) && !elem_open(b) && b <= 0 ? 1 : ELEM_ANY;
    case ARITH_GREATER:
        return elem_is_dim(a) && !elem_open(b) && b < 0 ? 1 : ELEM_ANY;
    case ARITH_MAX: /* Max(dim, 0) and the like */
        if (elem_is_dim(a) && !elem_open(b) && b <= 0)
            return a;
        return elem_is_dim(b) && !elem_open(a) && a <= 0 ? b : ELEM_ANY;
    case ARITH_MIN:
        if (elem_is_dim(a) && b == INT64_MAX)
            return a;
        return elem_is_dim(b) && a == INT64_MAX ? b : ELEM_ANY;
    case ARITH_AND:
        return a == 0 || b == 0 ? 0 : ELEM_ANY;
    case ARITH_OR:
        return (!elem_open(a) && a) || (!elem_open(b) && b) ? 1 : ELEM_ANY;
    default:
        return ELEM_ANY;
    }
}

static int64_t int_pow(int64_t a, int64_t b, bool *bad)
{
    uint64_t r = 1, x = (uint64_t)a;

    *bad = *bad || b < 0;
    for (; b > 0; b >>= 1, x *= x)
        if (b & 1)
            r *= x;
    return (int64_t)r;
}

int64_t arith_int(enum arith op, int64_t a, int64_t b, bool *bad)
{
    int64_t r;

    if (elem_open(a) || elem_open(b))
        return open_binary(op, a, b);
    switch (op) {
    case ARITH_ADD:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case ARITH_SUB:
        return (int64_t)((uint64_t)a - (uint64_t)b);
    case ARITH_MUL:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case ARITH_DIV:
    case ARITH_MOD:
        if (b == 0 || (b == -1 && a == INT64_MIN)) {
            *bad = true;
            return 0;
        }
        if (op == ARITH_DIV)
            return a / b;
        r = a % b;
        return r && (r < 0) != (b < 0) ? r + b : r;
    case ARITH_MIN:
        return MIN(a, b);
    case ARITH_MAX:
        return MAX(a, b);
    case ARITH_POW:
        return int_pow(a, b, bad);
    case ARITH_AND:
        return a && b;
    case ARITH_OR:
        return a || b;
    case ARITH_XOR:
        return !a != !b;
    case ARITH_EQUAL:
        return a == b;
    case ARITH_LESS:
        return a < b;
    case ARITH_GREATER:
        return a > b;
    case ARITH_LESS_EQUAL:
        return a <= b;
    case ARITH_GREATER_EQUAL:
        return a >= b;
    }
    return 0;
}

double arith_float(enum arith op, double a, double b, bool *bad)
{
    switch (op) {
    case ARITH_ADD:
        return a + b;
    case ARITH_SUB:
        return a - b;
    case ARITH_MUL:
        return a * b;
    case ARITH_DIV:
        return a / b;
    case ARITH_MIN:
        return isnan(a) || a < b ? a : b;
    case ARITH_MAX:
        return isnan(a) || a > b ? a : b;
    case ARITH_POW:
        return pow(a, b);
    default:
        *bad = true;
        return 0;
    }
}

bool arith_compare(enum arith op, double a, double b)
{
    switch (op) {
    case ARITH_EQUAL:
        return a == b;
    case ARITH_LESS:
        return a < b;
    case ARITH_GREATER:
        return a > b;
    case ARITH_LESS_EQUAL:
        return a <= b;
    default:
        return a >= b;
    }
}
