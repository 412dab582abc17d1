/* onednn.c -- convolutions and matrix products of oneDNN, one line in, one figure out.
 *
 *   bench_onednn < CASES        built only where oneDNN 2 is found
 *
 * A case is "conv GROUPS N C H W OC KH KW SH SW TOP LEFT BOTTOM RIGHT OH OW" or "matmul M N K";
 * the answer is the fastest of its runs in ns, with bias, weights and activations in whatever order
 * oneDNN likes best. How many threads there are, OMP_NUM_THREADS says. */
#include <dnnl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS_MIN 5
#define RUN_NS 60000000LL

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "bench_onednn: %s fails with status %d\n", what, (int)status);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static dnnl_memory_desc_t any(int n, const int64_t *dim)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t all = { 0 };

    memcpy(all, dim, (size_t)n * sizeof(*dim));
    check(dnnl_memory_desc_init_by_tag(&md, n, all, dnnl_f32, dnnl_format_tag_any), "a tensor");
    return md;
}

static dnnl_memory_t memory(const_dnnl_primitive_desc_t pd, dnnl_query_t what, float fill)
{
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, what, 0);
    size_t bytes = dnnl_memory_desc_get_size(md);
    dnnl_memory_t m;
    void *data;

    check(dnnl_memory_create(&m, md, engine, DNNL_MEMORY_ALLOCATE), "memory");
    check(dnnl_memory_get_data_handle(m, &data), "memory");
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        ((float *)data)[i] = fill;
    return m;
}

static int64_t fastest(const_dnnl_primitive_desc_t pd, dnnl_query_t bias)
{
    dnnl_memory_t src = memory(pd, dnnl_query_src_md, 0.5f),
                  weights = memory(pd, dnnl_query_weights_md, 0.25f),
                  dst = memory(pd, dnnl_query_dst_md, 0), b = NULL;
    const dnnl_memory_desc_t *bias_md = dnnl_primitive_desc_query_md(pd, bias, 1);
    int64_t best = INT64_MAX, begin = now_ns(), t0, t1 = begin;
    dnnl_primitive_t p;

    check(dnnl_memory_create(&b, bias_md, engine, DNNL_MEMORY_ALLOCATE), "bias");
    check(dnnl_primitive_create(&p, pd), "a primitive");
    for (int i = 0; i < RUNS_MIN || t1 - begin < RUN_NS; i++) {
        dnnl_exec_arg_t arg[] = { { DNNL_ARG_SRC, src },
                                  { DNNL_ARG_WEIGHTS, weights },
                                  { DNNL_ARG_BIAS, b },
                                  { DNNL_ARG_DST, dst } };

        t0 = now_ns();
        check(dnnl_primitive_execute(p, stream, 4, arg), "a run");
        check(dnnl_stream_wait(stream), "a run");
        t1 = now_ns();
        best = t1 - t0 < best ? t1 - t0 : best;
    }
    dnnl_primitive_destroy(p);
    dnnl_memory_destroy(src);
    dnnl_memory_destroy(weights);
    dnnl_memory_destroy(dst);
    dnnl_memory_destroy(b);
    return best;
}

static int64_t conv(const char *text)
{
    long long g, n, c, h, w, oc, kh, kw, sh, sw, top, left, bottom, right, oh, ow;
    dnnl_memory_desc_t src, weights, bias, dst;
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd;
    int64_t best;

    if (sscanf(
            text,
            "conv %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld",
            &g, &n, &c, &h, &w, &oc, &kh, &kw, &sh, &sw, &top, &left, &bottom, &right, &oh,
            &ow) != 16 ||
        g < 1)
        return -1;
    src = any(4, (int64_t[]){ n, c, h, w });
    weights = g > 1 ? any(5, (int64_t[]){ g, oc / g, c / g, kh, kw })
                    : any(4, (int64_t[]){ oc, c, kh, kw });
    bias = any(1, (int64_t[]){ oc });
    dst = any(4, (int64_t[]){ n, oc, oh, ow });
    dnnl_dims_t step = { sh, sw }, before = { top, left }, after = { bottom, right };

    check(dnnl_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_direct,
                                             &src, &weights, &bias, &dst, step, before, after),
          "a convolution");
    check(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL), text);
    best = fastest(pd, dnnl_query_weights_md);
    dnnl_primitive_desc_destroy(pd);
    return best;
}

static int64_t matmul(const char *text)
{
    dnnl_memory_desc_t src, weights, bias, dst;
    dnnl_inner_product_desc_t desc;
    dnnl_primitive_desc_t pd;
    long long m, n, k;
    int64_t best;

    if (sscanf(text, "matmul %lld %lld %lld", &m, &n, &k) != 3)
        return -1;
    src = any(2, (int64_t[]){ m, k });
    weights = any(2, (int64_t[]){ n, k });
    bias = any(1, (int64_t[]){ n });
    dst = any(2, (int64_t[]){ m, n });
    check(dnnl_inner_product_forward_desc_init(&desc, dnnl_forward_inference, &src, &weights, &bias,
                                               &dst),
          "a product");
    check(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL), text);
    best = fastest(pd, dnnl_query_weights_md);
    dnnl_primitive_desc_destroy(pd);
    return best;
}

int main(void)
{
    const dnnl_version_t *v = dnnl_version();
    char line[256];

    check(dnnl_engine_create(&engine, dnnl_cpu, 0), "the engine");
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "the stream");
    printf("oneDNN %d.%d.%d\n", v->major, v->minor, v->patch);
    while (fgets(line, sizeof(line), stdin)) {
        int64_t ns = strncmp(line, "conv ", 5) == 0 ? conv(line) : matmul(line);

        if (ns < 0) {
            fprintf(stderr, "bench_onednn: no such case: %s", line);
            return 1;
        }
        printf("%lld\n", (long long)ns);
        fflush(stdout);
    }
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
    return 0;
}
