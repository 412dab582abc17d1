/* regex_match.c -- follow all states of an expression's program through a text; see regex.h. */
#include "base/utf8.h"
#include "engine/native/op/regex_int.h"

#include <string.h>

/* -- the match -- */

static bool word(const char *s, size_t len, size_t at)
{
    char c = at < len ? s[at] : ' ';

    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool holds(enum assertion a, const char *s, size_t len, size_t at)
{
    bool edge = (at > 0 && word(s, len, at - 1)) != word(s, len, at);

    switch (a) {
    case AT_START:
        return at == 0;
    case AT_END:
        return at == len;
    case AT_LINE_START:
        return at == 0 || s[at - 1] == '\n';
    case AT_LINE_END:
        return at == len || s[at] == '\n';
    case AT_WORD_EDGE:
        return edge;
    default:
        return !edge;
    }
}

/* State `from` and those that are reached without a character go on the list, once each. */
static size_t follow(struct regex *r, uint32_t *list, size_t n, uint32_t from, uint32_t round,
                     const char *s, size_t len, size_t at)
{
    size_t depth = 0;

    r->stack[depth++] = from;
    while (depth) {
        uint32_t i = r->stack[--depth];
        const struct code *c = &r->code[i];

        if (r->mark[i] == round)
            continue;
        r->mark[i] = round;
        if (c->kind == CODE_SPLIT) {
            r->stack[depth++] = c->a;
            r->stack[depth++] = c->b;
        } else if (c->kind != CODE_ASSERT)
            list[n++] = i;
        else if (holds((enum assertion)c->a, s, len, at))
            r->stack[depth++] = i + 1;
    }
    return n;
}

static bool in_class(const struct regex *r, const struct code *c, uint32_t x)
{
    for (uint32_t i = c->a; i < c->a + c->b; i++)
        if (x >= r->range[i].lo && x <= r->range[i].hi)
            return true;
    return false;
}

bool regex_matches(struct regex *r, const char *s, size_t len)
{
    uint32_t round = 1;
    size_t n, at = 0;

    memset(r->mark, 0, r->ncode * sizeof(*r->mark));
    n = follow(r, r->list[0], 0, 0, round, s, len, 0);
    while (at < len && n) {
        uint32_t *now = r->list[(round + 1) % 2], *next = r->list[round % 2], c;
        size_t more = 0;

        at += utf8_next(s + at, len - at, &c);
        if (++round == 0) { /* numbers are used up */
            memset(r->mark, 0, r->ncode * sizeof(*r->mark));
            round = 2;
        }
        for (size_t i = 0; i < n && c != UTF8_BAD; i++)
            if (r->code[now[i]].kind == CODE_CLASS && in_class(r, &r->code[now[i]], c))
                more = follow(r, next, more, now[i] + 1, round, s, len, at);
        n = more;
    }
    for (size_t i = 0; i < n && at == len; i++)
        if (r->code[r->list[(round + 1) % 2][i]].kind == CODE_MATCH)
            return true;
    return false;
}
