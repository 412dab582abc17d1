/* wildcard.c -- LIKE and GLOB.
 *
 * After a wildcard for any length only the last such one need be tried further on, so that time is
 * at most text times pattern, and can be interrupted. */
#include "sql/costly_int.h"
#include <ctype.h>
#include <string.h>

#define PATTERN_MAX 1000 /* bytes */
#define LOOK_EVERY 65536 /* steps */

struct wildcard {
    uint32_t all, one; /* the characters that stand for any; 0: none does */
    uint32_t escape;   /* LIKE */
    bool set;          /* GLOB has [a-z] */
    bool fold;         /* ASCII letters in any case */
};

/* The next code point as SQLite reads it; 0 at the end, where it stays. */
static uint32_t next(const unsigned char **s)
{
    uint32_t c = **s;

    if (c)
        (*s)++;
    if (c < 0xc0)
        return c;
    c &= c < 0xe0 ? 0x1f : c < 0xf0 ? 0x0f : 0x07;
    while ((**s & 0xc0) == 0x80)
        c = (c << 6) + (*(*s)++ & 0x3f);
    if (c < 0x80 || (c & 0xfffff800) == 0xd800 || (c & 0xfffffffe) == 0xfffe)
        c = 0xfffd;
    return c;
}

static bool same(const struct wildcard *w, uint32_t a, uint32_t b)
{
    if (a == b)
        return true;
    return w->fold && a < 0x80 && b < 0x80 && tolower((int)a) == tolower((int)b);
}

/* Whether c is in the set whose '[' was read; *p goes behind it. */
static bool in_set(const unsigned char **p, uint32_t c)
{
    uint32_t before = 0, m = next(p);
    bool seen = false, invert = m == '^';

    if (invert)
        m = next(p);
    if (m == ']') {
        seen = c == ']';
        m = next(p);
    }
    for (; m && m != ']'; m = next(p)) {
        if (m == '-' && **p != ']' && **p && before) {
            m = next(p);
            seen |= c >= before && c <= m;
            before = 0;
        } else {
            seen |= c == m;
            before = m;
        }
    }
    return m && seen != invert;
}

/* Where in s, or at its end, what follows a wildcard could begin. */
static const unsigned char *skip_ahead(const struct wildcard *w, const unsigned char *p,
                                       const unsigned char *s)
{
    unsigned char c = *p;
    char either[3] = { (char)c, (char)c, '\0' };

    if (c >= 0x80 || c == w->one || c == w->all || c == w->escape || (w->set && c == '['))
        return s;
    if (w->fold) {
        either[0] = (char)tolower(c);
        either[1] = (char)toupper(c);
    }
    return s + strcspn((const char *)s, either);
}

/* 1, 0, or -1: stopped. */
static int match(sqlite3_context *ctx, const struct wildcard *w, const unsigned char *p,
                 const unsigned char *s)
{
    const unsigned char *back_p = NULL, *back_s = NULL;
    size_t steps = 0;

    for (;;) {
        uint32_t c = next(&p);
        bool hit;

        if ((++steps & (LOOK_EVERY - 1)) == 0 && costly_stopped(ctx))
            return -1;
        if (w->all && c == w->all) {
            if (!*p)
                return 1;
            back_p = p;
            back_s = s = skip_ahead(w, p, s);
            continue;
        }
        if (!c && !*s)
            return 1;
        if (!c) {
            hit = false;
        } else if (!*s) {
            return 0; /* fewer characters would be left after every other choice, too */
        } else if (w->escape && c == w->escape) {
            c = next(&p);
            if (!c)
                return 0;
            hit = same(w, c, next(&s));
        } else if (w->set && c == '[') {
            hit = in_set(&p, next(&s));
        } else {
            uint32_t given = next(&s);

            hit = (w->one && c == w->one) || same(w, c, given);
        }
        if (hit)
            continue;
        if (!back_p || !*back_s)
            return 0;
        next(&back_s);
        p = back_p;
        back_s = s = skip_ahead(w, p, back_s);
    }
}

static void compare(sqlite3_context *ctx, sqlite3_value **argv, const struct wildcard *w)
{
    const unsigned char *pattern, *text;
    int found;

    if ((sqlite3_value_type(argv[0]) == SQLITE_BLOB ||
         sqlite3_value_type(argv[1]) == SQLITE_BLOB) &&
        sqlite3_compileoption_used("LIKE_DOESNT_MATCH_BLOBS")) {
        sqlite3_result_int(ctx, 0);
        return;
    }
    pattern = sqlite3_value_text(argv[0]);
    if (sqlite3_value_bytes(argv[0]) > PATTERN_MAX) {
        sqlite3_result_error(ctx, "LIKE or GLOB pattern too complex", -1);
        return;
    }
    text = sqlite3_value_text(argv[1]);
    if (!pattern || !text)
        return;
    found = match(ctx, w, pattern, text);
    if (found >= 0)
        sqlite3_result_int(ctx, found);
}

void costly_like(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct wildcard w = { .all = '%', .one = '_', .fold = true };

    if (argc > 2) {
        const unsigned char *escape = sqlite3_value_text(argv[2]);

        if (!escape)
            return; /* NULL */
        w.escape = next(&escape);
        if (!w.escape || *escape) {
            sqlite3_result_error(ctx, "ESCAPE expression must be a single character", -1);
            return;
        }
        if (w.escape == w.all)
            w.all = 0;
        if (w.escape == w.one)
            w.one = 0;
    }
    compare(ctx, argv, &w);
}

void costly_glob(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    static const struct wildcard w = { .all = '*', .one = '?', .set = true };

    (void)argc;
    compare(ctx, argv, &w);
}
