/* sized.c -- see sized.h. */
#include "base/sized.h"

#include "base/error.h"

#include <string.h>

static int check_size(size_t size, size_t known, const char *what, opm_error *err)
{
    if (size < sizeof(size))
        return opm__fail(err, OPM_EINVAL, "%s: size is not set", what);
    if (size > known)
        return opm__fail(err, OPM_EVERSION, "%s: size %zu, this library knows %zu", what, size,
                         known);
    return 0;
}

int sized_copy(void *to, size_t known, const void *from, const char *what, opm_error *err)
{
    size_t size;
    int rc;

    if (!from)
        return 0;
    memcpy(&size, from, sizeof(size));
    rc = check_size(size, known, what, err);
    if (!rc)
        memcpy(to, from, size);
    return rc;
}

void sized_pass(void *to, size_t to_size, const void *from, size_t from_size)
{
    size_t both = MIN(to_size, from_size);

    memcpy(to, from, both);
    memset((unsigned char *)to + both, 0, to_size - both);
}

int sized_give(void *to, const void *from, size_t known, const char *what, opm_error *err)
{
    size_t size;
    int rc;

    if (!to)
        return 0;
    memcpy(&size, to, sizeof(size));
    rc = check_size(size, known, what, err);
    if (!rc) {
        memcpy(to, from, size);
        memcpy(to, &size, sizeof(size));
    }
    return rc;
}
