/* summary.h -- what a trace says in short, for people (Markdown) and programs (JSON). */
#ifndef EXPORT_SUMMARY_H
#define EXPORT_SUMMARY_H

#include "export/export.h"

int summary_write_md(const struct store *st, const char *path, const struct export_options *opts,
                     opm_error *err);

#endif
