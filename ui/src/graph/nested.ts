// Modules as a graph: those inside a module stand in it, below each other in the order of their first
// calls; neighbours that are built alike are one until they are unfolded.
import type { Module } from "../modules";

export interface Node {
    key: string; // the path of the first one
    members: Module[]; // built alike
    time_ns: number;
    own_ns: number;
    children: Node[]; // those that are shown
    inside: number; // modules directly inside of one of them
    open: boolean;
}

export interface Box {
    node: Node;
    depth: number;
    x: number;
    y: number;
    w: number;
    h: number;
}

export interface Drawing {
    boxes: Box[]; // outer ones first
    arrows: { x: number; from: number; to: number }[];
    width: number;
    height: number;
}

export const BOX_WIDTH = 230;
export const BOX_HEIGHT = 44;
export const HEAD_PX = 30;
const PAD = 14;
const GAP = 22;
const AT_FIRST = 18; // boxes, before anything is opened

// The class of a module without the number of the instance.
export function kindOf(name: string): string {
    return name.replace(/[_.]?\d+$/, "") || name;
}

export function inOrder(of: Module): Module[] {
    return [...of.children].sort((a, b) => a.first - b.first);
}

function signature(of: Module, known: Map<Module, string>): string {
    let text = known.get(of);
    if (text === undefined) {
        text = `${kindOf(of.name)}(${inOrder(of).map((one) => signature(one, known)).join()})`;
        known.set(of, text);
    }
    return text;
}

const UNFOLD = "*"; // after a key: its alike are shown singly

// What is open: keys of modules whose inside is shown, and with UNFOLD of those that are shown singly.
export function nodesOf(members: Module[], open: ReadonlySet<string>, known = new Map<Module, string>()): Node[] {
    const lists = members.map(inOrder);
    const first = lists[0] ?? [];
    const nodes: Node[] = [];
    for (let i = 0; i < first.length;) {
        let n = 1;
        while (i + n < first.length && signature(first[i + n]!, known) === signature(first[i]!, known)) n += 1;
        if (open.has(first[i]!.path + UNFOLD)) n = 1;
        const of = lists.flatMap((list) => list.slice(i, i + n));
        const isOpen = open.has(first[i]!.path) && first[i]!.children.length > 0;
        nodes.push({
            key: first[i]!.path, members: of, open: isOpen, inside: first[i]!.children.length,
            time_ns: of.reduce((sum, one) => sum + one.time_ns, 0), own_ns: of.reduce((sum, one) => sum + one.own_ns, 0),
            children: isOpen ? nodesOf(of, open, known) : [],
        });
        i += n;
    }
    return nodes;
}

// The keys that show each of those that are one.
export function unfoldKeys(node: Node): string[] {
    const parent = (path: string) => path.slice(0, path.lastIndexOf("/") + 1);
    return node.members.filter(({ path }) => parent(path) === parent(node.key)).map(({ path }) => path + UNFOLD);
}

// What is open before the reader says anything: the longest first, as long as it can be looked over.
export function openAtFirst(root: Module): Set<string> {
    const open = new Set<string>();
    let shown = nodesOf([root], open).length;
    for (;;) {
        const leaves: Node[] = [];
        const walk = (nodes: Node[]) => nodes.forEach((node) => (node.open ? walk(node.children) : node.inside > 0 && leaves.push(node)));
        walk(nodesOf([root], open));
        const next = leaves.sort((a, b) => b.time_ns - a.time_ns)[0];
        if (!next) return open;
        const more = nodesOf(next.members.slice(0, 1), open).length;
        if (shown + more > AT_FIRST) return open;
        open.add(next.key);
        shown += more;
    }
}

function measure(node: Node, depth: number, boxes: Box[], arrows: Drawing["arrows"]): Box {
    const box: Box = { node, depth, x: 0, y: 0, w: BOX_WIDTH, h: BOX_HEIGHT };
    boxes.push(box);
    if (!node.open) return box;
    const inner = stack(node.children, depth + 1, boxes, arrows);
    box.w = inner.w + 2 * PAD;
    box.h = HEAD_PX + inner.h + PAD;
    shift(inner, PAD, HEAD_PX);
    return box;
}

interface Stack {
    w: number;
    h: number;
    boxes: Box[];
    arrows: Drawing["arrows"];
}

function shift(of: Stack, dx: number, dy: number): void {
    for (const box of of.boxes) {
        box.x += dx;
        box.y += dy;
    }
    for (const arrow of of.arrows) {
        arrow.x += dx;
        arrow.from += dy;
        arrow.to += dy;
    }
}

// Below each other, in the middle of the widest.
function stack(nodes: Node[], depth: number, boxes: Box[], arrows: Drawing["arrows"]): Stack {
    const parts = nodes.map((node) => {
        const [b, a]: [Box[], Drawing["arrows"]] = [[], []];
        return { top: measure(node, depth, b, a), boxes: b, arrows: a };
    });
    const w = parts.reduce((most, { top }) => Math.max(most, top.w), BOX_WIDTH);
    let y = 0;
    const all: Stack = { w, h: 0, boxes: [], arrows: [] };
    parts.forEach((part, i) => {
        shift({ ...part, w: 0, h: 0 }, (w - part.top.w) / 2, y);
        if (i > 0) all.arrows.push({ x: w / 2, from: y - GAP, to: y });
        all.boxes.push(...part.boxes);
        all.arrows.push(...part.arrows);
        y += part.top.h + GAP;
    });
    all.h = Math.max(y - GAP, 0);
    boxes.push(...all.boxes);
    arrows.push(...all.arrows);
    return all;
}

export function drawingOf(nodes: Node[]): Drawing {
    const [boxes, arrows]: [Box[], Drawing["arrows"]] = [[], []];
    const { w, h } = stack(nodes, 0, boxes, arrows);
    return { boxes, arrows, width: w, height: h };
}
