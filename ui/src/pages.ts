// The pages of a trace, in the order of the navigation; the first is where a trace opens.
import type { ComponentType } from "preact";
import type { IconName } from "./icons";
import { Advice } from "./pages/Advice";
import { Operators } from "./pages/Operators";
import { Overview } from "./pages/Overview";
import { Steps } from "./pages/Steps";
import { Timeline } from "./pages/Timeline";

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
    { path: "advice", title: "Advice", key: "a", icon: "advice", component: Advice },
];
