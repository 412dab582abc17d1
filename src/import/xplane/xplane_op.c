/* xplane_op.c -- operators out of HLO instructions. Their text, where an event has it, looks like
 *   %fusion.3 = bf16[8,128]{1,0} fusion(bf16[8,64]{1,0} %p0, ...), kind=kLoop
 * and tells the opcode and the shapes; else the name has to do. */
#include "import/xplane/xplane_int.h"

#include <ctype.h>
#include <string.h>

#define TENSORS_MAX 64

/* dtype[1,2]{...} at p; returns behind it, or NULL if there is none. */
static const char *shape_read(const char *p, const char *end, struct buf *dtype, struct buf *dims)
{
    const char *start = p;

    buf_clear(dtype);
    buf_clear(dims);
    while (p < end && (isalnum((unsigned char)*p)))
        p++;
    if (p == start || p == end || *p != '[' || !isalpha((unsigned char)*start))
        return NULL;
    buf_add(dtype, start, (size_t)(p - start));
    for (p++; p < end && *p != ']'; p++) {
        if (isdigit((unsigned char)*p))
            buf_addc(dims, *p);
        else if (*p == ',')
            buf_addc(dims, 'x');
        else if (*p != '<' && *p != '=')
            return NULL;
    }
    if (p == end)
        return NULL;
    p++;
    if (p < end && *p == '{') {
        while (p < end && *p != '}')
            p++;
        p += p < end;
    }
    return p;
}

static void tensor_add(struct xp *x, uint32_t op, const char *io, int64_t slot,
                       const struct buf *dtype, const struct buf *dims)
{
    struct tensor_row row = { .op = op, .io = io, .slot = slot, .bytes = OPM_NULL_I64 };
    int64_t n = dims->len ? shape_elements(buf_str(dims), dims->len) : 1;
    size_t size = dtype_bytes(buf_str(dtype), dtype->len);

    row.dtype = build_buf(&x->b, dtype);
    row.shape = build_text(&x->b, dims);
    if (n < 0 || !size || __builtin_mul_overflow(n, (int64_t)size, &row.bytes))
        row.bytes = OPM_NULL_I64;
    build_tensor(&x->b, &row);
}

/* All shapes between p and end. */
static void tensors_read(struct xp *x, uint32_t op, const char *io, const char *p, const char *end)
{
    struct buf dtype = { 0 }, dims = { 0 };
    int64_t slot = 0;

    while (p < end && slot < TENSORS_MAX && !x->b.rc) {
        const char *next = NULL;

        /* A shape begins behind a bracket, a comma or a blank. */
        if (isalpha((unsigned char)*p))
            next = shape_read(p, end, &dtype, &dims);
        if (next) {
            tensor_add(x, op, io, slot++, &dtype, &dims);
            p = next;
            continue;
        }
        while (p < end && !strchr(" ,(", *p))
            p++;
        p += p < end;
    }
    buf_release(&dtype);
    buf_release(&dims);
}

/* The instruction's text taken apart. */
struct hlo {
    const char *result, *result_end; /* shapes of what it gives */
    const char *opcode;
    size_t opcode_len;
    const char *operands, *operands_end;
};

static const char *closing(const char *p, const char *end)
{
    int depth = 0;

    for (; p < end; p++) {
        if (*p == '(')
            depth++;
        else if (*p == ')' && --depth == 0)
            return p;
    }
    return end;
}

static bool hlo_parse(const char *text, size_t len, struct hlo *h)
{
    const char *end = text + len, *p = memmem(text, len, " = ", 3);

    if (!p || text[0] != '%')
        return false;
    p += 3;
    h->result = p;
    if (p < end && *p == '(') {
        p = closing(p, end);
        p += p < end;
    } else {
        while (p < end && *p != ' ')
            p++;
    }
    h->result_end = p;
    while (p < end && *p == ' ')
        p++;
    h->opcode = p;
    while (p < end && *p != '(')
        p++;
    if (p == end || p == h->opcode)
        return false;
    h->opcode_len = (size_t)(p - h->opcode);
    h->operands = p + 1;
    h->operands_end = closing(p, end);
    return true;
}

/* Name without the number behind it: fusion.12 is a fusion. */
static str_id type_of_name(struct xp *x, str_id name)
{
    const char *text = store_text(x->b.st, name), *dot;
    size_t len = text ? strpool_len(store_strings(x->b.st), name) : 0;

    if (!text)
        return 0;
    dot = memrchr(text, '.', len);
    if (dot && dot > text && dot[1] && strspn(dot + 1, "0123456789") == strlen(dot + 1))
        len = (size_t)(dot - text);
    return build_str(&x->b, text, len);
}

/* The framework's operator out of a path such as jit(f)/jit(main)/dot_general[...]: or Conv2D:. */
static str_id type_of_path(struct xp *x, str_id path)
{
    const char *text = path ? store_text(x->b.st, path) : NULL, *slash, *end;

    slash = text && build_echo(&x->b, strpool_len(store_strings(x->b.st), path))
                ? strrchr(text, '/')
                : NULL;
    if (!slash || !slash[1])
        return 0;
    end = slash + 1 + strcspn(slash + 1, "[:");
    return end > slash + 1 ? build_str(&x->b, slash + 1, (size_t)(end - slash - 1)) : 0;
}

static void put_attribute(struct xp *x, struct json_writer *w, const char *key, str_id value)
{
    if (!value || !build_echo(&x->b, strpool_len(store_strings(x->b.st), value)))
        return;
    json_key(w, key);
    json_cstr(w, store_text(x->b.st, value));
}

static str_id attributes_of(struct xp *x, const struct xfacts *f)
{
    struct buf text = { 0 };
    struct json_writer w = { .buf = &text };
    str_id id;

    json_object(&w);
    put_attribute(x, &w, "hlo_module", f->hlo_module);
    put_attribute(x, &w, "tf_op", f->tf_op);
    put_attribute(x, &w, "path", f->op_name);
    json_object_end(&w);
    build_check(&x->b, &text);
    id = text.len > 2 ? build_buf(&x->b, &text) : 0;
    buf_release(&text);
    return id;
}

static uint32_t op_make(struct xp *x, str_id name, str_id hlo_text, const struct xfacts *f)
{
    struct op_row row = OP_ROW_INIT;
    struct hlo h;
    const char *text = hlo_text ? store_text(x->b.st, hlo_text) : NULL;
    size_t len = hlo_text ? strpool_len(store_strings(x->b.st), hlo_text) : 0;
    bool parsed = text && build_echo(&x->b, len) && hlo_parse(text, len, &h);
    uint32_t op;

    row.name = name;
    row.type = f->hlo_category ? f->hlo_category
               : parsed        ? build_str(&x->b, h.opcode, h.opcode_len)
                               : type_of_path(x, f->op_name ? f->op_name : f->tf_op);
    if (!row.type)
        row.type = type_of_name(x, name);
    row.device = x->plane.device_name;
    row.engine = build_cstr(&x->b, "XLA");
    row.flops = f->flops > 0 ? f->flops : OPM_NULL_I64;
    row.bytes = f->bytes > 0 ? f->bytes : OPM_NULL_I64;
    row.attributes = attributes_of(x, f);
    op = build_op(&x->b, &row);
    if (parsed) {
        tensors_read(x, op, "input", h.operands, h.operands_end);
        tensors_read(x, op, "output", h.result, h.result_end);
    }
    return op;
}

uint32_t xplane_op(struct xp *x, struct xevent_metadata *m, const struct xfacts *facts,
                   bool is_op_line)
{
    str_id name = facts->hlo_op, text = 0;
    const uint64_t *at;
    uint64_t key;
    uint32_t op;

    if (is_op_line && m) {
        text = m->name;
        name = name ? name : m->display ? m->display : m->name;
    }
    if (!name || x->b.rc)
        return OPM_NULL_ID;
    key = ((uint64_t)name << 32 | x->plane.device_name) ^
          (facts->hlo_module ? (uint64_t)facts->hlo_module * 0x9e3779b97f4a7c15u
                             : (uint64_t)facts->program * 0xbf58476d1ce4e5b9u);
    at = u64map_get(&x->op, key);
    if (at)
        return (uint32_t)*at;
    op = op_make(x, name, text, facts);
    if (!x->b.rc && u64map_put(&x->op, key, op))
        x->b.rc = OPM_ENOMEM;
    return op;
}
