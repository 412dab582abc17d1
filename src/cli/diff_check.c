/* diff_check.c -- see diff_check.h. */
#include "cli/diff_check.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct unit {
    const char *name;
    double ns;
} units[] = { { "ns", 1 }, { "us", 1e3 }, { "µs", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };

static bool is_among(const char *const *names, struct nearest *wanted)
{
    bool found = false;

    for (; *names; names++) {
        found |= strcmp(wanted->word, *names) == 0;
        nearest_try(wanted, *names);
    }
    return found;
}

/* If not, wanted->best is the one that was probably meant. */
static bool metric_known(struct nearest *wanted)
{
    static const char *const others[] = { "latency", "operators", "op", NULL };
    const char *metric = wanted->word;
    bool known = is_among(others, wanted);

    known |= is_among(diff_metric_names, wanted);
    return known || (strncmp(metric, "op:", 3) == 0 && metric[3]) ||
           (strncmp(metric, "type:", 5) == 0 && metric[5]);
}

int diff_check_parse(struct cli *cli, const char *text, struct diff_check *out)
{
    const char *mark = strrchr(text, '>');
    size_t len = mark ? (size_t)(mark - text) : 0;
    struct nearest near = { .word = out->metric };
    char *end;

    *out = (struct diff_check){ .text = text };
    while (len && text[len - 1] == ' ')
        len--;
    if (!len || len >= sizeof(out->metric))
        return cli_usage(cli, "--fail-if: '%s' is not like 'latency>5%%'", text);
    memcpy(out->metric, text, len);
    if (!metric_known(&near) && near.best)
        return cli_usage(cli, "--fail-if: no figure '%s'; did you mean '%s'?", out->metric,
                         near.best);
    if (!metric_known(&near))
        return cli_usage(cli,
                         "--fail-if: no figure '%s'; there are latency, median, mean, min, p90, "
                         "p95, p99, p999, max, operators, op, op:NAME and type:NAME",
                         out->metric);
    errno = 0;
    out->limit = strtod(mark + 1, &end);
    if (end == mark + 1 || errno || !isfinite(out->limit))
        return cli_usage(cli, "--fail-if: '%s' has no number after '>'", text);
    while (*end == ' ')
        end++;
    if (strcmp(end, "%") == 0) {
        out->share = true;
        out->limit /= 100;
        return CLI_OK;
    }
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (strcmp(end, units[i].name) == 0) {
            out->limit *= units[i].ns;
            return CLI_OK;
        }
    }
    return cli_usage(cli, "--fail-if: '%s' ends in neither %% nor ns, us, ms or s", text);
}

static bool exceeds(const struct diff_check *c, double a_ns, double b_ns)
{
    return c->share ? b_ns - a_ns > c->limit * a_ns : b_ns - a_ns > c->limit;
}

static int cannot_tell(const struct diff_check *c, const char *why)
{
    return cli_error("--fail-if '%s': %s", c->text, why);
}

/* The first that both have: steps come before labelled regions, and the longest of them first. */
static int check_latency(struct diff_check *c, const struct diff *d, int metric)
{
    for (size_t i = 0; i < d->nlatency; i++) {
        const struct diff_latency *l = &d->latency[i];

        if (!l->there[DIFF_A] || !l->there[DIFF_B])
            continue;
        c->what = l->name[DIFF_A];
        c->a_ns = l->ns[metric][DIFF_A];
        c->b_ns = l->ns[metric][DIFF_B];
        c->failed = exceeds(c, c->a_ns, c->b_ns);
        return CLI_OK;
    }
    return cannot_tell(c, "no model and no labelled region is in both traces");
}

static int check_named(struct diff_check *c, const struct diff *d, const char *name)
{
    struct nearest near = { .word = name };
    bool found = false;

    for (size_t i = 0; i < d->n; i++) {
        const struct diff_row *r = &d->row[i];

        if (!r->name || !r->there[DIFF_A])
            continue;
        nearest_try(&near, r->name);
        if (strcasecmp(r->name, name) != 0)
            continue;
        found = true;
        c->a_ns += r->ns[DIFF_A];
        c->b_ns += r->ns[DIFF_B];
    }
    if (!found && near.best)
        return cli_error(
            "--fail-if '%s': the first trace has none of that name; did you mean '%s'?", c->text,
            near.best);
    if (!found)
        return cannot_tell(c, "the first trace has none of that name");
    c->failed = exceeds(c, c->a_ns, c->b_ns);
    return CLI_OK;
}

/* The worst of those that became slower than they may, beyond what their spread explains. */
static void check_any(struct diff_check *c, const struct diff *d)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct diff_row *r = &d->row[i];

        if (!r->there[DIFF_A] || !r->there[DIFF_B] || !r->certain ||
            !exceeds(c, r->ns[DIFF_A], r->ns[DIFF_B]))
            continue;
        if (c->failed && r->ns[DIFF_B] - r->ns[DIFF_A] <= c->b_ns - c->a_ns)
            continue;
        c->failed = true;
        c->what = r->name ? r->name : r->type;
        c->a_ns = r->ns[DIFF_A];
        c->b_ns = r->ns[DIFF_B];
    }
}

int diff_check_run(struct diff_check *c, const struct diff *ops, const struct diff *types)
{
    if (strncmp(c->metric, "op:", 3) == 0)
        return check_named(c, ops, c->metric + 3);
    if (strncmp(c->metric, "type:", 5) == 0)
        return check_named(c, types, c->metric + 5);
    if (strcmp(c->metric, "op") == 0) {
        check_any(c, ops);
        return CLI_OK;
    }
    if (strcmp(c->metric, "operators") == 0) {
        if (!ops->n)
            return cannot_tell(c, "the traces have no operators");
        c->a_ns = ops->total_ns[DIFF_A];
        c->b_ns = ops->total_ns[DIFF_B];
        c->failed = exceeds(c, c->a_ns, c->b_ns);
        return CLI_OK;
    }
    for (int m = 0; diff_metric_names[m]; m++)
        if (strcmp(c->metric, diff_metric_names[m]) == 0)
            return check_latency(c, ops, m);
    return check_latency(c, ops, DIFF_median);
}
