/* opmeter_arrow.h -- answers of queries as Arrow columns, which polars, pyarrow, DuckDB and others
 * take as they are, without copying.
 *
 * The three structs are those of the Arrow C data and C stream interfaces; the macros around them
 * are the ones that every copy of them uses, so that copies can meet in one program. Link with
 * -lopmeter-trace.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef OPMETER_ARROW_H
#define OPMETER_ARROW_H

#include <opmeter/opmeter_trace.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};
#endif

/* Run one SQL statement that only reads, to its end, and hand out the answer as a stream of at most
 * one batch. Integers are int64 ("l"), reals float64 ("g"), texts int32 numbers into a dictionary
 * of large_utf8 ("i", "U"); a column of nothing but NULL that comes from no table is null ("n").
 * Every column is nullable. On success *out is the caller's, who calls out->release; it and what it
 * hands out need neither the trace nor each other, and may be released on any thread. */
OPM_API int opm_trace_arrow(opm_trace *t, const char *sql, struct ArrowArrayStream *out,
                            opm_error *err);

#ifdef __cplusplus
}
#endif
#endif
