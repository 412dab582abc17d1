/* marks.c -- see marks.h. */
#include "device/cuda/marks.h"

#include "base/step_name.h"

#include <stdatomic.h>

bool marks_is_step(const char *name, size_t len)
{
    const char *model;
    int64_t num;

    return step_name_read(name, len, &model, &num);
}

opm_span marks_begin(const char *category, const char *name, size_t len)
{
    static _Atomic int64_t counted; /* steps without a number */
    const char *model;
    int64_t num;

    if (step_name_read(name, len, &model, &num))
        return opm_step_begin(model, num < 0 ? counted++ : num, OPM_MEASURED);
    return opm_begin_named(OPM_APP, category, name, len);
}
