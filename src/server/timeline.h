/* timeline.h -- the picture that the web page draws of a range of time, as JSON; docs/http.md. */
#ifndef SERVER_TIMELINE_H
#define SERVER_TIMELINE_H

#include "base/json_write.h"
#include <opmeter/opmeter_trace.h>

struct timeline; /* what all pictures of one trace share */

/* t must outlive it; used by one thread at a time, like t. */
int timeline_new(struct timeline **out, opm_trace *t, opm_error *err);
void timeline_free(struct timeline *tl); /* NULL is fine */
size_t timeline_ntrack(const struct timeline *tl);
int64_t timeline_end_ns(const struct timeline *tl); /* of the trace */

struct timeline_view {
    int64_t from_ns, to_ns;
    int64_t pixel_ns;      /* spans narrower than this are united where they are neighbours */
    const uint32_t *track; /* ids; NULL: all */
    size_t ntrack;
    size_t max; /* bars and points of one track */
};

/* Build what pictures of the tracks of the view need, so that the first one comes quickly. */
int timeline_prepare(struct timeline *tl, opm_error *err);
/* Appends one JSON object; coarse is its "coarse". */
int timeline_answer(struct timeline *tl, struct json_writer *w, const struct timeline_view *v,
                    bool coarse, opm_error *err);
/* Bars that such an answer would have. */
int timeline_count(struct timeline *tl, const struct timeline_view *v, size_t *out, opm_error *err);

#endif
