/* test_api.c -- everything that opmeter.h lets a program say arrives in the tables. */
#include "rig.h"

#include <math.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void on_thread(void *(*run)(void *), void *arg)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* ---- spans ---- */

static void *named_thread(void *unused)
{
    static opm_site site = OPM_SITE_INIT(OPM_APP, NULL, "on thread");

    (void)unused;
    opm_thread_name("helper");
    opm_end(opm_begin(&site));
    opm_thread_name("helper, renamed");
    return NULL;
}

static void spans_have_layer_category_parent(void **state)
{
    static opm_site outer = OPM_SITE_INIT(OPM_APP, "a", "outer");
    static opm_site middle = OPM_SITE_INIT(OPM_FRAMEWORK, "b", "middle");
    static opm_site inner = OPM_SITE_INIT(OPM_RUNTIME, NULL, "inner");
    static opm_site kernel = OPM_SITE_INIT(OPM_HARDWARE, "c", "kernel");
    opm_recorder_stats stats;
    opm_span a, b, c;
    opm_trace *t;

    (void)state;
    rig_start(rig_path("spans.opm"));
    assert_string_equal(opm_path(), rig_path("spans.opm"));
    opm_thread_name("main thread");
    a = opm_begin(&outer);
    b = opm_begin(&middle);
    for (int i = 0; i < 2; i++) {
        c = opm_begin(&inner);
        opm_end(c);
    }
    opm_end(opm_begin(&kernel));
    opm_end(b);
    opm_end(opm_begin_named(OPM_RUNTIME, "b", "dynamic name, cut", 12));
    OPM_SPAN(OPM_APP, "macro")
    {
        OPM_SPAN_CAT(OPM_FRAMEWORK, "cat", "macro, cat")
        {
        }
    }
    opm_end(a);
    on_thread(named_thread, NULL);
    rig_stop();
    opm_stats(&stats);
    assert_int_equal(stats.spans, 9);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(stats.unbalanced, 0);
    assert_int_equal(stats.threads, 2);
    assert_int_equal(stats.recording, 0);
    assert_int_equal(stats.write_errno, 0);
    assert_true(stats.bytes > 0);
    assert_false(rig_exists(rig_path("spans.opm-live")));

    t = rig_open(rig_path("spans.opm"));
    rig_expect(t,
               "SELECT s.name, s.cat, s.layer, s.depth, p.name, t.kind, t.name "
               "FROM span s LEFT JOIN span p ON p.id = s.parent JOIN track t ON t.id = s.track "
               "ORDER BY s.id",
               "outer|a|app|0|NULL|thread|main thread\n"
               "middle|b|framework|1|outer|thread|main thread\n"
               "inner|NULL|runtime|2|middle|thread|main thread\n"
               "inner|NULL|runtime|2|middle|thread|main thread\n"
               "kernel|c|hardware|2|middle|thread|main thread\n"
               "dynamic name|b|runtime|1|outer|thread|main thread\n"
               "macro|NULL|app|1|outer|thread|main thread\n"
               "macro, cat|cat|framework|2|macro|thread|main thread\n"
               "on thread|NULL|app|0|NULL|thread|helper, renamed\n");
    rig_expect(t, "SELECT count(*), min(dur) >= 0, min(self) >= 0, min(ts) FROM span", "9|1|1|0\n");
    rig_expect(t,
               "SELECT count(*) FROM span s JOIN span p ON p.id = s.parent "
               "WHERE s.ts < p.ts OR s.ts + s.dur > p.ts + p.dur",
               "0\n");
    assert_int_equal(rig_int(t, "SELECT tid FROM track WHERE name = 'main thread'"), getpid());
    assert_int_equal(rig_int(t, "SELECT count(DISTINCT pid) FROM track"), 1);
    assert_int_equal(rig_int(t, "SELECT min(pid) FROM track"), getpid());
    assert_string_equal(rig_losses(t), "");
    assert_int_equal(rig_stat(t, "not_closed"), 0);
    opm_trace_close(t);
}

static void spans_are_scopes(void **state)
{
    opm_trace *t;
    int rounds = 0;

    (void)state;
    rig_start(rig_path("scopes.opm"));
    for (int i = 0; i < 5; i++) {
        OPM_SPAN(OPM_APP, "round")
        {
            rounds++;
            if (i == 1)
                continue; /* leaves the block only */
            OPM_SPAN(OPM_APP, "inside")
            {
                rig_tick(); /* what begins and ends with its tick encloses nothing */
                if (i == 3)
                    break;
            }
        }
    }
    assert_int_equal(rounds, 5);
    rig_stop();
    t = rig_open(rig_path("scopes.opm"));
    rig_expect(t, "SELECT name, depth, count(*), sum(dur < 0) FROM span GROUP BY 1, 2 ORDER BY 1",
               "inside|1|4|0\nround|0|5|0\n");
    rig_expect(t, "SELECT name FROM import_stat WHERE count > 0", "");
    opm_trace_close(t);
}

static void arguments_arrive(void **state)
{
    static opm_site site = OPM_SITE_INIT(OPM_APP, NULL, "with args");
    static opm_site plain = OPM_SITE_INIT(OPM_APP, NULL, "without");
    opm_span span, late;
    opm_trace *t;

    (void)state;
    rig_start(rig_path("args.opm"));
    span = opm_begin(&site);
    opm_arg_int(span, "int", -42);
    opm_arg_int(span, "max", INT64_MAX);
    opm_arg_int(span, "min", INT64_MIN);
    opm_end(opm_begin(&plain));
    opm_arg_real(span, "real", 0.1);
    opm_arg_str(span, "str", "a \"quoted\"\nline\t\x01");
    opm_arg_str(span, "", "empty key");
    opm_end(span);
    late = opm_begin(&site);
    opm_end(late);
    opm_arg_str(late, "late", "");
    opm_arg_int(opm_span_none(), "nobody", 1);
    opm_arg_str(late, "null", NULL);
    opm_arg_int(late, NULL, 1);
    rig_stop();
    t = rig_open(rig_path("args.opm"));
    rig_expect(t,
               "SELECT name, json_extract(args, '$.int'), json_extract(args, '$.max'), "
               "json_extract(args, '$.min'), json_extract(args, '$.real'), "
               "hex(json_extract(args, '$.str')), json_extract(args, '$.\"\"'), "
               "json_extract(args, '$.late') FROM span ORDER BY id",
               "with args|-42|9223372036854775807|-9223372036854775808|0.1|"
               "61202271756F746564220A6C696E650901|empty key|NULL\n"
               "without|NULL|NULL|NULL|NULL||NULL|NULL\n"
               "with args|NULL|NULL|NULL|NULL||NULL|\n");
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);
}

/* ---- operators ---- */

static const int64_t image[] = { 1, 3, 224, 224 }, weight[] = { 64, 3, 7, 7 }, scalar[1];

static opm_op_info conv_info(const opm_tensor *tensors, uint32_t n)
{
    opm_op_info info = OPM_OP_INFO_INIT;

    info.name = "conv1";
    info.type = "Conv";
    info.post_op = "relu";
    info.device = "cpu";
    info.engine = "test";
    info.attributes = "{\"strides\":[2,2]}";
    info.nodes = "[\"conv1\",\"relu1\"]";
    info.flops = 236027904;
    info.bytes = 3851456;
    info.weight_shape = "64x3x7x7";
    info.weight_zero_ratio = 0.25;
    info.sparse_support = 1;
    info.tensors = tensors;
    info.ntensors = n;
    return info;
}

static void operators_and_tensors(void **state)
{
    static const opm_tensor tensors[] = {
        { "image", "fp32", image, 4, OPM_INPUT, 602112 },
        { "conv1.weight", "fp32", weight, 4, OPM_WEIGHT, 37632 },
        { "scale", "fp32", scalar, 0, OPM_INPUT, -1 },
        { NULL, NULL, image, 1, OPM_OUTPUT, 0 },
    };
    opm_op_info info = conv_info(tensors, 4), bare = OPM_OP_INFO_INIT;
    opm_op *before, *conv, *unused;
    opm_mem_info mem = OPM_MEM_INFO_INIT;
    opm_trace *t;

    (void)state;
    before = opm_op_define(&bare);
    rig_start(rig_path("ops.opm"));
    conv = opm_op_define(&info);
    bare.name = "never executed";
    unused = opm_op_define(&bare);
    opm_op_end(opm_op_begin_phase(conv, OPM_RESHAPE));
    opm_op_end(opm_op_begin(conv));
    opm_op_end(opm_op_begin(conv));
    mem.owner = "relu1";
    mem.kind = "activation";
    mem.bytes = 3211264;
    mem.addr = 64;
    mem.first_op = conv;
    mem.last_op = before;
    opm_mem(&mem);
    opm_mem(&(opm_mem_info)OPM_MEM_INFO_INIT);
    opm_op_end(opm_op_begin(before));
    opm_op_end(opm_op_begin(NULL)); /* as if there had been no memory to define it */
    rig_stop();
    opm_op_free(before);
    opm_op_free(conv);
    opm_op_free(unused);
    opm_op_free(NULL);

    t = rig_open(rig_path("ops.opm"));
    rig_expect(t,
               "SELECT name, type, post_op, device, engine, flops, bytes, weight_shape, "
               "weight_zero_ratio, sparse_support, attributes, nodes FROM op ORDER BY name DESC",
               "never executed|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL\n"
               "conv1|Conv|relu|cpu|test|236027904|3851456|64x3x7x7|0.25|1|{\"strides\":[2,2]}|"
               "[\"conv1\",\"relu1\"]\n"
               "|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL\n");
    rig_expect(t,
               "SELECT o.name, x.io, x.slot, x.name, x.dtype, x.shape, x.bytes "
               "FROM op_tensor x JOIN op o ON o.id = x.op ORDER BY x.io, x.slot",
               "conv1|input|0|image|fp32|1x3x224x224|602112\n"
               "conv1|input|1|scale|fp32||NULL\n"
               "conv1|output|0|NULL|NULL|1|0\n"
               "conv1|weight|0|conv1.weight|fp32|64x3x7x7|37632\n");
    rig_expect(
        t,
        "SELECT s.name, s.cat, s.layer, s.phase, o.type FROM span s JOIN op o ON o.id = s.op "
        "ORDER BY s.id",
        "conv1|op|framework|reshape|Conv\n"
        "conv1|op|framework|forward|Conv\n"
        "conv1|op|framework|forward|Conv\n"
        "|op|framework|forward|NULL\n");
    rig_expect(
        t,
        "SELECT m.owner, m.kind, m.bytes, m.addr, a.name, b.name FROM mem m "
        "LEFT JOIN op a ON a.id = m.first_op LEFT JOIN op b ON b.id = m.last_op ORDER BY m.id",
        "relu1|activation|3211264|64|conv1|\n"
        "NULL|NULL|NULL|NULL|NULL|NULL\n");
    assert_string_equal(rig_losses(t), "spans_lost 1\n");
    opm_trace_close(t);
}

static void operator_changes(void **state)
{
    static const opm_tensor small[] = { { "x", "fp32", image, 2, OPM_INPUT, 12 } };
    static const opm_tensor large[] = { { "x", "fp32", image, 4, OPM_INPUT, 602112 } };
    opm_op_info info = conv_info(small, 1);
    opm_op *op;
    opm_trace *t;

    (void)state;
    rig_start(rig_path("update.opm"));
    op = opm_op_define(&info);
    opm_op_end(opm_op_begin(op));
    info = conv_info(large, 1);
    info.flops = 7;
    opm_op_update(op, &info);
    opm_op_end(opm_op_begin_phase(op, OPM_RESHAPE));
    opm_op_end(opm_op_begin(op));
    opm_op_update(NULL, &info);
    rig_stop();
    t = rig_open(rig_path("update.opm"));
    rig_expect(t,
               "SELECT s.phase, o.flops, x.shape FROM span s JOIN op o ON o.id = s.op "
               "JOIN op_tensor x ON x.op = o.id ORDER BY s.id",
               "forward|236027904|1x3\nreshape|7|1x3x224x224\nforward|7|1x3x224x224\n");
    assert_int_equal(rig_int(t, "SELECT count(*) FROM op"), 2);
    opm_trace_close(t);

    /* It lives on, and a later recording knows only its last description. */
    rig_start(rig_path("update2.opm"));
    opm_op_end(opm_op_begin_phase(op, OPM_RESHAPE));
    rig_stop();
    opm_op_free(op);
    t = rig_open(rig_path("update2.opm"));
    rig_expect(t, "SELECT o.name, o.flops, s.phase FROM op o JOIN span s ON s.op = o.id",
               "conv1|7|reshape\n");
    opm_trace_close(t);
}

/* ---- steps, records, activities ---- */

static void steps_and_records(void **state)
{
    static opm_site site = OPM_SITE_INIT(OPM_APP, NULL, "work");
    opm_recorder_stats stats;
    opm_span record, inner, step;
    opm_trace *t;

    (void)state;
    rig_start(rig_path("steps.opm"));
    record = opm_record_begin("warm up", OPM_WARMUP);
    step = opm_step_begin("net", -1, OPM_WARMUP);
    opm_end(opm_begin(&site));
    opm_step_end(step);
    opm_record_end(record);
    record = opm_record_begin("batch 8", OPM_MEASURED);
    inner = opm_record_begin("first half", OPM_MEASURED);
    step = opm_step_begin("net", 7, OPM_MEASURED);
    opm_step_phase(OPM_PHASE_FORWARD);
    opm_end(opm_begin(&site));
    opm_step_phase(OPM_PHASE_BACKWARD);
    opm_step_phase(OPM_PHASE_UPDATE);
    opm_step_phase(OPM_PHASE_NONE);
    opm_end(opm_begin(&site));
    opm_step_end(step);
    opm_record_end(inner);
    step = opm_step_begin(NULL, 9000000000, OPM_MEASURED);
    opm_step_phase(OPM_PHASE_FORWARD); /* ends with its step */
    usleep(1);                         /* and must begin before the step ends, to be in it */
    opm_step_end(step);
    opm_step_phase(OPM_PHASE_NONE);
    opm_record_end(record);
    rig_stop();
    opm_stats(&stats);
    assert_int_equal(stats.unbalanced, 0);

    t = rig_open(rig_path("steps.opm"));
    rig_expect(t, "SELECT model, num, warmup, dur >= 0 FROM step ORDER BY id",
               "net|-1|1|1\nnet|7|0|1\n|9000000000|0|1\n");
    rig_expect(t, "SELECT label, warmup, dur >= 0 FROM record ORDER BY id",
               "warm up|1|1\nbatch 8|0|1\nfirst half|0|1\n");
    rig_expect(t,
               "SELECT s.name, s.cat, s.depth, st.num, r.label, s.args FROM span s "
               "LEFT JOIN step st ON st.id = s.step LEFT JOIN record r ON r.id = s.record "
               "WHERE s.cat IS NULL OR s.cat = 'phase' ORDER BY s.id",
               "work|NULL|2|-1|warm up|NULL\n"
               "forward|phase|3|7|first half|NULL\n"
               "work|NULL|4|7|first half|NULL\n"
               "backward|phase|3|7|first half|NULL\n"
               "update|phase|3|7|first half|NULL\n"
               "work|NULL|3|7|first half|NULL\n"
               "forward|phase|2|9000000000|batch 8|NULL\n");
    rig_expect(t, "SELECT DISTINCT t.kind FROM step s JOIN track t ON t.id = s.track", "thread\n");
    assert_string_equal(rig_losses(t), "");
    assert_int_equal(rig_stat(t, "ended_by_parent"), 0);
    opm_trace_close(t);
}

struct handed_over {
    opm_span activity, async, source;
};

static void *finish_there(void *arg)
{
    static opm_site site = OPM_SITE_INIT(OPM_APP, NULL, "consume");
    struct handed_over *h = arg;
    opm_span span = opm_begin(&site);

    opm_flow(h->source, span);
    opm_flow(opm_span_none(), span);
    opm_flow(h->source, opm_span_none());
    opm_activity_end(h->activity);
    opm_end(h->async);
    opm_arg_int(h->async, "ended on", 2);
    opm_end(span);
    opm_flow(h->activity, span);
    return NULL;
}

static void activities_cross_threads(void **state)
{
    static opm_site produce = OPM_SITE_INIT(OPM_APP, NULL, "produce");
    static opm_site async = OPM_SITE_INIT(OPM_RUNTIME, "io", "transfer");
    struct handed_over h;
    opm_span other;
    opm_trace *t;

    (void)state;
    rig_start(rig_path("async.opm"));
    h.source = opm_begin(&produce);
    h.activity = opm_activity_begin("decode jpeg", 12, "{\"file\": \"a.jpg\"}");
    other = opm_activity_begin("no step", -1, NULL);
    opm_arg_str(opm_activity_begin("not json", 3, "{oops"), "k", "v");
    h.async = opm_async_begin(&async);
    opm_end(h.source);
    on_thread(finish_there, &h);
    opm_activity_end(other);
    rig_stop();
    t = rig_open(rig_path("async.opm"));
    rig_expect(t,
               "SELECT s.name, s.cat, s.layer, t.kind, s.dur >= 0, "
               "json_extract(s.args, '$.step'), json_extract(s.args, '$.meta.file'), "
               "json_extract(s.args, '$.\"ended on\"') FROM span s JOIN track t ON t.id = s.track "
               "ORDER BY s.name",
               "consume|NULL|app|thread|1|NULL|NULL|NULL\n"
               "decode jpeg|activity|app|async|1|12|a.jpg|NULL\n"
               "no step|activity|app|async|1|NULL|NULL|NULL\n"
               "not json|activity|app|async|0|3|NULL|NULL\n"
               "produce|NULL|app|thread|1|NULL|NULL|NULL\n"
               "transfer|io|runtime|async|1|NULL|NULL|2\n");
    rig_expect(t,
               "SELECT json_extract(args, '$.meta'), json_extract(args, '$.k') FROM span "
               "WHERE name = 'not json'",
               "{oops|v\n");
    rig_expect(t,
               "SELECT a.name, b.name, f.kind FROM flow f JOIN span a ON a.id = f.src "
               "JOIN span b ON b.id = f.dst ORDER BY a.name",
               "decode jpeg|consume|flow\nproduce|consume|flow\n");
    assert_string_equal(rig_losses(t), "");
    assert_int_equal(rig_stat(t, "span_not_ended"), 1);
    opm_trace_close(t);
}

/* ---- counters, queues, device tracks ---- */

static void counters_and_queues(void **state)
{
    static opm_site gauge = OPM_SITE_INIT(OPM_HARDWARE, "power", "watts");
    opm_queue *bounded = opm_queue_define("host queue", 16);
    opm_queue *unbounded = opm_queue_define("free queue", -1);
    opm_trace *t;

    (void)state;
    opm_queue_connect(bounded, "decode", 2, "train");
    opm_queue_connect(NULL, "a", 1, "b");
    opm_queue_size(bounded, 99); /* nothing is recording */
    rig_start(rig_path("counters.opm"));
    OPM_COUNTER("rss", 1e15);
    opm_counter(&gauge, -0.5);
    opm_counter(&gauge, 1e-300);
    for (int i = 0; i < 3; i++)
        opm_queue_size(bounded, i * 8);
    opm_queue_size(unbounded, -7);
    opm_queue_size(NULL, 1);
    rig_stop();
    opm_queue_free(bounded);
    opm_queue_free(unbounded);
    opm_queue_free(NULL);
    t = rig_open(rig_path("counters.opm"));
    rig_expect(t,
               "SELECT t.kind, t.name, t.capacity, s.value FROM sample s "
               "JOIN track t ON t.id = s.track ORDER BY s.ts",
               "counter|rss|NULL|1.0e+15\ncounter|watts|NULL|-0.5\ncounter|watts|NULL|1.0e-300\n"
               "queue|host queue|16|0.0\nqueue|host queue|16|8.0\nqueue|host queue|16|16.0\n"
               "queue|free queue|NULL|-7.0\n");
    rig_expect(t,
               "SELECT name, producer, workers, consumer, sampling FROM track "
               "WHERE kind = 'queue'",
               "host queue|decode|2|train|change\nfree queue|NULL|NULL|NULL|change\n");
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);
}

static void device_clocks(void **state)
{
    static opm_site launch = OPM_SITE_INIT(OPM_RUNTIME, "api", "launch");
    static opm_site kernel = OPM_SITE_INIT(OPM_HARDWARE, "kernel", "gemm");
    opm_track *device = opm_track_define("stream", "stream 7", "gpu:0", OPM_CLOCK_DEVICE);
    opm_track *mono = opm_track_define("stream", "mono", NULL, OPM_CLOCK_MONOTONIC);
    opm_track *real = opm_track_define("stream", "real", "npu", OPM_CLOCK_REALTIME);
    opm_op_info info = OPM_OP_INFO_INIT;
    int64_t at_mono, at_real;
    opm_op *op;
    opm_span span;
    opm_trace *t;

    (void)state;
    info.name = "device op";
    op = opm_op_define(&info);
    rig_start(rig_path("device.opm"));
    span = opm_begin(&launch);
    opm_correlate(span, 77);
    usleep(4000);
    at_mono = now_ns(CLOCK_MONOTONIC);
    at_real = now_ns(CLOCK_REALTIME);
    /* The device counts from 1000 at at_mono, twice as fast as the host. */
    opm_track_sync(device, 1000, at_mono);
    opm_track_sync(device, 1000 + 2000000000, at_mono + 1000000000);
    opm_device_span(device, &kernel, 1000 + 2000000, 1000 + 2600000, 77);
    opm_device_span(mono, &kernel, at_mono, at_mono + 123456, 0);
    opm_device_span(real, &kernel, at_real + 500000, at_real + 700001, UINT64_MAX);
    opm_device_span(NULL, &kernel, 0, 1, 0);
    opm_op_span(op, OPM_FORWARD_PASS, mono, at_mono + 200000, at_mono + 300000);
    opm_op_span(op, OPM_RESHAPE, mono, at_mono + 400000, at_mono + 400001);
    opm_op_span(NULL, OPM_FORWARD_PASS, mono, 1, 2);
    opm_op_span(op, OPM_FORWARD_PASS, NULL, 1, 2);
    usleep(4000);
    opm_end(span);
    rig_stop();
    opm_op_free(op);
    opm_track_free(device);
    opm_track_free(mono);
    opm_track_free(real);
    opm_track_free(NULL);

    t = rig_open(rig_path("device.opm"));
    rig_expect(t,
               "SELECT t.kind, t.name, t.device, s.name, s.cat, s.layer, s.dur, s.correlation "
               "FROM span s JOIN track t ON t.id = s.track WHERE s.layer = 'hardware' "
               "ORDER BY t.name",
               "stream|mono|NULL|gemm|kernel|hardware|123456|NULL\n"
               "stream|real|npu|gemm|kernel|hardware|200001|-1\n"
               "stream|stream 7|gpu:0|gemm|kernel|hardware|300000|77\n");
    rig_expect(t,
               "SELECT t.name, s.name, s.layer, s.phase, s.dur, o.name FROM span s "
               "JOIN track t ON t.id = s.track JOIN op o ON o.id = s.op ORDER BY s.id",
               "mono|device op|framework|forward|100000|device op\n"
               "mono|device op|framework|reshape|1|device op\n");
    /* All three lie inside the launch, which waited 4 ms before and after them. */
    rig_expect(t,
               "SELECT count(*) FROM span k JOIN span l ON l.name = 'launch' "
               "WHERE k.name = 'gemm' AND k.ts > l.ts + 3000000 AND k.ts + k.dur < l.ts + l.dur",
               "3\n");
    rig_expect(t,
               "SELECT d.ts - m.ts FROM span d, span m JOIN track a ON a.id = d.track "
               "JOIN track b ON b.id = m.track WHERE a.name = 'stream 7' AND b.name = 'mono' "
               "AND m.name = 'gemm'",
               "1000000\n");
    rig_expect(t,
               "SELECT l.correlation, l.wait = k.ts - l.ts FROM span l, span k "
               "WHERE l.name = 'launch' AND k.correlation = 77 AND k.name = 'gemm'",
               "77|1\n");
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);
}

/* ---- facts ---- */

/* Spans of a thread that somebody else measured, in the recorder's own clock, stand among those
 * that it recorded; facts about them come through; a launch points at what it launched. */
static void measured_elsewhere(void **state)
{
    static opm_site outer = OPM_SITE_INIT(OPM_APP, NULL, "outer");
    static opm_site call = OPM_SITE_INIT(OPM_RUNTIME, "api", "call");
    static opm_site kernel = OPM_SITE_INIT(OPM_HARDWARE, "kernel", "kernel");
    opm_track *own = opm_track_define_numbered("thread", NULL, NULL, OPM_CLOCK_RECORDER, gettid());
    opm_track *other = opm_track_define_numbered("thread", NULL, NULL, OPM_CLOCK_RECORDER, 1);
    opm_track *stream =
        opm_track_define_numbered("stream", "stream 7", "GPU 0", OPM_CLOCK_RECORDER, 7);
    uint64_t from, to, later;
    opm_trace *t;
    opm_span span;

    (void)state;
    rig_start(rig_path("elsewhere.opm"));
    span = opm_begin(&outer);
    from = opm_now();
    to = opm_now();
    while (opm_now() < to + 1000)
        ;
    later = opm_now();
    opm_end(span);
    opm_device_span_args(own, &call, (int64_t)from, (int64_t)to, 5, "{\"result\":3}");
    opm_device_span_args(own, &call, (int64_t)later, (int64_t)later, 6, "no JSON");
    opm_device_span(other, &call, (int64_t)from, (int64_t)to, 0);
    opm_device_span_args(stream, &kernel, (int64_t)to, (int64_t)to + 1000, 5, NULL);
    rig_stop();
    opm_track_free(own);
    opm_track_free(other);
    opm_track_free(stream);
    t = rig_open(rig_path("elsewhere.opm"));
    rig_expect(t,
               "SELECT s.name, p.name, t.kind, t.tid = t.pid, s.correlation, s.args FROM span AS s "
               "LEFT JOIN span AS p ON p.id = s.parent JOIN track AS t ON t.id = s.track "
               "ORDER BY s.layer, s.correlation",
               "outer|NULL|thread|1|NULL|NULL\n"
               "kernel|NULL|stream|0|5|NULL\n"
               "call|NULL|thread|0|NULL|NULL\n"
               "call|outer|thread|1|5|{\"result\":3}\n"
               "call|outer|thread|1|6|NULL\n");
    rig_expect(t,
               "SELECT a.name, a.correlation, b.name, f.kind FROM flow AS f "
               "JOIN span AS a ON a.id = f.src JOIN span AS b ON b.id = f.dst",
               "call|5|kernel|launch\n");
    rig_expect(t, "SELECT tid, name, device FROM track WHERE kind = 'stream'",
               "7|stream 7|GPU 0\n");
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);
}

static void facts(void **state)
{
    opm_trace *t;

    (void)state;
    opm_meta("too early", "1");
    rig_start(rig_path("meta.opm"));
    opm_meta("model.name", "first");
    opm_meta("model.name", "tiny");
    opm_meta("empty", "");
    opm_meta(NULL, "x");
    opm_meta("null", NULL);
    rig_stop();
    t = rig_open(rig_path("meta.opm"));
    rig_expect(t,
               "SELECT key, value FROM meta WHERE key IN "
               "('model.name', 'empty', 'too early', 'null') ORDER BY key",
               "empty|\nmodel.name|tiny\n");
    assert_int_equal(
        rig_int(t, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'program.pid'"), getpid());
    rig_expect(t,
               "SELECT count(*) FROM meta WHERE key IN ('opmeter.version', 'program.command', "
               "'clock.source', 'machine.host', 'machine.kernel', 'machine.cores', "
               "'recorder.span_cost_ns', 'recorder.buffer_bytes') AND value != ''",
               "8\n");
    opm_trace_close(t);
}

/* ---- what is left out ---- */

static void record_all_layers(const opm_options *options)
{
    static opm_site app = OPM_SITE_INIT(OPM_APP, "a", "app");
    static opm_site framework = OPM_SITE_INIT(OPM_FRAMEWORK, "b", "framework");
    static opm_site runtime = OPM_SITE_INIT(OPM_RUNTIME, NULL, "runtime");
    static opm_site hardware = OPM_SITE_INIT(OPM_HARDWARE, "a", "hardware");
    static opm_site counter = OPM_SITE_INIT(OPM_RUNTIME, "b", "counter");
    opm_track *track = opm_track_define("stream", "s", NULL, OPM_CLOCK_MONOTONIC);
    opm_op_info info = OPM_OP_INFO_INIT;
    opm_op *op;
    opm_error err;

    info.name = "op";
    op = opm_op_define(&info);
    assert_int_equal(opm_start(options, &err), 0);
    for (int i = 0; i < 2; i++) {
        opm_end(opm_begin(&app));
        opm_end(opm_begin(&framework));
        opm_end(opm_begin(&runtime));
        opm_end(opm_async_begin(&framework));
        opm_device_span(track, &hardware, 1, 2, 0);
        opm_counter(&counter, 1);
        opm_op_end(opm_op_begin(op));
        opm_end(opm_begin_named(OPM_FRAMEWORK, "c", "named", 5));
    }
    rig_stop();
    opm_op_free(op);
    opm_track_free(track);
}

static void filters(void **state)
{
    static const struct {
        int32_t level;
        const char *categories;
        const char *spans; /* that are left */
        int samples;
    } cases[] = {
        { 0, NULL, "", 0 },
        { 1, NULL, "app 2\n", 0 },
        { 2, NULL, "app 2\nframework 4\nnamed 2\nop 2\n", 0 },
        { 3, NULL, "app 2\nframework 4\nhardware 2\nnamed 2\nop 2\nruntime 2\n", 2 },
        { 9, "", "app 2\nframework 4\nhardware 2\nnamed 2\nop 2\nruntime 2\n", 2 },
        { 3, "a", "app 2\nhardware 2\nruntime 2\n", 0 },
        { 3, "c,b", "framework 4\nnamed 2\nruntime 2\n", 2 },
        { 3, "op", "op 2\nruntime 2\n", 0 },
        { 3, "-a", "framework 4\nnamed 2\nop 2\nruntime 2\n", 2 },
        { 3, "-b,-op,-c", "app 2\nhardware 2\nruntime 2\n", 0 },
        { 2, "-b,-x", "app 2\nnamed 2\nop 2\n", 0 },
        { 3, "ab,aa", "runtime 2\n", 0 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        opm_options options = OPM_OPTIONS_INIT;
        opm_trace *t;

        options.path = rig_path("filter.opm");
        options.level = cases[i].level;
        options.categories = cases[i].categories;
        record_all_layers(&options);
        t = rig_open(options.path);
        rig_expect(t, "SELECT name || ' ' || count(*) FROM span GROUP BY name ORDER BY name",
                   cases[i].spans);
        assert_int_equal(rig_int(t, "SELECT count(*) FROM sample"), cases[i].samples);
        assert_string_equal(rig_losses(t), "");
        opm_trace_close(t);
    }
}

static void pause_and_resume(void **state)
{
    static opm_site open = OPM_SITE_INIT(OPM_APP, NULL, "open");
    static opm_site hidden = OPM_SITE_INIT(OPM_APP, NULL, "hidden");
    static opm_site shown = OPM_SITE_INIT(OPM_APP, NULL, "shown");
    opm_span a, b;
    opm_trace *t;

    (void)state;
    opm_pause();
    opm_resume();
    rig_start(rig_path("pause.opm"));
    a = opm_begin(&open);
    opm_pause();
    assert_false(opm_on(OPM_APP));
    b = opm_begin(&hidden);
    opm_end(b);
    b = opm_begin(&hidden);
    OPM_COUNTER("hidden", 1);
    opm_pause(); /* they do not nest */
    opm_resume();
    assert_true(opm_on(OPM_APP));
    opm_end(opm_begin(&shown));
    opm_end(b);
    opm_pause();
    opm_end(a); /* a span that was open may end */
    rig_stop();
    opm_resume();
    t = rig_open(rig_path("pause.opm"));
    rig_expect(t, "SELECT name, depth, dur >= 0 FROM span ORDER BY id", "open|0|1\nshown|1|1\n");
    assert_int_equal(rig_int(t, "SELECT count(*) FROM sample"), 0);
    rig_expect(t, "SELECT count(*) FROM import_stat WHERE count > 0", "0\n");
    opm_trace_close(t);

    /* A pause ends with its recording. */
    rig_start(rig_path("pause2.opm"));
    opm_end(opm_begin(&shown));
    rig_stop();
    t = rig_open(rig_path("pause2.opm"));
    rig_expect(t, "SELECT name FROM span", "shown\n");
    opm_trace_close(t);
}

static void options_are_checked(void **state)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_error err = { 0 };

    (void)state;
    options.path = rig_path("options.opm");
    options.size = sizeof(options) + 8;
    assert_int_equal(opm_start(&options, &err), OPM_EVERSION);
    assert_non_null(strstr(err.msg, "opm_options.size"));
    options.size = 0;
    assert_int_equal(opm_start(&options, &err), OPM_EINVAL);
    assert_int_equal(opm_stop(&err), OPM_EINVAL);
    assert_string_equal(err.msg, "nothing is being recorded");
    assert_string_equal(opm_path(), "");
    /* An older program, whose struct ends after the path. */
    options.size = offsetof(opm_options, categories);
    options.overflow = -1;
    assert_int_equal(opm_start(&options, &err), 0);
    rig_stop();
    assert_true(rig_exists(rig_path("options.opm")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_have_layer_category_parent),
        cmocka_unit_test(spans_are_scopes),
        cmocka_unit_test(arguments_arrive),
        cmocka_unit_test(operators_and_tensors),
        cmocka_unit_test(operator_changes),
        cmocka_unit_test(steps_and_records),
        cmocka_unit_test(activities_cross_threads),
        cmocka_unit_test(counters_and_queues),
        cmocka_unit_test(device_clocks),
        cmocka_unit_test(measured_elsewhere),
        cmocka_unit_test(facts),
        cmocka_unit_test(filters),
        cmocka_unit_test(pause_and_resume),
        cmocka_unit_test(options_are_checked),
    };

    return rig_group(tests);
}
