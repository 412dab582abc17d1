/* pbtext.h -- protobuf in its text form, into the wire form, by a table of the fields that matter.
 *
 *     dev_stats { device: "cpu" node_stats { node_name: 'a' all_start_micros: 12 } }
 *
 * Tolerant: unknown fields are skipped and counted; a text that ends early, or has a mistake, gives
 * what came before it. Nesting is limited to PBTEXT_DEPTH_MAX. */
#ifndef BASE_PBTEXT_H
#define BASE_PBTEXT_H

#include "base/buf.h"

#define PBTEXT_DEPTH_MAX 32

enum pbtext_kind { PBTEXT_INT, PBTEXT_DOUBLE, PBTEXT_STRING, PBTEXT_ENUM, PBTEXT_MESSAGE };

/* A message is an array of these; it ends with a NULL name. */
struct pbtext_field {
    const char *name;
    uint32_t number;
    enum pbtext_kind kind;
    const struct pbtext_field *message; /* PBTEXT_MESSAGE */
    const char *const *names;           /* PBTEXT_ENUM: by number; NULL entries and at the end */
    size_t nname;
};

struct pbtext_result {
    uint64_t unknown; /* fields that the table does not have */
    bool bad;         /* stopped at a mistake, or the text ends inside a message */
    uint64_t line;    /* where, from 1 */
};

/* Append the wire form of text. 0 or OPM_ENOMEM. */
int pbtext_to_wire(const char *text, size_t len, const struct pbtext_field *message,
                   struct buf *out, struct pbtext_result *result);

#endif
