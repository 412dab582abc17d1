/* megengine.c -- write the profile JSON of MegEngine's load_and_run, for profile_analyze.
 *
 *     {"graph_exec": {comp_seq, operator, var, mem_chunk},
 *      "profiler": {device, host, opr_footprint, opr_internal_pf}}
 *
 * Operators and tensors (vars) share one space of ids, which are numbers in strings. As there, an
 * operator has one time only: that of its last execution. A tensor that no operator makes comes
 * from a SharedDeviceTensor (weights) or a Host2DeviceCopy (inputs), which took no time. Spans on
 * hardware are the device's time, others the host's; of an operator that has only one of them both
 * say the same. --profile-host of load_and_run asks for the host's times alone: `megengine-host`.
 * `kern` is later than `start` where the trace has the launch of a kernel. */
#include "export/export.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_write.h"
#include "base/u64map.h"
#include "export/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRESS_ROWS 65536
#define COMP_NODE "CompNode(\"cpu0:0\" from \"cpu0:0\")"

struct var {
    str_id name; /* 0: it has none */
    str_id dtype;
    str_id shape;
    int64_t bytes;
    uint32_t owner; /* op that makes it, or OPM_NULL_ID */
    bool weight;
};

struct last {
    int64_t ts, end, wait; /* of the last execution; end < 0: there was none */
    uint32_t track;
    uint32_t row; /* of span */
};

struct mge {
    const struct store *st;
    struct io_out *out;
    struct json_writer w;
    struct last *last; /* per op, on the device */
    struct last *host; /* per op, on the host */
    uint32_t *order;   /* ops that ran, by time */
    size_t nop, nrun;
    struct var *var;
    size_t nvar, var_cap;
    uint32_t *tensor_var;   /* per row of op_tensor */
    uint32_t *first, *nrow; /* per op: its rows of op_tensor, which are in one piece or sorted */
    uint32_t *row;          /* rows of op_tensor, op by op */
    size_t ntensor;
    struct u64map by_name; /* str_id -> var */
    struct u64map owners;  /* str_id -> row of mem */
    bool host_only;
};

static const char *text(const struct mge *m, str_id id)
{
    const char *s = store_text(m->st, id);

    return s ? s : "";
}

static str_id str_cell(const struct mge *m, enum table_id t, size_t row, int col)
{
    struct cell c = store_cell(m->st, t, row, col);

    return cell_text_id(c);
}

static int64_t int_cell(const struct mge *m, enum table_id t, size_t row, int col, int64_t missing)
{
    struct cell c = store_cell(m->st, t, row, col);

    return cell_i64_or(c, missing);
}

/* -- gathering -- */

/* What the row of an execution says. */
static void last_read(const struct mge *m, struct last *l)
{
    if (l->row == OPM_NULL_ID)
        return;
    l->ts = int_cell(m, TABLE_span, l->row, span_col_ts, 0);
    l->end = l->ts + int_cell(m, TABLE_span, l->row, span_col_dur, 0);
    l->wait = int_cell(m, TABLE_span, l->row, span_col_wait, 0);
    l->track = (uint32_t)int_cell(m, TABLE_span, l->row, span_col_track, OPM_NULL_ID);
}

/* The last ended execution of each op on the device and on the host. */
static int find_last(struct mge *m, const struct export_options *opts)
{
    const uint32_t *site = store_span_site(m->st);
    size_t nsite, n = store_nrow(m->st, TABLE_span);
    const struct site *sites = store_sites(m->st, &nsite);
    str_id hardware = strpool_find(store_strings(m->st), "hardware", strlen("hardware"));
    const void *dur = NULL;
    int rc = store_column(m->st, TABLE_span, span_col_dur, &dur);

    for (size_t i = 0; i < m->nop; i++)
        m->last[i] = m->host[i] = (struct last){ .end = -1, .row = OPM_NULL_ID };
    for (size_t i = 0; !rc && dur && i < n; i++) {
        const struct site *s = &sites[site[i]];

        if (i % PROGRESS_ROWS == 0)
            rc = writer_progress(opts, m->out, i, n);
        if (s->op < m->nop && ((const int64_t *)dur)[i] >= 0 &&
            strcmp(text(m, s->phase), "reshape") != 0)
            (hardware && s->layer == hardware ? m->last : m->host)[s->op].row = (uint32_t)i;
    }
    for (size_t op = 0; !rc && op < m->nop; op++) {
        last_read(m, &m->last[op]);
        last_read(m, &m->host[op]);
        if (m->last[op].end < 0)
            m->last[op] = m->host[op];
        else if (m->host[op].end < 0)
            m->host[op] = m->last[op];
    }
    return rc;
}

struct run_order {
    int64_t ts;
    uint32_t op;
};

static int by_ts(const void *a, const void *b)
{
    const struct run_order *x = a, *y = b;

    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

static int sort_ops(struct mge *m)
{
    struct run_order *tmp = mem_calloc(m->nop + 1, sizeof(*tmp));

    if (!tmp)
        return OPM_ENOMEM;
    for (uint32_t i = 0; i < m->nop; i++)
        if (m->last[i].end >= 0)
            tmp[m->nrun++] = (struct run_order){ m->last[i].ts, i };
    qsort(tmp, m->nrun, sizeof(*tmp), by_ts);
    for (size_t i = 0; i < m->nrun; i++)
        m->order[i] = tmp[i].op;
    mem_free(tmp);
    return 0;
}

static bool is_io(const struct mge *m, size_t row, const char *io)
{
    return strcmp(text(m, str_cell(m, TABLE_op_tensor, row, op_tensor_col_io)), io) == 0;
}

static int find_var(struct mge *m, size_t row, uint32_t *out)
{
    str_id name = str_cell(m, TABLE_op_tensor, row, op_tensor_col_name);
    uint64_t *known = name ? u64map_get(&m->by_name, name) : NULL;

    if (known) {
        *out = (uint32_t)*known;
        return 0;
    }
    if (!GROW(m->var, m->var_cap, m->nvar + 1))
        return OPM_ENOMEM;
    *out = (uint32_t)m->nvar;
    m->var[m->nvar++] = (struct var){
        .name = name,
        .dtype = str_cell(m, TABLE_op_tensor, row, op_tensor_col_dtype),
        .shape = str_cell(m, TABLE_op_tensor, row, op_tensor_col_shape),
        .bytes = int_cell(m, TABLE_op_tensor, row, op_tensor_col_bytes, -1),
        .owner = OPM_NULL_ID,
        .weight = is_io(m, row, "weight"),
    };
    return name ? u64map_put(&m->by_name, name, *out) : 0;
}

/* Tensors of the ops that ran, grouped by op; each becomes a var, equal names the same. */
static int gather_tensors(struct mge *m)
{
    size_t at = 0;

    for (size_t i = 0; i < m->ntensor; i++) {
        int64_t op = int_cell(m, TABLE_op_tensor, i, op_tensor_col_op, -1);

        if (op >= 0 && op < (int64_t)m->nop)
            m->nrow[op]++;
    }
    for (size_t op = 0; op < m->nop; op++) {
        m->first[op] = (uint32_t)at;
        at += m->nrow[op];
        m->nrow[op] = 0;
    }
    for (size_t i = 0; i < m->ntensor; i++) {
        int64_t op = int_cell(m, TABLE_op_tensor, i, op_tensor_col_op, -1);
        int rc;

        if (op < 0 || op >= (int64_t)m->nop)
            continue;
        m->row[m->first[op] + m->nrow[op]++] = (uint32_t)i;
        if (m->last[op].end < 0)
            continue;
        rc = find_var(m, i, &m->tensor_var[i]);
        if (rc)
            return rc;
        if (is_io(m, i, "output") && m->var[m->tensor_var[i]].owner == OPM_NULL_ID)
            m->var[m->tensor_var[i]].owner = (uint32_t)op;
    }
    return 0;
}

static int gather(struct mge *m, const struct export_options *opts)
{
    int rc;

    m->nop = store_nrow(m->st, TABLE_op);
    m->ntensor = store_nrow(m->st, TABLE_op_tensor);
    m->last = mem_calloc(m->nop + 1, sizeof(*m->last));
    m->host = mem_calloc(m->nop + 1, sizeof(*m->host));
    m->order = mem_calloc(m->nop + 1, sizeof(*m->order));
    m->first = mem_calloc(m->nop + 1, sizeof(*m->first));
    m->nrow = mem_calloc(m->nop + 1, sizeof(*m->nrow));
    m->row = mem_calloc(m->ntensor + 1, sizeof(*m->row));
    m->tensor_var = mem_calloc(m->ntensor + 1, sizeof(*m->tensor_var));
    if (!m->last || !m->host || !m->order || !m->first || !m->nrow || !m->row || !m->tensor_var)
        return OPM_ENOMEM;
    rc = store_derive(m->st, TABLE_span, span_col_wait);
    if (rc)
        return rc;
    rc = find_last(m, opts);
    if (!rc)
        rc = sort_ops(m);
    if (!rc)
        rc = gather_tensors(m);
    for (size_t i = 0; !rc && i < store_nrow(m->st, TABLE_mem); i++) {
        str_id owner = str_cell(m, TABLE_mem, i, mem_col_owner);

        if (owner && !u64map_get(&m->owners, owner))
            rc = u64map_put(&m->owners, owner, i);
    }
    return rc;
}

/* -- ids: ops, then vars, then the operators that make vars which no op makes -- */

static const char *op_id(char room[16], uint32_t op)
{
    snprintf(room, 16, "%u", op);
    return room;
}

static const char *var_id(const struct mge *m, char room[16], uint32_t var)
{
    return op_id(room, (uint32_t)m->nop + var);
}

static const char *source_id(const struct mge *m, char room[16], uint32_t var)
{
    return op_id(room, (uint32_t)(m->nop + m->nvar) + var);
}

/* -- writing -- */

static void put_dims(struct json_writer *w, const char *shape, bool stride)
{
    int64_t dim[32], step = 1;
    int n = 0;

    while (n < 32 && *shape >= '0' && *shape <= '9') {
        char *end;

        dim[n++] = strtoll(shape, &end, 10);
        shape = *end == 'x' ? end + 1 : end;
    }
    json_array(w);
    for (int i = 0; i < n; i++) {
        if (!stride) {
            json_i64(w, dim[i]);
            continue;
        }
        step = 1;
        for (int k = i + 1; k < n; k++)
            step *= MAX(dim[k], 1);
        json_i64(w, step);
    }
    json_array_end(w);
}

static const char *dtype_name(const char *dtype)
{
    static const struct {
        const char *ours, *theirs;
    } names[] = { { "fp32", "Float32" },    { "float32", "Float32" }, { "fp16", "Float16" },
                  { "float16", "Float16" }, { "fp64", "Float64" },    { "bf16", "BFloat16" },
                  { "int8", "Int8" },       { "int16", "Int16" },     { "int32", "Int32" },
                  { "int64", "Int64" },     { "uint8", "Uint8" },     { "uint16", "Uint16" },
                  { "bool", "Bool" } };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i].ours, dtype) == 0)
            return names[i].theirs;
    return dtype;
}

static void put_operator(struct mge *m, const char *id, const char *name, const char *type)
{
    struct json_writer *w = &m->w;

    json_newline(w);
    json_key(w, id);
    json_object(w);
    json_key(w, "node_type");
    json_cstr(w, "operator");
    json_key(w, "id");
    json_cstr(w, id);
    json_key(w, "name");
    json_cstr(w, name);
    json_key(w, "type");
    json_cstr(w, type);
    json_key(w, "extra");
    json_object(w);
    json_object_end(w);
    json_key(w, "waiting_spec");
    json_null(w);
}

static void put_op_vars(struct mge *m, uint32_t op, bool outputs)
{
    char room[16];

    json_key(&m->w, outputs ? "output" : "input");
    json_array(&m->w);
    for (uint32_t k = 0; k < m->nrow[op]; k++) {
        uint32_t row = m->row[m->first[op] + k];

        if (is_io(m, row, "output") == outputs)
            json_cstr(&m->w, var_id(m, room, m->tensor_var[row]));
    }
    json_array_end(&m->w);
}

static void put_operators(struct mge *m)
{
    char id[16], var[16];

    json_key(&m->w, "operator");
    json_object(&m->w);
    for (size_t i = 0; i < m->nrun; i++) {
        uint32_t op = m->order[i];

        put_operator(m, op_id(id, op), text(m, str_cell(m, TABLE_op, op, op_col_name)),
                     text(m, str_cell(m, TABLE_op, op, op_col_type)));
        put_op_vars(m, op, false);
        put_op_vars(m, op, true);
        json_object_end(&m->w);
    }
    for (uint32_t v = 0; v < m->nvar; v++) {
        if (m->var[v].owner != OPM_NULL_ID)
            continue;
        put_operator(m, source_id(m, id, v), text(m, m->var[v].name),
                     m->var[v].weight ? "SharedDeviceTensor" : "Host2DeviceCopy");
        json_key(&m->w, "input");
        json_array(&m->w);
        json_array_end(&m->w);
        json_key(&m->w, "output");
        json_array(&m->w);
        json_cstr(&m->w, var_id(m, var, v));
        json_array_end(&m->w);
        json_object_end(&m->w);
    }
    json_object_end(&m->w);
}

static void put_mem_plan(struct mge *m, uint32_t v, const char *id)
{
    struct json_writer *w = &m->w;
    char chunk[24];

    json_key(w, "mem_plan");
    if (m->var[v].bytes < 0) {
        json_null(w);
        return;
    }
    snprintf(chunk, sizeof(chunk), "chk%s", id);
    json_object(w);
    json_key(w, "mem_chunk_id");
    json_cstr(w, chunk);
    json_key(w, "layout");
    json_object(w);
    json_key(w, "shape");
    put_dims(w, text(m, m->var[v].shape), false);
    json_key(w, "stride");
    put_dims(w, text(m, m->var[v].shape), true);
    json_key(w, "dtype");
    json_cstr(w, dtype_name(text(m, m->var[v].dtype)));
    json_object_end(w);
    json_key(w, "offset_byte");
    json_i64(w, 0);
    json_object_end(w);
}

/* Where each tensor lies, if the trace has a memory plan that names its owner; -1: not known. */
static int64_t address_of(const struct mge *m, const struct var *v)
{
    uint64_t *row = v->name ? u64map_get(&m->owners, v->name) : NULL;

    return row ? int_cell(m, TABLE_mem, (size_t)*row, mem_col_addr, -1) : -1;
}

static void put_address(struct json_writer *w, const char *key, int64_t addr)
{
    json_key(w, key);
    if (addr < 0)
        json_null(w);
    else
        json_i64(w, addr);
}

static void put_vars(struct mge *m)
{
    static const char *const nulls[] = { "mem_readonly_fwd_src", "force_update_src" };
    struct json_writer *w = &m->w;
    char id[16];

    json_key(w, "var");
    json_object(w);
    for (uint32_t v = 0; v < m->nvar; v++) {
        int64_t addr = address_of(m, &m->var[v]);

        json_newline(w);
        json_key(w, var_id(m, id, v));
        json_object(w);
        json_key(w, "node_type");
        json_cstr(w, "var");
        json_key(w, "id");
        json_cstr(w, id);
        json_key(w, "name");
        json_cstr(w, text(m, m->var[v].name));
        for (size_t i = 0; i < ARRAY_SIZE(nulls); i++) {
            json_key(w, nulls[i]);
            json_null(w);
        }
        put_address(w, "dev_ptr", addr);
        json_key(w, "prev_dev_ptr");
        json_i64(w, MAX(addr, (int64_t)0));
        if (addr > 0 && m->var[v].bytes >= 0) {
            json_key(w, "prev_dev_ptr_end");
            json_i64(w, addr + m->var[v].bytes);
        }
        put_mem_plan(m, v, id);
        json_key(w, "comp_node");
        json_cstr(w, COMP_NODE);
        json_key(w, "flag");
        json_array(w);
        if (m->var[v].weight)
            json_cstr(w, "PERSISTENT_DEVICE_VALUE");
        json_array_end(w);
        json_key(w, "static_infer_tags");
        json_object(w);
        json_object_end(w);
        json_object_end(w);
    }
    json_object_end(w);
}

static void put_chunks(struct mge *m)
{
    struct json_writer *w = &m->w;
    char id[16], chunk[24];

    json_key(w, "mem_chunk");
    json_object(w);
    for (uint32_t v = 0; v < m->nvar; v++) {
        if (m->var[v].bytes < 0)
            continue;
        snprintf(chunk, sizeof(chunk), "chk%s", var_id(m, id, v));
        json_newline(w);
        json_key(w, chunk);
        json_object(w);
        json_key(w, "node_type");
        json_cstr(w, "mem_chunk");
        json_key(w, "id");
        json_cstr(w, chunk);
        json_key(w, "size");
        json_i64(w, m->var[v].bytes);
        json_key(w, "owner_var");
        json_cstr(w, id);
        put_address(w, "dev_ptr", address_of(m, &m->var[v]));
        json_object_end(w);
    }
    json_object_end(w);
}

static void put_times(struct mge *m, bool host)
{
    struct json_writer *w = &m->w;
    int64_t zero = !host && m->nrun ? m->last[m->order[0]].ts : 0;
    char id[16];

    json_newline(w);
    json_key(w, host ? "host" : "device");
    json_object(w);
    for (size_t i = 0; i < m->nrun && (host || !m->host_only); i++) {
        const struct last *l = host ? &m->host[m->order[i]] : &m->last[m->order[i]];
        const char *thread = l->track != OPM_NULL_ID
                                 ? text(m, str_cell(m, TABLE_track, l->track, track_col_name))
                                 : "";

        json_newline(w);
        json_key(w, op_id(id, m->order[i]));
        json_object(w);
        json_key(w, host ? thread : COMP_NODE);
        json_object(w);
        json_key(w, "start");
        json_f64(w, (double)(l->ts - zero) / 1e9);
        json_key(w, "kern");
        json_f64(w, (double)(l->ts + l->wait - zero) / 1e9);
        json_key(w, "end");
        json_f64(w, (double)(l->end - zero) / 1e9);
        json_object_end(w);
        json_object_end(w);
    }
    json_object_end(w);
}

static void put_shapes(struct mge *m, uint32_t op, bool outputs)
{
    json_key(&m->w, outputs ? "out_shapes" : "in_shapes");
    json_array(&m->w);
    for (uint32_t k = 0; k < m->nrow[op]; k++) {
        uint32_t row = m->row[m->first[op] + k];

        if (is_io(m, row, "output") == outputs)
            put_dims(&m->w, text(m, str_cell(m, TABLE_op_tensor, row, op_tensor_col_shape)), false);
    }
    json_array_end(&m->w);
}

/* Of all tensors of op; -1 if that of any is not known, or there is none. */
static int64_t tensor_bytes(const struct mge *m, uint32_t op)
{
    int64_t sum = m->nrow[op] ? 0 : -1;

    for (uint32_t k = 0; k < m->nrow[op] && sum >= 0; k++) {
        int64_t bytes =
            int_cell(m, TABLE_op_tensor, m->row[m->first[op] + k], op_tensor_col_bytes, -1);

        if (bytes < 0 || __builtin_add_overflow(sum, bytes, &sum))
            sum = -1;
    }
    return sum;
}

static void put_footprints(struct mge *m)
{
    struct json_writer *w = &m->w;
    char id[16];

    json_newline(w);
    json_key(w, "opr_footprint");
    json_object(w);
    for (size_t i = 0; i < m->nrun; i++) {
        uint32_t op = m->order[i];
        int64_t flops = int_cell(m, TABLE_op, op, op_col_flops, -1);
        int64_t bytes = int_cell(m, TABLE_op, op, op_col_bytes, -1);
        const char *attributes = text(m, str_cell(m, TABLE_op, op, op_col_attributes));

        json_newline(w);
        json_key(w, op_id(id, op));
        json_object(w);
        json_key(w, "computation");
        if (flops > 0)
            json_i64(w, flops);
        else
            json_null(w); /* theirs has null for what does not compute, too */
        if (bytes < 0)
            bytes = tensor_bytes(m, op);
        if (bytes >= 0) { /* its readers take a missing one for N/A */
            json_key(w, "memory");
            json_i64(w, bytes);
        }
        put_shapes(m, op, false);
        put_shapes(m, op, true);
        json_key(w, "param");
        if (attributes[0] == '{' && text_is_json(attributes, strlen(attributes))) {
            json_raw(w, attributes, strlen(attributes));
        } else {
            json_object(w);
            json_object_end(w);
        }
        json_object_end(w);
    }
    json_object_end(w);
}

static void put_all(struct mge *m)
{
    struct json_writer *w = &m->w;
    char id[16];

    json_object(w);
    json_key(w, "graph_exec");
    json_object(w);
    writer_recording_member(m->st, w);
    json_key(w, "comp_seq");
    json_array(w);
    for (size_t i = 0; i < m->nrun; i++)
        json_cstr(w, op_id(id, m->order[i]));
    json_array_end(w);
    put_operators(m);
    put_vars(m);
    put_chunks(m);
    json_object_end(w);
    json_newline(w);
    json_key(w, "profiler");
    json_object(w);
    put_times(m, false);
    put_times(m, true);
    put_footprints(m);
    json_key(w, "opr_internal_pf");
    json_object(w);
    json_object_end(w);
    json_object_end(w);
    json_object_end(w);
    io_out_adds(m->out, "\n");
}

static int write_profile(const struct store *st, const char *path,
                         const struct export_options *opts, bool host_only, opm_error *err)
{
    struct io_out out;
    struct mge m = { .st = st, .out = &out, .w = { .out = &out }, .host_only = host_only };
    int rc = io_out_open(&out, path, err);

    if (rc)
        return rc;
    rc = writer_progress(opts, &out, 0, 1);
    if (!rc)
        rc = gather(&m, opts);
    if (!rc) {
        put_all(&m);
        rc = writer_progress(opts, &out, 1, 1);
    }
    mem_free(m.last);
    mem_free(m.host);
    mem_free(m.order);
    mem_free(m.first);
    mem_free(m.nrow);
    mem_free(m.row);
    mem_free(m.tensor_var);
    mem_free(m.var);
    u64map_release(&m.by_name);
    u64map_release(&m.owners);
    return writer_close(&out, rc, path, err);
}

int export_megengine(const struct store *st, const char *path, const struct export_options *opts,
                     opm_error *err)
{
    return write_profile(st, path, opts, false, err);
}

int export_megengine_host(const struct store *st, const char *path,
                          const struct export_options *opts, opm_error *err)
{
    return write_profile(st, path, opts, true, err);
}
