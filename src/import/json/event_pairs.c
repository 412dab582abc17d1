/* event_pairs.c -- begins and ends, on threads and in async chains, matched in order of time. */
#include "import/json/events.h"

#include "base/alloc.h"
#include "base/u64map.h"

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

/* The keys of an object, as text, into `names`. */
static int keys_of(const char *object, size_t len, struct strpool *names)
{
    struct json_reader r = json_read_of(object, len);
    struct buf name = { 0 };
    str_id id;
    int rc = 0;

    json_read_next(&r);
    while (!rc && json_read_next(&r) == JSON_KEY) {
        buf_clear(&name);
        json_read_text(&r, &name);
        rc = name.failed ? OPM_ENOMEM : strpool_intern(names, buf_str(&name), name.len, &id);
        if (!rc && !json_read_skip(&r))
            break;
    }
    buf_release(&name);
    return rc;
}

/* The members of `object` whose keys are not among `names`, each with a comma behind it. */
static int add_others(const char *object, size_t len, const struct strpool *names, struct buf *out)
{
    struct json_reader r = json_read_of(object, len);
    struct buf name = { 0 };
    bool failed;

    if (json_read_next(&r) == JSON_OBJECT) {
        while (json_read_next(&r) == JSON_KEY && !name.failed) {
            struct json_reader key = r;
            const char *from = key.text - 1;

            if (!json_read_skip(&r))
                break;
            buf_clear(&name);
            json_read_text(&key, &name);
            if (strpool_find(names, buf_str(&name), name.len))
                continue;
            buf_add(out, from, (size_t)(r.at - from));
            buf_addc(out, ',');
        }
    }
    failed = out->failed || name.failed;
    buf_release(&name);
    return failed ? OPM_ENOMEM : 0;
}

/* Add the args of an end to those of its begin; of a key in both the end's value counts. */
static int merge_args(struct events *ev, uint32_t span, str_id args)
{
    const char *more = store_text(ev->st, args);
    struct strpool names = { 0 };
    str_id merged;
    int rc;

    if (!args)
        return 0;
    buf_clear(&ev->text);
    buf_clear(&ev->form);
    rc = store_build_args(ev->st, span, &ev->form);
    buf_addc(&ev->text, '{');
    if (!rc && ev->form.len)
        rc = keys_of(more, strlen(more), &names);
    if (!rc && ev->form.len)
        rc = add_others(buf_str(&ev->form), ev->form.len, &names, &ev->text);
    strpool_release(&names);
    buf_adds(&ev->text, more + 1);
    if (!rc)
        rc = ev->text.failed ? OPM_ENOMEM : store_str(ev->st, ev->text.data, ev->text.len, &merged);
    return rc ? OPM_ENOMEM : store_span_set_args(ev->st, span, merged);
}

#define NO_SPAN UINT32_MAX

/* Spans that have begun in one chain and are open: a list from the innermost out, and through it
 * one of each name. An end finds what it closes without looking at the others, of which a damaged
 * file has any number. */
struct open_span {
    const struct point *begin;
    uint32_t outer, inner; /* NO_SPAN: none */
    uint32_t outer_of_name;
};

struct stack {
    struct open_span *span;
    size_t n, cap;        /* those closed out of turn still have their places */
    uint32_t innermost;   /* NO_SPAN: none is open */
    struct u64map inmost; /* name -> the innermost one that has it, or NO_SPAN */
};

static int stack_push(struct stack *s, const struct point *p)
{
    const uint64_t *same = u64map_get(&s->inmost, p->name);
    uint32_t at = (uint32_t)s->n;

    if (!GROW(s->span, s->cap, s->n + 1))
        return OPM_ENOMEM;
    s->span[s->n++] =
        (struct open_span){ p, s->innermost, NO_SPAN, same ? (uint32_t)*same : NO_SPAN };
    if (s->innermost != NO_SPAN)
        s->span[s->innermost].inner = at;
    s->innermost = at;
    return u64map_put(&s->inmost, p->name, at);
}

/* Take out one that is the innermost of its name. */
static int stack_take(struct stack *s, uint32_t at)
{
    const struct open_span *o = &s->span[at];

    if (at + 1 == s->n)
        s->n--; /* its place is free; o stays what it was until the next one */
    if (o->inner != NO_SPAN)
        s->span[o->inner].outer = o->outer;
    else
        s->innermost = o->outer;
    if (o->outer != NO_SPAN)
        s->span[o->outer].inner = o->inner;
    return u64map_put(&s->inmost, o->begin->name, o->outer_of_name);
}

/* Forget all of them. */
static int stack_clear(struct stack *s)
{
    int rc = 0;

    while (s->innermost != NO_SPAN && !rc)
        rc = stack_take(s, s->innermost);
    s->n = 0;
    return rc;
}

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
    const uint64_t *same;
    uint32_t at = s->innermost;
    int rc = 0;

    if (strchr("BbSN", p->ph))
        return stack_push(s, p);
    if (p->name) {
        same = u64map_get(&s->inmost, p->name);
        at = same ? (uint32_t)*same : NO_SPAN;
    }
    if (at == NO_SPAN) {
        store_stat(ev->st, missing, 1);
        return 0;
    }
    if (end_span(ev, s->span[at].begin, p))
        return OPM_ENOMEM;
    while (nested && s->innermost != at && !rc) {
        const struct point *inside = s->span[s->innermost].begin;

        store_stat(ev->st, STAT_ended_by_parent, 1);
        store_span_set_dur(ev->st, inside->span, p->ts - inside->ts);
        rc = stack_take(s, s->innermost);
    }
    return rc ? rc : stack_take(s, at);
}

static int match(struct events *ev, const struct point *p, size_t n, bool nested,
                 enum stat_id missing)
{
    struct order *o = sort_points(p, n);
    struct stack s = { .innermost = NO_SPAN };
    int rc = o ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < n && !rc; i++) {
        if (!i || o[i].p->key != o[i - 1].p->key)
            rc = stack_clear(&s);
        if (!rc)
            rc = take_point(ev, &s, o[i].p, nested, missing);
    }
    mem_free(s.span);
    u64map_release(&s.inmost);
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
