/* cmd_whatif.c -- project the latency of a model whose weights were sparse, or operators faster. */
#include "cli/whatif.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char about[] =
    "Project how long an iteration would take if weights of matrix products had zeros in blocks, "
    "or operators of some type were faster. An operator's time is divided by the ratio for its "
    "weight's shape; one whose weight is half zero already stays as it is. Ratios are those "
    "measured on this machine ('--measure', kept in ratios.json of the cache folder, which may be "
    "edited), else 4 for 90, 80 and 70 % zeros in 4x1 blocks as Neural Engine has it, else 1.";

/* "90%", "90 %" or "0.9" as a share below 1. */
static bool parse_share(const char *text, double *out)
{
    char *end;
    double v;

    errno = 0;
    v = strtod(text, &end);
    if (end == text || errno)
        return false;
    while (*end == ' ')
        end++;
    if (*end == '%') {
        v /= 100;
        end++;
    }
    if (*end || !(v >= 0 && v < 1))
        return false;
    *out = v;
    return true;
}

/* "2", "2x" or "2.5X": above 0. */
static bool parse_factor(const char *text, double *out)
{
    char *end;
    double v;

    errno = 0;
    v = strtod(text, &end);
    if (end == text || errno || !(v > 0 && v < 1e9))
        return false;
    if (*end == 'x' || *end == 'X')
        end++;
    if (*end)
        return false;
    *out = v;
    return true;
}

/* Split "NAME<mark>VALUE" at its last mark. */
static bool split(const char *text, char mark, struct whatif_rule *out)
{
    const char *at = strrchr(text, mark);

    if (!at || at == text || (size_t)(at - text) >= sizeof(out->name) || !at[1])
        return false;
    memcpy(out->name, text, (size_t)(at - text));
    out->name[at - text] = '\0';
    return true;
}

static int parse_rules(struct whatif *w, const struct option_list *sparsity,
                       const struct option_list *ratio, const struct option_list *speedup)
{
    struct whatif_rule rule;

    for (size_t i = 0; i < sparsity->n; i++) {
        const char *text = sparsity->item[i];

        if (strchr(text, ':')) {
            if (!split(text, ':', &rule) || !parse_share(strrchr(text, ':') + 1, &rule.value))
                return cli_usage(w->cli, "--sparsity: '%s' is not like 256x1024:80%%", text);
            if (!whatif_add_rule(&w->aims, &rule))
                return cli_out_of_memory();
        } else if (!parse_share(text, &w->sparsity)) {
            return cli_usage(w->cli, "--sparsity: '%s' is not a share from 0 to below 100%%", text);
        } else {
            w->sparsity_asked = true;
        }
    }
    for (size_t i = 0; i < ratio->n; i++) {
        if (!split(ratio->item[i], ':', &rule) ||
            !parse_factor(strrchr(ratio->item[i], ':') + 1, &rule.value))
            return cli_usage(w->cli, "--ratio: '%s' is not like 256x1024:4.5", ratio->item[i]);
        if (!whatif_add_rule(&w->ratios, &rule))
            return cli_out_of_memory();
    }
    for (size_t i = 0; i < speedup->n; i++) {
        if (!split(speedup->item[i], '=', &rule) ||
            !parse_factor(strrchr(speedup->item[i], '=') + 1, &rule.value))
            return cli_usage(w->cli, "--speedup: '%s' is not like Conv=2x", speedup->item[i]);
        if (!whatif_add_rule(&w->speedups, &rule))
            return cli_out_of_memory();
    }
    return CLI_OK;
}

static int check(struct whatif *w, const char *pattern, bool sparse_asked)
{
    w->pattern = ratio_pattern_find(pattern);
    if (!w->pattern) {
        struct nearest n = { pattern, NULL, 0 };

        for (const struct ratio_pattern *p = ratio_patterns; p->name; p++)
            nearest_try(&n, p->name);
        return n.best ? cli_usage(w->cli, "--pattern: no pattern '%s'; did you mean '%s'?", pattern,
                                  n.best)
                      : cli_usage(w->cli, "--pattern: no pattern '%s'; 4x1 is one", pattern);
    }
    /* Only a speed-up was asked for: weights stay as they are. */
    w->sparse = sparse_asked || !w->speedups.n;
    return CLI_OK;
}

/* A mistake in a file that people edit must not go unnoticed; an analysis would pass over it. */
static int check_cache(void)
{
    struct ratios r;
    opm_error err;
    int rc = ratios_load(&r, &err) < 0 ? cli_error("%s", err.msg) : CLI_OK;

    ratios_release(&r);
    return rc;
}

int cmd_whatif(struct cli *cli, int argc, char **argv)
{
    struct whatif w = { .cli = cli, .sparsity = 0.9 };
    struct option_list sparsity = { 0 }, ratio = { 0 }, speedup = { 0 };
    const char *pattern = ratio_patterns[0].name;
    bool measure = false, again = false;
    int64_t top = 10, threads = 0;
    const struct option opts[] = {
        OPT_LIST('s', "sparsity", &sparsity, "PERCENT",
                 "zeros to aim at, such as 80%, or SHAPE:80% for one weight shape (90%)"),
        OPT_LIST('r', "ratio", &ratio, "SHAPE:RATIO",
                 "dense time over sparse time of a weight shape; may be repeated"),
        OPT_LIST(0, "speedup", &speedup, "TYPE=FACTOR",
                 "operators of TYPE become that much faster, such as Conv=2x; may be repeated"),
        OPT_STR('p', "pattern", &pattern, "PATTERN",
                "outputs x inputs that are zero together (4x1)"),
        OPT_BOOL('m', "measure", &measure,
                 "measure ratios that are not known yet on this machine, and keep them"),
        OPT_BOOL(0, "again", &again, "--measure: also those that are known"),
        OPT_INT('j', "threads", &threads, "N", 1, 1024,
                "--measure: threads (those of the trace, else as many as there are cores)"),
        OPT_INT('t', "top", &top, "N", 0, 1000000, "operators to print; 0: all (10)"),
        CLI_TABLE_OPTIONS(cli),
        CLI_TRACE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc;
    opm_trace *t = NULL;

    if (n < 0)
        return cli->status;
    rc = n ? parse_rules(&w, &sparsity, &ratio, &speedup) : cli_usage(cli, "a TRACE is needed");
    if (rc == CLI_OK)
        rc = check(&w, pattern, sparsity.n || ratio.n || measure);
    if (rc == CLI_OK)
        rc = check_cache();
    if (rc == CLI_OK)
        rc = cli_open(cli, &t, argv, n);
    if (rc == CLI_OK && measure)
        rc = whatif_measure(&w, t, (int)threads, again);
    if (rc == CLI_OK)
        rc = whatif_check(&w, t);
    if (rc == CLI_OK)
        rc = whatif_print(&w, t, top ? (size_t)top : SIZE_MAX);
    opm_trace_close(t);
    whatif_release(&w);
    option_list_release(&sparsity);
    option_list_release(&ratio);
    option_list_release(&speedup);
    return rc;
}
