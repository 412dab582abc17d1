/* glyph.h -- text as a terminal shows it: how wide it is, and what must not reach it.
 *
 * Widths are those of Unicode, not of the locale. Control characters and bytes that are not UTF-8
 * show as '?'. */
#ifndef BASE_GLYPH_H
#define BASE_GLYPH_H

#include "base/common.h"

/* One character. */
struct glyph {
    const char *s; /* what to print: bytes of the text, or "?" */
    size_t len;
    int width; /* 0: combines with the one before it; 2: East Asian wide, emoji; else 1 */
};

/* The first character of text (len >= 1); returns the bytes that it takes. */
size_t glyph_next(const char *text, size_t len, struct glyph *g);
/* Terminal columns of the whole text. */
size_t glyph_width(const char *text, size_t len);
/* Bytes of the beginning of text that takes at most so many columns. */
size_t glyph_head(const char *text, size_t len, size_t columns);
/* Where the end of text begins that takes at most so many columns; len if none does. */
size_t glyph_tail(const char *text, size_t len, size_t columns);

#endif
