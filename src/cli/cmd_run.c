/* cmd_run.c -- run a model and profile it. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "base/makeway.h"
#include "cli/run_report.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENGINES_MAX 8

static const char about[] =
    "Run MODEL, an ONNX file or zoo:NAME ('opmeter zoo' lists them), and measure every operator. "
    "Iterations with recording alternate with bare ones, so that the result also says what "
    "measuring cost. Inputs that --input does not give are random. AMOUNT is a count, or a time "
    "such as 200ms. Results go to a folder: trace.opm, trace.json (for chrome://tracing and "
    "Perfetto), operators.csv, operators.xlsx, summary.json, summary.md.";

struct args {
    const char *engine_list[ENGINES_MAX + 1];
    const char *warmup, *iterations, *max_memory, *time_limit;
    int64_t batch_size, seq_len, threads, instances, top, seed;
    struct option_list input, dim;
    const char *engine, *ort_lib, *atol, *rtol;
    const char *sample;
    int64_t generate, prompt_len, top_k;
    const char *encoder, *prompt_ids, *temperature, *top_p, *save_tokens;
    const char *profile, *profile_host, *save_outputs, *check, *output;
    bool pin, winograd, sparse, receipt, counters, force;
};

struct job {
    struct cli *cli;
    struct args *a;
    struct run_options opt;
    struct run_dim *dims;
    int n;                        /* instances */
    char (*dir)[FOLDER_PATH_MAX]; /* of each */
    char merged[FOLDER_PATH_MAX]; /* of all together; "" with one instance */
    bool new_dirs;                /* made here, nobody else's */
    ino_t (*had)[2];              /* trace.opm and its live buffers that were there before, or 0 */
    struct run_result *res;
    struct peak peak;
    int caught; /* signal that stopped it; 0: none */
};

static int parse_real(const struct cli *cli, const char *name, const char *text, double *out)
{
    char *end;

    errno = 0;
    *out = strtod(text, &end);
    if (end == text || *end || errno || !isfinite(*out) || *out < 0)
        return cli_usage(cli, "--%s: '%s' is no number of at least 0", name, text);
    return CLI_OK;
}

static int parse_dims(struct job *j)
{
    size_t n = j->a->dim.n;
    opm_error err;

    j->dims = mem_calloc(n + 1, sizeof(*j->dims));
    if (!j->dims)
        return cli_out_of_memory();
    for (size_t i = 0; i < n; i++)
        if (run_dim_parse(j->a->dim.item[i], &j->dims[i], &err) < 0)
            return cli_usage(j->cli, "--dim: %s", err.msg);
    j->opt.dim = j->dims;
    j->opt.ndim = n;
    return CLI_OK;
}

/* Options that go together with others, or do not. */
static int parse_generate(struct job *j)
{
    const struct args *a = j->a;
    struct run_generate *g = &j->opt.generate;
    const struct {
        const char *name;
        bool given;
    } with[] = { { "encoder", a->encoder },        { "prompt-len", a->prompt_len != 0 },
                 { "prompt-ids", a->prompt_ids },  { "temperature", a->temperature },
                 { "top-k", a->top_k != 0 },       { "top-p", a->top_p },
                 { "save-tokens", a->save_tokens } },
      without[] = { { "check", a->check }, { "save-outputs", a->save_outputs } },
      encoders[] = { { "input", a->input.n != 0 },
                     { "dim", a->dim.n != 0 },
                     { "seq-len", a->seq_len != 0 } };
    bool listens = a->generate && run_has_encoder(j->opt.model, a->encoder);
    int rc;

    for (size_t i = 0; i < ARRAY_SIZE(with) && !a->generate; i++)
        if (with[i].given)
            return cli_usage(j->cli, "--%s goes with --generate", with[i].name);
    for (size_t i = 0; i < ARRAY_SIZE(without) && a->generate; i++)
        if (without[i].given)
            return cli_usage(j->cli, "--%s does not go with --generate", without[i].name);
    for (size_t i = 0; i < ARRAY_SIZE(encoders) && a->generate && !listens; i++)
        if (encoders[i].given)
            return cli_usage(j->cli,
                             "--%s does not go with --generate, except for an encoder's inputs",
                             encoders[i].name);
    if (a->prompt_len && a->prompt_ids)
        return cli_usage(j->cli, "--prompt-len does not go with --prompt-ids, which has a length");
    if (a->save_tokens && a->instances > 1)
        return cli_usage(j->cli, "--save-tokens does not go with --instances: each would write it");
    if ((a->top_k || a->top_p) && !a->temperature)
        return cli_usage(j->cli, "--%s goes with --temperature", a->top_k ? "top-k" : "top-p");
    *g = (struct run_generate){ .tokens = a->generate,
                                .encoder = a->encoder,
                                .prompt = a->prompt_len,
                                .prompt_ids = a->prompt_ids,
                                .top_k = a->top_k,
                                .save_tokens = a->save_tokens };
    rc = parse_real(j->cli, "temperature", a->temperature ? a->temperature : "0", &g->temperature);
    if (rc == CLI_OK)
        rc = parse_real(j->cli, "top-p", a->top_p ? a->top_p : "1", &g->top_p);
    if (rc == CLI_OK && (g->top_p <= 0 || g->top_p > 1))
        return cli_usage(j->cli, "--top-p: '%s' is no probability above 0, up to 1", a->top_p);
    return rc;
}

/* INST_NUM says how many processes a job of Neural Engine has: they are started one by one, and
 * this is one of them. It numbers their files, and starts none. */
static int parse_instances(struct job *j)
{
    const char *text = environment_get("INST_NUM");
    char *end = NULL;
    long n;

    j->n = MAX((int)j->a->instances, 1);
    if (!text)
        return CLI_OK;
    errno = 0;
    n = strtol(text, &end, 10);
    if (*end || errno || n < 1 || n > RUN_INSTANCES_MAX)
        return cli_usage(j->cli, "INST_NUM: '%s' is no number from 1 to %d", text,
                         RUN_INSTANCES_MAX);
    return CLI_OK;
}

static int parse_options(struct job *j)
{
    struct args *a = j->a;
    struct run_amount limit = { 0 };
    opm_error err;
    int rc;

    if (!a->warmup)
        a->warmup = a->generate ? "1" : "5";
    if (!a->iterations)
        a->iterations = a->generate ? "3" : "10";
    if (run_amount_parse(a->warmup, &j->opt.warmup, &err) < 0)
        return cli_usage(j->cli, "--warmup: %s", err.msg);
    if (run_amount_parse(a->iterations, &j->opt.iterations, &err) < 0)
        return cli_usage(j->cli, "--iterations: %s", err.msg);
    if (!j->opt.iterations.count && !j->opt.iterations.ns)
        return cli_usage(j->cli, "--iterations: at least one is needed");
    if (a->max_memory && run_bytes_parse(a->max_memory, &j->opt.max_memory, &err) < 0)
        return cli_usage(j->cli, "--max-memory: %s", err.msg);
    if (a->time_limit && (run_amount_parse(a->time_limit, &limit, &err) < 0 || !limit.ns))
        return cli_usage(j->cli, "--time-limit: '%s' is no time such as 10s", a->time_limit);
    j->opt.time_limit_ns = limit.ns;
    j->opt.keep_partial = true;
    if (run_rate_parse(a->sample, &j->opt.sample_hz, &err) < 0)
        return cli_usage(j->cli, "--sample: %s", err.msg);
    rc = parse_real(j->cli, "atol", a->atol, &j->opt.atol);
    if (rc == CLI_OK)
        rc = parse_real(j->cli, "rtol", a->rtol, &j->opt.rtol);
    if (rc == CLI_OK)
        rc = parse_generate(j);
    if (rc == CLI_OK)
        rc = parse_dims(j);
    if (rc == CLI_OK)
        rc = parse_instances(j);
    j->opt.engine = a->engine;
    j->opt.ort_lib = a->ort_lib;
    j->opt.batch_size = a->batch_size;
    j->opt.seq_len = a->seq_len;
    j->opt.guess_sizes = true;
    j->opt.input = a->input.item;
    j->opt.ninput = a->input.n;
    j->opt.seed = a->seed;
    j->opt.threads = (int)a->threads;
    j->opt.pin = a->pin;
    j->opt.winograd = a->winograd;
    j->opt.sparse = a->sparse;
    j->opt.receipt = a->receipt;
    j->opt.counters = a->counters;
    j->opt.save_outputs = a->save_outputs;
    j->opt.replace_outputs = a->force;
    j->opt.check = a->check;
    return rc;
}

/* A folder for each instance, and one for what is said of all together. */
static int make_folders(struct job *j)
{
    char label[128];
    opm_error err;
    int rc = 0;

    run_model_label(j->opt.model, label, sizeof(label));
    if (!j->a->output) {
        rc = run_make_folders(FOLDER_RESULTS, label, j->dir, j->n, &err);
        j->new_dirs = rc == 0;
        if (!rc && j->n > 1) {
            snprintf(j->merged, sizeof(j->merged), "%.*s_all",
                     (int)(strrchr(j->dir[0], '_') - j->dir[0]), j->dir[0]);
            rc = run_make_folder(j->merged, &err);
        }
    } else if (strlen(j->a->output) > FOLDER_PATH_MAX - 32) {
        return cli_usage(j->cli, "-o: the path is too long");
    } else if (j->n == 1) {
        snprintf(j->dir[0], sizeof(j->dir[0]), "%s", j->a->output);
        rc = run_make_folder(j->dir[0], &err);
    } else {
        snprintf(j->merged, sizeof(j->merged), "%s", j->a->output);
        for (int i = 0; !rc && i < j->n; i++) {
            snprintf(j->dir[i], sizeof(j->dir[i]), "%s/instance_%d", j->a->output, i);
            rc = run_make_folder(j->dir[i], &err);
        }
    }
    return rc ? cli_error("%s", err.msg) : CLI_OK;
}

/* A trace, and the live buffers of one that was killed. */
static const char *const trace_files[] = { "trace.opm", "trace.opm-live" };

static ino_t inode_of(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 ? st.st_ino : 0;
}

/* Before any work: may the files beside the results be written? */
static int may_write(const struct job *j)
{
    const char *const files[] = { j->a->profile, j->a->profile_host, j->a->save_tokens };
    int rc = run_env_may_write(j->a->force);

    for (size_t i = 0; rc == CLI_OK && i < ARRAY_SIZE(files); i++)
        if (files[i])
            rc = cli_may_write(files[i], j->a->force);
    return rc;
}

/* And the results? What is in their way and may go goes. */
static int may_write_results(struct job *j)
{
    const char *const names[] = { "trace.json", "operators.csv", "operators.xlsx", "summary.json",
                                  "summary.md", trace_files[0],  trace_files[1] };
    char path[FOLDER_PATH_MAX + 32];
    int rc = CLI_OK;

    for (int i = 0; rc == CLI_OK && i < j->n; i++)
        rc = cli_may_write_names(j->dir[i], names, ARRAY_SIZE(names), j->a->force);
    if (rc == CLI_OK && j->merged[0])
        rc = cli_may_write_names(j->merged, names, ARRAY_SIZE(names), j->a->force);
    for (int i = 0; rc == CLI_OK && i < j->n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(trace_files); k++) {
            snprintf(path, sizeof(path), "%s/%s", j->dir[i], trace_files[k]);
            if (j->a->force && makeway_look(path) == MAKEWAY_FOREIGN)
                unlink(path); /* the recorder would not go over it */
            j->had[i][k] = inode_of(path);
        }
    return rc;
}

/* After a failure: take back what was made here, and have what was there before in its place. */
static void drop_folders(struct job *j)
{
    char path[FOLDER_PATH_MAX + 32], old[FOLDER_PATH_MAX + 48];

    for (int i = 0; i < j->n && j->dir[i][0]; i++) {
        for (size_t k = 0; k < ARRAY_SIZE(trace_files); k++) {
            snprintf(path, sizeof(path), "%s/%s", j->dir[i], trace_files[k]);
            snprintf(old, sizeof(old), "%s/trace.opm.old%s", j->dir[i], k ? "-live" : "");
            if (inode_of(path) != j->had[i][k])
                unlink(path);
            if (j->had[i][k] && inode_of(old) == j->had[i][k])
                rename(old, path);
        }
        if (j->new_dirs)
            rmdir(j->dir[i]);
    }
    if (j->new_dirs && j->merged[0])
        rmdir(j->merged);
    if (j->new_dirs)
        rmdir(FOLDER_RESULTS);
}

/* The results are those of a crash: the trace as far as it goes. */
static void end_overdue(void *job)
{
    const struct job *j = job;
    int sig;

    if (j->n == 1) /* else there are others, and who started them says what happened */
        cli_error("%s, but what runs does not end: what was recorded so far is in %s/trace.opm",
                  cli_interrupt_asked() ? "interrupted" : "the time limit was over", j->dir[0]);
    sig = cli_interrupt_take();
    if (sig) {
        signal(sig, SIG_DFL);
        kill(getpid(), sig);
    }
    _exit(CLI_FAILURE);
}

static int run_all(struct job *j)
{
    const char *dirs[RUN_INSTANCES_MAX];
    struct buf near = { 0 };
    struct progress p;
    opm_error err;
    int rc;

    progress_start(&p, j->cli, "running", j->opt.model);
    j->opt.progress = progress_tick;
    j->opt.progress_anywhere = true;
    j->opt.user = &p;
    j->opt.overdue = end_overdue;
    j->opt.overdue_user = j;
    j->opt.asked = cli_interrupt_asked;
    cli_interrupt_begin();
    if (j->n == 1) {
        j->opt.dir = j->dir[0];
        rc = run_model(&j->opt, &j->res[0], &err);
    } else {
        for (int i = 0; i < j->n; i++)
            dirs[i] = j->dir[i];
        rc = run_instances(&j->opt, dirs, j->n, j->res, &err);
    }
    progress_end(&p);
    if (rc) {
        drop_folders(j);
        cli_interrupt_end();
        rc = cli_error("%s%s", err.msg, cli_near_file(j->opt.model, &near));
        buf_release(&near);
        return rc;
    }
    j->caught = cli_interrupt_take(); /* what was measured is written first */
    cli_interrupt_end();
    return CLI_OK;
}

/* What was stopped says so after its results, and ends as the signal would have ended it. */
static int tell_stopped(struct job *j, int rc)
{
    const struct run_result *r = &j->res[0];

    if (r->stopped && rc == CLI_OK)
        rc = cli_error(
            "%s after %llu warm-up and %llu measured iteration%s; what was measured is in %s",
            r->stopped == RUN_TIME_LIMIT ? "the time limit was over" : "interrupted",
            (unsigned long long)r->warmup, (unsigned long long)r->metered.n,
            human_s((int64_t)r->metered.n), j->dir[0]);
    if (r->stopped == RUN_TIME_LIMIT && r->metered.n)
        rc = CLI_OK;
    if (j->caught) {
        io_out_flush(&j->cli->out);
        raise(j->caught);
    }
    return rc;
}

/* trace.json, trace.opm if it is not there, and what the options ask for besides. */
static int export_files(struct job *j, opm_trace *t, const char *dir, bool merged, bool all)
{
    const struct {
        const char *format, *path;
    } files[] = { { "megengine", j->a->profile }, { "megengine-host", j->a->profile_host } };
    char path[FOLDER_PATH_MAX + 32];
    opm_error err;
    int rc;

    snprintf(path, sizeof(path), "%s/trace.json", dir);
    rc = opm_trace_export(t, "chrome", path, NULL, &err);
    snprintf(path, sizeof(path), "%s/trace.opm", dir);
    if (rc == 0 && merged && cli_make_way(path, j->a->force) != CLI_OK)
        return CLI_FAILURE;
    if (rc == 0 && merged)
        rc = opm_trace_export(t, "opm", path, NULL, &err);
    snprintf(path, sizeof(path), "%s/operators.xlsx", dir);
    if (rc == 0)
        rc = opm_trace_export(t, "xlsx", path, NULL, &err);
    if (rc == OPM_EUNSUPPORTED) /* no libxlsxwriter, or more than a sheet holds */
        rc = 0;
    for (size_t i = 0; rc == 0 && all && i < ARRAY_SIZE(files); i++)
        if (files[i].path)
            rc = opm_trace_export(t, files[i].format, files[i].path, NULL, &err);
    return rc < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

static void remark_counters(struct job *j, opm_trace *t, const char *dir)
{
    char path[FOLDER_PATH_MAX + 32];
    struct buf text = { 0 };

    snprintf(path, sizeof(path), "%s/trace.opm", dir);
    cli_counters(t, path, &text);
    if (text.len)
        cli_remark(j->cli, "counters: %s", buf_str(&text));
    buf_release(&text);
}

/* Read back the traces first .. first + n - 1, leave their files in dir; print if asked to. */
static int report(struct job *j, int first, int n, const char *dir, bool print)
{
    struct report r = { .cli = j->cli, .res = &j->res[first], .n = n, .peak = j->peak };
    char *paths[RUN_INSTANCES_MAX];
    opm_trace *t = NULL;
    int rc = CLI_OK;

    for (int i = 0; rc == CLI_OK && i < n; i++) {
        paths[i] = j->res[first + i].trace;
        rc = cli_open(j->cli, &t, &paths[i], 1);
        if (rc == CLI_OK)
            rc = report_add(&r, t);
        if (n > 1) {
            opm_trace_close(t);
            t = NULL;
        }
    }
    report_finish(&r);
    if (rc == CLI_OK && n > 1)
        rc = cli_open(j->cli, &t, paths, n);
    if (rc == CLI_OK)
        rc = export_files(j, t, dir, n > 1, print);
    if (rc == CLI_OK)
        rc = report_write_files(&r, dir);
    if (rc == CLI_OK && print)
        rc = j->cli->json  ? report_print_json(&r)
             : j->cli->csv ? report_print_csv(&r)
                           : report_print(&r, (int)j->a->top, dir);
    if (rc == CLI_OK && print && !j->cli->json && !j->cli->csv)
        remark_counters(j, t, dir);
    report_release(&r);
    opm_trace_close(t);
    return rc;
}

static int check_failed(const struct job *j)
{
    for (int i = 0; i < j->n; i++)
        if (j->res[i].check.done && !j->res[i].check.ok)
            return CLI_CHECK;
    return CLI_OK;
}

static int do_job(struct job *j)
{
    int rc = parse_options(j);

    if (rc != CLI_OK)
        return rc;
    j->dir = mem_calloc((size_t)j->n, sizeof(*j->dir));
    j->res = mem_calloc((size_t)j->n, sizeof(*j->res));
    j->had = mem_calloc((size_t)j->n, sizeof(*j->had));
    if (!j->dir || !j->res || !j->had)
        return cli_out_of_memory();
    rc = may_write(j);
    if (rc == CLI_OK)
        rc = make_folders(j);
    if (rc == CLI_OK)
        rc = may_write_results(j);
    if (rc == CLI_OK)
        rc = run_all(j);
    if (rc != CLI_OK)
        return rc;
    if (j->res[0].ignored[0])
        cli_error("%s: %s", j->opt.model, j->res[0].ignored);
    run_peak(j->res[0].threads, &j->peak);
    for (int i = 0; rc == CLI_OK && i < j->n && j->n > 1; i++)
        rc = report(j, i, 1, j->dir[i], false);
    if (rc == CLI_OK)
        rc = report(j, 0, j->n, j->n > 1 ? j->merged : j->dir[0], true);
    if (rc == CLI_OK)
        rc = run_env_write(j->cli, j->res, j->n);
    if (rc == CLI_OK)
        rc = check_failed(j);
    return tell_stopped(j, rc);
}

int cmd_run(struct cli *cli, int argc, char **argv)
{
    struct args a = { .top = 10,
                      .seed = 1,
                      .atol = "1e-4",
                      .rtol = "1e-3",
                      .sample = "0",
                      .winograd = true,
                      .sparse = true,
                      .receipt = true };
    const struct option opts[] = {
        OPT_STR('n', "iterations", &a.iterations, "AMOUNT", "iterations to measure (10)"),
        OPT_STR('w', "warmup", &a.warmup, "AMOUNT", "iterations before that (5)"),
        OPT_CHOICE('e', "engine", &a.engine, "NAME", a.engine_list,
                   "native or onnxruntime (native)"),
        OPT_INT('j', "threads", &a.threads, "N", 1, 1024, "threads (as many as there are cores)"),
        OPT_INT(0, "instances", &a.instances, "N", 1, RUN_INSTANCES_MAX,
                "run N processes at once, each with its part of the cores (1)"),
        OPT_BOOL(0, "pin", &a.pin, "bind threads to cores"),
        OPT_BOOL(0, "winograd", &a.winograd, "allow Winograd convolutions (default)"),
        OPT_BOOL(0, "sparse", &a.sparse, "allow block-sparse kernels (default)"),
        OPT_STR(0, "ort-lib", &a.ort_lib, "FILE", "the libonnxruntime.so to use"),
        OPT_STR(0, "max-memory", &a.max_memory, "SIZE",
                "memory for inputs and engine, such as 4GB (3/4 of what there is)"),
        OPT_STR(0, "time-limit", &a.time_limit, "TIME", "stop after this time and report (none)"),
        OPT_GROUP("Inputs"),
        OPT_INT(0, "batch-size", &a.batch_size, "N", 1, 1000000, "size of the first dimension"),
        OPT_INT(0, "seq-len", &a.seq_len, "N", 1, 100000000, "length of sequences"),
        OPT_LIST(0, "dim", &a.dim, "NAME=N", "size of an open dimension; may be repeated"),
        OPT_LIST(
            'i', "input", &a.input, "NAME:VALUE",
            "an input: FILE.npy, .npz, .png, .jpg, .ppm or .json, a shape such as "
            "data:1x3x640x640, or numbers such as [[1,2],[3,4]] or [true]; several with ';' in "
            "between or by repeating"),
        OPT_INT(0, "seed", &a.seed, "N", 0, INT64_MAX, "seed of random inputs (1)"),
        OPT_GROUP("Generating"),
        OPT_INT(0, "generate", &a.generate, "N", 1, 1000000,
                "tokens to make by a decoder with a cache, -n times (3) after -w (1)"),
        OPT_STR(0, "encoder", &a.encoder, "FILE",
                "the encoder that MODEL listens to, if MODEL is no folder with both"),
        OPT_INT(0, "prompt-len", &a.prompt_len, "M", 1, 1000000,
                "random tokens to read before that (32; behind an encoder 1)"),
        OPT_STR(0, "prompt-ids", &a.prompt_ids, "FILE",
                "the tokens to read: numbers, a line for each row of the batch"),
        OPT_STR(0, "temperature", &a.temperature, "X",
                "choose tokens at random, by --seed; 0: the likeliest (0)"),
        OPT_INT(0, "top-k", &a.top_k, "N", 0, 1000000, "among so many likeliest; 0: all (0)"),
        OPT_STR(0, "top-p", &a.top_p, "P",
                "among the likeliest that have this probability together (1)"),
        OPT_STR(0, "save-tokens", &a.save_tokens, "FILE", "write what was made, a line per row"),
        OPT_GROUP("Results"),
        OPT_STR('o', "output", &a.output, "DIR",
                "folder for the results (opmeter.out/MODEL_DATE_INSTANCE)"),
        OPT_BOOL(0, "force", &a.force, "replace files there that are not opmeter's"),
        OPT_INT('t', "top", &a.top, "N", 0, 1000000, "operators to print; 0: all (10)"),
        OPT_BOOL(0, "receipt", &a.receipt, "bare iterations in between, to see the cost (default)"),
        OPT_BOOL(0, "counters", &a.counters,
                 "count cycles, instructions and cache misses of operators"),
        OPT_STR(0, "sample", &a.sample, "HZ",
                "hardware samples a second, of machine, process and GPUs (0: none)"),
        OPT_STR(0, "profile", &a.profile, "FILE", "also write MegEngine's profile JSON"),
        OPT_STR(0, "profile-host", &a.profile_host, "FILE",
                "the same with the times of the host alone"),
        OPT_STR(0, "save-outputs", &a.save_outputs, "DIR", "write the outputs as NAME.npy"),
        OPT_STR(0, "check", &a.check, "FILE.npz",
                "feed its in_NAME arrays, compare outputs with out_NAME; exit 3 if they differ"),
        OPT_STR(0, "atol", &a.atol, "X", "--check: absolute difference allowed (1e-4)"),
        OPT_STR(0, "rtol", &a.rtol, "X", "--check: relative difference allowed (1e-3)"),
        OPT_BOOL(0, "json", &cli->json, "print summary.json instead"),
        OPT_BOOL(0, "csv", &cli->csv, "print operators.csv instead"),
        OPT_ALIAS("warmup-iter", "warmup"), /* MegEngine */
        OPT_ALIAS("w", "warmup"),           /* Neural Engine */
        OPT_ALIAS("multithread", "threads"),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    struct job j = { .cli = cli, .a = &a };
    int n, rc;

    for (size_t i = 0; i < ENGINES_MAX && run_engine_name(i); i++)
        a.engine_list[i] = run_engine_name(i);
    a.engine = a.engine_list[0];
    n = cli_parse(cli, opts, about, argc, argv);
    if (n < 0)
        rc = cli->status;
    else if (n == 0)
        rc = cli_usage(cli, "a MODEL is needed: an ONNX file or zoo:NAME");
    else if (n > 1)
        rc = cli_usage(cli, "one MODEL at a time, but there is also '%s'", argv[1]);
    else if (strcmp(argv[0], "-") == 0)
        rc = cli_usage(cli, "a MODEL is a file or zoo:NAME, not standard input");
    else {
        j.opt.model = argv[0];
        rc = do_job(&j);
    }
    for (size_t i = 0; j.dims && i < a.dim.n; i++)
        mem_free(j.dims[i].name);
    mem_free(j.dims);
    mem_free(j.dir);
    mem_free(j.had);
    mem_free(j.res);
    option_list_release(&a.input);
    option_list_release(&a.dim);
    return rc;
}
