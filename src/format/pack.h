/* pack.h -- the constants that packing and unpacking share. */
#ifndef FORMAT_PACK_H
#define FORMAT_PACK_H

#include <stdint.h>

#define PACK_GROUP 128u     /* values packed with one width */
#define PACK_CONTEXTS 1024u /* entries of the table that predicts the next id */

static inline uint32_t pack_context(uint32_t id)
{
    return id & (PACK_CONTEXTS - 1);
}

#endif
