/* describe.c -- a few words on content that nobody reads; see sources.h. */
#include "import/sources.h"

#include "base/content.h"
#include "base/json_read.h"

#include <stdio.h>
#include <string.h>

static bool is_text(const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] == 0x7f || (data[i] < 0x20 && !(data[i] >= '\t' && data[i] <= '\r')))
            return false;
    return true;
}

/* "JSON with members a, b, c", as far as the head shows them. */
static void describe_json(const uint8_t *data, size_t len, char *to, size_t size)
{
    struct json_reader r = json_read_of(data, len);
    size_t n = (size_t)snprintf(to, size, "JSON of another kind");
    bool first = true;

    if (json_read_next(&r) != JSON_OBJECT) {
        if (r.token == JSON_ARRAY)
            snprintf(to, size, "a JSON list of another kind");
        return;
    }
    while (n < size && json_read_next(&r) == JSON_KEY && r.len < size - n) {
        n += (size_t)snprintf(to + n, size - n, "%s%.*s", first ? " with members " : ", ",
                              (int)r.len, r.text);
        first = false;
        if (!json_read_skip(&r))
            break;
    }
}

void describe_content(const uint8_t *data, size_t len, char *to, size_t size)
{
    struct content known = content_of(data, len);
    size_t head = MIN(len, (size_t)IMPORT_SNIFF_MAX), skip = 0;

    if (len == 0) {
        snprintf(to, size, "an empty file");
        return;
    }
    if (known.what) {
        snprintf(to, size, "%s", known.what);
        return;
    }
    if (is_text(data, head)) {
        if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
            skip = 3;
        while (skip < head && (data[skip] == ' ' || (data[skip] >= '\t' && data[skip] <= '\r')))
            skip++;
        if (skip < head && (data[skip] == '{' || data[skip] == '['))
            describe_json(data + skip, head - skip, to, size);
        else if (skip < head && data[skip] == '<')
            snprintf(to, size, "HTML or XML");
        else
            snprintf(to, size, "%s", skip == len ? "blank text" : "text");
        return;
    }
    head = MIN(len, (size_t)8);
    skip = (size_t)snprintf(to, size, "binary data (");
    for (size_t i = 0; i < head; i++)
        skip += (size_t)snprintf(to + skip, size - skip, "%s%02x", i ? " " : "", data[i]);
    snprintf(to + skip, size - skip, "%s)", len > head ? " ..." : "");
}
