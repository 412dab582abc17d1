/* object.c -- operators, queues and tracks: what a program defines once and uses many times.
 *
 * Objects live in the program's memory, across recordings. Each recording learns of one when it is
 * first used (or defined) there: its description is serialised once, here, and written by define.c.
 */
#include "rec/object.h"

#include <stdlib.h>
#include <string.h>

/* What is beyond all reason is not read: who says that a tensor has a million dimensions has not
 * got them. */
#define DIMS_MAX 64u
#define TENSORS_MAX 65536u
#define DESCRIPTION_MAX ((size_t)64 << 20)

struct bytes {
    uint8_t *p;
    size_t len;
    size_t cap;
    bool failed;
};

static void put_bytes(struct bytes *b, const void *p, size_t len)
{
    if (b->cap - b->len < len) {
        size_t cap = (b->len + len) * 2 + 64;
        uint8_t *grown = b->failed || cap > DESCRIPTION_MAX ? NULL : opm__alloc(cap);

        if (!grown) {
            b->failed = true;
            return;
        }
        if (b->len)
            memcpy(grown, b->p, b->len);
        opm__free(b->p);
        b->p = grown;
        b->cap = cap;
    }
    if (len)
        memcpy(b->p + b->len, p, len);
    b->len += len;
}

static void put_varint(struct bytes *b, uint64_t v)
{
    uint8_t tmp[VARINT_MAX];

    put_bytes(b, tmp, (size_t)(varint_put(tmp, v) - tmp));
}

static void put_zigzag(struct bytes *b, int64_t v)
{
    put_varint(b, zigzag(v));
}

static void put_optional(struct bytes *b, const char *s)
{
    size_t len = s ? strnlen(s, NAME_MAX_BYTES) : 0;

    put_varint(b, s ? len + 1 : 0);
    put_bytes(b, s, len);
}

static void put_real(struct bytes *b, double v)
{
    put_bytes(b, &v, sizeof(v));
}

/* The part of ITEM_SITE that follows for ROLE_OP; docs/format.md has the order. */
static struct bytes op_describe(const opm_op_info *info)
{
    uint32_t ntensors = info->tensors && info->ntensors <= TENSORS_MAX ? info->ntensors : 0;
    struct bytes b = { 0 };

    put_optional(&b, info->type);
    put_optional(&b, info->post_op);
    put_optional(&b, info->device);
    put_optional(&b, info->engine);
    put_optional(&b, info->attributes);
    put_optional(&b, info->nodes);
    put_zigzag(&b, info->flops);
    put_zigzag(&b, info->bytes);
    put_optional(&b, info->weight_shape);
    put_real(&b, info->weight_zero_ratio);
    put_zigzag(&b, info->sparse_support);
    put_varint(&b, ntensors);
    for (uint32_t i = 0; i < ntensors; i++) {
        const opm_tensor *t = &info->tensors[i];
        uint32_t ndim = t->dims && t->ndim <= DIMS_MAX ? t->ndim : 0;

        put_varint(&b, t->io);
        put_optional(&b, t->name);
        put_optional(&b, t->dtype);
        put_varint(&b, ndim);
        for (uint32_t d = 0; d < ndim; d++)
            put_zigzag(&b, t->dims[d]);
        put_zigzag(&b, t->bytes);
    }
    return b;
}

static opm_op_info op_info_of(const opm_op_info *given)
{
    opm_op_info info = OPM_OP_INFO_INIT;

    if (given)
        memcpy(&info, given, given->size < sizeof(info) ? given->size : sizeof(info));
    return info;
}

/* Replace what the op says of itself. Under the recorder's lock once the op is in use. */
static bool op_fill(opm_op *op, const opm_op_info *given)
{
    opm_op_info info = op_info_of(given);
    struct bytes b = op_describe(&info);
    char *name = opm__alloc_text(info.name ? info.name : "", NAME_MAX_BYTES);

    if (b.failed || !name) {
        opm__free(b.p);
        opm__free(name);
        return false;
    }
    opm__free(op->description);
    opm__free(op->name);
    /* Shapes that follow later complete an operator; shapes that change make it another one. */
    op->replaces = op->bare ? op->site[0].cache : 0;
    op->bare = info.flops < 0 && !info.ntensors;
    op->description = b.p;
    op->description_len = b.len;
    op->name = name;
    for (unsigned phase = 0; phase < ARRAY_SIZE(op->site); phase++) {
        op->site[phase].name = name;
        /* Other threads may be about to begin it. */
        __atomic_store_n(&op->site[phase].cache, 0, __ATOMIC_RELAXED);
    }
    return true;
}

/* Make a recording that is under way know of the op even if it never runs. */
static void op_announce(opm_op *op)
{
    if (opm_on(OPM_FRAMEWORK) && opm__slow_enter()) {
        opm__define_site(&op->site[0]);
        opm__slow_leave();
    }
}

opm_op *opm_op_define(const opm_op_info *info)
{
    opm_op *op = opm__alloc(sizeof(*op));

    for (unsigned phase = 0; op && phase < ARRAY_SIZE(op->site); phase++)
        op->site[phase] = (opm_site){ NULL, "op", 0, OPM_FRAMEWORK, ROLE_OP | phase << 8 };
    if (!op || !op_fill(op, info)) {
        opm__free(op);
        return NULL;
    }
    op_announce(op);
    return op;
}

void opm_op_update(opm_op *op, const opm_op_info *info)
{
    struct guard g;

    if (!op)
        return;
    opm__lock(&opm__recorder.lock, &g);
    op_fill(op, info);
    opm__unlock(&opm__recorder.lock, &g);
    op_announce(op);
}

void opm_op_free(opm_op *op)
{
    if (!op)
        return;
    opm__free(op->description);
    opm__free(op->name);
    opm__free(op);
}

opm_span opm__op_begin(opm_op *op, uint32_t phase)
{
    if (UNLIKELY(!op)) { /* there was no memory to describe it */
        atomic_fetch_add_explicit(&opm__recorder.lost, 1, memory_order_relaxed);
        return opm_span_none();
    }
    if (UNLIKELY(atomic_load_explicit(&opm__recorder.counters, memory_order_relaxed) != NULL))
        return opm__counted_begin(&op->site[phase & 1]);
    return opm__begin(&op->site[phase & 1]);
}

void opm__op_end(opm_span span)
{
    opm__end(span);
    if (UNLIKELY(atomic_load_explicit(&opm__recorder.counters, memory_order_relaxed) != NULL))
        opm__counted_end(span);
}

/* What follows for ROLE_QUEUE. Keeps the old description when out of memory. */
static bool queue_describe(opm_queue *q, const char *producer, uint32_t workers,
                           const char *consumer)
{
    struct bytes b = { 0 };

    put_zigzag(&b, q->capacity);
    put_optional(&b, producer);
    put_varint(&b, workers);
    put_optional(&b, consumer);
    if (b.failed) {
        opm__free(b.p);
        return false;
    }
    opm__free(q->description);
    q->description = b.p;
    q->description_len = b.len;
    return true;
}

opm_queue *opm_queue_define(const char *name, int64_t capacity)
{
    opm_queue *q = opm__alloc(sizeof(*q));

    if (!q)
        return NULL;
    q->name = opm__alloc_text(name ? name : "", NAME_MAX_BYTES);
    q->capacity = capacity;
    if (!q->name || !queue_describe(q, NULL, 0, NULL)) {
        opm__free(q->name);
        opm__free(q);
        return NULL;
    }
    q->site = (opm_site){ q->name, NULL, 0, OPM_APP, ROLE_QUEUE };
    return q;
}

void opm_queue_connect(opm_queue *q, const char *producer, uint32_t workers, const char *consumer)
{
    if (q)
        queue_describe(q, producer, workers, consumer);
}

void opm_queue_free(opm_queue *q)
{
    if (!q)
        return;
    opm__free(q->description);
    opm__free(q->name);
    opm__free(q);
}

void opm__queue_size(opm_queue *q, int64_t n)
{
    if (q)
        opm__put_counter(&q->site, ROLE_QUEUE, UNIT_INT_COUNTER, (uint64_t)n);
}

opm_gauge *opm_gauge_define(const opm_gauge_info *given)
{
    opm_gauge_info info = OPM_GAUGE_INFO_INIT;
    opm_gauge *g = opm__alloc(sizeof(*g));
    struct bytes b = { 0 };

    if (given)
        memcpy(&info, given, given->size < sizeof(info) ? given->size : sizeof(info));
    if (!g)
        return NULL;
    g->name = opm__alloc_text(info.name ? info.name : "", NAME_MAX_BYTES);
    put_optional(&b, info.unit);
    put_optional(&b, info.device);
    put_optional(&b, info.process);
    put_zigzag(&b, info.pid);
    if (!g->name || b.failed) {
        opm__free(b.p);
        opm__free(g->name);
        opm__free(g);
        return NULL;
    }
    g->description = b.p;
    g->description_len = b.len;
    g->site = (opm_site){ g->name, NULL, 0, info.layer & 3, ROLE_COUNTER | ROLE_DESCRIBED };
    return g;
}

void opm_gauge_free(opm_gauge *g)
{
    if (!g)
        return;
    opm__free(g->description);
    opm__free(g->name);
    opm__free(g);
}

void opm__gauge_set(opm_gauge *g, double value)
{
    if (g && opm_on((enum opm_layer)g->site.layer))
        opm__put_gauge(&g->site, value);
}

opm_track *opm_track_define(const char *kind, const char *name, const char *device,
                            enum opm_clock clock)
{
    return opm_track_define_numbered(kind, name, device, clock, -1);
}

opm_track *opm_track_define_numbered(const char *kind, const char *name, const char *device,
                                     enum opm_clock clock, int64_t number)
{
    opm_track *t = opm__alloc(sizeof(*t));
    struct bytes b = { 0 };

    if (!t)
        return NULL;
    put_varint(&b, clock);
    put_optional(&b, kind);
    put_optional(&b, name);
    put_optional(&b, device);
    if (number >= 0)
        put_varint(&b, (uint64_t)number);
    if (b.failed) {
        opm__free(b.p);
        opm__free(t);
        return NULL;
    }
    t->description = b.p;
    t->description_len = b.len;
    return t;
}

void opm_track_free(opm_track *t)
{
    if (t)
        opm__free(t->description);
    opm__free(t);
}

void opm_track_sync(opm_track *t, int64_t device_ns, int64_t monotonic_ns)
{
    uint8_t item[3 * VARINT_MAX], *p = item;
    struct guard g;

    if (!t || !opm__slow_enter())
        return;
    p = varint_put(p, opm__define_track(t));
    p = varint_put(p, zigzag(device_ns));
    p = varint_put(p, zigzag(monotonic_ns));
    opm__lock(&opm__recorder.lock, &g);
    opm__define_item(&opm__recorder, ITEM_TRACK_SYNC, item, (size_t)(p - item));
    opm__unlock(&opm__recorder.lock, &g);
    opm__slow_leave();
}

void opm__device_span_args(opm_track *t, opm_site *site, int64_t start_ns, int64_t end_ns,
                           uint64_t correlation, const char *args)
{
    if (t && site && !args &&
        opm__put_device_span_quick(__atomic_load_n(&t->cache, __ATOMIC_RELAXED), site, start_ns,
                                   end_ns, correlation))
        return;
    if (t && opm__slow_enter_span()) {
        uint32_t text = args ? opm__define_string(args, strlen(args)) : 0;

        opm__put_device_span(opm__define_track(t), site, start_ns, end_ns, correlation, text);
        opm__slow_leave();
    }
}

void opm__device_span(opm_track *t, opm_site *site, int64_t start_ns, int64_t end_ns,
                      uint64_t correlation)
{
    opm__device_span_args(t, site, start_ns, end_ns, correlation, NULL);
}

void opm__op_span(opm_op *op, uint32_t phase, opm_track *t, int64_t start_ns, int64_t end_ns)
{
    if (op)
        opm__device_span(t, &op->site[phase & 1], start_ns, end_ns, 0);
}

/* The id under which this recording knows the op, which may be older than it; 0 for none. */
static uint32_t op_id(const opm_op *op)
{
    return op ? opm__define_site((opm_site *)(uintptr_t)&op->site[0]) : 0;
}

void opm_mem(const opm_mem_info *given)
{
    opm_mem_info info = OPM_MEM_INFO_INIT;
    struct bytes b = { 0 };

    if (!given || !opm__slow_enter())
        return;
    memcpy(&info, given, given->size < sizeof(info) ? given->size : sizeof(info));
    put_optional(&b, info.owner);
    put_optional(&b, info.kind);
    put_zigzag(&b, info.bytes);
    put_zigzag(&b, info.addr);
    put_varint(&b, op_id(info.first_op));
    put_varint(&b, op_id(info.last_op));
    if (b.failed) {
        atomic_fetch_add_explicit(&opm__recorder.lost_other, 1, memory_order_relaxed);
    } else {
        struct guard g;

        opm__lock(&opm__recorder.lock, &g);
        opm__define_item(&opm__recorder, ITEM_MEM, b.p, b.len);
        opm__unlock(&opm__recorder.lock, &g);
    }
    opm__free(b.p);
    opm__slow_leave();
}
