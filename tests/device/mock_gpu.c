/* mock_gpu.c -- a program that seems to use a GPU: what libopmeter-cuda sees of it is what a CUDA
 * program would show, by way of mock_cupti.c. It loads the injected libraries as CUDA's driver and
 * the NVTX header do.
 *
 * usage: opmeter-mock-gpu [SCENE] [COUNT]     (the scenes are at the end) */
#include "device/cuda/nvtx_abi.h"
#include "mock_cupti.h"

#include <dlfcn.h>
#include <opmeter/opmeter.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNTIME = 2, DRIVER = 1 };
enum {
    GET_DEVICE = 17,
    MEMCPY_ASYNC = 41,
    MEMSET_ASYNC = 51,
    STREAM_SYNCHRONIZE = 131,
    EVENT_RECORD = 135,
    EVENT_DESTROY = 136,
    EVENT_SYNCHRONIZE = 137,
    STREAM_WAIT_EVENT = 147,
    DEVICE_RESET = 164,
    DEVICE_SYNCHRONIZE = 165,
    LAUNCH = 211,
    STREAM_SYNCHRONIZE_PTSZ = 239,
    GRAPH_INSTANTIATE = 306,
    GRAPH_LAUNCH = 311,
    DRIVER_GET_CURRENT = 304,
    DRIVER_LAUNCH = 307,
    DRIVER_STREAM_SYNCHRONIZE = 126
};
enum { PAGEABLE = 1, PINNED = 2, DEVICE = 3, TO_DEVICE = 1, TO_HOST = 2 };

static void (*call)(uint32_t domain, uint32_t cbid, int result, const struct mock_work *work,
                    int n);
static int (*calls_of)(const char *function);

/* ---- as the NVTX header does it ---- */

static nvtx_function nvtx_core[16], nvtx_core2[16];
static nvtx_function *nvtx_core_table[16], *nvtx_core2_table[16];

static int nvtx_module(int module, nvtx_function ***table, unsigned *n)
{
    *table = module == NVTX_MODULE_CORE ? nvtx_core_table : nvtx_core2_table;
    *n = 16;
    return module == NVTX_MODULE_CORE || module == NVTX_MODULE_CORE2;
}

static const void *nvtx_tables(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = { sizeof(callbacks), nvtx_module };

    return id == NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

static void nvtx_load(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *lib = path ? dlopen(path, RTLD_LAZY) : NULL;
    void *symbol = lib ? dlsym(lib, "InitializeInjectionNvtx2") : NULL;
    int (*initialize)(nvtx_export_table);

    for (int i = 0; i < 16; i++) {
        nvtx_core_table[i] = &nvtx_core[i];
        nvtx_core2_table[i] = &nvtx_core2[i];
    }
    memcpy(&initialize, &symbol, sizeof(symbol));
    if (initialize && !initialize(nvtx_tables))
        fprintf(stderr, "NVTX was not taken over\n");
}

static void push(const char *text)
{
    if (nvtx_core[9])
        ((int (*)(const char *))nvtx_core[9])(text);
}

static void pop(void)
{
    if (nvtx_core[11])
        ((int (*)(void))nvtx_core[11])();
}

/* ---- as CUDA's driver does it ---- */

static void cuda_load(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    const char *mock = getenv("OPMETER_CUPTI_LIB");
    void *cupti = mock ? dlopen(mock, RTLD_NOW) : NULL;
    void *lib = path ? dlopen(path, RTLD_LAZY) : NULL, *symbol;
    int (*initialize)(void);

    if (path && !lib)
        fprintf(stderr, "%s\n", dlerror());
    symbol = cupti ? dlsym(cupti, "mock_call") : NULL;
    memcpy(&call, &symbol, sizeof(symbol));
    symbol = cupti ? dlsym(cupti, "mock_count") : NULL;
    memcpy(&calls_of, &symbol, sizeof(symbol));
    symbol = lib ? dlsym(lib, "InitializeInjection") : NULL;
    memcpy(&initialize, &symbol, sizeof(symbol));
    if (initialize && initialize() != 1)
        fprintf(stderr, "the injection failed\n");
}

/* Calls cost nothing where there is no CUPTI at all. */
static void cuda(uint32_t cbid, const struct mock_work *work, int n)
{
    if (call)
        call(RUNTIME, cbid, 0, work, n);
}

static void launch(const char *name, uint64_t us, int blocks)
{
    struct mock_work w = { .kind = MOCK_KERNEL,
                           .stream = 7,
                           .dur_ns = us * 1000,
                           .name = name,
                           .grid = blocks,
                           .block = 256,
                           .registers = 40,
                           .shared_bytes = 4096 };

    cuda(GET_DEVICE, NULL, 0);
    if (call)
        call(DRIVER, DRIVER_GET_CURRENT, 0, NULL, 0);
    cuda(LAUNCH, &w, 1);
}

static void copy(int kind, int from, int to, uint64_t bytes, uint64_t us, uint32_t stream)
{
    struct mock_work w = { .kind = MOCK_COPY,
                           .stream = stream,
                           .dur_ns = us * 1000,
                           .bytes = bytes,
                           .copy_kind = kind,
                           .src_kind = from,
                           .dst_kind = to };

    cuda(MEMCPY_ASYNC, &w, 1);
}

static void synchronize(uint32_t stream)
{
    struct mock_work w = { .kind = MOCK_WAIT, .stream = stream };

    cuda(STREAM_SYNCHRONIZE, &w, 1);
}

static void about(uint32_t cbid, enum mock_work_kind kind, uint32_t stream, uint32_t event)
{
    struct mock_work w = { .kind = kind, .stream = stream, .event = event };

    cuda(cbid, &w, 1);
}

static opm_op *define(const char *name, const char *type)
{
    opm_op_info info = OPM_OP_INFO_INIT;

    info.name = name;
    info.type = type;
    return opm_op_define(&info);
}

/* ---- scenes ---- */

/* Steps of a model: operators of the program around launches, a copy from pageable memory, a wait.
 */
static void train(int steps)
{
    opm_op *conv = define("conv1", "Conv"), *relu = define("relu1", "Relu");

    for (int i = 0; i < steps; i++) {
        opm_span step = opm_step_begin("mock", i, OPM_MEASURED), span;

        copy(TO_DEVICE, PAGEABLE, DEVICE, 1 << 20, 100, 7);
        span = opm_op_begin(conv);
        launch("_ZN4mock4convIfLi3EEEvPT_", 200, 320);
        launch("_ZN4mock4convIfLi3EEEvPT_", 200, 320);
        opm_end(span);
        span = opm_op_begin(relu);
        launch("relu_kernel", 5, 5);
        opm_end(span);
        copy(TO_HOST, DEVICE, PINNED, 4096, 20, 13);
        synchronize(7);
        opm_end(step);
    }
    opm_op_free(conv);
    opm_op_free(relu);
}

/* One of everything. */
static void all(int unused)
{
    struct mock_work fill = { .kind = MOCK_FILL, .stream = 7, .dur_ns = 3000, .bytes = 1 << 20 };
    struct mock_work peer = {
        .kind = MOCK_PEER_COPY, .stream = 8, .dur_ns = 50000, .bytes = 1 << 20
    };
    struct mock_work graph[3] = { { .kind = MOCK_KERNEL,
                                    .stream = 7,
                                    .dur_ns = 10000,
                                    .name = "first",
                                    .grid = 1,
                                    .block = 32,
                                    .graph_node = 101 } };
    struct mock_work lost = { .kind = MOCK_KERNEL, .stream = 7, .name = "lost", .unfinished = 1 };

    (void)unused;
    graph[1] = graph[0];
    graph[1].name = "second";
    graph[1].graph_node = 102;
    graph[2] = graph[1];
    graph[2].kind = MOCK_FILL;
    graph[2].bytes = 64;
    launch("_Z3addPfi", 100, 20);
    if (call) {
        call(DRIVER, DRIVER_LAUNCH, 0,
             &(struct mock_work){ .kind = MOCK_KERNEL,
                                  .stream = 9,
                                  .dur_ns = 30000,
                                  .name = "triton_kernel",
                                  .grid = 1000,
                                  .block = 128,
                                  .registers = 255 },
             1);
        call(RUNTIME, LAUNCH, 98, NULL, 0); /* a launch that fails */
    }
    copy(TO_DEVICE, PINNED, DEVICE, 1000000, 100, 7);
    cuda(MEMSET_ASYNC, &fill, 1);
    cuda(MEMCPY_ASYNC, &peer, 1);
    cuda(GRAPH_LAUNCH, graph, 3);
    synchronize(7);
    cuda(LAUNCH, &lost, 1);
}

static void annotated(int unused)
{
    static const char *const texts[] = {
        "aten::addmm, seq = 3, op_id = 11, sizes = [[64], [8, 32], [32, 64]]",
        "aten::addmm, seq = 4, op_id = 12, sizes = [[64], [8, 32], [32, 64]]",
        "aten::addmm, op_id = 13, sizes = [[10], [8, 64], [64, 10]]",
        "aten::relu, seq = 5",
    };

    (void)unused;
    push("epoch");
    push("step");
    pop();
    push("Iteration: 41");
    pop();
    push("ProfilerStep#7");
    pop();
    push("ProfilerStep#8, op_id = 3, sizes = []"); /* as PyTorch's own marks come */
    pop();
    push("Optimizer.step#AdamW.step, op_id = 4");
    pop();
    push("step by step"); /* is none */
    pop();
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        push(texts[i]);
        launch("gemm", 50, 10);
        pop();
    }
    pop();
    pop(); /* one too many */
}

/* PyTorch under autocast, as its hooks tell of it: the dispatcher passes a call on under the same
 * name. The program marks its steps but for two that warm up; somebody derives others. */
static void autocast(int steps)
{
    static const char op[] = "aten::conv2d, op_id = 7, sizes = [[8, 3], [4, 3]]";

    for (int i = -2; i < steps; i++) {
        opm_span derived = opm_step_begin("optimizer step", i + 3, OPM_MEASURED);

        if (i >= 0)
            push("step");
        push(op);
        push(op);
        launch("conv", 200, 320);
        pop();
        pop();
        if (i >= 0)
            pop();
        opm_end(derived);
    }
}

static void kernel(uint32_t stream, const char *name, uint64_t us)
{
    struct mock_work w = { .kind = MOCK_KERNEL,
                           .stream = stream,
                           .dur_ns = us * 1000,
                           .name = name,
                           .grid = 100,
                           .block = 128 };

    cuda(LAUNCH, &w, 1);
}

/* Every way to wait. Event 1 is recorded on one stream and waited for by another and by the host,
 * recorded anew elsewhere, and destroyed; what has its handle then is another event. */
static void waits(int unused)
{
    struct mock_work bare = { .kind = MOCK_WAIT, .stream = 8, .bare = 1 };
    struct mock_work by_driver = { .kind = MOCK_WAIT, .stream = 13 };

    (void)unused;
    kernel(13, "first", 20000);
    about(EVENT_RECORD, MOCK_RECORD, 13, 1);
    kernel(13, "unrelated", 40000);
    about(STREAM_WAIT_EVENT, MOCK_AFTER_EVENT, 7, 1);
    kernel(7, "second", 60000);
    about(EVENT_RECORD, MOCK_RECORD, 7, 2);
    about(EVENT_SYNCHRONIZE, MOCK_WAIT_EVENT, 7, 2);
    about(EVENT_RECORD, MOCK_RECORD, 7, 1);
    about(EVENT_SYNCHRONIZE, MOCK_WAIT_EVENT, 7, 1);
    about(EVENT_DESTROY, MOCK_DESTROY, 0, 1);
    about(EVENT_SYNCHRONIZE, MOCK_WAIT_EVENT, 7, 1); /* never recorded */
    about(EVENT_RECORD, MOCK_RECORD, 20, 3);         /* takes the number that is free */
    about(EVENT_SYNCHRONIZE, MOCK_WAIT_EVENT, 20, 3);
    synchronize(7);
    cuda(STREAM_SYNCHRONIZE_PTSZ, &bare, 1);
    bare.stream = 7;
    cuda(STREAM_SYNCHRONIZE, &bare, 1);
    if (call) {
        call(DRIVER, DRIVER_STREAM_SYNCHRONIZE, 0, &by_driver, 1);
        call(RUNTIME, STREAM_SYNCHRONIZE, 700, &by_driver, 1); /* fails */
    }
    about(DEVICE_SYNCHRONIZE, MOCK_WAIT_ALL, 0, 0);
}

/* A launch while a stream is captured makes a node. */
static void capture(opm_op *op, uint64_t node, bool by_driver)
{
    struct mock_work w = { .kind = MOCK_NODE, .graph_node = node };
    opm_span span = opm_op_begin(op);

    if (call)
        call(by_driver ? DRIVER : RUNTIME, by_driver ? DRIVER_LAUNCH : LAUNCH, 0, &w, 1);
    opm_end(span);
}

/* Three operators are captured into a graph, which is instantiated twice and replayed n times of
 * each. Kernels of the first two have one name, and clones are numbered the other way round, so
 * that neither names nor the order tell them apart; the last is launched through the driver. */
static void graphs(int n)
{
    static const char *const kernel[] = { "gemm", "gemm", "softmax" };
    static const uint64_t us[] = { 10, 30, 5 };
    opm_op *op[] = { define("query", "MatMul"), define("value", "MatMul"),
                     define("weights", "Softmax") };

    for (int i = 0; i < 3; i++)
        capture(op[i], 101 + (uint64_t)i, i == 2);
    for (int g = 0; g < 2; g++) {
        uint64_t base = 200 + 100 * (uint64_t)g;
        struct mock_work clone[3], run[3];

        for (int i = 0; i < 3; i++) {
            clone[i] = (struct mock_work){ .kind = MOCK_NODE,
                                           .graph_node = base - (uint64_t)i,
                                           .original = 101 + (uint64_t)i };
            run[i] = (struct mock_work){ .kind = MOCK_KERNEL,
                                         .stream = 7,
                                         .dur_ns = us[i] * 1000,
                                         .name = kernel[i],
                                         .grid = 1,
                                         .block = 32,
                                         .graph_node = base - (uint64_t)i };
        }
        cuda(GRAPH_INSTANTIATE, clone, 3);
        for (int i = 0; i < n; i++)
            cuda(GRAPH_LAUNCH, run, 3);
    }
    synchronize(7);
    for (int i = 0; i < 3; i++)
        opm_op_free(op[i]);
}

static void many(int n)
{
    for (int i = 0; i < n; i++)
        launch("small", 1, 1);
}

/* Flushed before the reset, whatever the flusher thread did. */
static void reset(int unused)
{
    int before = calls_of ? calls_of("FlushAll") : 0;

    (void)unused;
    launch("before", 10, 1);
    cuda(DEVICE_RESET, NULL, 0);
    if (calls_of && calls_of("FlushAll") == before)
        printf("not flushed\n");
    launch("after", 10, 1);
}

static void forks(int unused)
{
    pid_t pid;
    int status = 0;

    (void)unused;
    launch("parent", 10, 1);
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        exit(7); /* with all handlers: none may touch CUPTI */
    waitpid(pid, &status, 0);
    printf("the child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    launch("parent", 10, 1);
}

/* Once the flusher has handed over what was done before: the second flush from now has. */
static void killed(int unused)
{
    struct timespec while_ns = { 0, 10000000 };
    int before;

    (void)unused;
    launch("early", 10, 1);
    before = calls_of ? calls_of("FlushAll") : 0;
    while (calls_of && calls_of("FlushAll") < before + 2)
        nanosleep(&while_ns, NULL);
    raise(SIGKILL);
}

static void *work(void *unused)
{
    (void)unused;
    many(500);
    return NULL;
}

static void threads(int n)
{
    pthread_t t[16];

    for (int i = 0; i < n && i < 16; i++)
        pthread_create(&t[i], NULL, work, NULL);
    for (int i = 0; i < n && i < 16; i++)
        pthread_join(t[i], NULL);
}

static void left(int n)
{
    launch("small", 1, 1);
    _exit(n);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*play)(int n);
        int n;
    } scenes[] = { { "train", train, 20 },        { "all", all, 0 },
                   { "annotated", annotated, 0 }, { "autocast", autocast, 3 },
                   { "graphs", graphs, 4 },       { "many", many, 1000 },
                   { "reset", reset, 0 },         { "forks", forks, 0 },
                   { "killed", killed, 0 },       { "left", left, 0 },
                   { "threads", threads, 4 },     { "waits", waits, 0 } };
    const char *name = argc > 1 ? argv[1] : "train";

    nvtx_load();
    cuda_load();
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        if (strcmp(scenes[i].name, name) == 0) {
            scenes[i].play(argc > 2 ? (int)strtol(argv[2], NULL, 10) : scenes[i].n);
            return 0;
        }
    }
    fprintf(stderr, "%s: no such scene\n", name);
    return 2;
}
