/* span.h -- the type Span: anything with a beginning and an end that Python code names.
 *
 * One object may be open many times at once: nested in itself, on several threads. Each end closes
 * what the same thread began last; spans that may wander between threads fall back to whatever was
 * begun last. Not tracked by the garbage collector: it refers to text and numbers only. */
#ifndef PYTHON_SPAN_H
#define PYTHON_SPAN_H

#include "ext.h"

enum span_kind { SPAN_PLAIN, SPAN_ASYNC, SPAN_STEP, SPAN_RECORD, SPAN_ACTIVITY, SPAN_OP };

/* What all spans of one name, category and layer share. Counted; text belongs to the strings. */
struct site {
    opm_site site;
    PyObject *name;
    PyObject *category; /* or NULL */
    uint32_t refs;
    uint32_t looks; /* how often it was looked whether a coroutine begins it */
    bool awaits;    /* one did */
};

struct open_span {
    opm_span span;
    const void *thread;
    bool wanders; /* may end on another thread, and in any order */
};

struct span {
    PyObject base;
    struct site *site;
    PyObject *args;  /* dict for each beginning, or NULL; keys and values are checked */
    PyObject *meta;  /* of an activity: JSON text, or NULL */
    PyObject *op;    /* of SPAN_OP, keeps it alive */
    opm_op *handle;  /* its handle */
    PyObject *enter; /* bound __enter__ and __exit__ of a span in state.spans; else NULL */
    PyObject *exit;
    enum span_kind kind;
    uint32_t flags; /* of a step or record: enum opm_record_flags */
    int64_t step;
    opm_span last; /* begun last, for arguments and arrows */
    uint32_t n;
    uint32_t cap;
    uint32_t unseen; /* times that `with` entered it while nothing was recorded, and is still in */
    struct open_span first; /* of `open`, as long as that is enough */
    struct open_span *open;
};

/* A new span; NULL and an exception. Takes over nothing. */
struct span *span_new(const struct state *s, enum span_kind kind, PyObject *name,
                      PyObject *category, int layer);

/* Drop what state.spans remembers. */
void span_forget(struct state *s);

#endif
