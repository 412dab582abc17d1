/* rig.h -- what the tests of the recorder share: record, here or in a child, and read back by SQL.
 *
 * A child is this very program, started anew with the name of a function and its arguments, so that
 * it can be killed, run out of disk, or find itself recording by its environment. */
#ifndef RIG_H
#define RIG_H

#include "../unit/unit.h"
#include "base/common.h"

#include <opmeter/opmeter.h>
#include <opmeter/opmeter_trace.h>
#include <sys/types.h>

/* What the sanitizers leave undefined, or make slow. */
#if defined(__SANITIZE_THREAD__)
#define RIG_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define RIG_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RIG_TSAN 1
#elif __has_feature(address_sanitizer)
#define RIG_ASAN 1
#endif
#endif
#ifndef RIG_TSAN
#define RIG_TSAN 0
#endif
#ifndef RIG_ASAN
#define RIG_ASAN 0
#endif

/* The soak variants of the tests say so in the environment: more rounds. */
int rig_rounds(int normal, int soak);

/* alarm(), for a machine that needs OPMETER_TEST_PATIENCE times as long as others. */
void rig_alarm(unsigned seconds);

/* A file name in the folder of this test (or, in a child, of the test that started it); until the
 * next call but seven. */
const char *rig_path(const char *name);
bool rig_exists(const char *path);
size_t rig_read(const char *path, uint8_t **out); /* whole file; free(*out) */
void rig_copy(const char *from, const char *to);

/* opm_start() on a file of rig_path() with default options; both fail the test if they fail. */
void rig_start(const char *path);
void rig_stop(void);
/* Wait until the recorder's clock has ticked, which takes 1 us where the slowest counters are. */
void rig_tick(void);

/* Open a trace, failing the test with the reader's message if it cannot be read. */
opm_trace *rig_open(const char *path);
/* The only cell of the only row. */
__attribute__((format(printf, 2, 3))) int64_t rig_int(opm_trace *t, const char *sql, ...);
/* Rows as text: cells joined by |, rows by newlines, NULL for null. Until the next call. */
__attribute__((format(printf, 2, 3))) const char *rig_rows(opm_trace *t, const char *sql, ...);
/* rig_rows() is `expected`, which says what is wrong better than a comparison of numbers. */
void rig_expect(opm_trace *t, const char *sql, const char *expected);
int64_t rig_stat(opm_trace *t, const char *name); /* a row of import_stat; 0 if it is not there */
/* Everything of severity "loss" that the reader counted, as "name count" lines; "" is good. */
const char *rig_losses(opm_trace *t);

/* ---- children ---- */

struct rig_child {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the first argument after the name */
};

struct rig_result {
    pid_t pid;
    int status; /* as from waitpid() */
    char out[4096];
    char err[4096];
};

/* Start a child; env is NULL or a list of NAME=VALUE that ends with NULL; words are its name and
 * arguments, and end with NULL. rig_wait() collects it and what it printed. */
pid_t rig_spawn(const char *const *env, const char *const *words);
void rig_wait(pid_t pid, struct rig_result *r);
/* Both at once; the child must exit with 0 unless it is told apart by r (may be NULL). */
void rig_run(struct rig_result *r, const char *const *env, const char *const *words);
#define RIG_WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* The child named by the command line, or -1 if this is not a child. */
int rig_main_child(const struct rig_child *children, int argc, char **argv);
/* Run a group of tests and clean up. */
#define rig_group(tests) cmocka_run_group_tests((tests), NULL, rig_cleanup)
int rig_cleanup(void **state);

/* Small random numbers, the same in every run. */
static inline uint32_t rig_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* Fail inside a child: say what, and exit in a way that no test takes for success. */
#define RIG_CHECK(condition)                                                               \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            dprintf(STDERR_FILENO, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            _exit(99);                                                                     \
        }                                                                                  \
    } while (0)

#endif
