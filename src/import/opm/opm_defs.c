/* opm_defs.c -- definitions of an .opm file: sites, operators, threads, tracks, memory, facts. */
#include "import/opm/opm_int.h"
#include "import/torch/torch_op.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json_write.h"
#include <inttypes.h>

#define RANK_MAX 1024 /* of a tensor; more is damage */

#define LAYER_HARDWARE 3
static const char *const layers[] = { "app", "framework",
                                      "runtime", [LAYER_HARDWARE] = "hardware" };
static const char *const phases[] = { "forward", "reshape" };
static const char *const ios[] = { "input", "weight", "output" };

/* Category of the spans that a role stands for, where the site itself has none. */
static const char *const role_cats[] = { [ROLE_STEP] = "step",
                                         [ROLE_RECORD] = "record",
                                         [ROLE_ACTIVITY] = "activity",
                                         [ROLE_PHASE] = "phase" };

static const uint8_t *get_str(struct rd *r, size_t *len)
{
    *len = rd_varint(r);
    return rd_bytes(r, *len);
}

static int intern_str(struct opm_file *f, struct rd *r, str_id *out)
{
    size_t len;
    const uint8_t *p = get_str(r, &len);

    return p ? store_str(f->st, (const char *)p, len, out) : OPM_EFORMAT;
}

/* A string that may be missing: 0 then. */
static int intern_optional(struct opm_file *f, struct rd *r, str_id *out)
{
    uint64_t len = rd_varint(r);
    const uint8_t *p = len ? rd_bytes(r, len - 1) : NULL;

    *out = 0;
    if (r->bad)
        return OPM_EFORMAT;
    return p ? store_str(f->st, (const char *)p, len - 1, out) : 0;
}

static int64_t known(int64_t v)
{
    return v < 0 ? OPM_NULL_I64 : v;
}

/* in: what is known of the operator's inputs. */
static int tensor_read(struct opm_file *f, struct rd *r, uint32_t op, int64_t slots[3],
                       struct torch_inputs *in)
{
    struct torch_input *input = in->n < TORCH_INPUTS_MAX ? &in->in[in->n] : NULL;
    struct cell row[op_tensor_col_COUNT];
    struct buf shape = { 0 };
    str_id name, dtype, io_id, shape_id = 0;
    uint64_t io = rd_varint(r), ndim;
    int64_t bytes;
    int rc = intern_optional(f, r, &name);

    if (rc == 0)
        rc = intern_optional(f, r, &dtype);
    if (rc)
        return rc;
    ndim = rd_varint(r);
    for (uint64_t i = 0; i < MIN(ndim, (uint64_t)RANK_MAX) && !r->bad; i++) {
        int64_t dim = rd_zigzag(r);

        buf_addf(&shape, i ? "x%" PRId64 : "%" PRId64, dim);
        if (input && i < ARRAY_SIZE(input->dim))
            input->dim[i] = dim;
    }
    if (input && io == 0) {
        input->ndim = ndim <= ARRAY_SIZE(input->dim) ? (int)ndim : -1;
        in->n++;
    }
    bytes = rd_zigzag(r);
    if (r->bad || io >= ARRAY_SIZE(ios) || ndim > RANK_MAX || shape.failed) {
        rc = shape.failed ? OPM_ENOMEM : OPM_EFORMAT;
        buf_release(&shape);
        return rc;
    }
    rc = store_str(f->st, buf_str(&shape), shape.len, &shape_id);
    buf_release(&shape);
    if (rc == 0)
        rc = store_cstr(f->st, ios[io], &io_id);
    if (rc)
        return rc;
    row[op_tensor_col_op] = cell_id(op);
    row[op_tensor_col_io] = cell_str(io_id);
    row[op_tensor_col_slot] = cell_i64(slots[io]++);
    row[op_tensor_col_name] = cell_str(name);
    row[op_tensor_col_dtype] = cell_str(dtype);
    row[op_tensor_col_shape] = cell_str(shape_id);
    row[op_tensor_col_bytes] = cell_i64(known(bytes));
    return store_add(f->st, TABLE_op_tensor, row, NULL);
}

/* The rest of an ITEM_SITE of ROLE_OP: a row of op and its tensors. *op is the row that it
 * replaces, or OPM_NULL_ID and then the new one. */
static int op_read(struct opm_file *f, struct rd *r, str_id name, uint32_t *op)
{
    struct cell row[op_col_COUNT] = { 0 };
    str_id text[6], weight_shape;
    int64_t flops, bytes, sparse, slots[3] = { 0 };
    struct torch_inputs inputs = { 0 };
    double zeros;
    uint64_t ntensor;
    int rc = 0;

    for (size_t i = 0; i < ARRAY_SIZE(text) && rc == 0; i++)
        rc = intern_optional(f, r, &text[i]);
    flops = rd_zigzag(r);
    bytes = rd_zigzag(r);
    if (rc == 0)
        rc = intern_optional(f, r, &weight_shape);
    if (rc)
        return rc;
    zeros = rd_f64(r);
    sparse = rd_zigzag(r);
    ntensor = rd_varint(r);
    if (r->bad)
        return OPM_EFORMAT;
    row[op_col_name] = cell_str(name);
    row[op_col_type] = cell_str(text[0]);
    row[op_col_post_op] = cell_str(text[1]);
    row[op_col_device] = cell_str(text[2]);
    row[op_col_engine] = cell_str(text[3]);
    row[op_col_attributes] = cell_str(text[4]);
    row[op_col_nodes] = cell_str(text[5]);
    row[op_col_flops] = cell_i64(known(flops));
    row[op_col_bytes] = cell_i64(known(bytes));
    row[op_col_weight_shape] = cell_str(weight_shape);
    row[op_col_weight_zero_ratio] = zeros >= 0 && zeros <= 1 ? cell_f64(zeros) : cell_null();
    row[op_col_sparse_support] = cell_i64(known(sparse));
    if (*op == OPM_NULL_ID) {
        if (!GROW(f->op, f->op_cap, f->nop + 1))
            return OPM_ENOMEM;
        *op = f->first_op + (uint32_t)f->nop++;
    }
    memcpy(f->op[*op - f->first_op].cell, row, sizeof(row));
    for (uint64_t i = 0; i < ntensor && rc == 0; i++)
        rc = tensor_read(f, r, *op, slots, &inputs);
    /* Operators of PyTorch come with their shapes only. */
    if (rc == 0 && flops < 0 && text[0] && strncmp(store_text(f->st, text[0]), "aten::", 6) == 0) {
        flops = torch_flops(store_text(f->st, text[0]), &inputs);
        f->op[*op - f->first_op].cell[op_col_flops] = cell_i64(known(flops));
    }
    return rc;
}

/* Phase, then the site that has the description; or 0, the site whose description was only a name
 * until now (or 0), and the description itself. */
static int op_of_site(struct opm_file *f, struct rd *r, struct site *site)
{
    unsigned phase = rd_u8(r);
    uint64_t described = rd_varint(r), replaced = described ? 0 : rd_varint(r);
    uint64_t other = described ? described : replaced;
    const struct def_site *known_site = other < ID_COUNT ? defs_site(f, (uint32_t)other) : NULL;
    int rc = r->bad || phase >= ARRAY_SIZE(phases) ? OPM_EFORMAT
                                                   : store_cstr(f->st, phases[phase], &site->phase);

    if (rc)
        return rc;
    if (known_site)
        site->op = known_site->op;
    if (described)
        return known_site ? 0 : OPM_EFORMAT;
    return op_read(f, r, site->name, &site->op);
}

/* The rest of an ITEM_SITE of ROLE_QUEUE; older files end after the capacity. */
static int queue_read(struct opm_file *f, struct rd *r, struct def_site *def)
{
    uint64_t workers;
    int rc;

    def->capacity = known(rd_zigzag(r));
    if (r->bad || rd_left(r) == 0)
        return 0;
    rc = intern_optional(f, r, &def->producer);
    workers = rd_varint(r);
    if (workers && workers <= INT32_MAX)
        def->workers = (int64_t)workers;
    return rc ? rc : intern_optional(f, r, &def->consumer);
}

/* The rest of an ITEM_SITE of ROLE_COUNTER; most have none. */
static int gauge_read(struct opm_file *f, struct rd *r, struct def_site *def)
{
    int rc;

    if (r->bad || rd_left(r) == 0)
        return 0;
    def->gauge = true;
    rc = intern_optional(f, r, &def->unit);
    if (rc == 0)
        rc = intern_optional(f, r, &def->device);
    if (rc == 0)
        rc = intern_optional(f, r, &def->process);
    def->pid = known(rd_zigzag(r));
    return rc;
}

static int site_read(struct opm_file *f, struct rd *r)
{
    uint64_t id = rd_varint(r), role = rd_varint(r), layer = rd_varint(r);
    struct site site = { .op = OPM_NULL_ID };
    struct def_site def = { .track = OPM_NULL_ID,
                            .capacity = OPM_NULL_I64,
                            .workers = OPM_NULL_I64 };
    int rc;

    if (r->bad || !id || id > OPM_ID_MAX || layer >= ARRAY_SIZE(layers))
        return OPM_EFORMAT;
    rc = intern_str(f, r, &site.name);
    if (rc == 0)
        rc = intern_optional(f, r, &site.cat);
    if (rc == 0)
        rc = store_cstr(f->st, layers[layer], &site.layer);
    if (rc == 0 && !site.cat && role < ARRAY_SIZE(role_cats) && role_cats[role])
        rc = store_cstr(f->st, role_cats[role], &site.cat);
    if (rc == 0 && role == ROLE_OP)
        rc = op_of_site(f, r, &site);
    else if (rc == 0 && role == ROLE_QUEUE)
        rc = queue_read(f, r, &def);
    else if (rc == 0 && role == ROLE_COUNTER)
        rc = gauge_read(f, r, &def);
    if (rc == 0)
        rc = store_site(f->st, &site, &def.site);
    if (rc)
        return rc;
    if (!GROW(f->site, f->site_cap, f->nsite + 1))
        return OPM_ENOMEM;
    def.role = (uint8_t)MIN(role, 255u);
    def.hardware = layer == LAYER_HARDWARE;
    def.name = site.name;
    def.op = site.op;
    f->id[id] = (uint32_t)f->nsite << 2 | ID_SITE;
    f->site[f->nsite++] = def;
    return 0;
}

static int string_read(struct opm_file *f, struct rd *r)
{
    uint64_t id = rd_varint(r);
    str_id s;
    int rc;

    if (r->bad || !id || id > OPM_ID_MAX)
        return OPM_EFORMAT;
    rc = intern_str(f, r, &s);
    if (rc)
        return rc;
    if (!GROW(f->string, f->string_cap, f->nstring + 1))
        return OPM_ENOMEM;
    f->id[id] = (uint32_t)f->nstring << 2 | ID_STRING;
    f->string[f->nstring++] = (struct def_string){ .text = s };
    return 0;
}

str_id defs_args(struct opm_file *f, uint64_t id)
{
    uint32_t at = id < ID_COUNT ? f->id[id] : 0;
    struct def_string *s = (at & 3) == ID_STRING ? &f->string[at >> 2] : NULL;

    if (!s)
        return 0;
    if (s->json == JSON_UNTRIED) {
        const char *text = store_text(f->st, s->text);
        size_t len = strpool_len(store_strings(f->st), s->text);

        s->json = text[0] == '{' && json_valid(text, len) ? JSON_OBJECT_TEXT : JSON_OTHER_TEXT;
    }
    return s->json == JSON_OBJECT_TEXT ? s->text : 0;
}

struct def_thread *defs_thread(struct opm_file *f, uint32_t serial)
{
    const uint64_t *at = u64map_get(&f->thread_at, serial);

    if (at)
        return &f->thread[*at];
    if (!GROW(f->thread, f->thread_cap, f->nthread + 1) ||
        u64map_put(&f->thread_at, serial, f->nthread) < 0)
        return NULL;
    f->thread[f->nthread] =
        (struct def_thread){ .serial = serial, .track = OPM_NULL_ID, .tid = OPM_NULL_I64 };
    return &f->thread[f->nthread++];
}

static int thread_read(struct opm_file *f, struct rd *r)
{
    uint64_t serial = rd_varint(r), tid = rd_varint(r);
    struct def_thread *t;
    str_id name;
    int rc = r->bad || serial > UINT32_MAX ? OPM_EFORMAT : intern_str(f, r, &name);

    if (rc)
        return rc;
    t = defs_thread(f, (uint32_t)serial);
    if (!t)
        return OPM_ENOMEM;
    t->tid = (int64_t)tid;
    t->name = name;
    return 0;
}

static int meta_read(struct opm_file *f, struct rd *r)
{
    str_id key, value;
    int rc = intern_str(f, r, &key);
    const char *k;

    if (rc == 0)
        rc = intern_str(f, r, &value);
    if (rc)
        return rc;
    k = store_text(f->st, key);
    if (strcmp(k, "program.command") == 0) {
        const char *v = store_text(f->st, value);
        size_t len = strcspn(v, " ");
        const char *slash = memrchr(v, '/', len);
        const char *base = slash ? slash + 1 : v;

        rc = store_str(f->st, base, len - (size_t)(base - v), &f->process);
    } else if (strcmp(k, "machine.host") == 0) {
        f->host = value;
    } else if (strcmp(k, "cuda.dropped") == 0) {
        f->device_dropped = strtoll(store_text(f->st, value), NULL, 10);
    } else if (strcmp(k, "cuda.unfinished") == 0) {
        f->device_unfinished = strtoll(store_text(f->st, value), NULL, 10);
    } else if (strcmp(k, "run.instance") == 0) {
        import_set_instance(f->src, strtoll(store_text(f->st, value), NULL, 10));
    } else if (strcmp(k, "program.process") == 0) {
        f->identity = value;
    } else if (strcmp(k, "program.rank") == 0) {
        import_set_rank(f->src, strtoll(store_text(f->st, value), NULL, 10));
    }
    return rc ? rc : import_meta(f->st, f->src, k, store_text(f->st, value));
}

static int track_read(struct opm_file *f, struct rd *r)
{
    struct def_track def = { .track = OPM_NULL_ID };
    uint64_t id = rd_varint(r), number = UINT64_MAX;
    struct cell row[track_col_COUNT];
    str_id kind, name, device;
    int rc;

    def.clock = (uint32_t)rd_varint(r);
    rc = r->bad || !id || id > OPM_ID_MAX ? OPM_EFORMAT : intern_optional(f, r, &kind);
    if (rc == 0)
        rc = intern_optional(f, r, &name);
    if (rc == 0)
        rc = intern_optional(f, r, &device);
    if (rc)
        return rc;
    if (rd_left(r))
        number = rd_varint(r);
    if (number <= INT64_MAX && kind && strcmp(store_text(f->st, kind), "thread") == 0) {
        def.tid = (int64_t)number;
        def.of_thread = true;
    } else {
        for (int i = 0; i < track_col_COUNT; i++)
            row[i] = cell_null();
        row[track_col_kind] = cell_str(kind);
        row[track_col_name] = cell_str(name);
        row[track_col_device] = cell_str(device);
        row[track_col_pid] = cell_i64(f->pid);
        row[track_col_host] = cell_str(f->host);
        row[track_col_process] = cell_str(f->process);
        row[track_col_tid] = number <= INT64_MAX ? cell_i64((int64_t)number) : cell_null();
        rc = store_add(f->st, TABLE_track, row, &def.track);
        if (rc)
            return rc;
    }
    if (!GROW(f->track, f->track_cap, f->ntrack + 1))
        return OPM_ENOMEM;
    f->id[id] = (uint32_t)f->ntrack << 2 | ID_TRACK;
    f->track[f->ntrack++] = def;
    return 0;
}

static int sync_read(struct opm_file *f, struct rd *r)
{
    struct def_track *t = defs_track(f, rd_varint(r));
    int64_t device_ns = rd_zigzag(r), monotonic_ns = rd_zigzag(r);
    size_t at;

    if (r->bad || !t)
        return OPM_EFORMAT;
    at = t->nsync ? 2 : 0;
    t->sync[at] = device_ns;
    t->sync[at + 1] = monotonic_ns;
    t->nsync++;
    return 0;
}

static int mem_read(struct opm_file *f, struct rd *r)
{
    struct def_mem m;
    int rc = intern_optional(f, r, &m.owner);

    if (rc == 0)
        rc = intern_optional(f, r, &m.kind);
    if (rc)
        return rc;
    m.bytes = rd_zigzag(r);
    m.addr = rd_zigzag(r);
    m.first_op = (uint32_t)rd_varint(r);
    m.last_op = (uint32_t)rd_varint(r);
    if (r->bad)
        return OPM_EFORMAT;
    if (!GROW(f->mem, f->mem_cap, f->nmem + 1))
        return OPM_ENOMEM;
    f->mem[f->nmem++] = m;
    return 0;
}

static int calibration_read(struct opm_file *f, struct rd *r)
{
    struct opm_calibration c;
    const uint8_t *p = rd_bytes(r, sizeof(c));

    if (!p)
        return OPM_EFORMAT;
    memcpy(&c, p, sizeof(c));
    if (c.ticks > f->last.ticks)
        f->last = c;
    return 0;
}

int defs_read(struct opm_file *f, const uint8_t *p, size_t len)
{
    static int (*const readers[])(struct opm_file *, struct rd *) = {
        [ITEM_SITE] = site_read,
        [ITEM_STRING] = string_read,
        [ITEM_THREAD] = thread_read,
        [ITEM_META] = meta_read,
        [ITEM_CALIBRATION] = calibration_read,
        [ITEM_TRACK] = track_read,
        [ITEM_TRACK_SYNC] = sync_read,
        [ITEM_MEM] = mem_read,
    };
    struct rd r = rd_of(p, len);

    while (rd_left(&r)) {
        uint64_t kind = rd_varint(&r), size = rd_varint(&r);
        const uint8_t *body = rd_bytes(&r, size);
        struct rd item;
        int rc;

        if (!body)
            return OPM_EFORMAT;
        if (kind >= ARRAY_SIZE(readers) || !readers[kind]) {
            store_stat(f->st, STAT_chunk_unknown, 1);
            continue;
        }
        item = rd_of(body, size);
        rc = readers[kind](f, &item);
        if (rc == OPM_ENOMEM)
            return rc;
        if (rc)
            store_stat(f->st, STAT_chunk_corrupt, 1);
    }
    return 0;
}

/* What names the process among those of all machines; "" where the file does not say it. */
static void process_name(const struct opm_file *f, char *out, size_t size)
{
    const char *process = f->identity ? store_text(f->st, f->identity) : NULL;
    size_t n = 0;

    out[0] = '\0';
    if (!process || strlen(process) + 2 * sizeof(f->header.boot) + 2 > size)
        return;
    for (size_t i = 0; i < sizeof(f->header.boot); i++)
        n += (size_t)snprintf(out + n, size - n, "%02x", f->header.boot[i]);
    snprintf(out + n, size - n, " %s", process);
}

/* Two recorders in one process, such as the program's own and that of a CUDA layer, see the same
 * threads: what one recorded lies inside what the other did. Not two serials of one recorder, which
 * are different threads with the same number. */
static int thread_track(struct opm_file *f, struct def_thread *t, const char *process)
{
    struct import_thread thread = { process, f->header.session, t->tid };
    struct cell row[track_col_COUNT];
    str_id kind;
    int rc = store_cstr(f->st, "thread", &kind);

    if (rc)
        return rc;
    if (*process && t->tid != OPM_NULL_I64)
        t->track = import_thread_track(f->src, &thread);
    if (t->track != OPM_NULL_ID)
        return 0;
    for (int i = 0; i < track_col_COUNT; i++)
        row[i] = cell_null();
    row[track_col_kind] = cell_str(kind);
    row[track_col_name] = cell_str(t->name);
    row[track_col_pid] = cell_i64(f->pid);
    row[track_col_process] = cell_str(f->process);
    row[track_col_tid] = cell_i64(t->tid);
    row[track_col_host] = cell_str(f->host);
    return store_add(f->st, TABLE_track, row, &t->track);
}

int defs_side_track(struct opm_file *f, struct def_site *site, const char *kind, uint32_t *out)
{
    struct cell row[track_col_COUNT];
    str_id kind_id, sampling;
    int rc = 0;

    if (site->track == OPM_NULL_ID) {
        rc = store_cstr(f->st, kind, &kind_id);
        if (rc == 0)
            rc = store_cstr(f->st, site->gauge ? "interval" : "change", &sampling);
        if (rc)
            return rc;
        for (int i = 0; i < track_col_COUNT; i++)
            row[i] = cell_null();
        row[track_col_kind] = cell_str(kind_id);
        row[track_col_name] = cell_str(site->name);
        row[track_col_pid] = cell_i64(site->gauge ? site->pid : f->pid);
        row[track_col_process] = cell_str(site->gauge ? site->process : f->process);
        row[track_col_host] = cell_str(f->host);
        row[track_col_unit] = cell_str(site->unit);
        row[track_col_device] = cell_str(site->device);
        row[track_col_capacity] = cell_i64(site->capacity);
        row[track_col_producer] = cell_str(site->producer);
        row[track_col_consumer] = cell_str(site->consumer);
        row[track_col_workers] = cell_i64(site->workers);
        if (site->role == ROLE_QUEUE || site->role == ROLE_COUNTER)
            row[track_col_sampling] = cell_str(sampling);
        rc = store_add(f->st, TABLE_track, row, &site->track);
    }
    *out = site->track;
    return rc;
}

static uint32_t op_of(const struct opm_file *f, uint32_t id)
{
    const struct def_site *site = id < ID_COUNT ? defs_site(f, id) : NULL;

    return site ? site->op : OPM_NULL_ID;
}

/* Spans of a thread that were measured elsewhere join those that it recorded itself. */
static int join_thread(struct opm_file *f, struct def_track *t, const char *process)
{
    struct def_thread alone = { .tid = t->tid, .track = OPM_NULL_ID };
    int rc;

    for (size_t i = 0; i < f->nthread; i++) {
        if (f->thread[i].tid == t->tid) {
            t->track = f->thread[i].track;
            return 0;
        }
    }
    for (const struct def_track *other = f->track; other < t; other++) {
        if (other->tid == t->tid && other->of_thread) {
            t->track = other->track;
            return 0;
        }
    }
    rc = thread_track(f, &alone, process);
    t->track = alone.track;
    return rc;
}

static int note_thread(struct opm_file *f, const char *process, int64_t tid, uint32_t track)
{
    struct import_thread thread = { process, f->header.session, tid };

    return tid == OPM_NULL_I64 ? 0 : import_thread_add(f->src, &thread, track);
}

/* For files that were recorded beside this one: the tracks from first_track on are new. */
static int note_threads(struct opm_file *f, const char *process, uint32_t first_track)
{
    int rc = 0;

    for (size_t i = 0; i < f->nthread && rc == 0 && *process; i++)
        if (f->thread[i].track >= first_track)
            rc = note_thread(f, process, f->thread[i].tid, f->thread[i].track);
    for (size_t i = 0; i < f->ntrack && rc == 0 && *process; i++)
        if (f->track[i].of_thread && f->track[i].track >= first_track)
            rc = note_thread(f, process, f->track[i].tid, f->track[i].track);
    return rc;
}

int defs_finish(struct opm_file *f)
{
    uint32_t first_track = (uint32_t)store_nrow(f->st, TABLE_track);
    char process[160];
    int rc = 0;

    process_name(f, process, sizeof(process));
    for (size_t i = 0; i < f->nop && rc == 0; i++)
        rc = store_add(f->st, TABLE_op, f->op[i].cell, NULL);
    for (size_t i = 0; i < f->nthread && rc == 0; i++)
        rc = thread_track(f, &f->thread[i], process);
    for (size_t i = 0; i < f->ntrack && rc == 0; i++) {
        if (f->track[i].of_thread)
            rc = join_thread(f, &f->track[i], process);
        if (rc == 0)
            rc = store_track_mixed(f->st, f->track[i].track);
    }
    if (rc == 0)
        rc = note_threads(f, process, first_track);
    for (size_t i = 0; i < f->nmem && rc == 0; i++) {
        const struct def_mem *m = &f->mem[i];
        struct cell row[mem_col_COUNT];

        row[mem_col_id] = cell_null();
        row[mem_col_owner] = cell_str(m->owner);
        row[mem_col_bytes] = cell_i64(known(m->bytes));
        row[mem_col_addr] = cell_i64(known(m->addr));
        row[mem_col_first_op] = cell_id(op_of(f, m->first_op));
        row[mem_col_last_op] = cell_id(op_of(f, m->last_op));
        row[mem_col_kind] = cell_str(m->kind);
        rc = store_add(f->st, TABLE_mem, row, NULL);
    }
    return rc;
}

int defs_init(struct opm_file *f)
{
    /* Mapped, not allocated: only the pages of ids that occur are ever touched. */
    f->id = mem_map(ID_COUNT * sizeof(*f->id));
    f->first_op = (uint32_t)store_nrow(f->st, TABLE_op);
    return f->id ? 0 : OPM_ENOMEM;
}

void defs_release(struct opm_file *f)
{
    if (f->id)
        mem_unmap(f->id, ID_COUNT * sizeof(*f->id));
    mem_free(f->site);
    mem_free(f->op);
    mem_free(f->string);
    mem_free(f->track);
    mem_free(f->thread);
    mem_free(f->mem);
    u64map_release(&f->thread_at);
}
