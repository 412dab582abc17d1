/* regex.c -- see regex.h. An expression is parsed into a tree, and the tree written as a program,
 * repeated parts as often as they repeat. */
#include "base/alloc.h"
#include "base/utf8.h"
#include "engine/native/op/regex_int.h"

#include <opmeter/opmeter.h>

#include <string.h>

#define REPEAT_MAX 1000
#define CODE_MAX 100000
#define DEPTH_MAX 200
#define NONE UINT32_MAX
#define LAST_CHAR 0x10ffff

enum node_kind {
    NODE_EMPTY,
    NODE_CLASS,  /* a: first range, b: how many */
    NODE_ASSERT, /* a: enum assertion */
    NODE_THEN,   /* a, b */
    NODE_OR,     /* a, b */
    NODE_REPEAT, /* a, min times up to max; max NONE: no end */
};

struct tree_node {
    enum node_kind kind;
    uint32_t a, b, min, max;
};

struct parser {
    struct regex *r;
    const char *p, *end;
    bool fold, dot_all, lines;
    int depth, rc;
    const char *why;
};

static uint32_t fail(struct parser *s, int rc, const char *why)
{
    if (!s->rc) {
        s->rc = rc;
        s->why = why;
    }
    return NONE;
}

static uint32_t node_add(struct parser *s, struct tree_node n)
{
    struct regex *r = s->r;

    if (r->nnode >= CODE_MAX)
        return fail(s, OPM_ELIMIT, "is too long");
    if (!GROW(r->node, r->node_cap, r->nnode + 1))
        return fail(s, OPM_ENOMEM, "out of memory");
    r->node[r->nnode] = n;
    return (uint32_t)r->nnode++;
}

static void range_add(struct parser *s, uint32_t lo, uint32_t hi)
{
    struct regex *r = s->r;

    if (lo > hi)
        return;
    if (r->nrange >= CODE_MAX || !GROW(r->range, r->range_cap, r->nrange + 1)) {
        fail(s, r->nrange >= CODE_MAX ? OPM_ELIMIT : OPM_ENOMEM, "is too long");
        return;
    }
    r->range[r->nrange++] = (struct range){ lo, hi };
}

/* The same letters in the other case. Beyond ASCII there are but two that have one within it. */
static void fold_ranges(struct parser *s, size_t first)
{
    size_t end = s->r->nrange;

    for (size_t i = first; i < end && !s->rc; i++) {
        struct range x = s->r->range[i];

        if (x.hi > 127 && x.lo <= LAST_CHAR && !(x.lo <= 128 && x.hi == LAST_CHAR)) {
            fail(s, OPM_EUNSUPPORTED, "ignores the case of letters that are not ASCII");
            return;
        }
        for (uint32_t c = 'a'; c <= 'z'; c++) {
            if (x.lo <= c && c <= x.hi)
                range_add(s, c - 32, c - 32);
            if (x.lo <= c - 32 && c - 32 <= x.hi)
                range_add(s, c, c);
        }
        if ((x.lo <= 'k' && 'k' <= x.hi) || (x.lo <= 'K' && 'K' <= x.hi))
            range_add(s, 0x212a, 0x212a);
        if ((x.lo <= 's' && 's' <= x.hi) || (x.lo <= 'S' && 'S' <= x.hi))
            range_add(s, 0x17f, 0x17f);
    }
}

/* Ranges from `first` on become all others. */
static void negate_ranges(struct parser *s, size_t first)
{
    struct regex *r = s->r;
    size_t n = r->nrange - first;
    uint32_t from = 0;

    for (size_t i = first + 1; i < r->nrange; i++) /* few: by insertion */
        for (size_t k = i; k > first && r->range[k].lo < r->range[k - 1].lo; k--) {
            struct range t = r->range[k];

            r->range[k] = r->range[k - 1];
            r->range[k - 1] = t;
        }
    for (size_t i = 0; i < n && !s->rc; i++) {
        struct range x = r->range[first + i];

        if (x.lo > from)
            range_add(s, from, x.lo - 1);
        from = MAX(from, x.hi + 1);
    }
    range_add(s, from, LAST_CHAR);
    memmove(r->range + first, r->range + first + n, (r->nrange - first - n) * sizeof(*r->range));
    r->nrange -= n;
}

static uint32_t class_node(struct parser *s, size_t first)
{
    return node_add(s, (struct tree_node){ NODE_CLASS, (uint32_t)first,
                                           (uint32_t)(s->r->nrange - first), 0, 0 });
}

/* -- classes -- */

static const struct {
    const char *name;
    const char *ranges; /* pairs */
} posix[] = {
    { "alnum", "09AZaz" },
    { "alpha", "AZaz" },
    { "ascii", "\001\177" },
    { "blank", "\t\t  " },
    { "cntrl", "\001\037\177\177" },
    { "digit", "09" },
    { "graph", "!~" },
    { "lower", "az" },
    { "print", " ~" },
    { "punct", "!/:@[`{~" },
    { "space", "\t\r  " },
    { "upper", "AZ" },
    { "word", "09AZaz__" },
    { "xdigit", "09AFaf" },
};

static void add_pairs(struct parser *s, const char *pairs)
{
    for (; pairs[0] && pairs[1]; pairs += 2)
        range_add(s, (uint8_t)pairs[0], (uint8_t)pairs[1]);
}

/* \d and the like; false if it is none. */
static bool perl_class(struct parser *s, char c)
{
    size_t first = s->r->nrange;

    switch (c) {
    case 'd':
    case 'D':
        add_pairs(s, "09");
        break;
    case 's':
    case 'S':
        add_pairs(s, "\t\n\f\r  ");
        break;
    case 'w':
    case 'W':
        add_pairs(s, "09AZaz__");
        break;
    default:
        return false;
    }
    if (c < 'a')
        negate_ranges(s, first);
    return true;
}

/* [:alpha:] and [:^alpha:]; s->p is at the first colon. False if it is none. */
static bool posix_class(struct parser *s)
{
    const char *p = s->p + 1, *end = memmem(p, (size_t)(s->end - p), ":]", 2);
    bool no = p < s->end && *p == '^';
    size_t first = s->r->nrange;

    if (!end)
        return false;
    p += no;
    for (size_t i = 0; i < ARRAY_SIZE(posix); i++)
        if (strlen(posix[i].name) == (size_t)(end - p) &&
            memcmp(posix[i].name, p, (size_t)(end - p)) == 0) {
            add_pairs(s, posix[i].ranges);
            if (strcmp(posix[i].name, "ascii") == 0 || strcmp(posix[i].name, "cntrl") == 0)
                range_add(s, 0, 0);
            if (no)
                negate_ranges(s, first);
            s->p = end + 2;
            return true;
        }
    return false;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* \x41 or \x{1f600}, from behind the x. */
static uint32_t hex_char(struct parser *s)
{
    bool braces = s->p < s->end && *s->p == '{';
    uint32_t c = 0;
    int n = 0;

    s->p += braces;
    while (s->p < s->end && hex(*s->p) >= 0 && (braces || n < 2)) {
        c = c * 16 + (uint32_t)hex(*s->p++);
        if (++n > 6)
            break;
    }
    if (n == 0 || (!braces && n < 2) || c > LAST_CHAR ||
        (braces && (s->p >= s->end || *s->p++ != '}')))
        return fail(s, OPM_EINVAL, "has a broken \\x");
    return c;
}

/* A character after a backslash, which stands for one. */
static uint32_t escaped(struct parser *s)
{
    static const char from[] = "afnrtv", to[] = "\a\f\n\r\t\v";
    char c = s->p < s->end ? *s->p : '\0';
    const char *at = c ? strchr(from, c) : NULL;

    if (s->p >= s->end)
        return fail(s, OPM_EINVAL, "ends with a backslash");
    s->p++;
    if (at)
        return (uint8_t)to[at - from];
    if (c == 'x')
        return hex_char(s);
    if (c == '0') {
        uint32_t v = 0;

        for (int n = 0; n < 2 && s->p < s->end && *s->p >= '0' && *s->p <= '7'; n++)
            v = v * 8 + (uint32_t)(*s->p++ - '0');
        return v;
    }
    if (c >= '1' && c <= '9')
        return fail(s, OPM_EUNSUPPORTED, "refers to a group or has an octal number");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (uint8_t)c > 127)
        return fail(s, OPM_EUNSUPPORTED, "has an escape that is not known here");
    return (uint8_t)c;
}

static uint32_t next_char(struct parser *s)
{
    uint32_t c;

    s->p += utf8_next(s->p, (size_t)(s->end - s->p), &c);
    return c == UTF8_BAD ? fail(s, OPM_EINVAL, "is not UTF-8") : c;
}

static uint32_t class_char(struct parser *s)
{
    if (*s->p != '\\')
        return next_char(s);
    s->p++;
    return escaped(s);
}

/* From behind the bracket. */
static uint32_t parse_class(struct parser *s)
{
    bool no = s->p < s->end && *s->p == '^', any = false;
    size_t first = s->r->nrange;

    s->p += no;
    while (!s->rc && s->p < s->end && (*s->p != ']' || !any)) {
        uint32_t lo, hi;

        any = true;
        if (s->end - s->p > 1 && s->p[0] == '[' && s->p[1] == ':') {
            s->p++;
            if (posix_class(s))
                continue;
            return fail(s, OPM_EINVAL, "has a class of characters that is not known");
        }
        if (s->end - s->p > 1 && *s->p == '\\' && perl_class(s, s->p[1])) {
            s->p += 2;
            continue;
        }
        lo = hi = class_char(s);
        if (!s->rc && s->end - s->p > 1 && s->p[0] == '-' && s->p[1] != ']') {
            s->p++;
            hi = class_char(s);
        }
        if (!s->rc && hi < lo)
            fail(s, OPM_EINVAL, "has a range that ends before it begins");
        range_add(s, lo, hi);
    }
    if (!s->rc && s->p >= s->end)
        return fail(s, OPM_EINVAL, "lacks a ]");
    s->p++;
    if (s->fold)
        fold_ranges(s, first);
    if (no)
        negate_ranges(s, first);
    return class_node(s, first);
}

/* -- the tree -- */

static uint32_t parse_or(struct parser *s);

static uint32_t one_char(struct parser *s, uint32_t c)
{
    size_t first = s->r->nrange;

    range_add(s, c, c);
    if (s->fold)
        fold_ranges(s, first);
    return class_node(s, first);
}

static uint32_t assert_node(struct parser *s, enum assertion a)
{
    return node_add(s, (struct tree_node){ NODE_ASSERT, a, 0, 0, 0 });
}

static uint32_t dot(struct parser *s)
{
    size_t first = s->r->nrange;

    if (s->dot_all)
        range_add(s, 0, LAST_CHAR);
    else {
        range_add(s, 0, '\n' - 1);
        range_add(s, '\n' + 1, LAST_CHAR);
    }
    return class_node(s, first);
}

/* From behind a backslash outside of a class. */
static uint32_t parse_escape(struct parser *s)
{
    static const char names[] = "AzbB";
    static const enum assertion means[] = { AT_START, AT_END, AT_WORD_EDGE, AT_NO_WORD_EDGE };
    const char *at = s->p < s->end ? strchr(names, *s->p) : NULL;
    size_t first = s->r->nrange;
    uint32_t c;

    if (at && *s->p) {
        s->p++;
        return assert_node(s, means[at - names]);
    }
    if (s->p < s->end && perl_class(s, *s->p)) {
        s->p++;
        return class_node(s, first);
    }
    if (s->p < s->end && *s->p == 'Q') { /* up to \E as it stands */
        uint32_t all = node_add(s, (struct tree_node){ NODE_EMPTY, 0, 0, 0, 0 });

        s->p++;
        while (!s->rc && s->p < s->end &&
               !(s->end - s->p > 1 && s->p[0] == '\\' && s->p[1] == 'E')) {
            c = next_char(s);
            all = node_add(s, (struct tree_node){ NODE_THEN, all, one_char(s, c), 0, 0 });
        }
        s->p += MIN(s->end - s->p, (ptrdiff_t)2);
        return all;
    }
    c = escaped(s);
    return s->rc ? NONE : one_char(s, c);
}

/* Flags of (?flags) and (?flags:...), up to the character behind them. */
static void parse_flags(struct parser *s)
{
    bool on = true;

    for (; s->p < s->end && *s->p != ')' && *s->p != ':'; s->p++)
        switch (*s->p) {
        case '-':
            on = false;
            break;
        case 'i':
            s->fold = on;
            break;
        case 's':
            s->dot_all = on;
            break;
        case 'm':
            s->lines = on;
            break;
        case 'U':
            break;
        default:
            fail(s, OPM_EUNSUPPORTED, "has a group that is not known here");
            return;
        }
}

/* From behind the parenthesis. */
static uint32_t parse_group(struct parser *s)
{
    struct parser was = *s;
    uint32_t in;

    if (s->p < s->end && *s->p == '?') {
        s->p++;
        if (s->end - s->p > 1 &&
            (*s->p == 'P' ? s->p[1] == '<' : *s->p == '<' && s->p[1] != '=' && s->p[1] != '!')) {
            const char *close = memchr(s->p, '>', (size_t)(s->end - s->p));

            if (!close)
                return fail(s, OPM_EINVAL, "has a name that does not end");
            s->p = close + 1;
        } else {
            parse_flags(s);
            if (!s->rc && s->p < s->end && *s->p == ')') { /* for what follows */
                s->p++;
                return node_add(s, (struct tree_node){ NODE_EMPTY, 0, 0, 0, 0 });
            }
            s->p++;
        }
    }
    if (++s->depth > DEPTH_MAX)
        return fail(s, OPM_ELIMIT, "has too many groups in groups");
    in = s->rc ? NONE : parse_or(s);
    s->depth--;
    if (!s->rc && (s->p >= s->end || *s->p != ')'))
        return fail(s, OPM_EINVAL, "lacks a )");
    s->p++;
    s->fold = was.fold;
    s->dot_all = was.dot_all;
    s->lines = was.lines;
    return in;
}

static uint32_t parse_atom(struct parser *s)
{
    uint32_t c;

    switch (*s->p) {
    case '(':
        s->p++;
        return parse_group(s);
    case '[':
        s->p++;
        return parse_class(s);
    case '.':
        s->p++;
        return dot(s);
    case '^':
        s->p++;
        return assert_node(s, s->lines ? AT_LINE_START : AT_START);
    case '$':
        s->p++;
        return assert_node(s, s->lines ? AT_LINE_END : AT_END);
    case '\\':
        s->p++;
        return parse_escape(s);
    case '*':
    case '+':
    case '?':
        return fail(s, OPM_EINVAL, "repeats nothing");
    default:
        c = next_char(s);
        return s->rc ? NONE : one_char(s, c);
    }
}

/* {2}, {2,} or {2,5} at s->p; false: the brace stands for itself. */
static bool parse_counts(struct parser *s, uint32_t *min, uint32_t *max)
{
    const char *p = s->p + 1;
    uint32_t n[2] = { 0, NONE };
    int k = 0;

    for (; k < 2 && p < s->end; k++) {
        const char *from = p;
        uint32_t v = 0;

        for (; p < s->end && *p >= '0' && *p <= '9'; p++)
            v = MIN(v * 10 + (uint32_t)(*p - '0'), (uint32_t)REPEAT_MAX + 1);
        if (p > from)
            n[k] = v;
        else if (k == 0)
            return false;
        if (p >= s->end || *p != ',' || k)
            break;
        p++;
        if (p < s->end && *p == '}') { /* no end */
            k = 1;
            break;
        }
    }
    if (p >= s->end || *p != '}')
        return false;
    *min = n[0];
    *max = k ? n[1] : n[0];
    s->p = p + 1;
    return true;
}

static uint32_t parse_repeat(struct parser *s)
{
    uint32_t in = parse_atom(s);

    while (!s->rc && s->p < s->end) {
        uint32_t min = 0, max = NONE;

        if (*s->p == '{') {
            if (!parse_counts(s, &min, &max))
                break;
            if (min > REPEAT_MAX || (max != NONE && (max > REPEAT_MAX || max < min)))
                return fail(s, OPM_EINVAL, "repeats more often than 1000 times, or less than 0");
        } else if (*s->p == '*' || *s->p == '+' || *s->p == '?') {
            min = *s->p == '+';
            max = *s->p == '?' ? 1 : NONE;
            s->p++;
        } else
            break;
        if (s->p < s->end && *s->p == '?') /* lazy */
            s->p++;
        if (s->p < s->end && (*s->p == '*' || *s->p == '+' || *s->p == '?'))
            return fail(s, OPM_EINVAL, "repeats a repetition");
        in = node_add(s, (struct tree_node){ NODE_REPEAT, in, 0, min, max });
    }
    return in;
}

static uint32_t parse_then(struct parser *s)
{
    uint32_t all = node_add(s, (struct tree_node){ NODE_EMPTY, 0, 0, 0, 0 });

    while (!s->rc && s->p < s->end && *s->p != '|' && *s->p != ')') {
        uint32_t next = parse_repeat(s);

        all = node_add(s, (struct tree_node){ NODE_THEN, all, next, 0, 0 });
    }
    return all;
}

static uint32_t parse_or(struct parser *s)
{
    uint32_t all = parse_then(s);

    while (!s->rc && s->p < s->end && *s->p == '|') {
        uint32_t next;

        s->p++;
        next = parse_then(s);
        all = node_add(s, (struct tree_node){ NODE_OR, all, next, 0, 0 });
    }
    return all;
}

/* -- the program -- */

static uint32_t code_add(struct parser *s, enum code_kind kind, uint32_t a, uint32_t b)
{
    struct regex *r = s->r;

    if (r->ncode >= CODE_MAX)
        return fail(s, OPM_ELIMIT, "is too long");
    if (!GROW(r->code, r->code_cap, r->ncode + 1))
        return fail(s, OPM_ENOMEM, "out of memory");
    r->code[r->ncode] = (struct code){ kind, a, b };
    return (uint32_t)r->ncode++;
}

static void emit(struct parser *s, uint32_t at, int depth);

static void emit_repeat(struct parser *s, const struct tree_node *n, int depth)
{
    uint32_t split, start;

    for (uint32_t i = 0; i < n->min && !s->rc; i++)
        emit(s, n->a, depth);
    if (n->max == NONE) {
        split = code_add(s, CODE_SPLIT, 0, 0);
        if (s->rc)
            return;
        emit(s, n->a, depth);
        start = code_add(s, CODE_SPLIT, split, split);
        if (!s->rc)
            s->r->code[split] = (struct code){ CODE_SPLIT, split + 1, start + 1 };
        return;
    }
    for (uint32_t i = n->min; i < n->max && !s->rc; i++) {
        split = code_add(s, CODE_SPLIT, 0, 0);
        if (s->rc)
            return;
        emit(s, n->a, depth);
        s->r->code[split] = (struct code){ CODE_SPLIT, split + 1, (uint32_t)s->r->ncode };
    }
}

static void emit(struct parser *s, uint32_t at, int depth)
{
    struct tree_node n;
    uint32_t split, over;

    /* A sequence is as deep as it is long, on its left. */
    if (s->rc || depth > CODE_MAX / 10) {
        fail(s, OPM_ELIMIT, "is too long");
        return;
    }
    n = s->r->node[at];
    switch (n.kind) {
    case NODE_EMPTY:
        break;
    case NODE_CLASS:
        code_add(s, CODE_CLASS, n.a, n.b);
        break;
    case NODE_ASSERT:
        code_add(s, CODE_ASSERT, n.a, 0);
        break;
    case NODE_THEN:
        emit(s, n.a, depth + 1);
        emit(s, n.b, depth + 1);
        break;
    case NODE_OR:
        split = code_add(s, CODE_SPLIT, 0, 0);
        emit(s, n.a, depth + 1);
        over = code_add(s, CODE_SPLIT, 0, 0);
        emit(s, n.b, depth + 1);
        if (!s->rc) {
            s->r->code[split] = (struct code){ CODE_SPLIT, split + 1, over + 1 };
            s->r->code[over] =
                (struct code){ CODE_SPLIT, (uint32_t)s->r->ncode, (uint32_t)s->r->ncode };
        }
        break;
    case NODE_REPEAT:
        emit_repeat(s, &n, depth + 1);
    }
}

int regex_new(struct regex **out, const char *pattern, size_t len, const char **why)
{
    struct regex *r = mem_calloc(1, sizeof(*r));
    struct parser s = { .r = r, .p = pattern, .end = pattern + len };
    uint32_t root;

    *out = NULL;
    *why = "out of memory";
    if (!r)
        return OPM_ENOMEM;
    root = parse_or(&s);
    if (!s.rc && s.p < s.end)
        fail(&s, OPM_EINVAL, "has a ) too many");
    if (!s.rc)
        emit(&s, root, 0);
    code_add(&s, CODE_MATCH, 0, 0);
    for (int i = 0; i < 2; i++) {
        r->list[i] = mem_calloc(r->ncode + 1, sizeof(**r->list));
        r->from[i] = mem_calloc(r->ncode + 1, sizeof(**r->from));
    }
    r->mark = mem_calloc(r->ncode + 1, sizeof(*r->mark));
    r->stack = mem_calloc(2 * r->ncode + 2, sizeof(*r->stack));
    r->ascii = mem_calloc(2 * r->ncode + 2, sizeof(*r->ascii));
    if (!r->list[0] || !r->list[1] || !r->from[0] || !r->from[1] || !r->mark || !r->stack ||
        !r->ascii)
        fail(&s, OPM_ENOMEM, "out of memory");
    if (!s.rc)
        regex_index(r);
    mem_free(r->node);
    r->node = NULL;
    if (s.rc) {
        *why = s.why;
        regex_free(r);
        return s.rc;
    }
    *out = r;
    return 0;
}

void regex_free(struct regex *r)
{
    if (!r)
        return;
    mem_free(r->range);
    mem_free(r->node);
    mem_free(r->code);
    for (int i = 0; i < 2; i++) {
        mem_free(r->list[i]);
        mem_free(r->from[i]);
    }
    mem_free(r->mark);
    mem_free(r->stack);
    mem_free(r->ascii);
    mem_free(r);
}
