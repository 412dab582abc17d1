// Ctrl+K: go anywhere by typing a part of its name.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isReport, type TraceInfo } from "../api";
import { matcher } from "../fuzzy";
import { useDataOf } from "../hooks";
import { Icon, type IconName } from "../icons";
import { pages } from "../pages";
import type { OperatorType } from "../queries";
import { href, navigate } from "../router";
import { toggle } from "../theme";

const MOST = 12;

interface Command {
    title: string;
    note: string;
    icon: IconName;
    run: () => void;
}

function commands(trace: TraceInfo | null, folder: boolean, types: OperatorType[], onReload: () => void): Command[] {
    const go = (to: string) => () => navigate(to);
    const list: Command[] = [];
    if (trace) {
        for (const page of pages) {
            list.push({ title: page.title, note: `page, g ${page.key}`, icon: page.icon, run: go(href(page.path, {}, trace.id)) });
        }
        for (const { type } of types) {
            if (type) list.push({ title: type, note: "in the timeline", icon: "timeline", run: go(href("timeline", { q: type }, trace.id)) });
        }
        if (!isReport) list.push({ title: "Reload the trace", note: "R", icon: "reload", run: onReload });
    }
    if (folder) list.push({ title: "All traces", note: "", icon: "traces", run: go("#/") });
    list.push({ title: "Light or dark theme", note: "T", icon: "moon", run: toggle });
    return list;
}

interface GoToProps {
    trace: TraceInfo | null;
    folder: boolean;
    onReload: () => void;
    onClose: () => void;
}

export function GoTo({ trace, folder, onReload, onClose }: GoToProps) {
    const dialog = useRef<HTMLDialogElement>(null);
    const [needle, setNeedle] = useState("");
    const [at, setAt] = useState(0);
    const types = useDataOf<OperatorType>(trace, "op_types");
    const known = types.state === "ready" ? types.value : [];
    const found = useMemo(() => {
        const seen = new Set<string>();
        const matches = needle.trim() ? matcher(needle) : () => true;
        return commands(trace, folder, known, onReload)
            .filter(({ title, note }) => matches(title) && !seen.has(title + note) && seen.add(title + note)).slice(0, MOST);
    }, [needle, known, trace, folder]);
    useEffect(() => dialog.current?.showModal(), []);
    const run = (command: Command | undefined) => {
        if (!command) return;
        dialog.current?.close();
        command.run();
    };
    return (
        <dialog ref={dialog} class="palette" aria-label="Go to" onClose={onClose}
                onClick={(event) => { if (event.target === dialog.current) dialog.current?.close(); }}>
            <input type="text" class="search" value={needle} placeholder="Page, operator type …" aria-label="Go to" autofocus
                   role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={`palette-${at}`}
                   onInput={(event) => { setNeedle(event.currentTarget.value); setAt(0); }}
                   onKeyDown={(event) => {
                       const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
                       if (by !== undefined) {
                           event.preventDefault();
                           setAt((at + by + found.length) % Math.max(found.length, 1));
                       } else if (event.key === "Enter") {
                           event.preventDefault();
                           run(found[at]);
                       }
                   }} />
            <ul id="palette-list" role="listbox" aria-label="Found">
                {found.map((command, i) => (
                    <li key={command.title + command.note} id={`palette-${i}`} role="option" aria-selected={i === at} class={i === at ? "on" : ""}
                        onClick={() => run(command)} onMouseMove={() => setAt(i)}>
                        <Icon name={command.icon} /><span>{command.title}</span><span class="muted">{command.note}</span>
                    </li>
                ))}
            </ul>
            {!found.length && <p class="note">Nothing has such a name.</p>}
        </dialog>
    );
}
