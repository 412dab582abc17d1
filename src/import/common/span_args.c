/* span_args.c -- see span_args.h. */
#include "import/common/span_args.h"

#include "base/json_read.h"

/* The value of a key in a span's args, as the reader's last token. */
static bool find_arg(const struct store *st, size_t row, const char *key, struct buf *text,
                     struct json_reader *r)
{
    buf_clear(text);
    if (store_span_args(st, row, text) || text->failed || !text->len)
        return false;
    *r = json_read_of(buf_str(text), text->len);
    if (json_read_next(r) != JSON_OBJECT)
        return false;
    while (json_read_next(r) == JSON_KEY) {
        bool found = json_read_is(r, key);

        json_read_next(r);
        if (found)
            return true;
        if (!json_read_skip(r))
            return false;
    }
    return false;
}

bool span_arg_int(const struct store *st, size_t row, const char *key, int64_t *out)
{
    struct buf text = { 0 };
    struct json_reader r;
    bool found = find_arg(st, row, key, &text, &r) && json_read_int(&r, out);

    buf_release(&text);
    return found;
}

bool span_arg_text(const struct store *st, size_t row, const char *key, struct buf *out)
{
    struct buf text = { 0 };
    struct json_reader r;
    bool found = find_arg(st, row, key, &text, &r) && r.token == JSON_STRING;

    if (found)
        json_read_text(&r, out);
    buf_release(&text);
    return found && !out->failed;
}
