/* outputs.c -- what the environment wants of a recording, and making it when the recording ends.
 *
 * A recording that only these variables asked for is a file beside the first of them, which goes
 * when all of them were made. The exporters are not linked into the program: the opmeter command
 * does it. */
#include "rec/rec.h"

#include "base/enginefile.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

bool opm__env_wants(void)
{
    return environment_get("OPMETER_OUTPUT") || environment_engine_profiling() ||
           environment_furiosa_output() || environment_tensorflow_level() > 0;
}

static int add(struct outputs *o, const char *format, const char *path)
{
    char *copy = opm__path_absolute(path);

    if (!copy)
        return OPM_ENOMEM;
    o->item[o->n++] = (struct output){ format, copy };
    return 0;
}

/* Folders are made now, so that it shows at once if that cannot be. */
static int plan_engine(struct outputs *o, opm_error *err)
{
    static const char *const folders[] = { ENVIRONMENT_ENGINE_ROOT, ENVIRONMENT_ENGINE_CSV_DIR,
                                           ENVIRONMENT_ENGINE_TRACE_DIR };
    char when[32], name[64], path[128];
    time_t now = time(NULL);
    struct tm tm;
    int rc;

    for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
        if (mkdir(folders[i], 0700) < 0 && errno != EEXIST)
            return opm__fail(err, OPM_EIO, "%s: %s", folders[i], strerror(errno));
    localtime_r(&now, &tm);
    strftime(when, sizeof(when), ENVIRONMENT_TIME, &tm);
    if (!enginefile_claim(when, enginefile_instance(), name, sizeof(name)))
        return opm__fail(err, OPM_EIO, ENVIRONMENT_ENGINE_CSV_DIR "/%s.csv: %s", name,
                         strerror(errno));
    snprintf(path, sizeof(path), ENVIRONMENT_ENGINE_CSV_DIR "/%s.csv", name);
    rc = add(o, "neural-engine", path);
    snprintf(path, sizeof(path), ENVIRONMENT_ENGINE_TRACE_DIR "/%s.json", name);
    if (rc == 0)
        rc = add(o, "neural-engine-trace", path);
    return rc ? opm__fail(err, rc, "out of memory") : 0;
}

/* A child of fork() must not write over its parent's: NAME-PID.json. */
static int plan_path(struct outputs *o, const char *format, const char *path, bool child,
                     opm_error *err)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t stem = dot && (!slash || dot > slash + 1) ? (size_t)(dot - path) : strlen(path);
    char *own = NULL;
    int rc;

    if (child && asprintf(&own, "%.*s-%d%s", (int)stem, path, (int)getpid(), path + stem) < 0)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    rc = opm__may_make(child ? own : path, err);
    if (rc == 0 && add(o, format, child ? own : path))
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    free(own);
    return rc;
}

int opm__outputs_plan(struct outputs *o, bool child, opm_error *err)
{
    const char *furiosa = environment_furiosa_output();
    int rc = 0;

    opm__outputs_release(o);
    if (environment_engine_profiling())
        rc = plan_engine(o, err);
    if (rc == 0 && furiosa)
        rc = plan_path(o, "chrome", furiosa, child, err);
    if (rc == 0 && environment_tensorflow_level() > 0)
        rc = plan_path(o, "cambricon", environment_tensorflow_dir(), child, err);
    if (rc == 0 && o->n && !environment_get("OPMETER_OUTPUT")) {
        o->only = true;
        if (asprintf(&o->record, "%s.opm", o->item[0].path) < 0) {
            o->record = NULL;
            rc = opm__fail(err, OPM_ENOMEM, "out of memory");
        }
    }
    if (rc)
        opm__outputs_release(o);
    return rc;
}

void opm__outputs_release(struct outputs *o)
{
    for (int i = 0; i < o->n; i++)
        free(o->item[i].path);
    free(o->record);
    *o = (struct outputs){ .n = 0 };
}

/* -- converting -- */

/* The environment without what would start a recording: the converter must not record itself. */
static char **plain_environment(void)
{
    static const char *const starters[] = {
#define OUTPUT(name) #name,
#define CHOICE(name)
#define COMMAND(name)
#define VARIABLE(name, kind, doc) kind(name)
#include "base/environment.def"
#undef VARIABLE
#undef OUTPUT
#undef CHOICE
#undef COMMAND
    };
    size_t nenv = 0, n = 0;
    char **env;

    while (environ && environ[nenv])
        nenv++;
    env = calloc(nenv + 1, sizeof(*env));
    for (size_t i = 0; env && i < nenv; i++) {
        size_t len = strcspn(environ[i], "="), k = 0;

        while (k < ARRAY_SIZE(starters) &&
               (strlen(starters[k]) != len || memcmp(starters[k], environ[i], len) != 0))
            k++;
        if (k == ARRAY_SIZE(starters))
            env[n++] = environ[i];
    }
    return env;
}

/* 0, or an errno; ECHILD: the command ran and failed; -1: not known how it went. */
static int run_tool(char *const *argv)
{
    const char *tool = environment_get("OPMETER_TOOL");
    posix_spawnattr_t attr;
    sigset_t none;
    pid_t pid, done;
    int rc, status = 0;
    char **env;

    /* Whatever the user's PATH leads to would have the program's rights. */
    if (environment_privileged())
        return EPERM;
    env = plain_environment();
    /* We are holding back all signals; the converter must not. */
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    rc = posix_spawnp(&pid, tool ? tool : "opmeter", NULL, &attr, argv, env ? env : environ);
    posix_spawnattr_destroy(&attr);
    free(env);
    if (rc)
        return rc;
    do
        done = waitpid(pid, &status, 0);
    while (done < 0 && errno == EINTR);
    if (done != pid)
        return -1; /* a program that ignores SIGCHLD does not learn it */
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : ECHILD;
}

/* 1: done, as far as one can tell; 0: done; negative: failed, said. */
static int convert(const char *path, const char *format, const char *to, opm_error *err)
{
    const char *const words[] = { "opmeter", "export", "--force", path, "-o", to, "-f", format };
    char *argv[ARRAY_SIZE(words) + 1] = { 0 };
    size_t n = format ? ARRAY_SIZE(words) : ARRAY_SIZE(words) - 2, have = 0;
    int rc;

    for (size_t i = 0; i < n; i++)
        have += (argv[i] = strdup(words[i])) != NULL;
    rc = have == n ? run_tool(argv) : ENOMEM;
    for (size_t i = 0; i < n; i++)
        free(argv[i]);
    if (rc > 0)
        return opm__fail(
            err, OPM_EIO,
            "recorded to %s; converting it failed (%s): run 'opmeter export %s -o %s%s%s'", path,
            rc == ECHILD               ? "the opmeter command failed"
            : environment_privileged() ? "a privileged program starts no other"
                                       : strerror(rc),
            path, to, format ? " -f " : "", format ? format : "");
    return rc < 0;
}

int opm__convert(const struct recorder *r, opm_error *err)
{
    bool sure = true, recorded = atomic_load(&r->spans) > 0;
    struct stat st;
    int rc = 0, made = 0;

    if (opm__own_place(&r->file) != OWNFILE_HERE)
        return opm__fail(err, OPM_EIO, "%s: not there any more: nothing can be made of it",
                         r->path);
    if (r->convert_to) {
        made = convert(r->path, NULL, r->convert_to, err);
        sure &= made == 0;
        rc = MIN(made, 0);
    }
    for (int i = 0; i < r->outputs.n; i++) {
        const struct output *o = &r->outputs.item[i];

        /* A program that inherited the variable and has no model leaves nothing. */
        if (!recorded) {
            if (strcmp(o->format, "neural-engine") == 0)
                unlink(o->path);
            continue;
        }
        made = convert(r->path, o->format, o->path, rc ? NULL : err);
        if (made < 0 && stat(o->path, &st) == 0 && S_ISREG(st.st_mode) && !st.st_size)
            unlink(o->path); /* it only held its number */
        sure &= made == 0;
        rc = rc ? rc : MIN(made, 0);
    }
    if (sure && (r->convert_to || r->outputs.only)) {
        opm__own_unlink(&r->file);
        opm__own_unlink(&r->live);
    }
    return rc;
}
