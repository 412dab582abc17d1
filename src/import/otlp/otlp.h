/* otlp.h -- spans of OpenTelemetry's protocol (OTLP) into a store, whether they came as JSON or as
 * protobuf.
 *
 * A service is an asynchronous line, because its spans overlap. A span with attributes gen_ai.*
 * that has no such span inside it is a request to a language model. What is odd is counted: spans
 * that were sent twice, parents that are missing, hosts whose clocks disagree. */
#ifndef IMPORT_OTLP_OTLP_H
#define IMPORT_OTLP_OTLP_H

#include "base/json_write.h"
#include "base/u64map.h"
#include "import/common/build.h"
#include "import/common/text.h"

enum otlp_kind { OTLP_NONE, OTLP_TEXT, OTLP_INT, OTLP_REAL };

/* A value that columns may need; lists and objects are written to args alone, but for a list's
 * first text. */
struct otlp_value {
    enum otlp_kind kind;
    struct text text;
    int64_t i;
    double real;
};

/* What is known of the present span. Texts need only live until otlp_span_end(). */
struct otlp_span {
    struct text trace, id, parent; /* lower-case hex; empty: none */
    struct text name;
    int64_t kind;             /* 0: not said */
    int64_t start_ns, end_ns; /* OPM_NULL_I64: not said */
    struct otlp_value request, model, finish;
    double ttft_s, queue_s, prefill_s, e2e_s; /* below 0: not said */
    int64_t tokens_in, tokens_out, cached;    /* likewise */
    int64_t first_token_ns;                   /* the first event; OPM_NULL_I64: none */
    size_t ntoken;                            /* in otlp.token */
    bool gen_ai;
};

struct otlp_row;

struct otlp {
    struct build b;
    uint32_t track;                /* of the present service */
    struct u64map services, spans; /* hash -> track; hash of trace and span -> row + 1 */
    struct otlp_row *row;
    size_t nrow, row_cap;
    int64_t *token; /* times */
    size_t ntoken, token_cap;
    size_t first_token; /* of the present span */
    struct otlp_span span;
    struct buf args;
    struct json_writer w;
};

/* .b.st and .b.src are set, the rest 0. */
void otlp_release(struct otlp *o);
/* The spans that follow are of this service. host may be empty. */
void otlp_service(struct otlp *o, struct text service, struct text host);
void otlp_span_begin(struct otlp *o);
/* The key of an attribute; its value is written to o->w right afterwards, and handed over then. */
void otlp_key(struct otlp *o, struct text key);
void otlp_attribute(struct otlp *o, struct text key, const struct otlp_value *v);
void otlp_event(struct otlp *o, struct text name, int64_t ts_ns);
void otlp_span_end(struct otlp *o);
/* Parents, requests. */
void otlp_finish(struct otlp *o);

#endif
