/* mindspore_kernels.c -- kernel_details.csv, which newer versions write: every kernel with its
 * time, and its tensors as lists. */
#include "import/mindspore/mindspore_int.h"

#include "base/alloc.h"
#include "base/csv_read.h"

#include <string.h>

#define COLUMNS_MAX 128
#define UNIX_NS ((int64_t)1000000000000000000)

enum kernel_column {
    COL_STEP,
    COL_NAME,
    COL_TYPE,
    COL_CORE,
    COL_START,
    COL_DUR,
    COL_IN_SHAPES,
    COL_IN_TYPES,
    COL_OUT_SHAPES,
    COL_OUT_TYPES,
    COL_COUNT,
};
static const char *const names[COL_COUNT] = {
    "Step Id",        "Name",
    "Type",           "Accelerator Core",
    "Start Time(us)", "Duration(us)",
    "Input Shapes",   "Input Data Types",
    "Output Shapes",  "Output Data Types",
};

struct kernels {
    struct ms *m;
    struct ms_device *d;
    struct csv_field f[COLUMNS_MAX];
    int n, at[COL_COUNT];
    int64_t step, step_from_ns, step_to_ns; /* of the rows so far; MS_NONE: no step */
};

static struct text cell_of(const struct kernels *k, enum kernel_column c)
{
    int i = k->at[c];
    struct text t = { "", 0 };

    if (i >= 0 && i < MIN(k->n, COLUMNS_MAX))
        t = text_trim((struct text){ k->f[i].p, k->f[i].len });
    return text_is(t, "N/A") ? (struct text){ "", 0 } : t;
}

/* The next of a list of texts between semicolons; quotes around it all are dropped. */
static struct text list_next(struct text *rest)
{
    const char *end;
    struct text one = *rest;

    while (one.len && one.p[0] == '"') {
        one.p++;
        one.len--;
    }
    end = one.len ? memchr(one.p, ';', one.len) : NULL;
    *rest = end ? (struct text){ end + 1, one.len - (size_t)(end + 1 - one.p) }
                : (struct text){ "", 0 };
    if (end)
        one.len = (size_t)(end - one.p);
    while (one.len && one.p[one.len - 1] == '"')
        one.len--;
    return text_trim(one);
}

static int tensors(struct kernels *k, uint32_t op, enum kernel_column shapes,
                   enum kernel_column types, str_id io)
{
    struct text shape = cell_of(k, shapes), type = cell_of(k, types);
    int rc = 0;

    for (int64_t slot = 0; rc == 0 && shape.len; slot++) {
        struct text s = list_next(&shape), t = list_next(&type);

        rc = ms_op_tensor(k->m, op, &(struct ms_tensor){ io, slot, t.p, s.p, t.len, s.len });
    }
    return rc;
}

static int step_done(struct kernels *k)
{
    struct ms_step s = { k->step, k->step_from_ns, k->step_to_ns, MS_NONE, MS_NONE, false };

    if (k->step == MS_NONE || k->d->has & 1u << MS_STEPS)
        return 0;
    return ms_step(k->m, k->d, &s);
}

static int step_see(struct kernels *k, int64_t ts, int64_t dur)
{
    int64_t num;
    int rc = 0;

    if (!text_decimal(cell_of(k, COL_STEP), 0, &num))
        return 0;
    if (num != k->step) {
        rc = step_done(k);
        k->step = num;
        k->step_from_ns = ts;
        k->step_to_ns = ts + dur;
    }
    k->step_from_ns = MIN(k->step_from_ns, ts);
    k->step_to_ns = MAX(k->step_to_ns, ts + dur);
    return rc;
}

static int kernel(struct kernels *k)
{
    struct ms *m = k->m;
    struct text name = cell_of(k, COL_NAME), type = cell_of(k, COL_TYPE),
                core = cell_of(k, COL_CORE);
    struct ms_span s = { .cat = m->w.op, .layer = m->w.hardware };
    str_id lane;
    int rc;

    if (!name.len || !ms_time(cell_of(k, COL_START), 3, &s.ts_ns) ||
        !ms_time(cell_of(k, COL_DUR), 3, &s.dur_ns)) {
        store_stat(m->st, STAT_bad_row, 1);
        return 0;
    }
    if (s.ts_ns > UNIX_NS)
        import_set_realtime(m->src, 0);
    if (!core.len)
        core = (struct text){ "kernels", strlen("kernels") };
    if (text_is(core, "HCCL") || text_is(core, "COMMUNICATION"))
        s.cat = m->w.collective;
    else if (text_is(core, "AI_CPU"))
        s.cat = m->w.aicpu;
    rc = ms_op_new(m, k->d, name.p, name.len, type.p, type.len, NULL, &s.op);
    if (!rc && s.op != OPM_NULL_ID)
        rc = tensors(k, s.op, COL_IN_SHAPES, COL_IN_TYPES, m->w.input);
    if (!rc && s.op != OPM_NULL_ID)
        rc = tensors(k, s.op, COL_OUT_SHAPES, COL_OUT_TYPES, m->w.output);
    if (!rc)
        rc = ms_op(m, k->d, name.p, name.len, &s.op);
    if (!rc)
        rc = store_str(m->st, name.p, name.len, &s.name);
    if (!rc)
        rc = store_str(m->st, core.p, core.len, &lane);
    if (!rc)
        rc = ms_track(m, k->d, MS_TRACK_PROCESS, lane, &s.track);
    if (!rc)
        rc = ms_span(m, k->d, &s);
    return rc ? rc : step_see(k, s.ts_ns, s.dur_ns);
}

int ms_read_kernel_details(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct csv_reader r = csv_read_of(data, len);
    struct kernels *k = mem_calloc(1, sizeof(*k));
    int rc = 0;

    if (!k)
        return OPM_ENOMEM;
    k->m = m;
    k->d = d;
    k->step = MS_NONE;
    k->n = csv_read_row(&r, k->f, COLUMNS_MAX);
    for (int c = 0; c < COL_COUNT; c++) {
        k->at[c] = -1;
        for (int i = 0; i < MIN(k->n, COLUMNS_MAX); i++)
            if (text_is(text_trim((struct text){ k->f[i].p, k->f[i].len }), names[c]))
                k->at[c] = i;
    }
    if (k->at[COL_NAME] < 0 || k->at[COL_START] < 0 || k->at[COL_DUR] < 0)
        store_stat(m->st, STAT_bad_row, 1);
    else
        while (rc == 0 && csv_read_next(&r, k->f, COLUMNS_MAX, &k->n))
            rc = kernel(k);
    if (!rc)
        rc = step_done(k);
    mem_free(k);
    return rc ? rc : ms_steps_end(m, d);
}
