/* gguf_write.h -- decoders as GGUF files with seeded random weights, for llama.cpp to run.
 *
 * Names are those of the zoo: "llama-tiny", "llama-1b?quant=q4_0&seed=2". Options:
 *   quant=TYPE     of the matrices: f32, f16, q8_0 or q4_0 (f16)
 *   seed=N         of the weights (1)
 * The same name gives the same bytes on every machine. The vocabulary has a token for every byte,
 * so any text can be tokenized. */
#ifndef GRAPH_GGUF_WRITE_H
#define GRAPH_GGUF_WRITE_H

#include <opmeter/opmeter_error.h>

/* "-" is standard output. Takes no memory for the weights. */
int gguf_zoo_write(const char *name, const char *path, opm_error *err);

#endif
