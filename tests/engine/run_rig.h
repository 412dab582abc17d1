/* run_rig.h -- run a small model with every instruction set that this machine has and with 1, 2 and
 * 3 threads, whose results must be the same bit by bit. */
#ifndef RUN_RIG_H
#define RUN_RIG_H

#include "engine/native/isa/isa.h"
#include "onnx_make.h"

#include "../unit/unit.h"

#include <math.h>

static uint64_t rig_seed = 1;

static inline uint32_t rnd(uint32_t n)
{
    rig_seed = rig_seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rig_seed >> 33) % n;
}

/* n bytes of memory as engines want them. */
static inline void *rig_alloc(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);

    assert_non_null(p);
    return p;
}

static inline float *random_floats(int64_t n)
{
    float *p = rig_alloc((size_t)n * 4);

    for (int64_t i = 0; i < n; i++)
        p[i] = (float)rnd(2001) / 1000 - 1;
    return p;
}

static inline struct engine_tensor rig_tensor(enum tensor_type type, void *data, const int64_t *dim,
                                              int rank)
{
    struct engine_tensor t = { .type = type, .data = data };

    t.shape.rank = rank;
    memcpy(t.shape.dim, dim, (size_t)rank * sizeof(*dim));
    t.bytes = (size_t)shape_bytes(&t.shape, type);
    return t;
}

/* Judges one output; where: what to say when it is wrong. */
typedef void rig_check(const struct engine_tensor *out, const char *where, void *arg);

static inline void rig_run(struct make *m, int opset, const struct engine_options *options,
                           const struct engine_tensor *in, size_t nin, rig_check *check, void *arg)
{
    struct model *model = NULL;
    opm_error err = { 0 };

    if (make_model(m, opset, &model, &err))
        fail_msg("%s", err.msg);
    for (int isa = 0; isa < ISA_N; isa++) {
        void *first = NULL;

        for (int threads = 1; threads <= 3 && isa_get((enum isa_kind)isa); threads++) {
            struct engine_options opts = *options;
            struct engine_tensor out;
            struct engine *e = NULL;
            char where[40];

            snprintf(where, sizeof(where), "%s, %d threads", isa_names[isa], threads);
            setenv("OPMETER_ISA", isa_names[isa], 1);
            opts.threads = threads;
            if (engine_native.open(&e, model, &opts, &err) ||
                e->class->run(e, in, nin, &out, 1, &err))
                fail_msg("%s: %s", where, err.msg);
            check(&out, where, arg);
            if (threads == 1) {
                first = malloc(out.bytes + 1);
                memcpy(first, out.data, out.bytes);
            } else
                assert_memory_equal(first, out.data, out.bytes);
            e->class->close(e);
        }
        free(first);
    }
    unsetenv("OPMETER_ISA");
    model_free(model);
}

struct rig_want {
    const double *value;
    double tol; /* times (1 + |value|) */
};

static inline void rig_near(const struct engine_tensor *out, const char *where, void *arg)
{
    const struct rig_want *w = arg;
    struct tensor t = { "",        out->type,  out->shape, shape_count(&out->shape),
                        out->data, out->bytes, false };

    for (int64_t i = 0; i < t.count; i++)
        if (!(fabs(tensor_float(&t, i) - w->value[i]) <= w->tol * (1 + fabs(w->value[i]))))
            fail_msg("%s: element %lld is %g, not %g", where, (long long)i, tensor_float(&t, i),
                     w->value[i]);
}

#endif
