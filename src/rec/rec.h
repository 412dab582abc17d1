/* rec.h -- how the parts of the recorder fit together.
 *
 * A process has one recorder, and at most one recording at a time, which owns two files. FILE.opm
 * gets packed, checksummed chunks from one writer thread. FILE.opm-live is mapped shared and holds
 * what has not been packed yet, so that a killed process loses nothing: a slot per thread (its
 * stack of open spans) and a pool of blocks. A thread fills its own block without synchronising
 * with anyone; a full block goes to the writer, which packs it, writes it, and only then returns it
 * to the pool. Definitions (sites, strings, threads) go through blocks of their own, under the
 * recorder's lock.
 *
 * Lifetime of the mapping: a thread may be anywhere in opm__begin() or opm__end() when another one
 * stops the recording. Stopping therefore never unmaps: it puts anonymous memory in place of the
 * file, where a late store does no harm, and forgets the address only several recordings and
 * seconds later. Slow paths are counted (slow_enter), and stopping waits for them.
 *
 * Locks: `control` guards starting, stopping and pausing, `lock` slots and definitions, `io_lock`
 * the file; taken in this order. A slow path never takes `control`, since stopping waits for it
 * with that lock held. Non-static names are opm__x: this archive is linked into other people's
 * programs.
 *
 * Handlers of signals may record: see guard.c. Hence a lock is held only under guard, and nothing
 * on the way of an event or definition uses malloc(). */
#ifndef REC_REC_H
#define REC_REC_H

#include "base/common.h"
#include "base/environment.h"
#include "base/error.h"
#include "format/format.h"
#include "rec/clock.h"
#include "rec/ownfile.h"
#include <opmeter/opmeter.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* What a thread needs for begin and end. Private to the thread but for `generation` and `serial`,
 * which stopping resets to 0. Lives in thread-local storage, so it outlives every mapping. */
struct hot {
    struct opm_slot *slot;
    struct opm_unit *units; /* of the block being filled */
    _Atomic uintptr_t
        inside; /* place on the stack of what is in the middle of something, guard.c */
    uint32_t used;
    uint32_t cap; /* 0: no block */
    uint32_t depth;
    _Atomic uint32_t serial;
    _Atomic uint32_t generation; /* 0: the thread must enter the recording first */
    uint32_t slot_index;
    uint32_t block;     /* being filled, or OPM_NO_BLOCK; the slot says the same to readers */
    struct hot *next;   /* list of all threads of the recording, under `lock` */
    struct hot **prev;  /* NULL: not on it */
    opm_span phase;     /* open phase of a step */
    uint64_t slot_lost; /* spans dropped since the last LOST unit */
    uint64_t latest;    /* when a span began or ended last, where counters are coarse */
    bool counted;       /* in opm__recorder.slow; survives what resets the rest, as `inside` does */
};

enum recorder_state {
    RECORDER_OFF = 0,
    RECORDER_ON = 1,
    RECORDER_STOPPING = 2,
    RECORDER_FORKED = 3, /* child of a recording process: starts its own at the first event */
};

#define NAME_MAX_BYTES (1u << 20) /* longer strings are cut */

struct name_entry {
    _Atomic uint64_t hash;
    _Atomic uint64_t tag_id; /* 40 more bits of hash, 24 of id; 0: empty */
};

struct name_table {
    size_t cap; /* power of two */
    size_t n;
    struct name_table *older; /* readers may still look into it; freed when the recording ends */
    struct name_entry entry[];
};

/* A file or folder that the environment wants made of the recording. */
struct output {
    const char *format;
    char *path;
};
#define OUTPUTS_MAX 4

struct outputs {
    struct output item[OUTPUTS_MAX];
    int n;
    bool only;    /* nobody asked for the recording itself */
    char *record; /* where to record then */
};

/* Why writing stopped for good. */
enum stopped_by {
    STOPPED_NOT = 0,
    STOPPED_NOT_OURS,  /* the descriptor was taken from us, and the path leads elsewhere */
    STOPPED_TRUNCATED, /* the file is shorter than what we wrote */
    STOPPED_DELETED,   /* found out at the end: nothing stopped, but nothing is left */
};

struct direct;

struct recorder {
    pthread_mutex_t control; /* starting, stopping, pausing; taken first */
    pthread_mutex_t lock;
    pthread_mutex_t io_lock;
    _Atomic uint32_t state;
    _Atomic uint32_t generation; /* of the current or last recording; counts from 1 */
    _Atomic uint32_t slow;       /* threads inside a slow path */
    int nested;                  /* successful starts */
    int paused;
    uint32_t layers; /* wanted: what opm__layers is while not paused */
    int32_t overflow;
    char *categories; /* NULL: all */
    char *redact;     /* facts to leave out, see base/redact.h; NULL: none */
    bool automatic;   /* started by the environment: report at the end */

    bool stuck;            /* a thread never came back: its memory stays, no more recordings */
    _Atomic bool orphaned; /* forked by a handler that interrupted recording: there is no writer */

    char *path;                /* of the .opm file, as it was given */
    char *file_at;             /* the same, absolute: the program may change its folder */
    char *live_path;           /* absolute */
    char *before;              /* recordings of what this process was before exec(), or NULL */
    char *convert_to;          /* or NULL */
    struct outputs outputs;    /* of the environment; empty unless automatic */
    struct ownfile file, live; /* the writer's: nobody else touches their descriptors */
    bool own_table;            /* they are in a table of its own */
    enum stopped_by stopped_by;
    bool live_stays;       /* it has what could not be written */
    _Atomic uint64_t size; /* of the file: where the next chunk goes */
    struct opm_file_header header;

    uint8_t *map;
    size_t map_size;
    _Atomic bool live_gone; /* the live file was cut short: nothing more is recorded */
    uint32_t nslot;
    uint32_t nblock;
    uint32_t slots_ready; /* backed by disk space, so that touching them cannot fault */
    _Atomic uint32_t blocks_ready;
    _Atomic int64_t grow_after_ns; /* no more of them before: the disk was full */
    uint32_t *next_slot;           /* free list, under lock */
    uint32_t free_slot;
    void *block_links;            /* memory of next_block */
    _Atomic uint32_t *next_block; /* links of both lists below */
    _Atomic uint64_t free_blocks; /* count of pops << 32 | index + 1 */
    _Atomic uint64_t full_blocks; /* index + 1 of the newest */
    _Atomic uint32_t nfree;
    _Atomic uint32_t held;  /* blocks being filled by threads */
    _Atomic uint32_t freed; /* futex: bumped when blocks come back */
    _Atomic uint32_t wake;  /* futex: bumped to wake the writer */
    struct hot *threads;
    uint32_t last_serial;          /* of all threads that ever recorded; under lock */
    _Atomic uint32_t first_serial; /* that a thread of this recording can have */

    uint32_t next_id; /* under lock */
    uint32_t defs_block;
    uint32_t defs_used; /* bytes in it */
    uint32_t defs_seq;
    _Atomic(struct name_table *) names;
    size_t names_max;

    pthread_t writer;
    _Atomic bool finish; /* for the writer: write the rest and end */
    _Atomic(struct direct *) direct;
    struct packer *packer;
    void *block_copy;
    uint8_t *out; /* packed chunks on their way to the file */
    size_t out_len;
    _Atomic uint64_t spans;
    _Atomic uint64_t lost;       /* spans */
    _Atomic uint64_t lost_other; /* arguments, counters, flows, definitions */
    _Atomic uint64_t no_room;
    _Atomic uint64_t unbalanced_ends;
    _Atomic uint64_t closed_by_parent;
    _Atomic uint64_t nthreads;
    _Atomic int write_errno;
    _Atomic(const struct event_set *) counters; /* of operators; NULL: none */
    _Atomic bool failing; /* the last write failed: no use in waiting for the writer */
    uint64_t span_cost_ps;
};

extern struct recorder opm__recorder;
/* Found by an offset that is known when the library is loaded: glibc has room for so much in what
 * is loaded later, too. musl refuses it there, and has the memory of the other model at hand before
 * a thread begins, which glibc has not. */
#ifdef __GLIBC__
#define OPM__THREAD __thread __attribute__((tls_model("initial-exec")))
#else
#define OPM__THREAD __thread
#endif
extern OPM__THREAD struct hot opm__hot;

static inline struct opm_live_header *recorder_live(struct recorder *r)
{
    return (struct opm_live_header *)(void *)r->map;
}
static inline struct opm_slot *recorder_slot(struct recorder *r, uint32_t i)
{
    return (struct opm_slot *)(void *)(r->map + live_slot_offset(i));
}
static inline struct opm_block_header *recorder_block(struct recorder *r, uint32_t i)
{
    return (struct opm_block_header *)(void *)(r->map + live_block_offset(r->nslot, i));
}
static inline struct opm_unit *block_units(struct opm_block_header *b)
{
    return (struct opm_unit *)(void *)(b + 1);
}
static inline uint8_t *block_bytes(struct opm_block_header *b)
{
    return (uint8_t *)(b + 1);
}

/* recorder.c */
/* Growing a file beyond RLIMIT_FSIZE raises SIGXFSZ, which would end the program. Between the two,
 * this thread gets no signals, and one that our own writing raised is thrown away. */
void opm__signals_off(sigset_t *old); /* but SIGBUS, which can be our own doing: see bus.c */
void opm__signals_restore(const sigset_t *old);
/* False: nothing is being recorded, or a handler must not, which is counted; else pair with
 * opm__slow_leave(). */
bool opm__slow_enter(void);
bool opm__slow_enter_span(void); /* the same for what begins a span */
void opm__slow_leave(void);

/* files.c; in the writer */
int opm__files_open(struct recorder *r, const char *wanted, bool child, uint64_t live_bytes,
                    opm_error *err);
void opm__files_release(struct recorder *r); /* names; the descriptors are closed */
/* A path that stays valid if the program changes its folder; NULL: out of memory. */
char *opm__path_absolute(const char *path);

/* guard.c */
struct cancel_off {
    int state, type;
};
/* No cancellation acts in this thread between the two; one that came meanwhile acts at once where
 * the thread wants that, and the thread's result is PTHREAD_CANCELED. */
void opm__cancel_off(struct cancel_off *c);
void opm__cancel_back(const struct cancel_off *c);

struct guard {
    sigset_t mask;
    struct cancel_off cancel;
};
/* No handler runs and no cancellation acts in this thread between the two. They nest. */
void opm__guard(struct guard *g);
void opm__unguard(const struct guard *g);
void opm__lock(pthread_mutex_t *m, struct guard *g); /* guarded while it is held */
void opm__unlock(pthread_mutex_t *m, const struct guard *g);
/* About where the calling function is on its stack. */
static inline uintptr_t stack_here(void)
{
#if defined(__x86_64__)
    uintptr_t here;

    __asm__("mov %%rsp, %0" : "=r"(here)); /* needs no frame pointer */
    return here;
#else
    return (uintptr_t)__builtin_frame_address(0);
#endif
}
/* Is this a handler that interrupted the recorder in this thread? */
bool opm__interrupting(void);
void opm__thread_recover(void); /* whatever was interrupted will not go on: the thread ends */

/* memory.c: for whatever may happen in a handler. Zeroed; NULL when there is none. */
void *opm__alloc(size_t size);
void opm__free(void *p);                          /* NULL is fine */
char *opm__alloc_text(const char *s, size_t max); /* a copy, cut to max bytes */
void opm__memory_hold(void);                      /* around fork() */
void opm__memory_resume(void);

/* live.c: the mapped file, its slots and blocks */
int opm__live_create(struct recorder *r, uint64_t bytes, opm_error *err);
void opm__live_retire(struct recorder *r); /* anonymous memory from here on; deletes the file,
                                             unless live_stays */
/* The file was cut short: anonymous memory from here on, and nothing is recorded any more. Safe in
 * a signal handler. */
void opm__live_give_up(struct recorder *r);
void opm__live_abandon(
    struct recorder *r); /* the same in a forked child: the file is the parent's */
void opm__live_leave(struct recorder *r, bool ours); /* a thread may still use all of it */
void opm__live_unload(void);                         /* the library goes: forget what was retired */
bool opm__thread_enter(struct hot *h);               /* slot and first block; false: no room */
/* recorder.c: have opm__thread_leave() called at its exit; false: it is too late for that */
bool opm__thread_watch(void);
void opm__thread_leave(struct hot *h);  /* seals its block, keeps open spans, frees the slot */
void opm__thread_forget(struct hot *h); /* off the list: its memory is about to go */
bool opm__block_next(struct hot *h);    /* hand over the full block, get another; false: none */
/* Index, or OPM_NO_BLOCK. Guarded; may_wait is that guard, or NULL with `lock` held. */
uint32_t opm__block_take(struct recorder *r, const struct guard *may_wait);
void opm__block_submit(struct recorder *r, uint32_t block);
void opm__block_release(struct recorder *r, uint32_t block);
/* Count an event that is dropped. */
void opm__count_lost(struct hot *h, unsigned kind);
/* Append an event of n units for the calling thread; drops and counts if there is no room. */
void opm__put(struct hot *h, const struct opm_unit *u, unsigned n);

/* hot.c; call between opm__slow_enter() and opm__slow_leave(), the counters outside */
void opm__put_counter(opm_site *site, uint32_t role, enum opm_unit_kind kind, uint64_t value);
void opm__put_gauge(opm_site *site, double value);
void opm__put_device_span(uint32_t track, opm_site *site, int64_t start_ns, int64_t end_ns,
                          uint64_t correlation, uint32_t args);
/* The same without arguments and outside of slow paths; track is the cache of one. False: something
 * is not known yet to this thread or recording, or there is no room. */
bool opm__put_device_span_quick(uint64_t track, opm_site *site, int64_t start_ns, int64_t end_ns,
                                uint64_t correlation);

/* bus.c; under control */
void opm__bus_watch(void); /* a live file that is cut short ends the recording, not the program */
void opm__bus_leave(void);

/* account.c: what is told to `opmeter record`; all of it nothing if that is not there */
void opm__account_open(void);
void opm__account_fork(void);  /* before a fork */
void opm__account_child(void); /* in the child */
void opm__account_failed(const char *why);
void opm__account_end(void); /* of the process */

/* define.c: ids for sites, strings, threads */
uint32_t opm__define_site(opm_site *site); /* 0: filtered out */
uint32_t opm__define_named(uint32_t role, uint32_t layer, const char *category, const char *name,
                           size_t len);
uint32_t opm__define_track(opm_track *t);
uint32_t opm__define_string(const char *s, size_t len);
void opm__define_thread(struct recorder *r, uint32_t serial, int tid, const char *name);
void opm__define_meta(struct recorder *r, const char *key, const char *value);
void opm__define_calibration(struct recorder *r, const struct opm_calibration *c);
void opm__define_release(struct recorder *r);
bool opm__category_on(const struct recorder *r, const char *category);
/* Locked already: append one item; counts a loss when it cannot be kept. */
void opm__define_item(struct recorder *r, uint32_t kind, const uint8_t *p, size_t len);

/* counters.c */
struct perf_event_attr;
/* Find out what can be counted, and note it. Before anything is recorded. */
void opm__counters_choose(struct recorder *r, bool wanted);
/* opm__begin() of an operator while operators are counted, and what follows its end. */
opm_span opm__counted_begin(opm_site *site);
void opm__counted_end(opm_span span);
void opm__counters_leave(void); /* the calling thread ends, or is that of a forked child */
/* perf.c: events of the kernel. Their descriptors are in the program's table, since the thread that
 * is counted reads them: at high numbers, and looked at before each use. */
struct perf_event {
    int fd;
    uint64_t dev, ino; /* of the descriptor: excludes all files, sockets and pipes */
    uint64_t id;       /* of the event: excludes what else the kernel has without a name */
};
bool opm__perf_open(struct perf_event *e, struct perf_event_attr *attr, int group); /* errno */
bool opm__perf_is(const struct perf_event *e); /* the descriptor is it still */
bool opm__perf_read(const struct perf_event *e, void *out, size_t size);
void opm__perf_close(struct perf_event *e); /* if it is still ours */

/* writer.c */
/* Start the writer and have it open the files: open() runs in it, and its result is returned. */
int opm__writer_start(struct recorder *r,
                      int (*open)(struct recorder *r, const void *arg, opm_error *err),
                      const void *arg, opm_error *err);
void opm__writer_stop(struct recorder *r);    /* writes what is left, closes the files, joins */
void opm__writer_release(struct recorder *r); /* its memory; it does not run */
void opm__writer_wake(struct recorder *r);
/* What follows the header of the file, as things are now. */
#define OPM_STATUS_SIZE (sizeof(struct opm_file_status) + sizeof(struct opm_file_losses))
void opm__status_make(struct recorder *r, enum opm_file_state state, uint8_t to[OPM_STATUS_SIZE]);
/* A chunk straight into the file; false if it could not be kept. Under lock; waits for the writer.
 */
bool opm__write_chunk(struct recorder *r, struct opm_chunk chunk, const void *payload);

/* pack.c: blocks of units into chunk payloads, docs/format.md "Events" */
struct packer;
#define PACK_MAX_BYTES (OPM_BLOCK_UNITS * 48 + 1024) /* worst case of one block */
struct packer *opm__packer_new(void);
void opm__packer_free(struct packer *p);
/* Writes at most PACK_MAX_BYTES to out and returns how many; counts spans into *out_spans. */
size_t opm__pack(struct packer *p, const struct opm_unit *units, size_t n, uint8_t *out,
                 uint64_t *out_spans);

/* env.c */
/* Of files to make: private where they hold facts that others have no business with, and in a
 * privileged program, whose umask is the choice of its user. */
mode_t opm__file_mode(const struct recorder *r);
void opm__describe_machine(struct recorder *r);
/* Does any variable ask for a recording? */
bool opm__env_wants(void);
/* What the ancestors' variables want; empties *o first. 0, or a negative code and *o empty. */
int opm__outputs_plan(struct outputs *o, bool child, opm_error *err);
void opm__outputs_release(struct outputs *o);
/* Make of a closed recording what is wanted; removes it if it was only for that. */
int opm__convert(const struct recorder *r, opm_error *err);
/* Whether something may be made there when the recording ends; better said now than then. */
int opm__may_make(const char *path, opm_error *err);

/* A program that defines this starts recordings itself, whatever the environment says: the opmeter
 * command, which would otherwise record its own work. */
extern const char opm__manual __attribute__((weak));

/* futex.c */
void opm__futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
void opm__futex_wake(_Atomic uint32_t *word, int n);

#endif
