/* megengine_rows.c -- a MegEngine profile as rows of the store; see megengine_int.h. */
#include "import/megengine/megengine_int.h"

#include "base/alloc.h"
#include "base/json_write.h"

#include <string.h>

/* Words that the rows need; interned once. */
struct words {
    str_id input, weight, output;
    str_id framework, hardware, parallel;
    str_id stream, thread, engine, op;
    str_id host_clock;
};

static int words_init(struct store *st, struct words *w)
{
    const struct {
        const char *text;
        str_id *to;
    } all[] = { { "input", &w->input },       { "weight", &w->weight },
                { "output", &w->output },     { "framework", &w->framework },
                { "hardware", &w->hardware }, { "parallel", &w->parallel },
                { "stream", &w->stream },     { "thread", &w->thread },
                { "megengine", &w->engine },  { "op", &w->op },
                { "host", &w->host_clock } };
    int rc = 0;

    for (size_t i = 0; i < ARRAY_SIZE(all) && rc == 0; i++)
        rc = store_cstr(st, all[i].text, all[i].to);
    return rc;
}

/* Operators that hold what does not change from run to run. */
static bool holds_weights(const struct mge *m, uint32_t opr)
{
    static const char *const types[] = { "SharedDeviceTensor", "SharedDeviceTensorWithFormat",
                                         "MultipleDeviceTensorHolder",
                                         "MultipleDeviceTensorWithFormatHolder",
                                         "ImmutableTensor" };
    const char *type = opr == OPM_NULL_ID ? NULL : store_text(m->st, m->opr[opr].type);

    for (size_t i = 0; type && i < ARRAY_SIZE(types); i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

static bool is_weight(const struct mge *m, const struct mge_var *v)
{
    return v->persistent || holds_weights(m, v->owner);
}

/* The var that an element of input or output names. */
static int var_of(struct mge *m, struct mge_value id, uint32_t *out)
{
    str_id text;
    int rc = mge_text(m, id, &text);

    *out = rc == 0 ? mge_find(&m->var_by_id, text) : OPM_NULL_ID;
    return rc;
}

static int find_owners(struct mge *m)
{
    for (uint32_t i = 0; i < m->nopr; i++) {
        struct json_reader r = mge_reader(m->opr[i].output);
        struct mge_value v;
        uint32_t var;

        while (m->opr[i].output.len && mge_element(m, &r, &v)) {
            int rc = var_of(m, v, &var);

            if (rc)
                return rc;
            if (var != OPM_NULL_ID && m->var[var].owner == OPM_NULL_ID)
                m->var[var].owner = i;
        }
    }
    return 0;
}

/* "cpu0:0" of 'CompNode("cpu0:0" from "xpux:0")'. */
static int device_name(struct mge *m, str_id where, str_id *out)
{
    const char *text = store_text(m->st, where), *from, *to;

    *out = where;
    from = text ? strchr(text, '"') : NULL;
    to = from ? strchr(from + 1, '"') : NULL;
    return to ? store_str(m->st, from + 1, (size_t)(to - from - 1), out) : 0;
}

/* The parameters, the id in MegEngine's graph, and whatever else stood there. */
static int attributes(struct mge *m, const struct mge_opr *o, str_id *out)
{
    struct buf *b = &m->text;
    struct json_writer w = { .buf = b };
    size_t len = strpool_len(store_strings(m->st), o->id);
    struct json_reader r = mge_reader(o->param);

    buf_clear(b);
    buf_adds(b, "{\"opr_id\":");
    json_str(&w, store_text(m->st, o->id), len);
    if (o->param.len && *o->param.p == '{' && json_read_next(&r) == JSON_OBJECT &&
        json_read_skip(&r)) {
        const char *end = o->param.p + o->param.len - 1, *p = o->param.p + 1;

        while (p < end && (*p == ' ' || (*p >= '\t' && *p <= '\r')))
            p++;
        if (p < end) {
            buf_adds(b, ",");
            buf_add(b, p, (size_t)(end - p));
        }
    }
    if (o->internal.len) {
        r = mge_reader(o->internal);
        if (json_read_next(&r) != JSON_BAD && json_read_skip(&r)) {
            buf_adds(b, ",\"internal_pf\":");
            buf_add(b, o->internal.p, o->internal.len);
        }
    }
    if (o->rest.len)
        buf_addf(b, ",%s", buf_str(&o->rest));
    buf_adds(b, "}");
    if (b->failed || o->rest.failed)
        return OPM_ENOMEM;
    return store_str(m->st, buf_str(b), b->len, out);
}

static int add_tensor(struct mge *m, uint32_t op, str_id io, int64_t slot, const struct mge_var *v,
                      struct mge_value footprint_shape)
{
    struct cell c[op_tensor_col_COUNT] = { 0 };
    int64_t elements;
    str_id shape;
    int rc = mge_shape(m, footprint_shape, &shape, &elements);

    if (rc)
        return rc;
    if (!shape && v)
        shape = v->shape; /* the footprint is of the very run */
    c[op_tensor_col_op] = cell_id(op);
    c[op_tensor_col_io] = cell_str(io);
    c[op_tensor_col_slot] = cell_i64(slot);
    c[op_tensor_col_shape] = cell_str(shape);
    if (v) {
        c[op_tensor_col_name] = cell_str(v->name);
        c[op_tensor_col_dtype] = cell_str(v->dtype);
        if (shape == v->shape)
            c[op_tensor_col_bytes] = cell_i64(v->bytes);
    }
    return store_add(m->st, TABLE_op_tensor, c, NULL);
}

/* The tensors of one side: vars of the graph, shapes of the footprint, either of which may lack. */
static int add_tensors(struct mge *m, const struct words *w, const struct mge_opr *o, bool output)
{
    struct mge_value vars = output ? o->output : o->input;
    struct mge_value shapes = output ? o->out_shapes : o->in_shapes;
    struct json_reader rv = mge_reader(vars), rs = mge_reader(shapes);
    int64_t slot[2] = { 0, 0 };
    int rc = 0;

    for (;;) {
        struct mge_value v = { 0 }, s = { 0 };
        bool has_var = vars.len && mge_element(m, &rv, &v);
        bool has_shape = shapes.len && mge_element(m, &rs, &s), weight;
        uint32_t var = OPM_NULL_ID;

        vars.len = has_var ? vars.len : 0;
        shapes.len = has_shape ? shapes.len : 0;
        if (rc || (!has_var && !has_shape))
            return rc;
        if (has_var)
            rc = var_of(m, v, &var);
        weight = !output && var != OPM_NULL_ID && is_weight(m, &m->var[var]);
        if (rc == 0)
            rc = add_tensor(m, o->op,
                            output   ? w->output
                            : weight ? w->weight
                                     : w->input,
                            slot[weight]++, var == OPM_NULL_ID ? NULL : &m->var[var], s);
    }
}

/* Shape of the first weight. */
static int weight_shape(struct mge *m, const struct mge_opr *o, str_id *out)
{
    struct json_reader r = mge_reader(o->input);
    struct mge_value v;
    uint32_t var;
    int rc = 0;

    *out = 0;
    while (rc == 0 && !*out && o->input.len && mge_element(m, &r, &v)) {
        rc = var_of(m, v, &var);
        if (rc == 0 && var != OPM_NULL_ID && is_weight(m, &m->var[var]))
            *out = m->var[var].shape;
    }
    return rc;
}

static int add_ops(struct mge *m, const struct words *w)
{
    str_id *device = mem_calloc(m->nopr + 1, sizeof(*device));
    int rc = device ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < m->ntime && rc == 0; i++)
        if (!m->time[i].host && m->time[i].longest)
            rc = device_name(m, m->time[i].where, &device[m->time[i].opr]);
    for (size_t i = 0; i < m->norder && rc == 0; i++) {
        struct mge_opr *o = &m->opr[m->order[i]];
        struct cell c[op_col_COUNT] = { 0 };
        str_id attr = 0, shape = 0;

        rc = attributes(m, o, &attr);
        if (rc == 0)
            rc = weight_shape(m, o, &shape);
        c[op_col_name] = cell_str(o->name);
        c[op_col_type] = cell_str(o->type);
        c[op_col_device] = cell_str(device[m->order[i]]);
        c[op_col_engine] = cell_str(w->engine);
        c[op_col_flops] = cell_i64(o->computation);
        c[op_col_bytes] = cell_i64(o->memory);
        c[op_col_weight_shape] = cell_str(shape);
        c[op_col_attributes] = cell_str(attr);
        if (rc == 0)
            rc = store_add(m->st, TABLE_op, c, &o->op);
        if (rc == 0)
            rc = add_tensors(m, w, o, false);
        if (rc == 0)
            rc = add_tensors(m, w, o, true);
    }
    mem_free(device);
    return rc;
}

/* Whether operators were measured on the device. */
static bool on_device(const struct mge *m)
{
    for (size_t i = 0; i < m->ntime; i++)
        if (!m->time[i].host)
            return true;
    return false;
}

/* Host and device count from origins that have nothing to do with each other: where there are both,
 * the host's tracks have a clock of their own, so that nothing on them is taken for a part of what
 * the device did at that time. */
static int track_of(struct mge *m, const struct words *w, struct u64map *tracks,
                    const struct mge_time *t, uint32_t *out)
{
    uint64_t key = (uint64_t)t->where << 1 | t->host;
    const uint64_t *known = u64map_get(tracks, key);
    struct cell c[track_col_COUNT] = { 0 };
    const char *text = store_text(m->st, t->where);
    str_id name = t->where, device = 0;
    int rc = 0;

    if (known) {
        *out = (uint32_t)*known;
        return 0;
    }
    if (t->host && (!text || !*text || strcmp(text, "@") == 0))
        rc = store_cstr(m->st, "host", &name); /* builds without thread names have "@" or "" */
    if (rc == 0 && !t->host)
        rc = device_name(m, t->where, &device);
    c[track_col_kind] = cell_str(t->host ? w->thread : w->stream);
    c[track_col_name] = cell_str(name);
    c[track_col_device] = cell_str(device);
    if (t->host && m->device_timed)
        c[track_col_clock] = cell_str(w->host_clock);
    c[track_col_instance] = m->src->count > 1 ? cell_i64(m->src->index) : cell_null();
    if (rc == 0)
        rc = store_add(m->st, TABLE_track, c, out);
    return rc ? rc : u64map_put(tracks, key, *out);
}

/* What of the operator's vars no column holds: flags, pointers, inferred values. */
static int var_args(struct mge *m, const struct mge_opr *o, str_id *out)
{
    struct json_reader r = mge_reader(o->output);
    struct buf b = { 0 };
    struct mge_value v;
    int rc = 0;

    *out = 0;
    while (rc == 0 && o->output.len && mge_element(m, &r, &v)) {
        struct json_reader check;
        uint32_t var;

        rc = var_of(m, v, &var);
        if (rc || var == OPM_NULL_ID)
            continue;
        if (!echo_allows(&m->echo, m->src->len, m->var[var].whole.len)) {
            store_stat(m->st, STAT_text_not_repeated, 1);
            continue;
        }
        check = mge_reader(m->var[var].whole);
        if (json_read_next(&check) == JSON_BAD || !json_read_skip(&check))
            continue;
        buf_adds(&b, b.len ? "," : "{\"output\":[");
        buf_add(&b, m->var[var].whole.p, m->var[var].whole.len);
    }
    if (rc == 0 && (b.len || b.failed)) {
        buf_adds(&b, "]}");
        rc = b.failed ? OPM_ENOMEM : store_str(m->st, buf_str(&b), b.len, out);
    }
    buf_release(&b);
    return rc;
}

static int add_spans(struct mge *m, const struct words *w)
{
    uint8_t *told = mem_calloc(m->nopr + 1, 1);
    struct u64map tracks = { 0 };
    int rc = told ? 0 : OPM_ENOMEM;

    m->device_timed = on_device(m);
    for (size_t i = 0; i < m->ntime && rc == 0; i++) {
        const struct mge_time *t = &m->time[i];
        const struct mge_opr *o = &m->opr[t->opr];
        struct span_row row = SPAN_ROW_INIT;
        struct site site = { .name = o->name,
                             .cat = w->op,
                             .layer = t->host ? w->framework : w->hardware,
                             .phase = t->longest ? 0 : w->parallel,
                             .op = o->op };
        uint32_t id;

        row.ts_ns = t->start_ns;
        row.dur_ns = MAX(t->end_ns - t->start_ns, 0);
        store_stat(m->st, STAT_negative_duration, t->end_ns < t->start_ns);
        rc = track_of(m, w, &tracks, t, &row.track);
        if (t->host != m->device_timed && m->step_track == OPM_NULL_ID)
            m->step_track = row.track;
        if (rc == 0)
            rc = store_site(m->st, &site, &row.site);
        if (rc == 0 && !told[t->opr]) {
            told[t->opr] = 1;
            rc = var_args(m, o, &row.args);
        }
        if (rc == 0)
            rc = store_add_span(m->st, &row, &id);
        if (rc == 0 && t->wait_ns != OPM_NULL_I64)
            rc = store_span_set_wait(m->st, id, t->wait_ns);
    }
    u64map_release(&tracks);
    mem_free(told);
    return rc;
}

/* The file keeps the last run only: that is one step, on the device if it was measured there. */
static int add_step(struct mge *m)
{
    struct cell c[step_col_COUNT] = { 0 };
    int64_t first = INT64_MAX, last = INT64_MIN;
    str_id model;
    int rc;

    for (size_t i = 0; i < m->ntime; i++) {
        if (m->time[i].host == m->device_timed)
            continue;
        first = MIN(first, m->time[i].start_ns);
        last = MAX(last, m->time[i].end_ns);
    }
    if (first > last)
        return 0;
    rc = store_cstr(m->st, "run", &model);
    c[step_col_model] = cell_str(model);
    c[step_col_num] = cell_i64(0);
    c[step_col_ts] = cell_i64(first);
    c[step_col_dur] = cell_i64(last - first);
    c[step_col_warmup] = cell_i64(0);
    c[step_col_track] = cell_id(m->step_track);
    return rc ? rc : store_add(m->st, TABLE_step, c, NULL);
}

struct chunk_life {
    uint32_t first, last; /* op rows */
};

static void live_at(struct chunk_life *life, uint32_t op)
{
    life->first = life->first == OPM_NULL_ID ? op : MIN(life->first, op);
    life->last = life->last == OPM_NULL_ID ? op : MAX(life->last, op);
}

/* From the operator that makes the first var of a chunk to the last that reads one. Rows of op are
 * in the order of execution. */
static int chunk_lives(struct mge *m, const struct u64map *index, struct chunk_life *life)
{
    for (uint32_t i = 0; i < m->nopr; i++) {
        for (int side = 0; side < 2; side++) {
            struct mge_value vars = side ? m->opr[i].output : m->opr[i].input, v;
            struct json_reader r = mge_reader(vars);

            while (vars.len && mge_element(m, &r, &v)) {
                uint32_t var, chunk;
                int rc = var_of(m, v, &var);

                if (rc)
                    return rc;
                chunk = var == OPM_NULL_ID ? OPM_NULL_ID : mge_find(index, m->var[var].chunk);
                if (chunk != OPM_NULL_ID)
                    live_at(&life[chunk], m->opr[i].op);
            }
        }
    }
    return 0;
}

static int add_chunk(struct mge *m, struct mge_value chunk, const struct chunk_life *life)
{
    struct json_reader r = mge_reader(chunk);
    struct cell c[mem_col_COUNT] = { 0 };
    uint32_t var = OPM_NULL_ID;
    struct mge_value v;
    bool weight;
    str_id kind;
    int rc = 0;

    while (rc == 0 && mge_member(m, &r, &v)) {
        struct json_reader n = mge_reader(v);
        int64_t i;
        bool number = json_read_next(&n) != JSON_BAD && json_read_int(&n, &i);

        if (json_read_is(&r, "size") && number)
            c[mem_col_bytes] = cell_i64(i);
        else if (json_read_is(&r, "dev_ptr") && number)
            c[mem_col_addr] = cell_i64(i);
        else if (json_read_is(&r, "owner_var"))
            rc = var_of(m, v, &var);
    }
    if (var != OPM_NULL_ID)
        c[mem_col_owner] = cell_str(m->var[var].name);
    /* What holds a weight is there before the first operator and after the last. */
    weight = var != OPM_NULL_ID && is_weight(m, &m->var[var]);
    if (!weight) {
        c[mem_col_first_op] = cell_id(life->first);
        c[mem_col_last_op] = cell_id(life->last);
    }
    if (rc == 0)
        rc = store_cstr(m->st, weight ? "weight" : "activation", &kind);
    if (rc)
        return rc;
    c[mem_col_kind] = cell_str(kind);
    return store_add(m->st, TABLE_mem, c, NULL);
}

static int add_chunks(struct mge *m)
{
    struct json_reader r = mge_reader(m->chunks);
    struct u64map index = { 0 };
    struct mge_value v, *chunk = NULL;
    struct chunk_life *life = NULL;
    size_t n = 0, cap = 0;
    int rc = 0;

    while (rc == 0 && m->chunks.len && mge_member(m, &r, &v)) {
        str_id id;

        buf_clear(&m->text);
        json_read_text(&r, &m->text);
        rc = m->text.failed ? OPM_ENOMEM : store_str(m->st, buf_str(&m->text), m->text.len, &id);
        if (rc == 0)
            rc = u64map_put(&index, id, n);
        if (rc == 0 && !GROW(chunk, cap, n + 1))
            rc = OPM_ENOMEM;
        if (rc == 0)
            chunk[n++] = v;
    }
    if (rc == 0)
        life = mem_alloc((n + 1) * sizeof(*life));
    if (rc == 0 && !life)
        rc = OPM_ENOMEM;
    for (size_t i = 0; rc == 0 && i < n; i++)
        life[i] = (struct chunk_life){ OPM_NULL_ID, OPM_NULL_ID };
    if (rc == 0)
        rc = chunk_lives(m, &index, life);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_chunk(m, chunk[i], &life[i]);
    mem_free(life);
    mem_free(chunk);
    u64map_release(&index);
    return rc;
}

static int add_meta(struct mge *m)
{
    int rc = store_meta(m->st, "source.format", "megengine");

    if (rc == 0 && m->time_unit == 1e6)
        rc = store_meta(m->st, "source.version", "1.2 compatible");
    if (rc == 0)
        rc = store_meta(m->st, "clock.note",
                        "device and host times count from origins of their own");
    if (rc == 0 && m->rest.len) {
        buf_clear(&m->text);
        buf_addf(&m->text, "{%s}", buf_str(&m->rest));
        rc = m->text.failed ? OPM_ENOMEM : store_meta(m->st, "megengine.other", buf_str(&m->text));
    }
    return rc;
}

int mge_rows(struct mge *m)
{
    struct words w;
    int rc = words_init(m->st, &w);

    if (rc == 0)
        rc = find_owners(m);
    if (rc == 0)
        rc = add_ops(m, &w);
    if (rc == 0)
        rc = add_spans(m, &w);
    if (rc == 0)
        rc = add_step(m);
    if (rc == 0)
        rc = add_chunks(m);
    return rc ? rc : add_meta(m);
}
