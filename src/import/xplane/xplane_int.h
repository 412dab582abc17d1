/* xplane_int.h -- the parts of the XPlane reader: xplane.c goes through planes, lines and events,
 * xplane_stat.c resolves names and statistics, xplane_args.c makes args of those that no column
 * holds, xplane_op.c operators of HLO instructions. */
#ifndef IMPORT_XPLANE_XPLANE_INT_H
#define IMPORT_XPLANE_XPLANE_INT_H

#include "base/arena.h"
#include "base/json_write.h"
#include "base/pb.h"
#include "base/u64map.h"
#include "import/common/build.h"

/* Statistics with a meaning of their own; all others become args. */
enum xstat {
    XSTAT_OTHER,
    XSTAT_INTERNAL, /* of use to the profiler alone */
    XSTAT_CORRELATION,
    XSTAT_HLO_OP,
    XSTAT_HLO_MODULE,
    XSTAT_PROGRAM,
    XSTAT_HLO_CATEGORY,
    XSTAT_FLOPS,
    XSTAT_BYTES,
    XSTAT_TF_OP,
    XSTAT_NAME,
    XSTAT_STEP_NUM,
    XSTAT_PRODUCER,
    XSTAT_PRODUCER_TYPE,
    XSTAT_CONSUMER,
    XSTAT_CONSUMER_TYPE,
    XSTAT_BYTES_ALLOCATED,
    XSTAT_ALLOCATOR,
};

/* A value: number, real or text; which one is told by kind. */
struct xvalue {
    enum { XVALUE_NONE, XVALUE_INT, XVALUE_UINT, XVALUE_REAL, XVALUE_TEXT, XVALUE_BYTES } kind;
    int64_t i;
    double f;
    const char *text;
    size_t len;
    str_id ref; /* of a text that many may refer to; else 0 */
};

/* A statistic that no column holds. */
struct xarg {
    uint64_t stat; /* number of its name */
    struct xvalue v;
};

/* What a plane says of all its events: by number. */
struct xplane {
    str_id name;
    int64_t id;
    bool device;
    str_id device_name;
    struct u64map stat_name; /* number -> str_id */
    struct u64map event;     /* number -> pointer to its XEventMetadata */
};

/* The known statistics of an event and its metadata. */
struct xfacts {
    int64_t correlation, flops, bytes, step_num, allocated, program;
    uint64_t producer, producer_type, consumer, consumer_type;
    bool produces, consumes;
    str_id hlo_op, hlo_module, hlo_category, tf_op, op_name, allocator;
};

struct xevent_metadata {
    str_id name, display;
    struct pb_field body;
    /* Once an event refers to it: */
    struct xfacts *facts;
    const char *members; /* its statistics as members of a JSON object */
    size_t members_len;
    str_id args; /* of events that say nothing themselves */
    bool args_made;
};

struct xflow {
    uint64_t type, id;
    uint32_t span;
    bool consumer;
};

struct xp {
    struct build b;
    struct arena arena;
    int64_t base_ns;
    bool has_base;
    int64_t start_realtime_ns; /* of the profile; 0: not known */
    struct xplane plane;
    struct u64map op;        /* key of an operator -> row */
    struct u64map allocator; /* name -> counter track */
    struct xflow *flow;
    size_t nflow, flow_cap;
    struct buf args, scratch;
    struct xarg *arg; /* of the event that is being read */
    size_t narg, arg_cap;
    struct buf key; /* xplane_args.c: what its form is found by, and its numbers */
    int64_t *value;
    size_t nvalue, value_cap;
    struct strpool keys;
    uint32_t *form; /* by number of the key */
    size_t form_cap;
    uint64_t hits; /* forms that were found again */
};

/* xplane_stat.c */
void xplane_names(struct xp *x, const struct pb_field *f); /* of a plane: fills x->plane */
void xplane_release(struct xp *x);
struct xevent_metadata *xevent_metadata(struct xp *x, uint64_t id); /* NULL: not there */
struct xvalue xstat_read(struct xp *x, const struct pb_field *f, uint64_t *out_id);
enum xstat xstat_meaning(const char *name);
#define XSTAT_NAME_ROOM 32
const char *xstat_name(struct xp *x, uint64_t id, char room[XSTAT_NAME_ROOM]);
/* Read one XStat into facts, or add it to the args. */
void xstat_take(struct xp *x, const struct pb_field *f, struct xfacts *facts);
/* Facts about the machine and the program, from the statistics of a plane. */
void xplane_facts(struct xp *x, const struct pb_field *f);

/* xplane_args.c */
#define XARGS_NO_FORM UINT32_MAX
void xargs_add(struct xp *x, uint64_t stat, const struct xvalue *v);
void xargs_of_metadata(struct xp *x, struct xevent_metadata *m); /* x->arg are its statistics */
/* Args of the event whose own statistics are x->arg; m may be NULL. They are the text that is
 * returned, or a form: then xargs_values() once the span is there. */
str_id xargs_text(struct xp *x, struct xevent_metadata *m, uint32_t *out_form);
void xargs_values(struct xp *x, uint32_t span, uint32_t form);
void xargs_release(struct xp *x); /* what belongs to the plane */

/* xplane_op.c: the operator that an event executes; OPM_NULL_ID: none */
uint32_t xplane_op(struct xp *x, struct xevent_metadata *m, const struct xfacts *facts,
                   bool is_op_line);

#endif
