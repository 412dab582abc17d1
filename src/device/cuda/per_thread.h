/* per_thread.h -- variables of each thread that cost a load, not a call.
 *
 * Callbacks stand in the way of every launch and operator, and a thread's variables in a library
 * that is loaded late are found by a function. Those at an offset that is known when the library is
 * loaded are not; glibc has room for a few pointers of that kind, musl for none. */
#ifndef DEVICE_CUDA_PER_THREAD_H
#define DEVICE_CUDA_PER_THREAD_H

#include <stdint.h> /* says which C library it is */

#ifdef __GLIBC__
#define PER_THREAD __thread __attribute__((tls_model("initial-exec")))
#else
#define PER_THREAD __thread
#endif

#endif
