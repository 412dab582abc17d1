/* memplan.c -- where values and scratch memory lie in the arena.
 *
 * A value lives from the operator that makes it to the last that reads it, through aliases too.
 * Places are given greedily, biggest first: the lowest gap among those that live at the same time.
 * An element-wise operator may write on an input that dies with it. */
#include "engine/native/op.h"

#include <stdlib.h>
#include <string.h>

struct item {
    size_t bytes, at;
    uint32_t first, last;
    uint32_t val; /* or NO_VALUE: scratch of operator `op` */
    uint32_t op;
};

static uint32_t root_of(const struct plan *p, uint32_t v)
{
    while (p->val[v].kind == VAL_ALIAS)
        v = p->val[v].root;
    return v;
}

static void alias_to(struct plan *p, uint32_t v, uint32_t root, uint32_t twin)
{
    p->val[v].kind = VAL_ALIAS;
    p->val[v].twin = twin;
    p->val[v].root = root;
    p->val[root].last = MAX(p->val[root].last, p->val[v].last);
}

static void lifetimes(struct plan *p)
{
    for (uint32_t i = 0; i < p->nval; i++) {
        p->val[i].first = UINT32_MAX;
        p->val[i].last = 0;
    }
    for (uint32_t i = 0; i < p->nop; i++) {
        for (uint32_t k = 0; k < p->op[i].nin; k++)
            if (p->op[i].in[k] != NO_VALUE)
                p->val[p->op[i].in[k]].last = i;
        for (uint32_t k = 0; k < p->op[i].nout; k++)
            if (p->op[i].out[k] != NO_VALUE) {
                p->val[p->op[i].out[k]].first = i;
                p->val[p->op[i].out[k]].last = MAX(p->val[p->op[i].out[k]].last, i);
            }
    }
    for (uint32_t i = 0; i < p->graph->noutput; i++)
        p->val[p->graph->output[i]].last = UINT32_MAX;
}

/* Lifetimes of aliases go back to their roots: last operator first. */
static void extend_aliases(struct plan *p)
{
    for (uint32_t i = p->nop; i-- > 0;) {
        struct op *op = &p->op[i];
        struct val *in, *out;

        if (!(op->kernel->flags & K_ALIAS) || op->nout == 0 || op->out[0] == NO_VALUE)
            continue;
        in = &p->val[op->in[0]];
        out = &p->val[op->out[0]];
        in->last = MAX(in->last, out->last);
    }
}

static void find_aliases(struct plan *p)
{
    for (uint32_t i = 0; i < p->nop; i++) {
        struct op *op = &p->op[i];
        uint32_t out = op->nout ? op->out[0] : NO_VALUE;

        if (op->how != OP_STATIC || out == NO_VALUE)
            continue;
        if (op->kernel->flags & K_ALIAS) {
            uint32_t root = root_of(p, op->in[0]);

            if (p->val[root].kind == VAL_PLANNED)
                alias_to(p, out, root, op->in[0]);
            else /* of an input or constant: follows it at run time */
                p->val[out].kind = VAL_INPUT;
            continue;
        }
        if (!(op->kernel->flags & K_INPLACE))
            continue;
        for (uint32_t k = 0; k < op->nin; k++) {
            uint32_t root = op->in[k] == NO_VALUE ? NO_VALUE : root_of(p, op->in[k]);

            if (root == NO_VALUE || p->val[root].kind != VAL_PLANNED || p->val[root].last != i ||
                p->val[op->in[k]].t.bytes != p->val[out].t.bytes ||
                p->val[root].t.bytes != p->val[out].t.bytes ||
                !shape_equal(&p->val[op->in[k]].t.shape, &p->val[out].t.shape))
                continue;
            alias_to(p, out, root, op->in[k]);
            break;
        }
    }
}

static int by_size(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static int by_place(const void *a, const void *b)
{
    const struct item *const *x = a, *const *y = b;

    return (*x)->at < (*y)->at ? -1 : (*x)->at > (*y)->at;
}

static size_t place(struct item *item, size_t n, const struct item **near)
{
    size_t total = 0;

    for (size_t i = 0; i < n; i++) {
        size_t m = 0, at = 0;

        for (size_t k = 0; k < i; k++)
            if (item[k].first <= item[i].last && item[i].first <= item[k].last)
                near[m++] = &item[k];
        qsort(near, m, sizeof(*near), by_place);
        for (size_t k = 0; k < m && near[k]->at < at + item[i].bytes; k++)
            at = MAX(at, near[k]->at + near[k]->bytes);
        item[i].at = at;
        total = MAX(total, at + item[i].bytes);
    }
    return total;
}

static size_t rounded(size_t bytes)
{
    return (MAX(bytes, (size_t)1) + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN;
}

/* What changed its size once may do so again: texts grow token by token. */
static size_t with_room(const struct plan *p, size_t bytes)
{
    return p->placed ? bytes + bytes / 4 : bytes;
}

static size_t collect(const struct plan *p, struct item *item)
{
    size_t n = 0;

    for (uint32_t i = 0; i < p->nval; i++) {
        const struct val *v = &p->val[i];

        if (v->kind == VAL_PLANNED)
            item[n++] =
                (struct item){ rounded(with_room(p, v->t.bytes)), 0, v->first, v->last, i, 0 };
    }
    for (uint32_t i = 0; i < p->nop; i++)
        if (p->op[i].how == OP_STATIC && p->op[i].scratch_bytes)
            item[n++] = (struct item){
                rounded(with_room(p, p->op[i].scratch_bytes)), 0, i, i, NO_VALUE, i
            };
    return n;
}

static int new_arena(struct plan *p, size_t total, opm_error *err)
{
    if (p->arena_bytes >= total)
        return 0;
    if (p->arena)
        mem_unmap(p->arena, p->arena_bytes);
    p->arena = mem_map(total);
    p->arena_bytes = p->arena ? total : 0;
    if (!p->arena)
        return opm__fail(err, OPM_ENOMEM, "%.200s: no memory for %zu bytes of activations",
                         p->graph->model->name, total);
    return 0;
}

/* Outputs whose memory is the caller's need none here. */
static void leave_bound(struct plan *p)
{
    const struct native *e = p->engine;

    for (size_t i = 0; i < e->nout; i++) {
        struct val *v = &p->val[p->graph->output[i]];

        if (v->kind == VAL_PLANNED && e->bound[i].data && e->bound[i].type == v->t.type)
            v->kind = VAL_BOUND;
    }
}

/* Is value v, which an operator that runs writes, as big as its place? */
static bool value_fits(const struct plan *p, const struct op *op, uint32_t v)
{
    const struct val *val = &p->val[v], *twin = &p->val[val->twin];

    switch (val->placed) {
    case VAL_PLANNED:
        return val->t.bytes <= val->room;
    case VAL_ALIAS:
        return val->t.bytes == twin->t.bytes &&
               ((op->kernel->flags & K_ALIAS) || shape_equal(&val->t.shape, &twin->t.shape));
    default:
        return val->placed == VAL_INPUT || val->placed == VAL_BOUND;
    }
}

/* Does the plan that there is do, for the sizes of now? */
static bool still_fits(const struct plan *p)
{
    const struct native *e = p->engine;

    for (uint32_t i = 0; i < p->nop; i++) {
        const struct op *op = &p->op[i];

        if (!op->placed || op->how != op->placed_how)
            return false;
        if (op->how != OP_STATIC)
            continue;
        if (op->scratch_bytes > op->scratch_room)
            return false;
        for (uint32_t k = 0; k < op->nout; k++)
            if (op->out[k] != NO_VALUE && !value_fits(p, op, op->out[k]))
                return false;
    }
    for (size_t i = 0; i < e->nout; i++) {
        const struct val *v = &p->val[p->graph->output[i]];
        bool bound = e->bound[i].data && e->bound[i].type == v->t.type;

        if ((v->placed == VAL_BOUND && !bound) || (v->placed == VAL_PLANNED && bound))
            return false;
    }
    return true;
}

/* Values and scratch memory where that plan has them. */
static void take_places(struct plan *p)
{
    for (uint32_t i = 0; i < p->nop; i++) {
        const struct op *op = &p->op[i];

        for (uint32_t k = 0; op->how == OP_STATIC && k < op->nout; k++) {
            struct val *v = op->out[k] == NO_VALUE ? NULL : &p->val[op->out[k]];

            if (!v)
                continue;
            v->kind = v->placed;
            if (v->kind == VAL_PLANNED)
                v->t.data = (char *)p->arena + v->at;
        }
    }
    for (uint32_t i = 0; i < p->nval; i++)
        if (p->val[i].kind == VAL_ALIAS)
            p->val[i].t.data = p->val[root_of(p, i)].t.data;
}

/* All of it is to be found anew, and then kept in mind. */
static void forget_places(struct plan *p)
{
    for (uint32_t i = 0; i < p->nop; i++)
        for (uint32_t k = 0; p->op[i].how == OP_STATIC && k < p->op[i].nout; k++)
            if (p->op[i].out[k] != NO_VALUE)
                p->val[p->op[i].out[k]].kind = VAL_PLANNED;
    for (uint32_t i = 0; i < p->nval; i++)
        p->val[i].placed = VAL_NONE;
}

static void note_places(struct plan *p, const struct item *item, size_t n)
{
    for (uint32_t i = 0; i < p->nop; i++) {
        struct op *op = &p->op[i];

        op->placed = true;
        op->placed_how = op->how;
        op->scratch_room = 0;
        for (uint32_t k = 0; op->how == OP_STATIC && k < op->nout; k++)
            if (op->out[k] != NO_VALUE)
                p->val[op->out[k]].placed = p->val[op->out[k]].kind;
    }
    for (size_t i = 0; i < n; i++)
        if (item[i].val == NO_VALUE)
            p->op[item[i].op].scratch_room = item[i].bytes;
        else
            p->val[item[i].val].room = item[i].bytes;
    p->placed++;
}

static int place_all(struct plan *p, opm_error *err)
{
    struct item *item = mem_calloc((size_t)p->nval + p->nop + 1, sizeof(*item));
    const struct item **near = mem_calloc((size_t)p->nval + p->nop + 1, sizeof(struct item *));
    size_t n, total;
    int rc;

    if (!item || !near) {
        mem_free(item);
        mem_free(near);
        return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
    }
    forget_places(p);
    leave_bound(p);
    lifetimes(p);
    extend_aliases(p);
    find_aliases(p);
    n = collect(p, item);
    qsort(item, n, sizeof(*item), by_size);
    total = place(item, n, near);
    rc = new_arena(p, total, err);
    for (size_t i = 0; i < n && !rc; i++) {
        char *at = (char *)p->arena + item[i].at;

        if (item[i].val != NO_VALUE) {
            p->val[item[i].val].at = item[i].at;
            p->val[item[i].val].t.data = at;
            continue;
        }
        struct op *op = &p->op[item[i].op];

        if (op->scratch_own)
            native_free(op->scratch);
        op->scratch_own = 0;
        op->scratch = at;
        op->scratch_at = item[i].at;
    }
    for (uint32_t i = 0; i < p->nval && !rc; i++)
        if (p->val[i].kind == VAL_ALIAS)
            p->val[i].t.data = p->val[root_of(p, i)].t.data;
    if (!rc)
        note_places(p, item, n);
    mem_free(item);
    mem_free(near);
    return rc;
}

int plan_memory(struct plan *p, opm_error *err)
{
    if (!p->placed || !still_fits(p))
        return place_all(p, err);
    take_places(p);
    return 0;
}
