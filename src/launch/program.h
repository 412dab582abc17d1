/* program.h -- what a program is, before it is started. */
#ifndef LAUNCH_PROGRAM_H
#define LAUNCH_PROGRAM_H

#include <stdbool.h>

/* Will it use llama.cpp or ggml, as far as can be told? It is linked with the shared library, or it
 * is Node.js, or a script for one of these. command as execvp() takes it. */
bool program_uses_llama(const char *command);

#endif
