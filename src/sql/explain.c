/* explain.c -- see explain.h. */
#include "sql/explain.h"

#include "base/error.h"
#include "base/nearest.h"
#include "sql/schema.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The best of the names offered so far. */
struct guess {
    const char *wanted;
    const char *name;
    size_t distance;
};

static void offer(struct guess *g, const char *name)
{
    size_t distance = nearest_distance(g->wanted, name);

    if (!g->name || distance < g->distance) {
        g->name = name;
        g->distance = distance;
    }
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Does word stand in text by itself? */
static bool mentions(const char *text, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = strcasestr(text, word); p; p = strcasestr(p + 1, word))
        if ((p == text || !is_word(p[-1])) && !is_word(p[len]))
            return true;
    return false;
}

static void offer_columns(struct guess *g, const struct table_def *def)
{
    for (int i = 0; i < def->ncol; i++)
        offer(g, def->col[i].name);
}

static void offer_tables(struct guess *g)
{
    const struct table_def *def;
    const char *kind;

    for (int i = 0;; i++) {
        def = schema_get(i, &kind);
        if (!def)
            break;
        offer(g, def->name);
    }
}

/* Columns of the table that qualifies the name, else of the tables that the statement names. */
static void offer_columns_of(struct guess *g, const char *table, const char *text)
{
    const struct table_def *def;
    const char *kind;

    for (int i = 0; table[0]; i++) {
        def = schema_get(i, &kind);
        if (!def)
            break;
        if (strcasecmp(def->name, table) == 0)
            offer_columns(g, def);
    }
    if (g->name)
        return;
    for (int i = 0;; i++) {
        def = schema_get(i, &kind);
        if (!def)
            break;
        if (mentions(text, def->name))
            offer_columns(g, def);
    }
}

static int fail_unknown(opm_error *err, int code, const char *message, const struct guess *g)
{
    if (g->name && nearest_close(g->wanted, g->distance))
        return opm__fail(err, code, "%s; did you mean '%s'?", message, g->name);
    return opm__fail(err, code, "%s; see 'opmeter schema'", message);
}

/* The part of message behind prefix, or NULL. */
static const char *behind(const char *message, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(message, prefix, len) == 0 ? message + len : NULL;
}

int explain_failure(opm_error *err, int code, const char *message, const char *text)
{
    const char *name = behind(message, "no such table: ");
    const char *dot;
    char quoted[80], table[80];
    struct guess g = { 0 };

    if (name) {
        dot = strrchr(name, '.');
        g.wanted = dot ? dot + 1 : name;
        offer_tables(&g);
        return fail_unknown(err, code, message, &g);
    }
    /* A write behind WITH or EXPLAIN, which SQLite refuses before it asks the authorizer. */
    if (strstr(message, "may not be modified"))
        return opm__fail(err, code, "only reading is allowed: %s", message);
    name = behind(message, "no such column: ");
    if (!name)
        return opm__fail(err, code, "%s", message);
    snprintf(quoted, sizeof(quoted), "\"%.70s\"", name);
    if (strstr(text, quoted))
        return opm__fail(err, code, "%s; text goes between single quotes: '%s'", message, name);
    dot = strrchr(name, '.');
    g.wanted = dot ? dot + 1 : name;
    snprintf(table, sizeof(table), "%.*s", dot ? (int)MIN(dot - name, 70) : 0, name);
    offer_columns_of(&g, table, text);
    return fail_unknown(err, code, message, &g);
}
