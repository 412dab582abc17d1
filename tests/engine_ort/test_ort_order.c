/* test_ort_order.c -- `run` with ONNX Runtime: bare iterations have it for themselves, and come
 * before there is a profiled session. On a stand-in for the library, which says what it was asked
 * for. */
#include "run/run.h"
#include "standin.h"
#include "unit.h"

#include <opmeter/opmeter_trace.h>

#include <dlfcn.h>

static standin_diary_fn *diary;
static standin_forget_fn *forget;

static void *function(const char *name)
{
    void *lib = dlopen(OPMETER_ORT_STANDIN, RTLD_NOW | RTLD_LOCAL), *symbol;

    if (!lib)
        fail_msg("%s", dlerror());
    symbol = dlsym(lib, name);
    assert_non_null(symbol);
    return symbol;
}

static int setup(void **state)
{
    void *symbol = function("standin_diary");

    (void)state;
    memcpy(&diary, &symbol, sizeof(diary)); /* ISO C has no cast for this */
    symbol = function("standin_forget");
    memcpy(&forget, &symbol, sizeof(forget));
    setenv("OPMETER_CACHE", unit_path("cache"), 1);
    return 0;
}

static int64_t ask(const char *path, const char *sql)
{
    opm_trace *t = NULL;
    opm_rows *r = NULL;
    opm_error err = { 0 };
    int64_t v;

    if (opm_trace_open(&t, &path, 1, NULL, &err) < 0 || opm_trace_query(t, sql, &r, &err) < 0 ||
        opm_rows_next(r, &err) != 1)
        fail_msg("%s: %s", sql, err.msg);
    v = opm_rows_int(r, 0);
    opm_rows_close(r);
    opm_trace_close(t);
    return v;
}

static void measure(bool receipt, struct run_result *res)
{
    struct run_options opt = { .model = "zoo:mlp",
                               .engine = "onnxruntime",
                               .ort_lib = OPMETER_ORT_STANDIN,
                               .warmup = { 2, 0 },
                               .iterations = { 6, 0 },
                               .threads = 1,
                               .instances = 1,
                               .receipt = receipt,
                               .dir = unit_path("") };
    opm_error err = { 0 };

    forget();
    *res = (struct run_result){ 0 };
    if (run_model(&opt, res, &err) < 0)
        fail_msg("%s", err.msg);
}

/* As many iterations of either kind as were asked for, two more to warm up; what is metered is in
 * the trace. */
static void bare_before_profiled(void **state)
{
    struct run_result res;

    (void)state;
    measure(true, &res);
    assert_string_equal(diary(), "b+ br br br br br br br br b- p+ pr pr pr pr pr pr pr pr p- ");
    assert_int_equal(res.bare.n, 6);
    assert_int_equal(res.metered.n, 6);
    assert_int_equal(ask(res.trace, "SELECT count(*) FROM span JOIN op ON op.id = span.op"
                                    " WHERE op.engine = 'onnxruntime'"),
                     8);
    assert_int_equal(ask(res.trace, "SELECT count(*) FROM step WHERE NOT warmup"), 6);
}

/* Without a receipt nothing is run bare; the session that says whether the model can be loaded at
 * all is gone before the profiled one is made. */
static void profiled_only(void **state)
{
    struct run_result res;

    (void)state;
    measure(false, &res);
    assert_string_equal(diary(), "b+ b- p+ pr pr pr pr pr pr pr pr p- ");
    assert_int_equal(res.bare.n, 0);
    assert_int_equal(res.metered.n, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bare_before_profiled),
        cmocka_unit_test(profiled_only),
    };

    return cmocka_run_group_tests(tests, setup, unit_cleanup);
}
