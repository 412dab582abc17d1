// How it came to a span, and what it led to: Python, operator, launch, kernel.
import { useMemo } from "preact/hooks";
import * as api from "../api";
import { Loaded } from "../components/States";
import { count, ns, text } from "../format";
import { all, cutAt, useData, useTrace, type Loadable } from "../hooks";
import { named } from "../palette";
import type { FlowLink } from "../queries";
import { useTheme } from "../theme";
import type { NameKind } from "./names";
import { chainOf, launchesOf, type ChainLink } from "./offline";
import type { Bar, Scene } from "./scene";
import type { Track } from "./tracks";

function Row({ link, here, onSelect }: { link: ChainLink; here: boolean; onSelect: (id: number) => void }) {
    const theme = useTheme();
    return (
        <li class={here ? "here" : ""}>
            <span class="dot" style={{ background: named("layer", link.layer ?? "", theme) }} aria-hidden="true" />
            <span class="muted layer">{link.cat ?? link.layer ?? ""}</span>
            <button class="link" onClick={() => onSelect(link.id)} aria-current={here || undefined}>{text(link.name)}</button>
            <span class="muted">{link.dur < 0 ? "never ended" : ns(link.dur)} at {ns(link.ts)} · {text(link.track_name)}</span>
        </li>
    );
}

interface Links {
    up: ChainLink[];
    down: ChainLink[];
    arrows: number | null; // that are known, if these are not all
}

// A server is asked; a report file knows arrows and where spans stand.
function useAsked(bar: Bar, end: number): Loadable<Links> {
    const loaded = all<[ChainLink[], ChainLink[]]>(useData("span_chain", { id: bar.id }),
                                                   useData("span_launches", { id: bar.id, track: bar.track, to: Math.ceil(end) }));
    return loaded.state === "ready" ? { state: "ready", value: { up: loaded.value[0], down: loaded.value[1], arrows: null } } : loaded;
}

function useCarried(bar: Bar, end: number, scene: Scene): Loadable<Links> {
    const loaded = all<[FlowLink[], (NameKind & { name: string | null })[], Track[]]>(useData("flows"), useData("names"), useData("tracks"));
    return useMemo(() => {
        if (loaded.state !== "ready") return loaded;
        const [flows, names, tracks] = loaded.value;
        const known = { flows, tracks, kinds: new Map(names.map((row) => [row.name ?? "", row])) };
        return { state: "ready", value: { up: chainOf(scene, known, bar.id), down: launchesOf(scene, known, bar, end), arrows: cutAt(flows) } };
    }, [loaded.state, bar.id, end]);
}

const useChain = api.isReport ? useCarried : useAsked;

interface ChainProps {
    bar: Bar;
    end: number;
    scene: Scene;
    onSelect: (id: number) => void;
}

export function Chain({ bar, end, scene, onSelect }: ChainProps) {
    const loaded = useChain(bar, end, scene);
    const trace = useTrace();
    return (
        <Loaded of={loaded}>
            {({ up, down, arrows }) => (
                <div class="tl-chain">
                    {arrows !== null && (
                        <p class="note">
                            This report carries {count(arrows)} of {count(trace.rows.flow ?? null)} arrows, those of the
                            earliest spans: others are missing here. opmeter serve has all of them.
                        </p>
                    )}
                    <section>
                        <h3>How it came here</h3>
                        <ol>{up.map((link) => <Row key={link.id} {...{ link, onSelect }} here={link.id === bar.id} />)}</ol>
                        {up.length === 1 && <p class="note">Nothing stands around it, and no arrow leads here.</p>}
                    </section>
                    <section>
                        <h3>What it led to</h3>
                        <ol>{down.map((link) => <Row key={link.id} {...{ link, onSelect }} here={false} />)}</ol>
                        {down.length === 0 && <p class="note">No arrow leads from it or from what is inside.</p>}
                    </section>
                </div>
            )}
        </Loaded>
    );
}
