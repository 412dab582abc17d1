/* whatif_print.c -- see whatif.h. */
#include "cli/whatif.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
    buf_addf(b,
             "WITH w AS (SELECT *, n IS NOT NULL AND n %% %d = 0 AND k %% %d = 0 AS fits"
             " FROM whatif WHERE latency_ns IS NOT NULL),\na AS (SELECT *, CASE",
             w->pattern->n, w->pattern->k);
    if (!w->sparse)
        buf_adds(b, " WHEN 1 THEN NULL");
    buf_adds(b, " WHEN NOT fits OR coalesce(zero_ratio, 0) >= 0.5 THEN NULL");
    add_rules(b, &w->aims, "weight_shape", NULL);
    buf_addf(b,
             " ELSE %.17g END AS goal FROM w),\ng AS (SELECT a.*, (SELECT r.ratio FROM sparse_ratio"
             " AS r WHERE r.weight_shape = a.weight_shape AND r.n = a.n AND r.pattern = '%s'"
             " AND abs(r.sparsity - a.goal) < 1e-6) AS known, (SELECT r.source FROM sparse_ratio AS"
             " r WHERE r.weight_shape = a.weight_shape AND r.n = a.n AND r.pattern = '%s'"
             " AND abs(r.sparsity - a.goal) < 1e-6) AS origin FROM a),\nq AS (SELECT *, CASE",
             w->sparsity, w->pattern->name, w->pattern->name);
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
                " latency_ns / coalesce(factor, 1) AS projected_ns FROM q)\n");
}

static const char totals[] =
    "SELECT count(*), sum(latency_ns), sum(projected_ns), sum(latency_ns) FILTER (WHERE fits),"
    " sum(projected_ns) FILTER (WHERE fits), count(*) FILTER (WHERE fits),"
    " count(*) FILTER (WHERE source = 'measured'), count(*) FILTER (WHERE source = 'constant'),"
    " count(*) FILTER (WHERE source = 'given'), count(*) FILTER (WHERE source = 'unknown'),"
    " count(*) FILTER (WHERE source = 'speedup'),"
    " (SELECT CASE WHEN count(*) = 1 THEN max(mean_ns) END FROM latency WHERE scope = 'step'),"
    " (SELECT CASE WHEN count(*) = 1 THEN max(name) END FROM latency WHERE scope = 'step')"
    " FROM p";

struct total {
    int64_t ops, fits;
    double latency_ns, projected_ns;
    double fits_ns, fits_projected_ns;
    int64_t measured, constant, given, unknown, speedup;
    double step_ns; /* NAN: no steps, or of several models */
    char model[200];
};

static double real_or_nan(const opm_rows *row, int col)
{
    return opm_rows_type(row, col) == OPM_TYPE_NULL ? (double)NAN : opm_rows_real(row, col);
}

static int read_total(const struct whatif *w, opm_trace *t, struct total *out)
{
    struct buf sql = { 0 };
    opm_rows *row = NULL;
    opm_error err = { 0 };
    int rc;

    add_projection(w, &sql);
    buf_adds(&sql, totals);
    if (sql.failed)
        return cli_out_of_memory();
    rc = opm_trace_query(t, buf_str(&sql), &row, &err);
    buf_release(&sql);
    if (rc == 0)
        rc = opm_rows_next(row, &err);
    if (rc > 0) {
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
                               .step_ns = real_or_nan(row, 11) };
        snprintf(out->model, sizeof(out->model), "%s", model ? model : "");
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

static int print_json(const struct whatif *w, opm_trace *t, const struct total *all)
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
    json_newline(&j);
    json_key(&j, "totals");
    json_object(&j);
    json_real(&j, "latency_ns", all->latency_ns);
    json_real(&j, "projected_ns", all->projected_ns);
    json_real(&j, "improvement", all->latency_ns / all->projected_ns);
    json_real(&j, "sparsifiable_ns", all->fits_ns);
    json_real(&j, "sparsifiable_projected_ns", all->fits_projected_ns);
    json_real(&j, "sparsifiable_share", all->fits_ns / all->latency_ns);
    json_real(&j, "sparsifiable_projected_share", all->fits_projected_ns / all->projected_ns);
    json_real(&j, "model_latency_ns", all->step_ns);
    json_real(&j, "model_projected_ns", projected_step_ns(all));
    json_object_end(&j);
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

static int print_table(const struct whatif *w, opm_trace *t, size_t top)
{
    static const char *const names[] = { "now",    "then",      "saved", "ratio", "from",
                                         "weight", "zeros now", "aim",   "type",  "operator" };
    const unsigned numbers = 0xcf; /* bit i: column i stands to the right */
    struct textable *table = textable_new();
    opm_rows *row = NULL;
    opm_error err;
    int rc, more = 0;

    if (!table)
        return cli_out_of_memory();
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        textable_column(table, names[i], numbers >> i & 1 ? TEXTABLE_REAL : TEXTABLE_TEXT);
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

static void print_question(const struct whatif *w, const struct total *all)
{
    struct io_out *out = &w->cli->out;

    io_out_adds(out, "What if ");
    if (w->sparse)
        io_out_addf(out, "weights had %.4g %% zeros in %s blocks", w->sparsity * 100,
                    w->pattern->name);
    for (size_t i = 0; i < w->speedups.n; i++)
        io_out_addf(out, "%s%s were %.4g times as fast", w->sparse || i ? ", " : "",
                    w->speedups.item[i].name, w->speedups.item[i].value);
    io_out_addf(out, "?%s%s\n", all->model[0] ? "  " : "", all->model);
}

static void print_line(struct io_out *out, const char *label, double now, double then,
                       const char *rest)
{
    char a[HUMAN_ROOM], b[HUMAN_ROOM];

    io_out_addf(out, "  %-14s %9s -> %9s  %s\n", label, human_ns(a, now), human_ns(b, then), rest);
}

static void print_totals(const struct whatif *w, const struct total *all)
{
    struct io_out *out = &w->cli->out;
    char text[120];

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

        snprintf(text, sizeof(text), "%.2f times as fast (what is no operator stays)",
                 then > 0 ? all->step_ns / then : (double)NAN);
        print_line(out, "iteration", all->step_ns, then, text);
    }
}

static void print_count(struct io_out *out, int64_t n, const char *what)
{
    if (n)
        io_out_addf(out, "%lld %s: %s\n", (long long)n, n == 1 ? "ratio" : "ratios", what);
}

/* Where the ratios come from, and how to get better ones. */
static void print_sources(const struct whatif *w, const struct total *all)
{
    struct io_out *out = &w->cli->out;

    if (!w->sparse)
        return;
    if (!all->fits) {
        io_out_addf(out,
                    "\nNo operator multiplies with a constant two-dimensional weight that divides "
                    "into %s blocks.\n",
                    w->pattern->name);
        return;
    }
    io_out_adds(out, "\n");
    if (!(all->measured + all->constant + all->given + all->unknown))
        io_out_adds(out, "Every weight that divides into such blocks is half zero or more already: "
                         "nothing to gain.\n");
    print_count(out, all->measured, "measured on this machine");
    print_count(out, all->constant, "the constant 4 of Neural Engine, not measured: try --measure");
    print_count(out, all->given, "as given");
    print_count(out, all->unknown,
                "not known and taken as 1: try --measure, or give it with --ratio");
}

int whatif_print(struct whatif *w, opm_trace *t, size_t top)
{
    struct total all = { 0 };
    int rc;

    if (w->cli->csv) {
        struct buf sql = { 0 };

        add_projection(w, &sql);
        buf_adds(&sql, "SELECT * FROM p ORDER BY op");
        rc = sql.failed ? cli_out_of_memory() : cli_print_query(w->cli, t, buf_str(&sql));
        buf_release(&sql);
        return rc;
    }
    rc = read_total(w, t, &all);
    if (rc != CLI_OK)
        return rc;
    if (w->cli->json)
        return print_json(w, t, &all);
    if (!all.ops) {
        io_out_adds(&w->cli->out, "The trace has no operator that ran.\n");
        return CLI_OK;
    }
    print_question(w, &all);
    io_out_adds(&w->cli->out, "\n");
    if (all.measured + all.constant + all.given + all.unknown + all.speedup) {
        rc = print_table(w, t, top);
        io_out_adds(&w->cli->out, "\n");
    }
    if (rc == CLI_OK) {
        print_totals(w, &all);
        print_sources(w, &all);
    }
    return rc;
}
