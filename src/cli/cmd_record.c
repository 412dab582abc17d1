/* cmd_record.c -- run any program with recording on, and make one trace of what it left. */
#include "cli/ranks.h"

#include "launch/record.h"
#include "run/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SHARE_MIN_NS 1000000000 /* of a shorter recording, the start of the sampler is most */

static const char about[] =
    "Run COMMAND with recording on, unchanged: programs that are linked with libopmeter, Python "
    "programs, CUDA programs and programs that use llama.cpp, with all processes that they start. "
    "Their parts are merged into "
    "one FILE when COMMAND ends; should anything be killed before, 'opmeter import FILE.parts' "
    "does "
    "it. The exit status is that of COMMAND. What opmeter has to say goes to standard error.";

struct record_job {
    struct cli *cli;
    struct record_options opt;
    struct record_result res;
    const char *wanted; /* -o */
    const char *format;
    char file[FOLDER_PATH_MAX];
    const char *add_to; /* a catalogue, for the rank that this is */
    struct ranks_said rank;
    bool keep_parts, verbose, force;
    opm_trace *t;
};

/* -- what is said at the end -- */

/* "1 process" or "2 processes". */
static void add_count(struct buf *b, int64_t n, const char *one, const char *many)
{
    char room[HUMAN_ROOM];

    buf_addf(b, "%s %s", human_count(room, n), n == 1 ? one : many);
}

/* sigabbrev_np(), which older C libraries and others lack. */
static const char *signal_name(int number)
{
    static const char *const names[] = {
#define NAME(signal) [signal] = #signal
        NAME(SIGHUP),  NAME(SIGINT),    NAME(SIGQUIT), NAME(SIGILL),  NAME(SIGTRAP),
        NAME(SIGABRT), NAME(SIGBUS),    NAME(SIGFPE),  NAME(SIGKILL), NAME(SIGUSR1),
        NAME(SIGSEGV), NAME(SIGUSR2),   NAME(SIGPIPE), NAME(SIGALRM), NAME(SIGTERM),
        NAME(SIGXCPU), NAME(SIGVTALRM), NAME(SIGPROF), NAME(SIGXFSZ), NAME(SIGSYS),
#undef NAME
    };

    return number > 0 && (size_t)number < ARRAY_SIZE(names) ? names[number] : NULL;
}

static void add_title(const struct record_job *j, struct buf *b)
{
    char room[HUMAN_ROOM];

    buf_addf(b, "opmeter: recorded %s: %s", j->opt.argv[0], human_ns(room, (double)j->res.wall_ns));
    if (j->res.signal && signal_name(j->res.signal))
        buf_addf(b, ", killed by %s", signal_name(j->res.signal));
    else if (j->res.signal)
        buf_addf(b, ", killed by signal %d", j->res.signal);
    else if (j->res.exit_code)
        buf_addf(b, ", exit status %d", j->res.exit_code);
}

static const char hook_python[] = "Python", hook_cuda[] = "CUDA", hook_llama[] = "llama.cpp";

static void add_hook(struct buf *b, const char *what, enum record_hook hook)
{
    if (hook == RECORD_HOOK_MISSING && what == hook_python)
        buf_addf(b,
                 "  %-10s  not hooked: the package opmeter is not installed; 'pip install "
                 "./python' in opmeter's sources does it\n",
                 what);
    else if (hook == RECORD_HOOK_MISSING)
        buf_addf(b, "  %-10s  not recorded: this opmeter has no libopmeter-%s.so\n", what,
                 what == hook_cuda ? "cuda" : "llama");
    else if (hook == RECORD_HOOK_TAKEN)
        buf_addf(b, "  %-10s  not recorded: CUDA_INJECTION64_PATH names another profiler\n", what);
}

static void add_nothing(struct buf *b)
{
    static const char text[] =
        "Nothing of it was recorded: none of its processes is linked with libopmeter, imported "
        "what opmeter hooks, or called CUDA. A script that starts llama.cpp is recorded with "
        "--llama always; a program that has llama.cpp linked in statically cannot be. In C, "
        "#include <opmeter/opmeter.h>, put "
        "OPM_SPAN(OPM_APP, \"name\") { ... } around what matters, and link with -lopmeter. In "
        "Python, import opmeter and use opmeter.span(\"name\").";

    buf_adds(b, "  ");
    text_wrap(b, text, 2, 2, cli_text_width());
    buf_addc(b, '\n');
}

static int64_t file_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
}

static void add_contents(struct record_job *j, int64_t spans, struct buf *b)
{
    int64_t processes = cli_query_int(
        j->t, "SELECT count(DISTINCT coalesce(host, '') || ' ' || pid) FROM track WHERE id IN "
              "(SELECT DISTINCT track FROM span)");
    int64_t ranks = cli_query_int(j->t, "SELECT count(DISTINCT rank) FROM track");
    int64_t tracks = cli_query_int(j->t, "SELECT count(DISTINCT track) FROM span");
    int64_t lost = cli_query_int(j->t, "SELECT coalesce(sum(count), 0) FROM import_stat WHERE "
                                       "severity = 'loss'");
    int64_t unknown = cli_query_int(j->t, "SELECT coalesce(sum(count), 0) FROM import_stat WHERE "
                                          "name = 'losses_unknown'");
    char room[HUMAN_ROOM];

    if (spans <= 0) {
        add_nothing(b);
        return;
    }
    buf_addf(b, "  %-10s  %lld", "processes", (long long)processes);
    if (ranks > 0) {
        buf_adds(b, ", ");
        add_count(b, ranks, "rank", "ranks");
    }
    buf_addf(b, "\n  %-10s  %s on ", "spans", human_count(room, spans));
    add_count(b, tracks, "track", "tracks");
    if (lost < 0 || unknown) {
        buf_addf(b, "; how much was lost is not known, see 'opmeter info %s'", j->file);
    } else if (lost > 0) {
        buf_adds(b, "; ");
        add_count(b, lost, "loss", "losses");
        buf_addf(b, ", see 'opmeter info %s'", j->file);
    } else if (j->res.failed) {
        buf_adds(b, "; how many are lost is not known");
    } else {
        buf_adds(b, ", none lost");
    }
    buf_addc(b, '\n');
}

static void add_failed(const struct record_job *j, struct buf *b)
{
    if (!j->res.failed)
        return;
    buf_addf(b, "  %-10s  ", "missing");
    add_count(b, j->res.failed, "process that could not record", "processes that could not record");
    buf_addf(b, ": %s\n", j->res.failed_why);
}

static void add_samples(const struct record_job *j, struct buf *b)
{
    const struct sampler_stats *s = &j->res.samples;
    char room[HUMAN_ROOM];

    if (j->res.own_part.code) {
        buf_addf(b, "  %-10s  none: %s\n", "samples", j->res.own_part.msg);
        return;
    }
    if (!s->rounds)
        return;
    buf_addf(b, "  %-10s  %s, %g times a second, of ", "samples",
             human_count(room, (int64_t)s->samples), j->opt.sample_hz);
    add_count(b, s->processes, "process", "processes");
    if (s->gpus) {
        buf_adds(b, " and ");
        add_count(b, s->gpus, "GPU", "GPUs");
    }
    buf_addf(b, "; cost: %s", human_ns(room, (double)s->cpu_ns));
    if (s->wall_ns >= SHARE_MIN_NS)
        buf_addf(b, ", %.2g %% of a core", 100.0 * (double)s->cpu_ns / (double)s->wall_ns);
    buf_addc(b, '\n');
    if (j->verbose && !s->gpus)
        buf_addf(b, "  %-10s  not sampled: %s\n", "GPU", s->no_gpu);
    if (s->late) {
        buf_addf(b, "  %-10s  ", "");
        add_count(b, (int64_t)s->late, "round", "rounds");
        buf_adds(b, " left out: reading took longer than the time between them\n");
    }
}

static void add_counters(const struct record_job *j, struct buf *b)
{
    struct buf text = { 0 };

    cli_counters(j->t, j->file, &text);
    if (text.len) {
        buf_addf(b, "  %-10s  ", "counters");
        text_wrap(b, buf_str(&text), 14, 14, MAX(cli_text_width(), 100));
        buf_addc(b, '\n');
    }
    b->failed |= text.failed;
    buf_release(&text);
}

static void add_measuring(const struct record_job *j, struct buf *b)
{
    struct buf text = { 0 };

    cli_measuring(j->t, &text);
    if (text.len) {
        buf_addf(b, "  %-10s  ", "measuring");
        text_wrap(b, buf_str(&text), 14, 14, MAX(cli_text_width(), 100));
        buf_addc(b, '\n');
    }
    b->failed |= text.failed;
    buf_release(&text);
}

static void print_receipt(struct record_job *j, bool parts_stay)
{
    struct buf b = { 0 };
    int64_t bytes = file_bytes(j->file);
    int64_t spans = cli_query_int(j->t, "SELECT count(*) FROM span");
    char room[HUMAN_ROOM];

    add_title(j, &b);
    buf_addc(&b, '\n');
    add_contents(j, spans, &b);
    add_failed(j, &b);
    if (j->verbose || spans <= 0) {
        add_hook(&b, hook_python, j->res.python);
        add_hook(&b, hook_cuda, j->res.cuda);
        add_hook(&b, hook_llama, j->res.llama);
    }
    add_measuring(j, &b);
    add_counters(j, &b);
    add_samples(j, &b);
    buf_addf(&b, "  %-10s  %s", "written", j->file);
    if (bytes >= 0)
        buf_addf(&b, ", %s", human_bytes(room, (uint64_t)bytes));
    buf_addc(&b, '\n');
    if (j->res.busy) {
        buf_addf(&b, "  %-10s  ", "running");
        add_count(&b, j->res.busy, "process that it left behind is still recording",
                  "processes that it left behind are still recording");
        buf_addf(&b, ": later, 'opmeter import %s -o FILE.opm'\n", j->res.parts);
    } else if (parts_stay) {
        buf_addf(&b, "  %-10s  %s\n", "parts", j->res.parts);
    }
    if (spans > 0)
        buf_addf(&b, "  %-10s  opmeter top %s\n", "next", j->file);
    cli_clean_lines(&b);
    fputs(b.failed ? "opmeter: out of memory\n" : buf_str(&b), stderr);
    buf_release(&b);
}

/* -- merging -- */

static int write_trace(struct record_job *j)
{
    opm_export_options opts = OPM_EXPORT_OPTIONS_INIT;
    struct progress p;
    opm_error err;
    int rc;

    progress_start(&p, j->cli, "writing", j->file);
    opts.progress = progress_tick;
    opts.user = &p;
    rc = opm_trace_export(j->t, j->format, j->file, &opts, &err);
    progress_end(&p);
    return rc < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

/* One trace of all parts. Whatever goes wrong, they stay and that is said. */
static int merge(struct record_job *j)
{
    char *parts = j->res.parts;
    bool parts_stay = j->keep_parts || j->res.busy;
    int rc;

    cli_interrupt_begin();
    rc = cli_open(j->cli, &j->t, &parts, 1);
    if (rc == CLI_OK)
        rc = cli_make_way(j->file, j->force);
    if (rc == CLI_OK)
        rc = write_trace(j);
    if (rc != CLI_OK)
        cli_error("what was recorded is in %s; 'opmeter import' reads it", parts);
    if (rc == CLI_OK && !parts_stay && !record_parts_remove(parts)) {
        cli_error("%s: %s", parts, strerror(errno));
        parts_stay = true;
    }
    if (rc == CLI_OK && !j->cli->quiet)
        print_receipt(j, parts_stay);
    opm_trace_close(j->t);
    cli_interrupt_end();
    return rc;
}

static int record(struct record_job *j)
{
    opm_error err;
    int rc;

    if (record_output(j->wanted, j->opt.argv, j->file, &err) < 0)
        return cli_error("%s", err.msg);
    j->format = cli_export_format(j->file);
    if (!j->format)
        return cli_usage(j->cli, "-o %s: no format has this extension; .opm is opmeter's own",
                         j->file);
    rc = cli_may_write(j->file, j->force);
    if (rc != CLI_OK)
        return rc;
    j->opt.output = j->file;
    if (record_program(&j->opt, &j->res, &err) < 0) {
        cli_error("%s", err.msg);
        return j->res.exit_code;
    }
    rc = merge(j);
    if (rc == CLI_OK && j->add_to) {
        char *file = j->file;

        rc = ranks_add(j->cli, j->add_to, &j->rank, &file, 1);
        if (rc != CLI_OK)
            cli_error("the recording is in %s: 'opmeter add %s --to ... --job %s' adds it later",
                      file, file, ranks_job(&j->rank));
    }
    return j->res.exit_code ? j->res.exit_code : rc;
}

static bool read_when(const char *word, enum record_when *out)
{
    static const char *const words[] = {
        [RECORD_AUTO] = "auto", [RECORD_ALWAYS] = "always", [RECORD_NEVER] = "never"
    };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (enum record_when)i;
            return true;
        }
    return false;
}

int cmd_record(struct cli *cli, int argc, char **argv)
{
    struct record_job j = { .cli = cli,
                            .opt = { .level = -1, .python = true, .cuda = true },
                            .rank = { .rank = RANK_OF_TRACE } };
    int64_t level = -1, buffer_mb = 0;
    const char *hz = "10", *llama = "auto";
    bool samples = true;
    opm_error err;
    const struct option opts[] = {
        OPT_STR('o', "output", &j.wanted, "FILE",
                "write FILE; the extension picks the format, %p becomes the process id, %r the "
                "rank (opmeter.out/COMMAND_DATE.opm)"),
        OPT_INT(0, "level", &level, "N", 0, 3,
                "layers: 1 application, 2 and framework, 3 and runtime and hardware (3)"),
        OPT_STR(0, "categories", &j.opt.categories, "LIST",
                "only these categories (a,b), or all but these (-a,-b)"),
        OPT_INT(0, "buffer-mb", &buffer_mb, "N", 1, 65536,
                "memory for events in each process, in megabytes (32)"),
        OPT_BOOL(0, "python", &j.opt.python, "hook what Python programs import (default)"),
        OPT_BOOL(0, "cuda", &j.opt.cuda, "record what CUDA does (default)"),
        OPT_STR(0, "llama", &llama, "WHEN",
                "record llama.cpp: auto (in programs that are linked with it, and node), always, "
                "never (auto)"),
        OPT_BOOL(0, "ggml-ops", &j.opt.ggml_ops,
                 "run llama.cpp's graphs node by node, and time each"),
        OPT_STR(0, "sample", &hz, "HZ",
                "hardware samples a second, of machine, processes and GPUs; 0: none (10)"),
        OPT_BOOL(0, "samples", &samples, "take hardware samples (default)"),
        OPT_BOOL(0, "counters", &j.opt.counters,
                 "count cycles, instructions and cache misses of operators"),
        OPT_STR(0, "add-to", &j.add_to, "URL",
                "at the end, add it as a rank of a job to this catalogue, as 'opmeter add --job'"),
        OPT_STR(0, "job", &j.rank.job, "ID",
                "with --add-to, the job (as Slurm, MPI or torchrun say)"),
        OPT_BOOL(0, "force", &j.force, "replace FILE, whatever it is"),
        OPT_BOOL(0, "keep-parts", &j.keep_parts, "keep FILE.parts, what each process wrote"),
        OPT_BOOL('v', "verbose", &j.verbose, "also say what could not be hooked"),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse_program(cli, opts, about, argc, argv);

    if (n < 0)
        return cli->status;
    if (n == 0)
        return cli_usage(cli, "a COMMAND is needed");
    if (run_rate_parse(hz, &j.opt.sample_hz, &err) < 0)
        return cli_usage(cli, "--sample: %s", err.msg);
    if (!read_when(llama, &j.opt.llama))
        return cli_usage(cli, "--llama: '%s' is none of auto, always, never", llama);
    if (j.opt.ggml_ops && j.opt.llama == RECORD_NEVER)
        return cli_usage(cli, "--ggml-ops needs llama.cpp recorded, but --llama says never");
    if (j.add_to && !ranks_job(&j.rank))
        return cli_usage(cli, "--add-to needs --job, as neither Slurm, MPI nor torchrun runs this");
    if (!samples)
        j.opt.sample_hz = 0;
    argv[n] = NULL; /* in the place of an option, or of the NULL behind them all */
    j.opt.argv = argv;
    j.opt.level = (int)level;
    j.opt.buffer_mb = (int)buffer_mb;
    j.opt.ignore_sigpipe = cli->sigpipe_ignored;
    return record(&j);
}
