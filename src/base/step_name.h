/* step_name.h -- names that mark a step of a program, wherever they come from: "step", "step 7",
 * "iteration: 7", "ProfilerStep#7".
 *
 * Who derives steps from something else than marks calls them STEP_OF_OPTIMIZER; store_finish()
 * lets them give way to marks of the same process. */
#ifndef BASE_STEP_NAME_H
#define BASE_STEP_NAME_H

#include "base/common.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STEP_OF_PROFILER "ProfilerStep"
#define STEP_OF_OPTIMIZER "optimizer step" /* ends with a step of PyTorch's optimizer */

/* The word, a constant, and the number or -1. text need not end with NUL at len, but somewhere. */
static inline bool step_name_read(const char *text, size_t text_len, const char **word,
                                  int64_t *num)
{
    static const char *const words[] = { "step", "iteration", STEP_OF_PROFILER, STEP_OF_OPTIMIZER };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t len = strlen(words[i]), digits;
        const char *at = text + len;

        if (text_len < len || strncasecmp(text, words[i], len) != 0)
            continue;
        at += strspn(at, " #:=_-");
        digits = strspn(at, "0123456789");
        if (at + digits != text + text_len || digits > 18)
            continue;
        *word = words[i];
        *num = digits ? strtoll(at, NULL, 10) : -1;
        return true;
    }
    return false;
}

#endif
