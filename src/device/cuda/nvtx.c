/* nvtx.c -- NVTX ranges and marks of a program as spans.
 *
 * NVTX_INJECTION64_PATH names the library; the NVTX header inside the program calls
 * InitializeInjectionNvtx2() at its first use, which may be before CUDA's. Ranges that are pushed
 * and popped become spans of the thread, so that calls and operators nest with them; ranges that
 * are started and ended, activities. What PyTorch's emit_nvtx() writes becomes operators, and what
 * calls itself a step is one. */
#include "device/cuda/nvtx.h"
#include "base/alloc.h"
#include "base/environment.h"
#include "device/cuda/marks.h"
#include "device/cuda/nvtx_abi.h"
#include "device/cuda/ranges.h"
#include "device/cuda/torch_ops.h"

#include <opmeter/opmeter.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define STARTED_MAX 16384 /* started ranges that have not ended; more are not recorded */
#define TEXT_MAX 1024     /* of a wide text; longer ones are cut */

struct domain {
    char *name;
};

static struct {
    pthread_mutex_t lock;
    opm_span span[STARTED_MAX];
    uint32_t next[STARTED_MAX]; /* free ones: index + 1 of the next */
    uint32_t free, used;
} started = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- texts ---- */

static char *put_code(char *out, const char *end, uint32_t c)
{
    if (c < 0x80 && out < end) {
        *out++ = (char)c;
    } else if (c < 0x800 && end - out >= 2) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000 && end - out >= 3) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    } else if (c < 0x110000 && end - out >= 4) {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 63));
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    }
    return out;
}

static const char *narrow(const wchar_t *text, char out[TEXT_MAX])
{
    char *p = out;

    for (; text && *text && p < out + TEXT_MAX - 4; text++)
        p = put_code(p, out + TEXT_MAX - 1, (uint32_t)*text); /* bounded: it knows the end */
    *p = '\0';
    return out;
}

static const char *text_of(const struct nvtx_attributes *a, char wide[TEXT_MAX])
{
    const char *text = NULL;

    if (a && a->size >= sizeof(*a) && a->text) {
        if (a->text_type == NVTX_TEXT_WIDE)
            text = narrow(a->text, wide);
        else if (a->text_type == NVTX_TEXT_ASCII || a->text_type == NVTX_TEXT_REGISTERED)
            text = a->text;
    }
    return text ? text : "(no text)";
}

static const char *category(const void *domain)
{
    const struct domain *d = domain;

    return d ? d->name : "nvtx";
}

/* ---- ranges ---- */

/* Of PyTorch's operators, for what its writing their texts costs the program: how many, and how
 * long the texts are. */
static struct {
    _Atomic uint64_t ranges, bytes;
} torch;

void nvtx_torch_texts(uint64_t *ranges, uint64_t *bytes)
{
    *ranges = atomic_load_explicit(&torch.ranges, memory_order_relaxed);
    *bytes = atomic_load_explicit(&torch.bytes, memory_order_relaxed);
}

static opm_span begin(const void *domain, const char *text)
{
    int64_t dims[TORCH_INPUTS_MAX * TORCH_RANK_MAX];
    size_t len = strlen(text);
    struct torch_call call = { .name = text, .name_len = len };
    bool of_torch = !domain && torch_call_read(text, &call, dims);
    bool is_mark =
        of_torch && (marks_is_step(call.name, call.name_len) || torch_call_is_annotation(&call));
    opm_op *op;

    if (domain)
        return opm_begin_named(OPM_APP, category(domain), text, len);
    if (is_mark)
        return marks_begin("user_annotation", call.name, call.name_len);
    op = of_torch && opm_on(OPM_FRAMEWORK) ? torch_op_of(&call) : NULL;
    if (!op)
        return marks_begin(category(domain), text, len);
    atomic_fetch_add_explicit(&torch.ranges, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&torch.bytes, len, memory_order_relaxed);
    return opm_op_begin(op);
}

static int push(const void *domain, const char *text)
{
    opm_span *span = ranges_open(domain);

    if (span)
        *span = begin(domain, text);
    return ranges_depth() - 1;
}

static int pop(const void *domain)
{
    return ranges_close(domain);
}

static void mark(const void *domain, const char *text)
{
    opm_end(opm_begin_named(OPM_APP, category(domain), text, strlen(text)));
}

static uint64_t start(const char *text)
{
    opm_span span = opm_activity_begin(text, -1, NULL);
    uint32_t at = 0;

    if (!span.depth)
        return 0;
    pthread_mutex_lock(&started.lock);
    if (started.free) {
        at = started.free;
        started.free = started.next[at - 1];
    } else if (started.used < STARTED_MAX) {
        at = ++started.used;
    }
    if (at)
        started.span[at - 1] = span;
    pthread_mutex_unlock(&started.lock);
    return at;
}

static void end(uint64_t id)
{
    opm_span span = opm_span_none();

    if (!id || id > STARTED_MAX)
        return;
    pthread_mutex_lock(&started.lock);
    if (id <= started.used && started.span[id - 1].depth) {
        span = started.span[id - 1];
        started.span[id - 1] = opm_span_none();
        started.next[id - 1] = started.free;
        started.free = (uint32_t)id;
    }
    pthread_mutex_unlock(&started.lock);
    opm_end(span);
}

/* ---- what the program calls ---- */

#define X(number, name, type, params) static type name params;
NVTX_CORE_FUNCTIONS(X)
NVTX_CORE2_FUNCTIONS(X)
#undef X

static void MarkEx(const struct nvtx_attributes *a)
{
    DomainMarkEx(NULL, a);
}

static void MarkA(const char *text)
{
    mark(NULL, text ? text : "");
}

static void MarkW(const wchar_t *text)
{
    char wide[TEXT_MAX];

    mark(NULL, narrow(text, wide));
}

static uint64_t RangeStartEx(const struct nvtx_attributes *a)
{
    return DomainRangeStartEx(NULL, a);
}

static uint64_t RangeStartA(const char *text)
{
    return start(text ? text : "");
}

static uint64_t RangeStartW(const wchar_t *text)
{
    char wide[TEXT_MAX];

    return start(narrow(text, wide));
}

static void RangeEnd(uint64_t id)
{
    end(id);
}

static int RangePushEx(const struct nvtx_attributes *a)
{
    return DomainRangePushEx(NULL, a);
}

static int RangePushA(const char *text)
{
    return push(NULL, text ? text : "");
}

static int RangePushW(const wchar_t *text)
{
    char wide[TEXT_MAX];

    return push(NULL, narrow(text, wide));
}

static int RangePop(void)
{
    return pop(NULL);
}

static void DomainMarkEx(void *domain, const struct nvtx_attributes *a)
{
    char wide[TEXT_MAX];

    mark(domain, text_of(a, wide));
}

static uint64_t DomainRangeStartEx(void *domain, const struct nvtx_attributes *a)
{
    char wide[TEXT_MAX];

    (void)domain; /* activities have no category */
    return start(text_of(a, wide));
}

static void DomainRangeEnd(void *domain, uint64_t id)
{
    (void)domain;
    end(id);
}

static int DomainRangePushEx(void *domain, const struct nvtx_attributes *a)
{
    char wide[TEXT_MAX];

    return push(domain, text_of(a, wide));
}

static int DomainRangePop(void *domain)
{
    return pop(domain);
}

/* A registered string is its copy; kept for good, as the program may keep the handle. */
static void *DomainRegisterStringA(void *domain, const char *text)
{
    (void)domain;
    return mem_strdup(text ? text : "");
}

static void *DomainRegisterStringW(void *domain, const wchar_t *text)
{
    char wide[TEXT_MAX];

    return DomainRegisterStringA(domain, narrow(text, wide));
}

/* NULL, the domain of those that name none, if memory is short. */
static void *DomainCreateA(const char *name)
{
    struct domain *d = mem_alloc(sizeof(*d));

    if (d)
        d->name = mem_strdup(name ? name : "");
    if (d && !d->name) {
        mem_free(d);
        d = NULL;
    }
    return d;
}

static void *DomainCreateW(const wchar_t *name)
{
    char wide[TEXT_MAX];

    return DomainCreateA(narrow(name, wide));
}

/* Ranges of it may still be open: its name stays. */
static void DomainDestroy(void *domain)
{
    (void)domain;
}

/* ---- taking over ---- */

struct takeover {
    unsigned number;
    nvtx_function function;
};

static bool take_over(const struct nvtx_callbacks *callbacks, int module,
                      const struct takeover *list, size_t n)
{
    nvtx_function **table = NULL;
    unsigned count = 0;

    if (!callbacks->module_functions(module, &table, &count) || !table)
        return false;
    for (size_t i = 0; i < n; i++)
        if (list[i].number < count && table[list[i].number])
            *table[list[i].number] = list[i].function;
    return true;
}

OPM_API int InitializeInjectionNvtx2(nvtx_export_table export_table);

/* 1 if the ranges will be recorded; on 0 the program's NVTX calls stay as cheap as without us. */
int InitializeInjectionNvtx2(nvtx_export_table export_table)
{
    static const struct takeover core[] = {
#define X(number, name, type, params) { number, (nvtx_function)name },
        NVTX_CORE_FUNCTIONS(X)
    };
    static const struct takeover core2[] = { NVTX_CORE2_FUNCTIONS(X)
#undef X
    };
    const struct nvtx_callbacks *callbacks =
        export_table && !environment_privileged() ? export_table(NVTX_TABLE_CALLBACKS) : NULL;

    if (!callbacks || callbacks->size < sizeof(*callbacks) || !callbacks->module_functions)
        return 0;
    if (!take_over(callbacks, NVTX_MODULE_CORE, core, ARRAY_SIZE(core)))
        return 0;
    take_over(callbacks, NVTX_MODULE_CORE2, core2, ARRAY_SIZE(core2));
    return 1;
}
