// How wide an element is, as it changes.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export function useWidth<E extends HTMLElement>(): [RefObject<E | null>, number] {
    const ref = useRef<E>(null);
    const [width, setWidth] = useState(0);
    useEffect(() => {
        const element = ref.current!;
        const observer = new ResizeObserver(() => setWidth(element.clientWidth));
        observer.observe(element);
        setWidth(element.clientWidth);
        return () => observer.disconnect();
    }, []);
    return [ref, width];
}
