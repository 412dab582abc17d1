/* input.h -- what a model is fed with: files, literals, shapes, or random numbers that make sense.
 *
 * A description is what MegEngine's --input takes: items separated by ';', each NAME:VALUE (the
 * name may be left out if the model has one input). VALUE is
 *     FILE.npy               an array
 *     FILE.npz               several; members are named after inputs, or in_NAME. No NAME in front
 *     FILE.png, .jpg, ...    an image, and after commas how it becomes numbers (image_form.h)
 *     FILE.json              {"NAME": {"shape": [..], "type": "float32", "raw": [..]}}
 *     1x3x224x224            a shape; {1,3,224,224} is the same
 *     [[1,2],[3,4]], 16000   the numbers themselves, or [true,false]
 * Inputs that no description names get random values. */
#ifndef RUN_INPUT_H
#define RUN_INPUT_H

#include "base/arena.h"
#include "engine/engine.h"
#include "run/image_form.h"
#include "run/npy.h"
#include "run/run.h"

/* Sizes that are chosen for open dimensions, by what they are of; 0: those that suit most models.
 */
struct input_usual {
    int64_t height, width; /* of an image */
    int64_t sequence;      /* tokens, frames, samples of a stream: whatever comes one by one */
};

struct input_options {
    const char *const *text; /* descriptions */
    size_t ntext;
    const struct npz *ref;      /* arrays that take precedence (--check); NULL: none */
    const struct tensor *given; /* named after inputs, these win; data NULL: only a shape */
    size_t ngiven;
    const struct run_dim *dim;
    size_t ndim;
    int64_t batch_size; /* 0: not given */
    int64_t seq_len;
    uint64_t seed;
    int64_t max_bytes; /* of one input; 0: no limit */
    bool guess; /* sizes that stay open are chosen, and a batch or sequence that no input has is
                   said instead of refused */
    struct input_usual usual; /* what is chosen for them */
};

struct inputs {
    struct engine_tensor *t; /* 64-byte aligned data, in the order of the engine's inputs */
    const char **origin;     /* where each comes from: "random 0..1", "x.npy" */
    size_t n;
    const char *sizes;   /* "batch=1, seq=128": what was chosen for open dimensions; "": nothing */
    const char *ignored; /* what was asked for that fits no dimension, in words; "": nothing */
    bool chose_image, chose_sequence; /* ... which input_usual has a say in */
    struct arena arena;
};

/* Make an input for each of the n values. Fails if a description fits no input, if a shape does
 * not fit, or if a size stays open (the message names all of those) and is not to be chosen. */
int inputs_make(struct inputs *in, const struct model *m, const struct engine_value *value,
                size_t n, const struct input_options *opt, opm_error *err);
/* The same, and where sizes are chosen, such that the graph accepts them: what it scales images to
 * itself, or what other models have. The model is read again for that, by its name. If none fits,
 * they are those of inputs_make(). */
int inputs_make_fit(struct inputs *in, const struct model *m, const struct engine_value *value,
                    size_t n, const struct input_options *opt, opm_error *err);
/* Declared shapes of any values of the model, with the sizes that the options give to dimensions of
 * the inputs. What else is open stays so. */
int inputs_shapes(const struct model *m, const struct engine_value *input, size_t n,
                  const struct input_options *opt, const struct engine_value *of, size_t nof,
                  struct shape *out, opm_error *err);
void inputs_release(struct inputs *in); /* a zeroed one is fine */

/* -- what follows is shared by the files of inputs -- */

/* One item of a description. */
struct input_item {
    const char *name;   /* "" if it has none */
    struct tensor data; /* data NULL: only a shape */
    bool image;         /* data is height x width x channels, 8 bits */
    struct image_form form;
    bool any_type; /* numbers without a type of their own: a literal */
    bool used;
    const char *origin;
};

struct input_items {
    struct input_item *item;
    size_t n, cap;
    struct npz *npz; /* archives that items point into */
    size_t nnpz, npz_cap;
    struct io_map *map;
    size_t nmap, map_cap;
    struct arena arena;
};

int input_items_parse(struct input_items *items, const char *text, opm_error *err);
void input_items_release(struct input_items *items);

/* Is a dimension of that name what --seq-len is about? */
bool input_is_sequence(const char *name);
/* What the other inputs of a model tell about sizes. */
struct input_hints {
    bool past; /* it has a cache of tokens */
    bool rate; /* it is told how many samples of sound a second has */
    struct input_usual usual;
    bool used_image, used_sequence; /* set where `usual` decided */
};
void input_hint(struct input_hints *h, const struct engine_value *v);
/* A size for dimension d of an input that is open; name: NULL if it has none. */
int64_t input_guess(const struct engine_value *v, const char *name, int d, struct input_hints *h);

/* One element of a floating-point type; other types get a zero byte. */
void input_put_float(uint8_t *p, enum tensor_type type, double v);

/* Fill a tensor with random values that suit the input; says how in *origin. */
void input_random(const struct model *m, const struct engine_value *v, struct engine_tensor *t,
                  uint64_t seed, const char **origin);

#endif
