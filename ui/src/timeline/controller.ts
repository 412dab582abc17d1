// The state of a timeline on the screen, and what moves it. Draws at most once per frame.
import type { Busy } from "../api";
import type { PathPart } from "../queries";
import type { RecordRow, StepRow } from "../schema";
import type { Theme } from "../theme";
import { arranged, PINNED, type Arrangement } from "./arrange";
import { draw, look } from "./draw";
import { drawHead, headHeight, laneHit, lanes, type Lane } from "./head";
import { Names } from "./names";
import { Overview } from "./overview";
import { pick, wanted, type Arrow, type Bar, type Hit, type Range, type Scene } from "./scene";
import { Tiles } from "./tiles";
import { grouped, lineY, LINE_PX, mayFoldAway, place, totalHeight, type Group, type Placed, type Track } from "./tracks";
import { clamp, fit, pan, toTime, zoom, type View } from "./view";

const EASE = 0.32; // share of the way to the target in a frame
const ZOOM_PER_S = 4.5; // e to this, while a key is held
const PAN_PER_S = 1.1; // widths of the picture
const TAP_S = 0.12; // what a key that is only tapped does is worth so much holding
const MARKER_PX = 5;
const SETTLE_MS = 40; // while things move, what is missing is looked for that often

export interface Canvases {
    main: HTMLCanvasElement;
    head: HTMLCanvasElement;
    overview: HTMLCanvasElement | null;
}

export class Controller {
    readonly scene: Scene;
    readonly groups: Group[];
    readonly closed = new Set<string>();
    target: View;
    limits: Range; // of what can be shown: all of the trace, or more
    onMove: ((smooth: boolean) => void) | null = null; // the reader moved it; another may follow
    hit: Hit | null = null;
    private canvases: Canvases | null = null;
    private frame = 0;
    private settle = 0;
    private placedDepths = -1;
    private lanes: Lane[] = [];
    private theme: Theme = "light";
    private readonly overview = new Overview();
    private drive = { zoom: 0, pan: 0 }; // what held keys do
    private droveAt = 0;
    pointerX: number | null = null; // where keys zoom
    private seen = false; // something of the trace is on the screen
    private readonly still = matchMedia("(prefers-reduced-motion: reduce)");

    // changed: called after every picture. scrollTo: the page scrolls there.
    // arrangedAnew: called when a span had to be brought to light.
    constructor(private readonly trace: string, duration: number, tracks: Track[], public arrangement: Arrangement,
                private readonly changed: () => void, private readonly scrollTo: (y: number) => void,
                private readonly arrangedAnew: () => void) {
        const names = new Names();
        this.groups = grouped(tracks);
        this.limits = { from: 0, to: Math.max(duration, 1) };
        this.target = fit(0, this.limits.to, 1000);
        this.scene = {
            view: this.target, width: 1000, height: 400, scroll: 0, duration, placed: [],
            tiles: new Tiles(trace, names, () => this.invalidate()), names,
            found: null, busy: null, selected: null, hovered: null, range: null, markers: [], arrows: [], path: [], matches: null,
        };
        this.layOut();
    }

    attach(canvases: Canvases): void {
        this.canvases = canvases;
        this.invalidate();
    }

    detach(): void {
        cancelAnimationFrame(this.frame);
        clearTimeout(this.settle);
        this.scene.tiles.stop();
        this.scene.found?.stop();
        this.canvases = null;
        this.frame = 0;
    }

    setSteps(steps: StepRow[], records: RecordRow[], theme: Theme): void {
        this.theme = theme;
        const ranks = new Map(this.groups.flatMap(({ tracks }) => tracks).map(({ id, rank }) => [id, rank]));
        this.lanes = lanes(steps, records, theme, (track) => (track === null ? null : ranks.get(track) ?? null));
        this.invalidate();
    }

    layOut(): void {
        this.scene.placed = place(arranged(this.groups, this.arrangement), this.scene.tiles.depth, this.closed,
                                  this.arrangement.unfolded);
    }

    arrange(by: Arrangement): void {
        this.arrangement = by;
        this.layOut();
        this.invalidate();
    }

    // Keys that are held move the picture until they are let go; a tap does a little.
    hold(zoom: number, pan: number): void {
        if (!this.drive.zoom && !this.drive.pan) this.droveAt = performance.now();
        this.drive = { zoom: zoom || this.drive.zoom, pan: pan || this.drive.pan };
        this.advance(zoom, pan, TAP_S);
    }

    letGo(zoom: boolean): void {
        if (zoom) this.drive.zoom = 0;
        else this.drive.pan = 0;
    }

    private advance(zoom: number, pan: number, seconds: number): void {
        if (zoom) this.zoomBy(Math.exp(zoom * ZOOM_PER_S * seconds), this.pointerX ?? undefined);
        if (pan) this.panBy(pan * PAN_PER_S * seconds * this.scene.width);
    }

    private followKeys(): boolean {
        const { zoom, pan } = this.drive;
        if (!zoom && !pan) return false;
        const now = performance.now();
        this.advance(zoom, pan, Math.min((now - this.droveAt) / 1000, 0.1));
        this.droveAt = now;
        return true;
    }

    // A marker at a time; one that stands there already goes.
    mark(time: number): void {
        const { scene } = this;
        const near = scene.markers.filter((other) => Math.abs(other - time) > MARKER_PX * scene.view.scale);
        const clipped = Math.round(Math.min(Math.max(time, 0), scene.duration));
        this.setMarkers(near.length < scene.markers.length ? near : [...near, clipped]);
    }

    setMarkers(markers: number[]): void {
        this.scene.markers = [...markers].sort((a, b) => a - b);
        this.invalidate();
    }

    get totalHeight(): number {
        return totalHeight(this.scene.placed);
    }

    get headHeight(): number {
        return headHeight(this.scene, this.lanes.length);
    }

    // Of what stands above the tracks, below the devices.
    get laneNames(): string[] {
        return this.lanes.map(({ name }) => name);
    }

    setBusy(busy: Busy | null): void {
        this.scene.busy = busy;
        this.invalidate();
    }

    resize(width: number, height: number): void {
        if (width <= 0 || height <= 0) return;
        const whole = this.isWhole();
        const { scene } = this;
        const end = toTime(this.target, scene.width);
        scene.width = width;
        scene.height = height;
        this.target = whole ? fit(this.limits.from, this.limits.to, width)
            : this.clamped({ from: this.target.from, scale: (end - this.target.from) / width });
        scene.view = this.target;
        this.invalidate();
    }

    isWhole(): boolean {
        const whole = fit(this.limits.from, this.limits.to, this.scene.width);
        return this.target.scale >= whole.scale * 0.999;
    }

    // Lines of tracks become known with the first pictures; what is above stays where it is.
    private followDepths(): void {
        const { depths } = this.scene.tiles;
        if (depths === this.placedDepths) return;
        this.placedDepths = depths;
        this.layOut();
    }

    invalidate(): void {
        if (!this.frame && this.canvases) this.frame = requestAnimationFrame(() => this.tick());
    }

    private tick(): void {
        this.frame = 0;
        if (!this.canvases) return;
        const driven = this.followKeys();
        const { scene, target } = this;
        const moving = this.approach() || driven;
        this.followDepths();
        const colors = look();
        draw(this.canvases.main, scene, colors);
        drawHead(this.canvases.head, scene, this.lanes, colors, this.theme);
        if (this.canvases.overview) this.overview.draw(this.canvases.overview, scene, target, colors);
        this.changed();
        if (!this.seen && scene.tiles.depth.size) {
            this.seen = true;
            performance.mark("opmeter: first picture"); // for ui/bench.mjs
        }
        this.settle ||= window.setTimeout(() => {
            this.settle = 0;
            scene.tiles.want(wanted(scene, this.target));
            scene.found?.want(wanted(scene, this.target));
        }, moving ? SETTLE_MS : 0);
        if (moving) this.invalidate();
    }

    private approach(): boolean {
        const { scene, target } = this;
        const { view } = scene;
        const from = view.from + (target.from - view.from) * EASE;
        const end = toTime(view, scene.width);
        const to = end + (toTime(target, scene.width) - end) * EASE;
        const off = Math.max(Math.abs(target.from - from), Math.abs(toTime(target, scene.width) - to));
        if (off < target.scale * 0.4 || this.still.matches) {
            scene.view = target;
            return false;
        }
        scene.view = { from, scale: (to - from) / scene.width };
        return true;
    }

    private clamped(view: View): View {
        return clamp(view, this.limits.to, this.scene.width, this.limits.from);
    }

    show(view: View, smooth = true): void {
        this.follow(this.clamped(view), smooth);
        this.onMove?.(smooth);
    }

    // As another timeline went, which has kept the limits.
    follow(view: View, smooth: boolean): void {
        this.target = view;
        if (!smooth) this.scene.view = view;
        this.invalidate();
    }

    // As an address has it: from edge to edge.
    showExactly(from: number, to: number): void {
        this.show({ from, scale: (to - from) / this.scene.width }, false);
    }

    showRange(from: number, to: number, smooth = true): void {
        this.show(fit(from, Math.max(to, from + 1), this.scene.width), smooth);
    }

    showAll(): void {
        this.showRange(this.limits.from, this.limits.to);
    }

    zoomBy(factor: number, x = this.scene.width / 2, smooth = true): void {
        this.show(zoom(this.target, factor, x), smooth);
    }

    panBy(pixels: number, smooth = true): void {
        this.show(pan(this.target, pixels), smooth);
    }

    scroll(y: number): void {
        this.scene.scroll = y;
        this.invalidate();
    }

    toggle(key: string): void {
        if (!this.closed.delete(key)) this.closed.add(key);
        this.layOut();
        this.invalidate();
    }

    toggleAll(): void {
        const tracks = this.scene.placed.filter((row) => row.kind === "track");
        const close = tracks.some((row) => row.open);
        for (const group of this.groups) {
            for (const { id } of group.tracks) {
                if (close) this.closed.add(`track ${id}`);
                else this.closed.delete(`track ${id}`);
            }
        }
        this.layOut();
        this.invalidate();
    }

    hover(x: number, y: number): void {
        this.pointerX = x;
        this.hit = pick(this.scene, x, y);
        this.scene.hovered = this.hit?.bar ?? null;
        this.invalidate();
    }

    // The step or region at a point of the head.
    stepAt(x: number, y: number): Range | null {
        return laneHit(this.scene, this.lanes, x, y);
    }

    leave(): void {
        this.pointerX = null;
        this.hit = null;
        this.scene.hovered = null;
        this.invalidate();
    }

    select(bar: Bar | null): void {
        this.scene.selected = bar;
        this.scene.arrows = [];
        this.invalidate();
    }

    setArrows(arrows: Arrow[]): void {
        this.scene.arrows = arrows;
        this.invalidate();
    }

    setPath(path: PathPart[]): void {
        this.scene.path = path;
        this.invalidate();
    }

    setRange(range: Range | null): void {
        this.scene.range = range;
        this.invalidate();
    }

    search(text: string): void {
        const needle = text.toLowerCase();
        const known: boolean[] = [];
        this.scene.matches = needle
            ? (id) => (known[id] ??= this.scene.names.text(id).toLowerCase().includes(needle)) : null;
        this.scene.found?.stop();
        this.scene.found = null;
        this.invalidate();
    }

    // Show what a search finds, as the server knows it; until then names alone are compared.
    async showFound(text: string): Promise<void> {
        const { scene } = this;
        const { matches } = scene;
        const tiles = new Tiles(this.trace, scene.names, () => this.invalidate(), text);
        const tracks = this.groups.flatMap((group) => group.tracks.map(({ id }) => id));
        await tiles.loadWhole(scene.duration, tracks, Math.max(scene.width, 1000));
        // Another search may have begun meanwhile.
        if (scene.matches === matches) scene.found = tiles;
        this.invalidate();
    }

    row(track: number): Placed | undefined {
        return this.scene.placed.find((row) => row.track?.id === track);
    }

    // The line of a span: its track opened and scrolled to. False: there is none.
    revealLine(bar: Bar): boolean {
        const group = this.groups.find(({ tracks }) => tracks.some(({ id }) => id === bar.track));
        if (!group) return false;
        this.closed.delete(this.arrangement.pinned.includes(bar.track) ? PINNED : group.key);
        this.closed.delete(`track ${bar.track}`);
        this.layOut();
        this.bringToLight(bar);
        const { scene } = this;
        const y = lineY(this.row(bar.track)!, bar.depth);
        if (y < scene.scroll || y + LINE_PX > scene.scroll + scene.height) this.scrollTo(y - scene.height / 3);
        return true;
    }

    // Bring a span into sight: its line, and its time in the middle, as wide as it can be read.
    reveal(bar: Bar, zoomTo = true): void {
        if (!this.revealLine(bar)) return;
        const { scene } = this;
        const dur = bar.dur < 0 ? scene.duration - bar.ts : bar.dur;
        const end = toTime(this.target, scene.width);
        const visible = bar.ts >= this.target.from && bar.ts + dur <= end && dur > this.target.scale * 8;
        if (zoomTo || !visible) {
            const around = Math.max(dur * 2, 20);
            this.showRange(bar.ts - around, bar.ts + dur + around);
        } else {
            this.invalidate();
        }
    }

    // Undo what hides the line of a bar.
    private bringToLight(bar: Bar): void {
        const { hidden, unfolded, filter } = this.arrangement;
        const row = this.row(bar.track);
        const folded = row?.track && !unfolded.has(bar.track) && mayFoldAway(row.track, bar.depth);
        if (row && !folded) return;
        this.arrange({
            ...this.arrangement,
            hidden: new Set([...hidden].filter((id) => id !== bar.track)),
            filter: row ? filter : "",
            unfolded: folded ? new Set([...unfolded, bar.track]) : unfolded,
        });
        this.arrangedAnew();
    }

    zoomToSelection(): void {
        const { range, selected, duration } = this.scene;
        if (range) this.showRange(range.from, range.to);
        else if (selected) {
            this.showRange(selected.ts, selected.dur < 0 ? duration : selected.ts + selected.dur);
        }
    }
}
