/* check.c -- see check.h. */
#include "run/check.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct tensor view(const struct engine_value *v, const struct engine_tensor *t)
{
    return (struct tensor){ .name = v->name,
                            .type = t->type,
                            .shape = t->shape,
                            .count = shape_count(&t->shape),
                            .data = t->kind == VALUE_TENSOR ? t->data : NULL,
                            .bytes = t->type == TENSOR_STRING ? 0 : t->bytes };
}

/* "[0,17]"; a scalar has no place. */
static void place_text(const struct shape *s, int64_t i, char *out, size_t size)
{
    int64_t at[SHAPE_RANK_MAX];
    size_t n = 0;

    for (int d = s->rank - 1; d >= 0; d--) {
        at[d] = i % s->dim[d];
        i /= s->dim[d];
    }
    out[0] = '\0';
    for (int d = 0; d < s->rank && n < size; d++)
        n += (size_t)snprintf(out + n, size - n, "%s%" PRId64 "%s", d ? "," : "[", at[d],
                              d + 1 == s->rank ? "]" : "");
}

struct worst {
    double excess; /* difference over what is allowed */
};

/* What results of a model that computes in 16 bits may be off because something was rounded on the
 * way: a unit in the last place of the largest. */
static double rounding_of(const struct tensor *want, enum tensor_type inside)
{
    double unit = inside == TENSOR_F16 ? 0x1p-10 : inside == TENSOR_BF16 ? 0x1p-7 : 0, most = 0;

    for (int64_t i = 0; unit > 0 && i < want->count; i++) {
        double size = fabs(tensor_float(want, i));

        most = isfinite(size) ? MAX(most, size) : most;
    }
    return unit * most;
}

enum tensor_type check_rounds(const struct model *m)
{
    enum tensor_type found = TENSOR_NONE;

    for (uint32_t i = 0; i < m->graph->nvalue; i++) {
        enum tensor_type t = m->graph->value[i].type;

        if (t == TENSOR_BF16 || (t == TENSOR_F16 && found != TENSOR_BF16))
            found = t;
    }
    return found;
}

static void compare(const struct tensor *got, const struct tensor *want, double atol, double rtol,
                    enum tensor_type inside, struct run_check *out, struct worst *worst)
{
    if (tensor_type_float(want->type))
        atol = MAX(atol, rounding_of(want, inside));
    for (int64_t i = 0; i < want->count; i++) {
        double a = tensor_float(got, i), b = tensor_float(want, i), diff = fabs(a - b);
        double allowed = atol + rtol * fabs(b), excess;
        char place[160];

        out->elements++;
        if (a == b || (isnan(a) && isnan(b)))
            continue;
        if (isnan(diff))
            diff = INFINITY;
        out->max_abs = MAX(out->max_abs, diff);
        if (diff <= allowed)
            continue;
        out->wrong++;
        excess = allowed > 0 ? diff / allowed : INFINITY;
        if (excess <= worst->excess)
            continue;
        worst->excess = excess;
        place_text(&want->shape, i, place, sizeof(place));
        snprintf(out->worst, sizeof(out->worst),
                 "output '%.80s'%s%s is %.9g instead of %.9g (off by %.3g, allowed %.3g)",
                 got->name, *place ? " at " : "", place, a, b, diff, allowed);
    }
}

static void compare_texts(const struct tensor *got, const struct tensor *want,
                          struct run_check *out, struct worst *worst)
{
    const struct tensor_string *a = got->data, *b = want->data;

    for (int64_t i = 0; i < want->count; i++) {
        char place[160];

        out->elements++;
        if (a[i].len == b[i].len && (a[i].len == 0 || memcmp(a[i].s, b[i].s, a[i].len) == 0))
            continue;
        out->wrong++;
        out->max_abs = INFINITY;
        if (worst->excess == INFINITY)
            continue;
        worst->excess = INFINITY;
        place_text(&want->shape, i, place, sizeof(place));
        snprintf(out->worst, sizeof(out->worst), "output '%.80s'%s%s is '%.*s' instead of '%.*s'",
                 got->name, *place ? " at " : "", place, (int)MIN(a[i].len, (size_t)60),
                 a[i].len ? a[i].s : "", (int)MIN(b[i].len, (size_t)60), b[i].len ? b[i].s : "");
    }
}

int check_outputs(const struct npz *ref, const char *ref_name, const struct engine_value *value,
                  const struct engine_tensor *t, size_t n, double atol, double rtol,
                  enum tensor_type inside, struct run_check *out, opm_error *err)
{
    struct worst worst = { 0 };
    size_t found = 0;

    *out = (struct run_check){ .done = true, .ok = true };
    for (size_t i = 0; i < n; i++) {
        struct tensor got = view(&value[i], &t[i]);
        /* Of no elements there may be no memory. */
        bool held = t[i].kind == VALUE_TENSOR && (got.data || got.count == 0);
        const struct tensor *want;
        char name[600], has[128], wants[128];

        snprintf(name, sizeof(name), "out_%s", value[i].name);
        want = npz_find(ref, name);
        if (!want)
            continue;
        found++;
        if ((got.type == TENSOR_STRING) != (want->type == TENSOR_STRING)) {
            out->wrong++;
            snprintf(out->worst, sizeof(out->worst), "output '%.80s' is of %s instead of %s",
                     got.name, tensor_type_name(got.type), tensor_type_name(want->type));
            worst.excess = INFINITY;
            continue;
        }
        if (held && got.type == TENSOR_STRING && shape_equal(&got.shape, &want->shape)) {
            compare_texts(&got, want, out, &worst);
            continue;
        }
        if (held && shape_equal(&got.shape, &want->shape)) {
            compare(&got, want, atol, rtol, inside, out, &worst);
            continue;
        }
        shape_text(&got.shape, has, sizeof(has));
        shape_text(&want->shape, wants, sizeof(wants));
        worst.excess = INFINITY;
        out->wrong++;
        snprintf(out->worst, sizeof(out->worst), "output '%.80s' is %.60s instead of %.60s",
                 got.name, has, wants);
    }
    out->ok = out->wrong == 0;
    if (!found)
        return opm__fail(err, OPM_EINVAL,
                         "%s: has no output of this model; its arrays must be named out_NAME, such "
                         "as out_%s",
                         ref_name, n ? value[0].name : "y");
    return 0;
}

int save_outputs(const char *dir, bool replace, const struct engine_value *value,
                 const struct engine_tensor *t, size_t n, opm_error *err)
{
    int rc = run_make_folder(dir, err);

    for (size_t i = 0; !rc && i < n; i++) {
        struct tensor one = view(&value[i], &t[i]);
        char path[FOLDER_PATH_MAX], name[256];

        snprintf(name, sizeof(name), "%.200s", value[i].name);
        for (char *c = name; *c; c++)
            if (*c == '/' || (unsigned char)*c < ' ' || *c == 0x7f)
                *c = '_'; /* bounded: in place of what is there */
        if (!one.data && one.count != 0)
            return opm__fail(
                err, OPM_EUNSUPPORTED,
                "--save-outputs: output '%s' is a sequence, map or optional, which .npy "
                "cannot hold",
                value[i].name);
        if ((size_t)snprintf(path, sizeof(path), "%s/%s.npy", dir,
                             name[0] == '.' ? "output" : name) >= sizeof(path))
            return opm__fail(err, OPM_EINVAL, "%s: the path is too long", dir);
        if (!replace && access(path, F_OK) == 0)
            return opm__fail(err, OPM_EINVAL, "%s: exists; --force replaces it", path);
        rc = npy_write(path, &one, err);
    }
    return rc;
}
