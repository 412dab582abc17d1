/* top_by.c -- `opmeter top --by`: the time of a trace by kernel, module, layer, rank or device. */
#include "cli/table.h"
#include "cli/top.h"

#include <inttypes.h>
#include <string.h>

const char *const top_by_choices[] = { "op",    "type", "kernel", "module",
                                       "layer", "rank", "device", NULL };

/* The part of a name in front of its last sep. */
#define IN_FRONT(sep) "rtrim(rtrim(name, replace(name, '" sep "', '')), '" sep "')"

static const char kernels_sql[] =
    "SELECT sum(total_ns) AS time_ns, CAST(sum(total_ns) AS REAL) / sum(sum(total_ns)) OVER () AS"
    " share, sum(count) AS count, CAST(sum(total_ns) AS REAL) / sum(count) AS mean_ns, min(min_ns)"
    " AS min_ns, max(max_ns) AS max_ns, count(DISTINCT op) AS operators, kernel FROM op_kernels"
    " GROUP BY kernel ORDER BY time_ns DESC";

#define MODULE "name GLOB 'nn.Module: *'"
#define GRAPH_MODULE "attributes GLOB '{\"module\":*'"

/* Modules that the program marked: the time within each on the host, and of all that devices ran
 * for what was launched there. A module within one of the same name is in that already. */
static const char marked_modules_sql[] =
    /* Numbers of launches are of a file: ranks have the same ones. */
    "WITH RECURSIVE launched AS MATERIALIZED (SELECT launch, ns, n FROM (SELECT coalesce(t.source,"
    " -1) AS source, correlation, min(s.id) AS launch FROM span AS s JOIN track AS t ON t.id ="
    " s.track WHERE correlation IS NOT NULL AND layer IS NOT 'hardware' GROUP BY 1, 2) JOIN (SELECT"
    " coalesce(t.source, -1) AS source, correlation, sum(dur) AS ns, count(*) AS n FROM span AS s"
    " JOIN track AS t ON t.id = s.track WHERE correlation IS NOT NULL AND layer = 'hardware' AND"
    " dur >= 0 GROUP BY 1, 2) USING (source, correlation)), within "
    "(launch, span)"
    " AS (SELECT launch, launch FROM launched UNION ALL SELECT launch, s.parent FROM within AS w"
    " JOIN span AS s ON s.id = w.span WHERE s.parent IS NOT NULL), pairs AS (SELECT DISTINCT"
    " launch, name FROM within AS w JOIN span AS s ON s.id = w.span WHERE " MODULE "), device AS"
    " (SELECT name, sum(ns) AS ns, sum(n) AS n FROM pairs JOIN launched USING (launch) GROUP BY"
    " name), none AS (SELECT iif(EXISTS (SELECT 1 FROM launched), 0, NULL) AS ns) SELECT"
    " coalesce(d.ns, none.ns) AS device_ns, CAST(coalesce(d.ns, none.ns) AS REAL) / (SELECT"
    " sum(total_ns) FROM span_stats WHERE layer = 'hardware') AS share, coalesce(d.n, none.ns) AS"
    " kernels, h.total_ns AS host_ns, h.self_ns AS"
    " own_ns, h.count, h.mean_ns, h.p99_ns, substr(h.name, 12) AS module FROM none"
    " JOIN span_stats AS h LEFT JOIN device AS d USING (name) WHERE h." MODULE
    /* Of replayed graphs the innermost module, which the capture told. */
    " UNION ALL SELECT sum(t.total_ns), CAST(sum(t.total_ns) AS REAL) / (SELECT sum(total_ns) FROM"
    " span_stats WHERE layer = 'hardware'), sum(t.count), NULL, NULL, NULL, NULL, NULL,"
    " o.attributes ->> 'module' || ' in graphs' FROM op AS o JOIN op_times AS t ON t.op = o.id AND"
    " t.section = 'device' WHERE o." GRAPH_MODULE " GROUP BY o.attributes ->> 'module'"
    " ORDER BY device_ns DESC, host_ns DESC";
/* Else operators by the scope that their names begin with. */
static const char scopes_sql[] =
    "SELECT sum(time_ns) AS time_ns, sum(share) AS share, count(*) AS operators, sum(count) AS"
    " count, sum(computation) / nullif(sum(time_ns), 0) AS \"GFLOP/s\", sum(memory) /"
    " nullif(sum(time_ns), 0) AS \"GB/s\", module FROM (SELECT *, CASE WHEN name GLOB '*/*' THEN"
    " " IN_FRONT("/") " WHEN name GLOB '*.*' THEN " IN_FRONT(
        ".") " ELSE '(no scope)' END AS"
             " module FROM op_times WHERE section = 'device') GROUP BY module ORDER BY time_ns "
             "DESC";

static const char layers_sql[] =
    "SELECT sum(self_ns) AS time_ns, CAST(sum(self_ns) AS REAL) / sum(sum(self_ns)) OVER () AS"
    " share, sum(count) AS count, count(*) AS names, layer FROM span_stats GROUP BY layer"
    " ORDER BY time_ns DESC";

/* Of one step where steps are marked. */
#define PLACES(what, group)                                                                      \
    "SELECT " what ", sum(compute_ns + exposed_ns + copy_ns) / max(steps, 1) AS busy_ns,"        \
    " CAST(sum(compute_ns + exposed_ns + copy_ns) AS REAL) / nullif(sum(wall_ns -"               \
    " not_recorded_ns), 0) AS share, sum(compute_ns) / max(steps, 1) AS compute_ns,"             \
    " nullif(sum(exposed_ns), 0) / max(steps, 1) AS exposed_ns,"                                 \
    " nullif(sum(copy_ns), 0) / max(steps, 1) AS copies_ns, sum(idle_ns) / max(steps, 1) AS"     \
    " idle_ns, sum(wall_ns - not_recorded_ns) / max(steps, 1) AS wall_ns, nullif(max(steps), 0)" \
    " AS steps FROM reconciliation GROUP BY " group " ORDER BY " group

static const struct {
    const char *by, *title, *sql, *empty;
    bool whole; /* of the whole trace, also where there are iterations */
} groupings[] = {
    { "kernel", "Kernels, by time on the devices", kernels_sql,
      "No kernel was recorded: --by op ranks what there is.", true },
    { "module", "Modules, by time of their operators", scopes_sql,
      "No operator was executed in this trace.", false },
    { "layer", "Layers, by own time of their spans", layers_sql, "The trace has no spans.", true },
    { "rank", "Ranks",
      PLACES("coalesce(rank, 'none') AS rank, count(DISTINCT device) AS devices", "rank"),
      "Nothing in this trace says when it was busy.", false },
    { "device", "Devices", PLACES("coalesce(device, 'host') AS device, rank", "rank, device"),
      "Nothing in this trace says when a device was busy.", false },
};

int top_print_by(const struct top *t, const char *by)
{
    struct cli *cli = t->cli;
    int64_t rows = 0;
    size_t i = 0;
    const char *sql, *title;
    bool marked;
    int rc;

    while (strcmp(groupings[i].by, by) != 0)
        i++;
    marked = strcmp(by, "module") == 0 &&
             cli_query_int(t->trace, "SELECT EXISTS (SELECT 1 FROM span_stats WHERE " MODULE
                                     ") OR EXISTS (SELECT 1 FROM op WHERE " GRAPH_MODULE ")") > 0;
    sql = marked ? marked_modules_sql : groupings[i].sql;
    title = marked ? "Modules, by time within them" : groupings[i].title;
    if (cli->json || cli->csv)
        return cli_print_query(cli, t->trace, sql);
    cli_heading(cli, "%s", title);
    rc = table_print(cli, t->trace, sql, t->limit, &rows);
    if (rc == CLI_OK && !rows)
        io_out_addf(&cli->out, "%s\n", groupings[i].empty);
    if (rc == CLI_OK && t->limit && rows > t->limit)
        cli_remark(cli, "there are more than these %" PRId64 ": -t 0 shows all", t->limit);
    if (rc == CLI_OK && rows && cli_query_int(t->trace, "SELECT count(*) FROM step") > 0)
        cli_remark(cli, "times are of %s",
                   marked || groupings[i].whole ? "the whole trace, not of one iteration"
                                                : "one iteration, the mean of those measured");
    return rc;
}
