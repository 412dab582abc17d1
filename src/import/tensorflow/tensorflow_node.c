/* tensorflow_node.c -- NodeExecStats: when a node ran, what it put out, what memory it took. */
#include "import/tensorflow/tensorflow_int.h"

#include "base/alloc.h"
#include "base/json_write.h"

#include <inttypes.h>
#include <string.h>

#define REF_TYPE 100 /* DT_x_REF = DT_x + 100 */

const char *tf_dtype(uint64_t type)
{
    static const char *const names[] = {
        NULL,       "float",     "double",  "int32",       "uint8",         "int16",  "int8",
        "string",   "complex64", "int64",   "bool",        "qint8",         "quint8", "qint32",
        "bfloat16", "qint16",    "quint16", "uint16",      "complex128",    "half",   "resource",
        "variant",  "uint32",    "uint64",  "float8_e5m2", "float8_e4m3fn",
    };

    type = type > REF_TYPE ? type - REF_TYPE : type;
    return type < ARRAY_SIZE(names) ? names[type] : NULL;
}

struct node {
    str_id name;
    const char *label;
    size_t label_len;
    int64_t start_ns, end_rel_ns, op_start_rel_ns, op_end_rel_ns, scheduled_ns;
    uint64_t thread;
    struct pb_field body;
};

static int64_t micros(uint64_t us)
{
    int64_t ns;

    return __builtin_mul_overflow((int64_t)us, (int64_t)1000, &ns) ? OPM_NULL_I64 : ns;
}

/* Newer files have nanoseconds beside microseconds; those win unless they are 0. */
static bool node_read(struct tf *t, const struct pb_field *f, struct node *n)
{
    struct rd r = rd_of(f->p, f->len);
    int64_t *const us[] = {
        [2] = &n->start_ns, [3] = &n->op_start_rel_ns, [4] = &n->op_end_rel_ns, [5] = &n->end_rel_ns
    };
    int64_t *const ns[] = { &n->start_ns, &n->op_start_rel_ns, &n->op_end_rel_ns, &n->end_rel_ns,
                            &n->scheduled_ns };
    int64_t exact[5] = { 0 };
    struct pb_field g;

    *n = (struct node){ .body = *f };
    while (pb_next(&r, &g)) {
        if (g.wire == PB_LEN && g.number == 1)
            n->name = build_str(&t->b, (const char *)g.p, g.len);
        else if (g.wire == PB_LEN && g.number == 8) {
            n->label = (const char *)g.p;
            n->label_len = g.len;
        } else if (g.wire != PB_VARINT)
            continue;
        else if (g.number >= 2 && g.number <= 5)
            *us[g.number] = micros(g.value);
        else if (g.number == 9)
            n->scheduled_ns = micros(g.value);
        else if (g.number == 10)
            n->thread = g.value;
        else if (g.number >= 13 && g.number <= 17)
            exact[g.number - 13] = (int64_t)g.value;
    }
    for (size_t i = 0; i < ARRAY_SIZE(exact); i++)
        if (exact[i])
            *ns[i] = exact[i];
    return !r.bad;
}

static uint32_t track_of(struct tf *t, uint64_t thread)
{
    const uint64_t *at = u64map_get(&t->dev.track, thread), *name;
    struct track_row row = TRACK_ROW_INIT;
    uint32_t track;

    if (at)
        return (uint32_t)*at;
    name = u64map_get(&t->dev.thread_name, thread);
    row.kind = t->dev.stream ? "stream" : "thread";
    row.name = name ? (str_id)*name : t->dev.name;
    row.process = t->dev.name;
    row.device = t->dev.short_name;
    row.tid = (int64_t)thread;
    track = build_track(&t->b, &row);
    if (!t->b.rc && u64map_put(&t->dev.track, thread, track))
        t->b.rc = OPM_ENOMEM;
    return track;
}

/* What a label says: "name = Type(a, b)" of the executor, "name:Type#id=5,...#::kernel" of a GPU.
 */
struct label {
    const char *type, *inputs, *kernel;
    size_t type_len, inputs_len, kernel_len;
};

static struct label label_parse(const char *s, size_t len)
{
    const char *end = s + len, *p = len ? memmem(s, len, " = ", 3) : NULL, *open;
    struct label l = { 0 };

    if (p) {
        p += 3;
        open = memchr(p, '(', (size_t)(end - p));
        l.type = p;
        l.type_len = (size_t)((open ? open : end) - p);
        if (open) {
            l.inputs = open + 1;
            l.inputs_len = (size_t)(end - open - 1);
            if (l.inputs_len && end[-1] == ')')
                l.inputs_len--;
        }
        return l;
    }
    p = len ? memchr(s, ':', len) : NULL;
    if (!p)
        return l;
    l.type = p + 1;
    for (p++; p < end && *p != '#' && *p != ':'; p++)
        ;
    l.type_len = (size_t)(p - l.type);
    open = memmem(p, (size_t)(end - p), "::", 2);
    if (!open)
        open = memmem(p, (size_t)(end - p), "@@", 2);
    if (open) {
        l.kernel = open + 2;
        l.kernel_len = (size_t)(end - open - 2);
    }
    return l;
}

/* TensorShapeProto: dim=2 {size=1} as 1x3; false if its rank is not known. */
static bool shape_read(const struct pb_field *f, struct buf *out)
{
    struct rd r = rd_of(f->p, f->len), d;
    struct pb_field g, h;
    bool first = true, known = true;

    while (pb_next(&r, &g)) {
        int64_t size = 0;

        if (g.number == 3 && g.wire == PB_VARINT && g.value)
            known = false;
        if (g.number != 2 || g.wire != PB_LEN)
            continue;
        for (d = rd_of(g.p, g.len); pb_next(&d, &h);)
            if (h.number == 1 && h.wire == PB_VARINT)
                size = (int64_t)h.value;
        buf_addf(out, first ? "%" PRId64 : "x%" PRId64, size);
        first = false;
    }
    return known;
}

/* NodeOutput: slot=1, tensor_description=3 {dtype=1, shape=2, allocation_description=4
 * {requested_bytes=1, allocated_bytes=2}}. */
static void output_read(struct tf *t, const struct pb_field *f, uint32_t op)
{
    struct tensor_row row = { .op = op, .io = "output", .bytes = OPM_NULL_I64 };
    struct rd r = rd_of(f->p, f->len), d, a;
    struct pb_field g, h, k;
    struct buf shape = { 0 };
    bool has_shape = false;

    while (pb_next(&r, &g)) {
        if (g.number == 1 && g.wire == PB_VARINT)
            row.slot = (int64_t)g.value;
        if (g.number != 3 || g.wire != PB_LEN)
            continue;
        for (d = rd_of(g.p, g.len); pb_next(&d, &h);) {
            if (h.number == 1 && h.wire == PB_VARINT)
                row.dtype = build_cstr(&t->b, tf_dtype(h.value));
            else if (h.number == 2 && h.wire == PB_LEN)
                has_shape = shape_read(&h, &shape);
            else if (h.number == 4 && h.wire == PB_LEN)
                for (a = rd_of(h.p, h.len); pb_next(&a, &k);)
                    if (k.number == 1 && k.wire == PB_VARINT)
                        row.bytes = (int64_t)k.value;
        }
    }
    if (has_shape)
        row.shape = build_text(&t->b, &shape);
    build_check(&t->b, &shape);
    build_tensor(&t->b, &row);
    buf_release(&shape);
}

static void note_alloc(struct tf *t, str_id allocator, int64_t ts_ns, int64_t bytes)
{
    if (!GROW(t->alloc, t->alloc_cap, t->nalloc + 1)) {
        t->b.rc = OPM_ENOMEM;
        return;
    }
    t->alloc[t->nalloc++] = (struct tf_alloc){ allocator, ts_ns, bytes };
}

struct memory {
    str_id allocator;
    int64_t total, peak, live;
};

/* AllocatorMemoryUsed: allocator_name=1, total_bytes=2, peak_bytes=3, live_bytes=4,
 * allocation_records=6 {alloc_micros=1, alloc_bytes=2}. */
static void memory_read(struct tf *t, const struct pb_field *f, struct memory *m)
{
    struct rd r = rd_of(f->p, f->len), a;
    struct pb_field g, h;

    *m = (struct memory){ .peak = OPM_NULL_I64, .live = OPM_NULL_I64 };
    while (pb_next(&r, &g)) {
        if (g.number == 1 && g.wire == PB_LEN)
            m->allocator = build_str(&t->b, (const char *)g.p, g.len);
        else if (g.wire == PB_VARINT && g.number == 2)
            m->total = (int64_t)g.value;
        else if (g.wire == PB_VARINT && g.number == 3)
            m->peak = (int64_t)g.value;
        else if (g.wire == PB_VARINT && g.number == 4)
            m->live = (int64_t)g.value;
    }
    for (r = rd_of(f->p, f->len); pb_next(&r, &g) && !t->b.rc;) {
        int64_t ts = OPM_NULL_I64, bytes = 0;

        if (g.number != 6 || g.wire != PB_LEN)
            continue;
        for (a = rd_of(g.p, g.len); pb_next(&a, &h);) {
            if (h.number == 1 && h.wire == PB_VARINT)
                ts = micros(h.value);
            else if (h.number == 2 && h.wire == PB_VARINT)
                bytes = (int64_t)h.value;
        }
        if (ts != OPM_NULL_I64)
            note_alloc(t, m->allocator, time_diff(ts, t->base_ns), bytes);
    }
}

static void memory_row(struct tf *t, const struct memory *m, str_id owner, uint32_t op)
{
    struct cell c[mem_col_COUNT] = { 0 };

    c[mem_col_owner] = cell_str(owner);
    c[mem_col_bytes] = cell_i64(m->total);
    c[mem_col_first_op] = cell_id(op);
    c[mem_col_last_op] = cell_id(op);
    c[mem_col_kind] = cell_str(m->allocator);
    if (!t->b.rc)
        t->b.rc = store_add(t->b.st, TABLE_mem, c, NULL);
}

/* Inputs of a label, "a, ^b, c:1", as names of nodes. */
static void inputs_each(struct tf *t, const struct label *l, uint32_t span, uint32_t op)
{
    const char *p = l->inputs, *end = p ? p + l->inputs_len : NULL;
    int64_t slot = 0;

    while (p && p < end && !t->b.rc) {
        const char *stop = memchr(p, ',', (size_t)(end - p));
        const char *name = p, *name_end = stop ? stop : end, *colon;
        bool control;

        while (name < name_end && *name == ' ')
            name++;
        control = name < name_end && *name == '^';
        name += control;
        colon = memchr(name, ':', (size_t)(name_end - name));
        if (name < name_end) {
            str_id id = build_str(&t->b, name, (size_t)((colon ? colon : name_end) - name));

            if (op != OPM_NULL_ID && !control)
                build_tensor(&t->b, &(struct tensor_row){
                                        .op = op,
                                        .io = "input",
                                        .slot = slot++,
                                        .name = build_str(&t->b, name, (size_t)(name_end - name)),
                                        .bytes = OPM_NULL_I64 });
            if (span != OPM_NULL_ID) {
                if (!GROW(t->use, t->use_cap, t->nuse + 1))
                    t->b.rc = OPM_ENOMEM;
                else
                    t->use[t->nuse++] = (struct tf_use){ span, id };
            }
        }
        p = stop ? stop + 1 : end;
    }
}

static str_id type_of(struct tf *t, const struct node *n, const struct label *l)
{
    const uint64_t *known;

    if (l->type_len)
        return build_str(&t->b, l->type, l->type_len);
    known = u64map_get(&t->node_type, n->name);
    if (known)
        return (str_id)*known;
    /* "MEMCPYHtoD 1024 bytes" */
    for (size_t i = 0; i < n->label_len; i++)
        if (n->label[i] == ' ')
            return build_str(&t->b, n->label, i);
    return n->label_len ? build_str(&t->b, n->label, n->label_len) : 0;
}

static uint32_t op_of(struct tf *t, const struct node *n, const struct label *l)
{
    uint64_t key = (uint64_t)n->name << 32 | t->dev.name;
    const uint64_t *at = u64map_get(&t->op, key);
    struct op_row row = OP_ROW_INIT;
    struct rd r = rd_of(n->body.p, n->body.len);
    struct pb_field g;
    uint32_t op;

    if (at || t->b.rc)
        return at ? (uint32_t)*at : OPM_NULL_ID;
    row.name = n->name;
    row.type = type_of(t, n, l);
    row.device = t->dev.short_name;
    row.engine = build_cstr(&t->b, "TensorFlow");
    op = build_op(&t->b, &row);
    if (!t->b.rc && u64map_put(&t->op, key, op))
        t->b.rc = OPM_ENOMEM;
    inputs_each(t, l, OPM_NULL_ID, op);
    while (pb_next(&r, &g) && !t->b.rc)
        if (g.number == 7 && g.wire == PB_LEN)
            output_read(t, &g, op);
    return op;
}

static void member(struct json_writer *w, const char *key, int64_t v)
{
    json_key(w, key);
    json_i64(w, v);
}

/* What no column holds. Adds rows of mem on the way. */
static str_id node_args(struct tf *t, const struct node *n, const struct label *l, uint32_t op)
{
    struct buf text = { 0 };
    struct json_writer w = { .buf = &text };
    struct rd r = rd_of(n->body.p, n->body.len);
    struct pb_field g;
    bool any = false;
    str_id id;

    json_object(&w);
    if (n->op_end_rel_ns) {
        member(&w, "op_start_rel_ns", n->op_start_rel_ns);
        member(&w, "op_end_rel_ns", n->op_end_rel_ns);
    }
    if (n->scheduled_ns)
        member(&w, "waited_ns", time_diff(n->start_ns, n->scheduled_ns));
    if (n->label_len) {
        json_key(&w, "label");
        json_str(&w, n->label, n->label_len);
    }
    if (l->kernel_len) {
        json_key(&w, "kernel");
        json_str(&w, l->kernel, l->kernel_len);
    }
    while (pb_next(&r, &g) && !t->b.rc) {
        struct memory m;

        if (g.number != 6 || g.wire != PB_LEN)
            continue;
        if (!any) {
            json_key(&w, "memory");
            json_array(&w);
        }
        any = true;
        memory_read(t, &g, &m);
        json_object(&w);
        json_key(&w, "allocator");
        json_cstr(&w, m.allocator ? store_text(t->b.st, m.allocator) : NULL);
        member(&w, "total_bytes", m.total);
        if (m.peak != OPM_NULL_I64)
            member(&w, "peak_bytes", m.peak);
        if (m.live != OPM_NULL_I64)
            member(&w, "live_bytes", m.live);
        json_object_end(&w);
        if (m.total)
            memory_row(t, &m, n->name, op);
    }
    if (any)
        json_array_end(&w);
    json_object_end(&w);
    build_check(&t->b, &text);
    id = text.len > 2 ? build_buf(&t->b, &text) : 0;
    buf_release(&text);
    return id;
}

void tf_node(struct tf *t, const struct pb_field *f)
{
    struct span_row row = SPAN_ROW_INIT;
    struct label l;
    struct node n;
    uint32_t op, span;
    int64_t end;

    if (!node_read(t, f, &n)) {
        store_stat(t->b.st, STAT_packet_damaged, 1);
        return;
    }
    if (t->b.rc)
        return;
    if (!t->has_base) {
        t->has_base = true;
        t->base_ns = n.start_ns;
        t->first_ns = 0;
        t->last_ns = 0;
    }
    l = label_parse(n.label ? n.label : "", n.label_len);
    op = op_of(t, &n, &l);
    row.ts_ns = time_diff(n.start_ns, t->base_ns);
    row.dur_ns = n.end_rel_ns < 0 ? -2 : n.end_rel_ns;
    row.track = track_of(t, n.thread);
    row.args = node_args(t, &n, &l, op);
    row.site =
        build_site(&t->b, n.name, type_of(t, &n, &l), t->dev.stream ? "hardware" : "framework", op);
    span = build_span(&t->b, &row);
    if (t->b.rc)
        return;
    if (!__builtin_add_overflow(row.ts_ns, MAX(row.dur_ns, 0), &end))
        t->last_ns = MAX(t->last_ns, end);
    t->first_ns = MIN(t->first_ns, row.ts_ns);
    if (!t->dev.stream) {
        inputs_each(t, &l, span, OPM_NULL_ID);
        if (!t->b.rc && u64map_put(&t->node_span, n.name, span))
            t->b.rc = OPM_ENOMEM;
    }
}
