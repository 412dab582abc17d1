/* timeline.h -- the picture that the web page draws of a range of time, as JSON; docs/http.md. */
#ifndef SERVER_TIMELINE_H
#define SERVER_TIMELINE_H

#include "base/json_write.h"
#include <opmeter/opmeter_trace.h>

struct timeline; /* what all pictures of one trace share */

/* t must outlive it; used by one thread at a time, like t. */
int timeline_new(struct timeline **out, opm_trace *t, opm_error *err);
void timeline_free(struct timeline *tl);            /* NULL is fine */
int64_t timeline_end_ns(const struct timeline *tl); /* of the trace */

struct timeline_view {
    int64_t from_ns, to_ns;
    int64_t pixel_ns;      /* spans narrower than this are united where they are neighbours */
    const char *text;      /* only spans whose name holds it; NULL: all */
    const uint32_t *track; /* ids; NULL: all */
    size_t ntrack;
    size_t max_bars;   /* of a track: */
    size_t max_points; /* where there would be more, they are as coarse as they must be */
};

/* Build what all pictures need, so that the first one comes quickly. */
int timeline_prepare(struct timeline *tl, opm_error *err);
/* Appends one JSON object; coarse is its "coarse". */
int timeline_answer(struct timeline *tl, struct json_writer *w, const struct timeline_view *v,
                    bool coarse, opm_error *err);
/* Appends what a search for a text finds: how many spans and, if there are any, the at-th of them,
 * counted around from either end; at NULL: the first that starts at from_ns or later. */
int timeline_found(struct timeline *tl, struct json_writer *w, const char *text, const int64_t *at,
                   int64_t from_ns, opm_error *err);
/* Choose v->pixel_ns and v->max_points so that the answer has at most max bars and about as many
 * points, as fine as can be. *coarse: spans will be united. */
int timeline_fit(struct timeline *tl, struct timeline_view *v, size_t max, bool *coarse,
                 opm_error *err);

#endif
