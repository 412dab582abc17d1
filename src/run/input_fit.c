/* input_fit.c -- sizes for what a model leaves open, such that its graph accepts them; see input.h.
 *
 * Many a model is for one size alone and yet declares it open: text in lines of 48 pixels, sound in
 * pieces of 512 samples, 77 words. Inference tells which sizes do not fit, before anything runs. */
#include "base/error.h"
#include "graph/infer.h"
#include "run/input.h"

#define IMAGE_MAX 2048
#define RESIZE_SCALES                                                           \
    6 /* 1, 2, 4, ... 32: how much smaller than the image what is scaled may be \
       */

/* What models are made for; 0: the first choice, as inputs_make() has it. Height and width: lines
 * of text are longer than they are high. */
static const int64_t image_sizes[][2] = {
    { 0, 0 },     { 48, 320 },  { 32, 320 },  { 32, 32 },   { 64, 64 },
    { 112, 112 }, { 256, 256 }, { 299, 299 }, { 320, 320 }, { 384, 384 },
    { 416, 416 }, { 512, 512 }, { 640, 640 },
};
static const int64_t sequence_sizes[] = { 0, 77, 512, 64, 32, 16, 1536, 16000, 1 };

struct fit {
    struct inputs *in;
    const struct model *m;
    struct model *trial; /* inference changes it */
    const struct engine_value *value;
    size_t n;
    struct input_options opt;
    int64_t height, width; /* the largest image that the graph scales one to; 0: it does not */
};

/* Heights and widths that a Resize is told, if they are constants. */
static bool resize_to(const struct graph *g, const struct node *n, int64_t *height, int64_t *width)
{
    const struct tensor *sizes = node_is(n, "Resize") ? node_const(g, n, 3) : NULL;
    size_t naxes;

    node_attr_ints(n, "axes", &naxes);
    if (!sizes || (sizes->count != 4 && !(naxes == 2 && sizes->count == 2)))
        return false;
    *height = tensor_int(sizes, sizes->count - 2);
    *width = tensor_int(sizes, sizes->count - 1);
    return *height > 1 && *width > 1 && *height <= IMAGE_MAX && *width <= IMAGE_MAX;
}

static void find_resize(struct fit *f)
{
    const struct graph *g = f->trial->graph;

    for (uint32_t i = 0; i < g->nnode; i++) {
        int64_t height, width;

        if (resize_to(g, &g->node[i], &height, &width) && height * width > f->height * f->width) {
            f->height = height;
            f->width = width;
        }
    }
}

static bool accepted(const struct fit *f)
{
    struct infer_options opt = { .hints = true, .ninput = f->in->n };
    struct arena arena = { 0 };
    struct infer_input *input = arena_alloc(&arena, (f->in->n + 1) * sizeof(*input));
    bool ok = true; /* where nothing can be told */

    for (size_t i = 0; input && i < f->in->n; i++)
        input[i] = (struct infer_input){ .name = f->value[i].name, .shape = f->in->t[i].shape };
    opt.input = input;
    if (input)
        ok = graph_infer(f->trial, &opt, NULL) == 0;
    arena_release(&arena);
    return ok;
}

/* Inputs of other sizes than now; kept if the graph accepts them. */
static bool try_sizes(struct fit *f, int64_t height, int64_t width, int64_t sequence)
{
    struct inputs had = *f->in;

    f->opt.usual = (struct input_usual){ height, width, sequence };
    if (inputs_make(f->in, f->m, f->value, f->n, &f->opt, NULL) == 0) {
        if (accepted(f)) {
            inputs_release(&had);
            return true;
        }
        inputs_release(f->in);
    }
    *f->in = had;
    return false;
}

static bool try_sequences(struct fit *f, int64_t height, int64_t width)
{
    size_t n = f->in->chose_sequence ? ARRAY_SIZE(sequence_sizes) : 1;

    for (size_t i = 0; i < n; i++)
        if (try_sizes(f, height, width, sequence_sizes[i]))
            return true;
    return false;
}

static void search(struct fit *f)
{
    size_t n = f->in->chose_image ? ARRAY_SIZE(image_sizes) : 1;

    if (f->in->chose_image)
        find_resize(f);
    for (int k = 0; f->height && k < RESIZE_SCALES; k++)
        if (f->height << k <= IMAGE_MAX && f->width << k <= IMAGE_MAX &&
            try_sequences(f, f->height << k, f->width << k))
            return;
    if (!f->height && accepted(f))
        return;
    for (size_t i = 0; i < n; i++)
        if (try_sequences(f, image_sizes[i][0], image_sizes[i][1]))
            return;
}

int inputs_make_fit(struct inputs *in, const struct model *m, const struct engine_value *value,
                    size_t n, const struct input_options *opt, opm_error *err)
{
    struct fit f = { .in = in, .m = m, .value = value, .n = n, .opt = *opt };
    int rc = inputs_make(in, m, value, n, opt, err);

    if (!rc && (in->chose_image || in->chose_sequence) &&
        model_load(&f.trial, m->name, NULL) == 0) {
        search(&f);
        model_free(f.trial);
    }
    return rc;
}
