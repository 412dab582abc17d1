/* train.c -- a training program with an input pipeline, instrumented so that opmeter can say which
 * part of a step is slow and whether data arrives in time.
 *
 *     reader -> [read queue] -> decode x2 -> [decode queue] -> batch -> [host queue]
 *            -> transfer -> [device queue] -> training
 *
 * The network is a two-layer perceptron on noisy pictures of ten patterns: real arithmetic, and the
 * loss falls. One of the stages can be made slow:
 *
 *     OPMETER_OUTPUT=train.opm ./opmeter-train [--steps N] [--slow input|transfer|model]
 *     opmeter steps train.opm; opmeter pipeline train.opm; opmeter advise train.opm
 */
#include <opmeter/opmeter.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 16, PIXELS = SIDE * SIDE, HIDDEN = 96, CLASSES = 10, BATCH = 32, DECODERS = 2 };
enum { WARM_UP = 2 };

enum slow { SLOW_NOTHING, SLOW_INPUT, SLOW_TRANSFER, SLOW_MODEL };
static const char *const slow_names[] = { "nothing", "input", "transfer", "model" };
static enum slow slow;
static int steps = 100;

static void sleep_us(long us)
{
    struct timespec t = { us / 1000000, us % 1000000 * 1000 };

    nanosleep(&t, NULL);
}

/* ---- queues ---- */

enum { QUEUE_MAX = 64 };

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *slot[QUEUE_MAX];
    int capacity, n, first, producers; /* closed once no producer is left */
    opm_queue *metered;
};

static void queue_init(struct queue *q, const char *name, int capacity, const char *producer,
                       int workers, const char *consumer)
{
    memset(q, 0, sizeof(*q));
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    q->capacity = capacity;
    q->producers = workers;
    q->metered = opm_queue_define(name, capacity);
    opm_queue_connect(q->metered, producer, (uint32_t)workers, consumer);
}

static void queue_free(struct queue *q)
{
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    opm_queue_free(q->metered);
}

static void queue_put(struct queue *q, void *item)
{
    pthread_mutex_lock(&q->lock);
    while (q->n == q->capacity)
        pthread_cond_wait(&q->changed, &q->lock);
    q->slot[(q->first + q->n++) % q->capacity] = item;
    opm_queue_size(q->metered, q->n);
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

/* NULL when it is empty and nobody fills it any more. */
static void *queue_get(struct queue *q)
{
    void *item = NULL;

    pthread_mutex_lock(&q->lock);
    while (!q->n && q->producers)
        pthread_cond_wait(&q->changed, &q->lock);
    if (q->n) {
        item = q->slot[q->first];
        q->first = (q->first + 1) % q->capacity;
        opm_queue_size(q->metered, --q->n);
    }
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return item;
}

static void queue_leave(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->producers--;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static struct queue read_queue, decode_queue, host_queue, device_queue;

/* ---- the input pipeline ---- */

struct sample {
    uint32_t seed; /* stands for the bytes of a file */
    int label;
    float pixel[PIXELS];
};

struct batch {
    float x[BATCH][PIXELS];
    int label[BATCH];
};

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static float noise(uint32_t *state)
{
    return (float)next_random(state) / 8388608.0f - 1.0f;
}

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "opmeter-train: out of memory\n");
        exit(1);
    }
    return p;
}

/* How long decoding and training take for a batch, lately: whatever else the machine has to do, the
 * slow stage is the slowest one. */
static atomic_long pace_us;

static long now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (long)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void note_pace(long us)
{
    long before = atomic_load(&pace_us) * 3 / 4;

    atomic_store(&pace_us, us > before ? us : before);
}

static long slower_than_others(long at_least_us)
{
    long us = 3 * atomic_load(&pace_us);

    us = us < 1000000 ? us : 1000000;
    return us > at_least_us ? us : at_least_us;
}

static void *reader(void *unused)
{
    (void)unused;
    opm_thread_name("reader");
    for (uint32_t i = 0; i < (uint32_t)steps * BATCH; i++) {
        struct sample *s = must(malloc(sizeof(*s)));

        OPM_SPAN_CAT(OPM_APP, "input", "read")
        {
            s->seed = i * 2654435761u + 1;
            if (slow == SLOW_INPUT && i % 4 == 0)
                sleep_us(slower_than_others(1500 * BATCH / 4) * 4 / BATCH); /* a slow disk */
        }
        queue_put(&read_queue, s);
    }
    queue_leave(&read_queue);
    return NULL;
}

static void *decoder(void *unused)
{
    struct sample *s;
    long batch_us = 0;
    int n = 0;

    (void)unused;
    opm_thread_name("decode");
    for (;;) {
        s = queue_get(&read_queue);
        if (!s)
            break;
        long start_us = now_us();

        OPM_SPAN_CAT(OPM_APP, "input", "decode")
        {
            uint32_t random = s->seed;

            s->label = (int)(next_random(&random) % CLASSES);
            for (int i = 0; i < PIXELS; i++)
                s->pixel[i] = sinf((float)((s->label + 1) * (i % SIDE) + s->label * (i / SIDE))) +
                              0.8f * noise(&random);
        }
        batch_us += now_us() - start_us;
        if (++n % BATCH == 0) {
            note_pace(batch_us);
            batch_us = 0;
        }
        queue_put(&decode_queue, s);
    }
    queue_leave(&decode_queue);
    return NULL;
}

static void *batcher(void *unused)
{
    struct batch *b = NULL;
    struct sample *s;
    int n = 0;

    (void)unused;
    opm_thread_name("batch");
    for (;;) {
        s = queue_get(&decode_queue);
        if (!s)
            break;
        if (!b)
            b = must(malloc(sizeof(*b)));
        memcpy(b->x[n], s->pixel, sizeof(s->pixel));
        b->label[n++] = s->label;
        free(s);
        if (n == BATCH) {
            queue_put(&host_queue, b);
            b = NULL;
            n = 0;
        }
    }
    free(b);
    queue_leave(&host_queue);
    return NULL;
}

/* The copy to the memory of a device. */
static void *transfer(void *unused)
{
    struct batch *b, *there;

    (void)unused;
    opm_thread_name("transfer");
    for (;;) {
        b = queue_get(&host_queue);
        if (!b)
            break;
        OPM_SPAN_CAT(OPM_RUNTIME, "memcpy", "copy to device")
        {
            there = must(malloc(sizeof(*there)));
            memcpy(there, b, sizeof(*there));
            if (slow == SLOW_TRANSFER)
                sleep_us(slower_than_others(8000));
        }
        free(b);
        queue_put(&device_queue, there);
    }
    queue_leave(&device_queue);
    return NULL;
}

/* ---- the network ---- */

static float w1[PIXELS][HIDDEN], b1[HIDDEN], w2[HIDDEN][CLASSES], b2[CLASSES];
static float h[BATCH][HIDDEN], p[BATCH][CLASSES], dh[BATCH][HIDDEN];
static float dw1[PIXELS][HIDDEN], db1[HIDDEN], dw2[HIDDEN][CLASSES], db2[CLASSES];

enum { FC1, RELU, FC2, SOFTMAX, FC2_GRAD, RELU_GRAD, FC1_GRAD, SGD, OPS };
static opm_op *op[OPS];

static void define_ops(void)
{
    static const struct {
        const char *name, *type, *weight;
        int64_t flops;
    } table[OPS] = {
        [FC1] = { "fc1", "MatMul", "256x96", 2LL * BATCH * PIXELS * HIDDEN },
        [RELU] = { "relu", "Relu", NULL, BATCH * HIDDEN },
        [FC2] = { "fc2", "MatMul", "96x10", 2LL * BATCH * HIDDEN * CLASSES },
        [SOFTMAX] = { "loss", "SoftmaxCrossEntropyLoss", NULL, -1 },
        [FC2_GRAD] = { "Gradients/fc2", "MatMulGrad", "96x10", 4LL * BATCH * HIDDEN * CLASSES },
        [RELU_GRAD] = { "Gradients/relu", "ReluGrad", NULL, BATCH * HIDDEN },
        [FC1_GRAD] = { "Gradients/fc1", "MatMulGrad", "256x96", 2LL * BATCH * PIXELS * HIDDEN },
        [SGD] = { "sgd", "SGD", NULL, 2LL * (PIXELS + CLASSES) * HIDDEN },
    };

    for (int i = 0; i < OPS; i++) {
        opm_op_info info = OPM_OP_INFO_INIT;

        info.name = table[i].name;
        info.type = table[i].type;
        info.weight_shape = table[i].weight;
        info.flops = table[i].flops;
        info.engine = "by hand";
        op[i] = opm_op_define(&info);
    }
}

/* out (+)= a * b; a is n x k, b is k x m. */
static void matmul(float *out, const float *a, const float *b, int n, int k, int m)
{
    for (int i = 0; i < n; i++)
        for (int l = 0; l < k; l++)
            for (int j = 0; j < m; j++)
                out[i * m + j] += a[i * k + l] * b[l * m + j];
}

/* out += transposed a * b; a is n x k, b is n x m. */
static void matmul_at(float *out, const float *a, const float *b, int n, int k, int m)
{
    for (int i = 0; i < n; i++)
        for (int l = 0; l < k; l++)
            for (int j = 0; j < m; j++)
                out[l * m + j] += a[i * k + l] * b[i * m + j];
}

static float forward(const struct batch *in)
{
    float loss = 0;
    opm_span span = opm_op_begin(op[FC1]);

    for (int i = 0; i < BATCH; i++)
        memcpy(h[i], b1, sizeof(b1));
    matmul(&h[0][0], &in->x[0][0], &w1[0][0], BATCH, PIXELS, HIDDEN);
    if (slow == SLOW_MODEL)
        sleep_us(slower_than_others(6000)); /* a layer with a bad kernel */
    opm_op_end(span);

    span = opm_op_begin(op[RELU]);
    for (int i = 0; i < BATCH * HIDDEN; i++)
        (&h[0][0])[i] = fmaxf((&h[0][0])[i], 0);
    opm_op_end(span);

    span = opm_op_begin(op[FC2]);
    for (int i = 0; i < BATCH; i++)
        memcpy(p[i], b2, sizeof(b2));
    matmul(&p[0][0], &h[0][0], &w2[0][0], BATCH, HIDDEN, CLASSES);
    opm_op_end(span);

    span = opm_op_begin(op[SOFTMAX]);
    for (int i = 0; i < BATCH; i++) {
        float sum = 0, max = p[i][0];

        for (int j = 1; j < CLASSES; j++)
            max = fmaxf(max, p[i][j]);
        for (int j = 0; j < CLASSES; j++)
            sum += p[i][j] = expf(p[i][j] - max);
        for (int j = 0; j < CLASSES; j++)
            p[i][j] /= sum;
        loss -= logf(p[i][in->label[i]] + 1e-9f);
        p[i][in->label[i]] -= 1; /* from here on the gradient of the logits */
    }
    opm_op_end(span);
    return loss / BATCH;
}

static void backward(const struct batch *in)
{
    opm_span span = opm_op_begin(op[FC2_GRAD]);

    memset(dw2, 0, sizeof(dw2));
    memset(db2, 0, sizeof(db2));
    matmul_at(&dw2[0][0], &h[0][0], &p[0][0], BATCH, HIDDEN, CLASSES);
    for (int i = 0; i < BATCH; i++) {
        for (int j = 0; j < CLASSES; j++)
            db2[j] += p[i][j];
        for (int l = 0; l < HIDDEN; l++) {
            dh[i][l] = 0;
            for (int j = 0; j < CLASSES; j++)
                dh[i][l] += p[i][j] * w2[l][j];
        }
    }
    opm_op_end(span);

    span = opm_op_begin(op[RELU_GRAD]);
    for (int i = 0; i < BATCH; i++)
        for (int l = 0; l < HIDDEN; l++)
            dh[i][l] = h[i][l] > 0 ? dh[i][l] : 0;
    opm_op_end(span);

    span = opm_op_begin(op[FC1_GRAD]);
    memset(dw1, 0, sizeof(dw1));
    memset(db1, 0, sizeof(db1));
    matmul_at(&dw1[0][0], &in->x[0][0], &dh[0][0], BATCH, PIXELS, HIDDEN);
    for (int i = 0; i < BATCH; i++)
        for (int l = 0; l < HIDDEN; l++)
            db1[l] += dh[i][l];
    opm_op_end(span);
}

static void descend(float *weight, const float *gradient, int n)
{
    for (int i = 0; i < n; i++)
        weight[i] -= 0.05f / BATCH * gradient[i];
}

static void update(void)
{
    opm_span span = opm_op_begin(op[SGD]);

    descend(&w1[0][0], &dw1[0][0], PIXELS * HIDDEN);
    descend(b1, db1, HIDDEN);
    descend(&w2[0][0], &dw2[0][0], HIDDEN * CLASSES);
    descend(b2, db2, CLASSES);
    opm_op_end(span);
}

/* Mean loss of the first and the last tenth of the steps. */
static void train(float *first, float *last)
{
    int tenth = steps / 10 ? steps / 10 : 1;

    *first = *last = 0;
    for (int i = 0; i < steps; i++) {
        opm_span step = opm_step_begin("mlp", i, i < WARM_UP ? OPM_WARMUP : OPM_MEASURED);
        struct batch *in = NULL;
        long start_us;
        float loss;

        OPM_SPAN_CAT(OPM_APP, "dataloader", "next batch")
        {
            in = queue_get(&device_queue);
        }
        if (!in)
            return; /* cannot happen: the reader reads as many as are wanted */
        opm_step_phase(OPM_PHASE_FORWARD);
        start_us = now_us();
        loss = forward(in);
        opm_step_phase(OPM_PHASE_BACKWARD);
        backward(in);
        opm_step_phase(OPM_PHASE_UPDATE);
        update();
        if (slow != SLOW_MODEL)
            note_pace(now_us() - start_us);
        opm_step_end(step);
        OPM_COUNTER("loss", (double)loss);
        *first += i < tenth ? loss / (float)tenth : 0;
        *last += i >= steps - tenth ? loss / (float)tenth : 0;
        free(in);
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: opmeter-train [--steps N] [--slow input|transfer|model]\n");
    return 2;
}

int main(int argc, char **argv)
{
    pthread_t thread[3 + DECODERS];
    uint32_t random = 7;
    float first, last;

    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            return usage();
        if (strcmp(argv[i], "--steps") == 0) {
            steps = atoi(argv[i + 1]);
            if (steps <= 0)
                return usage();
            continue;
        }
        if (strcmp(argv[i], "--slow") != 0)
            return usage();
        for (slow = SLOW_MODEL; slow && strcmp(argv[i + 1], slow_names[slow]) != 0; slow--)
            ;
        if (!slow)
            return usage();
    }
    opm_meta("slow", slow_names[slow]);
    define_ops();
    for (int i = 0; i < PIXELS * HIDDEN; i++)
        (&w1[0][0])[i] = 0.1f * noise(&random);
    for (int i = 0; i < HIDDEN * CLASSES; i++)
        (&w2[0][0])[i] = 0.1f * noise(&random);
    queue_init(&read_queue, "read queue", 64, "reader", 1, "decode");
    queue_init(&decode_queue, "decode queue", 64, "decode", DECODERS, "batch");
    queue_init(&host_queue, "host queue", 8, "batch", 1, "transfer");
    queue_init(&device_queue, "device queue", 4, "transfer", 1, "training");

    pthread_create(&thread[0], NULL, reader, NULL);
    pthread_create(&thread[1], NULL, batcher, NULL);
    pthread_create(&thread[2], NULL, transfer, NULL);
    for (int i = 0; i < DECODERS; i++)
        pthread_create(&thread[3 + i], NULL, decoder, NULL);
    train(&first, &last);
    for (int i = 0; i < 3 + DECODERS; i++)
        pthread_join(thread[i], NULL);

    printf("loss %.3f -> %.3f in %d steps\n", (double)first, (double)last, steps);
    queue_free(&read_queue);
    queue_free(&decode_queue);
    queue_free(&host_queue);
    queue_free(&device_queue);
    for (int i = 0; i < OPS; i++)
        opm_op_free(op[i]);
    return last < first ? 0 : 1;
}
