/* killed.c -- a program that never ends: two threads record operators and print how many have
 * ended.
 *
 * usage: killed TRACE [PLUGIN]; with PLUGIN all of that is done by a library that is loaded when
 * the program runs already: this file once more, with the recorder. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

typedef int record_fn(const char *path);

#ifndef LOADER
#include <opmeter/opmeter.h>

static void *work(void *op)
{
    for (int i = 1;; i++) {
        opm_op_end(opm_op_begin(op));
        if (i % 1000 == 0) {
            printf("%d\n", i);
            fflush(stdout);
        }
    }
    return NULL;
}

record_fn record;

__attribute__((visibility("default"))) int record(const char *path)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_op_info info = OPM_OP_INFO_INIT;
    pthread_t thread[2];
    opm_error err;

    options.path = path;
    if (opm_start(&options, &err) < 0) {
        fprintf(stderr, "killed: %s\n", err.msg);
        return 1;
    }
    info.name = "conv1";
    info.type = "Conv";
    for (int i = 0; i < 2; i++)
        if (pthread_create(&thread[i], NULL, work, opm_op_define(&info)))
            return 1;
    return pthread_join(thread[0], NULL);
}
#endif

#ifndef PLUGIN
int main(int argc, char **argv)
{
#ifdef LOADER
    void *plugin = argc == 3 ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : NULL;
    record_fn *record;

    if (!plugin) {
        fprintf(stderr, "killed: %s\n", argc == 3 ? dlerror() : "which plugin?");
        return 2;
    }
    *(void **)&record = dlsym(plugin, "record");
#endif
    return argc > 1 ? record(argv[1]) : 2;
}
#endif
