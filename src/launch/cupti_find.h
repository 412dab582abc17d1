/* cupti_find.h -- the CUPTI that a recorded program would be given, for people who ask. */
#ifndef LAUNCH_CUPTI_FIND_H
#define LAUNCH_CUPTI_FIND_H

#include <opmeter/opmeter_error.h>
#include <stddef.h>
#include <stdint.h>

/* 0, or negative and err says why there is none. Loads it, for good. */
int cupti_find(char *path, size_t size, uint32_t *version, opm_error *err);

#endif
