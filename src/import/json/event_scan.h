/* event_scan.h -- one trace event of JSON text: where it ends, and which numbers in it are its own.
 *
 * Events of a trace repeat each other but for a few numbers. So an event is seen as literal text
 * with holes: its time and duration, its id, and the numbers that are values of objects. A later
 * event with the same literal text is read by comparing that text and parsing the numbers; see
 * event_shape.h.
 *
 * Readers may look at EVENT_SLACK bytes from `end` on, which must be readable but mean nothing, and
 * *end must not be able to continue a number, a word or white space: '}' and NUL will do. */
#ifndef IMPORT_JSON_EVENT_SCAN_H
#define IMPORT_JSON_EVENT_SCAN_H

#include "base/common.h"

#define EVENT_SLACK 64
#define EVENT_DEPTH_MAX 64
#define EVENT_HOLES_MAX 120 /* numbers beyond stay literal */
#define EVENT_HOLE_BYTES 40 /* longer ones are not read as numbers */

enum hole_type {
    HOLE_TIME,    /* microseconds, any decimal; value: ns */
    HOLE_INT,     /* integer of up to 18 digits as one would print it */
    HOLE_DECIMAL, /* the same with a fraction; two values: digits, and how many are behind the point
                   */
    HOLE_HEX,     /* 0x and up to 16 lower-case digits */
};

struct hole {
    uint32_t at;  /* from the start of the event */
    uint16_t len; /* in the example */
    uint8_t type; /* enum hole_type */
};

/* What is wrong with an event and was put right. Bits, written once: name and the statistic. */
#define EVENT_DIRT(X)             \
    X(CONTROL, control_character) \
    X(UTF8, invalid_utf8)         \
    X(SURROGATE, lone_surrogate)  \
    X(NAN, not_a_number)          \
    X(COMMA, stray_comma)         \
    X(NO_COMMA, missing_comma)    \
    X(QUOTE, unescaped_quote)     \
    X(ESCAPE, bad_escape)         \
    X(NUMBER, malformed_number)

enum event_dirt {
#define X(name, stat) DIRT_BIT_##name,
    EVENT_DIRT(X)
#undef X
        DIRT_COUNT,
#define X(name, stat) DIRT_##name = 1 << DIRT_BIT_##name,
    EVENT_DIRT(X)
#undef X
};

struct event_scan {
    const char *end; /* behind the closing brace */
    unsigned nhole, nvalue;
    unsigned dirt; /* enum event_dirt; only what a scan can see in passing */
    struct hole hole[EVENT_HOLES_MAX];
    int64_t value[2 * EVENT_HOLES_MAX];
};

enum scan_result {
    SCAN_OK,
    SCAN_MORE, /* the text ends before the event does */
    SCAN_BAD,  /* not JSON; event_repair() may know better */
};

/* Scan the event at p, which is its opening brace. */
enum scan_result event_scan(struct event_scan *s, const char *p, const char *end);

/* Microseconds as a number of JSON into ns, exactly (halves of a ns away from zero). Returns where
 * the number ends, or NULL if it is none or beyond +-2^62 ns. "+1", ".5" and "007" are none: a text
 * with such a number in a hole would not be strict, and is repaired first. */
const char *scan_time(const char *p, int64_t *ns);
/* The other kinds of hole; NULL if the text is not of the kind. */
const char *scan_int(const char *p, int64_t *value);
const char *scan_decimal(const char *p, int64_t value[2]);
const char *scan_hex(const char *p, int64_t *value);

/* Behind the JSON value at p; NULL if it goes on beyond end. Brackets are counted, not checked. */
const char *scan_skip(const char *p, const char *end);

static inline bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

#endif
