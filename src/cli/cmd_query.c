/* cmd_query.c -- run SQL over everything in a trace. */
#include "cli/answers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SQL_MAX_BYTES ((size_t)16 << 20)

static const char about[] =
    "Run one SQL statement that reads, over one trace or several merged into one. 'opmeter schema' "
    "lists the tables and columns. SQL may be '-': it is then read from standard input. Without "
    "--json or --csv the rows are aligned for reading.";

static int read_stdin(struct cli *cli, struct buf *sql)
{
    char chunk[16384];
    ssize_t n;

    cli->stdin_taken = true;
    sql->max = SQL_MAX_BYTES;
    for (;;) {
        n = read(STDIN_FILENO, chunk, sizeof(chunk));
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cli_error("standard input: %s", strerror(errno));
        buf_add(sql, chunk, (size_t)n);
        if (sql->failed)
            return cli_error("standard input: more than %zu bytes of SQL", SQL_MAX_BYTES);
    }
    return CLI_OK;
}

static int read_file(struct buf *sql, const char *path)
{
    struct io_map m = { 0 };
    opm_error err;

    if (io_map(&m, path, SQL_MAX_BYTES, &err) < 0)
        return cli_error("%s", err.msg);
    buf_add(sql, m.data, m.len);
    io_map_release(&m);
    return CLI_OK;
}

/* Without -f the last argument is the SQL, so a forgotten SQL turns a trace into one. */
static bool is_file(const char *path)
{
    struct stat st;

    return strcmp(path, "-") != 0 && stat(path, &st) == 0;
}

int cmd_query(struct cli *cli, int argc, char **argv)
{
    const char *file = NULL;
    const struct option opts[] = {
        OPT_STR('f', "file", &file, "FILE", "read the SQL from FILE ('-': standard input)"),
        CLI_TABLE_OPTIONS(cli),
        CLI_TRACE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc = CLI_OK;
    struct buf sql = { 0 };
    opm_trace *t = NULL;

    if (n < 0)
        return cli->status;
    if (!file) {
        if (n < 2)
            return cli_usage(cli,
                             n ? "a TRACE and the SQL are needed; there is only '%s'"
                               : "a TRACE and the SQL are needed",
                             argv[0]);
        n--;
        if (is_file(argv[n]))
            return cli_usage(cli, "the last argument must be the SQL, but '%s' is a file", argv[n]);
    } else if (n == 0) {
        return cli_usage(cli, "a TRACE is needed");
    }
    if (strcmp(file ? file : argv[n], "-") == 0)
        rc = read_stdin(cli, &sql);
    else if (file)
        rc = read_file(&sql, file);
    else
        buf_adds(&sql, argv[n]);
    if (sql.failed && rc == CLI_OK)
        rc = cli_out_of_memory();
    if (rc == CLI_OK && n == 1 && answer_is_database(argv[0])) {
        rc = answer_query(cli, argv[0], buf_str(&sql));
    } else if (rc == CLI_OK) {
        rc = cli_open(cli, &t, argv, n);
        if (rc == CLI_OK)
            rc = cli_print_query(cli, t, buf_str(&sql));
    }
    opm_trace_close(t);
    buf_release(&sql);
    return rc;
}
