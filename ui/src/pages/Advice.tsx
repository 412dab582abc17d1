// What could be faster, or is wrong with the measurement.
import { AdviceList } from "../components/AdviceList";
import { Card } from "../components/Card";
import { Loaded } from "../components/States";
import { count } from "../format";
import { all, useData } from "../hooks";
import type { Advice as Row, Rule } from "../queries";
import { isReport } from "../api";
import { href } from "../router";

export function Advice() {
    const loaded = all<[Row[], Rule[]]>(useData("advice"), useData("rules"));
    return (
        <div class="page">
            <h1>Advice</h1>
            <Loaded of={loaded}>
                {([advice, rules]) => {
                    const fired = new Set(advice.map((a) => a.rule));
                    const quiet = rules.filter((r) => !fired.has(r.rule));
                    return (
                        <>
                            <Card
                                title={
                                    advice.length
                                        ? `${count(advice.length)} ${advice.length === 1 ? "piece" : "pieces"} of advice`
                                        : "Nothing to say"
                                }
                                note={
                                    advice.length
                                        ? "What could save most comes first. Each has the query that proves it."
                                        : "Every rule was tried and none fires: the trace looks healthy."
                                }
                            >
                                {advice.length > 0 && <AdviceList advice={advice} />}
                            </Card>
                            <Card title={`${count(quiet.length)} rules that do not fire`}>
                                <details>
                                    <summary>What was looked for</summary>
                                    <ul class="rules">
                                        {quiet.map((r) => (
                                            <li key={r.rule}>
                                                <code>{r.rule}</code>
                                                <span>{r.action}</span>
                                                {!isReport && (
                                                    <a href={href("sql", { q: r.evidence })}>query</a>
                                                )}
                                            </li>
                                        ))}
                                    </ul>
                                </details>
                            </Card>
                        </>
                    );
                }}
            </Loaded>
        </div>
    );
}
