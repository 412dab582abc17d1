// A button with a small panel of choices below it. Escape, and a click elsewhere, close it.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "../icons";

interface MenuProps {
    label: string;
    icon: IconName;
    children: (close: () => void) => ComponentChildren;
}

export function Menu({ label, icon, children }: MenuProps) {
    const [open, setOpen] = useState(false);
    const box = useRef<HTMLSpanElement>(null);
    useEffect(() => {
        if (!open) return;
        const elsewhere = (event: Event) => {
            if (!box.current?.contains(event.target as Node)) setOpen(false);
        };
        addEventListener("pointerdown", elsewhere, true);
        return () => removeEventListener("pointerdown", elsewhere, true);
    }, [open]);
    const close = () => {
        setOpen(false);
        box.current?.querySelector("button")?.focus();
    };
    return (
        <span class="menu" ref={box} onKeyDown={(event) => {
            if (event.key !== "Escape" || !open) return;
            event.stopPropagation();
            close();
        }}>
            <button class="icon-button" aria-label={label} title={label} aria-expanded={open}
                    onClick={() => setOpen(!open)}><Icon name={icon} /></button>
            {open && <div class="menu-panel">{children(close)}</div>}
        </span>
    );
}
