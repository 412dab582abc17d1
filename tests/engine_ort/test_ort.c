/* test_ort.c -- a model on ONNX Runtime: outputs, the profile read back, what cannot be done. */
#include "engine/engine.h"
#include "run/input.h"
#include "unit.h"

#include <opmeter/opmeter.h>
#include <opmeter/opmeter_trace.h>

#define SKIPPED 77
#define METERED 3

static int64_t ask(opm_trace *t, const char *sql)
{
    opm_rows *r = NULL;
    opm_error err = { 0 };
    int64_t v;

    if (opm_trace_query(t, sql, &r, &err) < 0 || opm_rows_next(r, &err) != 1)
        fail_msg("%s: %s", sql, err.msg);
    v = opm_rows_int(r, 0);
    opm_rows_close(r);
    return v;
}

struct rig {
    struct model *m;
    struct engine *e;
    struct inputs in;
    struct engine_tensor out[4];
    size_t nout;
};

static void rig_open(struct rig *r, const char *model)
{
    struct engine_options opts = ENGINE_OPTIONS_INIT;
    struct input_options io = { .seed = 1 };
    const struct engine_value *v;
    opm_error err = { 0 };
    size_t n;

    *r = (struct rig){ 0 };
    opts.threads = 1;
    if (model_load(&r->m, model, &err) < 0 || engine_ort.open(&r->e, r->m, &opts, &err) < 0)
        fail_msg("%s", err.msg);
    engine_ort.outputs(r->e, &r->nout);
    assert_true(r->nout <= ARRAY_SIZE(r->out));
    v = engine_ort.inputs(r->e, &n);
    if (inputs_make(&r->in, r->m, v, n, &io, &err) < 0 ||
        engine_ort.prepare(r->e, r->in.t, r->in.n, &err) < 0)
        fail_msg("%s", err.msg);
}

static void rig_run(struct rig *r)
{
    opm_error err = { 0 };

    if (engine_ort.run(r->e, r->in.t, r->in.n, r->out, r->nout, &err) < 0)
        fail_msg("%s", err.msg);
}

static void rig_close(struct rig *r)
{
    engine_ort.close(r->e);
    inputs_release(&r->in);
    model_free(r->m);
}

static void record(struct rig *r, const char *path)
{
    opm_options opts = OPM_OPTIONS_INIT;
    opm_error err = { 0 };
    float bare[64];

    rig_run(r);
    assert_int_equal(r->out[0].type, TENSOR_F32);
    assert_true(r->out[0].bytes <= sizeof(bare) && r->out[0].bytes > 0);
    memcpy(bare, r->out[0].data, r->out[0].bytes);
    opts.path = path;
    opts.level = 3;
    if (opm_start(&opts, &err) < 0)
        fail_msg("%s", err.msg);
    for (int i = 0; i < METERED; i++) {
        opm_span step = opm_step_begin("m", i, OPM_MEASURED);

        rig_run(r);
        opm_step_end(step);
        assert_memory_equal(bare, r->out[0].data, r->out[0].bytes);
        opm_pause(); /* goes to the bare session, and is not reported */
        rig_run(r);
        opm_resume();
    }
    if (engine_ort.flush(r->e, &err) < 0 || opm_stop(&err) < 0)
        fail_msg("%s", err.msg);
}

static void test_profile(void **state)
{
    const char *path = unit_path("t.opm");
    opm_error err = { 0 };
    opm_trace *t = NULL;
    struct rig r;

    (void)state;
    rig_open(&r, "zoo:mlp");
    record(&r, path);
    rig_close(&r);
    if (opm_trace_open(&t, &path, 1, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(ask(t, "SELECT count(*) FROM op_stats WHERE count = 3"),
                     ask(t, "SELECT count(*) FROM op"));
    assert_int_equal(ask(t, "SELECT count(*) FROM op WHERE type LIKE '%Gemm'"), 3);
    assert_int_equal(ask(t, "SELECT count(*) FROM op WHERE engine = 'onnxruntime'"
                            " AND device = 'CPUExecutionProvider'"),
                     ask(t, "SELECT count(*) FROM op"));
    /* The nodes of the model behind the fused ones, and from them FLOPs and weights. */
    assert_int_equal(ask(t, "SELECT count(*) FROM op WHERE nodes LIKE '%\"fc%' AND flops > 0"
                            " AND weight_shape IS NOT NULL AND bytes > 0"),
                     3);
    assert_int_equal(ask(t, "SELECT count(*) FROM op_tensor WHERE io = 'weight'"), 6);
    /* True times: every operator inside of its step, on a track of its own. */
    assert_int_equal(ask(t, "SELECT count(*) FROM span WHERE op IS NOT NULL AND step IS NULL"), 0);
    assert_int_equal(ask(t, "SELECT count(*) FROM span AS s JOIN step AS p ON p.id = s.step"
                            " WHERE op IS NOT NULL AND (s.ts < p.ts OR"
                            " s.ts + s.dur > p.ts + p.dur + 1000)"),
                     0);
    assert_int_equal(ask(t, "SELECT count(DISTINCT t.name) FROM span AS s JOIN track AS t"
                            " ON t.id = s.track WHERE op IS NOT NULL AND t.name = 'onnxruntime'"),
                     1);
    assert_int_equal(ask(t, "SELECT count(*) FROM meta WHERE key = 'engine.bias'"), 1);
    assert_int_equal(ask(t, "SELECT count(*) FROM meta WHERE key = 'engine.lost_runs'"), 0);
    opm_trace_close(t);
}

/* Not flushed: nothing is left behind. */
static void test_discard(void **state)
{
    struct rig r;

    (void)state;
    setenv("TMPDIR", unit_path(""), 1);
    rig_open(&r, "zoo:mlp");
    rig_close(&r);
    assert_int_equal(system("test -z \"$(ls -d \"$TMPDIR\"/opmeter-ort-* 2>/dev/null)\""), 0);
    unsetenv("TMPDIR");
}

static void test_errors(void **state)
{
    struct engine_options opts = ENGINE_OPTIONS_INIT;
    struct engine *e = NULL;
    struct model *m = NULL;
    opm_error err = { 0 };

    (void)state;
    assert_int_equal(model_load(&m, "zoo:mlp", &err), 0);
    opts.ort_lib = "/nonexistent/libonnxruntime.so";
    assert_int_equal(engine_ort.open(&e, m, &opts, &err), OPM_ENOTFOUND);
    assert_non_null(strstr(err.msg, "--ort-lib"));
    opts.ort_lib = "libm.so.6";
    assert_int_equal(engine_ort.open(&e, m, &opts, &err), OPM_EFORMAT);
    assert_non_null(strstr(err.msg, "OrtGetApiBase"));
    model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_discard),
        cmocka_unit_test(test_errors),
    };
    const char *lib = getenv("OPMETER_ORT_LIB");

    if (!lib || !*lib) {
        puts("skipped: OPMETER_ORT_LIB does not name a libonnxruntime.so");
        return SKIPPED;
    }
    return cmocka_run_group_tests_name("ort", tests, NULL, unit_cleanup);
}
