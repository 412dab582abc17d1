/* text.c -- kernels on strings. */
#include "engine/native/op/text.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "engine/native/isa/half.h"
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"
#include "engine/native/op/regex.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <wctype.h>

bool text_put(const struct op *op, struct tensor_string *out, const char *s, size_t len)
{
    char *p = kernel_heap(op, len + 1);

    if (!p)
        return false;
    if (len)
        memcpy(p, s, len);
    p[len] = '\0';
    *out = (struct tensor_string){ p, len };
    return true;
}

/* -- a dictionary -- */

static uint64_t hash(const struct tensor_string *s)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < s->len; i++)
        h = (h ^ (uint8_t)s->s[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

int words_init(struct words *w, const struct tensor_string *word, size_t n)
{
    size_t size = 16;

    while (size < 2 * n)
        size *= 2;
    *w = (struct words){ word, mem_calloc(size, sizeof(*w->slot)), size - 1 };
    if (!w->slot)
        return OPM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        size_t at = hash(&word[i]) & w->mask;

        while (w->slot[at] && !text_equal(&word[w->slot[at] - 1], &word[i]))
            at = (at + 1) & w->mask;
        w->slot[at] = (uint32_t)i + 1;
    }
    return 0;
}

int64_t words_find(const struct words *w, const struct tensor_string *s)
{
    for (size_t at = hash(s) & w->mask; w->slot[at]; at = (at + 1) & w->mask)
        if (text_equal(&w->word[w->slot[at] - 1], s))
            return (int64_t)w->slot[at] - 1;
    return -1;
}

void words_release(struct words *w)
{
    mem_free(w->slot);
    *w = (struct words){ 0 };
}

/* -- Cast -- */

/* The fewest digits that give the number again, with a point or an exponent. */
static int float_text(char *out, size_t size, double x, bool single)
{
    int digits = single ? 6 : 15, n;

    if (isnan(x))
        return snprintf(out, size, "NaN");
    if (isinf(x))
        return snprintf(out, size, x < 0 ? "-INF" : "INF");
    do {
        n = snprintf(out, size, "%.*g", digits, x);
    } while (digits++ < 17 && (single ? strtof(out, NULL) != (float)x : strtod(out, NULL) != x));
    if (fabs(x) < 1e16 && strchr(out, 'e') && fabs(x) >= 1) /* plain as long as it is exact */
        n = snprintf(out, size, "%.0f", x);
    if (!strpbrk(out, ".e"))
        n = snprintf(out + n, size - (size_t)n, ".0") + n;
    return n;
}

static int number_text(const struct nt *x, int64_t i, enum tensor_type declared, char *out,
                       size_t size)
{
    if (tensor_type_float(x->type))
        return float_text(out, size, nt_float(x, i), declared != TENSOR_F64);
    if (x->type == TENSOR_U64)
        return snprintf(out, size, "%llu", (unsigned long long)((const uint64_t *)x->data)[i]);
    return snprintf(out, size, "%lld", (long long)nt_int(x, i));
}

static bool parse(const struct tensor_string *s, enum tensor_type to, struct nt *out, int64_t i)
{
    const char *text = s->len ? s->s : "";
    char *end = NULL;
    double real;
    int64_t n;

    if (s->len != strlen(text) || s->len == 0)
        return false;
    real = strtod(text, &end);
    if (*end)
        return false;
    errno = 0;
    n = strtoll(text, &end, 10);
    if (*end || errno) /* "1e5", "2.0" */
        n = isnan(real)      ? 0
            : real >= 0x1p63 ? INT64_MAX
            : real < -0x1p63 ? INT64_MIN
                             : (int64_t)real;
    switch (to) {
    case TENSOR_F32:
    case TENSOR_F16:
    case TENSOR_BF16:
        ((float *)out->data)[i] = strtof(text, NULL);
        if (to != TENSOR_F32)
            half_round((float *)out->data + i, 1, to);
        break;
    case TENSOR_F64:
        ((double *)out->data)[i] = real;
        break;
    case TENSOR_BOOL:
        ((uint8_t *)out->data)[i] = real != 0;
        break;
    case TENSOR_U64:
        ((uint64_t *)out->data)[i] = strtoull(text, NULL, 10);
        break;
    default:
        memcpy((char *)out->data + (size_t)i * nt_width(out->type), &n, nt_width(out->type));
    }
    return true;
}

int text_cast(struct op *op, enum tensor_type to, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    struct nt *y = kernel_out(op, 0);
    struct tensor_string *out = y->data;
    char text[64];

    for (int64_t i = 0; i < x->count; i++) {
        if (x->type == TENSOR_STRING && to == TENSOR_STRING)
            out[i] = nt_strings(x)[i];
        else if (x->type != TENSOR_STRING) {
            int n = number_text(x, i, x->type, text, sizeof(text));

            if (!text_put(op, &out[i], text, (size_t)n))
                return kernel_nomem(op, err);
        } else if (!parse(&nt_strings(x)[i], to, y, i))
            return kernel_fail(op, OPM_EINVAL, err, "'%.60s' is no number",
                               nt_strings(x)[i].len ? nt_strings(x)[i].s : "");
    }
    return 0;
}

/* -- StringConcat -- */

int stringconcat_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_STRING), err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_STRING), err);
    return rc ? rc : kernel_infer(op, err);
}

struct concat_job {
    struct broadcast b;
    struct op *op;
    const struct tensor_string *in[2];
    struct tensor_string *out;
    bool failed;
};

static void concat_row(void *arg, int64_t at, const int64_t *off, const int64_t *stride, int64_t n)
{
    struct concat_job *j = arg;

    for (int64_t i = 0; i < n; i++) {
        const struct tensor_string *a = &j->in[0][off[0] + i * stride[0]],
                                   *b = &j->in[1][off[1] + i * stride[1]];
        char *p = kernel_heap(j->op, a->len + b->len + 1);

        if (!p) {
            j->failed = true;
            return;
        }
        if (a->len)
            memcpy(p, a->s, a->len);
        if (b->len)
            memcpy(p + a->len, b->s, b->len);
        p[a->len + b->len] = '\0';
        j->out[at + i] = (struct tensor_string){ p, a->len + b->len };
    }
}

int stringconcat_run(struct op *op, opm_error *err)
{
    const struct nt *in[2] = { kernel_in(op, 0), kernel_in(op, 1) };
    struct nt *out = kernel_out(op, 0);
    struct concat_job j = { .op = op, .in = { nt_strings(in[0]), nt_strings(in[1]) } };

    j.out = out->data;
    broadcast_init(&j.b, &out->shape, in, 2);
    broadcast_each(&j.b, 0, out->count, concat_row, &j);
    return j.failed ? kernel_nomem(op, err) : 0;
}

/* -- StringNormalizer -- */

enum change { CHANGE_NONE, CHANGE_LOWER, CHANGE_UPPER };

struct normalizer {
    enum change change;
    bool sensitive;
    locale_t locale; /* 0: only ASCII has cases */
    struct words stop;
    struct tensor_string *lower; /* stop words as they are compared */
    size_t nstop;
    struct buf text;
};

static void normalizer_release(void *state)
{
    struct normalizer *s = state;

    for (size_t i = 0; s->lower && i < s->nstop; i++)
        mem_free((void *)(uintptr_t)s->lower[i].s);
    mem_free(s->lower);
    words_release(&s->stop);
    buf_release(&s->text);
    if (s->locale)
        freelocale(s->locale);
}

static void put_utf8(struct buf *b, uint32_t cp)
{
    if (cp >= 0x80) {
        int more = cp < 0x800 ? 1 : cp < 0x10000 ? 2 : 3;

        buf_addc(b, (char)((0xf0 << (3 - more) & 0xff) | cp >> 6 * more));
        while (more-- > 0)
            buf_addc(b, (char)(0x80 | (cp >> 6 * more & 0x3f)));
    } else
        buf_addc(b, (char)cp);
}

/* The text with letters of one case, in s->text; what is no UTF-8 stays. */
static void change_case(struct normalizer *s, const struct tensor_string *in, enum change to)
{
    s->text.len = 0;
    for (size_t i = 0, n; i < in->len; i += n) {
        uint32_t cp;

        n = utf8_next(in->s + i, in->len - i, &cp);
        if (cp == UTF8_BAD)
            buf_add(&s->text, in->s + i, n);
        else if (cp >= 0x80 && s->locale)
            put_utf8(&s->text, (uint32_t)(to == CHANGE_LOWER ? towlower_l(cp, s->locale)
                                                             : towupper_l(cp, s->locale)));
        else if (to == CHANGE_LOWER)
            put_utf8(&s->text, cp >= 'A' && cp <= 'Z' ? cp + 32 : cp);
        else
            put_utf8(&s->text, cp >= 'a' && cp <= 'z' ? cp - 32 : cp);
    }
}

static int normalizer_open(struct op *op, struct normalizer *s, opm_error *err)
{
    const struct attr *stop = node_attr(op->node, "stopwords");
    const char *action = node_attr_str(op->node, "case_change_action", "NONE");

    if (stop && stop->type != ATTR_STRINGS)
        stop = NULL;
    s->change = strcmp(action, "LOWER") == 0   ? CHANGE_LOWER
                : strcmp(action, "UPPER") == 0 ? CHANGE_UPPER
                                               : CHANGE_NONE;
    s->sensitive = node_attr_int(op->node, "is_case_sensitive", 0) != 0;
    s->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    s->nstop = stop ? stop->n : 0;
    s->lower = mem_calloc(s->nstop + 1, sizeof(*s->lower));
    if (!s->lower)
        return kernel_nomem(op, err);
    for (size_t i = 0; i < s->nstop && !s->sensitive; i++) {
        char *p;

        change_case(s, &stop->string[i], CHANGE_LOWER);
        p = s->text.failed ? NULL : mem_calloc(s->text.len + 1, 1);
        if (!p)
            return kernel_nomem(op, err);
        if (s->text.len)
            memcpy(p, s->text.data, s->text.len);
        s->lower[i] = (struct tensor_string){ p, s->text.len };
    }
    return words_init(&s->stop, s->sensitive && stop ? stop->string : s->lower, s->nstop)
               ? kernel_nomem(op, err)
               : 0;
}

/* Is word i left out? */
static bool is_stop(struct normalizer *s, const struct tensor_string *word)
{
    struct tensor_string t;

    if (!s->nstop)
        return false;
    if (s->sensitive)
        return words_find(&s->stop, word) >= 0;
    change_case(s, word, CHANGE_LOWER);
    t = (struct tensor_string){ s->text.data, s->text.len };
    return words_find(&s->stop, &t) >= 0;
}

int stringnormalizer_prepare(struct op *op, opm_error *err)
{
    struct normalizer *s = op->state;
    const struct nt *x = kernel_in(op, 0);
    const struct tensor_string *in;
    struct shape shape;
    int64_t left = 0;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_STRING), err);

    if (!rc &&
        (x->shape.rank < 1 || x->shape.rank > 2 || (x->shape.rank == 2 && x->shape.dim[0] != 1)))
        rc = kernel_fail(op, OPM_EINVAL, err, "wants a list of words, or one row of them");
    if (!rc && (!s || !s->stop.slot)) {
        s = kernel_new_state(op, sizeof(*s));
        op->release = normalizer_release;
        rc = s ? normalizer_open(op, s, err) : kernel_nomem(op, err);
    }
    if (rc)
        return rc;
    in = kernel_data(op, 0);
    if (!in)
        return NEED_DATA;
    for (int64_t i = 0; i < x->count; i++)
        left += !is_stop(s, &in[i]);
    shape = x->shape;
    shape.dim[shape.rank - 1] = MAX(left, (int64_t)1); /* nothing left: one empty word */
    return kernel_set(op, 0, TENSOR_STRING, &shape, err);
}

int stringnormalizer_run(struct op *op, opm_error *err)
{
    struct normalizer *s = op->state;
    const struct nt *x = kernel_in(op, 0);
    struct tensor_string *out = kernel_out(op, 0)->data;
    int64_t n = 0, room = kernel_out(op, 0)->count;

    out[0] = (struct tensor_string){ "", 0 };
    for (int64_t i = 0; i < x->count && n < room; i++) {
        const struct tensor_string *word = &nt_strings(x)[i];

        if (is_stop(s, word))
            continue;
        out[n] = *word;
        if (s->change != CHANGE_NONE) {
            change_case(s, word, s->change);
            if (s->text.failed || !text_put(op, &out[n], s->text.data, s->text.len))
                return kernel_nomem(op, err);
        }
        n++;
    }
    return 0;
}

/* -- StringSplit -- */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next piece of a text, from *at on; false at the end. No delimiter: runs of white space. */
static bool next_piece(const struct tensor_string *s, const char *by, size_t nby, int64_t *left,
                       size_t *at, struct tensor_string *out)
{
    size_t i = *at, end;

    if (i > s->len)
        return false;
    if (!nby) {
        while (i < s->len && is_space(s->s[i]))
            i++;
        if (i == s->len)
            return false;
        end = i;
        while (end < s->len && !is_space(s->s[end]))
            end++;
        *at = end;
        if (*left == 0) { /* the rest, without the white space at its end */
            end = s->len;
            while (is_space(s->s[end - 1]))
                end--;
            *at = s->len;
        }
    } else {
        const char *p = *left && s->len ? memmem(s->s + i, s->len - i, by, nby) : NULL;

        end = p ? (size_t)(p - s->s) : s->len;
        *at = p ? end + nby : s->len + 1;
    }
    *left -= *left > 0;
    *out = (struct tensor_string){ s->len ? s->s + i : "", end - i };
    return true;
}

static int64_t pieces(const struct op *op, const struct tensor_string *s, struct tensor_string *out)
{
    const char *by = node_attr_str(op->node, "delimiter", "");
    int64_t left = node_attr_int(op->node, "maxsplit", -1), n = 0;
    struct tensor_string piece;
    size_t at = 0, nby = strlen(by);

    for (; next_piece(s, by, nby, &left, &at, &piece); n++)
        if (out)
            out[n] = piece;
    return n;
}

int stringsplit_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    const struct tensor_string *in;
    struct shape s;
    int64_t most = 0;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_STRING), err);

    if (rc)
        return rc;
    in = kernel_data(op, 0);
    if (!in)
        return NEED_DATA;
    if (x->shape.rank == SHAPE_RANK_MAX)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "too many dimensions");
    for (int64_t i = 0; i < x->count; i++)
        most = MAX(most, pieces(op, &in[i], NULL));
    s = x->shape;
    s.dim[s.rank++] = most;
    rc = kernel_set(op, 0, TENSOR_STRING, &s, err);
    return rc ? rc : kernel_set(op, 1, TENSOR_I64, &x->shape, err);
}

/* Pieces are parts of the input, which lives as long as the run; only their ends are not NUL. */
int stringsplit_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    struct nt *y = kernel_out(op, 0), *z = kernel_out(op, 1);
    int64_t most = y->shape.dim[y->shape.rank - 1];
    struct tensor_string *out = y->data;

    for (int64_t i = 0; i < x->count; i++, out += most) {
        int64_t n = pieces(op, &nt_strings(x)[i], out);

        for (int64_t k = 0; k < n; k++)
            if (!text_put(op, &out[k], out[k].s, out[k].len))
                return kernel_nomem(op, err);
        for (int64_t k = n; k < most; k++)
            out[k] = (struct tensor_string){ "", 0 };
        if (z)
            ((int64_t *)z->data)[i] = n;
    }
    return 0;
}

/* -- RegexFullMatch -- */

struct full_match {
    struct regex *regex;
};

static void full_match_release(void *state)
{
    regex_free(((struct full_match *)state)->regex);
}

int regexfullmatch_prepare(struct op *op, opm_error *err)
{
    const struct attr *a = node_attr(op->node, "pattern");
    bool given = a && a->type == ATTR_STRING && a->n == 1;
    struct full_match *m = kernel_new_state(op, sizeof(*m));
    const char *why;
    int rc = m ? kernel_want(op, 0, TYPE_BIT(TENSOR_STRING), err) : kernel_nomem(op, err);

    if (rc)
        return rc;
    op->release = full_match_release;
    if (!m->regex) {
        rc = regex_new(&m->regex, given ? a->string->s : "", given ? a->string->len : 0, &why);
        if (rc)
            return kernel_fail(op, rc, err, "the pattern '%.60s' %s",
                               node_attr_str(op->node, "pattern", ""), why);
    }
    return kernel_infer(op, err);
}

int regexfullmatch_run(struct op *op, opm_error *err)
{
    const struct full_match *m = op->state;
    const struct nt *x = kernel_in(op, 0);

    (void)err;
    for (int64_t i = 0; i < x->count; i++)
        ((uint8_t *)kernel_out(op, 0)->data)[i] =
            regex_matches(m->regex, nt_strings(x)[i].s, nt_strings(x)[i].len);
    return 0;
}
