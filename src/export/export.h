/* export.h -- a frozen store into the files of other tools.
 *
 * A format is a row in the table of export.c. Writers stream: memory does not grow with the number
 * of spans. They check nothing about the path beyond what io_out does. */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include "base/io.h"
#include "store/store.h"

struct export_options {
    const char *table; /* csv, parquet, arrow: only this one; NULL: all */
    int (*progress)(void *user, uint64_t done, uint64_t total); /* or NULL; nonzero gives up */
    void *user;
    bool raw; /* csv: texts as they are */
    /* parquet: the folders job=JOB and rank=RANK. NULL: none; with a job there is always a rank,
     * that of the trace unless it is said. "": NULL. */
    const char *job, *rank;
    bool force; /* parquet: replace what is there */
};

struct exporter {
    const char *name;
    const char *extension; /* with the dot; "" for a folder */
    const char *doc;
    int (*write)(const struct store *st, const char *path, const struct export_options *opts,
                 opm_error *err);
};

extern const struct exporter exporters[]; /* ends with a NULL name */

const struct exporter *exporter_find(const char *name); /* NULL if there is none */

/* One per format. */
typedef int export_fn(const struct store *st, const char *path, const struct export_options *opts,
                      opm_error *err);
export_fn export_chrome;
export_fn export_perfetto;
export_fn export_csv;
export_fn export_parquet;
export_fn export_arrow;
export_fn export_megengine;
export_fn export_megengine_host;
export_fn export_neural_engine;
export_fn export_neural_engine_trace;
export_fn export_xlsx;
export_fn export_speedscope;
export_fn export_furiosa_csv;
export_fn export_netron;
export_fn export_cambricon;
export_fn export_summary;
export_fn export_opm;

#endif
