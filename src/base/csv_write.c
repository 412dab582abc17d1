/* csv_write.c -- see csv_write.h. */
#include "base/csv_write.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX_BYTES 40

static bool begins_formula(const char *s, size_t len)
{
    return len && *s && strchr("=+-@\t\r", *s);
}

static bool is_number(const char *s, size_t len)
{
    char text[NUMBER_MAX_BYTES], *end;

    if (len >= sizeof(text))
        return false;
    memcpy(text, s, len); /* nothing need follow it that ends it */
    text[len] = '\0';
    if (strspn(text, "+-.0123456789eE") < len)
        return false;
    strtod(text, &end);
    return end == text + len;
}

/* Also what would read as marked. */
static bool needs_mark(const char *s, size_t len)
{
    while (len > 1 && *s == '\'')
        s++, len--;
    return begins_formula(s, len) && !is_number(s, len);
}

bool csv_is_marked(const char *s, size_t len)
{
    return len > 1 && *s == '\'' && needs_mark(s + 1, len - 1);
}

/* C0 but for tabs and line ends, DEL and C1. */
static bool is_control(uint32_t cp)
{
    return (cp < 0x20 && cp != '\t' && cp != '\n' && cp != '\r') || (cp >= 0x7f && cp < 0xa0);
}

static bool needs_escape(const char *s, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t cp;

        i += utf8_next(s + i, len - i, &cp);
        if (cp == UTF8_BAD || is_control(cp))
            return true;
    }
    return false;
}

/* Within quotes. */
static void put_escaped(struct io_out *out, const char *s, size_t len)
{
    while (len) {
        uint32_t cp;
        size_t n = utf8_next(s, len, &cp);

        if (cp == UTF8_BAD)
            io_out_adds(out, "\xef\xbf\xbd");
        else if (is_control(cp))
            io_out_addf(out, "\\u%04x", (unsigned)cp);
        else if (cp == '"')
            io_out_adds(out, "\"\"");
        else
            io_out_add(out, s, n);
        s += n;
        len -= n;
    }
}

static void put_quoted(struct io_out *out, const char *s, size_t len)
{
    while (len) {
        const char *q = memchr(s, '"', len);
        size_t n = q ? (size_t)(q - s) + 1 : len;

        io_out_add(out, s, n);
        if (q)
            io_out_add(out, "\"", 1);
        s += n;
        len -= n;
    }
}

void csv_put(struct io_out *out, const char *s, size_t len, enum csv_style style)
{
    bool mark = (style & CSV_MARK) && needs_mark(s, len);
    bool quote = len == 0 || (begins_formula(s, len) && !is_number(s, len));
    bool escape = (style & CSV_ESCAPE) && needs_escape(s, len);

    for (size_t i = 0; i < len && !quote; i++)
        quote = s[i] == ',' || s[i] == '"' || s[i] == '\n' || s[i] == '\r';
    if (mark && (quote || escape))
        io_out_add(out, "\"'", 2);
    else if (mark)
        io_out_add(out, "'", 1);
    else if (quote || escape)
        io_out_add(out, "\"", 1);
    if (escape)
        put_escaped(out, s, len);
    else if (quote)
        put_quoted(out, s, len);
    else
        io_out_add(out, s, len);
    if (quote || escape)
        io_out_add(out, "\"", 1);
}
