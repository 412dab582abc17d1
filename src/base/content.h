/* content.h -- what a file is, by its first bytes. */
#ifndef BASE_CONTENT_H
#define BASE_CONTENT_H

#include "base/common.h"

#define CONTENT_HEAD 512 /* bytes that suffice */

enum content_kind {
    CONTENT_UNKNOWN,
    CONTENT_OTHER,
    CONTENT_MODEL, /* a neural network in some other format than ONNX */
    CONTENT_ONNX,
};

struct content {
    enum content_kind kind;
    const char *what; /* in a few words: "a PNG image"; NULL: not known */
};

/* Of files that have a mark of their own; ONNX, which has none, by the fields that it begins with.
 * Text is not told apart. */
struct content content_of(const void *head, size_t len);

#endif
