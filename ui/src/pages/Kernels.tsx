// What ran on the hardware, by kernel: how it was launched, for which operator, and which are small.
import { Card, Figure } from "../components/Card";
import { DataTable, type Column } from "../components/DataTable";
import { Middle } from "../components/Middle";
import { Loaded } from "../components/States";
import { Tabs } from "../components/Tabs";
import { bytes, count, kernelName, NA, ns, percent, text } from "../format";
import { useData } from "../hooks";
import type { Kernel } from "../queries";
import { href, navigate, setArgs, useRoute } from "../router";
import { sum } from "../stats";

const SMALL_NS = 5000; // as the query has it: about what a launch costs the host

// "[8,1,1]" as 8 × 1 × 1, without what is 1 at the end.
export function size(json: string | null): string {
    const parts = (json ?? "").replace(/[[\]\s]/g, "").split(",").filter(Boolean);
    while (parts.length > 1 && parts[parts.length - 1] === "1") parts.pop();
    return parts.length ? parts.map((part) => count(part)).join(" × ") : NA;
}

function blocks(json: string | null): number | null {
    const parts = (json ?? "").replace(/[[\]\s]/g, "").split(",").filter(Boolean).map(Number);
    return parts.length ? parts.reduce((product, n) => product * n, 1) : null;
}

function columns(all: number): Column<Kernel>[] {
    return [
        { key: "name", title: "Kernel", value: (k) => k.name, search: true, width: "330px",
          show: (k) => <Middle of={kernelName(text(k.name))} /> },
        { key: "op", title: "Operator", value: (k) => k.operator, show: (k) => text(k.operator).replace(/ \[.*\]$/, ""), search: true, width: "150px",
          doc: "the operator that most of its time is of" },
        { key: "total", title: "Total", value: (k) => k.total_ns, show: (k) => ns(k.total_ns), numeric: true, width: "90px" },
        { key: "share", title: "Share", value: (k) => k.total_ns / all, show: (k) => percent(k.total_ns / all), numeric: true,
          width: "80px", doc: "of the time of all kernels and copies" },
        { key: "count", title: "Launches", value: (k) => k.count, show: (k) => count(k.count), numeric: true, width: "90px" },
        { key: "mean", title: "Mean", value: (k) => k.mean_ns, show: (k) => ns(k.mean_ns), numeric: true, width: "85px",
          doc: "time per launch" },
        { key: "max", title: "Maximum", value: (k) => k.max_ns, show: (k) => ns(k.max_ns), numeric: true, width: "85px" },
        { key: "small", title: "Short", value: (k) => k.small / k.count, show: (k) => percent(k.small / k.count), numeric: true,
          width: "80px", doc: `share of its launches under ${ns(SMALL_NS)}` },
        { key: "grid", title: "Grid", value: (k) => blocks(k.grid), show: (k) => size(k.grid), numeric: true, width: "110px",
          doc: "blocks, of the longest launch" },
        { key: "block", title: "Block", value: (k) => blocks(k.block), show: (k) => size(k.block), numeric: true, width: "100px",
          doc: "threads of a block" },
        { key: "regs", title: "Registers", value: (k) => k.registers, numeric: true, width: "90px", doc: "of a thread" },
        { key: "shared", title: "Shared mem", value: (k) => k.shared, show: (k) => bytes(k.shared), numeric: true, width: "90px",
          doc: "shared memory of a block" },
        { key: "occ", title: "Occupancy", value: (k) => k.occupancy, show: (k) => (k.occupancy === null ? NA : `${text(k.occupancy)} %`),
          numeric: true, width: "95px", doc: "estimated by the profiler, of the longest launch" },
    ];
}

function Page({ kernels }: { kernels: Kernel[] }) {
    const { args } = useRoute();
    const copies = (k: Kernel) => /memcpy|memset/i.test(`${k.cat ?? ""} ${k.name ?? ""}`);
    const show = args.get("show") === "small" ? "small" : args.get("show") === "copies" ? "copies" : "all";
    const rows = kernels.filter((k) => (show === "all" ? true : show === "copies" ? copies(k) : k.mean_ns < SMALL_NS));
    const all = sum(kernels, (k) => k.total_ns);
    const launches = sum(kernels, (k) => k.count);
    const small = sum(kernels, (k) => k.small);
    return (
        <>
            <Card title="Device time" wide
                  note={`A launch takes the host about ${ns(SMALL_NS)}; with many shorter kernels the device is launch-bound. Kernel fusion, larger batches or CUDA graphs (torch.compile) help.`}>
                <div class="figures">
                    <Figure label="kernels" value={count(kernels.length)} hint="by name, copies included" />
                    <Figure label="launches" value={count(launches)} />
                    <Figure label="total time" value={ns(all)} />
                    <Figure label="mean per launch" value={ns(launches ? all / launches : null)} />
                    <Figure label={`launches under ${ns(SMALL_NS)}`} value={percent(launches ? small / launches : null)} />
                    <Figure label="share of their time" value={percent(all ? sum(kernels, (k) => k.small_ns) / all : null)} />
                </div>
            </Card>
            <DataTable label="Kernels" columns={columns(all)} rows={rows} sort="-total" urlKey="" rowKey={(k) => `${k.cat}|${k.name}`}
                       onOpen={(k) => navigate(href("timeline", { span: k.longest }))} searchLabel="Search kernels and operators">
                <Tabs label="Which" value={show} onChange={(key) => setArgs({ show: key === "all" ? null : key })}
                      options={[{ key: "all", title: "All" }, { key: "small", title: "Short" }, { key: "copies", title: "Copies" }]} />
            </DataTable>
        </>
    );
}

export function Kernels() {
    const kernels = useData<Kernel>("kernels");
    return (
        <div class="page fill">
            <h1>Kernels</h1>
            <Loaded of={kernels} empty="This trace has no kernels: no device was recorded. PyTorch's profiler records them with ProfilerActivity.CUDA, opmeter record with a CUDA device.">
                {(rows) => <Page kernels={rows} />}
            </Loaded>
        </div>
    );
}
