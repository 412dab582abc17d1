/* onnx_make.h -- small ONNX models for tests, written field by field. */
#ifndef ONNX_MAKE_H
#define ONNX_MAKE_H

#include "base/pb.h"
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct make {
    struct buf nodes, values, weights; /* fields of the graph, in this order */
    struct buf file;
};

static inline void make_free(struct make *m)
{
    buf_release(&m->nodes);
    buf_release(&m->values);
    buf_release(&m->weights);
    buf_release(&m->file);
}

/* An input (field 11) or output (12) of the graph; dims < 0 are open. */
static inline void make_value(struct make *m, bool out, const char *name, enum tensor_type type,
                              const int64_t *dim, int rank)
{
    struct buf *b = &m->values;
    size_t v = pb_begin(b, out ? 12 : 11), t, tt, s;

    pb_str(b, 1, name);
    t = pb_begin(b, 2);
    tt = pb_begin(b, 1);
    pb_varint(b, 1, (uint64_t)type);
    if (rank >= 0) {
        s = pb_begin(b, 2);
        for (int i = 0; i < rank; i++) {
            size_t d = pb_begin(b, 1);

            if (dim[i] >= 0)
                pb_varint(b, 1, (uint64_t)dim[i]);
            pb_end(b, d);
        }
        pb_end(b, s);
    }
    pb_end(b, tt);
    pb_end(b, t);
    pb_end(b, v);
}

static inline void make_weight(struct make *m, const char *name, enum tensor_type type,
                               const int64_t *dim, int rank, const void *data, size_t bytes)
{
    size_t t = pb_begin(&m->weights, 5);

    for (int i = 0; i < rank; i++)
        pb_varint(&m->weights, 1, (uint64_t)dim[i]);
    pb_varint(&m->weights, 2, (uint64_t)type);
    pb_str(&m->weights, 8, name);
    pb_bytes(&m->weights, 9, data, bytes);
    pb_end(&m->weights, t);
}

/* Inputs and outputs are comma-separated; attributes are "name=1,2" (integers), "name:0.5" or
 * "name@text", or "name%a,b" (strings). type may have a domain in front: "com.microsoft:Gelu". */
static inline void make_node(struct make *m, const char *type, const char *in, const char *out,
                             const char *attrs)
{
    struct buf *b = &m->nodes;
    size_t n = pb_begin(b, 1);

    for (int side = 0; side < 2; side++)
        for (const char *s = side ? out : in; s && *s; s += strcspn(s, ","), s += *s == ',')
            pb_bytes(b, side ? 2 : 1, s, strcspn(s, ","));
    pb_str(b, 3, out);
    if (strchr(type, ':')) {
        pb_bytes(b, 7, type, strcspn(type, ":"));
        type = strchr(type, ':') + 1;
    }
    pb_str(b, 4, type);
    while (attrs && *attrs) {
        size_t name = strcspn(attrs, "=:@%"), a = pb_begin(b, 5);
        bool real = attrs[name] == ':', list;
        const char *v = attrs + name + 1;

        list = strcspn(v, ",") < strcspn(v, " ");
        pb_bytes(b, 1, attrs, name);
        if (real) {
            float f = strtof(v, NULL);
            uint32_t u;

            memcpy(&u, &f, sizeof(u));
            pb_varint(b, 20, 1);
            buf_addc(b, (char)(2 << 3 | 5));
            buf_add(b, &u, sizeof(u));
        } else if (attrs[name] == '@') {
            pb_varint(b, 20, 3);
            pb_bytes(b, 4, v, strcspn(v, " "));
        } else if (attrs[name] == '%') {
            pb_varint(b, 20, 8);
            for (const char *e = v; *e && *e != ' '; e += strcspn(e, ", "), e += *e == ',')
                pb_bytes(b, 9, e, strcspn(e, ", "));
        } else {
            pb_varint(b, 20, list ? 7 : 2);
            for (const char *e = v; *e && *e != ' '; e += strcspn(e, ", "), e += *e == ',')
                pb_varint(b, list ? 8 : 3, (uint64_t)strtoll(e, NULL, 10));
        }
        pb_end(b, a);
        attrs = v + strcspn(v, " ");
        attrs += *attrs == ' ';
    }
    pb_end(b, n);
}

static inline int make_model(struct make *m, int opset, struct model **out, opm_error *err)
{
    size_t g, o;

    pb_varint(&m->file, 1, 8);
    o = pb_begin(&m->file, 8);
    pb_str(&m->file, 1, "");
    pb_varint(&m->file, 2, (uint64_t)opset);
    pb_end(&m->file, o);
    o = pb_begin(&m->file, 8);
    pb_str(&m->file, 1, "com.microsoft");
    pb_varint(&m->file, 2, 1);
    pb_end(&m->file, o);
    o = pb_begin(&m->file, 8);
    pb_str(&m->file, 1, "ai.onnx.ml");
    pb_varint(&m->file, 2, 3);
    pb_end(&m->file, o);
    g = pb_begin(&m->file, 7);
    buf_add(&m->file, m->nodes.data, m->nodes.len);
    pb_str(&m->file, 2, "g");
    buf_add(&m->file, m->weights.data ? m->weights.data : "", m->weights.len);
    buf_add(&m->file, m->values.data, m->values.len);
    pb_end(&m->file, g);
    return model_parse(out, m->file.data, m->file.len, "test", NULL, err);
}

#endif
