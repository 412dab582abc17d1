// Parts of a timeline on the screen that stand around its canvases.
import { useEffect } from "preact/hooks";
import { Menu } from "../components/Menu";
import { count, ns, percent, quantity } from "../format";
import { useData } from "../hooks";
import { Icon } from "../icons";
import type { OperatorType } from "../queries";
import { useTheme } from "../theme";
import { typeColors } from "../typeColors";
import { hide, move, pin, unfold, type Arrangement } from "./arrange";
import type { Controller } from "./controller";
import { busyShare } from "./Details";
import type { NameKind } from "./names";
import { folds, titleOf, type Placed } from "./tracks";

export function Tip({ controller, x, y }: { controller: Controller; x: number; y: number }) {
    const { hit, scene } = controller;
    if (!hit || (!hit.bar && !hit.value)) return null;
    const right = x > scene.width - 320;
    const style = { top: `${y + 16}px`, ...(right ? { right: `${scene.width - x + 12}px` } : { left: `${x + 14}px` }) };
    if (hit.value) {
        return (
            <div class="tl-tip" style={style}>
                <strong>{titleOf(hit.row.track!)}</strong>
                <div>{quantity(hit.value.value, hit.row.track!.unit)} <span class="muted">from {ns(hit.value.ts)}</span></div>
            </div>
        );
    }
    const bar = hit.bar!;
    const share = busyShare(bar);
    return (
        <div class="tl-tip" style={style}>
            <strong>{bar.name}</strong>
            <div>
                {bar.dur < 0 ? "never ended" : ns(bar.dur)}
                {bar.count > 1 && ` · ${count(bar.count)} spans`}
                {share !== null && `, ${percent(share)} busy`}
                <span class="muted"> at {ns(bar.ts)}</span>
            </div>
        </div>
    );
}

interface RowLabelProps {
    row: Placed;
    controller: Controller;
    onArrange: (by: Arrangement) => void;
}

export function RowLabel({ row, controller, onArrange }: RowLabelProps) {
    const title = row.track ? titleOf(row.track) : row.group.title;
    const { arrangement: now, groups } = controller;
    const id = row.track?.id ?? -1;
    const choices: [string, () => Arrangement][] = !row.track ? [] : [
        [now.pinned.includes(id) ? "Unpin" : "Pin to the top", () => pin(now, id)],
        ["Hide", () => hide(now, id)],
        ["Move up", () => move(now, groups, id, -1)],
        ["Move down", () => move(now, groups, id, 1)],
        ...(row.folded || (now.unfolded.has(id) && folds(row.track, row.lines))
            ? [[row.folded ? `Show ${row.folded} more rows` : "Show fewer rows", () => unfold(now, id)] as [string, () => Arrangement]] : []),
    ];
    return (
        <div class={`tl-rowhead ${row.kind}`} style={{ top: `${row.y}px`, height: `${row.height}px` }}>
            <button class={`tl-label ${row.kind}`} aria-expanded={row.open} onClick={() => controller.toggle(row.key)}
                    title={row.track ? `${title}: ${[row.track.kind, row.track.device].filter(Boolean).join(", ")}` : title}>
                <Icon name={row.open ? "down" : "right"} /><span>{title}</span>
            </button>
            {row.track && (
                <Menu label={`Arrange ${title}`} icon="more">
                    {(close) => choices.map(([what, how]) => (
                        <button key={what} onClick={() => { onArrange(how()); close(); }}>{what}</button>
                    ))}
                </Menu>
            )}
            {row.open && row.folded > 0 && (
                <button class="tl-folded" onClick={() => onArrange(unfold(now, id))}>{row.folded} more rows</button>
            )}
        </div>
    );
}

interface NameRow extends NameKind {
    name: string | null;
}

export interface Colors {
    kinds: Map<string, NameKind>;
    ofType: (type: string) => string | null;
}

// What the colours come from takes a look at every span, so it is asked for when the picture stands.
export function ColorSource({ onColors }: { onColors: (colors: Colors) => void }) {
    const theme = useTheme();
    const names = useData<NameRow>("names");
    const types = useData<OperatorType>("op_types");
    useEffect(() => {
        if (names.state !== "ready" || types.state !== "ready") return;
        onColors({ kinds: new Map(names.value.map((row) => [row.name ?? "", row])),
                   ofType: typeColors(types.value, theme) });
    }, [names, types, theme]);
    return null;
}
