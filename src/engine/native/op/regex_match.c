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

static bool in_ranges(const struct regex *r, const struct code *c, uint32_t x)
{
    for (uint32_t i = c->a; i < c->a + c->b; i++)
        if (x >= r->range[i].lo && x <= r->range[i].hi)
            return true;
    return false;
}

static bool has(const uint64_t set[2], uint32_t c)
{
    return set[c / 64] >> c % 64 & 1;
}

/* Is state i a class that has x? */
static bool accepts(const struct regex *r, uint32_t i, uint32_t x)
{
    if (x < 128)
        return has(r->ascii + (size_t)2 * i, x);
    return x != UTF8_BAD && r->code[i].kind == CODE_CLASS && in_ranges(r, &r->code[i], x);
}

/* The number of the next round. */
static uint32_t new_round(struct regex *r)
{
    if (++r->round == 0) { /* numbers are used up */
        memset(r->mark, 0, r->ncode * sizeof(*r->mark));
        r->round = 1;
    }
    return r->round;
}

void regex_index(struct regex *r)
{
    size_t n;

    for (size_t i = 0; i < r->ncode; i++)
        for (uint32_t c = 0; c < 128 && r->code[i].kind == CODE_CLASS; c++)
            if (in_ranges(r, &r->code[i], c))
                r->ascii[2 * i + c / 64] |= (uint64_t)1 << c % 64;
    r->first[0] = r->first[1] = 0;
    n = follow(r, r->list[0], 0, 0, new_round(r), "", 0, 0);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            r->first[k] |= r->ascii[(size_t)2 * r->list[0][i] + (size_t)k];
    /* What an empty match or an assertion leads to depends on the place. */
    for (size_t i = 0; i < r->ncode; i++)
        if (r->mark[i] == r->round &&
            (r->code[i].kind == CODE_MATCH || r->code[i].kind == CODE_ASSERT))
            r->first[0] = r->first[1] = UINT64_MAX;
}

bool regex_matches(struct regex *r, const char *s, size_t len)
{
    size_t n = follow(r, r->list[0], 0, 0, new_round(r), s, len, 0), at = 0;
    int now = 0;

    while (at < len && n) {
        uint32_t round = new_round(r), c;
        size_t more = 0;

        at += utf8_next(s + at, len - at, &c);
        for (size_t i = 0; i < n; i++)
            if (accepts(r, r->list[now][i], c))
                more = follow(r, r->list[!now], more, r->list[now][i] + 1, round, s, len, at);
        now = !now;
        n = more;
    }
    for (size_t i = 0; i < n && at == len; i++)
        if (r->code[r->list[now][i]].kind == CODE_MATCH)
            return true;
    return false;
}

/* States are in the order in which their matches began, so that of two ways to a state the one that
 * began first is kept. */
bool regex_finds(struct regex *r, const char *s, size_t len, size_t at, size_t *begin, size_t *end)
{
    bool found = false;
    size_t n = 0;
    int now = 0;

    for (uint32_t round = new_round(r);;) {
        uint32_t *list = r->list[now], *next = r->list[!now], c;
        size_t *from = r->from[now], more = n;

        if (!found) {
            while (n == 0 && at < len && (uint8_t)s[at] < 128 && !has(r->first, (uint8_t)s[at]))
                at++;
            more = follow(r, list, n, 0, round, s, len, at);
        }
        while (n < more)
            from[n++] = at;
        for (size_t i = 0; i < n; i++)
            if (r->code[list[i]].kind == CODE_MATCH) {
                found = true;
                *begin = from[i];
                *end = at;
                break;
            }
        while (found && n && from[n - 1] > *begin)
            n--;
        if (at >= len || (found && !n))
            return found;
        at += utf8_next(s + at, len - at, &c);
        round = new_round(r);
        more = 0;
        for (size_t i = 0; i < n; i++)
            if (accepts(r, list[i], c)) {
                size_t was = more;

                more = follow(r, next, more, list[i] + 1, round, s, len, at);
                while (was < more)
                    r->from[!now][was++] = from[i];
            }
        n = more;
        now = !now;
    }
}
