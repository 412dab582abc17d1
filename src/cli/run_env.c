/* run_env.c -- files that environment variables ask `opmeter run` for; see run_report.h. */
#include "base/enginefile.h"
#include "cli/run_report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int export_as(opm_trace *t, const char *format, const char *path)
{
    opm_error err;

    return opm_trace_export(t, format, path, NULL, &err) < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

/* A CSV and a trace per instance, all of the same time. */
static int write_engine(struct cli *cli, const struct run_result *res, int n)
{
    static const char *const folders[] = { ENVIRONMENT_ENGINE_ROOT, ENVIRONMENT_ENGINE_CSV_DIR,
                                           ENVIRONMENT_ENGINE_TRACE_DIR };
    time_t now = time(NULL);
    char when[32];
    struct tm tm;
    int rc = CLI_OK, number;

    for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
        if (mkdir(folders[i], 0700) < 0 && errno != EEXIST)
            return cli_error("%s: %s", folders[i], strerror(errno));
    localtime_r(&now, &tm);
    strftime(when, sizeof(when), ENVIRONMENT_TIME, &tm);
    number = enginefile_instance();
    for (int i = 0; i < n && rc == CLI_OK; i++) {
        char path[FOLDER_PATH_MAX], name[64], *trace = path;
        opm_trace *t = NULL;

        snprintf(path, sizeof(path), "%s", res[i].trace);
        rc = cli_open(cli, &t, &trace, 1);
        if (rc == CLI_OK && !enginefile_claim(when, number + i, name, sizeof(name)))
            rc = cli_error(ENVIRONMENT_ENGINE_CSV_DIR "/%s.csv: %s", name, strerror(errno));
        snprintf(path, sizeof(path), ENVIRONMENT_ENGINE_CSV_DIR "/%s.csv", name);
        if (rc == CLI_OK)
            rc = export_as(t, "neural-engine", path);
        snprintf(path, sizeof(path), ENVIRONMENT_ENGINE_TRACE_DIR "/%s.json", name);
        if (rc == CLI_OK)
            rc = export_as(t, "neural-engine-trace", path);
        opm_trace_close(t);
    }
    return rc;
}

static int copy_file(const char *from, const char *to)
{
    struct io_out out;
    struct io_map m = { 0 };
    opm_error err;
    int rc = io_map(&m, from, 0, &err);

    if (rc == 0)
        rc = io_out_open(&out, to, &err);
    if (rc == 0) {
        io_out_add(&out, m.data, m.len);
        rc = io_out_close(&out, true, &err);
    }
    io_map_release(&m);
    return rc < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

/* %p becomes the process id, as in a program that records itself. */
static void expand_path(const char *path, char *out, size_t size)
{
    size_t n = 0;

    for (; *path && n + 1 < size; path++) {
        if (path[0] == '%' && path[1] == 'p') {
            n += (size_t)snprintf(out + n, size - n, "%d", (int)getpid());
            n = MIN(n, size - 1);
            path++;
        } else {
            out[n++] = *path;
        }
    }
    out[n] = '\0';
}

/* OPMETER_OUTPUT: the extension picks the format. */
static int write_output(const struct run_result *res, int n, opm_trace *all, const char *wanted)
{
    char path[FOLDER_PATH_MAX];
    const char *best;

    expand_path(wanted, path, sizeof(path));
    best = cli_export_format(path);
    if (best && cli_make_way(path, environment_overwrite()) != CLI_OK)
        return CLI_FAILURE;
    if (best && strcmp(best, "opm") == 0 && n == 1)
        return copy_file(res[0].trace, path);
    if (!best)
        return cli_error("OPMETER_OUTPUT: %s: no format of %s has this extension; see 'opmeter "
                         "export --list'",
                         path, n == 1 ? "a trace" : "several instances");
    return export_as(all, best, path);
}

int run_env_may_write(bool force)
{
    const char *furiosa = environment_furiosa_output();
    const char *output = environment_get("OPMETER_OUTPUT");
    char path[FOLDER_PATH_MAX];
    int rc = CLI_OK;

    force |= environment_overwrite();
    if (output) {
        expand_path(output, path, sizeof(path));
        rc = cli_may_write(path, force);
    }
    if (rc == CLI_OK && furiosa)
        rc = cli_may_write(furiosa, force);
    if (rc == CLI_OK && environment_tensorflow_level() > 0)
        rc = cli_may_write(environment_tensorflow_dir(), force);
    return rc;
}

int run_env_write(struct cli *cli, const struct run_result *res, int n)
{
    const char *output = environment_get("OPMETER_OUTPUT");
    const char *furiosa = environment_furiosa_output();
    bool tensorflow = environment_tensorflow_level() > 0;
    char *paths[RUN_INSTANCES_MAX], room[RUN_INSTANCES_MAX][FOLDER_PATH_MAX];
    opm_trace *all = NULL;
    int rc = environment_engine_profiling() ? write_engine(cli, res, n) : CLI_OK;

    if (rc != CLI_OK || (!output && !furiosa && !tensorflow))
        return rc;
    for (int i = 0; i < n; i++) {
        snprintf(room[i], sizeof(room[i]), "%s", res[i].trace);
        paths[i] = room[i];
    }
    rc = cli_open(cli, &all, paths, n);
    if (rc == CLI_OK && output)
        rc = write_output(res, n, all, output);
    if (rc == CLI_OK && furiosa)
        rc = export_as(all, "chrome", furiosa);
    if (rc == CLI_OK && tensorflow)
        rc = export_as(all, "cambricon", environment_tensorflow_dir());
    opm_trace_close(all);
    return rc;
}
