/* chrome.c -- trace event JSON of any producer. */
#include "import/json/events.h"
#include "import/json/sniff.h"

#include <stdlib.h>
#include <string.h>

bool chrome_sniff(const uint8_t *head, size_t len)
{
    /* Members that stand before the events in some files, and may be long. */
    static const char *const members[] = { "\"displayTimeUnit\"", "\"stackFrames\"",
                                           "\"systemTraceEvents\"", "\"viztracer_metadata\"",
                                           "\"otherData\"" };
    char c = json_first_bracket(head, len);

    if (!c)
        return false;
    if (head_has_events(head, len))
        return true;
    for (size_t i = 0; c == '{' && i < ARRAY_SIZE(members); i++)
        if (head_contains(head, len, members[i]))
            return true;
    return false;
}

static int chrome_fact(struct events *ev, const char *key, const char *json, size_t len,
                       bool *taken)
{
    struct json_reader r = json_read_of(json, len);
    struct buf name = { 0 }, text = { 0 };
    int64_t base;
    int rc = 0;

    if (json_read_next(&r) == JSON_NUMBER && strcmp(key, "baseTimeNanoseconds") == 0 &&
        json_read_int(&r, &base))
        events_clock(ev, base);
    if (r.token != JSON_OBJECT || (strcmp(key, "otherData") != 0 && strcmp(key, "metadata") != 0 &&
                                   strcmp(key, "viztracer_metadata") != 0))
        return 0;
    *taken = true;
    while (!rc && json_read_next(&r) == JSON_KEY) {
        bool is_base = json_read_is(&r, "baseTimeNanoseconds");
        const char *from;

        buf_clear(&name);
        buf_clear(&text);
        buf_addf(&name, "%s.", ev->dialect->name);
        json_read_text(&r, &name);
        if (json_read_next(&r) == JSON_STRING) {
            json_read_text(&r, &text);
        } else {
            if (is_base && r.token == JSON_NUMBER && json_read_int(&r, &base))
                events_clock(ev, base);
            from = r.token == JSON_NUMBER ? r.text
                   : r.token == JSON_OBJECT || r.token == JSON_ARRAY
                       ? r.at - 1
                       : r.at - (r.token == JSON_FALSE ? 5 : 4);
            if (!json_read_skip(&r))
                break;
            buf_add(&text, from, (size_t)(r.at - from));
        }
        if (name.failed || text.failed)
            rc = OPM_ENOMEM;
        if (!rc)
            rc = events_meta(ev, buf_str(&name), buf_str(&text));
    }
    buf_release(&name);
    buf_release(&text);
    return rc;
}

const struct dialect dialect_chrome = { .name = "chrome", .fact = chrome_fact };

#define LOOK_BYTES ((size_t)1 << 20)

int chrome_read(struct store *st, const struct import_source *src, opm_error *err)
{
    /* Kineto's marks may stand too far back for the sniffer. */
    bool kineto = kineto_words(src->data, MIN(src->len, LOOK_BYTES));

    return trace_json_read(st, src, kineto ? &dialect_kineto : &dialect_chrome, err);
}
