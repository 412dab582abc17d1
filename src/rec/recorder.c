/* recorder.c -- starting, stopping, forking, exiting. */
#include "rec/rec.h"

#include "base/environment.h"

#include "format/crc32c.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_MB_DEFAULT 32
#define BUFFER_MB_MIN 1
#define BUFFER_MB_MAX 65536
#define STUCK_NS 5000000000

/* There where the program was built with ThreadSanitizer. */
extern void __tsan_init(void) __attribute__((weak));

struct recorder opm__recorder = { .control = PTHREAD_MUTEX_INITIALIZER,
                                  .lock = PTHREAD_MUTEX_INITIALIZER,
                                  .io_lock = PTHREAD_MUTEX_INITIALIZER,
                                  .file = { .fd = -1 },
                                  .live = { .fd = -1 } };

static pthread_key_t exit_key;
static bool exit_key_made;
static opm_error start_error;      /* of a start from the environment, for the report at exit */
static opm_options forked_options; /* what a forked child starts with */
static char *forked_path;
static char *forked_categories;
static bool forked_by_env; /* the environment wants files of it, too */

static void set_layers(struct recorder *r)
{
    uint32_t state = atomic_load(&r->state);
    bool on = (state == RECORDER_ON || state == RECORDER_FORKED) && !r->paused &&
              !atomic_load(&r->live_gone);

    __atomic_store_n(&opm__layers, on ? r->layers : 0, __ATOMIC_RELEASE);
}

static int start_quietly(const opm_options *opts, bool child, opm_error *err);

static void child_failed(const struct recorder *r, const opm_error *err)
{
    opm__account_failed(err->msg);
    if (r->automatic)
        start_error = *err;
}

static int interrupted(opm_error *err)
{
    return opm__fail(err, OPM_EBUSY, "called from a signal handler that interrupted recording");
}

/* First event of a forked child: record into a file of its own. */
static void child_start(void)
{
    struct recorder *r = &opm__recorder;
    struct guard g;

    opm__lock(&r->control, &g);
    if (atomic_load(&r->state) == RECORDER_FORKED) {
        opm_error err;
        int nested = r->nested;

        atomic_store(&r->state, RECORDER_OFF);
        if (start_quietly(&forked_options, true, &err) == 0)
            r->nested = nested;
        else
            child_failed(r, &err);
    }
    opm__unlock(&r->control, &g);
}

static bool slow_enter(_Atomic uint64_t *lost)
{
    struct recorder *r = &opm__recorder;
    struct hot *h = &opm__hot;

    if (UNLIKELY(atomic_load_explicit(&h->inside, memory_order_relaxed)) && opm__interrupting()) {
        if (atomic_load_explicit(&r->state, memory_order_relaxed) == RECORDER_ON)
            atomic_fetch_add_explicit(lost, 1, memory_order_relaxed);
        return false;
    }
    if (UNLIKELY(atomic_load_explicit(&r->state, memory_order_relaxed) == RECORDER_FORKED))
        child_start();
    atomic_store_explicit(&h->inside, (uintptr_t)__builtin_frame_address(0), memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    /* Sequentially consistent on both sides: either stopping sees us, or we see it. */
    atomic_fetch_add(&r->slow, 1);
    h->counted = true;
    if (LIKELY(atomic_load(&r->state) == RECORDER_ON))
        return true;
    opm__slow_leave();
    return false;
}

bool opm__slow_enter(void)
{
    return slow_enter(&opm__recorder.lost_other);
}

bool opm__slow_enter_span(void)
{
    return slow_enter(&opm__recorder.lost);
}

void opm__slow_leave(void)
{
    struct hot *h = &opm__hot;

    h->counted = false;
    atomic_fetch_sub_explicit(&opm__recorder.slow, 1, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&h->inside, 0, memory_order_relaxed);
}

/* How often the calling thread came to its end: what ends later may record again, but we are called
 * for that only so many times. After the last one nothing is recorded, also by handlers of signals
 * that come until the thread is gone: nothing would take it off the list. */
static OPM__THREAD unsigned exits;

/* ThreadSanitizer forgets the thread when it is called for the last time: what calls it after that,
 * a lock too, crashes. */
static unsigned exits_max(void)
{
    return __tsan_init ? PTHREAD_DESTRUCTOR_ITERATIONS - 1 : PTHREAD_DESTRUCTOR_ITERATIONS;
}

static void thread_exit(void *unused)
{
    struct hot *h = &opm__hot;

    (void)unused;
    opm__thread_recover();
    opm__counters_leave();
    if (++exits < exits_max())
        pthread_setspecific(exit_key, h); /* to be called again, whether it records or not */
    if (!atomic_load_explicit(&h->generation, memory_order_relaxed))
        return;
    if (!opm__slow_enter()) {
        opm__thread_forget(h);
        return;
    }
    if (atomic_load_explicit(&h->generation, memory_order_relaxed) ==
        atomic_load_explicit(&opm__recorder.generation, memory_order_relaxed))
        opm__thread_leave(h);
    opm__slow_leave();
}

bool opm__thread_watch(void)
{
    if (exits >= exits_max())
        return false;
    return !exit_key_made || pthread_setspecific(exit_key, &opm__hot) == 0;
}

void opm_thread_name(const char *name)
{
    if (!name || !opm__slow_enter())
        return;
    struct recorder *r = &opm__recorder;
    struct hot *h = &opm__hot;

    if (atomic_load(&h->generation) == atomic_load(&r->generation) || opm__thread_enter(h)) {
        struct guard g;

        opm__lock(&r->lock, &g);
        opm__define_thread(r, atomic_load(&h->serial), (int)gettid(), name);
        opm__unlock(&r->lock, &g);
    }
    opm__slow_leave();
}

/* ---- start ---- */

static int64_t env_int(const char *name, int64_t fallback)
{
    const char *text = environment_get(name);
    char *end;
    long long v;

    if (!text)
        return fallback;
    v = strtoll(text, &end, 10);
    return *end ? fallback : v;
}

/* OPMETER_LEVEL; else, where that is what asks for a recording, as TensorFlow models say it. */
static int32_t env_level(void)
{
    int tensorflow = environment_tensorflow_level();

    return (int32_t)env_int("OPMETER_LEVEL", tensorflow ? tensorflow : 3);
}

static opm_options options_of(const opm_options *given)
{
    opm_options o = OPM_OPTIONS_INIT;
    const char *output = environment_get("OPMETER_OUTPUT");

    if (given)
        memcpy(&o, given, given->size);
    if (!o.path)
        o.path = output ? output : "opmeter.opm";
    if (!o.categories)
        o.categories = environment_get("OPMETER_CATEGORIES");
    if (o.categories && !*o.categories)
        o.categories = NULL;
    if (!o.buffer_mb)
        o.buffer_mb = (uint32_t)MIN(
            MAX(env_int("OPMETER_BUFFER_MB", BUFFER_MB_DEFAULT), BUFFER_MB_MIN), BUFFER_MB_MAX);
    o.buffer_mb = MIN(o.buffer_mb, BUFFER_MB_MAX);
    if (o.level < 0)
        o.level = env_level();
    if (o.counters != 1)
        o.counters = env_int("OPMETER_COUNTERS", 0) == 1;
    return o;
}

static uint32_t level_layers(int32_t level)
{
    return level <= 0 ? 0u : level == 1 ? 1u : level == 2 ? 3u : 15u;
}

/* What a failed start leaves behind, and what a stop has to let go of. */
static void recorder_clean(struct recorder *r)
{
    if (!r->stuck)
        opm__define_release(r);
    opm__writer_release(r);
    opm__files_release(r);
    free(r->categories);
    free(r->redact);
    free(r->convert_to);
    opm__outputs_release(&r->outputs);
    r->categories = NULL;
    r->redact = NULL;
    r->convert_to = NULL;
}

static void counters_reset(struct recorder *r)
{
    atomic_store(&r->spans, 0);
    atomic_store(&r->lost, 0);
    atomic_store(&r->lost_other, 0);
    atomic_store(&r->live_gone, false);
    atomic_store(&r->no_room, 0);
    atomic_store(&r->unbalanced_ends, 0);
    atomic_store(&r->closed_by_parent, 0);
    atomic_store(&r->nthreads, 0);
    atomic_store(&r->write_errno, 0);
    atomic_store(&r->failing, false);
    r->next_id = 1;
    r->defs_block = OPM_NO_BLOCK;
    r->defs_seq = 0;
    r->span_cost_ps = 0;
    r->size = 0;
    r->stopped_by = STOPPED_NOT;
    r->live_stays = false;
}

/* What no file can be made of is said before anything is tried. */
static int path_check(const char *path, opm_error *err)
{
    size_t len = strnlen(path, PATH_MAX);
    struct stat st;

    if (!len)
        return opm__fail(err, OPM_EINVAL, "the path to record to is empty");
    if (len == PATH_MAX)
        return opm__fail(err, OPM_EINVAL, "%.40s...: a path of %d bytes or more", path, PATH_MAX);
    if (path[len - 1] == '/' || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
        return opm__fail(err, OPM_EINVAL, "%s: a folder; it must be a file to record to", path);
    return 0;
}

struct start_args {
    const opm_options *opts; /* complete */
    bool child;
    bool by_env; /* the environment may want other files of it, too */
};

/* In the writer: everything that needs descriptors. */
static int start_open(struct recorder *r, const void *arg, opm_error *err)
{
    const struct start_args *a = arg;
    uint64_t budget = (uint64_t)a->opts->buffer_mb << 20;
    int rc = 0;

    opm__clock_init();
    opm__account_open();
    if (a->by_env)
        rc = opm__outputs_plan(&r->outputs, a->child, err);
    if (environment_get("OPMETER_OUTPUT"))
        rc = 0; /* the recording itself goes on; what failed is told at the end */
    if (rc == 0)
        rc = path_check(r->outputs.only ? r->outputs.record : a->opts->path, err);
    if (rc == 0)
        rc = opm__files_open(r, r->outputs.only ? r->outputs.record : a->opts->path,
                             a->child && !r->outputs.only, budget - budget / 8, err);
    if (rc)
        return rc;
    atomic_fetch_add(&r->generation, 1);
    opm__describe_machine(r);
    opm__counters_choose(r, a->opts->counters == 1);
    return 0;
}

/* Without memory for what is to be left out there is no recording: it would hold it. */
static int redact_plan(struct recorder *r, opm_error *err)
{
    const char *list = environment_get("OPMETER_REDACT");

    r->redact = list ? strdup(list) : NULL;
    return list && !r->redact ? opm__fail(err, OPM_ENOMEM, "OPMETER_REDACT: out of memory") : 0;
}

/* Under control, nothing being recorded. */
static int start_locked(const opm_options *opts, bool child, opm_error *err)
{
    struct recorder *r = &opm__recorder;
    opm_options o = options_of(opts);
    /* A start that names its own file has nothing to do with the environment. */
    struct start_args args = { .opts = &o,
                               .child = child,
                               .by_env =
                                   child ? forked_by_env : r->automatic && !(opts && opts->path) };
    int rc;

    free(r->path);
    free(r->before);
    r->path = NULL;
    r->before = NULL;
    counters_reset(r);
    atomic_store(&r->first_serial, r->last_serial + 1);
    if (!child)
        r->paused = 0;
    r->layers = level_layers(o.level);
    r->overflow = o.overflow;
    r->names_max = ((size_t)o.buffer_mb << 20) / 16;
    r->categories = o.categories ? strdup(o.categories) : NULL;
    rc = redact_plan(r, err);
    /* The folder that a privileged program happens to be in is the choice of its user. */
    if (environment_privileged() && !(opts && opts->path))
        rc = opm__fail(err, OPM_EINVAL,
                       "a privileged program must name the file to record to: opm_options.path");
    if (rc == 0)
        rc = opm__writer_start(r, start_open, &args, err);
    if (rc) {
        opm__live_retire(r);
        if (r->file.path)
            opm__own_unlink(&r->file);
        recorder_clean(r);
        free(r->path);
        r->path = NULL;
        set_layers(r);
        return rc;
    }
    opm__bus_watch();
    atomic_store(&r->state, RECORDER_ON);
    r->nested = 1;
    set_layers(r);
    return 0;
}

void opm__signals_off(sigset_t *old)
{
    sigset_t all;

    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* of a store into our own mapping: not to be held back */
    pthread_sigmask(SIG_BLOCK, &all, old);
}

void opm__signals_restore(const sigset_t *old)
{
    struct timespec zero = { 0, 0 };
    sigset_t xfsz;

    sigemptyset(&xfsz);
    sigaddset(&xfsz, SIGXFSZ);
    if (!sigismember(old, SIGXFSZ))
        sigtimedwait(&xfsz, NULL, &zero);
    pthread_sigmask(SIG_SETMASK, old, NULL);
}

/* The writer thread inherits the empty signal mask: the program's handlers never run on it. */
static int start_quietly(const opm_options *opts, bool child, opm_error *err)
{
    sigset_t old;
    int rc;

    opm__signals_off(&old);
    rc = start_locked(opts, child, err);
    opm__signals_restore(&old);
    return rc;
}

int opm_start(const opm_options *opts, opm_error *err)
{
    struct recorder *r = &opm__recorder;
    struct guard g;
    int rc;

    if (opts && (opts->size < sizeof(size_t) || opts->size > sizeof(*opts)))
        return opm__fail(err, opts->size > sizeof(*opts) ? OPM_EVERSION : OPM_EINVAL,
                         "opm_options.size is %zu, this library knows %zu", opts->size,
                         sizeof(*opts));
    if (opm__interrupting())
        return interrupted(err);
    if (atomic_load(&r->state) == RECORDER_FORKED)
        child_start();
    opm__lock(&r->control, &g);
    if (atomic_load(&r->state) == RECORDER_ON) {
        r->nested++;
        rc = 1;
    } else if (r->stuck) {
        rc = opm__fail(err, OPM_EBUSY,
                       "a thread left an earlier recording by a jump out of a signal handler and "
                       "never came back: no other one can be made");
    } else {
        rc = start_quietly(opts, false, err);
    }
    opm__unlock(&r->control, &g);
    return rc;
}

/* ---- stop ---- */

/* 0, or what went wrong with the files of a recording that has ended. */
static int stop_tell(const struct recorder *r, opm_error *err)
{
    static const char *const reasons[] = {
        [STOPPED_NOT] = NULL,
        [STOPPED_NOT_OURS] = "replaced by another file while recording",
        [STOPPED_TRUNCATED] = "cut short by another program while recording",
        [STOPPED_DELETED] = "deleted while recording; nothing of it is left",
    };
    int write_errno = atomic_load(&r->write_errno);
    const char *reason = reasons[r->stopped_by];
    unsigned long long lost = atomic_load(&r->lost) + atomic_load(&r->no_room);

    if (atomic_load(&r->live_gone))
        return opm__fail(err, OPM_EIO,
                         "%s-live: cut short by another program while recording, which ended it "
                         "there; how many spans are lost is not known",
                         r->path);
    if (r->stopped_by == STOPPED_DELETED)
        return opm__fail(err, OPM_EIO, "%s: %s", r->path, reason);
    if (!reason && write_errno)
        reason = strerror(write_errno);
    if (!reason)
        return 0;
    return opm__fail(err, OPM_EIO, "%s: %s; %llu spans lost%s", r->path, reason, lost,
                     r->live_stays ? "; what could not be written is in the -live file beside it"
                                   : "");
}

/* Wait for those in a slow path. None takes long; but one that a signal interrupted may never
 * go on, and then its thread does not tell before it records again or ends. False: there is
 * one. */
static bool slow_drain(struct recorder *r)
{
    int64_t start_ns = clock_ns(CLOCK_MONOTONIC);

    while (atomic_load(&r->slow)) {
        if (clock_ns(CLOCK_MONOTONIC) - start_ns > STUCK_NS)
            return false;
        sched_yield();
    }
    return true;
}

/* Under control. */
static int stop_locked(struct recorder *r, opm_error *err)
{
    sigset_t old;
    bool stuck;
    int rc;

    opm__signals_off(&old);
    __atomic_store_n(&opm__layers, 0, __ATOMIC_RELEASE);
    atomic_store(&r->counters, NULL);
    atomic_store(&r->state, RECORDER_STOPPING);
    atomic_fetch_add(&r->freed, 1);
    opm__futex_wake(&r->freed, INT32_MAX);
    stuck = !slow_drain(r);
    opm__writer_stop(r);
    if (stuck)
        opm__live_leave(r, true);
    else
        opm__live_retire(r);
    opm__bus_leave();
    rc = stop_tell(r, err);
    if (r->convert_to || r->outputs.n) {
        int made = opm__convert(r, rc ? NULL : err);

        rc = rc ? rc : MIN(made, 0);
    }
    r->stuck |= stuck;
    recorder_clean(r);
    atomic_store(&r->state, RECORDER_OFF);
    opm__signals_restore(&old);
    return rc;
}

int opm_stop(opm_error *err)
{
    struct recorder *r = &opm__recorder;
    struct guard g;
    int rc = 0;

    if (opm__interrupting())
        return interrupted(err);
    opm__lock(&r->control, &g);
    if (atomic_load(&r->state) == RECORDER_FORKED) {
        /* A child that recorded nothing of its own has nothing to close. */
        if (r->nested > 0 && --r->nested == 0) {
            atomic_store(&r->state, RECORDER_OFF);
            set_layers(r);
        }
    } else if (atomic_load(&r->state) != RECORDER_ON) {
        rc = opm__fail(err, OPM_EINVAL, "nothing is being recorded");
    } else if (--r->nested == 0) {
        rc = stop_locked(r, err);
    }
    opm__unlock(&r->control, &g);
    return rc;
}

static void pause_set(int paused)
{
    struct guard g;

    opm__lock(&opm__recorder.control, &g);
    opm__recorder.paused = paused;
    set_layers(&opm__recorder);
    opm__unlock(&opm__recorder.control, &g);
}

void opm_pause(void)
{
    pause_set(1);
}

void opm_resume(void)
{
    pause_set(0);
}

void opm__stats(opm_recorder_stats *out, size_t size)
{
    struct recorder *r = &opm__recorder;
    opm_recorder_stats now;
    struct guard g;

    opm__lock(&r->control, &g);
    now = (opm_recorder_stats){
        .spans = atomic_load(&r->spans),
        .lost = atomic_load(&r->lost) + atomic_load(&r->no_room),
        .bytes = r->size,
        .threads = atomic_load(&r->nthreads),
        .unbalanced = atomic_load(&r->unbalanced_ends) + atomic_load(&r->closed_by_parent),
        .recording = atomic_load(&r->state) == RECORDER_ON,
        .write_errno = atomic_load(&r->write_errno),
    };
    opm__unlock(&r->control, &g);
    /* The program may know less of the struct than we do, or more. */
    memset(out, 0, size);
    memcpy(out, &now, size < sizeof(now) ? size : sizeof(now));
}

const char *opm_path(void)
{
    struct recorder *r = &opm__recorder;

    return atomic_load(&r->state) == RECORDER_ON && r->path ? r->path : "";
}

/* ---- fork ---- */

static struct guard fork_guard; /* of who has `control` */

static void fork_prepare(void)
{
    struct guard g;

    opm__account_fork();
    opm__lock(&opm__recorder.control, &g);
    fork_guard = g;
    pthread_mutex_lock(&opm__recorder.lock);
    pthread_mutex_lock(&opm__recorder.io_lock);
    opm__memory_hold();
}

static void fork_unlock(void)
{
    struct guard g = fork_guard;

    opm__memory_resume();
    pthread_mutex_unlock(&opm__recorder.io_lock);
    pthread_mutex_unlock(&opm__recorder.lock);
    opm__unlock(&opm__recorder.control, &g);
}

/* Keep what a start in the child needs. False: it cannot record. */
static bool fork_remember(struct recorder *r)
{
    free(forked_path);
    free(forked_categories);
    forked_path = strdup(r->convert_to ? r->convert_to : r->file_at);
    forked_categories = r->categories ? strdup(r->categories) : NULL;
    forked_options = (opm_options)OPM_OPTIONS_INIT;
    forked_options.path = forked_path;
    forked_options.categories = forked_categories ? forked_categories : "";
    forked_options.buffer_mb = (uint32_t)MAX(r->names_max * 16 >> 20, 1);
    forked_options.level = r->layers == 15 ? 3 : r->layers == 3 ? 2 : (int32_t)r->layers;
    forked_options.overflow = r->overflow;
    forked_options.counters = atomic_load(&r->counters) != NULL;
    forked_by_env = r->outputs.n > 0;
    return forked_path != NULL;
}

static void fork_close(struct recorder *r)
{
    if (r->own_table)
        return; /* there are none: they are in the writer's */
    opm__own_close(&r->file);
    opm__own_close(&r->live);
}

/* The mapping is the parent's: let go of it before anything can be stored. No other thread
 * exists.
 */
static void fork_child(void)
{
    struct recorder *r = &opm__recorder;
    struct hot *h = &opm__hot;

    opm__memory_resume(); /* held again below, for fork_unlock() */
    if (atomic_load(&r->state) == RECORDER_ON && opm__interrupting()) {
        /* The handler that forked returns to the middle of something: leave all that it may
         * use. */
        opm__live_leave(r, false);
        fork_close(r);
        r->threads = NULL;
        r->stuck = true;
        atomic_store(&r->orphaned, true);
        atomic_store(&r->counters, NULL);
        atomic_store_explicit(&h->generation, 0, memory_order_relaxed);
        atomic_store(&r->slow, h->counted);
        atomic_store(&r->state, RECORDER_OFF);
        set_layers(r);
    } else if (atomic_load(&r->state) == RECORDER_ON) {
        bool able = fork_remember(r);

        opm__live_abandon(r);
        opm__counters_leave(); /* they count the parent */
        atomic_store(&r->counters, NULL);
        /* Not its slot: a handler that forked may return to the middle of opm__begin(). */
        *h = (struct hot){ .slot = h->slot, .units = h->units };
        r->threads = NULL;
        fork_close(r);
        recorder_clean(r);
        free(r->path);
        r->path = NULL;
        counters_reset(r);
        atomic_store(&r->first_serial, r->last_serial + 1);
        atomic_store(&r->slow, 0);
        atomic_store(&r->state, able ? RECORDER_FORKED : RECORDER_OFF);
        set_layers(r);
    }
    start_error = (opm_error){ 0 }; /* the parent tells */
    opm__account_child();
    opm__memory_hold();
    fork_unlock();
}

/* ---- the process begins and ends ---- */

__attribute__((constructor)) static void library_load(void)
{
    exit_key_made = pthread_key_create(&exit_key, thread_exit) == 0;
    pthread_atfork(fork_prepare, fork_unlock, fork_child);
    if (!&opm__manual && opm__env_wants() && env_level() > 0) {
        opm__recorder.automatic = true;
        if (opm_start(NULL, &start_error) < 0)
            opm__account_failed(start_error.msg);
    }
}

/* A recording that the environment asked for has no caller to tell: say it on standard error.
 */
static void report(const struct recorder *r, const opm_error *err)
{
    uint64_t lost = atomic_load(&r->lost) + atomic_load(&r->no_room);

    if (err->code)
        dprintf(STDERR_FILENO, "opmeter: %s\n", err->msg);
    else if (lost && r->path)
        dprintf(STDERR_FILENO, "opmeter: %s: %llu spans lost\n", r->path, (unsigned long long)lost);
    if (r->before && r->path)
        dprintf(STDERR_FILENO,
                "opmeter: %s: what this process recorded before it became this program is in %s\n",
                r->path, r->before);
}

__attribute__((destructor)) static void library_unload(void)
{
    struct recorder *r = &opm__recorder;
    opm_error err = start_error;
    struct guard g;

    /* exit() in a handler: what was interrupted has the recording in its hands. Its files can
     * be read as they are. */
    if (opm__interrupting())
        return;
    opm__lock(&r->control, &g);
    if (atomic_load(&r->state) == RECORDER_ON)
        stop_locked(r, &err);
    opm__unlock(&r->control, &g);
    opm__account_end();
    if (r->automatic)
        report(r, &err);
    if (exit_key_made)
        pthread_key_delete(exit_key);
    exit_key_made = false;
    opm__live_unload();
    free(r->path);
    free(r->before);
    free(forked_path);
    free(forked_categories);
    r->path = NULL;
    r->before = NULL;
    forked_path = NULL;
    forked_categories = NULL;
}
