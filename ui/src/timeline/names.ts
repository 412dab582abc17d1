// Names of spans, each once, with the colour they are drawn in.
import { byName, named } from "../palette";
import type { Theme } from "../theme";

// Stands for several names none of which makes up half.
export const MIXED = 0xffffffff;

export type ColorBy = "type" | "category" | "layer";

// What the colours of a name may come from.
export interface NameKind {
    type: string | null; // of an operator of this name
    category: string | null;
    layer: string | null;
}

export class Names {
    private readonly index = new Map<string, number>();
    readonly texts: string[] = [];
    private colors: string[] = [];
    private kinds = new Map<string, NameKind>();
    private theme: Theme = "light";
    paints = 0; // counts the changes of colours
    private by: ColorBy = "type";
    private ofType: (type: string) => string | null = () => null;

    id(text: string | null): number {
        const key = text ?? "";
        let id = this.index.get(key);
        if (id === undefined) {
            id = this.texts.length;
            this.index.set(key, id);
            this.texts.push(key);
        }
        return id;
    }

    text(id: number): string {
        if (id === MIXED) return "several names";
        return this.texts[id] || "(no name)";
    }

    // ofType: the colour that an operator type has on every page, if it has one.
    paint(theme: Theme, by: ColorBy, kinds: Map<string, NameKind>, ofType: (type: string) => string | null): void {
        this.ofType = ofType;
        this.paints += 1;
        this.theme = theme;
        this.by = by;
        this.kinds = kinds;
        this.colors = [];
    }

    color(id: number): string {
        if (id === MIXED) return named(null, "other", this.theme);
        return (this.colors[id] ??= this.pick(this.texts[id] ?? ""));
    }

    private pick(text: string): string {
        const kind = this.kinds.get(text);
        if (this.by === "layer") return named("layer", kind?.layer ?? "", this.theme);
        if (this.by === "category") {
            return kind?.category ? byName(kind.category, this.theme) : named(null, "other", this.theme);
        }
        const type = kind?.type ?? text;
        return this.ofType(type) ?? byName(type, this.theme);
    }
}
