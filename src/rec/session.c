/* session.c -- starting, stopping, forking, exiting. */
#include "rec/rec.h"

#include "base/environment.h"

#include "format/crc32c.h"
#include <errno.h>
#include <fcntl.h>
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

struct session opm__session = { .control = PTHREAD_MUTEX_INITIALIZER,
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .io_lock = PTHREAD_MUTEX_INITIALIZER,
                                .fd = -1,
                                .live_fd = -1 };

static pthread_key_t exit_key;
static bool exit_key_made;
static opm_error start_error;      /* of a start from the environment, for the report at exit */
static opm_options forked_options; /* what a forked child starts with */
static char *forked_path;
static char *forked_categories;
static bool forked_by_env; /* the environment wants files of it, too */

static void set_layers(struct session *s)
{
    uint32_t state = atomic_load(&s->state);
    bool on = (state == SESSION_ON || state == SESSION_FORKED) && !s->paused;

    __atomic_store_n(&opm__layers, on ? s->layers : 0, __ATOMIC_RELEASE);
}

static int start_quietly(const opm_options *opts, bool child, opm_error *err);

/* First event of a forked child: record into a file of its own. */
static void child_start(void)
{
    struct session *s = &opm__session;

    pthread_mutex_lock(&s->control);
    if (atomic_load(&s->state) == SESSION_FORKED) {
        opm_error err;
        int nested = s->nested;

        atomic_store(&s->state, SESSION_OFF);
        if (start_quietly(&forked_options, true, &err) == 0)
            s->nested = nested;
        else if (s->automatic)
            start_error = err;
    }
    pthread_mutex_unlock(&s->control);
}

bool opm__slow_enter(void)
{
    struct session *s = &opm__session;

    if (UNLIKELY(atomic_load_explicit(&s->state, memory_order_relaxed) == SESSION_FORKED))
        child_start();
    /* Sequentially consistent on both sides: either stopping sees us, or we see it. */
    atomic_fetch_add(&s->slow, 1);
    if (LIKELY(atomic_load(&s->state) == SESSION_ON))
        return true;
    atomic_fetch_sub(&s->slow, 1);
    return false;
}

void opm__slow_leave(void)
{
    atomic_fetch_sub_explicit(&opm__session.slow, 1, memory_order_release);
}

static void thread_exit(void *unused)
{
    struct hot *h = &opm__hot;

    (void)unused;
    opm__counters_leave();
    if (!atomic_load_explicit(&h->generation, memory_order_relaxed))
        return;
    if (!opm__slow_enter()) {
        opm__thread_forget(h);
        return;
    }
    if (atomic_load_explicit(&h->generation, memory_order_relaxed) ==
        atomic_load_explicit(&opm__session.generation, memory_order_relaxed))
        opm__thread_leave(h);
    opm__slow_leave();
}

void opm__thread_watch(void)
{
    if (exit_key_made)
        pthread_setspecific(exit_key, &opm__hot);
}

void opm_thread_name(const char *name)
{
    if (!name || !opm__slow_enter())
        return;
    struct session *s = &opm__session;
    struct hot *h = &opm__hot;

    if (atomic_load(&h->generation) == atomic_load(&s->generation) || opm__thread_enter(h)) {
        pthread_mutex_lock(&s->lock);
        opm__define_thread(s, atomic_load(&h->serial), (int)gettid(), name);
        pthread_mutex_unlock(&s->lock);
    }
    opm__slow_leave();
}

/* ---- files ---- */

static char *path_with(const char *path, const char *before_extension, const char *after)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t stem = dot && (!slash || dot > slash + 1) ? (size_t)(dot - path) : strlen(path);
    char *out = NULL;

    if (asprintf(&out, "%.*s%s%s%s", (int)stem, path, before_extension, path + stem, after) < 0)
        return NULL;
    return out;
}

/* %p becomes the process id. */
static char *path_expand(const char *path)
{
    size_t len = strlen(path), n = 0;
    char *out = malloc(len * 12 + 1);

    for (size_t i = 0; out && i < len; i++) {
        if (path[i] == '%' && path[i + 1] == 'p') {
            n += (size_t)snprintf(out + n, 12, "%d", (int)getpid());
            i++;
        } else {
            out[n++] = path[i];
        }
    }
    if (out)
        out[n] = '\0';
    return out;
}

static bool path_is_opm(const char *path)
{
    size_t len = strlen(path);

    return len > 4 && memcmp(path + len - 4, ".opm", 4) == 0;
}

/* An old file of the name makes way, unless a running program is recording into it. */
static bool path_is_taken(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool taken = false;

    if (fd >= 0) {
        taken = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
        close(fd);
    }
    return taken;
}

/* Among the parts of one recording nothing makes way: a process that became another program by
 * exec, or a later one of the same number, has its part there. */
static void path_beside_parts(char **path)
{
    const char *parts = environment_get("OPMETER_RECORD_DIR");
    size_t len = parts ? strlen(parts) : 0;
    char *free_path = NULL, number[16];
    struct stat st;

    if (!parts || strncmp(*path, parts, len) != 0 || (*path)[len] != '/')
        return;
    for (int k = 1; k < 10000 && stat(free_path ? free_path : *path, &st) == 0; k++) {
        free(free_path);
        snprintf(number, sizeof(number), "-%d", k);
        free_path = path_with(*path, number, "");
        if (!free_path)
            return;
    }
    if (free_path) {
        free(*path);
        *path = free_path;
    }
}

static int file_create(struct session *s, const char *wanted, bool child, opm_error *err)
{
    char *expanded = path_expand(wanted);
    char pid[16];
    struct stat st;

    snprintf(pid, sizeof(pid), "-%d", (int)getpid());
    if (!expanded)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", wanted);
    s->convert_to = path_is_opm(expanded) ? NULL : strdup(expanded);
    s->path = s->convert_to ? path_with(expanded, "", ".opm") : strdup(expanded);
    free(expanded);
    if (s->path && (child || path_is_taken(s->path))) {
        char *other = path_with(s->path, pid, "");

        free(s->path);
        s->path = other;
    }
    if (s->path)
        path_beside_parts(&s->path);
    if (!s->path || asprintf(&s->live_path, "%s-live", s->path) < 0) {
        s->live_path = NULL;
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", wanted);
    }
    if (stat(s->path, &st) == 0 && !S_ISREG(st.st_mode))
        return opm__fail(err, OPM_EINVAL, "%s: exists and is not a regular file", s->path);
    unlink(s->path);
    s->fd = open(s->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, opm__file_mode(s));
    if (s->fd < 0)
        return opm__fail(err, OPM_EIO, "%s: %s", s->path, strerror(errno));
    flock(s->fd, LOCK_EX | LOCK_NB);
    return 0;
}

static void boot_id(uint8_t out[16])
{
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    unsigned n = 0;

    memset(out, 0, 16);
    if (fd < 0)
        return;
    if (read(fd, text, sizeof(text) - 1) > 0) {
        for (const char *p = text; *p && n < 32; p++) {
            int digit = *p >= '0' && *p <= '9'   ? *p - '0'
                        : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10
                                                 : -1;

            if (digit >= 0) {
                out[n / 2] |= (uint8_t)(digit << (n % 2 ? 0 : 4));
                n++;
            }
        }
    }
    close(fd);
}

static void header_make(struct session *s)
{
    struct opm_file_header *h = &s->header;

    memset(h, 0, sizeof(*h));
    memcpy(h->magic, OPM_FILE_MAGIC, sizeof(h->magic));
    h->version = OPM_RECORDING_VERSION;
    h->header_size = OPM_HEADER_SIZE;
    if (getrandom(h->session, sizeof(h->session), GRND_NONBLOCK) != (ssize_t)sizeof(h->session)) {
        int64_t now[2] = { clock_ns(CLOCK_REALTIME), (int64_t)getpid() };

        memcpy(h->session, now, sizeof(now));
    }
    boot_id(h->boot);
    h->clock_source = opm__clock_source;
    h->pid = (uint32_t)getpid();
    h->start = opm__clock_read();
    h->ticks_per_s = opm__clock_rate;
    h->crc = crc32c(h, offsetof(struct opm_file_header, crc));
}

/* Once the live file is there: a file that has a header can be read, however young it is. */
static int header_write(struct session *s, opm_error *err)
{
    uint8_t page[OPM_HEADER_SIZE] = { 0 };

    memcpy(page, &s->header, sizeof(s->header));
    if (pwrite(s->fd, page, sizeof(page), 0) != (ssize_t)sizeof(page))
        return opm__fail(err, OPM_EIO, "%s: %s", s->path, strerror(errno));
    s->size = sizeof(page);
    return 0;
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
static void session_clean(struct session *s)
{
    opm__define_release(s);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    free(s->live_path);
    free(s->categories);
    free(s->redact);
    free(s->convert_to);
    opm__outputs_release(&s->outputs);
    s->live_path = NULL;
    s->categories = NULL;
    s->redact = NULL;
    s->convert_to = NULL;
}

static void counters_reset(struct session *s)
{
    atomic_store(&s->spans, 0);
    atomic_store(&s->lost, 0);
    atomic_store(&s->no_room, 0);
    atomic_store(&s->unbalanced_ends, 0);
    atomic_store(&s->closed_by_parent, 0);
    atomic_store(&s->nthreads, 0);
    atomic_store(&s->write_errno, 0);
    atomic_store(&s->failing, false);
    s->next_id = 1;
    s->defs_block = OPM_NO_BLOCK;
    s->defs_seq = 0;
    s->span_cost_ps = 0;
    s->size = 0;
}

/* Without memory for what is to be left out there is no recording: it would hold it. */
static int redact_plan(struct session *s, opm_error *err)
{
    const char *list = environment_get("OPMETER_REDACT");

    s->redact = list ? strdup(list) : NULL;
    return list && !s->redact ? opm__fail(err, OPM_ENOMEM, "OPMETER_REDACT: out of memory") : 0;
}

/* Under control, nothing being recorded. */
static int start_locked(const opm_options *opts, bool child, opm_error *err)
{
    struct session *s = &opm__session;
    opm_options o = options_of(opts);
    uint64_t budget = (uint64_t)o.buffer_mb << 20;
    int rc;

    opm__clock_init();
    free(s->path);
    s->path = NULL;
    counters_reset(s);
    atomic_store(&s->first_serial, s->last_serial + 1);
    if (!child)
        s->paused = 0;
    s->layers = level_layers(o.level);
    s->overflow = o.overflow;
    s->names_max = budget / 16;
    s->categories = o.categories ? strdup(o.categories) : NULL;
    rc = redact_plan(s, err);
    /* A start that names its own file has nothing to do with the environment. */
    if (!rc && (child ? forked_by_env : s->automatic && !(opts && opts->path))) {
        rc = opm__outputs_plan(&s->outputs, child, err);
        if (environment_get("OPMETER_OUTPUT"))
            rc = 0; /* the recording itself goes on; what failed is told at the end */
    }
    /* The folder that a privileged program happens to be in is the choice of its user. */
    if (environment_privileged() && !(opts && opts->path))
        rc = opm__fail(err, OPM_EINVAL,
                       "a privileged program must name the file to record to: opm_options.path");
    if (rc == 0)
        rc = file_create(s, s->outputs.only ? s->outputs.record : o.path, child && !s->outputs.only,
                         err);
    header_make(s);
    if (rc == 0)
        rc = opm__live_create(s, budget - budget / 8, err);
    if (rc == 0)
        rc = header_write(s, err);
    if (rc == 0) {
        opm__write_status(s, FILE_RECORDING);
        atomic_fetch_add(&s->generation, 1);
        opm__describe_machine(s);
        opm__counters_choose(s, o.counters == 1);
        atomic_store(&s->state, SESSION_ON);
        rc = opm__writer_start(s, err);
    }
    if (rc) {
        atomic_store(&s->state, SESSION_OFF);
        opm__live_retire(s);
        if (s->fd >= 0)
            unlink(s->path);
        session_clean(s);
        opm__packer_free(s->packer);
        free(s->out);
        s->packer = NULL;
        s->out = NULL;
        free(s->path);
        s->path = NULL;
        set_layers(s);
        return rc;
    }
    s->nested = 1;
    set_layers(s);
    return 0;
}

void opm__signals_off(sigset_t *old)
{
    sigset_t all;

    sigfillset(&all);
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
    struct session *s = &opm__session;
    int rc;

    if (opts && (opts->size < sizeof(size_t) || opts->size > sizeof(*opts)))
        return opm__fail(err, opts->size > sizeof(*opts) ? OPM_EVERSION : OPM_EINVAL,
                         "opm_options.size is %zu, this library knows %zu", opts->size,
                         sizeof(*opts));
    if (atomic_load(&s->state) == SESSION_FORKED)
        child_start();
    pthread_mutex_lock(&s->control);
    if (atomic_load(&s->state) == SESSION_ON) {
        s->nested++;
        rc = 1;
    } else {
        rc = start_quietly(opts, false, err);
    }
    pthread_mutex_unlock(&s->control);
    return rc;
}

/* ---- stop ---- */

/* Under control. */
static int stop_locked(struct session *s, opm_error *err)
{
    sigset_t old;
    int rc = 0, write_errno;

    opm__signals_off(&old);
    __atomic_store_n(&opm__layers, 0, __ATOMIC_RELEASE);
    atomic_store(&s->counters, NULL);
    atomic_store(&s->state, SESSION_STOPPING);
    atomic_fetch_add(&s->freed, 1);
    opm__futex_wake(&s->freed, INT32_MAX);
    while (atomic_load(&s->slow))
        sched_yield();
    opm__writer_stop(s);
    opm__live_retire(s);
    write_errno = atomic_load(&s->write_errno);
    if (write_errno)
        rc = opm__fail(err, OPM_EIO, "%s: %s; %llu events lost", s->path, strerror(write_errno),
                       (unsigned long long)atomic_load(&s->lost));
    close(s->fd);
    s->fd = -1;
    if ((s->convert_to || s->outputs.n) && opm__convert(s, rc ? NULL : err) < 0 && !rc)
        rc = OPM_EIO;
    session_clean(s);
    atomic_store(&s->state, SESSION_OFF);
    opm__signals_restore(&old);
    return rc;
}

int opm_stop(opm_error *err)
{
    struct session *s = &opm__session;
    int rc = 0;

    pthread_mutex_lock(&s->control);
    if (atomic_load(&s->state) == SESSION_FORKED) {
        /* A child that recorded nothing of its own has nothing to close. */
        if (s->nested > 0 && --s->nested == 0) {
            atomic_store(&s->state, SESSION_OFF);
            set_layers(s);
        }
    } else if (atomic_load(&s->state) != SESSION_ON) {
        rc = opm__fail(err, OPM_EINVAL, "nothing is being recorded");
    } else if (--s->nested == 0) {
        rc = stop_locked(s, err);
    }
    pthread_mutex_unlock(&s->control);
    return rc;
}

void opm_pause(void)
{
    pthread_mutex_lock(&opm__session.control);
    opm__session.paused = 1;
    set_layers(&opm__session);
    pthread_mutex_unlock(&opm__session.control);
}

void opm_resume(void)
{
    pthread_mutex_lock(&opm__session.control);
    opm__session.paused = 0;
    set_layers(&opm__session);
    pthread_mutex_unlock(&opm__session.control);
}

void opm_stats(opm_recorder_stats *out)
{
    struct session *s = &opm__session;

    pthread_mutex_lock(&s->control);
    *out = (opm_recorder_stats){
        .spans = atomic_load(&s->spans),
        .lost = atomic_load(&s->lost) + atomic_load(&s->no_room),
        .bytes = s->size,
        .threads = atomic_load(&s->nthreads),
        .unbalanced = atomic_load(&s->unbalanced_ends) + atomic_load(&s->closed_by_parent),
        .recording = atomic_load(&s->state) == SESSION_ON,
        .write_errno = atomic_load(&s->write_errno),
    };
    pthread_mutex_unlock(&s->control);
}

const char *opm_path(void)
{
    struct session *s = &opm__session;

    return atomic_load(&s->state) == SESSION_ON && s->path ? s->path : "";
}

/* ---- fork ---- */

static void fork_prepare(void)
{
    pthread_mutex_lock(&opm__session.control);
    pthread_mutex_lock(&opm__session.lock);
    pthread_mutex_lock(&opm__session.io_lock);
}

static void fork_unlock(void)
{
    pthread_mutex_unlock(&opm__session.io_lock);
    pthread_mutex_unlock(&opm__session.lock);
    pthread_mutex_unlock(&opm__session.control);
}

/* Keep what a start in the child needs. False: it cannot record. */
static bool fork_remember(struct session *s)
{
    free(forked_path);
    free(forked_categories);
    forked_path = strdup(s->convert_to ? s->convert_to : s->path);
    forked_categories = s->categories ? strdup(s->categories) : NULL;
    forked_options = (opm_options)OPM_OPTIONS_INIT;
    forked_options.path = forked_path;
    forked_options.categories = forked_categories ? forked_categories : "";
    forked_options.buffer_mb = (uint32_t)MAX(s->names_max * 16 >> 20, 1);
    forked_options.level = s->layers == 15 ? 3 : s->layers == 3 ? 2 : (int32_t)s->layers;
    forked_options.overflow = s->overflow;
    forked_options.counters = atomic_load(&s->counters) != NULL;
    forked_by_env = s->outputs.n > 0;
    return forked_path != NULL;
}

/* The mapping is the parent's: let go of it before anything can be stored. No other thread exists.
 */
static void fork_child(void)
{
    struct session *s = &opm__session;

    if (atomic_load(&s->state) == SESSION_ON) {
        bool able = fork_remember(s);

        opm__live_abandon(s);
        opm__counters_leave(); /* they count the parent */
        atomic_store(&s->counters, NULL);
        opm__hot = (struct hot){ 0 };
        s->threads = NULL;
        session_clean(s);
        opm__packer_free(s->packer);
        free(s->out);
        s->packer = NULL;
        s->out = NULL;
        free(s->path);
        s->path = NULL;
        counters_reset(s);
        atomic_store(&s->first_serial, s->last_serial + 1);
        atomic_store(&s->slow, 0);
        atomic_store(&s->state, able ? SESSION_FORKED : SESSION_OFF);
        set_layers(s);
    }
    start_error = (opm_error){ 0 }; /* the parent tells */
    fork_unlock();
}

/* ---- the process begins and ends ---- */

__attribute__((constructor)) static void library_load(void)
{
    exit_key_made = pthread_key_create(&exit_key, thread_exit) == 0;
    pthread_atfork(fork_prepare, fork_unlock, fork_child);
    if (!&opm__manual && opm__env_wants() && env_level() > 0) {
        opm__session.automatic = true;
        opm_start(NULL, &start_error);
    }
}

/* A recording that the environment asked for has no caller to tell: say it on standard error. */
static void report(const struct session *s, const opm_error *err)
{
    uint64_t lost = atomic_load(&s->lost) + atomic_load(&s->no_room);

    if (err->code)
        dprintf(STDERR_FILENO, "opmeter: %s\n", err->msg);
    else if (lost && s->path)
        dprintf(STDERR_FILENO, "opmeter: %s: %llu events lost\n", s->path,
                (unsigned long long)lost);
}

__attribute__((destructor)) static void library_unload(void)
{
    struct session *s = &opm__session;
    opm_error err = start_error;

    pthread_mutex_lock(&s->control);
    if (atomic_load(&s->state) == SESSION_ON)
        stop_locked(s, &err);
    pthread_mutex_unlock(&s->control);
    if (s->automatic)
        report(s, &err);
    if (exit_key_made)
        pthread_key_delete(exit_key);
    exit_key_made = false;
    opm__live_unload();
    free(s->path);
    free(forked_path);
    free(forked_categories);
    s->path = NULL;
    forked_path = NULL;
    forked_categories = NULL;
}
