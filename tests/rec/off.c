/* off.c -- every macro and inline function of opmeter.h with recording compiled out.
 *
 * Linked without the library, as C and (through off.cpp) as C++: that it links is the test. */
#define OPM_ENABLED 0
#include <opmeter/opmeter.h>

static int evaluated(int *n)
{
    return ++*n;
}

static int spans(void)
{
    int n = 0;

    OPM_SPAN(OPM_APP, "span")
    {
        OPM_SPAN_CAT(OPM_HARDWARE, "category", "inner")
        {
            n++;
            continue;
        }
        n++;
    }
    for (;;) {
        OPM_SPAN(OPM_RUNTIME, "left by break")
        {
            n++;
            break;
        }
        break;
    }
    return n;
}

int main(void)
{
    opm_site site = OPM_SITE_INIT(OPM_APP, NULL, "site");
    opm_options options = OPM_OPTIONS_INIT;
    opm_op_info op_info = OPM_OP_INFO_INIT;
    opm_mem_info mem_info = OPM_MEM_INFO_INIT;
    opm_op *op = NULL;
    opm_span span = opm_begin(&site), other = opm_async_begin(&site);
    int n = 0;

    if (options.size != sizeof(options) || op_info.size != sizeof(op_info) ||
        mem_info.size != sizeof(mem_info))
        return 1;
    opm_arg_int(span, "int", 1);
    opm_arg_real(span, "real", 1.0);
    opm_arg_str(span, "str", "s");
    opm_correlate(span, 1);
    opm_flow(span, other);
    opm_end(other);
    opm_end(span);
    opm_end(opm_begin_named(OPM_APP, NULL, "name", 4));
    opm_op_end(opm_op_begin(op));
    opm_op_end(opm_op_begin_phase(op, OPM_RESHAPE));
    opm_op_span(op, OPM_FORWARD_PASS, NULL, 1, 2);
    opm_step_phase(OPM_PHASE_FORWARD);
    opm_step_end(opm_step_begin("model", 1, OPM_MEASURED));
    opm_record_end(opm_record_begin("label", OPM_WARMUP));
    opm_activity_end(opm_activity_begin("activity", 1, NULL));
    opm_counter(&site, 1.0);
    opm_queue_size(NULL, 1);
    opm_device_span(NULL, &site, 1, 2, 0);
    OPM_COUNTER("counter", evaluated(&n));
    if (span.depth || other.depth || opm_on(OPM_APP) || opm_span_none().depth)
        return 2;
    return spans() == 3 ? 0 : 3;
}
