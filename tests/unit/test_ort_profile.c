/* test_ort_profile.c -- ONNX Runtime's profile: order, bodies of If, dirt. */
#include "engine/ort/ort_int.h"
#include "unit.h"

#define NODE(name, type, ts, dur)                                                            \
    "{\"cat\" : \"Node\",\"pid\" :1,\"tid\" :1,\"dur\" :" #dur ",\"ts\" :" #ts ",\"ph\" : "  \
    "\"X\",\"name\" :\"" name "_kernel_time\",\"args\" : {\"op_name\" : \"" type             \
    "\",\"provider\" : \"CPUExecutionProvider\",\"input_type_shape\" : [{\"float\":[1,2]}]," \
    "\"node_index\" : \"6\",\"thread_scheduling_stats\" : {\"main_thread\": {\"core\": 1}}}}"
#define SESSION(name, ts, dur)                                                                  \
    "{\"cat\" : \"Session\",\"dur\" :" #dur ",\"ts\" :" #ts ",\"ph\" : \"X\",\"name\" :\"" name \
    "\",\"args\" : {}}"

/* As it is written: what is inside comes first; the If seems to end before its last node. */
static const char with_if[] =
    "[\n" SESSION("model_loading_uri", 2, 90) ",\n" NODE("a", "Conv", 110, 10) ",\n" NODE(
        "in/b", "Relu", 122,
        0) ",\n" NODE("in/c", "Add", 123,
                      7) ",\n" NODE("If_0", "If", 122,
                                    7) ",\n" NODE("a", "Conv", 210,
                                                  12) ",\n" SESSION("model_run", 100, 50) "\n]\n";

static void test_bodies(void **state)
{
    static const struct {
        const char *name;
        int64_t ts, dur;
    } want[] = { { "model_loading_uri", 2, 90 },
                 { "model_run", 100, 50 },
                 { "a", 110, 10 },
                 { "If_0", 122, 7 },
                 { "in/b", 122, 0 },
                 { "in/c", 123, 6 },
                 { "a", 210, 12 } };
    struct ort_profile p;

    (void)state;
    assert_int_equal(ort_profile_read(&p, with_if, sizeof(with_if) - 1, NULL), 0);
    assert_int_equal(p.nevent, ARRAY_SIZE(want));
    for (size_t i = 0; i < p.nevent; i++) {
        const struct ort_event *e = &p.event[i];
        const char *name = e->session ? p.session[e->node] : p.node[e->node].name;

        assert_string_equal(name, want[i].name);
        assert_int_equal(e->ts_us, want[i].ts);
        assert_int_equal(e->dur_us, want[i].dur);
        if (!e->session)
            assert_int_equal(p.node[e->node].has_body, strcmp(name, "If_0") == 0);
    }
    assert_int_equal(p.runs, 1);
    assert_int_equal(p.nnode, 4);
    assert_false(p.cut);
    assert_string_equal(p.node[0].in_shapes, "[{\"float\":[1,2]}]");
    assert_string_equal(p.node[0].provider, "CPUExecutionProvider");
    ort_profile_release(&p);
}

static void test_cut(void **state)
{
    struct ort_profile p;

    (void)state;
    for (size_t len = 1; len < sizeof(with_if) - 3; len++) {
        assert_int_equal(ort_profile_read(&p, with_if, len, NULL), 0);
        assert_true(p.cut);
        assert_true(p.nevent < 8);
        ort_profile_release(&p);
    }
    assert_int_equal(ort_profile_read(&p, "{}", 2, NULL), OPM_EFORMAT);
    assert_int_equal(ort_profile_read(&p, "", 0, NULL), OPM_EFORMAT);
}

static int read_step(void)
{
    struct ort_profile p;
    int rc = ort_profile_read(&p, with_if, sizeof(with_if) - 1, NULL);

    if (!rc)
        ort_profile_release(&p);
    return rc;
}

static void test_memory(void **state)
{
    (void)state;
    unit_fail_each(read_step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests_name("ort profile", tests, NULL, NULL);
}
