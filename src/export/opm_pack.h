/* opm_pack.h -- rows of tables as the payload of a chunk; docs/format.md "Files of tables".
 *
 * A packer belongs to one thread. Several may work on one store, which must be frozen; what they
 * make depends on the rows alone. */
#ifndef EXPORT_OPM_PACK_H
#define EXPORT_OPM_PACK_H

#include "base/buf.h"
#include "store/store.h"

struct opm_packer {
    const struct store *st;
    const uint32_t *number; /* string -> its number in the file; the caller's */
    struct buf payload;
    uint64_t *value, *scratch;
    uint8_t *packed;
    /* Args made of a form and numbers, of the rows in hand. */
    struct form_use *use;  /* one per row that has such args */
    int64_t *form_value;   /* their numbers, one after the other */
    size_t form_value_cap; /* room there */
    uint32_t *form_rows;   /* by number of a string: rows of that form, then where the next goes */
    uint32_t *form;        /* the forms of the rows in hand */
    uint32_t *order;       /* rows, form by form */
};

struct table_column {
    const char *name;
    enum col_type type;
    const void *data;
};

/* Columns of span; track, correlation and wait may be NULL. */
struct span_columns {
    const void *ts, *dur, *track, *correlation, *wait;
    const uint32_t *site;
};

/* nstring: the highest number of a string. 0 or OPM_ENOMEM; release in any case. */
int opm_packer_init(struct opm_packer *p, const struct store *st, const uint32_t *number,
                    size_t nstring);
void opm_packer_release(struct opm_packer *p);

void opm_put_varint(struct buf *b, uint64_t v);
void opm_put_str(struct buf *b, const char *s);

/* The payload becomes n <= COLPACK_ROWS rows from `from` on. 0 or OPM_ENOMEM. */
int opm_pack_rows(struct opm_packer *p, const char *table, const struct table_column *col,
                  size_t ncol, size_t from, size_t n);
int opm_pack_spans(struct opm_packer *p, const struct span_columns *c, size_t from, size_t n);

/* opm.c: chunks of spans for every thread that packs them. Not constant because tests lower it. */
extern size_t opm_chunks_per_thread;

#endif
