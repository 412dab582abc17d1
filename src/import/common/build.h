/* build.h -- rows into a store, for importers that would otherwise check every call.
 *
 * The first failure stays in .rc and makes everything after it do nothing (ids are 0 or OPM_NULL_ID
 * then): a reader adds what it finds and looks at .rc once per event or so. */
#ifndef IMPORT_COMMON_BUILD_H
#define IMPORT_COMMON_BUILD_H

#include "base/buf.h"
#include "import/common/echo.h"
#include "import/import.h"

struct build {
    struct store *st;
    const struct import_source *src;
    int rc;
    struct echo echo;
};

str_id build_str(struct build *b, const char *s, size_t len);
str_id build_cstr(struct build *b, const char *s);          /* NULL gives 0 */
str_id build_buf(struct build *b, const struct buf *text);  /* empty gives 0; a failed one ENOMEM */
str_id build_text(struct build *b, const struct buf *text); /* likewise, but empty is a string */
void build_check(struct build *b, const struct buf *text);  /* ENOMEM if it failed */
__attribute__((format(printf, 2, 3))) str_id build_fmt(struct build *b, const char *fmt, ...);

/* Whether to write out a text of so many bytes that the file only refers to; counted if not. */
bool build_echo(struct build *b, size_t bytes);

/* Zero-initialise through the macros: what is not named is NULL. */
struct track_row {
    const char *kind;
    str_id name, process, device, unit, log;
    int64_t pid, tid;
};
#define TRACK_ROW_INIT                           \
    {                                            \
        .pid = OPM_NULL_I64, .tid = OPM_NULL_I64 \
    }
struct op_row {
    str_id name, type, post_op, device, engine, weight_shape, attributes, nodes;
    int64_t flops, bytes;
};
#define OP_ROW_INIT                                  \
    {                                                \
        .flops = OPM_NULL_I64, .bytes = OPM_NULL_I64 \
    }
struct tensor_row {
    uint32_t op;
    const char *io;
    int64_t slot;
    str_id name, dtype, shape;
    int64_t bytes;
};
struct step_row {
    str_id model;
    int64_t num, ts_ns, dur_ns;
    bool warmup;
    uint32_t track;
};

uint32_t build_track(struct build *b, const struct track_row *row);
uint32_t build_op(struct build *b, const struct op_row *row);
void build_tensor(struct build *b, const struct tensor_row *row);
void build_step(struct build *b, const struct step_row *row);
void build_record(struct build *b, str_id label, int64_t ts_ns, int64_t dur_ns, bool warmup,
                  uint32_t track);
void build_sample(struct build *b, uint32_t track, int64_t ts_ns, double value);
void build_flow(struct build *b, uint32_t src, uint32_t dst, const char *kind);
uint32_t build_site(struct build *b, str_id name, str_id cat, const char *layer, uint32_t op);
uint32_t build_span(struct build *b, const struct span_row *row); /* its build id */
/* A fact; see import_meta(). NULL values are left out. */
void build_meta(struct build *b, const char *key, const char *value);

/* How far the reader is; true if it should stop: .rc says why. */
bool build_tick(struct build *b, uint64_t done, uint64_t total);
/* The end of a reader: .rc, with a message for a failure that has none yet. */
int build_end(struct build *b, opm_error *err);

/* a - b; times of a damaged file may be anything, so it wraps around rather than overflows. */
static inline int64_t time_diff(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* Bytes of an element type by any of its usual names (f32, float, DT_FLOAT, int8, ...); 0 if it is
 * not known. */
size_t dtype_bytes(const char *name, size_t len);
/* Elements of a shape such as 1x3x224x224; -1 if it is none or does not fit. */
int64_t shape_elements(const char *shape, size_t len);

/* A decimal number such as 12.5e-3, times ten to the scale, rounded to the nearest: 12.5 with scale
 * 6 is 12500000. Exact, whatever its length. False if it is none, or too large. */
bool decimal_scaled(const char *s, size_t len, int scale, int64_t *out);

#endif
