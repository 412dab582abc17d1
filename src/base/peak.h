/* peak.h -- what a machine does at most, as it was measured there with some number of threads, and
 * the keys of a trace's facts (meta) that say so. */
#ifndef BASE_PEAK_H
#define BASE_PEAK_H

/* X(member, key): behind "machine." of the machine that a trace was made on, behind "reader." of
 * the one that reads it. */
#define PEAK_FIGURES(X)                   \
    X(fp32_gflops, "peak_gflops_per_s")   \
    X(int8_gops, "peak_int8_gops_per_s")  \
    X(l1_gbytes, "peak_l1_gbytes_per_s")  \
    X(l2_gbytes, "peak_l2_gbytes_per_s")  \
    X(l3_gbytes, "peak_l3_gbytes_per_s")  \
    X(memory_gbytes, "peak_gbytes_per_s") \
    X(l1_bytes, "l1_bytes")               \
    X(l2_bytes, "l2_bytes")               \
    X(l3_bytes, "l3_bytes")

/* 0: not known, or there is no such cache. 16-bit floats have no figure of their own: engines on
 * these processors widen them and compute in fp32. */
struct peak {
    double fp32_gflops; /* 10^9 operations a second; a multiply and an add are two */
    double int8_gops;   /* likewise, of bytes with sums of 32 bits */
    /* 10^9 bytes a second, read, or read and written, whichever is more */
    double l1_gbytes, l2_gbytes, l3_gbytes, memory_gbytes;
    double l1_bytes, l2_bytes, l3_bytes; /* what so many threads have together */
};

#endif
