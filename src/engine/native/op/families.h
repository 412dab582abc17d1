/* families.h -- which member of a family of operators a kernel is: the kernel's arg. */
#ifndef NATIVE_FAMILIES_H
#define NATIVE_FAMILIES_H

/* binary.c; MAX to MEAN take any number of operands. */
enum bin {
    BIN_ADD,
    BIN_SUB,
    BIN_MUL,
    BIN_DIV,
    BIN_MOD,
    BIN_AND,
    BIN_OR,
    BIN_XOR,
    BIN_BITAND,
    BIN_BITOR,
    BIN_BITXOR,
    BIN_SHIFT,
    BIN_PRELU,
    BIN_EQUAL,
    BIN_LESS,
    BIN_GREATER,
    BIN_LESSEQ,
    BIN_GREATEREQ,
    BIN_MAX,
    BIN_MIN,
    BIN_SUM,
    BIN_MEAN,
};

/* reduce.c */
enum red {
    RED_SUM,
    RED_MEAN,
    RED_MAX,
    RED_MIN,
    RED_PROD,
    RED_L1,
    RED_L2,
    RED_LOGSUM,
    RED_LOGSUMEXP,
    RED_SUMSQUARE,
};

/* qmatmul.c: which inputs there are */
enum qmm_kind {
    QMM_INTEGER,  /* MatMulInteger */
    QMM_LINEAR,   /* QLinearMatMul */
    QMM_GEMM,     /* QGemm */
    QMM_TO_FLOAT, /* MatMulIntegerToFloat */
    QMM_DYNAMIC,  /* DynamicQuantizeMatMul */
    QMM_SCALED,   /* MatMulInteger, then as float times input 4 */
};

/* qconv.c */
enum qconv_kind {
    QCONV_INTEGER, /* ConvInteger */
    QCONV_LINEAR,  /* QLinearConv */
    QCONV_SCALED,  /* ConvInteger, then as float times input 4 */
};

/* qelem.c */
enum qelem_kind { QELEM_ADD, QELEM_MUL, QELEM_SIGMOID, QELEM_LEAKY, QELEM_POSTS };

/* qpooling.c */
enum qpool_kind { QPOOL_AVERAGE, QPOOL_GLOBAL, QPOOL_MAX };

/* contrib.c */
enum norm_kind { NORM_SKIP, NORM_SKIP_RMS, NORM_RMS };
enum act_kind { ACT_GELU, ACT_FAST_GELU, ACT_QUICK_GELU };

/* scatter.c */
enum scatter_reduction { SCATTER_SET, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN };

#endif
