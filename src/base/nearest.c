/* nearest.c -- see nearest.h. */
#include "base/nearest.h"

#include <ctype.h>
#include <string.h>

#define NAME_MAX_BYTES 63

static int lower(char c)
{
    return tolower((unsigned char)c);
}

size_t nearest_distance(const char *a, const char *b)
{
    size_t na = strnlen(a, NAME_MAX_BYTES + 1), nb = strnlen(b, NAME_MAX_BYTES + 1);
    size_t row[3][NAME_MAX_BYTES + 1]; /* the last three rows of the table of distances */

    if (na > NAME_MAX_BYTES || nb > NAME_MAX_BYTES)
        return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *now = row[i % 3], *up = row[(i - 1) % 3], *up2 = row[(i + 1) % 3];

        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            size_t best = MIN(up[j] + 1, now[j - 1] + 1);

            best = MIN(best, up[j - 1] + !same);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                best = MIN(best, up2[j - 2] + 1);
            now[j] = best;
        }
    }
    return row[na % 3][nb];
}

bool nearest_close(const char *wanted, size_t distance)
{
    return distance <= MAX(strnlen(wanted, NAME_MAX_BYTES) / 3, (size_t)1);
}

void nearest_try(struct nearest *n, const char *candidate)
{
    size_t nw = strlen(n->word), nc = strlen(candidate), cost;

    if (nw >= 2 && strncmp(n->word, candidate, nw) == 0)
        cost = 1;
    else
        cost = nearest_distance(n->word, candidate);
    if (!nw || cost > 1 + MIN(nw, nc) / 4 || cost >= MIN(nw, nc))
        return;
    if (!n->best || cost < n->cost) {
        n->best = candidate;
        n->cost = cost;
    }
}
