/* fuzz_otlp_json.c -- any bytes as OTLP in JSON. */
#include "import/import.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct import_source src = { .path = "fuzz", .data = data, .len = len, .count = 1 };
    struct store *st = NULL;
    opm_error err = { 0 };

    if (store_new(&st) < 0)
        abort();
    otlp_json_sniff(data, len < IMPORT_SNIFF_MAX ? len : IMPORT_SNIFF_MAX);
    if (otlp_json_read(st, &src, &err) == 0)
        store_finish(st);
    else if (!err.code || !err.msg[0])
        abort(); /* failed, and said nothing */
    store_free(st);
    return 0;
}
