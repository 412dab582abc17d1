/* onnx_type.c -- TypeProto and ValueInfoProto: kind, element type and shape of a value. */
#include "base/alloc.h"
#include "graph/onnx_int.h"

#define TYPE_DEPTH_MAX 16 /* sequence of optional of ... */

/* The number of the open dimension called so. */
static int named_dim(struct loader *ld, const struct pb_field *f, int64_t *out)
{
    struct model_impl *impl = ld->impl;
    uint64_t *known;
    str_id id;
    int rc;

    /* Exporters call dimensions so that have no name, and not because they are the same. */
    if (f->len == 0 || (f->len == 1 && *f->p == '?')) {
        *out = DIM_OPEN;
        return 0;
    }
    rc = ld_name(ld, f->p, f->len, &id, NULL);
    if (rc)
        return rc;
    known = u64map_get(&ld->dim, id);
    if (known) {
        *out = DIM_NAMED(*known);
        return 0;
    }
    if (!GROW(impl->dim, impl->dim_cap, impl->ndim + 1) || u64map_put(&ld->dim, id, impl->ndim))
        return ld_nomem(ld);
    *out = DIM_NAMED(impl->ndim);
    impl->dim[impl->ndim++] = id;
    return 0;
}

static int read_dim(struct loader *ld, const struct pb_field *f, int64_t *out)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    int rc = 0;

    *out = DIM_OPEN;
    while (!rc && ld_next(ld, &r, &g, "dVL")) {
        if (g.number == 2)
            rc = named_dim(ld, &g, out);
        else /* some exporters write -1 for an open dimension */
            *out = (int64_t)g.value < 0 ? DIM_OPEN : (int64_t)g.value;
    }
    return rc ? rc : ld_end(ld, &r, "a shape");
}

static int read_shape(struct loader *ld, const struct pb_field *f, struct shape *out)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    int rc = 0;

    out->rank = 0;
    while (!rc && ld_next(ld, &r, &g, "sL")) {
        if (out->rank == SHAPE_RANK_MAX)
            return ld_fail(ld, OPM_EUNSUPPORTED, "a shape of more than %d dimensions",
                           SHAPE_RANK_MAX);
        rc = read_dim(ld, &g, &out->dim[out->rank++]);
    }
    return rc ? rc : ld_end(ld, &r, "a shape");
}

static int read_tensor_type(struct loader *ld, const struct pb_field *f, struct type_info *out)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    int rc = 0;

    while (!rc && ld_next(ld, &r, &g, "tVL")) {
        if (g.number == 2) {
            out->shaped = true;
            rc = read_shape(ld, &g, &out->shape);
        } else if (g.value >= TENSOR_NTYPES)
            rc = ld_fail(ld, OPM_EFORMAT, "element type %llu of a value is unknown",
                         (unsigned long long)g.value);
        else
            out->type = (enum tensor_type)g.value;
    }
    return rc ? rc : ld_end(ld, &r, "a type");
}

/* A TypeProto. The kind is the outermost one; element type and shape the innermost tensor's. */
static int read_type(struct loader *ld, struct pb_field f, struct type_info *out)
{
    *out = (struct type_info){ .shape = { .rank = -1 } };
    for (int depth = 0;; depth++) {
        struct rd r = rd_of(f.p, f.len);
        struct pb_field g, inner = { 0 };
        enum value_kind kind = VALUE_TENSOR;

        if (depth == TYPE_DEPTH_MAX)
            return ld_fail(ld, OPM_ELIMIT, "a type nested more than %d times", TYPE_DEPTH_MAX);
        while (ld_next(ld, &r, &g, "tL  LL LLL"))
            inner = g;
        if (r.bad)
            return ld_end(ld, &r, "a type");
        switch (inner.number) {
        case 0:
            kind = VALUE_OPAQUE;
            break;
        case 4:
            kind = VALUE_SEQUENCE;
            break;
        case 5:
            kind = VALUE_MAP;
            break;
        case 7:
            kind = VALUE_OPAQUE;
            break;
        case 8:
            kind = VALUE_SPARSE;
            break;
        case 9:
            kind = VALUE_OPTIONAL;
            break;
        }
        if (depth == 0)
            out->kind = kind;
        if (inner.number == 1 || inner.number == 8)
            return read_tensor_type(ld, &inner, out);
        if (inner.number != 4 && inner.number != 9)
            return 0;
        r = rd_of(inner.p, inner.len);
        f = (struct pb_field){ .p = (const uint8_t *)"" };
        while (ld_next(ld, &r, &g, "eL"))
            f = g;
        if (r.bad)
            return ld_end(ld, &r, "a type");
    }
}

int ld_value_info(struct loader *ld, struct slice bytes, str_id *name, struct type_info *out,
                  bool *typed)
{
    struct rd r = rd_of(bytes.p, bytes.len);
    struct pb_field f;
    int rc = 0;

    *name = 0;
    *typed = false;
    while (!rc && ld_next(ld, &r, &f, "vLL")) {
        if (f.number == 1)
            rc = ld_name(ld, f.p, f.len, name, NULL);
        else {
            *typed = true;
            rc = read_type(ld, f, out);
        }
    }
    return rc ? rc : ld_end(ld, &r, "the description of a value");
}
