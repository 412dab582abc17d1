/* record_seeds.c -- small recordings for the fuzzers to start from.
 *
 * usage: record_seeds DIR      writes DIR/fuzz_opm/ and DIR/fuzz_opm_live/, normally in
 *                              tests/fuzz/corpus */
#include "format/format.h"
#include "sample.h"

#include <opmeter/opmeter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void record(const char *path, int which)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_error err;

    options.path = path;
    options.buffer_mb = 1;
    if (opm_start(&options, &err) != 0) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    if (which == 1)
        sample_everything(0);
    else if (which == 2)
        sample_spans(300);
    else if (which == 3)
        sample_deep(256);
    else if (which == 4)
        sample_everything(1);
}

static void copy(FILE *from, long offset, size_t len, FILE *to)
{
    char bytes[2048];

    if (fseek(from, offset, SEEK_SET) == 0 && fread(bytes, 1, len, from) == len)
        fwrite(bytes, 1, len, to);
}

/* The input of fuzz_opm_live: the interesting parts of a live file, one after the other. */
static void live_seed(const char *live, const char *path)
{
    FILE *from = fopen(live, "rb"), *to = fopen(path, "wb");
    struct opm_live_header h;

    if (!from || !to || fread(&h, sizeof(h), 1, from) != 1)
        exit(1);
    for (uint32_t i = 0; i < 2; i++)
        copy(from, (long)live_slot_offset(i), 1024, to);
    for (uint32_t i = 0; i < 3; i++)
        copy(from, (long)live_block_offset(h.nslot, i), 1024, to);
    fclose(from);
    fclose(to);
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "empty", "everything", "spans", "deep", "open" };
    char path[1024], live[1100];

    if (argc != 2)
        return 2;
    snprintf(path, sizeof(path), "%s/fuzz_opm", argv[1]);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/fuzz_opm_live", argv[1]);
    mkdir(path, 0755);
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof(path), "%s/fuzz_opm/%s.opm", argv[1], names[i]);
        record(path, i);
        if (opm_stop(NULL) != 0)
            return 1;
    }
    /* One that was killed. */
    snprintf(path, sizeof(path), "%s/killed.opm", argv[1]);
    snprintf(live, sizeof(live), "%s-live", path);
    if (fork() == 0) {
        record(path, 4);
        _exit(0);
    }
    wait(NULL);
    snprintf(path, sizeof(path), "%s/fuzz_opm_live/open", argv[1]);
    live_seed(live, path);
    unlink(live);
    snprintf(path, sizeof(path), "%s/killed.opm", argv[1]);
    unlink(path);
    return 0;
}
