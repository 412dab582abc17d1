/* sample_source.h -- what a sampler reads: a row in the table of sampler.c for each kind of thing.
 */
#ifndef DEVICE_SAMPLE_SOURCE_H
#define DEVICE_SAMPLE_SOURCE_H

#include "device/sampler.h"

#include <opmeter/opmeter.h>

/* One round of reading. */
struct sample_round {
    pid_t root;
    int64_t now_ns;
    double since_s; /* the round before; 0: this is the first */
    struct sampler_stats *stats;
};

struct sample_source {
    void *(*open)(struct sampler_stats *stats); /* NULL: there is nothing of the kind */
    void (*read)(void *source, const struct sample_round *r);
    void (*close)(void *source);
};

extern const struct sample_source sample_machine, sample_processes, sample_gpus;

/* A value that is only known as a sum that grows: shown as a rate. */
struct sample_sum {
    opm_gauge *gauge;
    uint64_t last;
    bool known; /* last holds a value */
};

void sample_put(const struct sample_round *r, opm_gauge *g, double value);
/* Record (v - last) * scale per second. */
void sample_put_rate(const struct sample_round *r, struct sample_sum *s, uint64_t v, double scale);

/* The whole of a small file below /proc or /sys, NUL-terminated, at most size - 1 bytes. -1, or how
 * many were read. */
ssize_t sample_read_file(const char *path, char *out, size_t size);
/* The number behind "key" at the beginning of a line; false: there is no such line. */
bool sample_find_number(const char *text, const char *key, uint64_t *out);

#endif
