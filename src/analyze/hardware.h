/* hardware.h -- which spans on hardware compute, which move data, and which only hold others. */
#ifndef ANALYZE_HARDWARE_H
#define ANALYZE_HARDWARE_H

#include "store/store.h"

enum hardware_role {
    HARDWARE_NOT,      /* not on hardware */
    HARDWARE_COMPUTES, /* kernels, instructions */
    HARDWARE_MOVES,    /* loads, stores, copies, fills */
    HARDWARE_HOLDS,    /* encloses others on hardware: a run, a task, a graph */
};

struct hardware {
    uint8_t *role;          /* per site: enum hardware_role */
    const uint32_t *parent; /* per span; NULL: none is on hardware */
    bool any;               /* is anything on hardware at all? */
};

/* Spans that are runs of a device (Furiosa's executions and tasks) and have others on hardware
 * inside: what was done says these, and the time between them is no work. A flag per span; *out
 * stays NULL if there are none. Free with mem_free(). 0 or OPM_ENOMEM. */
int hardware_opened_runs(const struct store *st, bool **out);

int hardware_find(struct hardware *h, const struct store *st); /* 0 or OPM_ENOMEM; release */
void hardware_release(struct hardware *h);

#endif
