// A panel at the right that tells about one thing. Escape closes it.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../icons";
import { useKeys } from "../keys";

interface DrawerProps {
    title: string;
    onClose: () => void;
    children: ComponentChildren;
}

export function Drawer({ title, onClose, children }: DrawerProps) {
    const panel = useRef<HTMLElement>(null);
    const before = useRef<Element | null>(null);
    useKeys([{ keys: "Escape", does: "close the panel", run: onClose }], [onClose]);
    // The focus goes back to where it was, so that the keyboard goes on there.
    useEffect(() => {
        before.current = document.activeElement;
        panel.current?.focus({ preventScroll: true });
        return () => {
            if (before.current instanceof HTMLElement) before.current.focus({ preventScroll: true });
        };
    }, []);
    return (
        <aside class="drawer" role="complementary" aria-label={title} tabIndex={-1} ref={panel}>
            <header class="drawer-head">
                <h2 title={title}>{title}</h2>
                <button class="icon-button" onClick={onClose} aria-label="Close" title="Close (Esc)">
                    <Icon name="close" />
                </button>
            </header>
            <div class="drawer-body">{children}</div>
        </aside>
    );
}
