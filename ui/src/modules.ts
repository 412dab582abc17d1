// The modules of a model as a tree: from nn.Module spans of PyTorch, else from its Python functions, or from
// the scopes in names of operators.
import type { ModuleSpan, ModuleWork, Operator } from "./queries";

export interface Module {
    name: string;
    path: string;
    time_ns: number; // with what is inside
    own_ns: number;
    count: number;
    first: number; // when it was first called: orders it among its siblings
    children: Module[];
}

export const PREFIX = "nn.Module: ";

function child(of: Module, name: string, at: number): Module {
    let found = of.children.find((one) => one.name === name);
    if (!found) {
        found = { name, path: of.path ? `${of.path}/${name}` : name, time_ns: 0, own_ns: 0, count: 0, first: at, children: [] };
        of.children.push(found);
    }
    found.first = Math.min(found.first, at);
    return found;
}

// Without what all have; of a Python function without the folders of its file.
function shortName(name: string): string {
    return name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name.replace(/^.*\/(?=[^/]*\(\d+\): )/, "");
}

// The largest first, and sums up the tree.
function finish(module: Module): Module {
    module.time_ns = module.own_ns;
    for (const one of module.children) module.time_ns += finish(one).time_ns;
    module.children.sort((a, b) => b.time_ns - a.time_ns || a.name.localeCompare(b.name, "en", { numeric: true }));
    return module;
}

function root(): Module {
    return { name: "", path: "", time_ns: 0, own_ns: 0, count: 0, first: 0, children: [] };
}

// Operators by the parts of their names; null where the names have none.
export function fromNames(operators: Operator[]): Module | null {
    const all = root();
    let scoped = 0;
    for (const of of operators) {
        const parts = (of.name ?? "").split(/[/.]/).filter(Boolean);
        if (of.op === null || !of.time_ns || !parts.length) continue;
        if (parts.length > 1) scoped += 1;
        let at = all;
        for (const part of parts) at = child(at, part, of.op);
        at.own_ns += of.time_ns;
        at.count += of.count;
    }
    return scoped > 1 ? finish(all) : null;
}

export interface ModuleTree {
    tree: Module;
    placed_ns: number; // device or host time that belongs to a module
    all_ns: number;
    onDevice: boolean;
    functions: boolean; // of Python, because no modules were recorded
}

// Spans of modules by time; work by when and where it was launched. Without work, the time of the spans
// themselves counts.
export function fromSpans(spans: ModuleSpan[], work: ModuleWork[]): ModuleTree | null {
    if (!spans.length) return null;
    const all = root();
    const onDevice = work.length > 0;
    const tracks = new Map<number, { span: ModuleSpan; module: Module }[]>();
    const stacks = new Map<number, { span: ModuleSpan; module: Module }[]>();
    for (const span of spans) {
        const stack = stacks.get(span.track) ?? [];
        while (stack.length && stack[stack.length - 1]!.span.end <= span.ts) stack.pop();
        const module = child(stack[stack.length - 1]?.module ?? all, shortName(span.name), span.ts);
        module.count += 1;
        if (!onDevice) {
            module.own_ns += span.end - span.ts;
            const around = stack[stack.length - 1];
            if (around) around.module.own_ns -= span.end - span.ts;
        }
        stack.push({ span, module });
        stacks.set(span.track, stack);
        const list = tracks.get(span.track) ?? [];
        list.push({ span, module });
        tracks.set(span.track, list);
    }
    let placed = 0;
    const total = work[0]?.device_ns ?? 0;
    for (const one of work) {
        const list = tracks.get(one.track);
        if (!list) continue;
        // The last that began before, or one around it.
        let low = 0;
        let high = list.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (list[middle]!.span.ts <= one.ts) low = middle + 1;
            else high = middle;
        }
        for (let i = low - 1; i >= 0; i--) {
            if (list[i]!.span.end <= one.ts) continue;
            list[i]!.module.own_ns += one.ns;
            placed += one.ns;
            break;
        }
    }
    finish(all);
    return { tree: all, placed_ns: onDevice ? placed : all.time_ns, all_ns: onDevice ? total : all.time_ns, onDevice,
             functions: !spans[0]!.name.startsWith(PREFIX) };
}
