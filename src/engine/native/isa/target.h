/* target.h -- what compilers are told about the functions of an instruction set: between
 * TARGET_PUSH(TARGET_x) and TARGET_POP they may use it, whatever the rest of the program does. */
#ifndef NATIVE_ISA_TARGET_H
#define NATIVE_ISA_TARGET_H

/* Every processor with AVX2 converts float16. */
#define TARGET_AVX2 "avx2,fma,f16c"
#define TARGET_AVX512 "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c"
#define TARGET_VNNI "avx512f,avx512dq,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c"
#define TARGET_VBMI "avx512f,avx512dq,avx512bw,avx512vl,avx512vnni,avx512vbmi,avx2,fma,f16c"

#define TARGET_PRAGMA(x) _Pragma(#x)
/* Sums stay in registers only if loops over them are unrolled at every level of optimization. */
#ifdef __clang__
#define TARGET_PUSH(set) \
    TARGET_PRAGMA(clang attribute push(__attribute__((target(set))), apply_to = function))
#define TARGET_POP _Pragma("clang attribute pop")
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define TARGET_PUSH(set) _Pragma("GCC push_options") TARGET_PRAGMA(GCC target(set))
#define TARGET_POP _Pragma("GCC pop_options")
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
