/* store.h -- a trace in memory.
 *
 * Two phases. Building: one importer interns strings and adds rows, in any order. Frozen: after
 * store_finish() spans, steps, records and samples are ordered by time, parents, depth and self
 * time are known, and everything is read-only; any number of threads may read. Functions below say
 * which phase they need (asserted). Rows refer to rows by number, strings by str_id.
 *
 * While building, a span is known by the number store_add_span() gave it (a "build id"); finishing
 * reorders spans and rewrites every reference (flow.src, flow.dst).
 *
 * Times are int64 ns from the start of the trace. Importers may add spans with any origin;
 * store_finish() moves the earliest time to 0 and keeps the shift in meta (trace.start_ns). */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/buf.h"
#include "store/table.h"

enum table_id {
#define TABLE(name, doc) TABLE_##name,
#define COL(table, name, type, from, doc)
#define END(table)
#include "store/tables.def"
#undef TABLE
#undef COL
#undef END
    TABLE_COUNT,
};

/* SPAN_ts, SPAN_dur, ..., OP_name, ...: the number of a column within its table. The prefix is the
 * table's name as written in tables.def, in lower case: span_col_ts, op_col_name. */
#define TABLE(name, doc) \
    enum name##_cols     \
    {
#define COL(table, name, type, from, doc) table##_col_##name,
#define END(table)    \
    table##_col_COUNT \
    }                 \
    ;
#include "store/tables.def"
#undef TABLE
#undef COL
#undef END

enum stat_id {
#define X(name, severity, description) STAT_##name,
#include "store/stats.def"
#undef X
    STAT_COUNT,
};

extern const struct table_def store_table_defs[TABLE_COUNT];

/* What identifies a kind of span; equal ones are stored once. */
struct site {
    str_id name;
    str_id cat;
    str_id layer;
    str_id phase;
    uint32_t op; /* op.id or OPM_NULL_ID */
};

/* A span while building. Zero-initialise correlation etc. through SPAN_ROW_INIT. */
struct span_row {
    int64_t ts_ns;
    int64_t dur_ns; /* -1: never ended */
    uint32_t track;
    uint32_t site;       /* from store_site() */
    int64_t correlation; /* or OPM_NULL_I64 */
    str_id args;         /* JSON object text or 0 */
};
#define SPAN_ROW_INIT                         \
    {                                         \
        0, 0, OPM_NULL_ID, 0, OPM_NULL_I64, 0 \
    }

struct store;

int store_new(struct store **out);
void store_free(struct store *st); /* NULL is fine */

/* Building. All return 0 or OPM_ENOMEM; ids come back through out. */
/* Legal when frozen, too, from any thread, if no other thread looks up strings meanwhile. While
 * building, longer texts are cut, which is counted. */
#define STORE_TEXT_MAX ((size_t)16 << 20)
int store_str(struct store *st, const char *s, size_t len, str_id *out);
int store_cstr(struct store *st, const char *s, str_id *out); /* NULL gives 0 */
int store_site(struct store *st, const struct site *site, uint32_t *out);
int store_add_span(struct store *st, const struct span_row *row, uint32_t *out_build_id);
/* Room for n more spans: adding up to so many moves no array, so that pointers into blocks stay
 * valid until store_finish(). */
int store_reserve_spans(struct store *st, size_t n);
/* Room for n spans of one track given as arrays, best ordered by end as a recorder writes them: of
 * two that end together (or never) the inner one first. The caller fills ts, dur and site, from any
 * thread, before store_finish(). The pointers are valid until the next span is added, or as
 * store_reserve_spans() says. Any other order is legal and costs a sort. */
struct span_block {
    int64_t *ts;
    int64_t *dur;
    uint32_t *site;
    uint32_t first_build_id;
};
/* Spans of the track come from several sources, or as a device hands them out: that they are out of
 * order is as it should be, and not counted. */
int store_track_mixed(struct store *st, uint32_t track);
int store_add_span_block(struct store *st, uint32_t track, size_t n, struct span_block *out);
int store_span_set_args(struct store *st, uint32_t build_id, str_id args);
int store_span_set_correlation(struct store *st, uint32_t build_id, int64_t correlation);
/* How long it waited before its work began, where the source says so itself; else span.wait comes
 * from correlations. */
int store_span_set_wait(struct store *st, uint32_t build_id, int64_t wait_ns);
int store_span_set_site(struct store *st, uint32_t build_id, uint32_t site);
int store_span_set_dur(struct store *st, uint32_t build_id, int64_t dur_ns);
uint32_t store_span_get_site(const struct store *st, uint32_t build_id);
int64_t store_span_get_ts(const struct store *st, uint32_t build_id);

/* Args of many spans that differ in numbers only: a form is the JSON text with one of these bytes
 * in place of each number; a span gives the form and the numbers. No byte of the text itself may
 * be one of them. */
#define ARGS_INT '\1'     /* one value */
#define ARGS_DECIMAL '\2' /* two: digits without the point, and how many stand behind it */
#define ARGS_HEX '\3'     /* one, as 0x... */
int store_args_form(struct store *st, const char *text, size_t len, uint32_t *out);
int store_span_set_args_form(struct store *st, uint32_t build_id, uint32_t form,
                             const int64_t *value);
/* The same for a form that has been interned. */
int store_args_form_of(struct store *st, str_id text, uint32_t *out);
int store_build_args(const struct store *st, uint32_t build_id, struct buf *out); /* as below */
/* Few questions are about args, and of a large trace they are most of what there is to read: who
 * loads spans may leave theirs for when they are first asked for. read() is then called once, by
 * whoever asks, in either phase; it may use store_args_form_of(), store_span_set_args() and
 * store_span_set_args_form(). release() is called afterwards, or with the store. */
struct args_later {
    int (*read)(struct store *st, void *user); /* 0 or OPM_ENOMEM */
    void (*release)(void *user);
    void *user;
};
/* After store_load_spans(), whose spans they are. 0 or OPM_ENOMEM: then user is released. */
int store_args_later(struct store *st, const struct args_later *later);
/* Whatever was left for later is there. Functions that give args as text see to that themselves.
 * 0 or OPM_ENOMEM. */
int store_args_read(const struct store *st);

/* Frozen, after store_args_read(): the form of a span's args, a string, and its numbers, at most
 * max; *out_n of them. 0 if its args are a text like any, or it has none: store_span_text_args()
 * then. */
str_id store_span_args_form(const struct store *st, size_t row, int64_t *value, size_t max,
                            size_t *out_n);
str_id store_span_text_args(const struct store *st, size_t row); /* 0: none, or of a form */
bool store_has_args(const struct store *st);                     /* any span */
/* How many numbers a form takes. */
size_t store_args_values(const char *form, size_t len);
/* What a form and values spell. */
void store_args_text(const char *form, size_t len, const int64_t *value, struct buf *out);

/* An arrow whose ends are known by track and time only; store_finish() finds the spans. */
enum flow_bind {
    FLOW_SPAN,      /* span is its build id */
    FLOW_ENCLOSING, /* the innermost span on the track at that time */
    FLOW_NEXT,      /* the first that starts then or later */
};
struct flow_end {
    enum flow_bind bind;
    uint32_t span;
    uint32_t track;
    int64_t ts_ns;
};
int store_add_flow(struct store *st, const struct flow_end *src, const struct flow_end *dst,
                   str_id kind);
/* A row of any table but span; cells as in table_add(). out_row may be NULL. */
int store_add(struct store *st, enum table_id table, const struct cell *cells, uint32_t *out_row);
/* Give a cell of a row that was added before another value; not in span or meta, and not of what is
 * derived. */
int store_set(struct store *st, enum table_id table, size_t row, int col, struct cell cell);
int store_meta(struct store *st, const char *key, const char *value);
void store_stat(struct store *st, enum stat_id stat, int64_t count); /* never fails */
/* What one of several sources added: rows [from, to) of every table. */
struct store_part {
    size_t from[TABLE_COUNT];
    size_t to[TABLE_COUNT];
};
void store_part_begin(const struct store *st, struct store_part *part);
void store_part_end(const struct store *st, struct store_part *part);
/* Its earliest time; OPM_NULL_I64 if it has none. */
int64_t store_part_start(const struct store *st, const struct store_part *part);
/* Correlation numbers of the nth source are moved by n times this, so that they stay apart and are
 * easy to see through. */
#define STORE_CORRELATION_STEP ((int64_t)1000000000000)

/* Where a part belongs among the others. */
struct store_place {
    /* For tracks that have none yet. */
    uint32_t source;        /* source.id */
    int64_t instance, rank; /* OPM_NULL_I64: unknown */
    int64_t shift_ns;       /* added to its times */
    double stretch;         /* and this part of them: its clock went slow by so much */
    int64_t correlation;    /* added to its correlation numbers */
};
int store_part_settle(struct store *st, const struct store_part *part,
                      const struct store_place *place);
/* Go over to the frozen phase. What is imperfect is repaired and counted:
 * - spans are ordered by ts; on one track a span comes before those inside it;
 * - a span is inside the innermost earlier one on its track that does not end before it does. Where
 *   equal times leave open what encloses what, the order of arrival counts if it was clean (all by
 *   end, or all by start), else the longest comes first. Zero-length spans enclose nothing;
 * - one that never ended lasts to the end of the one around it, else to the end of the trace;
 * - one that ends after the one it starts in moves to a copy of its track, "NAME (overlap)";
 * - tracks of kind "async", and spans without a track, know no nesting;
 * - times beyond +-146 years are cut.
 * After a failure the store can only be freed. */
int store_finish(struct store *st);

/* Frozen, and nobody else reads it yet: what only finished spans tell is added in between.
 * store_site(), store_span_set_site() with a row for the build id, store_add() of rows behind which
 * none must come, store_set() and store_meta() are legal again, beside all that reads. */
void store_amend_begin(struct store *st);
int store_amend_end(struct store *st); /* also of what was counted; 0 or OPM_ENOMEM */

/* Spans as a finished store has them: ordered, on tracks that were told apart. They become the
 * next spans of st, with build ids from *out_first on; the caller fills the arrays, from any
 * thread, before anything else is added. In a store without others they need no sorting; if they
 * turn out not to be in order they are sorted like any. All tracks must have been added. */
struct span_load {
    int64_t *ts, *dur;
    int64_t *correlation, *wait; /* these and args: NULL unless asked for */
    uint32_t *site;
    str_id *args;
    uint32_t first;            /* build id */
    struct packed *track;      /* for store_load_tracks() */
    struct load_blocks *block; /* likewise */
};
/* Which columns that few spans have are there. */
struct span_extras {
    bool correlation, wait, args;
};
int store_load_spans(struct store *st, size_t n, struct span_extras extras, struct span_load *out);
/* Tracks of spans [at, at + n) of them, whose ts and dur have their values by now: they are looked
 * over while they are in the cache. OPM_NULL_ID: none. Threads may do parts at once. 0 or
 * OPM_ENOMEM. */
int store_load_tracks(const struct span_load *load, size_t at, const uint32_t *track, size_t n);
/* `track` holds the overlapping spans of track `of`. */
int store_load_overlap(struct store *st, uint32_t track, uint32_t of);
/* A row of import_stat; of a known kind it is added to what was counted. */
int store_load_stat(struct store *st, const char *name, const char *severity, int64_t count,
                    const char *description);
/* What store_span_set_wait() was told, for every span; NULL if it was told nothing. Frozen. */
const int64_t *store_given_waits(const struct store *st);
/* The track whose overlapping spans a track holds, or itself. Frozen. */
uint32_t store_overlap_of(const struct store *st, uint32_t track);

/* Frozen. store_nrow(), and store_cell() of tables other than span, may be used while building. */
size_t store_nrow(const struct store *st, enum table_id table);
/* Any cell of any table. One of a derived column that can't be computed for lack of memory reads as
 * NULL; call store_derive() first to know. */
struct cell store_cell(const struct store *st, enum table_id table, size_t row, int col);
static inline int64_t store_i64_or(const struct store *st, enum table_id table, size_t row, int col,
                                   int64_t otherwise)
{
    return cell_i64_or(store_cell(st, table, row, col), otherwise);
}
/* Compute what store_cell() needs for a column, if it is derived. 0 or OPM_ENOMEM. */
int store_derive(const struct store *st, enum table_id table, int col);
/* The whole column as an array (type as declared), computing it first if it is derived. NULL if
 * every value is NULL and, always, for FROM_ROW and FROM_SITE columns: use store_span_site() and
 * store_sites(). Returns OPM_ENOMEM if it could not be computed. */
int store_column(const struct store *st, enum table_id table, int col, const void **out);
/* Append the args of a span as text; nothing if it has none. Where args are packed this is the way
 * to read a few: store_column() and store_cell() intern the text of all of them, or of one. 0 or
 * OPM_ENOMEM. */
int store_span_args(const struct store *st, size_t row, struct buf *out);
bool store_args_packed(const struct store *st);
const uint32_t *store_span_site(const struct store *st); /* site number of every span */
/* The tracks of all spans as they are kept, in one to four bytes each: less to touch than the
 * column. Valid as long as the store. */
struct span_tracks {
    const void *data;
    unsigned width; /* 0: `same` for all */
    uint32_t same;
    uint32_t ntrack; /* stands for none */
};
struct span_tracks store_span_tracks(const struct store *st);
static inline uint32_t span_tracks_get(const struct span_tracks *t, size_t row)
{
    switch (t->width) {
    case 1:
        return ((const uint8_t *)t->data)[row];
    case 2:
        return ((const uint16_t *)t->data)[row];
    case 4:
        return ((const uint32_t *)t->data)[row];
    default:
        return t->same;
    }
}
const struct site *store_sites(const struct store *st, size_t *out_n);
/* A cell of a column that spans have through their site (FROM_SITE). */
struct cell site_cell(const struct site *site, int col);
/* Spans with from_ns <= ts < to_ns are rows [*first, *end). */
void store_span_range(const struct store *st, int64_t from_ns, int64_t to_ns, size_t *first,
                      size_t *end);

const struct strpool *store_strings(const struct store *st);
const char *store_text(const struct store *st, str_id id);           /* NULL for 0 */
const char *store_meta_get(const struct store *st, const char *key); /* NULL if absent */

#endif
