/* bar.c -- see bar.h. */
#include "base/bar.h"

#include <math.h>

void bar_put(struct buf *b, double fraction, int columns, bool unicode)
{
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    double wanted;
    int parts = unicode ? 8 : 1;
    long n;

    if (!(fraction > 0) || columns <= 0)
        return;
    wanted = (fraction < 1 ? fraction : 1) * columns * parts;
    n = lround(wanted);
    n = n < 1 ? 1 : n;
    for (long i = 0; i < n / parts; i++)
        buf_adds(b, unicode ? "█" : "#");
    if (unicode)
        buf_adds(b, eighths[n % 8]);
}
