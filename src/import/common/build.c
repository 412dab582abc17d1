/* build.c -- see build.h. */
#include "import/common/build.h"

#include "base/error.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

str_id build_str(struct build *b, const char *s, size_t len)
{
    str_id id = 0;

    if (!b->rc)
        b->rc = store_str(b->st, s, len, &id);
    return b->rc ? 0 : id;
}

str_id build_cstr(struct build *b, const char *s)
{
    return s ? build_str(b, s, strlen(s)) : 0;
}

void build_check(struct build *b, const struct buf *text)
{
    if (text->failed && !b->rc)
        b->rc = OPM_ENOMEM;
}

str_id build_text(struct build *b, const struct buf *text)
{
    build_check(b, text);
    return build_str(b, buf_str(text), text->len);
}

str_id build_buf(struct build *b, const struct buf *text)
{
    build_check(b, text);
    return text->len ? build_str(b, text->data, text->len) : 0;
}

str_id build_fmt(struct build *b, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return build_str(b, text, n < 0 ? 0 : MIN((size_t)n, sizeof(text) - 1));
}

bool build_echo(struct build *b, size_t bytes)
{
    bool may = echo_allows(&b->echo, b->src->len, bytes);

    store_stat(b->st, STAT_text_not_repeated, !may);
    return may;
}

/* The row that was added, or OPM_NULL_ID. */
static uint32_t add(struct build *b, enum table_id table, const struct cell *cells)
{
    uint32_t row = OPM_NULL_ID;

    if (!b->rc)
        b->rc = store_add(b->st, table, cells, &row);
    return b->rc ? OPM_NULL_ID : row;
}

uint32_t build_track(struct build *b, const struct track_row *row)
{
    struct cell c[track_col_COUNT] = { 0 };

    c[track_col_kind] = cell_str(build_cstr(b, row->kind));
    c[track_col_name] = cell_str(row->name);
    c[track_col_pid] = cell_i64(row->pid);
    c[track_col_process] = cell_str(row->process);
    c[track_col_tid] = cell_i64(row->tid);
    c[track_col_device] = cell_str(row->device);
    c[track_col_unit] = cell_str(row->unit);
    c[track_col_log] = cell_str(row->log);
    return add(b, TABLE_track, c);
}

uint32_t build_op(struct build *b, const struct op_row *row)
{
    struct cell c[op_col_COUNT] = { 0 };

    c[op_col_name] = cell_str(row->name);
    c[op_col_type] = cell_str(row->type);
    c[op_col_post_op] = cell_str(row->post_op);
    c[op_col_device] = cell_str(row->device);
    c[op_col_engine] = cell_str(row->engine);
    c[op_col_flops] = cell_i64(row->flops);
    c[op_col_bytes] = cell_i64(row->bytes);
    c[op_col_weight_shape] = cell_str(row->weight_shape);
    c[op_col_attributes] = cell_str(row->attributes);
    c[op_col_nodes] = cell_str(row->nodes);
    return add(b, TABLE_op, c);
}

void build_tensor(struct build *b, const struct tensor_row *row)
{
    struct cell c[op_tensor_col_COUNT] = { 0 };

    c[op_tensor_col_op] = cell_id(row->op);
    c[op_tensor_col_io] = cell_str(build_cstr(b, row->io));
    c[op_tensor_col_slot] = cell_i64(row->slot);
    c[op_tensor_col_name] = cell_str(row->name);
    c[op_tensor_col_dtype] = cell_str(row->dtype);
    c[op_tensor_col_shape] = cell_str(row->shape);
    c[op_tensor_col_bytes] = cell_i64(row->bytes);
    add(b, TABLE_op_tensor, c);
}

void build_step(struct build *b, const struct step_row *row)
{
    struct cell c[step_col_COUNT] = { 0 };

    c[step_col_model] = cell_str(row->model);
    c[step_col_num] = cell_i64(row->num);
    c[step_col_ts] = cell_i64(row->ts_ns);
    c[step_col_dur] = cell_i64(row->dur_ns);
    c[step_col_warmup] = cell_i64(row->warmup);
    c[step_col_track] = cell_id(row->track);
    add(b, TABLE_step, c);
}

void build_record(struct build *b, str_id label, int64_t ts_ns, int64_t dur_ns, bool warmup,
                  uint32_t track)
{
    struct cell c[record_col_COUNT] = { 0 };

    c[record_col_label] = cell_str(label);
    c[record_col_ts] = cell_i64(ts_ns);
    c[record_col_dur] = cell_i64(dur_ns);
    c[record_col_warmup] = cell_i64(warmup);
    c[record_col_track] = cell_id(track);
    add(b, TABLE_record, c);
}

void build_sample(struct build *b, uint32_t track, int64_t ts_ns, double value)
{
    struct cell c[sample_col_COUNT] = { cell_i64(ts_ns), cell_id(track), cell_f64(value) };

    add(b, TABLE_sample, c);
}

void build_flow(struct build *b, uint32_t src, uint32_t dst, const char *kind)
{
    struct cell c[flow_col_COUNT] = { cell_id(src), cell_id(dst), cell_str(build_cstr(b, kind)) };

    add(b, TABLE_flow, c);
}

uint32_t build_site(struct build *b, str_id name, str_id cat, const char *layer, uint32_t op)
{
    struct site site = { .name = name, .cat = cat, .layer = build_cstr(b, layer), .op = op };
    uint32_t out = 0;

    if (!b->rc)
        b->rc = store_site(b->st, &site, &out);
    return out;
}

uint32_t build_span(struct build *b, const struct span_row *row)
{
    uint32_t id = OPM_NULL_ID;

    if (!b->rc)
        b->rc = store_add_span(b->st, row, &id);
    return b->rc ? OPM_NULL_ID : id;
}

void build_meta(struct build *b, const char *key, const char *value)
{
    if (!b->rc && value)
        b->rc = import_meta(b->st, b->src, key, value);
}

bool build_tick(struct build *b, uint64_t done, uint64_t total)
{
    if (!b->rc && b->src->progress && b->src->progress(b->src->user, done, total))
        b->rc = OPM_ELIMIT;
    return b->rc != 0;
}

int build_end(struct build *b, opm_error *err)
{
    if (!b->rc)
        return 0;
    return opm__fail(err, b->rc, "%s: %s", b->src->path,
                     b->rc == OPM_ELIMIT ? "given up on request" : opm_status_text(b->rc));
}

size_t dtype_bytes(const char *name, size_t len)
{
    static const struct {
        const char *name;
        uint8_t bytes;
    } known[] = {
        { "float", 4 },     { "single", 4 },      { "double", 8 },  { "half", 2 },
        { "bfloat", 2 },    { "bool", 1 },        { "boolean", 1 }, { "pred", 1 },
        { "complex64", 8 }, { "complex128", 16 }, { "c64", 8 },     { "c128", 16 },
        { "bf16", 2 },      { "tf32", 4 },        { "fp32", 4 },    { "fp16", 2 },
    };
    unsigned bits = 0;
    size_t i = 0;

    if (len > 3 && strncasecmp(name, "DT_", 3) == 0) {
        name += 3;
        len -= 3;
    }
    for (size_t k = 0; k < ARRAY_SIZE(known); k++)
        if (strlen(known[k].name) == len && strncasecmp(known[k].name, name, len) == 0)
            return known[k].bytes;
    while (i < len && isalpha((unsigned char)name[i]))
        i++;
    if (!i || i == len || len - i > 3 || strncasecmp(name, "complex", 7) == 0)
        return 0;
    for (; i < len && isdigit((unsigned char)name[i]); i++)
        bits = bits * 10 + (unsigned)(name[i] - '0');
    return i == len && bits && bits % 8 == 0 && bits <= 128 ? bits / 8 : 0;
}

int64_t shape_elements(const char *shape, size_t len)
{
    int64_t n = 1, dim = -1;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && isdigit((unsigned char)shape[i])) {
            dim = dim < 0 ? shape[i] - '0' : dim * 10 + (shape[i] - '0');
            if (dim > (int64_t)1 << 40)
                return -1;
            continue;
        }
        if (i < len && shape[i] != 'x' && shape[i] != 'X')
            return -1;
        if (dim < 0 || __builtin_mul_overflow(n, dim, &n))
            return -1;
        dim = -1;
    }
    return n;
}

/* The exponent behind a number; false if what follows is none. */
static bool read_exponent(const char *s, size_t len, int *out)
{
    bool negative = false;
    size_t i = 0;
    int e = 0;

    if (i < len && (s[i] == '+' || s[i] == '-'))
        negative = s[i++] == '-';
    if (i == len)
        return false;
    for (; i < len; i++) {
        if (!isdigit((unsigned char)s[i]))
            return false;
        e = MIN(e * 10 + (s[i] - '0'), 10000);
    }
    *out = negative ? -e : e;
    return true;
}

bool decimal_scaled(const char *s, size_t len, int scale, int64_t *out)
{
    bool negative = false, any = false, point = false, up = false;
    uint64_t v = 0;
    int point_at = 0, exponent = 0, digits = 0, wanted;
    size_t i = 0, start;

    if (i < len && (s[i] == '-' || s[i] == '+'))
        negative = s[i++] == '-';
    start = i;
    for (; i < len && (isdigit((unsigned char)s[i]) || (s[i] == '.' && !point)); i++) {
        if (s[i] == '.')
            point = true;
        else
            any = true;
        point_at += !point;
    }
    if (!any || (i < len && ((s[i] != 'e' && s[i] != 'E') ||
                             !read_exponent(s + i + 1, len - i - 1, &exponent))))
        return false;
    /* So many digits, counted from the first, stand before the point once it is moved. */
    wanted = point_at + exponent + scale;
    for (size_t k = start; k < i; k++) {
        if (s[k] == '.')
            continue;
        if (digits < wanted) {
            if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
                __builtin_add_overflow(v, (uint64_t)(s[k] - '0'), &v))
                return false;
        } else if (digits == wanted) {
            up = s[k] >= '5';
        }
        digits++;
    }
    for (; v && digits < wanted; digits++)
        if (__builtin_mul_overflow(v, (uint64_t)10, &v))
            return false;
    v += up;
    if (v > INT64_MAX)
        return false;
    *out = negative ? -(int64_t)v : (int64_t)v;
    return true;
}
