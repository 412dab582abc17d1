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
                                        ? `${count(advice.length)} ${advice.length === 1 ? "finding" : "findings"}`
                                        : "No findings"
                                }
                                note={
                                    advice.length
                                        ? "Largest potential saving first, each with the query behind it."
                                        : "All rules pass: the trace looks healthy."
                                }
                            >
                                {advice.length > 0 && <AdviceList advice={advice} />}
                            </Card>
                            <Card title={`${count(quiet.length)} rules pass`}>
                                <details>
                                    <summary>Show rules</summary>
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
