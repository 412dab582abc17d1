/* catalog_int.h -- what the files of the catalog share: catalog.c finds and opens traces,
 * catalog_answer.c says what there is. */
#ifndef SERVER_CATALOG_INT_H
#define SERVER_CATALOG_INT_H

#include "server/catalog.h"

#include <pthread.h>

struct catalog_entry {
    char id[CATALOG_ID_ROOM];
    struct trace_file file;
    const char *format;    /* NULL: nothing known */
    struct opened *opened; /* or NULL */
    int64_t used_ns;
    pthread_mutex_t opening;
    struct reading reading; /* by whoever has `opening` */
    bool known;             /* facts are those of the file with this stamp */
    uint64_t known_stamp;
    struct facts facts;
};

struct root {
    char *path;
    char *resolved;
};

struct catalog {
    pthread_mutex_t mutex; /* over all but the opening of a trace */
    struct root *root;
    size_t nroot;
    struct catalog_entry **entry; /* never removed */
    size_t n, cap;
    atomic_bool folder;
    struct read_limits limits;
    atomic_bool end;
    pthread_mutex_t scanning; /* of the folders; taken before mutex */
    int64_t scanned_ns, scan_took_ns;
    bool cut; /* a folder has more than is looked at */
};

/* With the mutex held. */
struct catalog_entry *entry_of_id(const struct catalog *c, const char *id);
/* Without it. NULL after OPM_ENOTFOUND. */
struct catalog_entry *entry_find(struct catalog *c, const char *id, opm_error *err);
int entry_open(struct catalog *c, struct catalog_entry *e, enum catalog_want want,
               struct opened **out, opm_error *err);
/* Find what is new in the folders, unless that was done just now. */
int catalog_scan(struct catalog *c, opm_error *err);

#endif
