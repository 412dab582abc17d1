// The pages of a trace, in the order of the navigation; the first is where a trace opens.
import type { ComponentType } from "preact";
import type { IconName } from "./icons";
import { Timeline } from "./pages/Timeline";

export interface Page {
    path: string; // in the address
    title: string;
    key: string; // g, then this, goes there; the first nine also by number
    icon: IconName;
    component: ComponentType;
}

export const pages: Page[] = [
    { path: "timeline", title: "Timeline", key: "t", icon: "timeline", component: Timeline },
];
