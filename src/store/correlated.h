/* correlated.h -- which span of the host, or of hardware, carries a correlation number. */
#ifndef STORE_CORRELATED_H
#define STORE_CORRELATED_H

#include "store/store.h"

enum correlated_side { CORRELATED_HOST, CORRELATED_HARDWARE };
enum correlated_which { CORRELATED_FIRST, CORRELATED_LAST }; /* of several with one number */

struct correlated_span {
    int64_t number;
    uint32_t span;
};

/* Sorted by number. Numbers mostly count up as time goes by, and who asks goes by time, too: the
 * next answer is near the last one, which a map would scatter. */
struct correlated {
    struct correlated_span *of;
    size_t n, last;
};

/* 0 or OPM_ENOMEM; release in any case. */
int correlated_find(struct correlated *c, const struct store *st, enum correlated_side side,
                    enum correlated_which which);
void correlated_release(struct correlated *c);
/* The span with this number, which may be NULL; OPM_NULL_ID: there is none. One thread at a time.
 */
uint32_t correlated_get(struct correlated *c, int64_t number);

#endif
