// Pieces of advice, each with what to do and the query that proves it.
import { isReport } from "../api";
import { percent } from "../format";
import type { Advice } from "../queries";
import { href } from "../router";

const LEVELS: Record<string, string> = { warning: "bad", hint: "warn", info: "plain" };

export function AdviceList({ advice, brief }: { advice: Advice[]; brief?: boolean }) {
    return (
        <ul class="advice">
            {advice.map((a, i) => (
                <li key={i}>
                    <div class="advice-head">
                        <span class={`badge ${LEVELS[a.severity] ?? "plain"}`}>{a.severity}</span>
                        <span class="advice-message">{a.message}</span>
                        {a.gain !== null && (
                            <span
                                class="advice-gain"
                                title="potential saving: share of the time"
                            >
                                up to {percent(a.gain)}
                            </span>
                        )}
                    </div>
                    <p class="advice-action">{a.action}</p>
                    {!brief && (
                        <div class="advice-proof">
                            <code>{a.evidence}</code>
                            {!isReport && (
                                <a class="button" href={href("sql", { q: a.evidence })}>
                                    Open in SQL
                                </a>
                            )}
                        </div>
                    )}
                </li>
            ))}
        </ul>
    );
}
