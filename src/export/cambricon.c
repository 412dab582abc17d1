/* cambricon.c -- write the profile folder of Cambricon's TensorFlow models.
 *
 *     timeline/MODEL_step_N    step_stats/MODEL_step_N    summary.json    summary.md
 *
 * summary.json has app_stats.STEP.ACTIVITY.{duration, meta} and
 * op_stats.MODEL.STEP.HOST.DEVICE.NODE.{duration, output.SLOT.{shape, type}, total_bytes}, times in
 * microseconds. Activities are the spans of the application layer; several of one name in a step
 * add up (there: the last counted), and so do executions of an operator; activities outside of
 * steps have the step -1. Steps whose numbers are there twice are counted anew. A trace without
 * steps is one. Memory grows with steps and activities, not with other spans. */
#include "export/cambricon_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "export/summary.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_STEP (-1)

const char *cam_text(const struct cam *c, str_id id, size_t *out_len)
{
    if (out_len)
        *out_len = id ? strpool_len(store_strings(c->st), id) : 0;
    return id ? store_text(c->st, id) : "";
}

str_id cam_op_text(const struct cam *c, size_t op, int col)
{
    struct cell cell = store_cell(c->st, TABLE_op, op, col);

    return cell_text_id(cell);
}

void cam_range(const struct cam *c, const struct cam_step *s, size_t *first, size_t *end)
{
    if (s->row == OPM_NULL_ID) {
        *first = 0;
        *end = c->nspan;
    } else {
        store_span_range(c->st, s->ts, s->end, first, end);
    }
}

static int64_t step_int(const struct cam *c, size_t row, int col, int64_t otherwise)
{
    struct cell cell = store_cell(c->st, TABLE_step, row, col);

    return cell_i64_or(cell, otherwise);
}

void cam_member(const struct cam *c, str_id args, const char *key, int64_t *number,
                struct buf *text)
{
    struct json_reader r;

    if (!args)
        return;
    r = json_read_of(store_text(c->st, args), strpool_len(store_strings(c->st), args));
    if (json_read_next(&r) != JSON_OBJECT)
        return;
    while (json_read_next(&r) == JSON_KEY) {
        bool found = json_read_is(&r, key);
        const char *from;

        json_read_next(&r);
        from = r.token == JSON_OBJECT || r.token == JSON_ARRAY ? r.at - 1 : NULL;
        if (found && number && r.token == JSON_NUMBER)
            json_read_int(&r, number);
        else if (found && text && r.token == JSON_STRING)
            json_read_text(&r, text);
        else if (json_read_skip(&r) && found && text && from)
            buf_add(text, from, (size_t)(r.at - from));
    }
}

/* -- models and steps -- */

/* Letters, digits, dot, dash; anything else becomes _. Two models never share a name. */
static void file_name(struct cam *c, struct cam_model *m)
{
    size_t len;
    const char *text = cam_text(c, m->name, &len);

    for (size_t i = 0; i < MIN(len, (size_t)100); i++) {
        char ch = text[i];
        bool plain = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                     (ch >= '0' && ch <= '9') || ch == '-' || (ch == '.' && i);

        buf_addc(&m->file, plain ? ch : '_');
    }
    if (!m->file.len)
        buf_adds(&m->file, "model");
    for (size_t i = 0; i < c->nmodel; i++) {
        if (&c->model[i] != m && strcmp(buf_str(&c->model[i].file), buf_str(&m->file)) == 0) {
            buf_addf(&m->file, "_%zu", c->nmodel);
            break;
        }
    }
}

static int model_of(struct cam *c, str_id name, uint32_t *out)
{
    for (*out = 0; *out < c->nmodel; ++*out)
        if (c->model[*out].name == name)
            return 0;
    if (!GROW(c->model, c->model_cap, c->nmodel + 1))
        return OPM_ENOMEM;
    c->model[c->nmodel] = (struct cam_model){ .name = name };
    file_name(c, &c->model[c->nmodel++]);
    return c->model[*out].file.failed ? OPM_ENOMEM : 0;
}

static int by_model(const void *a, const void *b)
{
    const struct cam_step *x = a, *y = b;

    if (x->model != y->model)
        return x->model < y->model ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static uint64_t step_key(size_t model, int64_t num)
{
    return (uint64_t)num * 0x9e3779b97f4a7c15u ^ model;
}

/* Numbers that would collide are replaced by counting. */
static int number_steps(struct cam *c)
{
    struct u64map seen = { 0 };
    int rc = 0;

    for (size_t i = 0; i < c->nstep && !rc; i++) {
        uint64_t key = step_key(c->steps[i].model, c->steps[i].num);

        if (u64map_get(&seen, key))
            c->model[c->steps[i].model].renumber = true;
        else
            rc = u64map_put(&seen, key, i);
    }
    for (size_t i = 0; i < c->nstep; i++)
        if (c->model[c->steps[i].model].renumber)
            c->steps[i].num = c->model[c->steps[i].model].next++;
    u64map_release(&seen);
    return rc;
}

static int list_steps(struct cam *c)
{
    size_t n = store_nrow(c->st, TABLE_step);
    int rc = 0;

    if (!GROW(c->steps, c->step_cap, n + 1))
        return OPM_ENOMEM;
    for (size_t i = 0; i < n && !rc; i++) {
        struct cell name = store_cell(c->st, TABLE_step, i, step_col_model);
        struct cam_step *s = &c->steps[c->nstep];
        int64_t dur = step_int(c, i, step_col_dur, -1);

        *s = (struct cam_step){ .row = (uint32_t)i,
                                .num = step_int(c, i, step_col_num, (int64_t)i),
                                .ts = step_int(c, i, step_col_ts, 0) };
        s->end = dur < 0 ? INT64_MAX : s->ts + dur + 1;
        rc = model_of(c, cell_text_id(name), &s->model);
        c->nstep++;
    }
    if (!rc && !n) {
        c->steps[c->nstep++] = (struct cam_step){ .row = OPM_NULL_ID, .end = INT64_MAX };
        rc = model_of(c, 0, &c->steps[0].model);
    }
    if (!rc && c->nstep)
        qsort(c->steps, c->nstep, sizeof(*c->steps), by_model);
    return rc ? rc : number_steps(c);
}

/* -- operators of a step -- */

static int by_place(const void *a, const void *b)
{
    const struct cam_run *x = a, *y = b;

    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->span > y->span) - (x->span < y->span);
}

static int gather_runs(struct cam *c, const struct cam_step *s)
{
    size_t first, end;

    for (size_t i = 0; i < c->nrun; i++)
        c->run_of[c->run[i].op] = 0;
    c->nrun = 0;
    cam_range(c, s, &first, &end);
    for (size_t i = first; i < end; i++) {
        uint32_t op = c->site[c->span_site[i]].op;

        if (!cam_is_op(c, i) || !cam_in_step(c, s, i))
            continue;
        if (!c->run_of[op]) {
            struct cell host = cell_null();

            if (!GROW(c->run, c->run_cap, c->nrun + 1))
                return OPM_ENOMEM;
            if (c->track && c->track[i] < store_nrow(c->st, TABLE_track))
                host = store_cell(c->st, TABLE_track, c->track[i], track_col_host);
            c->run[c->nrun] = (struct cam_run){ .op = op,
                                                .span = (uint32_t)i,
                                                .host = cell_text_id(host),
                                                .device = cam_op_text(c, op, op_col_device) };
            c->run_of[op] = (uint32_t)++c->nrun;
        }
        c->run[c->run_of[op] - 1].dur_ns += MAX(c->dur[i], 0);
    }
    if (c->nrun)
        qsort(c->run, c->nrun, sizeof(*c->run), by_place);
    return 0;
}

static const char *type_name(const char *dtype)
{
    static const struct {
        const char *ours, *theirs;
    } names[] = { { "fp32", "Float" },    { "fp64", "Double" },   { "fp16", "Half" },
                  { "bf16", "BFloat16" }, { "int8", "Int8" },     { "int16", "Int16" },
                  { "int32", "Int32" },   { "int64", "Int64" },   { "uint8", "UInt8" },
                  { "uint16", "UInt16" }, { "uint32", "UInt32" }, { "uint64", "UInt64" },
                  { "bool", "Bool" },     { "string", "String" } };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i].ours, dtype) == 0)
            return names[i].theirs;
    return dtype;
}

/* given: bytes that the source states for the execution, else what the outputs take. */
static void put_outputs(struct cam *c, struct json_writer *w, uint32_t op, int64_t given)
{
    const uint32_t *row;
    size_t n = op_tensors_get(&c->tensors, op, &row);
    int64_t bytes = 0, slot = 0;
    bool known = false;

    json_key(w, "output");
    json_object(w);
    for (size_t i = 0; i < n; i++) {
        const char *shape = op_tensors_text(&c->tensors, row[i], op_tensor_col_shape, NULL);
        const char *dtype = op_tensors_text(&c->tensors, row[i], op_tensor_col_dtype, NULL);
        struct cell b = store_cell(c->st, TABLE_op_tensor, row[i], op_tensor_col_bytes);
        char key[24];

        if (c->tensors.io[row[i]] != TENSOR_OUTPUT)
            continue;
        if (b.kind == CELL_I64) {
            bytes += b.i64;
            known = true;
        }
        snprintf(key, sizeof(key), "%" PRId64, slot++);
        json_key(w, key);
        json_object(w);
        if (shape) {
            json_key(w, "shape");
            json_array(w);
            while (*shape >= '0' && *shape <= '9') {
                char *end;

                json_i64(w, strtoll(shape, &end, 10));
                shape = end + (*end == 'x');
            }
            json_array_end(w);
        }
        if (dtype) {
            json_key(w, "type");
            json_cstr(w, type_name(dtype));
        }
        json_object_end(w);
    }
    json_object_end(w);
    if (known || given >= 0) {
        json_key(w, "total_bytes");
        json_i64(w, given >= 0 ? given : bytes);
    }
}

/* A key that is not NUL-terminated text of the pool; writers of JSON want it so. */
static void put_key(struct cam *c, struct json_writer *w, str_id id, const char *otherwise)
{
    json_key(w, id && *store_text(c->st, id) ? store_text(c->st, id) : otherwise);
}

static int put_nodes(struct cam *c, struct json_writer *w)
{
    struct u64map names = { 0 };
    char key[600];
    int rc = 0;

    for (size_t i = 0; i < c->nrun && !rc; i++) {
        const struct cam_run *r = &c->run[i];
        bool host = !i || r->host != r[-1].host, device = host || r->device != r[-1].device;
        str_id name = cam_op_text(c, r->op, op_col_name);
        int64_t bytes = -1;

        if (i && device)
            json_object_end(w);
        if (i && host)
            json_object_end(w);
        if (host) {
            put_key(c, w, r->host, "localhost");
            json_object(w);
        }
        if (device) {
            put_key(c, w, r->device, "CPU");
            json_object(w);
            u64map_release(&names);
        }
        json_newline(w);
        if (u64map_get(&names, name)) { /* a second one of that name keeps its own figures */
            snprintf(key, sizeof(key), "%.500s (op %u)", cam_text(c, name, NULL), r->op);
            json_key(w, key);
        } else {
            rc = u64map_put(&names, name, 1);
            put_key(c, w, name, "");
        }
        json_object(w);
        json_key(w, "duration");
        json_f64(w, (double)r->dur_ns / 1000);
        cam_member(c, c->args ? c->args[r->span] : 0, "memory_bytes", &bytes, NULL);
        put_outputs(c, w, r->op, bytes);
        json_object_end(w);
    }
    if (c->nrun) {
        json_object_end(w);
        json_object_end(w);
    }
    u64map_release(&names);
    return rc;
}

/* op_stats, and on the way the files of every step. */
static int put_op_stats(struct cam *c, struct json_writer *w, const char *folder, opm_error *err)
{
    int rc = 0;

    json_key(w, "op_stats");
    json_object(w);
    for (size_t i = 0; i < c->nstep && !rc; i++) {
        const struct cam_step *s = &c->steps[i];
        char key[24];

        rc = gather_runs(c, s);
        if (rc)
            return opm__fail(err, rc, "%s: out of memory", folder);
        if (!i || s->model != s[-1].model) {
            if (i)
                json_object_end(w);
            put_key(c, w, c->model[s->model].name, "model");
            json_object(w);
        }
        json_newline(w);
        snprintf(key, sizeof(key), "%" PRId64, s->num);
        json_key(w, key);
        json_object(w);
        if (put_nodes(c, w) < 0)
            return opm__fail(err, OPM_ENOMEM, "%s: out of memory", folder);
        json_object_end(w);
        rc = cam_write_step(c, s, folder, err);
    }
    if (c->nstep)
        json_object_end(w);
    json_object_end(w);
    return rc;
}

/* -- activities -- */

struct activity {
    int64_t step;
    str_id name;
    uint32_t span; /* the first of them */
    int64_t dur_ns;
    str_id args;
};

static int by_step(const void *a, const void *b)
{
    const struct activity *x = a, *y = b;

    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return (x->span > y->span) - (x->span < y->span);
}

/* The number under which op_stats has the step of that row. */
static int64_t *step_numbers(const struct cam *c)
{
    int64_t *num = mem_calloc(store_nrow(c->st, TABLE_step) + 1, sizeof(*num));

    for (size_t i = 0; num && i < c->nstep; i++)
        if (c->steps[i].row != OPM_NULL_ID)
            num[c->steps[i].row] = c->steps[i].num;
    return num;
}

static int list_activities(struct cam *c, struct activity **out, size_t *out_n)
{
    int64_t *num = step_numbers(c);
    size_t nstep = store_nrow(c->st, TABLE_step), n = 0, cap = 0;
    int rc = num ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < c->nspan && !rc; i++) {
        const struct site *site = &c->site[c->span_site[i]];
        struct activity a = { .step = NO_STEP, .name = site->name, .span = (uint32_t)i };

        if (!site->layer || site->layer != c->app || c->dur[i] < 0)
            continue;
        a.dur_ns = c->dur[i];
        a.args = c->args ? c->args[i] : 0;
        if (c->step && c->step[i] < nstep)
            a.step = num[c->step[i]];
        else
            cam_member(c, a.args, "step", &a.step, NULL);
        if (!GROW(*out, cap, n + 1))
            rc = OPM_ENOMEM;
        else
            (*out)[n++] = a;
    }
    mem_free(num);
    if (n)
        qsort(*out, n, sizeof(**out), by_step);
    *out_n = n;
    return rc;
}

/* Whether an activity lies in another one of the same name, whose time has it already. */
static bool is_inside(const struct cam *c, const struct activity *a)
{
    for (uint32_t at = c->parent ? c->parent[a->span] : OPM_NULL_ID; at != OPM_NULL_ID;
         at = c->parent[at]) {
        const struct site *site = &c->site[c->span_site[at]];

        if (site->name == a->name && site->layer == c->app &&
            (!c->step || c->step[at] == c->step[a->span]))
            return true;
    }
    return false;
}

static int put_app_stats(struct cam *c, struct json_writer *w)
{
    struct activity *a = NULL;
    struct buf meta = { 0 };
    size_t n = 0;
    int rc = list_activities(c, &a, &n);

    json_key(w, "app_stats");
    json_object(w);
    for (size_t i = 0, next; i < n && !rc; i = next) {
        int64_t sum = 0;
        char key[24];

        if (!i || a[i].step != a[i - 1].step) {
            if (i)
                json_object_end(w);
            json_newline(w);
            snprintf(key, sizeof(key), "%" PRId64, a[i].step);
            json_key(w, key);
            json_object(w);
        }
        for (next = i; next < n && a[next].step == a[i].step && a[next].name == a[i].name; next++)
            if (!is_inside(c, &a[next]))
                sum += a[next].dur_ns;
        put_key(c, w, a[i].name, "");
        json_object(w);
        json_key(w, "duration");
        json_f64(w, (double)sum / 1000);
        buf_clear(&meta);
        cam_member(c, a[i].args, "meta", NULL, &meta);
        json_key(w, "meta");
        json_str(w, buf_str(&meta), meta.len);
        json_object_end(w);
        rc = meta.failed ? OPM_ENOMEM : 0;
    }
    if (n)
        json_object_end(w);
    json_object_end(w);
    mem_free(a);
    buf_release(&meta);
    return rc;
}

/* -- the folder -- */

static int64_t meta_int(const struct store *st, const char *key)
{
    const char *text = store_meta_get(st, key);

    return text ? strtoll(text, NULL, 10) : 0;
}

static int load(struct cam *c)
{
    const struct {
        int col;
        const void **to;
    } columns[] = {
        { span_col_ts, (const void **)&c->ts },         { span_col_dur, (const void **)&c->dur },
        { span_col_track, (const void **)&c->track },   { span_col_step, (const void **)&c->step },
        { span_col_parent, (const void **)&c->parent }, { span_col_args, (const void **)&c->args }
    };
    size_t nsite;
    int rc = op_tensors_init(&c->tensors, c->st);

    c->nspan = store_nrow(c->st, TABLE_span);
    c->nop = store_nrow(c->st, TABLE_op);
    for (size_t i = 0; i < ARRAY_SIZE(columns) && !rc; i++) {
        const void *data = NULL;

        rc = store_column(c->st, TABLE_span, columns[i].col, &data);
        *columns[i].to = data;
    }
    c->span_site = store_span_site(c->st);
    c->site = store_sites(c->st, &nsite);
    c->forward = strpool_find(store_strings(c->st), "forward", 7);
    c->app = strpool_find(store_strings(c->st), "app", 3);
    c->origin_ns = meta_int(c->st, "clock.start_realtime_ns") + meta_int(c->st, "trace.start_ns");
    c->run_of = mem_calloc(c->nop + 1, sizeof(*c->run_of));
    if (!rc && !c->run_of)
        rc = OPM_ENOMEM;
    return rc ? rc : list_steps(c);
}

static int make_folders(const char *folder, opm_error *err)
{
    static const char *const names[] = { "timeline", "step_stats" };
    struct buf path = { 0 };
    int rc = folder_make(folder, err);

    for (size_t i = 0; i < ARRAY_SIZE(names) && !rc; i++) {
        buf_clear(&path);
        buf_addf(&path, "%s/%s", folder, names[i]);
        rc = path.failed ? opm__fail(err, OPM_ENOMEM, "%s: out of memory", folder)
                         : folder_make(buf_str(&path), err);
    }
    buf_release(&path);
    return rc;
}

/* Whether the file is one of a step of a model of ours that the trace does not have. */
static bool is_left_over(const struct cam *c, const struct u64map *ours, const char *name)
{
    size_t len = strlen(name), n = len, tail = strlen("_step_");
    int64_t num;

    while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    if (n == len || len - n > 18 || n <= tail || memcmp(name + n - tail, "_step_", tail) != 0)
        return false;
    num = strtoll(name + n, NULL, 10);
    for (size_t i = 0; i < c->nmodel; i++) {
        if (c->model[i].file.len == n - tail && memcmp(c->model[i].file.data, name, n - tail) == 0)
            return !u64map_get(ours, step_key(i, num));
    }
    return false;
}

/* An earlier run with more steps wrote here: its last ones would be taken for steps of this one. */
static int remove_left_over(const struct cam *c, const char *folder, opm_error *err)
{
    static const char *const names[] = { "timeline", "step_stats" };
    struct u64map ours = { 0 };
    struct buf path = { 0 };
    int rc = 0;

    for (size_t i = 0; i < c->nstep && !rc; i++)
        rc = u64map_put(&ours, step_key(c->steps[i].model, c->steps[i].num), 1);
    for (size_t i = 0; i < ARRAY_SIZE(names) && !rc; i++) {
        struct dirent *e;
        DIR *d;

        buf_clear(&path);
        buf_addf(&path, "%s/%s", folder, names[i]);
        d = path.failed ? NULL : opendir(buf_str(&path));
        for (e = d ? readdir(d) : NULL; e && !rc; e = readdir(d))
            if (is_left_over(c, &ours, e->d_name) && unlinkat(dirfd(d), e->d_name, 0) < 0)
                rc = opm__fail(err, OPM_EIO, "%s/%s: %s", buf_str(&path), e->d_name,
                               strerror(errno));
        if (d)
            closedir(d);
    }
    u64map_release(&ours);
    buf_release(&path);
    return rc == OPM_ENOMEM ? opm__fail(err, rc, "%s: out of memory", folder) : rc;
}

static int write_json(struct cam *c, const char *folder, const char *path, opm_error *err)
{
    struct io_out out;
    struct json_writer w = { .out = &out };
    int rc = io_out_open(&out, path, err);

    if (rc)
        return rc;
    json_object(&w);
    writer_recording_member(c->st, &w);
    rc = put_app_stats(c, &w);
    if (rc) {
        return writer_close(&out, rc, path, err);
    }
    json_newline(&w);
    rc = put_op_stats(c, &w, folder, err);
    json_object_end(&w);
    io_out_adds(&out, "\n");
    if (rc) { /* err says what */
        io_out_close(&out, false, NULL);
        return rc;
    }
    rc = writer_progress(c->opts, &out, c->nstep, c->nstep);
    return writer_close(&out, rc, path, err);
}

static void release(struct cam *c)
{
    for (size_t i = 0; i < c->nmodel; i++)
        buf_release(&c->model[i].file);
    op_tensors_release(&c->tensors);
    mem_free(c->model);
    mem_free(c->steps);
    mem_free(c->run);
    mem_free(c->run_of);
}

int export_cambricon(const struct store *st, const char *path, const struct export_options *opts,
                     opm_error *err)
{
    struct cam c = { .st = st, .opts = opts };
    struct buf file = { 0 };
    int rc;

    if (strcmp(path, "-") == 0)
        return opm__fail(err, OPM_EINVAL, "cambricon: this is a folder; name one");
    rc = load(&c);
    if (rc)
        opm__fail(err, rc, "%s: out of memory", path);
    if (!rc)
        rc = make_folders(path, err);
    if (!rc) {
        buf_addf(&file, "%s/summary.json", path);
        rc = file.failed ? opm__fail(err, OPM_ENOMEM, "%s: out of memory", path)
                         : write_json(&c, path, buf_str(&file), err);
    }
    if (!rc)
        rc = remove_left_over(&c, path, err);
    if (!rc) {
        buf_clear(&file);
        buf_addf(&file, "%s/summary.md", path);
        rc = summary_write_md(st, buf_str(&file), opts, err);
    }
    buf_release(&file);
    release(&c);
    return rc;
}
