/* event_pairs.c -- begins and ends, on threads and in async chains, matched in order of time. */
#include "import/json/events.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Points by key, then time, then as they stood in the file. Sorting by number keeps it stable. */
struct order {
    const struct point *p;
    uint32_t at;
};

static int by_key_and_time(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    if (x->p->key != y->p->key)
        return x->p->key < y->p->key ? -1 : 1;
    if (x->p->ts != y->p->ts)
        return x->p->ts < y->p->ts ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static struct order *sort_points(const struct point *p, size_t n)
{
    struct order *o = mem_alloc((n + 1) * sizeof(*o));

    for (size_t i = 0; o && i < n; i++)
        o[i] = (struct order){ &p[i], (uint32_t)i };
    if (o && n)
        qsort(o, n, sizeof(*o), by_key_and_time);
    return o;
}

/* Add the args of an end to those of its begin; of a key in both the end's value counts. */
static int merge_args(struct events *ev, uint32_t span, str_id args)
{
    const char *more = store_text(ev->st, args);
    struct json_reader r;
    str_id merged;

    if (!args)
        return 0;
    buf_clear(&ev->text);
    buf_clear(&ev->form);
    if (store_build_args(ev->st, span, &ev->form))
        return OPM_ENOMEM;
    buf_addc(&ev->text, '{');
    r = json_read_of(buf_str(&ev->form), ev->form.len);
    if (json_read_next(&r) == JSON_OBJECT) {
        while (json_read_next(&r) == JSON_KEY) {
            struct json_reader key = r, other = json_read_of(more, strlen(more));
            const char *from = key.text - 1;
            bool twice = false;
            struct buf name = { 0 };

            if (!json_read_skip(&r))
                break;
            json_read_text(&key, &name);
            json_read_next(&other);
            while (!twice && json_read_next(&other) == JSON_KEY) {
                twice = json_read_is(&other, buf_str(&name));
                if (!json_read_skip(&other))
                    break;
            }
            if (name.failed) {
                buf_release(&name);
                return OPM_ENOMEM;
            }
            buf_release(&name);
            if (!twice) {
                buf_add(&ev->text, from, (size_t)(r.at - from));
                buf_addc(&ev->text, ',');
            }
        }
    }
    buf_adds(&ev->text, more + 1);
    if (ev->text.failed || store_str(ev->st, ev->text.data, ev->text.len, &merged))
        return OPM_ENOMEM;
    return store_span_set_args(ev->st, span, merged);
}

/* Spans that have begun in one chain, outermost first. */
struct stack {
    const struct point **open;
    size_t n, cap;
};

static int end_span(struct events *ev, const struct point *begin, const struct point *end)
{
    int64_t dur = end->ts - begin->ts;

    return store_span_set_dur(ev->st, begin->span, dur) || merge_args(ev, begin->span, end->args)
               ? OPM_ENOMEM
               : 0;
}

/* An end closes the innermost begin of its name, or of any if it has none; what was opened inside
 * that is closed, too, if `nested`. */
static int take_point(struct events *ev, struct stack *s, const struct point *p, bool nested,
                      enum stat_id missing)
{
    size_t at;

    if (strchr("BbSN", p->ph)) {
        if (!GROW(s->open, s->cap, s->n + 1))
            return OPM_ENOMEM;
        s->open[s->n++] = p;
        return 0;
    }
    for (at = s->n; at > 0; at--)
        if (!p->name || s->open[at - 1]->name == p->name)
            break;
    if (!at) {
        store_stat(ev->st, missing, 1);
        return 0;
    }
    if (end_span(ev, s->open[at - 1], p))
        return OPM_ENOMEM;
    if (nested) {
        for (size_t i = at; i < s->n; i++) {
            store_stat(ev->st, STAT_ended_by_parent, 1);
            store_span_set_dur(ev->st, s->open[i]->span, p->ts - s->open[i]->ts);
        }
        s->n = at - 1;
    } else {
        memmove(&s->open[at - 1], &s->open[at], (s->n - at) * sizeof(*s->open));
        s->n--;
    }
    return 0;
}

static int match(struct events *ev, const struct point *p, size_t n, bool nested,
                 enum stat_id missing)
{
    struct order *o = sort_points(p, n);
    struct stack s = { 0 };
    int rc = o ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < n && !rc; i++) {
        if (!i || o[i].p->key != o[i - 1].p->key)
            s.n = 0;
        rc = take_point(ev, &s, o[i].p, nested, missing);
    }
    mem_free(s.open);
    mem_free(o);
    return rc;
}

int pairs_finish(struct events *ev)
{
    return match(ev, ev->point, ev->npoint, true, STAT_end_without_begin);
}

int async_finish(struct events *ev)
{
    return match(ev, ev->async, ev->nasync, false, STAT_async_end_without_begin);
}
