/* posts.c -- what follows an operator on the same elements; see op.h. */
#include "engine/native/op.h"

/* Operands must have the elements that posts_apply() will read: `bias` of them, or as many as the
 * output. */
int posts_check(const struct op *op, int64_t bias, opm_error *err)
{
    for (int i = 0; i < op->npost; i++) {
        const struct nt *t =
            op->post[i].slot >= 0 ? kernel_in(op, (uint32_t)op->post[i].slot) : NULL;
        int64_t want = op->post[i].kind == POST_BIAS ? bias : kernel_out(op, 0)->count;

        if (op->post[i].slot >= 0 && (!t || t->type != TENSOR_F32 || t->count != want))
            return kernel_fail(op, OPM_EINVAL, err, "what is added does not fit");
    }
    return 0;
}

void posts_begin(struct posts *p, const struct op *op, bool bias_row)
{
    p->isa = kernel_isa(op);
    p->op = op;
    p->bias_row = bias_row;
    p->bias_base = 0;
    p->first = 0;
    for (int i = 0; i < op->npost; i++)
        p->operand[i] =
            op->post[i].slot >= 0 ? kernel_in(op, (uint32_t)op->post[i].slot)->data : NULL;
}

#define LINE_MAX 4096 /* floats that are taken at once: they stay in the first-level cache */

/* Rows that lie one after the other, and for which it does not matter which row it is. */
static bool one_line(const struct posts *p, int64_t ldc, int64_t rows, int64_t cols)
{
    if (cols != ldc || rows * cols > LINE_MAX)
        return false;
    for (int i = p->first; i < p->op->npost; i++)
        if (p->op->post[i].kind == POST_BIAS)
            return false;
    return true;
}

void posts_apply(const struct posts *p, float *c, int64_t ldc, int64_t rows, int64_t cols,
                 int64_t row0, int64_t col0, int64_t base)
{
    if (rows > 1 && one_line(p, ldc, rows, cols)) {
        base += row0 * ldc;
        row0 = 0;
        cols *= rows;
        rows = 1;
    }
    for (int64_t r = 0; r < rows; r++, c += ldc) {
        int64_t at = base + (row0 + r) * ldc + col0;

        for (int i = p->first; i < p->op->npost; i++) {
            const struct post *q = &p->op->post[i];
            const float *x = p->operand[i];

            switch (q->kind) {
            case POST_UNARY:
                p->isa->unary(q->unary, c, c, cols, q->alpha, q->beta);
                break;
            case POST_BIAS:
                if (p->bias_row)
                    p->isa->binary(B_ADD, c, c, 1, x + p->bias_base + row0 + r, 0, cols);
                else
                    p->isa->binary(B_ADD, c, c, 1, x + p->bias_base + col0, 1, cols);
                break;
            case POST_ADD:
                p->isa->binary(B_ADD, c, c, 1, x + at, 1, cols);
                break;
            case POST_MUL:
                p->isa->binary(B_MUL, c, c, 1, x + at, 1, cols);
                break;
            case POST_SCALE:
                p->isa->unary(U_AFFINE, c, c, cols, q->alpha, 0);
                break;
            default:
                break;
            }
        }
    }
}
