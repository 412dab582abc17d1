/* kineto.c -- traces of PyTorch's profiler. */
#include "import/events.h"

const struct dialect dialect_kineto = { .name = "kineto", .args_correlation = true };
