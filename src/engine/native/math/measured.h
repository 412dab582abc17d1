/* measured.h -- measured times that choices between a dense and a sparse kernel are made by.
 *
 * Remembered for the life of the process, and for the machine in base/ratios.h's file, so that a
 * choice is measured once and stays the same from then on. A file that cannot be read or written is
 * no error, and one that is not understood is left alone. Safe from any thread. */
#ifndef NATIVE_MEASURED_H
#define NATIVE_MEASURED_H

#include "base/ratios.h"

/* Fill in the two times of r, whose isa, pattern, sparsity, n, k and m say what is asked for.
 * False: nobody has measured that here. */
bool measured_get(struct ratio *r);
void measured_put(const struct ratio *r);

#endif
