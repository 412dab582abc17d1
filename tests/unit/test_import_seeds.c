/* test_import_seeds.c -- importers of MegEngine's and Furiosa's files: which content they take for
 * theirs, every allocation made to fail, and every cut of a file survived. */
#include "import/import.h"
#include "unit.h"

#include <string.h>

static const char megengine[] =
    "{\"graph_exec\": {\"comp_seq\": [\"0\", \"2\"], \"operator\": {"
    "\"0\": {\"name\": \"w\", \"type\": \"ImmutableTensor\", \"input\": [], \"output\": [\"1\"]},"
    "\"2\": {\"name\": \"conv\", \"type\": \"Conv\", \"input\": [\"1\"], \"output\": [\"3\"],"
    " \"extra\": {\"k\": 1}}}, \"var\": {\"1\": {\"name\": \"w\", \"mem_plan\": {\"mem_chunk_id\":"
    " \"chk1\", \"layout\": {\"shape\": [2, 2], \"dtype\": \"Float32\"}}}, \"3\": {\"name\": \"y\","
    " \"flag\": [\"NO_MEM_RECLAIM\"]}}, \"mem_chunk\": {\"chk1\": {\"size\": 16, \"owner_var\":"
    " \"1\", \"dev_ptr\": 64}}}, \"profiler\": {\"device\": {\"2\": {\"CompNode(\\\"cpu0:0\\\" from"
    " \\\"x\\\")\": {\"start\": 0, \"kern\": 0.5, \"end\": 1}}}, \"host\": {\"2\": {\"@\": {"
    "\"start\": 3, \"kern\": -1, \"end\": 4}}}, \"opr_footprint\": {\"2\": {\"computation\": 8,"
    " \"memory\": 4, \"in_shapes\": [[2, 2]], \"out_shapes\": [[2]], \"param\": {\"a\": \"b\"}}},"
    " \"opr_internal_pf\": {\"2\": [[\"l\", 1]]}, \"new\": {\"x\": 1}}}";

static const char csv[] =
    "trace_id,parent_span_id,span_id,start,end,cat,name,thread.id,dram_base,pe_index,"
    "execution_index,instruction_index,operator_index,colour\n"
    "t,0000,01,100,200,Nux,Inference,4,,,,,,red\n"
    "t,01,02,110,120,Nux,Quantize,4,,,,,0,\n"
    "n,01,03,130,150,NPU,Execution,4,0,1,0,,,\n"
    "n,03,04,130,140,NPU,\"Low,Level\",4,0,1,0,2,,\n"
    "r,0000,05,90,300,Nux,my label,5,,,,,,\n";

static const char chrome[] =
    "[{\"name\": \"Inference\", \"cat\": \"Nux\", \"ph\": \"X\", \"ts\": 1.5, \"dur\": 2, \"pid\": "
    "1,"
    " \"tid\": 2}, {\"name\": \"Load\", \"cat\": \"NPU\", \"ph\": \"X\", \"ts\": 2, \"dur\": 1,"
    " \"pid\": 1, \"tid\": 10000001, \"args\": {\"pe_index\": \"1\", \"instruction_index\": \"0\","
    " \"more\": [1, {\"a\": null}]}}, {\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 1, "
    "\"tid\":"
    " 10000001, \"args\": {\"name\": \"my NPU\"}}]";

static const struct {
    const char *text;
    size_t len;
    bool (*sniff)(const uint8_t *head, size_t len);
    int (*read)(struct store *st, const struct import_source *src, opm_error *err);
    size_t spans, ops;
} formats[] = {
    { megengine, sizeof(megengine) - 1, megengine_sniff, megengine_read, 2, 2 },
    { csv, sizeof(csv) - 1, furiosa_csv_sniff, furiosa_csv_read, 5, 2 },
    { chrome, sizeof(chrome) - 1, furiosa_chrome_sniff, furiosa_chrome_read, 2, 1 },
};

static size_t current; /* format that is being read */

/* The first len bytes of it; *out is finished if that went well. */
static int read_part(size_t len, struct store **out, opm_error *err)
{
    struct import_source src = { .path = "seed", .len = len, .count = 1 };
    uint8_t *copy = malloc(len ? len : 1); /* so that ASan sees a read beyond */
    int rc = store_new(out);

    assert_non_null(copy);
    memcpy(copy, formats[current].text, len);
    src.data = copy;
    if (rc == 0)
        rc = formats[current].read(*out, &src, err);
    if (rc == 0)
        rc = store_finish(*out);
    free(copy);
    return rc;
}

static void test_sniff(void **state)
{
    static const char *const others[] = {
        "",
        "{",
        "[]",
        "{}",
        "[1,2]",
        "{\"traceEvents\": []}",
        "a,b,c\n1,2,3\n",
        "{\"profiler\": 1}",
        "[{\"cat\": \"Runtime\", \"name\": \"x\"}]",
        "[{\"cat\": \"kernel\", \"name\": \"Inference\"}]",
        "trace_id,span_id,start,end\n",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
        for (size_t k = 0; k < ARRAY_SIZE(formats); k++)
            assert_int_equal(formats[i].sniff((const uint8_t *)formats[k].text, formats[k].len),
                             i == k);
        for (size_t k = 0; k < ARRAY_SIZE(others); k++)
            assert_false(formats[i].sniff((const uint8_t *)others[k], strlen(others[k])));
    }
}

static void test_whole(void **state)
{
    (void)state;
    for (current = 0; current < ARRAY_SIZE(formats); current++) {
        struct store *st = NULL;
        opm_error err = { 0 };

        assert_int_equal(read_part(formats[current].len, &st, &err), 0);
        assert_int_equal(store_nrow(st, TABLE_span), formats[current].spans);
        assert_int_equal(store_nrow(st, TABLE_op), formats[current].ops);
        assert_int_equal(store_nrow(st, TABLE_step), 1);
        assert_int_equal(store_nrow(st, TABLE_import_stat), 0);
        store_free(st);
    }
}

/* Whatever is missing at the end: part of it, or a message. */
static void test_cut(void **state)
{
    (void)state;
    for (current = 0; current < ARRAY_SIZE(formats); current++) {
        for (size_t len = 0; len < formats[current].len; len++) {
            struct store *st = NULL;
            opm_error err = { 0 };
            int rc = read_part(len, &st, &err);

            assert_true(rc == 0 || (rc == OPM_EFORMAT && err.msg[0]));
            if (rc == 0)
                assert_true(store_nrow(st, TABLE_span) <= formats[current].spans);
            store_free(st);
        }
    }
}

static int read_whole(void)
{
    struct store *st = NULL;
    opm_error err = { 0 };
    int rc = read_part(formats[current].len, &st, &err);

    store_free(st);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    for (current = 0; current < ARRAY_SIZE(formats); current++)
        unit_fail_each(read_whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sniff),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
