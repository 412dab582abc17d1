/* netron.c -- write what Netron shows beside a model: an attachment with metrics for every node.
 *
 *     {"signature":"netron:attachment","metadata":[{"kind":"node","target":"conv1","name":..,
 *      "value":..,"type":"string"}],"metrics":[..]}
 *
 * Netron (8.2 and later) reads such a .json when it is dropped onto the open model, and finds nodes
 * by their names; so the entries of an operator go to the first model node that it covers, and the
 * nodes fused into it say where their time went. */
#include "export/export.h"

#include "analyze/analysis.h"
#include "base/error.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "export/writer.h"

#include <string.h>

struct netron {
    const struct store *st;
    struct io_out out;
    struct json_writer w;
    struct table stats;
    struct buf node, first;
};

static void begin_entry(struct netron *n, const char *name)
{
    json_newline(&n->w);
    json_object(&n->w);
    json_key(&n->w, "kind");
    json_cstr(&n->w, "node");
    json_key(&n->w, "target");
    json_str(&n->w, buf_str(&n->node), n->node.len);
    json_key(&n->w, "name");
    json_cstr(&n->w, name);
    json_key(&n->w, "value");
}

static void end_entry(struct netron *n, const char *type)
{
    json_key(&n->w, "type");
    json_cstr(&n->w, type);
    json_object_end(&n->w);
}

static void put_text(struct netron *n, const char *name, const char *text, size_t len)
{
    begin_entry(n, name);
    json_str(&n->w, text, len);
    end_entry(n, "string");
}

static void put_store_text(struct netron *n, const char *name, size_t op, int col)
{
    struct cell c = store_cell(n->st, TABLE_op, op, col);

    if (c.kind == CELL_STR)
        put_text(n, name, store_text(n->st, c.str), strpool_len(store_strings(n->st), c.str));
}

static void put_figure(struct netron *n, size_t op, const char *name, int col, double scale,
                       const char *type)
{
    struct cell c = table_cell(&n->stats, op, col);

    if (c.kind == CELL_NULL)
        return;
    begin_entry(n, name);
    json_f64(&n->w, (c.kind == CELL_I64 ? (double)c.i64 : c.f64) * scale);
    end_entry(n, type);
}

/* Call fn for every model node that op covers; the operator's own name if it does not say. */
static void each_node(struct netron *n, size_t op, void (*fn)(struct netron *, size_t, size_t))
{
    struct cell nodes = store_cell(n->st, TABLE_op, op, op_col_nodes);
    struct cell name = store_cell(n->st, TABLE_op, op, op_col_name);
    size_t count = 0;

    if (nodes.kind == CELL_STR) {
        struct json_reader r = json_read_of(store_text(n->st, nodes.str),
                                            strpool_len(store_strings(n->st), nodes.str));

        if (json_read_next(&r) == JSON_ARRAY) {
            while (json_read_next(&r) == JSON_STRING) {
                buf_clear(&n->node);
                json_read_text(&r, &n->node);
                if (!count) {
                    buf_clear(&n->first);
                    buf_add(&n->first, buf_str(&n->node), n->node.len);
                }
                fn(n, op, count++);
            }
        }
    }
    if (count || name.kind != CELL_STR)
        return;
    buf_clear(&n->node);
    buf_add(&n->node, store_text(n->st, name.str), strpool_len(store_strings(n->st), name.str));
    fn(n, op, 0);
}

static void put_metadata(struct netron *n, size_t op, size_t index)
{
    if (index) {
        put_text(n, "fused into", buf_str(&n->first), n->first.len);
        return;
    }
    put_store_text(n, "executed as", op, op_col_type);
    put_store_text(n, "fused behind it", op, op_col_post_op);
    put_store_text(n, "device", op, op_col_device);
    put_store_text(n, "engine", op, op_col_engine);
}

static void put_metrics(struct netron *n, size_t op, size_t index)
{
    static const struct {
        const char *name;
        int col;
        double scale;
        const char *type;
    } figures[] = {
        { "time share", op_stats_col_share, 1, "percentage" },
        { "mean time (us)", op_stats_col_mean_ns, 1e-3, "float64" },
        { "median time (us)", op_stats_col_median_ns, 1e-3, "float64" },
        { "p99 time (us)", op_stats_col_p99_ns, 1e-3, "float64" },
        { "executions", op_stats_col_count, 1, "int64" },
        { "FLOPs", op_stats_col_flops, 1, "int64" },
        { "bytes", op_stats_col_bytes, 1, "int64" },
        { "GFLOP/s", op_stats_col_gflops_per_s, 1, "float64" },
        { "GB/s", op_stats_col_gbytes_per_s, 1, "float64" },
    };

    if (index)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
        put_figure(n, op, figures[i].name, figures[i].col, figures[i].scale, figures[i].type);
}

static int put_all(struct netron *n, const struct export_options *opts)
{
    static const struct {
        const char *name;
        void (*fn)(struct netron *, size_t, size_t);
    } parts[] = { { "metadata", put_metadata }, { "metrics", put_metrics } };
    size_t nop = store_nrow(n->st, TABLE_op);
    int rc = writer_progress(opts, &n->out, 0, nop);

    json_object(&n->w);
    json_key(&n->w, "signature");
    json_cstr(&n->w, "netron:attachment");
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        json_newline(&n->w);
        json_key(&n->w, parts[i].name);
        json_array(&n->w);
        for (size_t op = 0; op < nop; op++)
            each_node(n, op, parts[i].fn);
        json_array_end(&n->w);
    }
    json_object_end(&n->w);
    io_out_adds(&n->out, "\n");
    if (!rc && (n->node.failed || n->first.failed))
        rc = OPM_ENOMEM;
    return rc ? rc : writer_progress(opts, &n->out, nop, nop);
}

int export_netron(const struct store *st, const char *path, const struct export_options *opts,
                  opm_error *err)
{
    struct netron n = { .st = st };
    int rc = analysis_run(st, ANALYSIS_op_stats, &n.stats, err);

    if (rc)
        return rc;
    n.w.out = &n.out;
    if (!n.stats.nrow)
        rc = opm__fail(err, OPM_ENOTFOUND,
                       "netron: the trace has no operators, so there is nothing to attach");
    else
        rc = io_out_open(&n.out, path, err);
    if (!rc) {
        rc = put_all(&n, opts);
        rc = writer_close(&n.out, rc, path, err);
    }
    table_release(&n.stats);
    buf_release(&n.node);
    buf_release(&n.first);
    return rc;
}
