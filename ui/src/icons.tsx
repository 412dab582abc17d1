// Small line icons, 16 by 16.

const PATHS = {
    overview: "M2 9h5V2H2zM9 14h5V7H9zM2 14h5v-3H2zM9 5h5V2H9z",
    steps: "M2 3h5v3H2zM7 7h4v3H7zM11 11h3v3h-3z",
    operators: "M2 3h12M2 8h12M2 13h12M6 3v10",
    roofline: "M2 14V2M2 14h12M2 11l5-6h7",
    memory: "M2 14V9h3v5M6 14V4h4v10M11 14V7h3v7M1 14h14",
    pipeline: "M1 6h4v4H1zM11 6h4v4h-4zM5 8h6M9 6l2 2-2 2",
    llm: "M2 3h12v8H7l-3 3v-3H2zM5 6h6M5 8h4",
    timeline: "M2 4h7M5 8h9M3 12h5M10 12h4",
    whatif: "M3 13l4-5 3 3 3-6M11 4h3v3",
    compare: "M5 2v12M11 2v12M2 5h6M8 11h6",
    advice: "M8 2a4 4 0 0 0-2 7.5V11h4V9.5A4 4 0 0 0 8 2zM6.5 14h3",
    sql: "M3 4c0-3 10-3 10 0v8c0 3-10 3-10 0zM3 4c0 3 10 3 10 0M3 8c0 3 10 3 10 0",
    graph: "M8 1v4M5 5h6v3H5zM8 8v2M3 11h4v3H3zM9 11h4v3H9zM8 10H5v1M8 10h3v1",
    history: "M2 2v12h12M4 6l3-1 1 5 3-1 2 1",
    traces: "M2 3h5l1 2h6v9H2z",
    sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v2M8 13v2M1 8h2M13 8h2M3 3l1.5 1.5M11.5 11.5L13 13M13 3l-1.5 1.5M4.5 11.5L3 13",
    moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z",
    help: "M6 6a2 2 0 1 1 3 1.7c-.7.5-1 .8-1 1.8M8 12v.5M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1z",
    reload: "M13 8a5 5 0 1 1-1.5-3.5L13 6M13 2v4H9",
    close: "M3 3l10 10M13 3L3 13",
    search: "M7 2a5 5 0 1 0 0 10A5 5 0 0 0 7 2zM10.5 10.5L14 14",
    down: "M4 6l4 4 4-4",
    right: "M6 4l4 4-4 4",
    left: "M10 4L6 8l4 4",
    download: "M8 2v8M5 7l3 3 3-3M2 13h12",
    upload: "M8 11V3M5 6l3-3 3 3M2 13h12",
    link: "M6 3H3v10h10v-3M9 3h4v4M13 3L7 9",
    plus: "M8 3v10M3 8h10",
    minus: "M3 8h10",
    kernels: "M4 4h8v8H4zM6 1v3M10 1v3M6 12v3M10 12v3M1 6h3M1 10h3M12 6h3M12 10h3",
    modules: "M2 2h12v12H2zM2 7h7M9 2v12M9 10h5",
    ranks: "M2 2h4v3H2zM2 7h4v3H2zM2 12h4v2H2zM8 2h6v3H8zM8 7h3v3H8zM8 12h5v2H8z",
    copy: "M5 5h8v9H5zM3 11V2h8",
    check: "M3 8.5l3 3 7-7",
    more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
    mouse: "M5 2h6a1 1 0 0 1 1 1v7a4 4 0 0 1-8 0V3a1 1 0 0 1 1-1zM8 2v5",
    fit: "M2 5V2h3M11 2h3v3M14 11v3h-3M5 14H2v-3",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
    return (
        <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
            <path d={PATHS[name]} fill="none" stroke="currentColor" stroke-width="1.5"
                  stroke-linecap="round" stroke-linejoin="round" />
        </svg>
    );
}
