// Where the time goes in the structure of the model: its modules, one inside the other, as a treemap or as a graph.
import { useMemo } from "preact/hooks";
import { Card, Figure } from "../components/Card";
import { DataTable, type Column } from "../components/DataTable";
import { Press } from "../components/pressable";
import { Empty, Loaded } from "../components/States";
import { Tabs } from "../components/Tabs";
import { useWidth } from "../components/useWidth";
import { count, ns, percent } from "../format";
import { ModuleGraph } from "../graph/ModuleGraph";
import { all, useData } from "../hooks";
import { fromNames, fromSpans, PREFIX, type Module } from "../modules";
import { byName, ON_FILL } from "../palette";
import type { ModuleSpan, ModuleWork, Operator } from "../queries";
import { href, setArgs, useRoute } from "../router";
import { useTheme } from "../theme";

const HEIGHT = 420;
const HEAD_PX = 18;
const LETTER_PX = 6.4;

interface Box {
    module: Module;
    depth: number;
    x: number;
    y: number;
    w: number;
    h: number;
}

// Sliced along the longer side, in order; each with room for its name above what is inside.
function boxes(module: Module, depth: number, x: number, y: number, w: number, h: number, list: Box[]): Box[] {
    const whole = module.children.reduce((sum, one) => sum + one.time_ns, 0) + module.own_ns;
    let at = 0;
    for (const one of module.children) {
        const part = whole ? one.time_ns / whole : 0;
        const wide = w >= h;
        const box: Box = { module: one, depth, x: wide ? x + at * w : x, y: wide ? y : y + at * h, w: wide ? part * w : w, h: wide ? h : part * h };
        at += part;
        if (box.w < 2 || box.h < 2) continue;
        list.push(box);
        const head = box.h > 2 * HEAD_PX && box.w > 30 ? HEAD_PX : 0;
        if (depth < 5 && box.w > 8 && box.h - head > 8) boxes(one, depth + 1, box.x + 1, box.y + head, box.w - 2, box.h - head - 1, list);
    }
    return list;
}

// The end of a name tells it from its neighbours.
function cut(name: string, room: number): string {
    const letters = Math.floor(room / LETTER_PX);
    return name.length <= letters ? name : `…${name.slice(1 - Math.max(letters, 2))}`;
}

function Treemap({ module, onOpen }: { module: Module; onOpen: (path: string) => void }) {
    const theme = useTheme();
    const [box, width] = useWidth<HTMLDivElement>();
    const list = useMemo(() => (width > 0 ? boxes(module, 0, 0, 0, width, HEIGHT, []) : []), [module, width]);
    return (
        <div ref={box}>
            <svg width={width} height={HEIGHT} role="group" aria-label="Modules by time" class="treemap">
                {list.map(({ module: of, depth, x, y, w, h }) => {
                    const label = `${of.path}: ${ns(of.time_ns)}, ${percent(of.time_ns / module.time_ns)}`;
                    return (
                        <g key={of.path}>
                            <rect x={x} y={y} width={Math.max(w - 1, 1)} height={Math.max(h - 1, 1)} rx={2}
                                  fill={byName(of.name.replace(/[_.]?\d+$/, ""), theme)} fill-opacity={depth % 2 ? 0.75 : 1} />
                            {w > 40 && h > 14 && (
                                <svg x={x} y={y} width={w - 2} height={HEAD_PX}><text x={4} y={13} fill={ON_FILL} class="treemap-name">{cut(of.name, w - 8)}</text></svg>
                            )}
                            <Press label={label} x={x} y={y} width={Math.max(w - 1, 1)} height={Math.max(h - 1, 1)} onPress={() => onOpen(of.path)} />
                        </g>
                    );
                })}
            </svg>
        </div>
    );
}

interface Flat extends Module {
    depth: number;
}

function flat(module: Module, depth: number, list: Flat[]): Flat[] {
    for (const one of module.children) {
        list.push({ ...one, depth });
        flat(one, depth + 1, list);
    }
    return list;
}

function find(module: Module, path: string): Module | null {
    if (module.path === path) return module;
    for (const one of module.children) {
        const found = path === one.path || path.startsWith(`${one.path}/`) ? find(one, path) : null;
        if (found) return found;
    }
    return null;
}

function columns(whole: number): Column<Flat>[] {
    return [
        { key: "path", title: "Module", value: (m) => m.path, search: true,
          show: (m) => <span style={{ paddingLeft: `${m.depth * 14}px` }}>{m.name}</span> },
        { key: "time", title: "Time", value: (m) => m.time_ns, show: (m) => ns(m.time_ns), numeric: true, width: "110px", doc: "with what is inside" },
        { key: "share", title: "Share", value: (m) => m.time_ns / whole, show: (m) => percent(m.time_ns / whole), numeric: true, width: "90px" },
        { key: "own", title: "Own", value: (m) => m.own_ns, show: (m) => ns(m.own_ns), numeric: true, width: "110px", doc: "without what is inside" },
        { key: "count", title: "Calls", value: (m) => m.count, show: (m) => count(m.count), numeric: true, width: "90px" },
    ];
}

// prefix: of the names of its spans; null: it has none.
function Selected({ module, whole, prefix }: { module: Module; whole: number; prefix: string | null }) {
    return (
        <div class="module-selected" aria-live="polite">
            <strong>{module.path}</strong>
            <span>{ns(module.time_ns)}, {percent(module.time_ns / whole)}</span>
            <span>own {ns(module.own_ns)}</span>
            <span>{count(module.count)} {module.count === 1 ? "call" : "calls"}</span>
            {module.children.length > 0 && <a class="more" href={href("modules", { in: module.path, as: "graph" })}>this one alone</a>}
            {prefix !== null && <a class="more" href={href("timeline", { q: prefix + module.name })}>in the timeline</a>}
        </div>
    );
}

function Page({ spans, work, operators }: { spans: ModuleSpan[]; work: ModuleWork[]; operators: Operator[] }) {
    const { args } = useRoute();
    const { tree, note, prefix } = useMemo(() => {
        const made = fromSpans(spans, work);
        if (made) {
            const from = made.functions ? "From Python functions, because no nn.Module spans were recorded" : "From nn.Module spans";
            const inside = made.functions ? "one of them" : "a module";
            return { tree: made.tree, prefix: made.functions ? "" : PREFIX, note: made.onDevice
                ? `${from}: device time of what each launched. ${percent(made.all_ns ? made.placed_ns / made.all_ns : 0)} of the device's time was launched inside ${inside}; what another thread launches, as a backward pass, is not.`
                : `${from}: their time on the host.` };
        }
        const device = operators.filter((o) => o.section === "device");
        return { tree: fromNames(device.length ? device : operators), prefix: null, note: "From the scopes in the names of operators: time per iteration." };
    }, [spans, work, operators]);
    if (!tree || !tree.time_ns) {
        return <Empty why="This trace does not tell modules: it has no nn.Module spans (PyTorch's profiler records them with with_stack=True), and the names of its operators have no scopes." />;
    }
    const shown = find(tree, args.get("in") ?? "") ?? tree;
    const whole = tree.time_ns;
    const graph = args.get("as") === "graph";
    const selected = graph ? find(tree, args.get("sel") ?? "-") : null;
    return (
        <>
            <div class="figures">
                <Figure label={shown === tree ? "all modules" : shown.name} value={ns(shown.time_ns)} />
                <Figure label="share" value={percent(shown.time_ns / whole)} />
                <Figure label="inside" value={count(shown.children.length)} />
            </div>
            <Card title={shown === tree ? "Modules" : shown.path} wide
                  note={graph ? `${note} From top to bottom in the order of first calls, which is not always what feeds what. A click opens or closes a module; drag moves, Ctrl + wheel zooms.` : note}
                  aside={
                      <>
                          {shown !== tree && <button class="button" onClick={() => setArgs({ in: shown.path.split("/").slice(0, -1).join("/") || null, open: null })}>Up</button>}
                          <Tabs label="As" value={graph ? "graph" : "treemap"} onChange={(key) => setArgs({ as: key === "graph" ? key : null, open: null, sel: null })}
                                options={[{ key: "treemap", title: "Treemap" }, { key: "graph", title: "Graph" }]} />
                      </>
                  }>
                {!shown.children.length ? <p class="note">Nothing is inside this module.</p>
                    : graph ? <ModuleGraph key={shown.path} module={shown} whole={whole} selected={selected?.path ?? null} onSelect={(path) => setArgs({ sel: path })} />
                    : <Treemap module={shown} onOpen={(path) => setArgs({ in: path })} />}
                {graph && selected && <Selected module={selected} whole={whole} prefix={prefix} />}
            </Card>
            <DataTable label="Modules" columns={columns(whole)} rows={flat(shown, 0, [])} rowKey={(m) => m.path} sort="" urlKey="" maxHeight="520px"
                       onOpen={(m) => setArgs(graph ? { sel: m.path } : { in: m.path })} selected={selected?.path ?? null} searchLabel="Find a module" />
        </>
    );
}

export function Modules() {
    const loaded = all<[ModuleSpan[], ModuleWork[], Operator[]]>(useData("modules"), useData("module_work"), useData("operators"));
    return (
        <div class="page">
            <h1>Modules</h1>
            <Loaded of={loaded}>{([spans, work, operators]) => <Page {...{ spans, work, operators }} />}</Loaded>
        </div>
    );
}
