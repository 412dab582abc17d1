/* tokenizer.c -- com.microsoft's Tokenizer: texts become rows of tokens, all as long as the
 * longest.
 *
 * A text is cut into its characters, or at what matches any of several expressions, one after the
 * other, or its tokens are what matches one. Only the texts tell how many there are, so prepare()
 * finds them and run() copies them. */
#include "base/buf.h"
#include "base/utf8.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"
#include "engine/native/op/regex.h"
#include "engine/native/op/text.h"

struct piece {
    size_t at, len;
};

struct pieces {
    struct piece *p;
    size_t n, cap;
};

struct tokenizer {
    struct regex **cut, *token; /* separators or what tokens look like; neither: characters */
    size_t ncut;
    bool ready, failed;
    size_t least; /* characters of a token */
    struct pieces row, next;
    struct pieces all; /* in text */
    size_t *first;     /* of all: the first of each row, and their number */
    struct buf text;   /* each with a NUL behind it */
};

static void tokenizer_release(void *state)
{
    struct tokenizer *t = state;

    for (size_t i = 0; i < t->ncut; i++)
        regex_free(t->cut[i]);
    mem_free(t->cut);
    regex_free(t->token);
    mem_free(t->row.p);
    mem_free(t->next.p);
    mem_free(t->all.p);
    mem_free(t->first);
    buf_release(&t->text);
}

static int compile(const struct op *op, const struct tensor_string *pattern, struct regex **out,
                   opm_error *err)
{
    const char *why;
    int rc = regex_new(out, pattern->s ? pattern->s : "", pattern->len, &why);

    return rc ? kernel_fail(op, rc, err, "the pattern '%.*s' %s",
                            (int)MIN(pattern->len, (size_t)60), pattern->s ? pattern->s : "", why)
              : 0;
}

static int tokenizer_open(const struct op *op, struct tokenizer *t, opm_error *err)
{
    const struct attr *cut = node_attr(op->node, "separators"),
                      *token = node_attr(op->node, "tokenexp");
    int64_t least = node_attr_int(op->node, "mincharnum", 0);
    bool chars;
    int rc = 0;

    if (cut && (cut->type != ATTR_STRINGS || cut->n == 0))
        return kernel_fail(op, OPM_EINVAL, err, "attribute 'separators' is empty");
    if (!cut && (!token || token->type != ATTR_STRING || token->string->len == 0))
        return kernel_fail(op, OPM_EINVAL, err, "wants an attribute 'separators' or 'tokenexp'");
    if (least < 1)
        return kernel_fail(op, OPM_EINVAL, err, "attribute 'mincharnum' is %lld", (long long)least);
    t->least = (size_t)least;
    chars = cut ? cut->n == 1 && cut->string->len == 0
                : token->string->len == 1 && token->string->s[0] == '.';
    if (chars && least > 1)
        return kernel_fail(op, OPM_EINVAL, err, "tokens of one character and at least %lld",
                           (long long)least);
    if (!chars && cut) {
        t->cut = mem_calloc(cut->n, sizeof(*t->cut));
        if (!t->cut)
            return kernel_nomem(op, err);
        for (; t->ncut < cut->n && !rc; t->ncut += !rc)
            rc = compile(op, &cut->string[t->ncut], &t->cut[t->ncut], err);
    } else if (!chars)
        rc = compile(op, token->string, &t->token, err);
    t->ready = rc == 0;
    return rc;
}

/* Characters of UTF-8; -1: it is none. */
static int64_t characters(const char *s, size_t len)
{
    int64_t n = 0;

    for (size_t i = 0; i < len; n++) {
        uint32_t c;

        i += utf8_next(s + i, len - i, &c);
        if (c == UTF8_BAD)
            return -1;
    }
    return n;
}

static void add(struct tokenizer *t, struct pieces *to, const char *s, size_t begin, size_t end)
{
    if ((size_t)characters(s + begin, end - begin) < t->least)
        return;
    if (!GROW(to->p, to->cap, to->n + 1)) {
        t->failed = true;
        return;
    }
    to->p[to->n++] = (struct piece){ begin, end - begin };
}

static size_t one_more(const char *s, size_t len, size_t at)
{
    uint32_t c;

    return at < len ? at + utf8_next(s + at, len - at, &c) : len + 1;
}

/* A piece without what `cut` matches. Where that is nothing at all, a character goes. */
static void cut_piece(struct tokenizer *t, struct regex *cut, const char *s, struct piece in)
{
    const char *p = s + in.at;
    size_t at = 0, begin, end;

    while (at <= in.len && regex_finds(cut, p, in.len, at, &begin, &end)) {
        add(t, &t->next, s, in.at + at, in.at + begin);
        at = end > begin ? end : one_more(p, in.len, begin);
    }
    if (at <= in.len)
        add(t, &t->next, s, in.at + at, in.at + in.len);
}

/* Into t->row. */
static void find_tokens(struct tokenizer *t, const char *s, size_t len)
{
    size_t at = 0, begin, end;

    t->row.n = 0;
    if (t->token) {
        while (at <= len && regex_finds(t->token, s, len, at, &begin, &end)) {
            size_t were = t->row.n;

            add(t, &t->row, s, begin, end);
            at = t->row.n > were ? end : one_more(s, len, begin);
        }
        return;
    }
    if (!t->ncut) {
        for (; at < len; at = end) {
            end = one_more(s, len, at);
            add(t, &t->row, s, at, end);
        }
        return;
    }
    if (!GROW(t->row.p, t->row.cap, (size_t)1)) {
        t->failed = true;
        return;
    }
    t->row.p[t->row.n++] = (struct piece){ 0, len };
    for (size_t i = 0; i < t->ncut; i++) {
        struct pieces was = t->row;

        t->next.n = 0;
        for (size_t k = 0; k < t->row.n; k++)
            cut_piece(t, t->cut[i], s, t->row.p[k]);
        t->row = t->next;
        t->next = was;
    }
}

static void keep_row(struct tokenizer *t, const char *s)
{
    if (!GROW(t->all.p, t->all.cap, t->all.n + t->row.n)) {
        t->failed = true;
        return;
    }
    for (size_t i = 0; i < t->row.n; i++) {
        t->all.p[t->all.n++] = (struct piece){ t->text.len, t->row.p[i].len };
        buf_add(&t->text, s + t->row.p[i].at, t->row.p[i].len);
        buf_addc(&t->text, '\0');
    }
}

static int tokenize(const struct op *op, struct tokenizer *t, size_t *most, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);

    t->all.n = t->text.len = 0;
    t->failed = false;
    *most = 0;
    mem_free(t->first);
    t->first = mem_calloc((size_t)x->count + 1, sizeof(*t->first));
    if (!t->first)
        return kernel_nomem(op, err);
    for (int64_t i = 0; i < x->count; i++) {
        const struct tensor_string *in = &nt_strings(x)[i];
        const char *s = in->len ? in->s : "";

        if (characters(s, in->len) < 0)
            return kernel_fail(op, OPM_EINVAL, err, "text %lld is not UTF-8", (long long)i);
        find_tokens(t, s, in->len);
        keep_row(t, s);
        if (t->failed || t->text.failed)
            return kernel_nomem(op, err);
        t->first[i + 1] = t->all.n;
        *most = MAX(*most, t->row.n);
    }
    return 0;
}

int tokenizer_prepare(struct op *op, opm_error *err)
{
    struct tokenizer *t = kernel_new_state(op, sizeof(*t));
    const struct nt *x = kernel_in(op, 0);
    struct shape s;
    size_t most;
    int rc = t ? kernel_want(op, 0, TYPE_BIT(TENSOR_STRING), err) : kernel_nomem(op, err);

    if (rc)
        return rc;
    op->release = tokenizer_release;
    if (!t->ready)
        rc = tokenizer_open(op, t, err);
    if (!rc && (x->shape.rank < 1 || x->shape.rank > 2))
        rc = kernel_fail(op, OPM_EINVAL, err, "wants one or two dimensions, not %d", x->shape.rank);
    if (rc)
        return rc;
    if (!kernel_data(op, 0))
        return NEED_DATA;
    rc = tokenize(op, t, &most, err);
    if (rc)
        return rc;
    s = x->shape;
    if (x->count) /* of nothing: a dimension of none instead of the last one */
        s.rank++;
    s.dim[s.rank - 1] = most ? (int64_t)most + 2 * (node_attr_int(op->node, "mark", 0) != 0) : 0;
    return kernel_set(op, 0, TENSOR_STRING, &s, err);
}

int tokenizer_run(struct op *op, opm_error *err)
{
    const struct tokenizer *t = op->state;
    const struct nt *x = kernel_in(op, 0);
    struct nt *y = kernel_out(op, 0);
    struct tensor_string *out = y->data, pad;
    const char *fill = node_attr_str(op->node, "pad_value", "");
    bool mark = node_attr_int(op->node, "mark", 0) != 0;
    size_t width = (size_t)y->shape.dim[y->shape.rank - 1];
    char *text;

    if (!y->count)
        return 0;
    text = kernel_heap(op, t->text.len + 1);
    if (!text || !text_put(op, &pad, fill, strlen(fill)))
        return kernel_nomem(op, err);
    if (t->text.len)
        memcpy(text, t->text.data, t->text.len);
    for (int64_t i = 0; i < x->count; i++, out += width) {
        size_t n = 0;

        if (mark)
            out[n++] = (struct tensor_string){ "\002", 1 };
        for (size_t k = t->first[i]; k < t->first[i + 1]; k++)
            out[n++] = (struct tensor_string){ text + t->all.p[k].at, t->all.p[k].len };
        if (mark)
            out[n++] = (struct tensor_string){ "\003", 1 };
        while (n < width)
            out[n++] = pad;
    }
    return 0;
}
