/* grammar.c -- see grammar.h. */
#include "grammar.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULES_MAX 400
#define DEPTH_MAX 40 /* deeper, the first alternative is taken: it should lead nowhere */

/* A piece of an alternative: bytes, or another rule. */
struct part {
    char *text;
    size_t len;
    int rule; /* -1: text */
    unsigned least, most;
};

struct alternative {
    struct part *part;
    size_t npart;
    unsigned weight;
};

struct rule {
    char *name;
    struct alternative *alternative;
    size_t nalternative;
    unsigned weight;
    bool known;
};

struct grammar {
    struct rule rule[RULES_MAX];
    int nrule;
    int byte, event, file;
    uint64_t events;
};

struct maker {
    struct grammar *g;
    uint8_t *out;
    size_t len, max;
    uint64_t state;
};

static void die(const char *path, int line, const char *why)
{
    fprintf(stderr, "%s:%d: %s\n", path, line, why);
    exit(1);
}

static void *grow(void *p, size_t n, size_t size)
{
    p = realloc(p, n * size);
    if (!p)
        abort();
    return p;
}

static int rule_named(struct grammar *g, const char *name, size_t len)
{
    for (int i = 0; i < g->nrule; i++)
        if (strlen(g->rule[i].name) == len && memcmp(g->rule[i].name, name, len) == 0)
            return i;
    if (g->nrule == RULES_MAX)
        abort();
    g->rule[g->nrule] = (struct rule){ .name = strndup(name, len) };
    return g->nrule++;
}

static struct part *add_part(struct alternative *a)
{
    a->part = grow(a->part, a->npart + 1, sizeof(*a->part));
    a->part[a->npart] = (struct part){ .rule = -1, .least = 1, .most = 1 };
    return &a->part[a->npart++];
}

static void add_byte(struct alternative *a, char c)
{
    struct part *p = a->npart ? &a->part[a->npart - 1] : NULL;

    if (!p || p->rule >= 0)
        p = add_part(a);
    p->text = grow(p->text, p->len + 1, 1);
    p->text[p->len++] = c;
}

static const char *escape(struct alternative *a, const char *p, const char *path, int line)
{
    static const char from[] = "nrt\\<", to[] = "\n\r\t\\<";
    const char *at = *p ? strchr(from, *p) : NULL;

    if (at) {
        add_byte(a, to[at - from]);
        return p + 1;
    }
    if (*p == 'e')
        return p + 1;
    if (*p == 'x' && isxdigit((unsigned char)p[1]) && isxdigit((unsigned char)p[2])) {
        add_byte(a, (char)strtol((char[]){ p[1], p[2], '\0' }, NULL, 16));
        return p + 3;
    }
    die(path, line, "an escape that is none");
    return p;
}

static const char *reference(struct grammar *g, struct alternative *a, const char *p,
                             const char *path, int line)
{
    size_t len = strspn(p, "abcdefghijklmnopqrstuvwxyz_0123456789");
    const char *end = p + len;
    struct part *part;
    char how = *end;

    if (!len)
        die(path, line, "'<' without the name of a rule; \\< is the sign itself");
    part = add_part(a);
    part->rule = rule_named(g, p, len);
    if (how == '?') {
        part->least = 0;
        end++;
    } else if (how == '*' || how == '+') {
        char *rest;

        part->least = how == '+';
        part->most = (unsigned)strtoul(end + 1, &rest, 10);
        end = rest;
    }
    if (*end != '>')
        die(path, line, "'<' without '>'");
    return end + 1;
}

static void add_alternative(struct grammar *g, struct rule *r, const char *p, const char *path,
                            int line)
{
    struct alternative a = { .weight = 1 };

    if (*p == '@') {
        char *rest;

        a.weight = (unsigned)strtoul(p + 1, &rest, 10);
        p = *rest == ' ' ? rest + 1 : rest;
    }
    while (*p) {
        if (*p == '\\')
            p = escape(&a, p + 1, path, line);
        else if (*p == '<')
            p = reference(g, &a, p + 1, path, line);
        else
            add_byte(&a, *p++);
    }
    r->alternative = grow(r->alternative, r->nalternative + 1, sizeof(a));
    r->alternative[r->nalternative++] = a;
    r->weight += a.weight;
}

/* Forget what an included file said of a rule. */
static void begin_anew(struct rule *r)
{
    for (size_t i = 0; i < r->nalternative; i++) {
        for (size_t k = 0; k < r->alternative[i].npart; k++)
            free(r->alternative[i].part[k].text);
        free(r->alternative[i].part);
    }
    r->nalternative = r->weight = 0;
    r->known = true;
}

static void read_file(struct grammar *g, const char *path)
{
    char *text = NULL, beside[1024];
    size_t cap = 0;
    FILE *f = fopen(path, "re");
    struct rule *r = NULL;
    int line = 0;

    if (!f)
        die(path, 0, "cannot be read");
    while (getline(&text, &cap, f) >= 0) {
        line++;
        text[strcspn(text, "\n")] = '\0';
        if (!*text || *text == '#')
            continue;
        if (strncmp(text, "  ", 2) == 0) {
            if (!r)
                die(path, line, "an alternative of no rule");
            add_alternative(g, r, text + 2, path, line);
        } else if (strncmp(text, "include ", 8) == 0) {
            const char *slash = strrchr(path, '/');

            snprintf(beside, sizeof(beside), "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path,
                     text + 8);
            read_file(g, beside);
            r = NULL;
        } else if (text[strlen(text) - 1] == ':') {
            r = &g->rule[rule_named(g, text, strlen(text) - 1)];
            begin_anew(r);
        } else {
            die(path, line, "neither a rule nor an alternative");
        }
    }
    free(text);
    fclose(f);
}

struct grammar *grammar_load(const char *path)
{
    struct grammar *g = calloc(1, sizeof(*g));

    if (!g)
        abort();
    g->byte = rule_named(g, "byte", 4);
    g->rule[g->byte].known = true;
    read_file(g, path);
    g->event = rule_named(g, "event", 5);
    g->file = rule_named(g, "file", 4);
    for (int i = 0; i < g->nrule; i++)
        if (!g->rule[i].known) {
            fprintf(stderr, "%s: there is no rule '%s'\n", path, g->rule[i].name);
            exit(1);
        }
    return g;
}

static uint32_t any(struct maker *m, uint32_t below)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->state >> 33) % below;
}

static void make(struct maker *m, int number, int depth)
{
    const struct rule *r = &m->g->rule[number];
    const struct alternative *a = r->alternative;

    if (m->len >= m->max)
        return;
    if (number == m->g->byte) {
        m->out[m->len++] = (uint8_t)any(m, 256);
        return;
    }
    m->g->events += number == m->g->event;
    if (depth < DEPTH_MAX)
        for (uint32_t pick = any(m, r->weight); pick >= a->weight; a++)
            pick -= a->weight;
    for (size_t i = 0; i < a->npart; i++) {
        const struct part *p = &a->part[i];

        if (p->rule < 0) {
            size_t n = p->len < m->max - m->len ? p->len : m->max - m->len;

            memcpy(m->out + m->len, p->text, n);
            m->len += n;
            continue;
        }
        for (unsigned n = p->least + any(m, p->most - p->least + 1); n; n--)
            make(m, p->rule, depth + 1);
    }
}

static size_t make_rule(struct grammar *g, int rule, uint32_t seed, uint8_t *out, size_t max)
{
    struct maker m = { .g = g, .out = out, .max = max, .state = seed * 0x9e3779b97f4a7c15u + 1 };

    any(&m, 2);
    make(&m, rule, 0);
    return m.len;
}

size_t grammar_make(struct grammar *g, uint32_t seed, uint8_t *out, size_t max)
{
    return make_rule(g, g->file, seed, out, max);
}

size_t grammar_make_any(struct grammar *g, uint32_t seed, uint8_t *out, size_t max)
{
    return make_rule(g, (int)(seed % (uint32_t)g->nrule), seed / (uint32_t)g->nrule, out, max);
}

uint64_t grammar_events(const struct grammar *g)
{
    return g->events;
}
