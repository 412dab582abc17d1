// What the reader chose, kept for the next time. Storage may be forbidden (a file opened from disk in
// some browsers): then it lasts as long as the page.
const here = new Map<string, string>();

export function kept(key: string): string | null {
    try {
        return localStorage.getItem(`opmeter.${key}`) ?? here.get(key) ?? null;
    } catch {
        return here.get(key) ?? null;
    }
}

export function keep(key: string, value: string): void {
    here.set(key, value);
    try {
        localStorage.setItem(`opmeter.${key}`, value);
    } catch {
        // as long as the page
    }
}
