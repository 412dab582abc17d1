// Every span of the trace over time.
import { useTrace } from "../hooks";

export function Timeline() {
    const trace = useTrace();
    return <div class="page">{trace.name}</div>;
}
