/* control.c -- operators with graphs inside. */
#include "graph/infer_int.h"

/* Infer a body whose inputs are set. What does not fit in there is no error: it may never run. When
 * loops in loops have taken too much work, nothing is known about a body. */
static int infer_body(const struct opview *o, struct graph *body)
{
    int rc;

    if (o->inf->work > o->inf->work_max) {
        infer_forget(body);
        return 0;
    }
    o->inf->soft++;
    infer_captures(body);
    rc = infer_graph(o->inf, body);
    o->inf->soft--;
    return rc;
}

static const struct value *body_out(const struct graph *body, uint32_t i)
{
    return i < body->noutput ? &body->value[body->output[i]] : NULL;
}

/* Take over what is known about one result of a body. */
static void take_result(const struct opview *o, uint32_t slot, const struct graph *body, uint32_t i)
{
    const struct value *from = body_out(body, i);
    struct value *to = node_out(o->g, o->n, slot);

    if (!from || !to)
        return;
    op_set(o, slot, from->type, &from->shape);
    to->kind = from->kind;
    to->data = from->data;
    to->flags |= from->data ? VALUE_FOLDED : 0;
    o->g->known[o->n->out[slot]] = body->known[body->output[i]];
}

int infer_if(const struct opview *o)
{
    struct graph *yes = node_attr_graph(o->n, "then_branch");
    struct graph *no = node_attr_graph(o->n, "else_branch");
    int64_t cond;
    int rc;

    if (!yes || !no)
        return op_fail(o, "has no two branches");
    rc = infer_body(o, yes);
    if (!rc)
        rc = infer_body(o, no);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < o->nout; i++) {
        const struct value *a = body_out(yes, i), *b = body_out(no, i);
        struct shape s;

        if (!a || !b)
            return op_fail(o, "a branch has too few outputs");
        if (op_known_int(o, 0, &cond)) {
            take_result(o, i, cond ? yes : no, i);
            continue;
        }
        s = a->shape;
        shape_join(&s, &b->shape);
        op_set(o, i, a->type == b->type ? a->type : TENSOR_NONE, &s);
        infer_set_kind(o, i, a->kind);
    }
    return 0;
}

/* Does the loop's condition stay true in every round? */
static bool always_true(const struct graph *body)
{
    const struct value *cond = body_out(body, 0);

    if (cond && cond->data)
        return cond->data->count == 1 && tensor_int(cond->data, 0) != 0;
    /* Often the body hands its own condition through, and that is true when it runs. */
    return cond && body->ninput > 1 && body->output[0] == body->input[1];
}

/* Values that a loop carries: set the body's inputs, infer it, and make them more general until
 * they describe every round. inputs of the node from `first`, of the body from `into`, results of
 * the body from `from`. */
static int infer_carried(const struct opview *o, struct graph *body, uint32_t first, uint32_t into,
                         uint32_t from, uint32_t n)
{
    const struct value nothing = { 0 };
    const struct shape unknown = shape_unknown();
    bool again = true;
    int rc = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct value *v = node_in(o->g, o->n, first + i);

        if (v)
            infer_set_input(body, into + i, v, &v->shape);
    }
    for (int round = 0; again && !rc && round < 2 * SHAPE_RANK_MAX; round++) {
        again = false;
        rc = infer_body(o, body);
        for (uint32_t i = 0; i < n && into + i < body->ninput; i++) {
            struct value *in = &body->value[body->input[into + i]];
            const struct value *out = body_out(body, from + i);
            struct shape s = in->shape;

            if (!out)
                continue;
            shape_join(&s, &out->shape);
            if (!shape_equal(&s, &in->shape)) {
                in->shape = s;
                again = true;
            }
            if (in->type != out->type && in->type != TENSOR_NONE) {
                in->type = TENSOR_NONE;
                again = true;
            }
        }
    }
    if (rc || !again)
        return rc;
    /* So many values that rounds ran out before they settled: give them up. */
    for (uint32_t i = 0; i < n; i++)
        infer_set_input(body, into + i, &nothing, &unknown);
    return infer_body(o, body);
}

int infer_loop(const struct opview *o)
{
    struct graph *body = node_attr_graph(o->n, "body");
    struct shape scalar = shape_scalar();
    struct value count = { .type = TENSOR_I64 }, cond = { .type = TENSOR_BOOL };
    int64_t trips = DIM_OPEN, start = 1;
    uint32_t carried;
    int rc;

    if (!body || body->ninput < 2)
        return op_fail(o, "has no body, or one without a count and a condition");
    carried = body->ninput - 2;
    infer_set_input(body, 0, &count, &scalar);
    infer_set_input(body, 1, &cond, &scalar);
    rc = infer_carried(o, body, 2, 2, 1, carried);
    if (rc)
        return rc;
    if (op_has(o, 1) && !op_known_int(o, 1, &start))
        start = -1;
    if (op_known_int(o, 0, &trips) && trips >= 0 && start >= 0 && (start == 0 || always_true(body)))
        trips = start == 0 ? 0 : trips;
    else
        trips = DIM_OPEN;
    for (uint32_t i = 0; i < o->nout; i++) {
        const struct value *v = body_out(body, i + 1);

        if (i < carried) { /* if there is no round at all, what went in comes out */
            const struct value *in = node_in(o->g, o->n, 2 + i);
            struct shape s = in ? in->shape : shape_unknown();

            if (v)
                shape_join(&s, &v->shape);
            op_set(o, i, in && v && in->type == v->type ? in->type : TENSOR_NONE, &s);
            if (v)
                infer_set_kind(o, i, v->kind);
        } else if (v) {
            struct shape s = shape_stacked(&v->shape, trips, 0);

            op_set(o, i, v->type, &s);
        }
    }
    return 0;
}

/* A list attribute of Scan; absent: 0 for each. */
static int64_t scan_axis(const struct opview *o, const char *name, uint32_t i)
{
    size_t len;
    const int64_t *v = node_attr_ints(o->n, name, &len);

    return v && i < len ? v[i] : 0;
}

int infer_scan(const struct opview *o)
{
    struct graph *body = node_attr_graph(o->n, "body");
    int64_t nscan = op_int(o, "num_scan_inputs", 0), length = DIM_OPEN;
    uint32_t states;
    int rc = 0, axis;

    if (!body || nscan < 1 || nscan > body->ninput)
        return op_fail(o, "has no body, or no inputs to scan");
    if (o->nin < body->ninput)
        return 0;
    states = body->ninput - (uint32_t)nscan;
    for (uint32_t i = 0; i < (uint32_t)nscan; i++) {
        const struct value *v = node_in(o->g, o->n, states + i);
        struct shape s = v ? v->shape : shape_unknown(), row = { 0 };

        if (!v)
            continue;
        if (s.rank > 0) {
            rc = op_axis(o, scan_axis(o, "scan_input_axes", i), s.rank, &axis);
            if (rc)
                return rc;
            if (length < 0)
                length = s.dim[axis];
            for (int32_t k = 0; k < s.rank; k++)
                if (k != axis)
                    row.dim[row.rank++] = s.dim[k];
        } else
            row.rank = -1;
        infer_set_input(body, states + i, v, &row);
    }
    rc = infer_carried(o, body, 0, 0, 0, states);
    for (uint32_t i = 0; !rc && i < o->nout; i++) {
        const struct value *v = body_out(body, i);
        int64_t at = i >= states ? scan_axis(o, "scan_output_axes", i - states) : 0;
        struct shape s;

        if (!v)
            return op_fail(o, "the body has too few outputs");
        s = v->shape;
        if (i >= states && s.rank >= 0) {
            rc = op_axis(o, at, s.rank + 1, &axis);
            s = rc ? s : shape_stacked(&s, length, axis);
        }
        op_set(o, i, v->type, &s);
    }
    return rc;
}

int infer_sequence_map(const struct opview *o)
{
    struct graph *body = node_attr_graph(o->n, "body");
    int rc;

    if (!body)
        return op_fail(o, "has no body");
    for (uint32_t i = 0; i < o->nin; i++) {
        struct value v = { 0 };
        const struct value *in = node_in(o->g, o->n, i);

        if (!in)
            continue;
        v.type = in->type;
        infer_set_input(body, i, &v, &in->shape);
    }
    rc = infer_body(o, body);
    for (uint32_t i = 0; !rc && i < o->nout; i++) {
        const struct value *v = body_out(body, i);

        if (v)
            op_set(o, i, v->type, &v->shape);
        infer_set_kind(o, i, VALUE_SEQUENCE);
    }
    return rc;
}

/* Scan of opset 8: lengths, states, then what is scanned, all with a batch in front. States keep
 * their shapes; how long the rest is depends on the lengths. */
int infer_scan_batch(const struct opview *o)
{
    const struct graph *body = node_attr_graph(o->n, "body");
    int64_t nscan = op_int(o, "num_scan_inputs", 0);

    if (!body || nscan < 1 || nscan > body->ninput)
        return op_fail(o, "has no body, or no inputs to scan");
    for (uint32_t i = 0; i < body->ninput - (uint32_t)nscan; i++)
        op_same(o, i, i + 1);
    return 0;
}

/* FlexAttention: Q, K, V of four dimensions; its bodies change the scores and the weights, which
 * are [batch, heads of Q, rows of Q, rows of K]. */
int infer_flex_attention(const struct opview *o)
{
    static const char *const bodies[] = { "score_mod", "prob_mod" };
    struct value scores = { .type = op_type(o, 0) };
    struct shape s = { 4, { op_dim(o, 0, 0), op_dim(o, 0, 1), op_dim(o, 0, 2), op_dim(o, 1, 2) } },
                 y = { 4, { op_dim(o, 0, 0), op_dim(o, 0, 1), op_dim(o, 0, 2), op_dim(o, 2, 3) } };

    for (int i = 0; i < 2; i++) {
        struct graph *body = node_attr_graph(o->n, bodies[i]);
        int rc;

        if (!body)
            continue;
        if (body->ninput != 1 || body->noutput != 1)
            return op_fail(o, "%s has %u inputs and %u outputs instead of one each", bodies[i],
                           body->ninput, body->noutput);
        if (!o->inf) /* an engine asks: its bodies were inferred with the graph */
            continue;
        infer_set_input(body, 0, &scores, &s);
        rc = infer_body(o, body);
        if (rc)
            return rc;
    }
    op_set(o, 0, op_type(o, 0), &y);
    return 0;
}
