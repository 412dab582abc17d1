"""subset.py -- the SQL that docs/fleet.md says both engines know: the same JSON from a file, one server and three."""
import clickhouse
from fleet_job import Job
from rig import add, expect, need_servers, run

# One or more for each line of the table there; every column that a table of ranks has is in some of them.
QUERIES = (
    "SELECT job, rank, host, machine, model, world, began_ns, dur_ns, steps, spans FROM rank_file ORDER BY job, rank",
    "SELECT * FROM (SELECT job, rank, num, model, found_by, warmup, outlier, ts_ns, total_ns, gap_ns, forward_ns, backward_ns, fp_bp_ns, tail_ns,"
    " update_ns, collective_ns, exposed_ns FROM rank_step) AS s ORDER BY job, num, rank LIMIT 50",
    "SELECT device, bucket, sum(once_ns) AS all_ns FROM rank_bucket WHERE job = 'j' GROUP BY device, bucket ORDER BY device, bucket",
    "SELECT name, type, section, count(*) AS n, sum(count) AS executions, sum(total_ns) AS a, sum(self_ns) AS b, min(min_ns) AS c, max(max_ns) AS d"
    " FROM rank_op GROUP BY name, type, section HAVING sum(total_ns) > 1000 ORDER BY name, type, section",
    "SELECT name, rank, count, total_ns, self_ns, min_ns, max_ns, sketch FROM rank_op_sum ORDER BY job, name, rank",
    "SELECT num, device, name, kind, count, total_ns, min_ns, max_ns, sketch FROM rank_kernel WHERE rank = 1 ORDER BY job, num, name LIMIT 40",
    "SELECT count(*) AS n, count(DISTINCT comm) AS comms, max(bytes) AS b, max(ranks) AS r, max(peer) AS p, max(nth) AS k FROM rank_exchange",
    "SELECT num, comm, name, nth, warmup, ts_ns, dur_ns, bytes, ranks, peer FROM rank_exchange WHERE rank = 2 ORDER BY job, num, name, nth",
    "SELECT rank, num, device, counter, samples, peak_bytes, last_bytes FROM rank_memory ORDER BY job, rank, num",
    "SELECT job, rank, rule, severity, gain, message FROM rank_advice ORDER BY job, rank, rule, message",
    "SELECT k, count(*) AS n FROM (SELECT key AS k, rank FROM rank_fact) AS f GROUP BY k ORDER BY k",
    "SELECT rank, num, ts_ns, dur_ns, self_ns, track, device, name, cat, layer, op FROM rank_span ORDER BY job, rank, ts_ns, name, dur_ns LIMIT 60",
    "SELECT num - num % 4 AS four, avg(total_ns) AS mean_ns, min(total_ns) AS a, max(total_ns) AS b FROM rank_step GROUP BY four ORDER BY four",
    "SELECT rank, late, n FROM (SELECT rank, max(total_ns) AS late FROM rank_step GROUP BY rank) AS a JOIN"
    " (SELECT rank, count(*) AS n FROM rank_exchange GROUP BY rank) AS b USING (rank) ORDER BY rank",
    "SELECT job, ranks, hosts, world, recordings, first_ns, last_ns, spans, model FROM job ORDER BY job",
    "SELECT * FROM job_step ORDER BY job, num",
    "SELECT * FROM job_op ORDER BY job, section, name, type",
    "SELECT name FROM rank_op WHERE name LIKE 'layer%' AND type IN ('MatMul', 'x') AND NOT num = 0 GROUP BY name ORDER BY name DESC LIMIT 3",
)


def common_subset(folder):
    paths = Job(ranks=5, steps=12, late=3, slow_op=1, slow_link=2, leak=4).write(folder / "job")
    wheres = [folder / "runs.db"]
    if clickhouse.available():
        c = need_servers(folder)
        wheres += [c.url("subset"), c.url("subset3", cluster=True)]
    for where in wheres:
        add(where, "j", [*paths, "--spans"])
        add(where, "it's \\ k", paths[:3])
    for sql in QUERIES:
        wanted = run("query", wheres[0], sql, "--json").stdout
        if len(wanted.splitlines()) < 3 and "rank_advice" not in sql:
            expect(f"rows of {sql}", wanted, "some")
        for where in wheres[1:]:
            expect(f"{sql} of {where}", run("query", where, sql, "--json").stdout, wanted)
    for args in (("job", "URL"), ("job", "URL", "--show", "hosts"), ("job", "URL", "j"), ("top", "URL", "j"), ("steps", "URL", "j")):
        wanted = run(*(wheres[0] if a == "URL" else a for a in args), "--json").stdout
        for where in wheres[1:]:
            got = run(*(where if a == "URL" else a for a in args), "--json").stdout
            at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
            expect(f"{args} of {where}", (got[max(at - 200, 0):at + 100], len(got)), (wanted[max(at - 200, 0):at + 100], len(wanted)))


TESTS = (common_subset,)
