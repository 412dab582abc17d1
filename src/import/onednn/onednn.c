/* onednn.c -- the verbose log of oneDNN, all its former names and layouts, out of whatever text it
 * is mixed with.
 *
 *   mkldnn_verbose,exec,PRIMITIVE,...              until 0.21
 *   mkldnn_verbose,exec,ENGINE,PRIMITIVE,...       1.0
 *   dnnl_verbose,[TIME,]exec,ENGINE,...            1.1 to 2.4
 *   onednn_verbose,[TIME,]exec,...                 2.5 to 3.2
 *   onednn_verbose,[TIME,]primitive,exec,...       3.3 to 3.5
 *   onednn_verbose,VERSION,[TIME,]primitive,...    since 3.6
 *
 * The fields are named by a template line if there is one. Without times, what the log holds is
 * laid end to end in its order; that is said. */
#include "import/onednn/onednn_int.h"

#include "base/json_write.h"
#include "base/u64map.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define FIELDS_MAX 64
#define LINE_MAX_BYTES 65536
#define PROGRESS_BYTES ((size_t)1 << 20)

enum field {
    F_SKIP,
    F_TIMESTAMP,
    F_OPERATION,
    F_ENGINE,
    F_PRIMITIVE,
    F_IMPLEMENTATION,
    F_PROP_KIND,
    F_DESCRIPTORS,
    F_ATTRIBUTES,
    F_AUXILIARY,
    F_PROBLEM,
    F_TIME,
};

struct layout {
    enum field field[FIELDS_MAX];
    size_t n;
};

static const struct layout layout_v0 = { { F_OPERATION, F_PRIMITIVE, F_IMPLEMENTATION, F_PROP_KIND,
                                           F_DESCRIPTORS, F_AUXILIARY, F_PROBLEM, F_TIME },
                                         8 };
static const struct layout layout_v1 = { { F_OPERATION, F_ENGINE, F_PRIMITIVE, F_IMPLEMENTATION,
                                           F_PROP_KIND, F_DESCRIPTORS, F_AUXILIARY, F_PROBLEM,
                                           F_TIME },
                                         9 };
static const struct layout layout_v2 = { { F_OPERATION, F_ENGINE, F_PRIMITIVE, F_IMPLEMENTATION,
                                           F_PROP_KIND, F_DESCRIPTORS, F_ATTRIBUTES, F_AUXILIARY,
                                           F_PROBLEM, F_TIME },
                                         10 };
/* operation, engine, partition id and kind, names of operators, formats, logical tensors, fpmath
 * mode, backend, time */
static const struct layout layout_graph = { { F_OPERATION, F_ENGINE, F_SKIP, F_PRIMITIVE, F_PROBLEM,
                                              F_DESCRIPTORS, F_ATTRIBUTES, F_AUXILIARY,
                                              F_IMPLEMENTATION, F_TIME },
                                            10 };

static const char *const prefixes[] = { "onednn", "mkldnn", "dnnl" };

struct reader {
    struct build b;
    struct layout told[2]; /* by a template line: of primitives, of graphs */
    struct u64map track;   /* engine, interned -> row */
    struct u64map op;      /* what identifies an operator, interned -> row */
    bool has_base;
    int64_t base_ns; /* taken off every time */
    int64_t end_ns;  /* of what came before */
    int64_t untimed;
    struct buf key;
};

/* The first prefix in a text, such as "dnnl_verbose,"; its end in *end. NULL if there is none. */
static const char *find_prefix(const char *p, size_t len, const char **end)
{
    static const char common[] = "_verbose,";
    const char *from = p, *stop = p + len;

    for (;;) {
        const char *at = memmem(from, (size_t)(stop - from), common, strlen(common));

        if (!at)
            return NULL;
        from = at + strlen(common);
        for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
            size_t n = strlen(prefixes[i]);

            if ((size_t)(at - p) >= n && memcmp(at - n, prefixes[i], n) == 0) {
                *end = from;
                return at - n;
            }
        }
    }
}

bool onednn_sniff(const uint8_t *head, size_t len)
{
    const char *end;
    size_t i = 0;

    while (i < len && isspace(head[i]))
        i++;
    if (i < len && (head[i] == '{' || head[i] == '['))
        return false; /* JSON that quotes a log */
    return memchr(head, 0, len) == NULL && find_prefix((const char *)head, len, &end) != NULL;
}

/* Commas part fields, unless they stand in brackets or quotes. */
static size_t split(const char *p, size_t len, struct piece *out)
{
    size_t n = 0, start = 0;
    int depth = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && (p[i] == '[' || p[i] == '{'))
            depth++;
        else if (i < len && (p[i] == ']' || p[i] == '}') && depth)
            depth--;
        if (i < len && (p[i] != ',' || depth))
            continue;
        if (n < FIELDS_MAX)
            out[n++] = (struct piece){ p + start, i - start };
        start = i + 1;
    }
    return n;
}

static bool is_time(struct piece f)
{
    int64_t ns;

    return f.len > 9 && isdigit((unsigned char)f.p[0]) && decimal_scaled(f.p, f.len, 6, &ns);
}

static bool is_version(struct piece f)
{
    return f.len >= 2 && f.len <= 4 && f.p[0] == 'v' && isdigit((unsigned char)f.p[1]);
}

/* "template:operation,engine,..." */
static void template_read(struct reader *r, const struct piece *f, size_t n, bool graph)
{
    static const struct {
        const char *name;
        enum field primitive, graph;
    } names[] = {
        { "timestamp", F_TIMESTAMP, F_TIMESTAMP },
        { "operation", F_OPERATION, F_OPERATION },
        { "engine", F_ENGINE, F_ENGINE },
        { "primitive", F_PRIMITIVE, F_PRIMITIVE },
        { "implementation", F_IMPLEMENTATION, F_IMPLEMENTATION },
        { "prop_kind", F_PROP_KIND, F_PROP_KIND },
        { "memory_descriptors", F_DESCRIPTORS, F_DESCRIPTORS },
        { "attributes", F_ATTRIBUTES, F_ATTRIBUTES },
        { "auxiliary", F_AUXILIARY, F_AUXILIARY },
        { "problem_desc", F_PROBLEM, F_PROBLEM },
        { "exec_time", F_TIME, F_TIME },
        { "partition_kind", F_SKIP, F_PRIMITIVE },
        { "op_names", F_SKIP, F_PROBLEM },
        { "data_formats", F_SKIP, F_DESCRIPTORS },
        { "logical_tensors", F_SKIP, F_ATTRIBUTES },
        { "fpmath_mode", F_SKIP, F_AUXILIARY },
        { "backend", F_SKIP, F_IMPLEMENTATION },
    };
    struct layout *l = &r->told[graph];

    l->n = 0;
    for (size_t i = 0; i < n; i++) {
        const char *colon = i == 0 ? memchr(f[i].p, ':', f[i].len) : NULL;
        struct piece name = f[i];
        enum field field = F_SKIP;

        if (colon) {
            name.len -= (size_t)(colon + 1 - name.p);
            name.p = colon + 1;
        }
        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            if (piece_is(name, names[k].name))
                field = graph ? names[k].graph : names[k].primitive;
        if (field != F_TIMESTAMP)
            l->field[l->n++] = field;
    }
}

static void fact(struct reader *r, const char *key, struct piece v)
{
    struct buf text = { 0 };

    buf_add(&text, v.p, v.len);
    if (text.failed && !r->b.rc)
        r->b.rc = OPM_ENOMEM;
    build_meta(&r->b, key, buf_str(&text));
    buf_release(&text);
}

/* "info,oneDNN v3.2.0 (commit ...)", "info,cpu,runtime:OpenMP,nthr:128", "info,cpu,isa:..." */
static void info_read(struct reader *r, const struct piece *f, size_t n)
{
    static const struct {
        const char *begins, *key;
        bool on_cpu;
    } facts[] = {
        { "oneDNN v", "source.version", false },
        { "DNNL v", "source.version", false },
        { "Intel(R) MKL-DNN v", "source.version", false },
        { "Intel MKL-DNN v", "source.version", false },
        { "runtime:", "onednn.runtime", true },
        { "isa:", "machine.isa", true },
        { "nthr:", "onednn.threads", true },
    };
    bool cpu = n > 1 && piece_is(f[0], "cpu");

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < ARRAY_SIZE(facts); k++) {
            struct piece v = f[i];
            size_t skip = strlen(facts[k].begins);

            if (!piece_begins(v, facts[k].begins) || (facts[k].on_cpu && !cpu))
                continue;
            if (facts[k].on_cpu) {
                v.p += skip;
                v.len -= skip;
            }
            fact(r, facts[k].key, v);
        }
    }
}

/* The layout of a line whose operation is the first of n fields; NULL: none fits. */
static const struct layout *choose_layout(const struct reader *r, size_t n, bool graph,
                                          bool has_engine)
{
    const struct layout *told = &r->told[graph];

    if (told->n && n >= told->n)
        return told;
    if (graph)
        return n >= layout_graph.n ? &layout_graph : NULL;
    if (n >= layout_v2.n)
        return &layout_v2;
    return n == layout_v1.n && has_engine ? &layout_v1
           : n == layout_v0.n             ? &layout_v0
           : n == layout_v1.n             ? &layout_v1
                                          : NULL;
}

/* The fields of a line by their meaning. Surplus ones are commas inside the attributes. False: the
 * line is not complete. */
static bool line_fields(const struct reader *r, const struct piece *f, size_t n, bool graph,
                        struct dnn_line *out)
{
    bool has_engine = n > 1 && (piece_begins(f[1], "cpu") || piece_begins(f[1], "gpu") ||
                                piece_begins(f[1], "any"));
    const struct layout *l = choose_layout(r, n, graph, has_engine);
    size_t extra, at = 0;

    if (!l)
        return false;
    extra = n - l->n;
    out->graph = graph;
    for (size_t i = 0; i < l->n; i++) {
        struct piece v = f[at++];

        switch (l->field[i]) {
        case F_OPERATION:
            out->operation = v;
            break;
        case F_ENGINE:
            out->engine = v;
            break;
        case F_PRIMITIVE:
            out->primitive = v;
            break;
        case F_IMPLEMENTATION:
            out->implementation = v;
            break;
        case F_PROP_KIND:
            out->prop_kind = v;
            break;
        case F_DESCRIPTORS:
            out->descriptors = v;
            break;
        case F_ATTRIBUTES:
            v.len = (size_t)(f[at - 1 + extra].p + f[at - 1 + extra].len - v.p);
            at += extra;
            extra = 0; /* a template might name them twice */
            out->attributes = v;
            break;
        case F_AUXILIARY:
            out->auxiliary = v;
            break;
        case F_PROBLEM:
            out->problem = v;
            break;
        case F_TIME:
            if (!decimal_scaled(f[n - 1].p, f[n - 1].len, 6, &out->dur_ns))
                return false;
            break;
        default:
            break;
        }
    }
    return out->primitive.len && out->dur_ns >= 0;
}

static uint32_t track_of(struct reader *r, struct piece engine)
{
    struct track_row row = TRACK_ROW_INIT;
    str_id id = engine.len ? build_str(&r->b, engine.p, engine.len) : build_cstr(&r->b, "cpu");
    const uint64_t *at = u64map_get(&r->track, id);
    uint32_t track;

    if (at)
        return (uint32_t)*at;
    row.kind = piece_begins(engine, "gpu") ? "stream" : "thread";
    row.name = build_fmt(&r->b, "oneDNN %s", r->b.rc ? "" : store_text(r->b.st, id));
    row.device = id;
    track = build_track(&r->b, &row);
    if (!r->b.rc && u64map_put(&r->track, id, track))
        r->b.rc = OPM_ENOMEM;
    return track;
}

static void add_piece(struct buf *b, struct piece p)
{
    buf_add(b, p.p, p.len);
    buf_addc(b, '\n');
}

/* What is executed, once per combination of everything that describes it. */
static uint32_t op_of(struct reader *r, const struct dnn_line *l)
{
    const struct piece parts[] = { l->engine,      l->primitive,  l->implementation, l->prop_kind,
                                   l->descriptors, l->attributes, l->auxiliary,      l->problem };
    const uint64_t *at;
    uint32_t op;
    str_id id;

    buf_clear(&r->key);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        add_piece(&r->key, parts[i]);
    id = build_buf(&r->b, &r->key);
    at = u64map_get(&r->op, id);
    if (at || r->b.rc)
        return at ? (uint32_t)*at : OPM_NULL_ID;
    op = dnn_op(&r->b, l);
    if (!r->b.rc && u64map_put(&r->op, id, op))
        r->b.rc = OPM_ENOMEM;
    return op;
}

static void span_place(struct reader *r, const struct dnn_line *l, struct span_row *row)
{
    if (l->has_ts && !r->has_base) {
        r->has_base = true;
        r->base_ns = l->ts_ns;
        import_set_realtime(r->b.src, l->ts_ns);
    }
    row->ts_ns = l->has_ts ? time_diff(l->ts_ns, r->base_ns) : r->end_ns;
    row->dur_ns = l->dur_ns;
    r->untimed += !l->has_ts;
    if (__builtin_add_overflow(row->ts_ns, l->dur_ns, &r->end_ns))
        r->end_ns = row->ts_ns;
}

static void line_take(struct reader *r, const struct dnn_line *l)
{
    bool exec = piece_is(l->operation, "exec") || piece_is(l->operation, "profile_exec");
    struct span_row row = SPAN_ROW_INIT;
    struct buf args = { 0 };
    str_id name;

    row.track = track_of(r, l->engine);
    span_place(r, l, &row);
    if (exec) {
        uint32_t op = op_of(r, l);

        name = op == OPM_NULL_ID ? 0 : store_cell(r->b.st, TABLE_op, op, op_col_name).str;
        row.site = build_site(&r->b, name, build_cstr(&r->b, l->graph ? "graph" : "primitive"),
                              "runtime", op);
    } else {
        /* The making of a primitive: not an execution of the operator. */
        struct json_writer w = { .buf = &args };

        json_object(&w);
        json_key(&w, "operation");
        json_str(&w, l->operation.p, l->operation.len);
        json_key(&w, "implementation");
        json_str(&w, l->implementation.p, l->implementation.len);
        json_key(&w, "problem");
        json_str(&w, l->problem.p, l->problem.len);
        json_object_end(&w);
        row.args = build_buf(&r->b, &args);
        name = build_fmt(&r->b, "create %.*s", (int)MIN(l->primitive.len, (size_t)200),
                         l->primitive.p);
        row.site = build_site(&r->b, name, build_cstr(&r->b, "create"), "runtime", OPM_NULL_ID);
    }
    build_span(&r->b, &row);
    buf_release(&args);
}

/* A line from behind the prefix on. */
static void line_read(struct reader *r, const char *p, size_t len)
{
    struct piece f[FIELDS_MAX];
    size_t n = split(p, MIN(len, (size_t)LINE_MAX_BYTES), f), i = 0;
    struct dnn_line l = { 0 };
    bool graph = false;

    if (i < n && is_version(f[i]))
        i++;
    if (i < n && is_time(f[i])) {
        l.has_ts = decimal_scaled(f[i].p, f[i].len, 6, &l.ts_ns);
        i++;
    }
    if (i < n && (piece_is(f[i], "primitive") || piece_is(f[i], "graph") ||
                  piece_is(f[i], "common") || piece_is(f[i], "ukernel")))
        graph = piece_is(f[i++], "graph");
    if (i < n && piece_is(f[i], "info")) {
        i++;
        if (i < n && (piece_begins(f[i], "template:") || piece_begins(f[i], "prim_template:") ||
                      piece_begins(f[i], "graph_template:")))
            template_read(r, f + i, n - i, graph || piece_begins(f[i], "graph_"));
        else
            info_read(r, f + i, n - i);
        return;
    }
    if (i < n && (piece_begins(f[i], "create:check") || piece_begins(f[i], "create:dispatch") ||
                  piece_begins(f[i], "create:start") || piece_begins(f[i], "exec:check") ||
                  piece_begins(f[i], "warn") || piece_begins(f[i], "error"))) {
        store_stat(r->b.st, STAT_message_skipped, 1);
        return;
    }
    if (i < n && line_fields(r, f + i, n - i, graph, &l))
        line_take(r, &l);
    else
        store_stat(r->b.st, STAT_line_damaged, 1);
}

int onednn_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct reader r = { .b = { .st = st, .src = src } };
    const char *text = (const char *)src->data, *end = text + src->len, *p = text, *body;
    size_t next = 0;

    while (p < end && !r.b.rc) {
        const char *at = find_prefix(p, (size_t)(end - p), &body);
        const char *line_end;

        if (!at)
            break;
        line_end = memchr(body, '\n', (size_t)(end - body));
        line_end = line_end ? line_end : end;
        p = line_end;
        while (line_end > body && isspace((unsigned char)line_end[-1]))
            line_end--;
        line_read(&r, body, (size_t)(line_end - body));
        if ((size_t)(p - text) > next) {
            next = (size_t)(p - text) + PROGRESS_BYTES;
            build_tick(&r.b, (uint64_t)(p - text), src->len);
        }
    }
    build_meta(&r.b, "source.format", "onednn");
    build_meta(&r.b, "source.producer", "oneDNN");
    if (r.untimed)
        build_meta(&r.b, "clock.note",
                   "the log has no times of day: its lines are laid end to end in their order");
    store_stat(st, STAT_time_made_up, r.untimed);
    store_stat(st, STAT_file_truncated, src->cut);
    u64map_release(&r.track);
    u64map_release(&r.op);
    buf_release(&r.key);
    return build_end(&r.b, err);
}
