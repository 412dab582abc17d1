/* test_absurd.c -- arguments that make no sense are answered at once, and never crash. */
#include "rig.h"

#include <limits.h>
#include <sys/stat.h>

static opm_site work = OPM_SITE_INIT(OPM_APP, NULL, "work");

static void tensors(void **state)
{
    static const int64_t odd[] = { -1, INT64_MIN, INT64_MAX, INT64_MAX, 0 };
    const opm_tensor all[] = {
        { "no dims", "fp32", NULL, 4, OPM_INPUT, -1 },
        { "a million dims", "fp32", odd, 1000000, OPM_WEIGHT, -1 },
        { "odd dims", "fp32", odd, 5, OPM_OUTPUT, INT64_MAX },
        { NULL, NULL, odd + 2, 2, OPM_INPUT, INT64_MIN },
    };
    opm_op_info info = OPM_OP_INFO_INIT;
    opm_op *op, *op2, *none;
    opm_trace *t;

    (void)state;
    rig_start(rig_path("tensors.opm"));
    info.name = "op";
    info.tensors = all;
    info.ntensors = ARRAY_SIZE(all);
    info.flops = INT64_MAX;
    op = opm_op_define(&info);
    opm_op_end(opm_op_begin(op));
    info.tensors = NULL;
    info.ntensors = UINT32_MAX;
    info.name = info.type = NULL;
    none = opm_op_define(&info);
    opm_op_end(opm_op_begin(none));
    op2 = opm_op_define(NULL);
    opm_op_end(opm_op_begin(op2));
    rig_stop();
    opm_op_free(op);
    opm_op_free(none);
    opm_op_free(op2);
    t = rig_open(rig_path("tensors.opm"));
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span"), 3);
    assert_int_equal(rig_int(t, "SELECT count(*) FROM op_tensor"), 4);
    rig_rows(t, "SELECT * FROM op_tensor");
    rig_rows(t, "SELECT * FROM op_stats");
    opm_trace_close(t);
}

static void names(void **state)
{
    size_t len = (size_t)1 << (RIG_ASAN || RIG_TSAN ? 24 : 28);
    char *huge = malloc(len + 1);
    opm_site site = OPM_SITE_INIT(OPM_APP, NULL, NULL);
    opm_op_info info = OPM_OP_INFO_INIT;
    opm_op *op;
    opm_trace *t;

    (void)state;
    assert_non_null(huge);
    memset(huge, 'x', len);
    huge[len] = '\0';
    rig_start(rig_path("names.opm"));
    opm_end(opm_begin(&site)); /* no name: not recorded */
    site.name = huge;
    opm_end(opm_begin(&site));
    opm_end(opm_begin_named(OPM_APP, huge, huge, len));
    opm_end(opm_begin_named(OPM_APP, NULL, NULL, 5));
    info.name = info.type = info.attributes = huge;
    op = opm_op_define(&info);
    opm_op_end(opm_op_begin(op));
    opm_meta(huge, huge);
    opm_thread_name(huge);
    opm_meta(NULL, NULL);
    opm_end(opm_step_begin(NULL, 1, OPM_MEASURED));
    opm_queue_free(opm_queue_define(NULL, -1));
    opm_track_free(opm_track_define(NULL, NULL, NULL, OPM_CLOCK_MONOTONIC));
    rig_stop();
    opm_op_free(op);
    free(huge);
    t = rig_open(rig_path("names.opm"));
    assert_int_equal(rig_int(t, "SELECT max(length(name)) FROM span"), 1 << 20);
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);
}

static void fails_at_once(const char *path, const char *why)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_error err = { 0 };

    options.path = path;
    assert_int_equal(opm_start(&options, &err), OPM_EINVAL);
    if (!strstr(err.msg, why))
        fail_msg("%s: %s", path, err.msg);
    assert_false(opm_on(OPM_APP));
}

static void paths(void **state)
{
    char *huge = malloc((size_t)1 << 20);
    opm_trace *t;

    (void)state;
    assert_non_null(huge);
    memset(huge, 'x', (size_t)1 << 20);
    huge[(1 << 20) - 1] = '\0';
    assert_int_equal(mkdir(rig_path("folder"), 0755), 0);
    assert_int_equal(mkdir(rig_path("folder.json"), 0755), 0);
    fails_at_once("", "empty");
    fails_at_once(huge, "bytes or more");
    fails_at_once(rig_path("folder"), "a folder");
    fails_at_once(rig_path("folder/"), "a folder");
    fails_at_once(rig_path("folder.json"), "a folder");
    fails_at_once(rig_path("none/"), "a folder");
    fails_at_once(".", "a folder");
    free(huge);

    /* A name without extension is recorded to, as it is. */
    rig_start(rig_path("plain"));
    opm_end(opm_begin(&work));
    rig_stop();
    t = rig_open(rig_path("plain"));
    rig_expect(t, "SELECT name FROM span", "work\n");
    opm_trace_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors),
        cmocka_unit_test(names),
        cmocka_unit_test(paths),
    };

    return rig_group(tests);
}
