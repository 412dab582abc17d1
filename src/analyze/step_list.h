/* step_list.h -- the steps of a trace: marked ones or, where there are none, those that the
 * repetition of its operators shows. */
#ifndef ANALYZE_STEP_LIST_H
#define ANALYZE_STEP_LIST_H

#include "store/store.h"

struct step_row {
    uint32_t step; /* step.id, OPM_NULL_ID for those that were found */
    str_id model;
    int64_t num; /* OPM_NULL_I64: none */
    int64_t from_ns, to_ns;
    int64_t rank; /* OPM_NULL_I64: none */
    bool warmup;
};

struct step_list {
    struct step_row *row; /* ascending by start */
    size_t n;
    bool found;     /* by repetition, not marked */
    uint32_t track; /* then: of the operators that repeat */
};

/* Steps that never ended are left out. Release in any case. 0 or OPM_ENOMEM. */
int step_list_get(struct step_list *l, const struct store *st);
void step_list_release(struct step_list *l);

/* Of a found step at a time, or n. Marked ones: use span.step. */
size_t step_list_at(const struct step_list *l, int64_t ts_ns);

/* The same steps by rank, then by start: to find one of a rank. */
struct steps_by_rank {
    const struct step_row **row; /* into the list's, which must outlive it */
    size_t n;
};

int steps_by_rank_get(struct steps_by_rank *s, const struct step_list *l); /* 0 or OPM_ENOMEM */
void steps_by_rank_release(struct steps_by_rank *s);
/* The last step of that rank that starts no later, ended or not; or NULL. */
const struct step_row *steps_by_rank_at(const struct steps_by_rank *s, int64_t rank, int64_t ts_ns);

#endif
