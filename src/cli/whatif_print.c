/* whatif_print.c -- see whatif.h. */
#include "cli/whatif.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TOTAL_COLUMNS 39 /* in front of what a total means */

bool whatif_add_rule(struct whatif_rules *to, const struct whatif_rule *rule)
{
    if (!GROW(to->item, to->cap, to->n + 1))
        return false;
    to->item[to->n++] = *rule;
    return true;
}

void whatif_release(struct whatif *w)
{
    mem_free(w->aims.item);
    mem_free(w->ratios.item);
    mem_free(w->speedups.item);
}

/* -- the query -- */

static void add_quoted(struct buf *b, const char *text)
{
    buf_addc(b, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            buf_addc(b, '\'');
        buf_addc(b, *text);
    }
    buf_addc(b, '\'');
}

/* WHEN branches; a later rule for the same name wins. */
static void add_rules(struct buf *b, const struct whatif_rules *r, const char *column,
                      const char *result)
{
    for (size_t i = r->n; i-- > 0;) {
        buf_addf(b, " WHEN %s = ", column);
        add_quoted(b, r->item[i].name);
        buf_addf(b, result ? " COLLATE NOCASE THEN '%s'" : " COLLATE NOCASE THEN %s%.17g",
                 result ? result : "", r->item[i].value);
    }
}

/* Common table `p`: op, name, type, weight_shape, zero_ratio, fits, latency_ns, aim, ratio, source,
 * projected_ns of every operator that ran. */
static void add_projection(const struct whatif *w, struct buf *b)
{
    const char *pattern = w->pattern->name;
    bool usual = w->pattern == &ratio_patterns[0];

    buf_addf(b,
             "WITH w AS (SELECT *, n IS NOT NULL AND n %% %d = 0 AND k %% %d = 0 AS fits"
             " FROM whatif WHERE latency_ns IS NOT NULL),\na AS (SELECT *, CASE",
             w->pattern->n, w->pattern->k);
    if (!w->sparse)
        buf_adds(b, " WHEN 1 THEN NULL");
    /* What the source aims at counts unless another share was asked for. */
    if (usual && !w->sparsity_asked)
        buf_adds(b, " WHEN NOT fits THEN NULL");
    else
        buf_adds(b, " WHEN NOT fits OR coalesce(zero_ratio, 0) >= 0.5 THEN NULL");
    add_rules(b, &w->aims, "weight_shape", NULL);
    if (usual && !w->sparsity_asked)
        buf_adds(b, " ELSE aim END AS goal FROM w)");
    else
        buf_addf(b, " ELSE %.17g END AS goal FROM w)", w->sparsity);
    buf_adds(b, ",\ng AS (SELECT a.*");
    for (int i = 0; i < 2; i++) {
        const char *column = i ? "source" : "ratio";

        buf_adds(b, ", coalesce(");
        if (usual)
            buf_addf(b, "CASE WHEN abs(a.aim - a.goal) < 1e-6 THEN a.%s END, ", column);
        else
            buf_adds(b, "NULL, ");
        buf_addf(b,
                 "(SELECT r.%s FROM sparse_ratio AS r WHERE r.weight_shape = a.weight_shape"
                 " AND r.n = a.n AND r.pattern = '%s' AND abs(r.sparsity - a.goal) < 1e-6)) AS %s",
                 column, pattern, i ? "origin" : "known");
    }
    buf_adds(b, " FROM a),\nq AS (SELECT *, CASE");
    add_rules(b, &w->speedups, "type", NULL);
    buf_adds(b, " WHEN goal IS NULL THEN NULL");
    add_rules(b, &w->ratios, "weight_shape", NULL);
    buf_adds(b, " ELSE coalesce(known, 1) END AS factor, CASE");
    add_rules(b, &w->speedups, "type", "speedup");
    buf_adds(b, " WHEN goal IS NULL THEN NULL");
    add_rules(b, &w->ratios, "weight_shape", "given");
    buf_adds(b, " ELSE coalesce(origin, 'unknown') END AS how FROM g),\n"
                "p AS (SELECT op, name, type, weight_shape, zero_ratio, fits, latency_ns,"
                " goal AS aim, factor AS ratio, how AS source,"
                " latency_ns / coalesce(factor, 1) AS projected_ns, model, track, interrupted_ns"
                " FROM q)\n");
}

/* A row per model. Instances of one, which have a track each, are averaged. The iteration is
 * without interruptions of operators, as these are. */
static const char totals[] =
    "SELECT count(*), sum(latency_ns) / count(DISTINCT track), sum(projected_ns) /"
    " count(DISTINCT track), sum(latency_ns) FILTER (WHERE fits) / count(DISTINCT track),"
    " sum(projected_ns) FILTER (WHERE fits) / count(DISTINCT track), count(*) FILTER (WHERE fits),"
    " count(*) FILTER (WHERE source = 'measured'), count(*) FILTER (WHERE source = 'constant'),"
    " count(*) FILTER (WHERE source = 'given'), count(*) FILTER (WHERE source = 'unknown'),"
    " count(*) FILTER (WHERE source = 'speedup'),"
    " (SELECT avg(mean_ns) FROM latency WHERE scope = 'step' AND name IS p.model) -"
    " sum(interrupted_ns) / count(DISTINCT track), model,"
    " count(DISTINCT track), min(aim), max(aim)"
    " FROM (SELECT op, fits, latency_ns, interrupted_ns, projected_ns, source, aim, model,"
    " coalesce(track, -1) AS track FROM p) AS p GROUP BY model ORDER BY sum(latency_ns) DESC";

struct total {
    int64_t ops, fits;
    double latency_ns, projected_ns;
    double fits_ns, fits_projected_ns;
    int64_t measured, constant, given, unknown, speedup;
    int64_t instances;
    double step_ns; /* NAN: no steps */
    double min_aim, max_aim;
    char model[200];
};

/* One per model, and what they have in common in all. */
struct totals {
    struct total *item;
    size_t n, cap;
    struct total all; /* counts alone: times of different models have no sum */
};

static double real_or_nan(const opm_rows *row, int col)
{
    return opm_rows_type(row, col) == OPM_TYPE_NULL ? (double)NAN : opm_rows_real(row, col);
}

static void read_total(const opm_rows *row, struct total *out)
{
    const char *model = opm_rows_text(row, 12, NULL);

    *out = (struct total){ .ops = opm_rows_int(row, 0),
                           .latency_ns = opm_rows_real(row, 1),
                           .projected_ns = opm_rows_real(row, 2),
                           .fits_ns = opm_rows_real(row, 3),
                           .fits_projected_ns = opm_rows_real(row, 4),
                           .fits = opm_rows_int(row, 5),
                           .measured = opm_rows_int(row, 6),
                           .constant = opm_rows_int(row, 7),
                           .given = opm_rows_int(row, 8),
                           .unknown = opm_rows_int(row, 9),
                           .speedup = opm_rows_int(row, 10),
                           .step_ns = real_or_nan(row, 11),
                           .instances = opm_rows_int(row, 13),
                           .min_aim = real_or_nan(row, 14),
                           .max_aim = real_or_nan(row, 15) };
    snprintf(out->model, sizeof(out->model), "%s", model ? model : "");
}

static void add_counts(struct total *to, const struct total *one)
{
    to->ops += one->ops;
    to->fits += one->fits;
    to->measured += one->measured;
    to->constant += one->constant;
    to->given += one->given;
    to->unknown += one->unknown;
    to->speedup += one->speedup;
    to->min_aim = fmin(to->min_aim, one->min_aim);
    to->max_aim = fmax(to->max_aim, one->max_aim);
}

static int read_totals(const struct whatif *w, opm_trace *t, struct totals *out)
{
    struct buf sql = { 0 };
    opm_rows *row = NULL;
    opm_error err = { 0 };
    int rc;

    out->all.min_aim = out->all.max_aim = NAN;
    add_projection(w, &sql);
    buf_adds(&sql, totals);
    if (sql.failed)
        return cli_out_of_memory();
    rc = opm_trace_query(t, buf_str(&sql), &row, &err);
    buf_release(&sql);
    while (rc >= 0) {
        rc = opm_rows_next(row, &err);
        if (rc <= 0)
            break;
        if (!GROW(out->item, out->cap, out->n + 1)) {
            opm_rows_close(row);
            return cli_out_of_memory();
        }
        read_total(row, &out->item[out->n]);
        add_counts(&out->all, &out->item[out->n++]);
    }
    opm_rows_close(row);
    return rc < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

static int query_rows(const struct whatif *w, opm_trace *t, const char *order, size_t limit,
                      opm_rows **out)
{
    struct buf sql = { 0 };
    opm_error err;
    int rc;

    add_projection(w, &sql);
    buf_addf(&sql, "SELECT * FROM p %s", order);
    if (limit != SIZE_MAX)
        buf_addf(&sql, " LIMIT %zu", limit);
    if (sql.failed)
        return cli_out_of_memory();
    rc = opm_trace_query(t, buf_str(&sql), out, &err);
    buf_release(&sql);
    return rc < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

/* -- for programs -- */

static void json_real(struct json_writer *w, const char *key, double v)
{
    json_key(w, key);
    json_f64(w, v);
}

static double projected_step_ns(const struct total *all)
{
    return all->step_ns - all->latency_ns + all->projected_ns;
}

static void json_total(struct json_writer *j, const struct total *all)
{
    json_real(j, "latency_ns", all->latency_ns);
    json_real(j, "projected_ns", all->projected_ns);
    json_real(j, "improvement", all->latency_ns / all->projected_ns);
    json_real(j, "sparsifiable_ns", all->fits_ns);
    json_real(j, "sparsifiable_projected_ns", all->fits_projected_ns);
    json_real(j, "sparsifiable_share", all->fits_ns / all->latency_ns);
    json_real(j, "sparsifiable_projected_share", all->fits_projected_ns / all->projected_ns);
    json_real(j, "model_latency_ns", all->step_ns);
    json_real(j, "model_projected_ns", projected_step_ns(all));
}

static int print_json(const struct whatif *w, opm_trace *t, const struct totals *totals_of)
{
    struct json_writer j = { .out = &w->cli->out };
    opm_rows *row = NULL;
    opm_error err;
    int rc = query_rows(w, t, "ORDER BY op", SIZE_MAX, &row), more;

    if (rc != CLI_OK)
        return rc;
    json_object(&j);
    json_key(&j, "pattern");
    json_cstr(&j, w->pattern->name);
    json_real(&j, "sparsity", w->sparse ? w->sparsity : (double)NAN);
    json_newline(&j);
    json_key(&j, "operators");
    json_array(&j);
    for (;;) {
        more = opm_rows_next(row, &err);
        if (more <= 0)
            break;
        json_newline(&j);
        cli_json_row(&j, row);
    }
    json_array_end(&j);
    opm_rows_close(row);
    if (totals_of->n == 1) {
        json_newline(&j);
        json_key(&j, "totals");
        json_object(&j);
        json_total(&j, &totals_of->item[0]);
        json_object_end(&j);
    }
    json_newline(&j);
    json_key(&j, "models");
    json_array(&j);
    for (size_t i = 0; i < totals_of->n; i++) {
        json_newline(&j);
        json_object(&j);
        json_key(&j, "model");
        json_cstr(&j, totals_of->item[i].model[0] ? totals_of->item[i].model : NULL);
        json_key(&j, "instances");
        json_i64(&j, totals_of->item[i].instances);
        json_total(&j, &totals_of->item[i]);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
    io_out_adds(&w->cli->out, "\n");
    return more < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

/* -- for people -- */

static void put_ns(struct textable *t, double ns)
{
    char room[HUMAN_ROOM];
    const char *text = human_ns(room, ns);

    textable_text(t, text, strlen(text));
}

static void put_text(struct textable *t, const opm_rows *row, int col)
{
    size_t len;
    const char *text = opm_rows_text(row, col, &len);

    textable_text(t, text ? text : "", len);
}

static void put_share(struct textable *t, const opm_rows *row, int col)
{
    char room[32] = "";

    if (opm_rows_type(row, col) != OPM_TYPE_NULL)
        snprintf(room, sizeof(room), "%.1f %%", opm_rows_real(row, col) * 100);
    textable_text(t, room, strlen(room));
}

static int print_table(const struct whatif *w, opm_trace *t, size_t top, bool several)
{
    static const char *const names[] = { "now",       "then", "saved", "ratio",    "from", "weight",
                                         "zeros now", "aim",  "type",  "operator", "model" };
    const unsigned numbers = 0xcf; /* bit i: column i stands to the right */
    static const int ranks[] = {
        0, 0, 0, 0, 3, 5, 4, 2, 1, 0, 0
    }; /* left out first: the highest */
    struct textable *table = textable_new();
    opm_rows *row = NULL;
    opm_error err;
    int rc, more = 0;

    if (!table)
        return cli_out_of_memory();
    for (size_t i = 0; i < ARRAY_SIZE(names) - !several; i++) {
        textable_column(table, names[i], numbers >> i & 1 ? TEXTABLE_REAL : TEXTABLE_TEXT);
        textable_optional(table, ranks[i]);
    }
    rc = query_rows(w, t,
                    "WHERE ratio IS NOT NULL ORDER BY latency_ns - projected_ns DESC,"
                    " latency_ns DESC, op",
                    top, &row);
    while (rc == CLI_OK) {
        more = opm_rows_next(row, &err);
        if (more <= 0)
            break;
        double now = opm_rows_real(row, 6), then = opm_rows_real(row, 10);
        char ratio[32];

        put_ns(table, now);
        put_ns(table, then);
        put_ns(table, now - then);
        snprintf(ratio, sizeof(ratio), "%.3g", opm_rows_real(row, 8));
        textable_text(table, ratio, strlen(ratio));
        put_text(table, row, 9);
        put_text(table, row, 3);
        put_share(table, row, 4);
        put_share(table, row, 7);
        put_text(table, row, 2);
        put_text(table, row, 1);
        if (several)
            put_text(table, row, 11);
    }
    opm_rows_close(row);
    if (more < 0)
        rc = cli_error("%s", err.msg);
    if (rc != CLI_OK) {
        textable_free(table);
        return rc;
    }
    return cli_print_table(w->cli, table);
}

static void print_question(const struct whatif *w, const struct totals *t)
{
    struct io_out *out = &w->cli->out;
    const char *model = t->n == 1 ? t->item[0].model : "";
    double from = t->all.min_aim, to = t->all.max_aim;

    io_out_adds(out, "What if ");
    if (w->sparse && (w->sparsity_asked || w->aims.n || isnan(from)))
        io_out_addf(out, "weights had %.4g %% zeros in %s blocks", w->sparsity * 100,
                    w->pattern->name);
    else if (w->sparse && ratio_same_sparsity(from, to))
        io_out_addf(out, "weights had %.4g %% zeros in %s blocks", to * 100, w->pattern->name);
    else if (w->sparse)
        io_out_addf(out, "weights had %.4g to %.4g %% zeros in %s blocks, as the trace aims at",
                    from * 100, to * 100, w->pattern->name);
    for (size_t i = 0; i < w->speedups.n; i++)
        io_out_addf(out, "%s%s were %.4g times as fast", w->sparse || i ? ", " : "",
                    w->speedups.item[i].name, w->speedups.item[i].value);
    io_out_addf(out, "?%s%s\n", model[0] ? "  " : "", model);
}

static void print_line(struct io_out *out, const char *label, double now, double then,
                       const char *rest)
{
    char a[HUMAN_ROOM], b[HUMAN_ROOM];
    struct buf line = { 0 };

    human_ns(a, now);
    human_ns(b, then);
    buf_addf(&line, "  %-14s %*s -> %*s  ", label, cli_bytes(a, 8), a, cli_bytes(b, 8), b);
    text_wrap(&line, rest, TOTAL_COLUMNS, TOTAL_COLUMNS, cli_text_width());
    io_out_addf(out, "%s\n", buf_str(&line));
    buf_release(&line);
}

static void print_totals(const struct whatif *w, const struct total *all)
{
    struct io_out *out = &w->cli->out;
    char text[120];

    if (all->instances > 1)
        io_out_addf(out, "  mean of %lld instances\n", (long long)all->instances);
    snprintf(text, sizeof(text), "%.2f times as fast", all->latency_ns / all->projected_ns);
    print_line(out, "all operators", all->latency_ns, all->projected_ns, text);
    if (all->fits) {
        snprintf(text, sizeof(text), "%.1f %% of the time, then %.1f %%",
                 all->fits_ns / all->latency_ns * 100,
                 all->fits_projected_ns / all->projected_ns * 100);
        print_line(out, "sparsifiable", all->fits_ns, all->fits_projected_ns, text);
    }
    if (all->step_ns > 0) {
        double then = projected_step_ns(all);

        snprintf(text, sizeof(text), "%.2f times as fast; the rest of it stays",
                 then > 0 ? all->step_ns / then : (double)NAN);
        print_line(out, "iteration", all->step_ns, then, text);
    } else {
        io_out_adds(out, "  Without iterations every operator counts once, by its mean.\n");
    }
}

static void print_count(struct cli *cli, int64_t n, const char *what)
{
    if (n)
        cli_tell(cli, "%lld ratio%s: %s", (long long)n, human_s(n), what);
}

/* Where the ratios come from, and how to get better ones. */
static void print_sources(const struct whatif *w, const struct total *all)
{
    struct cli *cli = w->cli;

    if (!w->sparse)
        return;
    io_out_adds(&cli->out, "\n");
    if (!all->fits) {
        cli_tell(cli,
                 "No operator multiplies with a constant two-dimensional weight that divides into "
                 "%s blocks.",
                 w->pattern->name);
        return;
    }
    if (!(all->measured + all->constant + all->given + all->unknown))
        cli_tell(cli, "Every weight that divides into such blocks is half zero or more already: "
                      "nothing to gain.");
    print_count(cli, all->measured, "measured on this machine");
    print_count(cli, all->constant, "the constant 4 of Neural Engine, not measured: try --measure");
    print_count(cli, all->given, "as given");
    print_count(cli, all->unknown,
                "not known and taken as 1: try --measure, or give it with --ratio");
}

static int print_people(struct whatif *w, opm_trace *t, size_t top, const struct totals *totals_of)
{
    const struct total *all = &totals_of->all;
    struct io_out *out = &w->cli->out;
    int rc = CLI_OK;

    if (!all->ops) {
        io_out_adds(out, "The trace has no operator that ran.\n");
        return CLI_OK;
    }
    print_question(w, totals_of);
    io_out_adds(out, "\n");
    if (all->measured + all->constant + all->given + all->unknown + all->speedup) {
        rc = print_table(w, t, top, totals_of->n > 1);
        io_out_adds(out, "\n");
    }
    for (size_t i = 0; i < totals_of->n && rc == CLI_OK; i++) {
        const char *model = totals_of->item[i].model;

        if (totals_of->n > 1)
            io_out_addf(out, "%s%s\n", i ? "\n" : "", model[0] ? model : "outside of any step");
        print_totals(w, &totals_of->item[i]);
    }
    if (rc == CLI_OK)
        print_sources(w, all);
    return rc;
}

int whatif_print(struct whatif *w, opm_trace *t, size_t top)
{
    struct totals totals_of = { 0 };
    int rc;

    if (w->cli->csv) {
        struct buf sql = { 0 };

        add_projection(w, &sql);
        buf_adds(&sql, "SELECT * FROM p ORDER BY op");
        rc = sql.failed ? cli_out_of_memory() : cli_print_query(w->cli, t, buf_str(&sql));
        buf_release(&sql);
        return rc;
    }
    rc = read_totals(w, t, &totals_of);
    if (rc == CLI_OK)
        rc = w->cli->json ? print_json(w, t, &totals_of) : print_people(w, t, top, &totals_of);
    mem_free(totals_of.item);
    return rc;
}

/* The texts of the query, as "a, b, c", into out. */
static int list_texts(opm_trace *t, const char *sql, struct buf *out)
{
    opm_rows *row = NULL;
    opm_error err = { 0 };
    int rc = opm_trace_query(t, sql, &row, &err);

    while (rc >= 0) {
        const char *text;

        rc = opm_rows_next(row, &err);
        if (rc <= 0)
            break;
        text = opm_rows_text(row, 0, NULL);
        buf_addf(out, "%s%s", out->len ? ", " : "", text ? text : "");
    }
    opm_rows_close(row);
    if (rc < 0)
        return cli_error("%s", err.msg);
    return out->failed ? cli_out_of_memory() : CLI_OK;
}

static int unknown_rule(const char *option, const char *what, const char *name,
                        const struct buf *near, const struct buf *list)
{
    if (near->len)
        return cli_error("%s: no %s is '%s'; did you mean '%s'?", option, what, name,
                         buf_str(near));
    if (list->len)
        return cli_error("%s: no %s is '%s'; there are: %s", option, what, name, buf_str(list));
    return cli_error("%s: no %s is '%s'; there is none in the trace", option, what, name);
}

static int check_rules(opm_trace *t, const struct whatif_rules *r, const char *option,
                       const char *column, const char *what)
{
    int rc = CLI_OK;

    for (size_t i = 0; i < r->n && rc == CLI_OK; i++) {
        struct buf sql = { 0 }, list = { 0 }, near = { 0 };

        buf_addf(&sql, "SELECT %s FROM whatif WHERE latency_ns IS NOT NULL AND %s = ", column,
                 column);
        add_quoted(&sql, r->item[i].name);
        buf_adds(&sql, " COLLATE NOCASE LIMIT 1");
        rc = sql.failed ? cli_out_of_memory() : list_texts(t, buf_str(&sql), &list);
        if (rc == CLI_OK && !list.len) {
            buf_clear(&sql);
            buf_addf(&sql,
                     "SELECT %s FROM whatif WHERE latency_ns IS NOT NULL AND %s IS NOT NULL%s"
                     " GROUP BY 1 ORDER BY sum(latency_ns) DESC",
                     column, column, strcmp(column, "type") == 0 ? "" : " AND n IS NOT NULL");
            if (strcmp(column, "type") == 0) /* numbers are not like others */
                cli_near_text(t, buf_str(&sql), r->item[i].name, &near);
            buf_adds(&sql, " LIMIT 8");
            rc = sql.failed || near.failed ? cli_out_of_memory()
                                           : list_texts(t, buf_str(&sql), &list);
            if (rc == CLI_OK)
                rc = unknown_rule(option, what, r->item[i].name, &near, &list);
        }
        buf_release(&near);
        buf_release(&sql);
        buf_release(&list);
    }
    return rc;
}

int whatif_check(const struct whatif *w, opm_trace *t)
{
    int rc = check_rules(t, &w->aims, "--sparsity", "weight_shape", "weight of a matrix product");

    if (rc == CLI_OK)
        rc = check_rules(t, &w->ratios, "--ratio", "weight_shape", "weight of a matrix product");
    return rc == CLI_OK
               ? check_rules(t, &w->speedups, "--speedup", "type", "operator type that ran")
               : rc;
}
