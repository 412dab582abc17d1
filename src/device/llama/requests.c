/* requests.c -- see requests.h. */
#include "device/llama/requests.h"

#include "base/alloc.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SEQ_MAX 4096 /* more than any version allows */
#define NAME_ROOM 48
#define MODEL_ROOM 96

enum state {
    NOT_THERE,
    PROMPT, /* being read, nothing has come out yet */
    MAKING, /* tokens */
};

struct sequence {
    enum state state;
    char name[NAME_ROOM];
    int32_t last;         /* position */
    int32_t first;        /* of the last batch */
    bool draft;           /* the last batch verified one */
    bool prompt_batch;    /* the last batch read from the prompt */
    bool cut;             /* what was before the last batch was forgotten */
    int32_t row;          /* of its last output in the last batch, or -1 */
    bool taken;           /* by the program */
    bool looked;          /* but no token yet */
    uint32_t requests;    /* so far */
    int32_t n, outputs;   /* of the batch at hand */
    int32_t from;         /* first position of it, or -1 */
    int32_t upto, at_row; /* last position, last output */
};

struct context {
    struct context *next;
    const void *context, *memory;
    unsigned number;
    char model[MODEL_ROOM];
    struct sequence *seq;
    size_t nseq, cap;
    int32_t *row_seq; /* per row of the last batch: its sequence, or -1 without output */
    size_t nrow, row_cap;
    int64_t iterations;
    bool warmup;
};

static struct {
    pthread_mutex_t lock;
    struct context *first;
    unsigned n;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* What this thread looked at last: a token, once it is sampled. */
static __thread const void *looked_context;
static __thread int looked_seq;

static struct context *find(const void *context)
{
    struct context *c = all.first;

    while (c && c->context != context)
        c = c->next;
    return c;
}

static struct context *of_memory(const void *memory)
{
    struct context *c = all.first;

    while (c && (c->memory != memory || !memory))
        c = c->next;
    return c;
}

void requests_context(const void *context, const void *memory, const char *model)
{
    struct context *c;

    pthread_mutex_lock(&all.lock);
    c = find(context);
    if (!c) {
        c = mem_calloc(1, sizeof(*c));
        if (c) {
            c->context = context;
            c->number = ++all.n;
            c->next = all.first;
            snprintf(c->model, sizeof(c->model), "%s", model ? model : "");
            all.first = c;
        }
    }
    if (c)
        c->memory = memory;
    pthread_mutex_unlock(&all.lock);
}

static struct sequence *sequence(struct context *c, int seq)
{
    if (seq < 0 || seq >= SEQ_MAX || !GROW(c->seq, c->cap, (size_t)seq + 1))
        return NULL;
    while (c->nseq <= (size_t)seq)
        c->seq[c->nseq++] = (struct sequence){ .last = -1, .row = -1 };
    return &c->seq[seq];
}

/* ---- what happens to a sequence ---- */

static void token(struct sequence *s)
{
    s->taken = true;
    s->looked = false;
    opm_request_tokens(s->name, 1);
}

static void finish(struct sequence *s)
{
    if (s->state == NOT_THERE)
        return;
    if (s->looked)
        token(s);
    opm_request_finished(s->name, NULL);
    s->state = NOT_THERE;
}

/* How long the prompt is shows as it is read. */
static void arrived(const struct context *c, const struct sequence *s)
{
    opm_span span = opm_begin_named(OPM_APP, "llm", "request", strlen("request"));

    opm_arg_str(span, "request", s->name);
    if (*c->model)
        opm_arg_str(span, "model", c->model);
    opm_arg_int(span, "cached", s->from >= 0 ? s->from : s->last + 1);
    opm_end(span);
}

/* The name tells processes, contexts, sequences and the requests of one apart. */
static void begin(struct context *c, int seq, struct sequence *s)
{
    finish(s);
    if (c->number == 1)
        snprintf(s->name, sizeof(s->name), "%d/%d.%u", (int)getpid(), seq, ++s->requests);
    else
        snprintf(s->name, sizeof(s->name), "%d/c%u/%d.%u", (int)getpid(), c->number, seq,
                 ++s->requests);
    s->state = PROMPT;
    s->draft = s->cut = s->looked = false;
    s->row = -1;
    arrived(c, s);
    opm_request_scheduled(s->name); /* there is no queue in the library */
}

/* Does the batch go on where the sequence makes tokens? */
static bool goes_on(const struct sequence *s)
{
    if (s->state != MAKING || s->cut || s->outputs < s->n)
        return false;
    if (s->from < 0 || s->from == s->last + 1)
        return true;
    return s->draft && s->from > s->first && s->from <= s->last + 1;
}

static bool goes_on_reading(const struct sequence *s)
{
    return s->state == PROMPT && !s->cut && (s->from < 0 || s->from == s->last + 1);
}

/* What the sequence has of the batch, before it is decoded. */
static void enter(struct context *c, int seq, struct sequence *s)
{
    bool making = goes_on(s);

    if (making && s->row >= 0 && !s->taken) /* it was made, however */
        token(s);
    if (!making && !goes_on_reading(s))
        begin(c, seq, s);
    s->prompt_batch = !making;
    s->draft = making && s->n > 1;
    s->cut = false;
    s->first = s->from >= 0 ? s->from : s->last + 1;
    s->last = s->upto >= 0 ? s->upto : s->last + s->n;
    s->row = s->at_row;
    s->taken = s->looked = false;
}

static void leave(struct sequence *s)
{
    int64_t out = s->prompt_batch ? s->row >= 0 : s->draft ? -1 : s->outputs > 0;

    opm_iteration_member(s->name, s->prompt_batch, s->n, out, s->last + 1);
    if (s->row >= 0)
        s->state = MAKING;
}

/* ---- batches ---- */

/* Count what each sequence has of the batch. A token of several sequences is computed once: it
 * counts for the first. False: no memory. */
static bool count(struct context *c, const struct llama_batch *b)
{
    int32_t n = b->n_tokens;

    if (!GROW(c->row_seq, c->row_cap, (size_t)MAX(n, 1)))
        return false;
    for (size_t i = 0; i < c->nseq; i++)
        c->seq[i].n = c->seq[i].outputs = 0;
    c->nrow = (size_t)n;
    for (int32_t i = 0; i < n; i++) {
        int32_t nseq = b->seq_id && b->seq_id[i] ? (b->n_seq_id ? b->n_seq_id[i] : 1) : 0;
        bool output = b->logits ? b->logits[i] != 0 : i == n - 1;

        c->row_seq[i] = -1;
        for (int32_t k = 0; k < MAX(nseq, 1); k++) {
            int seq = nseq ? b->seq_id[i][k] : 0;
            struct sequence *s = sequence(c, seq);

            if (!s)
                return false;
            if (k == 0 && s->n == 0) {
                s->from = s->upto = b->pos ? b->pos[i] : -1;
                s->at_row = -1;
            }
            if (k > 0) {
                s->last = b->pos ? MAX(b->pos[i], s->last) : s->last + 1;
                continue;
            }
            s->n++;
            if (b->pos)
                s->upto = MAX(b->pos[i], s->upto);
            if (output) {
                s->outputs++;
                s->at_row = i;
                c->row_seq[i] = seq;
            }
        }
    }
    return true;
}

static struct requests_batch decode(struct context *c, const struct llama_batch *b)
{
    struct requests_batch out = { .context = -1 };
    bool prompts = false, making = false;

    if (b->n_tokens <= 0 || !count(c, b))
        return out;
    for (size_t i = 0; i < c->nseq; i++) {
        struct sequence *s = &c->seq[i];

        if (!s->n)
            continue;
        if (!c->warmup)
            enter(c, (int)i, s);
        out.context = MAX(out.context, (int64_t)(s->upto >= 0 ? s->upto : s->last) + 1);
        prompts |= s->prompt_batch;
        making |= !s->prompt_batch;
    }
    /* Not the plain words, which mark iterations themselves. */
    out.step = opm_step_begin(c->warmup           ? "llama.cpp warm-up"
                              : prompts && making ? "llama.cpp mixed"
                              : prompts           ? "llama.cpp prefill"
                                                  : "llama.cpp decode",
                              c->iterations, c->warmup ? OPM_WARMUP : OPM_MEASURED);
    out.open = true;
    if (c->warmup)
        return out;
    out.iteration = opm_iteration_begin(c->iterations++);
    for (size_t i = 0; i < c->nseq; i++)
        if (c->seq[i].n)
            leave(&c->seq[i]);
    return out;
}

struct requests_batch requests_decode(const void *context, const struct llama_batch *batch)
{
    struct requests_batch out = { .context = -1 };
    struct context *c;

    pthread_mutex_lock(&all.lock);
    c = find(context);
    if (c)
        out = decode(c, batch);
    pthread_mutex_unlock(&all.lock);
    return out;
}

void requests_decoded(const void *context, struct requests_batch b, bool done)
{
    struct context *c;

    if (!b.open)
        return;
    opm_iteration_end(b.iteration);
    opm_step_end(b.step);
    if (done)
        return;
    /* Nothing comes of it: the program will try again, or give up. */
    pthread_mutex_lock(&all.lock);
    c = find(context);
    for (size_t i = 0; c && i < c->nseq; i++)
        if (c->seq[i].n) {
            c->seq[i].row = -1;
            c->seq[i].last = c->seq[i].first - 1;
            if (c->seq[i].prompt_batch && c->seq[i].state == MAKING)
                c->seq[i].state = PROMPT;
        }
    pthread_mutex_unlock(&all.lock);
}

/* ---- outputs ---- */

/* The sequence that a row is of; of a prompt only what comes behind it counts. */
static struct sequence *at_row(struct context *c, int row, int *seq)
{
    struct sequence *s;

    if (row < 0) { /* from the last output */
        int left = -row;

        for (row = (int)c->nrow; row > 0 && left; row--)
            left -= c->row_seq[row - 1] >= 0;
        if (left)
            return NULL;
    }
    if (row < 0 || (size_t)row >= c->nrow || c->row_seq[row] < 0)
        return NULL;
    *seq = c->row_seq[row];
    s = sequence(c, *seq);
    return s && s->state == MAKING && (row == s->row || s->draft) ? s : NULL;
}

static void look(struct context *c, struct sequence *s, int seq, int row)
{
    if (row >= 0 && s->draft)
        c->row_seq[row] = -1; /* once */
    else if (s->taken || s->looked)
        return;
    if (s->looked)
        token(s); /* the one before it, of a draft */
    s->looked = true;
    looked_context = c->context;
    looked_seq = seq;
}

void requests_output(const void *context, int row)
{
    struct context *c;
    struct sequence *s;
    int seq;

    pthread_mutex_lock(&all.lock);
    c = find(context);
    s = c && !c->warmup ? at_row(c, row, &seq) : NULL;
    if (s)
        look(c, s, seq, row);
    pthread_mutex_unlock(&all.lock);
}

void requests_outputs(const void *context)
{
    struct context *c;

    pthread_mutex_lock(&all.lock);
    c = find(context);
    for (size_t i = 0; c && !c->warmup && i < c->nseq; i++)
        if (c->seq[i].state == MAKING && c->seq[i].row >= 0)
            look(c, &c->seq[i], (int)i, -1);
    pthread_mutex_unlock(&all.lock);
}

void requests_sampled(void)
{
    struct context *c;
    struct sequence *s;

    if (!looked_context)
        return;
    pthread_mutex_lock(&all.lock);
    c = find(looked_context);
    s = c ? sequence(c, looked_seq) : NULL;
    if (s && s->looked && s->state == MAKING)
        token(s);
    pthread_mutex_unlock(&all.lock);
    looked_context = NULL;
}

void requests_waited(const void *context)
{
    struct context *c;

    pthread_mutex_lock(&all.lock);
    c = find(context);
    for (size_t i = 0; c && !c->warmup && i < c->nseq; i++) {
        struct sequence *s = &c->seq[i];

        /* Whether anything comes behind a prompt is not known yet. */
        if (s->state == MAKING && s->row >= 0 && !s->taken && !s->prompt_batch && !s->draft)
            token(s);
    }
    pthread_mutex_unlock(&all.lock);
}

/* ---- positions ---- */

static void forget(struct sequence *s, int from, int to)
{
    from = MAX(from, 0);
    if (s->state == NOT_THERE || from > s->last)
        return;
    if (from == 0 && (to < 0 || to > s->last)) {
        finish(s);
        s->last = -1;
    } else if (to < 0 || to > s->last) {
        if (from <= s->first)
            s->cut = true;
        s->last = from - 1;
    }
}

void requests_forget(const void *memory, int seq, int from, int to)
{
    struct context *c;

    pthread_mutex_lock(&all.lock);
    c = of_memory(memory);
    for (size_t i = 0; c && i < c->nseq; i++)
        if (seq < 0 || (size_t)seq == i)
            forget(&c->seq[i], from, to);
    pthread_mutex_unlock(&all.lock);
}

void requests_move(const void *memory, int seq, int from, int to, int by)
{
    struct context *c;

    pthread_mutex_lock(&all.lock);
    c = of_memory(memory);
    for (size_t i = 0; c && i < c->nseq; i++) {
        struct sequence *s = &c->seq[i];

        if ((seq < 0 || (size_t)seq == i) && s->last >= from && (to < 0 || s->last < to)) {
            s->last += by;
            s->first += by;
        }
    }
    pthread_mutex_unlock(&all.lock);
}

void requests_keep(const void *memory, int seq)
{
    struct context *c;

    pthread_mutex_lock(&all.lock);
    c = of_memory(memory);
    for (size_t i = 0; c && i < c->nseq; i++)
        if ((int)i != seq)
            forget(&c->seq[i], -1, -1);
    pthread_mutex_unlock(&all.lock);
}

void requests_warmup(const void *context, bool on)
{
    struct context *c;

    pthread_mutex_lock(&all.lock);
    c = find(context);
    if (c)
        c->warmup = on;
    pthread_mutex_unlock(&all.lock);
}

static void end(struct context *c)
{
    for (size_t i = 0; i < c->nseq; i++)
        finish(&c->seq[i]);
}

void requests_free(const void *context)
{
    struct context **at = &all.first, *c;

    pthread_mutex_lock(&all.lock);
    while (*at && (*at)->context != context)
        at = &(*at)->next;
    c = *at;
    if (c) {
        *at = c->next;
        end(c);
        mem_free(c->seq);
        mem_free(c->row_seq);
        mem_free(c);
    }
    pthread_mutex_unlock(&all.lock);
}

void requests_end(void)
{
    pthread_mutex_lock(&all.lock);
    for (struct context *c = all.first; c; c = c->next)
        end(c);
    pthread_mutex_unlock(&all.lock);
}
