/* expansion.c -- see expansion.h. */
#include "sql/expansion.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define TABLES_MAX 500
#define NESTED_MAX 100

struct word {
    const char *s;
    size_t len;
};

/* A table of WITH and how many queries a mention of it stands for. */
struct table_weight {
    struct word name;
    uint32_t weight;
};

/* A query of WITH that is being read. */
struct open_table {
    struct word name;
    int depth; /* of the parentheses it is in */
    uint32_t weight;
};

struct reader {
    struct table_weight table[TABLES_MAX];
    size_t ntable;
    struct open_table open[NESTED_MAX]; /* [0]: the statement itself */
    size_t nopen;
    int depth;
    bool huge;
};

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static char closing(char c)
{
    return c == '[' ? ']' : c;
}

/* Past white space and comments. */
static const char *skip_space(const char *p)
{
    for (;;) {
        const char *end = p;

        if (isspace((unsigned char)*p)) {
            p++;
        } else if (p[0] == '-' && p[1] == '-') {
            p += strcspn(p, "\n");
        } else if (p[0] == '/' && p[1] == '*') {
            end = strstr(p + 2, "*/");
            p = end ? end + 2 : p + strlen(p);
        } else {
            return p;
        }
    }
}

/* The name or word at p, without its quotes; its end, or NULL if there is none. */
static const char *read_word(const char *p, struct word *out)
{
    const char *s = p;

    if (*p && strchr("\"'`[", *p)) {
        const char *end = strchr(p + 1, closing(*p));

        *out = (struct word){ p + 1, end ? (size_t)(end - p - 1) : 0 };
        return end ? end + 1 : p + strlen(p);
    }
    while (is_letter(*p))
        p++;
    *out = (struct word){ s, (size_t)(p - s) };
    return p > s ? p : NULL;
}

static bool word_is(const struct word *w, const char *text)
{
    return strlen(text) == w->len && strncasecmp(w->s, text, w->len) == 0;
}

static bool same_word(const struct word *a, const struct word *b)
{
    return a->len == b->len && strncasecmp(a->s, b->s, a->len) == 0;
}

/* Past "(a, b)", if it is there. */
static const char *skip_columns(const char *p)
{
    size_t depth = 0;

    if (*p != '(')
        return p;
    for (; *p; p++) {
        depth += *p == '(';
        depth -= *p == ')';
        if (depth == 0)
            return skip_space(p + 1);
    }
    return p;
}

/* Behind the '(' of "[(columns)] AS [NOT] [MATERIALIZED] (", or NULL. */
static const char *read_as(const char *p)
{
    struct word w;
    const char *end;

    p = skip_columns(skip_space(p));
    end = read_word(p, &w);
    if (!end || !word_is(&w, "as"))
        return NULL;
    for (p = skip_space(end); *p != '('; p = skip_space(end)) {
        end = read_word(p, &w);
        if (!end || !(word_is(&w, "not") || word_is(&w, "materialized")))
            return NULL;
    }
    return p + 1;
}

static void begin_table(struct reader *r, const struct word *name)
{
    if (r->nopen == NESTED_MAX)
        r->huge = true;
    else
        r->open[r->nopen++] = (struct open_table){ *name, r->depth++, 1 };
}

static void end_table(struct reader *r)
{
    const struct open_table *t = &r->open[--r->nopen];

    if (r->ntable == TABLES_MAX)
        r->huge = true;
    else
        r->table[r->ntable++] = (struct table_weight){ t->name, t->weight };
}

/* The innermost of several tables of one name is the one that was defined last. */
static void mention(struct reader *r, const struct word *name)
{
    struct open_table *in = &r->open[r->nopen - 1];

    for (size_t i = r->ntable; i-- > 0;) {
        if (!same_word(&r->table[i].name, name))
            continue;
        in->weight += r->table[i].weight;
        r->huge |= in->weight > EXPANSION_MAX;
        return;
    }
}

static const char *read_name(struct reader *r, const char *p)
{
    struct word name;
    const char *end = read_word(p, &name), *body = read_as(end);

    if (body)
        begin_table(r, &name);
    else if (*skip_space(end) != '.' && *p != '\'')
        mention(r, &name);
    return body ? body : end;
}

bool expansion_is_huge(const char *sql)
{
    struct reader r = { .nopen = 1, .open = { { .depth = -1 } } };
    const char *p = skip_space(sql);

    while (*p && !r.huge) {
        if (is_letter(*p) || strchr("\"'`[", *p)) {
            p = read_name(&r, p);
        } else {
            r.depth += *p == '(';
            r.depth -= *p == ')';
            if (*p == ')' && r.nopen > 1 && r.open[r.nopen - 1].depth == r.depth)
                end_table(&r);
            p++;
        }
        p = skip_space(p);
    }
    return r.huge;
}
