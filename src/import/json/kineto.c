/* kineto.c -- traces of PyTorch's profiler, 2021 to 2026.
 *
 * Links: an operator and what it launched share External id; a launch and what ran on the device
 * share correlation. Device spans and launches get the operator of their External id, as part of it
 * (phase "kernel" and "launch"), so that its time on the host is not mixed with theirs. */
#include "import/json/sniff.h"
#include "import/torch/torch_op.h"

#include "base/alloc.h"
#include "base/step_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_IDS 1024 /* External ids rise by one from operator to operator, with gaps */

enum what { WHAT_OP, WHAT_PART, WHAT_STEP, WHAT_MEMORY };

/* What to do with a span of a kind. Numbers of values may be NO_VALUE. */
struct kineto_kind {
    uint8_t what;
    bool hardware;                     /* WHAT_PART */
    uint32_t op;                       /* WHAT_OP */
    uint16_t sequence, forward_thread; /* WHAT_OP */
    const char *mark;                  /* WHAT_STEP: what it is called, a constant, */
    int64_t step;                      /* and its number or -1 */
    uint16_t device_type, device_id;   /* WHAT_MEMORY */
    uint16_t amount[2];                /* ditto: allocated, reserved */
};

/* A span that belongs to the operator of an External id. */
struct part {
    uint32_t span;
    bool hardware;
    int64_t external; /* or OPM_NULL_I64 */
    int64_t correlation;
};

/* An operator that took part in forward or backward. */
struct sequenced {
    int64_t number, ts;
    uint32_t span;
    bool backward;
};

struct step_row {
    const char *mark;
    int64_t num, ts, dur;
    uint32_t track;
};

struct kineto {
    struct u64map ops; /* what makes an operator -> op row */
    struct arena arena;
    struct u64map pages;  /* External id / PAGE_IDS -> address of a page: op row + 1 by id */
    uint64_t page_number; /* of the page used last */
    uint32_t *page;
    struct part *part;
    size_t npart, part_cap;
    struct sequenced *seq;
    size_t nseq, seq_cap;
    struct step_row *step;
    size_t nstep, step_cap;
    bool has_forward_backward; /* the file draws these arrows itself */
    int64_t rank;
    str_id host;
    str_id phase_kernel, phase_launch;
    bool any_part_alone;    /* device span without External id */
    bool captures, replays; /* graphs */
};

/* Layers of Kineto's categories. */
static const struct {
    const char *cat;
    const char *layer;
    bool device; /* stands on a stream */
} cats[] = {
    { "cpu_op", "framework", false },
    { "Operator", "framework", false },
    { "user_annotation", "app", false },
    { "gpu_user_annotation", "app", true },
    { "python_function", "app", false },
    { "cuda_runtime", "runtime", false },
    { "cuda_driver", "runtime", false },
    { "Runtime", "runtime", false },
    { "mtia_runtime", "runtime", false },
    { "glow_runtime", "runtime", false },
    { "xpu_runtime", "runtime", false },
    { "xpu_driver", "runtime", false },
    { "privateuse1_runtime", "runtime", false },
    { "privateuse1_driver", "runtime", false },
    { "overhead", "runtime", false },
    { "kernel", "hardware", true },
    { "Kernel", "hardware", true },
    { "gpu_memcpy", "hardware", true },
    { "gpu_memset", "hardware", true },
    { "Memcpy", "hardware", true },
    { "Memset", "hardware", true },
    { "cuda_sync", "runtime", true },
    { "cuda_event", "runtime", true },
    { "xpu_sync", "runtime", true },
    { "cuda_profiler_range", "hardware", true },
    { "mtia_ccp_events", "hardware", true },
    { "mtia_insight", "hardware", true },
    { "hpu_op", "hardware", true },
    { "collective_comm", "hardware", true },
    { "xpu_scope_profiler", "hardware", true },
    { "privateuse1_kernel", "hardware", true },
    { "privateuse1_memcpy", "hardware", true },
    { "privateuse1_memset", "hardware", true },
};

static struct kineto *state(struct events *ev)
{
    if (!ev->state) {
        struct kineto *s = mem_calloc(1, sizeof(*s));

        if (!s)
            return NULL;
        s->rank = OPM_NULL_I64;
        if (store_cstr(ev->st, "kernel", &s->phase_kernel) ||
            store_cstr(ev->st, "launch", &s->phase_launch)) {
            mem_free(s);
            return NULL;
        }
        ev->state = s;
    }
    return ev->state;
}

static void kineto_release(struct events *ev)
{
    struct kineto *s = ev->state;

    if (!s)
        return;
    u64map_release(&s->ops);
    u64map_release(&s->pages);
    arena_release(&s->arena);
    mem_free(s->part);
    mem_free(s->seq);
    mem_free(s->step);
    mem_free(s);
}

/* A step of the profiler by its name alone; one that the program marked, as an annotation. */
static bool is_step(const char *name, const char *cat, struct kineto_kind *kk)
{
    return step_name_read(name, strlen(name), &kk->mark, &kk->step) &&
           (strcmp(cat, "user_annotation") == 0 ||
            (strncmp(name, STEP_OF_PROFILER "#", strlen(STEP_OF_PROFILER "#")) == 0 &&
             kk->step >= 0));
}

static uint16_t int_value(const struct member *m)
{
    return m && m->value != NO_VALUE && m->hole == HOLE_INT ? m->value : NO_VALUE;
}

static int set_device(struct events *ev, struct kind *k, const struct event_info *info)
{
    struct ev_track *t = &ev->track[k->track];
    const struct member *pid = member_find(&info->event, "pid");
    const char *stream;
    int64_t device;
    char text[32];

    t->kind = "stream";
    if (t->tid == OPM_NULL_I64 && t->fallback) { /* "stream 7", in 2021 */
        stream = store_text(ev->st, t->fallback);
        if (strncmp(stream, "stream ", 7) == 0)
            t->tid = strtoll(stream + 7, NULL, 10);
    }
    if (t->device || !member_int(pid, &device))
        return 0;
    snprintf(text, sizeof(text), "GPU %" PRId64, device);
    return store_cstr(ev->st, text, &t->device);
}

/* A [memory] instant. */
static void memory_kind(struct kineto_kind *kk, const struct event_info *info)
{
    kk->what = WHAT_MEMORY;
    kk->amount[0] = int_value(member_find(&info->args, "Total Allocated"));
    kk->amount[1] = int_value(member_find(&info->args, "Total Reserved"));
    kk->device_type = int_value(member_find(&info->args, "Device Type"));
    kk->device_id = int_value(member_find(&info->args, "Device Id"));
}

static int kineto_kind(struct events *ev, struct kind *k, const struct event_info *info,
                       struct site *site)
{
    struct kineto *s = state(ev);
    const char *cat = k->cat ? store_text(ev->st, k->cat) : "", *name = store_text(ev->st, k->name);
    const struct member *external;
    const char *layer = "app";
    bool device = false;
    struct kineto_kind *kk = s ? arena_alloc(ev->arena, sizeof(*kk)) : NULL;

    if (!kk)
        return OPM_ENOMEM;
    *kk =
        (struct kineto_kind){ .op = OPM_NULL_ID, .sequence = NO_VALUE, .forward_thread = NO_VALUE };
    for (size_t i = 0; i < ARRAY_SIZE(cats); i++) {
        if (strcmp(cat, cats[i].cat) == 0) {
            layer = cats[i].layer;
            device = cats[i].device;
        }
    }
    if (store_cstr(ev->st, layer, &site->layer) || (device && set_device(ev, k, info)))
        return OPM_ENOMEM;
    external = member_find(&info->args, "External id");
    if (!external)
        external = member_find(&info->args, "external id");
    k->external = int_value(external);
    if (k->act == ACT_INSTANT && strcmp(name, "[memory]") == 0) {
        k->dialect = kk;
        memory_kind(kk, info);
        return 0;
    }
    if (k->act != ACT_SPAN)
        return 0;
    if (!device && is_step(name, cat, kk)) {
        kk->what = WHAT_STEP;
        k->dialect = kk;
        return 0;
    }
    if (strcmp(layer, "framework") == 0) {
        kk->what = WHAT_OP;
        k->dialect = kk;
        if (torch_op(ev, &s->ops, k->name, info, &kk->op))
            return OPM_ENOMEM;
        site->op = kk->op;
        kk->sequence = int_value(member_find(&info->args, "Sequence number"));
        kk->forward_thread = int_value(member_find(&info->args, "Fwd thread id"));
        return 0;
    }
    if (strcmp(layer, "runtime") == 0) {
        s->captures |= strstr(name, "StreamBeginCapture") != NULL;
        s->replays |= strstr(name, "GraphLaunch") != NULL;
    }
    if (strcmp(layer, "hardware") == 0 || strcmp(layer, "runtime") == 0) {
        kk->what = WHAT_PART;
        kk->hardware = strcmp(layer, "hardware") == 0;
        if (k->external != NO_VALUE || (kk->hardware && k->correlation != NO_VALUE))
            k->dialect = kk;
    }
    return 0;
}

/* The page of an id; NULL if there is none. */
static uint32_t *find_page(struct kineto *s, uint64_t number)
{
    const uint64_t *at;

    if (s->page && s->page_number == number)
        return s->page;
    at = u64map_get(&s->pages, number);
    if (!at)
        return NULL;
    s->page_number = number;
    s->page = (uint32_t *)(uintptr_t)*at;
    return s->page;
}

static int note_external(struct kineto *s, int64_t id, uint32_t op)
{
    uint64_t number = (uint64_t)id / PAGE_IDS;
    uint32_t *page = find_page(s, number);

    if (UNLIKELY(!page)) {
        page = arena_alloc(&s->arena, PAGE_IDS * sizeof(*page));
        if (!page || u64map_put(&s->pages, number, (uint64_t)(uintptr_t)page))
            return OPM_ENOMEM;
    }
    page[(uint64_t)id % PAGE_IDS] = op + 1;
    return 0;
}

static uint32_t op_of_external(struct kineto *s, int64_t id)
{
    const uint32_t *page = find_page(s, (uint64_t)id / PAGE_IDS);
    uint32_t op = page ? page[(uint64_t)id % PAGE_IDS] : 0;

    return op ? op - 1 : OPM_NULL_ID;
}

/* Totals of the allocator of one device. */
static int take_memory(struct events *ev, const struct kineto_kind *kk, int64_t ts,
                       const int64_t *value)
{
    static const char *const words[] = { "allocated", "reserved" };
    int64_t type = kk->device_type == NO_VALUE ? 0 : value[kk->device_type];
    int64_t id = kk->device_id == NO_VALUE ? 0 : value[kk->device_id];
    char name[80];

    for (int i = 0; i < 2; i++) {
        uint32_t track;
        int len;

        if (kk->amount[i] == NO_VALUE)
            continue;
        len = type == 0 ? snprintf(name, sizeof(name), "memory %s CPU", words[i])
                        : snprintf(name, sizeof(name), "memory %s GPU %" PRId64, words[i], id);
        if (events_series(ev, OPM_NULL_ID, 0x6d656d, name, (size_t)len, &track))
            return OPM_ENOMEM;
        if (!ev->track[track].unit && store_cstr(ev->st, "bytes", &ev->track[track].unit))
            return OPM_ENOMEM;
        if (events_sample(ev, track, ts, (double)value[kk->amount[i]]))
            return OPM_ENOMEM;
    }
    return 0;
}

static int kineto_span(struct events *ev, struct kind *k, uint32_t span, int64_t ts, int64_t dur,
                       const int64_t *value)
{
    struct kineto *s = ev->state;
    const struct kineto_kind *kk = k->dialect;

    switch (kk->what) {
    case WHAT_OP:
        if (k->external != NO_VALUE && note_external(s, value[k->external], kk->op))
            return OPM_ENOMEM;
        if (kk->sequence != NO_VALUE && value[kk->sequence] >= 0) {
            if (!GROW(s->seq, s->seq_cap, s->nseq + 1))
                return OPM_ENOMEM;
            s->seq[s->nseq++] = (struct sequenced){ value[kk->sequence], ts, span,
                                                    kk->forward_thread != NO_VALUE &&
                                                        value[kk->forward_thread] != 0 };
        }
        return 0;
    case WHAT_PART:
        if (!GROW(s->part, s->part_cap, s->npart + 1))
            return OPM_ENOMEM;
        s->part[s->npart++] = (struct part){
            .span = span,
            .hardware = kk->hardware,
            .external = k->external == NO_VALUE ? OPM_NULL_I64 : value[k->external],
            .correlation = k->correlation == NO_VALUE ? OPM_NULL_I64 : value[k->correlation],
        };
        s->any_part_alone |= k->external == NO_VALUE;
        return 0;
    case WHAT_STEP:
        if (!GROW(s->step, s->step_cap, s->nstep + 1))
            return OPM_ENOMEM;
        s->step[s->nstep++] =
            (struct step_row){ kk->mark, kk->step, ts, dur, ev->first_track + k->track };
        return 0;
    default:
        return take_memory(ev, kk, ts, value);
    }
}

/* Writers of 2022 and 2023 put the correlation where External id belongs. It may happen to be the
 * id of some operator, and says nothing of it. */
static bool externals_are_correlations(const struct kineto *s)
{
    bool any = false;

    for (size_t i = 0; i < s->npart; i++) {
        const struct part *p = &s->part[i];

        if (!p->hardware || p->external == OPM_NULL_I64 || p->correlation == OPM_NULL_I64)
            continue;
        if (p->external != p->correlation)
            return false;
        any = true;
    }
    return any;
}

/* Give launches and device spans the operator that they belong to. What gets none here is found by
 * the launch that lies inside of an operator. */
static int link_parts(struct events *ev, struct kineto *s)
{
    struct u64map by_correlation = { 0 };
    int rc = 0;

    if (externals_are_correlations(s))
        return 0;
    for (size_t i = 0; s->any_part_alone && i < s->npart && !rc; i++) {
        const struct part *p = &s->part[i];

        if (!p->hardware && p->external != OPM_NULL_I64 && p->correlation != OPM_NULL_I64)
            rc = u64map_put(&by_correlation, (uint64_t)p->correlation, (uint64_t)p->external);
    }
    for (size_t i = 0; i < s->npart && !rc; i++) {
        const struct part *p = &s->part[i];
        int64_t external = p->external;
        uint32_t op, site;

        if (external == OPM_NULL_I64) {
            const uint64_t *launch = u64map_get(&by_correlation, (uint64_t)p->correlation);

            if (!launch)
                continue;
            external = (int64_t)*launch;
        }
        op = op_of_external(s, external);
        if (op == OPM_NULL_ID)
            continue;
        rc = events_site_with_op(ev, store_span_get_site(ev->st, p->span), op,
                                 p->hardware ? s->phase_kernel : s->phase_launch, &site);
        if (!rc)
            rc = store_span_set_site(ev->st, p->span, site);
    }
    u64map_release(&by_correlation);
    return rc;
}

static int by_number(const void *a, const void *b)
{
    const struct sequenced *x = a, *y = b;

    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->ts < y->ts ? -1 : x->ts > y->ts;
}

/* Files without arrows from forward to backward: the last forward operator of a sequence number
 * leads to the first backward one. */
static int link_backward(struct events *ev, struct kineto *s)
{
    str_id word;

    for (size_t i = 0; i < ev->nflow && !s->has_forward_backward; i++) {
        const char *kind = store_text(ev->st, ev->flow[i].kind);

        s->has_forward_backward =
            kind && (strcmp(kind, "fwdbwd") == 0 || strcmp(kind, "forward_backward") == 0);
    }
    if (s->has_forward_backward || !s->nseq)
        return 0;
    if (store_cstr(ev->st, "forward-backward", &word))
        return OPM_ENOMEM;
    qsort(s->seq, s->nseq, sizeof(*s->seq), by_number);
    for (size_t i = 0; i < s->nseq;) {
        uint32_t forward = OPM_NULL_ID, backward = OPM_NULL_ID;
        int64_t number = s->seq[i].number;

        for (; i < s->nseq && s->seq[i].number == number; i++) {
            if (!s->seq[i].backward)
                forward = s->seq[i].span;
            else if (backward == OPM_NULL_ID)
                backward = s->seq[i].span;
        }
        if (forward == OPM_NULL_ID || backward == OPM_NULL_ID)
            continue;
        if (store_add_flow(ev->st, &(struct flow_end){ .bind = FLOW_SPAN, .span = forward },
                           &(struct flow_end){ .bind = FLOW_SPAN, .span = backward }, word))
            return OPM_ENOMEM;
    }
    return 0;
}

static bool is_mark(const struct step_row *step, const char *mark)
{
    return strcmp(step->mark, mark) == 0;
}

/* The profiler's own steps are what the program told it. Other marks count where there are none,
 * whatever they are called; they are counted if they have no number. */
static int write_steps(struct events *ev, const struct kineto *s)
{
    bool told = false;
    int64_t counted = 0;

    for (size_t i = 0; i < s->nstep; i++)
        told |= is_mark(&s->step[i], STEP_OF_PROFILER);
    for (size_t i = 0; i < s->nstep; i++) {
        const struct step_row *step = &s->step[i];
        str_id model;

        if (told && !is_mark(step, STEP_OF_PROFILER) && !is_mark(step, STEP_OF_OPTIMIZER))
            continue;
        if (store_cstr(ev->st, step->mark, &model) ||
            store_add(ev->st, TABLE_step,
                      (struct cell[step_col_COUNT]){
                          [step_col_model] = cell_str(model),
                          [step_col_num] = cell_i64(step->num < 0 ? counted++ : step->num),
                          [step_col_ts] = cell_i64(step->ts),
                          [step_col_dur] = cell_i64(step->dur),
                          [step_col_warmup] = cell_i64(0),
                          [step_col_track] = cell_id(step->track) },
                      NULL))
            return OPM_ENOMEM;
    }
    return 0;
}

static int kineto_finish(struct events *ev)
{
    struct kineto *s = state(ev);
    int rc;

    if (!s)
        return OPM_ENOMEM;
    ev->host = s->host;
    if (s->rank != OPM_NULL_I64)
        import_set_rank(ev->src, s->rank);
    import_set_graphs(ev->src, s->captures, s->replays);
    rc = link_parts(ev, s);
    if (!rc)
        rc = link_backward(ev, s);
    if (!rc)
        rc = write_steps(ev, s);
    if (!ev->clocked) /* before there was a base, times counted from 1970 */
        events_clock(ev, 0);
    return rc;
}

/* The members of an object as facts, "PREFIX.KEY". */
static int object_facts(struct events *ev, struct json_reader *r, const char *prefix)
{
    struct buf key = { 0 }, text = { 0 };
    int rc = 0;

    while (!rc && json_read_next(r) == JSON_KEY) {
        const char *from;

        buf_clear(&key);
        buf_clear(&text);
        buf_addf(&key, "%s.", prefix);
        json_read_text(r, &key);
        json_read_next(r);
        if (r->token == JSON_STRING) {
            json_read_text(r, &text);
        } else {
            from = r->token == JSON_NUMBER ? r->text
                   : r->token == JSON_OBJECT || r->token == JSON_ARRAY
                       ? r->at - 1
                       : r->at - (r->token == JSON_FALSE ? 5 : 4);
            if (!json_read_skip(r))
                break;
            buf_add(&text, from, (size_t)(r->at - from));
        }
        rc =
            key.failed || text.failed ? OPM_ENOMEM : events_meta(ev, buf_str(&key), buf_str(&text));
    }
    buf_release(&key);
    buf_release(&text);
    return rc;
}

/* [{"id": 0, "name": ...}, ...] as device.0.name and so on. */
static int device_facts(struct events *ev, struct json_reader *r)
{
    char prefix[32];
    int rc = 0;

    for (int i = 0; !rc && json_read_next(r) == JSON_OBJECT; i++) {
        snprintf(prefix, sizeof(prefix), "device.%d", i);
        rc = object_facts(ev, r, prefix);
    }
    return rc;
}

static int host_name(struct events *ev, const struct json_reader *r, str_id *out)
{
    struct buf name = { 0 };
    int rc;

    json_read_text(r, &name);
    rc = name.failed ? OPM_ENOMEM : store_str(ev->st, buf_str(&name), name.len, out);
    buf_release(&name);
    return rc;
}

static int kineto_fact(struct events *ev, const char *key, const char *json, size_t len,
                       bool *taken)
{
    struct kineto *s = state(ev);
    struct json_reader r = json_read_of(json, len);
    int64_t base;

    if (!s)
        return OPM_ENOMEM;
    json_read_next(&r);
    if (strcmp(key, "baseTimeNanoseconds") == 0 && json_read_int(&r, &base))
        events_clock(ev, base);
    if (strcmp(key, "host_name") == 0 && r.token == JSON_STRING)
        return host_name(ev, &r, &s->host);
    if ((strcmp(key, "deviceProperties") == 0 || strcmp(key, "computeProperties") == 0) &&
        r.token == JSON_ARRAY) {
        *taken = true;
        return device_facts(ev, &r);
    }
    if (strcmp(key, "distributedInfo") == 0 && r.token == JSON_OBJECT) {
        struct json_reader look = r;

        *taken = true;
        while (json_read_next(&look) == JSON_KEY) {
            bool rank = json_read_is(&look, "rank");

            json_read_next(&look);
            if (rank)
                json_read_int(&look, &s->rank);
            if (look.token == JSON_OBJECT || look.token == JSON_ARRAY)
                json_read_skip(&look);
        }
        return object_facts(ev, &r, "distributed");
    }
    return 0;
}

const struct dialect dialect_kineto = { .name = "kineto",
                                        .kind = kineto_kind,
                                        .span = kineto_span,
                                        .fact = kineto_fact,
                                        .finish = kineto_finish,
                                        .release = kineto_release,
                                        .args_correlation = true };

bool kineto_words(const uint8_t *p, size_t len)
{
    static const char *const words[] = { "\"schemaVersion\"",   "\"deviceProperties\"",
                                         "\"distributedInfo\"", "\"External id\"",
                                         "\"external id\"",     "\"cpu_op\"",
                                         "\"cuda_runtime\"",    "\"ac2g\"",
                                         "\"ProfilerStep#",     "\"async_cpu_to_gpu\"" };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (head_contains(p, len, words[i]))
            return true;
    return false;
}

bool kineto_sniff(const uint8_t *head, size_t len)
{
    return json_first_bracket(head, len) && kineto_words(head, len) &&
           (head_has_events(head, len) || head_contains(head, len, "\"deviceProperties\"") ||
            head_contains(head, len, "\"distributedInfo\""));
}

int kineto_read(struct store *st, const struct import_source *src, opm_error *err)
{
    return trace_json_read(st, src, &dialect_kineto, err);
}
