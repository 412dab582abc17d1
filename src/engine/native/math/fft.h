/* fft.h -- discrete Fourier transforms of any length, several rows at once.
 *
 * Code of our own rather than a library: FFTW is GPL, the BSD ones that Debian has (kissfft,
 * pocketfft) are one type per build or C++, and none of them transforms rows side by side, which is
 * what makes each step a vector operation at every length. Lengths whose primes are up to
 * FFT_PRIME_MAX are done by mixed radix, others through a convolution of such a length (Bluestein).
 * Everything is in double; figures of float operators are rounded once, at the end. */
#ifndef NATIVE_FFT_H
#define NATIVE_FFT_H

#include "engine/native/isa/loops_isa.h"

struct fft; /* read-only once made: threads may share it */

struct fft *fft_new(int64_t n); /* n >= 1; NULL: out of memory */
void fft_free(struct fft *f);   /* NULL is fine */
/* How many rows at once are best, if there are so many. */
int64_t fft_rows(const struct fft *f, int64_t rows);
/* Doubles that fft_run() works in; the first 2 * n * rows are the caller's to fill. */
int64_t fft_room(const struct fft *f, int64_t rows);
/* Point t of row b is room[t * rows + b], its imaginary part n * rows further on. Where the result
 * lies, in the same order, is returned; the rest of room is lost. inverse: without the division by
 * n. */
double *fft_run(const struct fft *f, const struct loops_isa *isa, double *room, int64_t rows,
                bool inverse);

#endif
