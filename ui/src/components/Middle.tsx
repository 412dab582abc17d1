// A name that is cut in the middle where there is no room: of many names the end tells them apart. What
// is seen is drawn by the style sheet, in two parts; what is read, searched and copied is the whole.
const END = 11;

export function Middle({ of }: { of: string }) {
    const end = /<.*>$/.test(of) ? 1 : END; // of a C++ template the name tells more than its arguments
    if (of.length < 2 * END) return <>{of}</>;
    return <span class="middle" data-start={of.slice(0, -end)} data-end={of.slice(-end)}><span class="unseen">{of}</span></span>;
}
