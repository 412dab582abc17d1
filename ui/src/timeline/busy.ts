// How busy the devices are in what is in sight, when the picture rests.
import { useEffect } from "preact/hooks";
import * as api from "../api";
import type { Controller } from "./controller";
import { toTime } from "./view";

const BUSY_MS = 80;

// ready: the first picture stands; nothing else is asked for before.
export function useBusy(controller: Controller, trace: api.TraceInfo, ready: boolean, onError: (error: Error) => void): void {
    useEffect(() => {
        if (!ready) return;
        const stop = new AbortController();
        const timer = setTimeout(() => {
            const from = Math.max(Math.floor(controller.target.from), 0);
            const to = Math.min(Math.ceil(toTime(controller.target, controller.scene.width)), Math.max(trace.duration_ns, 1));
            if (to <= from) return;
            const parts = Math.max(Math.min(Math.round((to - from) / controller.target.scale), to - from), 1);
            api.busy(trace.id, from, to, parts, stop.signal)
                .then((busy) => controller.setBusy(busy), (failure: Error) => {
                    if (!stop.signal.aborted) onError(failure);
                });
        }, BUSY_MS);
        return () => {
            clearTimeout(timer);
            stop.abort();
        };
    }, [controller, ready, controller.target]);
}
