/* info_gguf.h -- what `opmeter info` says of a model of llama.cpp. */
#ifndef CLI_INFO_GGUF_H
#define CLI_INFO_GGUF_H

#include "cli/cli.h"

bool info_is_gguf(const char *path);
int info_gguf(struct cli *cli, const char *path); /* the exit code */

#endif
