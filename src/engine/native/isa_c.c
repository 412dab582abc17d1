/* isa_c.c -- the inner loops for any processor; see isa.h. */
#include "engine/native/isa.h"

#include <math.h>
#include <string.h>

#define VL 4
#define MR 4
#define NV 2
#define VFMA(a, b, c) ((a) * (b) + (c))
#define FMA1(a, b, c) ((a) * (b) + (c))
#define EVEN 0, 2, 4, 6
#define GEMM_ROWS(X) X(2) X(3) X(4)
#define ISA_NAME isa_c
#define ISA_TEXT "c"
#include "engine/native/isa_tmpl.h"
