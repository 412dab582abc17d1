/* native_models.c -- the models of the shared folder against their recorded results, at several
 * thread counts; native_models -t N FILE.onnx [THREADS] times one. */
#include "base/alloc.h"
#include "engine/engine.h"
#include "run/npy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VALUES_MAX 16

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

static int load_inputs(struct engine *e, const struct npz *z, struct engine_tensor *in, size_t *nin)
{
    const struct engine_value *decl = e->class->inputs(e, nin);
    char name[200];

    for (size_t i = 0; i < *nin; i++) {
        const struct tensor *t;

        snprintf(name, sizeof(name), "in_%s", decl[i].name);
        t = npz_find(z, name);
        if (!t) {
            printf("no %s\n", name);
            return -1;
        }
        in[i] =
            (struct engine_tensor){ t->type, t->shape, aligned_alloc(64, (t->bytes + 64) / 64 * 64),
                                    t->bytes, VALUE_TENSOR };
        memcpy(in[i].data, t->data, t->bytes);
    }
    return 0;
}

static double worst(struct engine *e, const struct npz *z, const struct engine_tensor *out,
                    size_t nout)
{
    size_t n;
    const struct engine_value *decl = e->class->outputs(e, &n);
    double max = 0, scale = 0;

    for (size_t i = 0; i < nout; i++) {
        struct tensor got = { "",          out[i].type,  out[i].shape, shape_count(&out[i].shape),
                              out[i].data, out[i].bytes, false };
        const struct tensor *want;
        char name[200];

        snprintf(name, sizeof(name), "out_%s", decl[i].name);
        want = npz_find(z, name);
        if (!want || !shape_equal(&want->shape, &got.shape))
            return INFINITY;
        for (int64_t k = 0; k < want->count; k++) {
            double d = fabs(tensor_float(&got, k) - tensor_float(want, k));

            max = d > max || isnan(d) ? d : max;
            scale = fmax(scale, fabs(tensor_float(want, k)));
        }
    }
    return scale < 1 ? max / scale : max; /* mobilenet_v2's results are below 1e-8 */
}

static int check(const char *dir, const char *name, double tolerance, int threads)
{
    struct engine_options opts = ENGINE_OPTIONS_INIT;
    struct engine_tensor in[VALUES_MAX], out[VALUES_MAX];
    struct npz z = { 0 };
    struct model *m = NULL;
    struct engine *e = NULL;
    opm_error err = { 0 };
    size_t nin = 0, nout = 0;
    char path[500];
    double max = INFINITY;
    int rc;

    opts.threads = threads;
    snprintf(path, sizeof(path), "%s/%s.npz", dir, name);
    rc = npz_open(&z, path, &err);
    snprintf(path, sizeof(path), "%s/%s.onnx", dir, name);
    if (!rc)
        rc = model_load(&m, path, &err);
    if (!rc)
        rc = engine_native.open(&e, m, &opts, &err);
    if (!rc)
        rc = load_inputs(e, &z, in, &nin);
    if (!rc)
        e->class->outputs(e, &nout);
    for (int round = 0; round < 2 && !rc; round++) {
        rc = e->class->run(e, in, nin, out, nout, &err);
        if (!rc)
            max = worst(e, &z, out, nout);
    }
    printf("%s, %d threads: %s\n", name, threads, rc ? err.msg : max <= tolerance ? "ok" : "WRONG");
    if (!rc)
        printf("    largest error %.3g\n", max);
    for (size_t i = 0; i < nin; i++)
        free(in[i].data);
    if (e)
        e->class->close(e);
    model_free(m);
    npz_close(&z);
    return rc || !(max <= tolerance);
}

/* For people: how long a model takes, with inputs of zeros. */
static int time_model(const char *path, int n, int threads)
{
    struct engine_options opts = ENGINE_OPTIONS_INIT;
    struct engine_tensor in[VALUES_MAX], out[VALUES_MAX];
    const struct engine_value *decl;
    struct model *m = NULL;
    struct engine *e = NULL;
    opm_error err = { 0 };
    size_t nin, nout;
    double best = INFINITY, t0 = now(), t1;

    opts.threads = threads;
    if (model_load(&m, path, &err) < 0 || engine_native.open(&e, m, &opts, &err) < 0) {
        printf("%s\n", err.msg);
        return 1;
    }
    decl = e->class->inputs(e, &nin);
    e->class->outputs(e, &nout);
    for (size_t i = 0; i < nin; i++) {
        struct shape s = decl[i].shape;

        for (int32_t d = 0; d < s.rank; d++)
            s.dim[d] = s.dim[d] < 0 ? 1 : s.dim[d];
        in[i] = (struct engine_tensor){ decl[i].type, s, NULL,
                                        (size_t)shape_bytes(&s, decl[i].type), VALUE_TENSOR };
        in[i].data = aligned_alloc(64, (in[i].bytes + 64) / 64 * 64);
        memset(in[i].data, 0, in[i].bytes);
        for (size_t k = 0; decl[i].type == TENSOR_F32 && k < in[i].bytes / 4; k++)
            ((float *)in[i].data)[k] = (float)(k % 17) / 17;
    }
    for (int i = 0; i < n; i++) {
        double a = now();

        if (e->class->run(e, in, nin, out, nout, &err) < 0) {
            printf("%s\n", err.msg);
            return 1;
        }
        t1 = now();
        if (i == 0)
            printf("load and first run %.1f ms\n", t1 - t0);
        best = i && t1 - a < best ? t1 - a : best;
    }
    printf("%s: %.3f ms, %d threads\n", path, best, threads);
    for (size_t i = 0; i < nin; i++)
        free(in[i].data);
    e->class->close(e);
    model_free(m);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        double tolerance;
    } models[] = {
        { "mobilenet_v2", 1e-4 },
        { "bert_mini", 1e-4 },
        { "lstm_gru", 1e-4 },
        { "quantised/llama_tiny_past", 1e-4 },
        { "quantised/llama_tiny_past_fp16",
          4e-3 }, /* the recorded results are rounded on the way */
        { "quantised/llama_tiny_past_int4", 1e-4 },
    };
    const char *shared = getenv("OPMETER_SHARED");
    char dir[400];
    int bad = 0;

    if (argc > 3 && strcmp(argv[1], "-t") == 0)
        return time_model(argv[3], (int)strtol(argv[2], NULL, 10),
                          argc > 4 ? (int)strtol(argv[4], NULL, 10) : 1);
    snprintf(dir, sizeof(dir), "%s/models", shared ? shared : OPMETER_SHARED_DIR);
    if (access(dir, R_OK) < 0) {
        printf("%s is not there\n", dir);
        return 77;
    }
    for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
        char path[500];

        snprintf(path, sizeof(path), "%s/%s.onnx", dir, models[i].name);
        for (int threads = 1; threads <= 3 && access(path, R_OK) == 0; threads++)
            bad += check(dir, models[i].name, models[i].tolerance, threads);
    }
    return bad > 0;
}
