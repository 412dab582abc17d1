/* fuzz_csv_read.c -- any bytes as comma-separated values. */
#include "base/csv_read.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct csv_reader r = csv_read_of(data, len);
    struct csv_field f[8];
    struct buf text = { 0 };
    int n;

    for (;;) {
        n = csv_read_row(&r, f, 8);
        if (n < 0)
            break;
        if (n == 0)
            abort();
        for (int i = 0; i < MIN(n, 8); i++) {
            int64_t v;

            buf_clear(&text);
            csv_field_text(&f[i], &text);
            if (text.len > f[i].len)
                abort();
            csv_field_int(&f[i], &v);
        }
    }
    buf_release(&text);
    return 0;
}
