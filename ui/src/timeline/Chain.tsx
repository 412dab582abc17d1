// How it came to a span, and what it led to: Python, operator, launch, kernel.
import { Loaded } from "../components/States";
import { ns, text } from "../format";
import { all, useData } from "../hooks";
import { named } from "../palette";
import { useTheme } from "../theme";
import type { Bar } from "./scene";

interface Link {
    id: number;
    how: string;
    name: string | null;
    cat: string | null;
    layer: string | null;
    ts: number;
    dur: number;
    track_name: string | null;
}

function Row({ link, here, onSelect }: { link: Link; here: boolean; onSelect: (id: number) => void }) {
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

export function Chain({ bar, end, onSelect }: { bar: Bar; end: number; onSelect: (id: number) => void }) {
    const chain = useData<Link>("span_chain", { id: bar.id });
    const launches = useData<Link>("span_launches", { id: bar.id, track: bar.track, to: Math.ceil(end) });
    return (
        <Loaded of={all<[Link[], Link[]]>(chain, launches)}>
            {([up, down]) => (
                <div class="tl-chain">
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
