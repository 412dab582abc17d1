// Files dropped anywhere on the page, or picked, are copied to the server and opened. The server
// listens to this machine alone then, so they stay here.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { bytes } from "../format";
import { Icon } from "../icons";
import { href, navigate } from "../router";

type State =
    | { at: "rest" }
    | { at: "over" } // a file is held above the page
    | { at: "coming"; name: string; done: number; total: number }
    | { at: "failed"; why: string[] };

function holdsFiles(event: DragEvent): boolean {
    return event.dataTransfer?.types.includes("Files") ?? false;
}

// Of what is dropped, files; folders have to be named to the server.
function taken(event: DragEvent): { files: File[]; folders: string[] } {
    const entries = [...event.dataTransfer?.items ?? []].map((item) => ({ file: item.getAsFile(), entry: item.webkitGetAsEntry() }));
    return {
        files: entries.flatMap(({ file, entry }) => (file && !entry?.isDirectory ? [file] : [])),
        folders: entries.flatMap(({ entry }) => (entry?.isDirectory ? [entry.name] : [])),
    };
}

interface DropProps {
    max: number; // bytes of a file
    onAdded: () => void; // the server has more traces now
}

export function Drop({ max, onAdded }: DropProps) {
    const [now, setNow] = useState<State>({ at: "rest" });
    const input = useRef<HTMLInputElement>(null);
    const stop = useRef<AbortController | null>(null);

    const bring = async (files: File[], folders: string[]) => {
        const why = folders.map((name) => `${name} is a folder: ‘opmeter serve ${name}’ shows the traces in it.`);
        const ids: string[] = [];
        stop.current = new AbortController();
        for (const file of files) {
            const { name, size } = file;
            if (size > max) {
                why.push(`${name} is larger than ${bytes(max)}: ‘opmeter serve’ opens it where it lies.`);
                continue;
            }
            setNow({ at: "coming", name, done: 0, total: size });
            try {
                const { id } = await api.drop(file, (done) => setNow({ at: "coming", name, done, total: size }), stop.current.signal);
                ids.push(id);
            } catch (error) {
                if (stop.current.signal.aborted) break;
                why.push((error as Error).message);
            }
        }
        setNow(why.length ? { at: "failed", why } : { at: "rest" });
        if (!ids.length) return;
        onAdded();
        navigate(ids.length === 1 ? href("", {}, ids[0]!) : "#/");
    };

    useEffect(() => {
        let left = 0; // leaving an element for one inside it is not leaving the page
        const over = (event: DragEvent) => {
            if (!holdsFiles(event)) return;
            event.preventDefault();
            clearTimeout(left);
            setNow((was) => (was.at === "coming" ? was : { at: "over" }));
        };
        const leave = () => {
            clearTimeout(left);
            left = setTimeout(() => setNow((was) => (was.at === "over" ? { at: "rest" } : was)), 100) as unknown as number;
        };
        const drop = (event: DragEvent) => {
            if (!holdsFiles(event)) return;
            event.preventDefault();
            clearTimeout(left);
            const { files, folders } = taken(event);
            if (!stop.current || stop.current.signal.aborted) void bring(files, folders).finally(() => { stop.current = null; });
        };
        addEventListener("dragover", over);
        addEventListener("dragleave", leave);
        addEventListener("drop", drop);
        return () => {
            removeEventListener("dragover", over);
            removeEventListener("dragleave", leave);
            removeEventListener("drop", drop);
            clearTimeout(left);
        };
    }, [max]);

    return (
        <>
            <button class="icon-button" aria-label="Open a trace file" title="Open a trace file; it can be dropped on the page, too"
                    onClick={() => input.current?.click()}><Icon name="upload" /></button>
            <input ref={input} type="file" multiple hidden aria-label="Trace files" onChange={(event) => {
                const files = [...event.currentTarget.files ?? []];
                event.currentTarget.value = "";
                if (files.length && !stop.current) void bring(files, []).finally(() => { stop.current = null; });
            }} />
            {now.at === "over" && (
                <div class="drop-over" role="status">
                    <div><Icon name="upload" /><strong>Drop to open</strong><span>The trace stays on this machine.</span></div>
                </div>
            )}
            {now.at === "coming" && (
                <div class="drop-note" role="status">
                    <span class="drop-name" title={now.name}>{now.name}</span>
                    <progress aria-label={`Copying ${now.name}`} max={Math.max(now.total, 1)} value={now.done} />
                    <span class="num">{bytes(now.done)} of {bytes(now.total)}</span>
                    <button class="icon-button" aria-label="Cancel" onClick={() => stop.current?.abort()}><Icon name="close" /></button>
                </div>
            )}
            {now.at === "failed" && (
                <div class="drop-note failed" role="alert">
                    <div>{now.why.map((line, i) => <p key={i}>{line}</p>)}</div>
                    <button class="icon-button" aria-label="Close" onClick={() => setNow({ at: "rest" })}><Icon name="close" /></button>
                </div>
            )}
        </>
    );
}
