/* input_random.c -- random inputs that a model can work with.
 *
 * Uniform noise would do for the speed of most networks, but not all: indices must lie inside the
 * table that they index, masks should not mask everything, lengths should not be negative. */
#include "run/input.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define TRACE_STEPS_MAX 4096 /* nodes that are looked at to find what an input indexes */

struct rng {
    uint64_t state;
};

static uint64_t next_u64(struct rng *r) /* splitmix64 */
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double next_unit(struct rng *r)
{
    return (double)(next_u64(r) >> 11) * 0x1p-53;
}

static double next_normal(struct rng *r)
{
    double u = 1 - next_unit(r), v = next_unit(r);

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static uint64_t hash_name(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

static bool passes_through(const struct node *n)
{
    static const char *const types[] = { "Cast",    "Identity", "Reshape", "Unsqueeze",
                                         "Squeeze", "Flatten",  "Clip",    "Transpose" };

    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        if (node_is(n, types[i]))
            return true;
    return false;
}

/* Entries of the smallest table that the value indexes with Gather, or 0 if it indexes none. */
static int64_t table_rows(const struct graph *g, uint32_t value, int *steps)
{
    int64_t least = 0;

    for (uint32_t i = 0; i<g->nnode && * steps> 0; i++) {
        const struct node *n = &g->node[i];
        int64_t rows = 0;

        for (uint32_t k = 0; k < n->nin; k++) {
            const struct value *table;
            int64_t axis;

            if (n->in[k] != value)
                continue;
            --*steps;
            if (k == 0 && passes_through(n) && n->nout && n->out[0] != NO_VALUE) {
                rows = table_rows(g, n->out[0], steps);
            } else if (k == 1 && node_is(n, "Gather")) {
                table = node_in(g, n, 0);
                axis = node_attr_int(n, "axis", 0);
                if (table && axis < 0)
                    axis += table->shape.rank;
                if (table && axis >= 0 && axis < table->shape.rank && table->shape.dim[axis] > 0)
                    rows = table->shape.dim[axis];
            }
        }
        if (rows && (!least || rows < least))
            least = rows;
    }
    return least;
}

static bool name_has(const char *name, const char *word)
{
    return strcasestr(name, word) != NULL;
}

static bool looks_like_image(const struct shape *s)
{
    int64_t first, last;

    if (s->rank != 4)
        return false;
    first = s->dim[1];
    last = s->dim[3];
    return first == 1 || first == 3 || first == 4 || last == 1 || last == 3 || last == 4;
}

enum how { ONES, ZEROS, UNIT, NORMAL, BELOW, CONSTANT };

struct plan {
    enum how how;
    int64_t limit; /* BELOW: values are 0 to limit - 1; CONSTANT: the value */
};

static struct plan make_plan(const struct model *m, const struct engine_value *v,
                             const struct engine_tensor *t)
{
    uint32_t index = graph_find_value(m->graph, v->name);
    int steps = TRACE_STEPS_MAX, bits = tensor_type_bits(t->type);
    int64_t rows;

    if (name_has(v->name, "mask"))
        return (struct plan){ ONES, 0 };
    if (tensor_type_float(t->type))
        return (struct plan){ looks_like_image(&t->shape) ? UNIT : NORMAL, 0 };
    if (t->type == TENSOR_BOOL) /* a single one is a switch: leave it off */
        return t->bytes <= 1 ? (struct plan){ ZEROS, 0 } : (struct plan){ BELOW, 2 };
    rows = index != NO_VALUE ? table_rows(m->graph, index, &steps) : 0;
    if (rows)
        return (struct plan){ BELOW, bits <= 8 ? MIN(rows, 128) : rows };
    if (bits <= 8)
        return (struct plan){ BELOW, bits < 8 ? 1 << bits : 256 };
    if (strcasecmp(v->name, "sr") == 0 || name_has(v->name, "sample_rate"))
        return (struct plan){ CONSTANT, 16000 };
    return (struct plan){ ONES, 0 };
}

void input_put_float(uint8_t *p, enum tensor_type type, double v)
{
    float f = (float)v;
    uint16_t half;
    uint32_t bits;

    switch (type) {
    case TENSOR_F32:
        memcpy(p, &f, sizeof(f));
        break;
    case TENSOR_F64:
        memcpy(p, &v, sizeof(v));
        break;
    case TENSOR_F16:
        half = f32_to_f16(f);
        memcpy(p, &half, sizeof(half));
        break;
    case TENSOR_BF16:
        memcpy(&bits, &f, sizeof(bits));
        half = (uint16_t)((bits + 0x8000) >> 16);
        memcpy(p, &half, sizeof(half));
        break;
    default:
        *p = 0; /* types below 16 bits: zeros are valid in all of them */
        break;
    }
}

/* Common words, whatever the model makes of them. */
static void random_words(struct rng *r, struct engine_tensor *t)
{
    static const char *const word[] = {
        "a",    "the",  "of",   "and",  "good", "bad", "new", "red",
        "time", "year", "work", "home", "one",  "two", "yes", "no"
    };
    struct tensor_string *s = t->data;

    for (size_t i = 0; i < t->bytes / sizeof(*s); i++) {
        s[i].s = word[next_u64(r) % ARRAY_SIZE(word)];
        s[i].len = strlen(s[i].s);
    }
}

void input_random(const struct model *m, const struct engine_value *v, struct engine_tensor *t,
                  uint64_t seed, const char **origin)
{
    static const char *const said[] = { "ones",           "zeros",          "random, 0 to 1",
                                        "random, normal", "random indices", "a usual value" };
    struct plan plan = make_plan(m, v, t);
    struct rng r = { seed ^ hash_name(v->name) };
    size_t size = (size_t)tensor_type_bits(t->type) / 8;
    int64_t count = shape_count(&t->shape);
    uint8_t *p = t->data;

    if (t->type == TENSOR_STRING) {
        *origin = "random words";
        random_words(&r, t);
        return;
    }
    *origin = said[plan.how];
    memset(t->data, 0, t->bytes);
    if (size == 0) { /* packed: any bytes are values */
        for (size_t i = 0; i < t->bytes; i++)
            p[i] = (uint8_t)next_u64(&r);
        return;
    }
    for (int64_t i = 0; i < count; i++, p += size) {
        uint64_t n = 0;
        double real = 0;

        switch (plan.how) {
        case ONES:
            n = 1;
            real = 1;
            break;
        case ZEROS:
            break;
        case UNIT:
            real = next_unit(&r);
            break;
        case NORMAL:
            real = next_normal(&r);
            break;
        case BELOW:
            n = next_u64(&r) % (uint64_t)plan.limit;
            break;
        case CONSTANT:
            n = (uint64_t)plan.limit;
            break;
        }
        if (tensor_type_float(t->type))
            input_put_float(p, t->type, real);
        else
            memcpy(p, &n, MIN(size, sizeof(n))); /* little-endian */
    }
}
