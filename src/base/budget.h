/* budget.h -- what reading may cost: bytes that packed files unpack to, memory, time.
 *
 * A budget belongs to one reading: whoever opens a trace enters one, and everything that his thread
 * does until he leaves it counts: unpacking (base/io.h, base/zblock.h) and every allocation
 * (base/alloc.h), which fails like any other where there is no room for it. Threads that are
 * started with thread_start() spend from the same budget. Opening a trace within a budget spends
 * from that. Without one there are no limits but those that io.h states.
 *
 * Files come from anywhere, so that the limits hold for all of them; the defaults are such that no
 * ordinary trace meets them. */
#ifndef BASE_BUDGET_H
#define BASE_BUDGET_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>
#include <pthread.h>
#include <stdatomic.h>

/* Traces pack to a twentieth or a sixtieth of their size. What unpacks to more than this many times
 * its size is no trace, but that is said of large ones only: small ones do no harm. */
#define BUDGET_RATIO_MAX 200
#define BUDGET_RATIO_FROM_BYTES ((uint64_t)256 << 20)
#define BUDGET_UNPACKED_DEFAULT ((uint64_t)64 << 30)

struct budget_limits {
    uint64_t unpacked; /* bytes of all files together; 0: not said */
    uint64_t memory;   /* bytes; 0: not said */
    uint64_t seconds;  /* 0: not said, or no limit */
};

enum budget_over {
    BUDGET_KEPT,
    BUDGET_UNPACKED,
    BUDGET_RATIO,
    BUDGET_MEMORY,
    BUDGET_TIME,
    BUDGET_SCRATCH, /* the folder had no room */
};

struct budget {
    struct budget_limits limits;
    /* A folder for what is beyond half of the memory: large pieces go to a file there
     * (base/scratch.h) instead of being refused. NULL: none. */
    const char *scratch;
    bool any_ratio;      /* the bytes were allowed on purpose, so that packing does not matter */
    int64_t deadline_ns; /* monotonic; INT64_MAX: none */
    atomic_uint_least64_t packed, unpacked;
    atomic_int_least64_t memory; /* allocated and not freed */
    atomic_int over;             /* enum budget_over: the first that was met */
};

/* What is not said in `asked` is taken from the environment (OPMETER_MAX_UNPACKED,
 * OPMETER_MAX_MEMORY, OPMETER_MAX_TIME), else it is the default: 64 GiB unpacked, three quarters of
 * the memory that this process may use, any time. OPM_EINVAL if a variable is no size or time. */
int budget_init(struct budget *b, const struct budget_limits *asked, opm_error *err);
/* Spend from b from now on (NULL: from none); returns what was spent from before. */
struct budget *budget_enter(struct budget *b);
struct budget *budget_current(void); /* or NULL */

/* `made` bytes more came out of `used` packed ones. False: one of the limits is met, that of the
 * time among them. b may be NULL. */
bool budget_unpack(struct budget *b, uint64_t used, uint64_t made);
bool budget_time(struct budget *b);                       /* false: it is over */
bool budget_met(struct budget *b, enum budget_over what); /* a limit was; false */
/* Whether `bytes` more may be allocated, and that they were, or freed if negative. */
bool budget_has_memory(struct budget *b, size_t bytes);
void budget_allocated(struct budget *b, int64_t bytes);
uint64_t budget_memory_used(const struct budget *b);
/* How a reading of `path` ended that would return rc: if a limit was met on the way, OPM_ELIMIT and
 * the line to show: what, which limit, which option raises it; else rc, err left alone. b may be
 * NULL. */
int budget_fail(const struct budget *b, const char *path, int rc, opm_error *err);

/* Memory that this process may use: what the machine has, or its control group allows. */
uint64_t budget_machine_memory(void);
/* "4G", "512M", "1.5T", bytes without a letter. */
bool budget_parse_size(const char *text, uint64_t *out);

/* pthread_create() of a thread that spends from the budget of the caller. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
