// Every span of the trace over time.
import { Empty, Loaded } from "../components/States";
import { useData } from "../hooks";
import type { RecordRow, StepRow } from "../schema";
import type { Track } from "../timeline/tracks";
import { Viewer } from "../timeline/Viewer";

const NONE: never[] = [];

export function Timeline() {
    const tracks = useData<Track>("tracks");
    const steps = useData<StepRow>("steps");
    const records = useData<RecordRow>("records");
    return (
        <>
        <h1 class="unseen">Timeline</h1>
        <Loaded of={tracks}>
            {(rows) => (rows.some((track) => track.spans || track.samples)
                ? <Viewer tracks={rows} steps={steps.state === "ready" ? steps.value : NONE}
                          records={records.state === "ready" ? records.value : NONE} />
                : <Empty why="This trace has no spans and no counters, so there is nothing to draw over time." />)}
        </Loaded>
        </>
    );
}
