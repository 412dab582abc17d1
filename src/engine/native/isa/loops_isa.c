/* loops_isa.c -- see loops_isa.h. */
#include "engine/native/isa/loops_isa.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define N(name) name##_c
#define VL 4
#define DFMA(a, b, c) ((a) * (b) + (c))
#define ROWS 4
#define TILE_ROWS(X, name) X(name, 1) X(name, 2) X(name, 3) X(name, 4)
#include "engine/native/isa/loops_tmpl.h"

#ifdef __x86_64__

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define N(name) name##_avx2
#define VL 8
#define DFMA(a, b, c) ((vd_avx2)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define ROWS 4
#define TILE_ROWS(X, name) X(name, 1) X(name, 2) X(name, 3) X(name, 4)
#include "engine/native/isa/loops_tmpl.h"
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")
#endif
#define N(name) name##_avx512
#define VL 16
#define DFMA(a, b, c) ((vd_avx512)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#define ROWS 8
#define TILE_ROWS(X, name) \
    X(name, 1) X(name, 2) X(name, 3) X(name, 4) X(name, 5) X(name, 6) X(name, 7) X(name, 8)
#include "engine/native/isa/loops_tmpl.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
