/* sample.c -- see sample.h. */
#include "sample.h"

#include <opmeter/opmeter.h>

static opm_site outer = OPM_SITE_INIT(OPM_APP, "a", "outer");
static opm_site inner = OPM_SITE_INIT(OPM_FRAMEWORK, "b", "inner");
static opm_site launch = OPM_SITE_INIT(OPM_RUNTIME, NULL, "launch");
static opm_site kernel = OPM_SITE_INIT(OPM_HARDWARE, "kernel", "gemm");

static opm_op *define_op(void)
{
    static const int64_t dims[] = { 1, 3, -1, 224 };
    static const opm_tensor tensors[] = { { "x", "fp32", dims, 4, OPM_INPUT, 602112 },
                                          { "w", "int8", dims, 2, OPM_WEIGHT, -1 },
                                          { NULL, NULL, dims, 0, OPM_OUTPUT, 4 } };
    opm_op_info info = OPM_OP_INFO_INIT;

    info.name = "conv1";
    info.type = "Conv";
    info.post_op = "relu";
    info.device = "cpu";
    info.engine = "sample";
    info.attributes = "{\"strides\":[2,2]}";
    info.nodes = "[\"conv1\"]";
    info.flops = 1 << 20;
    info.bytes = 1 << 10;
    info.weight_shape = "64x3";
    info.weight_zero_ratio = 0.5;
    info.sparse_support = 1;
    info.tensors = tensors;
    info.ntensors = 3;
    return opm_op_define(&info);
}

static void one_step(opm_op *op, opm_track *stream)
{
    opm_span step = opm_step_begin("net", 7, OPM_WARMUP), span;

    opm_step_phase(OPM_PHASE_FORWARD);
    opm_op_end(opm_op_begin_phase(op, OPM_RESHAPE));
    opm_op_end(opm_op_begin(op));
    opm_op_span(op, OPM_FORWARD_PASS, stream, 100, 200);
    opm_step_phase(OPM_PHASE_BACKWARD);
    span = opm_begin(&launch);
    opm_correlate(span, 77);
    opm_device_span(stream, &kernel, 1000, 3000, 77);
    opm_flow(step, span);
    opm_end(span);
    opm_step_end(step);
}

void sample_everything(int leave_open)
{
    opm_op *op = define_op();
    opm_queue *queue = opm_queue_define("queue", 16);
    opm_track *stream = opm_track_define("stream", "stream 7", "gpu", OPM_CLOCK_DEVICE);
    opm_mem_info mem = OPM_MEM_INFO_INIT;
    opm_span record = opm_record_begin("batch 8", OPM_MEASURED), span, activity, async;

    opm_thread_name("sampler");
    opm_meta("model", "sample");
    mem.owner = "x";
    mem.bytes = 64;
    mem.first_op = op;
    opm_mem(&mem);
    opm_track_sync(stream, 1, 2);
    opm_track_sync(stream, 1001, 1002);
    one_step(op, stream);
    activity = opm_activity_begin("decode", 7, "{\"file\":\"a\"}");
    async = opm_async_begin(&launch);
    span = opm_begin(&outer);
    for (int i = 0; i < 20; i++)
        opm_end(opm_begin(&inner));
    opm_arg_int(span, "int", -5);
    opm_arg_real(span, "real", 0.25);
    opm_arg_str(span, "str", "text");
    opm_counter(&kernel, 1.5);
    opm_queue_size(queue, 3);
    opm_end(opm_begin_named(OPM_APP, "c", "named", 5));
    if (!leave_open) {
        opm_end(span);
        opm_end(async);
        opm_activity_end(activity);
        opm_record_end(record);
    }
    opm_op_free(op);
    opm_queue_free(queue);
    opm_track_free(stream);
}

void sample_spans(int n)
{
    for (int i = 0; i < n; i++)
        opm_end(opm_begin(i % 3 ? &inner : &outer));
}

void sample_deep(int depth)
{
    opm_span span = opm_begin(&inner);

    if (depth > 1)
        sample_deep(depth - 1);
    opm_end(span);
}
