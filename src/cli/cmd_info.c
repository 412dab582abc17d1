/* cmd_info.c -- say what is in a trace and what was lost on the way. */
#include "cli/cli.h"

#include "base/glyph.h"
#include "cli/info_gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define LABEL_COLUMNS 10
#define ROWS_SHOWN 30   /* of a table; the rest is a query away */
#define FILES_SHOWN 8   /* of many */
#define PATH_SHOWN 16   /* bytes of a path in a hint */
#define HINT_WIDE 80    /* what is narrower has no room for both beside each other */
#define HINT_COLUMNS 42 /* of a command; what it is for stands behind it, or below a longer one */

static const char about[] =
    "Say what a trace is, or several merged into one: its format and maker, when and by which "
    "program it was recorded, how long it is, what each table holds, what was repaired or lost on "
    "the way here, and what to run next. Of a GGUF file, a model for llama.cpp: its shape, its "
    "weights "
    "by type, and what a token takes in the cache.";

/* What every part needs. rc is the exit code so far: after a failure the parts say nothing more. */
struct info {
    struct cli *cli;
    opm_trace *t;
    char **paths;
    int npaths;
    int rc;
};

static const char tracks_sql[] =
    "SELECT kind, name, process, pid, tid, device, instance, rank, host,"
    " coalesce(spans, 0) AS spans, coalesce(samples, 0) AS samples FROM track"
    " LEFT JOIN track_stats AS s ON s.track = track.id";

static const char categories_sql[] =
    "SELECT layer, cat AS category, count(*) AS spans, sum(self) AS self_ns FROM span"
    " GROUP BY layer, cat ORDER BY spans DESC";
/* The same where all spans ended, which span_stats counts alone. */
static const char ended_sql[] =
    "SELECT layer, cat AS category, sum(count) AS spans, sum(self_ns) AS self_ns FROM span_stats"
    " GROUP BY layer, cat ORDER BY spans DESC";

static const char latency_sql[] =
    "SELECT scope, name, count, warmup_count, min_ns, median_ns, p99_ns, max_ns, per_second"
    " FROM latency";

static const char stats_sql[] =
    "SELECT name, severity, count, description FROM import_stat WHERE count > 0";

/* Recordings that go on, or ended without a word: nobody can say that they are complete. */
static const char unfinished_sql[] =
    "SELECT count(*) FROM import_stat WHERE name = 'not_closed' AND count > 0";

static const char sources_sql[] =
    "SELECT path, format, state, bytes, note, aligned, offset FROM source";
/* For people: by how much a clock was moved says little where it counts from 1970, but where the
 * records of a file begin among those of the others shows whether they fit together. */
static const char sources_begin_sql[] =
    "SELECT path, format, state, bytes, note, coalesce(aligned, iif(begin IS NULL, NULL, "
    "'itself')),"
    " begin FROM source LEFT JOIN (SELECT source AS of, min(first_ns) AS begin FROM track JOIN"
    " track_stats AS s ON s.track = track.id WHERE EXISTS (SELECT 1 FROM source WHERE aligned IS"
    " NOT NULL) GROUP BY source) ON of = source.id";

/* Tables worth counting, with what to call one row and several. */
static const struct {
    const char *table;
    const char *one;
    const char *many;
} counted[] = {
    { "span", "span", "spans" },
    { "track", "track", "tracks" },
    { "op", "operator", "operators" },
    { "op_tensor", "tensor", "tensors" },
    { "step", "step", "steps" },
    { "record", "labelled region", "labelled regions" },
    { "sample", "counter sample", "counter samples" },
    { "flow", "arrow", "arrows" },
    { "mem", "memory chunk", "memory chunks" },
};

/* Run sql; NULL after a failure, which is said. */
static opm_rows *query(struct info *in, const char *sql)
{
    opm_rows *r = NULL;
    opm_error err;

    if (in->rc == CLI_OK && opm_trace_query(in->t, sql, &r, &err) < 0)
        in->rc = cli_error("%s", err.msg);
    return r;
}

/* The next row of r, which may be NULL. */
static bool next(struct info *in, opm_rows *r)
{
    opm_error err;
    int more = r ? opm_rows_next(r, &err) : 0;

    if (more < 0)
        in->rc = cli_error("%s", err.msg);
    return more > 0;
}

/* The integer that sql gives; -1 if it is NULL or failed. */
static int64_t query_int(struct info *in, const char *sql)
{
    opm_rows *r = query(in, sql);
    int64_t v = -1;

    if (next(in, r) && opm_rows_type(r, 0) != OPM_TYPE_NULL)
        v = opm_rows_int(r, 0);
    opm_rows_close(r);
    return v;
}

static const char *categories_of(struct info *in)
{
    int64_t ended = query_int(in, "SELECT sum(count) FROM span_stats");

    return ended == opm_trace_rows(in->t, "span") ? ended_sql : categories_sql;
}

/* Where the last of all ends; -1: there is nothing that has a time. */
static int64_t duration_of(const struct info *in)
{
    static const char *const timed[] = { "span", "step", "record", "sample" };
    int64_t rows = 0;

    for (size_t i = 0; i < ARRAY_SIZE(timed); i++)
        rows += opm_trace_rows(in->t, timed[i]);
    return rows ? opm_trace_end(in->t) : -1;
}

/* Append the value of a meta key to b. False if the trace has none. Of several files the first has
 * plain keys, the others' begin with "file1." and so on. */
static bool add_meta(struct info *in, struct buf *b, const char *before, int file, const char *key)
{
    char sql[128], prefix[16] = "";
    opm_rows *r;
    bool found;

    if (file)
        snprintf(prefix, sizeof(prefix), "file%d.", file);
    snprintf(sql, sizeof(sql), "SELECT value FROM meta WHERE key = '%s%s' AND value <> ''", prefix,
             key);
    r = query(in, sql);
    found = next(in, r);
    if (found)
        buf_addf(b, "%s%s", before, opm_rows_text(r, 0, NULL));
    opm_rows_close(r);
    return found;
}

/* "  label     text"; nothing if the text is empty. Empties it. */
static void fact(struct info *in, const char *label, struct buf *text)
{
    if (in->rc == CLI_OK && !cli_fact(in->cli, label, text))
        in->rc = cli_out_of_memory();
    buf_clear(text);
}

/* Bytes of a file; 0 for a folder or if it is gone. */
static uint64_t file_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

static void add_recorded(struct info *in, struct buf *b, int file)
{
    struct buf ns = { 0 }, shift = { 0 };
    int64_t start;
    time_t seconds;
    struct tm tm;
    char when[64];

    if (add_meta(in, &ns, "", file, "clock.start_realtime_ns")) {
        start = strtoll(buf_str(&ns), NULL, 10);
        /* Of several, the start of the trace says nothing about each. */
        if (in->npaths == 1 && add_meta(in, &shift, "", 0, "trace.start_ns") &&
            __builtin_add_overflow(start, strtoll(buf_str(&shift), NULL, 10), &start))
            start = 0;
        seconds = (time_t)(start / 1000000000);
        if (gmtime_r(&seconds, &tm) && strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm))
            buf_adds(b, when);
    }
    buf_release(&ns);
    buf_release(&shift);
    add_meta(in, b, b->len ? " by " : "by ", file, "program.command");
    if (add_meta(in, b, " (process ", file, "program.pid"))
        buf_addc(b, ')');
}

static void add_machine(struct info *in, struct buf *b, int file)
{
    struct buf cores = { 0 };

    add_meta(in, b, "", file, "machine.host");
    add_meta(in, b, b->len ? ": " : "", file, "machine.cpu");
    if (add_meta(in, &cores, "", file, "machine.cores"))
        buf_addf(b, "%s%s core%s", b->len ? ", " : "", buf_str(&cores),
                 human_s(strtol(buf_str(&cores), NULL, 10)));
    buf_release(&cores);
    if (add_meta(in, b, b->len ? ", kernel " : "kernel ", file, "machine.kernel"))
        add_meta(in, b, " ", file, "machine.arch");
}

static void add_cost(struct info *in, struct buf *b, int64_t spans)
{
    char count[HUMAN_ROOM], cost[HUMAN_ROOM], total[HUMAN_ROOM];
    struct buf text = { 0 };
    double ns;

    if (add_meta(in, &text, "", 0, "recorder.span_cost_ns")) {
        ns = strtod(buf_str(&text), NULL);
        buf_addf(b, "%s to record one span", human_ns(cost, ns));
        if (spans > 0)
            buf_addf(b, "; about %s for %s span%s", human_ns(total, ns * (double)spans),
                     human_count(count, spans), human_s(spans));
    }
    buf_release(&text);
}

static void print_files(struct info *in)
{
    struct buf b = { 0 };
    char room[HUMAN_ROOM];

    for (int i = 0; i < in->npaths; i++) {
        uint64_t bytes = file_bytes(in->paths[i]), live_bytes;

        buf_addf(&b, "%s-live", in->paths[i]);
        live_bytes = file_bytes(buf_str(&b));
        buf_clear(&b);
        buf_adds(&b, strcmp(in->paths[i], CLI_STDIN) == 0 ? "standard input" : in->paths[i]);
        cli_clean(&b);
        io_out_addf(&in->cli->out, "%s%s%s", cli_style(in->cli, STYLE_BOLD), buf_str(&b),
                    cli_style(in->cli, STYLE_PLAIN));
        buf_clear(&b);
        if (bytes)
            io_out_addf(&in->cli->out, ", %s", human_bytes(room, bytes));
        if (live_bytes) /* of a recording that goes on or crashed */
            io_out_addf(&in->cli->out, ", with a live buffer of %s", human_bytes(room, live_bytes));
        io_out_adds(&in->cli->out, "\n");
    }
    io_out_adds(&in->cli->out, "\n");
    buf_release(&b);
}

/* Who recorded what, file by file; the machine only where it is another one. */
static void print_origins(struct info *in)
{
    struct buf recorded = { 0 }, machine = { 0 }, before = { 0 };

    for (int i = 0; i < MIN(in->npaths, FILES_SHOWN); i++) {
        add_recorded(in, &recorded, i);
        fact(in, "recorded", &recorded);
        add_machine(in, &machine, i);
        if (strcmp(buf_str(&machine), buf_str(&before)) != 0) {
            buf_clear(&before);
            buf_adds(&before, buf_str(&machine));
            fact(in, "machine", &machine);
        }
        buf_clear(&machine);
    }
    buf_release(&recorded);
    buf_release(&machine);
    buf_release(&before);
}

static const char *format_doc(const char *name)
{
    for (const opm_format *f = opm_import_formats(); f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f->doc;
    return NULL;
}

/* What kind of file it is, who made it, and what it was made from. */
static void add_what(struct info *in, struct buf *b)
{
    /* A file of tables brings the sources that it was made from. */
    opm_rows *r =
        query(in, in->npaths == 1 ? "SELECT format, count(*) FROM source WHERE format IS NOT NULL"
                                    " AND part_of IS NULL AND (format = 'opm' OR NOT EXISTS"
                                    " (SELECT 1 FROM source WHERE format = 'opm'))"
                                    " GROUP BY format ORDER BY min(id)"
                                  : "SELECT format, count(*) FROM source WHERE format IS NOT NULL"
                                    " AND part_of IS NULL GROUP BY format ORDER BY min(id)");
    struct buf from = { 0 };
    char room[HUMAN_ROOM];
    bool own = false;

    while (next(in, r)) {
        const char *name = opm_rows_text(r, 0, NULL), *doc = format_doc(name);
        int64_t n = opm_rows_int(r, 1);

        buf_adds(b, b->len ? "; " : "");
        if (n > 1)
            buf_addf(b, "%s of: ", human_count(room, n));
        buf_addf(b, "%s (%s)", doc ? doc : "a trace", name);
        own |= strcmp(name, "opm") == 0;
    }
    opm_rows_close(r);
    if (in->npaths == 1) {
        if (own && add_meta(in, &from, "", 0, "source.format"))
            buf_addf(b, ", converted from %s", buf_str(&from));
        add_meta(in, b, ", written by ", 0, "source.producer");
        add_meta(in, b, ", version ", 0, "source.version");
    }
    buf_release(&from);
}

/* All values of a query of one column, "a, b, c and 5 more". */
static void add_list(struct info *in, struct buf *b, const char *sql)
{
    opm_rows *r = query(in, sql);
    char room[HUMAN_ROOM];
    int64_t n = 0;

    for (; next(in, r); n++)
        if (n < FILES_SHOWN)
            buf_addf(b, "%s%s", n ? ", " : "", opm_rows_text(r, 0, NULL));
    if (n > FILES_SHOWN)
        buf_addf(b, " and %s more", human_count(room, n - FILES_SHOWN));
    opm_rows_close(r);
}

/* "4 threads, 2 streams" */
static void add_tracks(struct info *in, struct buf *b)
{
    opm_rows *r = query(in, "SELECT coalesce(kind, 'other'), count(*) FROM track GROUP BY 1"
                            " ORDER BY 2 DESC");
    char room[HUMAN_ROOM];

    while (next(in, r)) {
        int64_t n = opm_rows_int(r, 1);
        const char *kind = opm_rows_text(r, 0, NULL);
        bool plural = n != 1 && strcmp(kind, "async") != 0 && strcmp(kind, "other") != 0;

        buf_addf(b, "%s%s %s%s", b->len ? ", " : "", human_count(room, n), kind, plural ? "s" : "");
    }
    opm_rows_close(r);
}

static void print_facts(struct info *in)
{
    int64_t duration = duration_of(in), spans = 0;
    char room[HUMAN_ROOM];
    struct buf b = { 0 };

    add_what(in, &b);
    fact(in, "what", &b);
    print_origins(in);
    add_list(in, &b, "SELECT DISTINCT model FROM step WHERE model IS NOT NULL");
    fact(in, "model", &b);
    add_list(in, &b, "SELECT DISTINCT device FROM track WHERE device IS NOT NULL ORDER BY 1");
    fact(in, "devices", &b);
    add_list(in, &b, "SELECT DISTINCT rank FROM track WHERE rank IS NOT NULL ORDER BY 1");
    fact(in, "ranks", &b);
    if (duration >= 0)
        buf_adds(&b, human_ns(room, (double)duration));
    fact(in, "duration", &b);
    add_meta(in, &b, "", 0, "clock.source");
    add_meta(in, &b, b.len ? "; " : "", 0, "clock.note");
    fact(in, "clock", &b);
    for (size_t i = 0; i < ARRAY_SIZE(counted); i++) {
        int64_t n = opm_trace_rows(in->t, counted[i].table);

        if (i == 0)
            spans = n;
        if (n > 0)
            buf_addf(&b, "%s%s %s", b.len ? ", " : "", human_count(room, n),
                     n == 1 ? counted[i].one : counted[i].many);
    }
    if (!b.len)
        buf_adds(&b, "nothing");
    fact(in, "holds", &b);
    add_tracks(in, &b);
    fact(in, "tracks", &b);
    add_cost(in, &b, spans);
    fact(in, "cost", &b);
    cli_measuring(in->t, &b);
    fact(in, "measuring", &b);
    buf_release(&b);
}

/* How to show a column. All but text stand on the right. */
enum show { AS_TEXT, AS_INT, AS_COUNT, AS_NS };
struct shown_column {
    const char *heading;
    enum show show;
    bool if_varied; /* leave it out if it says the same in every row */
};

/* Append a cell as it is shown; nothing for NULL. */
static void show_cell(struct buf *b, const opm_rows *r, int c, enum show show)
{
    char room[HUMAN_ROOM];
    const char *text;
    size_t len;
    double v;

    if (opm_rows_type(r, c) == OPM_TYPE_NULL)
        return;
    switch (show) {
    case AS_TEXT:
    case AS_INT:
        text = opm_rows_text(r, c, &len);
        buf_add(b, text, len);
        break;
    case AS_COUNT:
        buf_adds(b, human_count(room, opm_rows_int(r, c)));
        break;
    case AS_NS:
        v = opm_rows_real(r, c);
        buf_addf(b, "%s%s", v < 0 ? "-" : "", human_ns(room, v < 0 ? -v : v));
        break;
    }
}

#define SECTION_COLUMNS_MAX 16

/* The first rows of a query, as they are shown, and which of its columns say something. */
struct section {
    int ncol;
    int64_t nrow; /* of the query */
    struct buf text;
    size_t end[ROWS_SHOWN][SECTION_COLUMNS_MAX]; /* of each cell in text */
    bool used[SECTION_COLUMNS_MAX];
};

static void section_read(struct section *s, struct info *in, const char *sql,
                         const struct shown_column *col)
{
    opm_rows *r = query(in, sql);
    char first[SECTION_COLUMNS_MAX][64] = { "" };

    s->ncol = r ? opm_rows_columns(r) : 0;
    assert(s->ncol <= SECTION_COLUMNS_MAX);
    for (; next(in, r); s->nrow++) {
        for (int c = 0; c < s->ncol; c++) {
            const char *text = opm_rows_text(r, c, NULL);

            if (s->nrow == 0)
                snprintf(first[c], sizeof(first[c]), "%s", text ? text : "");
            if (col[c].if_varied)
                s->used[c] |= strncmp(first[c], text ? text : "", sizeof(first[c]) - 1) != 0;
            else
                s->used[c] |= text && (col[c].show != AS_COUNT || strcmp(text, "0") != 0);
            if (s->nrow < ROWS_SHOWN) {
                show_cell(&s->text, r, c, col[c].show);
                s->end[s->nrow][c] = s->text.len;
            }
        }
    }
    opm_rows_close(r);
}

static struct textable *section_table(const struct section *s, const struct shown_column *col)
{
    struct textable *t = s->text.failed ? NULL : textable_new();
    size_t at = 0;

    for (int c = 0; t && c < s->ncol; c++)
        if (s->used[c])
            textable_column(t, col[c].heading,
                            col[c].show == AS_TEXT ? TEXTABLE_TEXT : TEXTABLE_INT);
    for (int64_t row = 0; t && row < MIN(s->nrow, ROWS_SHOWN); row++) {
        for (int c = 0; c < s->ncol; c++) {
            if (s->used[c])
                textable_text(t, buf_str(&s->text) + at, s->end[row][c] - at);
            at = s->end[row][c];
        }
    }
    return t;
}

/* A table under a heading, without the columns that say nothing; nothing at all without rows. */
static void print_section(struct info *in, const char *title, const char *sql,
                          const struct shown_column *col)
{
    struct section s = { 0 };
    char room[HUMAN_ROOM];

    section_read(&s, in, sql, col);
    if (in->rc == CLI_OK && s.nrow) {
        io_out_addf(&in->cli->out, "\n%s%s%s\n", cli_style(in->cli, STYLE_BOLD), title,
                    cli_style(in->cli, STYLE_PLAIN));
        in->rc = cli_print_table(in->cli, section_table(&s, col));
        if (s.nrow > ROWS_SHOWN)
            io_out_addf(&in->cli->out, "... and %s more\n", human_count(room, s.nrow - ROWS_SHOWN));
    }
    buf_release(&s.text);
}

/* One list of import_stat, indented. Returns how many. */
static int print_stats(struct info *in, const char *severity, const char *lead,
                       enum cli_style style)
{
    opm_rows *r = query(in, stats_sql);
    int n = 0;

    while (next(in, r)) {
        char room[HUMAN_ROOM];
        struct buf b = { 0 };

        if (strcmp(opm_rows_text(r, 1, NULL), severity) != 0)
            continue;
        if (n++ == 0)
            io_out_addf(&in->cli->out, "\n%s%s%s\n", cli_style(in->cli, style), lead,
                        cli_style(in->cli, STYLE_PLAIN));
        buf_addf(&b, "  %*s x ", LABEL_COLUMNS - 2, human_count(room, opm_rows_int(r, 2)));
        text_wrap(&b, opm_rows_text(r, 3, NULL), LABEL_COLUMNS + 3, LABEL_COLUMNS + 3,
                  cli_text_width());
        io_out_addf(&in->cli->out, "%s\n", buf_str(&b));
        buf_release(&b);
    }
    opm_rows_close(r);
    return n;
}

static void print_losses(struct info *in)
{
    int64_t certain = query_int(in, "SELECT count(*) FROM import_stat WHERE severity = 'loss'"
                                    " AND count > 0 AND name <> 'losses_unknown'");
    int lost = print_stats(in, "loss",
                           certain ? "Some of what was recorded is missing:"
                                   : "Some of what was recorded may be missing:",
                           STYLE_RED);

    if (!lost && in->rc == CLI_OK)
        io_out_adds(&in->cli->out, query_int(in, unfinished_sql) > 0
                                       ? "\nAll that the recording has left so far was read.\n"
                                       : "\nEverything recorded was read.\n");
    print_stats(in, "info",
                lost ? "Repaired, with nothing missing:" : "Repaired on the way:", STYLE_PLAIN);
}

static bool has_command(const char *name)
{
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return true;
    return false;
}

/* What to run next, as far as the trace holds something for it. */
static void print_next(struct info *in)
{
    static const struct {
        const char *command, *needs, *arguments, *why;
    } hints[] = {
        { "summary", "span", "", "latency, losses, devices, memory" },
        { "top", "op", "", "the operators, slowest first" },
        { "steps", "step", "", "where the time of a step goes" },
        { "advise", "span", "", "what to do about it" },
        { "query", "span", " 'SELECT * FROM span_stats'", "any question, in SQL" },
        { "export", "span", " -o trace.pftrace", "for ui.perfetto.dev" },
        { "import", "span", " -o trace.opm", "opens at once afterwards" },
    };
    bool own =
        in->npaths == 1 && query_int(in, "SELECT count(*) FROM source WHERE format = 'opm'") > 0;
    struct buf path = { 0 }, line = { 0 };
    bool any = false;

    if (in->cli->quiet || in->rc != CLI_OK || in->cli->stdin_taken) /* it is gone */
        return;
    /* A long path would hide what stands behind it. */
    if (in->npaths == 1 && strlen(in->paths[0]) <= PATH_SHOWN)
        buf_adds(&path, in->paths[0]);
    else
        buf_adds(&path, in->npaths == 1 ? "TRACE" : "TRACE...");
    cli_clean(&path);
    for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
        if (!has_command(hints[i].command) || opm_trace_rows(in->t, hints[i].needs) <= 0 ||
            (own && strcmp(hints[i].command, "import") == 0))
            continue;
        if (!any)
            io_out_addf(&in->cli->out, "\n%sNext%s\n", cli_style(in->cli, STYLE_BOLD),
                        cli_style(in->cli, STYLE_PLAIN));
        any = true;
        buf_clear(&line);
        buf_addf(&line, "opmeter %s %s%s", hints[i].command, buf_str(&path), hints[i].arguments);
        if (cli_text_width() < HINT_WIDE)
            buf_adds(&line, "\n    ");
        else if (glyph_width(buf_str(&line), line.len) > HINT_COLUMNS)
            buf_addf(&line, "\n  %*s", HINT_COLUMNS, "");
        else
            buf_addf(&line, "%*s", HINT_COLUMNS - (int)glyph_width(buf_str(&line), line.len), "");
        io_out_addf(&in->cli->out, "  %s  %s%s%s\n", buf_str(&line), cli_style(in->cli, STYLE_DIM),
                    hints[i].why, cli_style(in->cli, STYLE_PLAIN));
    }
    buf_release(&line);
    buf_release(&path);
}

static void print_text(struct info *in)
{
    static const struct shown_column tracks[] = {
        { "kind", AS_TEXT, false },     { "name", AS_TEXT, false },
        { "process", AS_TEXT, false },  { "pid", AS_INT, false },
        { "tid", AS_INT, false },       { "device", AS_TEXT, false },
        { "instance", AS_INT, false },  { "rank", AS_INT, false },
        { "host", AS_TEXT, true },      { "spans", AS_COUNT, false },
        { "samples", AS_COUNT, false },
    };
    static const struct shown_column categories[] = {
        { "layer", AS_TEXT, false },
        { "category", AS_TEXT, false },
        { "spans", AS_COUNT, false },
        { "self time", AS_NS, false },
    };
    static const struct shown_column sources[] = {
        { "file", AS_TEXT, false },    { "format", AS_TEXT, false },
        { "state", AS_TEXT, false },   { "bytes", AS_COUNT, false },
        { "note", AS_TEXT, false },    { "aligned by", AS_TEXT, false },
        { "begins at", AS_NS, false },
    };
    static const struct shown_column meta[] = { { "key", AS_TEXT, false },
                                                { "value", AS_TEXT, false } };

    print_files(in);
    print_facts(in);
    print_losses(in);
    if (query_int(in, "SELECT count(*) FROM source") > 1)
        print_section(in, "Files", sources_begin_sql, sources);
    print_section(in, "Layers and categories", categories_of(in), categories);
    print_section(in, "Tracks", tracks_sql, tracks);
    print_section(in, "Other facts",
                  "SELECT key, value FROM meta WHERE CASE WHEN key GLOB 'file[0-9]*.*'"
                  " THEN substr(key, instr(key, '.') + 1) ELSE key END NOT IN"
                  " ('clock.boot', 'clock.source', 'clock.start_realtime_ns', 'program.command',"
                  " 'program.pid', 'machine.host', 'machine.cpu', 'machine.cores',"
                  " 'machine.kernel', 'machine.arch', 'recorder.span_cost_ns',"
                  " 'source.format', 'source.producer', 'source.version', 'clock.note')",
                  meta);
    print_next(in);
}

static void json_int_or_null(struct json_writer *w, int64_t v)
{
    if (v < 0)
        json_null(w);
    else
        json_i64(w, v);
}

static void json_member(struct info *in, struct json_writer *w, const char *key, const char *sql)
{
    opm_rows *r = query(in, sql);

    json_newline(w);
    json_key(w, key);
    json_array(w);
    while (next(in, r))
        cli_json_row(w, r);
    json_array_end(w);
    opm_rows_close(r);
}

static void json_meta(struct info *in, struct json_writer *w)
{
    opm_rows *r = query(in, "SELECT key, value FROM meta WHERE key IS NOT NULL");

    json_newline(w);
    json_key(w, "meta");
    json_object(w);
    while (next(in, r)) {
        size_t len = 0;
        const char *value = opm_rows_text(r, 1, &len);

        json_key(w, opm_rows_text(r, 0, NULL));
        if (value)
            json_str(w, value, len);
        else
            json_null(w);
    }
    json_object_end(w);
    opm_rows_close(r);
}

static void print_json(struct info *in)
{
    struct buf b = { 0 };
    struct json_writer w = { .buf = &b };
    int64_t losses = query_int(in, "SELECT count(*) FROM import_stat WHERE severity = 'loss' AND "
                                   "count > 0");

    json_object(&w);
    json_key(&w, "files");
    json_array(&w);
    for (int i = 0; i < in->npaths; i++) {
        json_object(&w);
        json_key(&w, "path");
        json_cstr(&w, in->paths[i]);
        json_key(&w, "bytes");
        json_u64(&w, file_bytes(in->paths[i]));
        json_object_end(&w);
    }
    json_array_end(&w);
    json_newline(&w);
    json_key(&w, "duration_ns");
    json_int_or_null(&w, duration_of(in));
    json_newline(&w);
    json_key(&w, "complete");
    json_bool(&w, losses == 0 && query_int(in, unfinished_sql) == 0);
    json_newline(&w);
    json_key(&w, "rows");
    json_object(&w);
    for (size_t i = 0; i < ARRAY_SIZE(counted); i++) {
        json_key(&w, counted[i].table);
        json_int_or_null(&w, opm_trace_rows(in->t, counted[i].table));
    }
    json_object_end(&w);
    json_member(in, &w, "sources", sources_sql);
    json_meta(in, &w);
    json_member(in, &w, "import_stat", stats_sql);
    json_member(in, &w, "latency", latency_sql);
    json_member(in, &w, "categories", categories_of(in));
    json_member(in, &w, "tracks", tracks_sql);
    json_object_end(&w);
    if (b.failed && in->rc == CLI_OK)
        in->rc = cli_out_of_memory();
    if (in->rc == CLI_OK)
        io_out_addf(&in->cli->out, "%s\n", buf_str(&b));
    buf_release(&b);
}

int cmd_info(struct cli *cli, int argc, char **argv)
{
    const struct option opts[] = {
        OPT_BOOL(0, "json", &cli->json, "print one JSON object"),
        CLI_TRACE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv);
    struct info in = { .cli = cli, .paths = argv, .npaths = n };

    if (n < 0)
        return cli->status;
    if (n == 0)
        return cli_usage(cli, "a TRACE is needed");
    if (n == 1 && info_is_gguf(argv[0]))
        return info_gguf(cli, argv[0]);
    in.rc = cli_open(cli, &in.t, argv, n);
    if (in.rc == CLI_OK) {
        if (cli->json)
            print_json(&in);
        else
            print_text(&in);
    }
    opm_trace_close(in.t);
    return in.rc;
}
