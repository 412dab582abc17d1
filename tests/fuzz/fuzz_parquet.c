/* fuzz_parquet.c -- any bytes as a Parquet file: of spans, or of whatever table it says it holds.
 */
#include "import/import.h"
#include "import/parquet/pq_meta.h"
#include "import/parquet/pq_unpack.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What is packed is beyond the reach of a fuzzer, so the bytes also go to each unpacker. */
static void unpack(const uint8_t *data, size_t len)
{
    static uint8_t out[4096];

    for (int codec = 0; codec < 8; codec++)
        if (pq_codec_known(codec) && len >= 2)
            pq_unpack(codec, data + 2, len - 2, out,
                      MIN(sizeof(out), (size_t)data[0] | (size_t)data[1] << 8));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct import_source src = {
        .path = "span/fuzz.parquet", .data = data, .len = len, .count = 1
    };
    struct store *st = NULL;
    opm_error err = { 0 };

    pq_rows_free = 4096; /* a real file of this size has no more */
    pq_rows_per_byte = 16;
    if (store_new(&st) < 0)
        abort();
    unpack(data, len);
    parquet_sniff(data, len < IMPORT_SNIFF_MAX ? len : IMPORT_SNIFF_MAX);
    if (parquet_read(st, &src, &err) == 0)
        store_finish(st);
    else if (!err.code || !err.msg[0])
        abort(); /* failed, and said nothing */
    store_free(st);
    return 0;
}
