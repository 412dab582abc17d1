/* infer.c -- see infer.h. */
#include "engine/native/math/infer.h"

static struct view *view_of(const struct opview *o)
{
    return (struct view *)(uintptr_t)o; /* base comes first */
}

static bool view_in(const struct opview *o, uint32_t slot, enum tensor_type *type,
                    const struct shape **shape)
{
    const struct nt *t = kernel_in(view_of(o)->op, slot);

    if (!t)
        return false;
    *type = t->type;
    *shape = &t->shape;
    return true;
}

static const struct elems *view_known(const struct opview *o, uint32_t slot)
{
    struct view *v = view_of(o);
    const struct nt *t = kernel_in(v->op, slot);
    struct known *k;

    for (int i = 0; i < v->nknown; i++)
        if (v->known[i].slot == slot)
            return &v->known[i].e;
    if (!t || v->nknown == VIEW_KNOWN_MAX || !elems_fit(t->type, &t->shape) ||
        !kernel_data(v->op, slot))
        return NULL;
    k = &v->known[v->nknown];
    k->slot = slot;
    k->e = (struct elems){ .type = t->type, .shape = t->shape, .n = t->count, .i = k->room };
    if ((size_t)t->count > ARRAY_SIZE(k->room)) {
        k->e.i = mem_alloc((size_t)t->count * sizeof(*k->e.i));
        if (!k->e.i) {
            v->rc = kernel_nomem(v->op, v->err);
            return NULL;
        }
    }
    v->nknown++;
    for (int64_t i = 0; i < t->count; i++) {
        if (tensor_type_float(t->type))
            k->e.f[i] = nt_float(t, i);
        else
            k->e.i[i] = nt_int(t, i);
    }
    return &k->e;
}

static void view_set(const struct opview *o, uint32_t slot, enum tensor_type type,
                     const struct shape *s)
{
    struct view *v = view_of(o);

    if (!kernel_out(v->op, slot))
        return;
    if (!shape_concrete(s) || type == TENSOR_NONE)
        v->open = true;
    else if (!v->rc)
        v->rc = kernel_set(v->op, slot, type, s, v->err);
}

static int view_fail(const struct opview *o, const char *text)
{
    const struct view *v = view_of(o);

    return kernel_fail(v->op, OPM_EINVAL, v->err, "%s", text);
}

static const struct opview_class kernel_view = { view_in, view_known, view_set, view_fail };

void view_begin(struct view *v, struct op *op, opm_error *err)
{
    v->base =
        (struct opview){ .n = op->node, .nin = op->nin, .nout = op->nout, .as = &kernel_view };
    v->op = op;
    v->err = err;
    v->rc = 0;
    v->open = false;
    v->nknown = 0;
}

void view_end(struct view *v)
{
    for (int i = 0; i < v->nknown; i++)
        if (v->known[i].e.i != v->known[i].room)
            mem_free(v->known[i].e.i);
}

int kernel_infer_by(struct op *op, infer_fn *rule, opm_error *err)
{
    struct view v;
    int rc;

    view_begin(&v, op, err);
    rc = rule(&v.base);
    view_end(&v);
    if (!rc)
        rc = v.rc;
    return rc ? rc : v.open ? NEED_DATA : 0;
}

int kernel_infer(struct op *op, opm_error *err)
{
    const struct op_info *info =
        op_find(op->kernel->domain, op->kernel->op_type, op->type ? 0 : op->node->opset);

    return kernel_infer_by(op, info->infer, err);
}
