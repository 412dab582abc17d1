/* cmd_job.c -- the ranks of a distributed job: who is late, what bounds the steps, what differs. */
#include "cli/answers.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char about[] =
    "Show a distributed job that 'opmeter add --job' collected, from a file or from ClickHouse: "
    "which rank the others wait for and what that costs, where in ranks and steps, the critical "
    "path through collectives, slow links, operators that are slow on some ranks, drift and "
    "memory. "
    "Without ID the jobs that there are; --show prints all of one table. Ranks, steps and figures "
    "are the same whatever the database.";

#define MAP_ROWS 24
#define MAP_COLUMNS 60
#define ROWS_SHOWN 6
#define NUMBERS_SHOWN 3 /* numbers of up to 20 digits */
#define NUMBERS_ROOM 80
#define LATE_SHARE 0.01 /* what a rank costs that is said, even if it may be chance */
#define DRIFT_FROM_NS INT64_C(600000000000) /* shorter recordings tell nothing of hours */

static const char *const shows[ASK_COUNT + 1] = {
#define QUESTION(name, doc) #name,
#define QCOL(name, column, type, doc)
#define QEND(name)
#include "catalog/questions.def"
#undef QUESTION
#undef QCOL
#undef QEND
    NULL
};

static int ask(struct fleetdb *db, enum question_id id, const char *job, struct answer *out)
{
    opm_error err;

    return question_ask(&questions[id], db, job, out, &err) < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

/* -- the jobs -- */

static void put_moment(struct textable *t, int64_t ns)
{
    time_t seconds = ns / 1000000000;
    char room[32];
    struct tm tm;

    if (ns > 0 && gmtime_r(&seconds, &tm) && strftime(room, sizeof(room), "%Y-%m-%d %H:%M", &tm))
        textable_text(t, room, strlen(room));
    else
        textable_null(t);
}

static void put_job(struct textable *t, struct fleetrows *rows)
{
    int64_t from_ns = fleetrows_size(rows, 5), to_ns = fleetrows_size(rows, 6);
    char room[HUMAN_ROOM];
    size_t len = 0;
    const char *text = fleetrows_text(rows, 0, &len);

    textable_text(t, text ? text : "", len);
    for (int c = 1; c < 5; c++)
        textable_int(t, fleetrows_int(rows, c));
    put_moment(t, from_ns);
    human_ns(room, (double)(to_ns - from_ns));
    if (from_ns > 0 && to_ns > from_ns)
        textable_text(t, room, strlen(room));
    else
        textable_null(t);
    text = fleetrows_text(rows, 7, &len);
    textable_text(t, text ? text : "", text ? len : 0);
}

/* For people: moments as dates, the latest job first. */
static int print_jobs_aligned(struct cli *cli, struct fleetdb *db)
{
    static const struct {
        const char *name;
        enum textable_kind kind;
    } columns[] = { { "job", TEXTABLE_TEXT },     { "ranks", TEXTABLE_INT },
                    { "machines", TEXTABLE_INT }, { "recordings", TEXTABLE_INT },
                    { "spans", TEXTABLE_INT },    { "began (UTC)", TEXTABLE_INT },
                    { "lasted", TEXTABLE_INT },   { "model", TEXTABLE_TEXT } };
    struct textable *t = textable_new();
    struct fleetrows *rows = NULL;
    opm_error err;
    int more;

    if (!t)
        return cli_out_of_memory();
    for (size_t c = 0; c < ARRAY_SIZE(columns); c++)
        textable_column(t, columns[c].name, columns[c].kind);
    more = fleetdb_query(db,
                         "SELECT job, ranks, hosts, recordings, spans, first_ns, last_ns, model"
                         " FROM job ORDER BY latest_ns DESC, job",
                         &rows, &err);
    for (; more >= 0;) {
        more = fleetrows_next(rows, &err);
        if (more != 1)
            break;
        put_job(t, rows);
    }
    fleetrows_close(rows);
    if (more < 0) {
        textable_free(t);
        return cli_error("%s", err.msg);
    }
    return cli_print_table(cli, t);
}

static int print_jobs(struct cli *cli, struct fleetdb *db)
{
    struct fleetrows *rows = NULL;
    opm_error err;
    int rc;

    if (cli_format(cli) == TEXTABLE_ALIGNED)
        return print_jobs_aligned(cli, db);
    if (fleetdb_query(db,
                      "SELECT job, ranks, hosts, world, recordings, spans, first_ns, last_ns, model"
                      " FROM job ORDER BY latest_ns DESC, job",
                      &rows, &err) < 0)
        return cli_error("%s", err.msg);
    rc = fleetrows_print(cli, rows);
    fleetrows_close(rows);
    return rc;
}

/* -- heat map: darker where a rank comes later than the others of its step -- */

struct map {
    const struct answer *a;
    int64_t *rank;
    size_t nrank, nstep, rows, columns;
    double *late; /* [rows * columns] */
};

static size_t find_rank(const struct map *m, int64_t rank)
{
    size_t low = 0, high = m->nrank;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (m->rank[mid] < rank)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int by_rank(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static bool map_measure(struct map *m)
{
    size_t n = 0;

    m->rank = mem_alloc((m->a->nrow + 1) * sizeof(*m->rank));
    if (!m->rank)
        return false;
    for (size_t i = 0; i < m->a->nrow; i++) {
        m->rank[i] = answer_at(m->a, i, heatmap_col_rank)->i;
        m->nstep += i == 0 || answer_at(m->a, i, heatmap_col_num)->i !=
                                  answer_at(m->a, i - 1, heatmap_col_num)->i;
    }
    if (m->a->nrow)
        qsort(m->rank, m->a->nrow, sizeof(*m->rank), by_rank);
    for (size_t i = 0; i < m->a->nrow; i++)
        if (n == 0 || m->rank[i] != m->rank[n - 1])
            m->rank[n++] = m->rank[i];
    m->nrank = n;
    m->rows = MIN(m->nrank, (size_t)MAP_ROWS);
    m->columns = MIN(m->nstep, (size_t)MAP_COLUMNS);
    m->late = mem_calloc(m->rows * m->columns + 1, sizeof(*m->late));
    return m->late != NULL;
}

/* How much later than the first of its step each rank came, into the field that shows it: of
 * several ranks in a row of the map, the latest. */
static void map_fill(struct map *m)
{
    const struct answer *a = m->a;
    size_t step = 0;

    for (size_t i = 0, end; i < a->nrow; i = end, step++) {
        int64_t most = 0;

        for (end = i; end < a->nrow &&
                      answer_at(a, end, heatmap_col_num)->i == answer_at(a, i, heatmap_col_num)->i;
             end++)
            most = MAX(most, answer_at(a, end, heatmap_col_waited_ns)->i);
        for (size_t k = i; k < end; k++) {
            size_t row = find_rank(m, answer_at(a, k, heatmap_col_rank)->i) * m->rows / m->nrank;
            size_t at = row * m->columns + step * m->columns / m->nstep;
            double total = (double)answer_at(a, k, heatmap_col_total_ns)->i;
            int64_t waited = answer_at(a, k, heatmap_col_waited_ns)->i;

            if (total > 0 && waited != FLEETDB_NONE)
                m->late[at] = fmax(m->late[at], (double)(most - waited) / total);
        }
    }
}

static int print_map(struct cli *cli, struct fleetdb *db, const char *job)
{
    static const char shades[] = " .:-=+*#%@";
    struct answer a;
    struct map m = { .a = &a };
    double most = 0;
    bool met = false; /* somebody met another rank */
    int rc = ask(db, ASK_heatmap, job, &a);

    for (size_t i = 0; i < a.nrow && !met; i++)
        met = answer_at(&a, i, heatmap_col_waited_ns)->i != FLEETDB_NONE;
    if (rc == CLI_OK && met) {
        if (map_measure(&m)) {
            map_fill(&m);
            for (size_t i = 0; i < m.rows * m.columns; i++)
                most = fmax(most, m.late[i]);
            cli_heading(cli,
                        "How much later than the first each rank comes, ranks by steps ('@': "
                        "%.1f %% of the step)",
                        100 * most);
        } else {
            rc = cli_out_of_memory();
        }
    }
    for (size_t r = 0; rc == CLI_OK && r < m.rows; r++) {
        size_t first = (r * m.nrank + m.rows - 1) / m.rows;

        io_out_addf(&cli->out, "%8" PRId64 " |", m.rank[first]);
        for (size_t c = 0; c < m.columns; c++) {
            double share = most > 0 ? m.late[r * m.columns + c] / most : 0;

            io_out_addf(&cli->out, "%c", shades[(int)(share * 9 + 0.5)]);
        }
        io_out_adds(&cli->out, "|\n");
    }
    if (rc == CLI_OK && m.rows)
        io_out_addf(&cli->out, "%8s  step %" PRId64 " to %" PRId64 "\n\n", "",
                    answer_at(&a, 0, heatmap_col_num)->i,
                    answer_at(&a, a.nrow - 1, heatmap_col_num)->i);
    mem_free(m.rank);
    mem_free(m.late);
    answer_release(&a);
    return rc;
}

/* -- one page -- */

/* "3, 7, 12, ...": the n-th number is added to `room`. */
static void add_number(char room[NUMBERS_ROOM], size_t n, int64_t number)
{
    size_t len = strlen(room);

    if (n < NUMBERS_SHOWN)
        snprintf(room + len, NUMBERS_ROOM - len, "%s%" PRId64, n ? ", " : "", number);
    else if (n == NUMBERS_SHOWN)
        snprintf(room + len, NUMBERS_ROOM - len, ", ...");
}

/* Ranks that come late together; false: there are none. */
static bool tell_together(struct cli *cli, const struct answer *a)
{
    char room[HUMAN_ROOM], ranks[NUMBERS_ROOM] = "";
    const struct answer_cell *most = NULL;
    size_t n = 0;

    for (size_t i = 0; i < a->nrow; i++) {
        const struct answer_cell *c = answer_at(a, i, 0);

        if (c[late_col_together_ns].i == FLEETDB_NONE)
            continue;
        add_number(ranks, n++, c[late_col_rank].i);
        if (!most || c[late_col_together_ns].i > most[late_col_together_ns].i)
            most = c;
    }
    if (most)
        cli_tell(cli,
                 "%zu ranks (%s) come late together: if they came as the next one does, the job "
                 "would save %s. Stages of a pipeline meet like that, too.",
                 n, ranks, human_ns(room, (double)most[late_col_together_ns].i));
    return most != NULL;
}

/* Nobody is named, and no few come together: a has the costliest first. */
static void tell_nobody(struct cli *cli, const struct answer *a)
{
    const struct answer_cell *c = answer_at(a, 0, 0);

    if (c[late_col_share].f >= LATE_SHARE)
        cli_tell(cli,
                 "No rank is sure to hold up the others: rank %" PRId64
                 "%s%s costs most, %.1f %% of the time of its steps, but as it is the costliest in "
                 "%" PRId64 " of %" PRId64 " steps, that may be chance.",
                 c[late_col_rank].i, c[late_col_host].text[0] ? " on " : "", c[late_col_host].text,
                 100 * c[late_col_share].f, c[late_col_steps_worst].i, c[late_col_steps].i);
    else
        cli_tell(cli, "No rank holds up the others.");
}

static int print_late(struct cli *cli, struct fleetdb *db, const char *job)
{
    struct answer a;
    char room[HUMAN_ROOM], mean[HUMAN_ROOM];
    bool any = false;
    int rc = ask(db, ASK_late, job, &a);

    for (size_t i = 0; rc == CLI_OK && i < a.nrow; i++) {
        const struct answer_cell *c = answer_at(&a, i, 0);

        if (c[late_col_late].i != 1)
            continue;
        any = true;
        cli_tell(cli,
                 "Rank %" PRId64 "%s%s holds up the job: it comes last to %" PRId64 " of %" PRId64
                 " collectives and costs %s, %.1f %% of the time of its steps (%s a step).",
                 c[late_col_rank].i, c[late_col_host].text[0] ? " on " : "", c[late_col_host].text,
                 c[late_col_last_count].i, c[late_col_collectives].i,
                 human_ns(room, (double)c[late_col_cost_ns].i), 100 * c[late_col_share].f,
                 human_ns(mean, (double)c[late_col_cost_ns].i / (double)c[late_col_steps].i));
    }
    if (rc == CLI_OK && a.nrow && !any && !tell_together(cli, &a))
        tell_nobody(cli, &a);
    if (rc == CLI_OK && !a.nrow)
        cli_tell(cli,
                 "No collectives of two ranks or more were recorded in the same step, so who is "
                 "late cannot be said.");
    if (rc == CLI_OK)
        rc = print_map(cli, db, job);
    if (rc == CLI_OK && a.nrow) {
        cli_heading(cli, "Who is late, and what it costs");
        rc = answer_print(cli, &a, ROWS_SHOWN);
    }
    answer_release(&a);
    return rc;
}

/* The first rows of a table under a heading; nothing if it has none. `keep`: which rows. */
static int print_part(struct cli *cli, struct fleetdb *db, const char *job, enum question_id id,
                      const char *title, int keep)
{
    struct answer a;
    int rc = ask(db, id, job, &a);

    if (rc == CLI_OK && keep >= 0) {
        size_t n = 0;

        while (n < a.nrow && answer_at(&a, n, keep)->i == 1)
            n++;
        answer_cut(&a, n);
    }
    if (rc == CLI_OK && a.nrow) {
        io_out_adds(&cli->out, "\n");
        cli_heading(cli, "%s", title);
        rc = answer_print(cli, &a, ROWS_SHOWN);
        if (a.nrow > ROWS_SHOWN)
            cli_remark(cli, "(%zu more: --show %s)", a.nrow - ROWS_SHOWN, questions[id].name);
    }
    answer_release(&a);
    return rc;
}

/* Numbers from `from` to below `to` are added to `room`, behind n others. */
static size_t add_numbers(char room[NUMBERS_ROOM], size_t n, int64_t from, int64_t to)
{
    if (to <= from)
        return n;
    for (int64_t i = from; i < to && i <= from + NUMBERS_SHOWN; i++)
        add_number(room, n + (size_t)(i - from), i);
    return n + (size_t)(to - from);
}

/* What figures are not of: ranks that are not here, recordings that do not count or are damaged. */
static void print_missing(struct cli *cli, const struct answer *ranks)
{
    char absent[NUMBERS_ROOM] = "", twice[NUMBERS_ROOM] = "", lost[NUMBERS_ROOM] = "";
    size_t nabsent = 0, ntwice = 0, nlost = 0;
    int64_t world = 0, next = 0, left_out = 0;

    for (size_t i = 0; i < ranks->nrow; i++)
        world = MAX(world, answer_at(ranks, i, ranks_col_world)->i);
    for (size_t i = 0; i < ranks->nrow; i++) {
        const struct answer_cell *c = answer_at(ranks, i, 0);

        nabsent = add_numbers(absent, nabsent, next, MIN(c[ranks_col_rank].i, world));
        next = MAX(next, c[ranks_col_rank].i + 1);
        if (c[ranks_col_left_out].i)
            add_number(twice, ntwice++, c[ranks_col_rank].i);
        left_out += c[ranks_col_left_out].i;
        if (c[ranks_col_lost].i)
            add_number(lost, nlost++, c[ranks_col_rank].i);
    }
    nabsent = add_numbers(absent, nabsent, next, world);
    if (nabsent)
        cli_tell(cli, "%zu of the job's %" PRId64 " ranks (%s) are not here.", nabsent, world,
                 absent);
    if (ntwice)
        cli_tell(cli,
                 "%zu rank%s (%s) recorded the same steps more than once: of these the recording "
                 "that began last counts, and %" PRId64 " %s left out. What is another run is "
                 "better added as another --job.",
                 ntwice, human_s((int64_t)ntwice), twice, left_out, left_out == 1 ? "is" : "are");
    if (nlost)
        cli_tell(cli,
                 "Part of what %zu rank%s (%s) recorded is missing in the trace: opmeter info says "
                 "what.",
                 nlost, human_s((int64_t)nlost), lost);
}

static int print_head(struct cli *cli, struct fleetdb *db, const char *job)
{
    struct answer ranks, steps;
    int64_t spans = 0, recordings = 0;
    size_t hosts = 0;
    double mean = 0;
    char count[HUMAN_ROOM], time[HUMAN_ROOM];
    int rc = ask(db, ASK_ranks, job, &ranks);

    if (rc != CLI_OK) {
        answer_release(&ranks);
        return rc;
    }
    rc = ask(db, ASK_steps, job, &steps);
    for (size_t i = 0; rc == CLI_OK && i < ranks.nrow; i++) {
        const char *host = answer_at(&ranks, i, ranks_col_host)->text;
        bool seen = host[0] == '\0';

        spans = MIN(spans, FLEETDB_SIZE_MAX) +
                MIN(answer_at(&ranks, i, ranks_col_spans)->i, FLEETDB_SIZE_MAX);
        recordings += answer_at(&ranks, i, ranks_col_recordings)->i;
        /* Machines hold neighbours, so looking back a little finds most; many need not be exact. */
        for (size_t k = i; k-- > 0 && i - k < 256 && !seen;)
            seen = strcmp(host, answer_at(&ranks, k, ranks_col_host)->text) == 0;
        hosts += !seen;
    }
    for (size_t i = 0; rc == CLI_OK && i < steps.nrow; i++)
        mean += answer_at(&steps, i, steps_col_mean_ns)->f / (double)steps.nrow;
    if (rc == CLI_OK) {
        cli_heading(cli, "Job %s", job);
        io_out_addf(&cli->out, "%zu rank%s", ranks.nrow, human_s((int64_t)ranks.nrow));
        if (hosts)
            io_out_addf(&cli->out, " on %zu machine%s", hosts, human_s((int64_t)hosts));
        io_out_addf(&cli->out, ", %" PRId64 " recording%s, %s span%s", recordings,
                    human_s(recordings), human_count(count, spans), human_s(spans));
        if (steps.nrow)
            io_out_addf(&cli->out, "; %zu step%s of %s on average", steps.nrow,
                        human_s((int64_t)steps.nrow), human_ns(time, mean));
        io_out_adds(&cli->out, "\n");
        print_missing(cli, &ranks);
    }
    answer_release(&ranks);
    answer_release(&steps);
    return rc;
}

static int print_drift(struct cli *cli, struct fleetdb *db, const char *job)
{
    struct answer a;
    int rc = ask(db, ASK_drift, job, &a);

    if (rc == CLI_OK && a.nrow > 1 &&
        answer_at(&a, a.nrow - 1, drift_col_to_ns)->i - answer_at(&a, 0, drift_col_from_ns)->i >=
            DRIFT_FROM_NS) {
        const struct answer_cell *last = answer_at(&a, a.nrow - 1, 0);
        char time[HUMAN_ROOM];

        io_out_adds(&cli->out, "\n");
        cli_tell(cli,
                 "Over %s, steps changed by %+.1f %% (last stretch of time against the first).",
                 human_ns(time, (double)(last[drift_col_to_ns].i -
                                         answer_at(&a, 0, drift_col_from_ns)->i)),
                 100 * last[drift_col_change].f);
    }
    answer_release(&a);
    return rc;
}

static int print_page(struct cli *cli, struct fleetdb *db, const char *job)
{
    int rc = print_head(cli, db, job);

    if (rc == CLI_OK)
        rc = print_late(cli, db, job);
    if (rc == CLI_OK)
        rc = print_part(cli, db, job, ASK_path, "Critical path through the collectives", -1);
    if (rc == CLI_OK)
        rc = print_part(cli, db, job, ASK_links, "Slow links", links_col_slow);
    if (rc == CLI_OK)
        rc = print_part(cli, db, job, ASK_outliers, "Operators that are slow on some ranks", -1);
    if (rc == CLI_OK)
        rc = print_part(cli, db, job, ASK_memory, "Memory", -1);
    if (rc == CLI_OK)
        rc = print_drift(cli, db, job);
    return rc;
}

static int print_json(struct cli *cli, struct fleetdb *db, const char *job)
{
    struct json_writer w = { .out = &cli->out };
    int rc = CLI_OK;

    json_object(&w);
    json_key(&w, "job");
    json_cstr(&w, job);
    for (size_t i = 0; i < ASK_COUNT && rc == CLI_OK; i++) {
        struct answer a;

        rc = ask(db, (enum question_id)i, job, &a);
        if (rc == CLI_OK) {
            json_key(&w, questions[i].name);
            answer_json(&w, &a);
        }
        answer_release(&a);
    }
    json_object_end(&w);
    io_out_adds(&cli->out, "\n");
    return rc;
}

/* Where the recording of a rank lies, to go on with there. */
static int print_rank(struct cli *cli, struct fleetdb *db, const char *job, int64_t rank)
{
    struct answer a;
    int rc = ask(db, ASK_ranks, job, &a);
    size_t i = 0;

    while (rc == CLI_OK && i < a.nrow && answer_at(&a, i, ranks_col_rank)->i != rank)
        i++;
    if (rc == CLI_OK && i == a.nrow)
        rc = cli_error("job %s has no rank %" PRId64, job, rank);
    if (rc == CLI_OK) {
        const struct answer_cell *c = answer_at(&a, i, 0);

        cli_say(cli, "rank %" PRId64 "%s%s: opmeter serve %s\n", rank,
                c[ranks_col_host].text[0] ? " on " : "", c[ranks_col_host].text,
                c[ranks_col_trace].text);
    }
    answer_release(&a);
    return rc;
}

static int print_one(struct cli *cli, struct fleetdb *db, const char *job, const char *show,
                     int64_t limit)
{
    struct answer a;
    opm_error err;
    int rc = question_ask(question_find(show), db, job, &a, &err) < 0 ? cli_error("%s", err.msg)
                                                                      : CLI_OK;

    if (rc == CLI_OK)
        rc = answer_print(cli, &a, limit);
    answer_release(&a);
    return rc;
}

int cmd_job(struct cli *cli, int argc, char **argv)
{
    const char *show = NULL;
    int64_t limit = 0, rank = -1;
    const struct option opts[] = {
        OPT_CHOICE(0, "show", &show, "TABLE", shows,
                   "all of one table: late, heatmap, path, links, outliers, ops, steps, drift, "
                   "memory, ranks or hosts (without ID, machines over all jobs)"),
        OPT_INT(0, "rank", &rank, "N", 0, INT32_MAX,
                "say where the recording of a rank lies, for its timeline"),
        OPT_INT('n', "limit", &limit, "N", 0, INT32_MAX, "with --show, print N rows (all)"),
        CLI_TABLE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc;
    struct fleetdb *db = NULL;
    const char *job = n > 1 ? argv[1] : NULL;
    opm_error err;

    if (n < 0)
        return cli->status;
    if (n == 0 || n > 2)
        return cli_usage(cli, n ? "a database and one ID are all that it takes"
                                : "a database is needed: a file such as runs.db, or "
                                  "clickhouse://HOST:8123/DATABASE");
    if (!job && show && strcmp(show, "hosts") != 0)
        return cli_usage(cli, "--show %s needs the ID of a job", show);
    if (!job && rank >= 0)
        return cli_usage(cli, "--rank needs the ID of a job");
    if (fleetdb_open(&db, argv[0], FLEETDB_READ, &err) < 0)
        return cli_error("%s", err.msg);
    if (show)
        rc = print_one(cli, db, job, show, limit);
    else if (!job)
        rc = print_jobs(cli, db);
    else if (rank >= 0)
        rc = print_rank(cli, db, job, rank);
    else if (cli->json)
        rc = print_json(cli, db, job);
    else if (cli->csv)
        rc = cli_usage(cli, "--csv is of one table: say which with --show");
    else
        rc = print_page(cli, db, job);
    fleetdb_close(db);
    return rc;
}
