/* openvino.c -- the counters reports of OpenVINO's benchmark_app, average or detailed:
 *
 *   layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms);
 *   conv1;EXECUTED;Convolution;jit_avx2_FP32;0.125;0.125;
 *   Total;;;;0.125;0.125;
 *
 * A detailed report has such a table for every inference. There are durations and no times: what
 * was executed is laid end to end in the order of the file. */
#include "import/common/build.h"

#include "base/error.h"
#include "base/json_write.h"
#include "base/u64map.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define COLUMNS_MAX 32

enum field { C_NAME, C_STATUS, C_TYPE, C_EXEC, C_REAL, C_CPU, C_COUNT };

static const char *const column_names[C_COUNT] = { "layername", "execstatus", "layertype",
                                                   "exectype",  "realtime",   "cputime" };

struct cells {
    struct {
        const char *p;
        size_t len;
    } at[COLUMNS_MAX];
    size_t n;
};

struct reader {
    struct build b;
    int column[C_COUNT]; /* where each is; -1: nowhere */
    int scale[C_COUNT];  /* of times: digits from their unit to ns */
    bool header;         /* one was seen */
    struct u64map op;    /* name and type -> row */
    uint32_t track;
    int64_t end_ns, step_ns;
    int64_t steps;
    int64_t rows; /* of this step */
};

static struct cells split(const char *p, size_t len)
{
    struct cells c = { .n = 0 };
    const char *end = p + len;

    for (;;) {
        const char *stop = memchr(p, ';', (size_t)(end - p));
        const char *from = p, *to = stop ? stop : end;

        while (from < to && isspace((unsigned char)*from))
            from++;
        while (to > from && isspace((unsigned char)to[-1]))
            to--;
        if (to - from >= 2 && *from == '"' && to[-1] == '"') {
            from++;
            to--;
        }
        if (c.n < COLUMNS_MAX) {
            c.at[c.n].p = from;
            c.at[c.n++].len = (size_t)(to - from);
        }
        if (!stop)
            return c;
        p = stop + 1;
    }
}

static bool is_header(const char *p, size_t len)
{
    static const char begin[] = "layername;";

    return len >= strlen(begin) && strncasecmp(p, begin, strlen(begin)) == 0;
}

bool openvino_sniff(const uint8_t *head, size_t len)
{
    const char *p = (const char *)head, *end = p + len;

    if (len >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));

        if (is_header(p, (size_t)(end - p)))
            return true;
        if (!stop)
            break;
        p = stop + 1;
    }
    return false;
}

/* "realTime (ms)": which column it is, and its unit. */
static void header_read(struct reader *r, const struct cells *c)
{
    r->header = true;
    for (int k = 0; k < C_COUNT; k++) {
        r->column[k] = -1;
        r->scale[k] = 6;
        for (size_t i = 0; i < c->n; i++) {
            size_t n = strlen(column_names[k]);

            if (c->at[i].len < n || strncasecmp(c->at[i].p, column_names[k], n) != 0)
                continue;
            r->column[k] = (int)i;
            if (memmem(c->at[i].p, c->at[i].len, "mcs", 3) ||
                memmem(c->at[i].p, c->at[i].len, "us)", 3))
                r->scale[k] = 3;
        }
    }
}

/* The cell of a column; empty if the row has none. */
static const char *cell(const struct reader *r, const struct cells *c, enum field k, size_t *len)
{
    int i = r->column[k];

    *len = i >= 0 && (size_t)i < c->n ? c->at[i].len : 0;
    return *len ? c->at[i].p : "";
}

static str_id cell_text(struct reader *r, const struct cells *c, enum field k)
{
    size_t len;
    const char *p = cell(r, c, k, &len);

    return len ? build_str(&r->b, p, len) : 0;
}

static int64_t cell_ns(const struct reader *r, const struct cells *c, enum field k)
{
    size_t len;
    const char *p = cell(r, c, k, &len);
    int64_t ns;

    return decimal_scaled(p, len, r->scale[k], &ns) ? ns : OPM_NULL_I64;
}

static uint32_t op_of(struct reader *r, const struct cells *c, str_id name)
{
    str_id type = cell_text(r, c, C_TYPE), exec = cell_text(r, c, C_EXEC);
    uint64_t key = (uint64_t)name << 32 | type;
    const uint64_t *at = u64map_get(&r->op, key);
    struct op_row row = OP_ROW_INIT;
    struct buf text = { 0 };
    struct json_writer w = { .buf = &text };
    uint32_t op;

    if (at || r->b.rc)
        return at ? (uint32_t)*at : OPM_NULL_ID;
    row.name = name;
    row.type = type;
    row.engine = build_cstr(&r->b, "OpenVINO");
    if (exec) {
        json_object(&w);
        json_key(&w, "exec_type");
        json_cstr(&w, store_text(r->b.st, exec));
        json_object_end(&w);
        row.attributes = build_buf(&r->b, &text);
    }
    op = build_op(&r->b, &row);
    if (!r->b.rc && u64map_put(&r->op, key, op))
        r->b.rc = OPM_ENOMEM;
    buf_release(&text);
    return op;
}

/* The table of an inference is over. */
static void step_end(struct reader *r)
{
    if (r->rows)
        build_step(&r->b, &(struct step_row){ .num = r->steps++,
                                              .ts_ns = r->step_ns,
                                              .dur_ns = r->end_ns - r->step_ns,
                                              .track = r->track });
    r->rows = 0;
    r->step_ns = r->end_ns;
}

static void total_read(struct reader *r, const struct cells *c)
{
    int64_t ns = cell_ns(r, c, C_REAL);
    char text[32];

    if (ns != OPM_NULL_I64) {
        snprintf(text, sizeof(text), "%lld", (long long)ns);
        build_meta(&r->b, "openvino.total_real_ns", text);
    }
}

static bool executed(const struct reader *r, const struct cells *c)
{
    size_t len;
    const char *p = cell(r, c, C_STATUS, &len);

    return !len || memmem(p, len, "EXECUTED", 8) != NULL;
}

static void row_read(struct reader *r, const struct cells *c)
{
    struct span_row row = SPAN_ROW_INIT;
    struct buf args = { 0 };
    struct json_writer w = { .buf = &args };
    int64_t real = cell_ns(r, c, C_REAL), cpu = cell_ns(r, c, C_CPU), end_ns;
    str_id name = cell_text(r, c, C_NAME);
    uint32_t op;

    if (!name || r->b.rc)
        return;
    if (strcasecmp(store_text(r->b.st, name), "total") == 0) {
        total_read(r, c);
        return;
    }
    if (real == OPM_NULL_I64) {
        store_stat(r->b.st, STAT_line_damaged, 1);
        return;
    }
    op = op_of(r, c, name);
    r->rows++;
    if (!executed(r, c)) {
        store_stat(r->b.st, STAT_not_executed, 1);
        return;
    }
    if (cpu != OPM_NULL_I64) {
        json_object(&w);
        json_key(&w, "cpu_ns");
        json_i64(&w, cpu);
        json_object_end(&w);
    }
    row.ts_ns = r->end_ns;
    row.dur_ns = real < 0 ? -2 : real;
    row.track = r->track;
    row.site = build_site(&r->b, name, cell_text(r, c, C_TYPE), "framework", op);
    row.args = build_buf(&r->b, &args);
    build_span(&r->b, &row);
    store_stat(r->b.st, STAT_time_made_up, 1);
    if (real > 0 && __builtin_add_overflow(r->end_ns, real, &end_ns))
        r->b.rc = OPM_EFORMAT;
    else if (real > 0)
        r->end_ns = end_ns;
    buf_release(&args);
}

static void line_read(struct reader *r, const char *p, size_t len)
{
    struct cells c;

    while (len && isspace((unsigned char)p[len - 1]))
        len--;
    if (is_header(p, len)) {
        step_end(r);
        c = split(p, len);
        header_read(r, &c);
        return;
    }
    if (!len || !r->header)
        return; /* between tables, or what stands above the first */
    c = split(p, len);
    if (c.n < 3)
        store_stat(r->b.st, STAT_line_damaged, 1);
    else
        row_read(r, &c);
}

int openvino_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct reader r = { .b = { .st = st, .src = src } };
    const char *p = (const char *)src->data, *end = p + src->len;
    struct track_row track = TRACK_ROW_INIT;

    if (src->len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    track.kind = "thread";
    track.name = build_cstr(&r.b, "layers, end to end");
    track.process = build_cstr(&r.b, "OpenVINO");
    r.track = build_track(&r.b, &track);
    while (p < end && !r.b.rc) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));

        stop = stop ? stop : end;
        line_read(&r, p, (size_t)(stop - p));
        p = stop + 1;
    }
    step_end(&r);
    store_stat(st, STAT_file_truncated, src->cut);
    build_meta(&r.b, "source.format", "openvino");
    build_meta(&r.b, "source.producer", "OpenVINO benchmark_app");
    build_meta(&r.b, "clock.note", "the report has durations only: layers are laid end to end");
    u64map_release(&r.op);
    if (!r.b.rc && !r.header)
        return opm__fail(err, OPM_EFORMAT, "%s: no table of layers in it", src->path);
    return build_end(&r.b, err);
}
