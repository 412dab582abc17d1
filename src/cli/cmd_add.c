/* cmd_add.c -- keep runs in a catalogue, for 'opmeter history'. */
#include "catalog/reduce.h"
#include "cli/cli.h"
#include "cli/commit.h"
#include "cli/ranks.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "base/folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char about[] =
    "Keep runs in a catalogue: of each RUN, a trace or a folder of 'opmeter run', its latencies, "
    "what every operator took, model, machine, commit, and where it lies. 'opmeter history' shows "
    "them. With --job, each RUN is a recording of a rank of a distributed job and reduced to what "
    "'opmeter job' needs, one at a time. What is there already stays as it is; several may add at "
    "once, and what was broken off is completed by adding it again.";

struct adding {
    struct cli *cli;
    struct reduce_said said;
    struct ranks_said rank;
    bool ranks; /* of a job are added, not runs */
    const char *watch;
    struct buf commit;
    struct kept_label *label;
};

/* "key=value" */
static int parse_labels(struct cli *cli, const struct option_list *texts, struct arena *room,
                        struct kept_label **out)
{
    *out = mem_calloc(texts->n + 1, sizeof(**out));
    if (!*out)
        return cli_out_of_memory();
    for (size_t i = 0; i < texts->n; i++) {
        const char *text = texts->item[i], *equals = strchr(text, '=');

        if (!equals || equals == text)
            return cli_usage(cli, "--label: '%s' is not KEY=VALUE", text);
        (*out)[i].key = arena_strndup(room, text, (size_t)(equals - text));
        (*out)[i].value = equals + 1;
        if (!(*out)[i].key)
            return cli_out_of_memory();
        for (size_t k = 0; k < i; k++)
            if (strcmp((*out)[k].key, (*out)[i].key) == 0)
                return cli_usage(cli, "--label: %s is given twice", (*out)[i].key);
    }
    return CLI_OK;
}

/* "LOOP[,STOLEN[,LOAD]]": a time such as 1.3ms, a share such as 2%, a number. */
static int parse_calibration(struct cli *cli, const char *text, struct reduce_said *said)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
    char *end;
    double v;
    bool known = false;

    if (!text)
        return CLI_OK;
    v = strtod(text, &end);
    for (size_t i = 0; i < ARRAY_SIZE(units) && end != text && !known; i++) {
        size_t len = strlen(units[i].unit);

        known = strncmp(end, units[i].unit, len) == 0 && (end[len] == '\0' || end[len] == ',');
        if (known) {
            said->loop_ns = v * units[i].ns;
            end += len;
        }
    }
    if (known && *end == ',') {
        text = end + 1;
        said->stolen = strtod(text, &end) / 100;
        known = end != text && *end == '%' && said->stolen >= 0 && said->stolen <= 1;
        end += known;
    }
    if (known && *end == ',') {
        text = end + 1;
        said->load = strtod(text, &end);
        known = end != text && said->load >= 0;
    }
    return known && *end == '\0' && said->loop_ns > 0 && said->loop_ns < 1e12
               ? CLI_OK
               : cli_usage(cli, "--calibration: give the time of a fixed piece of work, such as "
                                "1.3ms, or 1.3ms,2%%,0.5 with stolen time and load");
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Reduce one and add it, in a transaction of its own: what was added stays, whatever comes then. */
static int add_run(struct adding *a, struct runsdb *db, char *path, bool *added)
{
    char room[FOLDER_PATH_MAX], *trace = ranks_trace_of(path, room), *lies = realpath(trace, NULL);
    struct arena text = { 0 };
    struct kept kept;
    opm_trace *t = NULL;
    opm_error err;
    int rc = cli_open(a->cli, &t, &trace, 1);

    a->said.trace = lies ? lies : trace;
    if (rc == CLI_OK && reduce_trace(t, &a->said, &text, &kept, &err) < 0)
        rc = cli_error("%s: %s", path, err.msg);
    opm_trace_close(t);
    if (rc == CLI_OK && (runsdb_begin(db, &err) < 0 || runsdb_add(db, &kept, added, &err) < 0 ||
                         runsdb_commit(db, &err) < 0))
        rc = cli_error("%s", err.msg);
    arena_release(&text);
    free(lies); /* realpath() allocated it */
    return rc;
}

static int add_runs(struct adding *a, const char *to, char **paths, int n)
{
    struct runsdb *db = NULL;
    size_t added = 0, there = 0;
    opm_error err;
    int rc = CLI_OK;

    a->said.now_ns = now_ns();
    if (runsdb_open(&db, to, RUNSDB_CREATE, &err) < 0)
        return cli_error("%s", err.msg);
    for (int i = 0; i < n && rc == CLI_OK; i++) {
        bool is_new;

        rc = add_run(a, db, paths[i], &is_new);
        if (rc == CLI_OK) {
            added += is_new;
            there += !is_new;
        }
    }
    if (rc != CLI_OK && added + there) {
        rc = cli_error("%s: of %d, the first %zu were added or are there", runsdb_name(db), n,
                       added + there);
    } else if (rc == CLI_OK && !a->cli->quiet) {
        if (added)
            cli_say(a->cli, "%s: %zu run%s added%s", runsdb_name(db), added,
                    human_s((int64_t)added), there ? "" : "\n");
        if (there)
            cli_say(a->cli, "%s%s%zu %s there already\n", added ? ", " : runsdb_name(db),
                    added ? "" : ": ", there, there == 1 ? "is" : "are");
    }
    runsdb_close(db);
    return rc;
}

/* What makes it ranks of a job: options, or where we run. */
static int check_job(struct adding *a, int n)
{
    bool asked = a->rank.job || a->rank.rank >= 0 || a->rank.spans || a->watch;

    a->ranks = asked || (environment_ranks() > 1 && ranks_job(&a->rank));
    if (a->ranks && !ranks_job(&a->rank))
        return cli_usage(a->cli, "--job is needed: a name for the job that the ranks are of");
    if (a->rank.job && (!a->rank.job[0] || strlen(a->rank.job) > 200))
        return cli_usage(a->cli, "--job: a name of 1 to 200 characters is needed");
    if (a->rank.rank >= 0 && n > 1)
        return cli_usage(a->cli, "--rank goes with one RUN, and %d are given", n);
    if (a->rank.rank >= 0 && a->watch)
        return cli_usage(a->cli, "--rank goes with one RUN, not with --watch");
    if (a->watch && n)
        return cli_usage(a->cli, "--watch takes what is in %s, so no RUN can be given", a->watch);
    return CLI_OK;
}

int cmd_add(struct cli *cli, int argc, char **argv)
{
    struct adding a = { .cli = cli,
                        .said = { .loop_ns = NAN, .stolen = NAN, .load = NAN },
                        .rank = { .rank = RANK_OF_TRACE } };
    struct option_list labels = { 0 };
    struct arena room = { 0 };
    const char *to = NULL, *commit = NULL, *calibration = NULL;
    int64_t every = 5, idle = 0;
    const struct option opts[] = {
        OPT_STR(0, "to", &to, "URL",
                "the catalogue: a file such as runs.db, or clickhouse://HOST:8123/DATABASE; made "
                "if it is not there"),
        OPT_STR(0, "job", &a.rank.job, "ID",
                "each RUN is a rank of this distributed job, for 'opmeter job' (as Slurm, MPI or "
                "torchrun say, where they run it)"),
        OPT_INT(0, "rank", &a.rank.rank, "N", 0, INT32_MAX,
                "its number (as the trace says, else the name of the file, else the environment)"),
        OPT_BOOL(0, "spans", &a.rank.spans, "of ranks, keep every span, too"),
        OPT_STR(0, "watch", &a.watch, "DIR",
                "go on adding what appears in DIR as ranks, until a signal ends it"),
        OPT_INT(0, "every", &every, "SECONDS", 1, 86400, "with --watch, look so often (5)"),
        OPT_INT(0, "idle", &idle, "N", 0, INT32_MAX,
                "with --watch, end after N looks at which nothing was new (0: never)"),
        OPT_LIST(0, "label", &labels, "KEY=VALUE",
                 "what to find them by, such as branch=main; may be repeated"),
        OPT_STR(0, "commit", &commit, "ID",
                "what was measured (git's commit of the current folder; '' for none)"),
        OPT_STR(0, "model", &a.said.model, "NAME", "call the model so (as the trace does)"),
        OPT_STR(0, "calibration", &calibration, "TIME",
                "what a fixed piece of work took beside them, such as 1.3ms, or with stolen time "
                "and load 1.3ms,2%,0.5 (as the trace says)"),
        CLI_TRACE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc = CLI_OK;

    if (n < 0)
        rc = cli->status;
    else if (n == 0 && !a.watch)
        rc = cli_usage(cli, "a RUN is needed: a trace, or a folder of 'opmeter run'");
    else if (!to)
        rc = cli_usage(cli, "--to is needed: the catalogue, such as runs.db");
    else
        rc = parse_calibration(cli, calibration, &a.said);
    if (n >= 0 && rc == CLI_OK)
        rc = check_job(&a, n);
    if (n >= 0 && rc == CLI_OK && a.watch)
        rc = ranks_watch(cli, to, &a.rank, a.watch, every, idle);
    else if (n > 0 && rc == CLI_OK && a.ranks)
        rc = ranks_add(cli, to, &a.rank, argv, n);
    else if (n > 0 && rc == CLI_OK)
        rc = parse_labels(cli, &labels, &room, &a.label);
    if (n > 0 && rc == CLI_OK && !a.ranks) {
        a.said.label = a.label;
        a.said.nlabel = labels.n;
        if (commit)
            a.said.commit_id = commit[0] ? commit : NULL;
        else if (commit_here(&a.commit, &a.said.dirty))
            a.said.commit_id = buf_str(&a.commit);
        rc = add_runs(&a, to, argv, n);
    }
    buf_release(&a.commit);
    mem_free(a.label);
    arena_release(&room);
    option_list_release(&labels);
    return rc;
}
