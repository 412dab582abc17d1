/* test_export_alloc.c -- no memory is told, wherever it happens: in writers and in their readers.
 */
#include "can_write.h"
#include "export/export.h"
#include "import/import.h"
#include "unit.h"

static const char profile[] =
    "weight shape,90% 4x1 perf ratio,80% 4x1 perf ratio,70% 4x1 perf ratio,others\n"
    "256x256,4.000000,4.000000,4.000000,1\n"
    "operator type,post op,operator name,input tensor name,input shape,input dtype,"
    "output tensor name,output shape,output dtype,weight shape,weight sparse ratio,sparse support,"
    "operator latency (ms),aim to weight sparse ratio,sparse kernel pref ratio,"
    "aim to sparse latency(ms)\n"
    "InnerProduct,,\"a, \"\"b\"\"\",x:0;w:0,8x256;256x256,fp32;fp32,y:0,8x256,fp32,256x256,0.00%,"
    "true,0.4, 90%,,\n"
    "Relu,,r,y:0,8x256,fp32,z:0,fp32,,,,0.1, ,,0.1\n";

static const char trace[] =
    "{\"otherData\":{},\"traceEvents\":["
    "{\"cat\":\"inference\",\"dur\":9,\"name\":\"model_inference\",\"ph\":\"X\",\"pid\":0,"
    "\"tid\":\"inference\",\"ts\":0},"
    "{\"cat\":\"iteration\",\"dur\":9,\"name\":\"Iteration0\",\"ph\":\"X\",\"pid\":0,"
    "\"tid\":\"Iteration\",\"ts\":0},"
    "{\"cat\":\"Conv\",\"dur\":9,\"name\":\"c\",\"ph\":\"X\",\"pid\":0,\"tid\":\"Operator\","
    "\"ts\":0,\"args\":{\"reshape_time\":\"0.003ms\",\"forward_time\":\"0.006ms\","
    "\"input_tensor_name\":\"x:0\",\"input_type\":\"fp32\",\"input_shape\":\"1*3\","
    "\"attributes\":\"append_op:relu;pads:1,1\"}}]}";

static const char flame[] =
    "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"shared\":{\"frames\":["
    "{\"name\":\"f\",\"file\":\"f.c\"}]},\"profiles\":[{\"type\":\"evented\",\"name\":\"p\","
    "\"unit\":\"seconds\",\"events\":[{\"type\":\"O\",\"frame\":0,\"at\":1},"
    "{\"type\":\"C\",\"frame\":0,\"at\":2}]},{\"type\":\"sampled\",\"name\":\"q\",\"unit\":"
    "\"none\","
    "\"samples\":[[0]],\"weights\":[1]}]}";

typedef int read_fn(struct store *st, const struct import_source *src, opm_error *err);

static int read_into(struct store **out, read_fn *read, const char *text, opm_error *err)
{
    struct import_source src = { .path = "text",
                                 .data = (const uint8_t *)text,
                                 .len = strlen(text) };
    int rc = store_new(out);

    if (rc < 0) {
        *out = NULL;
        err->code = rc;
        return rc;
    }
    src.count = 1;
    rc = read(*out, &src, err);
    return rc;
}

static void test_readers(void **state)
{
    static const struct {
        read_fn *read;
        const char *text;
        size_t nspan;
    } all[] = { { neural_engine_csv_read, profile, 3 },
                { neural_engine_json_read, trace, 4 },
                { speedscope_read, flame, 2 } };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        bool failed = true;

        for (long n = 1; failed; n = unit_next_failure(n)) {
            struct store *st = NULL;
            opm_error err = { 0 };
            int rc;

            mem_fail_at(n);
            rc = read_into(&st, all[i].read, all[i].text, &err);
            failed = mem_alloc_failed();
            mem_fail_at(0);
            if (rc != (failed ? OPM_ENOMEM : 0))
                fail_msg("reader %zu, allocation %ld: %d", i, n, rc);
            assert_int_equal(err.code, rc);
            if (!failed) {
                assert_int_equal(store_finish(st), 0);
                assert_int_equal(store_nrow(st, TABLE_span), all[i].nspan);
            }
            store_free(st);
        }
    }
}

static void test_writers(void **state)
{
    struct export_options opts = { .table = "op" };
    struct store *st = NULL;
    opm_error none = { 0 };

    (void)state;
    assert_int_equal(read_into(&st, neural_engine_csv_read, profile, &none), 0);
    assert_int_equal(store_finish(st), 0);
    setenv("OPMETER_CACHE", unit_path("cache"), 1);
    for (const struct exporter *e = exporters; e->name; e++) {
        bool failed = true, folder = strcmp(e->name, "cambricon") == 0;

        if (!can_write(e->name))
            continue;
        for (long n = 1; failed; n = unit_next_failure(n)) {
            opm_error err = { 0 };
            int rc;

            mem_fail_at(n);
            rc = e->write(st, unit_path(folder ? "folder" : "out"), &opts, &err);
            failed = mem_alloc_failed();
            mem_fail_at(0);
            if (!failed)
                assert_int_equal(rc, 0);
            else if (rc) /* what only makes it slower may be done without */
                assert_true(err.code == rc && err.msg[0]);
        }
    }
    store_free(st);
}

/* All tables to a folder and back. */
static void test_parquet_place(void **state)
{
    struct export_options opts = { .job = "j", .force = true };
    const char *place = unit_path("place");
    struct store *st = NULL;
    opm_error none = { 0 };
    bool failed = true;

    (void)state;
    assert_int_equal(read_into(&st, neural_engine_json_read, trace, &none), 0);
    assert_int_equal(store_finish(st), 0);
    for (long n = 1; failed; n = unit_next_failure(n)) {
        opm_error err = { 0 };
        int rc;

        mem_fail_at(n);
        rc = export_parquet(st, place, &opts, &err);
        failed = mem_alloc_failed();
        mem_fail_at(0);
        assert_true(failed || rc == 0);
        assert_true(!rc || (err.code == rc && err.msg[0]));
    }
    store_free(st);
    failed = true;
    for (long n = 1; failed; n = unit_next_failure(n)) {
        opm_error err = { 0 };
        int rc;

        assert_int_equal(store_new(&st), 0);
        mem_fail_at(n);
        rc = import_all(st, &place, 1, &(struct import_options){ 0 }, &err);
        failed = mem_alloc_failed();
        mem_fail_at(0);
        assert_true(failed || rc == 0);
        assert_true(!rc || (err.code == rc && err.msg[0]));
        if (!failed) {
            assert_int_equal(store_finish(st), 0);
            assert_int_equal(store_nrow(st, TABLE_span), 4);
        }
        store_free(st);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers),
        cmocka_unit_test(test_writers),
        cmocka_unit_test(test_parquet_place),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
