/* tokens.c -- what models of speech and text have around their layers: com.microsoft's
 * NGramRepeatBlock, NGramHashMapping, UnfoldTensor, DynamicTimeWarping, MurmurHash3 and
 * BifurcationDetector. */
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* Tokens so far, a row each; scores of the next one. */
int ngramblock_prepare(struct op *op, opm_error *err)
{
    const struct nt *ids, *scores;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_I64), err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    ids = kernel_in(op, 0);
    scores = kernel_in(op, 1);
    if (ids->shape.rank != 2 || scores->shape.rank != 2 ||
        ids->shape.dim[0] != scores->shape.dim[0] || node_attr_int(op->node, "ngram_size", 0) < 1)
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    return kernel_infer(op, err);
}

/* What would end an n-gram that was there before cannot come next. */
int ngramblock_run(struct op *op, opm_error *err)
{
    const struct nt *ids = kernel_in(op, 0), *scores = kernel_in(op, 1);
    struct nt *out = kernel_out(op, 0);
    int64_t n = node_attr_int(op->node, "ngram_size", 0), length = ids->shape.dim[1],
            words = scores->shape.dim[1];

    if (out->data != scores->data && out->bytes)
        memcpy(out->data, scores->data, out->bytes);
    for (int64_t row = 0; row < ids->shape.dim[0]; row++) {
        const int64_t *id = (const int64_t *)ids->data + row * length;
        const int64_t *tail = id + MAX(length - (n - 1), (int64_t)0);

        for (int64_t i = 0; i + n <= length; i++) {
            if (memcmp(id + i, tail, (size_t)(n - 1) * sizeof(*id)) != 0)
                continue;
            if (id[i + n - 1] < 0 || id[i + n - 1] >= words)
                return kernel_fail(op, OPM_EINVAL, err, "token %lld has no score",
                                   (long long)id[i + n - 1]);
            ((float *)out->data)[row * words + id[i + n - 1]] = -INFINITY;
        }
    }
    return 0;
}

int unfold_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES & ~TYPE_BIT(TENSOR_STRING), err);

    return rc ? rc : kernel_infer(op, err);
}

int unfold_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int axis = nt_axis(node_attr_int(op->node, "dim", -1), in->shape.rank);
    int64_t size = node_attr_int(op->node, "size", 0), step = node_attr_int(op->node, "step", 1);
    int64_t outer = nt_span(&in->shape, 0, axis), n = in->shape.dim[axis],
            inner = nt_span(&in->shape, axis + 1, in->shape.rank), places = out->shape.dim[axis];
    size_t width = nt_width(in->type);
    char *to = out->data;

    (void)err;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t p = 0; p < places; p++)
            for (int64_t i = 0; i < inner; i++)
                for (int64_t k = 0; k < size; k++, to += width)
                    memcpy(to,
                           (const char *)in->data +
                               (size_t)((o * n + p * step + k) * inner + i) * width,
                           width);
    return 0;
}

struct warping {
    int32_t *path; /* rows, then columns, from the last place to the first */
    int64_t length;
};

static void warping_release(void *state)
{
    struct warping *s = state;

    mem_free(s->path);
}

enum step { STEP_BOTH, STEP_ROW, STEP_COLUMN };

/* The step that each place of rows x columns is reached by at the least cost. */
static void find_steps(const float *x, int64_t rows, int64_t columns, float *cost, uint8_t *step)
{
    for (int64_t j = 0; j <= columns; j++)
        cost[j] = j ? INFINITY : 0;
    for (int64_t i = 1; i <= rows; i++) {
        float corner = cost[0];

        cost[0] = INFINITY;
        for (int64_t j = 1; j <= columns; j++) {
            float above = cost[j], before = cost[j - 1], least;
            enum step s = STEP_COLUMN;

            if (corner < above && corner < before)
                s = STEP_BOTH;
            else if (above < corner && above < before)
                s = STEP_ROW;
            least = s == STEP_BOTH ? corner : s == STEP_ROW ? above : before;
            corner = above;
            cost[j] = x[(i - 1) * columns + j - 1] + least;
            step[i * (columns + 1) + j] = (uint8_t)s;
        }
    }
}

int timewarping_prepare(struct op *op, opm_error *err)
{
    struct warping *s = op->state ? op->state : kernel_new_state(op, sizeof(*s));
    const struct nt *in;
    struct shape out = { 2, { 2, 0 } };
    int64_t rows, columns;
    float *cost;
    uint8_t *step;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!s)
        return kernel_nomem(op, err);
    op->release = warping_release;
    if (rc)
        return rc;
    in = kernel_in(op, 0);
    if (in->shape.rank < 2 || in->shape.rank > 3 || nt_span(&in->shape, 0, in->shape.rank - 2) != 1)
        return kernel_fail(op, OPM_EINVAL, err, "wants a matrix");
    if (!kernel_data(op, 0))
        return NEED_DATA;
    rows = in->shape.dim[in->shape.rank - 2];
    columns = in->shape.dim[in->shape.rank - 1];
    mem_free(s->path);
    s->path = mem_calloc((size_t)(2 * (rows + columns)) + 1, sizeof(*s->path));
    cost = mem_calloc((size_t)columns + 1, sizeof(*cost));
    step = mem_calloc((size_t)((rows + 1) * (columns + 1)), 1);
    s->length = 0;
    if (s->path && cost && step) {
        int64_t i = rows, j = columns;

        find_steps(in->data, rows, columns, cost, step);
        while (i > 0 || j > 0) {
            enum step how = !i   ? STEP_COLUMN
                            : !j ? STEP_ROW
                                 : (enum step)step[i * (columns + 1) + j];

            s->path[2 * s->length] = (int32_t)i - 1;
            s->path[2 * s->length++ + 1] = (int32_t)j - 1;
            i -= how != STEP_COLUMN;
            j -= how != STEP_ROW;
        }
    } else {
        rc = kernel_nomem(op, err);
    }
    mem_free(cost);
    mem_free(step);
    out.dim[1] = s->length;
    return rc ? rc : kernel_set(op, 0, TENSOR_I32, &out, err);
}

int timewarping_run(struct op *op, opm_error *err)
{
    const struct warping *s = op->state;
    int32_t *out = kernel_out(op, 0)->data;

    (void)err;
    for (int64_t i = 0; i < s->length; i++) {
        out[i] = s->path[2 * (s->length - 1 - i)];
        out[s->length + i] = s->path[2 * (s->length - 1 - i) + 1];
    }
    return 0;
}

int murmur_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0,
                         TYPES_FLOAT | TYPES_INDEX | TYPE_BIT(TENSOR_U32) | TYPE_BIT(TENSOR_U64) |
                             TYPE_BIT(TENSOR_STRING),
                         err);

    return rc ? rc : kernel_infer(op, err);
}

static uint32_t turn(uint32_t v, int by)
{
    return v << by | v >> (32 - by);
}

static uint32_t mixed(uint32_t block)
{
    return turn(block * 0xcc9e2d51u, 15) * 0x1b873593u;
}

/* Austin Appleby's MurmurHash3 of 32 bits. */
static inline uint32_t murmur(const uint8_t *bytes, size_t n, uint32_t seed)
{
    uint32_t h = seed, block = 0;

    for (size_t i = 0; i + 4 <= n; i += 4) {
        block = bytes[i] | (uint32_t)bytes[i + 1] << 8 | (uint32_t)bytes[i + 2] << 16 |
                (uint32_t)bytes[i + 3] << 24;
        h = turn(h ^ mixed(block), 13) * 5 + 0xe6546b64u;
    }
    block = 0;
    for (size_t i = n / 4 * 4; i < n; i++)
        block |= (uint32_t)bytes[i] << 8 * (i % 4);
    h ^= mixed(block) ^ (uint32_t)n;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

int murmur_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    uint32_t seed = (uint32_t)node_attr_int(op->node, "seed", 0), *out = kernel_out(op, 0)->data;
    size_t width = nt_width(in->type);

    (void)err;
    if (in->type == TENSOR_STRING)
        for (int64_t i = 0; i < in->count; i++)
            out[i] = murmur((const uint8_t *)nt_strings(in)[i].s, nt_strings(in)[i].len, seed);
    else if (width == 4)
        for (int64_t i = 0; i < in->count; i++)
            out[i] = murmur((const uint8_t *)in->data + (size_t)i * 4, 4, seed);
    else
        for (int64_t i = 0; i < in->count; i++)
            out[i] = murmur((const uint8_t *)in->data + (size_t)i * 8, 8, seed);
    return 0;
}

/* -- BifurcationDetector: a source, tokens so far, where in the source they go on, and tokens that
 * were predicted from there on at once. As far as these are the source's, and one more, they are
 * taken over. -- */

enum { BIF_SOURCE, BIF_TOKENS, BIF_AT, BIF_PREDICTED };

static int bifurcation_check(const struct op *op, opm_error *err)
{
    const struct nt *at;
    int64_t least = node_attr_int(op->node, "min_ngram_size", 0);
    int rc = 0;

    for (uint32_t i = 0; i < 4 && !rc; i++)
        if (i < BIF_PREDICTED || kernel_in(op, i))
            rc = kernel_want(op, i, TYPE_BIT(TENSOR_I64), err);
    if (rc)
        return rc;
    at = kernel_in(op, BIF_AT);
    if (least < 1 || node_attr_int(op->node, "max_ngram_size", 0) < least)
        return kernel_fail(op, OPM_EINVAL, err, "attributes min_ngram_size and max_ngram_size");
    for (uint32_t i = 0; i < 4; i++)
        if (i != BIF_AT && kernel_in(op, i) && kernel_in(op, i)->shape.rank != 1)
            return kernel_fail(op, OPM_EINVAL, err, "input %u is no list", i);
    return at->count == 1 ? 0 : kernel_fail(op, OPM_EINVAL, err, "input 2 is not one number");
}

/* How many of the predicted tokens are taken over. */
static int bifurcation(const struct op *op, int64_t *taken, opm_error *err)
{
    const struct nt *source = kernel_in(op, BIF_SOURCE), *predicted = kernel_in(op, BIF_PREDICTED);
    int64_t at = nt_int(kernel_in(op, BIF_AT), 0), n = 0;
    const int64_t *want, *have;

    *taken = 0;
    if (!predicted)
        return 0;
    want = source->data;
    have = predicted->data;
    if (at < 0 || at > source->count || predicted->count != source->count - at + 1)
        return kernel_fail(op, OPM_EINVAL, err, "%lld predicted tokens from place %lld of %lld on",
                           (long long)predicted->count, (long long)at, (long long)source->count);
    while (n < source->count - at && have[n] == want[at + n])
        n++;
    *taken = n + 1;
    return 0;
}

int bifurcation_prepare(struct op *op, opm_error *err)
{
    int64_t taken;
    struct shape s = { 1, { 0 } };
    int rc = bifurcation_check(op, err);

    if (rc)
        return rc;
    for (uint32_t i = 0; i < 4; i++)
        if (kernel_in(op, i) && !kernel_data(op, i))
            return NEED_DATA;
    rc = bifurcation(op, &taken, err);
    if (rc)
        return rc;
    s.dim[0] = kernel_in(op, BIF_TOKENS)->count + taken;
    rc = kernel_set(op, 0, TENSOR_I64, &s, err);
    return rc ? rc : kernel_set(op, 1, TENSOR_I64, &kernel_in(op, BIF_AT)->shape, err);
}

/* Where n of the tokens are in list[from..count), the first time; -1: nowhere. */
static int64_t find_run(const int64_t *list, int64_t from, int64_t count, const int64_t *tokens,
                        int64_t n)
{
    for (int64_t i = from; i + n <= count; i++)
        if (list[i] == tokens[0] && memcmp(list + i, tokens, (size_t)n * sizeof(*tokens)) == 0)
            return i;
    return -1;
}

/* The place in the source behind the last tokens, if they are there but once: so many of them as it
 * takes, from the fewest to the most. -1: none. */
static int64_t goes_on_at(const struct op *op, const int64_t *tokens, int64_t count)
{
    const struct nt *source = kernel_in(op, BIF_SOURCE);
    const int64_t *list = source->data;
    int64_t most = MIN(node_attr_int(op->node, "max_ngram_size", 0), count), found = -1;

    for (int64_t n = node_attr_int(op->node, "min_ngram_size", 0); n <= most; n++) {
        const int64_t *tail = tokens + count - n;
        int64_t first = find_run(list, 0, source->count, tail, n);

        if (first < 0)
            break;
        found = first + n;
        if (found >= source->count)
            break;
        if (find_run(list, first + 1, source->count, tail, n) >= 0)
            found = -1;
    }
    return found;
}

int bifurcation_run(struct op *op, opm_error *err)
{
    const struct nt *tokens = kernel_in(op, BIF_TOKENS);
    struct nt *out = kernel_out(op, 0), *at = kernel_out(op, 1);
    int64_t taken;
    int rc = bifurcation(op, &taken, err);

    if (rc)
        return rc;
    if (tokens->count)
        memcpy(out->data, tokens->data, tokens->bytes);
    if (taken)
        memcpy((int64_t *)out->data + tokens->count, kernel_in(op, BIF_PREDICTED)->data,
               (size_t)taken * sizeof(int64_t));
    if (at)
        *(int64_t *)at->data = goes_on_at(op, out->data, out->count);
    return 0;
}

/* -- NGramHashMapping: tokens, a factor for each place of an n-gram, how many numbers each head
 * has, the tokens before these. The products of an n-gram's tokens, combined bit by bit, modulo
 * that. --
 */

enum { HASH_TOKENS, HASH_FACTORS, HASH_SIZES, HASH_PAST };

int ngramhash_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, HASH_TOKENS, TYPES_INDEX, err);
    const struct nt *past = kernel_in(op, HASH_PAST), *tokens;
    int64_t most = node_attr_int(op->node, "max_ngram_size", 0);

    for (uint32_t i = HASH_FACTORS; i <= (past ? HASH_PAST : HASH_SIZES) && !rc; i++)
        rc = kernel_want(op, i, TYPE_BIT(kernel_in(op, HASH_TOKENS)->type), err);
    if (!rc)
        rc = kernel_infer(op, err);
    if (rc)
        return rc;
    tokens = kernel_in(op, HASH_TOKENS);
    if (!node_attr(op->node, "pad_id"))
        return kernel_fail(op, OPM_EINVAL, err, "attribute 'pad_id' is missing");
    if (kernel_in(op, HASH_FACTORS)->count != most ||
        kernel_in(op, HASH_SIZES)->count != kernel_out(op, 0)->shape.dim[2] ||
        (past && (past->shape.rank != 2 || past->shape.dim[0] != tokens->shape.dim[0] ||
                  past->shape.dim[1] != most - 1)))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    return 0;
}

struct hash_job {
    const struct op *op;
    const struct nt *tokens, *past;
    int64_t length, before; /* tokens of a row, and of what is past */
    int64_t pad;
};

static struct hash_job hash_job(const struct op *op)
{
    return (struct hash_job){ .op = op,
                              .tokens = kernel_in(op, HASH_TOKENS),
                              .past = kernel_in(op, HASH_PAST),
                              .length = kernel_in(op, HASH_TOKENS)->shape.dim[1],
                              .before = node_attr_int(op->node, "max_ngram_size", 0) - 1,
                              .pad = node_attr_int(op->node, "pad_id", 0) };
}

static inline int64_t whole(const struct nt *t, int64_t i)
{
    return t->type == TENSOR_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

static void put_whole(struct nt *t, int64_t i, int64_t v)
{
    if (t->type == TENSOR_I32)
        ((int32_t *)t->data)[i] = (int32_t)v;
    else
        ((int64_t *)t->data)[i] = v;
}

/* Token `at` of a row, that many before the first if it is negative. */
static inline int64_t token_at(const struct hash_job *j, int64_t row, int64_t at)
{
    if (at >= 0)
        return whole(j->tokens, row * j->length + at);
    return j->past && at + j->before >= 0 ? whole(j->past, row * j->before + j->before + at)
                                          : j->pad;
}

static void ngramhash_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct hash_job *j = arg;
    const struct nt *factors = kernel_in(j->op, HASH_FACTORS),
                    *sizes = kernel_in(j->op, HASH_SIZES);
    struct nt *out = kernel_out(j->op, 0);
    int64_t all = out->shape.dim[2], heads = all / j->before,
            stop = node_attr_int(j->op->node, "eos_token_id", 0);
    bool stops = node_attr(j->op->node, "eos_token_id") != NULL, narrow = out->type == TENSOR_I32;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / j->length, place = i % j->length;
        uint64_t mixed = 0;
        bool stopped = false; /* what is before the end of a text does not count */

        for (int64_t k = 0; k <= j->before; k++) {
            int64_t token = token_at(j, row, place - k), n;

            stopped = stopped || (k && stops && token == stop);
            mixed ^= (uint64_t)(stopped ? j->pad : token) * (uint64_t)whole(factors, k);
            n = narrow ? (int32_t)(uint32_t)mixed : (int64_t)mixed;
            for (int64_t at = (k - 1) * heads; k && at < k * heads; at++) {
                int64_t size = whole(sizes, at), rest = n % size;

                put_whole(out, i * all + at, rest < 0 ? rest + size : rest);
            }
        }
    }
}

int ngramhash_run(struct op *op, opm_error *err)
{
    const struct nt *sizes = kernel_in(op, HASH_SIZES), *tokens = kernel_in(op, HASH_TOKENS);
    struct nt *present = kernel_out(op, 1);
    struct hash_job j = hash_job(op);

    for (int64_t i = 0; i < sizes->count; i++)
        if (nt_int(sizes, i) < 1)
            return kernel_fail(op, OPM_EINVAL, err, "a head of %lld numbers",
                               (long long)nt_int(sizes, i));
    pool_for(kernel_pool(op), tokens->count, pool_grain((double)sizes->count * 4), ngramhash_part,
             &j);
    for (int64_t i = 0; present && i < present->count; i++)
        put_whole(present, i, token_at(&j, i / j.before, j.length - j.before + i % j.before));
    return 0;
}
