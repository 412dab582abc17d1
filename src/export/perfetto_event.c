/* perfetto_event.c -- what a TrackEvent says about a span: name, category, debug annotations. */
#include "export/perfetto_int.h"

#include <string.h>

enum {
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_BOOL = 2,
    ANNOTATION_INT = 4,
    ANNOTATION_DOUBLE = 5,
    ANNOTATION_STRING = 6,
    ANNOTATION_JSON = 9,
    ANNOTATION_NAME = 10,
    ANNOTATION_DICT = 11,
    ANNOTATION_ARRAY = 12,
    ANNOTATION_STRING_IID = 17,

    INTERNED_CATEGORIES = 1,
    INTERNED_EVENT_NAMES = 2,
    INTERNED_ANNOTATION_NAMES = 3,
    INTERNED_ANNOTATION_STRINGS = 29,
    INTERNED_IID = 1,
    INTERNED_TEXT = 2,
};

/* Names of annotations that are no column of op; those come behind, in the order of the columns. */
enum annotation {
    NAME_LAYER = 1, /* an interned number is never 0 */
    NAME_PHASE,
    NAME_OP,
    NAME_STEP,
    NAME_RECORD,
    NAME_CORRELATION,
    NAME_NEVER_ENDED,
    NAME_ARGS,
    NAME_INPUTS,
    NAME_WEIGHTS,
    NAME_OUTPUTS,
    NAME_TENSORS,
    NAME_IO,
    NAME_DTYPE,
    NAME_SHAPE,
    NAME_NUM,
    NAME_MODEL,
    NAME_LABEL,
    NAME_WARMUP,
    NAME_TRACK,
    NAME_OP_COLUMNS,
};
static const char *const annotation_names[NAME_OP_COLUMNS] = {
    [NAME_LAYER] = "layer",
    [NAME_PHASE] = "phase",
    [NAME_OP] = "op",
    [NAME_STEP] = "step",
    [NAME_RECORD] = "record",
    [NAME_CORRELATION] = "correlation",
    [NAME_NEVER_ENDED] = "never ended",
    [NAME_ARGS] = "args",
    [NAME_INPUTS] = "inputs",
    [NAME_WEIGHTS] = "weights",
    [NAME_OUTPUTS] = "outputs",
    [NAME_TENSORS] = "tensors",
    [NAME_IO] = "io",
    [NAME_DTYPE] = "dtype",
    [NAME_SHAPE] = "shape",
    [NAME_NUM] = "num",
    [NAME_MODEL] = "model",
    [NAME_LABEL] = "label",
    [NAME_WARMUP] = "warmup",
    [NAME_TRACK] = "track",
};

/* A column of a table and the annotation that shows it. */
struct shown_column {
    int col;
    uint32_t name;
};

struct buf *perfetto_scratch(struct perfetto *p)
{
    p->failed |= p->scratch.failed;
    buf_clear(&p->scratch);
    return &p->scratch;
}

void perfetto_annotation_names(struct buf *out)
{
    const struct table_def *op = &store_table_defs[TABLE_op];

    for (uint32_t i = 1; i < NAME_OP_COLUMNS + (uint32_t)op->ncol; i++) {
        const char *name =
            i < NAME_OP_COLUMNS ? annotation_names[i] : op->col[i - NAME_OP_COLUMNS].name;
        size_t entry = pb_begin(out, INTERNED_ANNOTATION_NAMES);

        pb_varint(out, INTERNED_IID, i);
        pb_str(out, INTERNED_TEXT, name);
        pb_end(out, entry);
    }
}

static void add_text(struct perfetto *p, struct buf *out, uint32_t field, str_id text)
{
    const char *s = strpool_get(store_strings(p->st), text);
    size_t len = strpool_len(store_strings(p->st), text);

    if (!text_is_utf8(s, len)) {
        buf_clear(&p->utf8);
        text_add_utf8(&p->utf8, s, len);
        p->failed |= p->utf8.failed;
        s = buf_str(&p->utf8);
        len = p->utf8.len;
    }
    pb_bytes(out, field, s, len);
}

/* The number of a string, which goes out before the next event if it has not yet. */
static uint64_t intern(struct perfetto *p, enum intern kind, str_id text)
{
    static const uint32_t field[INTERN_COUNT] = {
        [INTERN_CATEGORY] = INTERNED_CATEGORIES,
        [INTERN_NAME] = INTERNED_EVENT_NAMES,
        [INTERN_VALUE] = INTERNED_ANNOTATION_STRINGS,
    };
    uint8_t *seen = &p->seen[kind][text / 8], bit = (uint8_t)(1u << text % 8);

    if (!(*seen & bit)) {
        size_t entry = pb_begin(&p->interned, field[kind]);

        pb_varint(&p->interned, INTERNED_IID, text);
        add_text(p, &p->interned, INTERNED_TEXT, text);
        pb_end(&p->interned, entry);
        *seen |= bit;
    }
    return text;
}

/* The annotation `name` for a cell, unless that is NULL, as an entry of `field`. */
static void add_cell(struct perfetto *p, struct buf *out, uint32_t field, uint32_t name,
                     struct cell cell, bool is_json)
{
    size_t entry;

    if (cell.kind == CELL_NULL)
        return;
    entry = pb_begin(out, field);
    pb_varint(out, ANNOTATION_NAME_IID, name);
    if (cell.kind == CELL_I64)
        pb_varint(out, ANNOTATION_INT, (uint64_t)cell.i64);
    else if (cell.kind == CELL_F64)
        pb_double(out, ANNOTATION_DOUBLE, cell.f64);
    else if (is_json && text_is_json(strpool_get(store_strings(p->st), cell.str),
                                     strpool_len(store_strings(p->st), cell.str)))
        add_text(p, out, ANNOTATION_JSON, cell.str);
    else if (is_json)
        add_text(p, out, ANNOTATION_STRING, cell.str);
    else
        pb_varint(out, ANNOTATION_STRING_IID, intern(p, INTERN_VALUE, cell.str));
    pb_end(out, entry);
}

static void add_row(struct perfetto *p, struct buf *out, enum table_id table, size_t row,
                    const struct shown_column *columns, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_cell(p, out, ANNOTATION_DICT, columns[i].name,
                 store_cell(p->st, table, row, columns[i].col), false);
}

static int make_site(void *ctx, uint32_t i, struct buf *out, size_t *out_head)
{
    struct perfetto *p = ctx;
    const struct site *site = &p->tl.site[i];

    *out_head = 0;
    pb_varint(out, EVENT_TYPE, TYPE_SLICE_BEGIN);
    if (site->cat)
        pb_varint(out, EVENT_CATEGORY_IIDS, intern(p, INTERN_CATEGORY, site->cat));
    if (site->name)
        pb_varint(out, EVENT_NAME_IID, intern(p, INTERN_NAME, site->name));
    add_cell(p, out, EVENT_DEBUG_ANNOTATIONS, NAME_LAYER, cell_str(site->layer), false);
    add_cell(p, out, EVENT_DEBUG_ANNOTATIONS, NAME_PHASE, cell_str(site->phase), false);
    return 0;
}

static void add_tensors(struct perfetto *p, struct buf *out, uint32_t op)
{
    static const struct shown_column columns[] = {
        { op_tensor_col_name, NAME_OP_COLUMNS + op_col_name },
        { op_tensor_col_dtype, NAME_DTYPE },
        { op_tensor_col_shape, NAME_SHAPE },
        { op_tensor_col_bytes, NAME_OP_COLUMNS + op_col_bytes },
        { op_tensor_col_io, NAME_IO },
    };
    const struct tensor_ref *ref;
    size_t n = timeline_tensors(&p->tl, op, &ref), list = 0;

    for (size_t i = 0; i < n; i++) {
        size_t entry;

        if (!i || ref[i].io != ref[i - 1].io) {
            if (i)
                pb_end(out, list);
            list = pb_begin(out, ANNOTATION_DICT);
            pb_varint(out, ANNOTATION_NAME_IID, NAME_INPUTS + ref[i].io);
        }
        entry = pb_begin(out, ANNOTATION_ARRAY);
        /* What it is for, is said by the name of the list. */
        add_row(p, out, TABLE_op_tensor, ref[i].row, columns,
                ARRAY_SIZE(columns) - (ref[i].io < 3));
        pb_end(out, entry);
    }
    if (n)
        pb_end(out, list);
}

static int make_op(void *ctx, uint32_t i, struct buf *out, size_t *out_head)
{
    struct perfetto *p = ctx;
    size_t entry = pb_begin(out, EVENT_DEBUG_ANNOTATIONS);

    *out_head = 0;
    pb_varint(out, ANNOTATION_NAME_IID, NAME_OP);
    for (int col = 0; col < op_col_COUNT; col++)
        add_cell(p, out, ANNOTATION_DICT, NAME_OP_COLUMNS + (uint32_t)col,
                 store_cell(p->st, TABLE_op, i, col),
                 col == op_col_attributes || col == op_col_nodes);
    add_tensors(p, out, i);
    pb_end(out, entry);
    return 0;
}

static const struct shown_column step_columns[] = {
    { step_col_id, NAME_OP_COLUMNS + op_col_id },
    { step_col_num, NAME_NUM },
    { step_col_model, NAME_MODEL },
    { step_col_warmup, NAME_WARMUP },
    { step_col_track, NAME_TRACK },
};
static const struct shown_column record_columns[] = {
    { record_col_id, NAME_OP_COLUMNS + op_col_id },
    { record_col_label, NAME_LABEL },
    { record_col_warmup, NAME_WARMUP },
    { record_col_track, NAME_TRACK },
};

static void add_region(struct perfetto *p, struct buf *out, enum table_id table, size_t row)
{
    size_t entry = pb_begin(out, EVENT_DEBUG_ANNOTATIONS);

    pb_varint(out, ANNOTATION_NAME_IID, table == TABLE_step ? NAME_STEP : NAME_RECORD);
    if (table == TABLE_step)
        add_row(p, out, table, row, step_columns, ARRAY_SIZE(step_columns));
    else
        add_row(p, out, table, row, record_columns, ARRAY_SIZE(record_columns));
    pb_end(out, entry);
}

static void add_kept_region(struct perfetto *p, struct buf *out, struct region_body *kept,
                            enum table_id table, uint32_t id)
{
    if (id >= store_nrow(p->st, table))
        return;
    if (kept->id != id) {
        buf_clear(&kept->body);
        add_region(p, &kept->body, table, id);
        p->failed |= kept->body.failed;
        kept->id = id;
    }
    buf_add(out, buf_str(&kept->body), kept->body.len);
}

static void add_never_ended(struct buf *out)
{
    size_t entry = pb_begin(out, EVENT_DEBUG_ANNOTATIONS);

    pb_varint(out, ANNOTATION_NAME_IID, NAME_NEVER_ENDED);
    pb_varint(out, ANNOTATION_BOOL, 1);
    pb_end(out, entry);
}

int perfetto_span(struct perfetto *p, uint32_t span, struct buf *out)
{
    const struct timeline *tl = &p->tl;
    uint32_t op = tl->site[tl->span_site[span]].op;
    struct fragment item;
    const char *made;
    int rc = fragments_get(&p->sites, tl->span_site[span], make_site, p, &made, &item);

    if (rc)
        return rc;
    buf_add(out, made, item.len);
    if (op < tl->nop) {
        rc = fragments_get(&p->ops, op, make_op, p, &made, &item);
        if (rc)
            return rc;
        buf_add(out, made, item.len);
    }
    if (tl->step)
        add_kept_region(p, out, &p->step, TABLE_step, tl->step[span]);
    if (tl->record)
        add_kept_region(p, out, &p->record, TABLE_record, tl->record[span]);
    if (tl->correlation)
        add_cell(p, out, EVENT_DEBUG_ANNOTATIONS, NAME_CORRELATION, cell_i64(tl->correlation[span]),
                 false);
    if (tl->dur[span] < 0)
        add_never_ended(out);
    if (tl->args)
        add_cell(p, out, EVENT_DEBUG_ANNOTATIONS, NAME_ARGS, cell_str(tl->args[span]), true);
    return out->failed ? OPM_ENOMEM : 0;
}

void perfetto_region(struct perfetto *p, const struct regions *r, size_t row, struct buf *out)
{
    bool is_step = r == &p->tl.steps;
    struct buf *name = perfetto_scratch(p);

    timeline_region_name(&p->tl, r, row, name);
    pb_varint(out, EVENT_TYPE, TYPE_SLICE_BEGIN);
    pb_str(out, EVENT_CATEGORIES, is_step ? "step" : "record");
    buf_clear(&p->utf8);
    text_add_utf8(&p->utf8, buf_str(name), name->len);
    p->failed |= p->utf8.failed;
    pb_bytes(out, EVENT_NAME, buf_str(&p->utf8), p->utf8.len);
    add_region(p, out, is_step ? TABLE_step : TABLE_record, row);
    if (!r->dur || r->dur[row] < 0)
        add_never_ended(out);
}

/* key: value, both as they stand in a table. */
static void add_pair(struct perfetto *p, struct buf *out, struct cell key, struct cell value)
{
    size_t entry;

    if (key.kind != CELL_STR || value.kind == CELL_NULL)
        return;
    entry = pb_begin(out, EVENT_DEBUG_ANNOTATIONS);
    add_text(p, out, ANNOTATION_NAME, key.str);
    if (value.kind == CELL_STR)
        add_text(p, out, ANNOTATION_STRING, value.str);
    else
        pb_varint(out, ANNOTATION_INT, (uint64_t)value.i64);
    pb_end(out, entry);
}

void perfetto_meta(struct perfetto *p, struct buf *out)
{
    pb_varint(out, EVENT_TYPE, TYPE_INSTANT);
    pb_str(out, EVENT_NAME, "about this trace");
    for (size_t i = 0; i < store_nrow(p->st, TABLE_meta); i++)
        add_pair(p, out, store_cell(p->st, TABLE_meta, i, meta_col_key),
                 store_cell(p->st, TABLE_meta, i, meta_col_value));
    for (size_t i = 0; i < store_nrow(p->st, TABLE_import_stat); i++)
        add_pair(p, out, store_cell(p->st, TABLE_import_stat, i, import_stat_col_name),
                 store_cell(p->st, TABLE_import_stat, i, import_stat_col_count));
}
