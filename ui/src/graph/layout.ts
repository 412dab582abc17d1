// Where the nodes of a graph stand: layers from top to bottom, few crossings, long edges routed
// through the layers that they pass.

import { largest, smallest } from "../stats";

export interface Point {
    x: number;
    y: number;
}

export interface Layout {
    nodes: Point[]; // centre
    edges: Point[][]; // from the bottom of a node through bends to the top of another
    width: number;
    height: number;
}

export const NODE_WIDTH = 190;
export const NODE_HEIGHT = 44;
const GAP_X = 26;
const GAP_Y = 34;
const BEND_WIDTH = 14;
// An edge over more layers than this goes straight: routing it would cost more than it shows.
const LONGEST_ROUTE = 60;
const SWEEPS = 6;

interface Cell {
    layer: number;
    width: number;
    x: number;
    up: number[];
    down: number[];
}

// Edges lead from lower to higher numbers.
function layersOf(n: number, edges: [number, number][]): number[] {
    const layer = new Array<number>(n).fill(0);
    const into: number[][] = Array.from({ length: n }, () => []);
    for (const [from, to] of edges) into[to]!.push(from);
    for (let i = 0; i < n; i++) {
        for (const from of into[i]!) layer[i] = Math.max(layer[i]!, layer[from]! + 1);
    }
    // A source stands right above what it feeds.
    const out: number[][] = Array.from({ length: n }, () => []);
    for (const [from, to] of edges) out[from]!.push(to);
    for (let i = n - 1; i >= 0; i--) {
        if (!into[i]!.length && out[i]!.length) {
            layer[i] = smallest(out[i]!.map((to) => layer[to]!)) - 1;
        }
    }
    return layer;
}

function mean(cells: Cell[], of: number[]): number | null {
    let sum = 0;
    for (const i of of) sum += cells[i]!.x;
    return of.length ? sum / of.length : null;
}

// Cells of a layer side by side in their order, each as near to where it would like to be as its
// neighbours allow: groups that would overlap are placed around their common mean.
function place(cells: Cell[], row: number[], wish: (i: number) => number): void {
    const groups: { members: number[]; offsets: number[]; sum: number; width: number }[] = [];
    const gap = (a: Cell, b: Cell) => (a.width === BEND_WIDTH && b.width === BEND_WIDTH ? 4 : GAP_X);
    for (const i of row) {
        let group = { members: [i], offsets: [0], sum: wish(i), width: 0 };
        for (let last = groups.at(-1); last; last = groups.at(-1)) {
            const a = cells[last.members.at(-1)!]!;
            const b = cells[group.members[0]!]!;
            const between = (a.width + b.width) / 2 + gap(a, b);
            if (last.sum / last.members.length + last.width + between <= group.sum / group.members.length)
                break;
            groups.pop();
            const shift = last.width + between;
            group = {
                members: [...last.members, ...group.members],
                offsets: [...last.offsets, ...group.offsets.map((o) => o + shift)],
                sum: last.sum + group.sum - shift * group.members.length,
                width: shift + group.width,
            };
        }
        groups.push(group);
    }
    for (const { members, offsets, sum } of groups) {
        members.forEach((i, k) => {
            cells[i]!.x = sum / members.length + offsets[k]!;
        });
    }
}

export function layOut(n: number, edges: [number, number][]): Layout {
    const layer = layersOf(n, edges);
    const cells: Cell[] = layer.map((l) => ({ layer: l, width: NODE_WIDTH, x: 0, up: [], down: [] }));
    const routes: number[][] = edges.map(([from, to]) => {
        const route = [from];
        const span = layer[to]! - layer[from]!;
        for (let k = 1; k < span && span <= LONGEST_ROUTE; k++) {
            cells.push({ layer: layer[from]! + k, width: BEND_WIDTH, x: 0, up: [], down: [] });
            route.push(cells.length - 1);
        }
        route.push(to);
        for (let k = 1; k < route.length; k++) {
            cells[route[k - 1]!]!.down.push(route[k]!);
            cells[route[k]!]!.up.push(route[k - 1]!);
        }
        return route;
    });
    const rows: number[][] = Array.from({ length: largest(layer, 0) + 1 }, () => []);
    cells.forEach((cell, i) => rows[cell.layer]!.push(i));
    for (const row of rows)
        row.forEach((i, k) => {
            cells[i]!.x = k * (NODE_WIDTH + GAP_X);
        });

    for (let sweep = 0; sweep < SWEEPS; sweep++) {
        const down = sweep % 2 === 0;
        for (let r = 0; r < rows.length; r++) {
            const row = rows[down ? r : rows.length - 1 - r]!;
            const wishes = new Map(
                row.map((i) => {
                    const cell = cells[i]!;
                    const near = mean(cells, down ? cell.up : cell.down);
                    return [i, near ?? mean(cells, down ? cell.down : cell.up) ?? cell.x];
                })
            );
            // Routes keep to one side of the nodes that they pass.
            row.sort((a, b) => wishes.get(a)! - wishes.get(b)! || cells[b]!.width - cells[a]!.width || a - b);
            place(cells, row, (i) => wishes.get(i)!);
        }
    }

    let left = Infinity;
    let right = 0;
    for (const cell of cells) {
        left = Math.min(left, cell.x - cell.width / 2);
        right = Math.max(right, cell.x + cell.width / 2);
    }
    const at = (i: number): Point => ({
        x: cells[i]!.x - left,
        y: cells[i]!.layer * (NODE_HEIGHT + GAP_Y) + NODE_HEIGHT / 2,
    });
    return {
        nodes: layer.map((_, i) => at(i)),
        edges: routes.map((route) =>
            route.flatMap((i, k): Point[] => {
                const { x, y } = at(i);
                const half = NODE_HEIGHT / 2;
                if (k === 0) return [{ x, y: y + half }];
                if (k === route.length - 1) return [{ x, y: y - half }];
                return [
                    { x, y: y - half },
                    { x, y: y + half },
                ];
            })
        ),
        width: n ? right - left : 0,
        height: rows.length * (NODE_HEIGHT + GAP_Y) - GAP_Y,
    };
}
