/* export_rig.h -- stores made by hand, and readers that check what the exporters made of them. */
#ifndef EXPORT_RIG_H
#define EXPORT_RIG_H

#include "base/io.h"
#include "base/json_write.h"
#include "base/pb.h"
#include "base/u64map.h"
#include "export/export.h"
#include "export/writer.h"
#include "unit.h"

static inline str_id text(struct store *st, const char *s)
{
    str_id id;

    assert_int_equal(store_cstr(st, s, &id), 0);
    return id;
}

static inline struct store *store_begin(void)
{
    struct store *st = NULL;

    assert_int_equal(store_new(&st), 0);
    return st;
}

static inline uint32_t add_track(struct store *st, const char *kind, const char *name, int64_t pid,
                                 int64_t tid)
{
    struct cell cells[track_col_COUNT] = { 0 };
    uint32_t row;

    cells[track_col_kind] = cell_str(text(st, kind));
    cells[track_col_name] = cell_str(text(st, name));
    cells[track_col_pid] = cell_i64(pid);
    cells[track_col_tid] = cell_i64(tid);
    assert_int_equal(store_add(st, TABLE_track, cells, &row), 0);
    return row;
}

static inline uint32_t add_site(struct store *st, const char *name, const char *cat, uint32_t op)
{
    struct site site = { .name = text(st, name), .cat = text(st, cat), .op = op };
    uint32_t row;

    assert_int_equal(store_site(st, &site, &row), 0);
    return row;
}

static inline uint32_t add_span(struct store *st, uint32_t track, int64_t ts, int64_t dur,
                                const char *name, const char *args)
{
    struct span_row row = SPAN_ROW_INIT;
    uint32_t id;

    row.ts_ns = ts;
    row.dur_ns = dur;
    row.track = track;
    row.site = add_site(st, name, "test", OPM_NULL_ID);
    row.args = text(st, args);
    assert_int_equal(store_add_span(st, &row, &id), 0);
    return id;
}

static inline void add_flow(struct store *st, uint32_t src, uint32_t dst, const char *kind)
{
    struct cell cells[flow_col_COUNT] = { cell_id(src), cell_id(dst), cell_str(text(st, kind)) };

    assert_int_equal(store_add(st, TABLE_flow, cells, NULL), 0);
}

static inline void add_sample(struct store *st, uint32_t track, int64_t ts, double value)
{
    struct cell cells[sample_col_COUNT] = { cell_i64(ts), cell_id(track), cell_f64(value) };

    assert_int_equal(store_add(st, TABLE_sample, cells, NULL), 0);
}

static inline struct buf slurp(const char *path)
{
    struct io_map m = { 0 };
    struct buf b = { 0 };

    assert_int_equal(io_map(&m, path, 0, NULL), 0);
    buf_add(&b, m.data, m.len);
    io_map_release(&m);
    assert_false(b.failed);
    return b;
}

/* What an event of a Chrome file says in its first members. */
struct event {
    char ph;
    int pid;
    int tid;
    int64_t ts;
    int64_t dur; /* -1: none */
};

static inline int64_t read_us(const char *s, const char **end)
{
    int64_t v = 0;
    const char *dot;

    while (*s >= '0' && *s <= '9')
        v = v * 10 + (*s++ - '0');
    dot = s;
    assert_int_equal(*s++, '.');
    while (*s >= '0' && *s <= '9')
        v = v * 10 + (*s++ - '0');
    assert_int_equal(s - dot, 4); /* three decimals */
    *end = s;
    return v;
}

/* The event on a line, or false if the line is none that has a thread and a time. */
static inline bool read_event(const char *line, struct event *e)
{
    int n = 0;

    *e = (struct event){ .dur = -1 };
    if (sscanf(line, "{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":%n", &e->ph, &e->pid, &e->tid,
               &n) != 3 ||
        !n)
        return false;
    e->ts = read_us(line + n, &line);
    if (strncmp(line, ",\"dur\":", 7) == 0)
        e->dur = read_us(line + 7, &line);
    return true;
}

struct chrome_sum {
    size_t complete, begun, flow_starts, flow_ends, counters, metadata, lines;
};

/* Ends of the open slices of a line of a viewer. */
struct open_line {
    int pid, tid;
    int64_t end[64];
    size_t n;
};

/* Slices of a thread must nest. They come in order of time. */
static inline void check_nesting(struct open_line *open, size_t *nopen, size_t max,
                                 const struct event *e)
{
    int64_t end = e->ph == 'B' ? INT64_MAX : e->ts + e->dur;
    size_t i = 0;

    while (i < *nopen && (open[i].pid != e->pid || open[i].tid != e->tid))
        i++;
    if (i == *nopen) {
        assert_true(++*nopen <= max);
        open[i] = (struct open_line){ .pid = e->pid, .tid = e->tid };
    }
    while (open[i].n && open[i].end[open[i].n - 1] <= e->ts)
        open[i].n--;
    assert_true(!open[i].n || end <= open[i].end[open[i].n - 1]);
    assert_true(open[i].n < ARRAY_SIZE(open[i].end));
    open[i].end[open[i].n++] = end;
}

/* Export, check everything that must hold of any file, count events; the file stays in *out. */
static inline struct chrome_sum chrome(struct store *st, struct buf *out)
{
    enum { MAX_LINES = 4096 };
    const char *path = unit_path("chrome.json");
    struct open_line *open = calloc(MAX_LINES, sizeof(*open));
    struct chrome_sum sum = { 0 };
    size_t nopen = 0;
    opm_error err = { 0 };
    char *copy, *line, *save = NULL;

    assert_non_null(open);
    assert_int_equal(export_chrome(st, path, NULL, &err), 0);
    *out = slurp(path);
    assert_true(json_valid(out->data, out->len));
    assert_true(text_is_utf8(out->data, out->len));
    assert_memory_equal(out->data, "{\"displayTimeUnit\":\"ns\",\"otherData\":{", 37);
    copy = strdup(out->data);
    for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        struct event e;

        if (strncmp(line, "{\"ph\":\"M\"", 9) == 0)
            sum.metadata++;
        else if (strncmp(line, "{\"ph\":\"C\"", 9) == 0)
            sum.counters++;
        if (!read_event(line, &e))
            continue;
        sum.complete += e.ph == 'X';
        sum.begun += e.ph == 'B';
        sum.flow_starts += e.ph == 's';
        sum.flow_ends += e.ph == 'f';
        assert_int_equal(e.ph == 'X', e.dur >= 0);
        if (e.ph == 'X' || e.ph == 'B')
            check_nesting(open, &nopen, MAX_LINES, &e);
    }
    sum.lines = nopen;
    free(copy);
    free(open);
    return sum;
}

static inline size_t count(const struct buf *b, const char *what)
{
    size_t n = 0;

    for (const char *p = b->data;; p++) {
        p = strstr(p, what);
        if (!p)
            break;
        n++;
    }
    return n;
}

#define assert_has(b, s) assert_non_null(strstr((b)->data, (s)))
#define assert_has_not(b, s) assert_null(strstr((b)->data, (s)))

struct perfetto_sum {
    size_t packets, events, begins, ends, instants, counters, tracks, flow_starts, flow_ends,
        annotations;
    size_t open; /* begun, never ended */
    uint64_t first_ts;
};

struct perfetto_state {
    struct perfetto_sum sum;
    struct u64map interned[4]; /* category, name, annotation name, annotation value */
    struct u64map depth;       /* of every track that was described */
    struct u64map flows;
    uint64_t last_ts;
    bool cleared;
};

static inline void read_string(const struct pb_field *f)
{
    assert_int_equal(f->wire, PB_LEN);
    assert_true(text_is_utf8((const char *)f->p, f->len));
}

static inline void read_interned(struct perfetto_state *s, const struct pb_field *data)
{
    struct rd r = rd_of(data->p, data->len);
    struct pb_field f, g;

    while (pb_next(&r, &f)) {
        struct rd entry = rd_of(f.p, f.len);
        int kind = f.number == 29 ? 3 : (int)f.number - 1;
        uint64_t iid = 0;

        assert_true(kind >= 0 && kind < 4);
        while (pb_next(&entry, &g)) {
            if (g.number == 1)
                iid = g.value;
            else
                read_string(&g);
        }
        assert_false(entry.bad);
        assert_true(iid > 0);
        assert_null(u64map_get(&s->interned[kind], iid)); /* each is written once */
        assert_int_equal(u64map_put(&s->interned[kind], iid, 1), 0);
    }
    assert_false(r.bad);
}

static inline void read_annotation(struct perfetto_state *s, const struct pb_field *data)
{
    struct rd r = rd_of(data->p, data->len);
    struct pb_field f;

    s->sum.annotations++;
    while (pb_next(&r, &f)) {
        switch (f.number) {
        case 1:
            assert_non_null(u64map_get(&s->interned[2], f.value));
            break;
        case 17:
            assert_non_null(u64map_get(&s->interned[3], f.value));
            break;
        case 6:
        case 10:
            read_string(&f);
            break;
        case 9:
            read_string(&f);
            assert_true(json_valid((const char *)f.p, f.len));
            break;
        case 11:
        case 12:
            read_annotation(s, &f);
            break;
        default:
            assert_true(f.number == 2 || f.number == 4 || f.number == 5);
        }
    }
    assert_false(r.bad);
}

static inline void read_track_event(struct perfetto_state *s, const struct pb_field *data)
{
    struct rd r = rd_of(data->p, data->len);
    uint64_t type = 0, track = 0, *depth;
    struct pb_field f;

    while (pb_next(&r, &f)) {
        switch (f.number) {
        case 3:
            assert_non_null(u64map_get(&s->interned[0], f.value));
            break;
        case 4:
            read_annotation(s, &f);
            break;
        case 9:
            type = f.value;
            break;
        case 10:
            assert_non_null(u64map_get(&s->interned[1], f.value));
            break;
        case 11:
            track = f.value;
            break;
        case 47:
            assert_int_equal(f.wire, PB_I64);
            assert_null(u64map_get(&s->flows, f.value));
            assert_int_equal(u64map_put(&s->flows, f.value, 1), 0);
            s->sum.flow_starts++;
            break;
        case 48:
            assert_int_equal(*u64map_get(&s->flows, f.value), 1);
            *u64map_get(&s->flows, f.value) = 2;
            s->sum.flow_ends++;
            break;
        case 22:
        case 23:
            read_string(&f);
            break;
        default:
            assert_true(f.number == 30 || f.number == 44);
        }
    }
    assert_false(r.bad);
    depth = u64map_get(&s->depth, track);
    assert_non_null(depth);
    s->sum.begins += type == 1;
    s->sum.ends += type == 2;
    s->sum.instants += type == 3;
    s->sum.counters += type == 4;
    if (type == 1)
        ++*depth;
    if (type == 2) {
        assert_true(*depth > 0);
        --*depth;
    }
}

static inline void read_descriptor(struct perfetto_state *s, const struct pb_field *data)
{
    struct rd r = rd_of(data->p, data->len);
    struct pb_field f;

    s->sum.tracks++;
    while (pb_next(&r, &f)) {
        if (f.number == 1) {
            assert_null(u64map_get(&s->depth, f.value));
            assert_int_equal(u64map_put(&s->depth, f.value, 0), 0);
        } else if (f.number == 5)
            assert_non_null(u64map_get(&s->depth, f.value));
        else if (f.number == 2)
            read_string(&f);
    }
    assert_false(r.bad);
}

static inline void read_packet(struct perfetto_state *s, const struct pb_field *data)
{
    struct rd r = rd_of(data->p, data->len);
    struct pb_field f, event = { 0 };
    uint64_t flags = 0, ts = 0, sequence = 0;

    while (pb_next(&r, &f)) {
        if (f.number == 8)
            ts = f.value;
        else if (f.number == 10)
            sequence = f.value;
        else if (f.number == 11)
            event = f;
        else if (f.number == 12)
            read_interned(s, &f);
        else if (f.number == 13)
            flags = f.value;
        else if (f.number == 60)
            read_descriptor(s, &f);
    }
    assert_false(r.bad);
    assert_int_equal(sequence, 1);
    assert_int_equal(flags, s->sum.packets ? 2 : 1);
    if (event.p) {
        read_track_event(s, &event);
        assert_true(ts >= s->last_ts);
        if (!s->sum.events++)
            s->sum.first_ts = ts;
        s->last_ts = ts;
    }
    s->sum.packets++;
}

static inline struct perfetto_sum perfetto(struct store *st)
{
    const char *path = unit_path("trace.pftrace");
    struct perfetto_state s = { 0 };
    opm_error err = { 0 };
    struct pb_field f;
    struct buf file;
    struct rd r;

    assert_int_equal(export_perfetto(st, path, NULL, &err), 0);
    file = slurp(path);
    r = rd_of(file.data, file.len);
    while (pb_next(&r, &f)) {
        assert_int_equal(f.number, 1);
        read_packet(&s, &f);
    }
    assert_false(r.bad);
    for (size_t i = 0; i < s.depth.cap; i++)
        if (s.depth.used[i])
            s.sum.open += s.depth.entry[i].value;
    for (size_t i = 0; i < ARRAY_SIZE(s.interned); i++)
        u64map_release(&s.interned[i]);
    u64map_release(&s.depth);
    u64map_release(&s.flows);
    buf_release(&file);
    return s.sum;
}

static inline uint32_t add_op(struct store *st, const char *attributes)
{
    static const struct {
        const char *io, *name, *dtype, *shape;
        int64_t slot;
    } tensors[] = {
        { "output", "y", "fp32", "1x64x112x112", 0 },
        { "input", "x1", "fp32", "1x3", 1 },
        { "input", "x0", "fp32", "1x3x224x224", 0 },
        { "weight", "w", "int8", "64x3x7x7", 0 },
        { "scratch", "s", NULL, NULL, 0 },
    };
    struct cell cells[op_col_COUNT] = { 0 };
    uint32_t op;

    cells[op_col_name] = cell_str(text(st, "conv1"));
    cells[op_col_type] = cell_str(text(st, "Conv"));
    cells[op_col_post_op] = cell_str(text(st, "relu"));
    cells[op_col_flops] = cell_i64(236027904);
    cells[op_col_weight_zero_ratio] = cell_f64(0.9);
    cells[op_col_attributes] = cell_str(text(st, attributes));
    cells[op_col_nodes] = cell_str(text(st, "[\"Conv_0\",\"Relu_1\"]"));
    assert_int_equal(store_add(st, TABLE_op, cells, &op), 0);
    for (size_t i = 0; i < ARRAY_SIZE(tensors); i++) {
        struct cell t[op_tensor_col_COUNT] = { 0 };

        t[op_tensor_col_op] = cell_id(op);
        t[op_tensor_col_io] = cell_str(text(st, tensors[i].io));
        t[op_tensor_col_slot] = cell_i64(tensors[i].slot);
        t[op_tensor_col_name] = cell_str(text(st, tensors[i].name));
        t[op_tensor_col_dtype] = cell_str(text(st, tensors[i].dtype));
        t[op_tensor_col_shape] = cell_str(text(st, tensors[i].shape));
        assert_int_equal(store_add(st, TABLE_op_tensor, t, NULL), 0);
    }
    return op;
}

static inline void add_step(struct store *st, uint32_t track, int64_t num, int64_t ts, int64_t dur)
{
    struct cell cells[step_col_COUNT] = { 0 };

    cells[step_col_model] = cell_str(text(st, "resnet"));
    cells[step_col_num] = cell_i64(num);
    cells[step_col_ts] = cell_i64(ts);
    cells[step_col_dur] = cell_i64(dur);
    cells[step_col_warmup] = cell_i64(num == 0);
    cells[step_col_track] = cell_id(track);
    assert_int_equal(store_add(st, TABLE_step, cells, NULL), 0);
}

static inline void add_record(struct store *st, uint32_t track, const char *label, int64_t ts,
                              int64_t dur)
{
    struct cell cells[record_col_COUNT] = { 0 };

    cells[record_col_label] = cell_str(text(st, label));
    cells[record_col_ts] = cell_i64(ts);
    cells[record_col_dur] = cell_i64(dur);
    cells[record_col_track] = cell_id(track);
    assert_int_equal(store_add(st, TABLE_record, cells, NULL), 0);
}

/* A store with something in every table. */
static inline struct store *store_full(int nspan)
{
    struct store *st = store_begin();
    uint32_t cpu = add_track(st, "thread", "main", 5, 5), gpu, queue, prev = OPM_NULL_ID;
    struct site site = { .name = text(st, "conv1"), .layer = text(st, "framework") };
    struct span_row row = SPAN_ROW_INIT;

    gpu = add_track(st, "stream", "stream 7", OPM_NULL_I64, 7);
    queue = add_track(st, "queue", "host queue", 5, OPM_NULL_I64);
    site.op = add_op(st, "{\"kernel\":[7,7]}");
    assert_int_equal(store_site(st, &site, &row.site), 0);
    for (int i = 0; i < nspan; i++) {
        uint32_t id;

        row.ts_ns = i * 10;
        row.dur_ns = i % 7 ? 8 : 15;
        row.track = i % 3 ? cpu : gpu;
        row.args = i % 5 ? 0 : text(st, "{\"bytes\":12}");
        assert_int_equal(store_add_span(st, &row, &id), 0);
        if (prev != OPM_NULL_ID)
            add_flow(st, prev, id, "flow");
        prev = id;
        add_sample(st, queue, i * 10, i % 4);
    }
    add_span(st, cpu, nspan * 10, -1, "last", "no json");
    add_step(st, cpu, 0, 0, 100);
    add_record(st, cpu, "all", 0, 1000);
    assert_int_equal(store_meta(st, "machine", "here"), 0);
    store_stat(st, STAT_spans_lost, 3);
    assert_int_equal(store_finish(st), 0);
    return st;
}

#endif
