/* test_trace_json.c -- JSON traces: the same bytes in any pieces give the same trace; every prefix
 * and every failed allocation is survived. What a trace means is for tests/diff/import. */
#include "import/json/trace_json.h"
#include "unit.h"

/* A bit of everything: all phases, both containers, all three dialects, all kinds of damage. */
static const char *const samples[] = {
    "",
    " ",
    "[]",
    "{\"traceEvents\":[]}",
    "[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1.5,\"dur\":2,\"pid\":1,\"tid\":2},\n"
    "{\"ph\":\"X\",\"name\":\"a\",\"ts\":3.25,\"dur\":2,\"pid\":1,\"tid\":2},\n"
    "{\"ph\":\"X\",\"name\":\"a\",\"ts\":1e3,\"dur\":0.0005,\"pid\":1,\"tid\":2}]",
    "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"a\":1,\"b\":\"x\"},\"traceEvents\":[\n"
    "{\"ph\":\"B\",\"name\":\"f\",\"ts\":1,\"pid\":1,\"tid\":1,\"args\":{\"x\":1,\"y\":[1,2]}},\n"
    "{\"ph\":\"i\",\"name\":\"mark\",\"ts\":2,\"pid\":1,\"tid\":1,\"s\":\"p\"},\n"
    "{\"ph\":\"E\",\"ts\":5,\"pid\":1,\"tid\":1,\"args\":{\"x\":2,\"z\":\"0x1f\"}},\n"
    "{\"ph\":\"E\",\"ts\":6,\"pid\":1,\"tid\":1},\n"
    "{\"ph\":\"C\",\"name\":\"mem\",\"ts\":3,\"pid\":1,\"args\":{\"a\":1,\"b\":2.5,\"c\":\"?\"}},\n"
    "{\"ph\":\"b\",\"cat\":\"net\",\"name\":\"get\",\"id\":\"0x10\",\"ts\":1,\"pid\":1,\"tid\":1},"
    "\n"
    "{\"ph\":\"n\",\"cat\":\"net\",\"name\":\"get\",\"id\":\"0x10\",\"ts\":2,\"pid\":1,\"tid\":1},"
    "\n"
    "{\"ph\":\"e\",\"cat\":\"net\",\"name\":\"get\",\"id\":\"0x10\",\"ts\":9,\"pid\":1,\"tid\":1},"
    "\n"
    "{\"ph\":\"s\",\"cat\":\"f\",\"name\":\"f\",\"id\":7,\"ts\":3,\"pid\":1,\"tid\":1},\n"
    "{\"ph\":\"f\",\"cat\":\"f\",\"name\":\"f\",\"id\":7,\"ts\":4,\"pid\":1,\"tid\":2},\n"
    "{\"ph\":\"X\",\"name\":\"g\",\"ts\":4,\"dur\":1,\"pid\":1,\"tid\":2,\"bind_id\":\"0x3\","
    "\"flow_out\":true},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":1,\"args\":{\"name\":\"main\"}},\n"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"17\"}},\n"
    "{\"ph\":\"N\",\"name\":\"o\",\"id\":1,\"ts\":1,\"pid\":1,\"tid\":1},\n"
    "{\"ph\":\"D\",\"name\":\"o\",\"id\":1,\"ts\":8,\"pid\":1,\"tid\":1},\n"
    "{\"ph\":\"V\",\"name\":\"dump\",\"ts\":8,\"pid\":\"p\",\"tid\":\"t\",\"args\":{\"d\":{\"e\":1}"
    "}}],\n"
    "\"stackFrames\":{\"1\":{\"name\":\"main\"}},"
    "\"samples\":[{\"ts\":1,\"tid\":1,\"sf\":1,\"weight\":2,\"name\":\"cpu\"}]}",
    "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"GPU\"}],\n"
    "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 3, \"world_size\": 8},\n"
    "\"baseTimeNanoseconds\": 1790857026000000000, \"traceEvents\": [\n"
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 4, \"tid\": 4, \"ts\": "
    "3847026107093.013, \"dur\": 26.081, \"args\": {\"External id\": 9, \"Sequence number\": 5, "
    "\"Fwd thread id\": 0, \"Input Dims\": [[8, 4], [4, 2]], \"Input type\": [\"float\", "
    "\"c10::Half\"], \"Concrete Inputs\": [\"\", \"\"]}},\n"
    "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 4, "
    "\"tid\": "
    "4, \"ts\": 3847026107094.013, \"dur\": 6.081, \"args\": {\"External id\": 9, \"correlation\": "
    "77}},\n"
    "{\"ph\": \"s\", \"id\": 77, \"pid\": 4, \"tid\": 4, \"ts\": 3847026107094.013, \"cat\": "
    "\"ac2g\", \"name\": \"ac2g\"},\n"
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 0, \"tid\": 7, \"ts\": "
    "3847026107099.5, \"dur\": 16, \"args\": {\"correlation\": 77, \"grid\": [1, 2, 3], \"blocks "
    "per "
    "SM\": 0.25}},\n"
    "{\"ph\": \"f\", \"id\": 77, \"pid\": 0, \"tid\": 7, \"ts\": 3847026107099.5, \"cat\": "
    "\"ac2g\", "
    "\"name\": \"ac2g\", \"bp\": \"e\"},\n"
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"MmBackward0\", \"pid\": 4, \"tid\": 5, "
    "\"ts\": "
    "3847026107193, \"dur\": 6, \"args\": {\"External id\": 10, \"Sequence number\": 5, \"Fwd "
    "thread "
    "id\": 1}},\n"
    "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#3\", \"pid\": 4, "
    "\"tid\": 4, \"ts\": 3847026107000, \"dur\": 600},\n"
    "{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\", "
    "\"pid\": "
    "4, \"tid\": 4, \"ts\": 3847026107100, \"args\": {\"Total Allocated\": 1024, \"Total "
    "Reserved\": 4096, \"Bytes\": -512, \"Addr\": 140, \"Device Id\": 0, \"Device Type\": 1}}\n"
    "], \"traceName\": \"x.json\"}",
    "[\n{\"cat\" : \"Session\",\"pid\" :1,\"tid\" :2,\"dur\" :90,\"ts\" :5,\"ph\" : \"X\",\"name\" "
    ":\"model_loading_uri\",\"args\" : {}},\n"
    "{\"cat\" : \"Node\",\"pid\" :1,\"tid\" :2,\"dur\" :9,\"ts\" :110,\"ph\" : \"X\",\"name\" "
    ":\"fc\"1_kernel_time\",\"args\" : {\"op_name\" : \"Gemm\",\"provider\" : "
    "\"CPUExecutionProvider\",\"mem_bytes_in_use\" : \"64\",\"input_type_shape\" : "
    "[{\"float\":[1,4]},{\"float\":[4]}],\"thread_scheduling_stats\" : \"\"}},\n"
    "{\"cat\" : \"Kernel\",\"pid\" :-1,\"tid\" :-1,\"dur\" :3,\"ts\" :112,\"ph\" : \"X\",\"name\" "
    ":\"k\",\"args\" : {\"stream\" : \"7\"}},\n"
    "{\"cat\" : \"Session\",\"pid\" :1,\"tid\" :2,\"dur\" :30,\"ts\" :100,\"ph\" : \"X\",\"name\" "
    ":\"model_run\",\"args\" : {}}\n]\n",
    "\xef\xbb\xbf[{\"ph\":\"X\",\"name\":\"say \"hi\" "
    "now\",\"ts\":1,\"dur\":1,\"pid\":1,\"tid\":1},,\n"
    "{\"ph\":\"X\",\"name\":\"a\tb\\q\\ud800\xff\",\"ts\":2,\"dur\":-1,\"pid\":1,\"tid\":1,}\n"
    "{\"ph\":\"X\",\"name\":\"nan\",\"ts\":3,\"dur\":1,\"pid\":1,\"tid\":1,\"args\":{\"v\":NaN,"
    "\"w\":-Infinity,\"u\":007,\"t\":.5}},\n"
    "{\"ph\":\"X\",\"name\":\"lost\",\"ts\":4,\"dur\":1 \"pid\":: broken },\n"
    "{\"ph\":\"?\",\"name\":\"odd\",\"ts\":5},{\"ph\":\"X\",\"name\":\"timeless\"},\n"
    "{\"ph\":\"X\",\"name\":\"deep\",\"ts\":6,\"dur\":1,\"args\":{\"a\":[[[[[[{\"b\":1}]]]]]]}},\n"
    "{\"ph\":\"X\",\"name\":\"cut\",\"ts\":7,\"du",
    "{\"ph\":\"X\",\"name\":\"line\",\"ts\":1,\"dur\":1}\n{\"ph\":\"X\",\"name\":\"line\",\"ts\":2,"
    "\"dur\":1}\n",
    "{\"a\":1,\"b\":[1,2,{\"c\":\"}\"}]}",
    "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1}]}\n"
    "[{\"ph\":\"X\",\"name\":\"b\",\"ts\":1,\"dur\":1}]",
};

static const struct dialect *dialect_of(const char *text, size_t len)
{
    if (ort_sniff((const uint8_t *)text, len))
        return &dialect_ort;
    return kineto_sniff((const uint8_t *)text, len) ? &dialect_kineto : &dialect_chrome;
}

static void dump_cell(const struct store *st, struct cell c, struct buf *out)
{
    switch (c.kind) {
    case CELL_NULL:
        buf_adds(out, "|");
        break;
    case CELL_I64:
        buf_addf(out, "|%lld", (long long)c.i64);
        break;
    case CELL_F64:
        buf_addf(out, "|%.17g", c.f64);
        break;
    case CELL_STR:
        buf_addf(out, "|%s", store_text(st, c.str));
        break;
    }
}

/* Everything that is in a store, as text. */
static void dump(const struct store *st, struct buf *out)
{
    for (int t = 0; t < TABLE_COUNT; t++) {
        buf_addf(out, "%s\n", store_table_defs[t].name);
        for (size_t row = 0; row < store_nrow(st, (enum table_id)t); row++) {
            for (int c = 0; c < store_table_defs[t].ncol; c++)
                dump_cell(st, store_cell(st, (enum table_id)t, row, c), out);
            buf_addc(out, '\n');
        }
    }
}

/* Sizes of the pieces, from a generator that both tests and failures can repeat. */
struct pieces {
    size_t fixed; /* 0: random */
    uint32_t state;
};

static size_t next_piece(struct pieces *p)
{
    if (p->fixed)
        return p->fixed;
    p->state = p->state * 1664525u + 1013904223u;
    return 1 + (p->state >> 16) % 97;
}

/* Read text, whole if pieces is NULL, and dump it. */
static int read_text(const char *text, size_t len, struct pieces *pieces, struct buf *out)
{
    struct import_source src = { .path = "t.json", .len = len, .count = 1 };
    const struct dialect *dialect = dialect_of(text, len);
    uint8_t *copy = malloc(len + 1); /* ASan watches its end */
    struct store *st = NULL;
    opm_error err = { 0 };
    int rc;

    assert_non_null(copy);
    memcpy(copy, text, len);
    copy = realloc(copy, len ? len : 1);
    src.data = copy;
    rc = store_new(&st);
    if (!rc && !pieces) {
        rc = trace_json_read(st, &src, dialect, &err);
    } else if (!rc) {
        struct trace_json t;

        rc = trace_json_init(&t, st, &src, dialect);
        for (size_t at = 0; at < len && !rc;) {
            size_t n = next_piece(pieces);

            n = MIN(n, len - at);
            rc = trace_json_push(&t, text + at, n, false);
            at += n;
        }
        if (!rc)
            rc = trace_json_push(&t, NULL, 0, true);
        if (!rc)
            rc = trace_json_finish(&t, false, &err);
        trace_json_release(&t);
    }
    if (!rc)
        rc = store_finish(st);
    if (!rc && out)
        dump(st, out);
    store_free(st);
    free(copy);
    return rc;
}

static void assert_any_pieces(const char *text, size_t len)
{
    struct buf whole = { 0 }, parts = { 0 };
    int rc = read_text(text, len, NULL, &whole);

    for (size_t i = 0; i < 12; i++) {
        struct pieces p = { .fixed = i < 3 ? i + 1 : 0, .state = (uint32_t)i };

        buf_clear(&parts);
        assert_int_equal(read_text(text, len, &p, &parts), rc);
        assert_string_equal(buf_str(&parts), buf_str(&whole));
    }
    buf_release(&whole);
    buf_release(&parts);
}

static void test_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
        assert_any_pieces(samples[i], strlen(samples[i]));
}

static void test_prefixes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        for (size_t len = 0; len <= strlen(samples[i]); len++) {
            int rc = read_text(samples[i], len, NULL, NULL);

            assert_true(rc == 0 || rc == OPM_EFORMAT);
        }
    }
}

/* Guessing shapes must not change what is read: many events, few shapes, some broken. */
static void test_many(void **state)
{
    struct buf text = { 0 }, whole = { 0 };

    (void)state;
    buf_addc(&text, '[');
    for (int i = 0; i < 20000; i++) {
        buf_addf(&text,
                 "{\"ph\":\"X\",\"name\":\"f%d\",\"ts\":%d.%03d,\"dur\":%d,\"pid\":1,\"tid\":%d",
                 i % 7, i * 10, i % 1000, i % 9, i % 3);
        if (i % 5 == 0)
            buf_addf(&text, ",\"args\":{\"a\":%d,\"b\":\"%d\",\"c\":%d.%d,\"d\":\"0x%x\"}", i,
                     i % 100, i, i % 10, (unsigned)i);
        buf_adds(&text, i % 997 == 996 ? "\n" : i + 1 < 20000 ? "},\n" : "}]");
    }
    assert_int_equal(read_text(text.data, text.len, NULL, &whole), 0);
    for (uint32_t i = 0; i < 6; i++) {
        struct pieces p = { .fixed = i ? 0 : 4096, .state = i };
        struct buf parts = { 0 };
        size_t chunk = trace_chunk_bytes;

        if (i >= 3) /* by threads; chunks so small that guesses fail, too */
            trace_chunk_bytes = 50 * i;
        assert_int_equal(read_text(text.data, text.len, i < 3 ? &p : NULL, &parts), 0);
        trace_chunk_bytes = chunk;
        assert_true(parts.len == whole.len && memcmp(parts.data, whole.data, whole.len) == 0);
        buf_release(&parts);
    }
    buf_release(&text);
    buf_release(&whole);
}

/* One event in a million pieces: it is not looked through again for each of them, which would not
 * end in time. */
static void test_long_event(void **state)
{
    struct pieces eight = { .fixed = 8 };
    struct buf text = { 0 }, whole = { 0 }, parts = { 0 };

    (void)state;
    buf_adds(&text, "[{\"ph\":\"X\",\"ts\":1,\"dur\":2,\"pid\":1,\"tid\":1,\"name\":\"");
    for (int i = 0; i < 1000000; i++)
        buf_adds(&text, "abcdefgh");
    buf_adds(&text, "\"}]");
    assert_int_equal(read_text(text.data, text.len, NULL, &whole), 0);
    assert_int_equal(read_text(text.data, text.len, &eight, &parts), 0);
    assert_true(parts.len == whole.len && memcmp(parts.data, whole.data, whole.len) == 0);
    buf_release(&text);
    buf_release(&whole);
    buf_release(&parts);
}

/* Events that an unended string may have swallowed before it is given up. */
static void test_swallowed(void **state)
{
    static const struct {
        int events;
        enum scan_result want;
    } cases[] = { { 0, SCAN_OK }, { 1, SCAN_OK }, { 16, SCAN_OK }, { 17, SCAN_BAD } };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf text = { 0 }, out = { 0 };
        const char *next;
        unsigned dirt;

        buf_adds(&text, "{\"ph\":\"a");
        for (int k = 0; k < cases[i].events; k++)
            buf_adds(&text, "{\"ph\":1 ");
        buf_adds(&text, "\"}");
        assert_int_equal(event_repair(text.data, text.data + text.len, &out, &next, &dirt),
                         cases[i].want);
        buf_release(&text);
        buf_release(&out);
    }
}

static const char *failing;

static int read_failing(void)
{
    return read_text(failing, strlen(failing), NULL, NULL);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        failing = samples[i];
        if (read_failing() == 0)
            unit_fail_each(read_failing);
    }
}

static void test_times(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
        bool bad;
    } cases[] = {
        { "0", 0, false },
        { "1", 1000, false },
        { "-1.5", -1500, false },
        { "3847026107093.013", 3847026107093013, false },
        { "1790857026000000.123", 1790857026000000123, false },
        { "0.0004", 0, false },
        { "0.0005", 1, false },
        { "-0.0005", -1, false },
        { "12.34567", 12346, false },
        { "1.00019e+06", 1000190000, false },
        { "1E-3", 1, false },
        { "123456789012345678901234567890e-20", 1234567890123, false },
        { "1e400", 0, true },
        { "9999999999999999", 0, true },
        { "x", 0, true },
        { "-", 0, true },
        { ".", 0, true },
        { ".5", 0, true }, /* no JSON: a matter for the repair */
        { "5.", 0, true },
        { "+5", 0, true },
        { "05", 0, true },
        { "-0", 0, false },
        { "0.5", 500, false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[128] = "";
        int64_t ns = 0;
        const char *end;

        snprintf(text, sizeof(text), "%s", cases[i].text);
        end = scan_time(text, &ns);
        assert_int_equal(end == NULL, cases[i].bad);
        if (end) {
            assert_int_equal(ns, cases[i].ns);
            assert_int_equal(*end, '\0');
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),     cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_many),      cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_long_event),
        cmocka_unit_test(test_swallowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
