// The graph of a model from its operators and the names of their tensors, with blocks that repeat
// folded into one.

export interface GraphOp {
    id: number;
    name: string;
    type: string;
    shape: string; // what tells it from another of the same type, for folding
    time: number | null;
}

export interface GraphTensor {
    op: number;
    io: string;
    name: string | null;
}

// A node of the picture: one operator, or the same operator of every repetition of a block.
export interface GraphNode {
    ops: GraphOp[];
    time: number | null;
    block: number; // index into blocks, -1: of none
}

export interface Block {
    key: string; // stays the same however other blocks are folded
    start: number; // index of its first operator
    period: number; // operators in one repetition
    repeats: number;
    folded: boolean;
    time: number | null;
}

export interface Graph {
    nodes: GraphNode[];
    edges: [number, number][];
    blocks: Block[];
}

function add(a: number | null, b: number | null): number | null {
    return a === null ? b : b === null ? a : a + b;
}

const LONGEST_PERIOD = 600;

// How often what starts at i repeats with each period; the one that covers most wins, the shorter
// of two that cover the same.
export function findBlocks(words: string[]): { start: number; period: number; repeats: number }[] {
    const n = words.length;
    const ids = new Map<string, number>();
    const word = Int32Array.from(words, (text) => {
        const id = ids.get(text) ?? ids.size;
        ids.set(text, id);
        return id;
    });
    const covers = new Int32Array(n);
    const periods = new Int32Array(n);
    for (let p = 2; p <= Math.min(LONGEST_PERIOD, n >> 1); p++) {
        let same = 0;
        for (let i = n - p - 1; i >= 0; i--) {
            same = word[i] === word[i + p] ? same + 1 : 0;
            const covered = same >= p ? (Math.floor(same / p) + 1) * p : 0;
            if (covered > covers[i]!) {
                covers[i] = covered;
                periods[i] = p;
            }
        }
    }
    const found = [];
    for (let i = 0; i < n;) {
        const covered = covers[i]!;
        // A block that begins a little later may cover more.
        let better = false;
        for (let k = i + 1; covered && k < Math.min(i + periods[i]!, n); k++) {
            better ||= covers[k]! > covered;
        }
        if (!covered || better) {
            i += 1;
            continue;
        }
        found.push({ start: i, period: periods[i]!, repeats: covered / periods[i]! });
        i += covered;
    }
    return found;
}

// Operators in the order of execution; unfolded: keys of the blocks to show whole.
export function buildGraph(ops: GraphOp[], tensors: GraphTensor[], unfolded: Set<string>): Graph {
    const blocks = findBlocks(ops.map((op) => `${op.type} ${op.shape}`)).map((block): Block => {
        const { start, period, repeats } = block;
        const key = `${start}x${period}`;
        let time: number | null = null;
        for (const op of ops.slice(start, start + period * repeats)) time = add(time, op.time);
        return { key, start, period, repeats, folded: !unfolded.has(key), time };
    });
    const nodes: GraphNode[] = [];
    const nodeOf = new Map<number, number>();
    let next = 0;
    for (let i = 0; i < ops.length; i++) {
        const op = ops[i]!;
        while (
            next < blocks.length &&
            blocks[next]!.start + blocks[next]!.period * blocks[next]!.repeats <= i
        ) {
            next += 1;
        }
        const block = blocks[next];
        const inside = block !== undefined && block.start <= i;
        if (inside && block.folded && i - block.start >= block.period) {
            const first = ops[block.start + ((i - block.start) % block.period)]!;
            const node = nodeOf.get(first.id)!;
            nodes[node]!.ops.push(op);
            nodes[node]!.time = add(nodes[node]!.time, op.time);
            nodeOf.set(op.id, node);
        } else {
            nodeOf.set(op.id, nodes.length);
            nodes.push({ ops: [op], time: op.time, block: inside ? next : -1 });
        }
    }
    return { nodes, edges: findEdges(tensors, nodeOf), blocks };
}

// From the operator that makes a tensor to those that read it. Where several make one of the same
// name, the last before the reader does. What leads back from one repetition of a folded block to
// the next is left out: nodes stand in the order of execution.
function findEdges(tensors: GraphTensor[], nodeOf: Map<number, number>): [number, number][] {
    const named = tensors.filter((t) => t.name !== null && nodeOf.has(t.op));
    const makers = new Map<string, number[]>(); // operators, rising
    for (const { op, io, name } of [...named].sort((a, b) => a.op - b.op)) {
        if (io !== "output") continue;
        const of = makers.get(name!);
        if (of) of.push(op);
        else makers.set(name!, [op]);
    }
    const seen = new Set<string>();
    const edges: [number, number][] = [];
    for (const { op, io, name } of named) {
        const of = io === "input" ? makers.get(name!) : undefined;
        const maker = of?.findLast((from) => from < op) ?? of?.[0];
        if (maker === undefined) continue;
        const [from, to] = [nodeOf.get(maker)!, nodeOf.get(op)!];
        const key = `${from} ${to}`;
        if (from < to && !seen.has(key)) edges.push([from, to]);
        seen.add(key);
    }
    return edges;
}
