/* top.h -- the parts of `opmeter top`: what was asked for, the SQL that answers it, and the forms
 * in which it is printed. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "cli/cli.h"

enum top_column {
#define COLUMN(name, sql, header, kind, rank, doc) TOP_##name,
#define ALIAS(name, other)
#include "cli/top_columns.def"
#undef COLUMN
#undef ALIAS
    TOP_COLUMN_COUNT,
};

enum top_kind {
    TOP_KIND_SELF,
    TOP_KIND_CUMULATIVE,
    TOP_KIND_INFO,
    TOP_KIND_TIME,
    TOP_KIND_COUNT,
    TOP_KIND_FLO,
    TOP_KIND_FLOPS,
    TOP_KIND_BYTES,
    TOP_KIND_BANDWIDTH,
    TOP_KIND_SHARE,
    TOP_KIND_TEXT,
    TOP_KIND_IN_SHAPES,
    TOP_KIND_OUT_SHAPES,
    TOP_KIND_NUMBER,
    TOP_KIND_RATIO,
};

struct top_column_def {
    const char *name;
    const char *sql;
    const char *header;
    enum top_kind kind;
    int rank;
    const char *doc;
};
extern const struct top_column_def top_columns[TOP_COLUMN_COUNT];
int top_column_find(const char *name, size_t len); /* -1 if there is none */
bool top_is_counter(int column);                   /* of recordings with --counters */

struct top_order {
    int column;
    bool ascending;
};
#define TOP_ORDER_MAX 8

struct top {
    struct cli *cli;
    opm_trace *trace;
    /* as asked for */
    int64_t limit; /* 0: all */
    struct option_list type, opr_name, input_dtype;
    const char *aggregate;    /* max, min, sum, mean; NULL: none */
    const char *aggregate_by; /* type or NULL */
    bool kern;                /* time is kernel time */
    double min_ns, max_ns;
    struct top_order order[TOP_ORDER_MAX];
    size_t norder;
    int column[TOP_COLUMN_COUNT];
    size_t ncolumn;
    size_t nusual; /* the first of them, which nobody asked for by name */
    bool copy_time, dump_only_opr, wiki, bars;
    bool boxes;   /* as MegEngine's profile_analyze prints it */
    bool kernels; /* below every operator */
    /* found in the trace */
    double total_ns[2]; /* device, host; NAN: no such section */
    bool has_ops;
    bool has_wait;
    bool host_only; /* there are operators, and none did anything on a device */
    int64_t places; /* ranks or instances that run the same; 1 where each operator is shown alone */
    bool ranked;    /* they are ranks */
    bool seconds;   /* boxes: times as plain seconds, as for a program that reads them */
};

/* op_times as top shows it, in parentheses. */
void top_put_times(const struct top *t, struct buf *out);
/* The statement whose rows are those of the table of a section ("device" or "host"). */
void top_sql(const struct top *t, const char *section, struct buf *out);
/* The sums above the table: name, value in ns. */
extern const char top_summary_sql[];
/* One row: copy time, its mean, wait, its mean. */
void top_copy_sql(const struct top *t, struct buf *out);

/* The columns of top_sql() that are needed here and are no columns of the table. */
enum top_field {
    TOP_FIELD_RANK,
    TOP_FIELD_CUMULATIVE_SHARE,
    TOP_FIELD_UNKNOWN_COMPUTATION,
    TOP_FIELD_UNKNOWN_MEMORY,
    TOP_FIELD_ALL_ROWS,
    TOP_FIELD_IN_LAYOUTS,
    TOP_FIELD_LONGEST,
    TOP_FIELD_POST_OP,
    TOP_FIELD_OP,
    TOP_FIELD_COUNT,
};

/* A running query with the places of its columns. */
struct top_rows {
    opm_rows *rows;
    int at[TOP_COLUMN_COUNT];
    int field[TOP_FIELD_COUNT];
};
/* CLI_OK or the exit code after a message. */
int top_rows_open(const struct top *t, const char *section, struct top_rows *r);
int top_rows_next(struct top_rows *r); /* 1, 0 at the end, -1 after a message */
void top_rows_close(struct top_rows *r);
double top_real(const struct top_rows *r, int col); /* NAN for NULL */
const char *top_text(const struct top_rows *r, int col, size_t *len);

/* Amounts as the table shows them. */
void top_put_time(struct buf *b, const struct top *t, double ns);
void top_put_amount(struct buf *b, double v, double base, const char *unit, const char *prefixed,
                    const char *between);
/* What a table did not show, said below it: add every row, then say it. */
struct top_remarks {
    int64_t rows, all_rows;
    int64_t unknown_computation, unknown_memory, ops;
};
void top_note_row(struct top_remarks *m, const struct top_rows *r);
void top_say_remarks(const struct top *t, const struct top_remarks *m);

/* Instead of a table without rows: which type or name that was asked for there is not. */
int top_say_nothing(const struct top *t);

/* Another grouping than operators and types, as a table of its own; see top_by.c. NULL: none. */
extern const char *const top_by_choices[];
int top_print_by(const struct top *t, const char *by);
/* Kernels of every operator, for programs. */
extern const char top_kernels_sql[];

/* shapes "1x3;64" as "{1,3}\n{64}", or with another separator. layouts: JSON or NULL. */
void top_put_shapes(struct buf *b, const char *shapes, size_t len, const char *layouts,
                    const char *between);
/* Python's '{:.3}' of a number. */
void top_put_g3(struct buf *b, double v);

/* Print a section; CLI_OK or the exit code. */
int top_print_ranking(const struct top *t, const char *section);
int top_print_boxes(const struct top *t, const char *section);
int top_print_bars(const struct top *t, const char *section);
int top_print_oprs(const struct top *t, const char *section);
int top_print_wiki(const struct top *t, const char *section);
/* A table of rows x columns of text as MediaWiki and Confluence read it: numbers aligned at their
 * points, texts to the left. cell[] belongs to the caller. */
void top_put_wiki(struct io_out *out, const char *const *cell, size_t rows, size_t cols);

#endif
