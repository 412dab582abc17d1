/* object.h -- the insides of opm_op, opm_queue and opm_track, for define.c. */
#ifndef REC_OBJECT_H
#define REC_OBJECT_H

#include "format/varint.h"
#include "rec/rec.h"

struct opm_op {
    opm_site site[2]; /* by phase; role says which */
    char *name;
    uint8_t *description; /* what follows in its ITEM_SITE */
    size_t description_len;
    bool bare;         /* nothing but its name and kind was known when it was described */
    uint64_t replaces; /* cache of the forward site that had the bare description */
};

struct opm_queue {
    opm_site site;
    char *name;
    int64_t capacity;
    uint8_t *description; /* what follows in its ITEM_SITE */
    size_t description_len;
};

struct opm_gauge {
    opm_site site; /* its role has ROLE_DESCRIBED */
    char *name;
    uint8_t *description; /* what follows in its ITEM_SITE */
    size_t description_len;
};
/* A bit of opm_site.role in memory: the site is that of a gauge. */
#define ROLE_DESCRIBED 0x100u

struct opm_track {
    uint64_t cache; /* generation << 32 | id */
    uint8_t *description;
    size_t description_len;
};

static inline opm_op *site_op(opm_site *site)
{
    return (opm_op *)(void *)(site - (site->role >> 8));
}
static inline const opm_gauge *site_gauge(const opm_site *site)
{
    return (const opm_gauge *)(const void *)site;
}
static inline const opm_queue *site_queue(const opm_site *site)
{
    return (const opm_queue *)(const void *)site;
}

#endif
