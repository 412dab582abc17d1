/* fuzz_mindspore.c -- any bytes as any file of a MindSpore profiler folder; the first byte says
 * which.
 */
#include "import/mindspore/mindspore_int.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static ms_reader *const readers[] = {
#define X(topic, pattern, reader, use, sign) reader,
#include "import/mindspore/mindspore_files.def"
#undef X
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char tasks[] = "Default/Conv2D-op1 32 30001 5\nDefault/ReLU-op2 32 7 5\n";
    struct import_source src = { .path = "/nowhere" };
    struct ms_device d = { .id = 1, .origin_ns = MS_NONE };
    struct store *st = NULL;
    struct ms m;

    if (!len)
        return 0;
    if (store_new(&st) < 0 || ms_start(&m, st, &src))
        abort();
    store_part_begin(st, &d.part);
    if (ms_read_task_desc(&m, &d, (const uint8_t *)tasks, sizeof(tasks) - 1))
        abort();
    m.path = "/nowhere/name_1.txt";
    if (readers[data[0] % ARRAY_SIZE(readers)](&m, &d, data + 1, len - 1) == 0)
        store_finish(st);
    json_texts_clear(&m.texts);
    ms_device_release(&d);
    buf_release(&m.text);
    store_free(st);
    return 0;
}
