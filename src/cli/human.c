/* human.c -- sizes, times and counts for people; see cli.h. */
#include "cli/cli.h"

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
        snprintf(room, HUMAN_ROOM, "%" PRIu64 " bytes", bytes);
        return room;
    }
    for (; v >= 999.5 && i + 1 < ARRAY_SIZE(units); i++)
        v /= 1000;
    return three_digits(room, v, units[i]);
}

const char *human_ns(char room[HUMAN_ROOM], double ns)
{
    static const char *const units[] = { "ns", "µs", "ms", "s" };
    const char *sign = ns < 0 ? "-" : "";
    char positive[HUMAN_ROOM];
    double v = fabs(ns);
    size_t i = 0;

    for (; v >= 999.5 && i + 1 < ARRAY_SIZE(units); i++)
        v /= 1000;
    if (i == 0 && v == floor(v))
        snprintf(positive, sizeof(positive), "%.0f ns", v);
    else
        three_digits(positive, v, units[i]);
    snprintf(room, HUMAN_ROOM, "%s%.*s", sign, HUMAN_ROOM - 2, positive);
    return room;
}

const char *human_count(char room[HUMAN_ROOM], int64_t n)
{
    char digits[HUMAN_ROOM];
    int len = snprintf(digits, sizeof(digits), "%" PRIu64, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
    int at = 0;

    if (n < 0)
        room[at++] = '-';
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            room[at++] = ',';
        room[at++] = digits[i];
    }
    room[at] = '\0';
    return room;
}
