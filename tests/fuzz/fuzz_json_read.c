/* fuzz_json_read.c -- the pull parser on any bytes; it and the validator must agree. */
#include "base/json_read.h"
#include "base/json_write.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct json_reader r = json_read_of(data, len);
    struct buf b = { 0 };
    enum json_token t;
    int deepest = 0;

    for (;;) {
        t = json_read_next(&r);
        if (t == JSON_BAD || t == JSON_DONE)
            break;
        int64_t i;
        double real;

        deepest = r.depth > deepest ? r.depth : deepest;
        if (t == JSON_KEY || t == JSON_STRING) {
            buf_clear(&b);
            json_read_text(&r, &b);
            if (b.data && strlen(b.data) == b.len && !json_read_is(&r, b.data))
                abort();
        }
        json_read_int(&r, &i);
        json_read_real(&r, &real);
    }
    if (t == JSON_DONE && !json_valid((const char *)data, len))
        abort();
    if (t == JSON_BAD && deepest < JSON_READ_DEPTH_MAX && json_valid((const char *)data, len))
        abort();
    buf_release(&b);
    return 0;
}
