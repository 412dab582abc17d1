/* check.h -- outputs: compared with a reference, or written to files. */
#ifndef RUN_CHECK_H
#define RUN_CHECK_H

#include "engine/engine.h"
#include "run/npy.h"
#include "run/run.h"

/* Compare each output that the reference has as out_NAME: |got - want| <= atol + rtol * |want|, NaN
 * equals NaN. inside: the 16-bit type that the model rounds to on the way, if any: at least a unit
 * in the last place of the largest number is allowed. 0 also if they differ: out says so. Fails if
 * the reference has none of them. */
int check_outputs(const struct npz *ref, const char *ref_name, const struct engine_value *value,
                  const struct engine_tensor *t, size_t n, double atol, double rtol,
                  enum tensor_type inside, struct run_check *out, opm_error *err);
/* The coarsest 16-bit type of a model's values; TENSOR_NONE: none. */
enum tensor_type check_rounds(const struct model *m);
/* DIR/NAME.npy for each output; what cannot be part of a file name becomes '_'. One that is there
 * already is replaced only if asked for. */
int save_outputs(const char *dir, bool replace, const struct engine_value *value,
                 const struct engine_tensor *t, size_t n, opm_error *err);

#endif
