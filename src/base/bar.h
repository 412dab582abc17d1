/* bar.h -- bars made of characters. */
#ifndef BASE_BAR_H
#define BASE_BAR_H

#include "base/buf.h"

/* Append a bar of `fraction` (0 to 1) of `columns`, in eighths of a column if unicode, else in
 * whole '#'. What is more than nothing shows. */
void bar_put(struct buf *b, double fraction, int columns, bool unicode);

#endif
