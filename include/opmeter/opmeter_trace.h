/* opmeter_trace.h -- open, query and export traces.
 *
 * Handles are opaque; each function that makes one names its closer. Functions return 0 or a
 * negative OPM_E* code; on failure *out is untouched and `err` (may be NULL) holds a one-line
 * message naming the file, table or offset. A handle may be used by one thread at a time; different
 * handles are independent.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef OPMETER_TRACE_H
#define OPMETER_TRACE_H

#include <opmeter/opmeter_error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opm_trace opm_trace;
typedef struct opm_rows opm_rows;

typedef struct opm_open_options {
    size_t size;        /* = sizeof(opm_open_options), so that fields can be appended */
    const char *format; /* importer name, or NULL to detect by content */
    /* Refuse files that unpack to more than this, all together; 0: what the variable
     * OPMETER_MAX_UNPACKED says, else 64 GiB and not more than 200 times their size. */
    uint64_t max_bytes;
    /* Called now and then with bytes read and the total (0 if unknown); may be NULL. Return
     * nonzero to give up: the open then fails with OPM_ELIMIT. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    /* Facts to add to table meta, each "key=value", up to a NULL; analyses look at some of them:
     * step.fp_point and step.bp_point. They win over what the trace says. May be NULL. */
    const char *const *meta;
    /* Facts to hide, as OPMETER_REDACT lists them for the recorder: "all", or kinds (command, host,
     * paths) and patterns of keys, separated by commas. May be NULL. */
    const char *redact;
    /* Bytes of memory that the open may take, mapped plain files apart; 0: OPMETER_MAX_MEMORY, else
     * three quarters of what the machine has or the control group allows. */
    uint64_t max_memory;
    /* Seconds that the open may take; 0: OPMETER_MAX_TIME, else any. What is beyond one of the
     * three fails with OPM_ELIMIT and a message that says which. */
    uint64_t max_seconds;
    /* Files or folders with traces of the capture of graphs that the trace replays (CUDA, HIP),
     * from which kernels of replays take their operators; ncaptures of them. Captures among the
     * paths themselves are found. Those of other graphs are refused with OPM_EFORMAT. */
    const char *const *captures;
    size_t ncaptures;
} opm_open_options;
#define OPM_OPEN_OPTIONS_INIT                                                    \
    {                                                                            \
        sizeof(opm_open_options), NULL, 0, NULL, NULL, NULL, NULL, 0, 0, NULL, 0 \
    }

/* Open one trace, or several as one (processes, ranks, instances: aligned by their absolute
 * clocks). No paths at all gives an empty trace, good for the schema. opts may be NULL. Close with
 * opm_trace_close(). */
OPM_API int opm_trace_open(opm_trace **out, const char *const *paths, size_t npaths,
                           const opm_open_options *opts, opm_error *err);
OPM_API void opm_trace_close(opm_trace *t); /* NULL is fine */
/* A second handle on what t holds, for another thread; the data are not copied and live as long as
 * one of the handles. What was computed for one is computed again for the other. Close each. A
 * trace with several handles cannot be exported (OPM_EBUSY). */
OPM_API int opm_trace_share(opm_trace *t, opm_trace **out, opm_error *err);
/* The name of the format in which opm_trace_open() would read a file, or a folder that is one
 * profile, found from the head of its content; NULL if it is nothing known. Static. */
OPM_API const char *opm_trace_detect(const char *path);

enum opm_type { OPM_TYPE_NULL = 0, OPM_TYPE_INT = 1, OPM_TYPE_REAL = 2, OPM_TYPE_TEXT = 3 };

/* Run one SQL statement that only reads. Close with opm_rows_close(), before the trace.
 * Tables and columns: query table `schema`, or `opmeter schema`. */
OPM_API int opm_trace_query(opm_trace *t, const char *sql, opm_rows **out, opm_error *err);
OPM_API int opm_rows_next(opm_rows *r, opm_error *err); /* 1: a row, 0: the end, <0: failure */
OPM_API int opm_rows_columns(const opm_rows *r);
OPM_API const char *opm_rows_name(const opm_rows *r, int col);
OPM_API enum opm_type opm_rows_type(const opm_rows *r, int col);
OPM_API int64_t opm_rows_int(const opm_rows *r, int col);
OPM_API double opm_rows_real(const opm_rows *r, int col);
/* Bytes of a cell as text, NUL-terminated, until the next opm_rows_next(). NULL cell: NULL. */
OPM_API const char *opm_rows_text(const opm_rows *r, int col, size_t *out_len);
OPM_API void opm_rows_close(opm_rows *r); /* NULL is fine */

/* Stop a query that another thread is running on t, as soon as it looks. Signal-safe. */
OPM_API void opm_trace_interrupt(opm_trace *t);

/* Where the last span, step, labelled region or sample ends, ns since the start of the trace; 0 if
 * there is none. What never ended counts up to where it starts. */
OPM_API int64_t opm_trace_end(const opm_trace *t);
/* Rows of a table, without counting them as SQL would; -1: there is no such table, or it is an
 * analysis or view. */
OPM_API int64_t opm_trace_rows(const opm_trace *t, const char *table);

/* A bar of a timeline: a span, or several that are too narrow to be told apart. */
typedef struct opm_bar {
    int64_t ts_ns;
    int64_t dur_ns;   /* -1: never ended */
    int64_t busy_ns;  /* of dur_ns, how long there was a span: less where there are gaps */
    const char *name; /* NULL: it has none. Valid while the trace is open */
    uint32_t depth;   /* line within the track, 0 at the top */
    uint32_t span;    /* span.id of the longest one */
    uint32_t count;   /* spans that it stands for */
    /* 0: spans of this name make up at least half of busy_ns, surely if three quarters. Else there
     * are several and none stands out; name is that of the longest. */
    uint32_t mixed;
} opm_bar;

/* What a picture of [from_ns, to_ns) of a track can show if a pixel is pixel_ns wide: spans and
 * gaps narrower than that are united. By depth, then time. Free *out with opm_bars_free(). Fails
 * with OPM_ELIMIT if there are more than `max` bars. */
OPM_API int opm_trace_timeline(opm_trace *t, uint32_t track, int64_t from_ns, int64_t to_ns,
                               int64_t pixel_ns, size_t max, opm_bar **out, size_t *n,
                               opm_error *err);
OPM_API void opm_bars_free(opm_bar *bars); /* NULL is fine */

/* Spans whose name holds a text; letters of ASCII are equal in either case, "" finds nothing. Free
 * with opm_found_free(), before the trace. */
typedef struct opm_found opm_found;
OPM_API int opm_trace_find(opm_trace *t, const char *text, opm_found **out, opm_error *err);
OPM_API void opm_found_free(opm_found *f); /* NULL is fine */
OPM_API size_t opm_found_count(const opm_found *f);
OPM_API int64_t opm_found_total(const opm_found *f); /* ns, of those that ended */
/* span.id of the i-th by start; -1 beyond the last one. */
OPM_API int64_t opm_found_span(const opm_found *f, size_t i);
/* How many of them start before ns. */
OPM_API size_t opm_found_before(const opm_found *f, int64_t ns);
/* As opm_trace_timeline(), of these spans alone. */
OPM_API int opm_found_timeline(const opm_found *f, uint32_t track, int64_t from_ns, int64_t to_ns,
                               int64_t pixel_ns, size_t max, opm_bar **out, size_t *n,
                               opm_error *err);

/* What spans of one name, category and layer do in a range of time. Texts may be NULL and are valid
 * while the trace is open. */
typedef struct opm_total {
    const char *name, *cat, *layer;
    int64_t count;    /* spans that start in the range or reach into it */
    int64_t total_ns; /* of each the part that lies in the range */
    int64_t self_ns;  /* of that, outside of what stands inside them on the same track */
} opm_total;

/* All that have a span in [from_ns, to_ns), most self time first; what never ended lasts until
 * to_ns. Free *out with opm_totals_free(). */
OPM_API int opm_trace_totals(opm_trace *t, int64_t from_ns, int64_t to_ns, opm_total **out,
                             size_t *n, opm_error *err);
OPM_API void opm_totals_free(opm_total *totals); /* NULL is fine */

/* What stands in what within a range of time: spans of the same name inside the same are one node.
 * The name may be NULL and is valid while the trace is open. */
typedef struct opm_flame {
    int64_t parent; /* index of a node before it; -1: it is a track */
    const char *name;
    int64_t count, total_ns; /* of each span the part in the range; a track has its top spans' */
} opm_flame;

/* Of one track, or of all (-1); nodes below 1/parts of the whole time are left out. Free *out with
 * opm_flame_free(). */
OPM_API int opm_trace_flame(opm_trace *t, int64_t from_ns, int64_t to_ns, int64_t track,
                            int64_t parts, opm_flame **out, size_t *n, opm_error *err);
OPM_API void opm_flame_free(opm_flame *nodes); /* NULL is fine */

/* A value of a counter or queue, from ts_ns on. */
typedef struct opm_point {
    int64_t ts_ns;
    double value;
} opm_point;

/* What a picture of [from_ns, to_ns) of a counter can show if a pixel is pixel_ns wide: of the
 * values within a pixel the first, the lowest, the highest and the last. By time, beginning with
 * the value that from_ns finds. Free *out with opm_points_free(). OPM_ELIMIT as above. */
OPM_API int opm_trace_counter(opm_trace *t, uint32_t track, int64_t from_ns, int64_t to_ns,
                              int64_t pixel_ns, size_t max, opm_point **out, size_t *n,
                              opm_error *err);
OPM_API void opm_points_free(opm_point *points); /* NULL is fine */

typedef struct opm_export_options {
    size_t size;
    const char *table; /* csv, parquet, arrow: one table only; NULL: a folder with all of them */
    /* As in opm_open_options; done and total count spans. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    /* csv: not 0 writes texts as they are. Otherwise one that a spreadsheet would take for a
     * formula gets a ' in front, and control characters are written as \u001b. */
    int raw;
    /* parquet: write to the folders job=JOB and rank=RANK below that of each table, so that one
     * place holds all ranks of all jobs. NULL: no such folder; but a job always has a rank, that of
     * the trace if none is said. "" stands for NULL. Both must be UTF-8. */
    const char *job;
    const char *rank;
    int force; /* parquet: not 0 replaces what this job and rank have there; else OPM_EBUSY */
} opm_export_options;
#define OPM_EXPORT_OPTIONS_INIT                                        \
    {                                                                  \
        sizeof(opm_export_options), NULL, NULL, NULL, 0, NULL, NULL, 0 \
    }

typedef struct opm_format {
    const char *name;
    const char *extension; /* with the dot, or "" for a folder */
    const char *doc;
} opm_format;

/* Write the trace in another format. path "-" is standard output (formats of one file only). */
OPM_API int opm_trace_export(opm_trace *t, const char *format, const char *path,
                             const opm_export_options *opts, opm_error *err);
/* Formats that can be written / read; an array that ends with a NULL name, static. */
OPM_API const opm_format *opm_export_formats(void);
OPM_API const opm_format *opm_import_formats(void);

OPM_API const char *opm_trace_version(void);

#ifdef __cplusplus
}
#endif
#endif
