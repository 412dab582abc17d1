/* exec.c -- prepare and run a plan; see op.h for the whole. */
#include "engine/native/op.h"

#include <string.h>
#include <time.h>

static bool shape_known(const struct val *v)
{
    return v->t.shape.rank >= 0 && v->kind != VAL_OWN && v->kind != VAL_NONE;
}

static bool data_known(const struct val *v)
{
    return v->kind == VAL_CONST || v->kind == VAL_KNOWN;
}

static int constants_ready(struct op *op, opm_error *err)
{
    for (uint32_t i = 0; i < op->nin; i++) {
        struct val *v = op->in[i] == NO_VALUE ? NULL : &op->plan->val[op->in[i]];

        bool raw = i < 32 && op->kernel->raw >> i & 1;

        if (!v || v->kind != VAL_CONST || (raw && v->half && (op->kernel->flags & K_HALF)))
            continue;
        if (raw ? val_widen(v) : val_materialize(v))
            return kernel_nomem(op, err);
    }
    return 0;
}

static int call_prepare(struct op *op, opm_error *err)
{
    opm_span span;
    int rc;

    op->looked = false;
    op->scratch_bytes = 0;
    span = opm_op_begin_phase(op->meter, OPM_RESHAPE);
    rc = op->kernel->prepare(op, err);
    opm_op_end(span);
    return rc;
}

static int own_scratch(struct op *op, opm_error *err)
{
    if (op->scratch_bytes == 0 || op->scratch_bytes <= op->scratch_own)
        return 0;
    if (op->scratch_own)
        native_free(op->scratch);
    op->scratch_own = 0;
    op->scratch = native_alloc(op->scratch_bytes);
    if (!op->scratch)
        return kernel_nomem(op, err);
    op->scratch_own = op->scratch_bytes;
    return 0;
}

/* Outputs in memory of their own, then run: for what is known early and for what is known late. */
static int run_own(struct op *op, enum val_kind kind, opm_error *err)
{
    bool alias = op->kernel->flags & K_ALIAS;
    int rc = own_scratch(op, err);

    for (uint32_t i = 0; i < op->nout && !rc; i++) {
        struct val *v = op->out[i] == NO_VALUE ? NULL : &op->plan->val[op->out[i]];

        if (!v)
            continue;
        v->kind = kind;
        if (i == 0 && alias) {
            v->t.data = kernel_in(op, 0)->data;
            continue;
        }
        if (val_own(v, v->t.bytes))
            return kernel_nomem(op, err);
        v->t.data = v->own;
    }
    return rc ? rc : op->kernel->run(op, err);
}

/* Nothing but constants and shapes goes in. */
static bool foldable(const struct op *op, bool *fixed)
{
    *fixed = true;
    if (op->kernel->flags & (K_IMPURE | K_DYNAMIC))
        return false;
    for (uint32_t i = 0; i < op->nin; i++) {
        const struct val *v = op->in[i] == NO_VALUE ? NULL : &op->plan->val[op->in[i]];

        if (!v)
            continue;
        *fixed = *fixed && v->fixed;
        if (!data_known(v) && !((op->kernel->flags & K_SHAPE) && shape_known(v)))
            return false;
    }
    return true;
}

static void mark_dynamic(struct op *op)
{
    if (op->how == OP_DYNAMIC) /* its own look at shapes says whether it must get ready again */
        return;
    op->how = OP_DYNAMIC;
    op->prepared = false;
    for (uint32_t i = 0; i < op->nout; i++)
        if (op->out[i] != NO_VALUE) {
            struct val *v = &op->plan->val[op->out[i]];

            v->kind = VAL_OWN;
            v->fixed = false;
            v->t.shape.rank = -1;
            v->t.data = NULL;
        }
}

/* True if the shapes are those it was prepared for; notes the new ones. */
static int same_shapes(struct op *op, bool *same)
{
    *same = op->prepared;
    if (!op->seen) {
        op->seen = mem_calloc((size_t)op->nin + 1, sizeof(*op->seen));
        if (!op->seen)
            return OPM_ENOMEM;
    }
    for (uint32_t i = 0; i < op->nin; i++) {
        const struct nt *t = kernel_in(op, i);

        if (!t)
            continue;
        if (!*same || !shape_equal(&op->seen[i], &t->shape))
            *same = false;
        op->seen[i] = t->shape;
    }
    return 0;
}

static int prepare_op(struct op *op, opm_error *err)
{
    struct plan *p = op->plan;
    bool fixed, fold = foldable(op, &fixed), known = true, same;
    int rc;

    if (op->how == OP_DONE && op->fixed)
        return 0;
    for (uint32_t i = 0; i < op->nin; i++)
        known = known && (op->in[i] == NO_VALUE || shape_known(&p->val[op->in[i]]));
    if (known && op->prepared && !fold && op->how == OP_STATIC && !op->looked) {
        if (same_shapes(op, &same))
            return kernel_nomem(op, err);
        if (same) /* nor are its constants needed again */
            return 0;
    }
    rc = constants_ready(op, err);
    if (rc)
        return rc;
    if (!known || (op->kernel->flags & K_DYNAMIC) || (p->inner && !(fold && fixed))) {
        mark_dynamic(op);
        return 0;
    }
    op->prepared = false;
    if (same_shapes(op, &same))
        return kernel_nomem(op, err);
    for (uint32_t i = 0; i < op->nout; i++) /* in-place and aliases are found anew */
        if (op->out[i] != NO_VALUE)
            p->val[op->out[i]].t.data = NULL;
    rc = call_prepare(op, err);
    if (rc == NEED_DATA) {
        mark_dynamic(op);
        return 0;
    }
    if (rc)
        return rc;
    if (!fold) {
        op->how = OP_STATIC;
        op->prepared = true;
        for (uint32_t i = 0; i < op->nout; i++)
            if (op->out[i] != NO_VALUE) {
                p->val[op->out[i]].kind = VAL_PLANNED;
                p->val[op->out[i]].fixed = false;
            }
        return 0;
    }
    op->how = OP_DONE;
    op->fixed = fixed;
    if (op->scratch && !op->scratch_own)
        op->scratch = NULL;
    rc = run_own(op, VAL_KNOWN, err);
    for (uint32_t i = 0; i < op->nout; i++)
        if (op->out[i] != NO_VALUE)
            p->val[op->out[i]].fixed = fixed;
    return rc;
}

/* 16-bit constants are float32 while an operator is prepared that reads them; afterwards only where
 * somebody kept the pointer or will look again (kept): others have packed them. */
static void mark_kept(struct plan *p)
{
    for (uint32_t i = 0; i < p->nval; i++)
        p->val[i].kept = false;
    for (uint32_t i = 0; i < p->nop; i++)
        for (uint32_t k = 0; k < p->op[i].nin && p->op[i].how == OP_DYNAMIC; k++)
            if (p->op[i].in[k] != NO_VALUE)
                p->val[p->op[i].in[k]].kept = true;
    for (uint32_t i = 0; i < p->graph->noutput; i++)
        p->val[p->graph->output[i]].kept = true;
}

static void narrow_constants(const struct op *op)
{
    for (uint32_t i = 0; i < op->nin && op->how != OP_DYNAMIC; i++)
        if (op->in[i] != NO_VALUE && !op->plan->val[op->in[i]].kept)
            val_narrow(&op->plan->val[op->in[i]], op->plan->engine->model);
}

int plan_prepare(struct plan *p, opm_error *err)
{
    int rc = 0;

    mark_kept(p);
    for (uint32_t i = 0; i < p->nop && !rc; i++) {
        struct op *op = &p->op[i];

        rc = native_look(p->engine, err);
        if (!rc)
            rc = prepare_op(op, err);
        if (rc)
            return rc;
        narrow_constants(op);
        for (uint32_t b = 0; b < op->nbody; b++) {
            rc = plan_prepare(op->body[b], err);
            if (rc)
                return rc;
        }
    }
    return rc || p->inner ? rc : plan_memory(p, err);
}

static int run_dynamic(struct op *op, opm_error *err)
{
    bool same;
    int rc;

    for (uint32_t i = 0; i < op->nin; i++) {
        const struct nt *t = kernel_in(op, i);

        if (t && (t->shape.rank < 0 || (!t->data && !(i < 32 && op->kernel->raw >> i & 1))))
            return kernel_fail(op, OPM_EINVAL, err, "input %u has no value", i);
        if (t && t->kind != VALUE_TENSOR && !(op->kernel->flags & K_LISTS))
            return kernel_fail(op, OPM_EINVAL, err, "input %u is no tensor", i);
    }
    if (op->kernel->flags & K_DYNAMIC)
        return op->kernel->run(op, err);
    if (same_shapes(op, &same))
        return kernel_nomem(op, err);
    if (!same || op->looked) {
        native_unwatch(op->plan->engine);
        rc = constants_ready(op, err);
        if (!rc)
            rc = call_prepare(op, err);
        native_watch(op->plan->engine);
        if (rc == NEED_DATA)
            rc = kernel_fail(op, OPM_EINVAL, err, "needs data that nothing gives");
        if (rc)
            return rc;
        op->prepared = true;
    }
    return run_own(op, VAL_OWN, err);
}

static inline int run_op(struct op *op, opm_error *err)
{
    if (op->how == OP_DYNAMIC)
        return run_dynamic(op, err);
    if (op->kernel->flags & K_ALIAS)
        kernel_out(op, 0)->data = kernel_in(op, 0)->data;
    return op->kernel->run(op, err);
}

#define LOOK_EVERY_NS 20000000

int native_look(struct native *e, opm_error *err)
{
    struct timespec ts;
    int64_t now;

    if (!e->opts.stop)
        return 0;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts); /* reads memory, no clock */
    now = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
    if (!e->stopped && now >= e->next_look_ns) {
        e->next_look_ns = now + LOOK_EVERY_NS;
        e->stopped = e->opts.stop(e->opts.stop_user);
    }
    return e->stopped ? opm__fail(err, OPM_ELIMIT, "%.200s: stopped", e->model->name) : 0;
}

static int look(void *engine)
{
    return native_look(engine, NULL);
}

void native_watch(struct native *e)
{
    if (e->opts.stop)
        pool_watch(e->pool, look, e);
}

void native_unwatch(struct native *e)
{
    pool_watch(e->pool, NULL, NULL);
}

int plan_run(struct plan *p, opm_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < p->nop && !rc; i++) {
        struct op *op = &p->op[i];

        if (op->how == OP_DONE)
            continue;
        rc = native_look(p->engine, err);
        if (UNLIKELY(rc))
            break;
        if (UNLIKELY(opm_on(OPM_FRAMEWORK))) {
            opm_span span = opm_op_begin(op->meter);

            rc = run_op(op, err);
            opm_op_end(span);
        } else {
            rc = run_op(op, err);
        }
    }
    return rc || !p->engine->stopped ? rc : native_look(p->engine, err);
}
