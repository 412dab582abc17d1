// The range of time in sight. Kept as a start and a scale, so that zooming about a point is exact.

export interface View {
    from: number; // ns at the left edge
    scale: number; // ns per CSS pixel
}

const MIN_SCALE = 1 / 64; // 64 pixels for a nanosecond
const MARGIN = 0.02; // left and right of the whole trace, as a share of the width

export function fit(from: number, to: number, width: number): View {
    const room = Math.max(width * (1 - 2 * MARGIN), 1);
    const scale = Math.max((to - from) / room, MIN_SCALE);
    return { from: from - width * MARGIN * scale, scale };
}

// Neither lost in the dark left or right of what there is (from start to end), nor smaller than all of it.
export function clamp(view: View, end: number, width: number, start = 0): View {
    const whole = fit(start, Math.max(end, start + 1), width);
    const scale = Math.min(Math.max(view.scale, MIN_SCALE), whole.scale);
    const slack = width * 0.5 * scale;
    const low = Math.min(whole.from, start - slack);
    const high = Math.max(end + slack - width * scale, low);
    const from = scale >= whole.scale ? whole.from : Math.min(Math.max(view.from, low), high);
    return { from, scale };
}

// Zoom by a factor about the pixel x: what is under it stays there.
export function zoom(view: View, factor: number, x: number): View {
    const scale = view.scale * factor;
    return { from: view.from + x * (view.scale - scale), scale };
}

export function pan(view: View, pixels: number): View {
    return { from: view.from + pixels * view.scale, scale: view.scale };
}

export function toX(view: View, ts: number): number {
    return (ts - view.from) / view.scale;
}

export function toTime(view: View, x: number): number {
    return view.from + x * view.scale;
}
