/* tensor.h -- element types and constant tensors.
 *
 * A tensor's bytes are little-endian, row-major, and usually lie where the model file has them in
 * memory, so they may be UNALIGNED: read them with memcpy or the getters below. */
#ifndef GRAPH_TENSOR_H
#define GRAPH_TENSOR_H

#include "base/common.h"

/* Numbers are those of ONNX's TensorProto.DataType. X(NAME, number, text, bits per element);
 * bits 0: elements have no fixed size. Complex elements are (real, imaginary). Elements below 8
 * bits are packed, first element in the low bits. */
#define TENSOR_TYPES(X)                    \
    X(NONE, 0, "undefined", 0)             \
    X(F32, 1, "float32", 32)               \
    X(U8, 2, "uint8", 8)                   \
    X(I8, 3, "int8", 8)                    \
    X(U16, 4, "uint16", 16)                \
    X(I16, 5, "int16", 16)                 \
    X(I32, 6, "int32", 32)                 \
    X(I64, 7, "int64", 64)                 \
    X(STRING, 8, "string", 0)              \
    X(BOOL, 9, "bool", 8)                  \
    X(F16, 10, "float16", 16)              \
    X(F64, 11, "float64", 64)              \
    X(U32, 12, "uint32", 32)               \
    X(U64, 13, "uint64", 64)               \
    X(C64, 14, "complex64", 64)            \
    X(C128, 15, "complex128", 128)         \
    X(BF16, 16, "bfloat16", 16)            \
    X(F8E4M3FN, 17, "float8e4m3fn", 8)     \
    X(F8E4M3FNUZ, 18, "float8e4m3fnuz", 8) \
    X(F8E5M2, 19, "float8e5m2", 8)         \
    X(F8E5M2FNUZ, 20, "float8e5m2fnuz", 8) \
    X(U4, 21, "uint4", 4)                  \
    X(I4, 22, "int4", 4)                   \
    X(F4E2M1, 23, "float4e2m1", 4)         \
    X(F8E8M0, 24, "float8e8m0", 8)         \
    X(U2, 25, "uint2", 2)                  \
    X(I2, 26, "int2", 2)

enum tensor_type {
#define X(name, number, text, bits) TENSOR_##name = number,
    TENSOR_TYPES(X)
#undef X
        TENSOR_NTYPES
};

const char *tensor_type_name(enum tensor_type t);    /* "float32"; "?" if there is no such type */
enum tensor_type tensor_type_find(const char *name); /* TENSOR_NONE if there is none */
int tensor_type_bits(enum tensor_type t);            /* 0: strings, or no such type */
bool tensor_type_float(enum tensor_type t);          /* floating point of any width */
bool tensor_type_int(enum tensor_type t);            /* integers of any width; not bool */
bool tensor_type_signed(enum tensor_type t);

/* Nothing in practice has more dimensions; a file that does is refused. */
#define SHAPE_RANK_MAX 16
#define DIM_OPEN (-1) /* a dimension of any size; model_dim_name() has the names of others */

struct shape {
    int32_t rank;                /* 0: scalar; -1: unknown, dim[] then means nothing */
    int64_t dim[SHAPE_RANK_MAX]; /* < 0 (any negative number): open; see model_dim_name() */
};

bool shape_concrete(const struct shape *s); /* rank known and no dimension open */
bool shape_equal(const struct shape *a, const struct shape *b);
/* Number of elements; -1 if s is not concrete or the number does not fit. */
int64_t shape_count(const struct shape *s);
/* Bytes of such a tensor; -1 if unknown, not of a fixed size, or too many. */
int64_t shape_bytes(const struct shape *s, enum tensor_type t);
/* "1x3x224x224", "scalar", "?" ; open dimensions are "?". Cut to size, always terminated. */
void shape_text(const struct shape *s, char *out, size_t size);

struct tensor_string {
    const char *s; /* NUL-terminated too, but may hold NULs */
    size_t len;
};

struct tensor {
    const char *name; /* "" if it has none */
    enum tensor_type type;
    struct shape shape; /* concrete */
    int64_t count;      /* elements */
    const void *data;   /* UNALIGNED; TENSOR_STRING: (aligned) array of struct tensor_string */
    size_t bytes;       /* of data; 0 for strings */
    bool external;      /* data lies in an external data file */
};

/* One element as a number, converted from any numeric type or bool; i < count. A complex element
 * gives its real part. tensor_int() of a float truncates, saturating; NaN gives 0. */
double tensor_float(const struct tensor *t, int64_t i);
int64_t tensor_int(const struct tensor *t, int64_t i);
/* Elements [first, first + n) as float32; n may be 0. Not for strings. */
void tensor_read_f32(const struct tensor *t, int64_t first, int64_t n, float *out);

/* Element i of packed or whole elements of at most 8 bits becomes `code`, its bits. */
void tensor_put_code(void *data, enum tensor_type t, int64_t i, uint32_t code);
/* Of f in a type of at most 8 bits: floats to nearest, ties to even, beyond the largest that or
 * (saturate false) infinity or NaN; integers to nearest, ties to even, within their range. NaN is 0
 * where there is none. */
uint32_t f32_to_code(float f, enum tensor_type t, bool saturate);

float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f); /* to nearest, ties to even */
uint16_t f32_to_bf16(float f);

#endif
