/* mindspore_steps.c -- steps: as the device recorded their points, and as tables made from them.
 *
 * A step is from the end of the one before it (the first: from its forward point) to its own end.
 * Between them are the start of the forward pass, the end of the backward pass, and starts and ends
 * of collectives, stream by stream. Two numberings of the points are in use. */
#include "import/mindspore/mindspore_int.h"

#include "base/alloc.h"
#include "base/csv_read.h"
#include "base/json_read.h"
#include "base/rd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES 20
#define COLUMNS_MAX 4096

/* What a tag means. */
struct tags {
    uint64_t fp, bp, end;
    uint64_t collective; /* from here on, in the newer numbering */
};
static const struct tags old_tags = { 1, 2, 255, 0 }, new_tags = { 2, 3, 4, 10000 };

struct ms_point {
    uint64_t tag;
    uint32_t stream;
    int64_t ns;
    size_t order;
};

struct step_reader {
    struct ms *m;
    struct ms_device *d;
    const struct tags *tags;
    int64_t start_ns, fp_ns, bp_ns; /* MS_NONE: not seen */
    bool seen;                      /* a step has begun */
    struct ms_point *event;         /* of collectives in this step */
    size_t n, cap;
    uint64_t steps;
};

static struct ms_point event_read(struct rd *r, bool *sane)
{
    struct ms_point e = { .tag = rd_u64(r) };

    rd_u16(r); /* task */
    e.stream = rd_u16(r);
    *sane = ms_ticks(rd_u64(r), &e.ns);
    return e;
}

static const struct tags *tags_of(const uint8_t *data, size_t len)
{
    struct rd r = rd_of(data, len);

    for (bool sane; rd_left(&r) >= RECORD_BYTES;)
        if (event_read(&r, &sane).tag == old_tags.end)
            return &old_tags;
    return &new_tags;
}

static int by_stream(const void *va, const void *vb)
{
    const struct ms_point *a = va, *b = vb;

    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Starts and ends of a stream come in turn; a stream with an odd number of them is left out. */
static int step_collectives(struct step_reader *s)
{
    const struct ms_point *e = s->event;
    size_t end;

    if (s->n)
        qsort(s->event, s->n, sizeof(*s->event), by_stream);
    for (size_t i = 0; i < s->n; i = end) {
        for (end = i; end < s->n && e[end].stream == e[i].stream;)
            end++;
        if ((end - i) % 2) {
            store_stat(s->m->st, STAT_task_unpaired, 1);
            continue;
        }
        for (size_t k = i; k < end; k += 2) {
            const uint64_t *name = u64map_get(&s->d->point, e[k].tag);
            int rc = ms_collective(s->m, s->d, e[k].stream, (uint32_t)((k - i) / 2),
                                   name ? (str_id)*name : 0, e[k].ns, e[k + 1].ns);

            if (rc)
                return rc;
        }
    }
    return 0;
}

static int step_end(struct step_reader *s, int64_t end_ns)
{
    struct ms_step step = { MS_NONE, s->start_ns, end_ns, s->fp_ns, s->bp_ns, false };
    int rc = 0;

    if (step.start_ns == MS_NONE)
        step.start_ns = s->fp_ns;
    if (s->fp_ns == MS_NONE || s->bp_ns == MS_NONE || !s->seen) {
        store_stat(s->m->st, STAT_step_incomplete, 1);
    } else if (s->d->skip_first_step && s->steps++ == 0) {
        store_stat(s->m->st, STAT_step_incomplete, 1);
    } else {
        rc = ms_step(s->m, s->d, &step);
        if (!rc)
            rc = step_collectives(s);
    }
    s->start_ns = end_ns;
    s->fp_ns = s->bp_ns = MS_NONE;
    s->seen = false;
    s->n = 0;
    return rc;
}

static int event_take(struct step_reader *s, const struct ms_point *e)
{
    const struct tags *t = s->tags;

    if (e->tag == t->fp) {
        s->fp_ns = e->ns;
    } else if (e->tag == t->bp) {
        s->bp_ns = e->ns;
    } else if (e->tag == t->end) {
        return step_end(s, e->ns);
    } else if (t->collective ? e->tag >= t->collective : e->tag && e->tag < t->end) {
        if (!GROW(s->event, s->cap, s->n + 1))
            return OPM_ENOMEM;
        s->event[s->n] = *e;
        s->event[s->n].order = s->n;
        s->n++;
    } else if (t->collective && e->tag > t->end) {
        store_stat(s->m->st, STAT_record_unknown, 1);
    } else {
        /* A new step; what an unfinished one before it had is void. */
        s->fp_ns = s->bp_ns = MS_NONE;
        s->seen = true;
        s->n = 0;
    }
    return 0;
}

int ms_read_training_trace(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct step_reader s = { .m = m,
                             .d = d,
                             .tags = tags_of(data, len),
                             .start_ns = MS_NONE,
                             .fp_ns = MS_NONE,
                             .bp_ns = MS_NONE };
    struct rd r = rd_of(data, len);
    int rc = 0;

    /* The newer numbering has no tag that opens a step everywhere. */
    while (rc == 0 && rd_left(&r) >= RECORD_BYTES) {
        bool sane;
        struct ms_point e = event_read(&r, &sane);

        s.seen |= s.tags == &new_tags;
        if (sane)
            rc = event_take(&s, &e);
        else
            store_stat(m->st, STAT_bad_time, 1);
    }
    store_stat(m->st, STAT_file_truncated, rd_left(&r) && rd_left(&r) < RECORD_BYTES);
    store_stat(m->st, STAT_step_incomplete, s.fp_ns != MS_NONE);
    mem_free(s.event);
    return rc ? rc : ms_steps_end(m, d);
}

/* "3 Default/.../AllGather-op136": the operator of a tag. */
int ms_read_points(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct text rest = { (const char *)data, len }, line, tag;
    uint64_t v;
    str_id name;
    int rc = 0;

    while (rc == 0 && text_line(&rest, &line)) {
        if (!text_word(&line, &tag))
            continue;
        line = text_trim(line);
        if (!text_u64(tag, &v) || !line.len) {
            store_stat(m->st, STAT_bad_row, 1);
            continue;
        }
        d->added++;
        rc = store_str(m->st, line.p, line.len, &name);
        if (!rc)
            rc = u64map_put(&d->point, v, name);
        if (!rc && v == old_tags.fp)
            d->fp_point = name;
        if (!rc && v == old_tags.bp)
            d->bp_point = name;
        if (!rc && v == old_tags.fp)
            rc = ms_fact(m, d, "fp_start", line.p, line.len);
        if (!rc && v == old_tags.bp)
            rc = ms_fact(m, d, "bp_end", line.p, line.len);
    }
    return rc;
}

int ms_read_point_info(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct json_reader r = json_read_of(data, len);
    struct buf value = { 0 };
    int rc = 0;

    if (json_read_next(&r) != JSON_OBJECT)
        store_stat(m->st, STAT_json_malformed, 1);
    while (rc == 0 && json_read_next(&r) == JSON_KEY) {
        const char *key = json_read_is(&r, "fp_start") ? "fp_start"
                          : json_read_is(&r, "bp_end") ? "bp_end"
                                                       : NULL;

        if (json_read_next(&r) == JSON_STRING && key) {
            buf_clear(&value);
            json_read_text(&r, &value);
            d->added++;
            rc = value.failed
                     ? OPM_ENOMEM
                     : store_str(m->st, buf_str(&value), value.len,
                                 strcmp(key, "fp_start") == 0 ? &d->fp_point : &d->bp_point);
            if (!rc)
                rc = ms_fact(m, d, key, buf_str(&value), value.len);
        } else if (!json_read_skip(&r)) {
            break;
        }
    }
    buf_release(&value);
    return rc;
}

/* A pair of columns with the start and the end of a collective. */
struct pair {
    int from, to;
    uint32_t stream, number;
    str_id name;
};

struct step_table {
    int num, start, end, fp, bp;
    bool inference;
    struct pair *pair;
    size_t npair, cap;
    struct csv_field *field, *head;
};

static struct text field_text(const struct csv_field *f)
{
    return text_trim((struct text){ f->p, f->len });
}

/* "stream_520_parallel_0" or, newer, "stream_5_0_AllReduce-op12". */
static int pair_name(struct ms *m, struct text base, struct pair *p)
{
    struct text rest;
    uint64_t stream = 0, number = 0;

    if (!text_after(base, "stream_", &rest) || !text_u64(rest, &stream))
        return store_str(m->st, base.p, base.len, &p->name);
    p->stream = (uint32_t)stream;
    if (!text_after(rest, "_", &rest))
        return 0;
    if (text_starts(rest, "parallel_"))
        text_after(rest, "parallel_", &rest);
    text_u64(rest, &number);
    p->number = (uint32_t)number;
    if (text_after(rest, "_", &rest) && rest.len)
        return store_str(m->st, rest.p, rest.len, &p->name);
    return 0;
}

static int table_head(struct ms *m, struct step_table *t, int n)
{
    static const char start[] = "_start_point", end[] = "_end_point";

    t->num = t->start = t->end = t->fp = t->bp = -1;
    t->inference = true;
    for (int i = 0; i < n; i++) {
        struct text h = field_text(&t->head[i]), base;

        if (text_is(h, "step_num"))
            t->num = i;
        else if (text_is(h, "start_point"))
            t->start = i;
        else if (text_is(h, "end_point"))
            t->end = i;
        else if (text_is(h, "fp_point"))
            t->fp = i;
        else if (text_is(h, "bp_point"))
            t->bp = i;
        else if (text_is(h, "fp_and_bp"))
            t->inference = false;
        if (h.len <= strlen(start) ||
            memcmp(h.p + h.len - strlen(start), start, strlen(start)) != 0)
            continue;
        base = (struct text){ h.p, h.len - strlen(start) };
        for (int k = 0; k < n; k++) {
            struct text other = field_text(&t->head[k]);

            if (other.len != base.len + strlen(end) || memcmp(other.p, base.p, base.len) != 0 ||
                memcmp(other.p + base.len, end, strlen(end)) != 0)
                continue;
            if (!GROW(t->pair, t->cap, t->npair + 1))
                return OPM_ENOMEM;
            t->pair[t->npair] = (struct pair){ .from = i, .to = k };
            if (pair_name(m, base, &t->pair[t->npair++]))
                return OPM_ENOMEM;
        }
    }
    return 0;
}

static int64_t point_ns(const struct step_table *t, int column, int n)
{
    int64_t ns;

    if (column < 0 || column >= n || !ms_time(field_text(&t->field[column]), 1, &ns))
        return MS_NONE;
    return ns; /* a tick is 10 */
}

static int table_row(struct ms *m, struct ms_device *d, const struct step_table *t, int n)
{
    struct ms_step s = { .inference = t->inference };
    int rc;

    if (!text_decimal(field_text(&t->field[t->num]), 0, &s.num) || s.num <= 0)
        return 0; /* the average of all */
    s.start_ns = point_ns(t, t->start, n);
    s.end_ns = point_ns(t, t->end, n);
    s.fp_ns = point_ns(t, t->fp, n);
    s.bp_ns = t->inference && t->bp < 0 ? s.end_ns : point_ns(t, t->bp, n);
    if (s.start_ns == MS_NONE || s.end_ns == MS_NONE || s.end_ns < s.start_ns) {
        store_stat(m->st, STAT_step_incomplete, 1);
        return 0;
    }
    rc = ms_step(m, d, &s);
    for (size_t i = 0; i < t->npair && rc == 0; i++) {
        const struct pair *p = &t->pair[i];
        int64_t from = point_ns(t, p->from, n), to = point_ns(t, p->to, n);

        if (from > 0 && to >= from)
            rc = ms_collective(m, d, p->stream, p->number, p->name, from, to);
    }
    return rc;
}

int ms_read_step_csv(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct csv_reader r = csv_read_of(data, len);
    struct step_table t = { 0 };
    int n, rc = OPM_ENOMEM, ncol;

    t.head = mem_calloc(COLUMNS_MAX, sizeof(*t.head));
    t.field = mem_calloc(COLUMNS_MAX, sizeof(*t.field));
    if (t.head && t.field) {
        ncol = csv_read_row(&r, t.head, COLUMNS_MAX);
        rc = table_head(m, &t, MIN(ncol, COLUMNS_MAX));
        if (rc == 0 && (t.num < 0 || t.start < 0 || t.end < 0))
            store_stat(m->st, STAT_bad_row, 1);
        else
            while (rc == 0 && csv_read_next(&r, t.field, COLUMNS_MAX, &n))
                rc = n > t.num ? table_row(m, d, &t, MIN(n, COLUMNS_MAX)) : 0;
    }
    mem_free(t.pair);
    mem_free(t.head);
    mem_free(t.field);
    return rc ? rc : ms_steps_end(m, d);
}
