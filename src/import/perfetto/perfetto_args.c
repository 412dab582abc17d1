/* perfetto_args.c -- debug annotations into args, and those of our own export back into columns. */
#include "import/perfetto/perfetto_int.h"

#include <math.h>
#include <string.h>

#define DEPTH_MAX 24 /* of nested annotations; deeper ones become null */

enum {
    A_NAME_IID = 1,
    A_BOOL = 2,
    A_UINT = 3,
    A_INT = 4,
    A_DOUBLE = 5,
    A_STRING = 6,
    A_POINTER = 7,
    A_NESTED = 8,
    A_JSON = 9,
    A_NAME = 10,
    A_DICT = 11,
    A_ARRAY = 12,
    A_STRING_IID = 17,
};

str_id pf_annotation_name(struct pf *p, struct pf_seq *s, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    str_id name = 0;

    while (pb_next(&r, &g)) {
        if (g.number == A_NAME_IID && g.wire == PB_VARINT)
            name = pf_text(p, s, PF_ANNOTATION_NAMES, g.value);
        else if (g.number == A_NAME && g.wire == PB_LEN)
            name = build_str(&p->b, (const char *)g.p, g.len);
    }
    return name;
}

static double bits_double(uint64_t bits)
{
    double v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

static void put_double(struct json_writer *w, double v)
{
    if (isnan(v) || isinf(v))
        json_cstr(w, isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity");
    else
        json_f64(w, v);
}

static void put_value(struct pf_args *a, const struct pb_field *f, int depth);

/* NestedValue, the former way: nested_type=1, dict_keys=2, dict_values=3, array_values=4, int=5,
 * double=6, bool=7, string=8. */
static void put_nested(struct pf_args *a, const struct pb_field *f, int depth)
{
    struct rd r = rd_of(f->p, f->len), keys, values;
    struct pb_field g, k;
    uint64_t type = 0;
    bool done = false;

    while (pb_next(&r, &g))
        if (g.number == 1 && g.wire == PB_VARINT)
            type = g.value;
    if (depth >= DEPTH_MAX) {
        store_stat(a->p->b.st, STAT_args_too_deep, 1);
        json_null(&a->w);
        return;
    }
    if (type == 1) {
        keys = values = rd_of(f->p, f->len);
        json_object(&a->w);
        while (pb_next(&keys, &k)) {
            char key[256];

            if (k.number != 2 || k.wire != PB_LEN)
                continue;
            while (pb_next(&values, &g) && !(g.number == 3 && g.wire == PB_LEN))
                ;
            if (values.bad || g.number != 3)
                break;
            snprintf(key, sizeof(key), "%.*s", (int)MIN(k.len, sizeof(key) - 1), (const char *)k.p);
            json_key(&a->w, key);
            put_nested(a, &g, depth + 1);
        }
        json_object_end(&a->w);
        return;
    }
    if (type == 2) {
        json_array(&a->w);
        for (r = rd_of(f->p, f->len); pb_next(&r, &g);)
            if (g.number == 4 && g.wire == PB_LEN)
                put_nested(a, &g, depth + 1);
        json_array_end(&a->w);
        return;
    }
    for (r = rd_of(f->p, f->len); pb_next(&r, &g) && !done;) {
        done = true;
        if (g.number == 5 && g.wire == PB_VARINT)
            json_i64(&a->w, (int64_t)g.value);
        else if (g.number == 6 && g.wire == PB_I64)
            put_double(&a->w, bits_double(g.value));
        else if (g.number == 7 && g.wire == PB_VARINT)
            json_bool(&a->w, g.value != 0);
        else if (g.number == 8 && g.wire == PB_LEN)
            json_str(&a->w, (const char *)g.p, g.len);
        else
            done = false;
    }
    if (!done)
        json_null(&a->w);
}

static size_t text_len(const struct pf_args *a, str_id text)
{
    return strpool_len(store_strings(a->p->b.st), text);
}

/* The key that a name makes. */
static const char *key_of(struct pf_args *a, str_id name)
{
    return name && build_echo(&a->p->b, text_len(a, name)) ? store_text(a->p->b.st, name) : "?";
}

static bool put_scalar(struct pf_args *a, const struct pb_field *g)
{
    struct json_writer *w = &a->w;
    str_id text;

    switch (g->wire) {
    case PB_VARINT:
        if (g->number == A_BOOL)
            json_bool(w, g->value != 0);
        else if (g->number == A_UINT)
            json_u64(w, g->value);
        else if (g->number == A_INT)
            json_i64(w, (int64_t)g->value);
        else if (g->number == A_POINTER) {
            char hex[24];

            snprintf(hex, sizeof(hex), "0x%llx", (unsigned long long)g->value);
            json_cstr(w, hex);
        } else if (g->number == A_STRING_IID) {
            text = pf_text(a->p, a->s, PF_ANNOTATION_STRINGS, g->value);
            if (text && build_echo(&a->p->b, text_len(a, text)))
                json_str(w, store_text(a->p->b.st, text), text_len(a, text));
            else
                json_null(w);
        } else
            return false;
        return true;
    case PB_I64:
        if (g->number != A_DOUBLE)
            return false;
        put_double(w, bits_double(g->value));
        return true;
    case PB_LEN:
        if (g->number == A_JSON && json_valid((const char *)g->p, g->len))
            json_raw(w, (const char *)g->p, g->len);
        else if (g->number == A_STRING || g->number == A_JSON)
            json_str(w, (const char *)g->p, g->len);
        else
            return false;
        return true;
    default:
        return false;
    }
}

/* Entries of a dictionary or array, all of one kind. */
static void put_entries(struct pf_args *a, const struct pb_field *f, uint32_t kind, int depth)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    if (kind == A_DICT)
        json_object(&a->w);
    else
        json_array(&a->w);
    while (pb_next(&r, &g) && !a->p->b.rc) {
        str_id name;

        if (g.number != kind || g.wire != PB_LEN)
            continue;
        if (kind == A_DICT) {
            name = pf_annotation_name(a->p, a->s, &g);
            json_key(&a->w, key_of(a, name));
        }
        put_value(a, &g, depth + 1);
    }
    if (kind == A_DICT)
        json_object_end(&a->w);
    else
        json_array_end(&a->w);
}

static void put_value(struct pf_args *a, const struct pb_field *f, int depth)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    if (depth >= DEPTH_MAX) {
        store_stat(a->p->b.st, STAT_args_too_deep, 1);
        json_null(&a->w);
        return;
    }
    while (pb_next(&r, &g)) {
        if (g.wire == PB_LEN && (g.number == A_DICT || g.number == A_ARRAY)) {
            put_entries(a, f, g.number, depth);
            return;
        }
        if (g.wire == PB_LEN && g.number == A_NESTED) {
            put_nested(a, &g, depth + 1);
            return;
        }
        if (put_scalar(a, &g))
            return;
    }
    json_null(&a->w);
}

void pf_args_key(struct pf_args *a, const char *key)
{
    if (!a->any) {
        a->w = (struct json_writer){ .buf = &a->text };
        json_object(&a->w);
    }
    a->any = true;
    json_key(&a->w, key);
}

void pf_annotation(struct pf_args *a, const struct pb_field *f)
{
    str_id name = pf_annotation_name(a->p, a->s, f);

    pf_args_key(a, key_of(a, name));
    put_value(a, f, 1);
}

str_id pf_args_end(struct pf_args *a)
{
    str_id id = 0;

    if (a->any) {
        json_object_end(&a->w);
        id = build_buf(&a->p->b, &a->text);
    }
    buf_release(&a->text);
    return id;
}

/* ---- our own export ---- */

/* A value of a dictionary of ours. */
struct value {
    str_id text;
    int64_t number;
    double real;
};

static struct value read_value(struct pf *p, struct pf_seq *s, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct value v = { .number = OPM_NULL_I64, .real = NAN };
    struct pb_field g;

    while (pb_next(&r, &g)) {
        if (g.number == A_INT && g.wire == PB_VARINT)
            v.number = (int64_t)g.value;
        else if (g.number == A_DOUBLE && g.wire == PB_I64)
            v.real = bits_double(g.value);
        else if (g.number == A_STRING_IID && g.wire == PB_VARINT)
            v.text = pf_text(p, s, PF_ANNOTATION_STRINGS, g.value);
        else if ((g.number == A_STRING || g.number == A_JSON) && g.wire == PB_LEN)
            v.text = build_str(&p->b, (const char *)g.p, g.len);
    }
    return v;
}

/* The cell that a column of that type makes of it. */
static struct cell value_cell(const struct value *v, enum col_type type)
{
    switch (type) {
    case COL_I64:
    case COL_ID:
        return cell_i64(v->number);
    case COL_F64:
        return cell_f64(v->number != OPM_NULL_I64 ? (double)v->number : v->real);
    case COL_STR:
        return cell_str(v->text);
    }
    return cell_null();
}

/* Fill the cells of a row from a dictionary whose names are those of its columns. */
static void read_row(struct pf *p, struct pf_seq *s, const struct pb_field *f,
                     const struct table_def *def, struct cell *cells, int64_t *out_id)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    while (pb_next(&r, &g) && !p->b.rc) {
        struct value v;
        const char *name;
        int col;

        if (g.number != A_DICT || g.wire != PB_LEN)
            continue;
        name = store_text(p->b.st, pf_annotation_name(p, s, &g));
        col = name ? table_find_col(def, name) : -1;
        v = read_value(p, s, &g);
        if (name && strcmp(name, "id") == 0)
            *out_id = v.number;
        else if (col >= 0)
            cells[col] = value_cell(&v, def->col[col].type);
    }
}

static void read_tensors(struct pf *p, struct pf_seq *s, const struct pb_field *f, uint32_t op)
{
    static const char *const lists[] = { "inputs", "weights", "outputs" };
    static const char *const ios[] = { "input", "weight", "output" };
    struct rd r = rd_of(f->p, f->len), items;
    struct pb_field g, h;

    while (pb_next(&r, &g) && !p->b.rc) {
        const char *name;
        int64_t slot = 0, id;

        if (g.number != A_DICT || g.wire != PB_LEN)
            continue;
        name = store_text(p->b.st, pf_annotation_name(p, s, &g));
        for (size_t i = 0; name && i < ARRAY_SIZE(lists); i++) {
            if (strcmp(name, lists[i]) != 0)
                continue;
            for (items = rd_of(g.p, g.len); pb_next(&items, &h) && !p->b.rc;) {
                struct cell row[op_tensor_col_COUNT] = { 0 };

                if (h.number != A_ARRAY || h.wire != PB_LEN)
                    continue;
                read_row(p, s, &h, &store_table_defs[TABLE_op_tensor], row, &id);
                row[op_tensor_col_op] = cell_id(op);
                row[op_tensor_col_io] = cell_str(build_cstr(&p->b, ios[i]));
                row[op_tensor_col_slot] = cell_i64(slot++);
                if (!p->b.rc)
                    p->b.rc = store_add(p->b.st, TABLE_op_tensor, row, NULL);
            }
        }
    }
}

/* The operator of an annotation; its description stands in every event and is read once. */
static uint32_t read_op(struct pf *p, struct pf_seq *s, const struct pb_field *f)
{
    struct cell row[op_col_COUNT] = { 0 };
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    int64_t id = OPM_NULL_I64;
    const uint64_t *at;
    uint32_t op = OPM_NULL_ID;

    while (id == OPM_NULL_I64 && pb_next(&r, &g)) {
        const char *name;

        if (g.number != A_DICT || g.wire != PB_LEN)
            continue;
        name = store_text(p->b.st, pf_annotation_name(p, s, &g));
        if (name && strcmp(name, "id") == 0)
            id = read_value(p, s, &g).number;
    }
    at = u64map_get(&p->our_op, (uint64_t)id);
    if (at || id == OPM_NULL_I64)
        return at ? (uint32_t)*at : OPM_NULL_ID;
    read_row(p, s, f, &store_table_defs[TABLE_op], row, &id);
    if (!p->b.rc)
        p->b.rc = store_add(p->b.st, TABLE_op, row, &op);
    if (!p->b.rc && u64map_put(&p->our_op, (uint64_t)id, op))
        p->b.rc = OPM_ENOMEM;
    read_tensors(p, s, f, op);
    return op;
}

static void read_region(struct pf *p, struct pf_seq *s, const struct pb_field *f, bool is_record,
                        struct pf_region *out)
{
    struct cell step[step_col_COUNT] = { 0 }, record[record_col_COUNT] = { 0 };
    struct cell *text = is_record ? &record[record_col_label] : &step[step_col_model];
    struct cell *warmup = is_record ? &record[record_col_warmup] : &step[step_col_warmup];
    int64_t id;

    read_row(p, s, f, &store_table_defs[is_record ? TABLE_record : TABLE_step],
             is_record ? record : step, &id);
    *out = (struct pf_region){
        .is_record = is_record,
        .text = text->kind == CELL_STR ? text->str : 0,
        .num = cell_i64_or(step[step_col_num], OPM_NULL_I64),
        .warmup = warmup->kind == CELL_I64 && warmup->i64 == 1,
    };
}

bool pf_our_annotation(struct pf *p, struct pf_seq *s, const struct pb_field *f,
                       struct pf_span_facts *facts)
{
    const char *name = store_text(p->b.st, pf_annotation_name(p, s, f));

    if (!name)
        return false;
    if (strcmp(name, "layer") == 0)
        facts->layer = read_value(p, s, f).text;
    else if (strcmp(name, "phase") == 0)
        facts->phase = read_value(p, s, f).text;
    else if (strcmp(name, "correlation") == 0)
        facts->correlation = read_value(p, s, f).number;
    else if (strcmp(name, "args") == 0)
        facts->args = read_value(p, s, f).text;
    else if (strcmp(name, "op") == 0)
        facts->op = read_op(p, s, f);
    else if (strcmp(name, "step") == 0) {
        read_region(p, s, f, false, &facts->step);
        facts->has_step = true;
    } else if (strcmp(name, "record") == 0) {
        read_region(p, s, f, true, &facts->record);
        facts->has_record = true;
    } else
        return strcmp(name, "never ended") == 0;
    return true;
}
