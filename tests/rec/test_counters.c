/* test_counters.c -- what is counted during operators, on processors that a test makes up. */
#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>

/* What a read() of a group gives: number, time enabled, time running, values. */
struct group {
    uint64_t n, enabled, running, value[3];
};

/* The processor: which types of events it has, and what every read adds. */
static struct {
    int hardware, misses, software; /* 0, or the errno that opening gives */
    uint64_t enabled, running;
} cpu;

static __thread struct group now;

struct perf_event {
    int fd;
    uint64_t dev, ino, id;
};

bool __wrap_opm__perf_open(struct perf_event *e, struct perf_event_attr *attr, int group);
bool __wrap_opm__perf_read(const struct perf_event *e, void *out, size_t size);
void __wrap_opm__perf_close(struct perf_event *e);

bool __wrap_opm__perf_open(struct perf_event *e, struct perf_event_attr *attr, int group)
{
    int why = attr->type == PERF_TYPE_SOFTWARE             ? cpu.software
              : attr->config == PERF_COUNT_HW_CACHE_MISSES ? cpu.misses
                                                           : cpu.hardware;

    if (why) {
        errno = why;
        return false;
    }
    if (group < 0)
        now = (struct group){ 0 };
    now.n++;
    *e = (struct perf_event){ .fd = open("/dev/null", O_RDONLY | O_CLOEXEC) };
    return e->fd >= 0;
}

bool __wrap_opm__perf_read(const struct perf_event *e, void *out, size_t size)
{
    (void)e;
    now.enabled += cpu.enabled;
    now.running += cpu.running;
    now.value[0] += 1000;
    now.value[1] += 2500;
    now.value[2] += 7;
    memcpy(out, &now, size);
    return true;
}

void __wrap_opm__perf_close(struct perf_event *e)
{
    close(e->fd);
}

static int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void start(const char *path)
{
    opm_options options = OPM_OPTIONS_INIT;

    options.path = path;
    options.counters = 1;
    assert_int_equal(opm_start(&options, NULL), 0);
}

static opm_op *define(const char *name)
{
    opm_op_info info = OPM_OP_INFO_INIT;

    info.name = name;
    info.type = "Conv";
    return opm_op_define(&info);
}

/* Record one operator three times, and open what came of it. */
static opm_trace *record(const char *name)
{
    opm_op *op = define("conv");

    start(rig_path(name));
    for (int i = 0; i < 3; i++)
        opm_op_end(opm_op_begin(op));
    rig_stop();
    opm_op_free(op);
    return rig_open(rig_path(name));
}

static void processor(int hardware, int misses, int software)
{
    cpu.hardware = hardware;
    cpu.misses = misses;
    cpu.software = software;
    cpu.enabled = cpu.running = 100;
}

static void all_of_it(void **state)
{
    opm_trace *t;

    (void)state;
    processor(0, 0, 0);
    t = record("hardware.opm");
    rig_expect(t, "SELECT name, args, count(*) FROM span GROUP BY 1, 2",
               "conv|{\"cycles\":1000,\"instructions\":2500,\"cache_misses\":7}|3\n");
    rig_expect(t, "SELECT count, cycles, instructions, ipc, cache_misses, cpu_ns FROM op_counters",
               "3|1000.0|2500.0|2.5|7.0|NULL\n");
    rig_expect(t,
               "SELECT key, value FROM meta WHERE key LIKE 'counters.%' AND key NOT LIKE '%cost%'",
               "counters.kind|hardware\ncounters.events|cycles,instructions,cache_misses\n"
               "counters.scope|calling thread, in user mode\n");
    opm_trace_close(t);
}

static void in_steps(void **state)
{
    opm_trace *t;

    (void)state;
    processor(0, ENOENT, 0);
    t = record("no_misses.opm");
    rig_expect(t, "SELECT DISTINCT args FROM span", "{\"cycles\":1000,\"instructions\":2500}\n");
    opm_trace_close(t);
    processor(ENOENT, ENOENT, 0);
    t = record("software.opm");
    rig_expect(t, "SELECT DISTINCT args FROM span",
               "{\"cpu_ns\":1000,\"page_faults\":2500,\"context_switches\":7}\n");
    rig_expect(t, "SELECT value FROM meta WHERE key = 'counters.reason'",
               "perf_event_open gives ENOENT: the processor shows no PMU, as in most virtual "
               "machines\n");
    opm_trace_close(t);
    processor(EACCES, EACCES, ENOSYS);
    t = record("none.opm");
    rig_expect(t, "SELECT name, args FROM span", "conv|NULL\nconv|NULL\nconv|NULL\n");
    rig_expect(t, "SELECT value FROM meta WHERE key = 'counters.kind'", "none\n");
    assert_int_equal(rig_int(t, "SELECT count(*) FROM meta WHERE key = 'counters.reason' AND value "
                                "LIKE 'perf_event_open gives EACCES: %%'"),
                     1);
    rig_expect(t, "SELECT count(*) FROM op_counters", "0\n");
    opm_trace_close(t);
}

/* More programs than counters: the kernel lets them take turns. */
static void shared_counters(void **state)
{
    opm_trace *t;

    (void)state;
    processor(0, 0, 0);
    cpu.running = 50;
    t = record("turns.opm");
    rig_expect(t, "SELECT DISTINCT args FROM span",
               "{\"cycles\":2000,\"instructions\":5000,\"cache_misses\":14}\n");
    opm_trace_close(t);
    cpu.running = 0;
    t = record("never.opm");
    rig_expect(t, "SELECT DISTINCT args FROM span", "NULL\n");
    opm_trace_close(t);
}

static void *work(void *op)
{
    opm_op_end(opm_op_begin(op));
    return NULL;
}

static void *end_it(void *span)
{
    opm_op_end(*(opm_span *)span);
    return NULL;
}

static void nested_and_threads(void **state)
{
    opm_op *outer = define("outer"), *inner = define("inner");
    int files = open_files();
    opm_span a, b;
    pthread_t thread;
    opm_trace *t;

    (void)state;
    processor(0, 0, 0);
    start(rig_path("nested.opm"));
    for (int i = 0; i < 20; i++) { /* operators that are left open inside take no place for ever */
        a = opm_op_begin(outer);
        b = opm_op_begin(inner);
        opm_op_end(opm_op_begin(inner));
        if (i % 2)
            opm_op_end(b);
        opm_op_end(a);
    }
    a = opm_op_begin(outer);
    assert_int_equal(pthread_create(&thread, NULL, work, inner), 0);
    pthread_join(thread, NULL);
    assert_int_equal(pthread_create(&thread, NULL, end_it, &a), 0); /* nothing to end there */
    pthread_join(thread, NULL);
    opm_op_end(a);
    rig_stop();
    t = rig_open(rig_path("nested.opm"));
    rig_expect(t,
               "SELECT name, json_extract(args, '$.cycles') AS cycles, count(*) FROM span "
               "GROUP BY 1, 2 ORDER BY 1, 2",
               "inner|NULL|10\ninner|1000|21\ninner|3000|10\nouter|1000|1\nouter|4000|10\n"
               "outer|5000|10\n");
    opm_trace_close(t);
    /* Threads that ended took their groups along; ours is open until another recording. */
    assert_true(open_files() <= files + 3);
    opm_op_free(outer);
    opm_op_free(inner);
}

static void unless_wanted(void **state)
{
    opm_op *op = define("conv");
    opm_trace *t;

    (void)state;
    processor(0, 0, 0);
    rig_start(rig_path("off.opm"));
    opm_op_end(opm_op_begin(op));
    rig_stop();
    opm_op_free(op);
    t = rig_open(rig_path("off.opm"));
    rig_expect(t, "SELECT args FROM span", "NULL\n");
    rig_expect(t, "SELECT count(*) FROM meta WHERE key LIKE 'counters.%'", "0\n");
    opm_trace_close(t);
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = { { NULL, NULL } };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it),       cmocka_unit_test(in_steps),
        cmocka_unit_test(shared_counters), cmocka_unit_test(nested_and_threads),
        cmocka_unit_test(unless_wanted),
    };
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
