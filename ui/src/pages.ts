// The pages of a trace, in the order of the navigation; the first is where a trace opens.
import type { ComponentType } from "preact";
import type { IconName } from "./icons";
import { Advice } from "./pages/Advice";
import { Compare } from "./pages/Compare";
import { Graph } from "./pages/Graph";
import { Memory } from "./pages/Memory";
import { Operators } from "./pages/Operators";
import { Overview } from "./pages/Overview";
import { Pipeline } from "./pages/Pipeline";
import { Roofline } from "./pages/Roofline";
import { Sql } from "./pages/Sql";
import { Steps } from "./pages/Steps";
import { Timeline } from "./pages/Timeline";
import { Whatif } from "./pages/Whatif";

export interface Page {
    path: string; // in the address
    title: string;
    key: string; // g, then this, goes there; the first nine also by number
    icon: IconName;
    component: ComponentType;
}

export const pages: Page[] = [
    { path: "overview", title: "Overview", key: "o", icon: "overview", component: Overview },
    { path: "steps", title: "Step trace", key: "s", icon: "steps", component: Steps },
    { path: "operators", title: "Operators", key: "p", icon: "operators", component: Operators },
    { path: "timeline", title: "Timeline", key: "t", icon: "timeline", component: Timeline },
    { path: "graph", title: "Model graph", key: "n", icon: "graph", component: Graph },
    { path: "roofline", title: "Roofline", key: "r", icon: "roofline", component: Roofline },
    { path: "memory", title: "Memory", key: "m", icon: "memory", component: Memory },
    { path: "pipeline", title: "Data pipeline", key: "d", icon: "pipeline", component: Pipeline },
    { path: "whatif", title: "What if", key: "w", icon: "whatif", component: Whatif },
    { path: "compare", title: "Compare", key: "c", icon: "compare", component: Compare },
    { path: "advice", title: "Advice", key: "a", icon: "advice", component: Advice },
    { path: "sql", title: "SQL", key: "q", icon: "sql", component: Sql },
];
