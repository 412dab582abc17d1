/* mock_llama.c -- a stand-in for libllama and libggml, which computes nothing: batches become
 * graphs of four nodes, which a scheduler goes through as ggml's does.
 *
 * LAYOUT 1 has tensors and batches as they are; 2 has tensors in another order and batches that
 * have grown; 3 has tensors whose shapes are nowhere to be found; 4 batches in another order. */
#include "mock_llama.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define NODES 4
#define ROWS 512

enum op { OP_NONE, OP_GET_ROWS, OP_RESHAPE, OP_MUL_MAT, OP_ADD };

struct tensor {
#if LAYOUT == 2
    char name[64];
    struct tensor *src[10];
    int type;
    enum op op;
    int64_t ne[4];
#elif LAYOUT == 3
    int type;
    enum op op;
    int32_t ne[4];
    struct tensor *src[10];
    char name[64];
#else
    int type;
    int64_t ne[4];
    enum op op;
    struct tensor *src[10];
    char name[64];
#endif
    char room[200];
};

struct graph {
    struct tensor *node[NODES];
};

struct sched {
    eval_callback *callback;
    void *user;
};

struct context {
    struct tensor weight, table, tokens, bias, node[NODES];
    struct graph graph;
    struct sched sched;
    eval_callback *callback;
    void *user;
    float logits[ROWS];
    int memory;
    bool fail;
};

static struct context *made; /* the last */
static int64_t last_marks;

/* ---- ggml ---- */

struct init_params {
    size_t size;
    void *buffer;
    bool no_alloc;
};

EXPORT size_t ggml_tensor_overhead(void);
EXPORT void *ggml_init(struct init_params params);
EXPORT void ggml_free(void *context);
EXPORT void *ggml_new_tensor_4d(void *context, int type, int64_t a, int64_t b, int64_t c,
                                int64_t d);
EXPORT void *ggml_mul_mat(void *context, void *a, void *b);
EXPORT const char *ggml_get_name(const void *tensor);
EXPORT const char *ggml_op_desc(const void *tensor);
EXPORT const char *ggml_type_name(int type);
EXPORT const char *ggml_version(void);
EXPORT size_t ggml_nbytes(const void *tensor);
EXPORT int64_t ggml_nelements(const void *tensor);
EXPORT int ggml_graph_n_nodes(void *graph);
EXPORT void *ggml_graph_node(void *graph, int i);
EXPORT void *ggml_backend_sched_get_tensor_backend(void *sched, void *tensor);
EXPORT const char *ggml_backend_name(void *backend);
EXPORT void ggml_backend_sched_set_eval_callback(void *sched, eval_callback *callback, void *user);
EXPORT int ggml_backend_sched_graph_compute_async(void *sched, void *graph);
EXPORT const void *llama_get_model(const void *context);
EXPORT int32_t llama_model_desc(const void *model, char *text, size_t size);

static void fill(struct tensor *t, int type, const char *name, enum op op, int64_t a, int64_t b)
{
    *t = (struct tensor){ .type = type, .op = op, .ne = { a, b, 1, 1 } };
    strcpy(t->name, name);
}

size_t ggml_tensor_overhead(void)
{
    return sizeof(struct tensor) + 32;
}

void *ggml_init(struct init_params params)
{
    return calloc(1, params.size);
}

void ggml_free(void *context)
{
    free(context);
}

/* The first word counts them. */
static struct tensor *new_tensor(void *context)
{
    size_t *n = context;

    return (struct tensor *)(void *)((char *)context + 32) + (*n)++;
}

void *ggml_new_tensor_4d(void *context, int type, int64_t a, int64_t b, int64_t c, int64_t d)
{
    struct tensor *t = new_tensor(context);

    fill(t, type, "", OP_NONE, a, b);
    t->ne[2] = c;
    t->ne[3] = d;
    return t;
}

void *ggml_mul_mat(void *context, void *a, void *b)
{
    struct tensor *t = new_tensor(context), *x = a, *y = b;

    fill(t, 0, "", OP_MUL_MAT, x->ne[1], y->ne[1]);
    t->src[0] = x;
    t->src[1] = y;
    return t;
}

const char *ggml_get_name(const void *tensor)
{
    return ((const struct tensor *)tensor)->name;
}

const char *ggml_op_desc(const void *tensor)
{
    static const char *const names[] = { "NONE", "GET_ROWS", "RESHAPE", "MUL_MAT", "ADD" };

    return names[((const struct tensor *)tensor)->op];
}

const char *ggml_type_name(int type)
{
    return type == 0 ? "f32" : type == 1 ? "f16" : type == 2 ? "q4_0" : "i32";
}

const char *ggml_version(void)
{
    return "mock";
}

int64_t ggml_nelements(const void *tensor)
{
    const struct tensor *t = tensor;

    return (int64_t)t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
}

size_t ggml_nbytes(const void *tensor)
{
    const struct tensor *t = tensor;
    size_t n = (size_t)ggml_nelements(t);

    return t->type == 1 ? n * 2 : t->type == 2 ? n / 32 * 18 : n * 4;
}

int ggml_graph_n_nodes(void *graph)
{
    (void)graph;
    return NODES;
}

void *ggml_graph_node(void *graph, int i)
{
    return ((struct graph *)graph)->node[i];
}

void *ggml_backend_sched_get_tensor_backend(void *sched, void *tensor)
{
    (void)tensor;
    return sched;
}

const char *ggml_backend_name(void *backend)
{
    (void)backend;
    return "MOCK";
}

void ggml_backend_sched_set_eval_callback(void *sched, eval_callback *callback, void *user)
{
    struct sched *s = sched;

    s->callback = callback;
    s->user = user;
}

int ggml_backend_sched_graph_compute_async(void *sched, void *graph)
{
    struct sched *s = sched;
    struct graph *g = graph;

    for (int i = 0; s->callback && i < NODES; i++) {
        bool need = s->callback(g->node[i], true, s->user);

        while (!need && i < NODES - 1)
            need = s->callback(g->node[++i], true, s->user);
        if (need && !s->callback(g->node[i], false, s->user))
            break;
    }
    return 0;
}

/* ---- llama.cpp ---- */

EXPORT void *mock_context(void)
{
    struct context *c = calloc(1, sizeof(*c));

    fill(&c->weight, 2, "blk.0.ffn_up.weight", OP_NONE, 64, 96);
    fill(&c->table, 1, "token_embd.weight", OP_NONE, 64, 128);
    fill(&c->bias, 0, "blk.0.ffn_up.bias", OP_NONE, 96, 1);
    made = c;
    return c;
}

EXPORT void mock_fail_next(void)
{
    made->fail = true;
}

EXPORT void mock_eval_callback(void *context, eval_callback *callback, void *user)
{
    struct context *c = context;

    c->callback = callback;
    c->user = user;
}

EXPORT int64_t mock_marks(void)
{
    return last_marks;
}

static void link_node(struct context *c, int i, struct tensor *a, struct tensor *b)
{
    c->graph.node[i] = &c->node[i];
    c->node[i].src[0] = a;
    c->node[i].src[1] = b;
}

static void make_graph(struct context *c, int64_t tokens)
{
    fill(&c->tokens, 26, "inp_tokens", OP_NONE, tokens, 1);
    fill(&c->node[0], 0, "inp_embd", OP_GET_ROWS, 64, tokens);
    fill(&c->node[1], 0, "inp_embd (reshaped)", OP_RESHAPE, 64, tokens);
    fill(&c->node[2], 0, "ffn_up-0", OP_MUL_MAT, 96, tokens);
    fill(&c->node[3], 0, "ffn_up_b-0", OP_ADD, 96, tokens);
    link_node(c, 0, &c->table, &c->tokens);
    link_node(c, 1, &c->node[0], NULL);
    link_node(c, 2, &c->weight, &c->node[1]);
    link_node(c, 3, &c->node[2], &c->bias);
}

EXPORT int32_t llama_decode(void *context, struct llama_batch batch)
{
    struct context *c = context;

#if LAYOUT == 2
    last_marks = batch.marks[0] + batch.marks[3];
#endif
    if (c->fail) {
        c->fail = false;
        return 1;
    }
    make_graph(c, batch.n_tokens);
    ggml_backend_sched_set_eval_callback(&c->sched, c->callback, c->user);
    return ggml_backend_sched_graph_compute_async(&c->sched, &c->graph);
}

EXPORT int32_t llama_encode(void *context, struct llama_batch batch)
{
    return llama_decode(context, batch);
}

EXPORT struct llama_batch llama_batch_init(int32_t tokens, int32_t embd, int32_t seqs)
{
    struct llama_batch b = { .n_tokens = 0 };
    size_t n = (size_t)tokens;

    if (embd)
        b.embd = calloc(n * (size_t)embd, sizeof(float));
    else
        b.token = calloc(n, sizeof(*b.token));
    b.pos = calloc(n, sizeof(*b.pos));
    b.n_seq_id = calloc(n, sizeof(*b.n_seq_id));
    b.logits = calloc(n, 1);
    b.seq_id = calloc(n + 1, sizeof(*b.seq_id));
    for (size_t i = 0; i < n; i++)
        b.seq_id[i] = calloc((size_t)seqs, sizeof(**b.seq_id));
    return b;
}

EXPORT struct llama_batch llama_batch_get_one(int32_t *token, int32_t n)
{
    return (struct llama_batch){ .n_tokens = n, .token = token };
}

EXPORT void llama_batch_free(struct llama_batch b)
{
    for (int32_t **s = b.seq_id; s && *s; s++)
        free(*s);
    free(b.seq_id);
    free(b.token);
    free(b.embd);
    free(b.pos);
    free(b.n_seq_id);
    free(b.logits);
}

EXPORT void llama_synchronize(void *context)
{
    (void)context;
}

EXPORT void llama_free(void *context)
{
    free(context);
}

EXPORT void llama_set_warmup(void *context, bool on)
{
    (void)context;
    (void)on;
}

EXPORT float *llama_get_logits(void *context)
{
    return ((struct context *)context)->logits;
}

EXPORT float *llama_get_logits_ith(void *context, int32_t i)
{
    (void)i;
    return ((struct context *)context)->logits;
}

EXPORT void llama_sampler_accept(void *sampler, int32_t token)
{
    (void)sampler;
    (void)token;
}

EXPORT int32_t llama_sampler_sample(void *sampler, void *context, int32_t i)
{
    llama_get_logits_ith(context, i);
    llama_sampler_accept(sampler, 7);
    return 7;
}

EXPORT void *llama_get_memory(const void *context)
{
    return (char *)(uintptr_t)context + offsetof(struct context, memory);
}

EXPORT void llama_memory_clear(void *memory, bool data)
{
    (void)memory;
    (void)data;
}

EXPORT bool llama_memory_seq_rm(void *memory, int32_t seq, int32_t from, int32_t to)
{
    (void)memory;
    (void)seq;
    (void)from;
    (void)to;
    return true;
}

const void *llama_get_model(const void *context)
{
    return context;
}

int32_t llama_model_desc(const void *model, char *text, size_t size)
{
    (void)model;
    (void)size;
    strcpy(text, "mock 1B Q4_0");
    return (int32_t)strlen(text);
}
