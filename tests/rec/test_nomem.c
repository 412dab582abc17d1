/* test_nomem.c -- opening a recording runs out of memory at every point: an error, and no leak. */
#include "rig.h"

#include "sample.h"

#include <sys/wait.h>

static const char *path;

/* Open and query whatever `path` is. */
static int open_it(void)
{
    opm_trace *t = NULL;
    opm_error err = { 0 };
    int rc = opm_trace_open(&t, &path, 1, NULL, &err);

    assert_int_equal(err.code, rc);
    if (rc)
        assert_null(t);
    opm_trace_close(t);
    return rc;
}

static void closed_recording(void **state)
{
    (void)state;
    path = rig_path("closed.opm");
    rig_start(path);
    sample_everything(1);
    sample_deep(260);
    rig_stop();
    unit_fail_each(open_it);
}

static int leave_live(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;

    (void)argc;
    options.path = argv[0];
    options.buffer_mb = 1;
    RIG_CHECK(opm_start(&options, NULL) == 0);
    sample_everything(1);
    sample_spans(5000);
    _exit(0);
}

static void killed_recording(void **state)
{
    (void)state;
    path = rig_path("killed.opm");
    rig_run(NULL, NULL, RIG_WORDS("leave", path));
    assert_true(rig_exists(rig_path("killed.opm-live")));
    unit_fail_each(open_it);
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = { { "leave", leave_live }, { NULL, NULL } };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_recording),
        cmocka_unit_test(killed_recording),
    };
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
