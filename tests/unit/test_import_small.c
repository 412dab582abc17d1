/* test_import_small.c -- small files of several formats: every prefix, every allocation that fails,
 * and the helpers that their readers share. */
#include "base/pb.h"
#include "base/pbtext.h"
#include "base/zblock.h"
#include "import/common/build.h"
#include "unit.h"

struct sample {
    const char *name;
    bool (*sniff)(const uint8_t *head, size_t len);
    int (*read)(struct store *st, const struct import_source *src, opm_error *err);
    struct buf data;
    size_t spans;
};

static const char onednn_log[] =
    "hello\n"
    "onednn_verbose,info,oneDNN v2.6.3 (commit N/A)\n"
    "onednn_verbose,info,prim_template:timestamp,operation,engine,primitive,implementation,prop_"
    "kind,"
    "memory_descriptors,attributes,auxiliary,problem_desc,exec_time\n"
    "onednn_verbose,1794726041662.889893,create:cache_miss,cpu,matmul,brg,undef,src_f32::blocked:"
    "ab:f0 "
    "wei_f32::blocked:ab:f0 dst_f32::blocked:ab:f0,attr-post-ops:sum+eltwise_relu "
    ",,2x3:3x4,1.68115\n"
    "onednn_verbose,1794726041664.685059,exec,cpu,convolution,jit,forward_inference,src_f32::b:f0 "
    "wei_f32::b:f0 bia_f32::b:f0 dst_f32::b:f0,,alg:direct,"
    "g2mb1_ic8oc16_ih14oh14kh3sh1dh0ph1_iw14ow14kw3sw1dw0pw1,16.5659\n";

static const char step_stats[] =
    "dev_stats { device: \"/device:CPU:0\" node_stats { node_name: \"a\" all_start_micros: 10 "
    "all_end_rel_micros: 5 timeline_label: \"a = Conv2D(x, b:1)\" memory { allocator_name: \"cpu\" "
    "total_bytes: 8 allocation_records { alloc_micros: 11 alloc_bytes: 8 } } output { slot: 0 "
    "tensor_description { dtype: DT_FLOAT shape { dim { size: 2 } dim { size: 3 } } } } } "
    "node_stats { node_name: \"b\" all_start_micros: 1 all_end_rel_micros: 5 thread_id: 3 } "
    "thread_names { key: 3 value: \"t\" } }\n";

static const char trt_profile[] = "[ { \"count\" : 5 } , { \"name\" : \"Conv_0 + Relu_1\", "
                                  "\"timeMs\" : 1.5, \"averageMs\" : 0.3, "
                                  "\"medianMs\" : 0.3, \"percentage\" : 100 } ]";
static const char trt_layers[] =
    "{\"Layers\": [{ \"Name\": \"Conv_0\", \"LayerType\": \"Cask\", \"Inputs\": [ { \"Name\": "
    "\"in\", "
    "\"Dimensions\": [2,8,4,4], \"Format/Datatype\": \"linear FP16\" } ], \"Outputs\": [ { "
    "\"Name\": "
    "\"out\", \"Dimensions\": [2,4,4,4], \"Datatype\": \"Half\" } ], \"ParameterType\": "
    "\"Convolution\", "
    "\"Kernel\": [1,1], \"OutMaps\": 4, \"Groups\": 1, \"Weights\": {\"Type\": \"Half\", "
    "\"Count\": 32}, "
    "\"x\": {\"y\": [null, true, \"\\u00e9\"]} }, \"name\"], \"Bindings\": [\"in\"]}";
static const char trt_times[] =
    "[ { \"startEnqMs\" : 2.5, \"endEnqMs\" : 2.6, \"startH2dMs\" : 2.5, \"endH2dMs\" : 2.57, "
    "\"startComputeMs\" : 2.57, \"endComputeMs\" : 3.4, \"startD2hMs\" : 3.4, \"endD2hMs\" : 3.5, "
    "\"h2dMs\" : 0.07, \"computeMs\" : 0.87, \"d2hMs\" : 0.1, \"latencyMs\" : 1.0 } ]";

static const char openvino_csv[] =
    "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms);\n"
    "conv;EXECUTED;Convolution;jit;0.5;0.25;\n"
    "relu;OPTIMIZED_OUT;ReLU;undef;0;0;\n"
    "Total;;;;0.5;0.25;\n";

/* A thread, interned names, a begin with annotations and flows, an end, a counter, a packed packet.
 */
static void perfetto_packets(struct buf *b)
{
    size_t p = pb_begin(b, 1), d, e, a;

    pb_varint(b, 10, 1);
    pb_varint(b, 13, 1);
    d = pb_begin(b, 60);
    pb_varint(b, 1, 5);
    e = pb_begin(b, 4);
    pb_varint(b, 1, 40);
    pb_varint(b, 2, 41);
    pb_str(b, 5, "worker");
    pb_end(b, e);
    pb_end(b, d);
    d = pb_begin(b, 12);
    e = pb_begin(b, 2);
    pb_varint(b, 1, 1);
    pb_str(b, 2, "step");
    pb_end(b, e);
    pb_end(b, d);
    pb_end(b, p);
    for (unsigned type = 1; type <= 4; type++) {
        p = pb_begin(b, 1);
        pb_varint(b, 8, 100 * type);
        pb_varint(b, 10, 1);
        d = pb_begin(b, 11);
        pb_varint(b, 9, type);
        pb_varint(b, 10, 1);
        pb_varint(b, 11, type == 4 ? 9 : 5);
        pb_varint(b, 30, 7);
        pb_fixed64(b, 47, 3);
        a = pb_begin(b, 4);
        pb_str(b, 10, "list");
        e = pb_begin(b, 12);
        pb_varint(b, 4, 12);
        pb_end(b, e);
        pb_end(b, a);
        pb_end(b, d);
        pb_end(b, p);
    }
}

static void make_xplane(struct buf *b)
{
    size_t plane = pb_begin(b, 1), line, event, meta, value;

    pb_str(b, 2, "/device:TPU:0");
    line = pb_begin(b, 3);
    pb_str(b, 2, "XLA Ops");
    pb_varint(b, 3, 1000);
    event = pb_begin(b, 4);
    pb_varint(b, 1, 1);
    pb_varint(b, 2, 1500);
    pb_varint(b, 3, 2000);
    meta = pb_begin(b, 4);
    pb_varint(b, 1, 2);
    pb_varint(b, 3, 99);
    pb_end(b, meta);
    pb_end(b, event);
    pb_end(b, line);
    meta = pb_begin(b, 4);
    pb_varint(b, 1, 1);
    value = pb_begin(b, 2);
    pb_str(b, 2, "%fusion.3 = bf16[8,128]{1,0} fusion(bf16[8,64]{1,0} %p0)");
    pb_str(b, 4, "fusion.3");
    pb_end(b, value);
    pb_end(b, meta);
    meta = pb_begin(b, 5);
    pb_varint(b, 1, 2);
    value = pb_begin(b, 2);
    pb_str(b, 2, "flops");
    pb_end(b, value);
    pb_end(b, meta);
    pb_end(b, plane);
}

static struct sample samples[] = {
    { "onednn", onednn_sniff, onednn_read, { 0 }, 2 },
    { "tensorflow", tensorflow_sniff, tensorflow_read, { 0 }, 2 },
    { "tensorrt profile", tensorrt_sniff, tensorrt_read, { 0 }, 1 },
    { "tensorrt layers", tensorrt_sniff, tensorrt_read, { 0 }, 0 },
    { "tensorrt times", tensorrt_sniff, tensorrt_read, { 0 }, 4 },
    { "openvino", openvino_sniff, openvino_read, { 0 }, 1 },
    { "perfetto", perfetto_sniff, perfetto_read, { 0 }, 2 },
    { "xplane", xplane_sniff, xplane_read, { 0 }, 1 },
};

static int make_samples(void **state)
{
    const char *const texts[] = { onednn_log, step_stats, trt_profile,
                                  trt_layers, trt_times,  openvino_csv };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        buf_adds(&samples[i].data, texts[i]);
    perfetto_packets(&samples[ARRAY_SIZE(texts)].data);
    make_xplane(&samples[ARRAY_SIZE(texts) + 1].data);
    return 0;
}

static int free_samples(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
        buf_release(&samples[i].data);
    return unit_cleanup(state);
}

static int read_sample(const struct sample *s, const void *p, size_t len, size_t *out_spans)
{
    struct import_source src = { .path = "x", .data = p, .len = len, .count = 1 };
    struct store *st = NULL;
    opm_error err = { 0 };
    int rc = store_new(&st);

    if (rc)
        return rc;
    rc = s->read(st, &src, &err);
    if (rc)
        assert_true(err.msg[0] != '\0');
    else
        rc = store_finish(st);
    if (!rc)
        *out_spans = store_nrow(st, TABLE_span);
    store_free(st);
    return rc;
}

/* Each is known by its content, and by nobody else's. */
static void test_sniff(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
        for (size_t k = 0; k < ARRAY_SIZE(samples); k++)
            assert_int_equal(
                samples[k].sniff((const uint8_t *)samples[i].data.data, samples[i].data.len),
                samples[k].read == samples[i].read);
}

static void test_prefixes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        const struct sample *s = &samples[i];
        size_t n = 0;

        assert_int_equal(read_sample(s, s->data.data, s->data.len, &n), 0);
        assert_int_equal(n, s->spans);
        for (size_t len = 0; len < s->data.len; len++) {
            char *cut = malloc(len + 1); /* its end is the end of the allocation, for sanitizers */
            int rc;

            assert_non_null(cut);
            memcpy(cut + 1, s->data.data, len);
            rc = read_sample(s, cut + 1, len, &n);
            assert_true(rc == 0 || rc == OPM_EFORMAT);
            s->sniff((const uint8_t *)cut + 1, len);
            free(cut);
        }
    }
}

static const struct sample *failing;

static int step_read(void)
{
    size_t n;

    return read_sample(failing, failing->data.data, failing->data.len, &n);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        failing = &samples[i];
        unit_fail_each(step_read);
    }
}

static void test_decimal(void **state)
{
    static const struct {
        const char *text;
        int scale;
        int64_t expect; /* INT64_MIN: none */
    } cases[] = {
        { "12.5", 6, 12500000 },
        { "0.0000005", 6, 1 },
        { "0.00000049", 6, 0 },
        { "1693533460193.346924", 6, 1693533460193346924 },
        { "1.5e-05", 6, 15 },
        { "2E3", 0, 2000 },
        { "-1.25", 1, -13 },
        { "9223372036854775807", 0, INT64_MAX },
        { "9223372036854775808", 0, INT64_MIN },
        { "1e400", 6, INT64_MIN },
        { "0e400", 6, 0 },
        { "", 6, INT64_MIN },
        { ".", 6, INT64_MIN },
        { "1.2.3", 6, INT64_MIN },
        { "1e", 6, INT64_MIN },
        { "nan", 6, INT64_MIN },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t v = INT64_MIN;

        if (!decimal_scaled(cases[i].text, strlen(cases[i].text), cases[i].scale, &v))
            v = INT64_MIN;
        if (v != cases[i].expect)
            fail_msg("%s: %lld", cases[i].text, (long long)v);
    }
    assert_int_equal(dtype_bytes("f32", 3), 4);
    assert_int_equal(dtype_bytes("DT_HALF", 7), 2);
    assert_int_equal(dtype_bytes("complex128", 10), 16);
    assert_int_equal(dtype_bytes("s8", 2), 1);
    assert_int_equal(dtype_bytes("undef", 5), 0);
    assert_int_equal(dtype_bytes("", 0), 0);
    assert_int_equal(shape_elements("2x3x4", 5), 24);
    assert_int_equal(shape_elements("2xx4", 4), -1);
    assert_int_equal(shape_elements("9999999999x9999999999", 21), -1);
}

static void test_pbtext(void **state)
{
    static const struct pbtext_field inner[] = { { .name = "n", .number = 1, .kind = PBTEXT_INT },
                                                 { .name = NULL } };
    static const struct pbtext_field outer[] = {
        { .name = "s", .number = 1, .kind = PBTEXT_STRING },
        { .name = "m", .number = 2, .kind = PBTEXT_MESSAGE, .message = inner },
        { .name = "d", .number = 3, .kind = PBTEXT_DOUBLE },
        { .name = NULL },
    };
    static const char text[] = "s: \"a\\101\" 'b' m { n: 5 } m < n: -1 > d: 1.5 z { s: 1 }";
    static const uint8_t wire[] = { 0x0a, 3,    'a',  'A',  'b',  0x12, 2,    0x08,
                                    5,    0x12, 0x0b, 0x08, 0xff, 0xff, 0xff, 0xff,
                                    0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x19, 0,
                                    0,    0,    0,    0,    0,    0xf8, 0x3f };
    struct pbtext_result result;
    struct buf out = { 0 }, deep = { 0 };

    (void)state;
    assert_int_equal(pbtext_to_wire(text, strlen(text), outer, &out, &result), 0);
    assert_false(result.bad);
    assert_int_equal(result.unknown, 1);
    assert_int_equal(out.len, sizeof(wire));
    assert_memory_equal(out.data, wire, sizeof(wire));
    buf_clear(&out);
    for (int i = 0; i < 1000; i++)
        buf_adds(&deep, "m {\n");
    assert_int_equal(pbtext_to_wire(deep.data, deep.len, outer, &out, &result), 0);
    assert_true(result.bad);
    assert_true(result.line < 100);
    buf_release(&out);
    buf_release(&deep);
}

static void test_zblock(void **state)
{
    struct buf text = { 0 }, packed = { 0 }, back = { .max = 1000 };
    char room[5000];

    (void)state;
    for (int i = 0; i < 1000; i++)
        buf_addf(&text, "%d,", i % 10);
    assert_int_equal(zblock_pack(&packed, text.data, text.len), 0);
    assert_true(packed.len < text.len / 4);
    assert_true(zblock_unpack(packed.data, packed.len, room, text.len));
    assert_memory_equal(room, text.data, text.len);
    assert_false(zblock_unpack(packed.data, packed.len, room, text.len - 1));
    assert_false(zblock_unpack(packed.data, packed.len - 1, room, text.len));
    assert_int_equal(zblock_unzstd(&back, packed.data, packed.len), OPM_ELIMIT);
    assert_int_equal(back.len, 1000);
    back.max = 0;
    buf_clear(&back);
    assert_int_equal(zblock_unzstd(&back, packed.data, packed.len - 3), OPM_EFORMAT);
    assert_int_equal(zblock_inflate(&back, text.data, text.len), OPM_EFORMAT);
    buf_release(&text);
    buf_release(&packed);
    buf_release(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sniff),     cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_decimal),
        cmocka_unit_test(test_pbtext),    cmocka_unit_test(test_zblock),
    };

    return cmocka_run_group_tests(tests, make_samples, free_samples);
}
