// Every span of the trace over time.
import { useMemo } from "preact/hooks";
import { Empty, Loaded } from "../components/States";
import { all, useData } from "../hooks";
import type { RecordRow, StepRow } from "../schema";
import type { NameKind } from "../timeline/names";
import type { Track } from "../timeline/tracks";
import { Viewer } from "../timeline/Viewer";

interface NameRow extends NameKind {
    name: string | null;
}

export function Timeline() {
    const tracks = useData<Track>("tracks");
    const steps = useData<StepRow>("steps");
    const records = useData<RecordRow>("records");
    const names = useData<NameRow>("names");
    // Colours may come late, the picture need not wait for them.
    const kinds = useMemo(() => new Map(
        names.state === "ready" ? names.value.map((row) => [row.name ?? "", row]) : []), [names]);
    return (
        <Loaded of={all<[Track[], StepRow[], RecordRow[]]>(tracks, steps, records)}>
            {([rows, stepRows, recordRows]) => (rows.some((track) => track.spans || track.samples)
                ? <Viewer tracks={rows} steps={stepRows} records={recordRows} kinds={kinds} />
                : <Empty why="This trace has no spans and no counters, so there is nothing to draw over time." />)}
        </Loaded>
    );
}
