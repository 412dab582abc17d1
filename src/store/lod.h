/* lod.h -- spans at a level of detail: what a timeline of so many pixels can show.
 *
 * Spans that are narrower than a pixel and stand side by side at one depth of one track come as one
 * bar. Built once for a frozen store, which must outlive it; a query then costs what it gives,
 * however many spans there are. Any number of threads may ask. */
#ifndef STORE_LOD_H
#define STORE_LOD_H

#include "store/store.h"

struct lod;

/* One bar. */
struct lod_bar {
    int64_t ts_ns;
    int64_t dur_ns;  /* up to the end of the last one; -1: never ended */
    int64_t busy_ns; /* of that, with a span */
    uint32_t depth;
    uint32_t span;  /* the longest one of them (span.id) */
    uint32_t count; /* 1: just this span */
    /* A name that has at least half of busy_ns, and surely if one has three quarters. */
    bool named;
    str_id name;
};

/* keep: per site, whether its spans are shown; the lines are as if all were. NULL: all. Not needed
 * afterwards. 0 or OPM_ENOMEM. */
int lod_new(const struct store *st, const bool *keep, struct lod **out);
void lod_free(struct lod *l); /* NULL is fine */

/* All bars of a track that touch [from, to), by depth, then time; bars of several spans are made of
 * spans and gaps narrower than pixel_ns. *out belongs to the caller (mem_free). OPM_ELIMIT if there
 * are more than max. */
int lod_query(const struct lod *l, uint32_t track, int64_t from_ns, int64_t to_ns, int64_t pixel_ns,
              size_t max, struct lod_bar **out, size_t *n);

#endif
