/* test_session.c -- the public header for running: what models declare, arrays in and out, what a
 * recording gets of it, arguments and messages. */
#include "unit.h"

#include "base/common.h"

#include <math.h>
#include <opmeter/opmeter.h>
#include <opmeter/opmeter_run.h>
#include <opmeter/opmeter_trace.h>

static opm_session *open_model(const char *model, const opm_session_options *opts)
{
    opm_session *s = NULL;
    opm_error err = { 0 };

    if (opm_session_open(&s, model, opts, &err) < 0)
        fail_msg("%s", err.msg);
    return s;
}

static opm_array array_of(const char *dtype, void *data, size_t bytes, int64_t d0, int64_t d1)
{
    return (opm_array){ dtype, data, bytes, 2, { d0, d1 } };
}

static void test_describe(void **state)
{
    static const char *const dims[] = { "n=3", NULL };
    opm_session_options opts = OPM_SESSION_OPTIONS_INIT;
    opm_session *s = open_model("zoo:mlp?batch=n", NULL);
    opm_value v;
    opm_error err;

    (void)state;
    assert_int_equal(opm_session_ninputs(s), 1);
    assert_int_equal(opm_session_noutputs(s), 1);
    assert_int_equal(opm_session_input(s, 0, &v, &err), 0);
    assert_string_equal(v.name, "input");
    assert_string_equal(v.dtype, "float32");
    assert_int_equal(v.bits, 32);
    assert_int_equal(v.rank, 2);
    assert_int_equal(v.dims[0], -1);
    assert_string_equal(v.dim_names[0], "n");
    assert_int_equal(v.dims[1], 784);
    assert_null(v.dim_names[1]);
    assert_int_equal(opm_session_input(s, 1, &v, &err), OPM_ENOTFOUND);
    assert_int_equal(opm_session_output(s, 1, &v, &err), OPM_ENOTFOUND);
    assert_string_equal(opm_session_model(s), "mlp");
    assert_string_equal(opm_session_engine(s), opm_engine_name(0));
    opm_session_close(s);

    opts.dims = dims;
    s = open_model("zoo:mlp?batch=n", &opts);
    assert_int_equal(opm_session_input(s, 0, &v, &err), 0);
    assert_int_equal(v.dims[0], 3);
    assert_int_equal(opm_session_output(s, 0, &v, &err), 0);
    assert_int_equal(v.dims[0], 3);
    assert_int_equal(v.dims[1], 10);
    opm_session_close(s);

    opts.dims = NULL;
    opts.batch_size = 4;
    opts.threads = 1;
    s = open_model("zoo:mlp", &opts);
    assert_int_equal(opm_session_input(s, 0, &v, &err), 0);
    assert_int_equal(v.dims[0], 4);
    assert_int_equal(opm_session_threads(s), 1);
    opm_session_close(s);
}

/* Too much memory is refused, too long a measurement given up; the session can be used on, and
 * callers that know nothing of limits have none. */
static void test_limits(void **state)
{
    opm_session_options opts = OPM_SESSION_OPTIONS_INIT;
    opm_measure_options endless = OPM_MEASURE_OPTIONS_INIT;
    opm_measured m = { .size = sizeof(m) };
    opm_session *s = NULL;
    opm_array out;
    opm_error err;

    (void)state;
    opts.max_memory = -1;
    assert_int_equal(opm_session_open(&s, "zoo:mlp", &opts, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "max_memory"));
    opts.max_memory = 0;
    opts.time_limit_ns = -1;
    assert_int_equal(opm_session_open(&s, "zoo:mlp", &opts, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "time_limit_ns"));
    opts.size = offsetof(opm_session_options, max_memory);
    s = open_model("zoo:mlp", &opts);
    opm_session_close(s);

    opts = (opm_session_options)OPM_SESSION_OPTIONS_INIT;
    opts.max_memory = 1000;
    s = open_model("zoo:mlp", &opts);
    assert_int_equal(opm_session_run(s, NULL, 0, &out, 1, &err), OPM_ELIMIT);
    assert_non_null(strstr(err.msg, "max_memory"));
    opm_session_close(s);

    opts = (opm_session_options)OPM_SESSION_OPTIONS_INIT;
    opts.time_limit_ns = 2000000000;
    s = open_model("zoo:mlp", &opts);
    endless.iterations = (opm_amount){ INT64_MAX / 2, 0 };
    assert_int_equal(opm_session_measure(s, NULL, 0, &endless, &out, 1, &m, &err), OPM_ELIMIT);
    assert_non_null(strstr(err.msg, "the time limit"));
    assert_int_equal(opm_session_run(s, NULL, 0, &out, 1, &err), 0);
    opm_session_close(s);
}

/* Probabilities come out, the same ones for the same input however it is given. */
static void test_run(void **state)
{
    opm_session *s = open_model("zoo:mlp", NULL);
    static float raw[784 + 1], *x = raw;
    static double wide[784];
    float first[10], sum = 0;
    opm_array in, out;
    opm_error err;

    (void)state;
    if ((uintptr_t)x % 64 == 0)
        x++; /* any alignment will do */
    in = array_of("float32", x, 784 * sizeof(*x), 1, 784);
    assert_int_equal(opm_session_random(s, 0, 7, &in, &err), 0);
    assert_true(x[0] != x[1]);
    assert_int_equal(opm_session_run(s, &in, 1, &out, 1, &err), 0);
    assert_string_equal(out.dtype, "float32");
    assert_int_equal(out.rank, 2);
    assert_int_equal(out.dims[0], 1);
    assert_int_equal(out.dims[1], 10);
    assert_int_equal(out.bytes, sizeof(first));
    memcpy(first, out.data, sizeof(first));
    for (size_t i = 0; i < 10; i++)
        sum += first[i];
    assert_true(fabsf(sum - 1) < 1e-4f);

    for (size_t i = 0; i < 784; i++)
        wide[i] = x[i];
    in = array_of("float64", wide, sizeof(wide), 1, 784);
    assert_int_equal(opm_session_run(s, &in, 1, &out, 1, &err), 0);
    assert_memory_equal(first, out.data, sizeof(first));

    in = array_of(NULL, x, 784 * sizeof(*x), 1, 784);
    for (size_t i = 0; i < 784; i++)
        x[i] = -x[i];
    assert_int_equal(opm_session_run(s, &in, 1, &out, 1, &err), 0);
    assert_true(memcmp(first, out.data, sizeof(first)) != 0);

    assert_int_equal(opm_session_run(s, NULL, 0, &out, 1, &err), 0);
    memcpy(first, out.data, sizeof(first));
    assert_int_equal(opm_session_run(s, NULL, 0, NULL, 0, &err), 0);
    assert_int_equal(opm_session_run(s, NULL, 0, &out, 1, &err), 0);
    assert_memory_equal(first, out.data, sizeof(first));
    opm_session_close(s);
}

static void test_shapes_change(void **state)
{
    opm_session *s = open_model("zoo:mlp?batch=n", NULL);
    float *x = calloc(5 * 784, sizeof(*x));
    opm_array in, out;
    opm_error err;

    (void)state;
    assert_non_null(x);
    assert_int_equal(opm_session_run(s, NULL, 0, &out, 1, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "'n'"));
    for (int64_t n = 5; n > 0; n -= 2) {
        in = array_of("float32", x, (size_t)n * 784 * sizeof(*x), n, 784);
        assert_int_equal(opm_session_run(s, &in, 1, &out, 1, &err), 0);
        assert_int_equal(out.dims[0], n);
    }
    in = array_of("float32", NULL, 0, 2, 784); /* a shape, random values */
    assert_int_equal(opm_session_run(s, &in, 1, &out, 1, &err), 0);
    assert_int_equal(out.dims[0], 2);
    free(x);
    opm_session_close(s);
}

/* x, three strings, and "!" after each: StringConcat of opset 20. */
static const char concat_model[] =
    "\010\010\072\112\012\027\012\001\170\012\001\145\022\001\171\042\014\123\164\162\151"
    "\156\147\103\157\156\143\141\164\022\001\147\052\012\010\001\020\010\062\001\041\102"
    "\001\145\132\017\012\001\170\022\012\012\010\010\010\022\004\012\002\010\003\142\017"
    "\012\001\171\022\012\012\010\010\010\022\004\012\002\010\003\102\004\012\000\020\024"
    "";

static void test_strings(void **state)
{
    opm_string words[3] = { { "yes", 3 }, { NULL, 0 }, { "a\0b", 3 } };
    opm_array in = { "string", words, sizeof(words), 1, { 3 } }, out;
    const opm_string *got;
    FILE *f = fopen("concat.onnx", "wb");
    opm_session *s;
    opm_value v;
    opm_error err;

    (void)state;
    assert_non_null(f);
    assert_int_equal(fwrite(concat_model, sizeof(concat_model) - 1, 1, f), 1);
    fclose(f);
    s = open_model("concat.onnx", NULL);
    assert_int_equal(opm_session_input(s, 0, &v, &err), 0);
    assert_string_equal(v.dtype, "string");
    for (int run = 0; run < 2; run++) {
        assert_int_equal(opm_session_run(s, &in, 1, &out, 1, &err), 0);
        assert_string_equal(out.dtype, "string");
        assert_int_equal(out.bytes, sizeof(words));
        got = out.data;
        assert_string_equal(got[0].text, "yes!");
        assert_string_equal(got[1].text, "!");
        assert_int_equal(got[2].len, 4);
        assert_memory_equal(got[2].text, "a\0b!", 5);
    }
    opm_session_close(s);
    unlink("concat.onnx");
}

static void test_bad_arrays(void **state)
{
    static float x[784];
    static int64_t n[784];
    const struct {
        opm_array in;
        int rc;
        const char *says;
    } cases[] = {
        { array_of("float32", x, sizeof(x), 1, 783), OPM_EINVAL, "has 3132 bytes, not 3136" },
        { array_of("float32", x, sizeof(x), 2, 392), OPM_EINVAL, "is 1x784" },
        { array_of("float32", x, sizeof(x), -1, 784), OPM_EINVAL, "negative" },
        { array_of("float32", x, sizeof(x), INT64_MAX, 784), OPM_EINVAL, "too large" },
        { array_of("real", x, sizeof(x), 1, 784), OPM_EUNSUPPORTED, "type real" },
        { array_of("string", x, sizeof(x), 1, 784), OPM_EINVAL, "has 12544 bytes, not 3136" },
        { { "float32", x, sizeof(x), 17, { 0 } }, OPM_EINVAL, "rank 17" },
        { { "float32", x, sizeof(x), -1, { 0 } }, OPM_EINVAL, "rank -1" },
    };
    opm_session *s = open_model("zoo:mlp", NULL);
    opm_array in = array_of("int64", n, sizeof(n), 1, 784), out[2];
    opm_error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        err.msg[0] = '\0';
        assert_int_equal(opm_session_run(s, &cases[i].in, 1, NULL, 0, &err), cases[i].rc);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("case %zu: '%s' does not say '%s'", i, err.msg, cases[i].says);
    }
    assert_int_equal(opm_session_random(s, 0, 1, &in, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "float32 1x784, not int64 1x784"));
    assert_int_equal(opm_session_random(s, 1, 1, &in, &err), OPM_ENOTFOUND);
    assert_int_equal(opm_session_run(s, &in, 2, NULL, 0, &err), OPM_EINVAL);
    assert_int_equal(opm_session_run(s, &in, 0, NULL, 0, &err), OPM_EINVAL);
    assert_int_equal(opm_session_run(s, NULL, 0, out, 2, &err), OPM_EINVAL);
    assert_int_equal(opm_session_run(s, NULL, 0, NULL, 1, &err), OPM_EINVAL);
    assert_int_equal(opm_session_run(NULL, NULL, 0, NULL, 0, &err), OPM_EINVAL);
    /* It still works. */
    assert_int_equal(opm_session_run(s, &in, 1, out, 1, &err), 0);
    opm_session_close(s);
    opm_session_close(NULL);
}

static void test_bad_open(void **state)
{
    static const char *const no_dim[] = { "m=3", NULL }, *const no_size[] = { "n", NULL };
    opm_session_options opts = OPM_SESSION_OPTIONS_INIT;
    opm_session *s = NULL;
    opm_error err;

    (void)state;
    assert_int_equal(opm_session_open(NULL, "zoo:mlp", NULL, &err), OPM_EINVAL);
    assert_int_equal(opm_session_open(&s, NULL, NULL, &err), OPM_EINVAL);
    assert_int_equal(opm_session_open(&s, "zoo:nothing", NULL, &err), OPM_ENOTFOUND);
    assert_int_equal(opm_session_open(&s, unit_path("missing.onnx"), NULL, &err), OPM_EIO);
    assert_non_null(strstr(err.msg, "missing.onnx"));
    opts.engine = "steam";
    assert_int_equal(opm_session_open(&s, "zoo:mlp", &opts, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "no such engine 'steam'"));
    opts.engine = NULL;
    opts.dims = no_dim;
    assert_int_equal(opm_session_open(&s, "zoo:mlp?batch=n", &opts, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "'m'"));
    opts.dims = no_size;
    assert_int_equal(opm_session_open(&s, "zoo:mlp?batch=n", &opts, &err), OPM_EINVAL);
    opts.dims = NULL;
    opts.threads = -1;
    assert_int_equal(opm_session_open(&s, "zoo:mlp", &opts, &err), OPM_EINVAL);
    opts.threads = 0;
    opts.size = sizeof(opts) + 1;
    assert_int_equal(opm_session_open(&s, "zoo:mlp", &opts, &err), OPM_EVERSION);
    opts.size = 0;
    assert_int_equal(opm_session_open(&s, "zoo:mlp", &opts, &err), OPM_EINVAL);
    assert_null(s);
}

/* Programs whose structs are of a later release, and of an earlier one, with fewer fields. */
static void test_struct_sizes(void **state)
{
    struct later {
        opm_array a;
        int64_t more;
    } in[1] = { { .more = 5 } }, out[1] = { { .more = 5 } };
    struct {
        opm_value v;
        int64_t more;
    } value = { .more = 5 };
    struct {
        opm_latency l;
        double more;
    } latency = { .more = 5 };
    struct {
        opm_recorder_stats s;
        uint64_t more;
    } stats = { .more = 5 };
    static float x[784];
    opm_session *s = open_model("zoo:mlp", NULL);
    opm_error err;

    (void)state;
    in[0].a = array_of("float32", x, sizeof(x), 1, 784);
    assert_int_equal(opm__session_run(s, &in[0].a, 1, &out[0].a, 1, sizeof(in[0]), &err), 0);
    assert_int_equal(out[0].a.dims[1], 10);
    assert_int_equal(out[0].more, 0);
    assert_int_equal(opm__session_input(s, 0, &value.v, sizeof(value), &err), 0);
    assert_int_equal(value.v.dims[1], 784);
    assert_int_equal(value.more, 0);
    assert_int_equal(
        opm__session_latency(s, OPM_ITERATIONS_BARE, &latency.l, sizeof(latency), &err), 0);
    assert_true(latency.l.n == 0 && latency.more == 0);
    assert_int_equal(opm_session_latency(s, (enum opm_iterations)2, &latency.l, &err), OPM_EINVAL);
    opm__stats(&stats.s, sizeof(stats));
    assert_int_equal(stats.more, 0);

    /* What an earlier program does not know is not written. */
    value.v.rank = 77;
    latency.l.p90 = 77;
    stats.s.threads = 77;
    assert_int_equal(opm__session_input(s, 0, &value.v, offsetof(opm_value, rank), &err), 0);
    assert_int_equal(value.v.bits, 32);
    assert_int_equal(value.v.rank, 77);
    assert_int_equal(
        opm__session_latency(s, OPM_ITERATIONS_BARE, &latency.l, offsetof(opm_latency, p90), &err),
        0);
    assert_true(latency.l.p90 == 77);
    opm__stats(&stats.s, offsetof(opm_recorder_stats, threads));
    assert_int_equal(stats.s.threads, 77);
    opm_session_close(s);
}

static int64_t count(opm_trace *t, const char *sql)
{
    opm_rows *r;
    opm_error err;
    int64_t n;

    if (opm_trace_query(t, sql, &r, &err) < 0 || opm_rows_next(r, &err) != 1)
        fail_msg("%s: %s", sql, err.msg);
    n = opm_rows_int(r, 0);
    opm_rows_close(r);
    return n;
}

/* While iterations are being metered: before that, the longer it takes the more often it is asked.
 */
static int give_up(void *user, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return ++*(int *)user > 200;
}

static void test_recorded(void **state)
{
    const char *path = unit_path("session.opm");
    opm_options ro = OPM_OPTIONS_INIT;
    opm_measure_options mo = OPM_MEASURE_OPTIONS_INIT;
    opm_measured m = { .size = sizeof(m) };
    opm_session *s;
    opm_trace *t;
    opm_array out;
    opm_latency l;
    opm_error err;
    int calls = 0;

    (void)state;
    ro.path = path;
    assert_int_equal(opm_start(&ro, &err), 0);
    s = open_model("zoo:mlp", NULL);
    assert_int_equal(opm_session_run(s, NULL, 0, NULL, 0, &err), 0);
    assert_int_equal(opm_session_run(s, NULL, 0, NULL, 0, &err), 0);
    mo.warmup.count = 1;
    mo.iterations.count = 3;
    assert_int_equal(opm_session_measure(s, NULL, 0, &mo, &out, 1, &m, &err), 0);
    assert_int_equal(out.dims[1], 10);
    assert_int_equal(m.warmup, 1);
    assert_int_equal(opm_session_latency(s, OPM_ITERATIONS_BARE, &l, &err), 0);
    assert_int_equal(l.n, 3);
    assert_int_equal(opm_session_latency(s, OPM_ITERATIONS_METERED, &l, &err), 0);
    assert_int_equal(l.n, 3);
    assert_int_equal(m.batch, 1);
    assert_true(l.min > 0 && l.min <= l.max);
    mo.progress = give_up;
    mo.user = &calls;
    mo.iterations = (opm_amount){ 0, INT64_MAX / 2 };
    assert_int_equal(opm_session_measure(s, NULL, 0, &mo, NULL, 0, NULL, &err), OPM_ELIMIT);
    mo.iterations = (opm_amount){ 0, 0 };
    assert_int_equal(opm_session_measure(s, NULL, 0, &mo, NULL, 0, NULL, &err), OPM_EINVAL);
    opm_session_close(s);
    assert_int_equal(opm_stop(&err), 0);

    assert_int_equal(opm_trace_open(&t, &path, 1, NULL, &err), 0);
    assert_int_equal(count(t, "SELECT count(*) FROM op"), 4);
    assert_true(count(t, "SELECT count(*) FROM step WHERE NOT warmup") >= 5);
    assert_true(count(t, "SELECT count(*) FROM step WHERE warmup") >= 1);
    assert_int_equal(count(t, "SELECT count(*) FROM record WHERE label = 'measured'"), 2);
    assert_int_equal(count(t, "SELECT value = '3' FROM meta WHERE key = 'run.iterations'"), 1);
    assert_int_equal(count(t, "SELECT value = 'mlp' FROM meta WHERE key = 'model.name'"), 1);
    opm_trace_close(t);
}

static void test_lists(void **state)
{
    size_t n = 0;

    (void)state;
    assert_string_equal(opm_engine_name(0), "native");
    assert_null(opm_engine_name(100));
    while (opm_zoo_name(n))
        n++;
    assert_true(n > 5);
}

static void test_amounts(void **state)
{
    opm_amount a = { 0, 0 };
    opm_error err;

    (void)state;
    assert_int_equal(opm_amount_parse("12", &a, &err), 0);
    assert_int_equal(a.count, 12);
    assert_int_equal(opm_amount_parse("200ms", &a, &err), 0);
    assert_int_equal(a.ns, 200000000);
    assert_int_equal(opm_amount_parse("soon", &a, &err), OPM_EINVAL);
    assert_int_equal(opm_amount_parse(NULL, &a, &err), OPM_EINVAL);
}

static int open_and_run(void)
{
    opm_session_options opts = OPM_SESSION_OPTIONS_INIT;
    opm_session *s;
    opm_array out;
    opm_error err;
    int rc;

    opts.threads = 1;
    rc = opm_session_open(&s, "zoo:mlp", &opts, &err);
    if (rc)
        return rc;
    rc = opm_session_run(s, NULL, 0, &out, 1, &err);
    opm_session_close(s);
    return rc;
}

/* The engine gets by without some of its memory, so success is fine too; what it may not do is
 * leak, crash or blame something else. */
static void test_no_memory(void **state)
{
    bool failed = true;
    long refused = 0;

    (void)state;
    for (long n = 1; failed; n = unit_next_failure(n)) {
        int rc;

        mem_fail_at(n);
        rc = open_and_run();
        failed = mem_alloc_failed();
        mem_fail_at(0);
        assert_true(rc == 0 || (failed && rc == OPM_ENOMEM));
        refused += rc != 0;
    }
    assert_true(refused > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe), cmocka_unit_test(test_run),
        cmocka_unit_test(test_limits),   cmocka_unit_test(test_shapes_change),
        cmocka_unit_test(test_strings),  cmocka_unit_test(test_bad_arrays),
        cmocka_unit_test(test_bad_open), cmocka_unit_test(test_struct_sizes),
        cmocka_unit_test(test_recorded), cmocka_unit_test(test_lists),
        cmocka_unit_test(test_amounts),  cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
