/* op.h -- what the files of the native engine share.
 *
 * Life of a model here: plan_build() turns a graph into a list of operators (struct op), several
 * nodes to one where they fuse; plan_prepare() walks it for given input shapes: each kernel's
 * prepare() gives its outputs their shapes, operators that depend on nothing but constants and
 * shapes are executed on the spot, the others get a place in the memory plan; plan_run() executes
 * what is left. An operator whose output shapes depend on data that is not known before running
 * (NonZero, Loop, Reshape to a computed shape ...) is dynamic, and so is everything after it: it is
 * prepared again during the run, and its outputs have memory of their own. */
#ifndef NATIVE_OP_H
#define NATIVE_OP_H

#include "base/alloc.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/native/isa/isa.h"
#include "engine/native/memory.h"
#include "engine/native/thread/pool.h"

#include <opmeter/opmeter.h>

/* prepare() wants data that is not known yet; not an error. */
#define NEED_DATA 1

/* A tensor; float16 and bfloat16 do not occur, see half.h. data is NULL while it is not known,
 * never because the tensor is empty. Elements of TENSOR_STRING are struct tensor_string, whose text
 * may be NULL if it is empty.
 *
 * Other kinds have TENSOR_NONE as their type: VALUE_SEQUENCE is a list of pointers to tensors,
 * VALUE_MAP one of two, keys and values, VALUE_OPTIONAL nothing at all (an optional that holds
 * something is what it holds). Copying the list copies the value: what it points to does not change
 * and lives in a heap of the engine. */
struct nt {
    enum tensor_type type;
    struct shape shape; /* rank -1: not known yet; of a list: its length */
    int64_t count;
    size_t bytes;
    void *data;
    enum value_kind kind;
};

enum kernel_flags {
    K_ALIAS = 1,    /* output 0 is the memory of input 0; run() has nothing to do for it */
    K_INPLACE = 2,  /* output 0 may lie on an input of the same size */
    K_SHAPE = 4,    /* reads no data, only shapes */
    K_DYNAMIC = 8,  /* sets shapes and memory of its outputs itself, while running */
    K_IMPURE = 16,  /* never computed ahead */
    K_ANYTYPE = 32, /* copes with every element type */
    K_HALF = 64,    /* raw inputs of 16 bits are read through kernel_half(), as they are */
    K_LATER = 128,  /* its first output may be left out */
    K_LISTS = 256,  /* copes with values that are no tensors */
};

/* What a kernel is, for those who choose and rewrite; kernels.def lists them. */
enum kernel_kind {
#define KERNEL(name) KERNEL_##name,
#include "engine/native/kernels.def"
};

struct op;

/* How one operator type is executed; registry.c holds the table. */
struct kernel {
    enum kernel_kind kind;
    const char *op_type; /* NULL: no node asks for it, rewriting makes it */
    const char *domain;
    int min, max; /* versions of the domain; max 0: no end */
    int (*prepare)(struct op *op, opm_error *err);
    int (*run)(struct op *op, opm_error *err);
    uint32_t flags; /* enum kernel_flags */
    int arg;        /* which of a family */
    uint32_t raw;   /* bit i: constant input i is read through kernel_const(), unaligned as it is */
};

/* NULL if there is none for this operator and version. */
const struct kernel *kernel_find(const char *op_type, const char *domain, int opset);
/* One of a family, whatever operator asks for it; NULL if there is none. */
const struct kernel *kernel_form(enum kernel_kind kind, int arg);

/* What is done to an output element after the operator proper, in this order. */
enum post_kind {
    POST_NONE,
    POST_ADD,   /* + operand of the same shape */
    POST_UNARY, /* enum isa_unary */
    POST_BIAS,  /* + vector along the last dimension (GEMM) or channels (convolution) */
    POST_MUL,   /* * operand of the same shape */
    POST_SCALE, /* * number */
};
#define POST_MAX 6

struct post {
    enum post_kind kind;
    enum isa_unary unary;
    float alpha, beta;
    int slot; /* of op->in, for ADD, MUL and BIAS */
};

enum op_state {
    OP_STATIC,  /* prepared, runs */
    OP_DONE,    /* computed while preparing */
    OP_DYNAMIC, /* prepared while running */
};

#define SLOTS_SPARE 8

struct op {
    const struct kernel *kernel;
    struct plan *plan;
    const struct node *node; /* the main one */
    const struct node **cover;
    uint32_t ncover;
    uint32_t nin, nout;
    /* Values of the graph, NO_VALUE where left out, and SLOTS_SPARE times behind the last: fusing
     * looks at inputs that a broken node may lack. */
    uint32_t *in;
    uint32_t *out;
    struct post post[POST_MAX];
    int npost;
    const char *type; /* what it is called if not by the main node's type: "LayerNormalization" */
    const char
        *algorithm; /* set by prepare() where there is a choice: "winograd 4x4"; lives with state */
    size_t packed_bytes;   /* of constants in the kernel's own form; set by prepare() */
    size_t extra_bytes;    /* by which these exceed the constants */
    bool folded_batchnorm; /* into constant weights */
    bool turned_b;         /* MatMul: input 1 is the transposed of what the node multiplies by */
    int64_t block_size;    /* of the DequantizeLinear that a product by its weights covers */
    bool sparse_support;   /* there is a kernel for weights with zero blocks */
    double zero_ratio;     /* of the weights; NAN: not counted yet */
    float epsilon;         /* of a fused normalization; NAN: the node's attribute */
    void *state;           /* the kernel's own */
    void (*release)(void *state);
    size_t scratch_bytes; /* set by prepare(): memory for the time of run() */
    void *scratch;
    size_t scratch_own; /* bytes of scratch if it is not in the arena */
    size_t scratch_at;
    enum op_state how;
    bool fixed;         /* depends on constants only: done once and for all */
    bool looked;        /* prepare() looked at data */
    bool told;          /* the recorder knows more than its name */
    bool prepared;      /* for the shapes below */
    struct shape *seen; /* nin shapes it was prepared for; NULL: none yet */
    bool placed;        /* the memory plan knows it as it is in placed_how */
    enum op_state placed_how;
    size_t scratch_room; /* bytes of scratch in the arena */
    struct plan **body;  /* of control flow: one for each graph attribute */
    uint32_t nbody;
    opm_op *meter;
};

enum val_kind {
    VAL_NONE,    /* not known yet */
    VAL_CONST,   /* a constant of the model */
    VAL_INPUT,   /* the caller's memory */
    VAL_KNOWN,   /* computed while preparing; owned */
    VAL_PLANNED, /* in the arena */
    VAL_ALIAS,   /* memory of another value */
    VAL_BOUND,   /* an output in the caller's memory */
    VAL_OWN,     /* dynamic: owned, grows */
};

struct val {
    struct nt t;
    enum val_kind kind;
    bool fixed;                /* depends on constants only */
    const struct tensor *src;  /* VAL_CONST: t.data is NULL until val_materialize() */
    struct tensor *wide;       /* the same, of a 16-bit constant: as float32 */
    const struct tensor *half; /* what it is made of */
    bool kept;                 /* wide stays once all operators are prepared */
    void *own;
    size_t own_bytes;
    uint32_t root;        /* VAL_ALIAS: where the memory is */
    uint32_t first, last; /* operators between which it lives */
    size_t at;            /* VAL_PLANNED: offset in the arena */
    enum val_kind placed; /* what the memory plan made of it, VAL_NONE: nothing */
    uint32_t twin;        /* VAL_ALIAS: the operand that it lies on */
    size_t room;          /* VAL_PLANNED: bytes that it may grow to */
    bool blocked;         /* the channel-blocked form (blocked_isa.h) of the graph's value `of` */
    uint32_t of;
};

/* An executable graph. Subgraphs have plans of their own, always dynamic. */
struct plan {
    struct native *engine;
    const struct graph *graph;
    struct plan *outer;
    struct val *val; /* those of the graph, then those that fusing added */
    uint32_t nval;
    struct op *op;
    uint32_t nop;
    void *arena;
    size_t arena_bytes;
    uint64_t placed; /* memory plans that were made */
    bool built;      /* plan_build() is done */
    bool inner;      /* of a subgraph: nothing but constants is known before running */
};

struct native {
    struct engine base;
    struct model *model;
    struct engine_options opts;
    struct pool *pool;
    const struct isa *isa;
    struct plan *plan;
    struct engine_value *in, *out;
    size_t nin, nout;
    struct shape *last_in; /* shapes of the last prepare */
    bool ready;
    bool described;    /* to the recorder, for these shapes */
    struct told *told; /* and for which ones before; see meter.c */
    size_t ntold, told_cap, told_now;
    int64_t rounds; /* of loops in this run */
    struct budget budget;
    int64_t next_look_ns;            /* when to ask opts.stop again */
    bool stopped;                    /* it said so: operators of this run may be half done */
    struct engine_tensor *bound;     /* of each output: where it goes; data NULL: it stays here */
    const struct engine_tensor *fed; /* inputs of the call that is under way, or NULL */
    struct val *result;              /* copies of outputs that are not in memory of the engine */
    struct keep lasting;             /* strings that were computed while preparing */
    struct keep fleeting;            /* strings and lists of this run */
    bool running;
};

/* plan.c */
int plan_build(struct plan **out, struct native *e, const struct graph *g, struct plan *outer,
               opm_error *err);
void plan_free(struct plan *p); /* NULL is fine */
void op_release(struct op *op);
/* exec.c: inputs are set in p->val beforehand. */
int plan_prepare(struct plan *p, opm_error *err);
int plan_run(struct plan *p, opm_error *err);
/* Now and then ask whether to give up: 0, or OPM_ELIMIT. */
int native_look(struct native *e, opm_error *err);
/* Ask also while operators work, until native_unwatch(). Not while they are prepared: what that
 * leaves behind stays, and must not be half done. */
void native_watch(struct native *e);
void native_unwatch(struct native *e);
/* Room for n values and the spare ones, all NO_VALUE; NULL when out of memory. */
uint32_t *slots_new(size_t n);
/* memplan.c: give each planned value and scratch its place; fills p->arena. */
int plan_memory(struct plan *p, opm_error *err);
/* layout.c: after fusing, channel-blocked forms of values where convolutions are. */
int plan_layout(struct plan *p, opm_error *err);
/* fuse.c */
int plan_fuse(struct plan *p, opm_error *err);
/* meter.c: describe operators to the recorder. Names when a model is opened; then, for each set of
 * input shapes, before preparing, which is recorded already, that those told of are operators anew
 * (meter_shapes() is true), and after it shapes, FLOPs, what preparing chose, and the memory plan
 * (meter_all()). Shapes that come again are the operators that they were. Where the caller has
 * memory for outputs, they grow with every run, and only when one grew by an eighth they are
 * others.
 */
void meter_names(struct native *e);
bool meter_shapes(struct native *e, const struct engine_tensor *in);
void meter_all(struct native *e);
void meter_release(struct native *e);

/* For kernels. */
static inline struct nt *kernel_in(const struct op *op, uint32_t i)
{
    return i < op->nin && op->in[i] != NO_VALUE ? &op->plan->val[op->in[i]].t : NULL;
}
static inline struct nt *kernel_out(const struct op *op, uint32_t i)
{
    return i < op->nout && op->out[i] != NO_VALUE ? &op->plan->val[op->out[i]].t : NULL;
}
static inline struct pool *kernel_pool(const struct op *op)
{
    return op->plan->engine->pool;
}
static inline const struct isa *kernel_isa(const struct op *op)
{
    return op->plan->engine->isa;
}
/* In prepare(): the data of an input, or NULL if it is not known (return NEED_DATA then). */
const void *kernel_data(struct op *op, uint32_t i);
/* The constant that input i is, unaligned, or NULL (also when out of memory for its float32 form).
 * While the plan is built, data of big 16-bit constants is NULL unless val_widen() was called. */
const struct tensor *kernel_const(const struct op *op, uint32_t i);
/* The 16-bit constant that input i is made of, or NULL. */
const struct tensor *kernel_half(const struct op *op, uint32_t i);
/* Input i is the same for all runs. */
static inline bool kernel_fixed(const struct op *op, uint32_t i)
{
    return i < op->nin && op->in[i] != NO_VALUE && op->plan->val[op->in[i]].fixed;
}
/* Integers of an input that gives axes, shapes, ...: int32 or int64. NEED_DATA, an error, or 0. */
int kernel_ints(struct op *op, uint32_t i, int64_t *out, size_t room, size_t *n, opm_error *err);
/* An output's type and shape; an error if it would be too big. Absent outputs are fine. */
int kernel_set(struct op *op, uint32_t i, enum tensor_type type, const struct shape *s,
               opm_error *err);
/* The same for float32 in channel-blocked form: N x C x up to two dimensions. */
int kernel_set_blocked(struct op *op, uint32_t i, const struct shape *s, opm_error *err);
/* "m.onnx: node 3 'x' (Conv): ..." */
__attribute__((format(printf, 4, 5))) int kernel_fail(const struct op *op, int code, opm_error *err,
                                                      const char *fmt, ...);
int kernel_nomem(const struct op *op, opm_error *err);
/* Error if input i is missing or not of one of the types, given as a bit mask of TYPE_BIT(). */
#define TYPE_BIT(t) ((uint64_t)1 << (t))
int kernel_want(const struct op *op, uint32_t i, uint64_t types, opm_error *err);
#define TYPES_FLOAT (TYPE_BIT(TENSOR_F32) | TYPE_BIT(TENSOR_F64))
#define TYPES_INT                                                                              \
    (TYPE_BIT(TENSOR_U8) | TYPE_BIT(TENSOR_I8) | TYPE_BIT(TENSOR_U16) | TYPE_BIT(TENSOR_I16) | \
     TYPE_BIT(TENSOR_U32) | TYPE_BIT(TENSOR_I32) | TYPE_BIT(TENSOR_U64) | TYPE_BIT(TENSOR_I64))
#define TYPES_NUM (TYPES_FLOAT | TYPES_INT)
#define TYPES_INDEX (TYPE_BIT(TENSOR_I32) | TYPE_BIT(TENSOR_I64))
/* Everything whose elements are whole bytes. */
#define TYPES_BYTES                                                                        \
    (TYPES_NUM | TYPE_BIT(TENSOR_BOOL) | TYPE_BIT(TENSOR_F16) | TYPE_BIT(TENSOR_BF16) |    \
     TYPE_BIT(TENSOR_C64) | TYPE_BIT(TENSOR_C128) | TYPE_BIT(TENSOR_F8E4M3FN) |            \
     TYPE_BIT(TENSOR_F8E4M3FNUZ) | TYPE_BIT(TENSOR_F8E5M2) | TYPE_BIT(TENSOR_F8E5M2FNUZ) | \
     TYPE_BIT(TENSOR_F8E8M0) | TYPE_BIT(TENSOR_STRING))

/* Floats of at most 8 bits, and integers of fewer. */
#define TYPES_SMALL_FLOAT                                                                \
    (TYPE_BIT(TENSOR_F8E4M3FN) | TYPE_BIT(TENSOR_F8E4M3FNUZ) | TYPE_BIT(TENSOR_F8E5M2) | \
     TYPE_BIT(TENSOR_F8E5M2FNUZ) | TYPE_BIT(TENSOR_F8E8M0) | TYPE_BIT(TENSOR_F4E2M1))
#define TYPES_SMALL_INT \
    (TYPE_BIT(TENSOR_U4) | TYPE_BIT(TENSOR_I4) | TYPE_BIT(TENSOR_U2) | TYPE_BIT(TENSOR_I2))
#define TYPES_SMALL (TYPES_SMALL_FLOAT | TYPES_SMALL_INT)

/* -rank..rank-1 to 0..rank-1; -1 if it is neither. */
int nt_axis(int64_t axis, int32_t rank);
static inline size_t nt_width(enum tensor_type t)
{
    return t == TENSOR_STRING ? sizeof(struct tensor_string) : (size_t)tensor_type_bits(t) / 8;
}
static inline const struct tensor_string *nt_strings(const struct nt *t)
{
    return t->data;
}
static inline const struct nt *nt_item(const struct nt *list, int64_t i)
{
    return ((const struct nt *const *)list->data)[i];
}
/* Element i as an integer or number, like tensor_int() and tensor_float(). */
int64_t nt_int(const struct nt *t, int64_t i);
double nt_float(const struct nt *t, int64_t i);
/* No product of dimensions overflows, not even next to a dimension of 0. */
bool nt_sane(const struct shape *s);
/* Product of dimensions [from, to). */
int64_t nt_span(const struct shape *s, int from, int to);
/* A float attribute list, or a default. */
bool node_attr_is(const struct node *n, const char *name, const char *value, const char *missing);

/* Memory for what values point to, valid as long as the values of this run, or, while preparing, of
 * the engine. NULL when out of memory. */
void *kernel_heap(const struct op *op, size_t bytes);
/* A tensor with memory of its own there, of type and shape, its data not set yet. */
struct nt *kernel_new_item(const struct op *op, enum tensor_type type, const struct shape *s);
/* A list of n items, which the caller sets: an output of a K_DYNAMIC operator, or an item. */
int kernel_set_list(struct op *op, uint32_t i, enum value_kind kind, int64_t n,
                    const struct nt ***list, opm_error *err);
/* An output of a K_DYNAMIC operator is what t is, without a copy; t lives in the heap. */
void kernel_give(struct op *op, uint32_t i, const struct nt *t);
/* Zeroed; freed with the operator. NULL when out of memory. */
void *kernel_new_state(struct op *op, size_t size);

/* Memory of its own for a value, at least bytes; what it held is lost. OPM_ENOMEM. */
int val_own(struct val *v, size_t bytes);
int val_copy(struct val *v, const struct nt *from); /* OPM_ENOMEM */
/* Aligned data of a constant. OPM_ENOMEM. */
int val_materialize(struct val *v);
/* A 16-bit constant: its float32 form is there from val_widen(), which kernel_const() and
 * val_materialize() see to, to val_narrow(), which leaves what val_materialize() gave. OPM_ENOMEM.
 */
int val_set_half(struct val *v, const struct tensor *half);
int val_widen(struct val *v);
void val_narrow(struct val *v, const struct model *m);
/* A new value for fusion's own constants; its index, or NO_VALUE when out of memory. p->val
 * moves. */
uint32_t plan_add_val(struct plan *p);

/* posts.c: apply op->post to a block of `rows` x `cols` floats at c, whose first element is
 * (row0, col0) of a matrix of the output's `width`; index of the matrix's first element in the
 * whole output is base. bias_row: bias goes by row, else by column. */
struct posts {
    const struct isa *isa;
    const struct op *op;
    const float *operand[POST_MAX];
    bool bias_row;
    int64_t bias_base; /* added to the row or column before the bias is looked up */
    int first;         /* of op->post; those before it are done */
};
int posts_check(const struct op *op, int64_t bias, opm_error *err); /* when preparing */
void posts_begin(struct posts *p, const struct op *op, bool bias_row);
void posts_apply(const struct posts *p, float *c, int64_t ldc, int64_t rows, int64_t cols,
                 int64_t row0, int64_t col0, int64_t base);

#endif
