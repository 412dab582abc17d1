/* cmd_schema.c -- list the tables and columns that a query can use. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/arena.h"

#include <ctype.h>
#include <string.h>

static const char about[] = "List the tables of a trace and of the analyses computed from it, with "
                            "the type and the meaning of "
                            "each column. With TABLE, only that one.";

/* One row per column, the tables in order. */
enum { FIELD_TABLE, FIELD_COLUMN, FIELD_TYPE, FIELD_DOC, FIELD_KIND, FIELD_TABLE_DOC, NFIELD };
static const char schema_sql[] =
    "SELECT table_name, column_name, type, doc, kind, table_doc FROM schema";

struct schema_line {
    const char *field[NFIELD];
};

struct schema {
    struct schema_line *entry;
    size_t n;
    size_t cap;
    struct arena strings;
};

static bool schema_add(struct schema *s, const opm_rows *r)
{
    if (!GROW(s->entry, s->cap, s->n + 1))
        return false;
    for (int i = 0; i < NFIELD; i++) {
        size_t len = 0;
        const char *text = opm_rows_text(r, i, &len);

        s->entry[s->n].field[i] = arena_strndup(&s->strings, text ? text : "", len);
        if (!s->entry[s->n].field[i])
            return false;
    }
    s->n++;
    return true;
}

/* All entries, or those of one table if it is not NULL. An exit code. */
static int schema_load(struct schema *s, const char *table)
{
    opm_trace *t = NULL;
    opm_rows *r = NULL;
    opm_error err = { 0 };
    int more = opm_trace_open(&t, NULL, 0, NULL, &err), rc = CLI_OK;

    if (more == 0)
        more = opm_trace_query(t, schema_sql, &r, &err);
    while (r && rc == CLI_OK) {
        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        if (!table || strcmp(opm_rows_text(r, FIELD_TABLE, NULL), table) == 0)
            rc = schema_add(s, r) ? CLI_OK : cli_out_of_memory();
    }
    if (more < 0)
        rc = cli_error("%s", err.msg);
    opm_rows_close(r);
    opm_trace_close(t);
    return rc;
}

static void schema_release(struct schema *s)
{
    mem_free(s->entry);
    arena_release(&s->strings);
}

/* Does a table begin with entry i? */
static bool starts_table(const struct schema *s, size_t i)
{
    return i == 0 ||
           strcmp(s->entry[i].field[FIELD_TABLE], s->entry[i - 1].field[FIELD_TABLE]) != 0;
}

static int unknown_table(const char *name)
{
    struct nearest n = { name, NULL, 0 };
    struct schema all = { 0 };
    int rc = schema_load(&all, NULL);

    for (size_t i = 0; i < all.n; i++)
        nearest_try(&n, all.entry[i].field[FIELD_TABLE]);
    if (rc == CLI_OK)
        rc = n.best ? cli_error("no such table '%s'; did you mean '%s'?", name, n.best)
                    : cli_error("no such table '%s'; 'opmeter schema' lists them", name);
    schema_release(&all);
    return rc;
}

static int print_text(struct cli *cli, const struct schema *s)
{
    int name_columns = 0, type_columns = 0, indent, rc;
    struct buf b = { 0 };

    for (size_t i = 0; i < s->n; i++) {
        name_columns = MAX(name_columns, (int)strlen(s->entry[i].field[FIELD_COLUMN]));
        type_columns = MAX(type_columns, (int)strlen(s->entry[i].field[FIELD_TYPE]));
    }
    indent = 2 + name_columns + 2 + type_columns + 2;
    for (size_t i = 0; i < s->n; i++) {
        const char *const *f = s->entry[i].field;

        if (starts_table(s, i)) {
            const char *kind = strcmp(f[FIELD_KIND], "table") == 0 ? "" : f[FIELD_KIND];

            buf_addf(&b, "%s%s%s%s%s%s: ", i ? "\n" : "", cli_style(cli, STYLE_BOLD),
                     f[FIELD_TABLE], cli_style(cli, STYLE_PLAIN), *kind ? ", " : "", kind);
            text_wrap(&b, f[FIELD_TABLE_DOC], (int)(strlen(f[FIELD_TABLE]) + strlen(kind)) + 4, 2,
                      cli_text_width());
            buf_addc(&b, '\n');
        }
        buf_addf(&b, "  %-*s  %-*s  ", name_columns, f[FIELD_COLUMN], type_columns, f[FIELD_TYPE]);
        text_wrap(&b, f[FIELD_DOC], indent, indent, cli_text_width());
        buf_addc(&b, '\n');
    }
    rc = b.failed ? cli_out_of_memory() : CLI_OK;
    io_out_adds(&cli->out, buf_str(&b));
    buf_release(&b);
    return rc;
}

static void json_text(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    json_cstr(w, text);
}

static int print_json(struct cli *cli, const struct schema *s)
{
    struct json_writer w = { .out = &cli->out };

    json_array(&w);
    for (size_t i = 0; i < s->n; i++) {
        const char *const *f = s->entry[i].field;

        json_newline(&w);
        if (starts_table(s, i)) {
            json_object(&w);
            json_text(&w, "name", f[FIELD_TABLE]);
            json_text(&w, "kind", f[FIELD_KIND]);
            json_text(&w, "doc", f[FIELD_TABLE_DOC]);
            json_key(&w, "columns");
            json_array(&w);
            json_newline(&w);
        }
        json_object(&w);
        json_text(&w, "name", f[FIELD_COLUMN]);
        json_text(&w, "type", f[FIELD_TYPE]);
        json_text(&w, "doc", f[FIELD_DOC]);
        json_object_end(&w);
        if (i + 1 == s->n || starts_table(s, i + 1)) {
            json_array_end(&w);
            json_object_end(&w);
        }
    }
    json_array_end(&w);
    io_out_adds(&cli->out, "\n");
    return CLI_OK;
}

/* The columns of the table that begins with entry i. */
static int print_markdown_table(struct cli *cli, const struct schema *s, size_t i)
{
    struct textable *t = textable_new();
    opm_error err;
    int rc;

    if (!t)
        return cli_out_of_memory();
    textable_column(t, "column", TEXTABLE_TEXT);
    textable_column(t, "type", TEXTABLE_TEXT);
    textable_column(t, "meaning", TEXTABLE_TEXT);
    do {
        for (int f = FIELD_COLUMN; f <= FIELD_DOC; f++)
            textable_text(t, s->entry[i].field[f], strlen(s->entry[i].field[f]));
        i++;
    } while (i < s->n && !starts_table(s, i));
    rc = textable_print(t, &cli->out, TEXTABLE_MARKDOWN, 0, false, &err);
    textable_free(t);
    return rc < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

/* "table" and so on as the heading of a chapter. */
static const char *chapter(const char *kind)
{
    return strcmp(kind, "table") == 0      ? "Tables"
           : strcmp(kind, "analysis") == 0 ? "Analyses: tables computed when first asked for"
                                           : "Views";
}

static int print_markdown(struct cli *cli, const struct schema *s)
{
    const char *kind = "";
    int rc = CLI_OK;

    io_out_adds(
        &cli->out,
        "# Tables and columns\n\n"
        "Written by `opmeter schema --markdown`; edit `src/store/tables.def`,\n"
        "`src/analyze/analyses.def` or `src/sql/views.def` instead. Use them with\n"
        "`opmeter query TRACE SQL` or `opm_trace_query()`; [query.md](query.md) has examples.\n\n"
        "Times are integer nanoseconds; `ts` counts from the start of the trace. A value that is\n"
        "not known is NULL, never 0.\n");
    for (size_t i = 0; i < s->n && rc == CLI_OK; i++) {
        const char *const *f = s->entry[i].field;

        if (!starts_table(s, i))
            continue;
        if (strcmp(kind, f[FIELD_KIND]) != 0)
            io_out_addf(&cli->out, "\n## %s\n", chapter(f[FIELD_KIND]));
        kind = f[FIELD_KIND];
        io_out_addf(&cli->out, "\n### %s\n\n%c%s.\n\n", f[FIELD_TABLE],
                    toupper((unsigned char)*f[FIELD_TABLE_DOC]), f[FIELD_TABLE_DOC] + 1);
        rc = print_markdown_table(cli, s, i);
    }
    return rc;
}

static int print_csv(struct cli *cli, const struct schema *s)
{
    static const char *const names[NFIELD] = { "table_name", "column_name", "type",
                                               "doc",        "kind",        "table_doc" };
    struct textable *t = textable_new();

    for (size_t i = 0; t && i < NFIELD; i++)
        textable_column(t, names[i], TEXTABLE_TEXT);
    for (size_t i = 0; t && i < s->n; i++)
        for (int f = 0; f < NFIELD; f++)
            textable_text(t, s->entry[i].field[f], strlen(s->entry[i].field[f]));
    return cli_print_table(cli, t);
}

int cmd_schema(struct cli *cli, int argc, char **argv)
{
    bool markdown = false;
    const struct option opts[] = {
        CLI_TABLE_OPTIONS(cli),
        OPT_BOOL(0, "markdown", &markdown, "print Markdown, as in docs/schema.md"),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc;
    struct schema s = { 0 };

    if (n < 0)
        return cli->status;
    if (n > 1)
        return cli_usage(cli, "one TABLE at most, but there is also '%s'", argv[1]);
    if (markdown && (cli->json || cli->csv))
        return cli_usage(cli, "--markdown and --%s exclude each other", cli->json ? "json" : "csv");
    rc = schema_load(&s, n ? argv[0] : NULL);
    if (rc == CLI_OK && s.n == 0 && n)
        rc = unknown_table(argv[0]);
    else if (rc == CLI_OK && markdown)
        rc = print_markdown(cli, &s);
    else if (rc == CLI_OK && cli->json)
        rc = print_json(cli, &s);
    else if (rc == CLI_OK && cli->csv)
        rc = print_csv(cli, &s);
    else if (rc == CLI_OK)
        rc = print_text(cli, &s);
    schema_release(&s);
    return rc;
}
