/* attention.h -- what the operators that compute attention share: Attention of opset 23, and
 * com.microsoft's Attention, MultiHeadAttention, GroupQueryAttention and SparseAttention.
 *
 * prepare() fills in the geometry of a struct attention and calls attention_plan(); run() says
 * where the operands are (struct attention_call) and calls attention_run(). Keys and values of
 * earlier calls (past) come before the new ones; together they are the present ones. */
#ifndef NATIVE_ATTENTION_H
#define NATIVE_ATTENTION_H

#include "engine/native/math/sdpa.h"

/* Where head h of batch item b has its rows: base[b * batch + h * head + row * step]. */
struct rows {
    const float *base;
    int64_t batch, head, step;
};

struct attention {
    /* To be set before attention_plan(). */
    int64_t batch, heads, kv_heads, q_len, width, v_width;
    int64_t kv_len; /* new keys */
    int64_t past;   /* rows of what is past, before them */
    int64_t total;  /* keys that are looked at */
    int64_t masked; /* > 0: a mask has so many keys only, those after it are not looked at */
    float scale, cap;
    bool causal;      /* row i sees the first before + i + 1 keys */
    int64_t before;   /* unless lengths are given with the call */
    int64_t left;     /* >= 0: so many keys before its own at most, ... */
    int64_t right;    /* ... so many after it; -1: all */
    bool sinks;       /* see sdpa.h */
    bool copy_q;      /* it gets a bias, is normalized or turned */
    bool copy_kv;     /* likewise, or there is something past or present */
    bool present[2];  /* the copies of K and V are outputs: take no scratch memory */
    int64_t mask[4];  /* dimensions of a mask that is made in scratch memory; 0: none */
    size_t own_bytes; /* scratch memory that the operator wants for itself, at its beginning */
    /* Set by attention_plan(). */
    struct sdpa core;
    size_t at_q, at_k, at_v, at_mask, at_limit, at_core;
};

/* To begin with: all keys are looked at. */
#define ATTENTION_NONE ((struct attention){ .left = -1, .right = -1 })

struct attention_call {
    struct rows q, k, v;  /* the new ones */
    const float *bias[3]; /* of Q, K, V: heads * width floats, or NULL */
    const float *gain[2]; /* Q and K: rows are RMS-normalized, by width gains; or NULL */
    float gain_epsilon;
    const float *past_k, *past_v; /* [batch, kv_heads, past, width], or NULL */
    float *present_k, *present_v; /* [batch, kv_heads, total, width], or NULL: in scratch */
    const float *cos, *sin;       /* turn Q and K: `half` numbers by position; or NULL */
    int64_t half, positions;
    const struct nt *pos;     /* of the new rows, [batch, q_len]; NULL: behind what is past */
    bool mixed;               /* neighbours are turned, not halves */
    const struct nt *seq;     /* of each batch item: keys that count, less one; NULL: all. They come
                               * right behind what is past of it */
    const struct nt *lengths; /* of each batch item: keys that count; NULL: all. Where nothing is
                               * past, the rows of Q are the last of these */
    float *scores;            /* [batch, heads, q_len, scored], as core.scores says, or NULL */
    int64_t scored;           /* of all keys, the first ones; 0: all */
    const float *mask;        /* added to the scores; strides in mask_stride */
    const uint8_t *where;     /* false: not looked at */
    const float *sink;        /* of each head, if a->sinks; NULL: 0 */
    int64_t mask_stride[4];
};

int attention_want_f32(const struct op *op, uint32_t slot, opm_error *err);
/* [batch, heads, length, width], or [batch, length, heads * width]. */
bool attention_shape(const struct shape *s, int64_t heads, int64_t *len, int64_t *width);
struct rows attention_rows(const struct nt *t, int64_t heads);
/* Strides of a mask of up to four dimensions, aligned at the last one, for broadcasting. False if
 * it does not broadcast to a's scores. */
bool attention_mask_stride(const struct attention *a, const struct shape *s, int64_t stride[4]);

/* Sets op->scratch_bytes. */
int attention_plan(struct op *op, struct attention *a, opm_error *err);
/* Present keys and values, and copies of the operands where they are wanted; where the operands are
 * then. */
int attention_bring(struct op *op, const struct attention *a, const struct attention_call *c,
                    struct rows *q, struct rows *k, struct rows *v, opm_error *err);
/* The same, and attention into output 0. */
int attention_run_call(struct op *op, const struct attention *a, const struct attention_call *c,
                       opm_error *err);

/* Integer masks of com.microsoft: does it fit; room for it, as numbers to add, with `add` (may be
 * NULL) added; that mask, and its strides. */
bool attention_key_mask_fits(const struct attention *a, const struct nt *m);
void attention_key_mask_room(struct attention *a, const struct nt *m, const struct nt *add);
const float *attention_key_mask(const struct op *op, const struct attention *a, const struct nt *m,
                                const struct nt *add, int64_t stride[4]);

/* Query, key and value with fewer heads of keys, or all three in one input: the geometry, false if
 * they do not fit; where they are. */
bool attention_group_geometry(const struct op *op, struct attention *a);
void attention_group_rows(const struct op *op, const struct attention *a, struct attention_call *c);
/* Cosines and sines that a's operands can be turned by. */
bool attention_turns(const struct attention *a, const struct nt *cos, const struct nt *sin);

/* Turn the first 2 * half numbers of a row; the others, up to width, are copied. */
void rotary_row(const struct isa *isa, float *to, const float *from, int64_t width,
                const float *cos, const float *sin, int64_t half, bool mixed);

#endif
