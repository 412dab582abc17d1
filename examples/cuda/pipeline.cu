/* pipeline.cu -- a CUDA program to look at: batches are copied on one stream while the batch before
 * is computed on another, first kernel by kernel, then as a graph. NVTX names the stages.
 *
 *     nvcc -O2 -o pipeline pipeline.cu
 *     opmeter record -- ./pipeline
 *
 * Nothing in it knows of opmeter. Options: --steps N, --pageable (batches in ordinary memory, which
 * is slower: opmeter advise says so), --reset (end with cudaDeviceReset()).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static const int batch = 1 << 20; /* floats */
static const int layers = 6;

#define CHECK(call)                                                              \
    do {                                                                         \
        cudaError_t error_ = (call);                                             \
        if (error_ != cudaSuccess) {                                             \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));      \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

__global__ void scale(const float *in, float *out, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        out[i] = in[i] * factor;
}

template <int radius> __global__ void smooth(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;

    if (i >= n)
        return;
    for (int k = -radius; k <= radius; k++)
        sum += in[min(max(i + k, 0), n - 1)];
    out[i] = sum / (2 * radius + 1);
}

__global__ void total(const float *in, float *out, int n)
{
    __shared__ float part[256];
    float sum = 0;

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    part[threadIdx.x] = sum;
    for (int half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        atomicAdd(out, part[0]);
}

struct pipeline {
    cudaStream_t copy, compute;
    cudaEvent_t copied, computed;
    float *host, *result;
    float *input, *a, *b, *sum;
    bool pageable;
};

static void forward(const pipeline *p)
{
    const int threads = 256, blocks = (batch + threads - 1) / threads;

    scale<<<blocks, threads, 0, p->compute>>>(p->input, p->a, 0.5f, batch);
    for (int i = 0; i < layers; i++) {
        smooth<3><<<blocks, threads, 0, p->compute>>>(p->a, p->b, batch);
        smooth<8><<<blocks, threads, 0, p->compute>>>(p->b, p->a, batch);
    }
    CHECK(cudaMemsetAsync(p->sum, 0, sizeof(float), p->compute));
    total<<<132, threads, 0, p->compute>>>(p->a, p->sum, batch);
}

static void load(const pipeline *p)
{
    nvtxRangePushA("load");
    CHECK(cudaStreamWaitEvent(p->copy, p->computed, 0));
    CHECK(cudaMemcpyAsync(p->input, p->host, batch * sizeof(float), cudaMemcpyHostToDevice, p->copy));
    CHECK(cudaEventRecord(p->copied, p->copy));
    CHECK(cudaStreamWaitEvent(p->compute, p->copied, 0));
    nvtxRangePop();
}

static void step(const pipeline *p, cudaGraphExec_t graph)
{
    nvtxRangePushA("step");
    load(p);
    nvtxRangePushA("forward");
    if (graph)
        CHECK(cudaGraphLaunch(graph, p->compute));
    else
        forward(p);
    CHECK(cudaEventRecord(p->computed, p->compute));
    nvtxRangePop();
    CHECK(cudaMemcpyAsync(p->result, p->sum, sizeof(float), cudaMemcpyDeviceToHost, p->compute));
    CHECK(cudaStreamSynchronize(p->compute));
    nvtxRangePop();
}

static cudaGraphExec_t capture(const pipeline *p)
{
    cudaGraph_t graph;
    cudaGraphExec_t ready;

    CHECK(cudaStreamBeginCapture(p->compute, cudaStreamCaptureModeGlobal));
    forward(p);
    CHECK(cudaStreamEndCapture(p->compute, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return ready;
}

int main(int argc, char **argv)
{
    pipeline p = {};
    cudaGraphExec_t graph;
    int steps = 20;
    bool reset = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--pageable") == 0) {
            p.pageable = true;
        } else if (strcmp(argv[i], "--reset") == 0) {
            reset = true;
        } else if (strcmp(argv[i], "--steps") == 0 && i + 1 < argc) {
            steps = atoi(argv[++i]);
        } else {
            fprintf(stderr, "usage: %s [--steps N] [--pageable] [--reset]\n", argv[0]);
            return 2;
        }
    }
    CHECK(cudaStreamCreateWithFlags(&p.copy, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&p.compute, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&p.copied, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&p.computed, cudaEventDisableTiming));
    if (p.pageable) {
        p.host = (float *)malloc(batch * sizeof(float));
        p.result = (float *)malloc(sizeof(float));
    } else {
        CHECK(cudaMallocHost(&p.host, batch * sizeof(float)));
        CHECK(cudaMallocHost(&p.result, sizeof(float)));
    }
    CHECK(cudaMalloc(&p.input, batch * sizeof(float)));
    CHECK(cudaMalloc(&p.a, batch * sizeof(float)));
    CHECK(cudaMalloc(&p.b, batch * sizeof(float)));
    CHECK(cudaMalloc(&p.sum, sizeof(float)));
    for (int i = 0; i < batch; i++)
        p.host[i] = 1;
    nvtxRangePushA("kernel by kernel");
    for (int i = 0; i < steps; i++)
        step(&p, NULL);
    nvtxRangePop();
    graph = capture(&p);
    nvtxRangePushA("as a graph");
    for (int i = 0; i < steps; i++)
        step(&p, graph);
    nvtxRangePop();
    if (fabsf(*p.result / (0.5f * batch) - 1) > 1e-3f) {
        fprintf(stderr, "the sum is %g, not %g\n", *p.result, 0.5 * batch);
        return 1;
    }
    printf("%d steps, %d kernels, sum %g\n", 2 * steps, 2 * steps * (2 * layers + 2), *p.result);
    CHECK(cudaGraphExecDestroy(graph));
    if (reset)
        CHECK(cudaDeviceReset());
    return 0;
}
