/* npy.h -- NumPy's array files: .npy, and .npz, which is a zip archive of them.
 *
 * Reading trusts nothing in a file: sizes are checked against its length, an archive cannot unpack
 * to more than its bytes could hold, arrays of Python objects are refused. */
#ifndef RUN_NPY_H
#define RUN_NPY_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/io.h"
#include "graph/tensor.h"

/* Read one array. t->data points into p, unless the array had to be reordered (column-major) or
 * swapped (big-endian), or holds strings: then into the arena. name is for messages and becomes
 * t->name. */
int npy_parse(struct tensor *t, const void *p, size_t len, const char *name, struct arena *arena,
              opm_error *err);
/* Write a tensor as NAME.npy, strings as NumPy's '<U'. Types that NumPy lacks (bfloat16, float8,
 * int4) are refused. */
int npy_write(const char *path, const struct tensor *t, opm_error *err);

#define NPZ_MEMBERS_MAX 65536

struct npz {
    struct io_map file;
    struct arena arena; /* unpacked members, names, the list itself */
    struct tensor *array;
    size_t n;
};

/* What is packed may not unpack to more than the memory that reading a trace may take
 * (base/budget.h): OPM_ELIMIT. */
int npz_open(struct npz *z, const char *path, opm_error *err);
/* The same from memory, which must outlive it. */
int npz_parse(struct npz *z, const void *p, size_t len, const char *name, opm_error *err);
const struct tensor *npz_find(const struct npz *z, const char *name); /* NULL if there is none */
void npz_close(struct npz *z);                                        /* a zeroed one is fine */

#endif
