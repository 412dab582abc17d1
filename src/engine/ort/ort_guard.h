/* ort_guard.h -- end a run of ONNX Runtime that is under way.
 *
 * ONNX Runtime asks nobody while it runs, but looks at a mark before each node. A thread sets that
 * mark when the engine's stop function says so. It asks some 20 times a second, only while a run is
 * under way, and never at the same time as the thread that runs does anything else. */
#ifndef ENGINE_ORT_GUARD_H
#define ENGINE_ORT_GUARD_H

#include "engine/engine.h"
#include "engine/ort/ort_lib.h"

struct ort_guard;

/* opts->stop must not be NULL; api outlives the guard. */
int ort_guard_open(struct ort_guard **out, const struct ort_api *api,
                   const struct engine_options *opts, opm_error *err);
void ort_guard_close(struct ort_guard *g); /* NULL is fine */

/* Around each run; the options are what to run with. NULL is fine, and gives NULL and false. */
const struct ort_run_options *ort_guard_begin(struct ort_guard *g);
bool ort_guard_end(struct ort_guard *g); /* true: it was told to stop */

#endif
