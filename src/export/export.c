/* export.c -- the formats that can be written; a new one is a file here and a row below. */
#include "export/export.h"

#include <string.h>

const struct exporter exporters[] = {
    { "chrome", ".json", "Chrome trace events, for chrome://tracing, Perfetto and others",
      export_chrome },
    { "perfetto", ".pftrace", "Perfetto's own format, for ui.perfetto.dev and trace_processor",
      export_perfetto },
    { "csv", "", "tables of the trace, a file each in a folder, or one of them", export_csv },
    { "parquet", ".parquet", "the same as Parquet, for DuckDB, pandas, Spark; by job and rank",
      export_parquet },
    { "arrow", ".arrow", "the same as Arrow IPC files (Feather), for pandas, Polars, DuckDB to map",
      export_arrow },
    { "megengine", ".json", "profile of MegEngine's load_and_run, for profile_analyze",
      export_megengine },
    { "megengine-host", ".json", "the same with the times of the host alone",
      export_megengine_host },
    { "neural-engine", ".csv",
      "operators, sparse ratios and totals as Neural Engine's CSV with formulas",
      export_neural_engine },
    { "xlsx", ".xlsx", "workbook with the same projection that calculates, statistics and charts",
      export_xlsx },
    { "neural-engine-trace", ".json", "Chrome trace on three levels: model, iteration, operator",
      export_neural_engine_trace },
    { "furiosa-csv", ".csv", "spans as the Furiosa SDK's DataFrame", export_furiosa_csv },
    { "cambricon", "", "profile folder of Cambricon's TensorFlow models: steps and summary",
      export_cambricon },
    { "summary", ".md", "what the trace says in short: Markdown, or JSON if PATH ends in .json",
      export_summary },
    { "speedscope", ".speedscope.json", "flame graphs for https://www.speedscope.app",
      export_speedscope },
    { "netron", ".json", "times and rates of every node, to be dropped onto its model in Netron",
      export_netron },
    { "opm", ".opm", "opmeter's own, opened at once by every command; 'opmeter import' writes it",
      export_opm },
    { NULL, NULL, NULL, NULL },
};

const struct exporter *exporter_find(const char *name)
{
    for (const struct exporter *e = exporters; e->name; e++)
        if (strcmp(e->name, name) == 0)
            return e;
    return NULL;
}
