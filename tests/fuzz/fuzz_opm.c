/* fuzz_opm.c -- any bytes as a recording. Checksums are made right first: they would keep
 * everything else from being looked at. */
#include "format/crc32c.h"
#include "format/format.h"
#include "import/import.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void mend(uint8_t *p, size_t len)
{
    struct opm_file_header h;
    struct opm_file_status st;
    struct opm_chunk c;

    if (len < sizeof(h) + sizeof(st))
        return;
    memcpy(&h, p, sizeof(h));
    h.crc = crc32c(&h, offsetof(struct opm_file_header, crc));
    memcpy(p, &h, sizeof(h));
    memcpy(&st, p + sizeof(h), sizeof(st));
    st.crc = crc32c(&st, offsetof(struct opm_file_status, crc));
    memcpy(p + sizeof(h), &st, sizeof(st));
    for (size_t at = h.header_size; at < len && len - at >= sizeof(c); at += c.size) {
        memcpy(&c, p + at, sizeof(c));
        if (c.magic != OPM_CHUNK_MAGIC || c.size > len - at - sizeof(c))
            return;
        c.crc = crc32c(p + at + sizeof(c), c.size);
        c.header_crc = crc32c(&c, offsetof(struct opm_chunk, header_crc));
        memcpy(p + at, &c, sizeof(c));
        at += sizeof(c);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct import_source src = { .path = "/nowhere/fuzz.opm", .len = len, .count = 1 };
    uint8_t *copy = malloc(len + 1);
    struct store *st = NULL;
    opm_error err = { 0 };

    if (!copy || store_new(&st) < 0)
        abort();
    memcpy(copy, data, len);
    mend(copy, len);
    src.data = copy;
    if (opm_read(st, &src, &err) == 0)
        store_finish(st);
    else if (!err.code || !err.msg[0])
        abort(); /* failed, and said nothing */
    store_free(st);
    free(copy);
    return 0;
}
