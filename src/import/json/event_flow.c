/* event_flow.c -- arrows: starts, steps and ends of one id, in order of time. */
#include "import/json/events.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static int by_key_and_time(const void *a, const void *b)
{
    const struct flow_step *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    if (x->ph != y->ph) /* s before t before f */
        return (x->ph == 's') != (y->ph == 's') ? (x->ph == 's' ? -1 : 1) : (x->ph == 't' ? -1 : 1);
    return x->track < y->track ? -1 : x->track > y->track;
}

#define BUCKET_BITS 14
#define BUCKET(key) ((key) >> (64 - BUCKET_BITS))

/* Keys are hashes, so that their first bits spread them evenly; what is left to sort are a few
 * each. Without memory for that, all at once. */
static void sort_steps(struct flow_step *f, size_t n)
{
    size_t nbucket = (size_t)1 << BUCKET_BITS;
    size_t *end = n > nbucket ? mem_calloc(nbucket, sizeof(*end)) : NULL;
    struct flow_step *from = end ? mem_alloc(n * sizeof(*from)) : NULL;

    if (from) {
        size_t at = 0;

        memcpy(from, f, n * sizeof(*f));
        for (size_t i = 0; i < n; i++)
            end[BUCKET(f[i].key)]++;
        for (size_t b = 0; b < nbucket; b++) {
            size_t count = end[b];

            end[b] = at;
            at += count;
        }
        for (size_t i = 0; i < n; i++)
            f[end[BUCKET(from[i].key)]++] = from[i];
        for (size_t b = 0; b < nbucket; b++) {
            size_t first = b ? end[b - 1] : 0;

            if (end[b] - first > 1)
                qsort(f + first, end[b] - first, sizeof(*f), by_key_and_time);
        }
    } else if (n) {
        qsort(f, n, sizeof(*f), by_key_and_time);
    }
    mem_free(from);
    mem_free(end);
}

/* What the arrow means, in words that all formats share. */
static int kind_word(struct events *ev, str_id cat, str_id *out)
{
    static const struct {
        const char *cat, *word;
    } known[] = {
        { "ac2g", "launch" },
        { "async_cpu_to_gpu", "launch" },
        { "async_gpu", "launch" },
        { "async", "launch" }, /* Kineto in 2021 */
        { "fwdbwd", "forward-backward" },
        { "forward_backward", "forward-backward" },
    };
    const char *text = store_text(ev->st, cat);

    *out = cat;
    if (!text || !*text)
        return store_cstr(ev->st, "flow", out);
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (strcmp(text, known[i].cat) == 0)
            return store_cstr(ev->st, known[i].word, out);
    return 0;
}

static struct flow_end end_of(const struct events *ev, const struct flow_step *f)
{
    return (struct flow_end){ .bind = f->span != OPM_NULL_ID ? FLOW_SPAN
                                      : f->next              ? FLOW_NEXT
                                                             : FLOW_ENCLOSING,
                              .span = f->span,
                              .track = ev->first_track + f->track,
                              .ts_ns = f->ts };
}

int flows_finish(struct events *ev)
{
    struct flow_step *f = ev->flow;
    size_t n = ev->nflow, from = SIZE_MAX; /* the step that the next arrow leaves from */
    bool left = false;                     /* an arrow has left it */
    str_id cat = 0, word = 0;

    sort_steps(f, n);
    for (size_t i = 0; i < n; i++) {
        if (!i || f[i].key != f[i - 1].key || f[i].ph == 's') {
            if (from != SIZE_MAX && !left)
                store_stat(ev->st, STAT_flow_without_end, 1);
            from = SIZE_MAX;
        }
        if (f[i].ph != 's') {
            struct flow_end src, dst = end_of(ev, &f[i]);

            if (from == SIZE_MAX) {
                store_stat(ev->st, STAT_flow_without_start, 1);
                continue;
            }
            if (f[from].kind != cat || !word) {
                cat = f[from].kind;
                if (kind_word(ev, cat, &word))
                    return OPM_ENOMEM;
            }
            src = end_of(ev, &f[from]);
            if (store_add_flow(ev->st, &src, &dst, word))
                return OPM_ENOMEM;
            left = true;
            if (f[i].ph == 'f')
                continue; /* more ends of the same start may follow */
        }
        from = i;
        left = f[i].ph == 't';
    }
    if (from != SIZE_MAX && !left)
        store_stat(ev->st, STAT_flow_without_end, 1);
    return 0;
}
