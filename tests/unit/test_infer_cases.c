/* test_infer_cases.c -- inference over the backend tests of ONNX, if they are installed. */
#include "base/io.h"
#include "graph/infer.h"
#include "graph/onnx_int.h"
#include "unit.h"

#include <dirent.h>
#include <math.h>

/* Debian's libonnx-testdata. What is inferred from the recorded inputs must be what was recorded as
 * outputs. */
#define CASES "/usr/share/libonnx-testdata/data"
#define INPUTS_MAX 64

struct tally {
    int cases, resolved, open, wrong, skipped;
};

static bool read_tensor_file(struct loader *ld, const char *dir, const char *stem, uint32_t i,
                             struct io_map *map, struct tensor *out)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/test_data_set_0/%s_%u.pb", dir, stem, i);
    if (io_map(map, path, 0, NULL))
        return false;
    ld->steps = 0;
    return ld_tensor(ld, (struct slice){ map->data, map->len }, path, out) == 0;
}

static void compare_output(struct tally *t, const char *dir, const struct value *v,
                           const struct tensor *want)
{
    char got[160], rec[160];
    bool same = v->type == TENSOR_NONE || v->type == want->type;

    /* Python had no bfloat16 when the data was recorded. */
    same = same || (v->type == TENSOR_BF16 && want->type == TENSOR_U16);
    if (v->shape.rank >= 0 && v->shape.rank != want->shape.rank)
        same = false;
    for (int32_t d = 0; d < v->shape.rank && same; d++)
        same = v->shape.dim[d] < 0 || v->shape.dim[d] == want->shape.dim[d];
    for (int64_t i = 0; same && v->data && i < want->count && want->type != TENSOR_STRING; i++) {
        double a = tensor_float(v->data, i), b = tensor_float(want, i);

        same = a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-5 * (1 + fabs(b));
    }
    if (!same) {
        shape_text(&v->shape, got, sizeof(got));
        shape_text(&want->shape, rec, sizeof(rec));
        print_message("%s: '%s' is %s %s, recorded %s %s\n", dir, v->name,
                      tensor_type_name(v->type), got, tensor_type_name(want->type), rec);
        t->wrong++;
    } else if (v->type == TENSOR_NONE || !shape_concrete(&v->shape))
        t->open++;
    else
        t->resolved++;
}

/* How much inference is told about the inputs; with less it may know less, but nothing else. */
enum telling { ALL, SHAPES, SOME_SIZES, RANKS, NOTHING, NTELLING };

static void tell(struct infer_input *in, enum telling how, const struct tensor *x)
{
    in->data = how == ALL ? x : NULL;
    in->shape = x->shape;
    for (int32_t d = 0; d < x->shape.rank; d++)
        if (how == RANKS || (how == SOME_SIZES && d % 2))
            in->shape.dim[d] = -1;
    if (how == NOTHING)
        in->shape.rank = -1; /* and what the file declares is taken away, too */
}

static void run_telling(struct tally *t, const char *dir, struct model *m, enum telling how)
{
    struct infer_input in[INPUTS_MAX];
    struct tensor tensor[INPUTS_MAX], want;
    struct io_map map[INPUTS_MAX + 1] = { 0 };
    struct infer_options opt = { .input = in, .inputs_only = true };
    opm_error err = { 0 };
    struct loader ld = { .m = m, .impl = m->impl, .err = &err, .steps_max = 1 << 20 };
    bool half = false;

    for (uint32_t i = 0; i < m->graph->ninput && i < INPUTS_MAX; i++) {
        struct value *v = &m->graph->value[m->graph->input[i]];
        struct tensor *x = &tensor[opt.ninput];

        half = half || v->declared_type == TENSOR_BF16;
        if (v->kind == VALUE_TENSOR && read_tensor_file(&ld, dir, "input", i, &map[i], x)) {
            in[opt.ninput].name = v->name;
            tell(&in[opt.ninput++], how, x);
        }
        if (how == NOTHING)
            v->declared = NULL;
    }
    if (half)
        opt.ninput = 0; /* recorded as something else, see above */
    if (graph_infer(m, &opt, &err)) {
        print_message("%s\n", err.msg);
        t->wrong++;
    } else
        for (uint32_t i = 0; i < m->graph->noutput; i++) {
            const struct value *v = &m->graph->value[m->graph->output[i]];

            if (v->kind == VALUE_TENSOR &&
                read_tensor_file(&ld, dir, "output", i, &map[INPUTS_MAX], &want))
                compare_output(t, dir, v, &want);
            else
                t->skipped++;
            io_map_release(&map[INPUTS_MAX]);
        }
    for (size_t i = 0; i < INPUTS_MAX; i++)
        io_map_release(&map[i]);
}

static void run_case(struct tally *t, const char *dir)
{
    opm_error err = { 0 };
    struct model *m;
    char path[512];

    snprintf(path, sizeof(path), "%s/model.onnx", dir);
    if (model_load(&m, path, &err))
        fail_msg("%s", err.msg);
    /* As the file stands: what it declares must agree with what is inferred. */
    if (graph_infer(m, NULL, &err)) {
        print_message("%s\n", err.msg);
        t[ALL].wrong++;
    }
    for (enum telling how = ALL; how < NTELLING; how++) {
        t[how].cases++;
        run_telling(&t[how], dir, m, how);
    }
    model_free(m);
}

static void test_node_cases(void **state)
{
    static const char *const folders[] = { "node", "pytorch-converted", "pytorch-operator",
                                           "simple" };
    static const char *const names[] = { "values", "shapes", "some sizes", "ranks", "nothing" };
    struct tally t[NTELLING] = { 0 };

    (void)state;
    if (access(CASES "/node", R_OK) < 0)
        skip();
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        char path[400], dir[400];
        struct dirent *e;
        DIR *d;

        snprintf(path, sizeof(path), "%s/%s", CASES, folders[i]);
        d = opendir(path);
        if (!d)
            continue;
        for (e = readdir(d); e; e = readdir(d)) {
            if (strncmp(e->d_name, "test_", 5) != 0)
                continue;
            snprintf(dir, sizeof(dir), "%.120s/%.250s", path, e->d_name);
            run_case(t, dir);
        }
        closedir(d);
    }
    for (int i = 0; i < NTELLING; i++)
        print_message("%d cases, %s of inputs known: %d outputs resolved, %d open, %d wrong, "
                      "%d not tensors\n",
                      t[i].cases, names[i], t[i].resolved, t[i].open, t[i].wrong, t[i].skipped);
    for (int i = 0; i < NTELLING; i++)
        assert_int_equal(t[i].wrong, 0);
    assert_true(t[ALL].cases >= 932 && t[ALL].open <= 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_node_cases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
