/* megengine.c -- read the profile JSON of MegEngine's load_and_run and of its imperative profiler.
 *
 *     {"graph_exec": {comp_seq, operator, var, mem_chunk},
 *      "profiler": {device, host, opr_footprint, opr_internal_pf}}
 *
 * Members come in any order. Version 1.2 ("compatible") has its vars in an array, times in ms,
 * `params` for `param` and no comp_seq. What is cut off or malformed costs only itself. */
#include "import/megengine/megengine_int.h"

#include "base/alloc.h"
#include "base/error.h"

#include <math.h>
#include <string.h>

#define NS_MAX 4e18 /* beyond, a time is nonsense */

bool megengine_sniff(const uint8_t *head, size_t len)
{
    static const char *const words[] = { "\"graph_exec\"",      "\"profiler\"", "\"opr_footprint\"",
                                         "\"opr_internal_pf\"", "\"comp_seq\"", "\"mem_chunk\"" };
    size_t i = len >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

    while (i < len && (head[i] == ' ' || (head[i] >= '\t' && head[i] <= '\r')))
        i++;
    if (i == len || head[i] != '{')
        return false;
    i++;
    while (i < len && (head[i] == ' ' || (head[i] >= '\t' && head[i] <= '\r')))
        i++;
    /* One of its two members comes first, and soon something that only it has. */
    for (size_t w = 0; w < 2; w++) {
        size_t n = strlen(words[w]);

        if (len - i < n || memcmp(head + i, words[w], n) != 0)
            continue;
        if (w == 0)
            return true;
        for (size_t k = 0; k < ARRAY_SIZE(words); k++)
            if (k != 1 && memmem(head + i, len - i, words[k], strlen(words[k])))
                return true;
        return memmem(head + i, len - i, "\"kern\"", 6) != NULL;
    }
    return false;
}

/* -- values -- */

struct json_reader mge_reader(struct mge_value v)
{
    return json_read_of(v.p, v.len);
}

static void malformed(struct mge *m, const struct json_reader *r)
{
    if (m->malformed)
        return;
    m->malformed = true;
    store_stat(m->st,
               r->at >= (const char *)m->src->data + m->src->len ? STAT_file_truncated
                                                                 : STAT_json_malformed,
               1);
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || (*p >= '\t' && *p <= '\r')))
        p++;
    return p;
}

bool mge_member(struct mge *m, struct json_reader *r, struct mge_value *value)
{
    const char *text;
    size_t len;
    bool escaped;

    if (!r->begun && json_read_next(r) != JSON_OBJECT)
        return false;
    if (json_read_next(r) != JSON_KEY) {
        if (r->token == JSON_BAD)
            malformed(m, r);
        return false;
    }
    text = r->text;
    len = r->len;
    escaped = r->escaped;
    value->p = skip_space(r->at, r->end);
    if (!json_read_skip(r)) {
        malformed(m, r);
        value->len = (size_t)(r->end - value->p);
    } else {
        value->len = (size_t)(r->at - value->p);
    }
    r->text = text; /* of the key, for json_read_is() */
    r->len = len;
    r->escaped = escaped;
    return true;
}

bool mge_element(struct mge *m, struct json_reader *r, struct mge_value *value)
{
    enum json_token t;

    if (!r->begun && json_read_next(r) != JSON_ARRAY)
        return false;
    t = json_read_next(r);
    if (t == JSON_ARRAY_END || t == JSON_DONE || t == JSON_OBJECT_END)
        return false;
    if (t == JSON_STRING)
        value->p = r->text - 1;
    else if (t == JSON_NUMBER)
        value->p = r->text;
    else
        value->p = r->at - (t == JSON_NULL || t == JSON_TRUE ? 4 : t == JSON_FALSE ? 5 : 1);
    if (t == JSON_BAD || !json_read_skip(r)) {
        malformed(m, r);
        return false;
    }
    value->len = (size_t)(r->at - value->p);
    return true;
}

/* The string or key that r stands on. */
static int intern(struct mge *m, const struct json_reader *r, str_id *out)
{
    buf_clear(&m->text);
    json_read_text(r, &m->text);
    if (m->text.failed)
        return OPM_ENOMEM;
    return store_str(m->st, buf_str(&m->text), m->text.len, out);
}

int mge_text(struct mge *m, struct mge_value v, str_id *out)
{
    struct json_reader r = mge_reader(v);

    *out = 0;
    switch (v.len ? json_read_next(&r) : JSON_BAD) {
    case JSON_STRING:
        return intern(m, &r, out);
    case JSON_NUMBER: /* ids of some versions */
        return store_str(m->st, v.p, v.len, out);
    default:
        return 0;
    }
}

static int64_t int_of(struct mge_value v)
{
    struct json_reader r = mge_reader(v);
    int64_t i;
    double d;

    if (!v.len || json_read_next(&r) == JSON_BAD)
        return OPM_NULL_I64;
    if (json_read_int(&r, &i))
        return i;
    return json_read_real(&r, &d) && fabs(d) < 9e18 ? (int64_t)d : OPM_NULL_I64;
}

int mge_shape(struct mge *m, struct mge_value v, str_id *out, int64_t *out_elements)
{
    struct json_reader r = mge_reader(v);
    struct mge_value dim;
    int64_t n = 1;

    *out = 0;
    *out_elements = -1;
    if (!v.len || *v.p != '[')
        return 0;
    buf_clear(&m->text);
    while (mge_element(m, &r, &dim)) {
        int64_t size = int_of(dim);

        if (size == OPM_NULL_I64 || __builtin_mul_overflow(n, size, &n))
            n = -1;
        buf_addf(&m->text, "%s%.*s", m->text.len ? "x" : "", (int)MIN(dim.len, (size_t)24), dim.p);
    }
    *out_elements = n;
    if (m->text.failed)
        return OPM_ENOMEM;
    return store_str(m->st, buf_str(&m->text), m->text.len, out);
}

uint32_t mge_find(const struct u64map *map, str_id id)
{
    const uint64_t *i = id ? u64map_get(map, id) : NULL;

    return i ? (uint32_t)*i : OPM_NULL_ID;
}

int mge_opr_at(struct mge *m, str_id id, uint32_t *out)
{
    *out = mge_find(&m->opr_by_id, id);
    if (*out != OPM_NULL_ID)
        return 0;
    if (!GROW(m->opr, m->opr_cap, m->nopr + 1))
        return OPM_ENOMEM;
    m->opr[m->nopr] = (struct mge_opr){
        .id = id, .name = id, .computation = OPM_NULL_I64, .memory = OPM_NULL_I64, .op = OPM_NULL_ID
    };
    *out = (uint32_t)m->nopr++;
    return u64map_put(&m->opr_by_id, id, *out);
}

/* -- parts -- */

/* A member by name, and where it goes. */
struct field {
    const char *key;
    struct mge_value *to;
};

static void keep_rest(struct buf *rest, const struct json_reader *r, struct mge_value v)
{
    struct json_reader whole = mge_reader(v);

    /* Empty ones say nothing; half ones would spoil the whole. */
    if (v.len >= 2 && memchr("{[", *v.p, 2) && skip_space(v.p + 1, v.p + v.len) == v.p + v.len - 1)
        return;
    if ((v.len == 4 && memcmp(v.p, "null", 4) == 0) || json_read_next(&whole) == JSON_BAD ||
        !json_read_skip(&whole) || json_read_next(&whole) != JSON_DONE)
        return;
    buf_addf(rest, "%s\"", rest->len ? "," : "");
    buf_add(rest, r->text, r->len);
    buf_adds(rest, "\":");
    buf_add(rest, v.p, v.len);
}

/* The members of an object; those that are not in the list go to rest (may be NULL). */
static void members(struct mge *m, struct mge_value object, const struct field *f, size_t n,
                    struct buf *rest)
{
    struct json_reader r = mge_reader(object);
    struct mge_value v;

    while (mge_member(m, &r, &v)) {
        size_t i = 0;

        while (i < n && !json_read_is(&r, f[i].key))
            i++;
        if (i < n && f[i].to)
            *f[i].to = v;
        else if (i == n && rest)
            keep_rest(rest, &r, v);
    }
}

static void find_parts(struct mge *m)
{
    struct mge_value all = { (const char *)m->src->data, m->src->len };
    struct mge_value graph = { 0 }, profiler = { 0 }, inner = { 0 };
    const struct field top[] = { { "graph_exec", &graph }, { "profiler", &profiler } };
    const struct field parts[] = { { "device", &m->device },
                                   { "host", &m->host },
                                   { "opr_footprint", &m->footprint },
                                   { "opr_internal_pf", &m->internal },
                                   { "graph_exec", &inner } };
    const struct field nodes[] = { { "comp_seq", &m->comp_seq },
                                   { "operator", &m->operators },
                                   { "var", &m->vars },
                                   { "mem_chunk", &m->chunks } };

    if (all.len >= 3 && memcmp(all.p, "\xef\xbb\xbf", 3) == 0)
        all = (struct mge_value){ all.p + 3, all.len - 3 };
    members(m, all, top, ARRAY_SIZE(top), &m->rest);
    members(m, profiler, parts, ARRAY_SIZE(parts), &m->rest);
    members(m, graph.len ? graph : inner, nodes, ARRAY_SIZE(nodes), &m->rest);
}

static int read_operators(struct mge *m)
{
    struct json_reader r = mge_reader(m->operators);
    struct mge_value v;
    int rc = 0;

    while (rc == 0 && mge_member(m, &r, &v)) {
        struct mge_value name = { 0 }, type = { 0 }, input = { 0 }, output = { 0 };
        const struct field fields[] = { { "name", &name },     { "type", &type },
                                        { "input", &input },   { "output", &output },
                                        { "node_type", NULL }, { "id", NULL } };
        str_id id, text;
        uint32_t i;

        rc = intern(m, &r, &id);
        if (rc == 0)
            rc = mge_opr_at(m, id, &i);
        if (rc)
            break;
        members(m, v, fields, ARRAY_SIZE(fields), &m->opr[i].rest);
        m->opr[i].input = input;
        m->opr[i].output = output;
        rc = mge_text(m, name, &text);
        if (rc == 0 && text)
            m->opr[i].name = text;
        if (rc == 0)
            rc = mge_text(m, type, &m->opr[i].type);
    }
    return rc;
}

/* As the other importers and exporters call them. */
static int dtype_name(struct mge *m, str_id theirs, str_id *out, int64_t *out_bits)
{
    static const struct {
        const char *theirs, *ours;
        int bits;
    } names[] = { { "Float32", "fp32", 32 },    { "Float16", "fp16", 16 },
                  { "BFloat16", "bf16", 16 },   { "Float64", "fp64", 64 },
                  { "Int8", "int8", 8 },        { "Int16", "int16", 16 },
                  { "Int32", "int32", 32 },     { "Int64", "int64", 64 },
                  { "Uint8", "uint8", 8 },      { "Uint16", "uint16", 16 },
                  { "Bool", "bool", 8 },        { "Byte", "uint8", 8 },
                  { "QuantizedS8", NULL, 8 },   { "Quantized8Asymm", NULL, 8 },
                  { "QuantizedS16", NULL, 16 }, { "QuantizedS32", NULL, 32 },
                  { "QuantizedS4", NULL, 4 },   { "Quantized4Asymm", NULL, 4 },
                  { "float32", "fp32", 32 },    { "float16", "fp16", 16 },
                  { "int8", "int8", 8 },        { "int32", "int32", 32 },
                  { "uint8", "uint8", 8 } };
    const char *text = store_text(m->st, theirs);

    *out = theirs;
    *out_bits = 0;
    for (size_t i = 0; text && i < ARRAY_SIZE(names); i++) {
        if (strncmp(names[i].theirs, text, strcspn(text, "(")) != 0 ||
            strlen(names[i].theirs) != strcspn(text, "("))
            continue;
        *out_bits = names[i].bits;
        return names[i].ours ? store_cstr(m->st, names[i].ours, out) : 0;
    }
    return 0;
}

static int read_var(struct mge *m, str_id id, struct mge_value v)
{
    struct mge_value name = { 0 }, plan = { 0 }, layout = { 0 }, chunk = { 0 }, shape = { 0 };
    struct mge_value dtype = { 0 }, flags = { 0 }, tags = { 0 }, tag = { 0 }, own_id = { 0 };
    const struct field fields[] = { { "name", &name },  { "mem_plan", &plan },
                                    { "flag", &flags }, { "static_infer_tags", &tags },
                                    { "id", &own_id },  { "dtype", &dtype },
                                    { "shape", &shape } };
    const struct field in_plan[] = { { "mem_chunk_id", &chunk }, { "layout", &layout } };
    const struct field in_layout[] = { { "shape", &shape }, { "dtype", &dtype } };
    const struct field in_tags[] = { { "SHAPE", &tag } };
    const struct field in_tag[] = { { "inferred_result", &shape } };
    struct mge_var var = { .id = id, .owner = OPM_NULL_ID, .bytes = OPM_NULL_I64, .whole = v };
    int64_t elements, bits = 0;
    str_id theirs;
    int rc;

    members(m, v, fields, ARRAY_SIZE(fields), NULL);
    if (!id) {
        rc = mge_text(m, own_id, &var.id);
        if (rc)
            return rc;
    }
    members(m, plan, in_plan, ARRAY_SIZE(in_plan), NULL);
    members(m, layout, in_layout, ARRAY_SIZE(in_layout), NULL);
    if (!shape.len) { /* not allocated, but its shape may be known */
        members(m, tags, in_tags, ARRAY_SIZE(in_tags), NULL);
        members(m, tag, in_tag, ARRAY_SIZE(in_tag), NULL);
    }
    var.persistent = flags.len && memmem(flags.p, flags.len, "\"PERSISTENT_DEVICE_VALUE\"", 25);
    rc = mge_text(m, name, &var.name);
    if (rc == 0)
        rc = mge_text(m, chunk, &var.chunk);
    if (rc == 0)
        rc = mge_text(m, dtype, &theirs);
    if (rc == 0)
        rc = dtype_name(m, theirs, &var.dtype, &bits);
    if (rc == 0)
        rc = mge_shape(m, shape, &var.shape, &elements);
    if (rc)
        return rc;
    if (elements >= 0 && bits && elements < INT64_MAX / 64)
        var.bytes = (elements * bits + 7) / 8;
    if (!var.id || mge_find(&m->var_by_id, var.id) != OPM_NULL_ID)
        return 0;
    if (!GROW(m->var, m->var_cap, m->nvar + 1))
        return OPM_ENOMEM;
    m->var[m->nvar] = var;
    return u64map_put(&m->var_by_id, var.id, m->nvar++);
}

static int read_vars(struct mge *m)
{
    struct json_reader r = mge_reader(m->vars);
    struct mge_value v;
    size_t i = 0;
    str_id id;
    int rc = 0;

    if (m->vars.len && *m->vars.p == '[') {
        m->time_unit = 1e6;
        while (rc == 0 && mge_element(m, &r, &v)) {
            buf_clear(&m->text);
            buf_addf(&m->text, "%zu", i++);
            rc =
                m->text.failed ? OPM_ENOMEM : store_str(m->st, buf_str(&m->text), m->text.len, &id);
            if (rc == 0 && *v.p == '{')
                rc = read_var(m, id, v);
        }
        return rc;
    }
    while (rc == 0 && mge_member(m, &r, &v)) {
        rc = intern(m, &r, &id);
        if (rc == 0)
            rc = read_var(m, id, v);
    }
    return rc;
}

static int read_footprints(struct mge *m)
{
    struct json_reader r = mge_reader(m->footprint);
    struct mge_value v;
    int rc = 0;

    while (rc == 0 && mge_member(m, &r, &v)) {
        struct mge_value computation = { 0 }, memory = { 0 }, in = { 0 }, out = { 0 };
        struct mge_value param = { 0 };
        const struct field fields[] = {
            { "computation", &computation }, { "memory", &memory }, { "in_shapes", &in },
            { "out_shapes", &out },          { "param", &param },   { "params", &param }
        };
        struct mge_opr *o;
        uint32_t i;
        str_id id;

        rc = intern(m, &r, &id);
        if (rc == 0)
            rc = mge_opr_at(m, id, &i);
        if (rc)
            break;
        o = &m->opr[i];
        members(m, v, fields, ARRAY_SIZE(fields), &o->rest);
        o->computation = int_of(computation);
        if (o->computation == 0)
            o->computation = OPM_NULL_I64; /* its way to say that it does not know */
        o->memory = int_of(memory);
        o->in_shapes = in;
        o->out_shapes = out;
        o->param = param;
    }
    return rc;
}

static int read_internals(struct mge *m)
{
    struct json_reader r = mge_reader(m->internal);
    struct mge_value v;
    int rc = 0;

    while (rc == 0 && mge_member(m, &r, &v)) {
        uint32_t i;
        str_id id;

        rc = intern(m, &r, &id);
        if (rc == 0)
            rc = mge_opr_at(m, id, &i);
        if (rc == 0)
            m->opr[i].internal = v;
    }
    return rc;
}

/* A point in time; false if it is none ("nan", missing). */
static bool time_of(const struct mge *m, struct mge_value v, int64_t *out)
{
    struct json_reader r = mge_reader(v);
    double t;

    if (!v.len || json_read_next(&r) == JSON_BAD || !json_read_real(&r, &t) ||
        !(fabs(t * m->time_unit) < NS_MAX))
        return false;
    *out = llround(t * m->time_unit);
    return true;
}

static int read_time(struct mge *m, uint32_t opr, str_id where, bool host, struct mge_value v)
{
    struct mge_value start = { 0 }, kern = { 0 }, end = { 0 };
    const struct field fields[] = { { "start", &start }, { "kern", &kern }, { "end", &end } };
    struct mge_time t = { .opr = opr, .where = where, .host = host, .wait_ns = OPM_NULL_I64 };
    int64_t first;

    members(m, v, fields, ARRAY_SIZE(fields), NULL);
    if (!time_of(m, start, &t.start_ns) || !time_of(m, end, &t.end_ns)) {
        store_stat(m->st, STAT_bad_time, 1);
        return 0;
    }
    /* kern is -1 where no kernel was started. */
    if (time_of(m, kern, &first) && first >= t.start_ns && first <= t.end_ns)
        t.wait_ns = first - t.start_ns;
    if (!GROW(m->time, m->time_cap, m->ntime + 1))
        return OPM_ENOMEM;
    m->time[m->ntime++] = t;
    return 0;
}

/* {operator: {comp node or thread: {start, kern, end}}}. What an operator did in several places at
 * once took it as long as the longest. */
static int read_times(struct mge *m, struct mge_value section, bool host)
{
    struct json_reader r = mge_reader(section);
    struct mge_value places, v;
    int rc = 0;

    while (rc == 0 && mge_member(m, &r, &places)) {
        struct json_reader p = mge_reader(places);
        size_t first = m->ntime, longest = m->ntime;
        uint32_t i;
        str_id id, where;

        rc = intern(m, &r, &id);
        if (rc == 0)
            rc = mge_opr_at(m, id, &i);
        while (rc == 0 && mge_member(m, &p, &v)) {
            rc = intern(m, &p, &where);
            if (rc == 0)
                rc = read_time(m, i, where, host, v);
        }
        for (size_t k = first; k < m->ntime; k++)
            if (m->time[k].end_ns - m->time[k].start_ns >
                m->time[longest].end_ns - m->time[longest].start_ns)
                longest = k;
        if (longest < m->ntime)
            m->time[longest].longest = true;
    }
    return rc;
}

/* As executed; operators that comp_seq does not name follow as they stand in the file. */
static int read_order(struct mge *m)
{
    struct json_reader r = mge_reader(m->comp_seq);
    struct mge_value v;
    str_id id;

    m->order = mem_calloc(m->nopr + 1, sizeof(*m->order));
    if (!m->order)
        return OPM_ENOMEM;
    while (m->comp_seq.len && mge_element(m, &r, &v)) {
        uint32_t i;
        int rc = mge_text(m, v, &id);

        if (rc)
            return rc;
        i = mge_find(&m->opr_by_id, id);
        if (i == OPM_NULL_ID || m->opr[i].ordered)
            continue;
        m->opr[i].ordered = true;
        m->order[m->norder++] = i;
    }
    for (uint32_t i = 0; i < m->nopr; i++)
        if (!m->opr[i].ordered)
            m->order[m->norder++] = i;
    return 0;
}

static int read_all(struct mge *m)
{
    int rc;

    find_parts(m);
    rc = read_operators(m);
    if (rc == 0)
        rc = read_vars(m);
    if (rc == 0)
        rc = read_footprints(m);
    if (rc == 0)
        rc = read_internals(m);
    if (rc == 0)
        rc = read_times(m, m->device, false);
    if (rc == 0)
        rc = read_times(m, m->host, true);
    if (rc == 0)
        rc = read_order(m);
    if (rc == 0 && m->rest.failed)
        rc = OPM_ENOMEM;
    return rc;
}

int megengine_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct mge m = { .st = st, .src = src, .time_unit = 1e9, .step_track = OPM_NULL_ID };
    int rc = read_all(&m);

    if (rc == 0 && !m.nopr)
        rc = opm__fail(err, OPM_EFORMAT,
                       "%s: a MegEngine profile with no operators and no times in it", src->path);
    else if (rc == 0)
        rc = mge_rows(&m);
    if (rc == OPM_ENOMEM)
        opm__fail(err, rc, "%s: out of memory", src->path);
    if (rc == 0 && src->cut)
        store_stat(st, STAT_file_truncated, !m.malformed);
    for (size_t i = 0; i < m.nopr; i++)
        buf_release(&m.opr[i].rest);
    mem_free(m.opr);
    mem_free(m.var);
    mem_free(m.time);
    mem_free(m.order);
    u64map_release(&m.opr_by_id);
    u64map_release(&m.var_by_id);
    buf_release(&m.text);
    buf_release(&m.rest);
    return rc;
}
