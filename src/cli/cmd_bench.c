/* cmd_bench.c -- which of several is faster: fresh processes in turn, until it can be told. */
#include "cli/bench.h"
#include "cli/diff_check.h"
#include "launch/calm.h"
#include "run/run.h"

#include "base/alloc.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char about[] =
    "Say which is faster, and which operators make the difference. Each side is a command line of "
    "'opmeter run' in quotes, such as 'm.onnx -e native'; '--opmeter FILE' in it names another "
    "opmeter. With --record each is any program. Fresh processes take turns until the interval is "
    "as narrow as wanted, or the time is up. With --fail-if the exit code suits 'git bisect run': "
    "0 good, 1 bad, 125 cannot tell.";

#define EXIT_BAD 1
#define EXIT_UNTOLD 125
#define DRAWS_LOOK 400
#define DRAWS_END 4000

static bool parse_share(const char *text, double *out)
{
    char *end;
    double v;

    errno = 0;
    v = strtod(text, &end);
    if (end == text || errno || !isfinite(v))
        return false;
    while (*end == ' ')
        end++;
    if (strcmp(end, "%") != 0)
        return false;
    *out = v / 100;
    return v > 0 && v <= 100;
}

static int parse_time(struct cli *cli, const char *name, const char *text, int64_t *out_ns)
{
    struct run_amount amount;
    opm_error err;

    if (run_amount_parse(text, &amount, &err) < 0)
        return cli_usage(cli, "--%s: %s", name, err.msg);
    if (!amount.ns)
        return cli_usage(cli, "--%s: '%s' is no time such as 5m or 300ms", name, text);
    *out_ns = amount.ns;
    return CLI_OK;
}

/* -- measuring -- */

static void look_at_machine(struct bench *b)
{
    double loop = calm_loop_ns(), load;

    b->loop_min_ns = b->loop_min_ns > 0 ? MIN(b->loop_min_ns, loop) : loop;
    b->loop_max_ns = MAX(b->loop_max_ns, loop);
    if (getloadavg(&load, 1) == 1)
        b->load = MAX(b->load, load);
}

/* The sides in some order, then in the reverse of it. */
static int one_block(struct bench *b, uint64_t *state)
{
    size_t order[TRIALS_SIDES_MAX], n = b->trials.nsides;
    int rc = CLI_OK;

    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n - 1; i > 0; i--) {
        size_t k, with;

        *state = *state * 6364136223846793005u + 1442695040888963407u;
        with = (size_t)(*state >> 33) % (i + 1);
        k = order[i];
        order[i] = order[with];
        order[with] = k;
    }
    for (size_t i = 0; i < 2 * n && rc == CLI_OK && !b->interrupted; i++) {
        size_t side = order[i < n ? i : 2 * n - 1 - i];

        look_at_machine(b);
        rc = bench_process(b, side, b->trials.n[side] + 1);
    }
    return rc;
}

/* Are all intervals as narrow as wanted, and is it told of every side what it is? Where a side is
 * just at what is worth mentioning, that is not waited for beyond a third of the width. Also shows
 * how intervals close in. */
static bool enough(struct bench *b, bool show)
{
    struct trials_options o = b->options;
    bool yes = true;

    o.draws = DRAWS_LOOK;
    for (size_t s = 1; s < b->trials.nsides; s++) {
        struct trials_estimate e;

        if (!trials_whole(&b->trials, s, &o, &e))
            return false;
        yes &= (e.high - e.low) / 2 <= b->precision * (e.verdict == TRIALS_UNSURE ? 1 / 3.0 : 1);
        if (show)
            fprintf(stderr, "%s%c %+.1f %% (%+.1f to %+.1f)", s == 1 ? "\r\033[K" : "  ",
                    b->side[s].letter, 100 * e.change, 100 * e.low, 100 * e.high);
    }
    if (show)
        fprintf(stderr, "  %zu blocks, %.0f s of at most %.0f s", trials_blocks(&b->trials),
                (double)(bench_now_ns() - b->began_ns) / 1e9, (double)b->time_ns / 1e9);
    return yes;
}

static int measure(struct bench *b)
{
    bool show = !b->cli->quiet && isatty(STDERR_FILENO);
    struct calm_ticks ticks = calm_ticks();
    uint64_t state = b->options.seed;
    int rc = CLI_OK;

    b->began_ns = bench_now_ns();
    cli_interrupt_begin();
    while (rc == CLI_OK && !b->interrupted) {
        size_t blocks = trials_blocks(&b->trials);
        int64_t spent = bench_now_ns() - b->began_ns;

        if (blocks >= TRIALS_BLOCKS_MIN) {
            /* Not another block that would end after the time is up. */
            bool over = spent + spent / (int64_t)blocks > b->time_ns;

            if (enough(b, show) || over)
                break;
        }
        rc = one_block(b, &state);
    }
    if (show)
        fputs("\r\033[K", stderr);
    b->spent_ns = bench_now_ns() - b->began_ns;
    b->stolen = calm_stolen(ticks, calm_ticks());
    if (b->interrupted && trials_blocks(&b->trials) >= 2)
        cli_interrupt_take(); /* what there is, is reported */
    cli_interrupt_end();
    return rc;
}

/* -- --fail-if -- */

enum told { TOLD_GOOD, TOLD_BAD, TOLD_NOTHING };

static enum told against_limit(const struct trials_estimate *e, const struct diff_check *c)
{
    double limit = c->share ? c->limit : c->limit / e->ns[0];

    if (isnan(e->change))
        return TOLD_NOTHING;
    if (e->low > limit)
        return TOLD_BAD;
    return e->high <= limit ? TOLD_GOOD : TOLD_NOTHING;
}

/* *by: what decided it; NULL if no operator is called so. */
static enum told check_side(const struct bench *b, const struct bench_result *r,
                            const struct diff_check *c, const struct trials_estimate **by)
{
    bool any = strcmp(c->metric, "op") == 0;
    const char *name = strncmp(c->metric, "op:", 3) == 0 ? c->metric + 3 : NULL;
    enum told told = TOLD_GOOD;

    *by = any || name ? NULL : &r->e[0];
    if (*by)
        return against_limit(*by, c);
    for (size_t i = 1; i < r->n && told != TOLD_BAD; i++) {
        const struct trials_estimate *e = &r->e[i];
        enum told one = against_limit(e, c);

        if (name && strcmp(b->trials.op[e->op].name, name) != 0)
            continue;
        /* Of any operator, those count that changed for certain: some of many cannot be told. */
        if (any && e->verdict != TRIALS_SLOWER)
            continue;
        if (!*by || one != TOLD_GOOD) {
            *by = e;
            told = one;
        }
    }
    return *by || any ? told : TOLD_NOTHING;
}

static int say_check(const struct bench *b, size_t side, const struct diff_check *c, enum told told,
                     const struct trials_estimate *by)
{
    char a[HUMAN_ROOM], to[HUMAN_ROOM];
    char letter = b->side[side].letter;
    const char *name = by && by->op != TRIALS_WHOLE ? b->trials.op[by->op].name : "latency";

    if (!by)
        cli_error("--fail-if '%s': no operator of %c is called so", c->text, letter);
    else if (isnan(by->change))
        cli_error("--fail-if '%s': %s ran on one side only", c->text, name);
    else
        cli_error("--fail-if '%s': %s%s of %c: %s to %s, %+.1f %% (%.1f to %.1f)", c->text,
                  told == TOLD_BAD ? "" : "cannot be told: ", name, letter, human_ns(a, by->ns[0]),
                  human_ns(to, by->ns[1]), 100 * by->change, 100 * by->low, 100 * by->high);
    return told == TOLD_BAD ? EXIT_BAD : EXIT_UNTOLD;
}

/* Bad if one check does not hold, whatever the others. */
static int check_all(const struct bench *b, const struct bench_result *r,
                     const struct diff_check *check, size_t n)
{
    int rc = CLI_OK;

    for (size_t i = 0; i < n; i++) {
        for (size_t s = 1; s < b->trials.nsides; s++) {
            const struct trials_estimate *by;
            enum told told = check_side(b, &r[s], &check[i], &by);
            int one = told == TOLD_GOOD ? CLI_OK : say_check(b, s, &check[i], told, by);

            if (one != CLI_OK && rc != EXIT_BAD)
                rc = one;
        }
    }
    return rc;
}

static int parse_checks(struct cli *cli, const struct option_list *texts, struct diff_check **out)
{
    int rc = CLI_OK;

    *out = mem_calloc(texts->n + 1, sizeof(**out));
    if (!*out)
        return cli_out_of_memory();
    for (size_t i = 0; i < texts->n && rc == CLI_OK; i++) {
        struct diff_check *c = &(*out)[i];

        rc = diff_check_parse(cli, texts->item[i], c);
        if (rc == CLI_OK && strcmp(c->metric, "latency") != 0 && strcmp(c->metric, "median") != 0 &&
            strcmp(c->metric, "op") != 0 && strncmp(c->metric, "op:", 3) != 0)
            rc = cli_usage(cli, "--fail-if: bench knows latency, op and op:NAME, not '%s'",
                           c->metric);
    }
    return rc;
}

/* -- the command -- */

static int report(struct bench *b, int64_t top, bool markdown, const struct diff_check *check,
                  size_t nchecks)
{
    struct bench_result r[TRIALS_SIDES_MAX] = { 0 };
    int rc = CLI_OK;

    if (trials_blocks(&b->trials) < 2)
        return cli_error("too little was measured to compare: %zu of at least %d blocks",
                         trials_blocks(&b->trials), TRIALS_BLOCKS_MIN);
    for (size_t s = 1; s < b->trials.nsides && rc == CLI_OK; s++)
        if (trials_compare(&b->trials, s, &b->options, &r[s].e, &r[s].n) < 0)
            rc = cli_out_of_memory();
    if (rc == CLI_OK)
        rc = bench_print(b, r, top, markdown);
    if (rc == CLI_OK)
        rc = check_all(b, r, check, nchecks);
    for (size_t s = 1; s < b->trials.nsides; s++)
        mem_free(r[s].e);
    return rc;
}

static int own_path(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);

    if (n <= 0)
        return cli_error("where opmeter lies cannot be found: /proc/self/exe: %s", strerror(errno));
    out[n] = '\0';
    return CLI_OK;
}

int cmd_bench(struct cli *cli, int argc, char **argv)
{
    struct bench b = { .cli = cli, .options = { .draws = DRAWS_END } };
    struct option_list fail_if = { 0 };
    const char *precision = "1%", *effect = "1%", *time = "5m", *process = "300ms";
    int64_t top = 15, seed = 0;
    bool markdown = false;
    const struct option opts[] = {
        OPT_BOOL(0, "record", &b.record, "sides are programs, run under 'opmeter record'"),
        OPT_STR(0, "precision", &precision, "SHARE",
                "go on until the interval is within so much of the estimate (1%)"),
        OPT_STR(0, "time", &time, "TIME", "but no longer than this (5m)"),
        OPT_STR(0, "process-time", &process, "TIME",
                "what a process measures, where the side does not say how often (300ms)"),
        OPT_STR(0, "min-effect", &effect, "SHARE", "a change below this is no change (1%)"),
        OPT_LIST(0, "fail-if", &fail_if, "FIGURE>LIMIT",
                 "exit with 1 if a side exceeds A by more, 125 if it cannot be told: 'latency>5%', "
                 "'op>20%' or 'op:conv1>10%'; may be repeated"),
        OPT_INT(0, "seed", &seed, "N", 0, INT64_MAX, "seed of the order of processes (random)"),
        OPT_STR('o', "output", &b.keep, "DIR", "keep the traces of all processes there"),
        OPT_INT('t', "top", &top, "N", 0, INT32_MAX, "operators to show (15); 0: all"),
        OPT_BOOL(0, "markdown", &markdown, "print Markdown, as for a comment on a change"),
        CLI_TABLE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc = CLI_OK;
    struct diff_check *check = NULL;
    char self[FOLDER_PATH_MAX];

    if (n < 0)
        rc = cli->status;
    else if (n < 2 || n > TRIALS_SIDES_MAX)
        rc = cli_usage(cli, "two to %d command lines are needed, each in quotes", TRIALS_SIDES_MAX);
    else if (!parse_share(precision, &b.precision))
        rc = cli_usage(cli, "--precision: '%s' is no share such as 1%%", precision);
    else if (!parse_share(effect, &b.options.min_effect))
        rc = cli_usage(cli, "--min-effect: '%s' is no share such as 1%%", effect);
    else
        rc = own_path(self, sizeof(self));
    if (n >= 2 && rc == CLI_OK)
        rc = parse_time(cli, "time", time, &b.time_ns);
    if (n >= 2 && rc == CLI_OK)
        rc = parse_time(cli, "process-time", process, &b.process_ns);
    if (n >= 2 && rc == CLI_OK)
        rc = parse_checks(cli, &fail_if, &check);
    for (int i = 0; i < n && n >= 2 && rc == CLI_OK; i++) {
        b.trials.nsides = (size_t)i + 1;
        rc = bench_side_init(&b, (size_t)i, argv[i], self);
    }
    if (n >= 2 && rc == CLI_OK) {
        b.options.seed = seed ? (uint64_t)seed : (uint64_t)bench_now_ns();
        rc = measure(&b);
        if (rc == CLI_OK)
            rc = report(&b, top, markdown, check, fail_if.n);
        else if (fail_if.n)
            rc = EXIT_UNTOLD; /* what does not run says nothing of speed */
    }
    for (size_t s = 0; s < b.trials.nsides; s++)
        bench_side_release(&b.side[s]);
    trials_release(&b.trials);
    mem_free(check);
    option_list_release(&fail_if);
    return rc;
}
