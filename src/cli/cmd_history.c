/* cmd_history.c -- runs over time, and where they changed. */
#include "cli/history.h"

#include "base/alloc.h"
#include "run/run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char about[] =
    "Show the runs of a catalogue that 'opmeter add' made, a line each, and where their latency "
    "changed: between which commits, by how much, and which operators; what a slower machine "
    "explains is called so. --check is a gate: 0 good, 1 slower than what was accepted last, 125 "
    "cannot tell. 'prune' removes old runs, 'export' writes them as CSV, JSON or a catalogue.";

#define EXIT_BAD 1
#define EXIT_UNTOLD 125

static const char *const by_choices[] = { "whole", "type", "op", NULL };

static int parse_share(struct cli *cli, const char *name, const char *text, double most,
                       double *out)
{
    char *end;
    double v;

    errno = 0;
    v = strtod(text, &end);
    if (end == text || errno || !(v > 0) || v > most || strcmp(end, "%") != 0)
        return cli_usage(cli, "--%s: '%s' is no share such as 1%%", name, text);
    *out = v / 100;
    return CLI_OK;
}

/* "90d", "12h" or what run_amount_parse() knows. */
static int parse_age(struct cli *cli, const char *text, int64_t *out_ns)
{
    static const int64_t hour = 3600000000000;
    char *end;
    double v;

    if (!text)
        return CLI_OK;
    v = strtod(text, &end);
    if (end == text || !(v > 0) || v > 36500 || (strcmp(end, "d") != 0 && strcmp(end, "h") != 0))
        return cli_usage(cli, "--older: '%s' is no age such as 90d or 12h", text);
    *out_ns = (int64_t)(v * (double)hour) * (*end == 'd' ? 24 : 1);
    return CLI_OK;
}

static int parse_labels(struct cli *cli, const struct option_list *texts, struct arena *room,
                        struct history_filter *out)
{
    struct kept_label *label = arena_alloc(room, (texts->n + 1) * sizeof(*label));

    if (!label)
        return cli_out_of_memory();
    for (size_t i = 0; i < texts->n; i++) {
        const char *text = texts->item[i], *equals = strchr(text, '=');

        if (!equals || equals == text)
            return cli_usage(cli, "--label: '%s' is not KEY=VALUE", text);
        label[i].key = arena_strndup(room, text, (size_t)(equals - text));
        label[i].value = equals + 1;
        if (!label[i].key)
            return cli_out_of_memory();
    }
    out->label = label;
    out->nlabel = texts->n;
    return CLI_OK;
}

/* -- the gate -- */

static int say_verdict(struct cli *cli, const struct history *h, const struct history_series *s,
                       const struct history_verdict *v)
{
    struct buf text = { 0 };
    int rc = CLI_OK;

    history_title(s, h, &text);
    if (v->told == HISTORY_WORSE) {
        buf_adds(&text, ": ");
        history_sentence(h, s, &s->change[v->change], &text);
        rc = EXIT_BAD;
    } else if (v->told == HISTORY_UNTOLD) {
        buf_addf(&text, ": cannot tell: %zu more run%s %s needed%s", v->needed,
                 human_s((int64_t)v->needed), v->needed == 1 ? "is" : "are",
                 s->n < 2 * CHANGES_LEAST ? " to know its level" : ": the last one looks slower");
        rc = EXIT_UNTOLD;
    } else {
        buf_addf(&text, ": good since %s%zu run%s",
                 history_run_at(h, s, v->since)->run.accepted > 0 ? "it was accepted, "
                                                                  : "the first of ",
                 s->n - (history_run_at(h, s, v->since)->run.accepted > 0 ? v->since + 1 : 0),
                 human_s((int64_t)s->n));
    }
    cli_clean(&text);
    if (rc != CLI_OK)
        cli_error("%s", buf_str(&text));
    else if (!cli->quiet)
        cli_tell(cli, "%s.", buf_str(&text));
    buf_release(&text);
    return rc;
}

/* Bad if one series is, whatever the others. */
static int check(struct cli *cli, const struct history *h, double min_effect)
{
    int rc = CLI_OK;

    if (!h->nseries) {
        cli_error("no run is as asked for: cannot tell");
        return EXIT_UNTOLD;
    }
    for (size_t i = 0; i < h->nseries; i++) {
        struct history_verdict v = history_judge(h, &h->series[i], min_effect);
        int one = say_verdict(cli, h, &h->series[i], &v);

        if (one != CLI_OK && rc != EXIT_BAD)
            rc = one;
    }
    return rc;
}

static int accept(struct cli *cli, struct runsdb *db, const struct history *h)
{
    struct timespec now;
    opm_error err;
    int rc;

    clock_gettime(CLOCK_REALTIME, &now);
    rc = runsdb_begin(db, &err);
    for (size_t i = 0; i < h->nseries && rc == 0; i++) {
        const struct history_series *s = &h->series[i];

        rc = runsdb_accept(db, history_run_at(h, s, s->n - 1)->run.id,
                           (int64_t)now.tv_sec * 1000000000 + now.tv_nsec, &err);
    }
    if (rc == 0)
        rc = runsdb_commit(db, &err);
    if (rc < 0)
        return cli_error("%s", err.msg);
    if (!cli->quiet)
        cli_tell(cli, "The last run of %zu series is accepted.", h->nseries);
    return CLI_OK;
}

/* -- the command -- */

enum task { TASK_SHOW, TASK_CHECK, TASK_ACCEPT, TASK_PRUNE, TASK_EXPORT };

struct asked {
    struct cli *cli;
    enum task task;
    const char *path;
    struct history_filter filter;
    struct history_view view;
    struct history_prune prune;
    const char *output;
    bool force;
};

static int work(struct asked *a, struct runsdb *db, struct history *h)
{
    bool analyzed = a->task == TASK_SHOW || a->task == TASK_CHECK || a->task == TASK_PRUNE;
    opm_error err;

    if (history_read(h, db, &a->filter, &err) < 0 ||
        (analyzed && history_analyze(h, &a->view.options, &err) < 0))
        return cli_error("%s", err.msg);
    a->view.h = h;
    switch (a->task) {
    case TASK_CHECK:
        return check(a->cli, h, a->view.options.min_effect);
    case TASK_ACCEPT:
        return accept(a->cli, db, h);
    case TASK_PRUNE:
        return history_prune(a->cli, db, h, &a->prune);
    case TASK_EXPORT:
        return history_export(a->cli, db, h, a->output, a->force);
    default:
        if (!h->n && !a->cli->json && !a->cli->csv)
            return cli_error("%s has no run%s", runsdb_name(db),
                             a->filter.model || a->filter.nlabel ? " as asked for" : "");
        return history_print(&a->view);
    }
}

static int run_task(struct asked *a)
{
    bool writes = a->task == TASK_ACCEPT || (a->task == TASK_PRUNE && !a->prune.dry);
    struct history h = { 0 };
    struct runsdb *db = NULL;
    opm_error err;
    int rc = runsdb_open(&db, a->path, writes ? RUNSDB_WRITE : RUNSDB_READ, &err) < 0
                 ? cli_error("%s", err.msg)
                 : work(a, db, &h);

    history_release(&h);
    runsdb_close(db);
    if (a->task == TASK_CHECK && rc == CLI_FAILURE && !h.nseries && !db)
        return EXIT_UNTOLD;
    return rc;
}

/* The task, and the path behind it; CLI_OK or the exit code. */
static int choose(struct asked *a, int n, char **argv, bool check_asked, bool accept_asked)
{
    bool prune = n > 1 && strcmp(argv[0], "prune") == 0;
    bool export = n > 1 && strcmp(argv[0], "export") == 0;

    if (n != 1 + (prune || export))
        return cli_usage(a->cli, "one catalogue is needed: what 'opmeter add --to' made");
    if (check_asked + accept_asked + prune + export > 1)
        return cli_usage(a->cli, "--check, --accept, prune and export exclude each other");
    a->path = argv[n - 1];
    a->task = prune          ? TASK_PRUNE
              : export       ? TASK_EXPORT
              : check_asked  ? TASK_CHECK
              : accept_asked ? TASK_ACCEPT
                             : TASK_SHOW;
    if (prune && !a->prune.keep && !a->prune.older_ns)
        return cli_usage(a->cli, "prune: say which with --keep N or --older AGE");
    if (!prune && (a->prune.keep || a->prune.older_ns || a->prune.dry))
        return cli_usage(a->cli, "--keep, --older and --dry-run are of 'history prune'");
    if (export && !a->output)
        return cli_usage(a->cli, "export: say where to with -o: FILE.json, FILE.db, or a folder");
    if (!export && a->output)
        return cli_usage(a->cli, "--output is of 'history export'");
    return CLI_OK;
}

int cmd_history(struct cli *cli, int argc, char **argv)
{
    struct asked a = { .cli = cli };
    struct option_list labels = { 0 };
    struct arena room = { 0 };
    const char *by = by_choices[0], *alarm = "1%", *effect = "1%", *older = NULL;
    int64_t last = 50;
    bool check_asked = false, accept_asked = false;
    const struct option opts[] = {
        OPT_STR(0, "model", &a.filter.model, "NAME", "only models whose name has this in it"),
        OPT_LIST(0, "label", &labels, "KEY=VALUE", "only runs with this label; may be repeated"),
        OPT_CHOICE(0, "by", &by, "WHAT", by_choices,
                   "show the whole, or changes of each type or op (whole)"),
        OPT_INT(0, "last", &last, "N", 0, INT32_MAX, "runs of a series to print (50); 0: all"),
        OPT_STR(0, "min-effect", &effect, "SHARE", "a change below this is no change (1%)"),
        OPT_STR(0, "alarm", &alarm, "SHARE",
                "chance that a stable series is said to have changed (1%)"),
        OPT_BOOL(0, "markdown", &a.view.markdown, "print Markdown"),
        OPT_GROUP("A gate"),
        OPT_BOOL(0, "check", &check_asked,
                 "exit with 1 if a series is slower than what was accepted last, 125 if it cannot "
                 "be told"),
        OPT_BOOL(0, "accept", &accept_asked, "from now on, the last run of each series is good"),
        OPT_GROUP("prune and export"),
        OPT_INT(0, "keep", &a.prune.keep, "N", 0, INT32_MAX,
                "prune: leave the newest N runs of each series"),
        OPT_STR(0, "older", &older, "AGE", "prune: runs that began longer ago, such as 90d"),
        OPT_BOOL(0, "dry-run", &a.prune.dry, "prune: only say what would go"),
        OPT_STR('o', "output", &a.output, "PATH",
                "export: to FILE.json, FILE.db, or a folder for CSV"),
        OPT_BOOL('f', "force", &a.force, "export: write over what is there"),
        OPT_GROUP("Output"),
        CLI_TABLE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc = n < 0 ? cli->status : CLI_OK;

    a.view.options = (struct changes_options)CHANGES_OPTIONS_INIT;
    if (n >= 0)
        rc = parse_age(cli, older, &a.prune.older_ns);
    if (n >= 0 && rc == CLI_OK)
        rc = parse_share(cli, "alarm", alarm, 50, &a.view.options.alarm);
    if (n >= 0 && rc == CLI_OK)
        rc = parse_share(cli, "min-effect", effect, 100, &a.view.options.min_effect);
    if (n >= 0 && rc == CLI_OK)
        rc = parse_labels(cli, &labels, &room, &a.filter);
    if (n >= 0 && rc == CLI_OK)
        rc = choose(&a, n, argv, check_asked, accept_asked);
    if (n >= 0 && rc == CLI_OK) {
        a.view.cli = cli;
        a.view.last = last;
        a.view.by = strcmp(by, "op") == 0 ? BY_OP : strcmp(by, "type") == 0 ? BY_TYPE : BY_WHOLE;
        rc = run_task(&a);
    }
    arena_release(&room);
    option_list_release(&labels);
    return rc;
}
