/* ort.c -- profiles of ONNX Runtime. */
#include "import/events.h"

const struct dialect dialect_ort = { .name = "onnxruntime" };
