/* rig.c -- see rig.h. */
#include "rig.h"

#include "base/buf.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define DIR_VARIABLE "RIG_DIR"

int rig_rounds(int normal, int soak)
{
    return getenv("RIG_SOAK") ? soak : normal;
}

void rig_alarm(unsigned seconds)
{
    alarm(seconds * (unsigned)unit_patience());
}

static const char *rig_dir(void)
{
    static char dir[256];
    const char *given = getenv(DIR_VARIABLE);

    if (!dir[0] && given) {
        snprintf(dir, sizeof(dir), "%s", given);
    } else if (!dir[0]) {
        snprintf(dir, sizeof(dir), "/tmp/opmeter-rec-XXXXXX");
        if (!mkdtemp(dir)) {
            perror(dir);
            exit(1);
        }
        setenv(DIR_VARIABLE, dir, 1);
    }
    return dir;
}

const char *rig_path(const char *name)
{
    static _Thread_local char path[8][512];
    static _Thread_local unsigned turn;
    char *out = path[turn++ % ARRAY_SIZE(path)];

    snprintf(out, sizeof(path[0]), "%s/%s", rig_dir(), name);
    return out;
}

int rig_cleanup(void **state)
{
    char command[400];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", rig_dir());
    return system(command);
}

bool rig_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

size_t rig_read(const char *path, uint8_t **out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    size_t done = 0;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    *out = malloc((size_t)st.st_size + 1);
    assert_non_null(*out);
    while (done < (size_t)st.st_size) {
        ssize_t n = read(fd, *out + done, (size_t)st.st_size - done);

        assert_true(n > 0);
        done += (size_t)n;
    }
    close(fd);
    return done;
}

void rig_copy(const char *from, const char *to)
{
    uint8_t *bytes;
    size_t len = rig_read(from, &bytes);

    unit_write(to, bytes, len);
    free(bytes);
}

void rig_start(const char *path)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_error err = { 0 };

    while (opm_stop(NULL) == 0) /* what a failed test left behind */
        ;
    options.path = path;
    if (opm_start(&options, &err) != 0)
        fail_msg("opm_start: %s", err.msg);
}

void rig_stop(void)
{
    opm_error err = { 0 };

    if (opm_stop(&err) != 0)
        fail_msg("opm_stop: %s", err.msg);
}

void rig_tick(void)
{
    enum { SLOWEST_NS = 1000 };
    struct timespec from, now;

    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < SLOWEST_NS);
}

/* ---- reading back ---- */

opm_trace *rig_open(const char *path)
{
    opm_trace *t = NULL;
    opm_error err = { 0 };

    if (opm_trace_open(&t, &path, 1, NULL, &err) != 0)
        fail_msg("opm_trace_open: %s", err.msg);
    return t;
}

static opm_rows *query(opm_trace *t, const char *sql, va_list args)
{
    char text[4096];
    opm_rows *rows = NULL;
    opm_error err = { 0 };

    assert_in_range(vsnprintf(text, sizeof(text), sql, args), 0, sizeof(text) - 1);
    if (opm_trace_query(t, text, &rows, &err) != 0)
        fail_msg("%s: %s", text, err.msg);
    return rows;
}

int64_t rig_int(opm_trace *t, const char *sql, ...)
{
    opm_error err = { 0 };
    opm_rows *rows;
    int64_t value;
    va_list args;

    va_start(args, sql);
    rows = query(t, sql, args);
    va_end(args);
    if (opm_rows_next(rows, &err) != 1)
        fail_msg("%s: no row: %s", sql, err.msg);
    if (opm_rows_type(rows, 0) == OPM_TYPE_NULL)
        fail_msg("%s: NULL", sql);
    value = opm_rows_int(rows, 0);
    assert_int_equal(opm_rows_next(rows, &err), 0);
    opm_rows_close(rows);
    return value;
}

const char *rig_rows(opm_trace *t, const char *sql, ...)
{
    static struct buf text;
    opm_error err = { 0 };
    opm_rows *rows;
    va_list args;
    int more;

    buf_release(&text);
    va_start(args, sql);
    rows = query(t, sql, args);
    va_end(args);
    for (;;) {
        more = opm_rows_next(rows, &err);
        if (more != 1)
            break;
        for (int c = 0; c < opm_rows_columns(rows); c++) {
            size_t len = 0;
            const char *cell = opm_rows_text(rows, c, &len);

            buf_addf(&text, "%s", c ? "|" : "");
            buf_add(&text, cell ? cell : "NULL", cell ? len : 4);
        }
        buf_addf(&text, "\n");
    }
    opm_rows_close(rows);
    if (more < 0)
        fail_msg("%s: %s", sql, err.msg);
    assert_false(text.failed);
    return buf_str(&text);
}

void rig_expect(opm_trace *t, const char *sql, const char *expected)
{
    assert_string_equal(rig_rows(t, "%s", sql), expected);
}

int64_t rig_stat(opm_trace *t, const char *name)
{
    return rig_int(t, "SELECT coalesce(sum(count), 0) FROM import_stat WHERE name = '%s'", name);
}

const char *rig_losses(opm_trace *t)
{
    return rig_rows(t, "SELECT name || ' ' || count FROM import_stat "
                       "WHERE severity = 'loss' AND count > 0 ORDER BY name");
}

/* ---- children ---- */

static void output_name(char *to, size_t size, pid_t pid, const char *which)
{
    snprintf(to, size, "%s/output-%d-%s", rig_dir(), (int)pid, which);
}

static void redirect(int fd, const char *which)
{
    char name[400];
    int file;

    output_name(name, sizeof(name), getpid(), which);
    file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || dup2(file, fd) < 0)
        _exit(98);
    close(file);
}

pid_t rig_spawn(const char *const *env, const char *const *words)
{
    const char *argv[16] = { "/proc/self/exe", "--child" };
    pid_t pid;

    for (size_t i = 0; words[i]; i++) {
        assert_true(i + 3 < ARRAY_SIZE(argv));
        argv[i + 2] = words[i];
    }
    rig_dir();
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (size_t i = 0; env && env[i]; i++)
            if (putenv(strdup(env[i])) != 0)
                _exit(98);
        redirect(STDOUT_FILENO, "out");
        redirect(STDERR_FILENO, "err");
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(98);
    }
    return pid;
}

static void output_read(char *to, size_t size, pid_t pid, const char *which)
{
    char name[400];
    int fd;
    ssize_t n = 0;

    output_name(name, sizeof(name), pid, which);
    fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, to, size - 1);
        close(fd);
    }
    to[n > 0 ? n : 0] = '\0';
    unlink(name);
}

/* What qemu says of a program that a signal ends is not the program's. */
static void drop_emulator_lines(char *text)
{
    static const char start[] = "qemu: uncaught target signal ";
    char *line = text;

    while (*line) {
        char *next = line + strcspn(line, "\n");

        next += *next == '\n';
        if (strncmp(line, start, sizeof(start) - 1) == 0)
            memmove(line, next, strlen(next) + 1);
        else
            line = next;
    }
}

void rig_wait(pid_t pid, struct rig_result *r)
{
    pid_t got;

    r->pid = pid;
    do
        got = waitpid(pid, &r->status, 0);
    while (got < 0 && errno == EINTR);
    assert_int_equal(got, pid);
    output_read(r->out, sizeof(r->out), pid, "out");
    output_read(r->err, sizeof(r->err), pid, "err");
    drop_emulator_lines(r->err);
}

void rig_run(struct rig_result *r, const char *const *env, const char *const *words)
{
    static struct rig_result mine;
    struct rig_result *result = r ? r : &mine;

    rig_wait(rig_spawn(env, words), result);
    if (!r && result->status != 0)
        fail_msg("%s: status %x: %s", words[0], (unsigned)result->status, result->err);
}

int rig_main_child(const struct rig_child *children, int argc, char **argv)
{
    if (argc < 3 || strcmp(argv[1], "--child") != 0)
        return -1;
    for (; children && children->name; children++)
        if (strcmp(children->name, argv[2]) == 0)
            return children->run(argc - 3, argv + 3);
    return 97;
}
