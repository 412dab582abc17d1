/* mock_torch_program.c -- a program that seems to train with PyTorch: what the Python package does
 * to have its operators recorded, and calls whose names, shapes and types are known.
 *
 * usage: opmeter-mock-torch LIBOPMETER-CUDA MOCK-TORCH [blind | shapes | many N]
 *        blind: the call that is looked for does not come
 *        shapes: calls that differ in one thing each, all of them twice; prints how many differ
 *        many:  the operators of N layers of a network, which bench/hooks.py counts instructions of
 */
#include "device/cuda/torch_hook.h"
#include "mock_torch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INT64 = 4, FP32 = 6, BF16 = 15 };

static struct {
#define X(type, name, params) type(*name) params;
    MOCK_TORCH(X)
#undef X
} torch;

static struct {
    int (*look)(const char *, uint32_t, uint32_t, uint32_t, const struct torch_probe *);
    int (*found)(void);
    void (*watch)(int, int);
} opmeter;

static void find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);

    if (!symbol) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    memcpy(function, &symbol, sizeof(symbol));
}

static void load(const char *cuda, const char *mock)
{
    void *c = dlopen(cuda, RTLD_LAZY), *m = dlopen(mock, RTLD_LAZY);

    if (!c || !m) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    find(c, "opmeter_torch_look", &opmeter.look);
    find(c, "opmeter_torch_found", &opmeter.found);
    find(c, "opmeter_torch_watch", &opmeter.watch);
#define X(type, name, params) find(m, "mock_torch_" #name, &torch.name);
    MOCK_TORCH(X)
#undef X
}

static void *tensor(uint16_t type, uint64_t rank, int64_t a, int64_t b)
{
    int64_t dims[] = { a, b, 1, 1, 1, 1, 9 };

    return torch.tensor(dims, rank, type);
}

static void *end_elsewhere(void *call)
{
    torch.end(call);
    return NULL;
}

static void train(void)
{
    void *x = tensor(FP32, 2, 8, 32), *w = tensor(BF16, 2, 32, 64), *deep = tensor(INT64, 7, 2, 3);
    void *addmm[] = { x, w, NULL }, *relu[] = { x }, *odd[] = { torch.undefined(), deep };
    void *step = torch.begin("step 4", SCOPE_USER, 0, NULL, 0), *outer, *inner, *exchange;
    pthread_t other;

    for (int i = 0; i < 3; i++)
        torch.end(torch.begin("aten::addmm", SCOPE_FUNCTION, 0, addmm, 3));
    outer = torch.begin("aten::linear", SCOPE_FUNCTION, 0, addmm, 2);
    inner = torch.begin("aten::relu", SCOPE_FUNCTION, 0, relu, 1);
    torch.end(inner);
    torch.end(outer);
    torch.end(torch.begin("AddmmBackward0", SCOPE_BACKWARD, 0, odd, 2));
    exchange = torch.begin("nccl:all_reduce", SCOPE_USER, 1, NULL, 0);
    outer = torch.begin("forward", SCOPE_USER, 0, NULL, 0);
    inner = torch.begin("aten::lost", SCOPE_FUNCTION, 0, NULL, 0);
    pthread_create(&other, NULL, end_elsewhere, exchange);
    pthread_join(other, NULL);
    pthread_create(&other, NULL, end_elsewhere, inner); /* closed by the end of "forward" */
    pthread_join(other, NULL);
    torch.end(outer);
    torch.end(torch.begin("aten::after", SCOPE_FUNCTION, 0, NULL, 0));
    torch.end(step);
}

/* One operator within the other, as convolutions are; norms with many inputs, others with one. */
static void layers(int n)
{
    int64_t dims[][4] = { { 8, 64, 56, 56 }, { 64, 64, 3, 3 }, { 64 } };
    void *x[8], *w = torch.tensor(dims[1], 4, FP32), *one = torch.tensor(dims[2], 1, FP32);

    for (int i = 0; i < 8; i++) {
        dims[0][1] = 64 + i;
        x[i] = torch.tensor(dims[0], 4, FP32);
    }
    for (int i = 0; i < n; i++) {
        void *conv[] = { x[i % 8], w, NULL, NULL, NULL }, *relu[] = { x[i % 8] };
        void *norm[] = { x[i % 8], one, one, one, one, NULL, NULL, NULL };
        void *outer = torch.begin("aten::conv2d", SCOPE_FUNCTION, 0, conv, 5);

        torch.end(torch.begin("aten::cudnn_convolution", SCOPE_FUNCTION, 0, conv, 5));
        torch.end(outer);
        torch.end(torch.begin("aten::batch_norm", SCOPE_FUNCTION, 0, norm, 8));
        torch.end(torch.begin("aten::relu_", SCOPE_FUNCTION, 0, relu, 1));
    }
}

static void call_once(const char *name, void *const *inputs, int n)
{
    torch.end(torch.begin(name, SCOPE_FUNCTION, 0, inputs, n));
}

/* Names of every length, one within the other; ranks from 0 to 7; each dimension by itself; types;
 * tensors at another place, and one more of them. */
static int distinct(void)
{
    static char text[300];
    void *one[9] = { 0 };
    int n = 0;

    for (int len = 1; len < 41; len++, n++) {
        memset(text, 'a', (size_t)len);
        text[len] = '\0';
        call_once(text, NULL, 0);
    }
    for (uint64_t rank = 0; rank < 8; rank++) {
        int64_t dims[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };

        one[0] = torch.tensor(dims, rank, FP32);
        call_once("aten::rank", one, 1);
        n++;
        for (uint64_t d = 0; d < rank; d++, n++) {
            dims[d] = 5;
            one[0] = torch.tensor(dims, rank, FP32);
            call_once("aten::rank", one, 1);
            dims[d] = 1;
        }
    }
    one[0] = tensor(BF16, 2, 1, 1);
    call_once("aten::rank", one, 1);
    for (int at = 1; at < 9; at++) {
        void *moved[9] = { 0 };

        moved[at] = one[0];
        call_once("aten::rank", moved, 9);
        moved[0] = one[0];
        call_once("aten::rank", moved, 9);
    }
    call_once("aten::rank", one, 9); /* what is no tensor behind the last is nothing */
    return n + 1 + 16;
}

int main(int argc, char **argv)
{
    bool is_shapes = argc > 3 && strcmp(argv[3], "shapes") == 0;
    bool is_many = argc > 4 && strcmp(argv[3], "many") == 0;
    int64_t first[] = { 3, 5, 7 }, second[] = { 2, 3, 4, 5, 6, 7 };
    struct torch_probe probe;
    void *both[2];

    if (argc < 3) {
        fprintf(stderr, "usage: %s LIBOPMETER-CUDA MOCK-TORCH [blind | shapes | many N]\n",
                argv[0]);
        return 2;
    }
    load(argv[1], argv[2]);
    both[0] = torch.tensor(first, 3, FP32);
    both[1] = torch.tensor(second, 6, INT64);
    probe = (struct torch_probe){ both[0], both[1] };
    printf("other library: %d\n",
           opmeter.look("/nowhere/libtorch_cpu.so", SCOPES, 3, 1 << SCOPE_USER, &probe));
    printf("too many scopes: %d\n", opmeter.look(argv[2], 20, 3, 1 << SCOPE_USER, &probe));
    printf("look: %d\n", opmeter.look(argv[2], SCOPES, 3, 1 << SCOPE_USER, &probe));
    if (argc == 3 || is_many || is_shapes)
        torch.end(torch.begin("aten::is_same_size", SCOPE_FUNCTION, 0, both, 2));
    printf("found: %d\n", opmeter.found());
    printf("observers: %d\n", torch.observers());
    opmeter.watch(1, 1);
    if (is_many)
        layers((int)strtol(argv[4], NULL, 10));
    else if (is_shapes && distinct() == distinct())
        printf("different: %d\n", distinct());
    else
        train();
    opmeter.watch(1, 0);
    printf("observers without operators: %d\n", torch.observers());
    torch.end(torch.begin("aten::addmm", SCOPE_FUNCTION, 0, both, 2));
    opmeter.watch(0, 0);
    printf("observers at the end: %d\n", torch.observers());
    return 0;
}
