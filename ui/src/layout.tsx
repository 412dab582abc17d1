// The frame around every page: navigation, header, help.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import { Drop } from "./components/Drop";
import { GoTo } from "./components/GoTo";
import { useDataOf } from "./hooks";
import { Icon } from "./icons";
import { listed, useKeys, type Key } from "./keys";
import { pages, type Page } from "./pages";
import type { Has } from "./queries";
import { current, href, navigate } from "./router";
import { toggle, useTheme } from "./theme";

const HAS_MS = 700;

function focusSearch(): void {
    document.querySelector<HTMLElement>("[data-search]")?.focus();
}

function Help({ onClose }: { onClose: () => void }) {
    const dialog = useRef<HTMLDialogElement>(null);
    useEffect(() => dialog.current?.showModal(), []);
    return (
        <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={onClose}
                onClick={(event) => { if (event.target === dialog.current) dialog.current?.close(); }}>
            <header class="card-head">
                <h2 id="help-title">Keys</h2>
                <button class="icon-button" aria-label="Close" onClick={() => dialog.current?.close()}>
                    <Icon name="close" />
                </button>
            </header>
            <div class="help-body">
                {listed().map((layer, i) => (
                    <dl key={i}>
                        {layer.map((key) => (
                            <div key={key.keys}>
                                <dt>{key.keys.split(" ").map((k) => <kbd key={k}>{k}</kbd>)}</dt>
                                <dd>{key.does}</dd>
                            </div>
                        ))}
                    </dl>
                ))}
            </div>
        </dialog>
    );
}

interface FrameProps {
    trace: api.TraceInfo | null;
    job: string | null;
    page: Page | null;
    version: api.Version | null;
    onReload: () => void;
    onAdded: () => void;
    children: ComponentChildren;
}

export function Frame({ trace, job, page, version, onReload, onAdded, children }: FrameProps) {
    const theme = useTheme();
    const [help, setHelp] = useState(false);
    const [palette, setPalette] = useState(false);
    useEffect(() => {
        const onKey = (event: KeyboardEvent) => {
            if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
            event.preventDefault();
            setPalette(true);
        };
        addEventListener("keydown", onKey);
        return () => removeEventListener("keydown", onKey);
    }, []);
    const goTo = (to: Page) => () => { if (trace) navigate(href(to.path, {}, trace.id)); };
    const keys: Key[] = [
        { keys: "?", does: "show these keys", run: () => setHelp(true) },
        { keys: "Ctrl+K", does: "command palette", run: () => setPalette(true) },
        { keys: "/", does: "search", run: focusSearch },
        { keys: "T", does: "light or dark theme", run: toggle },
        { keys: "R", does: "reload the trace", run: onReload },
        ...(trace ? pages.flatMap((to, i): Key[] => [
            { keys: `g ${to.key}`, does: to.title, run: goTo(to) },
            ...(i < 9 ? [{ keys: String(i + 1), does: "", run: goTo(to) }] : []),
        ]) : []),
    ];
    useKeys(keys, [trace?.id]);
    // It takes a look at every span: after the first picture.
    const [later, setLater] = useState(false);
    useEffect(() => {
        const timer = setTimeout(() => setLater(true), HAS_MS);
        return () => clearTimeout(timer);
    }, []);
    // On a phone the pages stand in one line, of which a part is in sight.
    useEffect(() => {
        document.querySelector(".nav-link[aria-current=page]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    }, [page, trace?.id]);
    const has = useDataOf<Has>(later ? trace : null, "has");
    const lacking = (to: Page): string | null => (trace && has.state === "ready" && has.value[0]
        ? to.lacks?.(has.value[0], trace) ?? null : null);
    return (
        <div class="frame">
            <a class="skip" href="#content" onClick={(event) => {
                event.preventDefault(); // the hash is the address of the page
                document.getElementById("content")?.focus();
            }}>Skip to the content</a>
            <nav class="nav" aria-label="Pages">
                <a class="brand" href={version?.folder || version?.fleets ? "#/" : href("", {}, trace?.id ?? null)}>
                    <Logo />opmeter
                </a>
                {!!version?.fleets && (
                    <a class="nav-link" href="#/" aria-current={trace || current().page ? undefined : "page"}>
                        <Icon name="ranks" />All jobs
                    </a>
                )}
                {version?.folder && (
                    <a class="nav-link" href={version.fleets ? "#/traces" : "#/"}
                       aria-current={trace || current().page !== (version.fleets ? "traces" : null) ? undefined : "page"}>
                        <Icon name="traces" />All traces
                    </a>
                )}
                {version?.histories && (
                    <a class="nav-link" href="#/history" aria-current={!trace && current().page === "history" ? "page" : undefined}>
                        <Icon name="history" />History
                    </a>
                )}
                {trace && pages.map((to, i) => {
                    const why = lacking(to);
                    return (
                        <a key={to.path} class={why ? "nav-link lacking" : "nav-link"} href={href(to.path, {}, trace.id)}
                           aria-current={to === page ? "page" : undefined}
                           title={`${to.title}${why ? `: ${why}` : ""} (${i < 9 ? `${i + 1} or ` : ""}g ${to.key})`}>
                            <Icon name={to.icon} />{to.title}
                        </a>
                    );
                })}
                <div class="nav-foot">{version ? `opmeter ${version.version}` : ""}</div>
            </nav>
            <div class="main">
                <header class="head">
                    <div class="head-title">
                        {trace ? <><strong title={trace.path}>{trace.name}</strong>
                            <span class="head-path" title={trace.path}>{trace.path}</span></>
                            : <strong>{job ?? "opmeter"}</strong>}
                    </div>
                    <button class="icon-button" onClick={() => setPalette(true)} aria-label="Go to" title="Go to (Ctrl+K)">
                        <Icon name="search" />
                    </button>
                    {version !== null && version.drop_max > 0 && <Drop max={version.drop_max} onAdded={onAdded} />}
                    {trace && !api.isReport && (
                        <button class="icon-button" onClick={onReload} aria-label="Reload the trace"
                                title="Reload the trace (R)"><Icon name="reload" /></button>
                    )}
                    <button class="icon-button" onClick={toggle} title="Light or dark (T)"
                            aria-label={theme === "dark" ? "Light theme" : "Dark theme"}>
                        <Icon name={theme === "dark" ? "sun" : "moon"} />
                    </button>
                    <button class="icon-button" onClick={() => setHelp(true)} aria-label="Keys"
                            title="Keys (?)"><Icon name="help" /></button>
                </header>
                {children}
            </div>
            {palette && <GoTo {...{ trace, onReload }} folder={version?.folder ?? false} onClose={() => setPalette(false)} />}
            {help && <Help onClose={() => setHelp(false)} />}
        </div>
    );
}

function Logo() {
    return (
        <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
            <rect width="32" height="32" rx="7" fill="var(--accent)" />
            <path d="M6 9h13M6 16h20M12 23h11" stroke="var(--on-accent)" stroke-width="4" stroke-linecap="round" />
        </svg>
    );
}
