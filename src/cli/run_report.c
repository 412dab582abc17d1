/* run_report.c -- the figures of a run and how they are printed; see run_report.h. */
#include "cli/run_report.h"

#include "base/alloc.h"
#include "cli/ranking.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char ops_sql[] =
    "SELECT s.name, s.type, o.post_op, o.device, o.nodes,"
    " (SELECT group_concat(iif(shape = '', 'scalar', shape), ';') FROM op_tensor WHERE op = s.op "
    "AND io = 'input'),"
    " (SELECT group_concat(shape, ';') FROM op_tensor WHERE op = s.op AND io = 'weight' AND shape "
    "<> ''),"
    " (SELECT group_concat(iif(shape = '', 'scalar', shape), ';') FROM op_tensor WHERE op = s.op "
    "AND io = 'output'),"
    " s.count, s.flops, s.bytes, s.total_ns, s.mean_ns, s.median_ns, s.min_ns, s.max_ns,"
    " s.p90_ns, s.p99_ns, o.weight_zero_ratio, s.self_ns, s.roof, s.share_of_peak,"
    " s.interrupted, s.interrupted_ns"
    " FROM op_stats AS s JOIN op AS o ON o.id = s.op WHERE s.count > 0"
    " ORDER BY s.typical_ns DESC, s.op";

static const char totals_sql[] =
    "SELECT (SELECT count(*) FROM step WHERE warmup = 0 AND dur >= 0),"
    " (SELECT sum(dur) FROM step WHERE warmup = 0 AND dur >= 0),"
    " (SELECT sum(self_ns) FROM op_stats), (SELECT sum(count) FROM op_stats),"
    " (SELECT value FROM meta WHERE key GLOB '*recorder.span_cost_ns' LIMIT 1),"
    " (SELECT value FROM meta WHERE key GLOB '*engine.bias' LIMIT 1),"
    " (SELECT sum(value) FROM meta WHERE key GLOB '*engine.lost_runs')";

static double real_or_nan(const opm_rows *row, int col)
{
    return opm_rows_type(row, col) == OPM_TYPE_NULL ? NAN : opm_rows_real(row, col);
}

static int64_t int_or_unknown(const opm_rows *row, int col)
{
    return opm_rows_type(row, col) == OPM_TYPE_NULL ? -1 : opm_rows_int(row, col);
}

/* A copy that lives as long as the report; NULL for NULL. */
static const char *text_of(struct report *r, const opm_rows *row, int col)
{
    size_t len;
    const char *text = opm_rows_text(row, col, &len);

    return text ? arena_strndup(&r->arena, text, len) : NULL;
}

static int read_totals(struct report *r, opm_trace *t)
{
    opm_rows *row = NULL;
    opm_error err;
    int rc = opm_trace_query(t, totals_sql, &row, &err);

    if (rc == 0)
        rc = opm_rows_next(row, &err);
    if (rc > 0) {
        r->steps += opm_rows_real(row, 0);
        r->step_ns += opm_rows_real(row, 1);
        r->op_ns += opm_rows_real(row, 2);
        r->op_count += opm_rows_real(row, 3);
        r->span_cost_ns = opm_rows_type(row, 4) == OPM_TYPE_NULL
                              ? NAN
                              : strtod(opm_rows_text(row, 4, NULL), NULL);
        r->bias = text_of(r, row, 5);
        r->lost_runs += opm_rows_int(row, 6);
    }
    opm_rows_close(row);
    return rc < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

static struct report_op read_op(struct report *r, const opm_rows *row)
{
    return (struct report_op){
        .name = text_of(r, row, 0),
        .type = text_of(r, row, 1),
        .post_op = text_of(r, row, 2),
        .device = text_of(r, row, 3),
        .nodes = text_of(r, row, 4),
        .in = text_of(r, row, 5),
        .weight = text_of(r, row, 6),
        .out = text_of(r, row, 7),
        .count = opm_rows_int(row, 8),
        .flops = int_or_unknown(row, 9),
        .bytes = int_or_unknown(row, 10),
        .total_ns = opm_rows_real(row, 11),
        .mean_ns = opm_rows_real(row, 12),
        .median_ns = opm_rows_real(row, 13),
        .min_ns = opm_rows_real(row, 14),
        .max_ns = opm_rows_real(row, 15),
        .p90_ns = opm_rows_real(row, 16),
        .p99_ns = opm_rows_real(row, 17),
        .zero_ratio = real_or_nan(row, 18),
        .self_ns = opm_rows_real(row, 19),
        .roof = text_of(r, row, 20),
        .of_peak = real_or_nan(row, 21),
        .interrupted = opm_rows_int(row, 22),
        .beyond_ns = opm_rows_real(row, 23),
    };
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* The operator of another instance that this one is; instances list them in about the same order,
 * so the search begins where the last one ended. */
static struct report_op *find_op(struct report *r, size_t n, size_t hint,
                                 const struct report_op *op)
{
    for (size_t i = 0; i < n; i++) {
        struct report_op *o = &r->op[(hint + i) % n];

        if (same_text(o->name, op->name) && same_text(o->type, op->type) &&
            same_text(o->in, op->in))
            return o;
    }
    return NULL;
}

static double weighted(double a, double na, double b, double nb)
{
    return na + nb > 0 ? (a * na + b * nb) / (na + nb) : a;
}

static bool add_op(struct report *r, size_t before, size_t *hint, const opm_rows *row)
{
    struct report_op op = read_op(r, row), *old = find_op(r, before, *hint, &op);

    if (!op.name && opm_rows_text(row, 0, NULL))
        return false;
    if (old) {
        double n = (double)old->count, m = (double)op.count;

        *hint = (size_t)(old - r->op) + 1;
        old->count += op.count;
        old->total_ns += op.total_ns;
        old->of_peak = weighted(old->of_peak, old->self_ns, op.of_peak, op.self_ns);
        old->self_ns += op.self_ns;
        old->interrupted += op.interrupted;
        old->beyond_ns += op.beyond_ns;
        old->median_ns = weighted(old->median_ns, n, op.median_ns, m);
        old->p90_ns = weighted(old->p90_ns, n, op.p90_ns, m);
        old->p99_ns = weighted(old->p99_ns, n, op.p99_ns, m);
        old->min_ns = MIN(old->min_ns, op.min_ns);
        old->max_ns = MAX(old->max_ns, op.max_ns);
        return true;
    }
    if (!GROW(r->op, r->op_cap, r->nop + 1))
        return false;
    r->op[r->nop++] = op;
    return true;
}

/* Latencies of several instances as one: exact for the extremes and the mean, the mean of the
 * instances' figures for percentiles. */
static void join_latency(struct run_latency *all, const struct run_latency *one)
{
    double n = (double)all->n, m = (double)one->n, sum = n + m;

    if (!one->n)
        return;
    if (!all->n) {
        *all = *one;
        return;
    }
    all->n += one->n;
    all->min = MIN(all->min, one->min);
    all->max = MAX(all->max, one->max);
    all->mean = (all->mean * n + one->mean * m) / sum;
    all->median = (all->median * n + one->median * m) / sum;
    all->p90 = (all->p90 * n + one->p90 * m) / sum;
    all->p95 = (all->p95 * n + one->p95 * m) / sum;
    all->p97 = (all->p97 * n + one->p97 * m) / sum;
    all->p99 = (all->p99 * n + one->p99 * m) / sum;
    all->p999 = (all->p999 * n + one->p999 * m) / sum;
}

int report_add(struct report *r, opm_trace *t)
{
    size_t before = r->nop, hint = 0;
    opm_rows *row = NULL;
    opm_error err;
    int rc = read_totals(r, t), more = 0;

    if (rc != CLI_OK)
        return rc;
    if (opm_trace_query(t, ops_sql, &row, &err) < 0)
        return cli_error("%s", err.msg);
    while (rc == CLI_OK) {
        more = opm_rows_next(row, &err);
        if (more <= 0)
            break;
        if (!add_op(r, before, &hint, row))
            rc = cli_out_of_memory();
    }
    opm_rows_close(row);
    return more < 0 ? cli_error("%s", err.msg) : rc;
}

static double typical_ns(const struct report_op *op)
{
    return op->self_ns - op->beyond_ns;
}

static int longest_first(const void *a, const void *b)
{
    double x = typical_ns(a), y = typical_ns(b);

    return x > y ? -1 : x < y;
}

void report_finish(struct report *r)
{
    double all = 0;

    for (int i = 0; i < r->n; i++) {
        const struct run_result *res = &r->res[i];

        join_latency(&r->bare, &res->bare);
        join_latency(&r->metered, &res->metered);
        r->cost_ns += res->cost_ns / r->n;
        r->cost_error_ns += res->cost_error_ns / r->n;
        r->per_second_bare += res->bare.n ? 1e9 / res->bare.mean * (double)res->batch : 0;
        r->per_second_metered += res->metered.n ? 1e9 / res->metered.mean * (double)res->batch : 0;
    }
    r->explained = r->step_ns > 0 ? r->op_ns / r->step_ns : NAN;
    r->spans_per_iteration = r->steps > 0 ? r->op_count / r->steps : 0;
    for (size_t i = 0; i < r->nop; i++)
        all += typical_ns(&r->op[i]);
    for (size_t i = 0; i < r->nop; i++) {
        struct report_op *op = &r->op[i];

        double own_ns = op->count ? typical_ns(op) / (double)op->count : 0;

        op->mean_ns = op->count ? op->total_ns / (double)op->count : NAN;
        op->iteration_ns = r->steps > 0 ? typical_ns(op) / r->steps : NAN;
        op->share = all > 0 ? typical_ns(op) / all : NAN;
        op->gflops = op->flops >= 0 && own_ns > 0 ? (double)op->flops / own_ns : NAN;
        op->gbytes = op->bytes >= 0 && own_ns > 0 ? (double)op->bytes / own_ns : NAN;
    }
    if (r->nop)
        qsort(r->op, r->nop, sizeof(*r->op), longest_first);
}

void report_release(struct report *r)
{
    mem_free(r->op);
    arena_release(&r->arena);
}

/* -- tables -- */

static void latency_row(struct textable *t, const char *label, const struct run_latency *l)
{
    const double v[] = { l->min, l->mean, l->median, l->p90, l->p95, l->p99, l->p999, l->max };

    if (!l->n)
        return;
    ranking_text(t, label);
    for (size_t i = 0; i < ARRAY_SIZE(v); i++)
        ranking_time(t, v[i]);
}

struct textable *report_latency_table(const struct report *r)
{
    static const char *const columns[] = { "min", "mean", "median", "p90",
                                           "p95", "p99",  "p99.9",  "max" };
    struct textable *t = r->res[0].generated.texts ? report_generated_table(r) : textable_new();

    if (!t || r->res[0].generated.texts)
        return t;
    textable_column(t, "latency", TEXTABLE_TEXT);
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        textable_column(t, columns[i], TEXTABLE_INT);
    latency_row(t, "bare", &r->bare);
    latency_row(t, "metered", &r->metered);
    return t;
}

/* in -> out, with the weight in between: "1x784 * 784x256 -> 1x256". */
static void shapes_text(struct buf *b, const struct report_op *op)
{
    buf_clear(b);
    buf_adds(b, op->in ? op->in : "");
    if (op->weight)
        buf_addf(b, "%s%s", op->in ? " * " : "", op->weight);
    if (op->out)
        buf_addf(b, " -> %s", op->out);
}

struct textable *report_ops_table(const struct report *r, size_t top)
{
    struct textable *t = ranking_new();
    struct buf b = { 0 };

    for (size_t i = 0; t && i < MIN(top, r->nop); i++) {
        const struct report_op *op = &r->op[i];

        shapes_text(&b, op);
        ranking_add(
            t, &(struct ranking_row){ .name = op->name,
                                      .type = op->type,
                                      .post_op = op->post_op,
                                      .shapes = buf_str(&b),
                                      .count = op->count,
                                      .interrupted_ns = r->steps > 0 ? op->beyond_ns / r->steps : 0,
                                      .time_ns = op->iteration_ns,
                                      .share = op->share,
                                      .median_ns = op->median_ns,
                                      .p99_ns = op->p99_ns,
                                      .gflops = op->gflops,
                                      .gbytes = op->gbytes,
                                      .of_peak = op->of_peak,
                                      .roof = op->roof });
    }
    buf_release(&b);
    return t;
}

/* Everything about every operator, in plain units. */
struct textable *report_full_table(const struct report *r)
{
    static const struct {
        const char *name;
        enum textable_kind kind;
    } columns[] = {
        { "name", TEXTABLE_TEXT },          { "type", TEXTABLE_TEXT },
        { "post_op", TEXTABLE_TEXT },       { "count", TEXTABLE_INT },
        { "iteration_ns", TEXTABLE_REAL },  { "share", TEXTABLE_REAL },
        { "mean_ns", TEXTABLE_REAL },       { "median_ns", TEXTABLE_REAL },
        { "min_ns", TEXTABLE_REAL },        { "max_ns", TEXTABLE_REAL },
        { "p90_ns", TEXTABLE_REAL },        { "p99_ns", TEXTABLE_REAL },
        { "flops", TEXTABLE_INT },          { "bytes", TEXTABLE_INT },
        { "gflops_per_s", TEXTABLE_REAL },  { "gbytes_per_s", TEXTABLE_REAL },
        { "share_of_peak", TEXTABLE_REAL }, { "roof", TEXTABLE_TEXT },
        { "input_shapes", TEXTABLE_TEXT },  { "weight_shapes", TEXTABLE_TEXT },
        { "output_shapes", TEXTABLE_TEXT }, { "weight_zero_ratio", TEXTABLE_REAL },
        { "device", TEXTABLE_TEXT },        { "nodes", TEXTABLE_TEXT },
        { "interrupted", TEXTABLE_INT },    { "interrupted_ns", TEXTABLE_REAL },
    };
    struct textable *t = textable_new();

    for (size_t i = 0; t && i < ARRAY_SIZE(columns); i++)
        textable_column(t, columns[i].name, columns[i].kind);
    for (size_t i = 0; t && i < r->nop; i++) {
        const struct report_op *op = &r->op[i];
        const double ns[] = { op->iteration_ns, op->share,  op->mean_ns, op->median_ns,
                              op->min_ns,       op->max_ns, op->p90_ns,  op->p99_ns };
        const double rates[] = { op->gflops, op->gbytes, op->of_peak };

        ranking_text(t, op->name);
        ranking_text(t, op->type);
        ranking_text(t, op->post_op);
        textable_int(t, op->count);
        for (size_t k = 0; k < ARRAY_SIZE(ns); k++)
            isnan(ns[k]) ? textable_null(t) : textable_real(t, ns[k]);
        op->flops < 0 ? textable_null(t) : textable_int(t, op->flops);
        op->bytes < 0 ? textable_null(t) : textable_int(t, op->bytes);
        for (size_t k = 0; k < ARRAY_SIZE(rates); k++)
            isnan(rates[k]) ? textable_null(t) : textable_real(t, rates[k]);
        ranking_text(t, op->roof);
        ranking_text(t, op->in);
        ranking_text(t, op->weight);
        ranking_text(t, op->out);
        isnan(op->zero_ratio) ? textable_null(t) : textable_real(t, op->zero_ratio);
        ranking_text(t, op->device);
        ranking_text(t, op->nodes);
        textable_int(t, op->interrupted);
        textable_real(t, op->beyond_ns);
    }
    return t;
}

/* -- sentences -- */

void report_title(const struct report *r, struct buf *b)
{
    const struct run_result *res = &r->res[0];

    buf_addf(b, "%s on %s%s%s, %d thread%s", res->model, res->engine, res->version[0] ? " " : "",
             res->version, res->threads, human_s(res->threads));
    if (r->n > 1)
        buf_addf(b, " in each of %d instances", r->n);
    if (res->batch > 1)
        buf_addf(b, ", batch %" PRId64, res->batch);
    if (res->generated.texts) {
        report_generated_title(r, b);
        return;
    }
    buf_addf(b, ": %" PRIu64 " iteration%s after %" PRIu64 " of warm-up", res->metered.n,
             human_s((int64_t)res->metered.n), res->warmup);
}

void report_throughput(const struct report *r, struct buf *b)
{
    const char *unit = r->res[0].batch > 1 ? "samples" : "inferences";

    if (r->res[0].generated.texts) {
        report_generated_rates(r, b);
        return;
    }
    if (r->bare.n)
        buf_addf(b, "%.*f %s per second bare, ", r->per_second_bare < 100 ? 2 : 0,
                 r->per_second_bare, unit);
    buf_addf(b, "%.*f%s%s%s metered", r->per_second_metered < 100 ? 2 : 0, r->per_second_metered,
             r->bare.n ? "" : " ", r->bare.n ? "" : unit, r->bare.n ? "" : " per second");
}

static void peak_text(const struct report *r, struct buf *b)
{
    const struct peak *p = &r->peak;
    const struct {
        const char *name;
        double gbytes;
    } levels[] = { { "L1", p->l1_gbytes },
                   { "L2", p->l2_gbytes },
                   { "L3", p->l3_gbytes },
                   { "memory", p->memory_gbytes } };
    const char *lead = "";

    if (p->fp32_gflops <= 0 || p->memory_gbytes <= 0)
        return;
    buf_addf(b, "%.0f GFLOP/s in fp32, %.0f in int8; ", p->fp32_gflops, p->int8_gops);
    for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
        if (levels[i].gbytes <= 0)
            continue;
        buf_addf(b, "%s%s %.*f", lead, levels[i].name, levels[i].gbytes < 99.95 ? 1 : 0,
                 levels[i].gbytes);
        lead = ", ";
    }
    buf_addf(b,
             " GB/s; with %d thread%s, measured on this machine. 'of peak' is what an operator "
             "reaches of the one that limits it, its roof: arithmetic, or the level that its data "
             "fits in",
             r->res[0].threads, human_s(r->res[0].threads));
}

static void cost_text(const struct report *r, struct buf *b)
{
    char cost[HUMAN_ROOM], error[HUMAN_ROOM], each[HUMAN_ROOM];

    if (!r->bare.n || r->bare.median <= 0) {
        buf_adds(b, "not known: no bare iterations were run");
        return;
    }
    buf_addf(b, "%s%s (%+.1f %%) an iteration, give or take %s", r->cost_ns < 0 ? "-" : "",
             human_ns(cost, fabs(r->cost_ns)), 100 * r->cost_ns / r->bare.median,
             human_ns(error, r->cost_error_ns));
    if (r->cost_ns <= r->cost_error_ns)
        buf_adds(b, ": not to be told from the noise");
    else if (r->spans_per_iteration > 0)
        buf_addf(b, ": %s for each of %.0f operators",
                 human_ns(each, r->cost_ns / r->spans_per_iteration), r->spans_per_iteration);
    if (!isnan(r->span_cost_ns))
        buf_addf(b, "; the recorder itself needs %s a span", human_ns(each, r->span_cost_ns));
}

static void explained_text(const struct report *r, struct buf *b)
{
    if (!isnan(r->explained) && r->nop)
        buf_addf(b, "%.1f %% of the metered latency is the time of operators", r->explained * 100);
}

/* Operators whose time would be another with what interrupted them, the one that lost most by name.
 */
static void interrupted_text(const struct report *r, struct buf *b)
{
    const struct report_op *most = NULL;
    char longest[HUMAN_ROOM], median[HUMAN_ROOM], all[HUMAN_ROOM];
    double beyond_ns = 0, own_ns = 0;
    size_t ops = 0;

    for (size_t i = 0; i < r->nop; i++) {
        const struct report_op *op = &r->op[i];

        own_ns += op->self_ns;
        beyond_ns += op->beyond_ns;
        ops += op->interrupted > 0;
        if (op->interrupted && (!most || op->beyond_ns > most->beyond_ns))
            most = op;
    }
    if (!most || beyond_ns <= 0.01 * own_ns || r->steps <= 0)
        return;
    buf_addf(b,
             "%s an iteration in interruptions, of %zu operator%s: %" PRId64 " of %" PRId64
             " executions of ",
             human_ns(all, beyond_ns / r->steps), ops, human_s(ops), most->interrupted,
             most->count);
    buf_adds(b, most->name ? most->name : "");
    buf_addf(b, " took up to %s, the median %s", human_ns(longest, most->max_ns),
             human_ns(median, most->median_ns));
}

static void lost_text(const struct report *r, struct buf *b)
{
    uint64_t lost = 0;
    char room[HUMAN_ROOM];

    for (int i = 0; i < r->n; i++)
        lost += r->res[i].lost;
    if (lost)
        buf_addf(b, "%s event%s did not fit the buffer (OPMETER_BUFFER_MB)",
                 human_count(room, (int64_t)lost), human_s((int64_t)lost));
    if (r->lost_runs)
        buf_addf(b, "%sthe engine's profile is complete for all but %s iteration%s",
                 b->len ? "; " : "", human_count(room, r->lost_runs), human_s(r->lost_runs));
    if (!b->len)
        buf_adds(b, "nothing");
}

static void check_text(const struct run_check *c, struct buf *b)
{
    char room[HUMAN_ROOM], wrong[HUMAN_ROOM];

    if (!c->ok && !c->elements)
        buf_addf(b, "does not hold: %s", c->worst);
    else if (c->ok)
        buf_addf(b, "holds: %s element%s, none differs by more than %.2g",
                 human_count(room, (int64_t)c->elements), human_s((int64_t)c->elements),
                 c->max_abs);
    else
        buf_addf(b, "does not hold: %s of %s element%s %s off; the worst: %s",
                 human_count(wrong, (int64_t)c->wrong), human_count(room, (int64_t)c->elements),
                 human_s((int64_t)c->elements), c->wrong == 1 ? "is" : "are", c->worst);
}

/* "  label     text", broken into lines. Empties text. */
static void fact(struct report *r, struct buf *out, const char *label, struct buf *text)
{
    (void)r;
    if (text->len) {
        buf_addf(out, "  %-10s ", label);
        text_wrap(out, buf_str(text), 13, 13, cli_text_width());
        buf_addc(out, '\n');
    }
    buf_clear(text);
}

static void memory_text(const struct report *r, struct buf *b)
{
    const struct run_result *res = &r->res[0];
    char arena[HUMAN_ROOM], packed[HUMAN_ROOM], winograd[HUMAN_ROOM];

    if (res->arena_bytes < 0)
        return;
    buf_addf(b, "%s of activations and workspace, %s of weights in the engine's order",
             human_bytes(arena, (uint64_t)res->arena_bytes),
             human_bytes(packed, (uint64_t)res->packed_bytes));
    if (res->winograd_bytes)
        buf_addf(b, ", of which %s are what Winograd adds (--no-winograd)",
                 human_bytes(winograd, (uint64_t)res->winograd_bytes));
}

void report_receipt(struct report *r, struct buf *out)
{
    struct buf b = { 0 };

    memory_text(r, &b);
    fact(r, out, "memory", &b);
    peak_text(r, &b);
    fact(r, out, "peak", &b);
    cost_text(r, &b);
    fact(r, out, "measuring", &b);
    explained_text(r, &b);
    fact(r, out, "explained", &b);
    interrupted_text(r, &b);
    fact(r, out, "left out", &b);
    lost_text(r, &b);
    fact(r, out, "lost", &b);
    buf_adds(&b, r->bias ? r->bias : "");
    fact(r, out, "bias", &b);
    buf_release(&b);
}

/* -- on the terminal -- */

static int print_ops(struct report *r, int top)
{
    size_t shown = top ? MIN((size_t)top, r->nop) : r->nop;

    if (!r->nop) {
        io_out_adds(&r->cli->out, "No operators were reported.\n");
        return CLI_OK;
    }
    cli_heading(r->cli, "Operators, by time in one iteration (%zu of %zu)", shown, r->nop);
    return cli_print_table(r->cli, report_ops_table(r, shown));
}

static void print_check(struct report *r)
{
    const struct run_check *c = &r->res[0].check;
    struct buf b = { 0 }, line = { 0 };

    if (!c->done)
        return;
    check_text(c, &b);
    fact(r, &line, "check", &b);
    io_out_addf(&r->cli->out, "%s%s%s", cli_style(r->cli, c->ok ? STYLE_GREEN : STYLE_RED),
                buf_str(&line), cli_style(r->cli, STYLE_PLAIN));
    buf_release(&b);
    buf_release(&line);
}

int report_print(struct report *r, int top, const char *dir)
{
    char load[HUMAN_ROOM], open[HUMAN_ROOM], prepare[HUMAN_ROOM];
    const struct run_result *res = &r->res[0];
    struct buf b = { 0 }, text = { 0 };
    int rc;

    report_title(r, &b);
    cli_heading(r->cli, "%s", buf_str(&b));
    buf_clear(&b);
    buf_addf(&text, "read in %s, opened in %s", human_ns(load, (double)res->load_ns),
             human_ns(open, (double)res->open_ns));
    if (!res->generated.texts)
        buf_addf(&text, ", prepared in %s", human_ns(prepare, (double)res->prepare_ns));
    fact(r, &b, "model", &text);
    if (res->sizes[0])
        buf_addf(&text,
                 "%s: left open by the model and chosen here; --dim NAME=N, --batch-size, "
                 "--seq-len or --input NAME:SHAPE choose others",
                 res->sizes);
    fact(r, &b, "sizes", &text);
    report_throughput(r, &text);
    fact(r, &b, "throughput", &text);
    if (res->generated.texts)
        report_generated_cache(r, &text);
    fact(r, &b, "cache", &text);
    buf_adds(&text, res->generated.first);
    fact(r, &b, "tokens", &text);
    cli_say(r->cli, "%s", buf_str(&b));
    print_check(r);
    io_out_adds(&r->cli->out, "\n");
    rc = cli_print_table(r->cli, report_latency_table(r));
    io_out_adds(&r->cli->out, "\n");
    if (rc == CLI_OK)
        rc = print_ops(r, top);
    io_out_adds(&r->cli->out, "\n");
    cli_heading(r->cli, "Receipt");
    buf_clear(&b);
    report_receipt(r, &b);
    io_out_addf(&r->cli->out, "%s", buf_str(&b));
    if (b.failed || text.failed)
        rc = cli_out_of_memory();
    if (dir && !r->cli->quiet) {
        buf_clear(&b);
        buf_addf(&text, "trace.opm, trace.json, operators.csv, summary.json and summary.md in %s",
                 dir);
        if (r->n > 1)
            buf_addf(&text, "; those of the instances beside it, the first is %s", r->res[0].trace);
        fact(r, &b, "files", &text);
        cli_say(r->cli, "%s", buf_str(&b));
    }
    buf_release(&b);
    buf_release(&text);
    return rc;
}

int report_print_csv(struct report *r)
{
    return cli_print_table(r->cli, report_full_table(r));
}
