/* cmd_bench.c -- which of several is faster: fresh processes in turn, until it can be told. */
#include "base/calm.h"
#include "cli/bench.h"
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

/* Is the interval as narrow as wanted, and is it told what the side is? Where it is just at what is
 * worth mentioning, that is not waited for beyond a third of the width; where it is clearly beyond
 * that and few blocks do not prove it yet, it is. */
static bool is_enough(const struct bench *b, const struct trials_estimate *e)
{
    double half = (e->high - e->low) / 2, least = b->options.min_effect;

    if (e->verdict != TRIALS_UNSURE)
        return half <= b->precision;
    return half <= MIN(b->precision, least) / 3 && e->low <= least &&
           e->high >= expm1(-log1p(least));
}

/* Of all sides; also shows how intervals close in. */
static bool enough(struct bench *b, bool show)
{
    struct trials_options o = b->options;
    size_t blocks = trials_blocks(&b->trials);
    bool yes = true;

    o.draws = DRAWS_LOOK;
    if (show)
        fputs("\r\033[K", stderr);
    for (size_t s = 1; s < b->trials.nsides; s++) {
        struct trials_estimate e;

        if (!trials_whole(&b->trials, s, &o, &e)) {
            yes = false;
            break;
        }
        yes &= is_enough(b, &e);
        if (show)
            fprintf(stderr, "%c %+.1f %% (%+.1f to %+.1f)  ", b->side[s].letter, 100 * e.change,
                    100 * e.low, 100 * e.high);
    }
    if (show)
        fprintf(stderr, "%zu block%s of at least %d, %.0f s of %.0f s", blocks,
                human_s((int64_t)blocks), TRIALS_BLOCKS_MIN,
                (double)(bench_now_ns() - b->began_ns) / 1e9, (double)b->time_ns / 1e9);
    return yes && blocks >= TRIALS_BLOCKS_MIN;
}

static int measure(struct bench *b)
{
    struct progress p;
    struct calm_ticks ticks = calm_ticks();
    uint64_t state = b->options.seed;
    int rc = CLI_OK;

    progress_start(&p, b->cli, "", ""); /* whether it may be shown */
    b->began_ns = bench_now_ns();
    cli_interrupt_begin();
    while (rc == CLI_OK && !b->interrupted) {
        size_t blocks = trials_blocks(&b->trials);
        int64_t spent = bench_now_ns() - b->began_ns;

        if (enough(b, p.enabled))
            break;
        /* Not another block that would end after the time is up. */
        if (blocks >= TRIALS_BLOCKS_MIN && spent + spent / (int64_t)blocks > b->time_ns)
            break;
        rc = one_block(b, &state);
    }
    if (p.enabled)
        fputs("\r\033[K", stderr);
    b->spent_ns = bench_now_ns() - b->began_ns;
    b->stolen = calm_stolen(ticks, calm_ticks());
    if (b->interrupted && trials_blocks(&b->trials) >= 2)
        cli_interrupt_take(); /* what there is, is reported */
    cli_interrupt_end();
    return rc;
}

/* -- --fail-if -- */

/* Bad if one check does not hold, whatever the others. */
static int check_all(const struct bench *b, const struct comparison *c,
                     const struct diff_check *check, size_t n)
{
    struct buf why = { 0 };
    int rc = CLI_OK;

    for (size_t i = 0; i < n; i++) {
        for (size_t s = 1; s < b->trials.nsides; s++) {
            enum comparison_told told;

            buf_clear(&why);
            told = comparison_check(&c[s], &b->trials, &check[i], &why);
            if (told != TOLD_GOOD)
                cli_error("%s", buf_str(&why));
            if (told == TOLD_BAD)
                rc = EXIT_BAD;
            else if (told == TOLD_NOTHING && rc != EXIT_BAD)
                rc = EXIT_UNTOLD;
        }
    }
    buf_release(&why);
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
        if (rc == CLI_OK && !comparison_knows(c->metric))
            rc = cli_usage(cli, "--fail-if: bench knows latency, op and op:NAME, not '%s'",
                           c->metric);
    }
    return rc;
}

/* -- the command -- */

/* What is printed and written at the end. */
struct wanted {
    int64_t top;
    bool markdown;
    const char *svg, *svg_url, *junit; /* files, or NULL */
    const struct diff_check *check;
    size_t nchecks;
};

static int print(struct bench *b, const struct comparison *c, const struct wanted *w)
{
    int rc = CLI_OK;

    if (w->markdown)
        rc = bench_markdown(b, c, w->top, w->svg_url ? w->svg_url : w->svg);
    else
        rc = bench_print(b, c, w->top);
    if (rc == CLI_OK && w->svg)
        rc = bench_svg(b, c, w->svg);
    if (rc == CLI_OK && w->junit)
        rc = bench_junit(b, c, w->check, w->nchecks, w->junit);
    return rc;
}

static int report(struct bench *b, const struct wanted *w)
{
    struct comparison c[TRIALS_SIDES_MAX] = { 0 };
    int rc = CLI_OK;

    for (size_t s = 1; s < b->trials.nsides && rc == CLI_OK; s++) {
        c[s].letter = b->side[s].letter;
        if (trials_compare(&b->trials, s, &b->options, &c[s].align, &c[s].e, &c[s].n) < 0)
            rc = cli_out_of_memory();
    }
    if (rc == CLI_OK)
        rc = print(b, c, w);
    if (rc == CLI_OK)
        rc = check_all(b, c, w->check, w->nchecks);
    else if (w->nchecks)
        rc = EXIT_UNTOLD;
    for (size_t s = 1; s < b->trials.nsides; s++)
        comparison_release(&c[s]);
    return rc;
}

/* A side does not run, or it was interrupted too early: that says nothing of speed. */
static int no_report(struct bench *b, const struct wanted *w, int rc)
{
    if (rc == CLI_OK)
        rc = cli_error("too little was measured to compare: %zu of at least %d blocks",
                       trials_blocks(&b->trials), TRIALS_BLOCKS_MIN);
    if (w->junit)
        bench_junit(b, NULL, w->check, w->nchecks, w->junit);
    return w->nchecks ? EXIT_UNTOLD : rc;
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
    struct wanted w = { .top = 15 };
    int64_t seed = 0;
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
        OPT_INT('t', "top", &w.top, "N", 0, INT32_MAX, "operators to show (15); 0: all"),
        OPT_BOOL(0, "markdown", &w.markdown, "print Markdown, as for a comment on a change"),
        OPT_STR(0, "svg", &w.svg, "FILE", "also draw the changes with their intervals"),
        OPT_STR(0, "svg-url", &w.svg_url, "URL",
                "where that picture will lie, for the Markdown to refer to (FILE)"),
        OPT_STR(0, "junit", &w.junit, "FILE",
                "also write JUnit XML: a test for each --fail-if, or for the latency"),
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
    else if (!comparison_share(precision, &b.precision))
        rc = cli_usage(cli, "--precision: '%s' is no share such as 1%%", precision);
    else if (!comparison_share(effect, &b.options.min_effect))
        rc = cli_usage(cli, "--min-effect: '%s' is no share such as 1%%", effect);
    else
        rc = own_path(self, sizeof(self));
    if (n >= 2 && rc == CLI_OK)
        rc = parse_time(cli, "time", time, &b.time_ns);
    if (n >= 2 && rc == CLI_OK)
        rc = parse_time(cli, "process-time", process, &b.process_ns);
    if (n >= 2 && rc == CLI_OK)
        rc = parse_checks(cli, &fail_if, &check);
    if (n >= 2 && rc == CLI_OK && (w.svg || w.junit)) {
        bool may = (!w.svg || bench_may_write(w.svg) == CLI_OK) &&
                   (!w.junit || bench_may_write(w.junit) == CLI_OK);

        rc = may ? CLI_OK : fail_if.n ? EXIT_UNTOLD : CLI_FAILURE;
    }
    w.check = check;
    w.nchecks = fail_if.n;
    for (int i = 0; i < n && n >= 2 && rc == CLI_OK; i++) {
        b.trials.nsides = (size_t)i + 1;
        rc = bench_side_init(&b, (size_t)i, argv[i], self);
    }
    if (n >= 2 && rc == CLI_OK) {
        b.options.seed = seed ? (uint64_t)seed : (uint64_t)bench_now_ns();
        rc = measure(&b);
        if (rc == CLI_OK && trials_blocks(&b.trials) >= 2)
            rc = report(&b, &w);
        else
            rc = no_report(&b, &w, rc);
    }
    for (size_t s = 0; s < b.trials.nsides; s++)
        bench_side_release(&b.side[s]);
    trials_release(&b.trials);
    mem_free(check);
    option_list_release(&fail_if);
    return rc;
}
