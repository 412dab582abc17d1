// The jobs of the databases that are served; any of them opens.
import * as api from "../api";
import { Card } from "../components/Card";
import { DataTable, type Column } from "../components/DataTable";
import { Loaded } from "../components/States";
import { count, date, ns, percent } from "../format";
import type { Host, Job } from "../fleet";
import { useLoad } from "../hooks";
import { jobHref, navigate } from "../router";

const seconds = (ns: number | string | null) => (ns === null ? null : Number(BigInt(ns) / 1_000_000_000n));

function jobColumns(fleet: string): Column<Job>[] {
    return [
        { key: "job", title: "Job", value: (j) => j.job, search: true, show: (j) => <a href={jobHref(fleet, j.job)}>{j.job}</a> },
        { key: "model", title: "Model", value: (j) => j.model, search: true, width: "18%" },
        { key: "ranks", title: "Ranks", value: (j) => j.ranks, numeric: true, width: "90px" },
        { key: "hosts", title: "Machines", value: (j) => j.hosts, numeric: true, width: "100px" },
        { key: "spans", title: "Spans", value: (j) => j.spans, show: (j) => count(j.spans), numeric: true, width: "110px" },
        { key: "first", title: "Began", value: (j) => seconds(j.first_ns), show: (j) => date(seconds(j.first_ns) ?? 0), numeric: true, width: "150px" },
    ];
}

const HOST_COLUMNS: Column<Host>[] = [
    { key: "host", title: "Machine", value: (h) => h.host, search: true,
      show: (h) => <>{h.host}{h.slow === 1 && <span class="job-mark">slow</span>}</> },
    { key: "jobs", title: "Jobs", value: (h) => h.jobs, numeric: true, width: "80px" },
    { key: "late", title: "Held up", value: (h) => h.late_jobs, numeric: true, width: "90px", doc: "jobs that a rank there held up" },
    { key: "ranks", title: "Ranks", value: (h) => h.ranks, numeric: true, width: "80px" },
    { key: "cost", title: "Cost", value: (h) => h.cost_ns, show: (h) => ns(h.cost_ns), numeric: true, width: "110px",
      doc: "what the late arrivals of its ranks cost the jobs" },
    { key: "share", title: "Share", value: (h) => h.share, show: (h) => percent(h.share), numeric: true, width: "90px", doc: "of the time of the steps of those ranks" },
];

function Fleet({ fleet }: { fleet: api.Fleet }) {
    const jobs = useLoad((signal) => api.fleetRows<Job>(fleet.id, "jobs", signal), [fleet.id]);
    const hosts = useLoad((signal) => api.fleetRows<Host>(fleet.id, "hosts", signal), [fleet.id]);
    return (
        <>
            <Card title={`Jobs in ${fleet.name}`} wide>
                <Loaded of={jobs} empty="There is no job in it yet. Add ranks: ‘opmeter add RANK.opm --to URL --job ID’.">
                    {(rows) => <DataTable label={`Jobs in ${fleet.name}`} columns={jobColumns(fleet.id)} rows={rows} rowKey={(j) => j.job}
                                          sort="" onOpen={(j) => navigate(jobHref(fleet.id, j.job))} maxHeight="480px" />}
                </Loaded>
            </Card>
            {jobs.state === "ready" && jobs.value.length > 0 && (
                <Card title="Machines over all jobs" wide note="Slow: two jobs or more were held up by a rank there, and these are over half of its jobs.">
                    <Loaded of={hosts} empty="It is not known which machines the ranks ran on.">
                        {(rows) => <DataTable label="Machines" columns={HOST_COLUMNS} rows={rows} rowKey={(h) => h.host ?? ""} sort="-cost" maxHeight="360px" />}
                    </Loaded>
                </Card>
            )}
        </>
    );
}

export function Jobs() {
    const fleets = useLoad((signal) => api.fleets(signal), []);
    return (
        <Loaded of={fleets}>
            {(list) => <>{list.map((fleet) => <Fleet key={fleet.id} fleet={fleet} />)}</>}
        </Loaded>
    );
}
