/* test_hot.c -- between begin and end of a warm span: no allocation, no system call. */
#include "rig.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static opm_site outer = OPM_SITE_INIT(OPM_APP, NULL, "outer");
static opm_site inner = OPM_SITE_INIT(OPM_RUNTIME, "cat", "inner");
static opm_op *op;

/* A few hundred spans of all warm kinds; less than a block holds. */
static void spans(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        opm_span a = opm_begin(&outer);
        opm_span b = opm_begin(&inner);

        opm_end(opm_begin(&inner));
        opm_end(b);
        opm_op_end(opm_op_begin(op));
        opm_end(a);
        OPM_SPAN(OPM_APP, "scope")
        {
        }
    }
}

enum { ROUNDS = 250, PER_ROUND = 5 };

static void warm_up(const char *path)
{
    opm_op_info info = OPM_OP_INFO_INIT;
    opm_options options = OPM_OPTIONS_INIT;

    info.name = "op";
    options.path = path;
    RIG_CHECK(opm_start(&options, NULL) == 0);
    op = opm_op_define(&info);
    spans(1);
}

/* ---- allocations: the linker sends them through here (--wrap) ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static _Thread_local unsigned allocations; /* of this thread: the writer may do as it likes */

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    allocations++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    allocations++;
    return __real_realloc(p, size);
}

static void no_allocation(void **state)
{
    unsigned cold;
    opm_trace *t;

    (void)state;
    allocations = 0;
    warm_up(rig_path("alloc.opm"));
    cold = allocations;
    assert_true(cold > 0); /* they are seen */
    allocations = 0;
    spans(ROUNDS);
    assert_int_equal(allocations, 0);
    rig_stop();
    opm_op_free(op);
    t = rig_open(rig_path("alloc.opm"));
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span"), (ROUNDS + 1) * PER_ROUND);
    opm_trace_close(t);
}

/* ---- system calls: a filter turns each into a signal ---- */

static volatile sig_atomic_t trapped, last_call;

static void trap(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    trapped++;
    last_call = info->si_syscall;
}

/* From here on, only what is needed to say how it went. */
static void filter_on(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { ARRAY_SIZE(code), code };
    struct sigaction action = { .sa_sigaction = trap, .sa_flags = SA_SIGINFO };

    sigaction(SIGSYS, &action, NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        _exit(77);
}

static int without_system_calls(int argc, char **argv)
{
    struct timespec t;
    int clock_traps, len;
    char said[32];

    (void)argc;
    warm_up(argv[0]);
    filter_on();
    clock_gettime(CLOCK_MONOTONIC, &t);
    clock_traps = trapped; /* on a machine without a usable counter, the time itself costs one */
    trapped = 0;
    if (strcmp(argv[1], "provoke") == 0)
        syscall(SYS_getppid);
    spans(ROUNDS);
    if (clock_traps && trapped <= 2 * ROUNDS * PER_ROUND)
        _exit(77);
    /* Not dprintf(), which calls writev() with musl. */
    len = snprintf(said, sizeof(said), "%d %d", (int)trapped, (int)last_call);
    _exit(write(STDOUT_FILENO, said, (size_t)len) != len);
}

static void no_system_call(void **state)
{
    struct rig_result r;
    char expected[32];
    opm_trace *t;

    (void)state;
#if RIG_ASAN || RIG_TSAN
    skip(); /* they make calls of their own */
#endif
    rig_run(&r, NULL, RIG_WORDS("filtered", rig_path("calls.opm"), "plain"));
    if (WIFEXITED(r.status) && WEXITSTATUS(r.status) == 77)
        skip();
    assert_int_equal(r.status, 0);
    assert_string_equal(r.out, "0 0");
    t = rig_open(rig_path("calls.opm"));
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span"), (ROUNDS + 1) * PER_ROUND);
    opm_trace_close(t);
    /* The filter does see them. */
    rig_run(&r, NULL, RIG_WORDS("filtered", rig_path("calls2.opm"), "provoke"));
    snprintf(expected, sizeof(expected), "1 %d", SYS_getppid);
    assert_string_equal(r.out, expected);
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = { { "filtered", without_system_calls },
                                                 { NULL, NULL } };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_allocation),
        cmocka_unit_test(no_system_call),
    };
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
