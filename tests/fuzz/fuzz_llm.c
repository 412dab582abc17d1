/* fuzz_llm.c -- traces with captured and replayed graphs, iterations and requests: linked, derived
 * and computed. */
#include "analyze/analysis.h"
#include "import/graph/replay.h"
#include "import/llm/derive.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const enum analysis_id computed[] = { ANALYSIS_iteration_times, ANALYSIS_request_shares,
                                                 ANALYSIS_iteration_ops, ANALYSIS_op_times };
    struct import_source src = { .path = "fuzz", .data = data, .len = len, .count = 1 };
    struct replay_files none = { 0 };
    struct import_options opts = { 0 };
    struct store *st = NULL;
    opm_error err = { 0 };

    if (store_new(&st) < 0)
        abort();
    if (kineto_read(st, &src, &err) == 0 && store_finish(st) == 0) {
        struct table out;

        if (replays_link(st, "fuzz", &none, &opts, &err) || llm_derive(st) ||
            analysis_intern_words(st))
            abort(); /* nothing in a trace can make these fail */
        for (size_t i = 0; i < ARRAY_SIZE(computed); i++)
            if (analysis_run(st, computed[i], &out, &err) == 0)
                table_release(&out);
    }
    store_free(st);
    return 0;
}
