/* fp32_c.c -- the inner loops for any processor; see isa.h. */
#include "engine/native/isa/isa.h"
#include "engine/native/isa/target.h"

#include <math.h>
#include <string.h>

#define VL 4
#define MR 4
#define NV 2
#define VFMA(a, b, c) ((a) * (b) + (c))
#define FMA1(a, b, c) ((a) * (b) + (c))
#define EVEN 0, 2, 4, 6
#define GEMM_ROWS(X) X(2) X(3) X(4)
#define VDUP(p) ((vf){ *(p), *(p), *(p), *(p) })
#define VMAXN(a, b) vmax(b, a)
#define VMINN(a, b) vmin(b, a)
#define INTERLEAVE_LO 0, 4, 1, 5
#define INTERLEAVE_HI 2, 6, 3, 7
#define BLK_PX 6
#define BLK_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define ISA_NAME isa_c
#include "engine/native/isa/fp32_tmpl.h"
