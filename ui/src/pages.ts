// The pages of a trace, in the order of the navigation; the first is where a trace opens.
import type { ComponentType } from "preact";
import type { IconName } from "./icons";
import { Advice } from "./pages/Advice";
import { Compare } from "./pages/Compare";
import { Graph } from "./pages/Graph";
import { Kernels } from "./pages/Kernels";
import { Llm } from "./pages/Llm";
import { Memory } from "./pages/Memory";
import { Modules } from "./pages/Modules";
import { Operators } from "./pages/Operators";
import { Overview } from "./pages/Overview";
import { Pipeline } from "./pages/Pipeline";
import { Ranks } from "./pages/Ranks";
import { Roofline } from "./pages/Roofline";
import { Sql } from "./pages/Sql";
import { Steps } from "./pages/Steps";
import { Timeline } from "./pages/Timeline";
import { Whatif } from "./pages/Whatif";
import type { TraceInfo } from "./api";
import type { Has } from "./queries";

export interface Page {
    path: string; // in the address
    title: string;
    key: string; // g, then this, goes there; the first nine also by number
    icon: IconName;
    component: ComponentType;
    lacks?: (has: Has, trace: TraceInfo) => string | null; // why it has nothing to show
}

function unless(there: unknown, why: string): string | null {
    return there ? null : why;
}

export const pages: Page[] = [
    { path: "overview", title: "Overview", key: "o", icon: "overview", component: Overview },
    { path: "steps", title: "Step trace", key: "s", icon: "steps", component: Steps,
      lacks: (has) => unless(has.steps, "no steps are marked, and no sequence of operators repeats") },
    { path: "operators", title: "Operators", key: "p", icon: "operators", component: Operators },
    { path: "timeline", title: "Timeline", key: "t", icon: "timeline", component: Timeline },
    { path: "kernels", title: "Kernels", key: "k", icon: "kernels", component: Kernels,
      lacks: (has) => unless(has.hardware, "no device was recorded") },
    { path: "modules", title: "Modules", key: "u", icon: "modules", component: Modules,
      lacks: (has) => unless(has.modules || has.scopes, "no nn.Module spans, and no scopes in operator names") },
    { path: "graph", title: "Model graph", key: "n", icon: "graph", component: Graph,
      lacks: (has) => unless(has.tensors, "the tensors between operators are not recorded") },
    { path: "roofline", title: "Roofline", key: "r", icon: "roofline", component: Roofline,
      lacks: (has) => unless(has.computed, "what operators compute is not known") },
    { path: "memory", title: "Memory", key: "m", icon: "memory", component: Memory,
      lacks: (has, trace) => unless(trace.rows.mem || has.bytes, "neither a memory plan nor counters in bytes") },
    { path: "pipeline", title: "Data pipeline", key: "d", icon: "pipeline", component: Pipeline,
      lacks: (has) => unless(has.queues, "no queues were recorded") },
    { path: "llm", title: "Language model", key: "l", icon: "llm", component: Llm,
      lacks: (has) => unless(has.llm, "nothing tells of iterations or requests of a language model") },
    { path: "ranks", title: "Ranks", key: "x", icon: "ranks", component: Ranks,
      lacks: (has) => unless(has.ranks > 1, "the trace is of one rank") },
    { path: "whatif", title: "What if", key: "w", icon: "whatif", component: Whatif,
      lacks: (has) => unless(has.weights, "the weights of operators are not known") },
    { path: "compare", title: "Compare", key: "c", icon: "compare", component: Compare },
    { path: "advice", title: "Advice", key: "a", icon: "advice", component: Advice },
    { path: "sql", title: "SQL", key: "q", icon: "sql", component: Sql },
];
