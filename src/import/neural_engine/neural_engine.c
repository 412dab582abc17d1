/* neural_engine.c -- see neural_engine.h. */
#include "import/neural_engine/neural_engine.h"

#include "base/error.h"

#include <math.h>
#include <string.h>

int neural_init(struct neural *n, struct store *st, const struct import_source *src)
{
    struct neural_words *w = &n->word;
    const struct {
        const char *text;
        str_id *to;
    } all[] = { { "input", &w->input },
                { "weight", &w->weight },
                { "output", &w->output },
                { "framework", &w->framework },
                { "app", &w->app },
                { "forward", &w->forward },
                { "reshape", &w->reshape },
                { "thread", &w->thread },
                { "op", &w->op },
                { "step", &w->step },
                { "neural engine", &w->engine },
                { "model", &w->model } };
    int rc = 0;

    *n = (struct neural){ .st = st, .src = src };
    for (size_t i = 0; i < ARRAY_SIZE(all) && !rc; i++)
        rc = store_cstr(st, all[i].text, all[i].to);
    return rc;
}

void neural_release(struct neural *n)
{
    u64map_release(&n->ops);
    u64map_release(&n->tensors);
    buf_release(&n->text);
}

static uint64_t op_key(str_id name, str_id type)
{
    return (uint64_t)name << 32 | type;
}

uint32_t neural_find(const struct neural *n, str_id name, str_id type)
{
    const uint64_t *at = u64map_get(&n->ops, op_key(name, type));

    return at ? (uint32_t)*at : OPM_NULL_ID;
}

static const char *dtype_name(const char *dtype)
{
    static const struct {
        const char *theirs, *ours;
    } names[] = {
        { "s8", "int8" },   { "u8", "uint8" },   { "s16", "int16" }, { "u16", "uint16" },
        { "s32", "int32" }, { "u32", "uint32" }, { "s64", "int64" }, { "u64", "uint64" }
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i].theirs, dtype) == 0)
            return names[i].ours;
    return dtype;
}

/* Take the next element of a list into n->text. False at its end. */
static bool next_element(struct neural *n, const char **list, char sep)
{
    const char *end;

    buf_clear(&n->text);
    if (!*list)
        return false;
    end = strchr(*list, sep);
    buf_add(&n->text, *list, end ? (size_t)(end - *list) : strlen(*list));
    *list = end ? end + 1 : NULL;
    return true;
}

static int64_t dtype_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        int bytes;
    } sizes[] = { { "fp32", 4 },  { "fp16", 2 },   { "bf16", 2 },   { "fp64", 8 },  { "int8", 1 },
                  { "uint8", 1 }, { "int16", 2 },  { "uint16", 2 }, { "int32", 4 }, { "uint32", 4 },
                  { "int64", 8 }, { "uint64", 8 }, { "bool", 1 } };

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        if (strcmp(sizes[i].name, dtype) == 0)
            return sizes[i].bytes;
    return OPM_NULL_I64;
}

/* Bytes of a tensor of that shape; OPM_NULL_I64 if the shape is none. */
static int64_t tensor_bytes(const char *shape, const char *dtype)
{
    int64_t all = dtype_bytes(dtype), dim = 0;
    bool digits = false;

    for (const char *p = shape; all != OPM_NULL_I64 && *shape; p++) {
        if (*p >= '0' && *p <= '9' && dim < INT32_MAX) {
            dim = dim * 10 + (*p - '0');
            digits = true;
            continue;
        }
        if (!digits || (*p && *p != 'x') || __builtin_mul_overflow(all, dim, &all))
            return OPM_NULL_I64;
        if (!*p)
            break;
        dim = 0;
        digits = false;
    }
    return all;
}

struct tensor_text {
    str_id name, shape, dtype;
    bool any; /* the list goes on */
};

/* The next tensor of a list; .any false at its end. */
static int next_tensor(struct neural *n, struct neural_list *l, const struct neural_op_row *row,
                       struct tensor_text *out)
{
    int rc;

    *out = (struct tensor_text){ .any = next_element(n, &l->names, row->sep) };
    rc = n->text.failed ? OPM_ENOMEM : store_str(n->st, buf_str(&n->text), n->text.len, &out->name);
    if (!rc && next_element(n, &l->shapes, row->sep)) {
        out->any = true;
        for (size_t i = 0; i < n->text.len; i++)
            if (n->text.data[i] == row->times)
                n->text.data[i] = 'x';
        rc = n->text.failed ? OPM_ENOMEM
                            : store_str(n->st, buf_str(&n->text), n->text.len, &out->shape);
    }
    if (!rc && next_element(n, &l->dtypes, row->sep)) {
        out->any = true;
        if (n->text.len)
            rc = store_cstr(n->st, dtype_name(buf_str(&n->text)), &out->dtype);
    }
    return !rc && n->text.failed ? OPM_ENOMEM : rc;
}

/* Which input is the weight: the second, unless only another one has its shape. */
static int weight_slot(struct neural *n, const struct neural_op_row *row, int *out)
{
    struct neural_list l = row->in;

    *out = -1;
    if (!row->weight_shape)
        return 0;
    for (int i = 0;; i++) {
        struct tensor_text t;
        int rc = next_tensor(n, &l, row, &t);

        if (rc || !t.any)
            return rc;
        if (t.shape == row->weight_shape && (*out < 0 || i == 1))
            *out = i;
    }
}

static int add_list(struct neural *n, uint32_t op, const struct neural_op_row *row, bool outputs)
{
    struct neural_list l = outputs ? row->out : row->in;
    int64_t slot[2] = { 0, 0 };
    int weight = -1, rc = outputs ? 0 : weight_slot(n, row, &weight);

    for (int i = 0; !rc; i++) {
        struct cell c[op_tensor_col_COUNT] = { 0 };
        bool is_weight = i == weight;
        struct tensor_text t;

        rc = next_tensor(n, &l, row, &t);
        if (rc || !t.any)
            break;
        c[op_tensor_col_op] = cell_id(op);
        c[op_tensor_col_io] = cell_str(outputs     ? n->word.output
                                       : is_weight ? n->word.weight
                                                   : n->word.input);
        c[op_tensor_col_slot] = cell_i64(slot[is_weight]++);
        c[op_tensor_col_name] = cell_str(t.name);
        c[op_tensor_col_dtype] = cell_str(t.dtype);
        c[op_tensor_col_shape] = cell_str(t.shape);
        if (t.shape && t.dtype)
            c[op_tensor_col_bytes] =
                cell_i64(tensor_bytes(store_text(n->st, t.shape), store_text(n->st, t.dtype)));
        rc = store_add(n->st, TABLE_op_tensor, c, NULL);
    }
    return rc;
}

int neural_add_op(struct neural *n, const struct neural_op_row *row, uint32_t *out)
{
    struct cell c[op_col_COUNT] = { 0 };
    int rc;

    c[op_col_name] = cell_str(row->name);
    c[op_col_type] = cell_str(row->type);
    c[op_col_post_op] = cell_str(row->post_op);
    c[op_col_engine] = cell_str(n->word.engine);
    c[op_col_weight_shape] = cell_str(row->weight_shape);
    c[op_col_weight_zero_ratio] = cell_f64(row->zero_ratio);
    c[op_col_sparse_support] = cell_i64(row->sparse_support);
    c[op_col_sparse_aim] = cell_f64(row->aim);
    c[op_col_sparse_ratio] = cell_f64(row->ratio);
    c[op_col_attributes] = cell_str(row->attributes);
    rc = store_add(n->st, TABLE_op, c, out);
    if (!rc)
        rc = u64map_put(&n->ops, op_key(row->name, row->type), *out);
    if (!rc)
        rc = add_list(n, *out, row, false);
    return rc ? rc : add_list(n, *out, row, true);
}

int neural_take_ops(struct neural *n, const struct store_part *part)
{
    int rc = 0;

    for (size_t i = part->from[TABLE_op]; i < part->to[TABLE_op] && !rc; i++) {
        struct cell name = store_cell(n->st, TABLE_op, i, op_col_name);
        struct cell type = store_cell(n->st, TABLE_op, i, op_col_type);
        uint64_t key = op_key(cell_text_id(name), cell_text_id(type));

        if (!u64map_get(&n->ops, key))
            rc = u64map_put(&n->ops, key, i);
    }
    for (size_t i = part->from[TABLE_op_tensor]; i < part->to[TABLE_op_tensor] && !rc; i++) {
        struct cell op = store_cell(n->st, TABLE_op_tensor, i, op_tensor_col_op);

        if (op.kind == CELL_I64 && !u64map_get(&n->tensors, (uint64_t)op.i64))
            rc = u64map_put(&n->tensors, (uint64_t)op.i64, i);
    }
    n->end_tensor = part->to[TABLE_op_tensor];
    return rc;
}

static bool is_input(const struct neural *n, size_t row, uint32_t op)
{
    struct cell of = store_cell(n->st, TABLE_op_tensor, row, op_tensor_col_op);
    struct cell io = store_cell(n->st, TABLE_op_tensor, row, op_tensor_col_io);

    return of.kind == CELL_I64 && of.i64 == op && io.kind == CELL_STR && io.str == n->word.input;
}

/* Their trace calls a weight an input like any: the second one, unless only another one has its
 * shape. Inputs behind it move up. The rows of an op lie together, inputs first. */
static int mark_weight(struct neural *n, uint32_t op, str_id shape)
{
    const uint64_t *first = u64map_get(&n->tensors, op);
    size_t weight = SIZE_MAX, end;
    int rc = 0;

    if (!first)
        return 0;
    for (end = *first; end < n->end_tensor && is_input(n, end, op); end++) {
        struct cell c = store_cell(n->st, TABLE_op_tensor, end, op_tensor_col_shape);

        if (c.kind == CELL_STR && c.str == shape && (weight == SIZE_MAX || end == *first + 1))
            weight = end;
    }
    for (size_t i = weight; i < end && !rc; i++) {
        int64_t slot = i == weight ? 0 : (int64_t)(i - *first) - 1;

        if (i == weight)
            rc = store_set(n->st, TABLE_op_tensor, i, op_tensor_col_io, cell_str(n->word.weight));
        if (!rc)
            rc = store_set(n->st, TABLE_op_tensor, i, op_tensor_col_slot, cell_i64(slot));
    }
    return rc;
}

int neural_complete_op(struct neural *n, const struct neural_op_row *row, uint32_t op)
{
    const struct {
        int col;
        struct cell cell;
    } facts[] = { { op_col_weight_shape, cell_str(row->weight_shape) },
                  { op_col_weight_zero_ratio, cell_f64(row->zero_ratio) },
                  { op_col_sparse_support, cell_i64(row->sparse_support) },
                  { op_col_sparse_aim, cell_f64(row->aim) },
                  { op_col_sparse_ratio, cell_f64(row->ratio) } };
    int rc = 0;

    if (row->weight_shape && store_cell(n->st, TABLE_op, op, op_col_weight_shape).kind == CELL_NULL)
        rc = mark_weight(n, op, row->weight_shape);
    for (size_t i = 0; i < ARRAY_SIZE(facts) && !rc; i++)
        if (store_cell(n->st, TABLE_op, op, facts[i].col).kind == CELL_NULL)
            rc = store_set(n->st, TABLE_op, op, facts[i].col, facts[i].cell);
    return rc;
}

int neural_add_span(struct neural *n, uint32_t track, int64_t ts, int64_t dur,
                    const struct site *site, str_id args)
{
    struct span_row row = SPAN_ROW_INIT;
    uint32_t id;
    int rc = store_site(n->st, site, &row.site);

    row.ts_ns = ts;
    row.dur_ns = dur;
    row.track = track;
    row.args = args;
    return rc ? rc : store_add_span(n->st, &row, &id);
}

int neural_add_step(struct neural *n, uint32_t track, int64_t num, int64_t ts, int64_t dur,
                    str_id model, bool warmup)
{
    struct cell c[step_col_COUNT] = { 0 };

    c[step_col_model] = cell_str(model);
    c[step_col_num] = cell_i64(num);
    c[step_col_ts] = cell_i64(ts);
    c[step_col_dur] = cell_i64(dur);
    c[step_col_warmup] = cell_i64(warmup);
    c[step_col_track] = cell_id(track);
    return store_add(n->st, TABLE_step, c, NULL);
}

int neural_add_track(struct neural *n, str_id name, int64_t pid, int64_t tid, uint32_t *out)
{
    struct cell c[track_col_COUNT] = { 0 };

    c[track_col_kind] = cell_str(n->word.thread);
    c[track_col_name] = cell_str(name);
    c[track_col_pid] = cell_i64(pid);
    c[track_col_tid] = cell_i64(tid);
    return store_add(n->st, TABLE_track, c, out);
}
