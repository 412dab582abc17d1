// Start of the page: which trace, which page of it.
import { Component, render, type ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import * as api from "./api";
import { Empty, Failed, Opening } from "./components/States";
import { TraceContext, useKept, useLoad } from "./hooks";
import { Frame } from "./layout";
import { pages } from "./pages";
import { History } from "./pages/History";
import { JobPage } from "./pages/JobPage";
import { Jobs } from "./pages/Jobs";
import { Traces } from "./pages/Traces";
import { href, useRoute } from "./router";
import * as theme from "./theme";
import "uplot/dist/uPlot.min.css";
import "./styles/theme.css";
import "./styles/frame.css";
import "./styles/components.css";
import "./styles/timeline.css";
import "./styles/pages.css";

// A mistake in one page leaves the others alive.
class Guard extends Component<{ children: ComponentChildren }, { error: Error | null }> {
    override state = { error: null as Error | null };

    static override getDerivedStateFromError(error: Error) {
        return { error };
    }

    override render() {
        return this.state.error ? <Failed error={this.state.error} /> : this.props.children;
    }
}

// Where there are databases of jobs; traces have a page of their own then.
function Start() {
    return <main class="page" id="content" tabIndex={-1}><h1>Jobs</h1><Jobs /></main>;
}

function App() {
    const route = useRoute();
    const [read, setRead] = useState(0);
    const [added, setAdded] = useState(0);
    const version = useKept(useLoad((signal) => api.version(signal), [added]));
    const folder = version.state === "ready" && version.value.folder;
    const fleets = version.state === "ready" && version.value.fleets > 0;
    const first = useLoad(async (signal) => {
        if (route.trace !== null || route.page === "history" || version.state !== "ready" || folder || fleets) return null;
        return (await api.traces(signal))[0]?.id ?? null;
    }, [route.trace, route.page, version.state, folder]);
    const id = route.trace ?? (first.state === "ready" ? first.value : null);
    const trace = useLoad(async (signal) => (id === null ? null : api.trace(id, signal)), [id, read]);

    const info = trace.state === "ready" ? trace.value : null;
    const page = info ? pages.find(({ path }) => path === (route.page ?? pages[0]!.path)) ?? null : null;
    useEffect(() => {
        document.title = route.job ? `${route.job.job} · opmeter`
            : route.trace === null && route.page === "history" ? "History · opmeter" : info ? `${page?.title ?? "?"} · ${info.name} · opmeter` : "opmeter";
    }, [info, page, route.page]);

    let content: ComponentChildren;
    if (version.state === "failed") content = <Failed error={version.error} />;
    else if (route.job) content = <Guard key={route.page}><JobPage {...route.job} /></Guard>;
    else if (route.trace === null && route.page === "history" && !api.isReport) content = <Guard><History /></Guard>;
    else if (route.trace === null && fleets && route.page === "traces") content = <Traces key={added} histories={false} />;
    else if (route.trace === null && fleets) content = <Start />;
    else if (route.trace === null && folder) content = <Traces key={added} histories={version.value.histories ?? false} />;
    else if (first.state === "failed") content = <Failed error={first.error} />;
    else if (trace.state === "failed") content = <Failed error={trace.error} />;
    else if (!info) content = <Opening id={id} />;
    else if (!page) {
        content = (
            <Empty why={`There is no page “${route.page}”. `}>
                <a href={href(pages[0]!.path, {}, info.id)}>{pages[0]!.title}</a>
            </Empty>
        );
    } else {
        content = (
            <TraceContext.Provider value={info}>
                <main class="content" id="content" tabIndex={-1} key={`${info.id} ${info.stamp}`}>
                    <Guard key={page.path}><page.component /></Guard>
                </main>
            </TraceContext.Provider>
        );
    }
    return (
        <Frame trace={info} job={route.job?.job ?? null} page={page} version={version.state === "ready" ? version.value : null}
               onReload={() => setRead((n) => n + 1)} onAdded={() => setAdded((n) => n + 1)}>
            {content}
        </Frame>
    );
}

theme.start();
render(<App />, document.getElementById("app")!);
