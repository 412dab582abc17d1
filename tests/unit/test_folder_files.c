/* test_folder_files.c -- every prefix of every small file of a profile folder is read without harm,
 * and a longer one never gives less. */
#include "import/cambricon/cambricon_int.h"
#include "import/mindspore/mindspore_int.h"

#include "base/alloc.h"
#include "unit.h"

struct sample {
    ms_reader *read;
    const char *text;
    size_t len; /* 0: up to the NUL */
};

#define RECORD_HWTS(kind, task, ticks)         \
    kind                                       \
        "\0\0\0\0\0" task ticks "\0\0\0\0\0\0" \
        "\5\0\0\0"                             \
        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define RECORD_POINT(tag, ticks) tag "\0\0\0\0\0\0\0\0\0\5\0" ticks "\0\0\0\0\0\0"

static const char hwts[] = RECORD_HWTS("\0", "\7\0", "\1\1") RECORD_HWTS("\1", "\7\0", "\2\1")
    RECORD_HWTS("\0", "\x40\x9c", "\3\1") RECORD_HWTS("\1", "\x40\x9c", "\4\1");
static const char points[] =
    RECORD_POINT("\0", "\1\1") RECORD_POINT("\1", "\2\1") RECORD_POINT("\3", "\2\2")
        RECORD_POINT("\4", "\3\2") RECORD_POINT("\2", "\3\3") RECORD_POINT("\xff", "\4\4");

static const char aicpu[] = "[1] Node:A, Run start:10, Run end:20\0"
                            "Thread[1] dispatchTime=1 us, totalTime=2 us.";

static const struct sample samples[] = {
    { ms_read_hwts, hwts, sizeof(hwts) - 1 },
    { ms_read_training_trace, points, sizeof(points) - 1 },
    { ms_read_hwts_txt,
      "====\nType cnt\nStart of task  4 0 0 5_7 154 5\nEnd of task 5 0 0 5_7 160 5\n", 0 },
    { ms_read_task_desc, "Default/A-op1 1 8 5\nDefault/B-op2 1 9 5\n", 0 },
    { ms_read_graph_desc,
      "op_name:A op_type:B input_id:0 input_format:F input_data_type:31 input_shape:\"1,2\"\n", 0 },
    { ms_read_framework_ops,
      "task_id,full_op_name,op_type,op_info\n1,A,B,\"{\"\"input_0\"\":{\"\"shape\"\":\"\"1\"\"}}"
      "\"\n",
      0 },
    { ms_read_points, "1 Default/A-op1\n2 Default/B-op2\n", 0 },
    { ms_read_step_csv,
      "step_num,start_point,end_point,fp_point,bp_point,fp_and_bp,stream_5_parallel_0_start_point,"
      "stream_5_parallel_0_end_point\n1,10,20,12,15,3,13,14\n-,1,1,1,1,1,1,1\n",
      0 },
    { ms_read_aicpu, aicpu, sizeof(aicpu) - 1 },
    { ms_read_aicpu_txt, "serial_number x\n1 GetNext 0.9 0.1 10 20\nTotal: 1\n", 0 },
    { ms_read_aicpumi, "Node:A, Run start:10, Run end:20, queue size:3", 0 },
    { ms_read_getnext, "GetNext 10 20 3\n", 0 },
    { ms_read_tdt, "[3933] Enqueue data to dp, source:f, index:1, size:0", 0 },
    { ms_read_pipeline,
      "{\"sampling_interval\":10,\"op_info\":[{\"op_id\":1,\"op_type\":\"A\",\"metrics\":"
      "{\"output_queue\":{\"size\":[1,2],\"length\":4}},\"children\":null}]}",
      0 },
    { ms_read_pipeline_csv,
      "op_id,op_type,output_queue_size,output_queue_length,children_id\n1,A,\"[1, 2]\",4,\n", 0 },
    { ms_read_host_queue, "0 1 1 4 10\n1 64 1 0 10\n", 0 },
    { ms_read_cpu, "{\"sampling_interval\":1,\"device_info\":{\"user_utilization\":[1,2]}}", 0 },
    { ms_read_timeline,
      "[{\"name\":\"A\",\"ph\":\"X\",\"tid\":\"5\",\"ts\":1.5,\"dur\":2,\"pid\":1,\"args\":"
      "{\"fullname\":\"D/A\",\"type\":\"A\",\"input_0\":{\"shape\":\"1\"}}},]",
      0 },
    { ms_read_timeline_txt, "head\nDefault/A-op1,5,1.5,0.25\n", 0 },
    { ms_read_kernel_details,
      "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Input Shapes\n"
      "1,A,B,AI_CORE,10,2,\"\"\"1,2;3\"\"\"\n",
      0 },
    { ms_read_averages, "full_op_name,execution_time\nDefault/A-op1,0.5\n", 0 },
    { ms_read_hccl, "step_num,communication_cost\n1,2.5\n", 0 },
    { ms_read_start_info,
      "{\"collectionTimeBegin\":\"1692340024324979\",\"clockMonotonicRaw\":\"5\"}", 0 },
};

static size_t rows_of(const struct sample *s, size_t len)
{
    static const char tasks[] = "Default/Known-op1 32 7 5\n";
    struct import_source src = { .path = "folder" };
    struct ms_device d = { .id = 1, .origin_ns = MS_NONE };
    struct store *st;
    struct ms m;
    char *copy = mem_alloc(len); /* so that reading beyond it is seen */
    size_t rows = 0;

    assert_non_null(copy);
    memcpy(copy, s->text, len);
    assert_int_equal(store_new(&st), 0);
    assert_int_equal(ms_start(&m, st, &src), 0);
    store_part_begin(st, &d.part);
    assert_int_equal(ms_read_task_desc(&m, &d, (const uint8_t *)tasks, sizeof(tasks) - 1), 0);
    assert_int_equal(s->read(&m, &d, (const uint8_t *)copy, len), 0);
    assert_int_equal(store_finish(st), 0);
    rows = store_nrow(st, TABLE_span) + store_nrow(st, TABLE_sample) + store_nrow(st, TABLE_step) +
           store_nrow(st, TABLE_op) + store_nrow(st, TABLE_meta);
    ms_device_release(&d);
    buf_release(&m.text);
    store_free(st);
    mem_free(copy);
    return rows;
}

static void test_mindspore_prefixes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        size_t len = samples[i].len ? samples[i].len : strlen(samples[i].text), before = 0,
               rows = 0;

        for (size_t n = 0; n <= len; n++) {
            rows = rows_of(&samples[i], n);
            if (rows + 2 < before)
                fail_msg("sample %zu: %zu bytes give %zu rows, fewer gave %zu", i, n, rows, before);
            before = rows;
        }
        /* It sets a clock only. */
        if (rows <= rows_of(&samples[i], 0) && samples[i].read != ms_read_start_info)
            fail_msg("sample %zu: nothing was read from it", i);
    }
}

static void cambricon_prefixes(void (*read)(struct cam *, const uint8_t *, size_t),
                               const char *text)
{
    for (size_t n = 0; n <= strlen(text); n++) {
        struct import_source src = { .path = "folder" };
        struct cam c = { .app = OPM_NULL_ID };
        char *copy = mem_alloc(n);
        struct store *st;

        assert_non_null(copy);
        memcpy(copy, text, n);
        assert_int_equal(store_new(&st), 0);
        c.b = (struct build){ .st = st, .src = &src };
        read(&c, (const uint8_t *)copy, n);
        cam_steps_end(&c);
        assert_int_equal(c.b.rc, 0);
        assert_int_equal(store_finish(st), 0);
        if (n == strlen(text))
            assert_true(store_nrow(st, TABLE_span) > 0);
        cam_release(&c);
        store_free(st);
        mem_free(copy);
    }
}

static void read_stats(struct cam *c, const uint8_t *data, size_t len)
{
    cam_read_stats(c, 0, 3, data, len);
}

static void read_timeline(struct cam *c, const uint8_t *data, size_t len)
{
    cam_read_timeline(c, 0, 3, data, len);
}

static void test_cambricon_prefixes(void **state)
{
    (void)state;
    cambricon_prefixes(
        read_stats, "dev_stats { device: \"/job:a/device:CPU:0\" node_stats { node_name: 'x\\'y'"
                    " all_start_micros: 5 all_end_rel_micros: 7 memory { total_bytes: 3 }"
                    " output { slot: 1 tensor_description { dtype: DT_HALF shape { dim { size: 4"
                    " } dim < size: 5 > } } } timeline_label: \"x = Add(y)\" list: [1, 2] } }\n");
    cambricon_prefixes(
        read_timeline,
        "{\"traceEvents\":[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,"
        "\"args\":{\"name\":\"CPU Compute\"}},{\"ph\":\"X\",\"name\":\"A\",\"pid\":1,"
        "\"ts\":5,\"dur\":2,\"args\":{\"name\":\"a\"}},{\"ph\":\"C\",\"ts\":5,"
        "\"args\":{\"cpu\":7}}]}");
    cambricon_prefixes(cam_read_activities, "{\"0\":{\"Session Run\":{\"start\":1.5,\"end\":2}}}");
    cambricon_prefixes(
        cam_read_summary,
        "{\"app_stats\":{\"0\":{\"A\":{\"duration\":5,\"meta\":\"m\"}}},\"op_stats\":"
        "{\"m\":{\"0\":{\"h\":{\"CPU\":{\"n\":{\"duration\":3,\"output\":{\"0\":"
        "{\"shape\":[1,2],\"type\":\"Float\"}},\"total_bytes\":4}}}}}}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mindspore_prefixes),
        cmocka_unit_test(test_cambricon_prefixes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
