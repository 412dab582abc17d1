/* megengine_int.h -- a MegEngine profile between its JSON and the store.
 *
 * megengine.c finds the parts of the file, whose members come in any order, and remembers where
 * they are; megengine_rows.c makes rows of them. Nothing is copied but names. */
#ifndef IMPORT_MEGENGINE_MEGENGINE_INT_H
#define IMPORT_MEGENGINE_MEGENGINE_INT_H

#include "base/buf.h"
#include "base/json_read.h"
#include "base/u64map.h"
#include "import/common/echo.h"
#include "import/import.h"

/* A JSON value in the file; len 0: there is none. */
struct mge_value {
    const char *p;
    size_t len;
};

struct mge_opr {
    str_id id;
    str_id name;
    str_id type;
    struct mge_value input, output;         /* arrays of var ids */
    struct mge_value in_shapes, out_shapes; /* of the footprint */
    struct mge_value param, internal;
    int64_t computation, memory; /* or OPM_NULL_I64 */
    struct buf rest;             /* members that nothing else holds, "key":value,... */
    uint32_t op;                 /* row */
    bool ordered;                /* has its place in the order of execution */
};

struct mge_var {
    str_id id;
    str_id name;
    str_id dtype;
    str_id shape;
    str_id chunk;
    int64_t bytes;
    uint32_t owner; /* opr that makes it, or OPM_NULL_ID */
    bool persistent;
    struct mge_value whole;
};

struct mge_time {
    uint32_t opr;
    str_id where; /* comp node or thread */
    bool host;
    bool longest; /* of those of its operator in its section */
    int64_t start_ns, end_ns;
    int64_t wait_ns; /* or OPM_NULL_I64 */
};

struct mge {
    struct store *st;
    const struct import_source *src;
    struct echo echo; /* of vars in args */
    /* parts of the file */
    struct mge_value comp_seq, operators, vars, chunks;
    struct mge_value device, host, footprint, internal;
    struct buf rest;  /* unknown members of the two top levels */
    double time_unit; /* ns */
    bool malformed;   /* said once */
    struct buf text;  /* scratch */
    struct mge_opr *opr;
    size_t nopr, opr_cap;
    struct u64map opr_by_id; /* str_id -> opr */
    struct mge_var *var;
    size_t nvar, var_cap;
    struct u64map var_by_id;
    uint32_t *order; /* oprs as they are executed */
    size_t norder;
    struct mge_time *time;
    size_t ntime, time_cap;
    bool device_timed;   /* operators were measured on the device, too */
    uint32_t step_track; /* first track of the device, or of the host if it has none */
};

/* Iterate over an object: after true, *value is what r's key stands for. False at its end; a
 * malformed rest is counted. r must be json_read_of() the object. */
bool mge_member(struct mge *m, struct json_reader *r, struct mge_value *value);
/* Iterate over an array in the same way. */
bool mge_element(struct mge *m, struct json_reader *r, struct mge_value *value);
struct json_reader mge_reader(struct mge_value v);
/* The value as a string, 0 if it is none. 0 or OPM_ENOMEM. */
int mge_text(struct mge *m, struct mge_value v, str_id *out);
/* [1,3,224] as "1x3x224"; 0 if it is no array. */
int mge_shape(struct mge *m, struct mge_value v, str_id *out, int64_t *out_elements);
/* The opr of that id; made if there is none. 0 or OPM_ENOMEM. */
int mge_opr_at(struct mge *m, str_id id, uint32_t *out);
uint32_t mge_find(const struct u64map *map, str_id id); /* OPM_NULL_ID if there is none */

/* All rows. 0 or OPM_ENOMEM. */
int mge_rows(struct mge *m);

#endif
