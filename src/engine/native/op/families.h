/* families.h -- which member of a family of operators a kernel is: the kernel's arg. */
#ifndef NATIVE_FAMILIES_H
#define NATIVE_FAMILIES_H

/* binary.c: as enum rows_pair; then what is one of those in the end. */
enum bin {
#define PAIR(name, ints, out, real, whole) BIN_##name,
#define INTS(name, ints, out, whole) BIN_##name,
#include "engine/native/isa/rows.def"
    BIN_SHIFT, /* SHL or SHR */
    BIN_GREATER,
    BIN_GREATEREQ,
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

/* nbits.c */
enum nbits_kind {
    NBITS_NODE,   /* MatMulNBits */
    NBITS_LINEAR, /* MatMul or Gemm, by operands of DequantizeLinear */
};

enum moe_arg { MOE_PLAIN, MOE_QUANTISED };

/* qconv.c */
enum qconv_kind {
    QCONV_INTEGER, /* ConvInteger */
    QCONV_LINEAR,  /* QLinearConv */
    QCONV_SCALED,  /* ConvInteger, then as float times input 4 */
};

/* qelem.c */
enum qelem_kind { QELEM_ADD, QELEM_MUL, QELEM_SIGMOID, QELEM_LEAKY, QELEM_POSTS };

/* qpick.c: a part of Split, or all channels in another order */
enum qpick_kind { QPICK_SPLIT, QPICK_SHUFFLE };

/* qpooling.c */
enum qpool_kind { QPOOL_AVERAGE, QPOOL_GLOBAL, QPOOL_MEAN, QPOOL_MAX };

/* pooling.c: POOL_GLOBAL comes on top */
enum pool_kind { POOL_MAX, POOL_AVERAGE, POOL_LP, POOL_WHAT = 3, POOL_GLOBAL = 4 };

/* rnn.c: how many gates there are; RNN_QUANTIZED comes on top */
enum rnn_kind { RNN_PLAIN = 1, RNN_GRU = 3, RNN_LSTM = 4, RNN_GATES = 15, RNN_QUANTIZED = 16 };

/* softmax.c */
enum soft_kind { SOFT_MAX, SOFT_LOG, SOFT_HARD };

/* topk.c: whole slices, sorted or not, or a list's values in the order in which they come */
enum unique_kind { UNIQUE_SLICES, UNIQUE_VALUES };

/* elementwise.c */
enum not_kind { NOT_LOGICAL, NOT_BITS };
enum test_kind { TEST_NAN, TEST_INF };

/* move.c */
enum depthspace_kind { DEPTH_TO_SPACE, SPACE_TO_DEPTH };

/* cast.c */
enum cast_kind { CAST_TO, CAST_LIKE };

/* reduce.c: ArgMax and CumSum */
enum arg_kind { ARG_MAX, ARG_MIN };
enum cum_kind { CUM_SUM, CUM_PRODUCT };

/* signal.c */
enum window_kind { WINDOW_HANN, WINDOW_HAMMING, WINDOW_BLACKMAN };

/* embed.c, attention_contrib.c */
enum weights_kind { WEIGHTS_FLOAT, WEIGHTS_QUANTIZED };

/* rotary.c */
enum rotary_kind { ROTARY_STANDARD, ROTARY_CONTRIB };

/* Of kernels between plain tensors and those in a form of our own: what they make. */
enum reorder_kind { TO_OWN_FORM, TO_PLAIN };

/* nhwc_conv.c: a convolution and no addition, or which operand of it the convolution is */
enum nconv_kind { NCONV_ALONE, NCONV_FIRST, NCONV_SECOND };

/* contrib.c */
enum norm_kind { NORM_SKIP, NORM_SKIP_RMS, NORM_RMS };
enum act_kind { ACT_GELU, ACT_FAST_GELU, ACT_QUICK_GELU };

/* contrib_groupnorm.c */
enum group_kind { GROUP_PLAIN, GROUP_SKIP };

/* gather.c: ScatterElements, ScatterND */
enum scatter_reduction { SCATTER_SET, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN };

/* random.c */
enum random_kind { RANDOM_UNIFORM, RANDOM_NORMAL };

/* optimizer.c */
enum train_kind { TRAIN_ADAGRAD, TRAIN_ADAM, TRAIN_MOMENTUM };

/* ml_tree.c, ml_linear.c, ml_feature.c */
enum tree_kind { TREE_ENSEMBLE, TREE_REGRESSOR, TREE_CLASSIFIER };
enum linear_kind { LINEAR_REGRESSOR, LINEAR_CLASSIFIER };
enum label_kind { LABEL_ENCODER, LABEL_CATEGORY };
enum svm_kind { SVM_REGRESSOR, SVM_CLASSIFIER };

#endif
