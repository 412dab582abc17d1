/* histogram.h -- how values are distributed, drawn with bars. `struct histogram h = {0}` is empty.
 */
#ifndef CLI_HISTOGRAM_H
#define CLI_HISTOGRAM_H

#include "cli/cli.h"

struct histogram {
    double *ns;
    size_t n, cap;
};

bool histogram_add(struct histogram *h, double ns); /* false: out of memory */
/* A line per bin: where it begins and ends, how many, a bar. Bins are equally wide; if the longest
 * value is far above the shortest, each is wider than the one before by the same factor. */
void histogram_print(const struct histogram *h, struct cli *cli);
void histogram_release(struct histogram *h);

#endif
