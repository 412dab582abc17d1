/* chrome.c -- write Chrome trace events as JSON.
 *
 * The file is {"displayTimeUnit":"ns","otherData":{...},"traceEvents":[...]}, one event per line.
 * Times are microseconds with three decimals, made from integers, counted from the start of the
 * trace; otherData has the absolute origin (clock.start_*_ns + trace.start_ns) with the rest of
 * meta.
 *
 * Spans are X events, in lanes so that those of one thread number always nest (timeline.h); this
 * goes for asynchronous tracks too, because viewers draw b/e events apart from the threads and tie
 * no arrows to them. A span that never ended is a B without E. Arrows are s/f pairs that stand
 * right behind the events of their spans and have the same time: Perfetto binds to the slice that
 * was opened last, chrome://tracing to the one around that time. Both want s before f, so an arrow
 * that runs back in time is written the other way round and says so. */
#include "export/export.h"

#include "base/alloc.h"
#include "base/error.h"
#include "export/chrome_json.h"
#include "export/writer.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define ARGS_CACHE 4096 /* power of two */

/* A step or record as text, kept for the spans that follow. */
struct region_text {
    uint32_t id; /* OPM_NULL_ID: none */
    struct buf text;
};

struct chrome {
    const struct store *st;
    struct timeline tl;
    struct io_out out;
    struct fragments sites; /* two objects: the name and category; what args say about the site */
    struct fragments ops;
    struct fragments counters; /* what stands before and after the time of a sample */
    struct u64map counter_names;
    struct region_text step;
    struct region_text record;
    struct buf scratch;
    bool failed; /* something did not fit into scratch */
    uint64_t nevent;
    unsigned keys; /* args of the current event so far */
    unsigned nargs;
    struct {
        str_id id;
        unsigned keys;
    } args_cache[ARGS_CACHE]; /* which of our keys a span's args use */
};

static char *put_text(char *p, const char *s)
{
    size_t len = strlen(s);

    memcpy(p, s, len);
    return p + len;
}

#define EVENT_START_BYTES 160 /* what start_event() writes at most */

/* Everything up to the name: separator, phase, numbers and times. dur < 0: none. */
static char *start_event(struct chrome *c, char *p, char phase, uint32_t lane, int64_t ts,
                         int64_t dur)
{
    const struct lane *l = &c->tl.lane[lane];

    p = put_text(p, c->nevent++ ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
    *p++ = phase;
    p = put_text(p, "\",\"pid\":");
    p = text_put_u64(p, (uint64_t)c->tl.process[c->tl.line[l->line].process].pid);
    p = put_text(p, ",\"tid\":");
    p = text_put_u64(p, (uint64_t)l->tid);
    p = put_text(p, ",\"ts\":");
    p = text_put_us(p, ts);
    if (dur >= 0) {
        p = put_text(p, ",\"dur\":");
        p = text_put_us(p, dur);
    }
    *p++ = ',';
    return p;
}

static void add(struct chrome *c, const char *p, size_t len)
{
    io_out_add(&c->out, p, len);
}

/* Members of args, without braces. */
static void add_args(struct chrome *c, const char *p, size_t len)
{
    static const char open[] = ",\"args\":{";

    if (!len)
        return;
    if (c->nargs++)
        add(c, ",", 1);
    else
        add(c, open, sizeof(open) - 1);
    add(c, p, len);
}

static void end_event(struct chrome *c)
{
    if (c->nargs)
        add(c, "}}", 2);
    else
        add(c, "}", 1);
    c->nargs = 0;
    c->keys = 0;
}

/* An empty buffer for a name; the former one is gone. */
static struct buf *scratch(struct chrome *c)
{
    c->failed |= c->scratch.failed;
    buf_clear(&c->scratch);
    return &c->scratch;
}

static void json_scratch(struct json_writer *w, const struct chrome *c)
{
    json_str(w, buf_str(&c->scratch), c->scratch.len);
}

/* An M event that says one thing: a number, or, if that is negative, the text in scratch. */
static void put_metadata(struct chrome *c, const char *name, int32_t pid, int32_t tid,
                         const char *key, int64_t number)
{
    struct json_writer w = chrome_metadata(&c->out, &c->nevent, name, pid, tid);

    json_key(&w, key);
    if (number >= 0)
        json_i64(&w, number);
    else
        json_scratch(&w, c);
    chrome_metadata_end(&w);
}

static void put_process(struct chrome *c, uint32_t process)
{
    struct process *p = &c->tl.process[process];

    if (p->shown)
        return;
    p->shown = true;
    timeline_process_name(&c->tl, process, scratch(c));
    put_metadata(c, "process_name", p->pid, -1, "name", -1);
    timeline_process_labels(&c->tl, process, scratch(c));
    if (c->scratch.len)
        put_metadata(c, "process_labels", p->pid, -1, "labels", -1);
    put_metadata(c, "process_sort_index", p->pid, -1, "sort_index", p->order);
}

static void put_lane(struct chrome *c, uint32_t lane)
{
    static const int facts[] = { track_col_kind, track_col_device, track_col_instance };
    struct lane *l = &c->tl.lane[lane];
    uint32_t process = c->tl.line[l->line].process;
    int32_t pid = c->tl.process[process].pid;
    struct json_writer w;

    if (l->shown)
        return;
    l->shown = true;
    put_process(c, process);
    timeline_line_name(&c->tl, l->line, scratch(c));
    if (l->index)
        buf_addf(&c->scratch, " #%u", l->index + 1);
    w = chrome_metadata(&c->out, &c->nevent, "thread_name", pid, l->tid);
    json_key(&w, "name");
    json_scratch(&w, c);
    for (size_t i = 0; i < ARRAY_SIZE(facts) && l->line < c->tl.ntrack; i++)
        chrome_cell(&w, c->st, store_table_defs[TABLE_track].col[facts[i]].name, TABLE_track,
                    l->line, facts[i], false);
    chrome_metadata_end(&w);
    put_metadata(c, "thread_sort_index", pid, l->tid, "sort_index", l->line);
}

static int make_site(void *ctx, uint32_t i, struct buf *out, size_t *out_head)
{
    const struct chrome *c = ctx;

    chrome_site(&c->tl, i, out, out_head);
    return 0;
}

static int make_op(void *ctx, uint32_t i, struct buf *out, size_t *out_head)
{
    const struct chrome *c = ctx;

    *out_head = 0;
    chrome_op(&c->tl, i, out);
    return 0;
}

/* The columns of a step or record that a span belongs to, as a member of args. */
static int add_region(struct chrome *c, struct region_text *t, enum table_id table, uint32_t id,
                      enum arg_key key, const int *cols)
{
    if (id >= store_nrow(c->st, table))
        return 0;
    if (t->id != id) {
        struct json_writer w = { .buf = &t->text };

        buf_clear(&t->text);
        json_object(&w);
        json_key(&w, arg_names[key]);
        json_object(&w);
        for (; *cols >= 0; cols++)
            chrome_cell(&w, c->st, store_table_defs[table].col[*cols].name, table, id, *cols,
                        false);
        json_object_end(&w);
        json_object_end(&w);
        if (t->text.failed)
            return OPM_ENOMEM;
        t->id = id;
    }
    add_args(c, t->text.data + 1, t->text.len - 2);
    c->keys |= 1u << key;
    return 0;
}

static unsigned examine_args(struct chrome *c, str_id id, const char *s, size_t len)
{
    size_t slot = id & (ARGS_CACHE - 1);

    if (c->args_cache[slot].id != id) {
        c->args_cache[slot].id = id;
        c->args_cache[slot].keys = chrome_keys(s, len);
    }
    return c->args_cache[slot].keys;
}

/* The span's own args: beside ours if no key is there twice, else below a key of their own. */
static void add_span_args(struct chrome *c, str_id id)
{
    static const char key[] = "\"args\":";
    const char *s = strpool_get(store_strings(c->st), id);
    size_t len = strpool_len(store_strings(c->st), id);
    struct json_writer w = { .out = &c->out };
    unsigned keys;

    for (; len && (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r'); len--)
        s++;
    keys = examine_args(c, id, s, len);
    if (keys & ARGS_NOT_OBJECT) {
        add_args(c, key, sizeof(key) - 1);
        json_str(&w, s, len);
    } else if (keys & c->keys) {
        add_args(c, key, sizeof(key) - 1);
        add(c, s, len);
    } else {
        for (s++, len--; *s == ' ' || *s == '\t' || *s == '\n' || *s == '\r'; len--)
            s++;
        while (s[len - 1] != '}')
            len--;
        add_args(c, s, len - 1);
    }
}

static int add_op(struct chrome *c, uint32_t op)
{
    struct fragment item;
    const char *text;
    int rc;

    if (op >= c->tl.nop)
        return 0;
    rc = fragments_get(&c->ops, op, make_op, c, &text, &item);
    if (rc)
        return rc;
    add_args(c, text + 1, item.len - 2);
    c->keys |= 1u << ARG_OP;
    return 0;
}

/* An event for one end of every arrow at the span. */
static void put_flows(struct chrome *c, uint32_t span, uint32_t lane)
{
    const uint64_t *flow;
    size_t n = timeline_flows(&c->tl, span, &flow);

    /* bounded: a line is a start, one number and what stands between quotes here */
    for (size_t i = 0; i < n; i++) {
        uint32_t row = (uint32_t)flow[i];
        uint32_t src = c->tl.flow_src[row], dst = c->tl.flow_dst[row];
        bool first = span == MIN(src, dst);
        struct cell kind = store_cell(c->st, TABLE_flow, row, flow_col_kind);
        struct json_writer w = { .out = &c->out };
        char line[EVENT_START_BYTES + 64], *p = line;

        p = start_event(c, p, first ? 's' : 'f', lane, c->tl.ts[span], -1);
        if (!first)
            p = put_text(p, "\"bp\":\"e\",");
        p = put_text(p, "\"id\":");
        p = text_put_u64(p, row);
        p = put_text(p, ",\"name\":");
        add(c, line, (size_t)(p - line));
        for (int twice = 0; twice < 2; twice++) {
            if (twice)
                add(c, ",\"cat\":", 7);
            if (kind.kind == CELL_STR)
                chrome_text(&w, c->st, kind.str);
            else
                json_cstr(&w, "flow");
        }
        if (src > dst) {
            p = put_text(line, "\"reversed\":true");
            add_args(c, line, (size_t)(p - line));
        }
        end_event(c);
    }
}

/* The step or record that a span is in. Whether that is a warm-up says the one span that shows it.
 */
static int add_regions(struct chrome *c, uint32_t span, const struct site *site)
{
    static const int step_cols[] = { step_col_id, step_col_num, step_col_model, -1 };
    static const int record_cols[] = { record_col_id, record_col_label, -1 };
    static const int shown_step[] = { step_col_id, step_col_num, step_col_model, step_col_warmup,
                                      -1 };
    static const int shown_record[] = { record_col_id, record_col_label, record_col_warmup, -1 };
    const struct timeline *tl = &c->tl;
    int rc = 0;

    for (int i = 0; i < 2 && !rc; i++) {
        const struct regions *r = i ? &tl->records : &tl->steps;
        const uint32_t *of = i ? tl->record : tl->step;
        struct region_text *text = i ? &c->record : &c->step;
        uint32_t id = of ? of[span] : OPM_NULL_ID;
        bool shown = id < r->n && r->cat && site->cat == r->cat && r->ts[id] == tl->ts[span] &&
                     (r->dur ? r->dur[id] : -1) == tl->dur[span];

        if (shown)
            text->id = OPM_NULL_ID; /* other columns than for those inside */
        if (i)
            rc = add_region(c, text, TABLE_record, id, ARG_RECORD,
                            shown ? shown_record : record_cols);
        else
            rc = add_region(c, text, TABLE_step, id, ARG_STEP, shown ? shown_step : step_cols);
        if (shown)
            text->id = OPM_NULL_ID;
    }
    return rc;
}

static int put_span(struct chrome *c, uint32_t span)
{
    const struct timeline *tl = &c->tl;
    const struct site *site = &tl->site[tl->span_site[span]];
    int64_t ts = tl->ts[span], dur = tl->dur[span];
    uint32_t line = timeline_line_of(tl, tl->track ? tl->track[span] : OPM_NULL_ID), lane;
    char text[EVENT_START_BYTES], *p;
    struct fragment item;
    const char *made;
    int rc;

    rc = timeline_place(&c->tl, line, ts, timeline_end(ts, dur), &lane);
    if (!rc)
        rc = fragments_get(&c->sites, tl->span_site[span], make_site, c, &made, &item);
    if (rc)
        return rc;
    put_lane(c, lane);
    p = start_event(c, text, dur < 0 ? 'B' : 'X', lane, ts, dur);
    add(c, text, (size_t)(p - text));
    add(c, made + 1, item.head - 2);
    add_args(c, made + item.head + 1, item.len - item.head - 2);
    c->keys = (site->layer ? 1u << ARG_LAYER : 0) | (site->phase ? 1u << ARG_PHASE : 0);
    rc = add_op(c, site->op);
    if (!rc)
        rc = add_regions(c, span, site);
    if (rc)
        return rc;
    if (tl->correlation && tl->correlation[span] != OPM_NULL_I64) {
        p = text_put_i64(put_text(text, "\"correlation\":"), tl->correlation[span]);
        add_args(c, text, (size_t)(p - text));
        c->keys |= 1u << ARG_CORRELATION;
    }
    if (dur < 0) {
        p = put_text(text, "\"never ended\":true");
        add_args(c, text, (size_t)(p - text));
        c->keys |= 1u << ARG_NEVER_ENDED;
    }
    if (tl->args && tl->args[span])
        add_span_args(c, tl->args[span]);
    end_event(c);
    put_flows(c, span, lane);
    return 0;
}

/* A step or record that no span shows, on a line made for that. */
static int put_region(struct chrome *c, const struct regions *r, size_t row, uint32_t line)
{
    static const int step_cols[] = { step_col_id,     step_col_num,   step_col_model,
                                     step_col_warmup, step_col_track, -1 };
    static const int record_cols[] = { record_col_id, record_col_label, record_col_warmup,
                                       record_col_track, -1 };
    bool is_step = r == &c->tl.steps;
    struct region_text *text = is_step ? &c->step : &c->record;
    int64_t ts = r->ts[row], dur = r->dur && r->dur[row] >= 0 ? r->dur[row] : -1;
    struct json_writer w = { .out = &c->out };
    char start[EVENT_START_BYTES], *p;
    uint32_t lane;
    int rc = timeline_place(&c->tl, line, ts, timeline_end(ts, dur), &lane);

    if (rc)
        return rc;
    put_lane(c, lane);
    timeline_region_name(&c->tl, r, row, scratch(c));
    p = start_event(c, start, dur < 0 ? 'B' : 'X', lane, ts, dur);
    p = put_text(p, "\"name\":");
    add(c, start, (size_t)(p - start));
    json_scratch(&w, c);
    io_out_adds(&c->out, is_step ? ",\"cat\":\"step\"" : ",\"cat\":\"record\"");
    text->id = OPM_NULL_ID; /* other columns than for a span */
    if (is_step)
        rc = add_region(c, text, TABLE_step, (uint32_t)row, ARG_STEP, step_cols);
    else
        rc = add_region(c, text, TABLE_record, (uint32_t)row, ARG_RECORD, record_cols);
    if (dur < 0) {
        p = put_text(start, "\"never ended\":true");
        add_args(c, start, (size_t)(p - start));
    }
    end_event(c);
    return rc;
}

static int put_regions(struct chrome *c, const struct regions *r, uint32_t line)
{
    int rc = 0;

    for (size_t i = 0; i < r->n && !rc; i++)
        if (!r->seen[i] && r->ts[i] != OPM_NULL_I64)
            rc = put_region(c, r, i, line);
    return rc;
}

/* Viewers know a counter by process and name; a second one of that name gets an id. */
static int make_counter(void *ctx, uint32_t i, struct buf *out, size_t *out_head)
{
    struct chrome *c = ctx;
    uint32_t process = c->tl.line[i].process;
    struct json_writer w = { .buf = out };
    struct cell name = cell_null(), unit = cell_null();
    size_t from = out->len;

    if (i < c->tl.ntrack) {
        name = store_cell(c->st, TABLE_track, i, track_col_name);
        unit = store_cell(c->st, TABLE_track, i, track_col_unit);
    }
    timeline_line_name(&c->tl, i, scratch(c));
    buf_addf(out, "{\"ph\":\"C\",\"pid\":%d,\"name\":", (int)c->tl.process[process].pid);
    json_scratch(&w, c);
    if (name.kind == CELL_STR) {
        uint64_t key = (uint64_t)process << 32 | name.str;
        const uint64_t *first = u64map_get(&c->counter_names, key);

        if (!first && u64map_put(&c->counter_names, key, i))
            return OPM_ENOMEM;
        if (first && *first != i)
            buf_addf(out, ",\"id\":\"track %u\"", i);
    }
    buf_adds(out, ",\"ts\":");
    *out_head = out->len - from;
    buf_adds(out, ",\"args\":{");
    if (unit.kind == CELL_STR)
        chrome_text(&w, c->st, unit.str);
    else
        json_cstr(&w, "value");
    buf_adds(out, ":");
    return 0;
}

static int put_sample(struct chrome *c, size_t i)
{
    uint32_t line =
        timeline_line_of(&c->tl, c->tl.sample_track ? c->tl.sample_track[i] : OPM_NULL_ID);
    double value = c->tl.sample_value[i];
    struct json_writer w = { .out = &c->out };
    struct fragment item;
    char text[32], *p;
    const char *made;
    int rc;

    if (isnan(value) || c->tl.sample_ts[i] == OPM_NULL_I64)
        return 0;
    put_process(c, c->tl.line[line].process);
    rc = fragments_get(&c->counters, line, make_counter, c, &made, &item);
    if (rc)
        return rc;
    io_out_adds(&c->out, c->nevent++ ? ",\n" : "\n");
    add(c, made, item.head);
    p = text_put_us(text, c->tl.sample_ts[i]);
    add(c, text, (size_t)(p - text));
    add(c, made + item.head, item.len - item.head);
    if (isinf(value)) /* JSON has none */
        value = value < 0 ? -DBL_MAX : DBL_MAX;
    if (value > -1e15 && value < 1e15 && value == (double)(int64_t)value) {
        p = text_put_i64(text, (int64_t)value);
        add(c, text, (size_t)(p - text));
    } else
        json_f64(&w, value);
    add(c, "}}", 2);
    return 0;
}

/* Meta, and what was repaired or lost. */
static void put_other_data(struct chrome *c)
{
    struct json_writer w = { .out = &c->out };
    size_t nmeta = store_nrow(c->st, TABLE_meta), nstat = store_nrow(c->st, TABLE_import_stat);

    json_object(&w);
    json_key(&w, "opmeter.export"); /* by this an importer knows what the args mean */
    json_cstr(&w, OPMETER_VERSION);
    for (size_t i = 0; i < nmeta; i++) {
        struct cell key = store_cell(c->st, TABLE_meta, i, meta_col_key);

        if (key.kind == CELL_STR)
            chrome_cell(&w, c->st, store_text(c->st, key.str), TABLE_meta, i, meta_col_value,
                        false);
    }
    if (nstat) {
        json_key(&w, "import_stat");
        json_object(&w);
        for (size_t i = 0; i < nstat; i++) {
            struct cell key = store_cell(c->st, TABLE_import_stat, i, import_stat_col_name);

            if (key.kind == CELL_STR)
                chrome_cell(&w, c->st, store_text(c->st, key.str), TABLE_import_stat, i,
                            import_stat_col_count, false);
        }
        json_object_end(&w);
    }
    json_object_end(&w);
}

static int put_trace(struct chrome *c, const struct export_options *opts)
{
    int rc = 0;

    io_out_adds(&c->out, "{\"displayTimeUnit\":\"ns\",\"otherData\":");
    put_other_data(c);
    io_out_adds(&c->out, ",\"traceEvents\":[");
    for (uint32_t i = 0; i < c->tl.nlane; i++)
        put_lane(c, i);
    for (size_t i = 0; i < c->tl.nspan && !rc; i++) {
        if (i % TIMELINE_PROGRESS_SPANS == 0)
            rc = writer_progress(opts, &c->out, i, c->tl.nspan);
        if (!rc)
            rc = put_span(c, (uint32_t)i);
    }
    if (!rc)
        rc = put_regions(c, &c->tl.steps, timeline_steps_line(&c->tl));
    if (!rc)
        rc = put_regions(c, &c->tl.records, timeline_records_line(&c->tl));
    for (size_t i = 0; i < c->tl.nsample && !rc; i++)
        rc = put_sample(c, i);
    io_out_adds(&c->out, "\n]}\n");
    if (c->failed || c->scratch.failed)
        return OPM_ENOMEM;
    return rc ? rc : writer_progress(opts, &c->out, c->tl.nspan, c->tl.nspan);
}

static void chrome_free(struct chrome *c)
{
    timeline_release(&c->tl);
    fragments_release(&c->sites);
    fragments_release(&c->ops);
    fragments_release(&c->counters);
    u64map_release(&c->counter_names);
    buf_release(&c->step.text);
    buf_release(&c->record.text);
    buf_release(&c->scratch);
    mem_free(c);
}

int export_chrome(const struct store *st, const char *path, const struct export_options *opts,
                  opm_error *err)
{
    struct chrome *c = mem_calloc(1, sizeof(*c));
    int rc;

    if (!c)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", path);
    c->st = st;
    c->step.id = c->record.id = OPM_NULL_ID;
    rc = timeline_init(&c->tl, st);
    if (!rc)
        rc = fragments_init(&c->sites, c->tl.nsite);
    if (!rc)
        rc = fragments_init(&c->ops, c->tl.nop);
    if (!rc)
        rc = fragments_init(&c->counters, c->tl.nline);
    if (rc)
        opm__fail(err, rc, "%s: out of memory", path);
    else
        rc = writer_open(&c->out, st, path, err);
    if (!rc) {
        rc = put_trace(c, opts);
        rc = writer_close(&c->out, rc, path, err);
    }
    chrome_free(c);
    return rc;
}
