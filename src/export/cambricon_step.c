/* cambricon_step.c -- the two files of a step: a timeline and StepStats, as TensorFlow has them.
 *
 * timeline/ holds Chrome events, a process per device, a thread per line; step_stats/ the protobuf
 * StepStats as text. Times are those of the clock, in microseconds. */
#include "export/cambricon_int.h"

#include "base/error.h"
#include "base/json_write.h"

#include <inttypes.h>
#include <string.h>

static const char *dtype_name(const char *dtype)
{
    static const struct {
        const char *ours, *theirs;
    } names[] = { { "fp32", "FLOAT" },    { "fp64", "DOUBLE" },   { "fp16", "HALF" },
                  { "bf16", "BFLOAT16" }, { "int8", "INT8" },     { "int16", "INT16" },
                  { "int32", "INT32" },   { "int64", "INT64" },   { "uint8", "UINT8" },
                  { "uint16", "UINT16" }, { "uint32", "UINT32" }, { "uint64", "UINT64" },
                  { "bool", "BOOL" },     { "string", "STRING" } };

    for (size_t i = 0; dtype && i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i].ours, dtype) == 0)
            return names[i].theirs;
    return NULL;
}

/* -- timeline -- */

static void put_args(struct cam *c, struct json_writer *w, uint32_t op)
{
    const uint32_t *row;
    size_t n = op_tensors_get(&c->tensors, op, &row), len, slot = 0;
    const char *text;

    json_object(w);
    json_key(w, "name");
    text = cam_text(c, cam_op_text(c, op, op_col_name), &len);
    json_str(w, text, len);
    json_key(w, "op");
    text = cam_text(c, cam_op_text(c, op, op_col_type), &len);
    json_str(w, text, len);
    for (size_t i = 0; i < n; i++) {
        char key[32];

        text = op_tensors_text(&c->tensors, row[i], op_tensor_col_name, &len);
        if (c->tensors.io[row[i]] != TENSOR_INPUT || !text)
            continue;
        snprintf(key, sizeof(key), "input%zu", slot++);
        json_key(w, key);
        json_str(w, text, len);
    }
    json_object_end(w);
}

static void put_process(struct io_out *out, int *nevent, unsigned pid, const char *name, size_t len)
{
    struct json_writer w = { .out = out };

    io_out_adds(out, (*nevent)++ ? ",\n" : "\n");
    json_object(&w);
    json_key(&w, "name");
    json_cstr(&w, "process_name");
    json_key(&w, "ph");
    json_cstr(&w, "M");
    json_key(&w, "pid");
    json_u64(&w, pid);
    json_key(&w, "args");
    json_object(&w);
    json_key(&w, "name");
    json_str(&w, name, len);
    json_object_end(&w);
    json_object_end(&w);
}

static void put_span(struct cam *c, struct io_out *out, size_t i)
{
    const struct site *site = &c->site[c->span_site[i]];
    uint32_t track = c->track && c->track[i] < store_nrow(c->st, TABLE_track) ? c->track[i] + 1 : 0;
    struct json_writer w = { .out = out };
    char text[2 * TEXT_DIGITS + 80], *p;
    const char *name;
    size_t len;

    p = stpcpy(text, c->dur[i] < 0 ? "{\"ph\":\"B\",\"pid\":1,\"tid\":"
                                   : "{\"ph\":\"X\",\"pid\":1,\"tid\":");
    p = text_put_u64(p, track);
    p = stpcpy(p, ",\"ts\":");
    p = text_put_us(p, c->origin_ns + c->ts[i]);
    if (c->dur[i] >= 0) {
        p = stpcpy(p, ",\"dur\":");
        p = text_put_us(p, c->dur[i]);
    }
    io_out_add(out, text, (size_t)(p - text));
    io_out_adds(out, ",\"cat\":");
    if (cam_is_op(c, i)) {
        io_out_adds(out, "\"Op\",\"name\":");
        name = cam_text(c, cam_op_text(c, site->op, op_col_type), &len);
        json_str(&w, name, len);
        io_out_adds(out, ",\"args\":");
        w = (struct json_writer){ .out = out };
        put_args(c, &w, site->op);
    } else {
        name = cam_text(c, site->cat, &len);
        json_str(&w, name, len);
        io_out_adds(out, ",\"name\":");
        w = (struct json_writer){ .out = out };
        name = cam_text(c, site->name, &len);
        json_str(&w, name, len);
    }
    io_out_adds(out, "}");
}

static void put_thread_names(struct cam *c, struct io_out *out)
{
    for (size_t i = 0; i < store_nrow(c->st, TABLE_track); i++) {
        struct cell name = store_cell(c->st, TABLE_track, i, track_col_name);
        struct json_writer w = { .out = out };

        if (name.kind != CELL_STR)
            continue;
        io_out_addf(
            out,
            ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"args\":", i + 1);
        json_object(&w);
        json_key(&w, "name");
        json_str(&w, store_text(c->st, name.str), strpool_len(store_strings(c->st), name.str));
        json_object_end(&w);
        io_out_adds(out, "}");
    }
}

static int put_timeline(struct cam *c, const struct cam_step *s, struct io_out *out)
{
    const char *device = c->nrun ? cam_text(c, c->run[0].device, NULL) : "CPU:0";
    size_t first, end;
    struct buf name = { 0 };
    int nevent = 0, rc = 0;

    buf_addf(&name, "/job:localhost/replica:0/task:0/device:%s Compute",
             *device ? device : "CPU:0");
    io_out_adds(out, "{\"traceEvents\":[");
    put_process(out, &nevent, 1, buf_str(&name), name.len);
    put_thread_names(c, out);
    cam_range(c, s, &first, &end);
    for (size_t i = first; i < end && !rc; i++) {
        if ((i - first) % 65536 == 65535)
            rc = writer_progress(c->opts, out, i, c->nspan);
        if (!cam_in_step(c, s, i))
            continue;
        io_out_adds(out, ",\n");
        put_span(c, out, i);
    }
    io_out_adds(out, "\n]}\n");
    rc = name.failed ? OPM_ENOMEM : rc;
    buf_release(&name);
    return rc;
}

/* -- StepStats as text -- */

static void put_quoted(struct io_out *out, const char *s, size_t len)
{
    io_out_adds(out, "\"");
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)s[i];

        if (ch == '"' || ch == '\\')
            io_out_addf(out, "\\%c", ch);
        else if (ch < 0x20 || ch >= 0x7f)
            io_out_addf(out, "\\%03o", ch);
        else
            io_out_add(out, &s[i], 1);
    }
    io_out_adds(out, "\"");
}

static void put_output(struct cam *c, struct io_out *out, uint32_t row, int64_t slot)
{
    const char *dtype = dtype_name(op_tensors_text(&c->tensors, row, op_tensor_col_dtype, NULL));
    const char *shape = op_tensors_text(&c->tensors, row, op_tensor_col_shape, NULL);
    struct cell bytes = store_cell(c->st, TABLE_op_tensor, row, op_tensor_col_bytes);

    io_out_addf(out, "    output {\n      slot: %" PRId64 "\n      tensor_description {\n", slot);
    if (dtype)
        io_out_addf(out, "        dtype: DT_%s\n", dtype);
    if (shape) {
        io_out_adds(out, "        shape {\n");
        while (*shape >= '0' && *shape <= '9') {
            size_t digits = strspn(shape, "0123456789");

            io_out_addf(out, "          dim {\n            size: %.*s\n          }\n", (int)digits,
                        shape);
            shape += digits + (shape[digits] == 'x');
        }
        io_out_adds(out, "        }\n");
    }
    if (bytes.kind == CELL_I64)
        io_out_addf(out,
                    "        allocation_description {\n          requested_bytes: %" PRId64
                    "\n          allocated_bytes: %" PRId64 "\n        }\n",
                    bytes.i64, bytes.i64);
    io_out_adds(out, "      }\n    }\n");
}

/* "name = Type(in0, in1)". */
static void put_label(struct cam *c, struct buf *b, uint32_t op)
{
    const uint32_t *row;
    size_t n = op_tensors_get(&c->tensors, op, &row), len, count = 0;
    const char *text = cam_text(c, cam_op_text(c, op, op_col_name), &len);

    buf_add(b, text, len);
    buf_adds(b, " = ");
    text = cam_text(c, cam_op_text(c, op, op_col_type), &len);
    buf_add(b, text, len);
    buf_addc(b, '(');
    for (size_t i = 0; i < n; i++) {
        text = op_tensors_text(&c->tensors, row[i], op_tensor_col_name, &len);
        if (c->tensors.io[row[i]] != TENSOR_INPUT || !text)
            continue;
        buf_adds(b, count++ ? ", " : "");
        buf_add(b, text, len);
    }
    buf_addc(b, ')');
}

/* What TensorFlow said of the memory of an execution, else what its outputs take. */
static void put_memory(struct cam *c, struct io_out *out, uint32_t op, str_id args,
                       struct buf *text)
{
    const uint32_t *row;
    size_t n = op_tensors_get(&c->tensors, op, &row);
    int64_t bytes = -1, sum = 0;
    bool known = false;

    buf_clear(text);
    cam_member(c, args, "memory", NULL, text);
    if (text->len) {
        io_out_addf(out, "    %s\n", buf_str(text));
        return;
    }
    cam_member(c, args, "memory_bytes", &bytes, NULL);
    for (size_t i = 0; i < n; i++) {
        struct cell b = store_cell(c->st, TABLE_op_tensor, row[i], op_tensor_col_bytes);

        if (c->tensors.io[row[i]] == TENSOR_OUTPUT && b.kind == CELL_I64) {
            sum += b.i64;
            known = true;
        }
    }
    if (known || bytes >= 0)
        io_out_addf(out,
                    "    memory {\n      allocator_name: \"cpu\"\n      total_bytes: %" PRId64
                    "\n    }\n",
                    bytes >= 0 ? bytes : sum);
}

/* What came from such a file is written as it was; the rest is made up from what the trace has. */
static void put_node(struct cam *c, struct io_out *out, size_t span, struct buf *label)
{
    uint32_t op = c->site[c->span_site[span]].op;
    str_id args = c->args ? c->args[span] : 0;
    int64_t start = c->origin_ns + c->ts[span], dur = MAX(c->dur[span], 0);
    int64_t op_start = 0, op_end = dur, scheduled = 0;
    const uint32_t *row;
    size_t n = op_tensors_get(&c->tensors, op, &row), len;
    const char *name = cam_text(c, cam_op_text(c, op, op_col_name), &len);
    struct cell tid = cell_null();

    cam_member(c, args, "op_start_ns", &op_start, NULL);
    cam_member(c, args, "op_end_ns", &op_end, NULL);
    cam_member(c, args, "scheduled_before_ns", &scheduled, NULL);
    io_out_adds(out, "  node_stats {\n    node_name: ");
    put_quoted(out, name, len);
    io_out_addf(out,
                "\n    all_start_micros: %" PRId64 "\n    op_start_rel_micros: %" PRId64
                "\n    op_end_rel_micros: %" PRId64 "\n    all_end_rel_micros: %" PRId64 "\n",
                start / 1000, op_start / 1000, op_end / 1000, dur / 1000);
    put_memory(c, out, op, args, label);
    for (size_t i = 0; i < n; i++) {
        struct cell slot = store_cell(c->st, TABLE_op_tensor, row[i], op_tensor_col_slot);

        if (c->tensors.io[row[i]] == TENSOR_OUTPUT)
            put_output(c, out, row[i], cell_i64_or(slot, 0));
    }
    buf_clear(label);
    cam_member(c, args, "label", NULL, label);
    if (!label->len)
        put_label(c, label, op);
    io_out_adds(out, "    timeline_label: ");
    put_quoted(out, buf_str(label), label->len);
    if (c->track && c->track[span] < store_nrow(c->st, TABLE_track))
        tid = store_cell(c->st, TABLE_track, c->track[span], track_col_tid);
    io_out_addf(out, "\n    scheduled_micros: %" PRId64 "\n", (start - scheduled) / 1000);
    if (tid.kind == CELL_I64 && tid.i64 >= 0 && tid.i64 <= UINT32_MAX)
        io_out_addf(out, "    thread_id: %" PRId64 "\n", tid.i64);
    io_out_addf(out, "    all_start_nanos: %" PRId64 "\n    all_end_rel_nanos: %" PRId64 "\n  }\n",
                start, dur);
}

static int put_step_stats(struct cam *c, const struct cam_step *s, struct io_out *out)
{
    struct buf label = { 0 };
    str_id done = 0;
    size_t first, end;
    bool any = false;

    cam_range(c, s, &first, &end);
    /* A block for each device; runs are ordered by host and device. */
    for (size_t r = 0; r < c->nrun; r++) {
        const char *device = cam_text(c, c->run[r].device, NULL);

        if (any && c->run[r].device == done)
            continue;
        any = true;
        done = c->run[r].device;
        buf_clear(&label);
        buf_addf(&label, "/job:localhost/replica:0/task:0/device:%s", *device ? device : "CPU:0");
        io_out_adds(out, "dev_stats {\n  device: ");
        put_quoted(out, buf_str(&label), label.len);
        io_out_adds(out, "\n");
        for (size_t i = first; i < end; i++)
            if (cam_in_step(c, s, i) && cam_is_op(c, i) &&
                cam_op_text(c, c->site[c->span_site[i]].op, op_col_device) == done)
                put_node(c, out, i, &label);
        io_out_adds(out, "}\n");
    }
    first = label.failed;
    buf_release(&label);
    return first ? OPM_ENOMEM : 0;
}

int cam_write_step(struct cam *c, const struct cam_step *s, const char *folder, opm_error *err)
{
    static const struct {
        const char *folder;
        int (*put)(struct cam *, const struct cam_step *, struct io_out *);
    } files[] = { { "timeline", put_timeline }, { "step_stats", put_step_stats } };
    struct buf path = { 0 };
    int rc = 0;

    for (size_t i = 0; i < ARRAY_SIZE(files) && !rc; i++) {
        struct io_out out;

        buf_clear(&path);
        buf_addf(&path, "%s/%s/%s_step_%" PRId64, folder, files[i].folder,
                 buf_str(&c->model[s->model].file), s->num);
        if (path.failed)
            rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", folder);
        else
            rc = io_out_open(&out, buf_str(&path), err);
        if (!rc) {
            rc = files[i].put(c, s, &out);
            if (!rc)
                rc = writer_progress(c->opts, &out, (uint64_t)(s - c->steps), c->nstep);
            rc = writer_close(&out, rc, buf_str(&path), err);
        }
    }
    buf_release(&path);
    return rc;
}
