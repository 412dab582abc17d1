// A choice of a few, side by side.

interface TabsProps<T extends string> {
    label: string;
    options: readonly { key: T; title: string; count?: number }[];
    value: T;
    onChange: (key: T) => void;
}

export function Tabs<T extends string>({ label, options, value, onChange }: TabsProps<T>) {
    return (
        <div class="tabs" role="group" aria-label={label}>
            {options.map((option) => (
                <button key={option.key} class={option.key === value ? "tab on" : "tab"}
                        aria-pressed={option.key === value} onClick={() => onChange(option.key)}>
                    {option.title}
                    {option.count !== undefined && <span class="tab-count">{option.count}</span>}
                </button>
            ))}
        </div>
    );
}
