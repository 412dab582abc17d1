/* program.h -- what a program is, before it is started. */
#ifndef LAUNCH_PROGRAM_H
#define LAUNCH_PROGRAM_H

#include <stdbool.h>

/* Will it use llama.cpp or ggml, as far as can be told? It is linked with the shared library, or it
 * is Node.js, or a script for one of these. command as execvp() takes it. */
bool program_uses_llama(const char *command);

/* Why it cannot be started: ENOENT, or EACCES if there is a file, but no program; 0: it is there.
 */
int program_missing(const char *command);

/* The same of one that was started all the same and ended with this status of waitpid(). An
 * emulator may make a fork of what posix_spawn() begins with: only that hears of it, and ends with
 * 127. */
int program_not_started(int missing, int status);

#endif
