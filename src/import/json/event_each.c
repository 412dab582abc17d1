/* event_each.c -- see event_each.h. */
#include "import/json/event_each.h"

#include "import/json/events.h"

struct each {
    event_each_fn *fn;
    void *user;
};

static int each_event(struct events *ev, struct json_reader *r)
{
    const struct each *each = ev->src->reader;

    return each->fn(each->user, r);
}

static int ignore_fact(struct events *ev, const char *key, const char *json, size_t len,
                       bool *taken)
{
    (void)ev;
    (void)key;
    (void)json;
    (void)len;
    *taken = true;
    return 0;
}

static const struct dialect dialect_each = { .fact = ignore_fact, .event = each_event };

int event_each(struct store *st, const struct import_source *src, event_each_fn *each, void *user,
               opm_error *err)
{
    struct each context = { each, user };
    struct import_source own = *src;

    own.reader = &context;
    return trace_json_read(st, &own, &dialect_each, err);
}
