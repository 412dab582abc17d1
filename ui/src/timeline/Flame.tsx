// A flame graph of a range of time: what stands in what, as wide as it takes.
import { useMemo, useState } from "preact/hooks";
import * as api from "../api";
import { Loaded } from "../components/States";
import { count, ns, percent } from "../format";
import { useLoad, useTrace } from "../hooks";
import { ON_FILL } from "../palette";
import type { Names } from "./names";
import { flameOf, type FlameNode } from "./offline";
import type { Scene } from "./scene";
import type { Track } from "./tracks";

const ROW_PX = 20;
const LEAST = 0.0015; // of the width

interface Placed extends FlameNode {
    index: number;
    depth: number;
    left: number;
    width: number; // of the whole, 0 to 1
}

// Every node at its place, the widest of its siblings first; only what is inside `root`, and what
// root is in.
function placed(nodes: FlameNode[], root: number): Placed[] {
    const children = new Map<number, number[]>();
    nodes.forEach(({ parent }, i) => {
        const list = children.get(parent);
        if (list) list.push(i);
        else children.set(parent, [i]);
    });
    const list: Placed[] = [];
    const put = (ids: number[], depth: number, left: number, scale: number) => {
        let x = left;
        for (const index of [...ids].sort((a, b) => nodes[b]!.total_ns - nodes[a]!.total_ns || a - b)) {
            const width = nodes[index]!.total_ns * scale;
            if (width < LEAST) break;
            list.push({ ...nodes[index]!, index, depth, left: x, width });
            put(children.get(index) ?? [], depth + 1, x, scale);
            x += width;
        }
    };
    if (root < 0) {
        const tops = children.get(-1) ?? [];
        const whole = tops.reduce((sum, i) => sum + nodes[i]!.total_ns, 0);
        if (whole > 0) put(tops, 0, 0, 1 / whole);
        return list;
    }
    const around: number[] = [];
    for (let i = nodes[root]!.parent; i >= 0; i = nodes[i]!.parent) around.unshift(i);
    around.forEach((index, depth) => list.push({ ...nodes[index]!, index, depth, left: 0, width: 1 }));
    put([root], around.length, 0, 1 / Math.max(nodes[root]!.total_ns, 1));
    return list;
}

function Graph({ nodes, names }: { nodes: FlameNode[]; names: Names }) {
    const [root, setRoot] = useState(-1);
    const list = useMemo(() => placed(nodes, root), [nodes, root]);
    const whole = nodes.reduce((sum, node) => sum + (node.parent < 0 ? node.total_ns : 0), 0);
    const rows = list.reduce((most, node) => Math.max(most, node.depth + 1), 0);
    return (
        <>
            <div class="tl-actions">
                <p class="note">Spans of one name inside the same are one; a click shows one alone.</p>
                {root >= 0 && <button class="button" onClick={() => setRoot(-1)}>Show all</button>}
            </div>
            <div class="tl-flame" style={{ height: `${rows * ROW_PX}px` }} role="group" aria-label="Flame graph">
                {list.map((node) => {
                    const name = node.name ?? (node.parent < 0 ? "track" : "(no name)");
                    const about = `${name}: ${ns(node.total_ns)}, ${percent(node.total_ns / whole)}, ${count(node.count)} spans`;
                    const color = node.parent < 0 ? "var(--sunken)" : names.color(names.id(node.name));
                    return (
                        <button key={node.index} title={about} aria-label={about} onClick={() => setRoot(node.index)}
                                style={{ left: `${node.left * 100}%`, width: `${node.width * 100}%`, top: `${node.depth * ROW_PX}px`,
                                         background: color, color: node.parent < 0 ? "var(--text)" : ON_FILL }}>
                            {node.width > 0.02 ? name : ""}
                        </button>
                    );
                })}
            </div>
        </>
    );
}

interface FlameProps {
    from: number;
    to: number;
    track: number | null; // null: all
    scene: Scene;
}

export function Flame({ from, to, track, scene }: FlameProps) {
    const trace = useTrace();
    const asked = useLoad(async (signal) => {
        const start = Math.floor(from);
        const end = Math.max(Math.ceil(to), start + 1);
        if (!api.isReport) return api.records<FlameNode>(await api.flame(trace.id, start, end, track, signal));
        return flameOf(scene, { from: start, to: end }, track, api.records<Track>(await api.data(trace.id, "tracks")));
    }, [from, to, track]);
    return (
        <Loaded of={asked} empty="Nothing is in this time.">
            {(nodes) => <Graph key={`${from}-${to}-${track}`} nodes={nodes} names={scene.names} />}
        </Loaded>
    );
}
