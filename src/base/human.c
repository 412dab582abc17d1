/* human.c -- see human.h. */
#include "base/human.h"

#include "base/capped.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Three digits are enough to compare by eye: 1.25, 12.5, 125. */
static const char *three_digits(char room[HUMAN_ROOM], double v, const char *unit)
{
    int decimals = v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;

    snprintf(room, HUMAN_ROOM, "%.*f %s", decimals, v, unit);
    return room;
}

const char *human_bytes(char room[HUMAN_ROOM], uint64_t bytes)
{
    static const char *const units[] = { "kB", "MB", "GB", "TB", "PB", "EB" };
    double v = (double)bytes / 1000;
    size_t i = 0;

    if (bytes < 1000) {
        snprintf(room, HUMAN_ROOM, "%" PRIu64 " byte%s", bytes, human_s((int64_t)bytes));
        return room;
    }
    for (; v >= 999.5 && i + 1 < ARRAY_SIZE(units); i++)
        v /= 1000;
    return three_digits(room, v, units[i]);
}

/* From five minutes on, seconds alone say little. */
static const char *long_time(char room[HUMAN_ROOM], double seconds)
{
    double whole = floor(seconds + 0.5);

    if (whole < 3600)
        snprintf(room, HUMAN_ROOM, "%.0f min %02.0f s", floor(whole / 60), fmod(whole, 60));
    else
        snprintf(room, HUMAN_ROOM, "%.0f h %02.0f min", floor(whole / 3600),
                 floor(fmod(whole, 3600) / 60));
    return room;
}

const char *human_ns(char room[HUMAN_ROOM], double ns)
{
    static const char *const units[] = { "ns", "µs", "ms", "s" };
    double v = ns;
    size_t i = 0;

    if (ns < 0) {
        char positive[HUMAN_ROOM];

        snprintf(room, HUMAN_ROOM, "-%.*s", HUMAN_ROOM - 2, human_ns(positive, -ns));
        return room;
    }
    if (ns >= 300e9)
        return long_time(room, ns / 1e9);
    for (; v >= 999.5 && i + 1 < ARRAY_SIZE(units); i++)
        v /= 1000;
    if (i == 0 && v == floor(v)) {
        snprintf(room, HUMAN_ROOM, "%.0f ns", v);
        return room;
    }
    return three_digits(room, v, units[i]);
}

const char *human_s(int64_t n)
{
    return n == 1 ? "" : "s";
}

const char *human_count(char room[HUMAN_ROOM], int64_t n)
{
    char digits[HUMAN_ROOM];
    int len = snprintf(digits, sizeof(digits), "%" PRIu64, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
    struct capped to = capped_of(room, HUMAN_ROOM);

    if (n < 0)
        capped_addc(&to, '-');
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            capped_addc(&to, ',');
        capped_addc(&to, digits[i]);
    }
    return capped_str(&to);
}
