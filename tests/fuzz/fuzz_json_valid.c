/* fuzz_json_valid.c -- the validator on any bytes; and what the writer makes of them is valid. */
#include "base/json_write.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct buf b = { 0 };
    struct json_writer w = { .buf = &b };

    json_valid((const char *)data, len);
    json_str(&w, (const char *)data, len);
    if (!json_valid(b.data, b.len))
        abort();
    buf_release(&b);
    return 0;
}
