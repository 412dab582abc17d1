/* fuzz_cambricon.c -- any bytes as any file of a Cambricon profile folder; the first byte says
 * which.
 */
#include "import/cambricon/cambricon_int.h"

#include "base/alloc.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct import_source src = { .path = "/nowhere" };
    struct store *st = NULL;
    struct cam c = { .app = OPM_NULL_ID };

    if (!len)
        return 0;
    if (store_new(&st) < 0)
        abort();
    c.b = (struct build){ .st = st, .src = &src };
    switch (data[0] % 4) {
    case 0:
        cam_read_stats(&c, 0, 1, data + 1, len - 1);
        break;
    case 1:
        cam_read_timeline(&c, 0, 1, data + 1, len - 1);
        break;
    case 2:
        cam_read_activities(&c, data + 1, len - 1);
        break;
    default:
        cam_read_summary(&c, data + 1, len - 1);
        break;
    }
    cam_steps_end(&c);
    if (!c.b.rc)
        store_finish(st);
    cam_release(&c);
    store_free(st);
    return 0;
}
