/* test_native_lists.c -- strings, maps, random numbers. */
#include "engine/native/memory.h"
#include "run_rig.h"

static const struct engine_options options = ENGINE_OPTIONS_INIT;

/* A model of the nodes in mk, run twice: what it held before must not matter. The outputs are valid
 * until close_run(). */
struct run {
    struct model *model;
    struct engine *e;
};

static void run_twice(struct run *r, struct make *mk, int opset, struct engine_tensor *in,
                      size_t nin, struct engine_tensor *out, size_t nout)
{
    opm_error err = { 0 };

    if (make_model(mk, opset, &r->model, &err) ||
        engine_native.open(&r->e, r->model, &options, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < 2; i++)
        if (r->e->class->run(r->e, in, nin, out, nout, &err))
            fail_msg("%s", err.msg);
}

static void close_run(struct run *r, struct make *mk)
{
    r->e->class->close(r->e);
    model_free(r->model);
    make_free(mk);
}

#define TEXT(s)          \
    {                    \
        s, sizeof(s) - 1 \
    }

static struct engine_tensor words(struct tensor_string *w, int64_t n)
{
    return (struct engine_tensor){
        TENSOR_STRING, { 1, { n } }, w, (size_t)n * sizeof(*w), VALUE_TENSOR
    };
}

static void assert_words(const struct engine_tensor *t, const char *const *want, int64_t n)
{
    const struct tensor_string *s = t->data;

    assert_int_equal(t->type, TENSOR_STRING);
    assert_int_equal(shape_count(&t->shape), n);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(s[i].len, strlen(want[i]));
        assert_memory_equal(s[i].len ? s[i].s : "", want[i], s[i].len);
    }
}

static void concat_and_split(void **state)
{
    static const char *const both[] = { "a b=", "=", "  c=" };
    static const char *const by_space[] = { "a", "b=", "=", "", "c=", "" };
    static const int64_t counts[] = { 2, 1, 1 };
    _Alignas(64) struct tensor_string in_words[] = { TEXT("a b"), TEXT(""), TEXT("  c") },
                                      eq = TEXT("=");
    struct engine_tensor in[2] = { words(in_words, 3), words(&eq, 1) }, out[3];
    int64_t three = 3, one = 1;
    struct make mk = { 0 };
    struct run r = { 0 };

    (void)state;
    make_value(&mk, false, "x", TENSOR_STRING, &three, 1);
    make_value(&mk, false, "e", TENSOR_STRING, &one, 1);
    make_node(&mk, "StringConcat", "x,e", "y", NULL);
    make_node(&mk, "StringSplit", "y", "parts,n", NULL);
    make_value(&mk, true, "y", TENSOR_STRING, NULL, -1);
    make_value(&mk, true, "parts", TENSOR_STRING, NULL, -1);
    make_value(&mk, true, "n", TENSOR_I64, NULL, -1);
    run_twice(&r, &mk, 20, in, 2, out, 3);
    assert_words(&out[0], both, 3);
    assert_words(&out[1], by_space, 6);
    assert_memory_equal(out[2].data, counts, sizeof(counts));
    close_run(&r, &mk);
}

static void equal_words(void **state)
{
    static const uint8_t want[] = { 1, 0, 0 };
    _Alignas(64) struct tensor_string in_words[] = { TEXT("a"), TEXT(""), TEXT("ab") },
                                      a = TEXT("a");
    struct engine_tensor in[2] = { words(in_words, 3), words(&a, 1) }, out;
    int64_t three = 3, one = 1;
    struct make mk = { 0 };
    struct run r = { 0 };

    (void)state;
    make_value(&mk, false, "x", TENSOR_STRING, &three, 1);
    make_value(&mk, false, "a", TENSOR_STRING, &one, 1);
    make_node(&mk, "Equal", "x,a", "y", NULL);
    make_value(&mk, true, "y", TENSOR_BOOL, NULL, -1);
    run_twice(&r, &mk, 20, in, 2, &out, 1);
    assert_int_equal(out.bytes, sizeof(want));
    assert_memory_equal(out.data, want, sizeof(want));
    close_run(&r, &mk);
}

static void split_by(void **state)
{
    static const char *const want[] = { "o", "n", "-x-", "", "", "n---x" };
    _Alignas(64) struct tensor_string in_words[] = { TEXT("o-n--x-"), TEXT("--n---x") };
    struct engine_tensor in = words(in_words, 2), out[2];
    int64_t two = 2;
    struct make mk = { 0 };
    struct run r = { 0 };

    (void)state;
    make_value(&mk, false, "x", TENSOR_STRING, &two, 1);
    make_node(&mk, "StringSplit", "x", "parts,n", "delimiter@- maxsplit=2");
    make_value(&mk, true, "parts", TENSOR_STRING, NULL, -1);
    make_value(&mk, true, "n", TENSOR_I64, NULL, -1);
    run_twice(&r, &mk, 20, &in, 1, out, 2);
    assert_words(&out[0], want, 6);
    close_run(&r, &mk);
}

/* Beyond ASCII, and with what is no UTF-8 left alone. */
static void normalizes(void **state)
{
    static const char *const want[] = { "ÉTÉ", "\xff"
                                               "B" };
    _Alignas(64) struct tensor_string in_words[] = { TEXT("été"), TEXT("STOP"),
                                                     TEXT("\xff"
                                                          "b") };
    struct engine_tensor in = words(in_words, 3), out;
    int64_t three = 3;
    struct make mk = { 0 };
    struct run r = { 0 };

    (void)state;
    make_value(&mk, false, "x", TENSOR_STRING, &three, 1);
    make_node(&mk, "StringNormalizer", "x", "y",
              "case_change_action@UPPER is_case_sensitive=0 stopwords%stop,words");
    make_value(&mk, true, "y", TENSOR_STRING, NULL, -1);
    run_twice(&r, &mk, 20, &in, 1, &out, 1);
    assert_words(&out, want, 2);
    close_run(&r, &mk);
}

/* Words to numbers to words, and the operators that move elements whatever they are. */
static void labels(void **state)
{
    static const char *const want[] = { "none", "cat", "dog" };
    _Alignas(64) struct tensor_string in_words[] = { TEXT("dog"), TEXT("cat"), TEXT("eel") };
    struct engine_tensor in = words(in_words, 3), out;
    int64_t three = 3, turned[3] = { 2, 1, 0 };
    struct make mk = { 0 };
    struct run r = { 0 };

    (void)state;
    make_value(&mk, false, "x", TENSOR_STRING, &three, 1);
    make_weight(&mk, "turned", TENSOR_I64, &three, 1, turned, sizeof(turned));
    make_node(&mk, "Gather", "x,turned", "t", NULL);
    make_node(&mk, "ai.onnx.ml:LabelEncoder", "t", "n",
              "keys_strings%cat,dog values_int64s=5,6 default_int64=7");
    make_node(&mk, "ai.onnx.ml:LabelEncoder", "n", "y",
              "keys_int64s=6,5 values_strings%dog,cat default_string@none");
    make_value(&mk, true, "y", TENSOR_STRING, NULL, -1);
    run_twice(&r, &mk, 17, &in, 1, &out, 1);
    assert_words(&out, want, 3);
    close_run(&r, &mk);
}

/* Scores to a sequence of maps with names. */
static void zip_map(void **state)
{
    static const char *const names[] = { "no", "yes" };
    int64_t dim[2] = { 2, 2 };
    float scores[4] = { 0.25f, 0.75f, 1, 0 };
    struct engine_tensor in = rig_tensor(TENSOR_F32, scores, dim, 2), out;
    struct make mk = { 0 };
    struct run r = { 0 };

    (void)state;
    make_value(&mk, false, "x", TENSOR_F32, dim, 2);
    make_node(&mk, "ai.onnx.ml:ZipMap", "x", "y", "classlabels_strings%no,yes");
    make_value(&mk, true, "y", TENSOR_NONE, NULL, -1);
    run_twice(&r, &mk, 17, &in, 1, &out, 1);
    assert_int_equal(out.kind, VALUE_SEQUENCE);
    assert_int_equal(out.shape.dim[0], 2);
    for (int i = 0; i < 2; i++) {
        const struct engine_tensor *map = (const struct engine_tensor *)out.data + i,
                                   *item = map->data;

        assert_int_equal(map->kind, VALUE_MAP);
        assert_words(&item[0], names, 2);
        assert_memory_equal(item[1].data, scores + 2 * i, 2 * sizeof(float));
    }
    close_run(&r, &mk);
}

/* The first four moments of what is drawn, and another draw each run. */
static void draws(void **state)
{
    static const struct {
        const char *op, *attrs;
        double mean, variance, kurtosis;
    } cases[] = {
        { "RandomNormal", "shape=200,500 mean:2 scale:3 seed:7", 2, 9, 3 },
        { "RandomUniform", "shape=200,500 low:-1 high:3 seed:7", 1, 16.0 / 12, 1.8 },
        { "RandomNormal", "shape=200,500", 0, 1, 3 },
    };

    (void)state;
    for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
        struct engine_tensor out;
        struct make mk = { 0 };
        struct run r = { 0 };
        opm_error err = { 0 };
        double sum = 0, square = 0, fourth = 0;
        float first;

        make_node(&mk, cases[c].op, "", "y", cases[c].attrs);
        make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
        run_twice(&r, &mk, 17, NULL, 0, &out, 1);
        for (int i = 0; i < 100000; i++)
            sum += (double)((const float *)out.data)[i] / 100000;
        for (int i = 0; i < 100000; i++) {
            double d = (double)((const float *)out.data)[i] - cases[c].mean;

            square += d * d / 100000;
            fourth += d * d * d * d / 100000;
        }
        /* Each is off by less than 1 % of the spread, which is more than three deviations. */
        assert_true(fabs(sum - cases[c].mean) < 0.02 * sqrt(cases[c].variance));
        assert_true(fabs(square / cases[c].variance - 1) < 0.03);
        assert_true(fabs(fourth / (square * square) - cases[c].kurtosis) < 0.2);
        first = *(const float *)out.data;
        assert_int_equal(r.e->class->run(r.e, NULL, 0, &out, 1, &err), 0);
        assert_true(first != *(const float *)out.data);
        close_run(&r, &mk);
    }
}

/* Dropped with the ratio's probability, what stays is scaled, and the mask says which. */
static void drops(void **state)
{
    int64_t n = 100000;
    float *x = random_floats(n), ratio = 0.3f;
    uint8_t training = 1;
    struct engine_tensor in = rig_tensor(TENSOR_F32, x, &n, 1), out[2];
    struct make mk = { 0 };
    struct run r = { 0 };
    int64_t kept = 0;

    (void)state;
    make_value(&mk, false, "x", TENSOR_F32, &n, 1);
    make_weight(&mk, "ratio", TENSOR_F32, NULL, 0, &ratio, sizeof(ratio));
    make_weight(&mk, "training", TENSOR_BOOL, NULL, 0, &training, 1);
    make_node(&mk, "Dropout", "x,ratio,training", "y,mask", NULL);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    make_value(&mk, true, "mask", TENSOR_BOOL, NULL, -1);
    run_twice(&r, &mk, 13, &in, 1, out, 2);
    for (int64_t i = 0; i < n; i++) {
        bool keep = ((const uint8_t *)out[1].data)[i];
        float y = ((const float *)out[0].data)[i];

        kept += keep;
        assert_true(fabs((double)y - (keep ? (double)x[i] / 0.7 : 0)) < 1e-5);
    }
    assert_true(kept > 69000 && kept < 71000);
    close_run(&r, &mk);
    free(x);
}

/* What is given back is there for pieces of the same sizes, and gives way to what else needs it. */
static void memory_again(void **state)
{
    struct keep k = { 0 };
    struct budget b = { .left = 1 << 20, .most = 1 << 20, .spare = &k };
    struct budget *before;
    void *first, *second, *big;

    (void)state;
    first = keep_alloc(&k, 100000);
    second = keep_alloc(&k, 300000);
    assert_non_null(first);
    assert_non_null(second);
    keep_clear(&k);
    assert_ptr_equal(keep_alloc(&k, 100000), first);
    assert_ptr_equal(keep_alloc(&k, 300000), second);
    keep_release(&k);
    before = budget_use(&b);
    assert_non_null(keep_alloc(&k, 700000));
    assert_null(native_alloc(600000));
    keep_clear(&k);
    big = native_alloc(600000);
    assert_non_null(big);
    native_free(big);
    keep_release(&k);
    assert_int_equal(b.left, 1 << 20);
    budget_use(before);
}

/* Weights that share huge pages are apart from each other, and their budget gets all back. */
static void weights_together(void **state)
{
    enum { N = 60 };
    static const size_t sizes[] = { 1, 200000, 300000, 1 << 20, 3 << 20, 5 << 20, 20 << 20 };
    struct budget b = { .left = (int64_t)1 << 30, .most = (int64_t)1 << 30 };
    struct budget *before = budget_use(&b);

    (void)state;
    for (int round = 0; round < 2; round++) {
        unsigned char *p[N];
        size_t bytes[N];

        for (int i = 0; i < N; i++) {
            bytes[i] = sizes[rnd(i % 10 ? 5 : 7)];
            p[i] = native_alloc_weights(bytes[i]);
            assert_non_null(p[i]);
            assert_int_equal((uintptr_t)p[i] % NATIVE_ALIGN, 0);
            memset(p[i], i + 1, bytes[i]);
        }
        assert_true(b.left < b.most);
        for (int half = 0; half < 2; half++) /* every other one, then the rest */
            for (int i = half; i < N; i += 2) {
                for (size_t k = 0; k < bytes[i]; k++)
                    if (p[i][k] != i + 1)
                        fail_msg("byte %zu of block %d is not its own", k, i);
                native_free(p[i]);
            }
        assert_int_equal(b.left, b.most);
    }
    b.left = 100000;
    assert_null(native_alloc_weights(1 << 20));
    assert_int_equal(b.refused, 1 << 20);
    budget_use(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concat_and_split),
        cmocka_unit_test(equal_words),
        cmocka_unit_test(split_by),
        cmocka_unit_test(normalizes),
        cmocka_unit_test(labels),
        cmocka_unit_test(zip_map),
        cmocka_unit_test(draws),
        cmocka_unit_test(drops),
        cmocka_unit_test(memory_again),
        cmocka_unit_test(weights_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
