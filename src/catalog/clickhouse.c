/* clickhouse.c -- see clickhouse.h: tables, insertions and answers.
 *
 * Every table has two names: NAME_rows has what was inserted, and NAME is a view of it that shows
 * the rows whose insertion was finished. An insertion is an attempt of blocks, each with a number
 * of its own that its rows bear as `batch`. When the connection breaks while a block is under way,
 * nobody knows whether it is there: it is sent again under another number. At the end rank_batch
 * gets the numbers of the blocks that count, in one block, which is there or not. If several
 * attempts at one unit were finished, the one with the lowest number is shown. Neither needs
 * anything of the server but that a block of an INSERT into one partition is atomic, which holds
 * for MergeTree without replicas and Keeper, too, unlike the deduplication of later versions.
 *
 * In a cluster each server has both, and NAME is Distributed over NAME_shown, so that each shard
 * leaves out and sums up its own rows; NAME_in takes rows and spreads them by rank. */
#include "catalog/clickhouse.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/gzip.h"
#include "base/system.h"
#include "catalog/click_http.h"
#include "catalog/click_text.h"
#include "catalog/kind.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CLICK_VERSION 4 /* of the tables; 2 had none of runs, 3 no rank_op_sum */
#define BLOCK_BYTES ((size_t)8 << 20)
#define BLOCK_ROWS ((size_t)200000) /* below what a server splits */

struct block {
    struct buf rows;
    size_t *batch; /* where the number of the insertion stands in each row */
    size_t n, cap;
};

struct clickhouse {
    struct click_http http;
    /* What is being added. */
    struct fleet_unit unit;
    int64_t attempt;
    struct {
        int64_t number;
        int table;
    } * id; /* of blocks that are there */
    size_t nid, id_cap;
    struct block block[CLICK_COUNT];
};

static const struct rollup_def *table_def(int table)
{
    return table < ROLLUP_COUNT ? &rollups[table] : &click_run_tables[table - ROLLUP_COUNT];
}

/* -- statements -- */

static int run(struct clickhouse *c, const char *sql, size_t host, bool no_database, opm_error *err)
{
    struct click_answer a = { 0 };
    const struct click_request q = { .sql = sql,
                                     .host = host,
                                     .no_database = no_database,
                                     .settings = "&insert_distributed_sync=1" };
    int rc = click_http_do(&c->http, &q, &a, err);

    buf_release(&a.body);
    return rc;
}

static int run_buf(struct clickhouse *c, struct buf *sql, size_t host, opm_error *err)
{
    int rc = sql->failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                         : run(c, buf_str(sql), host, false, err);

    buf_clear(sql);
    return rc;
}

#define ON_CLUSTER_ROOM (CLICK_CLUSTER_MAX + 20)

static const char *on_cluster(const struct clickhouse *c, char room[ON_CLUSTER_ROOM])
{
    /* One host, and the servers of a cluster tell each other; with all of them given they need not
     * be able to. */
    room[0] = '\0';
    if (c->http.cluster && c->http.nhost == 1)
        snprintf(room, ON_CLUSTER_ROOM, " ON CLUSTER '%s'", c->http.cluster);
    return room;
}

/* -- tables -- */

#define BATCH_COLUMNS \
    "job String, rank Int64, run String, unit String, attempt Int64, id Int64, added_ns Int64"
#define BATCH_SHOWN                                                                            \
    "SELECT job, rank, run, unit, id AS batch, added_ns FROM rank_batch_rows WHERE attempt IN" \
    " (SELECT min(attempt) FROM rank_batch_rows GROUP BY job, rank, run, unit)"
#define SHOWN_IDS                                     \
    "SELECT id FROM rank_batch_rows WHERE attempt IN" \
    " (SELECT min(attempt) FROM rank_batch_rows GROUP BY job, rank, run, unit)"

static int make_table(struct clickhouse *c, size_t host, const char *name, const char *columns,
                      const char *order, const char *shown, opm_error *err)
{
    const char *cluster = c->http.cluster;
    char room[ON_CLUSTER_ROOM];
    struct buf sql = { 0 };
    int rc;

    on_cluster(c, room);
    buf_addf(&sql,
             "CREATE TABLE IF NOT EXISTS %s_rows%s (%s) ENGINE = MergeTree PARTITION BY job"
             " ORDER BY (%s)",
             name, room, columns, order);
    rc = run_buf(c, &sql, host, err);
    buf_addf(&sql, "CREATE VIEW IF NOT EXISTS %s%s%s AS %s", name, cluster ? "_shown" : "", room,
             shown);
    if (rc == 0)
        rc = run_buf(c, &sql, host, err);
    if (cluster && rc == 0) {
        buf_addf(&sql,
                 "CREATE TABLE IF NOT EXISTS %s%s AS %s_shown ENGINE = Distributed('%s', %s,"
                 " %s_shown, rank)",
                 name, room, name, cluster, c->http.database, name);
        rc = run_buf(c, &sql, host, err);
        buf_addf(&sql,
                 "CREATE TABLE IF NOT EXISTS %s_in%s AS %s_rows ENGINE = Distributed('%s', %s,"
                 " %s_rows, rank)",
                 name, room, name, cluster, c->http.database, name);
        if (rc == 0)
            rc = run_buf(c, &sql, host, err);
    }
    buf_release(&sql);
    return rc;
}

/* Of tables of runs: rows of runs that are gone, the mark itself apart. */
static void leave_out_gone(const struct rollup_def *def, int table, struct buf *shown)
{
    if (table < ROLLUP_COUNT)
        return;
    buf_addf(shown,
             " AND (%s(ifNull(%s, ''), rank) NOT IN (SELECT run, rank FROM mark_rows WHERE gone = 1"
             " AND insertion IN (" SHOWN_IDS ")))",
             table == CLICK_mark ? "gone = 1 OR " : "", def->col[3].name);
}

static int make_one(struct clickhouse *c, size_t host, int table, opm_error *err)
{
    const struct rollup_def *def = table_def(table);
    static const char *const types[] = { [ROLLUP_STR] = "String",
                                         [ROLLUP_INT] = "Int64",
                                         [ROLLUP_I64] = "Nullable(Int64)",
                                         [ROLLUP_F64] = "Nullable(Float64)",
                                         [ROLLUP_TEXT] = "Nullable(String)",
                                         [ROLLUP_BYTES] = "Nullable(String)" };
    struct buf columns = { 0 }, shown = { 0 };
    int rc;

    buf_adds(&shown, "SELECT ");
    for (int i = 0; i < def->ncol; i++) {
        buf_addf(&columns, "%s%s %s", i ? ", " : "", def->col[i].name, types[def->col[i].type]);
        buf_addf(&shown, "%s%s", i ? ", " : "", def->col[i].name);
    }
    buf_addf(&shown, " FROM %s_rows WHERE %s IN (" SHOWN_IDS ")", def->name, def->col[2].name);
    leave_out_gone(def, table, &shown);
    rc = columns.failed || shown.failed
             ? opm__fail(err, OPM_ENOMEM, "out of memory")
             : make_table(c, host, def->name, buf_str(&columns), def->order, buf_str(&shown), err);
    buf_release(&columns);
    buf_release(&shown);
    return rc;
}

static int make_all(struct clickhouse *c, size_t host, opm_error *err)
{
    static const char *const views[] = {
#define VIEW(name, doc, sql) #name, sql,
#include "catalog/fleetviews.def"
#undef VIEW
    };
    char room[ON_CLUSTER_ROOM];
    struct buf sql = { 0 };
    int rc;

    on_cluster(c, room);
    buf_addf(&sql, "CREATE DATABASE IF NOT EXISTS %s%s", c->http.database, room);
    rc = run(c, buf_str(&sql), host, true, err);
    buf_clear(&sql);
    if (rc == 0)
        rc = make_table(c, host, "rank_batch", BATCH_COLUMNS, "job, rank, run, unit", BATCH_SHOWN,
                        err);
    /* The views of runs name what is made last. */
    for (int i = CLICK_COUNT - 1; i >= 0 && rc == 0; i--)
        rc = make_one(c, host, i, err);
    for (size_t i = 0; i < ARRAY_SIZE(views) && rc == 0; i += 2) {
        buf_addf(&sql, "CREATE VIEW IF NOT EXISTS %s%s AS %s", views[i], room, views[i + 1]);
        rc = run_buf(c, &sql, host, err);
    }
    buf_addf(&sql,
             "CREATE TABLE IF NOT EXISTS opmeter_version%s (version Int64) ENGINE = MergeTree"
             " PARTITION BY version ORDER BY version",
             room);
    if (rc == 0)
        rc = run_buf(c, &sql, host, err);
    buf_addf(&sql, "INSERT INTO opmeter_version (version) VALUES (%d)", CLICK_VERSION);
    if (rc == 0)
        rc = run_buf(c, &sql, host, err);
    buf_release(&sql);
    return rc;
}

/* *version of the tables there; 0: there are none. */
static int read_version(struct clickhouse *c, size_t host, long *version, opm_error *err)
{
    struct click_answer a = { 0 };
    const struct click_request q = { .sql = "SELECT max(version) FROM opmeter_version",
                                     .host = host };
    int rc = click_http_do(&c->http, &q, &a, err);
    char *end;

    *version = rc == 0 ? strtol(buf_str(&a.body), &end, 10) : 0;
    /* Something else that says 200 to everything would take rows and keep none. */
    if (rc == 0 && (end == buf_str(&a.body) || *end != '\n'))
        rc = opm__fail(err, OPM_EFORMAT, "%s: what answers there is no ClickHouse: '%.60s'",
                       buf_str(&c->http.name), buf_str(&a.body));
    if (rc < 0 && (a.code == 60 || a.code == 81)) /* no such table, no such database */
        rc = 0;
    buf_release(&a.body);
    return rc;
}

/* Rows that went past the tables of a cluster would lie on the wrong server, unseen by who adds the
 * same rank by way of them; without such tables there is nothing to spread rows by. */
static int check_cluster(struct clickhouse *c, size_t host, opm_error *err)
{
    struct click_answer a = { 0 };
    const struct click_request q = { .sql = "EXISTS TABLE rank_batch_in", .host = host };
    int rc = click_http_do(&c->http, &q, &a, err);
    bool spread = rc == 0 && buf_str(&a.body)[0] == '1';

    buf_release(&a.body);
    if (rc < 0 || spread == (c->http.cluster != NULL))
        return rc;
    return spread ? opm__fail(err, OPM_EINVAL,
                              "%s has tables of a cluster: give all hosts and ?cluster=NAME to add "
                              "to it",
                              buf_str(&c->http.name))
                  : opm__fail(err, OPM_EINVAL,
                              "%s has tables of one server alone: add to it without cluster=, or "
                              "to another database",
                              buf_str(&c->http.name));
}

/* Of one server: *version as read_version(), if we can do with what is there. */
static int look_at(struct clickhouse *c, size_t host, enum fleetdb_use use, long *version,
                   opm_error *err)
{
    int rc = read_version(c, host, version, err);

    if (rc == 0 && *version > CLICK_VERSION)
        rc = opm__fail(err, OPM_EVERSION,
                       "%s has tables of a newer opmeter (version %ld, this one knows %d): use "
                       "that one",
                       buf_str(&c->http.name), *version, CLICK_VERSION);
    return rc == 0 && *version && use == FLEETDB_ADD ? check_cluster(c, host, err) : rc;
}

static int check_readable(const struct clickhouse *c, long version, opm_error *err)
{
    if (version == CLICK_VERSION)
        return 0;
    return version ? opm__fail(err, OPM_EFORMAT,
                               "%s has tables of an older opmeter (version %ld): the next 'opmeter "
                               "add' brings them up to date",
                               buf_str(&c->http.name), version)
                   : opm__fail(err, OPM_ENOTFOUND,
                               "%s has no runs and no ranks: 'opmeter add --to' makes the tables "
                               "and adds them",
                               buf_str(&c->http.name));
}

/* Nothing is made before all servers of a cluster were looked at. */
static int prepare(struct clickhouse *c, enum fleetdb_use use, opm_error *err)
{
    bool all = use == FLEETDB_ADD && c->http.cluster;
    size_t n = all ? c->http.nhost : 1;
    long version[CLICK_HOSTS_MAX];
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = look_at(c, all ? i : SIZE_MAX, use, &version[i], err);
    if (rc == 0 && use == FLEETDB_READ)
        return check_readable(c, version[0], err);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (version[i] != CLICK_VERSION)
            rc = make_all(c, all ? i : SIZE_MAX, err);
    return rc;
}

int clickhouse_open(struct clickhouse **out, const char *url, enum fleetdb_use use, opm_error *err)
{
    struct clickhouse *c = mem_calloc(1, sizeof(*c));
    int rc = c ? click_http_open(&c->http, url, err) : opm__fail(err, OPM_ENOMEM, "out of memory");

    if (rc == 0)
        rc = prepare(c, use, err);
    if (rc < 0)
        clickhouse_close(c);
    else
        *out = c;
    return rc;
}

void clickhouse_close(struct clickhouse *c)
{
    if (!c)
        return;
    clickhouse_rollback(c);
    for (size_t i = 0; i < CLICK_COUNT; i++) {
        buf_release(&c->block[i].rows);
        mem_free(c->block[i].batch);
    }
    mem_free(c->id);
    click_http_close(&c->http);
    mem_free(c);
}

const char *clickhouse_name(const struct clickhouse *c)
{
    return buf_str(&c->http.name);
}

/* -- rows in -- */

static int random_id(int64_t *out, opm_error *err)
{
    if (!system_random(out, sizeof(*out)))
        return opm__fail(err, OPM_EIO, "no random numbers: %s", strerror(errno));
    *out &= INT64_MAX;
    return 0;
}

int clickhouse_begin(struct clickhouse *c, const struct fleet_unit *u, opm_error *err)
{
    clickhouse_rollback(c);
    c->unit = *u;
    return random_id(&c->attempt, err);
}

void clickhouse_rollback(struct clickhouse *c)
{
    for (size_t i = 0; i < CLICK_COUNT; i++) {
        buf_clear(&c->block[i].rows);
        c->block[i].n = 0;
    }
    c->nid = 0;
}

static void put_int(struct buf *b, int64_t v)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)v >> 8 * i);
    buf_add(b, bytes, sizeof(bytes));
}

static void put_bytes(struct buf *b, const char *text, size_t len)
{
    for (size_t left = len;; left >>= 7) {
        buf_addc(b, (char)(left < 0x80 ? left : (left & 0x7f) | 0x80));
        if (left < 0x80)
            break;
    }
    buf_add(b, text, len);
}

static void put_text(struct buf *b, const char *text)
{
    put_bytes(b, text, text ? strlen(text) : 0);
}

static void put_cell(struct buf *b, enum rollup_type type, const struct rollup_cell *cell)
{
    int64_t bits;

    switch (type) {
    case ROLLUP_STR:
        put_text(b, cell->text);
        break;
    case ROLLUP_INT:
        put_int(b, cell->i);
        break;
    case ROLLUP_I64:
        buf_addc(b, cell->i == FLEETDB_NONE);
        if (cell->i != FLEETDB_NONE)
            put_int(b, cell->i);
        break;
    case ROLLUP_F64:
        buf_addc(b, !isfinite(cell->f));
        memcpy(&bits, &cell->f, sizeof(bits));
        if (isfinite(cell->f))
            put_int(b, bits);
        break;
    case ROLLUP_TEXT:
    case ROLLUP_BYTES:
        buf_addc(b, !cell->text);
        if (cell->text)
            put_bytes(b, cell->text, type == ROLLUP_BYTES ? cell->len : strlen(cell->text));
        break;
    }
}

/* One try to have rows inserted. *unsure: it failed, and they may be there. */
static int insert_once(struct clickhouse *c, const char *table, const char *columns,
                       const struct buf *packed, struct click_answer *a, opm_error *err)
{
    struct buf sql = { 0 };
    struct click_request q = { .body = packed->data,
                               .len = packed->len,
                               .host = SIZE_MAX,
                               .settings = "&insert_distributed_sync=1" };
    int rc;

    buf_addf(&sql, "INSERT INTO %s%s (%s) FORMAT RowBinary", table,
             c->http.cluster ? "_in" : "_rows", columns);
    q.sql = buf_str(&sql);
    rc = sql.failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                    : click_http_try(&c->http, &q, a, err);
    /* Rows that were taken are not talked about; somebody in between may say 200 to everything. */
    if (rc == 0 && a->body.len) {
        a->again = a->unsure = true;
        rc = opm__fail(err, OPM_EIO, "%s: what answers an insertion is no ClickHouse: '%.60s'",
                       buf_str(&c->http.name), buf_str(&a->body));
    }
    buf_release(&sql);
    return rc;
}

static int pack_block(struct buf *packed, struct block *b, int64_t id, opm_error *err)
{
    for (size_t i = 0; i < b->n; i++)
        for (int k = 0; k < 8; k++)
            b->rows.data[b->batch[i] + (size_t)k] = (char)((uint64_t)id >> 8 * k);
    buf_clear(packed);
    return gzip_pack(packed, b->rows.data, b->rows.len) < 0
               ? opm__fail(err, OPM_ENOMEM, "out of memory")
               : 0;
}

/* Send what a table has waiting: each try that may have reached the server has its own number. */
static int flush(struct clickhouse *c, int table, opm_error *err)
{
    const struct rollup_def *def = table_def(table);
    struct block *b = &c->block[table];
    struct click_answer a = { 0 };
    struct buf columns = { 0 }, packed = { 0 };
    bool fresh = true;
    int64_t id = 0;
    int rc = 0;

    if (b->n == 0)
        return 0;
    for (int i = 0; i < def->ncol; i++)
        buf_addf(&columns, "%s%s", i ? "," : "", def->col[i].name);
    for (long tried = 1;; tried++) {
        if (fresh) {
            rc = columns.failed ? OPM_ENOMEM : random_id(&id, err);
            if (rc == 0)
                rc = pack_block(&packed, b, id, err);
            if (rc < 0)
                break;
        }
        rc = insert_once(c, def->name, buf_str(&columns), &packed, &a, err);
        fresh = a.unsure;
        if (rc == 0 || !(a.again || a.unsure) || !click_http_wait(&c->http, tried))
            break;
    }
    if (rc == 0 && !GROW(c->id, c->id_cap, c->nid + 1))
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    if (rc == 0)
        c->id[c->nid].number = id, c->id[c->nid++].table = table;
    buf_clear(&b->rows);
    b->n = 0;
    buf_release(&a.body);
    buf_release(&columns);
    buf_release(&packed);
    return rc;
}

int clickhouse_put(struct clickhouse *c, int table, const struct rollup_cell *cells, opm_error *err)
{
    struct block *b = &c->block[table];
    const struct rollup_def *def = table_def(table);

    if (!GROW(b->batch, b->cap, b->n + 1))
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    put_text(&b->rows, c->unit.job);
    put_int(&b->rows, c->unit.rank);
    b->batch[b->n++] = b->rows.len;
    put_int(&b->rows, 0);
    for (int i = 3; i < def->ncol; i++)
        put_cell(&b->rows, def->col[i].type, &cells[i]);
    if (b->rows.failed)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    return b->n >= BLOCK_ROWS || b->rows.len >= BLOCK_BYTES ? flush(c, table, err) : 0;
}

/* A unit, the number of a block of it, and that it is there. */
static void put_id(struct clickhouse *c, struct buf *rows, const char *unit, int64_t id,
                   int64_t now_ns)
{
    put_text(rows, c->unit.job);
    put_int(rows, c->unit.rank);
    put_text(rows, c->unit.run);
    put_text(rows, unit);
    put_int(rows, c->attempt);
    put_int(rows, id);
    put_int(rows, now_ns);
}

/* Twice is as good as once: the same numbers. Units without a block have one row all the same. */
static int commit_ids(struct clickhouse *c, int64_t now_ns, opm_error *err)
{
    struct click_answer a = { 0 };
    struct buf rows = { 0 }, packed = { 0 };
    bool rollups_of_rank = c->unit.unit[0] == '\0';
    int rc = 0;

    put_id(c, &rows, c->unit.unit, c->attempt, now_ns);
    if (rollups_of_rank)
        put_id(c, &rows, FLEETDB_SUMS, c->attempt, now_ns);
    for (size_t i = 0; i < c->nid; i++)
        put_id(c, &rows,
               rollups_of_rank && c->id[i].table == ROLLUP_rank_op_sum ? FLEETDB_SUMS
                                                                       : c->unit.unit,
               c->id[i].number, now_ns);
    if (rows.failed || gzip_pack(&packed, rows.data, rows.len) < 0)
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    for (long tried = 1; rc == 0; tried++) {
        rc =
            insert_once(c, "rank_batch", "job,rank,run,unit,attempt,id,added_ns", &packed, &a, err);
        if (rc == 0 || !(a.again || a.unsure) || !click_http_wait(&c->http, tried))
            break;
        rc = 0;
    }
    buf_release(&a.body);
    buf_release(&rows);
    buf_release(&packed);
    return rc;
}

int clickhouse_commit(struct clickhouse *c, int64_t now_ns, opm_error *err)
{
    int rc = 0;

    for (int i = 0; i < CLICK_COUNT && rc == 0; i++)
        rc = flush(c, i, err);
    if (rc == 0)
        rc = commit_ids(c, now_ns, err);
    if (rc == 0)
        clickhouse_rollback(c);
    return rc;
}

/* -- rows out -- */

/* The server is asked to refuse what writes (readonly); this says so before it is asked. */
static bool reads(const char *sql)
{
    static const char *const words[] = { "SELECT", "WITH",   "SHOW",   "DESCRIBE",
                                         "DESC",   "EXISTS", "EXPLAIN" };
    size_t n;

    sql += strspn(sql, " \t\r\n(");
    n = strspn(sql, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (n == strlen(words[i]) && strncasecmp(sql, words[i], n) == 0)
            return true;
    return false;
}

int clickhouse_query(struct clickhouse *c, const char *sql, struct clickrows **out, opm_error *err)
{
    struct click_answer a = { 0 };
    struct buf text = { 0 };
    size_t len = strlen(sql);
    int rc;

    while (len && strchr("; \t\r\n", sql[len - 1]))
        len--;
    buf_add(&text, sql, len);
    buf_adds(&text, "\nFORMAT TabSeparatedWithNamesAndTypes");
    if (text.failed) {
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    } else if (!reads(sql)) {
        rc = opm__fail(err, OPM_EINVAL, "only statements that read can be run: SELECT ...");
    } else {
        const struct click_request q = { .sql = buf_str(&text),
                                         .host = SIZE_MAX,
                                         .settings =
                                             "&readonly=2&join_default_strictness=ALL"
                                             "&max_query_size=16777216&max_ast_elements=1000000" };

        rc = click_http_do(&c->http, &q, &a, err);
    }
    if (rc == 0)
        rc = clickrows_open(out, &a.body, buf_str(&c->http.name), err);
    buf_release(&a.body);
    buf_release(&text);
    return rc;
}

void clickhouse_quote(struct buf *sql, const char *text)
{
    buf_addc(sql, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            buf_addc(sql, '\\');
        buf_addc(sql, *text);
    }
    buf_addc(sql, '\'');
}
