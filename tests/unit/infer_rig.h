/* infer_rig.h -- models of one node from a line of text, for tests of what is known about
 * operators. */
#ifndef INFER_RIG_H
#define INFER_RIG_H

#include "graph_rig.h"

struct op_case {
    const char *op;
    int opset;
    const char *in;    /* "2x3" float input, "int8:2x3", "i[1,2]" constant, "f[0.5]", "-" absent */
    const char *attrs; /* "axis=1 pads=1,1, mode='linear' scales=1.5f,2f" */
    const char *want;  /* outputs, separated by " | "; "!text": an error that has the text */
};

static inline enum tensor_type type_named(const char *name, size_t len)
{
    for (int t = 1; t < TENSOR_NTYPES; t++)
        if (strlen(tensor_type_name(t)) == len && memcmp(tensor_type_name(t), name, len) == 0)
            return (enum tensor_type)t;
    fail_msg("no type %.*s", (int)len, name);
    return TENSOR_NONE;
}

/* An input whose dimensions may have names: "Nx3x?". */
static inline void put_input(struct buf *b, const char *name, const char *spec)
{
    const char *colon = strchr(spec, ':');
    enum tensor_type type = colon ? type_named(spec, (size_t)(colon - spec)) : TENSOR_F32;
    size_t info = pb_begin(b, 11), t, tensor, shape, dim;

    spec = colon ? colon + 1 : spec;
    pb_str(b, 1, name);
    t = pb_begin(b, 2);
    tensor = pb_begin(b, 1);
    pb_varint(b, 1, type);
    if (strcmp(spec, "unknown") != 0) {
        shape = pb_begin(b, 2);
        while (*spec && strcmp(spec, "scalar") != 0) {
            size_t n = strcspn(spec, "x");

            dim = pb_begin(b, 1);
            if (*spec >= '0' && *spec <= '9')
                pb_varint(b, 1, strtoull(spec, NULL, 10));
            else if (*spec != '?')
                pb_bytes(b, 2, spec, n);
            pb_end(b, dim);
            spec += n + (spec[n] == 'x');
        }
        pb_end(b, shape);
    }
    pb_end(b, tensor);
    pb_end(b, t);
    pb_end(b, info);
}

/* A constant "i[1,2]", "f[0.5]" (1-D), "i(3)" or "f(3)" (scalar). */
static inline void put_constant(struct buf *b, const char *name, const char *spec)
{
    bool floats = spec[0] == 'f', scalar = spec[1] == '(';
    struct buf raw = { 0 };
    size_t t = pb_begin(b, 5), n = 0;

    for (const char *p = spec + 2; *p && *p != ']' && *p != ')'; n++) {
        float f = strtof(p, NULL);
        int64_t i = strtoll(p, NULL, 10);

        buf_add(&raw, floats ? (const void *)&f : &i, floats ? 4 : 8);
        p += strcspn(p, ",])");
        p += *p == ',';
    }
    if (!scalar)
        pb_varint(b, 1, n);
    pb_varint(b, 2, floats ? TENSOR_F32 : TENSOR_I64);
    pb_str(b, 8, name);
    pb_bytes(b, 9, buf_str(&raw), raw.len);
    pb_end(b, t);
    buf_release(&raw);
}

static inline void put_attr(struct buf *b, const char *spec)
{
    const char *eq = strchr(spec, '='), *v = eq + 1;
    size_t a = pb_begin(b, 5), len = strlen(v);
    bool list = strchr(v, ',') != NULL, floats = len && v[len - 1] == 'f';

    pb_bytes(b, 1, spec, (size_t)(eq - spec));
    if (*v == '\'') {
        pb_bytes(b, 4, v + 1, len - 2);
        pb_varint(b, 20, ATTR_STRING);
        pb_end(b, a);
        return;
    }
    for (const char *p = v; *p;) {
        float f = strtof(p, NULL);

        if (floats) {
            buf_addc(b, (char)((list ? 7 : 2) << 3 | PB_I32));
            buf_add(b, &f, 4);
        } else
            pb_varint(b, list ? 8 : 3, (uint64_t)strtoll(p, NULL, 10));
        p += strcspn(p, ",");
        p += *p == ',';
    }
    pb_varint(
        b, 20,
        (uint64_t)(floats ? (list ? ATTR_FLOATS : ATTR_FLOAT) : (list ? ATTR_INTS : ATTR_INT)));
    pb_end(b, a);
}

/* Take the next word of *p into out; false at the end. */
static inline bool next_word(const char **p, char *out, size_t size)
{
    size_t n;

    *p += strspn(*p, " ");
    n = strcspn(*p, " ");
    if (n == 0 || n >= size)
        return false;
    memcpy(out, *p, n);
    out[n] = '\0';
    *p += n;
    return true;
}

/* A model of this one node; outputs y0, y1, ... as many as want has. */
static inline void one_node(struct rig *r, const struct op_case *c)
{
    struct buf *b = &r->w.node;
    const char *p = c->in, *slash = strrchr(c->op, '/');
    char word[300], name[16];
    size_t node;
    int n = 0, nout = 1;

    rig_init(r, 17); /* the file says another opset below */
    node = pb_begin(b, 1);
    pb_str(b, 4, slash ? slash + 1 : c->op);
    if (slash)
        pb_bytes(b, 7, c->op, (size_t)(slash - c->op));
    while (next_word(&p, word, sizeof(word))) {
        snprintf(name, sizeof(name), "x%d", n++);
        if (strcmp(word, "-") == 0) {
            pb_str(b, 1, "");
            continue;
        }
        pb_str(b, 1, name);
        if ((word[0] == 'i' || word[0] == 'f') && (word[1] == '[' || word[1] == '('))
            put_constant(&r->w.io, name, word);
        else
            put_input(&r->w.io, name, word);
    }
    for (p = c->want; *p; p++) /* "!!": an error of a node with two outputs */
        nout += *p == '|' || (*p == '!' && p > c->want);
    for (int i = 0; i < nout; i++) {
        snprintf(name, sizeof(name), "y%d", i);
        pb_str(b, 2, name);
        rig_info(&r->w.io, 12, name);
    }
    for (p = c->attrs; next_word(&p, word, sizeof(word));)
        put_attr(b, word);
    pb_end(b, node);
    rig_finish(r);
    node = pb_begin(&r->file, 8);
    pb_str(&r->file, 1, slash ? "" : "old");
    pb_end(&r->file, node);
    rig_load(r);
    r->m->graph->node[0].opset = c->opset;
}

#endif
