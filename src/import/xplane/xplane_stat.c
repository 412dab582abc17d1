/* xplane_stat.c -- names and statistics of an XPlane, resolved by their numbers. */
#include "import/xplane/xplane_int.h"

#include <inttypes.h>
#include <string.h>

static str_id text_of(struct xp *x, const struct pb_field *f)
{
    return build_str(&x->b, (const char *)f->p, f->len);
}

/* An entry of a map: key=1, value=2. False if it is none. */
static bool map_entry(const struct pb_field *f, uint64_t *key, struct pb_field *value)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    bool found = false;

    *key = 0;
    while (pb_next(&r, &g)) {
        if (g.number == 1 && g.wire == PB_VARINT)
            *key = g.value;
        else if (g.number == 2 && g.wire == PB_LEN) {
            *value = g;
            found = true;
        }
    }
    return found && !r.bad;
}

static void add_stat_name(struct xp *x, const struct pb_field *f)
{
    struct pb_field body, g;
    uint64_t key;
    str_id name = 0;
    struct rd r;

    if (!map_entry(f, &key, &body))
        return;
    for (r = rd_of(body.p, body.len); pb_next(&r, &g);)
        if (g.number == 2 && g.wire == PB_LEN)
            name = text_of(x, &g);
    if (!x->b.rc && u64map_put(&x->plane.stat_name, key, name))
        x->b.rc = OPM_ENOMEM;
}

static void add_event(struct xp *x, const struct pb_field *f)
{
    struct pb_field body, g;
    struct xevent_metadata *m;
    uint64_t key;
    struct rd r;

    if (!map_entry(f, &key, &body))
        return;
    m = arena_alloc(&x->arena, sizeof(*m));
    if (!m || u64map_put(&x->plane.event, key, (uint64_t)(uintptr_t)m)) {
        x->b.rc = OPM_ENOMEM;
        return;
    }
    m->body = body;
    for (r = rd_of(body.p, body.len); pb_next(&r, &g);) {
        if (g.number == 2 && g.wire == PB_LEN)
            m->name = text_of(x, &g);
        else if (g.number == 4 && g.wire == PB_LEN)
            m->display = text_of(x, &g);
    }
}

void xplane_release(struct xp *x)
{
    u64map_release(&x->plane.stat_name);
    u64map_release(&x->plane.event);
    xargs_release(x);
    arena_release(&x->arena);
    x->plane = (struct xplane){ 0 };
}

void xplane_names(struct xp *x, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    const char *name;

    xplane_release(x);
    while (pb_next(&r, &g) && !x->b.rc) {
        if (g.number == 1 && g.wire == PB_VARINT)
            x->plane.id = (int64_t)g.value;
        else if (g.wire != PB_LEN)
            continue;
        else if (g.number == 2)
            x->plane.name = text_of(x, &g);
        else if (g.number == 4)
            add_event(x, &g);
        else if (g.number == 5)
            add_stat_name(x, &g);
    }
    name = x->plane.name && !x->b.rc ? store_text(x->b.st, x->plane.name) : "";
    x->plane.device = strncmp(name, "/device:", 8) == 0;
    if (x->plane.device)
        x->plane.device_name = build_cstr(&x->b, name + 8);
}

struct xevent_metadata *xevent_metadata(struct xp *x, uint64_t id)
{
    const uint64_t *at = u64map_get(&x->plane.event, id);

    return at ? (struct xevent_metadata *)(uintptr_t)*at : NULL;
}

struct xvalue xstat_read(struct xp *x, const struct pb_field *f, uint64_t *out_id)
{
    struct rd r = rd_of(f->p, f->len);
    struct xvalue v = { 0 };
    struct pb_field g;
    const uint64_t *at;

    *out_id = 0;
    while (pb_next(&r, &g)) {
        if (g.number == 1 && g.wire == PB_VARINT) {
            *out_id = g.value;
        } else if (g.number == 2 && g.wire == PB_I64) {
            v.kind = XVALUE_REAL;
            memcpy(&v.f, &g.value, sizeof(v.f));
        } else if ((g.number == 3 || g.number == 4) && g.wire == PB_VARINT) {
            v.kind = g.number == 3 ? XVALUE_UINT : XVALUE_INT;
            v.i = (int64_t)g.value;
        } else if ((g.number == 5 || g.number == 6) && g.wire == PB_LEN) {
            v.kind = g.number == 5 ? XVALUE_TEXT : XVALUE_BYTES;
            v.text = (const char *)g.p;
            v.len = g.len;
        } else if (g.number == 7 && g.wire == PB_VARINT) {
            /* A text that is kept as the name of a statistic. */
            at = u64map_get(&x->plane.stat_name, g.value);
            if (at && *at) {
                v.kind = XVALUE_TEXT;
                v.ref = (str_id)*at;
                v.text = store_text(x->b.st, v.ref);
                v.len = strpool_len(store_strings(x->b.st), v.ref);
            } else {
                store_stat(x->b.st, STAT_intern_missing, 1);
            }
        }
    }
    return v;
}

enum xstat xstat_meaning(const char *name)
{
    static const struct {
        const char *name;
        enum xstat meaning;
    } known[] = {
        { "correlation_id", XSTAT_CORRELATION },
        { "hlo_op", XSTAT_HLO_OP },
        { "hlo_module", XSTAT_HLO_MODULE },
        { "program_id", XSTAT_PROGRAM },
        { "hlo_category", XSTAT_HLO_CATEGORY },
        { "flops", XSTAT_FLOPS },
        { "model_flops", XSTAT_FLOPS },
        { "bytes_accessed", XSTAT_BYTES },
        { "tf_op", XSTAT_TF_OP },
        { "name", XSTAT_NAME },
        { "step_num", XSTAT_STEP_NUM },
        { "_p", XSTAT_PRODUCER },
        { "_pt", XSTAT_PRODUCER_TYPE },
        { "_c", XSTAT_CONSUMER },
        { "_ct", XSTAT_CONSUMER_TYPE },
        { "_r", XSTAT_INTERNAL },
        { "bytes_allocated", XSTAT_BYTES_ALLOCATED },
        { "allocator_name", XSTAT_ALLOCATOR },
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].meaning;
    return XSTAT_OTHER;
}

static int64_t number_of(const struct xvalue *v)
{
    if (v->kind == XVALUE_REAL)
        return v->f >= 0 && v->f < 9e18 ? (int64_t)v->f : OPM_NULL_I64;
    return v->kind == XVALUE_INT || v->kind == XVALUE_UINT ? v->i : OPM_NULL_I64;
}

static str_id value_text(struct xp *x, const struct xvalue *v)
{
    if (v->kind != XVALUE_TEXT || !v->len)
        return 0;
    return v->ref ? v->ref : build_str(&x->b, v->text, v->len);
}

/* True if facts took it. */
static bool take_fact(struct xp *x, enum xstat meaning, const struct xvalue *v,
                      struct xfacts *facts)
{
    switch (meaning) {
    case XSTAT_CORRELATION:
        facts->correlation = number_of(v);
        return true;
    case XSTAT_FLOPS:
        facts->flops = number_of(v);
        return true;
    case XSTAT_BYTES:
        facts->bytes = number_of(v);
        return true;
    case XSTAT_STEP_NUM:
        facts->step_num = number_of(v);
        return true;
    case XSTAT_HLO_OP:
        facts->hlo_op = value_text(x, v);
        return true;
    case XSTAT_HLO_MODULE:
        facts->hlo_module = value_text(x, v);
        return false; /* args show it, too */
    case XSTAT_PROGRAM:
        facts->program = number_of(v);
        return false;
    case XSTAT_HLO_CATEGORY:
        facts->hlo_category = value_text(x, v);
        return true;
    case XSTAT_TF_OP:
        facts->tf_op = value_text(x, v);
        return false;
    case XSTAT_NAME:
        facts->op_name = value_text(x, v);
        return false;
    case XSTAT_PRODUCER:
        facts->producer = (uint64_t)v->i;
        return facts->produces = true;
    case XSTAT_PRODUCER_TYPE:
        facts->producer_type = (uint64_t)v->i;
        return true;
    case XSTAT_CONSUMER:
        facts->consumer = (uint64_t)v->i;
        return facts->consumes = true;
    case XSTAT_CONSUMER_TYPE:
        facts->consumer_type = (uint64_t)v->i;
        return true;
    case XSTAT_BYTES_ALLOCATED:
        facts->allocated = number_of(v);
        return false;
    case XSTAT_ALLOCATOR:
        facts->allocator = value_text(x, v);
        return false;
    case XSTAT_INTERNAL:
        return true;
    case XSTAT_OTHER:
        break;
    }
    return false;
}

const char *xstat_name(struct xp *x, uint64_t id, char room[XSTAT_NAME_ROOM])
{
    const uint64_t *at = u64map_get(&x->plane.stat_name, id);

    if (at && *at)
        return store_text(x->b.st, (str_id)*at);
    snprintf(room, XSTAT_NAME_ROOM, "stat %" PRIu64, id);
    return room;
}

void xstat_take(struct xp *x, const struct pb_field *f, struct xfacts *facts)
{
    char room[XSTAT_NAME_ROOM];
    uint64_t id;
    struct xvalue v = xstat_read(x, f, &id);

    if (!take_fact(x, xstat_meaning(xstat_name(x, id, room)), &v, facts))
        xargs_add(x, id, &v);
}

static void put_number(struct json_writer *w, const struct xvalue *v)
{
    if (v->kind == XVALUE_REAL)
        json_f64(w, v->f);
    else if (v->kind == XVALUE_UINT)
        json_u64(w, (uint64_t)v->i);
    else
        json_i64(w, v->i);
}

void xplane_facts(struct xp *x, const struct pb_field *f)
{
    const char *plane = x->plane.name ? store_text(x->b.st, x->plane.name) : "";
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    while (pb_next(&r, &g) && !x->b.rc) {
        uint64_t id;
        struct xvalue v;
        const uint64_t *at;
        const char *name;
        struct buf value = { 0 };
        struct json_writer w = { .buf = &value };

        if (g.number != 6 || g.wire != PB_LEN)
            continue;
        v = xstat_read(x, &g, &id);
        at = u64map_get(&x->plane.stat_name, id);
        name = at && *at ? store_text(x->b.st, (str_id)*at) : "";
        if (!*name || v.kind == XVALUE_BYTES || v.kind == XVALUE_NONE)
            continue;
        if (strcmp(name, "profile_start_time") == 0)
            x->start_realtime_ns = number_of(&v);
        if (v.kind == XVALUE_TEXT)
            buf_add(&value, v.text, v.len);
        else
            put_number(&w, &v);
        buf_clear(&x->scratch);
        if (x->plane.device)
            buf_addf(&x->scratch, "device.%s.%s", plane + 8, name);
        else if (strcmp(name, "process_id") == 0)
            buf_adds(&x->scratch, "program.pid");
        else
            buf_addf(&x->scratch, "xplane.%s", name);
        build_meta(&x->b, buf_str(&x->scratch), buf_str(&value));
        if (value.failed || x->scratch.failed)
            x->b.rc = OPM_ENOMEM;
        buf_release(&value);
    }
}
