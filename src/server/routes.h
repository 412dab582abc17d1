/* routes.h -- which address gives which answer. Knows nothing of sockets. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include "server/catalog.h"
#include "server/dropped.h"
#include "server/fleet.h"
#include "server/histories.h"
#include "server/scout.h"
#include "server/target.h"
#include "server/watch.h"

struct routes {
    struct catalog *catalog;
    struct histories *histories;
    struct fleets *fleets;
    struct watch *watch;
    struct scout *scout;
    struct dropped *dropped; /* NULL: no files are taken */
};

/* What goes back is one of: data (static), fd (whoever sends it closes it), body. */
struct reply {
    int status;
    const char *type;
    const char *data;
    int fd;
    struct buf body;
    uint64_t len;        /* of data or fd */
    char file_name[100]; /* to be saved under; empty: to be shown */
};
#define REPLY_INIT              \
    {                           \
        .status = 200, .fd = -1 \
    }

void reply_error(struct reply *a, int status, const char *sentence);
/* "/api/dropped/NAME", to which files are brought. */
bool routes_is_drop(const struct target *t);
/* Fill a, which is REPLY_INIT; release its body: for a file that has come in, with a drop that is
 * given up here; for one that did not, because of rc and err. */
void routes_answer_drop(const struct routes *r, struct drop *f, struct reply *a);
void routes_fail_drop(int rc, const opm_error *err, struct reply *a);
/* Fill a, which is REPLY_INIT; release its body. client_fd is whose going away ends a query, or
 * -1. Any thread. */
void routes_answer(const struct routes *r, const struct target *t, int client_fd, struct reply *a);

#endif
