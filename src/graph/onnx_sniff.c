/* onnx_sniff.c -- say what a file that is not ONNX probably is, so that the user knows which one
 * was meant. */
#include "base/content.h"
#include "base/utf8.h"
#include "graph/onnx_int.h"

/* The first byte that is not white space; 0 if there is none near. */
static int first_text(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < MIN(len, (size_t)64); i++)
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r' && p[i] != '\n')
            return p[i];
    return 0;
}

/* Is the beginning UTF-8 without control characters? */
static bool all_text(const uint8_t *p, size_t len)
{
    size_t end = MIN(len, (size_t)256);

    for (size_t i = 0; i < end;) {
        uint32_t c;

        i += utf8_next((const char *)p + i, len - i, &c);
        if (c == UTF8_BAD || (c < 0x20 && c != '\t' && c != '\r' && c != '\n' && c != '\f'))
            return false;
    }
    return len > 0;
}

const char *ld_looks_like(const uint8_t *p, size_t len)
{
    struct content known = content_of(p, len);

    if (len == 0)
        return "an empty file";
    if (known.kind != CONTENT_UNKNOWN)
        return known.kind == CONTENT_ONNX ? NULL : known.what;
    if (!all_text(p, len))
        return NULL;
    switch (first_text(p, len)) {
    case '{':
    case '[':
        return "JSON";
    case '<':
        return "XML, HTML or ONNX's text form";
    default:
        return "a text file";
    }
}
