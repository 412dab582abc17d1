/* onnx.c -- read an ONNX file: the model around the graph; see graph.h and onnx_int.h. */
#include "base/alloc.h"
#include "base/error.h"
#include "graph/onnx_int.h"
#include "graph/zoo.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Fields that may be read beyond a few times the file's own: room for functions that are called
 * often. */
#define STEPS_EXTRA ((uint64_t)1 << 26)
#define STEPS_PER_BYTE 16

bool ld_next(struct loader *ld, struct rd *r, struct pb_field *f, const char *spec)
{
    size_t known = strlen(spec);

    while (pb_next(r, f)) {
        bool ok = true;

        if (++ld->steps > ld->steps_max) {
            ld->over = true;
            r->bad = true;
            return false;
        }
        if (f->number >= known || spec[f->number] == ' ')
            continue;
        switch (spec[f->number]) {
        case 'V':
            ok = f->wire == PB_VARINT;
            break;
        case 'L':
            ok = f->wire == PB_LEN;
            break;
        case 'F':
            ok = f->wire == PB_I32;
            break;
        case 'R':
            ok = f->wire == PB_VARINT || f->wire == PB_LEN;
            break;
        case 'S':
            ok = f->wire == PB_I32 || (f->wire == PB_LEN && f->len % 4 == 0);
            break;
        case 'E':
            ok = f->wire == PB_I64 || (f->wire == PB_LEN && f->len % 8 == 0);
            break;
        }
        if (!ok) {
            ld->odd_wire = true;
            r->bad = true;
            return false;
        }
        return true;
    }
    return false;
}

int ld_end(struct loader *ld, const struct rd *r, const char *what, ...)
{
    char text[160];
    va_list ap;

    if (!r->bad)
        return 0;
    va_start(ap, what);
    vsnprintf(text, sizeof(text), what, ap);
    va_end(ap);
    if (ld->over)
        return ld_fail(ld, OPM_ELIMIT, "%s: functions are called too often to be inlined", text);
    if (ld->odd_wire)
        return ld_fail(ld, OPM_EFORMAT, "%s is damaged: a field has the wrong wire type", text);
    return ld_fail(ld, OPM_ETRUNC, "%s is damaged or cut off", text);
}

int ld_fail(struct loader *ld, int code, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return opm__fail(ld->err, code, "%.200s: %s", ld->m->name, text);
}

int ld_nomem(struct loader *ld)
{
    return ld_fail(ld, OPM_ENOMEM, "no memory to read it");
}

void *ld_alloc(struct loader *ld, size_t n, size_t size)
{
    struct arena *a = &ld->impl->arena;
    size_t bytes;
    void *p;

    if (__builtin_mul_overflow(n, size, &bytes) || a->used > MODEL_INDEX_MAX_BYTES ||
        bytes > MODEL_INDEX_MAX_BYTES - a->used) {
        ld_fail(ld, OPM_ELIMIT, "its graph takes more than %zu MiB of memory",
                MODEL_INDEX_MAX_BYTES >> 20);
        return NULL;
    }
    p = arena_alloc(a, bytes);
    if (!p)
        ld_nomem(ld);
    return p;
}

int ld_name(struct loader *ld, const void *p, size_t len, str_id *id, const char **out)
{
    struct strpool *names = &ld->impl->name;
    str_id s;

    if (len > MODEL_NAME_MAX_BYTES)
        return ld_fail(ld, OPM_ELIMIT, "a name of %zu bytes", len);
    /* Inlining repeats names, and puts longer ones together: that must not be for free. */
    ld->steps += len / 16;
    if (ld->steps > ld->steps_max || names->bytes.used > MODEL_INDEX_MAX_BYTES)
        return ld_fail(ld, OPM_ELIMIT, "its names take too much memory once functions are inlined");
    if (strpool_intern(names, p, len, &s))
        return ld_nomem(ld);
    if (id)
        *id = s;
    if (out)
        *out = strpool_get(names, s);
    return 0;
}

int ld_string(struct loader *ld, const struct pb_field *f, struct tensor_string *out)
{
    char *copy = ld_alloc(ld, f->len + 1, 1);

    if (!copy)
        return ld->err->code;
    memcpy(copy, f->p, f->len);
    *out = (struct tensor_string){ copy, f->len };
    return 0;
}

size_t ld_count_ints(const struct pb_field *f)
{
    size_t n = 0;

    if (f->wire == PB_VARINT)
        return 1;
    for (size_t i = 0; i < f->len; i++)
        n += f->p[i] < 0x80;
    return n;
}

size_t ld_take_ints(const struct pb_field *f, int64_t *out, size_t room)
{
    struct rd r;
    size_t n = 0;

    if (room && f->wire == PB_VARINT)
        out[n++] = (int64_t)f->value;
    if (f->wire == PB_VARINT)
        return n;
    r = rd_of(f->p, f->len);
    while (n < room && r.p != r.end && !r.bad)
        out[n++] = (int64_t)rd_varint(&r);
    return n;
}

int ld_opset(struct loader *ld, const struct pb_field *f, struct opset *out)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    int rc = 0;

    *out = (struct opset){ "", 0 };
    while (!rc && ld_next(ld, &r, &g, "oLV")) {
        if (g.number == 1)
            rc = ld_name(ld, g.p, g.len, NULL, &out->domain);
        else
            out->version = g.value > INT32_MAX ? 0 : (int)g.value;
    }
    if (rc)
        return rc;
    if (strcmp(out->domain, "ai.onnx") == 0)
        out->domain = "";
    return ld_end(ld, &r, "the list of opsets");
}

static int read_meta(struct loader *ld, const struct pb_field *f, struct model_meta *out)
{
    struct rd r = rd_of(f->p, f->len);
    struct tensor_string s = { "", 0 };
    struct pb_field g;
    int rc = 0;

    *out = (struct model_meta){ "", "" };
    while (!rc && ld_next(ld, &r, &g, "kLL")) {
        rc = ld_string(ld, &g, &s);
        if (!rc && g.number == 1)
            out->key = s.s;
        else if (!rc)
            out->value = s.s;
    }
    return rc ? rc : ld_end(ld, &r, "its metadata");
}

int ld_function_key(struct loader *ld, const struct slice part[3])
{
    buf_clear(&ld->text);
    for (size_t i = 0; i < 3; i++) {
        buf_add(&ld->text, part[i].p, part[i].len);
        buf_addc(&ld->text, '\0');
    }
    return ld->text.failed ? ld_nomem(ld) : 0;
}

/* Note a function; its body stays where it is. */
static int read_function(struct loader *ld, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct function fn = { .bytes = { f->p, f->len }, .name = "" };
    struct slice part[3] = { { (const uint8_t *)"", 0 }, { 0 }, { 0 } };
    struct opset *opset = NULL;
    size_t n = 0;
    struct pb_field g;
    int rc = 0;

    part[1] = part[2] = part[0];
    while (ld_next(ld, &r, &g, "fL       LL  L")) {
        if (g.number == 9)
            fn.nopset++;
        else
            part[g.number == 10 ? 0 : g.number == 1 ? 1 : 2] = (struct slice){ g.p, g.len };
    }
    rc = ld_end(ld, &r, "a function");
    if (rc)
        return rc;
    if (part[0].len == 7 && memcmp(part[0].p, "ai.onnx", 7) == 0)
        part[0].len = 0;
    rc = ld_function_key(ld, part);
    if (rc)
        return rc;
    rc = ld_name(ld, ld->text.data, ld->text.len, &fn.key, NULL);
    if (!rc)
        rc = ld_name(ld, part[1].p, part[1].len, NULL, &fn.name);
    if (rc)
        return rc;
    if (u64map_get(&ld->fn_key, fn.key))
        return ld_fail(ld, OPM_EFORMAT, "function '%.80s' is defined twice", fn.name);
    if (fn.nopset) {
        opset = ld_alloc(ld, fn.nopset, sizeof(*opset));
        if (!opset)
            return ld->err->code;
        r = rd_of(f->p, f->len);
        while (!rc && n < fn.nopset && ld_next(ld, &r, &g, "f        L"))
            rc = ld_opset(ld, &g, &opset[n++]);
        if (rc)
            return rc;
    }
    fn.opset = opset;
    if (!GROW(ld->fn, ld->fn_cap, ld->nfn + 1) || u64map_put(&ld->fn_key, fn.key, ld->nfn))
        return ld_nomem(ld);
    ld->fn[ld->nfn++] = fn;
    return 0;
}

static const char model_spec[] = "mVLLLVLLL     L          L";

static int read_header_field(struct loader *ld, const struct pb_field *f, struct slice *graph)
{
    struct model *m = ld->m;
    struct tensor_string s = { "", 0 };
    int rc = 0;

    switch (f->number) {
    case 1:
        m->ir_version = (int64_t)f->value;
        return 0;
    case 5:
        m->model_version = (int64_t)f->value;
        return 0;
    case 7:
        if (graph->p)
            return ld_fail(ld, OPM_EFORMAT, "has two graphs");
        *graph = (struct slice){ f->p, f->len };
        return 0;
    case 2:
    case 3:
    case 4:
    case 6:
        rc = ld_string(ld, f, &s);
        break;
    case 8:
        m->nopset++;
        return 0;
    case 14:
        m->nmeta++;
        return 0;
    case 25:
        return read_function(ld, f);
    }
    if (f->number == 2)
        m->producer = s.s;
    else if (f->number == 3)
        m->producer_version = s.s;
    else if (f->number == 4)
        m->domain = s.s;
    else
        m->doc = s.s;
    return rc;
}

/* The lists of the header, now that their lengths are known. */
static int read_header_lists(struct loader *ld, const uint8_t *p, size_t len)
{
    struct model *m = ld->m;
    struct opset *opset = ld_alloc(ld, m->nopset + 1, sizeof(*opset));
    struct model_meta *meta = opset ? ld_alloc(ld, m->nmeta + 1, sizeof(*meta)) : NULL;
    struct rd r = rd_of(p, len);
    struct pb_field f;
    size_t nopset = 0, nmeta = 0;
    int rc = 0;

    if (!meta)
        return ld->err->code;
    while (!rc && ld_next(ld, &r, &f, "m       L     L"))
        rc = f.number == 8 ? ld_opset(ld, &f, &opset[nopset++]) : read_meta(ld, &f, &meta[nmeta++]);
    if (rc)
        return rc;
    if (nopset == 0 && m->ir_version < 3)
        opset[nopset++] = (struct opset){ "", 1 }; /* files older than opsets */
    m->opset = opset;
    m->nopset = nopset;
    m->meta = meta;
    return 0;
}

/* Captured values take after what they stand for, which is complete only now. */
static void fill_captured(struct model_impl *impl)
{
    for (size_t i = 0; i < impl->ngraph; i++) {
        struct graph *g = impl->graph[i];

        for (uint32_t k = 0; k < g->ncapture; k++) {
            const struct value *from = &g->outer->value[g->capture[k].outer];
            struct value *to = &g->value[g->capture[k].inner];

            to->kind = from->kind;
            to->type = to->declared_type = from->type;
            to->shape = from->shape;
            to->declared = from->declared;
            to->data = from->data;
            to->flags |= from->flags & VALUE_CONSTANT;
        }
    }
}

int ld_model(struct loader *ld, const uint8_t *p, size_t len)
{
    struct rd r = rd_of(p, len);
    struct slice graph = { 0 };
    struct pb_field f;
    const char *looks;
    int rc = 0;

    ld->steps_max = STEPS_EXTRA + STEPS_PER_BYTE * (uint64_t)len;
    while (!rc && ld_next(ld, &r, &f, model_spec))
        rc = read_header_field(ld, &f, &graph);
    if (!rc)
        rc = ld_end(ld, &r, "the model");
    if (rc == OPM_ENOMEM)
        return rc;
    if (graph.len == 0) {
        looks = ld_looks_like(p, len);
        if (looks)
            return ld_fail(ld, OPM_EFORMAT, "not an ONNX model but %s", looks);
        if (!rc)
            return ld_fail(ld, OPM_EFORMAT, "not an ONNX model: protobuf, but without a graph");
        if (ld->m->ir_version <= 0)
            return ld_fail(ld, OPM_EFORMAT, "not an ONNX model, or damaged at its beginning");
    }
    if (!rc)
        rc = read_header_lists(ld, p, len);
    ld->m->nfunction = ld->nfn;
    if (!rc)
        rc = ld_graph(ld, graph, NULL, &ld->m->graph);
    if (!rc && (ld->over || ld->odd_wire)) /* noticed where only a count was wanted */
        rc = ld_fail(ld, OPM_EFORMAT, "the model is damaged");
    if (!rc)
        fill_captured(ld->impl);
    return rc;
}

static struct model *model_new(void)
{
    struct model *m = mem_calloc(1, sizeof(*m));

    if (!m)
        return NULL;
    m->impl = mem_calloc(1, sizeof(*m->impl));
    if (!m->impl) {
        mem_free(m);
        return NULL;
    }
    m->name = m->producer = m->producer_version = m->domain = m->doc = "";
    return m;
}

/* Read the bytes into m, which stays the caller's. */
static int read_into(struct model *m, const void *p, size_t len, const char *name, const char *dir,
                     opm_error *err)
{
    opm_error own = { 0 };
    struct loader ld = { .m = m, .impl = m->impl, .err = err ? err : &own, .dir = dir };
    const char *copy = arena_strndup(&m->impl->arena, name, strlen(name));
    int rc;

    if (!copy)
        return opm__fail(err, OPM_ENOMEM, "%s: no memory to read it", name);
    m->name = copy;
    m->file_bytes = len;
    rc = ld_model(&ld, p, len);
    u64map_release(&ld.name);
    u64map_release(&ld.dim);
    u64map_release(&ld.fn_key);
    buf_release(&ld.text);
    mem_free(ld.fn);
    return rc;
}

int model_parse(struct model **out, const void *p, size_t len, const char *name, const char *dir,
                opm_error *err)
{
    struct model *m = model_new();
    int rc;

    if (!m)
        return opm__fail(err, OPM_ENOMEM, "%s: no memory to read it", name);
    rc = read_into(m, p, len, name, dir, err);
    if (rc)
        model_free(m);
    else
        *out = m;
    return rc;
}

static int load_file(struct model *m, const char *path, opm_error *err)
{
    const char *slash = strrchr(path, '/');
    char *dir;
    int rc = io_map(&m->impl->file, path, 0, err);

    if (rc)
        return rc;
    if (m->impl->file.cut)
        return opm__fail(err, OPM_ETRUNC, "%s: the compressed file is damaged or cut off", path);
    dir = slash ? arena_strndup(&m->impl->arena, path, (size_t)(slash - path) + 1)
                : arena_strndup(&m->impl->arena, ".", 1);
    if (!dir)
        return opm__fail(err, OPM_ENOMEM, "%s: no memory to read it", path);
    return read_into(m, m->impl->file.data, m->impl->file.len, path, dir, err);
}

int model_load(struct model **out, const char *path, opm_error *err)
{
    struct model *m = model_new();
    int rc;

    if (!m)
        return opm__fail(err, OPM_ENOMEM, "%s: no memory to read it", path);
    if (strncmp(path, "zoo:", 4) == 0) {
        rc = zoo_build(path, &m->impl->made, err);
        if (!rc)
            rc = read_into(m, m->impl->made.data, m->impl->made.len, path, NULL, err);
    } else
        rc = load_file(m, path, err);
    if (rc)
        model_free(m);
    else
        *out = m;
    return rc;
}
