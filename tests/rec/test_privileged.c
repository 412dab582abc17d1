/* test_privileged.c -- a program with more rights than its user: nothing happens on the user's
 * word.
 *
 * The program is a copy of this one that is set-uid root, or has a capability, started by nobody.
 * Needs root and a file system that honours both. */
#include "rig.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define NOBODY 65534

static opm_site work = OPM_SITE_INIT(OPM_APP, NULL, "work");

/* ---- children ---- */

static int say_secure(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("%lu\n", getauxval(AT_SECURE));
    return 0;
}

/* Whatever the environment says. */
static int just_work(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("%d\n", opm_on(OPM_APP));
    opm_end(opm_begin(&work));
    return 0;
}

/* [PATH]: the program itself wants it. */
static int record(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_error err = { 0 };
    int started, stopped = 0;

    options.path = argc ? argv[0] : NULL;
    started = opm_start(argc ? &options : NULL, &err);
    opm_end(opm_begin(&work));
    if (started == 0)
        stopped = opm_stop(&err);
    printf("%d %d %s\n", started, stopped, err.msg);
    return 0;
}

/* ---- running them ---- */

enum rights { PLAIN, SET_UID, CAPABLE };

static const char *program_of(enum rights rights)
{
    static const char *const names[] = { "plain", "set-uid", "capable" };
    struct vfs_cap_data cap = { .magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE };
    const char *path = rig_path(names[rights]);

    if (rig_exists(path))
        return path;
    rig_copy("/proc/self/exe", path);
    assert_int_equal(chmod(path, rights == SET_UID ? 04755 : 0755), 0);
    cap.data[0].permitted = 1u << CAP_CHOWN;
    if (rights == CAPABLE && setxattr(path, "security.capability", &cap, XATTR_CAPS_SZ_2, 0) < 0)
        return NULL;
    return path;
}

/* What a child of nobody prints, in a folder; "" if it cannot be run or does not end well. */
static const char *run(enum rights rights, const char *folder, const char *const *env,
                       const char *const *words)
{
    static char out[4096];
    const char *argv[8] = { "program", "--child" }, *program = program_of(rights);
    size_t len = 0;
    ssize_t n;
    int pipe_fd[2], status = -1;
    pid_t pid;

    for (size_t i = 0; words[i]; i++)
        argv[i + 2] = words[i];
    assert_int_equal(pipe(pipe_fd), 0);
    pid = fork();
    if (pid == 0) {
        if (!program || chdir(folder) < 0 || dup2(pipe_fd[1], STDOUT_FILENO) < 0 ||
            setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
            _exit(98);
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* needs to be traced, which others may not */
        umask(0);
        for (size_t i = 0; env && env[i]; i++)
            putenv(strdup(env[i]));
        execv(program, (char *const *)(uintptr_t)argv);
        _exit(97);
    }
    close(pipe_fd[1]);
    do {
        n = read(pipe_fd[0], out + len, sizeof(out) - 1 - len);
        len += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    out[len] = '\0';
    close(pipe_fd[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status == 0 ? out : "";
}

static void skip_unless_privileged(enum rights rights)
{
    if (geteuid() != 0 || RIG_TSAN) {
        print_message("skipped: needs root\n");
        skip();
    }
    assert_int_equal(chmod(rig_path(""), 0755), 0);
    if (strcmp(run(rights, "/", NULL, RIG_WORDS("secure")), "1\n") != 0) {
        print_message("skipped: programs get no privileges here\n");
        skip();
    }
}

/* A folder of root's, or of everybody's, that is empty. */
static const char *folder_of(const char *name, mode_t mode)
{
    const char *path = rig_path(name);
    char command[600];

    snprintf(command, sizeof(command), "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
    assert_int_equal(mkdir(path, mode), 0);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static bool is_empty(const char *folder)
{
    return rmdir(folder) == 0; /* the next folder_of() makes it again */
}

/* A command `opmeter` that leaves a mark. */
static void trap(char *path_variable, char *tool_variable, size_t size, const char *mark)
{
    const char *folder = folder_of("trap", 0755), *tool = rig_path("trap/opmeter");
    char script[700];

    unlink(mark);
    snprintf(script, sizeof(script), "#!/bin/sh\n/bin/echo caught > '%s'\n", mark);
    unit_write(tool, script, strlen(script));
    assert_int_equal(chmod(tool, 0755), 0);
    snprintf(path_variable, size, "PATH=%s:/usr/bin:/bin", folder);
    snprintf(tool_variable, size, "OPMETER_TOOL=%s", tool);
}

/* ---- what must hold ---- */

static void nothing_by_environment(enum rights rights, mode_t mode)
{
    char output[600], furiosa[600];
    char folder[512];
    const char *out;
    const char *const variables[][2] = { { output, NULL },
                                         { furiosa, NULL },
                                         { "ENGINE_PROFILING=1", NULL },
                                         { "TENSORFLOW_MODELS_TRACE_LEVEL=3", NULL } };

    for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
        snprintf(folder, sizeof(folder), "%s", folder_of("target", mode));
        snprintf(output, sizeof(output), "OPMETER_OUTPUT=%s/t.opm", folder);
        snprintf(furiosa, sizeof(furiosa), "FURIOSA_PROFILER_OUTPUT_PATH=%s/t.json", folder);
        out = run(rights, folder, variables[i], RIG_WORDS("work"));
        assert_string_equal(out, "0\n");
        assert_true(is_empty(folder));
    }
}

/* The program names a file that has to be converted: nobody's command does not do it. */
static void nothing_is_started(enum rights rights, mode_t mode)
{
    char path[700], tool[700], to[600], record_path[600], folder[512], mark[512];
    const char *out;
    const char *const by_tool[] = { tool, NULL }, *const by_path[] = { path, NULL };
    struct stat st;
    opm_trace *t;

    snprintf(folder, sizeof(folder), "%s", folder_of("target", mode));
    snprintf(mark, sizeof(mark), "%s/mark", folder_of("everybody", 0777));
    trap(path, tool, sizeof(path), mark);
    snprintf(to, sizeof(to), "%s/t.json", folder);
    snprintf(record_path, sizeof(record_path), "%s/t.json.opm", folder);
    for (int k = 0; k < 2; k++) {
        out = run(rights, folder, k ? by_path : by_tool, RIG_WORDS("record", to));
        assert_int_equal(strncmp(out, "0 -3 recorded to ", 17), 0);
        assert_non_null(strstr(out, "a privileged program starts no other"));
        assert_false(rig_exists(mark));
        assert_false(rig_exists(to));
        t = rig_open(record_path);
        rig_expect(t, "SELECT name, count(*) FROM span GROUP BY name", "work|1\n");
        opm_trace_close(t);
        assert_int_equal(stat(record_path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600); /* for all that the umask allows */
    }
}

/* It must say where; "here" is where the user is. */
static void path_is_asked_for(enum rights rights, mode_t mode)
{
    char own[600], folder[512];
    const char *out;
    opm_trace *t;

    snprintf(folder, sizeof(folder), "%s", folder_of("target", mode));
    out = run(rights, folder, NULL, RIG_WORDS("record"));
    assert_string_equal(
        out, "-1 0 a privileged program must name the file to record to: opm_options.path\n");
    assert_true(is_empty(folder));
    folder_of("target", mode);
    snprintf(own, sizeof(own), "%s/own.opm", folder);
    out = run(rights, "/", NULL, RIG_WORDS("record", own));
    assert_string_equal(out, "0 0 \n");
    t = rig_open(own);
    rig_expect(t, "SELECT name, count(*) FROM span GROUP BY name", "work|1\n");
    opm_trace_close(t);
}

/* Without privileges all of it works: the traps are real ones. */
static void plain_program(void **state)
{
    char path[700], tool[700], output[600], to[600], folder[512], mark[512];
    const char *const by_output[] = { output, NULL }, *const by_tool[] = { tool, NULL },
                      *const by_path[] = { path, NULL };

    (void)state;
    skip_unless_privileged(SET_UID);
    snprintf(folder, sizeof(folder), "%s", folder_of("target", 0777));
    snprintf(output, sizeof(output), "OPMETER_OUTPUT=%s/t.opm", folder);
    assert_string_equal(run(PLAIN, folder, by_output, RIG_WORDS("work")), "1\n");
    assert_true(rig_exists(rig_path("target/t.opm")));
    snprintf(mark, sizeof(mark), "%s/mark", folder_of("everybody", 0777));
    snprintf(to, sizeof(to), "%s/t.json", folder);
    for (int k = 0; k < 2; k++) {
        trap(path, tool, sizeof(path), mark);
        run(PLAIN, folder, k ? by_path : by_tool, RIG_WORDS("record", to));
        assert_true(rig_exists(mark));
    }
}

static void set_uid_program(void **state)
{
    (void)state;
    skip_unless_privileged(SET_UID);
    nothing_by_environment(SET_UID, 0755);
    nothing_is_started(SET_UID, 0755);
    path_is_asked_for(SET_UID, 0755);
}

static void capable_program(void **state)
{
    (void)state;
    skip_unless_privileged(CAPABLE);
    nothing_by_environment(CAPABLE, 0777);
    nothing_is_started(CAPABLE, 0777);
    path_is_asked_for(CAPABLE, 0777);
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = {
        { "secure", say_secure }, { "work", just_work }, { "record", record }, { NULL, NULL }
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_program),
        cmocka_unit_test(set_uid_program),
        cmocka_unit_test(capable_program),
    };
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
