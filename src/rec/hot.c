/* hot.c -- begin and end, and everything else that writes events.
 *
 * The two functions that matter are opm__begin() and opm__end(): a few loads, one clock read, two
 * stores. Whatever is unusual (first event of a thread or site, full block, deep nesting, wrong
 * order) leaves for a slow path through one branch.
 *
 * What a killed process leaves behind must make sense at every instruction: a stack entry is stored
 * before the depth that covers it, a unit before the count that covers it, and a span's unit before
 * it leaves the stack. The reader drops an open span whose unit is there already. */
#include "rec/rec.h"

#include <string.h>

OPM__THREAD struct hot opm__hot;
uint32_t opm__layers;

#define ASYNC_DEPTH UINT32_MAX
#define ID_FILTERED UINT32_MAX

/* When a span begins or ends on a thread: a nanosecond or more after what began or ended there
 * last, so that spans can be told apart and lie within each other, however coarse the counter.
 * Reading the TSC takes longer than that by itself. */
static inline uint64_t span_ticks(struct hot *h)
{
    uint64_t now = clock_ticks();

#ifdef __aarch64__
    if (now < h->latest + opm__clock_apart)
        now = h->latest + opm__clock_apart;
    h->latest = now;
#else
    (void)h;
#endif
    return now;
}

/* Likewise, of a span that may have begun on another thread. */
static inline uint64_t end_ticks(struct hot *h, opm_span span)
{
    uint64_t now = span_ticks(h);

#ifdef __aarch64__
    if (now < span.ticks)
        now = span.ticks;
#else
    (void)span;
#endif
    return now;
}

static inline void slot_push(struct hot *h, uint64_t ticks, uint64_t id)
{
    uint32_t depth = h->depth;
    struct opm_unit *e = &h->slot->stack[depth];

    /* A handler that runs before the entry is complete begins with the next one. */
    h->depth = depth + 1;
    atomic_signal_fence(memory_order_seq_cst);
    __atomic_store_n(&e->ticks, ticks, __ATOMIC_RELAXED);
    __atomic_store_n(&e->word, id, __ATOMIC_RELAXED);
    __atomic_store_n(&h->slot->depth, depth + 1, __ATOMIC_RELEASE);
}

static inline void slot_pop(struct hot *h)
{
    __atomic_store_n(&h->slot->depth, --h->depth, __ATOMIC_RELEASE);
}

static inline void hot_put(struct hot *h, uint64_t ticks, uint64_t word)
{
    struct opm_unit *u = &h->units[h->used];

    u->ticks = ticks;
    u->word = word;
    __atomic_store_n(&h->slot->used, ++h->used, __ATOMIC_RELEASE);
}

void opm__put(struct hot *h, const struct opm_unit *u, unsigned n)
{
    if (h->cap - h->used < n && !opm__block_next(h)) {
        opm__count_lost(h, unit_kind(u));
        return;
    }
    memcpy(&h->units[h->used], u, n * sizeof(*u));
    h->used += n;
    __atomic_store_n(&h->slot->used, h->used, __ATOMIC_RELEASE);
}

enum wanted { A_SPAN, NO_SPAN }; /* what is lost if there is no room */

/* The calling thread's state, entering the recording if it has to; NULL if nothing can be recorded.
 * Call between opm__slow_enter() and opm__slow_leave(). */
static struct hot *hot_enter(enum wanted wanted)
{
    struct hot *h = &opm__hot;
    uint32_t generation = atomic_load_explicit(&opm__recorder.generation, memory_order_relaxed);

    if (atomic_load_explicit(&h->generation, memory_order_relaxed) == generation)
        return h;
    if (opm__thread_enter(h))
        return h;
    atomic_fetch_add_explicit(wanted == A_SPAN ? &opm__recorder.no_room : &opm__recorder.lost_other,
                              1, memory_order_relaxed);
    return NULL;
}

/* Enter a slow path on behalf of a span that has begun. Those of earlier recordings mean nothing to
 * this one, and are no mistake. Nor does the end of a span that began before a fork make the child
 * record. */
static bool span_enter(opm_span span)
{
    const struct recorder *r = &opm__recorder;

    if (span.thread < atomic_load_explicit(&r->first_serial, memory_order_relaxed) ||
        !opm__slow_enter())
        return false;
    if (span.thread >= atomic_load_explicit(&r->first_serial, memory_order_relaxed))
        return true;
    opm__slow_leave();
    return false;
}

static uint32_t site_id(opm_site *site)
{
    uint32_t generation = atomic_load_explicit(&opm__recorder.generation, memory_order_relaxed);
    uint64_t cache = __atomic_load_n(&site->cache, __ATOMIC_RELAXED);
    uint32_t id;

    if (cache >> 32 == generation)
        return (uint32_t)cache;
    id = opm__define_site(site); /* caches it */
    if (!id) {
        id = ID_FILTERED;
        __atomic_store_n(&site->cache, (uint64_t)generation << 32 | id, __ATOMIC_RELAXED);
    }
    return id;
}

static opm_span begin_id(struct hot *h, uint32_t id)
{
    opm_span span = { 0, atomic_load_explicit(&h->serial, memory_order_relaxed), 0 };

    if (h->depth >= OPM_STACK_MAX) {
        struct opm_unit u = { span_ticks(h), unit_word(UNIT_BEGIN, id, 0) };

        opm__put(h, &u, 1);
        span.ticks = u.ticks;
        __atomic_store_n(&h->slot->depth, ++h->depth, __ATOMIC_RELEASE);
    } else {
        span.ticks = span_ticks(h);
        slot_push(h, span.ticks, id);
    }
    span.depth = h->depth;
    return span;
}

__attribute__((noinline, cold)) static opm_span begin_slow(opm_site *site)
{
    opm_span span = { 0, 0, 0 };

    if (!opm__slow_enter_span())
        return span;
    struct hot *h = hot_enter(A_SPAN);
    uint32_t id = h ? site_id(site) : 0;

    if (h && id != ID_FILTERED)
        span = begin_id(h, id);
    opm__slow_leave();
    return span;
}

opm_span opm__begin(opm_site *site)
{
    struct hot *h = &opm__hot;
    uint64_t cache = __atomic_load_n(&site->cache, __ATOMIC_RELAXED);
    opm_span span;

    /* A filtered site has an id with the sign bit set. */
    if (UNLIKELY(cache >> 32 != atomic_load_explicit(&h->generation, memory_order_relaxed) ||
                 (int32_t)cache <= 0 || h->depth >= OPM_STACK_MAX ||
                 atomic_load_explicit(&h->inside, memory_order_relaxed))) {
        if ((uint32_t)cache == ID_FILTERED &&
            cache >> 32 == atomic_load_explicit(&h->generation, memory_order_relaxed))
            return opm_span_none();
        return begin_slow(site);
    }
    span.thread = atomic_load_explicit(&h->serial, memory_order_relaxed);
    span.depth = h->depth + 1;
    span.ticks = span_ticks(h);
    slot_push(h, span.ticks, (uint32_t)cache);
    return span;
}

/* End the innermost open span. */
static void end_top(struct hot *h, uint64_t now)
{
    if (h->depth > OPM_STACK_MAX) {
        struct opm_unit u = { now, unit_word(UNIT_END, 0, 0) };

        opm__put(h, &u, 1);
    } else {
        struct opm_unit *e = &h->slot->stack[h->depth - 1];
        uint64_t dur = now - e->ticks;
        uint32_t id = (uint32_t)e->word;
        struct opm_unit u[2] = { { e->ticks, unit_word(UNIT_SPAN, id, dur) }, { dur, 0 } };

        if (dur > UNIT_VALUE_MAX) {
            u[0].word = unit_word(UNIT_LONG_SPAN, id, 0);
            opm__put(h, u, 2);
        } else {
            opm__put(h, u, 1);
        }
    }
    slot_pop(h);
}

static void async_end(opm_span span, uint64_t now)
{
    struct hot *h = hot_enter(NO_SPAN);
    struct opm_unit u[2] = { { now, unit_word(UNIT_ASYNC_END, 0, 0) },
                             { span.ticks, span.thread } };

    if (h)
        opm__put(h, u, 2);
}

/* Between opm__slow_enter() and opm__slow_leave(). */
static void end_entered(struct hot *h, opm_span span, uint64_t now)
{
    if (span.depth == ASYNC_DEPTH) {
        async_end(span, now);
    } else if (atomic_load_explicit(&h->serial, memory_order_relaxed) != span.thread ||
               span.depth > h->depth ||
               (span.depth <= OPM_STACK_MAX &&
                h->slot->stack[span.depth - 1].ticks != span.ticks)) {
        atomic_fetch_add_explicit(&opm__recorder.unbalanced_ends, 1, memory_order_relaxed);
    } else {
        while (h->depth > span.depth) {
            /* A phase ends with its step; anything else has been forgotten. */
            if (h->phase.depth == h->depth)
                h->phase = opm_span_none();
            else
                atomic_fetch_add_explicit(&opm__recorder.closed_by_parent, 1, memory_order_relaxed);
            end_top(h, now);
        }
        end_top(h, now);
    }
}

__attribute__((noinline, cold)) static void end_slow(opm_span span, uint64_t now)
{
    if (!span_enter(span))
        return;
    end_entered(&opm__hot, span, now);
    opm__slow_leave();
}

static inline void hot_close(struct hot *h)
{
    atomic_store_explicit(&h->inside, stack_here(), memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void hot_open(struct hot *h)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&h->inside, 0, memory_order_relaxed);
}

void opm__end(opm_span span)
{
    struct hot *h = &opm__hot;
    uint64_t now = end_ticks(h, span);

    if (UNLIKELY(atomic_load_explicit(&h->inside, memory_order_relaxed))) {
        end_slow(span, now);
        return;
    }
    hot_close(h);
    if (UNLIKELY(h->depth != span.depth || h->depth > OPM_STACK_MAX || h->used == h->cap ||
                 atomic_load_explicit(&h->serial, memory_order_relaxed) != span.thread)) {
        hot_open(h);
        end_slow(span, now);
        return;
    }
    const struct opm_unit *e = &h->slot->stack[span.depth - 1];
    uint64_t dur = now - span.ticks;

    if (UNLIKELY(e->ticks != span.ticks || dur > UNIT_VALUE_MAX)) {
        hot_open(h);
        end_slow(span, now);
        return;
    }
    hot_put(h, span.ticks, unit_word(UNIT_SPAN, (uint32_t)e->word, dur));
    slot_pop(h);
    hot_open(h);
}

opm_span opm__async_begin(opm_site *site)
{
    opm_span span = { 0, 0, 0 };

    if (!opm__slow_enter_span())
        return span;
    struct hot *h = hot_enter(A_SPAN);
    uint32_t id = h ? site_id(site) : ID_FILTERED;

    if (h && id != ID_FILTERED) {
        struct opm_unit u = { span_ticks(h), unit_word(UNIT_ASYNC_BEGIN, id, 0) };

        opm__put(h, &u, 1);
        span = (opm_span){ u.ticks, atomic_load_explicit(&h->serial, memory_order_relaxed),
                           ASYNC_DEPTH };
    }
    opm__slow_leave();
    return span;
}

opm_span opm__begin_named(uint32_t layer, const char *category, const char *name, size_t len)
{
    opm_span span = { 0, 0, 0 };

    if (!opm__slow_enter_span())
        return span;
    struct hot *h = hot_enter(A_SPAN);
    uint32_t id =
        h ? opm__define_named(ROLE_SPAN, layer, category, name ? name : "", name ? len : 0) : 0;

    if (id)
        span = begin_id(h, id);
    opm__slow_leave();
    return span;
}

/* Write an argument of a span; `kind` and `value` as format.h has them. */
static void put_arg(opm_span span, enum opm_unit_kind kind, uint32_t key, uint64_t value)
{
    struct hot *h = hot_enter(NO_SPAN);
    struct opm_unit u[2] = { { span.ticks, unit_word(kind, key, 0) }, { value, span.thread } };

    if (h && key)
        opm__put(h, u, 2);
}

static opm_span begin_role(uint32_t role, const char *name)
{
    opm_span span = { 0, 0, 0 };
    struct hot *h = hot_enter(A_SPAN);
    uint32_t id =
        h ? opm__define_named(role, OPM_APP, NULL, name ? name : "", name ? strlen(name) : 0) : 0;

    if (id)
        span = begin_id(h, id);
    return span;
}

static void step_phase_end(struct hot *h)
{
    opm_span phase = h->phase;

    h->phase = opm_span_none();
    if (phase.depth && h->depth >= phase.depth &&
        atomic_load_explicit(&h->serial, memory_order_relaxed) == phase.thread)
        end_entered(h, phase, end_ticks(h, phase));
}

opm_span opm__step_begin(const char *model, int64_t num, uint32_t flags)
{
    opm_span span = { 0, 0, 0 };

    if (!opm__slow_enter_span())
        return span;
    span = begin_role(ROLE_STEP, model);
    if (span.depth) {
        put_arg(span, UNIT_ARG_INT, ARG_KEY_STEP, (uint64_t)num);
        if (flags)
            put_arg(span, UNIT_ARG_INT, ARG_KEY_FLAGS, flags);
        opm__hot.phase = opm_span_none();
    }
    opm__slow_leave();
    return span;
}

void opm__step_phase(uint32_t phase)
{
    static const char *const names[] = { NULL, "forward", "backward", "update" };

    if (!opm__slow_enter())
        return;
    step_phase_end(&opm__hot);
    if (phase > 0 && phase < ARRAY_SIZE(names))
        opm__hot.phase = begin_role(ROLE_PHASE, names[phase]);
    opm__slow_leave();
}

opm_span opm__record_begin(const char *label, uint32_t flags)
{
    opm_span span = { 0, 0, 0 };

    if (!opm__slow_enter_span())
        return span;
    span = begin_role(ROLE_RECORD, label);
    if (span.depth && flags)
        put_arg(span, UNIT_ARG_INT, ARG_KEY_FLAGS, flags);
    opm__slow_leave();
    return span;
}

opm_span opm__activity_begin(const char *name, int64_t step, const char *meta)
{
    opm_span span = { 0, 0, 0 };

    if (!opm__slow_enter_span())
        return span;
    struct hot *h = hot_enter(A_SPAN);
    uint32_t id = h ? opm__define_named(ROLE_ACTIVITY, OPM_APP, NULL, name ? name : "",
                                        name ? strlen(name) : 0)
                    : 0;

    if (id) {
        struct opm_unit u = { span_ticks(h), unit_word(UNIT_ASYNC_BEGIN, id, 0) };

        opm__put(h, &u, 1);
        span = (opm_span){ u.ticks, atomic_load_explicit(&h->serial, memory_order_relaxed),
                           ASYNC_DEPTH };
        if (step >= 0)
            put_arg(span, UNIT_ARG_INT, ARG_KEY_STEP, (uint64_t)step);
        if (meta)
            put_arg(span, UNIT_ARG_STR, ARG_KEY_META, opm__define_string(meta, strlen(meta)));
    }
    opm__slow_leave();
    return span;
}

static uint64_t real_bits(double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

void opm__put_counter(opm_site *site, uint32_t role, enum opm_unit_kind kind, uint64_t value)
{
    struct hot *h;
    uint32_t id;

    if (!opm__slow_enter())
        return;
    if (__atomic_load_n(&site->role, __ATOMIC_RELAXED) != role)
        __atomic_store_n(&site->role, role, __ATOMIC_RELAXED);
    h = hot_enter(NO_SPAN);
    id = h ? site_id(site) : ID_FILTERED;
    if (id != ID_FILTERED) {
        struct opm_unit u[2] = { { clock_ticks(), unit_word(kind, id, 0) }, { value, 0 } };

        opm__put(h, u, 2);
    }
    opm__slow_leave();
}

void opm__put_gauge(opm_site *site, double value)
{
    opm__put_counter(site, site->role, UNIT_COUNTER, real_bits(value));
}

void opm__counter(opm_site *site, double value)
{
    opm__put_counter(site, ROLE_COUNTER, UNIT_COUNTER, real_bits(value));
}

void opm__put_device_span(uint32_t track, opm_site *site, int64_t start_ns, int64_t end_ns,
                          uint64_t correlation, uint32_t args)
{
    struct hot *h = site ? hot_enter(A_SPAN) : NULL;
    uint32_t id = h ? site_id(site) : ID_FILTERED;
    struct opm_unit u[3] = { { (uint64_t)start_ns, unit_word(UNIT_DEVICE_SPAN, id, 0) },
                             { (uint64_t)end_ns, correlation },
                             { track, args } };

    if (id != ID_FILTERED && h && track)
        opm__put(h, u, 3);
}

bool opm__put_device_span_quick(uint64_t track, opm_site *site, int64_t start_ns, int64_t end_ns,
                                uint64_t correlation)
{
    struct hot *h = &opm__hot;
    uint64_t cache = __atomic_load_n(&site->cache, __ATOMIC_RELAXED);
    uint64_t generation;
    struct opm_unit *u;

    if (UNLIKELY(atomic_load_explicit(&h->inside, memory_order_relaxed)))
        return false;
    hot_close(h);
    generation = atomic_load_explicit(&h->generation, memory_order_relaxed);
    if (UNLIKELY(cache >> 32 != generation || track >> 32 != generation || (int32_t)cache <= 0 ||
                 h->cap - h->used < 3)) {
        hot_open(h);
        return false;
    }
    u = &h->units[h->used];
    u[0] = (struct opm_unit){ (uint64_t)start_ns, unit_word(UNIT_DEVICE_SPAN, (uint32_t)cache, 0) };
    u[1] = (struct opm_unit){ (uint64_t)end_ns, correlation };
    u[2] = (struct opm_unit){ (uint32_t)track, 0 };
    h->used += 3;
    __atomic_store_n(&h->slot->used, h->used, __ATOMIC_RELEASE);
    hot_open(h);
    return true;
}

uint64_t opm_now(void)
{
    return opm__clock_known() ? clock_ticks() : 0;
}

void opm__flow(opm_span src, opm_span dst)
{
    if (!span_enter(src.thread < dst.thread ? src : dst))
        return;
    struct hot *h = hot_enter(NO_SPAN);
    struct opm_unit u[3] = { { clock_ticks(), unit_word(UNIT_FLOW, 0, 0) },
                             { src.ticks, src.thread },
                             { dst.ticks, dst.thread } };

    if (h)
        opm__put(h, u, 3);
    opm__slow_leave();
}

static void arg(opm_span span, enum opm_unit_kind kind, const char *key, uint64_t value)
{
    if (key)
        put_arg(span, kind, opm__define_string(key, strlen(key)), value);
}

void opm__arg_int(opm_span span, const char *key, int64_t v)
{
    if (!span_enter(span))
        return;
    arg(span, UNIT_ARG_INT, key, (uint64_t)v);
    opm__slow_leave();
}

void opm__arg_real(opm_span span, const char *key, double v)
{
    if (!span_enter(span))
        return;
    arg(span, UNIT_ARG_REAL, key, real_bits(v));
    opm__slow_leave();
}

void opm__arg_str(opm_span span, const char *key, const char *v)
{
    if (!v || !span_enter(span))
        return;
    arg(span, UNIT_ARG_STR, key, opm__define_string(v, strlen(v)));
    opm__slow_leave();
}

void opm__correlate(opm_span span, uint64_t correlation)
{
    if (!span_enter(span))
        return;
    put_arg(span, UNIT_ARG_INT, ARG_KEY_CORRELATION, correlation);
    opm__slow_leave();
}
