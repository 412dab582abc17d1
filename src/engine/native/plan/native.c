/* native.c -- the native engine: ONNX on the CPU, nothing to install; see op.h. */
#include "engine/native/isa/half.h"
#include "engine/native/op.h"
#include "graph/infer.h"

#include <string.h>

static void native_close(struct engine *base)
{
    struct native *e = (struct native *)base;

    if (!e)
        return;
    meter_release(e);
    plan_free(e->plan);
    keep_release(&e->lasting);
    keep_release(&e->fleeting);
    pool_close(e->pool);
    for (size_t i = 0; e->result && i < e->nout; i++)
        native_free(e->result[i].own);
    mem_free(e->result);
    mem_free(e->bound);
    mem_free(e->in);
    mem_free(e->out);
    mem_free(e->last_in);
    mem_free(e);
}

static struct engine_value *list_values(const struct graph *g, const uint32_t *index, uint32_t n)
{
    struct engine_value *v = mem_calloc((size_t)n + 1, sizeof(*v));

    for (uint32_t i = 0; v && i < n; i++) {
        const struct value *from = &g->value[index[i]];

        v[i].name = from->name;
        v[i].type = from->declared_type ? from->declared_type : from->type;
        v[i].shape = from->declared ? *from->declared : from->shape;
        v[i].kind = from->kind;
    }
    return v;
}

static int native_open(struct engine **out, struct model *m, const struct engine_options *opts,
                       opm_error *err)
{
    static const struct engine_options defaults = ENGINE_OPTIONS_INIT;
    const struct graph *g = m->graph;
    const struct infer_options hints = { .hints = true };
    struct native *e;
    opm_error why = { 0 };
    const struct isa *isa;
    int rc = isa_choose(&isa, err), misfit = 0;

    if (rc < 0)
        return rc;
    e = mem_calloc(1, sizeof(*e));
    if (!e)
        return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
    e->base.class = &engine_native;
    e->model = m;
    e->opts = opts ? *opts : defaults;
    e->isa = isa;
    e->nin = g->ninput;
    e->nout = g->noutput;
    e->in = list_values(g, g->input, g->ninput);
    e->out = list_values(g, g->output, g->noutput);
    e->last_in = mem_calloc(e->nin + 1, sizeof(*e->last_in));
    e->result = mem_calloc(e->nout + 1, sizeof(*e->result));
    e->bound = mem_calloc(e->nout + 1, sizeof(*e->bound));
    if (!e->in || !e->out || !e->last_in || !e->result || !e->bound)
        rc = opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
    else
        rc = pool_open(&e->pool, e->opts.threads, e->opts.pin, e->opts.first_core, err);
    e->budget = (struct budget){ e->opts.max_memory, e->opts.max_memory, 0, &e->fleeting };
    if (!rc) { /* types and named dimensions are what fusing goes by */
        struct budget *before = budget_use(&e->budget);

        misfit = graph_infer(m, &hints, &why);
        for (size_t i = 0; i < e->nout; i++) /* outputs may be declared by name alone */
            if (e->out[i].type == TENSOR_NONE)
                e->out[i].type = g->value[g->output[i]].type;
        rc = plan_build(&e->plan, e, g, NULL, err);
        budget_use(before);
    }
    if (!rc && misfit) { /* operators that are missing come first: another engine may have them */
        rc = misfit;
        if (err)
            *err = why;
    }
    if (rc) {
        native_close(&e->base);
        return rc;
    }
    meter_names(e);
    *out = &e->base;
    return 0;
}

static const struct engine_value *native_inputs(const struct engine *base, size_t *n)
{
    const struct native *e = (const struct native *)base;

    *n = e->nin;
    return e->in;
}

static const struct engine_value *native_outputs(const struct engine *base, size_t *n)
{
    const struct native *e = (const struct native *)base;

    *n = e->nout;
    return e->out;
}

#define LIST_DEPTH_MAX 8

/* A sequence, map or optional, or what is in it. */
static int check_list(const struct native *e, const struct engine_value *v,
                      const struct engine_tensor *t, int depth, opm_error *err)
{
    const struct engine_tensor *item = t->data;
    int64_t bytes = engine_bytes(&t->shape, t->type), n = t->kind == VALUE_MAP ? 2 : 0;
    bool fits = depth < LIST_DEPTH_MAX;
    int rc = 0;

    if (t->kind == VALUE_SEQUENCE)
        n = t->shape.rank == 1 ? t->shape.dim[0] : -1;
    if (t->kind == VALUE_TENSOR)
        fits = fits && bytes >= 0 && nt_sane(&t->shape) && (size_t)bytes <= t->bytes &&
               (!bytes || t->data) &&
               (!v->type || t->type == v->type || v->kind == VALUE_MAP || v->type == TENSOR_NONE);
    else if (t->kind == VALUE_MAP || t->kind == VALUE_SEQUENCE)
        fits = fits && n >= 0 && (!n || item) && (t->kind != VALUE_MAP || v->kind != VALUE_TENSOR);
    else
        fits = fits && t->kind == VALUE_OPTIONAL;
    if (depth == 0 && t->kind != v->kind && v->kind != VALUE_OPTIONAL)
        fits = false;
    if (!fits)
        return opm__fail(err, OPM_EINVAL,
                         "%.200s: input '%.80s' is not the sequence, map or optional that the "
                         "model wants",
                         e->model->name, v->name);
    for (int64_t i = 0; i < n && !rc; i++)
        rc = check_list(e, v, &item[i], depth + 1, err);
    return rc;
}

static int check_input(const struct native *e, size_t i, const struct engine_tensor *t,
                       opm_error *err)
{
    const struct engine_value *v = &e->in[i];
    int64_t bytes = engine_bytes(&t->shape, t->type);
    char have[100], want[100];

    if (v->kind != VALUE_TENSOR)
        return check_list(e, v, t, 0, err);
    if (t->kind != VALUE_TENSOR)
        return opm__fail(err, OPM_EINVAL, "%.200s: input '%.80s' must be a tensor", e->model->name,
                         v->name);
    if (v->type && t->type != v->type && t->type != half_inside(v->type))
        return opm__fail(err, OPM_EINVAL, "%.200s: input '%.80s' must be %s, not %s",
                         e->model->name, v->name, tensor_type_name(v->type),
                         tensor_type_name(t->type));
    if (bytes < 0 || !nt_sane(&t->shape) || (size_t)bytes > t->bytes || (bytes && !t->data))
        return opm__fail(err, OPM_EINVAL,
                         "%.200s: input '%.80s' has %zu bytes, its shape wants "
                         "%lld",
                         e->model->name, v->name, t->bytes, (long long)bytes);
    if ((uintptr_t)t->data % MAX(nt_width(t->type), (size_t)1) % 16)
        return opm__fail(err, OPM_EINVAL, "%.200s: input '%.80s' is not aligned", e->model->name,
                         v->name);
    bool fits = v->shape.rank < 0 || v->shape.rank == t->shape.rank;
    for (int32_t d = 0; fits && d < v->shape.rank; d++)
        fits = v->shape.dim[d] < 0 || v->shape.dim[d] == t->shape.dim[d];
    if (fits)
        return 0;
    shape_text(&t->shape, have, sizeof(have));
    model_shape_text(e->model, &v->shape, want, sizeof(want));
    return opm__fail(err, OPM_EINVAL, "%.150s: input '%.80s' must be %s, not %s", e->model->name,
                     v->name, want, have);
}

/* What the caller gives, as the engine has it: lists and 16-bit numbers in its heap. */
static int take_in(struct native *e, const struct engine_tensor *from, struct nt *to)
{
    static char none[NATIVE_ALIGN]; /* stands for the data of an empty tensor */
    const struct engine_tensor *item = from->data;
    const struct nt **list;
    int64_t n = from->kind == VALUE_MAP ? 2 : from->kind == VALUE_SEQUENCE ? from->shape.dim[0] : 0;

    *to = (struct nt){ .type = half_inside(from->type), .shape = from->shape, .kind = from->kind };
    if (from->kind == VALUE_TENSOR) {
        to->count = shape_count(&from->shape);
        to->bytes = (size_t)engine_bytes(&from->shape, to->type);
        to->data = from->data ? from->data : none;
        if (to->type == from->type)
            return 0;
        to->data = keep_alloc(&e->fleeting, MAX(to->bytes, (size_t)1));
        if (to->data)
            half_to_float(to->data, from->data, to->count, from->type);
        return to->data ? 0 : OPM_ENOMEM;
    }
    to->type = TENSOR_NONE;
    to->shape = (struct shape){ from->kind != VALUE_OPTIONAL, { n } };
    to->count = n;
    to->bytes = (size_t)n * sizeof(*list);
    list = keep_alloc(&e->fleeting, to->bytes + 1);
    to->data = list;
    for (int64_t i = 0; list && i < n; i++) {
        struct nt *t = keep_alloc(&e->fleeting, sizeof(*t));

        if (!t || take_in(e, &item[i], t))
            return OPM_ENOMEM;
        list[i] = t;
    }
    return list ? 0 : OPM_ENOMEM;
}

static int set_inputs(struct native *e, const struct engine_tensor *in, bool with_data,
                      opm_error *err)
{
    static char none[NATIVE_ALIGN]; /* stands for the data of an empty tensor */

    for (size_t i = 0; i < e->nin; i++) {
        struct val *v = &e->plan->val[e->plan->graph->input[i]];
        enum tensor_type type = half_inside(in[i].type);

        v->kind = VAL_INPUT;
        if (e->in[i].kind != VALUE_TENSOR) {
            if (take_in(e, &in[i], &v->t))
                return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
            if (!with_data)
                v->t.data = NULL;
            continue;
        }
        v->t.kind = VALUE_TENSOR;
        v->t.type = type;
        v->t.shape = in[i].shape;
        v->t.count = shape_count(&in[i].shape);
        v->t.bytes = (size_t)engine_bytes(&in[i].shape, type);
        v->t.data = !with_data ? NULL : in[i].data ? in[i].data : none;
        if (!with_data || type == in[i].type)
            continue;
        if (val_own(v, v->t.bytes))
            return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
        half_to_float(v->own, in[i].data, v->t.count, in[i].type);
        v->t.data = v->own;
    }
    return 0;
}

/* Once for each preparation, as soon as somebody records: shapes, FLOPs and memory take a while. */
static void describe(struct native *e, const struct engine_tensor *in)
{
    if (e->described || !opm_on(OPM_FRAMEWORK))
        return;
    if (meter_shapes(e, in))
        meter_all(e);
    e->described = true;
}

static int prepare(struct native *e, const struct engine_tensor *in, size_t nin, opm_error *err)
{
    bool anew;
    int rc;

    if (nin != e->nin)
        return opm__fail(err, OPM_EINVAL, "%.200s: %zu inputs given, the model has %zu",
                         e->model->name, nin, e->nin);
    for (size_t i = 0; i < nin; i++) {
        rc = check_input(e, i, &in[i], err);
        if (rc)
            return rc;
    }
    bool same = e->ready;
    for (size_t i = 0; i < nin && same; i++)
        same = shape_equal(&in[i].shape, &e->last_in[i]);
    if (same)
        return 0;
    e->ready = false;
    rc = set_inputs(e, in, false, err);
    if (rc)
        return rc;
    e->described = opm_on(OPM_FRAMEWORK);
    anew = e->described && meter_shapes(e, in);
    rc = plan_prepare(e->plan, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < nin; i++)
        e->last_in[i] = in[i].shape;
    e->ready = true;
    if (anew)
        meter_all(e);
    return 0;
}

/* A value of the engine as the caller gets it; 16-bit numbers become those again. */
static int give_out(struct native *e, enum tensor_type type, const struct nt *t,
                    struct engine_tensor *out)
{
    struct engine_tensor *item;

    *out = (struct engine_tensor){ t->type, t->shape, t->data, t->bytes, t->kind };
    if (t->kind == VALUE_TENSOR && t->type == TENSOR_F32 && half_inside(type) != type) {
        out->type = type;
        out->bytes = t->bytes / 2;
        out->data = keep_alloc(&e->fleeting, MAX(out->bytes, (size_t)1));
        if (out->data)
            half_from_float(out->data, t->data, t->count, type);
        return out->data ? 0 : OPM_ENOMEM;
    }
    if (t->kind != VALUE_SEQUENCE && t->kind != VALUE_MAP)
        return 0;
    out->bytes = (size_t)t->count * sizeof(*item);
    item = keep_alloc(&e->fleeting, out->bytes + 1);
    out->data = item;
    for (int64_t i = 0; item && i < t->count; i++)
        if (give_out(e, type, nt_item(t, i), &item[i]))
            return OPM_ENOMEM;
    return item ? 0 : OPM_ENOMEM;
}

/* Into the memory that the caller has for it, unless it was computed there. */
static int give_bound(const struct native *e, size_t i, const struct nt *t,
                      struct engine_tensor *out, opm_error *err)
{
    const struct engine_tensor *to = &e->bound[i];
    size_t bytes = (size_t)engine_bytes(&t->shape, to->type);

    if (t->kind != VALUE_TENSOR || half_inside(to->type) != t->type || bytes > to->bytes)
        return opm__fail(err, OPM_EINVAL,
                         "%.200s: output '%.80s' does not fit into the memory for it",
                         e->model->name, e->out[i].name);
    if (t->type != to->type)
        half_from_float(to->data, t->data, t->count, to->type);
    else if (t->data != to->data && bytes)
        memmove(to->data, t->data, bytes);
    *out = (struct engine_tensor){ to->type, t->shape, to->data, bytes, VALUE_TENSOR };
    return 0;
}

/* An input that was converted: it is again for the next run. */
static bool taken_in(const struct native *e, const void *data)
{
    const struct plan *p = e->plan;
    bool found = false;

    for (size_t i = 0; i < e->nin && !found; i++)
        found = data && p->val[p->graph->input[i]].own == data;
    return found;
}

/* Results that lie in the caller's or the model's memory are copied into the engine's. */
static int give_output(struct native *e, size_t i, struct engine_tensor *out, opm_error *err)
{
    const struct plan *p = e->plan;
    const struct val *v = &p->val[p->graph->output[i]];
    const struct nt *t = &v->t;

    if (t->shape.rank < 0 || (!t->data && v->kind != VAL_CONST))
        return opm__fail(err, OPM_EINVAL, "%.200s: output '%.80s' was not computed", e->model->name,
                         e->out[i].name);
    if (v->kind == VAL_CONST && val_materialize(&p->val[p->graph->output[i]]))
        return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
    if (e->bound[i].data)
        return give_bound(e, i, t, out, err);
    if (t->kind != VALUE_TENSOR || e->out[i].kind != VALUE_TENSOR) {
        if (give_out(e, e->out[i].type, t, out))
            return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
        return 0;
    }
    if (t->type == TENSOR_F32 && half_inside(e->out[i].type) != e->out[i].type) {
        struct val *r = &e->result[i];

        r->t = *t;
        r->t.type = e->out[i].type;
        r->t.bytes = t->bytes / 2;
        if (val_own(r, r->t.bytes))
            return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
        half_from_float(r->own, t->data, t->count, r->t.type);
        *out = (struct engine_tensor){ r->t.type, r->t.shape, r->own, r->t.bytes, VALUE_TENSOR };
        return 0;
    }
    if (v->kind != VAL_PLANNED && v->kind != VAL_ALIAS &&
        !(v->kind == VAL_OWN && t->data == v->own) && !taken_in(e, t->data)) {
        if (val_copy(&e->result[i], t))
            return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
        t = &e->result[i].t;
    }
    *out = (struct engine_tensor){ t->type, t->shape, t->data, t->bytes, VALUE_TENSOR };
    return 0;
}

/* Outputs that are computed where the caller wants them. */
static int set_bound(struct native *e, opm_error *err)
{
    for (size_t i = 0; i < e->nout; i++) {
        struct val *v = &e->plan->val[e->plan->graph->output[i]];

        if (v->kind != VAL_BOUND)
            continue;
        if (v->t.bytes > e->bound[i].bytes)
            return opm__fail(err, OPM_EINVAL,
                             "%.200s: output '%.80s' does not fit into the memory for it",
                             e->model->name, e->out[i].name);
        v->t.data = e->bound[i].data;
    }
    return 0;
}

static int run(struct native *e, const struct engine_tensor *in, size_t nin,
               struct engine_tensor *out, size_t nout, opm_error *err)
{
    int rc;

    e->rounds = 0;
    keep_clear(&e->fleeting);
    rc = prepare(e, in, nin, err);
    if (rc)
        return rc;
    if (nout != e->nout)
        return opm__fail(err, OPM_EINVAL, "%.200s: room for %zu outputs, the model has %zu",
                         e->model->name, nout, e->nout);
    if (UNLIKELY(opm_on(OPM_FRAMEWORK)))
        describe(e, in);
    rc = set_inputs(e, in, true, err);
    if (!rc)
        rc = set_bound(e, err);
    if (!rc) {
        native_watch(e);
        e->running = true;
        rc = plan_run(e->plan, err);
        e->running = false;
        native_unwatch(e);
    }
    for (size_t i = 0; i < nout && !rc; i++)
        rc = give_output(e, i, &out[i], err);
    return rc;
}

static int native_prepare(struct engine *base, const struct engine_tensor *in, size_t nin,
                          opm_error *err)
{
    struct native *e = (struct native *)base;
    struct budget *before = budget_use(&e->budget);
    int rc;

    e->budget.refused = 0;
    e->stopped = false;
    e->fed = in;
    rc = prepare(e, in, nin, err);
    e->fed = NULL;
    budget_use(before);
    return rc;
}

static int native_run(struct engine *base, const struct engine_tensor *in, size_t nin,
                      struct engine_tensor *out, size_t nout, opm_error *err)
{
    struct native *e = (struct native *)base;
    struct budget *before = budget_use(&e->budget);
    int rc;

    e->budget.refused = 0;
    e->stopped = false;
    e->fed = in;
    rc = run(e, in, nin, out, nout, err);
    e->fed = NULL;
    budget_use(before);
    return rc;
}

static int native_bind(struct engine *base, size_t i, const struct engine_tensor *to,
                       opm_error *err)
{
    struct native *e = (struct native *)base;

    if (i >= e->nout || (to->data && (uintptr_t)to->data % NATIVE_ALIGN))
        return opm__fail(err, OPM_EINVAL, "%.200s: no such output, or memory that is not aligned",
                         e->model->name);
    if (!e->bound[i].data != !to->data || e->bound[i].type != to->type)
        e->ready = false; /* its place in the plan is another */
    e->bound[i] = *to;
    return 0;
}

static enum tensor_type native_own_type(enum tensor_type t)
{
    return half_inside(t);
}

/* What has no place in the arena because it is known late has memory of its own, as all that
 * subgraphs compute. */
static void add_memory(const struct plan *p, struct engine_memory *out)
{
    out->arena += (int64_t)p->arena_bytes;
    for (uint32_t i = 0; i < p->nval; i++)
        if (p->val[i].kind == VAL_OWN)
            out->arena += (int64_t)p->val[i].own_bytes;
    for (uint32_t i = 0; i < p->nop; i++) {
        const struct op *op = &p->op[i];

        if (op->how == OP_DYNAMIC)
            out->arena += (int64_t)op->scratch_own;
        out->packed += (int64_t)op->packed_bytes;
        out->winograd += (int64_t)op->extra_bytes;
        for (uint32_t b = 0; b < op->nbody; b++)
            add_memory(op->body[b], out);
    }
}

static void native_memory(const struct engine *base, struct engine_memory *out)
{
    *out = (struct engine_memory){ 0 };
    add_memory(((const struct native *)base)->plan, out);
}

const struct engine_class engine_native = {
    .name = "native",
    .doc = "opmeter's own, on the CPU",
    .open = native_open,
    .inputs = native_inputs,
    .outputs = native_outputs,
    .prepare = native_prepare,
    .run = native_run,
    .bind = native_bind,
    .own_type = native_own_type,
    .memory = native_memory,
    .close = native_close,
};
