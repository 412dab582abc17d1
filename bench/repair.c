/* repair.c -- whether the time for damaged files grows with their length, not with its square.
 *
 *   bench_repair [-n BYTES] [-d DOUBLINGS] [-r ROUNDS] [NAME]
 *
 * Each case repeats a piece of text that a reader has to work on: a quote that is missing, a
 * bracket that is never closed, a comment that never ends. The file is doubled -d times (default 5)
 * from -n bytes on (default 100000); the least processor time of -r rounds (default 3) counts.
 * Printed are ns per byte at each length, and how the time of the last doubling grew: 2 is linear,
 * 4 is not. */
#include "import/import.h"

#include "base/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct damage {
    const char *name;
    const char *format; /* the importer */
    const char *head, *piece, *tail;
} damages[] = {
#define X(name, format, head, piece, tail) { name, format, head, piece, tail },
#include "repair.def"
#undef X
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* others may use the machine, too */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void write_file(const char *path, const struct damage *d, size_t bytes)
{
    FILE *f = fopen(path, "we");

    if (!f) {
        fprintf(stderr, "bench_repair: cannot write %s\n", path);
        exit(1);
    }
    fputs(d->head, f);
    for (size_t n = strlen(d->head); n < bytes; n += strlen(d->piece))
        fputs(d->piece, f);
    fputs(d->tail, f);
    fclose(f);
}

/* Seconds to read it; whether that works does not matter. */
static double read_once(const char *path, const char *format)
{
    struct import_options opts = { .format = format };
    struct store *st;
    opm_error err;
    double start = now();

    if (store_new(&st) < 0)
        exit(1);
    if (import_all(st, &path, 1, &opts, &err) == 0)
        store_finish(st);
    store_free(st);
    return now() - start;
}

static double measure(const char *path, const struct damage *d, size_t bytes, int rounds)
{
    double least = 1e9;

    write_file(path, d, bytes);
    for (int i = 0; i < rounds; i++) {
        double s = read_once(path, d->format);

        least = s < least ? s : least;
    }
    return least;
}

int main(int argc, char **argv)
{
    size_t first = 100000;
    int doublings = 5, rounds = 3, c;
    char path[300];
    const char *folder = getenv("TMPDIR");

    for (;;) {
        c = getopt(argc, argv, "n:d:r:");
        if (c == -1)
            break;
        if (c == 'n')
            first = strtoull(optarg, NULL, 10);
        else if (c == 'd')
            doublings = atoi(optarg);
        else if (c == 'r')
            rounds = atoi(optarg);
        else
            return 2;
    }
    snprintf(path, sizeof(path), "%s/bench_repair.%d", folder ? folder : "/tmp", (int)getpid());
    printf("%-36s", "ns per byte at");
    for (int i = 0; i <= doublings; i++)
        printf(" %8zu", first << i);
    printf("   growth\n");
    for (size_t k = 0; k < ARRAY_SIZE(damages); k++) {
        const struct damage *d = &damages[k];
        double s = 0, before = 0;

        if (optind < argc && !strstr(d->name, argv[optind]) && !strstr(d->format, argv[optind]))
            continue;
        printf("%-16s %-19s", d->format, d->name);
        fflush(stdout);
        for (int i = 0; i <= doublings; i++) {
            before = s;
            s = measure(path, d, first << i, rounds);
            printf(" %8.1f", s * 1e9 / (double)(first << i));
            fflush(stdout);
        }
        printf("   %6.2f\n", before > 0 ? s / before : 0);
    }
    unlink(path);
    return 0;
}
