/* record.c -- a program of somebody else: records two operators, three times. */
#include <opmeter/opmeter.h>
#include <stdio.h>

static opm_op *define(const char *name, const char *type)
{
    opm_op_info info = OPM_OP_INFO_INIT;

    info.name = name;
    info.type = type;
    return opm_op_define(&info);
}

int main(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_error err;
    opm_op *conv, *relu;

    if (argc != 2)
        return 2;
    options.path = argv[1];
    if (opm_start(&options, &err) < 0) {
        fprintf(stderr, "record: %s\n", err.msg);
        return 1;
    }
    conv = define("conv1", "Conv");
    relu = define("relu1", "Relu");
    for (int i = 0; i < 3; i++) {
        opm_span step = opm_step_begin("tiny", i, OPM_MEASURED);

        opm_op_end(opm_op_begin(conv));
        opm_op_end(opm_op_begin(relu));
        opm_step_end(step);
    }
    opm_op_free(conv);
    opm_op_free(relu);
    if (opm_stop(&err) < 0) {
        fprintf(stderr, "record: %s\n", err.msg);
        return 1;
    }
    return 0;
}
