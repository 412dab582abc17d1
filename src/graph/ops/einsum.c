/* einsum.c -- Einsum. */
#include "graph/ops/ops.h"

#include <string.h>

/* One term of an Einsum equation. dots is where "..." stands, or -1. */
struct term {
    char letter[SHAPE_RANK_MAX];
    int n;
    int dots;
};

/* Read a term of *p up to ',', '-' or the end. */
static bool read_term(const char **p, struct term *t)
{
    *t = (struct term){ .dots = -1 };
    for (; **p && **p != ',' && **p != '-'; ++*p) {
        if (**p == ' ')
            continue;
        if (**p == '.') {
            if ((*p)[1] != '.' || (*p)[2] != '.' || t->dots >= 0)
                return false;
            t->dots = t->n;
            *p += 2;
            continue;
        }
        if (t->n == SHAPE_RANK_MAX || !((**p >= 'a' && **p <= 'z') || (**p >= 'A' && **p <= 'Z')))
            return false;
        t->letter[t->n++] = **p; /* bounded: refused above */
    }
    return true;
}

struct einsum {
    int64_t size[128]; /* by letter; 0 x 80: not seen */
    int seen[128];
    struct shape dots;
};

/* Match a term with an operand's shape. */
static int match_term(const struct opview *o, struct einsum *e, const struct term *t,
                      const struct shape *s)
{
    int ndots = s->rank - t->n, at = 0;
    struct shape dots = { 0 };

    if (ndots < 0 || (t->dots < 0 && ndots > 0))
        return op_fail(o, "an operand has %d dimensions, the equation wants %d", s->rank, t->n);
    for (int i = 0; i <= t->n; i++) {
        if (i == t->dots) {
            for (int k = 0; k < ndots; k++)
                dots.dim[dots.rank++] = s->dim[at++];
        }
        if (i == t->n)
            break;
        int c = t->letter[i];
        int64_t d = s->dim[at++];

        if (e->seen[c] && e->size[c] != d && e->size[c] > 1 && d > 1)
            return op_fail(o, "'%c' is both %lld and %lld", c, (long long)e->size[c], (long long)d);
        if (!e->seen[c] || e->size[c] < 0 || e->size[c] == 1)
            e->size[c] = d;
        e->seen[c]++;
    }
    return op_broadcast(o, &e->dots, &dots, &e->dots);
}

int infer_einsum(const struct opview *o)
{
    const char *p = node_attr_str(o->n, "equation", "");
    struct einsum e = { .dots = { 0 } };
    struct term t, out = { .dots = -1 };
    struct shape s = { 0 };
    uint32_t operand = 0;
    int rc = 0;

    for (;; p++, operand++) {
        if (!read_term(&p, &t))
            return op_fail(o, "cannot read the equation");
        if (operand >= o->nin)
            return op_fail(o, "the equation has too many operands");
        if (op_rank(o, operand) < 0) {
            op_set(o, 0, op_type(o, 0), NULL);
            return 0;
        }
        rc = match_term(o, &e, &t, op_shape(o, operand));
        if (rc)
            return rc;
        if (*p != ',')
            break;
    }
    if (*p == '-') {
        if (p[1] != '>')
            return op_fail(o, "cannot read the equation");
        p += 2;
        if (!read_term(&p, &out) || *p)
            return op_fail(o, "cannot read the equation");
    } else { /* implicit: the letters seen once, in order of the alphabet, after the dots */
        out.dots = 0;
        for (int c = 0; c < 128; c++)
            if (e.seen[c] == 1 && out.n < SHAPE_RANK_MAX)
                out.letter[out.n++] = (char)c; /* bounded: compared above */
    }
    for (int i = 0; i <= out.n; i++) {
        for (int32_t k = 0; i == out.dots && k < e.dots.rank && s.rank < SHAPE_RANK_MAX; k++)
            s.dim[s.rank++] = e.dots.dim[k];
        if (i < out.n && !e.seen[(int)out.letter[i]])
            return op_fail(o, "'%c' is in no operand", out.letter[i]);
        if (i < out.n && s.rank < SHAPE_RANK_MAX)
            s.dim[s.rank++] = e.size[(int)out.letter[i]];
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* How many letters a term of an equation has, up to ',', '-' or its end. */
static int term_letters(const char *p)
{
    int n = 0;

    for (; *p && *p != ',' && *p != '-'; p++)
        n += *p != ' ' && *p != '.';
    return n;
}

/* 2 x N(out) x the letters that are summed over; a single operand is only summed or turned */
int64_t flops_einsum(const struct graph *g, const struct node *n, int cost)
{
    const char *p = node_attr_str(n, "equation", ""), *arrow = strstr(p, "->");
    int64_t size[128] = { 0 }, c = node_out_count(g, n);
    int seen[128] = { 0 }, at = 0;
    uint32_t slot = 0;

    (void)cost;
    if (n->nin == 1)
        return node_in_count(g, n, 0);
    for (; *p && p != arrow; p++) {
        const struct shape *s = node_in_shape(g, n, slot);
        unsigned char letter = (unsigned char)*p;
        int64_t d;

        if (*p == ',') {
            slot++;
            at = 0;
        } else if (*p == '.') {
            at = s->rank - term_letters(p); /* what follows the dots is counted from the end */
        } else if (*p != ' ' && letter < 128) {
            d = shape_at(s, at++);
            if (d < 0)
                return -1;
            size[letter] = MAX(size[letter], d);
            seen[letter]++;
        }
    }
    for (int i = 0; i < 128; i++)
        if (seen[i] && (arrow ? !strchr(arrow, i) : seen[i] > 1))
            c = count_mul(c, size[i]);
    return count_mul(c, 2);
}
