/* human.h -- sizes, times and counts for people. Each function returns room. */
#ifndef BASE_HUMAN_H
#define BASE_HUMAN_H

#include "base/common.h"

#define HUMAN_ROOM 32
const char *human_bytes(char room[HUMAN_ROOM], uint64_t bytes); /* 1.25 MB */
const char *human_ns(char room[HUMAN_ROOM], double ns);         /* 1.25 ms */
const char *human_count(char room[HUMAN_ROOM], int64_t n);      /* 1,250,000 */
/* The end of the word for n things: "s", and nothing for one. */
const char *human_s(int64_t n);

#endif
