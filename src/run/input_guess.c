/* input_guess.c -- a size for a dimension that the model leaves open and nobody gave; see input.h.
 *
 * By what it is called and where it stands. A language model with a cache gets a step of decoding:
 * one token behind a cache of PAST_TOKENS. */
#include "run/input.h"

#include <string.h>
#include <strings.h>

#define SEQUENCE 128
#define PAST_TOKENS 128
#define IMAGE 224
#define AUDIO 16000 /* a second, as most models of speech have it */
#define CHUNK 512   /* of a stream of sound, at that rate */

static bool has(const char *text, const char *const *word, size_t n)
{
    for (size_t i = 0; text && i < n; i++)
        if (strcasestr(text, word[i]))
            return true;
    return false;
}

bool input_is_sequence(const char *name)
{
    static const char *const words[] = { "seq", "len", "token" };

    return has(name, words, ARRAY_SIZE(words)) || strcasecmp(name, "s") == 0 ||
           strcasecmp(name, "t") == 0 || strcasecmp(name, "l") == 0;
}

/* Longer than one token, whatever it is a row of. */
static bool is_long(const char *name)
{
    static const char *const words[] = { "time", "frame", "step", "position" };

    return input_is_sequence(name) || has(name, words, ARRAY_SIZE(words));
}

static bool is_audio(const char *name)
{
    static const char *const words[] = { "audio", "wave", "sample", "speech", "pcm" };

    return has(name, words, ARRAY_SIZE(words));
}

static bool is_channels(int64_t dim)
{
    return dim == 1 || dim == 3 || dim == 4;
}

/* The first of the two dimensions of an image; -1: it is none. */
static int image_at(const struct shape *s)
{
    if (s->rank == 4 && is_channels(s->dim[3]) && !is_channels(s->dim[1]))
        return 1;
    if (s->rank == 4 && (is_channels(s->dim[1]) || s->dim[1] < 0))
        return 2;
    return s->rank == 3 && is_channels(s->dim[0]) && s->dim[1] < 0 && s->dim[2] < 0 ? 1 : -1;
}

/* An image is as high as it is wide, if one of both is known. */
static int64_t image_size(const struct shape *s, int first, int d, struct input_hints *h)
{
    int other = d == first ? first + 1 : first;
    int64_t usual = d == first ? h->usual.height : h->usual.width;

    if (s->dim[other] > 1)
        return s->dim[other];
    h->used_image = true;
    return usual ? usual : IMAGE;
}

static int64_t sequence_size(int64_t most, struct input_hints *h)
{
    h->used_sequence = true;
    return h->usual.sequence ? h->usual.sequence : most;
}

static int64_t cached(const char *name)
{
    if (strchr(name, '+') || strcasestr(name, "total"))
        return PAST_TOKENS + 1;
    return strcasestr(name, "past") ? PAST_TOKENS : 0;
}

void input_hint(struct input_hints *h, const struct engine_value *v)
{
    h->past |= strcasestr(v->name, "past") != NULL;
    h->rate |= strcasecmp(v->name, "sr") == 0 || strcasestr(v->name, "sample_rate") ||
               strcasestr(v->name, "sampling_rate");
}

int64_t input_guess(const struct engine_value *v, const char *name, int d, struct input_hints *h)
{
    const struct shape *s = &v->shape;
    bool past = h->past;
    int image = tensor_type_float(v->type) || v->type == TENSOR_U8 ? image_at(s) : -1;
    bool batch = name && (strcasestr(name, "batch") || strcasecmp(name, "n") == 0 ||
                          strcasecmp(name, "b") == 0);

    if (past && name && cached(name))
        return cached(name);
    if (past && !name && strcasestr(v->name, "past") && d == s->rank - 2)
        return PAST_TOKENS;
    if (batch)
        return 1;
    if (h->rate && s->rank == 2 && d == 1 && tensor_type_float(v->type))
        return sequence_size(CHUNK, h);
    if (name && is_long(name))
        return past ? 1 : sequence_size(SEQUENCE, h);
    if (image >= 0 && (d == image || d == image + 1))
        return image_size(s, image, d, h);
    if (image == 2 && d == 1)
        return 3;
    if (d == 0)
        return 1;
    if (s->rank <= 2 && (is_audio(name) || is_audio(v->name)) && tensor_type_float(v->type))
        return sequence_size(AUDIO, h);
    /* Numbers in a row are most likely those of tokens. */
    if (s->rank == 2 && !tensor_type_float(v->type))
        return past ? 1 : sequence_size(SEQUENCE, h);
    return 1;
}
