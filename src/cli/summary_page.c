/* summary_page.c -- one page about a trace: what ran where, how long it took, where the time went,
 * what was lost; see summary.h. */
#include "cli/summary.h"

#include "cli/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOSSES_SHOWN 3
#define GAIN_COLUMNS 7
#define DEVICES_SHOWN 16

/* -- facts -- */

/* Append before and the value of a key of meta; false if the trace has none. */
static bool add_meta(struct summary *s, struct buf *b, const char *before, const char *key)
{
    struct buf sql = { 0 };
    opm_rows *r = NULL;
    bool found;

    buf_adds(&sql, "SELECT value FROM meta WHERE value <> '' AND key = ");
    cli_sql_text(&sql, key);
    found = !sql.failed && opm_trace_query(s->t, buf_str(&sql), &r, NULL) == 0 &&
            opm_rows_next(r, NULL) > 0;
    if (found)
        buf_addf(b, "%s%s", before, opm_rows_text(r, 0, NULL));
    opm_rows_close(r);
    buf_release(&sql);
    return found;
}

static double meta_number(struct summary *s, const char *key)
{
    struct buf b = { 0 };
    double v = add_meta(s, &b, "", key) ? strtod(buf_str(&b), NULL) : -1;

    buf_release(&b);
    return v;
}

/* The first cell of what sql gives, if there is one. */
static void add_cell(struct summary *s, struct buf *b, const char *sql)
{
    opm_rows *r = NULL;

    if (opm_trace_query(s->t, sql, &r, NULL) == 0 && opm_rows_next(r, NULL) > 0 &&
        opm_rows_type(r, 0) != OPM_TYPE_NULL)
        buf_adds(b, opm_rows_text(r, 0, NULL));
    opm_rows_close(r);
}

static void add_model(struct summary *s, struct buf *b)
{
    if (!add_meta(s, b, "", "model.name")) {
        add_cell(s, b,
                 "SELECT group_concat(model, ', ') || iif((SELECT count(DISTINCT model) FROM step)"
                 " > 4, ' and more', '') FROM (SELECT DISTINCT model FROM step WHERE model IS NOT"
                 " NULL LIMIT 4)");
        return;
    }
    if (add_meta(s, b, " on ", "engine.name"))
        add_meta(s, b, " ", "engine.version");
    if (add_meta(s, b, ", ", "engine.threads"))
        buf_addf(b, " thread%s", human_s((int64_t)meta_number(s, "engine.threads")));
    if (meta_number(s, "run.batch") > 1)
        add_meta(s, b, ", batch ", "run.batch");
    if (meta_number(s, "run.instances") > 1)
        add_meta(s, b, ", instances: ", "run.instances");
}

static void add_machine(struct summary *s, struct buf *b)
{
    add_meta(s, b, "", "machine.host");
    add_meta(s, b, b->len ? ": " : "", "machine.cpu");
    if (add_meta(s, b, b->len ? ", " : "", "machine.cores"))
        buf_addf(b, " core%s", human_s((int64_t)meta_number(s, "machine.cores")));
    add_cell(s, b,
             "SELECT (SELECT iif(count(*) > 0, '; ', '') FROM meta WHERE key GLOB 'machine.*')"
             " || group_concat(n || value, ', ') FROM (SELECT iif(count(*) > 1, count(*) || ' x ',"
             " '') AS n, iif(value = '', 'a device without a name', value) AS value FROM meta WHERE"
             " key GLOB '*device.[0-9]*.name' GROUP BY value)");
}

/* The most that was in use at one time: as the engine, counters or the memory plan have it. */
static void add_memory(struct summary *s, struct buf *b)
{
    static const char counters[] =
        "SELECT t.name, max(v.value) FROM track AS t JOIN sample AS v ON v.track = t.id WHERE"
        " t.kind = 'counter' AND (t.unit IN ('bytes', 'B', 'byte') OR t.name GLOB 'memory *' OR"
        " t.name = 'rss') GROUP BY t.name HAVING max(v.value) > 0 ORDER BY 2 DESC LIMIT 4";
    static const char plan[] =
        "SELECT coalesce(max(live), 0) + (SELECT coalesce(sum(bytes), 0) FROM mem WHERE first_op IS"
        " NULL) FROM (SELECT sum(d) OVER (ORDER BY at, d ROWS UNBOUNDED PRECEDING) AS live FROM"
        " (SELECT first_op AS at, bytes AS d FROM mem WHERE first_op IS NOT NULL UNION ALL SELECT"
        " last_op + 1, -bytes FROM mem WHERE first_op IS NOT NULL AND last_op IS NOT NULL))";
    double arena = meta_number(s, "engine.arena_bytes");
    char room[HUMAN_ROOM];
    opm_rows *r = NULL;
    int64_t bytes;

    if (arena >= 0) {
        buf_addf(b, "%s of activations and workspace", human_bytes(room, (uint64_t)arena));
        buf_addf(b, ", %s of weights in the engine's order",
                 human_bytes(room, (uint64_t)meta_number(s, "engine.packed_bytes")));
    }
    if (opm_trace_query(s->t, counters, &r, NULL) == 0)
        while (opm_rows_next(r, NULL) > 0)
            buf_addf(b, "%s%s %s", b->len ? "; " : "at most: ", opm_rows_text(r, 0, NULL),
                     human_bytes(room, (uint64_t)opm_rows_real(r, 1)));
    opm_rows_close(r);
    bytes = b->len ? 0 : cli_query_int(s->t, plan);
    if (bytes > 0)
        buf_addf(b, "at most %s, by the memory plan", human_bytes(room, (uint64_t)bytes));
}

static void add_lost(struct summary *s, struct buf *b)
{
    char room[HUMAN_ROOM];
    opm_rows *r = NULL;

    if (opm_trace_query(s->t,
                        "SELECT count, description FROM import_stat WHERE severity = 'loss' AND"
                        " count > 0 ORDER BY count DESC LIMIT 4",
                        &r, NULL) == 0)
        while (opm_rows_next(r, NULL) > 0)
            buf_addf(b, "%s%s x %s", b->len ? "; " : "", human_count(room, opm_rows_int(r, 0)),
                     opm_rows_text(r, 1, NULL));
    opm_rows_close(r);
    if (!b->len)
        buf_adds(b, "nothing");
}

/* In the times below, and not the program's doing. */
static void add_measuring(struct summary *s, struct buf *b)
{
    cli_measuring(s->t, b);
}

static int print_facts(struct summary *s)
{
    static const struct {
        const char *label;
        void (*add)(struct summary *s, struct buf *b);
    } facts[] = { { "model", add_model },
                  { "machine", add_machine },
                  { "memory", add_memory },
                  { "measuring", add_measuring },
                  { "lost", add_lost } };
    struct buf b = { 0 };
    bool ok = true;

    for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
        facts[i].add(s, &b);
        ok &= cli_fact(s->cli, facts[i].label, &b);
    }
    buf_release(&b);
    return ok ? CLI_OK : cli_out_of_memory();
}

/* -- losses -- */

static int print_losses(struct summary *s)
{
    opm_rows *r = NULL;
    opm_error err;
    int64_t n = 0;
    int more = opm_trace_query(
        s->t, "SELECT gain, message FROM advice WHERE gain > 0 ORDER BY gain DESC", &r, &err);

    while (more >= 0 && n < LOSSES_SHOWN) {
        struct buf text = { 0 }, line = { 0 };

        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        if (n++ == 0) {
            io_out_adds(&s->cli->out, "\n");
            cli_heading(s->cli, "Largest losses, by what mending them could save at most");
        }
        buf_adds(&text, opm_rows_text(r, 1, NULL));
        cli_clean(&text);
        buf_addf(&line, "%*.0f %%  ", GAIN_COLUMNS - 2, 100 * opm_rows_real(r, 0));
        text_wrap(&line, buf_str(&text), GAIN_COLUMNS + 2, GAIN_COLUMNS + 2, cli_text_width());
        io_out_addf(&s->cli->out, "%s\n", buf_str(&line));
        buf_release(&text);
        buf_release(&line);
    }
    opm_rows_close(r);
    if (more >= 0 && !n)
        io_out_adds(&s->cli->out,
                    "\nNo loss stands out; 'opmeter advise' has what it looked for.\n");
    return more < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

/* -- devices -- */

static int print_devices(struct summary *s)
{
    static const char sql[] =
        "SELECT device, rank, CAST(total_ns - wait_ns AS REAL) / nullif(total_ns, 0) AS busy,"
        " total_ns AS of_ns, longest_wait_ns, (SELECT count(*) FROM"
        " stream_stats AS s WHERE s.scope = 'stream' AND s.device IS d.device AND s.rank IS d.rank)"
        " AS streams, kernels, iif(max(copies) OVER () > 0, copies, NULL) AS copies FROM"
        " stream_stats AS d WHERE scope = 'device' ORDER BY rank, device";
    int64_t rows = 0;
    int rc;

    if (cli_query_int(s->t, "SELECT count(*) FROM stream_stats WHERE scope = 'device'") <= 0)
        return CLI_OK;
    io_out_adds(&s->cli->out, "\n");
    cli_heading(s->cli, "Devices, from their first work to their last");
    rc = table_print(s->cli, s->t, sql, DEVICES_SHOWN, &rows);
    if (rc == CLI_OK && rows > DEVICES_SHOWN)
        cli_remark(s->cli, "there are more than these %d: --streams has all", DEVICES_SHOWN);
    return rc;
}

/* -- the page -- */

/* Series of one scope stand together. */
static int print_latency(struct summary *s, const struct all_series *all)
{
    int rc = CLI_OK;

    if (!all->n) {
        io_out_adds(&s->cli->out, "\n");
        cli_tell(s->cli, "Nothing to sum up: the trace has no steps, no labelled regions and no "
                         "runs of a device that were measured. 'opmeter top' ranks what it has.");
    }
    for (size_t i = 0, end; i < all->n && rc == CLI_OK; i = end) {
        const struct summary_series *x = &all->s[i];
        const char *word = summary_word(s, x);
        const char *heading = *word == 'S'   ? "step"
                              : *word == 'I' ? "inference"
                              : *word == 'R' ? "labelled region"
                                             : "runs of";

        for (end = i; end < all->n && strcmp(all->s[end].scope, x->scope) == 0;)
            end++;
        io_out_adds(&s->cli->out, "\n");
        rc = summary_put_table(s, x, end - i, heading);
        for (size_t k = i; s->histogram && k < end && rc == CLI_OK; k++) {
            io_out_adds(&s->cli->out, "\n");
            cli_heading(s->cli, "How long: %s", *all->s[k].name ? all->s[k].name : heading);
            rc = summary_put_histogram(s, &all->s[k]);
        }
    }
    return rc;
}

int summary_print_page(struct summary *s, const struct all_series *all)
{
    int rc = print_facts(s);

    if (rc == CLI_OK)
        rc = print_latency(s, all);
    summary_say_warmup(s);
    if (rc == CLI_OK)
        rc = summary_reconcile(s);
    if (rc == CLI_OK && all->n)
        rc = print_losses(s);
    if (rc == CLI_OK)
        rc = print_devices(s);
    return rc;
}
