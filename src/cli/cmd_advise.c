/* cmd_advise.c -- what could be faster, each with its evidence. */
#include "cli/cli.h"
#include "cli/table.h"

#include "run/run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INDENT 10

static const char about[] =
    "Say what could be faster, or is wrong with the measurement. Each piece of advice comes with "
    "the query that proves it. A healthy trace gets none.";

static const char advice_sql[] =
    "SELECT severity, gain, message, action, evidence, rule FROM advice"
    " ORDER BY CASE severity WHEN 'warning' THEN 0 WHEN 'hint' THEN 1 ELSE 2 END,"
    " gain IS NULL, gain DESC";
enum { SEVERITY, GAIN, MESSAGE, ACTION, EVIDENCE, RULE };

static void put_wrapped(struct cli *cli, const char *first, const char *text)
{
    struct buf clean = { 0 }, line = { 0 };

    buf_adds(&clean, text);
    cli_clean(&clean);
    buf_adds(&line, first);
    text_wrap(&line, buf_str(&clean), INDENT, INDENT, cli_text_width());
    io_out_addf(&cli->out, "%s\n", buf_str(&line));
    buf_release(&clean);
    buf_release(&line);
}

static void put_advice(struct cli *cli, const opm_rows *r, bool evidence)
{
    const char *severity = opm_rows_text(r, SEVERITY, NULL);
    enum cli_style style = strcmp(severity, "warning") == 0 ? STYLE_RED
                           : strcmp(severity, "hint") == 0  ? STYLE_YELLOW
                                                            : STYLE_PLAIN;
    char label[32];

    io_out_addf(&cli->out, "%s", cli_style(cli, style));
    snprintf(label, sizeof(label), "%-*s", INDENT, severity);
    put_wrapped(cli, label, opm_rows_text(r, MESSAGE, NULL));
    io_out_addf(&cli->out, "%s", cli_style(cli, STYLE_PLAIN));
    if (opm_rows_type(r, GAIN) != OPM_TYPE_NULL) {
        char gain[80];

        snprintf(gain, sizeof(gain), "Mending it could save up to %.0f %% of the time.",
                 100 * opm_rows_real(r, GAIN));
        io_out_addf(&cli->out, "%*s%s\n", INDENT, "", gain);
    }
    snprintf(label, sizeof(label), "%*s", INDENT, "");
    put_wrapped(cli, label, opm_rows_text(r, ACTION, NULL));
    if (evidence) {
        io_out_addf(&cli->out, "%s", cli_style(cli, STYLE_DIM));
        snprintf(label, sizeof(label), "%*s", INDENT, "");
        put_wrapped(cli, label, opm_rows_text(r, EVIDENCE, NULL));
        io_out_addf(&cli->out, "%s", cli_style(cli, STYLE_PLAIN));
    }
    io_out_addf(&cli->out, "\n");
}

static int print_advice(struct cli *cli, opm_trace *t, bool evidence)
{
    opm_rows *r = NULL;
    opm_error err;
    int64_t n = 0;
    int more = opm_trace_query(t, advice_sql, &r, &err);

    while (more >= 0) {
        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        put_advice(cli, r, evidence);
        n++;
    }
    opm_rows_close(r);
    if (more < 0)
        return cli_error("%s", err.msg);
    if (n == 0)
        io_out_addf(
            &cli->out,
            "Nothing stands out: %lld rules looked at this trace and none found anything.\n",
            (long long)cli_query_int(t, "SELECT count(*) FROM advice_rule"));
    else if (!evidence && !cli->quiet)
        io_out_addf(&cli->out, "--evidence shows the query that proves each.\n");
    return CLI_OK;
}

#define X(member, key) +1
enum { FACTS = 1 PEAK_FIGURES(X) };
#undef X

/* What this machine reaches, for rules that compare with it where a trace that was made here, which
 * the name of the machine tells, does not say what it reached. */
static void put_peaks(struct buf fact[FACTS], const char *of[FACTS + 1])
{
    struct peak peak;
    char host[256] = "";
    int n = 0;

    run_peak((int)sysconf(_SC_NPROCESSORS_ONLN), &peak);
    gethostname(host, sizeof(host) - 1);
#define X(member, key) buf_addf(&fact[n++], "reader." key "=%.3f", peak.member);
    PEAK_FIGURES(X)
#undef X
    buf_addf(&fact[n], "reader.host=%s", host);
    for (int i = 0; i < FACTS; i++)
        of[i] = buf_str(&fact[i]);
}

int cmd_advise(struct cli *cli, int argc, char **argv)
{
    bool evidence = false, rules = false;
    const struct option opts[] = {
        OPT_BOOL(0, "evidence", &evidence, "show the query that proves each piece of advice"),
        OPT_BOOL(0, "rules", &rules, "list all rules instead; needs no trace"),
        CLI_TABLE_OPTIONS(cli),
        CLI_TRACE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc;
    struct buf fact[FACTS] = { { 0 } };
    const char *of[FACTS + 1] = { NULL };
    opm_trace *t;

    if (n < 0)
        return cli->status;
    if (n == 0 && !rules)
        return cli_usage(cli, "a TRACE is needed");
    put_peaks(fact, of);
    cli->trace_meta = of;
    rc = cli_open(cli, &t, argv, n);
    cli->trace_meta = NULL;
    if (rc == CLI_OK) {
        if (rules)
            rc = table_print(cli, t, "SELECT rule, severity, action FROM advice_rule", 0, NULL);
        else if (cli->json || cli->csv)
            rc = cli_print_query(cli, t, "SELECT * FROM advice");
        else
            rc = print_advice(cli, t, evidence);
        opm_trace_close(t);
    }
    for (int i = 0; i < FACTS; i++)
        buf_release(&fact[i]);
    return rc;
}
