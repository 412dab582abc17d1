/* input.c -- give every input of a model a shape and values; see input.h. */
#include "run/input.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/human.h"
#include "base/nearest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ALIGN 64
#define DIM_TEXT_MAX 300

/* Sizes that open dimensions have got so far. */
struct size {
    const char *name;
    int64_t size;
};

struct sizes {
    const struct model *m;
    struct size *dim;
    size_t n, cap;
    bool guess;
    struct input_hints hints;
    struct buf guessed, ignored;
};

static void sizes_release(struct sizes *s)
{
    mem_free(s->dim);
    buf_release(&s->guessed);
    buf_release(&s->ignored);
}

static int64_t *size_of(struct sizes *s, const char *name)
{
    for (size_t i = 0; name && i < s->n; i++)
        if (strcmp(s->dim[i].name, name) == 0)
            return &s->dim[i].size;
    return NULL;
}

static int set_size(struct sizes *s, const char *name, int64_t size, const char *who,
                    opm_error *err)
{
    int64_t *known = size_of(s, name);

    if (known && *known != size)
        return opm__fail(err, OPM_EINVAL,
                         "%s: dimension '%s' would be both %lld and %lld (%s says the latter)",
                         s->m->name, name, (long long)*known, (long long)size, who);
    if (known)
        return 0;
    if (!GROW(s->dim, s->cap, s->n + 1))
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", s->m->name);
    s->dim[s->n++] = (struct size){ name, size };
    return 0;
}

/* How an open dimension is called where one is named: as the model does, or INPUT[NUMBER]. */
static void dim_text(const struct model *m, const struct engine_value *v, int d,
                     char out[static DIM_TEXT_MAX])
{
    const char *name = model_dim_name(m, v->shape.dim[d]);

    if (name)
        snprintf(out, DIM_TEXT_MAX, "%s", name);
    else
        snprintf(out, DIM_TEXT_MAX, "%s[%d]", v->name, d);
}

/* A given shape must be what the model declares; where that is open, it says how large it is. */
static int bind_shape(struct sizes *s, const struct engine_value *v, const struct shape *given,
                      const char *origin, opm_error *err)
{
    char has[128], wants[256], who[160];
    bool fits = v->shape.rank < 0 || v->shape.rank == given->rank;
    int rc = 0;

    for (int i = 0; fits && v->shape.rank >= 0 && i < given->rank; i++)
        fits = v->shape.dim[i] < 0 || v->shape.dim[i] == given->dim[i];
    if (!fits) {
        shape_text(given, has, sizeof(has));
        model_shape_text(s->m, &v->shape, wants, sizeof(wants));
        return opm__fail(err, OPM_EINVAL, "%s: input '%s' is %s, but %s has %s", s->m->name,
                         v->name, wants, origin, has);
    }
    snprintf(who, sizeof(who), "input '%s'", v->name);
    for (int i = 0; !rc && v->shape.rank >= 0 && i < given->rank; i++) {
        const char *name = v->shape.dim[i] < 0 ? model_dim_name(s->m, v->shape.dim[i]) : NULL;
        char text[DIM_TEXT_MAX];

        dim_text(s->m, v, i, text);
        if (name || size_of(s, text))
            rc = set_size(s, name ? name : text, given->dim[i], who, err);
    }
    return rc;
}

/* -- from options to sizes -- */

/* Append the name of an open dimension, if it is not there yet. */
static void put_dim(const struct sizes *s, const struct engine_value *v, int d, struct buf *b)
{
    char name[DIM_TEXT_MAX], quoted[DIM_TEXT_MAX + 2];

    dim_text(s->m, v, d, name);
    snprintf(quoted, sizeof(quoted), "'%s'", name);
    if (!strstr(buf_str(b), quoted))
        buf_addf(b, "%s%s", b->len ? ", " : "", quoted);
}

/* Names of open dimensions of the inputs, each once; "" if there are none. */
static void put_open(const struct sizes *s, const struct engine_value *v, size_t n, struct buf *b)
{
    for (size_t i = 0; i < n; i++) {
        for (int d = 0; d < v[i].shape.rank; d++) {
            if (v[i].shape.dim[d] < 0)
                put_dim(s, &v[i], d, b);
        }
    }
}

/* An option that fits no dimension: said if others are open, which it may have been meant for. */
static int unfit(struct sizes *s, const struct engine_value *v, size_t n, const char *option,
                 const char *why, opm_error *err)
{
    struct buf open = { 0 }, shapes = { 0 };
    int rc = 0;

    put_open(s, v, n, &open);
    for (size_t i = 0; i < n; i++) {
        char text[256];

        model_shape_text(s->m, &v[i].shape, text, sizeof(text));
        buf_addf(&shapes, "%s'%s' %s", i ? ", " : "", v[i].name, text);
    }
    if (s->guess && open.len)
        buf_addf(&s->ignored, "%s%s is not used: %s; open are: %s (--dim NAME=N)",
                 s->ignored.len ? "; " : "", option, why, buf_str(&open));
    else
        rc = opm__fail(err, OPM_EINVAL, "%s: %s: %s; inputs are: %s", s->m->name, option, why,
                       buf_str(&shapes));
    buf_release(&open);
    buf_release(&shapes);
    return rc;
}

static int bind_batch(struct sizes *s, const struct engine_value *v, size_t n, int64_t size,
                      opm_error *err)
{
    bool open = false;
    int rc = 0;

    for (size_t i = 0; !rc && i < n; i++) {
        int64_t dim = v[i].shape.rank > 0 ? v[i].shape.dim[0] : 0;
        const char *name = dim < 0 ? model_dim_name(s->m, dim) : NULL;

        open |= dim < 0 || dim == size;
        if (name)
            rc = set_size(s, name, size, "--batch-size", err);
    }
    if (!rc && !open)
        rc = unfit(s, v, n, "--batch-size",
                   "no input has an open first dimension, its batch size is fixed", err);
    return rc;
}

static int bind_sequence(struct sizes *s, const struct engine_value *v, size_t n, int64_t size,
                         opm_error *err)
{
    bool found = false;
    int rc = 0;

    for (size_t i = 0; !rc && i < n; i++) {
        for (int d = 1; !rc && d < v[i].shape.rank; d++) {
            int64_t dim = v[i].shape.dim[d];
            const char *name = dim < 0 ? model_dim_name(s->m, dim) : NULL;

            found |= (dim < 0 && d == 1) || (d == 1 && dim == size);
            if (name && input_is_sequence(name)) {
                found = true;
                rc = set_size(s, name, size, "--seq-len", err);
            }
        }
    }
    if (!rc && !found)
        rc = unfit(s, v, n, "--seq-len", "no input has an open dimension for it", err);
    return rc;
}

/* " 'm'; did you mean 'n'? ..." about a name that is none of those in `names`, where near.best is
 * the one most like it. */
static int unknown_name(const struct sizes *s, const char *what, const struct nearest *near,
                        const struct buf *names, opm_error *err)
{
    if (names->failed)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", s->m->name);
    if (near->best)
        return opm__fail(err, OPM_EINVAL, "%s: there is no %s '%s'; did you mean '%s'? It has %s",
                         s->m->name, what, near->word, near->best, buf_str(names));
    return opm__fail(err, OPM_EINVAL, "%s: there is no %s '%s'%s%s", s->m->name, what, near->word,
                     names->len ? ", but " : "", buf_str(names));
}

static int unknown_dim(const struct sizes *s, const struct engine_value *v, size_t n,
                       const char *name, opm_error *err)
{
    struct nearest near = { .word = name };
    struct buf open = { 0 };
    int rc;

    put_open(s, v, n, &open);
    for (size_t i = 0; i < n; i++)
        for (int d = 0; d < v[i].shape.rank; d++)
            if (v[i].shape.dim[d] < 0 && model_dim_name(s->m, v[i].shape.dim[d]))
                nearest_try(&near, model_dim_name(s->m, v[i].shape.dim[d]));
    rc = unknown_name(s, "open dimension", &near, &open, err);
    buf_release(&open);
    return rc;
}

/* Is there an open dimension that the model has no name for and that is called so here? */
static bool is_numbered(const struct sizes *s, const struct engine_value *v, size_t n,
                        const char *name)
{
    for (size_t i = 0; i < n; i++) {
        for (int d = 0; d < v[i].shape.rank; d++) {
            char text[DIM_TEXT_MAX];

            dim_text(s->m, &v[i], d, text);
            if (v[i].shape.dim[d] < 0 && strcmp(text, name) == 0)
                return true;
        }
    }
    return false;
}

static int bind_dims(struct sizes *s, const struct engine_value *v, size_t n,
                     const struct input_options *opt, opm_error *err)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < opt->ndim; i++) {
        if (!model_dim_find(s->m, opt->dim[i].name) && !is_numbered(s, v, n, opt->dim[i].name))
            rc = unknown_dim(s, v, n, opt->dim[i].name, err);
        else
            rc = set_size(s, opt->dim[i].name, opt->dim[i].size, "--dim", err);
    }
    return rc;
}

/* -- which item is for which input -- */

static struct input_item *find_item(struct input_items *l, const struct engine_value *v, size_t n)
{
    for (size_t i = l->n; i-- > 0;) { /* the last one wins */
        const char *name = l->item[i].name;

        if (strcmp(name, v->name) == 0 || (n == 1 && (!*name || strcmp(name, "data") == 0)))
            return &l->item[i];
    }
    return NULL;
}

static int check_items(const struct input_items *l, const struct sizes *s,
                       const struct engine_value *v, size_t n, opm_error *err)
{
    struct buf names = { 0 };
    int rc = 0;

    for (size_t k = 0; k < n; k++)
        buf_addf(&names, "%s'%s'", k ? ", " : "", v[k].name);
    if (names.failed)
        rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", s->m->name);
    for (size_t i = 0; !rc && i < l->n; i++) {
        const struct input_item *it = &l->item[i];
        bool known = n == 1 && (!*it->name || strcmp(it->name, "data") == 0);
        struct nearest near = { .word = it->name };

        for (size_t k = 0; !known && k < n; k++) {
            known = strcmp(it->name, v[k].name) == 0;
            nearest_try(&near, v[k].name);
        }
        if (!known && !*it->name)
            rc = opm__fail(err, OPM_EINVAL, "%s: say which input %s is for: NAME:%s; it has %s",
                           s->m->name, it->origin, it->origin, buf_str(&names));
        else if (!known)
            rc = unknown_name(s, "input", &near, &names, err);
    }
    buf_release(&names);
    return rc;
}

/* -- values -- */

static int alloc_tensor(struct inputs *in, struct engine_tensor *t, const char *name,
                        int64_t max_bytes, opm_error *err)
{
    int64_t bytes = engine_bytes(&t->shape, t->type);
    char *p;

    if (bytes < 0)
        return opm__fail(err, OPM_EUNSUPPORTED, "input '%s': tensors of %s cannot be made", name,
                         tensor_type_name(t->type));
    if (max_bytes && bytes > max_bytes) {
        char has[HUMAN_ROOM], may[HUMAN_ROOM];

        return opm__fail(err, OPM_ELIMIT,
                         "input '%s' would take %s; the limit is %s of memory (max_memory)", name,
                         human_bytes(has, (uint64_t)bytes), human_bytes(may, (uint64_t)max_bytes));
    }
    t->bytes = (size_t)bytes;
    p = arena_alloc(&in->arena, t->bytes + ALIGN);
    if (!p)
        return opm__fail(err, OPM_ENOMEM, "input '%s': out of memory for %zu bytes", name,
                         t->bytes);
    t->data = p + (ALIGN - (uintptr_t)p % ALIGN) % ALIGN;
    return 0;
}

static void put_number(uint8_t *p, enum tensor_type type, const struct tensor *from, int64_t i)
{
    double real = tensor_float(from, i);
    int64_t n = from->type == TENSOR_F64 ? (int64_t)llrint(real) : tensor_int(from, i);

    switch (type) {
    case TENSOR_F32:
    case TENSOR_F64:
    case TENSOR_F16:
    case TENSOR_BF16:
        input_put_float(p, type, real);
        break;
    case TENSOR_BOOL:
        *p = real != 0;
        break;
    default:
        memcpy(p, &n, (size_t)tensor_type_bits(type) / 8);
        break;
    }
}

/* Numbers of one kind may be given for another: a literal, an image, int32 for int64. But a
 * fraction is not silently cut to an integer. */
static int convert(struct engine_tensor *t, const struct input_item *it,
                   const struct engine_value *v, opm_error *err)
{
    const struct tensor *from = &it->data;
    size_t size = (size_t)tensor_type_bits(t->type) / 8;
    uint8_t *p = t->data;
    bool to_int = tensor_type_int(t->type);

    if (from->type == t->type) {
        if (t->bytes)
            memcpy(t->data, from->data, t->bytes);
        return 0;
    }
    if (!size || (!it->any_type && to_int && tensor_type_float(from->type)))
        return opm__fail(err, OPM_EINVAL, "input '%s' is of type %s, but %s has %s", v->name,
                         tensor_type_name(t->type), it->origin, tensor_type_name(from->type));
    for (int64_t i = 0; i < from->count; i++, p += size) {
        if (to_int && it->any_type && tensor_float(from, i) != rint(tensor_float(from, i)))
            return opm__fail(err, OPM_EINVAL, "input '%s' is of type %s, but %g is no integer",
                             v->name, tensor_type_name(t->type), tensor_float(from, i));
        put_number(p, t->type, from, i);
    }
    return 0;
}

/* Strings are copied: what they were read from goes away. */
static int copy_texts(struct inputs *in, struct engine_tensor *t, const struct tensor *from,
                      opm_error *err)
{
    const struct tensor_string *s = from->data;
    struct tensor_string *to = t->data;

    for (int64_t i = 0; i < from->count; i++) {
        to[i] = (struct tensor_string){ arena_strndup(&in->arena, s[i].len ? s[i].s : "", s[i].len),
                                        s[i].len };
        if (!to[i].s)
            return opm__fail(err, OPM_ENOMEM, "out of memory while reading the inputs");
    }
    return 0;
}

/* Height x width x channels, 0..255, into what the model wants: as it is, channels first, or as
 * floats. */
static int convert_image(struct engine_tensor *t, const struct input_item *it, bool channels_first)
{
    int64_t h = it->data.shape.dim[1], w = it->data.shape.dim[2], c = it->data.shape.dim[3];
    const uint8_t *from = it->data.data;
    size_t size = (size_t)tensor_type_bits(t->type) / 8;
    struct tensor one = { .type = TENSOR_F64, .count = 1 };
    double value;

    for (int64_t i = 0; i < h * w; i++) {
        for (int64_t k = 0; k < c; k++) {
            int64_t at = channels_first ? k * h * w + i : i * c + k;

            value = tensor_type_float(t->type) ? image_float(&it->form, from[i * c + k], (int)k)
                                               : from[i * c + k];
            one.data = &value;
            put_number((uint8_t *)t->data + (size_t)at * size, t->type, &one, 0);
        }
    }
    return 0;
}

static bool wants_channels_first(const struct engine_value *v, const struct shape *image)
{
    return v->shape.rank == 4 && v->shape.dim[3] != image->dim[3] &&
           (v->shape.dim[1] < 0 || v->shape.dim[1] == image->dim[3]);
}

/* An image in the size and the colours that the model wants, as far as it says. */
static int fit_image(struct inputs *in, const struct engine_value *v, struct input_item *it,
                     opm_error *err)
{
    const int64_t *d = it->data.shape.dim, *want = v->shape.dim;
    struct image im = { (int)d[2], (int)d[1], (int)d[3], it->data.data };
    int width = 0, height = 0, channels = 0, rc;

    if (v->type && !tensor_type_float(v->type) && (it->form.normal || it->form.range != 1))
        return opm__fail(err, OPM_EINVAL,
                         "input '%s' is of type %s; mean, std and range are for floats", v->name,
                         tensor_type_name(v->type));
    if (v->shape.rank == 4) {
        bool last = want[3] == 3 || want[3] == 1, first = want[1] == 3 || want[1] == 1;
        int64_t h = want[last && !first ? 1 : 2], w = want[last && !first ? 2 : 3];

        channels = first ? (int)want[1] : last ? (int)want[3] : 0;
        width = w > 0 && w <= IMAGE_SIDE_MAX ? (int)w : 0;
        height = h > 0 && h <= IMAGE_SIDE_MAX ? (int)h : 0;
    }
    rc = image_fit(&im, &in->arena, &it->form, width, height, channels, &it->origin, err);
    if (rc)
        return rc;
    it->data.shape = (struct shape){ 4, { 1, im.height, im.width, im.channels } };
    it->data.count = (int64_t)im.height * im.width * im.channels;
    it->data.bytes = (size_t)it->data.count;
    it->data.data = im.pixel;
    return 0;
}

/* Given values. Also binds the sizes of open dimensions, so all of these come before the others. */
static int make_given(struct inputs *in, size_t i, struct sizes *s, const struct engine_value *v,
                      const struct input_item *item, opm_error *err)
{
    struct engine_tensor *t = &in->t[i];
    struct input_item fitted = *item, *it = &fitted;
    struct shape given;
    bool first;
    int rc = it->image ? fit_image(in, v, it, err) : 0;

    if (rc)
        return rc;
    given = it->data.shape;
    first = it->image && wants_channels_first(v, &given);
    if (first)
        given = (struct shape){ 4, { 1, given.dim[3], given.dim[1], given.dim[2] } };
    rc = bind_shape(s, v, &given, it->origin, err);
    if (rc || !it->data.data)
        return rc;
    t->type = v->type ? v->type : it->data.type;
    t->shape = given;
    in->origin[i] = it->origin;
    if ((t->type == TENSOR_STRING) != (it->data.type == TENSOR_STRING))
        return opm__fail(err, OPM_EINVAL, "input '%s' is of type %s, but %s has %s", v->name,
                         tensor_type_name(t->type), it->origin,
                         it->any_type ? it->data.type == TENSOR_STRING ? "strings" : "numbers"
                                      : tensor_type_name(it->data.type));
    rc = alloc_tensor(in, t, v->name, 0, err);
    if (!rc && t->type == TENSOR_STRING)
        return copy_texts(in, t, &it->data, err);
    if (!rc)
        rc = it->image && (first || tensor_type_float(t->type)) ? convert_image(t, it, first)
                                                                : convert(t, it, v, err);
    return rc;
}

/* A size for what is open still, the same wherever it has this name. */
static int64_t choose(struct sizes *s, const struct engine_value *v, const char *name, int d)
{
    int64_t size = input_guess(v, name, d, &s->hints);

    char text[DIM_TEXT_MAX];

    dim_text(s->m, v, d, text);
    buf_addf(&s->guessed, "%s%s=%lld", s->guessed.len ? ", " : "", text, (long long)size);
    if (name && set_size(s, name, size, "", NULL) < 0)
        s->guessed.failed = true;
    return size;
}

/* Resolve what is open; what stays so is appended to open, by name and once. */
static void resolve(struct sizes *s, const struct engine_value *v, struct shape *out,
                    const struct input_options *opt, struct buf *open)
{
    for (int d = 0; d < out->rank; d++) {
        const char *name = out->dim[d] < 0 ? model_dim_name(s->m, out->dim[d]) : NULL;
        char text[DIM_TEXT_MAX];
        int64_t *known;

        if (out->dim[d] >= 0)
            continue;
        dim_text(s->m, v, d, text);
        known = size_of(s, text);
        if (known)
            out->dim[d] = *known;
        else if (!name && d == 0 && opt->batch_size)
            out->dim[d] = opt->batch_size;
        else if (!name && d == 1 && opt->seq_len)
            out->dim[d] = opt->seq_len;
        if (out->dim[d] >= 0)
            continue;
        if (s->guess) {
            out->dim[d] = choose(s, v, name, d);
            continue;
        }
        put_dim(s, v, d, open);
    }
}

static int make_random(struct inputs *in, size_t i, struct sizes *s, const struct engine_value *v,
                       const struct shape *given, const struct input_options *opt, struct buf *open,
                       opm_error *err)
{
    struct engine_tensor *t = &in->t[i];
    int rc;

    if (v->kind != VALUE_TENSOR)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%s: input '%s' is a sequence, map or optional, and only tensors can be "
                         "fed",
                         s->m->name, v->name);
    t->type = v->type;
    t->shape = given ? *given : v->shape;
    if (t->shape.rank < 0)
        return opm__fail(err, OPM_EINVAL,
                         "%s: input '%s' has no declared shape; give it one: --input '%s:{...}'",
                         s->m->name, v->name, v->name);
    resolve(s, v, &t->shape, opt, open);
    if (!shape_concrete(&t->shape))
        return 0; /* said once for all */
    rc = alloc_tensor(in, t, v->name, opt->max_bytes, err);
    if (!rc)
        input_random(s->m, v, t, opt->seed, &in->origin[i]);
    return rc;
}

static int say_open(const struct model *m, const struct buf *open, opm_error *err)
{
    const char *first = buf_str(open);
    char name[200] = "NAME";
    size_t len;

    if (*first == '\'') {
        len = strcspn(first + 1, "'");
        snprintf(name, sizeof(name), "%.*s", (int)MIN(len, sizeof(name) - 1), first + 1);
    }
    return opm__fail(
        err, OPM_EINVAL,
        "%s: open dimensions need a size: %s; give it with --dim %s=N, --batch-size N, "
        "--seq-len N or --input NAME:SHAPE",
        m->name, first, name);
}

static int add_given(struct input_items *items, const struct tensor *t, const char *name,
                     const char *origin, opm_error *err)
{
    if (!GROW(items->item, items->cap, items->n + 1))
        return opm__fail(err, OPM_ENOMEM, "out of memory while reading the inputs");
    items->item[items->n++] = (struct input_item){ .name = name, .data = *t, .origin = origin };
    return 0;
}

static int find_ref(struct input_items *items, const struct npz *ref, const struct engine_value *v,
                    size_t n, opm_error *err)
{
    int rc = 0;

    for (size_t i = 0; !rc && ref && i < n; i++) {
        const struct tensor *t;
        char name[600];

        snprintf(name, sizeof(name), "in_%s", v[i].name);
        t = npz_find(ref, name);
        if (t)
            rc = add_given(items, t, v[i].name, "the reference", err);
    }
    return rc;
}

static int bind_options(struct sizes *s, const struct engine_value *v, size_t n,
                        const struct input_options *opt, opm_error *err)
{
    int rc = bind_dims(s, v, n, opt, err);

    if (!rc && opt->batch_size)
        rc = bind_batch(s, v, n, opt->batch_size, err);
    if (!rc && opt->seq_len)
        rc = bind_sequence(s, v, n, opt->seq_len, err);
    return rc;
}

int inputs_shapes(const struct model *m, const struct engine_value *input, size_t n,
                  const struct input_options *opt, const struct engine_value *of, size_t nof,
                  struct shape *out, opm_error *err)
{
    struct sizes s = { .m = m };
    struct buf open = { 0 };
    int rc = bind_options(&s, input, n, opt, err);

    for (size_t i = 0; !rc && i < nof; i++) {
        out[i] = of[i].shape;
        resolve(&s, &of[i], &out[i], opt, &open);
    }
    buf_release(&open);
    sizes_release(&s);
    return rc;
}

static int make_all(struct inputs *in, struct sizes *s, const struct engine_value *v,
                    const struct input_options *opt, struct input_items *items, opm_error *err)
{
    struct buf open = { 0 };
    int rc = bind_options(s, v, in->n, opt, err);

    for (size_t i = 0; !rc && i < in->n; i++) {
        struct input_item *it = find_item(items, &v[i], in->n);

        if (it)
            rc = make_given(in, i, s, &v[i], it, err);
    }
    for (size_t i = 0; !rc && i < in->n; i++) {
        struct input_item *it = find_item(items, &v[i], in->n);

        if (!in->t[i].data)
            rc = make_random(in, i, s, &v[i], it ? &it->data.shape : NULL, opt, &open, err);
    }
    if (!rc && open.failed)
        rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", s->m->name);
    if (!rc && open.len)
        rc = say_open(s->m, &open, err);
    buf_release(&open);
    return rc;
}

int inputs_make(struct inputs *in, const struct model *m, const struct engine_value *v, size_t n,
                const struct input_options *opt, opm_error *err)
{
    struct input_items items = { 0 };
    struct sizes s = { .m = m, .guess = opt->guess, .hints.usual = opt->usual };
    int rc = 0;

    *in = (struct inputs){ .n = n };
    in->t = arena_alloc(&in->arena, (n + 1) * sizeof(*in->t));
    in->origin = arena_alloc(&in->arena, (n + 1) * sizeof(*in->origin));
    if (!in->t || !in->origin)
        rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", m->name);
    for (size_t i = 0; !rc && i < opt->ntext; i++)
        rc = input_items_parse(&items, opt->text[i], err);
    if (!rc)
        rc = find_ref(&items, opt->ref, v, n, err);
    for (size_t i = 0; !rc && i < opt->ngiven; i++)
        rc = add_given(&items, &opt->given[i], opt->given[i].name, "the given one", err);
    if (!rc)
        rc = check_items(&items, &s, v, n, err);
    for (size_t i = 0; i < n; i++)
        input_hint(&s.hints, &v[i]);
    if (!rc)
        rc = make_all(in, &s, v, opt, &items, err);
    for (size_t i = 0; !rc && i < n; i++) { /* items go away */
        in->origin[i] = arena_strndup(&in->arena, in->origin[i], strlen(in->origin[i]));
        if (!in->origin[i])
            rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", m->name);
    }
    in->chose_image = s.hints.used_image;
    in->chose_sequence = s.hints.used_sequence;
    if (!rc) {
        in->sizes = arena_strndup(&in->arena, buf_str(&s.guessed), s.guessed.len);
        in->ignored = arena_strndup(&in->arena, buf_str(&s.ignored), s.ignored.len);
        if (!in->sizes || !in->ignored || s.guessed.failed || s.ignored.failed)
            rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", m->name);
    }
    input_items_release(&items);
    sizes_release(&s);
    if (rc)
        inputs_release(in);
    return rc;
}

void inputs_release(struct inputs *in)
{
    arena_release(&in->arena);
    *in = (struct inputs){ 0 };
}
