/* q8_amx.c -- products of bytes by AMX: struct q8_block of q8_isa.h.
 *
 * A tile register has 16 rows of 64 bytes: of A 16 rows by 16 groups of four bytes, of B 16 groups
 * by 16 columns, of the sums 16 rows by 16 columns. Up to 16 rows of A are taken by four tiles of
 * B, more by two: four tiles of sums at a time, as each product waits for the one before. */
#include "engine/native/isa/q8_isa.h"
#include "engine/native/isa/target.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NR Q8_BLOCK_COLUMNS
#define T 16       /* rows of a tile, and 32-bit columns */
#define T_BYTES 64 /* of a row of a tile */

/* Of the system's interface, which older headers do not have. */
#define REQUEST_PERMISSION 0x1023
#define TILE_DATA 18

bool q8_amx_allowed(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & 1) || !(d >> 25 & 1))
        return false;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

struct config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
};

/* Written out, as compilers' own do not say all that they read. The compiler has no use for tiles:
 * they stay what they are from one to the next. */
#define CONFIGURE(c) __asm__ volatile("ldtilecfg %0" ::"m"(c))
#define RELEASE() __asm__ volatile("tilerelease")
#define CLEAR(t) __asm__ volatile("tilezero %%tmm" #t ::)
#define LOAD(t, p, step) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"((int64_t)(step)) : "memory")
#define STORE(p, step, t)                                                               \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"((int64_t)(step)) \
                     : "memor"                                                          \
                       "y")
#define PRODUCT(c, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)

/* Tiles: up to 16 rows: sums 0 to 3, A 4, B 5 to 7. More: sums 0 and 1, of the second 16 rows 2 and
 * 3, A 4 and 5, B 6 and 7. */
static void configure(int *state, int m, int groups)
{
    struct config c = { .palette = 1 };
    int second = m > T ? m - T : 0, want = m * 32 + groups;

    if (*state == want)
        return;
    *state = want;
    /* bounded: eight tiles of the sixteen that there is room for */
    for (int t = 0; t < 8; t++) {
        bool b = t > (second ? 5 : 4), a = !b && t > 3;

        c.bytes[t] = (uint16_t)(a ? groups * 4 : T_BYTES);
        c.rows[t] = (uint8_t)(b                                ? groups
                              : second && (a ? t == 5 : t > 1) ? second
                              : second                         ? T
                                                               : m);
    }
    CONFIGURE(c);
}

#define INLINE static inline __attribute__((always_inline))

INLINE void step_few(const int nt, const uint8_t *b, int64_t group, const uint8_t *a, int64_t rs)
{
    LOAD(4, a, rs);
    LOAD(5, b, group);
    PRODUCT(0, 4, 5);
    if (nt > 1) {
        LOAD(6, b + T_BYTES, group);
        PRODUCT(1, 4, 6);
    }
    if (nt > 2) {
        LOAD(7, b + 2 * T_BYTES, group);
        PRODUCT(2, 4, 7);
    }
    if (nt > 3) {
        LOAD(5, b + 3 * T_BYTES, group);
        PRODUCT(3, 4, 5);
    }
}

/* What is left of A beyond whole tiles, filled up with zeros, which make what B has there count
 * nothing. */
struct rest {
    uint8_t a[Q8_BLOCK_ROWS][T_BYTES];
};

INLINE void few(const int nt, int64_t steps, const uint8_t *b, int64_t group, const uint8_t *a,
                int64_t rs, const struct rest *rest, int32_t *c)
{
    CLEAR(0);
    CLEAR(1);
    CLEAR(2);
    CLEAR(3);
    for (int64_t k = 0; k < steps; k++, a += T_BYTES, b += T * group)
        step_few(nt, b, group, a, rs);
    if (rest)
        step_few(nt, b, group, rest->a[0], T_BYTES);
    STORE(c, NR * 4, 0);
    if (nt > 1)
        STORE(c + T, NR * 4, 1);
    if (nt > 2)
        STORE(c + 2 * T, NR * 4, 2);
    if (nt > 3)
        STORE(c + 3 * T, NR * 4, 3);
}

INLINE void step_many(const int nt, const uint8_t *b, int64_t group, const uint8_t *a, int64_t rs)
{
    LOAD(6, b, group);
    LOAD(4, a, rs);
    PRODUCT(0, 4, 6);
    LOAD(5, a + T * rs, rs);
    PRODUCT(2, 5, 6);
    if (nt > 1) {
        LOAD(7, b + T_BYTES, group);
        PRODUCT(1, 4, 7);
        PRODUCT(3, 5, 7);
    }
}

INLINE void many(const int nt, int64_t steps, const uint8_t *b, int64_t group, const uint8_t *a,
                 int64_t rs, const struct rest *rest, int32_t *c)
{
    CLEAR(0);
    CLEAR(1);
    CLEAR(2);
    CLEAR(3);
    for (int64_t k = 0; k < steps; k++, a += T_BYTES, b += T * group)
        step_many(nt, b, group, a, rs);
    if (rest)
        step_many(nt, b, group, rest->a[0], T_BYTES);
    STORE(c, NR * 4, 0);
    STORE(c + T * NR, NR * 4, 2);
    if (nt > 1) {
        STORE(c + T, NR * 4, 1);
        STORE(c + T * NR + T, NR * 4, 3);
    }
}

TARGET_PUSH(TARGET_AVX512)
static void copy_rest(struct rest *rest, int m, const uint8_t *a, int64_t rs, int64_t bytes)
{
    __mmask64 some = ((__mmask64)1 << bytes) - 1;

    for (int i = 0; i < m; i++)
        _mm512_storeu_si512(rest->a[i], _mm512_maskz_loadu_epi8(some, a + i * rs));
}
TARGET_POP

static void tile(int *state, int m, int n, int64_t k4, const uint8_t *panel, int64_t group,
                 const uint8_t *row, int64_t rs, int32_t *c)
{
    /* Few groups are tiles of as many, and leave no rest. */
    int64_t steps = k4 < T ? 1 : k4 / T, left = k4 < T ? 0 : k4 % T;
    int nt = (n + T - 1) / T;
    struct rest rest;
    const struct rest *more = left ? &rest : NULL;

    configure(state, m, (int)MIN(k4, (int64_t)T));
    if (left)
        copy_rest(&rest, m, row + steps * T_BYTES, rs, left * 4);
    if (m > T) {
        for (int t = 0; t < nt; t += 2)
            if (nt - t > 1)
                many(2, steps, panel + t * T_BYTES, group, row, rs, more, c + t * T);
            else
                many(1, steps, panel + t * T_BYTES, group, row, rs, more, c + t * T);
        return;
    }
    switch (nt) {
    case 1:
        few(1, steps, panel, group, row, rs, more, c);
        break;
    case 2:
        few(2, steps, panel, group, row, rs, more, c);
        break;
    case 3:
        few(3, steps, panel, group, row, rs, more, c);
        break;
    default:
        few(4, steps, panel, group, row, rs, more, c);
    }
}

static void end(int *state)
{
    if (*state)
        RELEASE();
    *state = 0;
}

const struct q8_block q8_block_amx = { Q8_BLOCK_ROWS, tile, end };
#endif
