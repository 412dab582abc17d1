/* test_zoo.c -- the models that are made on the spot: valid, resolved, repeatable, sparse. */
#include "graph/zoo.h"

#include "base/io.h"
#include "graph/footprint.h"
#include "graph/infer.h"
#include "graph/weights.h"
#include "unit.h"

#include <math.h>

static uint64_t fnv(const char *p, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)p[i]) * 0x100000001b3u;
    return h;
}

static struct model *load(const char *name)
{
    struct model *m = NULL;
    opm_error err = { 0 };

    if (model_load(&m, name, &err))
        fail_msg("%s: %s", name, err.msg);
    if (graph_infer(m, NULL, &err))
        fail_msg("%s: %s", name, err.msg);
    return m;
}

static int64_t parameters(const struct graph *g)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < g->nvalue; i++)
        if ((g->value[i].flags & VALUE_CONSTANT) && g->value[i].type == TENSOR_F32)
            n += g->value[i].data->count;
    return n;
}

static int64_t flops(const struct graph *g)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < g->nnode; i++) {
        struct footprint f;

        node_footprint(g, &g->node[i], &f);
        assert_true(f.flops >= 0 && f.read_bytes >= 0 && f.write_bytes >= 0);
        sum += f.flops;
    }
    return sum;
}

/* Nodes, parameters and FLOPs of each; the counts are those of the same networks from PyTorch. */
static void test_models(void **state)
{
    static const struct {
        const char *name;
        uint32_t nodes;
        int64_t parameters;
        double gflops; /* within 1 % */
    } cases[] = {
        { "zoo:mlp", 6, 235146, 0.00047 },
        { "zoo:lstm", 3, 100618, 0.0100 },
        { "zoo:resnet18", 49, 11684712, 3.636 },
        { "zoo:resnet18?bn=1&opset=13", 69, 11699112, 3.638 },
        { "zoo:mobilenetv2", 100, 3487818, 0.621 },
        { "zoo:mobilenetv2?batch=2", 100, 3487818, 1.242 },
        { "zoo:vit-tiny", 357, 5717420, 2.540 },
        { "zoo:bert-mini", 146, 11006469, 0.881 },
        { "zoo:bert-mini?opset=13", 218, 11006471, 0.881 },
        { "zoo:bert-mini?opset=21&seq=16", 146, 10977797, 0.1026 },
        { "zoo:resnet50", 122, 25530472, 8.207 },
        { "zoo:gpt2-small?seq=8", 425, 123659590, 2.022 },
        /* 37,760,640 in Hugging Face's and six constants. Products by hand 40.74: a layer of the
         * encoder four of 384 x 384, two of 384 x 1536, attention of 1,500 to 1,500, four of them;
         * two convolutions; the decoder's keys and values of 1,500; and the softmax 0.27 */
        { "zoo:whisper-tiny", 387, 37760646, 41.01 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct model *m = load(cases[i].name);
        struct infer_count c;
        double g = (double)flops(m->graph) / 1e9;

        graph_infer_count(m, &c);
        if (c.resolved != c.values || m->graph->nnode != cases[i].nodes ||
            parameters(m->graph) != cases[i].parameters || fabs(g / cases[i].gflops - 1) > 0.01)
            fail_msg("%s: %u of %u values, %u nodes, %lld parameters, %g GFLOP", cases[i].name,
                     c.resolved, c.values, m->graph->nnode, (long long)parameters(m->graph), g);
        model_free(m);
    }
}

/* Decoders have open sizes; the counts are by hand, from the layers of the architecture. */
static void test_decoders(void **state)
{
    static const struct {
        const char *name;
        uint32_t nodes;
        int64_t parameters;
    } cases[] = {
        /* table and head of 4096 x 256, four layers of two norms, 256 x 384, 256 x 256 and three
         * times 256 x 704, a norm, cosines and sines of 4096 x 16 */
        { "zoo:llama-tiny", 53,
          2 * 4096 * 256 + 4 * (512 + 256 * 384 + 256 * 256 + 3 * 256 * 704) + 256 +
              2 * 4096 * 16 },
    };
    const struct infer_dim dim[] = { { "batch_size", 2 },
                                     { "sequence_length", 3 },
                                     { "past_sequence_length", 8 },
                                     { "total_sequence_length", 8 } };
    const struct infer_options opt = { .dim = dim, .ndim = ARRAY_SIZE(dim) };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct model *m = load(cases[i].name);
        const struct graph *g = m->graph;
        opm_error err;

        assert_int_equal(g->nnode, cases[i].nodes);
        assert_int_equal(parameters(g), cases[i].parameters);
        assert_int_equal(graph_infer(m, &opt, &err), 0);
        assert_int_equal(g->value[g->output[0]].shape.dim[1], 3); /* logits */
        assert_int_equal(g->value[g->output[1]].shape.dim[2], 8); /* present */
        model_free(m);
    }
}

/* An open batch stays open, has its name, and can be given a size. */
static void test_open_batch(void **state)
{
    static const char *const names[] = { "zoo:vit-tiny?batch=N", "zoo:lstm?batch=N",
                                         "zoo:mobilenetv2?batch=N", "zoo:mlp?batch=N" };
    const struct infer_dim dim = { "N", 3 };
    const struct infer_options opt = { .dim = &dim, .ndim = 1 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct model *m = load(names[i]);
        const struct value *out = &m->graph->value[m->graph->output[0]];
        struct infer_count c;
        opm_error err;

        assert_string_equal(model_dim_name(m, out->shape.dim[0]), "N");
        assert_int_equal(graph_infer(m, &opt, &err), 0);
        assert_int_equal(out->shape.dim[0], 3);
        graph_infer_count(m, &c);
        assert_int_equal(c.resolved, c.values);
        model_free(m);
    }
}

/* The same bytes everywhere and always: these numbers may only change on purpose. */
static void test_same_bytes(void **state)
{
    static const struct {
        const char *name;
        uint64_t hash;
    } cases[] = {
        { "mlp", 0x65ad50f84bbe5ec8 },
        { "lstm?sparsity=0.75&seed=7", 0x98bb09947a955d6b },
        { "mobilenetv2?bn=1", 0x952053b59e1d1996 },
        { "vit-tiny?opset=13", 0x1c803d6eec037096 },
    };
    struct buf a = { 0 }, b = { 0 };
    opm_error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(zoo_build(cases[i].name, &a, &err), 0);
        if (fnv(a.data, a.len) != cases[i].hash)
            fail_msg("%s: hash is 0x%016llx", cases[i].name,
                     (unsigned long long)fnv(a.data, a.len));
        buf_release(&a);
    }
    assert_int_equal(zoo_build("zoo:mlp?seed=2", &a, &err), 0);
    assert_int_equal(zoo_build("mlp", &b, &err), 0);
    assert_int_equal(a.len, b.len);
    assert_memory_not_equal(a.data, b.data, a.len);
    buf_release(&a);
    buf_release(&b);
}

static void test_write(void **state)
{
    struct buf b = { 0 };
    struct io_map m = { 0 };
    opm_error err;

    (void)state;
    assert_int_equal(zoo_build("lstm", &b, &err), 0);
    assert_int_equal(zoo_write("zoo:lstm", unit_path("l.onnx"), &err), 0);
    assert_int_equal(io_map(&m, unit_path("l.onnx"), 0, &err), 0);
    assert_int_equal(m.len, b.len);
    assert_memory_equal(m.data, b.data, b.len);
    io_map_release(&m);
    buf_release(&b);
    assert_int_equal(zoo_write("lstm", "/nonexistent/l.onnx", &err), OPM_EIO);
    assert_int_equal(zoo_write("nothing", unit_path("n.onnx"), &err), OPM_ENOTFOUND);
    assert_int_equal(access(unit_path("n.onnx"), F_OK), -1);
}

/* Weights: finite, of the size they should have, and as sparse as asked for, in blocks of 4. */
static void test_sparsity(void **state)
{
    static const struct {
        const char *name;
        double want;
    } cases[] = {
        { "zoo:mobilenetv2?sparsity=0.9", 0.9 },
        { "zoo:bert-mini?sparsity=0.5&seq=8", 0.5 },
        { "zoo:lstm?sparsity=0.25", 0.25 },
        { "zoo:mlp?sparsity=1", 1 },
        { "zoo:mlp", 0 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct model *m = load(cases[i].name);
        int64_t counted = 0;
        double element = 0, blocks = 0;

        for (uint32_t k = 0; k < m->graph->nnode; k++) {
            const struct node *n = &m->graph->node[k];
            struct weight_zeros z;
            struct footprint f;
            const struct tensor *t;

            node_footprint(m->graph, n, &f);
            if (f.weight_slot < 0 || node_is(n, "Gather"))
                continue;
            t = node_const(m->graph, n, (uint32_t)f.weight_slot);
            weight_zeros(t, weight_axis(m->graph, n, f.weight_slot), &z);
            element += z.element * (double)t->count;
            blocks += z.b4x1 * (double)t->count;
            counted += t->count;
        }
        assert_true(counted > 0);
        assert_true(fabs(element / (double)counted - cases[i].want) < 0.02);
        assert_true(fabs(blocks / (double)counted - cases[i].want) < 0.02);
        model_free(m);
    }
}

static void test_weights(void **state)
{
    struct model *m = load("zoo:mlp");
    const struct tensor *t = m->graph->value[graph_find_value(m->graph, "fc0.weight")].data;
    double sum = 0, square = 0, std;

    (void)state;
    for (int64_t i = 0; i < t->count; i++) {
        double v = tensor_float(t, i);

        assert_true(isfinite(v));
        sum += v;
        square += v * v;
    }
    std = sqrt(square / (double)t->count);
    assert_true(fabs(sum / (double)t->count) < 0.001);
    assert_true(fabs(std / sqrt(2.0 / 784) - 1) < 0.01);
    model_free(m);
}

static void test_options(void **state)
{
    static const struct {
        const char *name, *want;
    } cases[] = {
        { "zoo:resnet19", "zoo: no model 'resnet19'; did you mean 'resnet18'?" },
        { "", "zoo: no model ''" },
        { "mlp?seq=5",
          "zoo:mlp: no option 'seq' (it has batch opset seed sparsity pattern dtype)" },
        { "mlp?batch", "zoo:mlp: no option 'batch'" },
        { "mlp?batch=0", "zoo:mlp: option batch cannot be '0'" },
        { "mlp?batch=a-b", "option batch cannot be 'a-b'" },
        { "mlp?batch=", "option batch cannot be ''" },
        { "mlp?batch=99999999999999999999", "option batch cannot be" },
        { "mlp?opset=12", "option opset cannot be '12'" },
        { "mlp?opset=22", "option opset cannot be '22'" },
        { "mlp?sparsity=1.5", "option sparsity cannot be '1.5'" },
        { "mlp?sparsity=.", "option sparsity cannot be '.'" },
        { "mlp?seed=-1", "option seed cannot be '-1'" },
        { "resnet18?bn=2", "option bn cannot be '2'" },
        { "bert-mini?seq=100000", "option seq cannot be '100000'" },
        { "mlp?batch=1&&seed=2", "no option ''" },
        { "mlp?aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1",
          "is too long" },
    };
    struct buf b = { 0 };
    opm_error err;
    size_t n;
    const struct zoo_entry *all = zoo_list(&n);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int rc = zoo_build(cases[i].name, &b, &err);

        assert_true(rc == OPM_EINVAL || rc == OPM_ENOTFOUND);
        if (!strstr(err.msg, cases[i].want))
            fail_msg("%s: '%s' lacks '%s'", cases[i].name, err.msg, cases[i].want);
        assert_int_equal(b.len, 0);
    }
    for (size_t i = 0; i < n; i++)
        assert_true(all[i].name[0] && all[i].about[0] && strstr(all[i].options, "seed"));
}

static int build_once(void)
{
    struct buf b = { 0 };
    int rc = zoo_build("lstm?seq=2", &b, NULL);

    buf_release(&b);
    return rc;
}

static int load_once(void)
{
    struct model *m;
    opm_error err = { 0 };
    int rc = model_load(&m, "zoo:mlp", &err);

    if (!rc)
        model_free(m);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    unit_fail_each(build_once);
    unit_fail_each(load_once);
}

/* What ONNX's own checker and shape inference think, where Debian's python3-onnx is installed. Its
   test data alone leave a folder `onnx` that can be imported too, and holds nothing. */
static void test_checker(void **state)
{
    static const char *const names[] = { "mlp", "lstm?batch=N", "mobilenetv2?bn=1&opset=15",
                                         "vit-tiny?batch=N&opset=13", "bert-mini?seq=16" };
    char command[1200];
    opm_error err;

    (void)state;
    if (system("/usr/bin/python3 -c 'import onnx.checker' 2>/dev/null") != 0)
        skip();
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        assert_int_equal(zoo_write(names[i], unit_path("z.onnx"), &err), 0);
        snprintf(command, sizeof(command),
                 "/usr/bin/python3 -c 'import onnx, sys; "
                 "onnx.checker.check_model(onnx.load(sys.argv[1]), full_check=True)' '%s'",
                 unit_path("z.onnx"));
        if (system(command) != 0)
            fail_msg("%s: onnx.checker refuses it", names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),     cmocka_unit_test(test_decoders),
        cmocka_unit_test(test_open_batch), cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_write),      cmocka_unit_test(test_sparsity),
        cmocka_unit_test(test_weights),    cmocka_unit_test(test_options),
        cmocka_unit_test(test_no_memory),  cmocka_unit_test(test_checker),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
