/* summary.c -- write what a trace says in short: latency, throughput, types, operators, activities,
 * memory copies, and what was lost on the way.
 *
 * Markdown, or JSON if the path ends in .json. Figures are those of the analyses. */
#include "export/summary.h"

#include "analyze/analysis.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/human.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/textable.h"
#include "base/u64map.h"
#include "export/writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TOP_OPERATORS 30

/* Copies between host and device, by direction. */
enum copy { COPY_HTOD, COPY_DTOH, COPY_DTOD, COPY_OTHER, COPY_COUNT };
static const char *const copy_names[] = { "HtoD", "DtoH", "DtoD", "other" };

struct copies {
    int64_t count[COPY_COUNT], ns[COPY_COUNT], bytes[COPY_COUNT];
    int64_t sized[COPY_COUNT]; /* copies that say how many bytes */
};

struct summary {
    const struct store *st;
    struct io_out out;
    struct table op, type, latency;
    struct table spans; /* span_stats */
    struct copies copies;
    uint32_t *order; /* of op, the most self time first */
    size_t norder;
};

/* -- gathering -- */

static bool contains(const char *text, const char *word)
{
    return text && strcasestr(text, word) != NULL;
}

/* COPY_COUNT: it is no copy. */
static enum copy copy_kind(const struct store *st, const struct site *site)
{
    static const struct {
        const char *word;
        enum copy kind;
    } words[] = { { "htod", COPY_HTOD }, { "h2d", COPY_HTOD }, { "host2device", COPY_HTOD },
                  { "dtoh", COPY_DTOH }, { "d2h", COPY_DTOH }, { "device2host", COPY_DTOH },
                  { "dtod", COPY_DTOD }, { "d2d", COPY_DTOD } };
    const char *name = store_text(st, site->name), *cat = store_text(st, site->cat);
    const char *layer = store_text(st, site->layer);
    bool copy = contains(cat, "memcpy") ||
                (contains(name, "memcpy") && layer && strcmp(layer, "hardware") == 0);

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if ((copy || contains(layer, "hardware")) && contains(name, words[i].word))
            return words[i].kind;
    return copy ? COPY_OTHER : COPY_COUNT;
}

static bool copy_bytes(const struct store *st, str_id args, int64_t *out)
{
    struct json_reader r;

    if (!args)
        return false;
    r = json_read_of(store_text(st, args), strpool_len(store_strings(st), args));
    if (json_read_next(&r) != JSON_OBJECT)
        return false;
    while (json_read_next(&r) == JSON_KEY) {
        bool found = json_read_is(&r, "bytes");

        json_read_next(&r);
        if (found)
            return json_read_int(&r, out);
        json_read_skip(&r);
    }
    return false;
}

static int gather_copies(struct summary *s)
{
    size_t nsite, n = store_nrow(s->st, TABLE_span);
    const struct site *sites = store_sites(s->st, &nsite);
    const uint32_t *span_site = store_span_site(s->st);
    uint8_t *kind = mem_alloc(nsite + 1);
    const void *dur = NULL, *args = NULL;
    bool any = false;
    int rc = kind ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < nsite && !rc; i++) {
        kind[i] = (uint8_t)copy_kind(s->st, &sites[i]);
        any |= kind[i] != COPY_COUNT;
    }
    if (!rc && any)
        rc = store_column(s->st, TABLE_span, span_col_dur, &dur);
    if (!rc && any)
        rc = store_column(s->st, TABLE_span, span_col_args, &args);
    for (size_t i = 0; any && !rc && i < n; i++) {
        uint8_t k = kind[span_site[i]];
        int64_t bytes;

        if (k == COPY_COUNT || ((const int64_t *)dur)[i] < 0)
            continue;
        s->copies.count[k]++;
        s->copies.ns[k] += ((const int64_t *)dur)[i];
        if (args && copy_bytes(s->st, ((const str_id *)args)[i], &bytes)) {
            s->copies.bytes[k] += bytes;
            s->copies.sized[k]++;
        }
    }
    mem_free(kind);
    return rc;
}

struct ranked {
    int64_t self_ns;
    uint32_t op;
};

static int by_self(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->self_ns != y->self_ns)
        return x->self_ns < y->self_ns ? 1 : -1;
    return (x->op > y->op) - (x->op < y->op);
}

static int rank_ops(struct summary *s)
{
    struct ranked *r = mem_calloc(s->op.nrow + 1, sizeof(*r));

    s->order = mem_calloc(s->op.nrow + 1, sizeof(*s->order));
    if (!r || !s->order) {
        mem_free(r);
        return OPM_ENOMEM;
    }
    for (size_t i = 0; i < s->op.nrow; i++) {
        struct cell self = table_cell(&s->op, i, op_stats_col_typical_ns);

        if (self.kind == CELL_I64)
            r[s->norder++] = (struct ranked){ self.i64, (uint32_t)i };
    }
    if (s->norder)
        qsort(r, s->norder, sizeof(*r), by_self);
    for (size_t i = 0; i < s->norder; i++)
        s->order[i] = r[i].op;
    mem_free(r);
    return 0;
}

static int gather(struct summary *s, opm_error *err)
{
    const struct {
        enum analysis_id id;
        struct table *to;
    } tables[] = { { ANALYSIS_op_stats, &s->op },
                   { ANALYSIS_type_stats, &s->type },
                   { ANALYSIS_latency, &s->latency },
                   { ANALYSIS_span_stats, &s->spans } };

    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        int rc = analysis_run(s->st, tables[i].id, tables[i].to, err);

        if (rc)
            return rc;
    }
    if (rank_ops(s) < 0 || gather_copies(s) < 0)
        return opm__fail(err, OPM_ENOMEM, "summary: out of memory");
    return 0;
}

static void release(struct summary *s)
{
    table_release(&s->op);
    table_release(&s->type);
    table_release(&s->latency);
    table_release(&s->spans);
    mem_free(s->order);
}

/* -- Markdown -- */

static void cell_text(struct summary *s, struct textable *t, struct cell c)
{
    if (c.kind == CELL_STR)
        textable_text(t, store_text(s->st, c.str), strpool_len(store_strings(s->st), c.str));
    else
        textable_text(t, "", 0);
}

static void cell_time(struct textable *t, struct cell c)
{
    char room[HUMAN_ROOM];
    const char *text =
        c.kind == CELL_NULL ? "N/A" : human_ns(room, c.kind == CELL_I64 ? (double)c.i64 : c.f64);

    textable_text(t, text, strlen(text));
}

static void cell_count(struct textable *t, struct cell c)
{
    char room[HUMAN_ROOM];
    const char *text = c.kind == CELL_I64 ? human_count(room, c.i64) : "N/A";

    textable_text(t, text, strlen(text));
}

static void cell_number(struct textable *t, struct cell c, const char *fmt, double scale)
{
    char room[HUMAN_ROOM] = "N/A";

    if (c.kind != CELL_NULL) {
        double v = (c.kind == CELL_I64 ? (double)c.i64 : c.f64) * scale;

        if (strcmp(fmt, "%") == 0)
            snprintf(room, sizeof(room), "%.1f %%", v);
        else if (v >= 1000 && v < 1e15)
            human_count(room, llround(v));
        else
            snprintf(room, sizeof(room), "%.3g", v);
    }
    textable_text(t, room, strlen(room));
}

/* A table with these heads; a head that begins with > stands to the right. */
static struct textable *begin_table(const char *const *heads, size_t n)
{
    struct textable *t = textable_new();

    for (size_t i = 0; t && i < n; i++)
        textable_column(t, heads[i] + (heads[i][0] == '>'),
                        heads[i][0] == '>' ? TEXTABLE_REAL : TEXTABLE_TEXT);
    return t;
}

static int end_table(struct summary *s, struct textable *t)
{
    int rc = t ? textable_print(t, &s->out, TEXTABLE_MARKDOWN, 0, false, NULL) : OPM_ENOMEM;

    textable_free(t);
    return rc;
}

static const char *meta(const struct summary *s, const char *key)
{
    const char *text = store_meta_get(s->st, key);

    return text && *text ? text : NULL;
}

static void md_title(struct summary *s)
{
    static const struct {
        const char *key, *what;
    } facts[] = { { "engine.name", "Engine" },     { "engine.version", "Engine version" },
                  { "engine.threads", "Threads" }, { "run.batch", "Batch" },
                  { "machine.cpu", "Processor" },  { "machine.cores", "Cores" },
                  { "machine.host", "Host" },      { "program.command", "Command" } };
    const char *name = meta(s, "model.name");

    bool any = false;

    io_out_addf(&s->out, "# %s\n", name ? name : "Trace");
    for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
        if (!meta(s, facts[i].key))
            continue;
        io_out_addf(&s->out, "%s- %s: %s\n", any ? "" : "\n", facts[i].what, meta(s, facts[i].key));
        any = true;
    }
}

/* Its source too, where several have one of the name. */
static void cell_series(struct summary *s, struct textable *t, size_t row)
{
    struct cell name = table_cell(&s->latency, row, latency_col_name);
    struct cell source = table_cell(&s->latency, row, latency_col_source);
    struct cell path = { 0 };
    struct buf text = { 0 };
    bool several = false;

    for (size_t i = 0; i < s->latency.nrow; i++)
        several |= i != row &&
                   cell_text_id(table_cell(&s->latency, i, latency_col_scope)) ==
                       cell_text_id(table_cell(&s->latency, row, latency_col_scope)) &&
                   cell_text_id(table_cell(&s->latency, i, latency_col_name)) == cell_text_id(name);
    if (several && source.kind == CELL_I64)
        path = store_cell(s->st, TABLE_source, (size_t)source.i64, source_col_path);
    if (path.kind == CELL_STR)
        buf_addf(&text, "%s (%s)", name.kind == CELL_STR ? store_text(s->st, name.str) : "",
                 store_text(s->st, path.str));
    if (text.len && !text.failed)
        textable_text(t, buf_str(&text), text.len);
    else
        cell_text(s, t, name);
    buf_release(&text);
}

static int md_latency(struct summary *s)
{
    static const char *const heads[] = { "of a", "name",  ">count",     ">warm-up",
                                         ">min", ">mean", ">median",    ">p90",
                                         ">p99", ">max",  ">per second" };
    static const int times[] = { latency_col_min_ns, latency_col_mean_ns, latency_col_median_ns,
                                 latency_col_p90_ns, latency_col_p99_ns,  latency_col_max_ns };
    struct textable *t;

    io_out_adds(&s->out, "\n## Latency and throughput\n\n");
    if (!s->latency.nrow) {
        io_out_adds(&s->out, "The trace has no steps and no labelled regions.\n");
        return 0;
    }
    t = begin_table(heads, ARRAY_SIZE(heads));
    for (size_t i = 0; t && i < s->latency.nrow; i++) {
        cell_text(s, t, table_cell(&s->latency, i, latency_col_scope));
        cell_series(s, t, i);
        cell_count(t, table_cell(&s->latency, i, latency_col_count));
        cell_count(t, table_cell(&s->latency, i, latency_col_warmup_count));
        for (size_t k = 0; k < ARRAY_SIZE(times); k++)
            cell_time(t, table_cell(&s->latency, i, times[k]));
        cell_number(t, table_cell(&s->latency, i, latency_col_per_second), "g", 1);
    }
    return end_table(s, t);
}

static int md_types(struct summary *s)
{
    static const char *const heads[] = { "type",  ">operators", ">executions",
                                         ">time", ">share",     ">GFLOP/s" };
    struct textable *t;

    if (!s->type.nrow)
        return 0;
    io_out_adds(&s->out, "\n## Operator types\n\n");
    t = begin_table(heads, ARRAY_SIZE(heads));
    for (size_t i = 0; t && i < s->type.nrow; i++) {
        cell_text(s, t, table_cell(&s->type, i, type_stats_col_type));
        cell_count(t, table_cell(&s->type, i, type_stats_col_ops));
        cell_count(t, table_cell(&s->type, i, type_stats_col_count));
        cell_time(t, table_cell(&s->type, i, type_stats_col_typical_ns));
        cell_number(t, table_cell(&s->type, i, type_stats_col_share), "%", 100);
        cell_number(t, table_cell(&s->type, i, type_stats_col_gflops_per_s), "g", 1);
    }
    return end_table(s, t);
}

static int md_operators(struct summary *s)
{
    static const char *const heads[] = { "operator", "type", ">executions", ">share", ">mean",
                                         ">median",  ">p99", ">GFLOP/s",    ">GB/s" };
    size_t n = MIN(s->norder, (size_t)TOP_OPERATORS);
    struct textable *t;

    io_out_adds(&s->out, "\n## Operators\n\n");
    if (!n) {
        io_out_adds(&s->out, "The trace has no operator that ran.\n");
        return 0;
    }
    if (n < s->norder)
        io_out_addf(&s->out, "The %zu that take most of the time, of %zu.\n\n", n, s->norder);
    t = begin_table(heads, ARRAY_SIZE(heads));
    for (size_t i = 0; t && i < n; i++) {
        size_t op = s->order[i];

        cell_text(s, t, table_cell(&s->op, op, op_stats_col_name));
        cell_text(s, t, table_cell(&s->op, op, op_stats_col_type));
        cell_count(t, table_cell(&s->op, op, op_stats_col_count));
        cell_number(t, table_cell(&s->op, op, op_stats_col_share), "%", 100);
        cell_time(t, table_cell(&s->op, op, op_stats_col_mean_ns));
        cell_time(t, table_cell(&s->op, op, op_stats_col_median_ns));
        cell_time(t, table_cell(&s->op, op, op_stats_col_p99_ns));
        cell_number(t, table_cell(&s->op, op, op_stats_col_gflops_per_s), "g", 1);
        cell_number(t, table_cell(&s->op, op, op_stats_col_gbytes_per_s), "g", 1);
    }
    return end_table(s, t);
}

static bool is_app(const struct summary *s, size_t row)
{
    struct cell layer = table_cell(&s->spans, row, span_stats_col_layer);

    return layer.kind == CELL_STR && strcmp(store_text(s->st, layer.str), "app") == 0;
}

static int md_activities(struct summary *s)
{
    static const char *const heads[] = {
        "activity", ">count", ">total", ">mean", ">median", ">max"
    };
    struct textable *t = NULL;

    for (size_t i = 0; i < s->spans.nrow; i++) {
        if (!is_app(s, i))
            continue;
        if (!t) {
            io_out_adds(&s->out, "\n## Activities of the application\n\nWarm-up is included.\n\n");
            t = begin_table(heads, ARRAY_SIZE(heads));
            if (!t)
                return OPM_ENOMEM;
        }
        cell_text(s, t, table_cell(&s->spans, i, span_stats_col_name));
        cell_count(t, table_cell(&s->spans, i, span_stats_col_count));
        cell_time(t, table_cell(&s->spans, i, span_stats_col_total_ns));
        cell_time(t, table_cell(&s->spans, i, span_stats_col_mean_ns));
        cell_time(t, table_cell(&s->spans, i, span_stats_col_median_ns));
        cell_time(t, table_cell(&s->spans, i, span_stats_col_max_ns));
    }
    return t ? end_table(s, t) : 0;
}

static int md_copies(struct summary *s)
{
    static const char *const heads[] = { "direction", ">copies", ">time", ">bytes", ">GB/s" };
    struct textable *t = NULL;

    for (int k = 0; k < COPY_COUNT; k++) {
        const struct copies *c = &s->copies;
        char room[HUMAN_ROOM];

        if (!c->count[k])
            continue;
        if (!t) {
            io_out_adds(&s->out, "\n## Memory copies\n\n");
            t = begin_table(heads, ARRAY_SIZE(heads));
            if (!t)
                return OPM_ENOMEM;
        }
        textable_text(t, copy_names[k], strlen(copy_names[k]));
        cell_count(t, cell_i64(c->count[k]));
        cell_time(t, cell_i64(c->ns[k]));
        if (c->sized[k] == c->count[k]) {
            human_bytes(room, (uint64_t)c->bytes[k]);
            textable_text(t, room, strlen(room));
            cell_number(t, cell_f64(c->ns[k] > 0 ? (double)c->bytes[k] / (double)c->ns[k] : NAN),
                        "g", 1);
        } else {
            textable_text(t, "N/A", 3);
            textable_text(t, "N/A", 3);
        }
    }
    return t ? end_table(s, t) : 0;
}

static void md_measuring(struct summary *s)
{
    const char *cost = meta(s, "run.cost_ns"), *doubt = meta(s, "run.cost_error_ns");
    const char *bare = meta(s, "run.bare_median_ns"), *span = meta(s, "recorder.span_cost_ns");
    char a[HUMAN_ROOM], b[HUMAN_ROOM], c[HUMAN_ROOM];

    if (!(cost && doubt && bare) && !span)
        return;
    io_out_adds(&s->out, "\n## What measuring cost\n\n");
    if (cost && doubt && bare) {
        double ns = strtod(cost, NULL);

        io_out_addf(&s->out, "%s%s an iteration, give or take %s; without recording it takes %s.\n",
                    ns < 0 ? "-" : "", human_ns(a, fabs(ns)), human_ns(b, strtod(doubt, NULL)),
                    human_ns(c, strtod(bare, NULL)));
    }
    if (span)
        io_out_addf(&s->out, "The recorder needs %s a span.\n", human_ns(a, strtod(span, NULL)));
}

static void md_losses(struct summary *s)
{
    for (size_t i = 0; i < store_nrow(s->st, TABLE_import_stat); i++) {
        struct cell count = store_cell(s->st, TABLE_import_stat, i, import_stat_col_count);
        struct cell text = store_cell(s->st, TABLE_import_stat, i, import_stat_col_description);
        struct cell severity = store_cell(s->st, TABLE_import_stat, i, import_stat_col_severity);
        char room[HUMAN_ROOM];

        if (!i)
            io_out_adds(&s->out, "\n## Repaired or lost on the way\n\n");
        if (count.kind == CELL_I64 && text.kind == CELL_STR && severity.kind == CELL_STR)
            io_out_addf(&s->out, "- %s (%s): %s\n", human_count(room, count.i64),
                        store_text(s->st, severity.str), store_text(s->st, text.str));
    }
}

static int put_md(struct summary *s)
{
    int (*const parts[])(struct summary *) = { md_latency, md_types, md_operators, md_activities,
                                               md_copies };
    int rc = 0;

    md_title(s);
    for (size_t i = 0; i < ARRAY_SIZE(parts) && !rc; i++)
        rc = parts[i](s);
    md_measuring(s);
    md_losses(s);
    return rc;
}

/* -- JSON -- */

static void json_cell(struct summary *s, struct json_writer *w, const char *key, struct cell c)
{
    json_key(w, key);
    switch (c.kind) {
    case CELL_NULL:
        json_null(w);
        break;
    case CELL_I64:
        json_i64(w, c.i64);
        break;
    case CELL_F64:
        json_f64(w, c.f64);
        break;
    case CELL_STR:
        json_str(w, store_text(s->st, c.str), strpool_len(store_strings(s->st), c.str));
        break;
    }
}

/* Rows of a table as objects; order NULL: as they stand. */
static void json_table(struct summary *s, struct json_writer *w, const char *key,
                       const struct table *t, const uint32_t *order, size_t n, bool app_only)
{
    json_newline(w);
    json_key(w, key);
    json_array(w);
    for (size_t i = 0; i < n; i++) {
        size_t row = order ? order[i] : i;

        if (app_only && !is_app(s, row))
            continue;
        json_newline(w);
        json_object(w);
        for (int col = 0; col < t->def->ncol; col++)
            json_cell(s, w, t->def->col[col].name, table_cell(t, row, col));
        json_object_end(w);
    }
    json_array_end(w);
}

static void json_copies(struct summary *s, struct json_writer *w)
{
    json_newline(w);
    json_key(w, "memcpy");
    json_array(w);
    for (int k = 0; k < COPY_COUNT; k++) {
        bool sized = s->copies.sized[k] == s->copies.count[k];

        if (!s->copies.count[k])
            continue;
        json_object(w);
        json_key(w, "direction");
        json_cstr(w, copy_names[k]);
        json_key(w, "count");
        json_i64(w, s->copies.count[k]);
        json_key(w, "total_ns");
        json_i64(w, s->copies.ns[k]);
        json_cell(s, w, "bytes", sized ? cell_i64(s->copies.bytes[k]) : cell_null());
        json_object_end(w);
    }
    json_array_end(w);
}

static int put_json(struct summary *s)
{
    struct json_writer w = { .out = &s->out };

    json_object(&w);
    json_key(&w, "meta");
    json_object(&w);
    for (size_t i = 0; i < store_nrow(s->st, TABLE_meta); i++) {
        struct cell key = store_cell(s->st, TABLE_meta, i, meta_col_key);

        if (key.kind == CELL_STR)
            json_cell(s, &w, store_text(s->st, key.str),
                      store_cell(s->st, TABLE_meta, i, meta_col_value));
    }
    json_object_end(&w);
    json_table(s, &w, "latency", &s->latency, NULL, s->latency.nrow, false);
    json_table(s, &w, "types", &s->type, NULL, s->type.nrow, false);
    json_table(s, &w, "operators", &s->op, s->order, s->norder, false);
    json_table(s, &w, "activities", &s->spans, NULL, s->spans.nrow, true);
    json_copies(s, &w);
    json_object_end(&w);
    io_out_adds(&s->out, "\n");
    return 0;
}

static int write_summary(const struct store *st, const char *path,
                         const struct export_options *opts, int (*put)(struct summary *),
                         opm_error *err)
{
    struct summary s = { .st = st };
    int rc = gather(&s, err);

    if (!rc)
        rc = io_out_open(&s.out, path, err);
    if (!rc) {
        rc = writer_progress(opts, &s.out, 0, 1);
        if (!rc)
            rc = put(&s);
        if (!rc)
            rc = writer_progress(opts, &s.out, 1, 1);
        rc = writer_close(&s.out, rc, path, err);
    }
    release(&s);
    return rc;
}

int summary_write_md(const struct store *st, const char *path, const struct export_options *opts,
                     opm_error *err)
{
    return write_summary(st, path, opts, put_md, err);
}

int export_summary(const struct store *st, const char *path, const struct export_options *opts,
                   opm_error *err)
{
    size_t len = strlen(path);
    bool json = len > 5 && strcmp(path + len - 5, ".json") == 0;

    return write_summary(st, path, opts, json ? put_json : put_md, err);
}
