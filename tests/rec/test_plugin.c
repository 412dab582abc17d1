/* test_plugin.c -- plugins that record are loaded and unloaded.
 *
 * Built twice: as it is, where a plugin's recorder is its own, and with RIG_EXPORTS, where the
 * program exports the recorder that is linked into it and plugins use that one. */
#include "rig.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

struct plugin {
    void *handle;
    int (*start)(const char *path);
    int (*stop)(void);
    void (*work)(int n);
    opm_span (*begin)(void);
};

static void *symbol(void *handle, const char *name, void *to)
{
    void *p = dlsym(handle, name);

    memcpy(to, &p, sizeof(p));
    return p;
}

static struct plugin plugin_load(const char *path)
{
    struct plugin p = { .handle = dlopen(path, RTLD_NOW | RTLD_LOCAL) };

    if (!p.handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    symbol(p.handle, "plugin_start", &p.start);
    symbol(p.handle, "plugin_stop", &p.stop);
    symbol(p.handle, "plugin_work", &p.work);
    symbol(p.handle, "plugin_begin", &p.begin);
    return p;
}

/* True if the code is gone for good. */
static bool plugin_unload(const struct plugin *p)
{
    void *address;
    Dl_info info;

    memcpy(&address, &p->work, sizeof(address));
    if (dlclose(p->handle) != 0)
        return false;
    return dladdr(address, &info) == 0;
}

struct meeting {
    struct plugin *plugin;
    pthread_barrier_t worked, unloaded;
};

/* Records in the plugin, and outlives it. */
static void *outlive(void *arg)
{
    struct meeting *m = arg;

    m->plugin->work(10);
    pthread_barrier_wait(&m->worked);
    pthread_barrier_wait(&m->unloaded);
    return NULL;
}

static void unload_under_thread(struct plugin *p)
{
    struct meeting m = { .plugin = p };
    pthread_t thread;

    pthread_barrier_init(&m.worked, NULL, 2);
    pthread_barrier_init(&m.unloaded, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, outlive, &m), 0);
    pthread_barrier_wait(&m.worked);
    assert_true(plugin_unload(p));
    pthread_barrier_wait(&m.unloaded);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void expect_work(const char *path, int64_t n)
{
    opm_trace *t = rig_open(path);

    assert_int_equal(
        rig_int(t, "SELECT count(*) FROM span WHERE name = 'plugin work' AND dur >= 0"), n);
    assert_int_equal(rig_int(t, "SELECT count(*) FROM sample s JOIN track t ON t.id = s.track "
                                "WHERE t.name = 'plugin counter'"),
                     n);
    assert_string_equal(rig_losses(t), "");
    assert_int_equal(rig_stat(t, "not_closed"), 0);
    opm_trace_close(t);
}

#ifndef RIG_EXPORTS

static void stopped_then_unloaded(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct plugin p = plugin_load(PLUGIN_RECORDER);

        assert_int_equal(p.start(rig_path("stopped.opm")), 0);
        assert_false(opm_on(OPM_APP)); /* ours is another one */
        p.work(5);
        assert_int_equal(p.stop(), 0);
        assert_true(plugin_unload(&p));
        expect_work(rig_path("stopped.opm"), 5);
    }
}

static void unloaded_while_recording(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct plugin p = plugin_load(PLUGIN_RECORDER);

        assert_int_equal(p.start(rig_path("unloaded.opm")), 0);
        p.work(5);
        assert_true(plugin_unload(&p));
        expect_work(rig_path("unloaded.opm"), 5);
        assert_false(rig_exists(rig_path("unloaded.opm-live")));
    }
}

static void threads_outlive_it(void **state)
{
    struct plugin p = plugin_load(PLUGIN_RECORDER);

    (void)state;
    assert_int_equal(p.start(rig_path("outlived.opm")), 0);
    unload_under_thread(&p);
    expect_work(rig_path("outlived.opm"), 10);
}

static void two_recorders(void **state)
{
    static opm_site site = OPM_SITE_INIT(OPM_APP, NULL, "of the program");
    struct plugin p = plugin_load(PLUGIN_RECORDER);
    opm_trace *t;
    pid_t pid;
    int status;

    (void)state;
    rig_start(rig_path("program.opm"));
    assert_int_equal(p.start(rig_path("plugin.opm")), 0);
    OPM_SPAN(OPM_APP, "around")
    {
        p.work(3);
        opm_end(opm_begin(&site));
    }
    pid = fork(); /* both see it, both let go */
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(plugin_unload(&p));
    pid = fork(); /* and nobody calls into what is gone */
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    opm_end(opm_begin(&site));
    rig_stop();
    expect_work(rig_path("plugin.opm"), 3);
    t = rig_open(rig_path("program.opm"));
    rig_expect(t, "SELECT name, depth FROM span ORDER BY id",
               "around|0\nof the program|1\nof the program|0\n");
    opm_trace_close(t);
}

static void *work_inside(void *plugin)
{
    struct plugin *p = plugin;

    for (int i = 0; i < 500; i++)
        OPM_SPAN(OPM_FRAMEWORK, "around")
        {
            p->work(2);
        }
    return NULL;
}

/* What two recorders saw of one process lies on the same tracks, and what one saw inside of what
 * the other saw is inside, though each has its own idea of how fast the clock goes. */
static void two_recorders_merged(void **state)
{
    struct plugin p = plugin_load(PLUGIN_RECORDER);
    const char *paths[] = { rig_path("outer.opm"), rig_path("inner.opm"), rig_path("copy.opm") };
    pthread_t thread;
    opm_trace *t = NULL;

    (void)state;
    rig_start(paths[0]);
    work_inside(&p);
    usleep(30000); /* the first one's clock is known over a longer time */
    assert_int_equal(p.start(paths[1]), 0);
    assert_int_equal(pthread_create(&thread, NULL, work_inside, &p), 0);
    work_inside(&p);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(p.stop(), 0);
    usleep(10000);
    rig_stop();
    assert_true(plugin_unload(&p));
    for (int order = 0; order < 2; order++) {
        const char *in_order[] = { paths[order], paths[!order] };

        assert_int_equal(opm_trace_open(&t, in_order, 2, NULL, NULL), 0);
        rig_expect(t, "SELECT count(*) FROM track WHERE kind = 'thread'", "2\n");
        rig_expect(
            t,
            "SELECT a.name, b.name, count(*) FROM span a LEFT JOIN span b ON a.parent = b.id "
            "GROUP BY 1, 2 ORDER BY 1",
            "around|NULL|1500\nplugin work|around|2000\n");
        assert_int_equal(rig_stat(t, "overlapping_span"), 0);
        assert_string_equal(rig_losses(t), "");
        opm_trace_close(t);
    }
    /* A copy is not another recorder: it tells of the same run, which counts once. */
    rig_copy(paths[0], paths[2]);
    assert_int_equal(opm_trace_open(&t, (const char *[]){ paths[0], paths[2] }, 2, NULL, NULL), 0);
    rig_expect(t, "SELECT count(*) FROM track WHERE kind = 'thread'", "2\n");
    opm_trace_close(t);
}

/* PLUGIN_RECORDER starts when it is loaded, because the environment says so; this program has no
 * recorder that would. */
static int load_automatic(int argc, char **argv)
{
    struct plugin p = plugin_load(PLUGIN_RECORDER);

    (void)argc;
    p.work(4);
    if (strcmp(argv[0], "unload") == 0)
        RIG_CHECK(plugin_unload(&p));
    return 0;
}

static void by_environment(void **state)
{
    char output[600];
    const char *env[] = { output, NULL };
    static const char *const ways[] = { "unload", "exit" };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        char name[64];
        struct rig_result r;
        opm_trace *t;
        int64_t found = 0;

        snprintf(output, sizeof(output), "OPMETER_OUTPUT=%s", rig_path("auto.opm"));
        rig_run(&r, env, RIG_WORDS("automatic", ways[i]));
        assert_int_equal(r.status, 0);
        assert_string_equal(r.err, "");
        /* The program itself has a recorder, too, and was first; the plugin's took the next name.
         */
        snprintf(name, sizeof(name), "auto-%d.opm", (int)r.pid);
        t = rig_open(rig_path(name));
        found = rig_int(t, "SELECT count(*) FROM span WHERE name = 'plugin work' AND dur >= 0");
        opm_trace_close(t);
        assert_int_equal(found, 4);
    }
}

#else

static void sites_go_away(void **state)
{
    static opm_site site = OPM_SITE_INIT(OPM_APP, NULL, "of the program");
    opm_trace *t;

    (void)state;
    rig_start(rig_path("sites.opm"));
    for (int i = 0; i < 20; i++) {
        struct plugin p = plugin_load(PLUGIN_SITES);
        opm_span span = opm_begin(&site);

        p.work(3);
        p.begin();
        assert_true(plugin_unload(&p));
        opm_end(span); /* takes the plugin's with it, whose site is gone */
    }
    rig_stop();
    t = rig_open(rig_path("sites.opm"));
    rig_expect(t,
               "SELECT name, cat, layer, depth, count(*), min(dur) >= 0 FROM span "
               "GROUP BY name ORDER BY name",
               "left open by plugin|plugin|app|1|20|1\n"
               "of the program|NULL|app|0|20|1\n"
               "plugin work|plugin|framework|1|60|1\n");
    assert_int_equal(rig_stat(t, "ended_by_parent"), 20);
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);
}

static void threads_outlive_it(void **state)
{
    struct plugin p = plugin_load(PLUGIN_SITES);

    (void)state;
    rig_start(rig_path("outlived.opm"));
    unload_under_thread(&p);
    rig_stop();
    expect_work(rig_path("outlived.opm"), 10);
}

/* A plugin that brings a recorder along uses the program's, as the linker arranges it. */
static void recorder_is_shared(void **state)
{
    struct plugin p = plugin_load(PLUGIN_RECORDER);

    (void)state;
    rig_start(rig_path("shared.opm"));
    assert_int_equal(p.start(rig_path("never.opm")), 1);
    p.work(7);
    assert_true(plugin_unload(&p));
    assert_true(opm_on(OPM_APP));
    rig_stop();
    rig_stop();
    assert_false(rig_exists(rig_path("never.opm")));
    expect_work(rig_path("shared.opm"), 7);
}

#endif

int main(int argc, char **argv)
{
#ifndef RIG_EXPORTS
    static const struct rig_child children[] = { { "automatic", load_automatic }, { NULL, NULL } };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_then_unloaded), cmocka_unit_test(unloaded_while_recording),
        cmocka_unit_test(threads_outlive_it),    cmocka_unit_test(two_recorders),
        cmocka_unit_test(two_recorders_merged),  cmocka_unit_test(by_environment),
    };
#else
    static const struct rig_child children[] = { { NULL, NULL } };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sites_go_away),
        cmocka_unit_test(threads_outlive_it),
        cmocka_unit_test(recorder_is_shared),
    };
#endif
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
