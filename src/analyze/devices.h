/* devices.h -- which tracks belong to the same device. */
#ifndef ANALYZE_DEVICES_H
#define ANALYZE_DEVICES_H

#include "store/store.h"

/* Tracks are of one device if its name, host and rank are the same; of those without a device it is
 * the host and rank that count. */
bool track_same_device(const struct store *st, uint32_t a, uint32_t b);

#endif
