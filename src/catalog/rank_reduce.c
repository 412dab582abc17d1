/* rank_reduce.c -- see rank_reduce.h. */
#include "catalog/rank_reduce.h"

#include "analyze/groups.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/sketch.h"
#include "base/strpool.h"
#include "base/u64map.h"
#include "catalog/reduce.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACTS_MAX "2000"
#define TEXTS_MAX 16            /* columns of a row that have one */
#define OPS_MAX ((size_t)50000) /* operators in memory; of more, some get several rows */

struct span_of_step {
    int64_t from_ns, to_ns, num;
};

struct sum {
    int64_t count, total_ns, self_ns, min_ns, max_ns;
};

/* An operator over all steps so far; sections, names and types are ids of texts. */
struct op_sum {
    str_id section, name, type;
    struct sum sum;
    struct sketch sketch;
};

struct reducing {
    struct fleetdb *db;
    opm_trace *t;
    const struct rank_said *said;
    opm_error *err;
    int64_t began_ns;  /* of the trace, since 1970; 0: unknown */
    struct buf host;   /* of the rank, as its tracks have it */
    int64_t world;     /* ranks of the job; FLEETDB_NONE: unknown */
    const char *where; /* SQL that chooses rows of the rank, of a table with a column rank */
    bool several;      /* the trace has more ranks than that */
    int64_t count;     /* what was counted last */
    struct span_of_step *step;
    size_t nstep, step_cap;
    /* What is being put together of several rows. */
    struct buf key, next;
    struct sum sum;
    struct sketch sketch;
    struct buf hex;
    struct rank_memory_row memory;
    struct op_sum *op;
    size_t nop, op_cap;
    struct u64map op_of; /* id of the key -> op */
    struct strpool texts;
    struct buf text[TEXTS_MAX]; /* of the present row: those that had NULs */
};

static int no_memory(struct reducing *r)
{
    return opm__fail(r->err, OPM_ENOMEM, "out of memory");
}

typedef int each_fn(struct reducing *r, const opm_rows *rows);

__attribute__((format(printf, 3, 4))) static int each(struct reducing *r, each_fn *row,
                                                      const char *fmt, ...);

static int each(struct reducing *r, each_fn *row, const char *fmt, ...)
{
    char sql[2000];
    opm_rows *rows = NULL;
    va_list ap;
    int rc;

    va_start(ap, fmt);
    vsnprintf(sql, sizeof(sql), fmt, ap);
    va_end(ap);
    rc = opm_trace_query(r->t, sql, &rows, r->err);
    while (rc == 0) {
        rc = opm_rows_next(rows, r->err);
        if (rc != 1)
            break;
        rc = row(r, rows);
    }
    opm_rows_close(rows);
    return rc;
}

static int64_t i64(const opm_rows *rows, int c)
{
    return opm_rows_type(rows, c) == OPM_TYPE_NULL ? FLEETDB_NONE : opm_rows_int(rows, c);
}

static int64_t num_of(const opm_rows *rows, int c)
{
    return opm_rows_type(rows, c) == OPM_TYPE_NULL ? -1 : opm_rows_int(rows, c);
}

static double f64(const opm_rows *rows, int c)
{
    return opm_rows_type(rows, c) == OPM_TYPE_NULL ? (double)NAN : opm_rows_real(rows, c);
}

/* The text of a cell, until the next row. Those of a catalogue end with a NUL, so one in the midst
 * becomes U+2400: what differs behind it stays apart. */
static const char *str(struct reducing *r, const opm_rows *rows, int c)
{
    struct buf *own = &r->text[c];
    size_t len;
    const char *text = opm_rows_text(rows, c, &len);

    if (!text || !memchr(text, '\0', len))
        return text;
    buf_clear(own);
    for (size_t i = 0; i < len; i++)
        if (text[i])
            buf_addc(own, text[i]);
        else
            buf_adds(own, "\xe2\x90\x80");
    return buf_str(own); /* cut short when out of memory, which what uses it meets, too */
}

/* -- steps and what has one row for each -- */

static int put_step(struct reducing *r, const opm_rows *rows)
{
    struct rank_step_row row = { .num = i64(rows, 0),
                                 .model = str(r, rows, 1),
                                 .found_by = str(r, rows, 2),
                                 .warmup = opm_rows_int(rows, 3),
                                 .outlier = opm_rows_int(rows, 4),
                                 .ts_ns = add_ns(r->began_ns, opm_rows_int(rows, 5)),
                                 .total_ns = opm_rows_int(rows, 6),
                                 .gap_ns = i64(rows, 7),
                                 .forward_ns = i64(rows, 8),
                                 .backward_ns = i64(rows, 9),
                                 .fp_bp_ns = i64(rows, 10),
                                 .tail_ns = i64(rows, 11),
                                 .update_ns = i64(rows, 12),
                                 .collective_ns = i64(rows, 13),
                                 .exposed_ns = i64(rows, 14) };

    if (!GROW(r->step, r->step_cap, r->nstep + 1))
        return no_memory(r);
    if (row.num == FLEETDB_NONE)
        row.num = (int64_t)r->nstep;
    r->step[r->nstep++] =
        (struct span_of_step){ opm_rows_int(rows, 5), add_ns(opm_rows_int(rows, 5), row.total_ns),
                               row.num };
    return fleetdb_put_rank_step(r->db, &row, r->err);
}

static int put_bucket(struct reducing *r, const opm_rows *rows)
{
    struct rank_bucket_row row = { .num = num_of(rows, 0),
                                   .device = str(r, rows, 1),
                                   .bucket = str(r, rows, 2),
                                   .ns = opm_rows_int(rows, 3),
                                   .once_ns = opm_rows_int(rows, 4) };

    return fleetdb_put_rank_bucket(r->db, &row, r->err);
}

static int64_t element_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } types[] = { { "Float", 4 },      { "Half", 2 }, { "BFloat16", 2 }, { "Double", 8 },
                  { "Int", 4 },        { "Long", 8 }, { "Short", 2 },    { "Byte", 1 },
                  { "Char", 1 },       { "Bool", 1 }, { "fp32", 4 },     { "fp16", 2 },
                  { "bf16", 2 },       { "fp64", 8 }, { "int8", 1 },     { "Float8_e4m3fn", 1 },
                  { "Float8_e5m2", 1 } };

    for (size_t i = 0; dtype && i < ARRAY_SIZE(types); i++)
        if (strcmp(types[i].name, dtype) == 0)
            return types[i].bytes;
    return 0;
}

static int put_exchange(struct reducing *r, const opm_rows *rows)
{
    int64_t elements = i64(rows, 7), each_bytes = element_bytes(str(r, rows, 8));
    struct rank_exchange_row row = { .num = num_of(rows, 0),
                                     .comm = str(r, rows, 6),
                                     .name = str(r, rows, 1),
                                     .nth = opm_rows_int(rows, 2),
                                     .warmup = opm_rows_int(rows, 3),
                                     .ts_ns = add_ns(r->began_ns, opm_rows_int(rows, 4)),
                                     .dur_ns = opm_rows_int(rows, 5),
                                     .bytes = i64(rows, 9),
                                     .ranks = i64(rows, 10),
                                     .peer = i64(rows, 11) };

    if (row.bytes == FLEETDB_NONE && each_bytes && elements >= 0 &&
        elements <= INT64_MAX / each_bytes)
        row.bytes = elements * each_bytes;
    return fleetdb_put_rank_exchange(r->db, &row, r->err);
}

static int put_advice(struct reducing *r, const opm_rows *rows)
{
    struct rank_advice_row row = { .rule = str(r, rows, 0),
                                   .severity = str(r, rows, 1),
                                   .gain = f64(rows, 2),
                                   .message = str(r, rows, 3) };

    return fleetdb_put_rank_advice(r->db, &row, r->err);
}

static int put_fact(struct reducing *r, const opm_rows *rows)
{
    struct rank_fact_row row = { .key = str(r, rows, 0), .value = str(r, rows, 1) };

    return fleetdb_put_rank_fact(r->db, &row, r->err);
}

static int put_span(struct reducing *r, const opm_rows *rows)
{
    struct rank_span_row row = { .num = num_of(rows, 0),
                                 .ts_ns = add_ns(r->began_ns, opm_rows_int(rows, 1)),
                                 .dur_ns = opm_rows_int(rows, 2) < 0 ? FLEETDB_NONE
                                                                     : opm_rows_int(rows, 2),
                                 .self_ns = i64(rows, 3),
                                 .track = str(r, rows, 4),
                                 .device = str(r, rows, 5),
                                 .name = str(r, rows, 6),
                                 .cat = str(r, rows, 7),
                                 .layer = str(r, rows, 8),
                                 .op = str(r, rows, 9) };

    return fleetdb_put_rank_span(r->db, &row, r->err);
}

/* -- operators and kernels: rows that differ in the bucket alone become one with a sketch -- */

#define KEY_PARTS 5 /* step, and what else both begin with */

/* Does the row go on with what is being put together? `key` has its first cells, each with a NUL
 * behind it. */
static bool goes_on(struct reducing *r, const opm_rows *rows)
{
    buf_clear(&r->next);
    for (int c = 0; c < KEY_PARTS; c++) {
        const char *text = str(r, rows, c);

        buf_add(&r->next, text ? text : "", text ? strlen(text) + 1 : 1);
    }
    return r->sketch.count && r->key.len == r->next.len &&
           memcmp(r->key.data, r->next.data, r->next.len) == 0;
}

static const char *part_of(const struct buf *key, int i)
{
    const char *at = key->data;

    for (; i; i--)
        at += strlen(at) + 1;
    return at;
}

static const char *take_sketch(struct reducing *r)
{
    buf_clear(&r->hex);
    sketch_write_hex(&r->sketch, &r->hex);
    sketch_release(&r->sketch);
    return buf_str(&r->hex);
}

static int begin_next(struct reducing *r)
{
    struct buf swap = r->key;

    r->key = r->next;
    r->next = swap;
    r->sum = (struct sum){ .min_ns = INT64_MAX };
    return r->key.failed ? no_memory(r) : 0;
}

static int add_to(struct reducing *r, int64_t bucket, int64_t count, int64_t total_ns,
                  int64_t self_ns, int64_t min_ns, int64_t max_ns)
{
    r->sum.count += count;
    r->sum.total_ns += total_ns;
    r->sum.self_ns += self_ns;
    r->sum.min_ns = MIN(r->sum.min_ns, min_ns);
    r->sum.max_ns = MAX(r->sum.max_ns, max_ns);
    return sketch_add_count(&r->sketch, (uint32_t)bucket, (uint64_t)count) < 0 ? no_memory(r) : 0;
}

static int64_t key_num(const struct buf *key)
{
    const char *text = part_of(key, 1);

    return *text ? strtoll(text, NULL, 10) : -1;
}

static void forget_sums(struct reducing *r)
{
    for (size_t i = 0; i < r->nop; i++)
        sketch_release(&r->op[i].sketch);
    r->nop = 0;
    u64map_release(&r->op_of);
    strpool_release(&r->texts);
}

static int flush_sums(struct reducing *r)
{
    int rc = 0;

    for (size_t i = 0; i < r->nop && rc == 0; i++) {
        const struct op_sum *op = &r->op[i];
        struct rank_op_sum_row row = { .section = strpool_get(&r->texts, op->section),
                                       .name = strpool_get(&r->texts, op->name),
                                       .type = strpool_get(&r->texts, op->type),
                                       .count = op->sum.count,
                                       .total_ns = op->sum.total_ns,
                                       .self_ns = op->sum.self_ns,
                                       .min_ns = op->sum.min_ns,
                                       .max_ns = op->sum.max_ns };

        buf_clear(&r->hex);
        sketch_write_hex(&op->sketch, &r->hex);
        row.sketch = buf_str(&r->hex);
        rc = r->hex.failed ? no_memory(r) : fleetdb_put_rank_op_sum(r->db, &row, r->err);
    }
    forget_sums(r);
    return rc;
}

static int intern_part(struct reducing *r, int i, str_id *out)
{
    const char *text = part_of(&r->key, i);

    return strpool_intern(&r->texts, text, strlen(text), out);
}

/* The sum that the operator which is being put together belongs to; NULL when out of memory. */
static struct op_sum *sum_of(struct reducing *r)
{
    const char *from = part_of(&r->key, 2);
    struct op_sum *op;
    const uint64_t *at;
    str_id key;

    if (strpool_intern(&r->texts, from, (size_t)(r->key.data + r->key.len - from), &key))
        return NULL;
    at = u64map_get(&r->op_of, key);
    if (at)
        return &r->op[*at];
    if (!GROW(r->op, r->op_cap, r->nop + 1) || u64map_put(&r->op_of, key, r->nop))
        return NULL;
    op = &r->op[r->nop];
    *op = (struct op_sum){ .sum = { .min_ns = INT64_MAX } };
    if (intern_part(r, 2, &op->section) || intern_part(r, 3, &op->name) ||
        intern_part(r, 4, &op->type))
        return NULL;
    r->nop++;
    return op;
}

static int add_to_sum(struct reducing *r)
{
    int rc = r->nop < OPS_MAX ? 0 : flush_sums(r);
    struct op_sum *op = rc == 0 ? sum_of(r) : NULL;

    if (rc < 0)
        return rc;
    if (!op || sketch_merge(&op->sketch, &r->sketch) < 0)
        return no_memory(r);
    op->sum.count += r->sum.count;
    op->sum.total_ns += r->sum.total_ns;
    op->sum.self_ns += r->sum.self_ns;
    op->sum.min_ns = MIN(op->sum.min_ns, r->sum.min_ns);
    op->sum.max_ns = MAX(op->sum.max_ns, r->sum.max_ns);
    return 0;
}

static int flush_op(struct reducing *r)
{
    struct rank_op_row row = { .count = r->sum.count,
                               .total_ns = r->sum.total_ns,
                               .self_ns = r->sum.self_ns,
                               .min_ns = r->sum.min_ns,
                               .max_ns = r->sum.max_ns };
    int rc = r->sketch.count ? add_to_sum(r) : 0;

    if (rc < 0 || !r->sketch.count)
        return rc;
    row.num = key_num(&r->key);
    row.section = part_of(&r->key, 2);
    row.name = part_of(&r->key, 3);
    row.type = part_of(&r->key, 4);
    row.sketch = take_sketch(r);
    return r->hex.failed ? no_memory(r) : fleetdb_put_rank_op(r->db, &row, r->err);
}

static int flush_kernel(struct reducing *r)
{
    struct rank_kernel_row row = { .count = r->sum.count,
                                   .total_ns = r->sum.total_ns,
                                   .min_ns = r->sum.min_ns,
                                   .max_ns = r->sum.max_ns };

    if (!r->sketch.count)
        return 0;
    row.num = key_num(&r->key);
    row.device = part_of(&r->key, 2);
    row.name = part_of(&r->key, 3);
    row.kind = part_of(&r->key, 4);
    row.sketch = take_sketch(r);
    return r->hex.failed ? no_memory(r) : fleetdb_put_rank_kernel(r->db, &row, r->err);
}

static int each_op(struct reducing *r, const opm_rows *rows)
{
    int rc = 0;

    if (!goes_on(r, rows)) {
        rc = flush_op(r);
        if (rc == 0)
            rc = begin_next(r);
    }
    return rc < 0 ? rc
                  : add_to(r, opm_rows_int(rows, 5), opm_rows_int(rows, 6), opm_rows_int(rows, 7),
                           opm_rows_int(rows, 8), opm_rows_int(rows, 9), opm_rows_int(rows, 10));
}

static int each_kernel(struct reducing *r, const opm_rows *rows)
{
    int rc = 0;

    if (!goes_on(r, rows)) {
        rc = flush_kernel(r);
        if (rc == 0)
            rc = begin_next(r);
    }
    return rc < 0 ? rc
                  : add_to(r, opm_rows_int(rows, 5), opm_rows_int(rows, 6), opm_rows_int(rows, 7),
                           0, opm_rows_int(rows, 8), opm_rows_int(rows, 9));
}

/* -- memory -- */

static int flush_memory(struct reducing *r)
{
    if (!r->memory.samples)
        return 0;
    r->memory.device = part_of(&r->key, 0);
    r->memory.counter = part_of(&r->key, 1);
    return fleetdb_put_rank_memory(r->db, &r->memory, r->err);
}

/* The step that a time is in, -1: none. Steps are in the order of their start. */
static int64_t step_at(const struct reducing *r, int64_t ts_ns)
{
    size_t low = 0, high = r->nstep;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (r->step[mid].from_ns <= ts_ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low && ts_ns < r->step[low - 1].to_ns ? r->step[low - 1].num : -1;
}

/* Values of a counter by time. */
static int each_sample(struct reducing *r, const opm_rows *rows)
{
    int64_t num = step_at(r, opm_rows_int(rows, 2));
    double value = opm_rows_real(rows, 3);
    bool same;
    int rc = 0;

    buf_clear(&r->next);
    for (int c = 0; c < 2; c++) {
        const char *text = str(r, rows, c);

        buf_add(&r->next, text ? text : "", text ? strlen(text) + 1 : 1);
    }
    same = r->memory.samples && r->memory.num == num && r->key.len == r->next.len &&
           memcmp(r->key.data, r->next.data, r->next.len) == 0;
    if (!same) {
        rc = r->memory.samples ? flush_memory(r) : 0;
        if (rc == 0)
            rc = begin_next(r);
        r->memory = (struct rank_memory_row){ .num = num, .peak_bytes = value };
    }
    r->memory.samples++;
    r->memory.peak_bytes = fmax(r->memory.peak_bytes, value);
    r->memory.last_bytes = value;
    return rc;
}

/* -- all of a rank -- */

#define ARG(name) "json_extract(a, '$.\"" name "\"')"
#define FIRST_ARG(a, b) "coalesce(" ARG(a) ", " ARG(b) ")"
/* clang-format off */
static const char exchanges[] =
    "SELECT num, name, nth, warmup, ts, dur,"
    " " FIRST_ARG("Process Group Name", "communicator") ","
    " " ARG("In msg nelems") "," ARG("dtype") "," ARG("bytes") "," ARG("Group size") ","
    " coalesce(" ARG("Dst Rank") ", " ARG("Src Rank") ", " ARG("peer") ")"
    " FROM (SELECT e.num, e.name, e.nth, e.warmup, e.ts, e.dur, e.rank,"
    " iif(json_valid(s.args), s.args, '{}') AS a"
    " FROM exchanges AS e JOIN span AS s ON s.id = e.span) WHERE %s";
/* clang-format on */
#undef FIRST_ARG
#undef ARG

static int put_tables(struct reducing *r)
{
    const char *w = r->where;
    int rc;

    rc = each(r, put_step,
              "SELECT num, model, found_by, warmup, outlier, ts, total_ns, gap_ns, forward_ns,"
              " backward_ns, fp_bp_ns, tail_ns, update_ns, collective_ns, exposed_ns"
              " FROM step_trace WHERE %s ORDER BY ts",
              w);
    if (rc == 0)
        rc = each(r, put_bucket,
                  "SELECT num, device, bucket, sum(ns), sum(once_ns) FROM occupation"
                  " WHERE warmup = 0 AND %s GROUP BY 1, 2, 3",
                  w);
    if (rc == 0)
        rc = each(r, each_op,
                  "SELECT step, num, section, name, type, bucket, count, total_ns, self_ns, min_ns,"
                  " max_ns FROM op_steps WHERE %s",
                  w);
    if (rc == 0)
        rc = flush_op(r);
    if (rc == 0)
        rc = flush_sums(r);
    if (rc == 0)
        rc = each(r, each_kernel,
                  "SELECT step, num, device, name, kind, bucket, count, total_ns, min_ns, max_ns"
                  " FROM kernel_steps WHERE %s",
                  w);
    if (rc == 0)
        rc = flush_kernel(r);
    if (rc == 0)
        rc = each(r, put_exchange, exchanges, w);
    r->memory = (struct rank_memory_row){ 0 };
    buf_clear(&r->key);
    if (rc == 0)
        rc = each(r, each_sample,
                  "SELECT t.device, t.name, s.ts, s.value FROM track AS t JOIN sample AS s"
                  " ON s.track = t.id WHERE t.kind = 'counter' AND %s AND (t.unit IN"
                  " ('B', 'bytes', 'byte') OR t.name LIKE '%%memory%%' OR t.name LIKE '%%bytes%%'"
                  " OR t.name LIKE '%%allocated%%' OR t.name = 'rss')"
                  " ORDER BY t.id, s.ts",
                  w);
    if (rc == 0)
        rc = flush_memory(r);
    return rc;
}

static int put_rest(struct reducing *r)
{
    int rc = each(r, put_advice, "SELECT rule, severity, gain, message FROM advice");

    if (rc == 0)
        rc = each(r, put_fact,
                  "SELECT key, max(value) FROM meta WHERE value <> '' AND key NOT LIKE"
                  " 'run.bare_ns%%' GROUP BY key ORDER BY key LIMIT " FACTS_MAX);
    return rc;
}

static int each_world(struct reducing *r, const opm_rows *rows)
{
    int64_t world = opm_rows_int(rows, 0);

    if (world > 0)
        r->world = world;
    return 0;
}

static int each_machine(struct reducing *r, const opm_rows *rows)
{
    const char *text = str(r, rows, 0);

    buf_clear(&r->host);
    buf_adds(&r->host, text ? text : "");
    return r->host.failed ? no_memory(r) : 0;
}

static int each_count(struct reducing *r, const opm_rows *rows)
{
    r->count = opm_rows_int(rows, 0);
    return 0;
}

static int put_file(struct reducing *r, const struct kept_run *run, int64_t began_ns)
{
    /* Lines of a rank know it better than the facts of a trace that has several ranks. */
    int rc = each(r, each_machine, "SELECT max(host) FROM track WHERE host <> '' AND %s", r->where);
    int64_t spans = opm_trace_rows(r->t, "span");
    struct rank_file_row row = { .run = run->id,
                                 .host = r->host.len ? buf_str(&r->host) : run->host,
                                 .machine = run->machine,
                                 .model = run->model,
                                 .world = r->world,
                                 .began_ns = began_ns,
                                 .dur_ns = opm_trace_end(r->t),
                                 .steps = (int64_t)r->nstep,
                                 .spans = MAX(spans, 0),
                                 .trace = r->said->trace,
                                 .version = run->version ? run->version : OPMETER_VERSION,
                                 .added_ns = r->said->now_ns };

    if (rc == 0 && r->several) {
        rc = each(r, each_count,
                  "SELECT count(*) FROM span AS s LEFT JOIN track AS t ON t.id = s.track WHERE %s",
                  r->where);
        row.spans = r->count;
    }
    return rc < 0 ? rc : fleetdb_put_rank_file(r->db, &row, r->err);
}

static int put_spans(struct reducing *r)
{
    return each(r, put_span,
                "SELECT st.num, s.ts, s.dur, s.self, coalesce(t.name, ''), t.device, s.name, s.cat,"
                " s.layer, op.name FROM span AS s LEFT JOIN track AS t ON t.id = s.track"
                " LEFT JOIN op ON op.id = s.op LEFT JOIN step AS st ON st.id = s.step WHERE %s",
                r->where);
}

static int nothing(struct reducing *r, const opm_rows *rows)
{
    (void)r, (void)rows;
    return 0;
}

/* Work out what takes long before others have to wait for us to write: it is kept with the trace.
 */
static int prepare(struct reducing *r)
{
    static const char *const tables[] = { "step_trace", "occupation", "op_steps", "kernel_steps",
                                          "exchanges" };
    int rc = 0;

    for (size_t i = 0; i < ARRAY_SIZE(tables) && rc == 0; i++)
        rc = each(r, nothing, "SELECT 1 FROM %s LIMIT 1", tables[i]);
    return rc;
}

/* One of the two units of a recording of a rank. */
static int add_unit(struct reducing *r, const struct fleet_unit *u, const struct kept_run *run,
                    struct rank_added *done)
{
    bool has, spans = u->unit[0] != '\0';
    int rc = fleetdb_has(r->db, u, &has, r->err);

    if (rc < 0 || has) {
        done->there += rc == 0 && !spans;
        return rc;
    }
    if (!spans)
        rc = prepare(r);
    if (rc == 0)
        rc = fleetdb_begin(r->db, u, &has, r->err);
    if (rc == 0 && has) { /* another was faster */
        fleetdb_rollback(r->db);
        done->there += !spans;
        return 0;
    }
    if (rc == 0 && spans)
        rc = put_spans(r);
    if (rc == 0 && !spans)
        rc = put_tables(r);
    if (rc == 0 && !spans)
        rc = put_rest(r);
    if (rc == 0 && !spans)
        rc = put_file(r, run, r->began_ns);
    if (rc == 0)
        rc = fleetdb_commit(r->db, r->said->now_ns, r->err);
    if (rc < 0)
        fleetdb_rollback(r->db);
    else
        done->added += !spans;
    return rc;
}

static int add_rank(struct reducing *r, int64_t rank, const struct kept_run *run,
                    struct rank_added *done)
{
    struct fleet_unit u = { r->said->job, rank, run->id, "" };
    int rc;

    r->nstep = 0;
    r->began_ns = run->began_ns != r->said->now_ns ? run->began_ns : 0;
    rc = add_unit(r, &u, run, done);
    u.unit = "spans";
    if (rc == 0 && r->said->spans)
        rc = add_unit(r, &u, run, done);
    return rc;
}

/* Ranks of the tracks, in order; *n of them. */
static int find_ranks(struct reducing *r, int64_t **out, size_t *n)
{
    opm_rows *rows = NULL;
    size_t cap = 0;
    int rc = opm_trace_query(
        r->t, "SELECT DISTINCT rank FROM track WHERE rank IS NOT NULL ORDER BY 1", &rows, r->err);

    *out = NULL;
    *n = 0;
    while (rc == 0) {
        rc = opm_rows_next(rows, r->err);
        if (rc != 1)
            break;
        rc = GROW(*out, cap, *n + 1) ? 0 : no_memory(r);
        if (rc == 0)
            (*out)[(*n)++] = opm_rows_int(rows, 0);
    }
    opm_rows_close(rows);
    return rc;
}

static int add_ranks(struct reducing *r, const int64_t *rank, size_t n, const struct kept_run *run,
                     struct rank_added *done)
{
    char where[80];
    int rc = 0;

    r->world = r->said->world;
    if (r->world == FLEETDB_NONE)
        rc = each(r, each_world,
                  "SELECT max(CAST(value AS INTEGER)) FROM meta WHERE key IN"
                  " ('distributed.world_size', 'program.ranks')");
    if (rc < 0)
        return rc;
    r->where = "1";
    if (n < 2) {
        int64_t which = r->said->rank >= 0 ? r->said->rank : n ? rank[0] : r->said->otherwise;

        return which >= 0 ? add_rank(r, which, run, done)
                          : opm__fail(r->err, OPM_EINVAL,
                                      "the trace does not say which rank it is of: give --rank");
    }
    if (r->said->rank >= 0)
        return opm__fail(r->err, OPM_EINVAL,
                         "the trace has %zu ranks, %lld to %lld, so --rank cannot say which it is",
                         n, (long long)rank[0], (long long)rank[n - 1]);
    r->several = true;
    for (size_t i = 0; i < n && rc == 0; i++) {
        /* What tells no rank goes with the first. */
        snprintf(where, sizeof(where), "(rank = %lld%s)", (long long)rank[i],
                 i ? "" : " OR rank IS NULL");
        r->where = where;
        rc = add_rank(r, rank[i], run, done);
    }
    return rc;
}

int rank_reduce(struct fleetdb *db, opm_trace *t, const struct rank_said *said,
                struct rank_added *done, opm_error *err)
{
    struct reducing r = { .db = db, .t = t, .said = said, .err = err };
    struct reduce_said about = {
        .now_ns = said->now_ns, .trace = said->trace, .loop_ns = NAN, .stolen = NAN, .load = NAN
    };
    struct arena room = { 0 };
    struct kept kept;
    int64_t *rank = NULL;
    size_t n;
    int rc = reduce_trace(t, &about, &room, &kept, err);

    if (rc == 0)
        rc = find_ranks(&r, &rank, &n);
    if (rc == 0)
        rc = add_ranks(&r, rank, n, &kept.run, done);
    forget_sums(&r);
    mem_free(r.op);
    sketch_release(&r.sketch);
    buf_release(&r.hex);
    for (size_t i = 0; i < TEXTS_MAX; i++)
        buf_release(&r.text[i]);
    buf_release(&r.host);
    buf_release(&r.key);
    buf_release(&r.next);
    mem_free(r.step);
    mem_free(rank);
    arena_release(&room);
    return rc;
}
