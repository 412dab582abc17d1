// What PyTorch's allocator had given out when the device's memory was fullest.
import { useMemo } from "preact/hooks";
import { bytes, count, ns } from "../format";
import { useData } from "../hooks";
import { aliveAtPeak, type Allocation, type AllocatorEvent } from "../memory";
import { href, navigate } from "../router";
import { sum } from "../stats";
import { Card, Figure } from "./Card";
import { DataTable, type Column } from "./DataTable";
import { Loaded } from "./States";

const COLUMNS: Column<Allocation>[] = [
    { key: "owner", title: "Allocated by", value: (a) => a.owner, search: true },
    { key: "bytes", title: "Size", value: (a) => a.bytes, show: (a) => bytes(a.bytes), numeric: true, width: "110px" },
    { key: "since", title: "Since", value: (a) => a.ts, show: (a) => ns(a.ts), numeric: true, width: "110px" },
    { key: "addr", title: "Address", value: (a) => a.addr, show: (a) => `0x${a.addr.toString(16)}`, numeric: true, width: "150px" },
];

export function MemoryPeak() {
    const events = useData<AllocatorEvent>("allocations");
    const peaks = useMemo(() => (events.state === "ready" ? aliveAtPeak(events.value) : []), [events]);
    return (
        <Loaded of={events}>
            {() => peaks.map((peak) => (
                <Card key={peak.device} title={`Live at the peak of ${peak.device}`} wide
                      note="Allocations that were live when memory in use was highest. Click one to see it in the timeline."
                      aside={<a class="more" href={href("timeline", { from: Math.max(0, peak.ts - 1e6), to: peak.ts + 1e6, marks: peak.ts })}>In the timeline</a>}>
                    <div class="figures">
                        <Figure label="in use" value={bytes(peak.total)} />
                        <Figure label="at" value={ns(peak.ts)} />
                        <Figure label="allocated while recording" value={bytes(sum(peak.alive, (a) => a.bytes))} />
                        <Figure label="allocated before" value={bytes(Math.max(0, peak.total - sum(peak.alive, (a) => a.bytes)))} hint="before the recording: weights, mostly" />
                        <Figure label="allocations" value={count(peak.alive.length)} />
                    </div>
                    <DataTable label={`Live at the peak of ${peak.device}`} columns={COLUMNS} rows={peak.alive} rowKey={(a) => `${a.addr}/${a.ts}`}
                               sort="-bytes" maxHeight="320px" onOpen={(a) => navigate(href("timeline", { from: Math.max(0, a.ts - 1e5), to: a.ts + 1e5, marks: a.ts }))} />
                </Card>
            ))}
        </Loaded>
    );
}
