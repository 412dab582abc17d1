/* table.c -- see table.h. */
#include "cli/table.h"

#include "cli/ranking.h"

#include <stdio.h>
#include <string.h>

#define HEADING_ROOM 64

enum show { AS_IS, AS_TIME, AS_START, AS_SHARE, AS_BYTES, AS_COUNT, AS_RATE, AS_PROSE, AS_KERNEL };

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

static enum show show_of(const char *name)
{
    static const char *const counts[] = { "count",     "kernels", "copies",  "spans",
                                          "operators", "steps",   "samples", "segments" };

    if (ends_with(name, "_ns") || strcmp(name, "dur") == 0)
        return AS_TIME;
    if (strcmp(name, "ts") == 0 || ends_with(name, "_ts"))
        return AS_START;
    if (strcmp(name, "share") == 0 || strcmp(name, "busy") == 0 || strncmp(name, "of ", 3) == 0)
        return AS_SHARE;
    if (strcmp(name, "bytes") == 0)
        return AS_BYTES;
    if (ends_with(name, "/s"))
        return AS_RATE;
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        if (strcmp(name, counts[i]) == 0)
            return AS_COUNT;
    if (strcmp(name, "kernel") == 0)
        return AS_KERNEL;
    return strcmp(name, "action") == 0 ? AS_PROSE : AS_IS;
}

/* What is left out first where there is no room; 0: what never is. */
static int rank_of(const char *name)
{
    static const char *const ranked[] = { "steps",     "copies_ns",       "copies",
                                          "GB/s",      "operators",       "own_ns",
                                          "mean_ns",   "max_ns",          "min_ns",
                                          "copy_ns",   "longest_wait_ts", "batch",
                                          "jitter_ns", "p90_ns",          "device_per_token_ns" };

    for (size_t i = 0; i < ARRAY_SIZE(ranked); i++)
        if (strcmp(name, ranked[i]) == 0)
            return (int)i + 1;
    return 0;
}

/* "longest_wait_ns" as people say it. */
static void heading(const char *name, char room[HEADING_ROOM])
{
    if (strcmp(name, "ts") == 0)
        name = "start";
    else if (strcmp(name, "dur") == 0)
        name = "time";
    snprintf(room, HEADING_ROOM, "%s", name);
    if (ends_with(room, "_ns"))
        room[strlen(room) - 3] = '\0';
    else if (ends_with(room, "_ts"))
        memcpy(room + strlen(room) - 2, "at", 2);
    for (char *c = strchr(room, '_'); c; c = strchr(c, '_'))
        *c = ' ';
}

static void add_text(struct textable *t, const char *s)
{
    textable_text(t, s, strlen(s));
}

static void add_cell(struct textable *t, const opm_rows *r, int c, enum show show)
{
    enum opm_type type = opm_rows_type(r, c);
    char room[HUMAN_ROOM];

    if (show == AS_KERNEL && type == OPM_TYPE_TEXT) {
        struct buf b = { 0 };

        ranking_put_kernel(&b, opm_rows_text(r, c, NULL));
        textable_text(t, buf_str(&b), b.len);
        buf_release(&b);
        return;
    }
    if (show == AS_IS || show == AS_PROSE || type == OPM_TYPE_NULL || type == OPM_TYPE_TEXT) {
        cli_add_value(t, r, c);
        return;
    }
    switch (show) {
    case AS_IS:
    case AS_PROSE:
    case AS_KERNEL:
        break;
    case AS_TIME:
        add_text(t, human_ns(room, opm_rows_real(r, c)));
        break;
    case AS_START:
        snprintf(room, sizeof(room), "%.3f ms", opm_rows_real(r, c) / 1e6);
        add_text(t, room);
        break;
    case AS_SHARE:
        textable_real(t, opm_rows_real(r, c));
        break;
    case AS_BYTES:
        add_text(t, human_bytes(room, (uint64_t)opm_rows_int(r, c)));
        break;
    case AS_COUNT:
        add_text(t, human_count(room, opm_rows_int(r, c)));
        break;
    case AS_RATE:
        ranking_rate(t, opm_rows_real(r, c));
        break;
    }
}

static enum textable_kind kind_of(enum show show)
{
    return show == AS_IS || show == AS_KERNEL ? TEXTABLE_ANY
           : show == AS_PROSE                 ? TEXTABLE_PROSE
           : show == AS_SHARE                 ? TEXTABLE_SHARE
                                              : TEXTABLE_INT;
}

static int read_rows(opm_trace *trace, const char *sql, bool plain, int64_t limit,
                     struct textable *t, int64_t *rows)
{
    opm_rows *r = NULL;
    opm_error err;
    int more = opm_trace_query(trace, sql, &r, &err);

    while (more >= 0 && (!limit || *rows <= limit)) {
        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        for (int c = 0; *rows == 0 && c < opm_rows_columns(r); c++) {
            const char *name = opm_rows_name(r, c);
            char room[HEADING_ROOM];

            heading(name, room);
            textable_column(t, plain ? name : room, kind_of(plain ? AS_IS : show_of(name)));
            textable_optional(t, plain ? 0 : rank_of(name));
        }
        if ((*rows)++ == limit && limit)
            break;
        for (int c = 0; c < opm_rows_columns(r); c++)
            add_cell(t, r, c, plain ? AS_IS : show_of(opm_rows_name(r, c)));
    }
    opm_rows_close(r);
    return more < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

static int print(struct cli *cli, opm_trace *trace, const char *sql, bool plain, int64_t limit,
                 int64_t *rows)
{
    struct textable *t;
    int64_t n = 0;
    int rc;

    if (cli->json || cli->csv)
        return cli_print_query(cli, trace, sql);
    t = textable_new();
    if (!t)
        return cli_out_of_memory();
    rc = read_rows(trace, sql, plain, limit, t, &n);
    if (rows)
        *rows = n;
    if (rc == CLI_OK && n)
        return cli_print_table(cli, t);
    textable_free(t);
    return rc;
}

int table_print(struct cli *cli, opm_trace *trace, const char *sql, int64_t limit, int64_t *rows)
{
    return print(cli, trace, sql, false, limit, rows);
}

int table_print_plain(struct cli *cli, opm_trace *trace, const char *sql, int64_t limit,
                      int64_t *rows)
{
    return print(cli, trace, sql, true, limit, rows);
}
