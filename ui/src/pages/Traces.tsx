// The traces of the folder that is served; any of them opens.
import * as api from "../api";
import { DataTable, type Column } from "../components/DataTable";
import { Loaded } from "../components/States";
import { bytes, date, ns } from "../format";
import { useLoad } from "../hooks";
import { href, navigate } from "../router";

const columns: Column<api.TraceEntry>[] = [
    { key: "path", title: "Trace", value: (t) => t.path, search: true,
      show: (t) => (
          <>
              <a href={href("", {}, t.id)}>{t.path}</a>
              {t.error && <span class="damaged" title={t.error}>{t.error}</span>}
          </>
      ) },
    { key: "model", title: "Model", value: (t) => t.model ?? null, search: true, width: "18%" },
    { key: "latency", title: "Latency", value: (t) => t.latency_ns ?? null, numeric: true, width: "110px",
      show: (t) => ns(t.latency_ns), doc: "Median of a step or inference" },
    { key: "format", title: "Format", value: (t) => t.format, search: true, width: "130px" },
    { key: "bytes", title: "Size", value: (t) => t.bytes, numeric: true, width: "110px",
      show: (t) => bytes(t.bytes) },
    { key: "modified", title: "Changed", value: (t) => t.modified, numeric: true, width: "150px",
      show: (t) => date(t.modified) },
];

export function Traces() {
    const traces = useLoad((signal) => api.traces(signal), []);
    return (
        <main class="page fill" id="content">
            <h1>Traces</h1>
            <Loaded of={traces} empty="There is no trace in this folder.">
                {(rows) => (
                    <DataTable label="Traces" columns={columns} rows={rows} rowKey={(t) => t.id}
                               sort="-modified" urlKey="" onOpen={(t) => navigate(href("", {}, t.id))} />
                )}
            </Loaded>
        </main>
    );
}
