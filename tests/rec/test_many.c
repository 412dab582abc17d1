/* test_many.c -- so many spans that several threads read them back: each is where it was recorded,
 * in its step, with its argument. */
#include "rig.h"

#include <pthread.h>

enum { THREADS = 3, ROUNDS = 1000, SPANS = 100 };

static const char *const models[THREADS] = { "early", "late", "idle at first" };

static void *rounds(void *arg)
{
    static opm_site first = OPM_SITE_INIT(OPM_FRAMEWORK, "op", "first");
    static opm_site inner = OPM_SITE_INIT(OPM_RUNTIME, "kernel", "inner");
    size_t me = (size_t)(uintptr_t)arg;

    usleep((useconds_t)me * 1000);
    for (int round = 0; round < ROUNDS; round++) {
        opm_span step = opm_step_begin(models[me], round, round < 10 ? OPM_WARMUP : OPM_MEASURED);
        opm_span span = opm_begin(&first);

        opm_arg_int(span, "round", round);
        opm_arg_str(span, "model", models[me]);
        for (int i = 0; i < SPANS; i++)
            opm_end(opm_begin(&inner));
        opm_end(span);
        opm_step_end(step);
    }
    return NULL;
}

static void every_thread_has_its_own(void **state)
{
    const char *path = rig_path("many.opm");
    pthread_t thread[THREADS];
    opm_trace *t;

    (void)state;
    rig_start(path);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, rounds, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    rig_stop();
    t = rig_open(path);
    assert_string_equal(rig_losses(t), "");
    rig_expect(t, "SELECT name, count(*) FROM span GROUP BY name ORDER BY name",
               "early|1000\nfirst|3000\nidle at first|1000\ninner|300000\nlate|1000\n");
    rig_expect(t,
               "SELECT model, count(*), count(DISTINCT num), min(num), max(num), sum(warmup) "
               "FROM step GROUP BY model ORDER BY model",
               "early|1000|1000|0|999|10\nidle at first|1000|1000|0|999|10\n"
               "late|1000|1000|0|999|10\n");
    /* Numbers rise with time on each thread. */
    rig_expect(t,
               "SELECT count(*) FROM (SELECT num, lag(num) OVER (PARTITION BY model ORDER BY ts) "
               "AS before FROM step) WHERE num <> before + 1",
               "0\n");
    /* What a span says of itself is true of the step that it is in, and of its thread. */
    rig_expect(t,
               "SELECT count(*) FROM span AS s JOIN step AS p ON p.id = s.step WHERE s.name = "
               "'first' AND json_extract(s.args, '$.round') = p.num AND "
               "json_extract(s.args, '$.model') = p.model AND s.track = p.track",
               "3000\n");
    rig_expect(t,
               "SELECT count(*), min(n), max(n) FROM (SELECT count(*) AS n FROM span WHERE name = "
               "'inner' GROUP BY parent, step, track)",
               "3000|100|100\n");
    opm_trace_close(t);
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = { { NULL, NULL } };
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_thread_has_its_own) };
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
