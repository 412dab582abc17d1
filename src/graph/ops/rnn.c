/* rnn.c -- recurrent layers: RNN, GRU, LSTM. */
#include "graph/ops/ops.h"

#include <string.h>

/* RNN, GRU and LSTM: X, W, R, ... -> Y, Y_h, Y_c. */
int infer_recurrent(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0), *r = op_shape(o, 2);
    bool batch_first = op_int(o, "layout", 0) != 0;
    const char *direction = node_attr_str(o->n, "direction", "forward");
    int64_t dirs = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    int64_t hidden = op_int(o, "hidden_size", DIM_OPEN), seq = DIM_OPEN, batch = DIM_OPEN;
    struct shape y, h;

    if (x->rank >= 0 && x->rank != 3)
        return op_fail(o, "input has %d dimensions", x->rank);
    if (r->rank ==
        3) { /* DynamicQuantizeLSTM has it turned: [directions, hidden, gates x hidden] */
        int64_t has = r->dim[strcmp(o->n->op_type, "DynamicQuantizeLSTM") == 0 ? 1 : 2];

        if (hidden != DIM_OPEN && has >= 0 && hidden != has)
            return op_fail(o, "hidden_size is %lld, but its weights are for %lld",
                           (long long)hidden, (long long)has);
        hidden = has;
    }
    if (x->rank == 3) {
        seq = x->dim[batch_first];
        batch = x->dim[!batch_first];
    }
    y = batch_first ? (struct shape){ 4, { batch, seq, dirs, hidden } }
                    : (struct shape){ 4, { seq, dirs, batch, hidden } };
    h = batch_first ? (struct shape){ 3, { batch, dirs, hidden } }
                    : (struct shape){ 3, { dirs, batch, hidden } };
    op_set(o, 0, op_type(o, 0), &y);
    op_set(o, 1, op_type(o, 0), &h);
    op_set(o, 2, op_type(o, 0), &h);
    return 0;
}

/* LSTM, GRU, RNN: cost is the number of gates. Per step and sequence: two products, their sum, two
 * biases, and what the gates compute (a sigmoid is 4, a tanh 1). */
int64_t flops_recurrent(const struct graph *g, const struct node *n, int cost)
{
    const struct shape *x = node_in_shape(g, n, 0), *w = node_in_shape(g, n, 1),
                       *rec = node_in_shape(g, n, 2);
    int64_t gates = cost, act = gates == 4 ? 18 : gates == 3 ? 14 : 1;
    int64_t dirs = shape_at(w, 0), hidden = shape_at(rec, 2), input = shape_at(x, 2);
    int64_t steps = count_mul(shape_at(x, 0), shape_at(x, 1)), per;

    if (strcmp(n->op_type, "DynamicQuantizeLSTM") == 0) { /* its weights are turned */
        hidden = node_attr_int(n, "hidden_size", -1);
        dirs = shape_at(w, 0);
    }
    per = count_mul(count_mul(gates, hidden), count_mul(count_add(input, hidden), 2));
    per = count_add(per, count_mul(hidden, gates + (node_in(g, n, 3) ? 2 * gates : 0) + act));
    return count_mul(count_mul(steps, dirs), per);
}
