/* window.h -- what was recorded: of every step, at every place, from when to when.
 *
 * A place is a device of a rank, or the host of a rank without devices. A device has windows of its
 * own: what a step launched belongs to it even if it runs later, so that the window of a step goes
 * on until the last of it is done, and the next one begins there at the earliest; the first one
 * begins with the first work of the device. Steps that the device itself marks are windows as they
 * are. What a place did in a step was recorded if the log of
 * the step's own source that has most of its computations has the step (coverage.h); else it is not
 * known, and the place was not idle. So it is with a device of which only one of several logs
 * tells, and that one of exchanges alone.
 *
 * Windows of one place may overlap: steps that nest, or that several threads have at once. What a
 * device did then is in all of them, but it did it once; once_ns is where the part begins that no
 * window before it has. Threads of a host do not share their time, and count apart. */
#ifndef ANALYZE_WINDOW_H
#define ANALYZE_WINDOW_H

#include "analyze/step_list.h"

struct place {
    uint32_t track; /* one of its tracks: device, host and rank are those of this one */
    int64_t rank;   /* OPM_NULL_I64: none */
    bool device;
    bool whole; /* a device: all that it did would be in a log of it, its computations too */
    int64_t first_ns, last_ns; /* of what was recorded there, if it is a device's */
};

struct window {
    uint32_t place;
    uint32_t row; /* of the list of steps; OPM_NULL_ID: the whole trace, which marks no steps */
    int64_t from_ns, to_ns;
    int64_t once_ns; /* from_ns to to_ns */
    bool recorded;
};

struct windows {
    struct place *place;
    uint32_t *place_of; /* per track; OPM_NULL_ID: of no place */
    size_t nplace, ntrack;
    struct window *at; /* ascending by place, then by start of the step */
    size_t n;
};

/* steps: marked ones; those found by repetition are not used. Release in any case. 0 or
 * OPM_ENOMEM. */
int windows_get(struct windows *w, const struct store *st, const struct step_list *steps);
void windows_release(struct windows *w);

#endif
