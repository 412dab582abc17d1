/* worker.c -- a program that is recorded by its environment: two threads, a loop, some objects.
 * Exits with 42, so that it shows if anything disturbed it, or with 0 if it is given an argument.
 */
#include <opmeter/opmeter.h>
#include <pthread.h>
#include <stdio.h>

enum { SPANS = 20000 };

static opm_site work = OPM_SITE_INIT(OPM_APP, NULL, "work");
static opm_site outer = OPM_SITE_INIT(OPM_APP, NULL, "outer");
static opm_site last = OPM_SITE_INIT(OPM_APP, NULL, "last");

static void *loop(void *unused)
{
    for (int i = 0; i < SPANS; i++)
        opm_end(opm_begin(&work));
    return unused;
}

int main(int argc, char **argv)
{
    opm_op_info info = OPM_OP_INFO_INIT;
    opm_span span = opm_begin(&outer);
    pthread_t thread;
    opm_op *op;
    int alone;

    info.name = "conv";
    info.type = "Conv";
    op = opm_op_define(&info);
    opm_end(opm_op_begin(op));
    opm_meta("model", "none");
    alone = pthread_create(&thread, NULL, loop, NULL);
    loop(NULL);
    if (alone)
        loop(NULL); /* its own thread is no business of the recorder */
    else
        pthread_join(thread, NULL);
    opm_end(opm_begin(&last));
    opm_end(span);
    opm_op_free(op);
    (void)argv;
    puts("its own work");
    return argc > 1 ? 0 : 42;
}
