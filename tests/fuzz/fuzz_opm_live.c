/* fuzz_opm_live.c -- any bytes as the live buffers of a killed recording. The input is two slots
 * and three blocks, PART bytes of each; the rest of the live file is made here. */
#include "format/crc32c.h"
#include "format/format.h"
#include "import/import.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 2, BLOCKS = 3, PART = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static char path[64], live_path[80];
static uint8_t file[OPM_HEADER_SIZE];

static void tidy(void)
{
    unlink(path);
    unlink(live_path);
}

static void set_up(void)
{
    struct opm_file_header h = { .magic = OPM_FILE_MAGIC,
                                 .version = OPM_RECORDING_VERSION,
                                 .header_size = OPM_HEADER_SIZE,
                                 .clock_source = CLOCK_SOURCE_TSC,
                                 .start = { 1000000, 1000000, 1000000 },
                                 .ticks_per_s = 2000000000 };
    int fd;

    h.crc = crc32c(&h, offsetof(struct opm_file_header, crc));
    memcpy(file, &h, sizeof(h));
    snprintf(path, sizeof(path), "/dev/shm/fuzz_opm_live-%d.opm", (int)getpid());
    snprintf(live_path, sizeof(live_path), "%s-live", path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, file, sizeof(file)) != (ssize_t)sizeof(file))
        abort();
    close(fd);
    atexit(tidy);
}

static void part(int fd, uint64_t offset, const uint8_t **p, size_t *left)
{
    size_t n = *left < PART ? *left : PART;

    if (pwrite(fd, *p, n, (off_t)offset) != (ssize_t)n)
        abort();
    *p += n;
    *left -= n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct opm_live_header h = { .magic = OPM_LIVE_MAGIC,
                                 .version = OPM_RECORDING_VERSION,
                                 .nslot = SLOTS,
                                 .nblock = BLOCKS,
                                 .last = { 3000000, 2000000, 2000000 } };
    struct import_source src = { .path = path, .data = file, .len = sizeof(file), .count = 1 };
    struct store *st = NULL;
    opm_error err = { 0 };
    int fd;

    if (!path[0])
        set_up();
    fd = open(live_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || store_new(&st) < 0 ||
        ftruncate(fd, (off_t)live_block_offset(SLOTS, BLOCKS)) < 0 ||
        pwrite(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h))
        abort();
    for (uint32_t i = 0; i < SLOTS; i++)
        part(fd, live_slot_offset(i), &data, &len);
    for (uint32_t i = 0; i < BLOCKS; i++)
        part(fd, live_block_offset(SLOTS, i), &data, &len);
    close(fd);
    if (opm_read(st, &src, &err) != 0)
        abort(); /* whatever is in there, the file itself is good */
    store_finish(st);
    store_free(st);
    return 0;
}
