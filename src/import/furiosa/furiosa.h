/* furiosa.h -- a span as the Furiosa SDK's profiler has it, from CSV or from a Chrome trace.
 *
 * furiosa_add() makes of it whatever it stands for: every one a span; `Inference` a step; a root
 * span of a name that is not the runtime's own a labelled region; an instruction of the NPU or an
 * operator on the host an operator of the model. */
#ifndef IMPORT_FURIOSA_FURIOSA_H
#define IMPORT_FURIOSA_FURIOSA_H

#include "base/buf.h"
#include "base/u64map.h"
#include "import/import.h"

/* Nullable integers of a row, in the order of the CSV's columns. */
#define FURIOSA_NUMBERS(X)                    \
    X(thread_id, "thread.id")                 \
    X(dram_base, "dram_base")                 \
    X(pe_index, "pe_index")                   \
    X(execution_index, "execution_index")     \
    X(instruction_index, "instruction_index") \
    X(operator_index, "operator_index")

enum furiosa_number {
#define X(name, text) FURIOSA_##name,
    FURIOSA_NUMBERS(X)
#undef X
        FURIOSA_NUMBER_COUNT,
};

/* Texts point into the input or a scratch buffer; len 0: not given. */
struct furiosa_text {
    const char *p;
    size_t len;
};

struct furiosa_span {
    struct furiosa_text trace_id, parent_span_id, span_id, cat, name;
    int64_t start_ns, end_ns;
    int64_t number[FURIOSA_NUMBER_COUNT]; /* or OPM_NULL_I64 */
    int64_t pid;                          /* or OPM_NULL_I64 */
    struct furiosa_text rest;             /* JSON members "key":value,... that nothing else holds */
};
#define FURIOSA_SPAN_INIT                                       \
    {                                                           \
        .number = { OPM_NULL_I64, OPM_NULL_I64, OPM_NULL_I64,   \
                    OPM_NULL_I64, OPM_NULL_I64, OPM_NULL_I64 }, \
        .pid = OPM_NULL_I64                                     \
    }

struct furiosa {
    struct store *st;
    const struct import_source *src;
    bool absolute;   /* times are ns since 1970 */
    bool has_origin; /* origin_ns is known */
    int64_t origin_ns;
    bool named_parents; /* parent_span_id is given, so roots are known */
    int64_t nstep;
    size_t nspan;
    struct buf text;      /* scratch */
    struct u64map ops;    /* name and index -> op */
    struct u64map tracks; /* kind and number -> track */
    struct u64map spans;  /* span id -> build id */
    struct furiosa_link *link;
    size_t nlink, link_cap;
};

int furiosa_add(struct furiosa *f, const struct furiosa_span *s); /* 0 or OPM_ENOMEM */
/* The name of an NPU's line, which a Chrome trace gives apart. */
int furiosa_name_track(struct furiosa *f, int64_t tid, const char *name, size_t len);
/* Arrows between spans of different tracks, and facts about the file. 0 or OPM_ENOMEM. */
int furiosa_end(struct furiosa *f);
void furiosa_release(struct furiosa *f);

#endif
