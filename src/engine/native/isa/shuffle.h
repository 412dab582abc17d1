/* shuffle.h -- __builtin_shufflevector() for gcc before version 12, which has it under another
 * name: for as many elements as it is given, their numbers as wide as they are. */
#ifndef NATIVE_ISA_SHUFFLE_H
#define NATIVE_ISA_SHUFFLE_H

#if !__has_builtin(__builtin_shufflevector)
#define SHUFFLE_INDEX(a) __typeof__(_Generic((a)[0], float : 0, double : 0LL, default : (a)[0]))
#define __builtin_shufflevector(a, b, ...) \
    __builtin_shuffle((a), (b),            \
                      (SHUFFLE_INDEX(a) __attribute__((vector_size(sizeof(a))))){ __VA_ARGS__ })
#endif

#endif
