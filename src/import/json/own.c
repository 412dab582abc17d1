/* own.c -- trace events that `opmeter export -f chrome` wrote: what they say of the trace comes
 * back.
 *
 * Layer, phase, operator, step and region of a span are members of its args (export/chrome_json.h).
 * The event that shows a step or a labelled region says whether it is a warm-up; others name the
 * one that they are in, which follows from the times. An operator is told in full by each of its
 * executions; the first one counts. Facts keep their keys. */
#include "import/json/events.h"
#include "import/json/sniff.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number of an object within args: the same in all events of a kind, or a value of each. */
struct number {
    uint16_t value; /* or NO_VALUE */
    int64_t same;   /* or OPM_NULL_I64 */
};

struct own_kind {
    bool is_step;
    struct number num, warmup;
    str_id text; /* model or label */
};

struct own {
    struct u64map ops; /* hash of process, name and type -> op row */
    int64_t start_ns;  /* trace.start_ns */
    int64_t realtime_ns, monotonic_ns;
    char boot[64];
};

/* Go to the value of a member of the object that r is in; false if it has none. */
static bool go_to(struct json_reader *r, const char *key)
{
    while (json_read_next(r) == JSON_KEY) {
        if (json_read_is(r, key))
            return true;
        json_read_skip(r);
    }
    return false;
}

/* However it was written since: with blanks, or other members before. */
bool own_sniff(const uint8_t *head, size_t len)
{
    size_t bom = len >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct json_reader r = json_read_of(head + bom, len - bom);

    return json_read_next(&r) == JSON_OBJECT && go_to(&r, "otherData") &&
           json_read_next(&r) == JSON_OBJECT && go_to(&r, "opmeter.export");
}

static struct own *state(struct events *ev)
{
    struct own *s = ev->state;

    if (!s) {
        s = mem_calloc(1, sizeof(*s));
        if (s)
            s->realtime_ns = s->monotonic_ns = OPM_NULL_I64;
        ev->state = s;
    }
    return s;
}

static void own_release(struct events *ev)
{
    struct own *s = ev->state;

    if (s)
        u64map_release(&s->ops);
    mem_free(s);
}

/* -- facts -- */

static int take_stats(struct events *ev, struct json_reader *r)
{
    int rc = 0;

    while (!rc && json_read_next(r) == JSON_KEY) {
        int64_t count;

        buf_clear(&ev->text);
        json_read_text(r, &ev->text);
        if (json_read_next(r) != JSON_NUMBER || !json_read_int(r, &count)) {
            json_read_skip(r);
            continue;
        }
        rc = ev->text.failed ? OPM_ENOMEM
                             : store_load_stat(ev->st, buf_str(&ev->text), "info", count, "");
    }
    return rc;
}

/* Times of the events count from the start of the trace; clocks were read when recording began. */
static bool take_clock(struct own *s, const char *key, const char *value)
{
    if (strcmp(key, "trace.start_ns") == 0)
        s->start_ns = strtoll(value, NULL, 10);
    else if (strcmp(key, "clock.start_realtime_ns") == 0)
        s->realtime_ns = strtoll(value, NULL, 10);
    else if (strcmp(key, "clock.start_monotonic_ns") == 0)
        s->monotonic_ns = strtoll(value, NULL, 10);
    else if (strcmp(key, "clock.boot") == 0)
        snprintf(s->boot, sizeof(s->boot), "%s", value);
    else
        return false;
    return true;
}

static int own_fact(struct events *ev, const char *key, const char *json, size_t len, bool *taken)
{
    struct json_reader r = json_read_of(json, len);
    struct own *s = state(ev);
    struct buf name = { 0 }, text = { 0 };
    int rc = s ? 0 : OPM_ENOMEM;

    if (rc || strcmp(key, "otherData") != 0 || json_read_next(&r) != JSON_OBJECT)
        return rc;
    *taken = true;
    while (!rc && json_read_next(&r) == JSON_KEY) {
        buf_clear(&name);
        buf_clear(&text);
        json_read_text(&r, &name);
        if (json_read_next(&r) == JSON_OBJECT && strcmp(buf_str(&name), "import_stat") == 0) {
            rc = take_stats(ev, &r);
            continue;
        }
        if (r.token != JSON_STRING) {
            json_read_skip(&r);
            continue;
        }
        json_read_text(&r, &text);
        if (name.failed || text.failed)
            rc = OPM_ENOMEM;
        else if (strcmp(buf_str(&name), "opmeter.export") != 0 &&
                 !take_clock(s, buf_str(&name), buf_str(&text)))
            rc = events_meta(ev, buf_str(&name), buf_str(&text));
    }
    buf_release(&name);
    buf_release(&text);
    return rc;
}

/* "HOST, rank N", or either of them (export/timeline.h). */
static int take_labels(struct events *ev, struct ev_process *p)
{
    const char *text = store_text(ev->st, p->labels), *comma = strrchr(text, ',');
    const char *last = comma && comma[1] == ' ' ? comma + 2 : text;
    size_t host = strlen(text), digits = 0;

    if (strncmp(last, "rank ", 5) == 0)
        digits = strspn(last + 5, "0123456789");
    if (digits && digits < 10 && last[5 + digits] == '\0') {
        p->rank = strtol(last + 5, NULL, 10);
        host = last > text ? (size_t)(last - 2 - text) : 0;
    }
    return host ? store_str(ev->st, text, host, &p->host) : 0;
}

static int own_finish(struct events *ev)
{
    const struct own *s = state(ev);

    if (!s)
        return OPM_ENOMEM;
    for (size_t i = 0; i < ev->nprocess; i++)
        if (ev->process[i].labels && take_labels(ev, &ev->process[i]))
            return OPM_ENOMEM;
    if (s->boot[0] && s->monotonic_ns != OPM_NULL_I64)
        import_set_monotonic(ev->src, s->boot,
                             (int64_t)((uint64_t)s->monotonic_ns + (uint64_t)s->start_ns));
    if (s->realtime_ns != OPM_NULL_I64)
        events_clock(ev, (int64_t)((uint64_t)s->realtime_ns + (uint64_t)s->start_ns));
    return 0;
}

/* -- operators -- */

static bool object_of(const struct event_info *info, const struct member *m, struct json_reader *r)
{
    if (!m || m->token != JSON_OBJECT)
        return false;
    *r = json_read_of(info->shape->strict + m->from, m->to - m->from);
    return json_read_next(r) == JSON_OBJECT;
}

/* The value that comes next, as a cell of that type; an object or list as its text. */
static int cell_of(struct events *ev, struct json_reader *r, enum col_type type, struct cell *out)
{
    enum json_token token = json_read_next(r);
    const char *from = r->at - 1;
    int64_t i;
    double d;
    str_id id;

    *out = cell_null();
    if (token == JSON_NUMBER && type == COL_I64 && json_read_int(r, &i))
        *out = cell_i64(i);
    else if (token == JSON_NUMBER && type == COL_F64 && json_read_real(r, &d))
        *out = cell_f64(d);
    buf_clear(&ev->text);
    if (token == JSON_STRING)
        json_read_text(r, &ev->text);
    else if ((token == JSON_OBJECT || token == JSON_ARRAY) && json_read_skip(r))
        buf_add(&ev->text, from, (size_t)(r->at - from));
    if (ev->text.failed)
        return OPM_ENOMEM;
    if (type != COL_STR || !ev->text.len)
        return 0;
    if (store_str(ev->st, buf_str(&ev->text), ev->text.len, &id))
        return OPM_ENOMEM;
    *out = cell_str(id);
    return 0;
}

static int take_tensors(struct events *ev, struct json_reader *r, uint32_t op, const char *io)
{
    static const struct {
        const char *key;
        int col;
        enum col_type type;
    } members[] = { { "name", op_tensor_col_name, COL_STR },
                    { "dtype", op_tensor_col_dtype, COL_STR },
                    { "shape", op_tensor_col_shape, COL_STR },
                    { "bytes", op_tensor_col_bytes, COL_I64 },
                    { "io", op_tensor_col_io, COL_STR } };
    int64_t slot = 0;
    str_id word;
    int rc = store_cstr(ev->st, io, &word);

    if (rc || json_read_next(r) != JSON_ARRAY)
        return rc;
    while (!rc && json_read_next(r) == JSON_OBJECT) {
        struct cell c[op_tensor_col_COUNT] = { 0 };

        c[op_tensor_col_op] = cell_id(op);
        c[op_tensor_col_io] = cell_str(word);
        c[op_tensor_col_slot] = cell_i64(slot++);
        while (!rc && json_read_next(r) == JSON_KEY) {
            size_t i = 0;

            while (i < ARRAY_SIZE(members) && !json_read_is(r, members[i].key))
                i++;
            if (i == ARRAY_SIZE(members)) {
                json_read_next(r);
                json_read_skip(r);
            } else {
                rc = cell_of(ev, r, members[i].type, &c[members[i].col]);
            }
        }
        if (!rc)
            rc = store_add(ev->st, TABLE_op_tensor, c, NULL);
    }
    return rc;
}

static int add_tensors(struct events *ev, const struct event_info *info, const struct member *m,
                       uint32_t op)
{
    static const char *const lists[][2] = {
        { "inputs", "input" }, { "weights", "weight" }, { "outputs", "output" }, { "tensors", NULL }
    };
    struct json_reader r;
    int rc = 0;

    for (bool any = object_of(info, m, &r); any && !rc && json_read_next(&r) == JSON_KEY;) {
        size_t i = 0;

        while (i < ARRAY_SIZE(lists) && !json_read_is(&r, lists[i][0]))
            i++;
        if (i < ARRAY_SIZE(lists)) {
            rc = take_tensors(ev, &r, op, lists[i][1]);
        } else {
            json_read_next(&r);
            json_read_skip(&r);
        }
    }
    return rc;
}

static int own_op(struct events *ev, const struct kind *k, const struct event_info *info,
                  const struct member *m, uint32_t *out)
{
    const struct table_def *def = &store_table_defs[TABLE_op];
    struct cell c[op_col_COUNT] = { 0 };
    struct own *s = state(ev);
    const uint64_t *known;
    struct json_reader r;
    uint64_t key;
    int rc = s ? 0 : OPM_ENOMEM;

    *out = OPM_NULL_ID;
    if (rc || !object_of(info, m, &r))
        return rc;
    while (!rc && json_read_next(&r) == JSON_KEY) {
        int col = 0;

        while (col < op_col_COUNT &&
               (def->col[col].from == FROM_ROW || !json_read_is(&r, def->col[col].name)))
            col++;
        if (col < op_col_COUNT) {
            rc = cell_of(ev, &r, def->col[col].type, &c[col]);
        } else {
            json_read_next(&r);
            json_read_skip(&r);
        }
    }
    if (rc)
        return rc;
    key = events_hash((uint64_t)ev->track[k->track].process + 1, cell_text_id(c[op_col_name]));
    key = events_hash(key, cell_text_id(c[op_col_type]));
    known = u64map_get(&s->ops, key);
    if (known) {
        *out = (uint32_t)*known;
        return 0;
    }
    rc = store_add(ev->st, TABLE_op, c, out);
    if (!rc)
        rc = u64map_put(&s->ops, key, *out);
    return rc ? rc : add_tensors(ev, info, m, *out);
}

/* -- spans -- */

/* The number that was just read from the text of the shape. */
static struct number number_of(const struct event_shape *sh, const struct json_reader *r)
{
    struct number n = { NO_VALUE, OPM_NULL_I64 };
    uint16_t value = 0;

    for (unsigned i = 0; i < sh->nhole; i++) {
        const struct hole *h = &sh->strict_hole[i];

        if (sh->strict + h->at == r->text && h->len == r->len && h->type == HOLE_INT)
            n.value = value;
        value = (uint16_t)(value + (h->type == HOLE_DECIMAL ? 2 : 1));
    }
    if (n.value == NO_VALUE && !json_read_int(r, &n.same))
        n.same = OPM_NULL_I64;
    return n;
}

static int64_t number_get(const struct number *n, const int64_t *value)
{
    return n->value == NO_VALUE ? n->same : value[n->value];
}

/* True: the event shows a step or region, which is known by its saying whether it is a warm-up. */
static int take_region(struct events *ev, const struct event_info *info, const struct member *m,
                       struct own_kind *kk, bool *out)
{
    struct json_reader r;
    struct cell text;
    int rc = 0;

    *out = false;
    kk->num = kk->warmup = (struct number){ NO_VALUE, OPM_NULL_I64 };
    for (bool any = object_of(info, m, &r); any && !rc && json_read_next(&r) == JSON_KEY;) {
        bool num = json_read_is(&r, "num"), warmup = json_read_is(&r, "warmup");

        if (json_read_is(&r, "model") || json_read_is(&r, "label")) {
            rc = cell_of(ev, &r, COL_STR, &text);
            kk->text = cell_text_id(text);
        } else if (json_read_next(&r) == JSON_NUMBER && (num || warmup)) {
            *(num ? &kk->num : &kk->warmup) = number_of(info->shape, &r);
            *out |= warmup;
        } else {
            json_read_skip(&r);
        }
    }
    return rc;
}

static int own_kind(struct events *ev, struct kind *k, const struct event_info *info,
                    struct site *site)
{
    const char *cat = k->cat ? store_text(ev->st, k->cat) : "";
    const struct member *layer = member_find(&info->args, "layer");
    const struct member *phase = member_find(&info->args, "phase");
    struct own_kind *kk = arena_alloc(ev->arena, sizeof(*kk));
    bool is_step = strcmp(cat, "step") == 0, shown = false;
    int rc = kk ? 0 : OPM_ENOMEM;

    site->layer = 0;
    for (int i = 0; i < 2 && !rc; i++) {
        const struct member *m = i ? phase : layer;

        if (!m || m->token != JSON_STRING)
            continue;
        buf_clear(&ev->text);
        member_text(info, m, NULL, &ev->text);
        rc = ev->text.failed ? OPM_ENOMEM
                             : store_str(ev->st, buf_str(&ev->text), ev->text.len,
                                         i ? &site->phase : &site->layer);
    }
    if (!rc)
        rc = own_op(ev, k, info, member_find(&info->args, "op"), &site->op);
    if (rc || (k->act != ACT_SPAN && k->act != ACT_BEGIN))
        return rc;
    if (is_step || strcmp(cat, "record") == 0)
        rc = take_region(ev, info, member_find(&info->args, is_step ? "step" : "record"), kk,
                         &shown);
    kk->is_step = is_step;
    if (shown)
        k->dialect = kk;
    return rc;
}

static int own_span(struct events *ev, struct kind *k, uint32_t span, int64_t ts, int64_t dur,
                    const int64_t *value)
{
    const struct own_kind *kk = k->dialect;
    struct cell step[step_col_COUNT] = { 0 }, record[record_col_COUNT] = { 0 };
    struct cell warmup = cell_i64(number_get(&kk->warmup, value) == 1);
    struct cell track = cell_id(ev->first_track + k->track);

    (void)span;
    if (k->act != ACT_SPAN)
        dur = -1;
    step[step_col_model] = record[record_col_label] = cell_str(kk->text);
    step[step_col_num] = cell_i64(number_get(&kk->num, value));
    step[step_col_ts] = record[record_col_ts] = cell_i64(ts);
    step[step_col_dur] = record[record_col_dur] = cell_i64(dur);
    step[step_col_warmup] = record[record_col_warmup] = warmup;
    step[step_col_track] = record[record_col_track] = track;
    return kk->is_step ? store_add(ev->st, TABLE_step, step, NULL)
                       : store_add(ev->st, TABLE_record, record, NULL);
}

static int own_track(struct events *ev, struct ev_track *t, const struct event_info *info)
{
    static const char *const kinds[] = { "thread", "stream", "queue", "counter", "async" };
    const struct member *kind = member_find(&info->args, "kind");
    const struct member *device = member_find(&info->args, "device");

    for (size_t i = 0; kind && i < ARRAY_SIZE(kinds); i++)
        if (member_is(kind, kinds[i]))
            t->kind = kinds[i];
    if (!device || device->token != JSON_STRING)
        return 0;
    buf_clear(&ev->text);
    member_text(info, device, NULL, &ev->text);
    return ev->text.failed || store_str(ev->st, buf_str(&ev->text), ev->text.len, &t->device)
               ? OPM_ENOMEM
               : 0;
}

/* A member of that name but of another sort is the program's own. */
static bool own_taken(const struct member *m)
{
    static const struct {
        const char *key;
        enum json_token token;
    } ours[] = {
        { "layer", JSON_STRING }, { "phase", JSON_STRING },  { "op", JSON_OBJECT },
        { "step", JSON_OBJECT },  { "record", JSON_OBJECT }, { "never ended", JSON_TRUE }
    };

    for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
        if (m->token == ours[i].token && json_read_is(&m->key, ours[i].key))
            return true;
    return false;
}

const struct dialect dialect_own = { .name = "chrome",
                                     .kind = own_kind,
                                     .span = own_span,
                                     .fact = own_fact,
                                     .track = own_track,
                                     .finish = own_finish,
                                     .release = own_release,
                                     .args_correlation = true,
                                     .taken = own_taken };

int own_read(struct store *st, const struct import_source *src, opm_error *err)
{
    return trace_json_read(st, src, &dialect_own, err);
}
