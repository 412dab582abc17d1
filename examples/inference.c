/* inference.c -- a small program that uses every call of opmeter.h.
 *
 * Three threads: one reads and decodes "images" into a queue, one runs a little network on them
 * (real arithmetic, tiny sizes), one stands for a device that executes what it is given a moment
 * later.
 *
 *     OPMETER_OUTPUT=trace.opm ./opmeter-example      or      ./opmeter-example trace.opm
 *     opmeter info trace.opm
 */
#include <opmeter/opmeter.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 24, CHANNELS = 8, CLASSES = 10, IMAGES = 40, WARM_UP = 5, CAPACITY = 4 };

struct image {
    int number;
    opm_span decoded; /* where the arrow to its inference starts */
    float pixel[SIDE * SIDE];
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct image *slot[CAPACITY];
    int n;
    int first;
    int closed;
    opm_queue *metered;
};

static struct queue images = { .lock = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER };

static void queue_put(struct queue *q, struct image *image)
{
    pthread_mutex_lock(&q->lock);
    while (q->n == CAPACITY)
        pthread_cond_wait(&q->changed, &q->lock);
    q->slot[(q->first + q->n++) % CAPACITY] = image;
    opm_queue_size(q->metered, q->n);
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static struct image *queue_get(struct queue *q)
{
    struct image *image = NULL;

    pthread_mutex_lock(&q->lock);
    while (!q->n && !q->closed)
        pthread_cond_wait(&q->changed, &q->lock);
    if (q->n) {
        image = q->slot[q->first];
        q->first = (q->first + 1) % CAPACITY;
        opm_queue_size(q->metered, --q->n);
    }
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return image;
}

static void queue_close(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = 1;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- reading and decoding ---- */

static void *reader(void *unused)
{
    unsigned seed = 1;

    (void)unused;
    opm_thread_name("reader");
    for (int i = 0; i < IMAGES; i++) {
        struct image *image = calloc(1, sizeof(*image));
        opm_span activity = opm_activity_begin("load image", i, "{\"format\": \"raw\"}");

        if (!image)
            exit(1);
        image->number = i;
        OPM_SPAN_CAT(OPM_APP, "io", "read file")
        {
            for (int k = 0; k < SIDE * SIDE; k++) {
                seed = seed * 1103515245 + 12345;
                image->pixel[k] = (float)(seed >> 16 & 255) / 255;
            }
        }
        static opm_site decode = OPM_SITE_INIT(OPM_APP, "cpu", "decode");

        image->decoded = opm_begin(&decode);
        for (int round = 0; round < 50; round++)
            for (int k = 1; k < SIDE * SIDE; k++)
                image->pixel[k] = 0.5f * (image->pixel[k] + image->pixel[k - 1]);
        opm_arg_int(image->decoded, "image", i);
        opm_arg_real(image->decoded, "first pixel", image->pixel[0]);
        opm_end(image->decoded);
        opm_activity_end(activity);
        queue_put(&images, image);
    }
    queue_close(&images);
    return NULL;
}

/* ---- the network ---- */

static float weight[CHANNELS][3][3], bias[CHANNELS], dense[CHANNELS][CLASSES];
static float plane[CHANNELS][SIDE * SIDE], pooled[CHANNELS], score[CLASSES];

static void conv(const float *in)
{
    for (int c = 0; c < CHANNELS; c++)
        for (int y = 1; y < SIDE - 1; y++)
            for (int x = 1; x < SIDE - 1; x++) {
                float sum = bias[c];

                for (int dy = 0; dy < 3; dy++)
                    for (int dx = 0; dx < 3; dx++)
                        sum += weight[c][dy][dx] * in[(y + dy - 1) * SIDE + x + dx - 1];
                plane[c][y * SIDE + x] = sum > 0 ? sum : 0;
            }
}

static void pool(const float *unused)
{
    (void)unused;
    for (int c = 0; c < CHANNELS; c++) {
        pooled[c] = 0;
        for (int k = 0; k < SIDE * SIDE; k++)
            pooled[c] += plane[c][k] / (SIDE * SIDE);
    }
}

static void gemm(const float *unused)
{
    (void)unused;
    for (int k = 0; k < CLASSES; k++) {
        score[k] = 0;
        for (int c = 0; c < CHANNELS; c++)
            score[k] += pooled[c] * dense[c][k];
    }
}

struct layer {
    const char *name, *type, *post_op, *attributes, *nodes, *weight_shape;
    void (*run)(const float *in);
    int64_t flops, bytes;
    opm_tensor tensor[3];
    unsigned ntensor;
    opm_op *op;
};

static const int64_t image_dims[] = { 1, 1, SIDE, SIDE },
                     plane_dims[] = { 1, CHANNELS, SIDE, SIDE };
static const int64_t conv_dims[] = { CHANNELS, 1, 3, 3 }, pooled_dims[] = { 1, CHANNELS };
static const int64_t dense_dims[] = { CHANNELS, CLASSES }, score_dims[] = { 1, CLASSES };

static struct layer layers[] = {
    { "conv1",
      "Conv",
      "relu",
      "{\"strides\": [1, 1], \"pads\": [1, 1, 1, 1]}",
      "[\"conv1\", \"relu1\"]",
      "8x1x3x3",
      conv,
      2 * 9 * CHANNELS *SIDE *SIDE,
      4 * (CHANNELS + 1) * SIDE *SIDE,
      { { "image", "fp32", image_dims, 4, OPM_INPUT, 4 * SIDE *SIDE },
        { "conv1.weight", "fp32", conv_dims, 4, OPM_WEIGHT, 4 * 9 * CHANNELS },
        { "relu1", "fp32", plane_dims, 4, OPM_OUTPUT, 4 * CHANNELS *SIDE *SIDE } },
      3,
      NULL },
    { "pool1",
      "GlobalAveragePool",
      NULL,
      NULL,
      "[\"pool1\"]",
      NULL,
      pool,
      CHANNELS *SIDE *SIDE,
      4 * CHANNELS *SIDE *SIDE,
      { { "relu1", "fp32", plane_dims, 4, OPM_INPUT, 4 * CHANNELS *SIDE *SIDE },
        { "pool1", "fp32", pooled_dims, 2, OPM_OUTPUT, 4 * CHANNELS } },
      2,
      NULL },
    { "fc, \"dense\"",
      "Gemm",
      NULL,
      NULL,
      "[\"fc\"]",
      "8x10",
      gemm,
      2 * CHANNELS *CLASSES,
      4 * (CHANNELS + CHANNELS * CLASSES + CLASSES),
      { { "pool1", "fp32", pooled_dims, 2, OPM_INPUT, 4 * CHANNELS },
        { "fc.weight", "fp32", dense_dims, 2, OPM_WEIGHT, 4 * CHANNELS *CLASSES },
        { "score", "fp32", score_dims, 2, OPM_OUTPUT, 4 * CLASSES } },
      3,
      NULL },
};
enum { NLAYER = sizeof(layers) / sizeof(layers[0]) };

static void network_load(void)
{
    opm_mem_info mem = OPM_MEM_INFO_INIT;

    for (int c = 0; c < CHANNELS; c++) {
        for (int k = 0; k < 9; k++)
            weight[c][k / 3][k % 3] = (float)((c * 9 + k) % 5 - 2) / 4;
        for (int k = 0; k < CLASSES; k++)
            dense[c][k] = (float)((c + k) % 3 - 1);
    }
    for (int i = 0; i < NLAYER; i++) {
        struct layer *l = &layers[i];
        opm_op_info info = OPM_OP_INFO_INIT;

        info.name = l->name;
        info.type = l->type;
        info.post_op = l->post_op;
        info.device = "cpu";
        info.engine = "example";
        info.attributes = l->attributes;
        info.nodes = l->nodes;
        info.flops = l->flops;
        info.bytes = l->bytes;
        info.weight_shape = l->weight_shape;
        info.weight_zero_ratio = l->weight_shape ? 0.2 : -1;
        info.sparse_support = l->weight_shape != NULL;
        info.tensors = l->tensor;
        info.ntensors = l->ntensor;
        l->op = opm_op_define(&info);
    }
    mem.owner = "relu1";
    mem.kind = "activation";
    mem.bytes = sizeof(plane);
    mem.addr = 0;
    mem.first_op = layers[0].op;
    mem.last_op = layers[1].op;
    opm_mem(&mem);
    /* Shapes are known now: what engines call reshape. */
    for (int i = 0; i < NLAYER; i++) {
        opm_span span = opm_op_begin_phase(layers[i].op, OPM_RESHAPE);

        opm_op_end(span);
    }
}

/* ---- a device with a clock of its own, that runs what it is given 5 us later ---- */

struct device {
    opm_track *stream;
    int64_t clock_offset_ns;
    uint64_t launches;
};

static void device_launch(struct device *d, opm_span launch)
{
    static opm_site kernel = OPM_SITE_INIT(OPM_HARDWARE, "kernel", "postprocess_kernel");
    int64_t start = now_ns() + 5000 + d->clock_offset_ns;

    opm_correlate(launch, ++d->launches);
    opm_device_span(d->stream, &kernel, start, start + 20000, d->launches);
}

/* An operator that only the device sees: reported afterwards. What it computes is known only then.
 */
static void device_finish(struct device *d)
{
    opm_op_info info = OPM_OP_INFO_INIT;
    int64_t start = now_ns() + d->clock_offset_ns;
    opm_op *op;

    info.name = "argmax";
    info.type = "ArgMax";
    info.device = "example device";
    op = opm_op_define(&info);
    info.flops = CLASSES;
    opm_op_update(op, &info);
    opm_op_span(op, OPM_FORWARD_PASS, d->stream, start, start + 2000);
    opm_op_free(op);
}

static void infer(struct image *image, struct device *device)
{
    opm_span step = opm_step_begin("tiny-cnn", image->number,
                                   image->number < WARM_UP ? OPM_WARMUP : OPM_MEASURED);

    opm_flow(image->decoded, step);
    opm_step_phase(OPM_PHASE_FORWARD);
    for (int i = 0; i < NLAYER; i++) {
        opm_span span = opm_op_begin(layers[i].op);

        layers[i].run(image->pixel);
        opm_op_end(span);
    }
    opm_step_phase(OPM_PHASE_NONE);
    static opm_site launch_site = OPM_SITE_INIT(OPM_RUNTIME, "api", "launch");
    opm_span launch = opm_begin(&launch_site);

    device_launch(device, launch);
    opm_end(launch);
    OPM_COUNTER("best score", score[0]);
    opm_step_end(step);
}

int main(int argc, char **argv)
{
    struct device device = { .clock_offset_ns = 1000000000 };
    opm_options options = OPM_OPTIONS_INIT;
    opm_recorder_stats stats;
    opm_error err;
    pthread_t thread;
    struct image *image;
    opm_span warm_up, measured = opm_span_none();

    if (argc > 1) {
        options.path = argv[1];
        if (opm_start(&options, &err) < 0) {
            fprintf(stderr, "%s: %s\n", argv[0], err.msg);
            return 1;
        }
    }
    opm_meta("model.name", "tiny-cnn");
    images.metered = opm_queue_define("images", CAPACITY);
    device.stream = opm_track_define("stream", "stream 7", "example device", OPM_CLOCK_DEVICE);
    opm_track_sync(device.stream, now_ns() + device.clock_offset_ns, now_ns());
    network_load();
    if (pthread_create(&thread, NULL, reader, NULL) != 0)
        return 1;

    warm_up = opm_record_begin("warm up", OPM_WARMUP);
    for (;;) {
        image = queue_get(&images);
        if (!image)
            break;
        if (image->number == WARM_UP) {
            opm_record_end(warm_up);
            measured = opm_record_begin("batch 1", OPM_MEASURED);
        }
        infer(image, &device);
        free(image);
    }
    opm_record_end(measured);
    pthread_join(thread, NULL);
    opm_pause(); /* for all threads: the reader would lose spans of its own */
    (void)now_ns();
    opm_resume();
    device_finish(&device);

    static opm_site shutdown = OPM_SITE_INIT(OPM_APP, NULL, "shut down");
    opm_span async = opm_async_begin(&shutdown);
    const char *dynamic = score[0] > score[1] ? "class 0 wins" : "class 1 wins";
    opm_span named = opm_begin_named(OPM_APP, "result", dynamic, strlen(dynamic));

    opm_arg_str(named, "verdict", dynamic);
    opm_end(named);
    opm_end(async);
    opm_stats(&stats);
    if (opm_on(OPM_APP) && stats.lost)
        fprintf(stderr, "%s: %llu events lost\n", opm_path(), (unsigned long long)stats.lost);
    if (argc > 1 && opm_stop(&err) < 0)
        fprintf(stderr, "%s: %s\n", argv[0], err.msg);
    for (int i = 0; i < NLAYER; i++)
        opm_op_free(layers[i].op);
    opm_queue_free(images.metered);
    opm_track_free(device.stream);
    printf("%d images, score of class 0: %.3f\n", IMAGES, (double)score[0]);
    return 0;
}
