/* fuzz_input.c -- any text as a description of inputs; files that it names do not exist. */
#include "run/input.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input_items items = { 0 };
    char text[4096];

    if (len >= sizeof(text) || memchr(data, '/', len) || memchr(data, '.', len))
        return 0;
    memcpy(text, data, len);
    text[len] = '\0';
    input_items_parse(&items, text, NULL);
    input_items_release(&items);
    return 0;
}
