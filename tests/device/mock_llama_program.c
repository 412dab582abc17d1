/* mock_llama_program.c -- a program that generates tokens with llama.cpp, in the ways that programs
 * do: opmeter-mock-llama SCENE... Each says in the end how many requests and tokens there were. */
#include "mock_llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *context;
static struct llama_batch batch;
static int requests, tokens, seen;

static void add(int pos, int seq, bool output)
{
    int i = batch.n_tokens++;

    batch.token[i] = 1;
    batch.pos[i] = pos;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = seq;
    batch.logits[i] = output;
}

static int decode(void)
{
    int rc;

#if LAYOUT == 2
    batch.marks[0] = 40;
    batch.marks[3] = 2;
#endif
    rc = llama_decode(context, batch);
#if LAYOUT == 2
    if (mock_marks() != 42) {
        fprintf(stderr, "what the batch has grown by did not get through\n");
        exit(1);
    }
#endif
    batch.n_tokens = 0;
    return rc;
}

static void prompt(int from, int n, int seq)
{
    for (int i = 0; i < n; i++)
        add(from + i, seq, i == n - 1);
}

/* As llama-cli: a prompt in two batches, tokens by a sampler, a second turn. */
static void chat(void)
{
    for (int i = 0; i < 8; i++)
        add(i, 0, false);
    decode();
    prompt(8, 4, 0);
    decode();
    requests++;
    for (int i = 0; i < 5; i++) {
        llama_sampler_sample(NULL, context, -1);
        tokens++;
        if (i == 4)
            break;
        add(12 + i, 0, true);
        decode();
    }
    prompt(16, 3, 0); /* the last token, and what the user writes */
    decode();
    requests++;
    llama_sampler_sample(NULL, context, 2);
    tokens++;
}

/* As llama-bench: it never looks at what comes out. */
static void bench(void)
{
    int32_t one[16] = { 0 };

    for (int round = 0; round < 2; round++) {
        llama_memory_clear(llama_get_memory(context), false);
        requests++;
        for (int i = 0; i < 6; i++) {
            llama_decode(context, llama_batch_get_one(one, 1));
            llama_synchronize(context);
            tokens++;
        }
    }
    llama_memory_clear(llama_get_memory(context), false);
    llama_decode(context, llama_batch_get_one(one, 16)); /* a prompt, and that is it */
    llama_synchronize(context);
    requests++;
}

/* As llama-server: two sequences in one batch, the second comes later; logits are looked at. */
static void server(void)
{
    int pos[2] = { 6, 0 };

    prompt(0, 6, 0);
    decode();
    requests += 2;
    for (int round = 0; round < 4; round++) {
        llama_get_logits_ith(context, 0);
        llama_sampler_accept(NULL, 7);
        tokens++;
        if (round > 1) {
            llama_get_logits_ith(context, 1);
            llama_sampler_accept(NULL, 7);
            tokens++;
        }
        add(pos[0]++, 0, true);
        if (round == 1) {
            for (int i = 0; i < 9; i++)
                add(i, 1, false);
            decode();
            add(pos[0]++, 0, true);
            llama_get_logits_ith(context, 0);
            llama_sampler_accept(NULL, 7);
            tokens++;
            add(9, 1, true); /* the last of its prompt */
            pos[1] = 10;
        } else if (round > 1) {
            add(pos[1]++, 1, true);
        }
        decode();
    }
    llama_get_logits(context); /* both */
    tokens += 2;
    llama_memory_seq_rm(llama_get_memory(context), -1, -1, -1);
}

/* Tokens that a draft model proposed are verified: three at once, of which two are right. */
static void draft(void)
{
    int pos = 4;

    prompt(0, 4, 0);
    decode();
    requests++;
    llama_sampler_sample(NULL, context, 3);
    tokens++;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            add(pos + i, 0, true);
        decode();
        for (int i = 0; i < 3; i++)
            llama_sampler_sample(NULL, context, i);
        tokens += 3;
        pos += 3;
        llama_memory_seq_rm(llama_get_memory(context), 0, pos, -1);
    }
}

/* There is no room at first; and nothing of it is a warm-up's. */
static void retry(void)
{
    llama_set_warmup(context, true);
    prompt(0, 2, 0);
    decode();
    llama_memory_clear(llama_get_memory(context), true);
    llama_set_warmup(context, false);
    requests++;
    mock_fail_next();
    prompt(0, 6, 0);
    decode();
    for (int i = 0; i < 3; i++)
        add(i, 0, false);
    decode();
    prompt(3, 3, 0);
    decode();
    llama_sampler_sample(NULL, context, -1);
    tokens++;
}

static bool look(void *tensor, bool ask, void *user)
{
    (void)tensor;
    (void)user;
    seen += !ask;
    return true;
}

/* The program looks at nodes itself, as llama-imatrix does; and encodes. */
static void own(void)
{
    mock_eval_callback(context, look, NULL);
    prompt(0, 5, 0);
    llama_encode(context, batch);
    batch.n_tokens = 0;
    requests++;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*play)(void);
    } scenes[] = { { "chat", chat },   { "bench", bench }, { "server", server },
                   { "draft", draft }, { "retry", retry }, { "own", own } };

    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof(scenes) / sizeof(*scenes); k++)
            if (strcmp(argv[i], scenes[k].name) == 0) {
                context = mock_context();
                batch = llama_batch_init(64, 0, 1);
                scenes[k].play();
                llama_batch_free(batch);
                llama_free(context);
            }
    printf("%d requests, %d tokens, %d nodes seen\n", requests, tokens, seen);
    return 0;
}
