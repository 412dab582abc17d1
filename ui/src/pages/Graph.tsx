// The model as a graph, coloured by the time that operators take; blocks that repeat are folded.
import { useMemo } from "preact/hooks";
import { findOperator, operatorKey, OperatorDrawer } from "../components/OperatorDrawer";
import { Empty, Loaded } from "../components/States";
import { Tabs } from "../components/Tabs";
import { count, NA } from "../format";
import { matcher } from "../fuzzy";
import { layOut } from "../graph/layout";
import { buildGraph, type Block, type GraphOp } from "../graph/model";
import { Picture } from "../graph/Picture";
import { all, useData } from "../hooks";
import type { Op, Operator, Tensor } from "../queries";
import { setArgs, useRoute } from "../router";
import { groupBy } from "../stats";

// Enter goes to the first operator that matches, then to the next.
function Find({ ops }: { ops: GraphOp[] }) {
    const { args } = useRoute();
    const next = (needle: string) => {
        const matches = matcher(needle);
        const found = ops.filter((op) => matches(`${op.name} ${op.type}`));
        const at = found.findIndex((op) => String(op.id) === args.get("op"));
        const to = found[(at + 1) % found.length];
        if (to) setArgs({ op: to.id });
    };
    return (
        <input
            type="search"
            class="search short"
            placeholder="Find an operator"
            aria-label="Find an operator"
            data-search
            onKeyDown={(event) => {
                if (event.key === "Enter" && event.currentTarget.value.trim())
                    next(event.currentTarget.value);
            }}
        />
    );
}

function Page({ ops, tensors, operators }: { ops: Op[]; tensors: Tensor[]; operators: Operator[] }) {
    const { args } = useRoute();
    const unfolded = useMemo(
        () => new Set((args.get("open") ?? "").split(",").filter(Boolean)),
        [args.get("open")]
    );
    const colorBy = args.get("color") === "type" ? "type" : "time";
    const timed = useMemo(() => {
        const section = operators.some((o) => o.section === "device") ? "device" : "host";
        return new Map(
            operators.filter((o) => o.section === section && o.op !== null).map((o) => [o.op!, o.time_ns])
        );
    }, [operators]);
    const list = useMemo(() => {
        const shapes = new Map(
            [
                ...groupBy(
                    tensors.filter((t) => t.io === "output"),
                    (t) => t.op
                ),
            ].map(([op, of]) => [op, of.map((t) => t.shape).join(" ")])
        );
        return ops.map((op): GraphOp => ({
            id: op.id,
            name: op.name ?? NA,
            type: op.type ?? NA,
            time: timed.get(op.id) ?? null,
            shape: `${shapes.get(op.id) ?? ""} ${op.weight_shape ?? ""} ${op.post_op ?? ""}`,
        }));
    }, [ops, tensors, timed]);
    const model = useMemo(() => buildGraph(list, tensors, unfolded), [list, unfolded]);
    const layout = useMemo(() => layOut(model.nodes.length, model.edges), [model]);
    const total = list.reduce((all, op) => all + (op.time ?? 0), 0);
    const selected = findOperator(operators, args.get("op"), "device");
    const fold = (block: Block) => {
        const next = new Set(unfolded);
        if (!next.delete(block.key)) next.add(block.key);
        setArgs({ open: [...next].join(",") || null });
    };
    const folded = model.blocks.filter((b) => b.folded).length;
    return (
        <>
            <div class="page-head">
                <h1>Model graph</h1>
                <Tabs
                    label="Colour"
                    value={colorBy}
                    onChange={(key) => setArgs({ color: key === "type" ? key : null })}
                    options={[
                        { key: "time", title: "Time" },
                        { key: "type", title: "Type" },
                    ]}
                />
                {model.blocks.length > 0 && (
                    <button
                        class="button"
                        onClick={() =>
                            setArgs({ open: folded ? model.blocks.map((b) => b.key).join(",") : null })
                        }
                    >
                        {folded ? "Expand all" : "Collapse all"}
                    </button>
                )}
                <Find ops={list} />
                <span class="muted">
                    {count(ops.length)} operators
                    {folded
                        ? `, ${count(model.nodes.length)} shown: ${count(folded)} repeated ${folded === 1 ? "block is" : "blocks are"} collapsed`
                        : ""}
                    . Drag to move, Ctrl + wheel to zoom.
                </span>
            </div>
            <Picture
                model={model}
                layout={layout}
                total={total}
                colorBy={colorBy}
                selected={selected?.op ?? null}
                onOpen={(op) => setArgs({ op: op.id })}
                onFold={fold}
            />
            {selected && (
                <OperatorDrawer
                    key={operatorKey(selected)}
                    of={selected}
                    onClose={() => setArgs({ op: null })}
                />
            )}
        </>
    );
}

export function Graph() {
    const loaded = all<[Op[], Tensor[], Operator[]]>(
        useData("model_ops"),
        useData("model_tensors"),
        useData("operators_each")
    );
    return (
        <div class="page fill">
            <Loaded of={loaded}>
                {([ops, tensors, operators]) => {
                    if (!ops.length)
                        return (
                            <>
                                <h1>Model graph</h1>
                                <Empty why="This trace has no operators of a model." />
                            </>
                        );
                    if (!tensors.some((t) => t.name !== null && t.io === "output")) {
                        return (
                            <>
                                <h1>Model graph</h1>
                                <Empty why="This trace has no names of tensors, so how operators are connected is not known." />
                            </>
                        );
                    }
                    return <Page ops={ops} tensors={tensors} operators={operators} />;
                }}
            </Loaded>
        </div>
    );
}
