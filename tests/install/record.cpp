/* record.cpp -- the same from C++: scopes that are left by an exception, a thread. */
#include <opmeter/opmeter.h>
#include <stdexcept>
#include <stdio.h>
#include <thread>

static void work(opm_op *op)
{
    opm_op_end(opm_op_begin(op));
    OPM_SPAN(OPM_APP, "fails")
    {
        throw std::runtime_error("left early");
    }
}

static void try_work(opm_op *op)
{
    try {
        work(op);
    } catch (const std::runtime_error &) {
    }
}

int main(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_op_info info = OPM_OP_INFO_INIT;
    opm_error err;

    if (argc != 2)
        return 2;
    options.path = argv[1];
    if (opm_start(&options, &err) < 0) {
        fprintf(stderr, "record: %s\n", err.msg);
        return 1;
    }
    info.name = "conv1";
    info.type = "Conv";
    opm_op *op = opm_op_define(&info);
    for (int i = 0; i < 3; i++)
        try_work(op);
    std::thread other([op] {
        for (int i = 0; i < 3; i++)
            try_work(op);
    });
    other.join();
    opm_op_free(op);
    return opm_stop(&err) < 0;
}
