/* furiosa_csv.c -- write spans as the CSV behind the Furiosa SDK's DataFrame.
 *
 * A span that came from such a file has its ids and indexes in args and gets them back. Any other
 * gets ids made of its row number, and of the recording's id if it has one, so that rows of two
 * runs are told apart: the parent is the span around it; a step, and what is outside of all steps
 * under one root, has a trace id of its own, which all inside share. What runs on hardware is of
 * category NPU, with an element index per line and, for operators, an instruction index; the rest
 * is Runtime, with an operator index where it executes one: what prepares it (reshape, launch) has
 * none. Steps are called Inference, which is what the SDK's reports count. Times are ns since 1970
 * as far as the trace knows them. */
#include "export/export.h"

#include "base/alloc.h"
#include "base/csv_write.h"
#include "base/error.h"
#include "base/json_read.h"
#include "export/timeline.h"
#include "export/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum field {
    F_TRACE,
    F_PARENT,
    F_SPAN,
    F_THREAD,
    F_DRAM,
    F_PE,
    F_EXECUTION,
    F_INSTRUCTION,
    F_OPERATOR,
    F_COUNT
};

static const char *const field_names[F_COUNT] = {
    "trace_id", "parent_span_id",  "span_id",           "thread.id",      "dram_base",
    "pe_index", "execution_index", "instruction_index", "operator_index",
};

struct furiosa {
    const struct store *st;
    struct io_out out;
    size_t nspan;
    const int64_t *ts, *dur;
    const uint32_t *track, *parent, *step;
    const str_id *args;
    const uint32_t *span_site;
    const struct site *site;
    uint32_t *root;    /* [nspan] */
    uint32_t *element; /* [track] number among those with hardware on them */
    uint32_t nelement;
    size_t ntrack;
    str_id hardware, cat_step, npu, nux, runtime, forward;
    int64_t origin_ns, last_ns;
    uint64_t run; /* of the trace ids; 0: not known */
    struct buf field[F_COUNT];
};

static int64_t meta_int(const struct store *st, const char *key)
{
    const char *text = store_meta_get(st, key);

    return text ? strtoll(text, NULL, 10) : 0;
}

static int load(struct furiosa *f)
{
    const struct {
        int col;
        const void **to;
    } columns[] = { { span_col_ts, (const void **)&f->ts },
                    { span_col_dur, (const void **)&f->dur },
                    { span_col_track, (const void **)&f->track },
                    { span_col_parent, (const void **)&f->parent },
                    { span_col_step, (const void **)&f->step },
                    { span_col_args, (const void **)&f->args } };
    const struct strpool *strings = store_strings(f->st);
    char recording[WRITER_ID_ROOM];
    size_t nsite;
    int rc = 0;

    f->nspan = store_nrow(f->st, TABLE_span);
    f->ntrack = store_nrow(f->st, TABLE_track);
    for (size_t i = 0; i < ARRAY_SIZE(columns) && !rc; i++) {
        const void *data = NULL;

        rc = store_column(f->st, TABLE_span, columns[i].col, &data);
        *columns[i].to = data;
    }
    f->span_site = store_span_site(f->st);
    f->site = store_sites(f->st, &nsite);
    f->root = mem_map((f->nspan + 1) * sizeof(*f->root));
    f->element = mem_alloc((f->ntrack + 1) * sizeof(*f->element));
    if (!f->root || !f->element)
        return OPM_ENOMEM;
    memset(f->element, 0xff, (f->ntrack + 1) * sizeof(*f->element));
    f->hardware = strpool_find(strings, "hardware", 8);
    f->cat_step = strpool_find(strings, "step", 4);
    f->npu = strpool_find(strings, "NPU", 3);
    f->forward = strpool_find(strings, "forward", 7);
    f->nux = strpool_find(strings, "Nux", 3);
    f->runtime = strpool_find(strings, "Runtime", 7);
    if (writer_recording(f->st, recording)) {
        recording[16] = '\0';
        f->run = strtoull(recording, NULL, 16);
    }
    f->origin_ns = meta_int(f->st, "clock.start_realtime_ns") + meta_int(f->st, "trace.start_ns");
    for (size_t i = 0; i < f->nspan && !rc; i++)
        f->last_ns = MAX(f->last_ns, f->ts[i] + MAX(f->dur[i], 0));
    return rc;
}

/* What args say, as texts in f->field; only objects that came from such a file have a span_id. */
static void read_args(struct furiosa *f, size_t i)
{
    const char *text = f->args && f->args[i] ? store_text(f->st, f->args[i]) : NULL;
    struct json_reader r;

    for (int k = 0; k < F_COUNT; k++)
        buf_clear(&f->field[k]);
    if (!text || !strstr(text, "\"span_id\""))
        return;
    r = json_read_of(text, strpool_len(store_strings(f->st), f->args[i]));
    if (json_read_next(&r) != JSON_OBJECT)
        return;
    while (json_read_next(&r) == JSON_KEY) {
        int k = 0;

        while (k < F_COUNT && !json_read_is(&r, field_names[k]))
            k++;
        json_read_next(&r);
        if (k < F_COUNT && r.token == JSON_STRING)
            json_read_text(&r, &f->field[k]);
        else if (k < F_COUNT && r.token == JSON_NUMBER)
            buf_add(&f->field[k], r.text, r.len);
        else
            json_read_skip(&r);
    }
}

static uint32_t element_of(struct furiosa *f, uint32_t track)
{
    uint32_t *e = &f->element[track < f->ntrack ? track : f->ntrack];

    if (*e == UINT32_MAX)
        *e = f->nelement++;
    return *e;
}

/* A positive number, for those who have no other. */
static uint64_t span_id(const struct furiosa *f, size_t i)
{
    return (f->run >> 32 & 0x7fffffff) << 32 | ((uint64_t)i + 1);
}

/* Ids and indexes of a span that has none. */
static void make_fields(struct furiosa *f, size_t i, const struct site *site)
{
    uint32_t parent = f->parent ? f->parent[i] : OPM_NULL_ID;
    uint32_t track = f->track ? f->track[i] : OPM_NULL_ID;
    bool npu = site->layer && site->layer == f->hardware;

    buf_addf(&f->field[F_TRACE], "%016" PRIx64 "%016" PRIx64, f->run, (uint64_t)f->root[i] + 1);
    buf_addf(&f->field[F_PARENT], "%016" PRIx64, parent < f->nspan ? span_id(f, parent) : 0);
    buf_addf(&f->field[F_SPAN], "%016" PRIx64, span_id(f, i));
    if (npu) {
        buf_addf(&f->field[F_PE], "%u", element_of(f, track));
        if (f->step && f->step[i] != OPM_NULL_ID)
            buf_addf(&f->field[F_EXECUTION], "%u", f->step[i]);
        if (site->op != OPM_NULL_ID)
            buf_addf(&f->field[F_INSTRUCTION], "%u", site->op);
    } else if (site->op != OPM_NULL_ID && (!site->phase || site->phase == f->forward)) {
        buf_addf(&f->field[F_OPERATOR], "%u", site->op);
    }
    if (track < f->ntrack) {
        struct cell tid = store_cell(f->st, TABLE_track, track, track_col_tid);

        if (tid.kind == CELL_I64)
            buf_addf(&f->field[F_THREAD], "%" PRId64, tid.i64);
    }
}

static void put_field(struct furiosa *f, enum field k, char before)
{
    io_out_add(&f->out, &before, 1);
    if (f->field[k].len)
        csv_put(&f->out, buf_str(&f->field[k]), f->field[k].len, CSV_MARK);
}

static void put_span(struct furiosa *f, size_t i)
{
    const struct site *site = &f->site[f->span_site[i]];
    const struct strpool *strings = store_strings(f->st);
    uint32_t parent = f->parent ? f->parent[i] : OPM_NULL_ID;
    int64_t start = f->origin_ns + f->ts[i];
    int64_t end = f->dur[i] < 0 ? f->origin_ns + f->last_ns : start + f->dur[i];
    char text[2 * TEXT_DIGITS + 8], *p = text;

    f->root[i] =
        parent < i && !(site->cat && site->cat == f->cat_step) ? f->root[parent] : (uint32_t)i;
    read_args(f, i);
    if (!f->field[F_SPAN].len)
        make_fields(f, i, site);
    csv_put(&f->out, buf_str(&f->field[F_TRACE]), f->field[F_TRACE].len, CSV_MARK);
    put_field(f, F_PARENT, ',');
    put_field(f, F_SPAN, ',');
    *p++ = ',';
    p = text_put_i64(p, start);
    *p++ = ',';
    p = text_put_i64(p, end);
    *p++ = ',';
    io_out_add(&f->out, text, (size_t)(p - text));
    if (site->cat && (site->cat == f->npu || site->cat == f->nux || site->cat == f->runtime))
        io_out_adds(&f->out, store_text(f->st, site->cat));
    else
        io_out_adds(&f->out, site->layer && site->layer == f->hardware ? "NPU" : "Runtime");
    io_out_add(&f->out, ",", 1);
    if (site->cat && site->cat == f->cat_step) /* one that never ended is not to be counted */
        io_out_adds(&f->out, f->dur[i] < 0 ? "Inference (unfinished)" : "Inference");
    else
        csv_put(&f->out, site->name ? strpool_get(strings, site->name) : "",
                strpool_len(strings, site->name), CSV_MARK);
    for (int k = F_THREAD; k < F_COUNT; k++)
        put_field(f, (enum field)k, ',');
    io_out_add(&f->out, "\n", 1);
}

static int put_all(struct furiosa *f, const struct export_options *opts)
{
    int rc = 0;

    io_out_adds(&f->out, "trace_id,parent_span_id,span_id,start,end,cat,name,thread.id,dram_base,"
                         "pe_index,execution_index,instruction_index,operator_index\n");
    for (size_t i = 0; i < f->nspan && !rc; i++) {
        if (i % TIMELINE_PROGRESS_SPANS == 0)
            rc = writer_progress(opts, &f->out, i, f->nspan);
        if (!rc)
            put_span(f, i);
    }
    for (int k = 0; k < F_COUNT; k++)
        if (f->field[k].failed && !rc)
            rc = OPM_ENOMEM;
    return rc ? rc : writer_progress(opts, &f->out, f->nspan, f->nspan);
}

int export_furiosa_csv(const struct store *st, const char *path, const struct export_options *opts,
                       opm_error *err)
{
    struct furiosa f = { .st = st };
    int rc = load(&f);

    if (rc)
        opm__fail(err, rc, "%s: out of memory", path);
    else
        rc = io_out_open(&f.out, path, err);
    if (!rc) {
        rc = put_all(&f, opts);
        rc = writer_close(&f.out, rc, path, err);
    }
    if (f.root)
        mem_unmap(f.root, (f.nspan + 1) * sizeof(*f.root));
    mem_free(f.element);
    for (int k = 0; k < F_COUNT; k++)
        buf_release(&f.field[k]);
    return rc;
}
