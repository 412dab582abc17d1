/* summary_furiosa.c -- the reports of Furiosa's profiler in its own layout; see summary.h. */
#include "cli/summary.h"

#include "cli/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS_MAX 4 /* more series than this are a table */

/* -- tables for people -- */

/* Columns that are NULL throughout are not shown: each source knows others. */
int summary_print_furiosa_report(struct summary *s, const struct summary_report *rep)
{
    int64_t rows = 0;
    int rc = table_print_plain(s->cli, s->t, rep->sql, s->limit, &rows);

    if (rc == CLI_OK && !rows)
        io_out_addf(&s->cli->out, "%s\n", rep->empty);
    if (rc == CLI_OK && s->limit && rows > s->limit)
        cli_remark(s->cli, "there are more than these %" PRId64 ": -t 0 shows all", s->limit);
    return rc;
}

/* -- the summary -- */

/* "label  : 650018", and on a terminal what that is. */
static void put_line(struct summary *s, const char *label, double ns)
{
    char room[HUMAN_ROOM];

    io_out_addf(&s->cli->out, "%-30s  : %.0f", label, floor(ns));
    if (isatty(STDOUT_FILENO))
        io_out_addf(&s->cli->out, "  %s%s%s", cli_style(s->cli, STYLE_DIM), human_ns(room, ns),
                    cli_style(s->cli, STYLE_PLAIN));
    io_out_adds(&s->cli->out, "\n");
}

static void put_block(struct summary *s, const struct summary_series *x)
{
    static const char rule[] = "================================================";
    static const struct {
        const char *label;
        int value;
    } lines[] = { { "Min latency (ns)", V_MIN },
                  { "Max latency (ns)", V_MAX },
                  { "Mean latency (ns)", V_MEAN },
                  { "Median latency (ns)", V_MEDIAN },
                  { "90.0 percentile latency (ns)", V_P90 },
                  { "95.0 percentile latency (ns)", V_P95 },
                  { "97.0 percentile latency (ns)", V_P97 },
                  { "99.0 percentile latency (ns)", V_P99 },
                  { "99.9 percentile latency (ns)", V_P999 } };
    const char *what = summary_word(s, x);
    struct buf title = { 0 };

    buf_addf(&title, "%s Results Summary", what);
    if (*x->name && strcmp(x->name, what) != 0)
        buf_addf(&title, " of %s", x->name);
    cli_clean(&title);
    io_out_addf(&s->cli->out, "%s\n  %s\n%s\n", rule, buf_str(&title), rule);
    buf_clear(&title);
    buf_addf(&title, "%s counts", what);
    io_out_addf(&s->cli->out, "%-30s  : %" PRId64 "\n", buf_str(&title), x->count);
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
        put_line(s, lines[i].label, x->v[lines[i].value]);
    buf_release(&title);
}

static size_t of_scope(const struct all_series *all, const char *scope)
{
    size_t n = 0;

    while (n < all->n && strcmp(all->s[n].scope, scope) == 0)
        n++;
    return n;
}

int summary_print_furiosa(struct summary *s, const struct all_series *all)
{
    size_t first = all->n ? of_scope(all, all->s[0].scope) : 0;
    int rc = CLI_OK;

    if (!all->n) {
        io_out_adds(&s->cli->out,
                    "Nothing to sum up: the trace has no steps, no labelled regions and no runs of "
                    "a device that were measured. 'opmeter top' ranks what it has.\n");
        summary_say_warmup(s);
        return summary_reconcile(s);
    }
    if (first > BLOCKS_MAX)
        rc = summary_put_table(s, all->s, first, all->s[0].scope);
    for (size_t i = 0; i < first && rc == CLI_OK; i++) {
        if (first <= BLOCKS_MAX) {
            io_out_adds(&s->cli->out, i ? "\n" : "");
            put_block(s, &all->s[i]);
        }
        if (s->histogram) {
            io_out_addf(&s->cli->out, "\n");
            rc = summary_put_histogram(s, &all->s[i]);
        }
    }
    if (rc == CLI_OK && first < all->n) {
        io_out_adds(&s->cli->out, "\n");
        rc = summary_put_table(s, all->s + first, all->n - first, "labelled region");
    }
    summary_say_warmup(s);
    return rc == CLI_OK ? summary_reconcile(s) : rc;
}
