/* glyph.c -- see glyph.h. */
#include "base/glyph.h"

#include "base/utf8.h"

/* Not wcwidth(), which depends on the locale. From Unicode 15, coarsened. */
static int width_of(uint32_t cp)
{
    static const struct {
        uint32_t from, to;
        int width;
    } ranges[] = {
        { 0x0300, 0x036f, 0 },   { 0x0483, 0x0489, 0 },   { 0x0591, 0x05bd, 0 },
        { 0x0610, 0x061a, 0 },   { 0x064b, 0x065f, 0 },   { 0x0900, 0x0902, 0 },
        { 0x093c, 0x093c, 0 },   { 0x0941, 0x0948, 0 },   { 0x094d, 0x094d, 0 },
        { 0x0e31, 0x0e31, 0 },   { 0x0e34, 0x0e3a, 0 },   { 0x0e47, 0x0e4e, 0 },
        { 0x1100, 0x115f, 2 },   { 0x1160, 0x11ff, 0 },   { 0x1ab0, 0x1aff, 0 },
        { 0x1dc0, 0x1dff, 0 },   { 0x200b, 0x200f, 0 },   { 0x2028, 0x202e, 0 },
        { 0x2060, 0x2064, 0 },   { 0x2066, 0x206f, 0 },   { 0x20d0, 0x20ff, 0 },
        { 0x231a, 0x231b, 2 },   { 0x23e9, 0x23ec, 2 },   { 0x25fd, 0x25fe, 2 },
        { 0x2614, 0x2615, 2 },   { 0x2648, 0x2653, 2 },   { 0x26a1, 0x26a1, 2 },
        { 0x26d4, 0x26d4, 2 },   { 0x2705, 0x2705, 2 },   { 0x270a, 0x270b, 2 },
        { 0x2728, 0x2728, 2 },   { 0x274c, 0x274c, 2 },   { 0x2753, 0x2755, 2 },
        { 0x2757, 0x2757, 2 },   { 0x2795, 0x2797, 2 },   { 0x2b1b, 0x2b1c, 2 },
        { 0x2b50, 0x2b50, 2 },   { 0x2b55, 0x2b55, 2 },   { 0x2e80, 0x303e, 2 },
        { 0x3041, 0x3098, 2 },   { 0x3099, 0x309a, 0 },   { 0x309b, 0xa4cf, 2 },
        { 0xa960, 0xa97f, 2 },   { 0xac00, 0xd7a3, 2 },   { 0xd7b0, 0xd7ff, 0 },
        { 0xf900, 0xfaff, 2 },   { 0xfe00, 0xfe0f, 0 },   { 0xfe10, 0xfe19, 2 },
        { 0xfe20, 0xfe2f, 0 },   { 0xfe30, 0xfe6f, 2 },   { 0xfeff, 0xfeff, 0 },
        { 0xff01, 0xff60, 2 },   { 0xffe0, 0xffe6, 2 },   { 0x16fe0, 0x18cff, 2 },
        { 0x1aff0, 0x1b2ff, 2 }, { 0x1f18e, 0x1f18e, 2 }, { 0x1f191, 0x1f19a, 2 },
        { 0x1f200, 0x1f320, 2 }, { 0x1f32d, 0x1f335, 2 }, { 0x1f337, 0x1f37c, 2 },
        { 0x1f37e, 0x1f393, 2 }, { 0x1f3a0, 0x1f3ca, 2 }, { 0x1f3cf, 0x1f3d3, 2 },
        { 0x1f3e0, 0x1f3f0, 2 }, { 0x1f3f4, 0x1f3f4, 2 }, { 0x1f3f8, 0x1f43e, 2 },
        { 0x1f440, 0x1f440, 2 }, { 0x1f442, 0x1f4fc, 2 }, { 0x1f4ff, 0x1f53d, 2 },
        { 0x1f54b, 0x1f567, 2 }, { 0x1f57a, 0x1f57a, 2 }, { 0x1f595, 0x1f596, 2 },
        { 0x1f5a4, 0x1f5a4, 2 }, { 0x1f5fb, 0x1f64f, 2 }, { 0x1f680, 0x1f6c5, 2 },
        { 0x1f6cc, 0x1f6cc, 2 }, { 0x1f6d0, 0x1f6d2, 2 }, { 0x1f6d5, 0x1f6d7, 2 },
        { 0x1f6dc, 0x1f6df, 2 }, { 0x1f6eb, 0x1f6ec, 2 }, { 0x1f6f4, 0x1f6fc, 2 },
        { 0x1f7e0, 0x1f7eb, 2 }, { 0x1f7f0, 0x1f7f0, 2 }, { 0x1f90c, 0x1f9ff, 2 },
        { 0x1fa70, 0x1faff, 2 }, { 0x20000, 0x3fffd, 2 }, { 0xe0001, 0xe01ef, 0 },
    };
    size_t lo = 0, hi = ARRAY_SIZE(ranges);

    if (cp < 0x300)
        return 1;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (cp > ranges[mid].to)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < ARRAY_SIZE(ranges) && cp >= ranges[lo].from ? ranges[lo].width : 1;
}

size_t glyph_next(const char *text, size_t len, struct glyph *g)
{
    uint32_t cp;
    size_t n = utf8_next(text, len, &cp);

    *g = (struct glyph){ text, n, 1 };
    if (utf8_is_control(cp)) {
        g->s = "?";
        g->len = 1;
    } else {
        g->width = width_of(cp);
    }
    return n;
}

size_t glyph_width(const char *text, size_t len)
{
    size_t width = 0;

    while (len) {
        struct glyph g;
        size_t n = glyph_next(text, len, &g);

        width += (size_t)g.width;
        text += n;
        len -= n;
    }
    return width;
}

size_t glyph_head(const char *text, size_t len, size_t columns)
{
    size_t at = 0, width = 0;

    while (at < len) {
        struct glyph g;
        size_t n = glyph_next(text + at, len - at, &g);

        width += (size_t)g.width;
        if (width > columns)
            break;
        at += n;
    }
    return at;
}

size_t glyph_tail(const char *text, size_t len, size_t columns)
{
    size_t at = 0, width = glyph_width(text, len);

    while (at < len) {
        struct glyph g;
        size_t n = glyph_next(text + at, len - at, &g);

        /* What combines with a character that is gone goes, too. */
        if (width <= columns && g.width)
            break;
        width -= (size_t)g.width;
        at += n;
    }
    return at;
}
