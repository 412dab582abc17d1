// look.mjs -- what is to be seen on no page: run in the browser, each gives a list of what it found.

// Controls and pictures without a name.
export function nameless() {
    const bad = [];
    for (const element of document.querySelectorAll("button, a[href], input, select, textarea, canvas, [role=img]")) {
        if (element.closest("[aria-hidden=true]") || element.getClientRects().length === 0) continue;
        if (element.parentElement.closest("[role=img][aria-label]")) continue; // part of a picture that has one
        const name = element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") ||
            element.textContent.trim() || element.getAttribute("title") || element.labels?.[0]?.textContent;
        if (!name) bad.push(element.outerHTML.slice(0, 120));
    }
    return bad;
}

// Texts that stand out too little from what is behind them: WCAG 2.1 AA.
export function faint() {
    const channels = (text) => {
        const canvas = (window.contrastCanvas ??= document.createElement("canvas").getContext("2d", { willReadFrequently: true }));
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = text;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
    const behind = (element) => {
        const layers = [];
        for (let e = element; e; e = e.parentElement) layers.push(channels(getComputedStyle(e).backgroundColor));
        return layers.reduceRight((below, top) => over(top, below), [255, 255, 255, 1]);
    };
    const light = (color) => color.slice(0, 3).map((c) => c / 255)
        .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const bad = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const element = node.parentElement;
        // What is drawn in SVG stands on shapes, not on backgrounds.
        if (!node.data.trim() || element.closest("svg, [disabled], .skip, noscript, script, style")) continue;
        if (element.getClientRects().length === 0) continue;
        const style = getComputedStyle(element);
        if (style.visibility === "hidden") continue;
        const back = behind(element);
        const [a, b] = [light(over(channels(style.color), back)), light(back)].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        const size = parseFloat(style.fontSize);
        const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        if (ratio < (large ? 3 : 4.5)) bad.push(`${ratio.toFixed(2)}: ${node.data.trim().slice(0, 40)} (${element.className})`);
    }
    return [...new Set(bad)];
}

// What axe finds that keeps people from using the page, and parts of it that cannot be told from each other. A label that
// does not begin with what is written is no use to who says what he sees. colors: only what depends on them.
export async function barriers(colors) {
    const which = colors ? { runOnly: ["color-contrast", "link-in-text-block"] } : { rules: { "label-content-name-mismatch": { enabled: true } } };
    const found = await window.axe.run(document, { resultTypes: ["violations"], ...which });
    return found.violations.filter(({ impact }) => impact !== "minor")
        .flatMap(({ id, nodes }) => nodes.slice(0, 3).map(({ html }) => `${id}: ${html.slice(0, 160)}`));
}
