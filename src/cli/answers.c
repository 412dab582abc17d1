/* answers.c -- see answers.h. */
#include "cli/answers.h"

#include "base/alloc.h"
#include "catalog/runsdb.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HEADING_ROOM 64

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

/* "cost_ns" as people say it; what is a moment stays a number. */
static bool is_time(const char *name)
{
    return ends_with(name, "_ns") && strcmp(name, "from_ns") != 0 && strcmp(name, "to_ns") != 0;
}

static void heading(const char *name, char room[HEADING_ROOM])
{
    snprintf(room, HEADING_ROOM, "%s", name);
    if (is_time(name))
        room[strlen(room) - 3] = '\0';
    if (ends_with(room, "_bytes") && strlen(room) > 6)
        room[strlen(room) - 6] = '\0';
    for (char *c = strchr(room, '_'); c; c = strchr(c, '_'))
        *c = ' ';
}

static void put_text(struct textable *t, const char *text)
{
    textable_text(t, text, strlen(text));
}

static void put_people(struct textable *t, const struct answer_column *col,
                       const struct answer_cell *c)
{
    char room[HUMAN_ROOM], sized[HUMAN_ROOM + 1];
    bool is_int = col->type == ANSWER_INT;
    double v = is_int ? (double)c->i : c->f;

    if (col->type == ANSWER_TEXT) {
        if (c->text && c->text[0])
            put_text(t, c->text);
        else
            textable_null(t);
    } else if (is_int ? c->i == FLEETDB_NONE : isnan(c->f)) {
        textable_null(t);
    } else if (col->type == ANSWER_SHARE) {
        textable_real(t, v);
    } else if (is_time(col->name)) {
        put_text(t, human_ns(room, v));
    } else if (ends_with(col->name, "bytes")) {
        snprintf(sized, sizeof(sized), "%s%s", v < 0 ? "-" : "",
                 human_bytes(room, (uint64_t)fabs(v)));
        put_text(t, sized);
    } else if (is_int) {
        textable_int(t, c->i);
    } else {
        snprintf(room, sizeof(room), "%.3g", v);
        put_text(t, room);
    }
}

static void put_exact(struct textable *t, const struct answer_column *col,
                      const struct answer_cell *c)
{
    if (col->type == ANSWER_TEXT && c->text)
        put_text(t, c->text);
    else if (col->type == ANSWER_INT && c->i != FLEETDB_NONE)
        textable_int(t, c->i);
    else if ((col->type == ANSWER_REAL || col->type == ANSWER_SHARE) && !isnan(c->f))
        textable_real(t, c->f);
    else
        textable_null(t);
}

static enum textable_kind kind_of(const struct answer_column *col, bool people)
{
    return col->type == ANSWER_TEXT              ? TEXTABLE_TEXT
           : col->type == ANSWER_SHARE && people ? TEXTABLE_SHARE
           : col->type == ANSWER_INT || people   ? TEXTABLE_INT
                                                 : TEXTABLE_REAL;
}

int answer_print(struct cli *cli, const struct answer *a, int64_t limit)
{
    bool people = cli_format(cli) == TEXTABLE_ALIGNED;
    struct textable *t = textable_new();
    size_t n = people && limit && (size_t)limit < a->nrow ? (size_t)limit : a->nrow;

    if (!t)
        return cli_out_of_memory();
    if (people && a->nrow == 0) {
        textable_free(t);
        cli_remark(cli, "nothing of it was recorded");
        return CLI_OK;
    }
    for (int c = 0; c < a->ncol; c++) {
        char room[HEADING_ROOM];

        heading(a->col[c].name, room);
        textable_column(t, people ? room : a->col[c].name, kind_of(&a->col[c], people));
        textable_optional(t, people && c > 2 ? a->ncol - c : 0);
    }
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < a->ncol; c++)
            (people ? put_people : put_exact)(t, &a->col[c], answer_at(a, i, c));
    return cli_print_table(cli, t);
}

void answer_json(struct json_writer *w, const struct answer *a)
{
    json_array(w);
    for (size_t i = 0; i < a->nrow; i++) {
        json_object(w);
        for (int c = 0; c < a->ncol; c++) {
            const struct answer_cell *cell = answer_at(a, i, c);

            json_key(w, a->col[c].name);
            if (a->col[c].type == ANSWER_TEXT && cell->text)
                json_cstr(w, cell->text);
            else if (a->col[c].type == ANSWER_INT && cell->i != FLEETDB_NONE)
                json_i64(w, cell->i);
            else if (a->col[c].type != ANSWER_INT && a->col[c].type != ANSWER_TEXT &&
                     !isnan(cell->f))
                json_f64(w, cell->f);
            else
                json_null(w);
        }
        json_object_end(w);
    }
    json_array_end(w);
}

int fleetrows_print(struct cli *cli, struct fleetrows *rows)
{
    struct textable *t = textable_new();
    int ncol = fleetrows_columns(rows), more = 0;
    opm_error err;

    if (!t)
        return cli_out_of_memory();
    for (int c = 0; c < ncol; c++)
        textable_column(t, fleetrows_name(rows, c), TEXTABLE_ANY);
    for (;;) {
        more = fleetrows_next(rows, &err);
        if (more != 1)
            break;
        for (int c = 0; c < ncol; c++) {
            size_t len = 0;
            const char *text = fleetrows_text(rows, c, &len);

            switch (fleetrows_type(rows, c)) {
            case OPM_TYPE_INT:
                textable_int(t, fleetrows_int(rows, c));
                break;
            case OPM_TYPE_REAL:
                textable_real(t, fleetrows_real(rows, c));
                break;
            case OPM_TYPE_TEXT:
                textable_text(t, text, len);
                break;
            default:
                textable_null(t);
            }
        }
    }
    if (more < 0) {
        textable_free(t);
        return cli_error("%s", err.msg);
    }
    return cli_print_table(cli, t);
}

bool answer_is_database(const char *where)
{
    return fleetdb_is_url(where) || runsdb_is(where);
}

int answer_query(struct cli *cli, const char *where, const char *sql)
{
    struct fleetdb *db = NULL;
    struct fleetrows *rows = NULL;
    opm_error err;
    int rc;

    if (fleetdb_open(&db, where, FLEETDB_READ, &err) < 0)
        return cli_error("%s", err.msg);
    rc = fleetdb_query_of_user(db, sql, &rows, &err) < 0 ? cli_error("%s", err.msg)
                                                         : fleetrows_print(cli, rows);
    fleetrows_close(rows);
    fleetdb_close(db);
    return rc;
}

/* The only job there is. NULL after a message. */
static char *only_job(struct cli *cli, struct fleetdb *db)
{
    struct fleetrows *rows = NULL;
    opm_error err;
    char *job = NULL;
    int more = fleetdb_query(db, "SELECT job FROM rank_file GROUP BY job ORDER BY job LIMIT 2",
                             &rows, &err);

    if (more == 0)
        more = fleetrows_next(rows, &err);
    if (more == 1) {
        const char *text = fleetrows_text(rows, 0, NULL);

        job = mem_strdup(text ? text : "");
        more = fleetrows_next(rows, &err);
    } else if (more == 0) {
        cli->status = cli_error("%s has no job", fleetdb_name(db));
    }
    if (more == 1) {
        cli->status = cli_usage(cli,
                                "%s has several jobs: give the ID of one behind it ('opmeter job "
                                "%s' lists them)",
                                fleetdb_name(db), fleetdb_name(db));
        mem_free(job);
        job = NULL;
    } else if (more < 0) {
        cli->status = cli_error("%s", err.msg);
    }
    fleetrows_close(rows);
    return job;
}

int answer_table(struct cli *cli, enum question_id id, int argc, char **argv, int64_t limit)
{
    struct answer a = { 0 };
    struct fleetdb *db = NULL;
    char *job = NULL;
    opm_error err;
    int rc = CLI_OK;

    if (argc > 2)
        return cli_usage(cli, "a catalogue and the ID of one job are all that it takes");
    if (fleetdb_open(&db, argv[0], FLEETDB_READ, &err) < 0)
        return cli_error("%s", err.msg);
    job = argc > 1 ? mem_strdup(argv[1]) : only_job(cli, db);
    if (!job)
        rc = argc > 1 ? cli_out_of_memory() : cli->status;
    else if (question_ask(&questions[id], db, job, &a, &err) < 0)
        rc = cli_error("%s", err.msg);
    else
        rc = answer_print(cli, &a, limit);
    answer_release(&a);
    mem_free(job);
    fleetdb_close(db);
    return rc;
}
