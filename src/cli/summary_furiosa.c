/* summary_furiosa.c -- the reports of Furiosa's profiler in its own layout; see summary.h. */
#include "cli/summary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS_MAX 4 /* more series than this are a table */

/* -- tables for people -- */

static void put_value(struct textable *t, const opm_rows *r, int c)
{
    size_t len;
    const char *text;

    switch (opm_rows_type(r, c)) {
    case OPM_TYPE_NULL:
        textable_null(t);
        break;
    case OPM_TYPE_INT:
        textable_int(t, opm_rows_int(r, c));
        break;
    case OPM_TYPE_REAL:
        textable_real(t, opm_rows_real(r, c));
        break;
    case OPM_TYPE_TEXT:
        text = opm_rows_text(r, c, &len);
        textable_text(t, text, len);
        break;
    }
}

#define COLUMNS_MAX 16

/* Which columns have a value in the rows that will be shown, and of which kind. */
struct summary_shape {
    bool used[COLUMNS_MAX];
    enum textable_kind kind[COLUMNS_MAX];
    int64_t rows;
    bool more; /* than are shown; counting them could take long */
};

static int shape_of(struct summary *s, const char *sql, struct summary_shape *shape)
{
    opm_rows *r = NULL;
    opm_error err;
    int more = opm_trace_query(s->t, sql, &r, &err);

    for (int c = 0; c < COLUMNS_MAX; c++)
        shape->kind[c] = TEXTABLE_INT;
    while (more >= 0 && !shape->more) {
        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        shape->more = s->limit && shape->rows == s->limit;
        if (shape->more)
            break;
        shape->rows++;
        for (int c = 0; c < opm_rows_columns(r); c++) {
            enum opm_type type = opm_rows_type(r, c);

            shape->used[c] |= type != OPM_TYPE_NULL;
            if (type == OPM_TYPE_TEXT)
                shape->kind[c] = TEXTABLE_TEXT;
        }
    }
    opm_rows_close(r);
    return more < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

/* Columns that are NULL throughout are not shown: each source knows others. */
int summary_print_furiosa_report(struct summary *s, const struct summary_report *rep)
{
    struct summary_shape shape = { 0 };
    struct textable *t;
    opm_rows *r = NULL;
    opm_error err;
    int64_t n = 0;
    int more, rc = shape_of(s, rep->sql, &shape);

    if (rc == CLI_OK && !shape.rows)
        io_out_addf(&s->cli->out, "%s\n", rep->empty);
    if (rc != CLI_OK || !shape.rows)
        return rc;
    t = textable_new();
    if (!t)
        return cli_out_of_memory();
    more = opm_trace_query(s->t, rep->sql, &r, &err);
    for (int c = 0; more == 0 && c < opm_rows_columns(r); c++)
        if (shape.used[c])
            textable_column(t, opm_rows_name(r, c), shape.kind[c]);
    while (more >= 0 && n < shape.rows) {
        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        for (int c = 0; c < opm_rows_columns(r); c++)
            if (shape.used[c])
                put_value(t, r, c);
        n++;
    }
    opm_rows_close(r);
    if (more < 0) {
        textable_free(t);
        return cli_error("%s", err.msg);
    }
    rc = cli_print_table(s->cli, t);
    if (rc == CLI_OK && shape.more)
        cli_remark(s->cli, "there are more than these %" PRId64 ": -t 0 shows all", n);
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
