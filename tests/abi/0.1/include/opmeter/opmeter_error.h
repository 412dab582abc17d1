/* opmeter_error.h -- status codes and the error message, shared by both public headers.
 *
 * A function that can fail returns 0 or a negative code and, if the caller passed one, fills an
 * opm_error with a single line that names the file, table, node or offset concerned.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef OPMETER_ERROR_H
#define OPMETER_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define OPM_API __attribute__((visibility("default")))
#else
#define OPM_API
#endif

/* clang-format off */
/* Append only: codes are part of the ABI. */
#define OPM_STATUS_MAP(X)                                      \
    X(EINVAL,   -1, "invalid argument")                        \
    X(ENOMEM,   -2, "out of memory or over a size limit")      \
    X(EIO,      -3, "system call failed")                      \
    X(EFORMAT,  -4, "not a file of the expected format")       \
    X(ETRUNC,   -5, "input ends too early")                    \
    X(EVERSION, -6, "newer version than this library knows")   \
    X(ENOTFOUND,-7, "no such thing")                           \
    X(EUNSUPPORTED, -8, "not supported")                       \
    X(EBUSY,    -9, "in use")                                  \
    X(ELIMIT,  -10, "a limit given by the caller was reached")
/* clang-format on */

enum opm_status {
    OPM_OK = 0,
#define X(name, value, text) OPM_##name = value,
    OPM_STATUS_MAP(X)
#undef X
};

typedef struct opm_error {
    int code;      /* one of enum opm_status; 0 while nothing failed */
    char msg[500]; /* one line, no trailing newline */
} opm_error;

/* What a code means in general; never NULL. The message in opm_error says more. */
static inline const char *opm_status_text(int code)
{
    switch (code) {
    case OPM_OK:
        return "success";
#define X(name, value, text) \
    case value:              \
        return text;
        OPM_STATUS_MAP(X)
#undef X
    default:
        return "unknown status";
    }
}

#ifdef __cplusplus
}
#endif
#endif
