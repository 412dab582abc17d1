/* cupti_find.c -- see cupti_find.h. */
#include "launch/cupti_find.h"

#include "base/error.h"
#include "device/cuda/cupti.h"

#include <stdio.h>

int cupti_find(char *path, size_t size, uint32_t *version, opm_error *err)
{
    struct cupti c;
    int rc = cupti_load(&c, err);

    if (rc)
        return rc;
    snprintf(path, size, "%s", c.path);
    *version = 0;
    if (c.GetVersion(version) != CUPTI_OK)
        return opm__fail(err, OPM_EUNSUPPORTED, "%s does not tell its version", c.path);
    return 0;
}
