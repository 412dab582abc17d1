/* instances.c -- several processes that run the same model at the same time.
 *
 * Each gets its part of the cores that we may use. A child reports through a pipe: one byte when it
 * is ready to measure, then its result. The parent lets them go when all are ready: they share a
 * second pipe, of which it closes the writing end. */
#include "run/run.h"

#include "base/alloc.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct report {
    int rc;
    opm_error err;
    struct run_result res;
};

struct child {
    pid_t pid;
    int fd; /* reading end of its pipe; -1: closed */
    bool ready, done;
};

struct gate {
    int out; /* the child's pipe */
    int go;  /* reading end of the common one */
};

static bool write_all(int fd, const void *p, size_t len)
{
    const char *at = p;

    while (len) {
        ssize_t n = write(fd, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool read_all(int fd, void *p, size_t len)
{
    char *at = p;

    while (len) {
        ssize_t n = read(fd, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

/* In the child: say that all is ready, then wait until the parent says go. Its end without a word
 * means that another one failed. */
static int wait_at_gate(void *user)
{
    const struct gate *g = user;
    char go;

    return !write_all(g->out, "r", 1) || !read_all(g->go, &go, 1);
}

/* Cores first, first + 1, ... of those that this process may use, count of them. */
static void take_cores(int first, int count)
{
    cpu_set_t all, mine;
    int seen = 0;

    if (sched_getaffinity(0, sizeof(all), &all) < 0)
        return;
    CPU_ZERO(&mine);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        if (seen >= first && seen < first + count)
            CPU_SET(cpu, &mine);
        seen++;
    }
    if (CPU_COUNT(&mine))
        sched_setaffinity(0, sizeof(mine), &mine); /* not allowed: they share */
}

static int core_count(void)
{
    cpu_set_t all;

    return sched_getaffinity(0, sizeof(all), &all) == 0 ? CPU_COUNT(&all) : 1;
}

static _Noreturn void be_child(const struct run_options *opt, const char *dir, int k, int n,
                               struct gate g)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    struct run_options mine = *opt;
    struct report *rep = mem_calloc(1, sizeof(*rep));
    int cores = core_count(), each = MAX(cores / n, 1);

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    take_cores(k * each % cores, each);
    mine.dir = dir;
    mine.instance = k;
    mine.instances = n;
    mine.threads = opt->threads ? opt->threads : each;
    mine.ready = wait_at_gate;
    mine.ready_user = &g;
    if (k) { /* the first one stands for all */
        mine.progress = NULL;
        mine.save_outputs = NULL;
        for (size_t i = 0; i < ARRAY_SIZE(signals); i++) /* nobody would ask whether one came */
            if (signal(signals[i], SIG_DFL) == SIG_IGN)
                signal(signals[i], SIG_IGN);
    }
    if (!rep)
        _exit(1);
    rep->rc = run_model(&mine, &rep->res, &rep->err);
    write_all(g.out, "d", 1);
    write_all(g.out, rep, sizeof(*rep));
    _exit(0);
}

static int start_child(struct child *c, const struct run_options *opt, const char *dir, int k,
                       int n, const int go[2], opm_error *err)
{
    int fd[2];

    if (pipe2(fd, O_CLOEXEC) < 0)
        return opm__fail(err, OPM_EIO, "instance %d: pipe: %s", k, strerror(errno));
    c->pid = fork();
    if (c->pid == 0) {
        close(fd[0]);
        close(go[1]);
        be_child(opt, dir, k, n, (struct gate){ fd[1], go[0] });
    }
    close(fd[1]);
    c->fd = fd[0];
    if (c->pid < 0) {
        close(fd[0]);
        c->fd = -1;
        return opm__fail(err, OPM_EIO, "instance %d: fork: %s", k, strerror(errno));
    }
    return 0;
}

/* Take what a child has to say. rc becomes the first failure. */
static void hear(struct child *c, int k, struct run_result *out, int *rc, opm_error *err)
{
    struct report *rep = mem_calloc(1, sizeof(*rep));
    char what = 0;

    if (rep && read_all(c->fd, &what, 1) && what == 'r') {
        c->ready = true;
        mem_free(rep);
        return;
    }
    c->done = true;
    if (rep && what == 'd' && read_all(c->fd, rep, sizeof(*rep))) {
        *out = rep->res;
        /* What others say after a failure is only its consequence. */
        if (rep->rc && !*rc)
            *rc = opm__fail(err, rep->rc, "%s", rep->err.msg);
    } else if (!*rc) {
        *rc = opm__fail(err, OPM_EIO, "instance %d ended without a result", k);
    }
    mem_free(rep);
    close(c->fd);
    c->fd = -1;
}

/* Until every child has said its last word; go[1] is the gate. */
static int hear_all(struct child *c, int n, int go, const struct run_options *opt,
                    struct run_result *out, opm_error *err)
{
    struct pollfd fds[RUN_INSTANCES_MAX];
    char bytes[RUN_INSTANCES_MAX];
    int rc = 0, open = n;
    bool gone = false;

    memset(bytes, 'g', sizeof(bytes));
    while (open) {
        int ready = 0;

        for (int i = 0; i < n; i++)
            fds[i] = (struct pollfd){ .fd = c[i].done ? -1 : c[i].fd, .events = POLLIN };
        if (poll(fds, (nfds_t)MIN(MAX(n, 0), RUN_INSTANCES_MAX), -1) < 0) {
            if (errno != EINTR)
                break;
            if (opt->progress && opt->progress(opt->user, 0, 0))
                for (int i = 0; i < n; i++)
                    kill(c[i].pid, SIGTERM);
            continue;
        }
        for (int i = 0; i < n; i++)
            if (!c[i].done && fds[i].revents)
                hear(&c[i], i, &out[i], &rc, err);
        open = 0;
        for (int i = 0; i < n; i++) {
            open += !c[i].done;
            ready += c[i].ready;
        }
        if (!gone && (rc || ready == n)) {
            if (!rc)
                write_all(go, bytes, (size_t)n);
            close(go); /* whoever waits without a byte gives up */
            gone = true;
        }
    }
    if (!gone)
        close(go);
    return rc;
}

int run_instances(const struct run_options *opt, const char *const *dir, int n,
                  struct run_result *out, opm_error *err)
{
    struct child child[RUN_INSTANCES_MAX];
    int go[2], started = 0, rc = 0;

    assert(n > 0 && n <= RUN_INSTANCES_MAX);
    if (pipe2(go, O_CLOEXEC) < 0)
        return opm__fail(err, OPM_EIO, "pipe: %s", strerror(errno));
    memset(child, 0, sizeof(child));
    for (; !rc && started < n; started += !rc)
        rc = start_child(&child[started], opt, dir[started], started, n, go, err);
    close(go[0]);
    if (rc) {
        close(go[1]);
        for (int i = 0; i < started; i++)
            kill(child[i].pid, SIGTERM);
    } else {
        rc = hear_all(child, n, go[1], opt, out, err);
    }
    for (int i = 0; i < started; i++) {
        if (child[i].fd >= 0 && !child[i].done)
            close(child[i].fd);
        waitpid(child[i].pid, NULL, 0);
    }
    return rc;
}
