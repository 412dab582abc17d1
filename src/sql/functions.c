/* functions.c -- see functions.h.
 *
 * Aggregates over numbers; NULL is skipped, text that is no number is an error, and of no values at
 * all the result is NULL. Percentiles want p from 0 to 100 and the same p in every row. */
#include "sql/functions.h"

#include "base/alloc.h"
#include "base/human.h"
#include "base/quantile.h"
#include <math.h>
#include <sqlite3.h>

struct values {
    int64_t *key; /* the values as long as all are integers, then quantile_key() of each */
    size_t n;
    size_t cap;
    double p;
    bool nearest; /* percentile_nearest(): a value that occurs, no interpolation */
    bool real;    /* one was no integer */
    bool failed;
};

/* Running mean and squared distance (Welford). */
struct spread {
    int64_t n;
    double mean;
    double squares;
};

/* The number to add, or false: nothing to add, or an error that is reported already. */
static bool number(sqlite3_context *ctx, sqlite3_value *v, const char *function, double *out)
{
    switch (sqlite3_value_numeric_type(v)) {
    case SQLITE_INTEGER:
    case SQLITE_FLOAT:
        *out = sqlite3_value_double(v);
        return true;
    case SQLITE_NULL:
        return false;
    default: {
        char *message = sqlite3_mprintf("%s(): not a number", function);

        if (message)
            sqlite3_result_error(ctx, message, -1);
        else
            sqlite3_result_error_nomem(ctx);
        sqlite3_free(message);
        return false;
    }
    }
}

static void become_real(struct values *all)
{
    for (size_t i = 0; i < all->n && !all->real; i++)
        all->key[i] = quantile_key((double)all->key[i]);
    all->real = true;
}

static void collect(sqlite3_context *ctx, sqlite3_value *v, double p, bool nearest,
                    const char *function)
{
    struct values *all = sqlite3_aggregate_context(ctx, sizeof(*all));
    double x;

    if (!all) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    if (all->failed || !number(ctx, v, function, &x))
        return;
    if (all->n == UINT32_MAX || !GROW(all->key, all->cap, all->n + 1)) {
        all->failed = true;
        sqlite3_result_error_nomem(ctx);
        return;
    }
    if (all->n > 0 && all->p != p) {
        sqlite3_result_error(ctx, "percentile(): the second argument must not change", -1);
        return;
    }
    all->p = p;
    all->nearest = nearest;
    if (sqlite3_value_numeric_type(v) != SQLITE_INTEGER)
        become_real(all);
    all->key[all->n++] = all->real ? quantile_key(x) : sqlite3_value_int64(v);
}

static void percentile_any(sqlite3_context *ctx, sqlite3_value **argv, bool nearest)
{
    int type = sqlite3_value_numeric_type(argv[1]);
    double p = sqlite3_value_double(argv[1]);

    if ((type != SQLITE_INTEGER && type != SQLITE_FLOAT) || !(p >= 0 && p <= 100)) {
        sqlite3_result_error(ctx, "percentile(): the second argument must be from 0 to 100", -1);
        return;
    }
    collect(ctx, argv[0], p / 100, nearest, "percentile");
}

static void percentile_step(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    percentile_any(ctx, argv, false);
}

static void percentile_nearest_step(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    percentile_any(ctx, argv, true);
}

static void median_step(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    collect(ctx, argv[0], 0.5, false, "median");
}

/* Also called to clean up after an error. */
static void percentile_final(sqlite3_context *ctx)
{
    struct values *all = sqlite3_aggregate_context(ctx, 0);
    double result;

    if (!all)
        return;
    if (all->failed) {
        sqlite3_result_error_nomem(ctx);
    } else if (all->n > 0) {
        if (all->nearest)
            become_real(all);
        if (all->nearest)
            result = quantile_nearest(all->key, all->n, all->p);
        else if (all->real)
            quantiles_keys(all->key, all->n, &all->p, 1, &result);
        else
            quantiles_i64(all->key, all->n, &all->p, 1, &result);
        sqlite3_result_double(ctx, result);
    }
    mem_free(all->key);
    *all = (struct values){ 0 };
}

static void stdev_step(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct spread *s = sqlite3_aggregate_context(ctx, sizeof(*s));
    double x, before;

    (void)argc;
    if (!s) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    if (!number(ctx, argv[0], "stdev", &x))
        return;
    before = x - s->mean;
    s->mean += before / (double)++s->n;
    s->squares += before * (x - s->mean);
}

static void stdev_final(sqlite3_context *ctx)
{
    const struct spread *s = sqlite3_aggregate_context(ctx, 0);

    if (s && s->n > 1)
        sqlite3_result_double(ctx, sqrt(s->squares / (double)(s->n - 1)));
}

static void human_ns_of(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    char room[HUMAN_ROOM];
    double ns;

    (void)argc;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL || !number(ctx, argv[0], "human_ns", &ns))
        return;
    sqlite3_result_text(ctx, human_ns(room, ns), -1, SQLITE_TRANSIENT);
}

int functions_register(struct sqlite3 *db)
{
    static const struct {
        const char *name;
        int nargs;
        void (*plain)(sqlite3_context *, int, sqlite3_value **);
        void (*step)(sqlite3_context *, int, sqlite3_value **);
        void (*final)(sqlite3_context *);
    } functions[] = {
        { "percentile", 2, NULL, percentile_step, percentile_final },
        { "percentile_nearest", 2, NULL, percentile_nearest_step, percentile_final },
        { "median", 1, NULL, median_step, percentile_final },
        { "stdev", 1, NULL, stdev_step, stdev_final },
        { "human_ns", 1, human_ns_of, NULL, NULL },
    };
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    int rc = SQLITE_OK;

    for (size_t i = 0; i < ARRAY_SIZE(functions) && rc == SQLITE_OK; i++)
        rc = sqlite3_create_function_v2(db, functions[i].name, functions[i].nargs, flags, NULL,
                                        functions[i].plain, functions[i].step, functions[i].final,
                                        NULL);
    return rc;
}
