/* torch_hook.c -- see torch_hook.h. */
#include "device/cuda/torch_hook.h"

#include "base/u64map.h"
#include "device/cuda/marks.h"
#include "device/cuda/ranges.h"
#include "device/cuda/torch_ops.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* An object of C++ that is returned is written where the first argument points, or x8 on ARM64.
 * What PyTorch calls has it as an argument in either case. */
#if defined(__x86_64__)
#define CAN_HOOK 1
#define RETURNS_OBJECT(f) static void **f(void **context, const void *function);
#define CALLED(f) f
#elif defined(__aarch64__)
#define CAN_HOOK 1
#define RETURNS_OBJECT(f)                                                              \
    static __attribute__((used)) void **f(void **context, const void *function);       \
    __attribute__((visibility("hidden"))) void **f##_x8(void **context, const void *); \
    __asm__(".text\n.p2align 2\n.globl " #f "_x8\n.hidden " #f "_x8\n.type " #f        \
            "_x8, %function\n" #f "_x8:\nhint #34\nmov x1, x0\nmov x0, x8\nb " #f "\n" \
            ".size " #f "_x8, . - " #f "_x8\n");
#define CALLED(f) f##_x8
#else
#define CAN_HOOK 0
#define RETURNS_OBJECT(f) static void **f(void **context, const void *function);
#define CALLED(f) f
#endif

RETURNS_OBJECT(look_start)
RETURNS_OBJECT(op_start)
RETURNS_OBJECT(mark_start)

__extension__ typedef unsigned __int128 wide;

#define PROBE_NAME "aten::is_same_size"
#define CALL_BYTES 1024  /* of at::RecordFunction; it has some 400 */
#define TENSOR_BYTES 512 /* of c10::TensorImpl; it has some 200 */
#define PIECE_BYTES 64

/* c10::IValue. */
struct value {
    const void *payload;
    uint32_t tag;
};
#define TAG_TENSOR 1

/* c10::impl::SizesAndStrides: a rank, and up to five sizes and strides in place, or where they are;
 * behind it in a tensor: its offset, number of elements, and type. */
struct sizes {
    uint64_t rank;
    union {
        const int64_t *elsewhere;
        int64_t here[10];
    } at;
    int64_t offset;
    int64_t nelements;
    uint16_t type;
};
#define RANK_HERE_MAX 5

static struct {
    uint64_t (*add)(struct torch_callback callback);
    void (*remove)(uint64_t handle);
    const char *(*name)(const void *function);
    bool (*is_async)(const void *function); /* or NULL */
    const void *undefined;                  /* the tensor that is none, or NULL */
    uint32_t nscopes, op_scopes, mark_scopes;
    size_t inputs_at; /* in a call: first value, count */
    size_t sizes_at;  /* in a tensor */
    uint64_t op_handle, mark_handle;
} torch;

static struct {
    pthread_t thread;
    struct torch_probe probe;
    bool found;
} look;

/* ---- where things lie ---- */

/* The same where the call below is forbidden, or an emulator lacks it: who writes to a pipe hears
 * of memory that is not there. */
static size_t read_by_pipe(const void *from, void *to, size_t size)
{
    size_t done = 0;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return 0;
    while (done < size) {
        size_t n = MIN(size - done, (size_t)PIECE_BYTES);

        if (write(ends[1], (const char *)from + done, n) != (ssize_t)n ||
            read(ends[0], (char *)to + done, n) != (ssize_t)n)
            break;
        done += n;
    }
    close(ends[0]);
    close(ends[1]);
    return done;
}

/* Memory that may not be there; how much of it is, in whole pieces. */
static size_t read_safely(const void *from, void *to, size_t size)
{
    struct iovec there[CALL_BYTES / PIECE_BYTES];
    struct iovec here = { to, size };
    size_t n = 0;
    ssize_t got;

    for (size_t at = 0; at < size && n < ARRAY_SIZE(there); at += PIECE_BYTES)
        there[n++] =
            (struct iovec){ (void *)((uintptr_t)from + at), MIN(size - at, (size_t)PIECE_BYTES) };
    got = process_vm_readv(getpid(), &here, 1, there, n, 0);
    if (got < 0 && errno != EFAULT)
        return read_by_pipe(from, to, size);
    return got > 0 ? (size_t)got : 0;
}

static bool are_probe(const void *values)
{
    struct value v[2];

    return read_safely(values, v, sizeof(v)) == sizeof(v) && v[0].payload == look.probe.first &&
           v[0].tag == TAG_TENSOR && v[1].payload == look.probe.second && v[1].tag == TAG_TENSOR;
}

/* A pointer to the probe's two tensors, and their count. */
static bool find_inputs(const void *function, size_t *at)
{
    uint64_t word[CALL_BYTES / sizeof(uint64_t)];
    size_t n = read_safely(function, word, sizeof(word)) / sizeof(*word);

    for (size_t i = 0; i + 1 < n; i++) {
        if (word[i + 1] != 2 || word[i] % sizeof(void *) || !are_probe((const void *)word[i]))
            continue;
        *at = i * sizeof(*word);
        return true;
    }
    return false;
}

static bool has_sizes(const void *tensor, size_t at, const int64_t *dims, uint64_t rank,
                      uint16_t type)
{
    int64_t read[TORCH_RANK_MAX], nelements = 1;
    const int64_t *given;
    struct sizes s;

    if (read_safely((const char *)tensor + at, &s, sizeof(s)) != sizeof(s) || s.rank != rank)
        return false;
    for (uint64_t i = 0; i < rank; i++)
        nelements *= dims[i];
    given = s.at.here;
    if (rank > RANK_HERE_MAX) {
        if (read_safely(s.at.elsewhere, read, rank * sizeof(*read)) != rank * sizeof(*read))
            return false;
        given = read;
    }
    return memcmp(given, dims, rank * sizeof(*dims)) == 0 && s.nelements == nelements &&
           s.type == type;
}

static bool find_sizes(size_t *at)
{
    static const int64_t first[] = { 3, 5, 7 }, second[] = { 2, 3, 4, 5, 6, 7 };
    enum { INT64 = 4, FP32 = 6 };

    for (*at = 0; *at + sizeof(struct sizes) <= TENSOR_BYTES; *at += sizeof(uint64_t))
        if (has_sizes(look.probe.first, *at, first, ARRAY_SIZE(first), FP32) &&
            has_sizes(look.probe.second, *at, second, ARRAY_SIZE(second), INT64))
            return true;
    return false;
}

static void **look_start(void **context, const void *function)
{
    *context = NULL;
    if (!look.found && pthread_equal(look.thread, pthread_self()) &&
        strcmp(torch.name(function), PROBE_NAME) == 0)
        look.found = find_inputs(function, &torch.inputs_at) && find_sizes(&torch.sizes_at);
    return context;
}

static void look_end(const void *function, void *context)
{
    (void)function;
    (void)context;
}

/* ---- operators ---- */

struct inputs {
    const struct value *value;
    size_t n;
};

static inline const struct sizes *sizes_of(const struct value *v)
{
    if (v->tag != TAG_TENSOR || !v->payload || v->payload == torch.undefined)
        return NULL;
    return (const struct sizes *)((const char *)v->payload + torch.sizes_at);
}

static struct torch_input read_input(const struct value *v)
{
    const struct sizes *s = sizes_of(v);

    if (!s)
        return (struct torch_input){ .type = TORCH_NO_TYPE };
    return (struct torch_input){
        .dims = s->rank > RANK_HERE_MAX ? s->at.elsewhere : s->at.here,
        .rank = (uint8_t)MIN(s->rank, (uint64_t)TORCH_RANK_MAX),
        .type = s->type < TORCH_NO_TYPE ? (uint8_t)s->type : TORCH_NO_TYPE,
    };
}

static inline void mix(struct torch_hash *h, uint64_t a, uint64_t b)
{
    wide product = (wide)(h->low ^ a) * (h->high ^ b);

    h->low = (uint64_t)product + b;
    h->high = (uint64_t)(product >> 64) + a;
}

/* A name of at least eight bytes in whole words; the last overlaps the one before it. */
static inline void mix_name(struct torch_hash *h, const char *name, size_t len)
{
    uint64_t a = 0, b = 0;

    for (size_t at = 0; at + 16 < len; at += 16) {
        memcpy(&a, name + at, 8);
        memcpy(&b, name + at + 8, 8);
        mix(h, a, b);
    }
    if (LIKELY(len >= 16)) {
        memcpy(&a, name + len - 16, 8);
        memcpy(&b, name + len - 8, 8);
    } else if (LIKELY(len >= 8)) {
        memcpy(&a, name, 8);
        memcpy(&b, name + len - 8, 8);
    } else {
        memcpy(&a, name, len);
    }
    mix(h, a, b ^ len << 56);
}

static inline void mix_sizes(struct torch_hash *h, uint64_t place, const struct sizes *s)
{
    uint64_t rank = MIN(s->rank, (uint64_t)TORCH_RANK_MAX);
    const int64_t *d = rank > RANK_HERE_MAX ? s->at.elsewhere : s->at.here;

    mix(h, place << 32 | (uint64_t)s->type << 16 | rank, rank ? (uint64_t)d[0] : 0);
    for (uint64_t i = 2; i < rank; i += 2)
        mix(h, (uint64_t)d[i - 1], (uint64_t)d[i]);
    if (rank && rank % 2 == 0)
        mix(h, (uint64_t)d[rank - 1], rank);
}

/* Name, shapes and types, with no copy of them. What is no tensor has no other mark than the gap
 * that it leaves. */
static struct torch_hash hash_of(const char *name, size_t len, const struct inputs *inputs)
{
    struct torch_hash h = { 0x9e3779b97f4a7c15u, 0xd6e8feb86659fd93u };
    size_t n = MIN(inputs->n, (size_t)TORCH_INPUTS_MAX);

    mix_name(&h, name, MIN(len, (size_t)TORCH_NAME_MAX));
    for (size_t i = 0; i < n; i++) {
        const struct sizes *s = sizes_of(&inputs->value[i]);

        if (s)
            mix_sizes(&h, i, s);
    }
    mix(&h, n, len);
    return h;
}

/* The first time in this thread. */
__attribute__((noinline, cold)) static opm_op *find_op(struct torch_hash hash, const char *name,
                                                       size_t len, const struct inputs *inputs)
{
    struct torch_call call = { .name = name, .name_len = len };

    call.ninputs = (uint32_t)MIN(inputs->n, (size_t)TORCH_INPUTS_MAX);
    for (uint32_t i = 0; i < call.ninputs; i++)
        call.in[i] = read_input(&inputs->value[i]);
    while (call.ninputs && call.in[call.ninputs - 1].type == TORCH_NO_TYPE)
        call.ninputs--; /* numbers and flags at the end keep nobody's place */
    return torch_op_find(hash, &call);
}

static void **op_start(void **context, const void *function)
{
    struct torch_hash hash;
    struct inputs inputs;
    const char *name;
    opm_span *span;
    opm_op *op;
    size_t len;

    *context = NULL;
    if (!opm_on(OPM_FRAMEWORK))
        return context;
    memcpy(&inputs, (const char *)function + torch.inputs_at, sizeof(inputs));
    name = torch.name(function);
    len = strlen(name);
    hash = hash_of(name, len, &inputs);
    op = torch_op_seek(hash);
    if (UNLIKELY(!op))
        op = find_op(hash, name, len, &inputs);
    span = op ? ranges_open(function) : NULL;
    if (LIKELY(span))
        *span = opm_op_begin(op);
    return context;
}

static void op_end(const void *function, void *context)
{
    (void)context;
    ranges_close_through(function);
}

/* ---- marks ---- */

/* Those that may end on another thread, as exchanges between devices do. */
static struct {
    pthread_mutex_t lock;
    struct u64map span; /* of a call: index + 1 */
    opm_span list[256]; /* that are open; more are not recorded */
} pending = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void pending_begin(const void *function, const char *name)
{
    opm_span span = opm_activity_begin(name, -1, NULL);
    size_t i = 0;

    pthread_mutex_lock(&pending.lock);
    while (i < ARRAY_SIZE(pending.list) && pending.list[i].depth)
        i++;
    if (i < ARRAY_SIZE(pending.list) &&
        !u64map_put(&pending.span, (uint64_t)(uintptr_t)function, i + 1)) {
        pending.list[i] = span;
        span = opm_span_none();
    }
    pthread_mutex_unlock(&pending.lock);
    opm_end(span);
}

static bool pending_end(const void *function)
{
    opm_span span = opm_span_none();
    uint64_t *known;

    pthread_mutex_lock(&pending.lock);
    known = u64map_get(&pending.span, (uint64_t)(uintptr_t)function);
    if (known && *known) {
        span = pending.list[*known - 1];
        pending.list[*known - 1] = opm_span_none();
        *known = 0;
    }
    pthread_mutex_unlock(&pending.lock);
    opm_end(span);
    return span.depth != 0;
}

static void **mark_start(void **context, const void *function)
{
    const char *name;
    opm_span *span;

    *context = NULL;
    if (!opm_on(OPM_APP))
        return context;
    name = torch.name(function);
    if (torch.is_async && torch.is_async(function)) {
        pending_begin(function, name);
        return context;
    }
    span = ranges_open(function);
    if (span)
        *span = marks_begin("user_annotation", name, strlen(name));
    return context;
}

static void mark_end(const void *function, void *context)
{
    (void)context;
    if (!torch.is_async || !torch.is_async(function) || !pending_end(function))
        ranges_close_through(function);
}

/* ---- PyTorch ---- */

#define FIND(library, field, name)                          \
    do {                                                    \
        void *found_ = dlsym(library, name);                \
        memcpy(&torch.field, &found_, sizeof(torch.field)); \
    } while (0)

static bool find_functions(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);

    if (!library)
        return false;
    FIND(library, add, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
    FIND(library, remove, "_ZN2at14removeCallbackEm");
    FIND(library, name, "_ZNK2at14RecordFunction4nameEv");
    FIND(library, is_async, "_ZNK2at14RecordFunction7isAsyncEv");
    FIND(library, undefined, "_ZN3c1019UndefinedTensorImpl10_singletonE");
    dlclose(library);
    return torch.add && torch.remove && torch.name;
}

static uint64_t add(void **(*start)(void **, const void *), void (*end)(const void *, void *),
                    uint32_t scopes, bool inputs)
{
    struct torch_callback c = { .start = start, .end = end, .sampling = 1 };

    for (uint32_t i = 0; i < torch.nscopes; i++)
        c.tail[i] = scopes >> i & 1; /* bounded: opmeter_torch_look() refuses more */
    c.tail[torch.nscopes] = inputs;
    return torch.add(c);
}

static void drop(uint64_t *handle)
{
    if (*handle)
        torch.remove(*handle);
    *handle = 0;
}

int opmeter_torch_look(const char *library, uint32_t nscopes, uint32_t op_scopes,
                       uint32_t mark_scopes, const struct torch_probe *probe)
{
    if (!CAN_HOOK || nscopes > TORCH_HOOK_SCOPES_MAX ||
        offsetof(struct torch_callback, tail) + nscopes + 3 <= sizeof(struct torch_callback) - 8 ||
        !find_functions(library))
        return -1;
    torch.nscopes = nscopes;
    torch.op_scopes = op_scopes;
    torch.mark_scopes = mark_scopes;
    look.thread = pthread_self();
    look.probe = *probe;
    look.found = false;
    torch.op_handle = add(CALLED(look_start), look_end, op_scopes, true);
    return 0;
}

int opmeter_torch_found(void)
{
    drop(&torch.op_handle);
    return look.found;
}

void opmeter_torch_watch(int on, int operators)
{
    if (!look.found)
        return;
    drop(&torch.op_handle);
    drop(&torch.mark_handle);
    if (on && operators)
        torch.op_handle = add(CALLED(op_start), op_end, torch.op_scopes, true);
    if (on)
        torch.mark_handle = add(CALLED(mark_start), mark_end, torch.mark_scopes, false);
}
