/* test_graph_bad.c -- the ONNX reader: files that are wrong, hostile or huge. */
#include "graph/graph.h"

#include "graph_rig.h"

#include <sys/mman.h>
#include <sys/stat.h>

#define BYTES(s) (s), sizeof(s) - 1 /* of a literal that may hold NULs */

/* A function that calls itself, and functions that double at each level: both are refused soon. */
static void test_function_bombs(void **state)
{
    (void)state;
    for (int deep = 0; deep < 2; deep++) {
        struct rig r;
        struct buf *b = &r.file;
        size_t n;

        rig_init(&r, 17);
        rig_input(&r, "x", RIG_DIMS(3));
        n = pb_begin(&r.w.node, 1);
        rig_names(&r.w.node, 1, "x");
        rig_names(&r.w.node, 2, "y");
        pb_str(&r.w.node, 4, deep ? "f13" : "f0");
        pb_end(&r.w.node, n);
        rig_output(&r, "y");
        rig_finish(&r);
        for (int i = 0; i < (deep ? 14 : 1); i++) {
            size_t f = pb_begin(b, 25);
            char name[16], callee[16];

            snprintf(name, sizeof(name), "f%d", i);
            snprintf(callee, sizeof(callee), "f%d", deep ? i - 1 : 0);
            pb_str(b, 1, name);
            pb_str(b, 4, "x");
            pb_str(b, 5, "y");
            if (deep && i == 0)
                rig_node(b, 7, "Neg", "x", "y");
            for (int k = 0; k < 10 && (i || !deep); k++) {
                char out[16];

                snprintf(out, sizeof(out), "t%d", k);
                rig_node(b, 7, callee, "x", k == 9 ? "y" : out);
            }
            pb_end(b, f);
        }
        assert_int_equal(rig_parse(&r), OPM_ELIMIT);
        rig_release(&r);
    }
}

/* Each kind of damage has a line that names the file and the place. */
static void test_errors(void **state)
{
    static const struct {
        const char *nodes; /* "Op:in,in:out;..." */
        const char *want;
        int code;
    } graphs[] = {
        { "Relu:x:y;Add:y,w:z", "m.onnx: node 1 (Add): input 1 'w' is produced by nothing",
          OPM_EFORMAT },
        { "Relu:x:y;Abs:x:y", "m.onnx: node 1 (Abs): output 0 'y' is already", OPM_EFORMAT },
        { "Relu:x:x", "m.onnx: node 0 (Relu): output 0 'x' is already", OPM_EFORMAT },
        { "Add:x,b:a;Neg:a:y;Exp:a:b", "needs its own output (a cycle)", OPM_EFORMAT },
        { "Relu:x:z", "m.onnx: output 'y' is produced by nothing", OPM_EFORMAT },
        { ":x:y", "m.onnx: node 0 () has no operator type", OPM_EFORMAT },
        { "Constant::y", "has 0 attributes instead of one value", OPM_EFORMAT },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(graphs); i++) {
        struct rig r;
        char spec[200], *p = spec;

        rig_init(&r, 17);
        rig_input(&r, "x", RIG_DIMS(2));
        snprintf(spec, sizeof(spec), "%s", graphs[i].nodes);
        while (p && *p) {
            char *op = p, *in = strchr(op, ':') + 1, *out = strchr(in, ':') + 1;
            char *next = strchr(out, ';');

            in[-1] = out[-1] = '\0';
            if (next)
                *next++ = '\0';
            rig_node(&r.w.node, 1, op, in, out);
            p = next;
        }
        rig_output(&r, "y");
        assert_int_equal(rig_parse(&r), graphs[i].code);
        if (!strstr(r.err.msg, graphs[i].want))
            fail_msg("'%s' lacks '%s'", r.err.msg, graphs[i].want);
        rig_release(&r);
    }
}

/* Initializers and attributes that make no sense. */
static void test_bad_parts(void **state)
{
    static const struct {
        const char *bytes; /* a TensorProto */
        size_t len;
        const char *want;
    } tensors[] = {
        { BYTES("\010\002\020\001\102\001w\112\004abcd"),
          "initializer 0 'w' has 4 bytes of data, its shape wants 8" },
        { BYTES("\010\002\020\001\102\001w"), "initializer 0 'w' has no data" },
        { BYTES("\010\002\020\143\102\001w"),
          "initializer 0 'w' has element type 99, which is unknown" },
        { BYTES("\010\002\102\001w"), "initializer 0 'w' has no element type" },
        { BYTES("\010\377\377\377\377\377\377\377\377\177\010\377\377\377\377\377\377\377\377\177"
                "\020\001"
                "\102\001w"),
          "initializer 0 'w' has more elements than memory can hold" },
        { BYTES("\010\377\377\377\377\377\377\377\377\377\001\020\001\102\001w"),
          "initializer 0 'w' has dimension -1" },
        { BYTES("\010\003\020\007\102\001w\072\002\001\002"),
          "initializer 0 'w' has 2 elements of int64, its shape wants 3" },
        { BYTES("\020\001\102\001w\160\002"), "data location 2, which is unknown" },
        { BYTES("\020\001\102\001w\160\001"), "its external data has no location" },
        { BYTES("\020\001\102\001w\032\000"), "is only a segment" },
        { BYTES("\010\001\020\010\102\001w\112\001a"), "strings cannot be raw data" },
        { BYTES("\020\001"), "has no data" },
        { BYTES("\020\001\112\004abcd"), "initializer 0 has no name" },
        { BYTES("\012\002\001\200\020\001\102\001w"), "initializer 0 'w' has no data" },
        { BYTES("\015\001\000\000\000"), "wrong wire type" },
    };
    static const struct {
        const char *bytes; /* an AttributeProto */
        size_t len;
        const char *want;
    } attrs[] = {
        { BYTES("\012\001a\240\001\062"), "an attribute has type 50, which is unknown" },
        { BYTES("\240\001\002\030\005"), "an attribute has no name" },
        { BYTES("\012\001a\240\001\005"), "has 0 values instead of one" },
        { BYTES("\012\001a\240\001\002\252\001\001b"),
          "refers to 'b' of a function, but is in none" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(tensors); i++) {
        struct rig r;

        rig_init(&r, 17);
        rig_input(&r, "x", RIG_DIMS(2));
        pb_bytes(&r.w.io, 5, tensors[i].bytes, tensors[i].len);
        rig_output(&r, "x");
        assert_int_not_equal(rig_parse(&r), 0);
        if (!strstr(r.err.msg, tensors[i].want))
            fail_msg("%zu: '%s' lacks '%s'", i, r.err.msg, tensors[i].want);
        rig_release(&r);
    }
    for (size_t i = 0; i < ARRAY_SIZE(attrs); i++) {
        struct rig r;
        size_t n;

        rig_init(&r, 17);
        rig_input(&r, "x", RIG_DIMS(2));
        n = pb_begin(&r.w.node, 1);
        pb_str(&r.w.node, 1, "x");
        pb_str(&r.w.node, 2, "y");
        pb_str(&r.w.node, 4, "Relu");
        pb_bytes(&r.w.node, 5, attrs[i].bytes, attrs[i].len);
        pb_end(&r.w.node, n);
        rig_output(&r, "y");
        assert_int_not_equal(rig_parse(&r), 0);
        if (!strstr(r.err.msg, attrs[i].want))
            fail_msg("%zu: '%s' lacks '%s'", i, r.err.msg, attrs[i].want);
        assert_non_null(strstr(r.err.msg, "node 0 (Relu)"));
        rig_release(&r);
    }
}

static void test_duplicates(void **state)
{
    struct rig r;

    (void)state;
    rig_small(&r);
    ow_normal(&r.w, "w", (const int64_t[]){ 4 }, 1, 1, -1);
    assert_int_equal(rig_parse(&r), OPM_EFORMAT);
    assert_string_equal(r.err.msg, "m.onnx: initializer 'w' appears twice");
    rig_release(&r);
    rig_small(&r);
    rig_input(&r, "x", RIG_DIMS(1));
    assert_int_equal(rig_parse(&r), OPM_EFORMAT);
    assert_string_equal(r.err.msg, "m.onnx: input 'x' appears twice");
    rig_release(&r);
}

/* If in If in If ..., deeper than any network. */
static void test_deep(void **state)
{
    struct buf graph = { 0 };
    struct rig r;

    (void)state;
    rig_node(&graph, 1, "Neg", "x", "y");
    rig_info(&graph, 12, "y");
    for (int i = 0; i < 200; i++) {
        struct buf next = { 0 };
        size_t n = pb_begin(&next, 1), a;

        pb_str(&next, 2, "y");
        pb_str(&next, 4, "If");
        a = pb_begin(&next, 5);
        pb_str(&next, 1, "then_branch");
        pb_bytes(&next, 6, graph.data, graph.len);
        pb_varint(&next, 20, ATTR_GRAPH);
        pb_end(&next, a);
        pb_end(&next, n);
        rig_info(&next, 12, "y");
        buf_release(&graph);
        graph = next;
    }
    rig_init(&r, 17);
    rig_input(&r, "x", RIG_DIMS(1));
    ow_begin(&r.w, "If", NULL);
    ow_out(&r.w, "o");
    rig_attr_graph(&r, "then_branch", &graph);
    ow_end(&r.w);
    rig_output(&r, "o");
    assert_int_equal(rig_parse(&r), OPM_ELIMIT);
    assert_non_null(strstr(r.err.msg, "nested more than 24 deep"));
    buf_release(&graph);
    rig_release(&r);
}

static void test_not_onnx(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *want;
    } cases[] = {
        { BYTES(""), "not an ONNX model but an empty file" },
        { BYTES("{\"a\": 1}"), "not an ONNX model but JSON" },
        { BYTES("PK\003\004aaaaaaaa"), "not an ONNX model but a zip archive" },
        { BYTES("version https://git-lfs.github.com/spec/v1\n"), "a Git LFS pointer" },
        { BYTES("\x1c\0\0\0TFL3...."), "TensorFlow Lite" },
        { BYTES("\x18\0\0\0ORTM...."), "(.ort); give the .onnx file that it was made from" },
        { BYTES("\177ELF\2\1\1"), "a program or library" },
        { BYTES("\x40\0\0\0\0\0\0\0{\"__metadata__\":"), "safetensors" },
        { BYTES("hello, world\n"), "a text file" },
        { BYTES("\10\10\22\3abc"), "protobuf, but without a graph" },
        { BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "not an ONNX model, or damaged" },
        { BYTES("\10\10\72\177abc"), "the model is damaged or cut off" },
    };
    struct model *m;
    opm_error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int rc = model_parse(&m, cases[i].bytes, cases[i].len, "m.onnx", NULL, &err);

        assert_true(rc == OPM_EFORMAT || rc == OPM_ETRUNC);
        if (!strstr(err.msg, cases[i].want))
            fail_msg("%zu: '%s' lacks '%s'", i, err.msg, cases[i].want);
    }
    assert_int_equal(model_load(&m, "/nonexistent/m.onnx", &err), OPM_EIO);
    assert_int_equal(model_load(&m, "/tmp", &err), OPM_EIO);
}

/* One tensor w of n floats at offset of a file; more keys may follow in extra. */
static void extern_model(struct rig *r, const char *location, const char *offset,
                         const char *length, uint64_t n)
{
    struct buf *b = &r->w.io;
    const char *const keys[] = { "location", "offset", "length" };
    const char *const values[] = { location, offset, length };
    size_t t, e;

    rig_init(r, 17);
    t = pb_begin(b, 5);
    pb_varint(b, 1, n);
    pb_varint(b, 2, TENSOR_F32);
    pb_str(b, 8, "w");
    for (size_t i = 0; i < 3; i++) {
        if (!values[i])
            continue;
        e = pb_begin(b, 13);
        pb_str(b, 1, keys[i]);
        pb_str(b, 2, values[i]);
        pb_end(b, e);
    }
    pb_varint(b, 14, 1);
    pb_end(b, t);
    rig_output(r, "w");
    rig_finish(r);
}

static void test_extern(void **state)
{
    static const struct {
        const char *location, *offset, *length;
        uint64_t n;
        const char *want; /* NULL: fine */
    } cases[] = {
        { "w.bin", "4", "8", 2, NULL },
        { "w.bin", "4", NULL, 2, NULL },
        { "./w.bin", NULL, NULL, 4, NULL },
        { "sub/w.bin", NULL, NULL, 4, NULL },
        { "inside", NULL, NULL, 4, NULL },
        { "w.bin", "12", "8", 2, "wants 8 bytes at 12 of 'w.bin', which has only 16" },
        { "w.bin", "18446744073709551615", "8", 2, "which has only 16" },
        { "w.bin", "99999999999999999999", "8", 2, "is not a number" },
        { "w.bin", "-4", "8", 2, "is not a number" },
        { "w.bin", "0", "12", 2, "has 12 bytes, its shape wants 8" },
        { "/etc/passwd", NULL, NULL, 1, "absolute location" },
        { "../w.bin", NULL, NULL, 1, "location with '..'" },
        { "sub/../../w.bin", NULL, NULL, 1, "location with '..'" },
        { "sub/..", NULL, NULL, 1, "location with '..'" },
        { "escape", NULL, NULL, 1, "is a link out of the model's folder" },
        { "up/passwd", NULL, NULL, 1, "is a link out of the model's folder" },
        { "missing", NULL, NULL, 1, "external data 'missing': No such file" },
        { "sub", NULL, NULL, 1, "is not a regular file" },
        { "pipe", NULL, NULL, 1, "is not a regular file" },
        { "", NULL, NULL, 1, "has no location" },
        { NULL, NULL, NULL, 1, "has no location" },
    };
    const float data[4] = { 1, 2, 3, 4 };

    (void)state;
    mkdir(unit_path("sub"), 0755);
    unit_write(unit_path("w.bin"), data, sizeof(data));
    unit_write(unit_path("sub/w.bin"), data, sizeof(data));
    assert_int_equal(symlink("w.bin", unit_path("inside")), 0);
    assert_int_equal(symlink("/etc/passwd", unit_path("escape")), 0);
    assert_int_equal(symlink("/etc", unit_path("up")), 0);
    assert_int_equal(mkfifo(unit_path("pipe"), 0600), 0);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct rig r;
        int rc;

        extern_model(&r, cases[i].location, cases[i].offset, cases[i].length, cases[i].n);
        unit_write(unit_path("m.onnx"), r.file.data, r.file.len);
        rc = model_load(&r.m, unit_path("m.onnx"), &r.err);
        if (cases[i].want) {
            assert_int_not_equal(rc, 0);
            if (!strstr(r.err.msg, cases[i].want) || !strstr(r.err.msg, "initializer 0 'w'"))
                fail_msg("%zu: '%s' lacks '%s'", i, r.err.msg, cases[i].want);
        } else {
            assert_int_equal(rc, 0);
            assert_true(rig_value(&r, "w")->data->external);
            assert_true(tensor_float(rig_value(&r, "w")->data, 0) == (cases[i].offset ? 2 : 1));
            assert_int_equal(r.m->extern_bytes, 16);
        }
        rig_release(&r);
        if (!cases[i].want)
            continue;
        /* From memory there is no folder to look in. */
        extern_model(&r, "w.bin", NULL, NULL, 4);
        assert_int_equal(rig_parse(&r), OPM_EUNSUPPORTED);
        rig_release(&r);
    }
}

static long resident_bytes(void)
{
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &size, &resident), 2);
    fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

/* What resident memory grows by if a file is mapped and never looked at: nothing, but an emulator
 * notes each page in tables of its own. The mapping stays, so that those of another are more. */
static long mapping_bytes(int fd, size_t size)
{
    long before = resident_bytes();

    assert_true(mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED);
    return resident_bytes() - before;
}

/* Weights of 2.5 GB beside the model take address space, not memory. */
static void test_huge_extern(void **state)
{
    const uint64_t floats = (uint64_t)5 << 27; /* 2.5 GiB */
    struct rig r;
    int fd = open(unit_path("w.big"), O_RDWR | O_CREAT, 0644);
    const float last = 42;
    char length[32];
    long before, of_emulator;

    (void)state;
    assert_true(fd >= 0);
    if (ftruncate(fd, (off_t)(floats * 4)) < 0) {
        close(fd);
        skip();
    }
    assert_int_equal(pwrite(fd, &last, 4, (off_t)(floats * 4 - 4)), 4);
    of_emulator = mapping_bytes(fd, floats * 4);
    close(fd);
    snprintf(length, sizeof(length), "%llu", (unsigned long long)floats * 4);
    extern_model(&r, "w.big", "0", length, floats);
    unit_write(unit_path("big.onnx"), r.file.data, r.file.len);
    before = resident_bytes();
    assert_int_equal(model_load(&r.m, unit_path("big.onnx"), &r.err), 0);
    assert_true(tensor_float(rig_value(&r, "w")->data, (int64_t)floats - 1) == 42);
    assert_true(resident_bytes() - before - of_emulator < 8 << 20);
    rig_release(&r);
}

/* A model with everything in it, for the tests below. */
static void rich_model(struct rig *r)
{
    struct buf branch = { 0 };
    size_t t;

    rig_small(r);
    rig_node(&branch, 1, "Abs", "y", "inner");
    rig_info(&branch, 12, "inner");
    rig_int64s(&branch, 5, "five", (const int64_t[]){ 5 }, 1);
    ow_begin(&r->w, "If", "if");
    ow_in(&r->w, "flag");
    ow_out(&r->w, "z");
    rig_attr_graph(r, "then_branch", &branch);
    rig_attr_graph(r, "else_branch", &branch);
    ow_end(&r->w);
    rig_node(&r->w.node, 1, "Reshape", "z,five", "r");
    rig_node(&r->w.node, 1, "Less", "x,x", "flag"); /* out of order */
    rig_int64s(&r->w.io, 5, "five", (const int64_t[]){ -1, 4 }, 2);
    rig_call(r, "p", "q", true);
    t = pb_begin(&r->w.io, 13); /* value_info */
    pb_str(&r->w.io, 1, "z");
    pb_end(&r->w.io, t);
    rig_output(r, "r");
    rig_finish(r);
    rig_functions(&r->file);
    t = pb_begin(&r->file, 14); /* metadata */
    pb_str(&r->file, 1, "key");
    pb_str(&r->file, 2, "value");
    pb_end(&r->file, t);
    buf_release(&branch);
}

static struct buf rich;

static int parse_rich(void)
{
    struct model *m;
    opm_error err = { 0 };
    int rc = model_parse(&m, rich.data, rich.len, "m.onnx", NULL, &err);

    if (rc)
        return rc;
    rc = graph_infer(m, NULL, &err);
    model_free(m);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    unit_fail_each(parse_rich);
}

/* Whatever is missing or changed: an error or a model, no crash, no leak. */
static void parse_any(const char *p, size_t len)
{
    struct model *m;
    opm_error err = { 0 };
    char *copy = malloc(len ? len : 1); /* so that ASan sees every step beyond the end */

    memcpy(copy, p, len);
    if (model_parse(&m, copy, len, "m.onnx", NULL, &err) == 0) {
        graph_infer(m, NULL, &err);
        model_free(m);
    } else {
        assert_int_equal(strncmp(err.msg, "m.onnx: ", 8), 0);
        assert_null(strchr(err.msg, '\n'));
    }
    free(copy);
}

static void test_truncated(void **state)
{
    (void)state;
    for (size_t len = 0; len < rich.len; len++)
        parse_any(rich.data, len);
}

static void test_flipped(void **state)
{
    char *copy = malloc(rich.len);
    uint64_t x = 88172645463325252u;

    (void)state;
    for (int round = 0; round < 20000 / unit_patience(); round++) {
        memcpy(copy, rich.data, rich.len);
        for (int k = 0; k <= round % 3; k++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            copy[x % rich.len] = (char)(x >> 32);
        }
        parse_any(copy, rich.len);
    }
    free(copy);
}

static int group_setup(void **state)
{
    struct rig r;

    (void)state;
    rich_model(&r);
    buf_add(&rich, r.file.data, r.file.len);
    rig_release(&r);
    return 0;
}

static int group_teardown(void **state)
{
    buf_release(&rich);
    return unit_cleanup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_function_bombs), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_bad_parts),      cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_deep),           cmocka_unit_test(test_not_onnx),
        cmocka_unit_test(test_extern),         cmocka_unit_test(test_huge_extern),
        cmocka_unit_test(test_no_memory),      cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_flipped),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
