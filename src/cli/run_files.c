/* run_files.c -- the files of a run: operators.csv, summary.json, summary.md; see run_report.h. */
#include "cli/run_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void json_ns(struct json_writer *w, const char *key, double ns)
{
    json_key(w, key);
    json_f64(w, ns);
}

static void json_latency(struct json_writer *w, const char *key, const struct run_latency *l)
{
    json_key(w, key);
    if (!l->n) {
        json_null(w);
        return;
    }
    json_object(w);
    json_key(w, "count");
    json_u64(w, l->n);
    json_ns(w, "min_ns", l->min);
    json_ns(w, "mean_ns", l->mean);
    json_ns(w, "median_ns", l->median);
    json_ns(w, "p90_ns", l->p90);
    json_ns(w, "p95_ns", l->p95);
    json_ns(w, "p97_ns", l->p97);
    json_ns(w, "p99_ns", l->p99);
    json_ns(w, "p99.9_ns", l->p999);
    json_ns(w, "max_ns", l->max);
    json_object_end(w);
}

static void json_shapes(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    json_array(w);
    while (text && *text) {
        size_t len = strcspn(text, ";");

        json_str(w, text, len);
        text += len + (text[len] == ';');
    }
    json_array_end(w);
}

static void json_count(struct json_writer *w, const char *key, int64_t v)
{
    json_key(w, key);
    if (v < 0)
        json_null(w);
    else
        json_i64(w, v);
}

static void json_op(struct json_writer *w, const struct report_op *op)
{
    json_newline(w);
    json_object(w);
    json_key(w, "name");
    json_cstr(w, op->name);
    json_key(w, "type");
    json_cstr(w, op->type);
    json_key(w, "post_op");
    json_cstr(w, op->post_op);
    json_count(w, "count", op->count);
    json_ns(w, "iteration_ns", op->iteration_ns);
    json_ns(w, "share", op->share);
    json_ns(w, "mean_ns", op->mean_ns);
    json_ns(w, "median_ns", op->median_ns);
    json_ns(w, "min_ns", op->min_ns);
    json_ns(w, "max_ns", op->max_ns);
    json_count(w, "interrupted", op->interrupted);
    json_ns(w, "interrupted_ns", op->beyond_ns);
    json_count(w, "flops", op->flops);
    json_count(w, "bytes", op->bytes);
    json_ns(w, "gflops_per_s", op->gflops);
    json_ns(w, "gbytes_per_s", op->gbytes);
    json_ns(w, "share_of_peak", op->of_peak);
    json_key(w, "roof");
    json_cstr(w, op->roof);
    json_shapes(w, "inputs", op->in);
    json_shapes(w, "weights", op->weight);
    json_shapes(w, "outputs", op->out);
    json_object_end(w);
}

static void json_receipt(const struct report *r, struct json_writer *w)
{
    double cost = r->bare.n ? r->cost_ns : NAN;

    json_newline(w);
    json_key(w, "receipt");
    json_object(w);
    json_ns(w, "overhead", r->bare.median > 0 ? cost / r->bare.median : NAN);
    json_ns(w, "cost_ns", cost);
    json_ns(w, "cost_error_ns", r->bare.n ? r->cost_error_ns : NAN);
    json_ns(w, "operators_per_iteration", r->spans_per_iteration);
    json_ns(w, "recorder_ns_per_span", r->span_cost_ns);
    json_ns(w, "explained", r->explained);
    json_key(w, "bias");
    json_cstr(w, r->bias);
    json_object_end(w);
}

static void json_generated(struct json_writer *w, const struct run_generated *g)
{
    static const char *const kinds[] = { "bare", "metered" };

    json_newline(w);
    json_key(w, "generated");
    json_object(w);
    json_count(w, "texts", g->texts);
    json_count(w, "rows", g->batch);
    json_count(w, "prompt_tokens", g->prompt);
    json_count(w, "tokens", g->tokens);
    if (g->heard) {
        json_count(w, "encoder_positions", g->heard);
        json_count(w, "cache_kept_bytes", g->cache_kept_bytes);
    }
    json_count(w, "cache_bytes_per_token", g->cache_token_bytes);
    json_count(w, "cache_peak_bytes", g->cache_peak_bytes);
    json_count(w, "cache_held_bytes", g->cache_held_bytes);
    json_key(w, "cache_in_place");
    json_bool(w, g->in_place);
    for (int k = 0; k < 2; k++) {
        json_newline(w);
        json_key(w, kinds[k]);
        json_object(w);
        if (g->heard)
            json_latency(w, "encoder", &g->encoder[k]);
        json_latency(w, "ttft", &g->ttft[k]);
        json_latency(w, "itl", &g->itl[k]);
        json_ns(w, "prefill_tokens_per_s", g->prefill_per_s[k] > 0 ? g->prefill_per_s[k] : NAN);
        json_ns(w, "decode_tokens_per_s", g->decode_per_s[k] > 0 ? g->decode_per_s[k] : NAN);
        json_object_end(w);
    }
    json_object_end(w);
}

static void summary_json(const struct report *r, struct buf *b)
{
    struct json_writer w = { .buf = b };
    const struct run_result *res = &r->res[0];

    json_object(&w);
    json_key(&w, "model");
    json_cstr(&w, res->model);
    json_key(&w, "engine");
    json_cstr(&w, res->engine);
    json_key(&w, "engine_version");
    json_cstr(&w, res->version[0] ? res->version : NULL);
    json_count(&w, "threads", res->threads);
    json_count(&w, "instances", r->n);
    json_count(&w, "batch", res->batch);
    json_count(&w, "warmup", (int64_t)res->warmup);
    json_count(&w, "iterations", (int64_t)res->metered.n);
    json_count(&w, "load_ns", res->load_ns);
    json_count(&w, "open_ns", res->open_ns);
    json_count(&w, "prepare_ns", res->prepare_ns);
    json_newline(&w);
    json_key(&w, "latency");
    json_object(&w);
    json_latency(&w, "bare", &r->bare);
    json_latency(&w, "metered", &r->metered);
    json_object_end(&w);
    if (res->generated.texts)
        json_generated(&w, &res->generated);
    json_newline(&w);
    json_key(&w, "samples_per_second");
    json_object(&w);
    json_ns(&w, "bare", r->bare.n ? r->per_second_bare : NAN);
    json_ns(&w, "metered", r->per_second_metered);
    json_object_end(&w);
    json_receipt(r, &w);
    if (res->arena_bytes >= 0) {
        json_newline(&w);
        json_key(&w, "memory");
        json_object(&w);
        json_count(&w, "arena_bytes", res->arena_bytes);
        json_count(&w, "packed_bytes", res->packed_bytes);
        json_count(&w, "winograd_bytes", res->winograd_bytes);
        json_object_end(&w);
    }
    json_newline(&w);
    json_key(&w, "peak");
    json_object(&w);
#define X(member, key) json_ns(&w, key, r->peak.member > 0 ? r->peak.member : NAN);
    PEAK_FIGURES(X)
#undef X
    json_object_end(&w);
    if (res->check.done) {
        json_newline(&w);
        json_key(&w, "check");
        json_object(&w);
        json_key(&w, "ok");
        json_bool(&w, res->check.ok);
        json_count(&w, "elements", (int64_t)res->check.elements);
        json_count(&w, "wrong", (int64_t)res->check.wrong);
        json_ns(&w, "max_difference", res->check.max_abs);
        json_object_end(&w);
    }
    json_newline(&w);
    json_key(&w, "operators");
    json_array(&w);
    for (size_t i = 0; i < r->nop; i++)
        json_op(&w, &r->op[i]);
    json_array_end(&w);
    json_object_end(&w);
    buf_addc(b, '\n');
}

int report_print_json(struct report *r)
{
    struct buf b = { 0 };
    int rc = CLI_OK;

    summary_json(r, &b);
    if (b.failed)
        rc = cli_out_of_memory();
    else
        io_out_add(&r->cli->out, b.data, b.len);
    buf_release(&b);
    return rc;
}

static int put_table(struct textable *t, struct io_out *out, enum textable_format format,
                     opm_error *err)
{
    int rc = t ? textable_print(t, out, format, 0, false, err) : OPM_ENOMEM;

    if (!t)
        snprintf(err->msg, sizeof(err->msg), "out of memory");
    textable_free(t);
    return rc;
}

static int summary_md(struct report *r, struct io_out *out, opm_error *err)
{
    struct buf b = { 0 };
    int rc;

    report_title(r, &b);
    io_out_addf(out, "# %s\n\n", buf_str(&b));
    buf_clear(&b);
    report_throughput(r, &b);
    io_out_addf(out, "%s\n\n## Latency\n\n", buf_str(&b));
    buf_clear(&b);
    rc = put_table(report_latency_table(r), out, TEXTABLE_MARKDOWN, err);
    io_out_adds(out, "\n## Operators, by time in one iteration\n\n");
    if (!rc)
        rc = put_table(report_ops_table(r, r->nop), out, TEXTABLE_MARKDOWN, err);
    io_out_adds(out, "\n## Receipt\n\n```\n");
    report_receipt(r, &b);
    io_out_addf(out, "%s```\n", buf_str(&b));
    buf_release(&b);
    return rc;
}

int report_write_files(struct report *r, const char *dir)
{
    static const char *const names[] = { "operators.csv", "summary.json", "summary.md" };
    opm_error err = { 0 };
    struct buf b = { 0 };
    int rc = 0;

    for (size_t i = 0; !rc && i < ARRAY_SIZE(names); i++) {
        struct io_out out;
        char path[FOLDER_PATH_MAX + 32];

        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        rc = io_out_open(&out, path, &err);
        if (rc)
            break;
        if (i == 0) {
            rc = put_table(report_full_table(r), &out, TEXTABLE_CSV_SAFE, &err);
        } else if (i == 1) {
            summary_json(r, &b);
            io_out_add(&out, buf_str(&b), b.len);
        } else {
            rc = summary_md(r, &out, &err);
        }
        if (io_out_close(&out, rc == 0, rc ? NULL : &err) < 0)
            rc = OPM_EIO;
    }
    if (b.failed)
        rc = cli_out_of_memory();
    else if (rc)
        rc = cli_error("%s", err.msg);
    buf_release(&b);
    return rc;
}
