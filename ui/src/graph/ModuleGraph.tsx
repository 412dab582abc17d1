// The modules of a model as a graph, one inside the other, coloured by the time they take.
import { useEffect, useMemo } from "preact/hooks";
import { pressable } from "../components/pressable";
import { count, ns, percent } from "../format";
import type { Module } from "../modules";
import { heat } from "../palette";
import { setArgs, useRoute } from "../router";
import { useTheme } from "../theme";
import { BOX_HEIGHT, drawingOf, HEAD_PX, kindOf, nodesOf, openAtFirst, unfoldKeys, type Box } from "./nested";
import { Pannable, usePan } from "./pan";

const LETTER_PX = 7.7;
const AROUND_PX = 80; // above and below the drawing
const LEAST_PX = 300;

function cut(text: string, room: number): string {
    const letters = Math.max(Math.floor(room / LETTER_PX), 4);
    if (text.length <= letters) return text;
    const end = Math.ceil((letters - 1) / 2);
    return `${text.slice(0, letters - 1 - end)}…${text.slice(-end)}`;
}

interface ModuleGraphProps {
    module: Module; // what it shows the inside of
    whole: number; // time of all modules
    selected: string | null;
    onSelect: (path: string) => void;
}

// In the address: "-" none is open.
function openFrom(text: string | null, first: Set<string>): Set<string> {
    return text === null ? first : new Set(text.split("|").filter((key) => key && key !== "-"));
}

export function ModuleGraph({ module, whole, selected, onSelect }: ModuleGraphProps) {
    const theme = useTheme();
    const { args } = useRoute();
    const first = useMemo(() => openAtFirst(module), [module]);
    const open = useMemo(() => openFrom(args.get("open"), first), [first, args.get("open")]);
    const drawing = useMemo(() => drawingOf(nodesOf([module], open)), [module, open]);
    const pan = usePan(drawing);
    const change = (by: (keys: Set<string>) => void) => {
        const keys = new Set(open);
        by(keys);
        setArgs({ open: [...keys].join("|") || "-" });
    };
    useEffect(() => {
        const box = drawing.boxes.find(({ node }) => node.key === selected);
        if (box && pan.size.width > 0) pan.show({ x: box.x + box.w / 2, y: box.y + Math.min(box.h, BOX_HEIGHT) / 2 });
    }, [selected, pan.size.width > 0]);
    const share = (time: number) => (whole > 0 ? percent(time / whole) : "");
    const act = ({ node }: Box) => () => {
        onSelect(node.key);
        if (node.inside) change((keys) => { if (!keys.delete(node.key)) keys.add(node.key); });
    };
    return (
        <div class="module-graph" style={{ height: `${Math.max(drawing.height + AROUND_PX, LEAST_PX)}px` }}>
            <Pannable pan={pan} pageScrolls label={`Graph of ${count(drawing.boxes.length)} modules`}>
                {drawing.boxes.map((box) => {
                    const { node, x, y, w, h } = box;
                    const n = node.members.length;
                    const name = n > 1 ? kindOf(node.members[0]!.name) : node.members[0]!.name;
                    const label = `${n > 1 ? `${count(n)} × ${name}` : name}: ${ns(node.time_ns)}, ${share(node.time_ns)}` +
                        (node.inside ? `, ${node.open ? "close" : `open ${count(node.inside)} inside`}` : "");
                    const calls = node.members.reduce((sum, one) => sum + one.count, 0);
                    const parent = node.key.slice(0, node.key.lastIndexOf("/") + 1);
                    const siblings = n > 1 ? unfoldKeys(node) : [];
                    const single = open.has(`${node.key}*`);
                    const fold = siblings.length > 1
                        ? () => change((keys) => siblings.forEach((key) => keys.add(key)))
                        : single ? () => change((keys) => [...keys].forEach((key) => {
                            const alike = key.endsWith("*") && key.startsWith(parent) && !key.slice(parent.length, -1).includes("/") &&
                                kindOf(key.slice(parent.length, -1)) === kindOf(node.members[0]!.name);
                            if (alike) keys.delete(key);
                        })) : null;
                    const foldText = n > 1 ? `× ${count(n)}` : "fold";
                    const top = node.open ? HEAD_PX : h;
                    return (
                        <g key={node.key} transform={`translate(${x} ${y})`}>
                            <g class={`node${node.key === selected ? " selected" : ""}`} {...pressable(label, act(box))} aria-expanded={node.inside ? node.open : undefined}>
                                <title>{label}</title>
                                <rect width={w} height={h} rx={7} fill={node.open ? "var(--surface)" : heat(Math.sqrt(node.time_ns / (module.time_ns || 1)), theme)}
                                      class={node.open ? "module-frame" : ""} />
                            </g>
                            <g class="node-texts" aria-hidden="true">
                                <g class={theme === "dark" || node.open ? "" : "on-fill"}>
                                    <text x={10} y={node.open ? 20 : 18} class="node-type">{cut(`${node.inside ? (node.open ? "▾ " : "▸ ") : ""}${name}`, w - 92)}</text>
                                    <text x={w - 10} y={node.open ? 20 : 18} text-anchor="end" class="node-time">{ns(node.time_ns)}</text>
                                    {!node.open && (
                                        <text x={10} y={35} class="node-name">{[node.inside ? `${count(node.inside)} inside` : "", calls > 1 ? `${count(calls)} calls` : ""].filter(Boolean).join(", ")}</text>
                                    )}
                                    {!node.open && <text x={w - 10} y={35} text-anchor="end" class="node-name">{share(node.time_ns)}</text>}
                                </g>
                            </g>
                            {(n > 1 || single) && (
                                <g class={fold ? "fold-mark" : "fold-mark plain"} transform={`translate(${w - 4} ${top / 2 - 9})`}
                                   {...(fold ? pressable(siblings.length > 1 ? `Show each of ${count(n)} × ${name}` : `Fold those like ${name}`, fold) : {})}>
                                    <rect width={foldText.length * 7 + 12} height={18} rx={9} />
                                    <text x={6} y={13}>{foldText}</text>
                                </g>
                            )}
                        </g>
                    );
                })}
                {drawing.arrows.map(({ x, from, to }, i) => (
                    <path key={i} class="module-arrow" d={`M${x} ${from + 2}V${to - 3}m-4 -5l4 5l4 -5`} />
                ))}
            </Pannable>
        </div>
    );
}
