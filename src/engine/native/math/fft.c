/* fft.c -- see fft.h. */
#include "engine/native/math/fft.h"
#include "base/alloc.h"

#include <math.h>
#include <string.h>

#define PASSES_MAX 64
#define ROWS_MAX 16      /* two vectors of the widest set */
#define POINTS_MAX 16384 /* of all rows at once: four arrays of them stay in a cache */

struct step {
    int radix;
    int64_t m;
    const double *w, *root;
};

struct fft {
    int64_t n;
    int npass;
    struct step pass[PASSES_MAX];
    double *table; /* what the passes point to */
    /* For other lengths: of the convolution; its points; exp(-pi i k^2 / n); the transformed of its
     * conjugate, divided by the length. Cosines first, then sines. */
    struct fft *conv;
    double *chirp, *filter;
};

static void turn(double *w, int64_t k, int64_t n)
{
    double a = 2 * M_PI * (double)(k % n) / (double)n;

    w[0] = cos(a);
    w[1] = -sin(a);
}

/* Radices of n, greatest last; 0 if a prime is too great. */
static int factors(int64_t n, int *radix)
{
    int count = 0;

    for (; n % 4 == 0; n /= 4)
        radix[count++] = 4;
    for (int p = 2; p <= FFT_PRIME_MAX; p++)
        for (; n % p == 0; n /= p)
            radix[count++] = p;
    return n == 1 ? count : 0;
}

static bool make_passes(struct fft *f, const int *radix)
{
    int64_t doubles = 0, m = f->n;
    double *at;

    for (int i = 0; i < f->npass; i++) {
        m /= radix[i];
        doubles += 2 * (radix[i] - 1) * m + 2 * radix[i];
    }
    f->table = mem_calloc((size_t)doubles + 1, sizeof(double));
    at = f->table;
    if (!at)
        return false;
    m = f->n;
    for (int i = 0; i < f->npass; i++) {
        struct step *s = &f->pass[i];
        int64_t n = m;

        m /= radix[i];
        s->radix = radix[i];
        s->m = m;
        s->w = at;
        for (int64_t p = 0; p < m; p++)
            for (int k = 1; k < radix[i]; k++, at += 2)
                turn(at, p * k, n);
        s->root = at;
        for (int k = 0; k < radix[i]; k++, at += 2) {
            at[0] = cos(2 * M_PI * k / radix[i]);
            at[1] = sin(2 * M_PI * k / radix[i]);
        }
    }
    return true;
}

/* The least length from `least` on that has small primes only. */
static int64_t good_length(int64_t least)
{
    int64_t best = 1;

    while (best < least)
        best *= 2;
    for (int64_t five = 1; five < least; five *= 5)
        for (int64_t three = five; three < best; three *= 3) {
            int64_t n = three;

            while (n < least)
                n *= 2;
            best = MIN(best, n);
        }
    return best;
}

static bool make_chirp(struct fft *f)
{
    int64_t n = f->n, m = good_length(2 * n - 1);
    double *room, *out;

    f->conv = fft_new(m);
    f->chirp = mem_calloc((size_t)n * 2, sizeof(double));
    f->filter = mem_calloc((size_t)m * 2, sizeof(double));
    if (!f->conv || !f->chirp || !f->filter)
        return false;
    room = mem_calloc((size_t)fft_room(f->conv, 1), sizeof(double));
    if (!room)
        return false;
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        double a = M_PI * (double)square / (double)n;

        f->chirp[k] = cos(a);
        f->chirp[n + k] = -sin(a);
        room[k] = cos(a);
        room[m + k] = sin(a);
        if (k) {
            room[m - k] = cos(a);
            room[2 * m - k] = sin(a);
        }
    }
    out = fft_run(f->conv, &loops_c, room, 1, false);
    for (int64_t k = 0; k < 2 * m; k++)
        f->filter[k] = out[k] / (double)m;
    mem_free(room);
    return true;
}

struct fft *fft_new(int64_t n)
{
    struct fft *f = mem_calloc(1, sizeof(*f));
    int radix[PASSES_MAX];
    bool ok;

    if (!f)
        return NULL;
    f->n = n;
    f->npass = factors(n, radix);
    ok = f->npass || n == 1 ? make_passes(f, radix) : make_chirp(f);
    if (!ok) {
        fft_free(f);
        return NULL;
    }
    return f;
}

void fft_free(struct fft *f)
{
    if (!f)
        return;
    fft_free(f->conv);
    mem_free(f->table);
    mem_free(f->chirp);
    mem_free(f->filter);
    mem_free(f);
}

int64_t fft_rows(const struct fft *f, int64_t rows)
{
    int64_t n = f->conv ? f->conv->n : f->n;

    return n * ROWS_MAX > POINTS_MAX ? 1 : MAX(MIN(rows, (int64_t)ROWS_MAX), (int64_t)1);
}

int64_t fft_room(const struct fft *f, int64_t rows)
{
    return f->conv ? 2 * f->n * rows + fft_room(f->conv, rows) : 4 * f->n * rows;
}

static double *mixed(const struct fft *f, const struct loops_isa *isa, double *room, int64_t rows,
                     bool inverse)
{
    int64_t points = f->n * rows, s = rows;
    double *from = room, *to = room + 2 * points;

    /* The inverse is the transform with real and imaginary parts exchanged before and after. */
    for (int i = 0; i < f->npass; i++) {
        const struct step *t = &f->pass[i];
        struct fft_pass p = { .radix = t->radix,
                              .m = t->m,
                              .s = s,
                              .xr = from + (inverse ? points : 0),
                              .xi = from + (inverse ? 0 : points),
                              .yr = to + (inverse ? points : 0),
                              .yi = to + (inverse ? 0 : points),
                              .w = t->w,
                              .root = t->root };
        double *other = from;

        isa->fft(&p);
        from = to;
        to = other;
        s *= t->radix;
    }
    return from;
}

/* X[k] = c[k] * sum of x[t] c[t] * conj(c[k - t]), as k t = (k^2 + t^2 - (k - t)^2) / 2. */
static double *chirped(const struct fft *f, const struct loops_isa *isa, double *room, int64_t rows,
                       bool inverse)
{
    int64_t n = f->n, m = f->conv->n, points = n * rows, wide = m * rows;
    double *re = room + (inverse ? points : 0), *im = room + (inverse ? 0 : points);
    double *work = room + 2 * points, *out;

    memset(work + points, 0, (size_t)(wide - points) * sizeof(double));
    memset(work + wide + points, 0, (size_t)(wide - points) * sizeof(double));
    for (int64_t k = 0; k < n; k++) {
        double c = f->chirp[k], s = f->chirp[n + k];

        for (int64_t i = k * rows; i < (k + 1) * rows; i++) {
            work[i] = re[i] * c - im[i] * s;
            work[wide + i] = re[i] * s + im[i] * c;
        }
    }
    out = fft_run(f->conv, isa, work, rows, false);
    for (int64_t k = 0; k < m; k++) {
        double c = f->filter[k], s = f->filter[m + k];

        for (int64_t i = k * rows; i < (k + 1) * rows; i++) {
            double x = out[i], y = out[wide + i];

            out[i] = x * c - y * s;
            out[wide + i] = x * s + y * c;
        }
    }
    if (out != work) /* fft_run() begins where its room does */
        memcpy(work, out, (size_t)wide * 2 * sizeof(double));
    out = fft_run(f->conv, isa, work, rows, true);
    for (int64_t k = 0; k < n; k++) {
        double c = f->chirp[k], s = f->chirp[n + k];

        for (int64_t i = k * rows; i < (k + 1) * rows; i++) {
            re[i] = out[i] * c - out[wide + i] * s;
            im[i] = out[i] * s + out[wide + i] * c;
        }
    }
    return room;
}

double *fft_run(const struct fft *f, const struct loops_isa *isa, double *room, int64_t rows,
                bool inverse)
{
    return f->conv ? chirped(f, isa, room, rows, inverse) : mixed(f, isa, room, rows, inverse);
}
