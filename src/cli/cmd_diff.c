/* cmd_diff.c -- compare two profiles: what became slower or faster, and by how much. */
#include "cli/comparison.h"
#include "cli/diff_parts.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char about[] =
    "Compare profile B with profile A: latency and its tail, and operators aligned by the nodes of "
    "the model that they cover and by name, each by its own time in one iteration. Changes within "
    "the spread of the measurements are marked ~. With several recordings of each, apart by a "
    "'--' or as patterns in quotes, processes are what is compared. With --fail-if the exit code "
    "is 3 if a figure grew by more than it may.";

static const char *const by_choices[] = { "op", "type", NULL };

struct change {
    char text[HUMAN_ROOM + 8];
};

/* "+1.3 ms" or "-20 us". */
static const char *signed_ns(struct change *room, double ns)
{
    char value[HUMAN_ROOM];

    snprintf(room->text, sizeof(room->text), "%s%s", ns < 0 ? "-" : "+", human_ns(value, fabs(ns)));
    return room->text;
}

static const char *percent(struct change *room, double share)
{
    if (!isfinite(share))
        return NULL;
    snprintf(room->text, sizeof(room->text), "%+.1f %%", 100 * share);
    return room->text;
}

static void put_text(struct textable *t, const char *text)
{
    if (text)
        textable_text(t, text, strlen(text));
    else
        textable_null(t);
}

static void put_ns(struct textable *t, double ns, bool there)
{
    char room[HUMAN_ROOM];

    put_text(t, there && !isnan(ns) ? human_ns(room, ns) : NULL);
}

static void print_latency(struct cli *cli, const struct diff *d)
{
    bool any = false;

    for (size_t i = 0; i < d->nlatency; i++) {
        const struct diff_latency *l = &d->latency[i];
        struct textable *t;
        struct buf title = { 0 };

        if (!l->there[DIFF_A] || !l->there[DIFF_B])
            continue;
        /* One region around all steps says nothing that they do not say. */
        if (any && l->count[DIFF_A] == 1 && l->count[DIFF_B] == 1)
            continue;
        buf_addf(&title, "%s", l->name[DIFF_A] ? l->name[DIFF_A] : l->scope);
        if (l->name[DIFF_A] && l->name[DIFF_B] && strcmp(l->name[DIFF_A], l->name[DIFF_B]) != 0)
            buf_addf(&title, " / %s", l->name[DIFF_B]);
        cli_clean(&title);
        io_out_addf(&cli->out, "%s%sLatency of %s%s, %lld and %lld time%s\n", any ? "\n" : "",
                    cli_style(cli, STYLE_BOLD), buf_str(&title), cli_style(cli, STYLE_PLAIN),
                    (long long)l->count[DIFF_A], (long long)l->count[DIFF_B],
                    human_s(l->count[DIFF_B]));
        buf_release(&title);
        any = true;
        t = textable_new();
        if (t) {
            textable_column(t, "", TEXTABLE_TEXT);
            textable_column(t, "A", TEXTABLE_REAL);
            textable_column(t, "B", TEXTABLE_REAL);
            textable_column(t, "change", TEXTABLE_REAL);
            textable_column(t, "%", TEXTABLE_REAL);
            for (int m = 0; m < DIFF_NMETRICS; m++) {
                const double *ns = l->ns[m];
                struct change room;

                put_text(t, diff_metric_names[m]);
                put_ns(t, ns[DIFF_A], true);
                put_ns(t, ns[DIFF_B], true);
                put_text(t, signed_ns(&room, ns[DIFF_B] - ns[DIFF_A]));
                put_text(t, percent(&room, diff_share(ns[DIFF_A], ns[DIFF_B])));
            }
        }
        cli_print_table(cli, t);
    }
    if (!any)
        cli_tell(cli, "Latency: no model and no labelled region is in both traces; whole traces "
                      "are compared.");
}

static void remark_tail(struct cli *cli, const struct diff_tail *t)
{
    struct change room;
    const char *share = percent(&room, diff_share(t->ns[DIFF_A], t->ns[DIFF_B]));

    if (!t->n[DIFF_A] || !t->n[DIFF_B] || !share)
        return;
    if (!t->enough)
        cli_remark(cli,
                   "Whether the tail moved cannot be told by %lld and %lld iteration%s; p99 takes "
                   "hundreds.",
                   (long long)t->n[DIFF_A], (long long)t->n[DIFF_B], human_s(t->n[DIFF_B]));
    else
        cli_remark(cli, "%s: p99 %s.",
                   t->certain ? "The tail moved by more than chance explains"
                              : "The tail did not move by more than chance explains",
                   share);
}

static void put_row(struct textable *t, const struct diff_row *r, bool by_type)
{
    struct change room;

    put_text(t, r->name);
    if (!by_type)
        put_text(t, r->type);
    put_ns(t, r->ns[DIFF_A], r->there[DIFF_A]);
    put_ns(t, r->ns[DIFF_B], r->there[DIFF_B]);
    put_text(t, signed_ns(&room, r->ns[DIFF_B] - r->ns[DIFF_A]));
    put_text(t, percent(&room, diff_share(r->ns[DIFF_A], r->ns[DIFF_B])));
    put_text(t, diff_state(r));
}

static int print_rows(struct cli *cli, const struct diff *d, bool by_type, int64_t top)
{
    struct textable *t = textable_new();
    const struct diff_row total = diff_total(d);
    size_t shown = top && (size_t)top < d->n ? (size_t)top : d->n, both = 0,
           only[DIFF_SIDES] = { 0 };
    int rc;

    for (size_t i = 0; i < d->n; i++) {
        both += d->row[i].there[DIFF_A] && d->row[i].there[DIFF_B];
        for (int s = 0; s < DIFF_SIDES; s++)
            only[s] += d->row[i].there[s] && !d->row[i].there[!s];
    }
    io_out_addf(
        &cli->out, "\n%s%s%s, own time in %s, the largest change first\n",
        cli_style(cli, STYLE_BOLD),
        by_type ? (d->spans ? "Categories" : "Operator types") : (d->spans ? "Spans" : "Operators"),
        cli_style(cli, STYLE_PLAIN), d->iterations[DIFF_A] ? "one iteration" : "the whole trace");
    if (t) {
        textable_column(t, by_type ? (d->spans ? "category" : "type") : "name", TEXTABLE_TEXT);
        if (!by_type)
            textable_column(t, d->spans ? "category" : "type", TEXTABLE_TEXT);
        if (!by_type)
            textable_optional(t, 1);
        textable_column(t, "A", TEXTABLE_REAL);
        textable_column(t, "B", TEXTABLE_REAL);
        textable_column(t, "change", TEXTABLE_REAL);
        textable_column(t, "%", TEXTABLE_REAL);
        textable_column(t, "", TEXTABLE_TEXT);
        for (size_t i = 0; i < shown; i++)
            put_row(t, &d->row[i], by_type);
        put_row(t, &total, by_type);
    }
    rc = cli_print_table(cli, t);
    if (rc != CLI_OK)
        return rc;
    cli_remark(cli,
               "%zu of %zu shown; %zu in both, %zu only in A, %zu only in B. ~: within the "
               "spread of the measurements, or the spread is not known.",
               shown, d->n, both, only[DIFF_A], only[DIFF_B]);
    if (!d->spans && (only[DIFF_A] || only[DIFF_B]))
        cli_remark(cli, "Without a counterpart: %.1f %% of A's operators' time, %.1f %% of B's.",
                   d->total_ns[DIFF_A] > 0 ? 100 * d->alone_ns[DIFF_A] / d->total_ns[DIFF_A] : 0,
                   d->total_ns[DIFF_B] > 0 ? 100 * d->alone_ns[DIFF_B] / d->total_ns[DIFF_B] : 0);
    remark_tail(cli, &d->tail);
    if (both)
        cli_remark(cli,
                   "One recording each: how much processes differ, which is often more than what "
                   "iterations of one do, is not known. 'opmeter bench' measures it.");
    return CLI_OK;
}

static void put_real(struct textable *t, double v)
{
    if (isfinite(v))
        textable_real(t, v);
    else
        textable_null(t);
}

static int print_csv(struct cli *cli, const struct diff *d)
{
    static const struct {
        const char *name;
        enum textable_kind kind;
    } columns[] = { { "name", TEXTABLE_TEXT },      { "type", TEXTABLE_TEXT },
                    { "a_ns", TEXTABLE_REAL },      { "b_ns", TEXTABLE_REAL },
                    { "change_ns", TEXTABLE_REAL }, { "change", TEXTABLE_REAL },
                    { "state", TEXTABLE_TEXT } };
    struct textable *t = textable_new();

    if (t) {
        for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
            textable_column(t, columns[i].name, columns[i].kind);
        for (size_t i = 0; i < d->n; i++) {
            const struct diff_row *r = &d->row[i];

            put_text(t, r->name);
            put_text(t, r->type);
            put_real(t, r->there[DIFF_A] ? r->ns[DIFF_A] : (double)NAN);
            put_real(t, r->there[DIFF_B] ? r->ns[DIFF_B] : (double)NAN);
            put_real(t, r->ns[DIFF_B] - r->ns[DIFF_A]);
            put_real(t, diff_share(r->ns[DIFF_A], r->ns[DIFF_B]));
            put_text(t, diff_state(r));
        }
    }
    return cli_print_table(cli, t);
}

static void json_pair(struct json_writer *w, const double ns[DIFF_SIDES],
                      const bool there[DIFF_SIDES])
{
    json_key(w, "a_ns");
    json_f64(w, there[DIFF_A] ? ns[DIFF_A] : (double)NAN);
    json_key(w, "b_ns");
    json_f64(w, there[DIFF_B] ? ns[DIFF_B] : (double)NAN);
    json_key(w, "change");
    json_f64(w, diff_share(there[DIFF_A] ? ns[DIFF_A] : 0, ns[DIFF_B]));
}

static int print_json(struct cli *cli, const struct diff *d, const struct diff_check *check,
                      size_t nchecks)
{
    static const bool both[DIFF_SIDES] = { true, true };
    struct json_writer w = { .out = &cli->out };

    json_object(&w);
    json_key(&w, "latency");
    json_array(&w);
    for (size_t i = 0; i < d->nlatency; i++) {
        const struct diff_latency *l = &d->latency[i];

        for (int m = 0; m < DIFF_NMETRICS; m++) {
            json_newline(&w);
            json_object(&w);
            json_key(&w, "scope");
            json_cstr(&w, l->scope);
            json_key(&w, "name");
            json_cstr(&w, l->there[DIFF_A] ? l->name[DIFF_A] : l->name[DIFF_B]);
            json_key(&w, "metric");
            json_cstr(&w, diff_metric_names[m]);
            json_pair(&w, l->ns[m], l->there);
            json_object_end(&w);
        }
    }
    json_array_end(&w);
    if (d->tail.n[DIFF_A] && d->tail.n[DIFF_B]) {
        json_newline(&w);
        json_key(&w, "tail");
        json_object(&w);
        json_pair(&w, d->tail.ns, both);
        json_key(&w, "state");
        json_cstr(&w, diff_tail_state(&d->tail));
        json_object_end(&w);
    }
    json_newline(&w);
    json_key(&w, "alone");
    json_array(&w);
    for (int s = 0; s < DIFF_SIDES; s++)
        json_f64(&w, d->total_ns[s] > 0 ? d->alone_ns[s] / d->total_ns[s] : 0);
    json_array_end(&w);
    json_newline(&w);
    json_key(&w, d->spans ? "spans" : "operators");
    json_array(&w);
    for (size_t i = 0; i < d->n; i++) {
        const struct diff_row *r = &d->row[i];

        json_newline(&w);
        json_object(&w);
        json_key(&w, "name");
        json_cstr(&w, r->name);
        json_key(&w, "type");
        json_cstr(&w, r->type);
        json_pair(&w, r->ns, r->there);
        json_key(&w, "state");
        json_cstr(&w, diff_state(r));
        json_object_end(&w);
    }
    json_array_end(&w);
    json_newline(&w);
    json_key(&w, "checks");
    json_array(&w);
    for (size_t i = 0; i < nchecks; i++) {
        double ns[DIFF_SIDES] = { check[i].a_ns, check[i].b_ns };

        json_newline(&w);
        json_object(&w);
        json_key(&w, "fail_if");
        json_cstr(&w, check[i].text);
        json_key(&w, "failed");
        json_bool(&w, check[i].failed);
        json_pair(&w, ns, both);
        json_object_end(&w);
    }
    json_array_end(&w);
    json_object_end(&w);
    io_out_addf(&cli->out, "\n");
    return CLI_OK;
}

/* One line for each check that failed, on standard error. */
static int report_checks(const struct diff_check *check, size_t n)
{
    int rc = CLI_OK;

    for (size_t i = 0; i < n; i++) {
        const struct diff_check *c = &check[i];
        struct change change, share;
        char a[HUMAN_ROOM], b[HUMAN_ROOM];
        const char *p = percent(&share, diff_share(c->a_ns, c->b_ns));

        if (!c->failed)
            continue;
        cli_error("%s: %s%s%s to %s, %s%s%s%s", c->text, c->what ? c->what : "",
                  c->what ? ": " : "", human_ns(a, c->a_ns), human_ns(b, c->b_ns),
                  signed_ns(&change, c->b_ns - c->a_ns), p ? " (" : "", p ? p : "", p ? ")" : "");
        rc = CLI_CHECK;
    }
    return rc;
}

static int run_checks(struct diff_check *check, size_t n, const struct diff *ops,
                      const struct diff *types)
{
    int rc = CLI_OK;

    for (size_t i = 0; i < n && rc == CLI_OK; i++)
        rc = diff_check_run(&check[i], ops, types);
    return rc;
}

static int print_people(struct cli *cli, opm_trace *const trace[DIFF_SIDES], const struct diff *ops,
                        const struct diff *shown, const struct diff_wanted *w)
{
    struct diff_facts facts = { 0 };
    int rc = CLI_OK;

    for (int s = 0; s < DIFF_SIDES && rc == CLI_OK; s++)
        rc = diff_facts_read(&facts, trace[s], s);
    if (rc == CLI_OK) {
        diff_facts_print(cli, &facts);
        print_latency(cli, ops);
        rc = print_rows(cli, shown, w->by_type, w->top);
    }
    diff_facts_release(&facts);
    return rc;
}

static int compare(struct cli *cli, opm_trace *const trace[DIFF_SIDES], const struct diff_wanted *w)
{
    struct diff ops = { 0 }, types = { 0 };
    const struct diff *shown = w->by_type ? &types : &ops;
    opm_error err;
    int rc = diff_read(&ops, trace, false, &err) < 0 || diff_read(&types, trace, true, &err) < 0
                 ? cli_error("%s", err.msg)
                 : CLI_OK;

    if (rc == CLI_OK)
        rc = run_checks(w->check, w->nchecks, &ops, &types);
    if (rc == CLI_OK && cli->json)
        rc = print_json(cli, shown, w->check, w->nchecks);
    else if (rc == CLI_OK && cli->csv)
        rc = print_csv(cli, shown);
    else if (rc == CLI_OK)
        rc = print_people(cli, trace, &ops, shown, w);
    if (rc == CLI_OK)
        rc = report_checks(w->check, w->nchecks);
    diff_release(&ops);
    diff_release(&types);
    return rc;
}

static int compare_two(struct cli *cli, const struct diff_paths side[DIFF_SIDES],
                       const struct diff_wanted *w)
{
    opm_trace *trace[DIFF_SIDES] = { NULL, NULL };
    int rc = CLI_OK;

    for (int s = 0; s < DIFF_SIDES && rc == CLI_OK; s++) {
        char *path = side[s].path[0]; /* which is another for standard input */

        rc = cli_open(cli, &trace[s], &path, 1);
    }
    if (rc == CLI_OK)
        rc = compare(cli, trace, w);
    for (int s = 0; s < DIFF_SIDES; s++)
        opm_trace_close(trace[s]);
    return rc;
}

/* What stands before and behind "--"; without one, two arguments. */
static int take_sides(struct cli *cli, int n, char **argv, struct diff_paths side[DIFF_SIDES])
{
    int dashes = -1, rc = CLI_OK;

    for (int i = 0; i < n && dashes < 0; i++)
        if (strcmp(argv[i], "--") == 0)
            dashes = i;
    if (dashes < 0 ? n > DIFF_SIDES : dashes == 0 || dashes == n - 1)
        return cli_usage(cli, "of several recordings say which are A and which B: A... -- B...");
    if (dashes < 0 && n < DIFF_SIDES)
        return cli_usage(cli, "two traces are needed: A, and B to compare with it");
    for (int i = 0; i < n && rc == CLI_OK; i++)
        if (i != dashes)
            rc = diff_paths_add(&side[dashes < 0 ? i : i > dashes], argv[i]);
    return rc;
}

int cmd_diff(struct cli *cli, int argc, char **argv)
{
    struct option_list fail_if = { 0 };
    struct diff_wanted w = { .top = 15 };
    const char *by = by_choices[0], *effect = "1%";
    const struct option opts[] = {
        OPT_LIST(0, "fail-if", &fail_if, "FIGURE>LIMIT",
                 "exit with 3 if B exceeds A by more, such as 'latency>5%', 'p99>2ms', 'op>20%', "
                 "'op:conv1>10%' or 'type:Conv>5%'; may be repeated"),
        OPT_CHOICE(0, "by", &by, "WHAT", by_choices, "compare each op, or each type (op)"),
        OPT_STR(0, "min-effect", &effect, "SHARE",
                "of several recordings: a change below this is no change (1%)"),
        OPT_INT('t', "top", &w.top, "N", 0, INT32_MAX, "rows to show (15); 0: all"),
        CLI_TABLE_OPTIONS(cli),
        CLI_TRACE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END
    };
    int n = cli_parse_sides(cli, opts, about, argc, argv), rc;
    struct diff_paths side[DIFF_SIDES] = { 0 };

    if (n < 0)
        rc = cli->status;
    else if (!comparison_share(effect, &w.min_effect))
        rc = cli_usage(cli, "--min-effect: '%s' is no share such as 1%%", effect);
    else
        rc = take_sides(cli, n, argv, side);
    w.by_type = strcmp(by, "type") == 0;
    w.nchecks = fail_if.n;
    if (n >= 0 && rc == CLI_OK) {
        w.check = mem_calloc(fail_if.n + 1, sizeof(*w.check));
        if (!w.check)
            rc = cli_out_of_memory();
        for (size_t i = 0; i < fail_if.n && rc == CLI_OK; i++)
            rc = diff_check_parse(cli, fail_if.item[i], &w.check[i]);
        if (rc == CLI_OK && side[DIFF_A].n == 1 && side[DIFF_B].n == 1)
            rc = compare_two(cli, side, &w);
        else if (rc == CLI_OK)
            rc = diff_several(cli, side, &w);
    }
    for (int s = 0; s < DIFF_SIDES; s++)
        diff_paths_release(&side[s]);
    mem_free(w.check);
    option_list_release(&fail_if);
    return rc;
}
