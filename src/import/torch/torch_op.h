/* torch_op.h -- operators of PyTorch: one row of op for each name with the same input shapes and
 * types. */
#ifndef IMPORT_TORCH_TORCH_OP_H
#define IMPORT_TORCH_TORCH_OP_H

#include "import/json/events.h"

/* What the args of a cpu_op say about one input. */
struct torch_input {
    int64_t dim[16];
    int ndim;          /* -1: not a tensor, or not known */
    const char *dtype; /* as PyTorch writes it; may be NULL */
    size_t dtype_len;
    const char *concrete; /* text of a value that is no tensor: "1", "[1, 1]"; may be NULL */
    size_t concrete_len;
};

#define TORCH_INPUTS_MAX 32
struct torch_inputs {
    struct torch_input in[TORCH_INPUTS_MAX];
    int n;
};

/* The op row of an operator event; OPM_NULL_ID stays if it says nothing about inputs and has no
 * name. */
int torch_op(struct events *ev, struct u64map *known, str_id name, const struct event_info *info,
             uint32_t *out);

/* Floating-point operations of one execution, a multiply-add counting as two; -1: not known. See
 * torch_flops.c for the formulas. */
int64_t torch_flops(const char *name, const struct torch_inputs *in);

#endif
