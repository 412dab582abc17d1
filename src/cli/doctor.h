/* doctor.h -- the parts of `opmeter doctor`: each looks at one area of the machine and says what it
 * finds. Looking never changes anything and never fails; what cannot be found out is a finding too.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "base/buf.h"
#include "base/common.h"

enum doctor_status {
    DOCTOR_OK,
    DOCTOR_LIMITED, /* works, but less, slower or less exactly than it could */
    DOCTOR_MISSING,
};

struct finding {
    enum doctor_status status;
    const char *area;   /* static */
    const char *what;   /* static */
    const char *advice; /* static; NULL: nothing to do */
    char *detail;
};

struct doctor {
    const char *area; /* of the findings to come */
    struct finding *finding;
    size_t n;
    size_t cap;
    bool failed; /* out of memory */
};

__attribute__((format(printf, 5, 6))) void doctor_say(struct doctor *d, enum doctor_status status,
                                                      const char *what, const char *advice,
                                                      const char *fmt, ...);
void doctor_release(struct doctor *d);

/* First line of a small file such as those below /proc and /sys. False if it cannot be read. */
bool doctor_read_line(const char *path, char *out, size_t size);
/* The words after "key : " in /proc/cpuinfo or "key:" in /proc/meminfo, first match. */
bool doctor_read_key(const char *path, const char *key, char *out, size_t size);
/* Is word one of the words in list? */
bool doctor_has_word(const char *list, const char *word);

void doctor_clock(struct doctor *d);
void doctor_cpu(struct doctor *d);
void doctor_memory(struct doctor *d);
void doctor_counters(struct doctor *d);
void doctor_recording(struct doctor *d);
void doctor_gpu(struct doctor *d);
void doctor_engines(struct doctor *d);
void doctor_files(struct doctor *d);
void doctor_environment(struct doctor *d);
void doctor_versions(struct doctor *d);

#endif
